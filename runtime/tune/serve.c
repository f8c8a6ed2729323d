#include "runtime/tune/serve.h"

#include "runtime/cli/report.h"
#include "runtime/tune/facts.h"
#include "runtime/tune/measure.h"
#include "runtime/tune/worker.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

typedef struct server {
    FILE *to;
    qg_library *lib;
    cli_device *device;
    tune_measure *measure;
} server;

static bool reply(server *s, json_t *value) {
    bool ok = value && !json_dumpf(value, s->to, JSON_COMPACT | JSON_REAL_PRECISION(9)) &&
              fputc('\n', s->to) != EOF && !fflush(s->to);
    json_decref(value);
    return ok;
}

/* ---- shapes ---- */

json_t *tune_shape_json(const qg_shape *s) {
    return json_pack("{s:I, s:I, s:s, s:s, s:s, s:I}", "m", (json_int_t)s->m, "n", (json_int_t)s->n,
                     "precision", qg_precision_name(s->precision), "layout_in", qg_layout_name(s->layout_in),
                     "layout_out", qg_layout_name(s->layout_out), "batch", (json_int_t)s->max_batch);
}

bool tune_shape_read(const json_t *o, qg_shape *out) {
    json_int_t m, n, batch;
    const char *precision, *in, *to;
    *out = (qg_shape){.operation = QG_GEQRF};
    if (json_unpack((json_t *)(uintptr_t)o, "{s:I, s:I, s:I, s:s, s:s, s:s}", "m", &m, "n", &n, "batch",
                    &batch, "precision", &precision, "layout_in", &in, "layout_out", &to))
        return false;
    out->m = m;
    out->n = n;
    out->max_batch = batch;
    return m > 0 && n > 0 && batch > 0 && qg_precision_parse(precision, &out->precision) &&
           qg_layout_parse(in, &out->layout_in) && qg_layout_parse(to, &out->layout_out);
}

/* ---- jobs ---- */

typedef enum job { PREPARE, JUDGE, VALIDATE, TIME, MEASURE, JOBS } job;
static const char *const names[JOBS] = {"prepare", "judge", "validate", "time", "measure"};

static job job_of(const json_t *request) {
    const char *name = json_string_value(json_object_get(request, "job"));
    for (int i = 0; name && i < JOBS; i++)
        if (!strcmp(names[i], name)) return (job)i;
    return JOBS;
}

static qg_status work(server *s, job which, const json_t *request, tune_verdict *v, qg_error *err) {
    qg_request plan = {json_string_value(json_object_get(request, "family")),
                       json_object_get(request, "params")};
    double seconds = json_number_value(json_object_get(request, "seconds"));
    qg_status status = QG_OK;
    switch (which) {
    case JUDGE:
    case MEASURE:
        status = tune_measure_judge(s->measure, &plan, v, err);
        if (status || v->wrong[0] || which == JUDGE) return status;
        break;
    case VALIDATE:
        return tune_measure_validate(s->measure, &plan, v, err);
    default:
        break;
    }
    double share = v->share;
    status = tune_measure_time(s->measure, &plan, seconds > 0 ? seconds : 0.3, v, err);
    if (share > v->share) v->share = share;
    return status;
}

static json_t *verdict_json(job which, const tune_verdict *v) {
    if (v->wrong[0])
        return json_pack("{s:s, s:s, s:s}", "verdict", "wrong", "why", v->wrong, "plan", v->plan);
    if (which == JUDGE || which == VALIDATE)
        return json_pack("{s:s, s:f, s:s}", "verdict", "passed", "share", v->share, "plan", v->plan);
    return json_pack("{s:s, s:f, s:f, s:f, s:f, s:i, s:f, s:s}", "verdict", "timed", "median_us",
                     v->timing.median, "mean_us", v->timing.mean, "least_us", v->timing.least, "spread",
                     v->timing.error, "repetitions", v->timing.repetitions, "share", v->share, "plan",
                     v->plan);
}

/* What the device did or the machine lacks may not happen again: "crashed". The rest would: "failed". */
static json_t *trouble_json(const qg_error *err) {
    bool again = err->status == QG_ENVIRONMENT || err->status == QG_INTERNAL;
    return json_pack("{s:s, s:o}", "verdict", again ? "crashed" : "failed", "why",
                     json_sprintf("%.200s: %.600s", err->what, err->why));
}

/* False to end. */
static bool serve_one(server *s, const json_t *request) {
    qg_error err = {0};
    qg_shape shape;
    tune_verdict v = {.wrong = ""};
    job which = job_of(request);
    if (which == JOBS || (which == PREPARE && !tune_shape_read(json_object_get(request, "shape"), &shape)))
        return reply(s, json_pack("{s:s, s:s}", "verdict", "failed", "why", "no such request")) && false;
    qg_status status =
        which == PREPARE ? tune_measure_prepare(s->measure, &shape, &err) : work(s, which, request, &v, &err);
    if (status) return reply(s, trouble_json(&err)) && false;
    return reply(s, which == PREPARE ? json_pack("{s:s}", "verdict", "ready") : verdict_json(which, &v));
}

static void serve_all(server *s) {
    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    bool more = true;
    while (more && (length = getline(&line, &room, stdin)) > 0) {
        json_t *request = json_loadb(line, (size_t)length, 0, NULL);
        more = serve_one(s, request);
        json_decref(request);
    }
    free(line);
}

/* ---- */

static json_t *hello(const cli_device *d) {
    return json_pack("{s:s, s:s, s:i, s:o}", "hello", TUNE_WORKER_FORMAT, "title", cli_device_title(d),
                     "driver", cli_device_driver(d), "record", tune_record_json(cli_device_record(d)));
}

static json_t *hello_trouble(const qg_error *err) {
    return json_pack("{s:{s:i, s:s, s:s, s:s}}", "error", "status", (int)err->status, "what", err->what,
                     "why", err->why, "fix", err->fix);
}

int tune_serve(const char *device) {
    qg_error err = {0};
    server s = {.to = fdopen(dup(1), "w")};
    cli_device_options options = {.choice = device, .quiet = true, .gpu_only = true};
    if (!s.to) return CLI_ENVIRONMENT;
    dup2(2, 1); /* whatever a library prints is no reply */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    qg_status status = qg_library_open(&(qg_library_options){.untuned = true}, &s.lib, &err);
    if (!status) status = cli_device_open(&options, s.lib, &s.device, &err);
    if (!status) status = tune_measure_open(s.device, &s.measure, &err);
    if (reply(&s, status ? hello_trouble(&err) : hello(s.device)) && !status) serve_all(&s);
    tune_measure_close(s.measure);
    cli_device_close(s.device);
    if (s.lib) qg_library_close(s.lib);
    fclose(s.to);
    return status ? (int)cli_exit_code(status) : CLI_DONE;
}
