#include "runtime/cli/case.h"
#include "runtime/judge/inputs.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

qg_status cli_case_open(cli_device *device, const qg_case *test, qg_precision precision,
                        const qg_request *request, cli_case *out, qg_error *err) {
    return cli_case_open_part(device, test, precision, test->batch, request, out, err);
}

qg_status cli_case_open_part(cli_device *device, const qg_case *test, qg_precision precision,
                             int64_t max_batch, const qg_request *request, cli_case *out, qg_error *err) {
    *out = (cli_case){.test = *test};
    out->shape = (qg_shape){.m = test->m,
                            .n = test->n,
                            .layout_in = test->layout_in,
                            .layout_out = test->layout_out,
                            .precision = precision,
                            .operation = QG_GEQRF,
                            .max_batch = max_batch};
    return cli_problem_open_part(device, &out->shape, test->batch, request, &out->problem, err);
}

void cli_case_close(cli_case *c) {
    cli_device *d = c->problem.device;
    cli_problem_close(&c->problem);
    if (d) {
        cli_release(d, c->A);
        cli_release(d, c->H);
        cli_release(d, c->tau);
        cli_release(d, c->info);
    }
    *c = (cli_case){0};
}

static int64_t step_of(int64_t bytes) {
    return (bytes + 255) / 256 * 256;
}

/* On the CPU all of a case lies in this machine's memory. A system that promises more than it has would end
 * the process when it is filled, so what cannot fit is refused before. */
static qg_status fits(const cli_case *c, qg_error *err) {
    const cli_problem *p = &c->problem;
    if (cli_device_is_gpu(p->device)) return QG_OK;
    double wanted =
        (double)c->arrays * ((double)p->a_bytes + p->h_bytes + p->tau_bytes + p->info_bytes) + p->a_bytes;
    double there = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    if (there <= 0 || wanted <= there) return QG_OK;
    return qg_failf(err, QG_ENVIRONMENT, "memory", "a smaller batch",
                    "%.0f MiB are needed, this machine has %.0f", wanted / 1048576, there / 1048576);
}

static qg_status allocate(cli_case *c, qg_error *err) {
    cli_problem *p = &c->problem;
    struct slab {
        char **memory;
        int64_t *step;
        int64_t bytes;
    } slabs[] = {{&c->A, &c->a_step, p->a_bytes},
                 {&c->H, &c->h_step, p->h_bytes},
                 {&c->tau, &c->tau_step, p->tau_bytes},
                 {&c->info, &c->info_step, p->info_bytes}};
    for (size_t i = 0; i < sizeof slabs / sizeof *slabs; i++) {
        void *memory = NULL;
        *slabs[i].step = step_of(slabs[i].bytes);
        if (*slabs[i].memory) continue; /* borrowed inputs */
        qg_status status = cli_alloc(p->device, *slabs[i].step * c->arrays, &memory, err);
        *slabs[i].memory = memory;
        if (status != QG_OK) return status;
    }
    return QG_OK;
}

static qg_status fill_host(const cli_case *c, int array, float *a, qg_error *err) {
    const qg_call *call = &c->problem.call;
    qg_case test = c->test;
    test.seed += (uint64_t)array * CLI_SEED_STEP;
    return qj_fill(a, &test, call->scalar[QG_LDA], call->scalar[QG_STRIDE_A], err);
}

static qg_status make_inputs(cli_case *c, qg_error *err) {
    cli_device *d = c->problem.device;
    int64_t bytes = c->problem.a_bytes;
    float *staging = bytes ? malloc((size_t)bytes) : NULL;
    if (bytes && !staging)
        return qg_failf(err, QG_NO_MEMORY, "inputs", "a smaller batch", "no %lld bytes to be had",
                        (long long)bytes);
    qg_status status = QG_OK;
    for (int i = 0; i < c->arrays && bytes && status == QG_OK; i++) {
        status = fill_host(c, i, staging, err);
        if (status == QG_OK) status = cli_upload(d, c->A + i * c->a_step, staging, bytes, err);
    }
    free(staging);
    return status;
}

qg_status cli_case_prepare(cli_case *c, int arrays, qg_error *err) {
    bool given = c->A != NULL;
    c->arrays = arrays;
    qg_status status = cli_problem_load(&c->problem, err);
    if (status == QG_OK) status = fits(c, err);
    if (status == QG_OK) status = allocate(c, err);
    if (status == QG_OK && !given) status = make_inputs(c, err);
    return status;
}

