#include "runtime/tune/measure.h"

#include "runtime/cli/case.h"
#include "runtime/judge/inputs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KINDS_MAX = 64 };
static const uint64_t seed = 1000, other_seed = 7000003;
static const double columns_cond = 2; /* decades between columns, where the kind has them */

typedef struct input {
    qg_case test;
    char *A;
    int arrays;
} input;

struct tune_measure {
    cli_device *device;
    qg_shape shape;
    cli_timer timer;
    input timed, kinds[KINDS_MAX];
    int kind_count;
};

/* ---- inputs ---- */

static void drop(tune_measure *m, input *in) {
    cli_release(m->device, in->A);
    *in = (input){0};
}

static void drop_all(tune_measure *m) {
    drop(m, &m->timed);
    for (int i = 0; i < m->kind_count; i++)
        drop(m, &m->kinds[i]);
    m->kind_count = 0;
}

static int64_t bytes_of(const qg_case *c) {
    return c->batch * c->m * c->n * (int64_t)sizeof(float);
}

static int64_t step_of(const qg_case *c) {
    return (bytes_of(c) + 255) / 256 * 256;
}

/* Arrays as cli_case lays them out: no padding within, 256 bytes apart. */
static qg_status make(tune_measure *m, input *in, const qg_case *test, int arrays, qg_error *err) {
    void *memory = NULL;
    float *staging = malloc((size_t)bytes_of(test));
    *in = (input){.test = *test, .arrays = arrays};
    if (!staging)
        return qg_failf(err, QG_NO_MEMORY, "inputs", "a smaller batch", "no %lld bytes to be had",
                        (long long)bytes_of(test));
    qg_status s = cli_alloc(m->device, step_of(test) * arrays, &memory, err);
    in->A = memory;
    for (int i = 0; i < arrays && !s; i++) {
        qg_case one = *test;
        one.seed += (uint64_t)i * CLI_SEED_STEP;
        s = qj_fill(staging, &one, test->layout_in == QG_ROW ? test->n : test->m, test->m * test->n, err);
        if (!s) s = cli_upload(m->device, in->A + i * step_of(test), staging, bytes_of(test), err);
    }
    free(staging);
    return s;
}

/* As many matrices as `floats` hold, but `least` where those are fewer, and never more than `most` or than
 * the plan serves. */
static int64_t some(const qg_shape *s, int64_t floats, int64_t least, int64_t most) {
    int64_t batch = floats / (s->m * s->n);
    batch = batch < least ? least : batch;
    batch = batch > most ? most : batch;
    return batch < s->max_batch ? batch : s->max_batch;
}

/* Every kind with every value worth testing. Returns their number. */
static int every_kind(const qg_shape *s, int64_t batch, uint64_t first_seed, qg_case *out) {
    const qj_kind *kind;
    int count = 0;
    for (int i = 0; (kind = qj_kind_at(i)); i++)
        for (int v = 0; count < KINDS_MAX && (v == 0 || kind->values[v] > 0); v++) {
            qg_case *c = &out[count++];
            *c = (qg_case){.batch = batch,
                           .m = s->m,
                           .n = s->n,
                           .cond = kind->uses_cond ? columns_cond : 0,
                           .kind_value = kind->has_value ? kind->values[v] : 0,
                           .seed = first_seed + (uint64_t)count,
                           .layout_in = s->layout_in,
                           .layout_out = s->layout_out};
            snprintf(c->kind, sizeof c->kind, "%s", kind->name);
            if (v == 5) break;
        }
    return count;
}

static qg_case timed_case(const qg_shape *s) {
    return (qg_case){.batch = s->max_batch,
                     .m = s->m,
                     .n = s->n,
                     .cond = columns_cond,
                     .kind = "dense",
                     .seed = seed,
                     .layout_in = s->layout_in,
                     .layout_out = s->layout_out};
}

qg_status tune_measure_prepare(tune_measure *m, const qg_shape *shape, qg_error *err) {
    qg_case cases[KINDS_MAX], timed = timed_case(shape);
    drop_all(m);
    m->shape = *shape;
    int arrays = cli_device_is_gpu(m->device) ? cli_array_count(bytes_of(&timed)) : 1;
    int count = every_kind(shape, some(shape, 1 << 20, 4, 67), seed, cases);
    qg_status s = make(m, &m->timed, &timed, arrays, err);
    for (int i = 0; i < count && !s; i++)
        s = make(m, &m->kinds[m->kind_count++], &cases[i], 1, err);
    if (s) drop_all(m);
    return s;
}

