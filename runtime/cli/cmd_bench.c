/* qrsmith bench: time a suite's benchmarks. */
#include "runtime/cli/baseline.h"
#include "runtime/cli/case.h"
#include "runtime/cli/commands.h"
#include "runtime/cli/earlier.h"
#include "runtime/cli/first_use.h"
#include "runtime/cli/floors.h"
#include "runtime/cli/output.h"
#include "runtime/cli/report.h"
#include "runtime/cli/room.h"
#include "runtime/cli/standing.h"
#include "runtime/cli/timing.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { RIVALS_MAX = 2 };

typedef struct values {
    cli_source source;
    cli_force force;
    const char *device, *precision, *json, *versus, *baseline;
    double max_seconds;
    bool lineinfo, first_use;
} values;

typedef struct bench {
    const values *v;
    cli_room room;
    cli_timer timer;
    cli_device *fresh; /* for --first-use: the same GPU without a cache; else NULL */
    cli_baseline *rivals[RIVALS_MAX];
    int rival_count;
    char rival_names[RIVALS_MAX][64];
    json_t *earlier, *results; /* earlier may be NULL */
    cli_outputs outputs;
    FILE *json_file; /* NULL without --json FILE */
    bool quiet;      /* JSON goes to standard output, so lines don't */
    int refused;     /* cases that no plan serves as asked; the last one's reason */
    qg_error refusal;
    int failed, done[2]; /* cases with a time, by precision */
    double log_sum[2];
} bench;

static void defaults(void *p) {
    ((values *)p)->max_seconds = 10;
}

/* ---- one case ---- */

static qg_status pass(void *context, qg_error *err) {
    return cli_case_pass(context, err);
}
static qg_status poison(void *context, qg_error *err) {
    return cli_case_poison(context, err);
}

static void add_times(json_t *o, const cli_timing *t) {
    json_object_set_new(o, "mean_us", cli_json_real(t->mean));
    json_object_set_new(o, "median_us", cli_json_real(t->median));
    json_object_set_new(o, "least_us", cli_json_real(t->least));
    json_object_set_new(o, "standard_error", cli_json_real(t->error));
    json_object_set_new(o, "repetitions", json_integer(t->repetitions));
}

static void add_floors(const bench *b, const cli_case *c, const cli_timing *t, json_t *o) {
    cli_floors floors;
    const qg_case *test = &c->test;
    json_object_set_new(o, "gflops",
                        cli_json_real(1e-3 * cli_flops(test->m, test->n) * (double)test->batch / t->mean));
    if (!cli_device_is_gpu(b->room.device) ||
        !cli_floors_of(cli_device_record(b->room.device), test->batch, test->m, test->n,
                       c->problem.plan->products, &floors))
        return;
    json_t *all = json_object();
    for (int i = 0; i < CLI_LIMITS; i++)
        if (floors.us[i] > 0)
            json_object_set_new(all, cli_limit_name((cli_limit)i), cli_json_real(floors.us[i]));
    json_object_set_new(o, "floors_us", all);
    json_object_set_new(o, "floor", json_string(cli_limit_name(floors.nearest)));
    json_object_set_new(o, "share", cli_json_real(floors.us[floors.nearest] / t->mean));
}

/* Times our kernels, then judges what the last timed pass left. A case outside the contract gets no time. */
static qg_status time_ours(bench *b, cli_case *c, json_t *o, qg_error *err) {
    cli_timing timing = {0};
    qj_verdict verdict = {0};
    cli_info_count info;
    qj_limits limits = qj_limits_for(c->test.m, c->test.n, c->shape.precision);
    int arrays = cli_device_is_gpu(b->room.device) ? cli_array_count(c->problem.a_bytes) : 1;
    qg_status status = cli_case_prepare(c, arrays, err);
    if (status == QG_OK) status = cli_time(&b->timer, &(cli_timed){poison, pass, c, arrays}, &timing, err);
    if (status == QG_OK) status = cli_case_judge(c, &limits, &verdict, &info, err);
    if (status != QG_OK) return status;
    char text[256];
    json_object_set_new(o, "pass", json_boolean(verdict.pass));
    json_object_set_new(o, "verdict", json_string(qj_verdict_text(&verdict, text, sizeof text)));
    json_object_set_new(o, "limit_share", cli_json_real(verdict.share));
    json_object_set_new(o, "arrays", json_integer(arrays));
    json_object_set_new(o, "split", json_integer(info.bit[CLI_SPLIT]));
    json_object_set_new(o, "fell_back", json_integer(info.bit[CLI_FELL_BACK]));
    if (!verdict.pass) return QG_OK;
    add_times(o, &timing);
    add_floors(b, c, &timing, o);
    return QG_OK;
}