qg_status cli_case_poison(cli_case *c, qg_error *err) {
    cli_device *d = c->problem.device;
    qg_status status = cli_fill(d, c->H, 0xFF, c->h_step * c->arrays, err);
    if (status == QG_OK) status = cli_fill(d, c->tau, 0xFF, c->tau_step * c->arrays, err);
    if (status == QG_OK) status = cli_fill(d, c->info, 0xFF, c->info_step * c->arrays, err);
    return status;
}

qg_status cli_case_pass(cli_case *c, qg_error *err) {
    qg_status status = QG_OK;
    for (int i = 0; i < c->arrays && status == QG_OK; i++)
        status = cli_problem_factor(&c->problem, c->A + i * c->a_step, c->H + i * c->h_step,
                                    c->tau + i * c->tau_step, c->info + i * c->info_step, err);
    return status;
}

static qg_status gates_of(cli_case *c, double *gates, cli_info_count *info, qg_error *err) {
    qg_status status = QG_OK;
    *info = (cli_info_count){{0}};
    for (int i = 0; i < c->arrays && status == QG_OK; i++) {
        cli_info_count one = {{0}};
        status = cli_problem_gates(&c->problem, c->A + i * c->a_step, c->H + i * c->h_step,
                                   c->tau + i * c->tau_step, gates + i * c->test.batch * QJ_GATES, err);
        if (status == QG_OK) status = cli_problem_info(&c->problem, c->info + i * c->info_step, &one, err);
        for (int b = 0; b < CLI_INFO_BITS; b++)
            info->bit[b] += one.bit[b];
    }
    return status;
}

qg_status cli_case_judge(cli_case *c, const qj_limits *limits, qj_verdict *verdict, cli_info_count *info,
                         qg_error *err) {
    int64_t matrices = c->test.batch * c->arrays;
    double *gates = calloc((size_t)(matrices ? matrices : 1), QJ_GATES * sizeof *gates);
    if (!gates) return qg_fail(err, QG_NO_MEMORY, "verify", "no memory for the gates", "a smaller batch");
    qg_status status = gates_of(c, gates, info, err);
    if (status == QG_OK) *verdict = qj_judge(limits, gates, matrices);
    free(gates);
    return status;
}

char *cli_case_name(const cli_case *c, char *out, size_t size) {
    const qg_case *t = &c->test;
    char value[32] = "", cond[32] = "", layout[16] = "";
    if (t->kind_value != 0) snprintf(value, sizeof value, " %g", t->kind_value);
    if (t->cond != 0) snprintf(cond, sizeof cond, " cond %g", t->cond);
    if (t->layout_in != QG_ROW || t->layout_out != QG_ROW)
        snprintf(layout, sizeof layout, " %s>%s", qg_layout_name(t->layout_in),
                 qg_layout_name(t->layout_out));
    snprintf(out, size, "%s %lld x %lld x %lld %s%s%s%s", qg_precision_name(c->shape.precision),
             (long long)t->batch, (long long)t->m, (long long)t->n, t->kind, value, cond, layout);
    return out;
}

json_t *cli_json_real(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

json_t *cli_case_json(const cli_case *c) {
    const qg_case *t = &c->test;
    json_t *o = json_pack("{s:s, s:I, s:I, s:I, s:s, s:f, s:f, s:I, s:s, s:s}", "precision",
                          qg_precision_name(c->shape.precision), "batch", (json_int_t)t->batch, "m",
                          (json_int_t)t->m, "n", (json_int_t)t->n, "kind", t->kind, "value", t->kind_value,
                          "cond", t->cond, "seed", (json_int_t)t->seed, "layout_in",
                          qg_layout_name(t->layout_in), "layout_out", qg_layout_name(t->layout_out));
    const qg_plan *plan = c->problem.plan;
    if (!o || !plan) return o;
    json_object_set_new(o, "plan", json_string(plan->name));
    json_object_set_new(o, "family", json_string(plan->family));
    json_object_set(o, "params", plan->params);
    json_object_set_new(o, "grade", json_string(qg_grade_name(plan->grade)));
    json_object_set_new(o, "products", json_string(plan->products));
    return o;
}
