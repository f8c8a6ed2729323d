/* qrsmith tune: which family and parameters are fastest for a shape here. And the worker that measures. */
#include "runtime/cli/commands.h"
#include "runtime/cli/report.h"
#include "runtime/cli/select.h"
#include "runtime/tune/serve.h"
#include "runtime/tune/sweep.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct values {
    const char *grid, *table, *journal, *device;
    double seconds, timeout;
    int64_t threads;
    bool resume, json;
} values;

typedef struct tally {
    int decided, undecided;
    json_t *shapes; /* NULL without --json */
} tally;

static void defaults(void *p) {
    values *v = p;
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    v->seconds = 0.3;
    v->timeout = 60;
    v->threads = cpus > 0 && cpus <= 64 ? cpus : cpus > 64 ? 64 : 1;
}

/* ---- lines ---- */

static int64_t whole(const json_t *o, const char *key) {
    return json_integer_value(json_object_get(o, key));
}

static void print_params(const json_t *params) {
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)params, name, value) {
        char *text = json_is_string(value) ? NULL : json_dumps(value, JSON_ENCODE_ANY);
        printf(" %s=%s", name, text ? text : json_string_value(value));
        free(text);
    }
}

static void print_winner(const json_t *winner) {
    const json_t *p = json_object_get(winner, "provenance");
    double median = json_number_value(json_object_get(p, "median_us")),
           before = json_number_value(json_object_get(p, "default_us"));
    printf("%10.2f us", median);
    if (before > 0)
        printf("  %.2f x default", before / median);
    else
        printf("  default has no time");
    printf("  %s", json_string_value(json_object_get(winner, "family")));
    print_params(json_object_get(winner, "params"));
}

/* "8 candidates: 6 timed, 2 wrong; 3 illegal; 4 known from before" */
static void print_counts(const json_t *o) {
    static const char *const verdicts[] = {"timed", "wrong", "failed", "crashed", "timeout"};
    const char *before = ": ";
    printf("  [%lld candidate%s", (long long)whole(o, "candidates"), whole(o, "candidates") == 1 ? "" : "s");
    for (size_t i = 0; i < sizeof verdicts / sizeof *verdicts; i++) {
        if (!whole(o, verdicts[i])) continue;
        printf("%s%lld %s", before, (long long)whole(o, verdicts[i]), verdicts[i]);
        before = ", ";
    }
    if (whole(o, "illegal")) printf("; %lld illegal", (long long)whole(o, "illegal"));
    if (whole(o, "twins")) printf("; %lld the same kernels as another", (long long)whole(o, "twins"));
    if (whole(o, "reused")) printf("; %lld known from before", (long long)whole(o, "reused"));
    printf("]\n");
}

static void print_result(const json_t *o) {
    qg_shape s;
    char size[96], layouts[24] = "";
    if (!tune_shape_read(json_object_get(o, "shape"), &s)) return;
    if (s.layout_in != QG_ROW || s.layout_out != QG_ROW)
        snprintf(layouts, sizeof layouts, " %s>%s", qg_layout_name(s.layout_in),
                 qg_layout_name(s.layout_out));
    snprintf(size, sizeof size, "%s %lld x %lld x %lld%s", qg_precision_name(s.precision),
             (long long)s.max_batch, (long long)s.m, (long long)s.n, layouts);
    printf("%-32s ", size);
    const json_t *winner = json_object_get(o, "winner"), *why = json_object_get(o, "why");
    if (json_is_object(winner))
        print_winner(winner);
    else
        printf("no winner: %.300s", why ? json_string_value(why) : "no combination is legal here");
    print_counts(o);
    fflush(stdout);
}

static void started(void *user, const char *device) {
    tally *t = user;
    if (!t->shapes) printf("%s\n", device);
    fflush(stdout);
}

static void done(void *user, const json_t *result) {
    tally *t = user;
    bool decided = json_is_object(json_object_get(result, "winner"));
    t->decided += decided;
    t->undecided += !decided;
    if (t->shapes)
        json_array_append(t->shapes, (json_t *)(uintptr_t)result);
    else
        print_result(result);
}

/* ---- */

static qg_status check_device(const values *v, qg_error *err) {
    if (!v->device || strcmp(v->device, "cpu")) return QG_OK;
    return qg_fail(err, QG_BAD_INPUT, "--device", "the host executor's times tell nothing of a GPU",
                   "the number of a GPU: 0, 1, ...");
}

static qg_status tune(const values *v, const char *journal, tally *t, qg_error *err) {
    const char *worker = getenv("QRSMITH_TUNE_WORKER"); /* tests put a script here */
    qg_library *lib = NULL;
    tune_grid *grid = NULL;
    tune_options options = {.table = v->table,
                            .journal = journal,
                            .device = v->device,
                            .worker = worker && *worker ? worker : NULL,
                            .seconds = v->seconds,
                            .timeout = v->timeout,
                            .threads = (int)v->threads,
                            .resume = v->resume,
                            .started = started,
                            .done = done,
                            .user = t};
    qg_status status = v->table ? check_device(v, err)
                                : qg_fail(err, QG_BAD_INPUT, "-o", "no table is named",
                                          "-o configs/tuned/sm_90.json: the winners are put there");
    if (!status) status = qg_library_open(&(qg_library_options){.untuned = true}, &lib, err);
    if (!status) status = tune_grid_read(lib, v->grid, &grid, err);
    if (!status) status = tune_run(grid, &options, err);
    tune_grid_free(grid);
    if (lib) qg_library_close(lib);
    return status;
}