static qg_status time_first_use(bench *b, const qg_case *test, qg_precision precision, json_t *o,
                                qg_error *err) {
    cli_first_use first;
    if (!b->fresh) return QG_OK;
    qg_status status =
        cli_first_use_of(b->fresh, b->room.device, test, precision, &b->room.request, &first, err);
    if (status != QG_OK) return status;
    json_object_set_new(o, "first_use_cold_ms", cli_json_real(first.cold_ms));
    json_object_set_new(o, "first_use_warm_ms", cli_json_real(first.warm_ms));
    return QG_OK;
}

/* A rival that cannot do a case says so in its place; ours counts all the same. */
static void time_rivals(bench *b, const qg_case *test, json_t *o) {
    json_t *all = json_object();
    for (int i = 0; i < b->rival_count; i++) {
        qg_error err = {0};
        cli_timing timing = {0};
        int64_t timed = 0;
        json_t *one = json_object();
        if (cli_baseline_time(b->rivals[i], &b->timer, test, &timing, &timed, &err) == QG_OK) {
            add_times(one, &timing);
            json_object_set_new(one, "matrices_timed", json_integer(timed));
        } else {
            json_object_set_new(one, "error", json_string(err.why));
        }
        json_object_set_new(all, cli_baseline_name(b->rivals[i]), one);
    }
    json_object_set_new(o, "baseline", all);
}

/* ---- lines ---- */

static double number(const json_t *o, const char *key) {
    return json_number_value(json_object_get(o, key));
}

static void print_first_use(const json_t *o) {
    if (json_object_get(o, "first_use_cold_ms"))
        printf("  first use %.0f ms, from the cache %.1f ms", number(o, "first_use_cold_ms"),
               number(o, "first_use_warm_ms"));
}

static void print_rivals(const json_t *o, double ours) {
    const char *name;
    json_t *one;
    json_object_foreach(json_object_get(o, "baseline"), name, one) {
        double mean = number(one, "mean_us");
        if (mean > 0)
            printf("  %s %.1f us (%.2f x)", name, mean, mean / ours);
        else
            printf("  %s: %.60s", name, json_string_value(json_object_get(one, "error")));
    }
}

static void print_result(const bench *b, const cli_case *c, const json_t *o) {
    char name[96];
    printf("%-42s  ", cli_case_name(c, name, sizeof name));
    double mean = number(o, "mean_us"), ratio = number(o, "earlier_ratio");
    if (mean <= 0) {
        const char *verdict = json_string_value(json_object_get(o, "verdict"));
        printf("%s", verdict ? verdict : "no result");
        print_first_use(o);
        putchar('\n');
        return;
    }
    printf("mean %10.2f us  median %10.2f us  +-%4.2f %%  %d x %d  %8.1f GFLOP/s", mean,
           number(o, "median_us"), 100 * number(o, "standard_error"), (int)number(o, "repetitions"),
           (int)number(o, "arrays"), number(o, "gflops"));
    if (json_object_get(o, "floor"))
        printf("  %4.1f %% of %s floor", 100 * number(o, "share"),
               json_string_value(json_object_get(o, "floor")));
    printf("  products %s  %s (%s)", c->problem.plan->products, c->problem.plan->family,
           qg_grade_name(c->problem.plan->grade));
    if (b->earlier && ratio > 0)
        printf("  %.3f x earlier", ratio);
    else if (b->earlier)
        printf("  not in %s", b->v->versus);
    print_first_use(o);
    print_rivals(o, mean);
    putchar('\n');
    fflush(stdout);
}