/* ---- one candidate ---- */

static qg_status open_case(tune_measure *m, const qg_request *request, const input *in, cli_case *c,
                           tune_verdict *out, qg_error *err) {
    qg_status s =
        cli_case_open_part(m->device, &in->test, m->shape.precision, m->shape.max_batch, request, c, err);
    *out = (tune_verdict){.wrong = ""};
    if (!s) snprintf(out->plan, sizeof out->plan, "%s", c->problem.plan->name);
    c->A = in->A; /* borrowed */
    return s ? s : cli_case_prepare(c, in->arrays, err);
}

static void close_case(cli_case *c) {
    c->A = NULL;
    cli_case_close(c);
}

static qg_status judge(cli_case *c, tune_verdict *out, qg_error *err) {
    qj_limits limits = qj_limits_for(c->test.m, c->test.n, c->shape.precision);
    qj_verdict verdict;
    cli_info_count info;
    qg_status s = cli_case_judge(c, &limits, &verdict, &info, err);
    if (s) return s;
    if (verdict.share > out->share) out->share = verdict.share;
    char text[200], name[96];
    if (!verdict.pass)
        snprintf(out->wrong, sizeof out->wrong, "%s: %s", cli_case_name(c, name, sizeof name),
                 qj_verdict_text(&verdict, text, sizeof text));
    return QG_OK;
}

/* The case's outputs for another input of the same sizes. */
static qg_status judge_on(cli_case *c, const input *in, tune_verdict *out, qg_error *err) {
    c->A = in->A;
    c->test = in->test;
    qg_status s = cli_case_poison(c, err);
    if (!s) s = cli_case_pass(c, err);
    return s ? s : judge(c, out, err);
}

qg_status tune_measure_judge(tune_measure *m, const qg_request *request, tune_verdict *out, qg_error *err) {
    cli_case c;
    qg_status s = open_case(m, request, &m->kinds[0], &c, out, err);
    for (int i = 0; i < m->kind_count && !s && !out->wrong[0]; i++)
        s = judge_on(&c, &m->kinds[i], out, err);
    close_case(&c);
    return s;
}

qg_status tune_measure_validate(tune_measure *m, const qg_request *request, tune_verdict *out,
                                qg_error *err) {
    qg_case cases[KINDS_MAX];
    input in = {0};
    cli_case c = {0};
    int64_t most = m->shape.max_batch * 2 / 3;
    int count = every_kind(&m->shape, some(&m->shape, 1 << 22, 7, most > 1 ? most : 1), other_seed, cases);
    *out = (tune_verdict){.wrong = ""};
    qg_status s = QG_OK;
    for (int i = 0; i < count && !s && !out->wrong[0]; i++) {
        s = make(m, &in, &cases[i], 1, err);
        if (!s && !i) s = open_case(m, request, &in, &c, out, err);
        if (!s) s = judge_on(&c, &in, out, err);
        drop(m, &in);
    }
    close_case(&c);
    return s;
}

static qg_status pass(void *context, qg_error *err) {
    return cli_case_pass(context, err);
}
static qg_status poison(void *context, qg_error *err) {
    return cli_case_poison(context, err);
}

/* Noise that a second look removes: another process on the GPU, clocks still rising. */
static const double noisy = 0.02;

qg_status tune_measure_time(tune_measure *m, const qg_request *request, double seconds, tune_verdict *out,
                            qg_error *err) {
    cli_case c;
    m->timer.max_seconds = seconds;
    qg_status s = open_case(m, request, &m->timed, &c, out, err);
    cli_timed timed = {poison, pass, &c, m->timed.arrays};
    if (!s) s = cli_time(&m->timer, &timed, &out->timing, err);
    if (!s && out->timing.error > noisy) {
        m->timer.max_seconds = 2 * seconds;
        s = cli_time(&m->timer, &timed, &out->timing, err);
    }
    if (!s) s = judge(&c, out, err);
    close_case(&c);
    return s;
}

qg_status tune_measure_open(cli_device *device, tune_measure **out, qg_error *err) {
    tune_measure *m = calloc(1, sizeof *m);
    *out = m;
    if (!m) return qg_fail(err, QG_NO_MEMORY, "tune", "out of memory", "");
    m->device = device;
    return cli_timer_open(device, 1, &m->timer, err);
}

void tune_measure_close(tune_measure *m) {
    if (!m) return;
    drop_all(m);
    cli_timer_close(&m->timer);
    free(m);
}