static bool print_all(const values *v, const char *journal, tally *t) {
    if (t->shapes)
        return cli_print_json(json_pack("{s:O, s:i, s:i, s:s, s:s}", "shapes", t->shapes, "decided",
                                        t->decided, "undecided", t->undecided, "table", v->table, "journal",
                                        journal));
    printf("%d of %d shapes decided, in %s (journal %s)\n", t->decided, t->decided + t->undecided, v->table,
           journal);
    return true;
}

static int run(const void *p) {
    const values *v = p;
    qg_error err = {0};
    tally t = {.shapes = v->json ? json_array() : NULL};
    char beside[4096];
    snprintf(beside, sizeof beside, "%.4000s.journal", v->table ? v->table : "");
    const char *journal = v->journal ? v->journal : beside;
    qg_status status = tune(v, journal, &t, &err);
    bool printed = status || print_all(v, journal, &t);
    json_decref(t.shapes);
    if (status) return cli_report(&err);
    return !printed ? CLI_ENVIRONMENT : t.undecided ? CLI_FAILED : CLI_DONE;
}

static const cli_argument arguments[] = {
    {"GRID", offsetof(values, grid), true, "shapes, families and values, as configs/grids/small.json"}, {0}};
static const cli_option options[] = {
    {"output", 'o', CLI_TEXT, offsetof(values, table), "FILE",
     "the tuned table that winners are merged into; made if it is not there. Required", 0, 0},
    {"resume", 0, CLI_FLAG, offsetof(values, resume), NULL,
     "measure only what the journal has no final verdict on", 0, 0},
    {"device", 0, CLI_TEXT, offsetof(values, device), "N", "the number of a GPU. Default: 0", 0, 0},
    {"journal", 0, CLI_TEXT, offsetof(values, journal), "FILE",
     "every candidate and verdict, a JSON line each. Default: the table's name with .journal after it", 0, 0},
    {"max-seconds", 0, CLI_REAL, offsetof(values, seconds), "S", "longest measurement. Default: 0.3", 0.001,
     3600},
    {"timeout", 0, CLI_REAL, offsetof(values, timeout), "S",
     "a candidate that takes longer hangs: it is ended and tried once more, later. Default: 60", 0.1, 86400},
    {"jobs", 'j', CLI_INT, offsetof(values, threads), "N", "compiles at once. Default: one a CPU", 1, 64},
    {"json", 0, CLI_FLAG, offsetof(values, json), NULL, "one JSON object instead of lines", 0, 0},
    {0}};

const cli_command cli_tune = {
    "tune",
    "find the fastest family and parameters for each shape on this GPU",
    "Every combination of a grid's values is planned; what a family refuses is dropped and counted, the rest "
    "is compiled\n"
    "on all CPUs and measured one by one in a process of its own, which may crash or hang without ending the "
    "sweep. A\n"
    "candidate must pass on every kind of input before it is timed, as bench times. The default plan always "
    "takes part.\n"
    "Near ties (1 %, or the spread) are timed again in turn and go to the default, then to the first in the "
    "order of the\n"
    "families' parameters, so that the same winner comes every time; it must pass on other seeds and batches "
    "too. After\n"
    "each shape the winner is merged into FILE, beside what is there for other shapes and GPUs. To use it: "
    "QRSMITH_TUNED=FILE,\n"
    "or copy it to ~/.config/qrsmith/tuned.json; files in configs/tuned/ are built in.\n\n"
    "A sweep may be stopped at any time and goes on with --resume. \"crashed\" and \"timeout\" are tried "
    "once "
    "more; a\n"
    "timeout is no verdict and --resume tries it again. Exit 1 when a shape has no winner. configs/README.md "
    "explains grids.",
    "  qrsmith tune configs/grids/small.json -o tuned.json\n"
    "  qrsmith tune configs/grids/contest.json -o configs/tuned/sm_90.json --resume\n"
    "  QRSMITH_TUNED=tuned.json qrsmith bench --shape 640x512x512:fp16",
    arguments,
    options,
    sizeof(values),
    defaults,
    run};

/* ---- the worker ---- */

typedef struct worker_values {
    const char *device;
} worker_values;

static int run_worker(const void *p) {
    return tune_serve(((const worker_values *)p)->device);
}

static const cli_argument no_arguments[] = {{0}};
static const cli_option worker_options[] = {CLI_DEVICE_OPTION(worker_values, device), {0}};

const cli_command cli_tune_worker = {"tune-worker",
                                     NULL, /* not in the list of commands: tune starts it */
                                     "What tune measures with: requests on standard input, replies on "
                                     "standard output, JSON lines.",
                                     "",
                                     no_arguments,
                                     worker_options,
                                     sizeof(worker_values),
                                     NULL,
                                     run_worker};