static void count_result(bench *b, const cli_case *c, json_t *o) {
    double mean = number(o, "mean_us");
    if (mean <= 0) {
        b->failed++;
        return;
    }
    b->done[c->shape.precision]++;
    b->log_sum[c->shape.precision] += log(mean);
    double earlier = b->earlier ? cli_earlier_mean(b->earlier, o) : 0;
    if (earlier > 0) json_object_set_new(o, "earlier_ratio", json_real(earlier / mean));
}

/* An error of the machine ends the run; any other is this case's result. */
static qg_status bench_one(bench *b, const qg_case *test, qg_precision precision, qg_error *err) {
    cli_case c;
    qg_status status = cli_case_open(b->room.device, test, precision, &b->room.request, &c, err);
    json_t *o = cli_case_json(&c);
    char name[96];
    json_object_set_new(o, "name", json_string(cli_case_name(&c, name, sizeof name)));
    if (status == QG_OK) status = time_first_use(b, test, precision, o, err);
    if (status == QG_OK) status = time_ours(b, &c, o, err);
    if (status == QG_BAD_INPUT || status == QG_UNSUPPORTED) {
        b->refused++;
        b->refusal = *err;
    }
    if (status != QG_OK && status != QG_ENVIRONMENT) {
        json_object_set_new(o, "pass", json_false());
        json_object_set_new(
            o, "verdict", json_sprintf(*err->fix ? "%s: %s (%s)" : "%s: %s", err->what, err->why, err->fix));
        status = QG_OK;
    }
    if (status == QG_OK) {
        time_rivals(b, test, o);
        count_result(b, &c, o);
        cli_progress_clear();
        if (!b->quiet) print_result(b, &c, o);
        json_array_append(b->results, o);
    }
    json_decref(o);
    cli_case_close(&c);
    return status;
}

static int wanted_count(const bench *b) {
    const qg_suite *s = b->room.suite;
    int count = 0;
    for (int i = 0; i < 2 * s->benchmark_count; i++)
        count += cli_wants_precision(b->v->precision, &s->benchmarks[i / 2], (qg_precision)(i % 2));
    return count;
}

static qg_status bench_all(bench *b, qg_error *err) {
    const qg_suite *s = b->room.suite;
    int total = wanted_count(b), done = 0;
    if (!total)
        return qg_fail(err, QG_BAD_INPUT, s->path ? s->path : "suite",
                       "it has no benchmarks of this precision", "a suite with a \"benchmarks\" list");
    for (int p = QG_FP32; p <= QG_FP16; p++)
        for (int i = 0; i < s->benchmark_count; i++) {
            if (!cli_wants_precision(b->v->precision, &s->benchmarks[i], (qg_precision)p)) continue;
            cli_progress(done++, total, "timed");
            qg_status status = bench_one(b, &s->benchmarks[i], (qg_precision)p, err);
            if (status != QG_OK) return status;
        }
    if (b->refused < total) return QG_OK;
    *err = b->refusal; /* what was asked for is wrong, not a kernel */
    return err->status;
}

/* ---- before and after ---- */

static qg_status name_rivals(bench *b, qg_error *err) {
    cli_baseline *none = NULL;
    if (!b->v->baseline) return QG_OK;
    if (b->v->device && !strcmp(b->v->device, "cpu"))
        return qg_fail(err, QG_BAD_INPUT, "--baseline", "cuSOLVER and cuBLAS need a GPU",
                       "a GPU as --device");
    b->rival_count = cli_split_list(b->v->baseline, b->rival_names, RIVALS_MAX);
    if (b->rival_count < 0) {
        b->rival_count = 0;
        return qg_failf(err, QG_BAD_INPUT, "--baseline", "cusolver, cublas", "found '%.60s'", b->v->baseline);
    }
    qg_status status = QG_OK;
    for (int i = 0; i < b->rival_count && status == QG_OK; i++)
        status = cli_baseline_open(b->rival_names[i], NULL, &none, err);
    return status;
}

