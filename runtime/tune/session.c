#include "runtime/tune/session.h"

#include "runtime/cli/commands.h"
#include "runtime/cli/report.h"
#include "runtime/tune/facts.h"
#include "runtime/tune/serve.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* Inputs of large shapes are made on the CPU, and a GPU that many share starts slowly. */
static const double start_seconds = 120, prepare_seconds = 1800;
static const double validate_factor = 10; /* it makes its own inputs */

const char *tune_text(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

char *tune_date(char out[32]) {
    time_t now = time(NULL);
    struct tm utc;
    strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    return out;
}

/* ---- the worker's life ---- */

static void drop_worker(tune_session *s) {
    tune_worker_stop(s->worker);
    s->worker = NULL;
    s->prepared = NULL;
}

static qg_status start_worker(tune_session *s, qg_error *err) {
    tune_worker_options o = {s->options->worker, s->options->device, start_seconds};
    json_t *hello = NULL;
    qg_status status = tune_worker_start(&o, &s->worker, &hello, err);
    if (status) return status;
    /* Times of two GPUs must not meet in one table. */
    if (s->hello && !json_equal(hello, s->hello))
        status = qg_failf(err, QG_ENVIRONMENT, "tuning worker", "tune again with --resume",
                          "it now runs on %.100s, not on %.100s", tune_text(hello, "title"),
                          tune_text(s->hello, "title"));
    else if (!s->hello)
        s->hello = json_incref(hello);
    json_decref(hello);
    return status;
}

/* A running worker with the target's inputs. Trouble here is no candidate's fault. */
static qg_status ready_for(tune_session *s, const tune_target *t, qg_error *err) {
    json_t *reply = NULL;
    char why[200] = "";
    qg_status status = s->worker ? QG_OK : start_worker(s, err);
    if (status || s->prepared == t) return status;
    json_t *request = json_pack("{s:s, s:o}", "job", "prepare", "shape", tune_shape_json(&t->shape));
    tune_outcome outcome = tune_worker_ask(s->worker, request, prepare_seconds, &reply, why, sizeof why);
    json_decref(request);
    if (outcome == TUNE_REPLIED && !strcmp(tune_text(reply, "verdict"), "ready"))
        s->prepared = t;
    else
        status = qg_failf(err, QG_ENVIRONMENT, "tuning worker", "a smaller batch, or another GPU",
                          "it cannot make the inputs of a shape: %.400s",
                          outcome == TUNE_REPLIED ? tune_text(reply, "why") : why);
    json_decref(reply);
    return status;
}

/* ---- a question ---- */

static qg_status journal_begin(tune_session *s, const tune_target *t, const tune_candidate *c,
                               const char *job, qg_error *err) {
    char date[32];
    return tune_journal_add(s->journal,
                            json_pack("{s:s, s:s, s:s, s:o, s:s, s:O, s:s, s:s}", "event", "begin", "key",
                                      c->key, "job", job, "shape", tune_shape_json(&t->shape), "family",
                                      c->family, "params", c->params, "plan", c->plan, "date",
                                      tune_date(date)),
                            err);
}

static qg_status journal_verdict(tune_session *s, const tune_candidate *c, const char *job,
                                 const json_t *reply, qg_error *err) {
    char date[32];
    const char *verdict = tune_text(reply, "verdict");
    bool first = !strcmp(job, "measure"), good = !strcmp(verdict, "timed") || !strcmp(verdict, "passed");
    json_t *event = json_pack("{s:s, s:s, s:s}", "event", first || !good ? "verdict" : "again", "key", c->key,
                              "job", job);
    json_object_update(event, (json_t *)(uintptr_t)reply);
    json_object_set_new(event, "date", json_string(tune_date(date)));
    return tune_journal_add(s->journal, event, err);
}

static bool is_verdict(const json_t *reply) {
    static const char *const known[] = {"timed", "passed", "wrong", "failed", "crashed"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(tune_text(reply, "verdict"), known[i])) return true;
    return false;
}

static json_t *ask(tune_session *s, const tune_candidate *c, const char *job) {
    char why[200] = "";
    json_t *reply = NULL;
    double timeout = s->options->timeout * (!strcmp(job, "validate") ? validate_factor : 1);
    json_t *request = json_pack("{s:s, s:s, s:O, s:f}", "job", job, "family", c->family, "params", c->params,
                                "seconds", s->options->seconds);
    tune_outcome outcome =
        tune_worker_ask(s->worker, request, timeout + s->options->seconds, &reply, why, sizeof why);
    json_decref(request);
    if (outcome == TUNE_REPLIED && !is_verdict(reply)) {
        json_decref(reply);
        reply = json_pack("{s:s, s:s}", "verdict", "crashed", "why", "the worker's answer is no verdict");
    }
    if (outcome != TUNE_REPLIED)
        reply = json_pack("{s:s, s:s}", "verdict", outcome == TUNE_HUNG ? "timeout" : "crashed", "why", why);
    const char *verdict = tune_text(reply, "verdict");
    if (strcmp(verdict, "timed") && strcmp(verdict, "passed") && strcmp(verdict, "wrong")) drop_worker(s);
    return reply;
}

/* Templates read from a folder may be edited under a sweep's feet: what a later worker plans is then another
 * thing than what was compiled and written down here. */
static qg_status check_plan(const tune_candidate *c, const json_t *reply, qg_error *err) {
    const char *plan = tune_text(reply, "plan");
    if (!*plan || !strcmp(plan, c->plan)) return QG_OK;
    return qg_failf(err, QG_ENVIRONMENT, "tune", "tune again with --resume",
                    "the templates changed while it ran: %.200s became %.200s", c->plan, plan);
}

qg_status tune_ask(tune_session *s, const tune_target *t, const tune_candidate *c, const char *job,
                   json_t **reply, qg_error *err) {
    *reply = NULL;
    qg_status status = ready_for(s, t, err);
    if (!status) status = journal_begin(s, t, c, job, err);
    if (status) return status;
    *reply = ask(s, c, job);
    status = *reply ? check_plan(c, *reply, err) : qg_fail(err, QG_NO_MEMORY, "tune", "out of memory", "");
    if (!status) status = journal_verdict(s, c, job, *reply, err);
    if (status) {
        json_decref(*reply);
        *reply = NULL;
    }
    return status;
}

/* ---- before and after ---- */

static void warn(void *user, const char *text) {
    (void)user;
    cli_note("%s", text);
}

static qg_status open_bench(tune_session *s, qg_error *err) {
    qg_library *lib = NULL;
    qrt_compiler_options compiler = {.cache = {.warn = warn}, .threads = s->options->threads};
    qg_status status = qg_library_open(&(qg_library_options){.untuned = true}, &lib, err);
    s->bench.lib = lib;
    if (!status) status = qrt_compiler_open(&compiler, &s->bench.compiler, err);
    if (!status && !tune_record_read(json_object_get(s->hello, "record"), &s->bench.device))
        status = qg_fail(err, QG_INTERNAL, "tuning worker", "its hello lacks the device's facts", "");
    s->bench.driver = (int)json_integer_value(json_object_get(s->hello, "driver"));
    s->bench.threads = s->options->threads;
    snprintf(s->bench.title, sizeof s->bench.title, "%.90s", s->bench.device.name);
    return status;
}

static qg_status journal_session(tune_session *s, qg_error *err) {
    char date[32];
    return tune_journal_add(s->journal,
                            json_pack("{s:s, s:s, s:s, s:s, s:i, s:s, s:s, s:f}", "event", "session",
                                      "format", TUNE_JOURNAL_FORMAT, "date", tune_date(date), "device",
                                      s->bench.device.name, "driver", s->bench.driver, "version",
                                      QRSMITH_BUILD_VERSION, "grid", s->grid->path, "seconds",
                                      s->options->seconds),
                            err);
}

qg_status tune_session_open(tune_session *s, const tune_grid *grid, const tune_options *options,
                            qg_error *err) {
    *s = (tune_session){.grid = grid, .options = options};
    qg_status status = tune_journal_open(options->journal, options->resume, &s->journal, err);
    if (!status) status = start_worker(s, err);
    if (!status && tune_journal_torn(s->journal))
        cli_note("%s: %d lines cannot be read; left out", options->journal, tune_journal_torn(s->journal));
    if (!status) status = open_bench(s, err);
    if (!status) status = journal_session(s, err);
    return status;
}

void tune_session_close(tune_session *s) {
    drop_worker(s);
    tune_journal_close(s->journal);
    if (s->bench.compiler) qrt_compiler_close(s->bench.compiler);
    if (s->bench.lib) qg_library_close((qg_library *)(uintptr_t)s->bench.lib);
    json_decref(s->hello);
    *s = (tune_session){0};
}
