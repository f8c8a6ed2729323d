#include "runtime/tune/candidates.h"

#include "gen/text.h"
#include "runtime/cli/jobs.h"
#include "runtime/cli/report.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { AT_ONCE = 64 }; /* plans and cubins in memory together */

static char *format(const char *pattern, ...) __attribute__((format(printf, 1, 2)));
static char *format(const char *pattern, ...) {
    char *out = NULL;
    va_list arguments;
    va_start(arguments, pattern);
    int size = vasprintf(&out, pattern, arguments);
    va_end(arguments);
    return size < 0 ? NULL : out;
}

/* What the time belongs to. The cubin's key stands for all that the plan's name leaves out: included headers,
 * compiler, options. */
static char *key_of(const tune_bench *b, const tune_target *t, const qg_plan *plan, const qrt_cubin *cubin) {
    char text[QRT_KEY_TEXT] = "uncompiled";
    if (cubin) qrt_key_text(&cubin->key, text);
    return format("%s driver %d b%lld %s %.16s", b->title, b->driver, (long long)t->shape.max_batch,
                  plan->name, text);
}

/* "1 fused 000.002.001": parameters by their declared order, values by their place in it. */
static char *rank_of(const json_t *families, const char *family, const json_t *params, bool is_default) {
    const json_t *list = json_object_get(tune_family(families, family), "params"), *param;
    qg_text text = {0};
    size_t i;
    qg_text_printf(&text, "%d %s ", !is_default, family);
    json_array_foreach(list, i, param) {
        const json_t *values = json_object_get(param, "values");
        const char *name = json_string_value(json_object_get(param, "name"));
        const json_t *value = name ? json_object_get(params, name) : NULL;
        size_t place = 0;
        while (place < json_array_size(values) && !json_equal(json_array_get(values, place), value))
            place++;
        qg_text_printf(&text, "%s%03zu", i ? "." : "", place);
    }
    return text.data;
}

/* ---- one combination's outcome ---- */

static tune_candidate *find(tune_candidates *c, const char *key) {
    for (int i = 0; i < c->count; i++)
        if (!strcmp(c->list[i].key, key)) return &c->list[i];
    return NULL;
}

static void free_candidate(tune_candidate *c) {
    free(c->family);
    json_decref(c->params);
    free(c->plan);
    free(c->key);
    free(c->rank);
}

static qg_status fill(tune_candidate *c, const tune_bench *b, const tune_grid *g, const tune_target *t,
                      const cli_job *job, qg_error *err) {
    c->family = strdup(job->plan->family);
    c->params = json_incref(job->plan->params);
    c->plan = strdup(job->plan->name);
    c->key = key_of(b, t, job->plan, job->cubin);
    c->is_default = !job->entry->family;
    c->rank = rank_of(g->families, job->plan->family, job->plan->params, c->is_default);
    c->time.out = true;
    c->status = job->status;
    if (job->status) snprintf(c->why, sizeof c->why, "%.100s: %.290s", job->err.what, job->err.why);
    if (c->family && c->plan && c->key && c->rank) return QG_OK;
    free_candidate(c);
    return qg_fail(err, QG_NO_MEMORY, "tune", "out of memory", "");
}

static qg_status take(tune_candidates *all, const tune_bench *b, const tune_grid *g, const tune_target *t,
                      const cli_job *job, qg_error *err) {
    tune_candidate one = {0};
    if (job->status == QG_ENVIRONMENT || job->status == QG_NO_MEMORY)
        return qg_fail(err, job->status, job->err.what, job->err.why, job->err.fix);
    if (!job->plan) {
        /* A family that breaks on a combination says no too, less politely. */
        if (!job->entry->family) return QG_OK;
        all->illegal++;
        json_array_append_new(all->refused, json_pack("{s:s, s:O, s:s}", "family", job->entry->family,
                                                      "params", job->entry->params, "why", job->err.why));
        return QG_OK;
    }
    qg_status s = fill(&one, b, g, t, job, err);
    if (s) return s;
    tune_candidate *twin = find(all, one.key);
    if (twin) {
        all->twins +=
            !json_equal(twin->params, one.params); /* most grids hold the default's combination too */
        if (strcmp(one.rank, twin->rank) < 0) {    /* of twins the first in order, whatever the grid's */
            tune_candidate other = *twin;
            *twin = one;
            one = other;
        }
        free_candidate(&one);
        return QG_OK;
    }
    all->list[all->count++] = one;
    return QG_OK;
}

/* ---- all of them ---- */

static void progress(int done, int total) {
    cli_progress(done, total, "compiled");
}

static qg_status run_some(tune_candidates *all, const tune_bench *b, const tune_grid *g, const tune_target *t,
                          qg_config_entry *entries, int count, qg_error *err) {
    cli_job *jobs = calloc((size_t)count, sizeof *jobs);
    if (!jobs) return qg_fail(err, QG_NO_MEMORY, "tune", "out of memory", "");
    for (int i = 0; i < count; i++)
        jobs[i] = (cli_job){.entry = &entries[i], .device = &b->device};
    cli_jobs_run(jobs, count, b->threads, b->lib, b->compiler, progress);
    cli_progress_clear();
    qg_status s = QG_OK;
    for (int i = 0; i < count && !s; i++)
        s = take(all, b, g, t, &jobs[i], err);
    cli_jobs_free(jobs, count);
    free(jobs);
    return s;
}

static int in_order(const void *a, const void *b) {
    return strcmp(((const tune_candidate *)a)->rank, ((const tune_candidate *)b)->rank);
}

qg_status tune_candidates_make(const tune_bench *bench, const tune_grid *grid, const tune_target *target,
                               tune_candidates *out, qg_error *err) {
    json_t *requests = tune_grid_expand(grid, target);
    size_t count = json_array_size(requests) + 1; /* the first is the default plan */
    qg_config_entry *entries = calloc(count, sizeof *entries);
    *out = (tune_candidates){.list = calloc(count, sizeof *out->list), .refused = json_array()};
    qg_status s = requests && entries && out->list && out->refused
                      ? QG_OK
                      : qg_fail(err, QG_NO_MEMORY, "tune", "out of memory", "");
    for (size_t i = 0; i < count && !s; i++) {
        const json_t *one = i ? json_array_get(requests, i - 1) : NULL;
        entries[i] =
            (qg_config_entry){.shape = target->shape,
                              .family = (char *)(uintptr_t)json_string_value(json_object_get(one, "family")),
                              .params = json_object_get(one, "params")};
    }
    for (size_t i = 0; i < count && !s; i += AT_ONCE)
        s = run_some(out, bench, grid, target, entries + i, (int)(count - i < AT_ONCE ? count - i : AT_ONCE),
                     err);
    if (out->list) qsort(out->list, (size_t)out->count, sizeof *out->list, in_order);
    free(entries);
    json_decref(requests);
    return s;
}

void tune_candidates_free(tune_candidates *c) {
    for (int i = 0; i < c->count; i++)
        free_candidate(&c->list[i]);
    free(c->list);
    json_decref(c->refused);
    *c = (tune_candidates){0};
}
