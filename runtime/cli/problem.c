#include "runtime/cli/problem.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool times(int64_t a, int64_t b, int64_t *out) {
    return !__builtin_mul_overflow(a, b, out);
}

/* A matrix without padding: leading dimension and distance to the next. LAPACK wants at least 1. */
static int64_t leading(const qg_shape *s, qg_layout layout) {
    int64_t ld = layout == QG_ROW ? s->n : s->m;
    return ld > 1 ? ld : 1;
}

static qg_status set_sizes(cli_problem *p, const qg_shape *s, int64_t batch, qg_error *err) {
    int64_t elements = 0;
    p->batch = batch;
    p->k = s->m < s->n ? s->m : s->n;
    if (!times(s->m, s->n, &elements) || !times(elements, 4, &p->a_bytes) ||
        !times(p->a_bytes, p->batch, &p->a_bytes))
        return qg_fail(err, QG_BAD_INPUT, "shape", "the matrices need more bytes than can be counted", "");
    p->h_bytes = p->a_bytes;
    p->tau_bytes = 4 * p->k * p->batch;
    p->info_bytes = 4 * p->batch;
    p->call.scalar[QG_BATCH] = p->batch;
    p->call.scalar[QG_LDA] = leading(s, s->layout_in);
    p->call.scalar[QG_LDH] = leading(s, s->layout_out);
    p->call.scalar[QG_STRIDE_A] = p->call.scalar[QG_STRIDE_H] = elements;
    p->call.scalar[QG_STRIDE_TAU] = p->k;
    p->judge_call = p->call;
    return QG_OK;
}

qg_status cli_problem_open(cli_device *device, const qg_shape *shape, const qg_request *request,
                           cli_problem *out, qg_error *err) {
    return cli_problem_open_part(device, shape, shape->max_batch, request, out, err);
}

qg_status cli_problem_open_part(cli_device *device, const qg_shape *shape, int64_t batch,
                                const qg_request *request, cli_problem *out, qg_error *err) {
    *out = (cli_problem){.device = device};
    qg_status status = set_sizes(out, shape, batch, err);
    if (status == QG_OK)
        status = qg_plan_make(cli_device_library(device), shape, cli_device_record(device), request,
                              &out->plan, err);
    return status;
}

static qg_status load(cli_problem *p, const qg_plan *plan, qg_call *call, cli_module **module,
                      qg_error *err) {
    int64_t bytes = 0;
    qg_status status = cli_load(p->device, plan, module, err);
    if (status == QG_OK) status = cli_workspace(*module, call, &bytes, err);
    if (status == QG_OK) status = cli_alloc(p->device, bytes, &call->workspace, err);
    return status;
}

qg_status cli_problem_load(cli_problem *p, qg_error *err) {
    return p->module ? QG_OK : load(p, p->plan, &p->call, &p->module, err);
}

static qg_status load_judge(cli_problem *p, qg_error *err) {
    if (p->judge) return QG_OK;
    qg_shape shape = p->plan->shape;
    shape.operation = QG_VERIFY;
    shape.precision = QG_FP32;
    qg_status status = qg_plan_make(cli_device_library(p->device), &shape, cli_device_record(p->device), NULL,
                                    &p->judge_plan, err);
    if (status == QG_OK) status = load(p, p->judge_plan, &p->judge_call, &p->judge, err);
    return status;
}

void cli_problem_close(cli_problem *p) {
    cli_unload(p->module);
    cli_unload(p->judge);
    if (p->device) {
        cli_release(p->device, p->call.workspace);
        cli_release(p->device, p->judge_call.workspace);
    }
    if (p->plan) qg_plan_free(p->plan);
    if (p->judge_plan) qg_plan_free(p->judge_plan);
    *p = (cli_problem){0};
}

/* qg_call's pointers are not const: one struct serves what is read and what is written. */
static void *unconst(const void *p) {
    return (void *)(uintptr_t)p;
}

qg_status cli_problem_factor(cli_problem *p, const void *A, void *H, void *tau, void *info, qg_error *err) {
    qg_status status = cli_problem_load(p, err);
    if (status != QG_OK) return status;
    p->call.pointer[QG_PTR_A] = unconst(A);
    p->call.pointer[QG_PTR_H] = H;
    p->call.pointer[QG_PTR_TAU] = tau;
    p->call.pointer[QG_PTR_INFO] = info;
    return cli_run(p->module, &p->call, err);
}

qg_status cli_problem_gates(cli_problem *p, const void *A, const void *H, const void *tau, double *gates,
                            qg_error *err) {
    int64_t bytes = p->batch * QJ_GATES * (int64_t)sizeof(double);
    void *memory = NULL;
    qg_status status = load_judge(p, err);
    if (status == QG_OK) status = cli_alloc(p->device, bytes, &memory, err);
    if (status == QG_OK) /* NaN: a gate that is not written fails */
        status = cli_fill(p->device, memory, 0xFF, bytes, err);
    p->judge_call.pointer[QG_PTR_A] = unconst(A);
    p->judge_call.pointer[QG_PTR_H] = unconst(H);
    p->judge_call.pointer[QG_PTR_TAU] = unconst(tau);
    p->judge_call.pointer[QG_PTR_GATES] = memory;
    if (status == QG_OK) status = cli_run(p->judge, &p->judge_call, err);
    if (status == QG_OK) status = cli_download(p->device, gates, memory, bytes, err);
    cli_release(p->device, memory);
    return status;
}

qg_status cli_problem_info(cli_problem *p, const void *info, cli_info_count *out, qg_error *err) {
    *out = (cli_info_count){{0}};
    int32_t *bits = malloc(p->info_bytes ? (size_t)p->info_bytes : 1);
    if (!bits) return qg_fail(err, QG_NO_MEMORY, "info", "no memory for it", "");
    qg_status status = cli_download(p->device, bits, info, p->info_bytes, err);
    for (int64_t b = 0; b < p->batch && status == QG_OK; b++)
        for (int i = 0; i < CLI_INFO_BITS; i++)
            out->bit[i] += bits[b] >> i & 1;
    free(bits);
    return status;
}

double cli_flops(int64_t m, int64_t n) {
    double a = (double)(m > n ? m : n), k = (double)(m > n ? n : m);
    return 2 * k * k * (a - k / 3);
}