/* All that the user may have got wrong is looked at before a device is touched. */
static qg_status prepare(bench *b, qg_error *err) {
    const values *v = b->v;
    cli_device_options device = {.choice = v->device, .gpu_only = true, .lineinfo = v->lineinfo};
    b->quiet = v->json && !strcmp(v->json, "-");
    qg_status status = v->versus ? cli_earlier_read(v->versus, &b->earlier, err) : QG_OK;
    if (status == QG_OK) status = name_rivals(b, err);
    if (status == QG_OK && v->json && !b->quiet)
        status = cli_output_add(&b->outputs, v->json, &b->json_file, err);
    if (status == QG_OK) status = cli_room_open(&b->room, &v->source, &v->force, &device, err);
    device.no_cache = device.quiet = true;
    if (status == QG_OK && v->first_use && !cli_device_is_gpu(b->room.device))
        status = qg_fail(err, QG_BAD_INPUT, "--first-use",
                         "it is a GPU's kernels that are compiled and loaded", "a GPU as --device");
    else if (status == QG_OK && v->first_use)
        status = cli_device_open(&device, b->room.lib, &b->fresh, err);
    if (status == QG_OK) status = cli_timer_open(b->room.device, v->max_seconds, &b->timer, err);
    for (int i = 0; i < b->rival_count && status == QG_OK; i++)
        status = cli_baseline_open(b->rival_names[i], b->room.device, &b->rivals[i], err);
    return status;
}

static json_t *means_json(const bench *b) {
    json_t *o = json_object();
    for (int p = 0; p < 2; p++)
        if (b->done[p])
            json_object_set_new(o, qg_precision_name((qg_precision)p),
                                json_real(exp(b->log_sum[p] / b->done[p])));
    return o;
}

static json_t *report_json(const bench *b) {
    char date[32];
    time_t now = time(NULL);
    struct tm utc;
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    const qg_device *d = cli_device_record(b->room.device);
    json_t *standing = cli_standing_of(b->results);
    return json_pack("{s:s, s:s, s:s, s:{s:s, s:s, s:i, s:i}, s:O, s:o, s:o, s:i}", "format",
                     CLI_BENCH_FORMAT, "version", QRSMITH_BUILD_VERSION, "date", date, "device", "title",
                     cli_device_title(b->room.device), "kind",
                     cli_device_is_gpu(b->room.device) ? "gpu" : "host executor", "arch", d->arch, "driver",
                     cli_device_driver(b->room.device), "results", b->results, "geometric_mean_us",
                     means_json(b), "against", standing, "failed", b->failed);
}

static void print_means(const bench *b) {
    for (int p = 0; p < 2; p++)
        if (b->done[p])
            printf("geometric mean %s: %.2f us over %d case%s\n", qg_precision_name((qg_precision)p),
                   exp(b->log_sum[p] / b->done[p]), b->done[p], b->done[p] == 1 ? "" : "s");
    if (b->failed) printf("%d failed, in no mean\n", b->failed);
    json_t *standing = cli_standing_of(b->results);
    cli_standing_print(standing);
    json_decref(standing);
}

static qg_status finish(bench *b, qg_error *err) {
    if (!b->quiet) print_means(b);
    if (!b->v->json) return QG_OK;
    json_t *report = report_json(b);
    if (b->quiet)
        return cli_print_json(report)
                   ? QG_OK
                   : qg_fail(err, QG_ENVIRONMENT, "standard output", "cannot be written", "");
    bool ok = report && !json_dumpf(report, b->json_file, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    json_decref(report);
    if (!ok || fputc('\n', b->json_file) == EOF)
        return qg_fail(err, QG_ENVIRONMENT, b->v->json, "cannot be written", "is the disk full?");
    return cli_outputs_commit(&b->outputs, err);
}

static void close_bench(bench *b) {
    cli_outputs_discard(&b->outputs);
    for (int i = 0; i < b->rival_count; i++)
        cli_baseline_close(b->rivals[i]);
    cli_timer_close(&b->timer);
    cli_device_close(b->fresh);
    cli_room_close(&b->room);
    json_decref(b->earlier);
    json_decref(b->results);
}

static int run(const void *p) {
    qg_error err = {0};
    bench b = {.v = p, .results = json_array()};
    qg_status status = prepare(&b, &err);
    if (status == QG_OK && !b.quiet)
        printf("%s%s\n", cli_device_title(b.room.device),
               cli_device_is_gpu(b.room.device) ? "" : ": these times tell nothing of a GPU");
    if (status == QG_OK) status = bench_all(&b, &err);
    if (status == QG_OK) status = finish(&b, &err);
    int code = b.failed ? CLI_FAILED : CLI_DONE;
    close_bench(&b);
    return status == QG_OK ? code : cli_report(&err);
}

static const cli_argument arguments[] = {
    {"SUITE", offsetof(values, source.file), false, "cases, as configs/suites/contest.json"}, {0}};
static const cli_option options[] = {
    {"device", 0, CLI_TEXT, offsetof(values, device), "cpu|N",
     "what to time: a GPU's number, or cpu, which tells nothing of a GPU. Default: GPU 0", 0, 0},
    {"precision", 0, CLI_CHOICE, offsetof(values, precision), "fp32|fp16|both",
     "plans to time. Default: what each case says, else fp32", 0, 0},
    {"max-seconds", 0, CLI_REAL, offsetof(values, max_seconds), "S",
     "longest measurement of a case. Default: 10", 0.001, 86400},
    {"json", 0, CLI_TEXT, offsetof(values, json), "FILE",
     "write results here; - for standard output, without lines", 0, 0},
    {"vs", 0, CLI_TEXT, offsetof(values, versus), "FILE",
     "compare with an earlier --json FILE: above 1 is faster than then", 0, 0},
    {"baseline", 0, CLI_TEXT, offsetof(values, baseline), "A,B",
     "cusolver, cublas: time these on the same inputs in the same run; the end sums up, and names what they "
     "do "
     "faster",
     0, 0},
    {"first-use", 0, CLI_FLAG, offsetof(values, first_use), NULL,
     "also time each shape's first use, which renders, compiles and loads: with an empty cache and a filled "
     "one",
     0, 0},
    CLI_LINEINFO_OPTION(values, lineinfo),
    CLI_FORCE_OPTIONS(values, force),
    CLI_SOURCE_OPTION(values, source),
    {0}};

const cli_command cli_bench = {
    "bench",
    "time a suite's benchmarks, in microseconds a call",
    "As many different input arrays as fit 256 MiB (1 to 50) are factored in one pass between two CUDA "
    "events, with L2\n"
    "overwritten before; passes repeat until the standard error is under 0.1 % or --max-seconds are over. "
    "Compiling and\n"
    "loading are outside, every launch is inside. The outputs of the last pass are judged as check does: a "
    "case that\n"
    "fails shows no time, and the exit code is 1. \"x % of F floor\" compares with the least time the device "
    "could take,\n"
    "by whichever of bandwidth, tensor cores, fp32 units or the chain of columns is nearest. A looped "
    "baseline that\n"
    "would take longer than --max-seconds is timed on part of the batch and scaled up (matrices_timed in the "
    "JSON).",
    "  qrsmith bench configs/suites/contest.json --precision both --json now.json --vs before.json\n"
    "  qrsmith bench --shape 640x512x512:fp16 --shape 20x32x32 --baseline cusolver,cublas --max-seconds 2\n"
    "  qrsmith bench configs/suites/sizes.json --baseline cusolver,cublas --max-seconds 0.2\n"
    "  qrsmith bench --shape 40x176x176 --first-use",
    arguments,
    options,
    sizeof(values),
    defaults,
    run};
