/* qhx_run: walks a module's launch program. */
#include "runtime/host/launch.h"
#include "runtime/host/module.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ARGS = 64 };

typedef struct argument {
    union {
        int32_t i32;
        int64_t i64;
        float f32;
        void *pointer;
        qhx_tensor_map map;
    };
} argument;

typedef struct run {
    qhx_module *m;
    qg_call call;
    int64_t *offsets; /* of the program's buffers */
    int64_t workspace_size;
    void *owned; /* workspace allocated here */
    qhx_stacks *stacks;
    qhx_context own; /* found once: AddressSanitizer's need of it is costly */
    int order;
    uint64_t seed;
    char what[512];
} run;

static qg_status eval(run *r, const qg_expr *e, int64_t *out, qg_error *err) {
    return qg_expr_eval(e, &r->call, &r->m->device, out, err);
}

static qg_status bad(run *r, qg_error *err, const char *why, int64_t value) {
    return qg_failf(err, QG_INTERNAL, r->what, "", why, (long long)value);
}

/* --- poison --- */

static void fill_h(const run *r) {
    const qg_shape *s = &r->m->shape;
    const int64_t *c = r->call.scalar;
    bool row = s->layout_out == QG_ROW;
    int64_t lines = row ? s->m : s->n, length = row ? s->n : s->m;
    float *h = r->call.pointer[QG_PTR_H];
    for (int64_t b = 0; b < c[QG_BATCH]; b++)
        for (int64_t i = 0; i < lines && length > 0; i++)
            memset(h + b * c[QG_STRIDE_H] + i * c[QG_LDH], 0xff, (size_t)length * sizeof *h);
}

static bool overlap(const run *r) {
    const qg_shape *s = &r->m->shape;
    const int64_t *c = r->call.scalar;
    int64_t lines_a = s->layout_in == QG_ROW ? s->m : s->n, lines_h = s->layout_out == QG_ROW ? s->m : s->n;
    uintptr_t a = (uintptr_t)r->call.pointer[QG_PTR_A], h = (uintptr_t)r->call.pointer[QG_PTR_H];
    int64_t b = c[QG_BATCH] - 1;
    uintptr_t a_end = a + (uintptr_t)(b * c[QG_STRIDE_A] + lines_a * c[QG_LDA]) * sizeof(float);
    uintptr_t h_end = h + (uintptr_t)(b * c[QG_STRIDE_H] + lines_h * c[QG_LDH]) * sizeof(float);
    return a < h_end && h < a_end;
}

/* What the program must write is made unmistakable first. Padding between rows is the caller's and stays. */
static void poison(run *r) {
    const qg_shape *s = &r->m->shape;
    const qg_call *c = &r->call;
    int64_t batch = c->scalar[QG_BATCH], k = s->m < s->n ? s->m : s->n;
    if (c->workspace) memset(c->workspace, 0xff, (size_t)r->workspace_size);
    if (s->operation == QG_VERIFY) {
        if (c->pointer[QG_PTR_GATES])
            memset(c->pointer[QG_PTR_GATES], 0xff, (size_t)batch * 4 * sizeof(double));
        return;
    }
    if (batch > 0 && c->pointer[QG_PTR_H] && !overlap(r)) fill_h(r);
    for (int64_t b = 0; c->pointer[QG_PTR_TAU] && k > 0 && b < batch; b++)
        memset((float *)c->pointer[QG_PTR_TAU] + b * c->scalar[QG_STRIDE_TAU], 0xff,
               (size_t)k * sizeof(float));
    if (c->pointer[QG_PTR_INFO]) memset(c->pointer[QG_PTR_INFO], 0xff, (size_t)batch * sizeof(int32_t));
}

/* --- arguments --- */

static qg_status workspace_at(run *r, int buffer, const qg_expr *offset, void **out, qg_error *err) {
    int64_t at = 0;
    qg_status status = offset ? eval(r, offset, &at, err) : QG_OK;
    if (status == QG_OK && (at < 0 || r->offsets[buffer] + at > r->workspace_size))
        status = bad(r, err, "offset %lld lies outside the workspace", at);
    *out = status == QG_OK ? (char *)r->call.workspace + r->offsets[buffer] + at : NULL;
    return status;
}

static qg_status make_map(run *r, const qg_tensor_map *t, qhx_tensor_map *m, qg_error *err) {
    void *base = NULL;
    qg_status status = QG_OK;
    memset(m, 0, sizeof *m);
    if (t->from_workspace) {
        status = workspace_at(r, t->buffer, t->offset, &base, err);
    } else {
        int64_t at = 0;
        if (t->offset) status = eval(r, t->offset, &at, err);
        base = (char *)r->call.pointer[t->pointer] + at;
    }
    m->magic = QHX_TENSOR_MAGIC;
    m->base = (uintptr_t)base;
    m->rank = (uint8_t)t->rank;
    m->element_bytes = (uint8_t)t->element_bytes;
    m->swizzle = (uint8_t)t->swizzle;
    for (int i = 0; status == QG_OK && i < t->rank; i++) {
        int64_t v = 0;
        status = eval(r, t->dims[i], &v, err);
        m->dims[i] = (uint64_t)v;
        m->box[i] = (uint16_t)t->box[i];
        if (status == QG_OK && i + 1 < t->rank) {
            status = eval(r, t->strides[i], &v, err);
            m->strides[i] = (uint64_t)v;
            if (status == QG_OK && (v <= 0 || v % 16 != 0))
                status = bad(r, err, "a tensor map's stride of %lld bytes is not a multiple of 16", v);
        }
    }
    if (status == QG_OK && (uintptr_t)base % 16 != 0)
        status = bad(r, err, "a tensor map's base is not a multiple of 16 bytes (last digit %lld)",
                     (int64_t)((uintptr_t)base % 16));
    return status;
}

static qg_status make_argument(run *r, const qg_arg *a, argument *out, qg_error *err) {
    int64_t v = 0;
    qg_status status = QG_OK;
    switch (a->kind) {
    case QG_ARG_I32:
        status = eval(r, a->expr, &v, err);
        if (status == QG_OK && v != (int32_t)v) status = bad(r, err, "%lld does not fit an i32 argument", v);
        out->i32 = (int32_t)v;
        return status;
    case QG_ARG_I64:
        status = eval(r, a->expr, &out->i64, err);
        return status;
    case QG_ARG_F32:
        out->f32 = a->f32;
        return QG_OK;
    case QG_ARG_CALL:
        out->i64 = r->call.scalar[a->scalar];
        return QG_OK;
    case QG_ARG_POINTER:
        out->pointer = r->call.pointer[a->pointer];
        return QG_OK;
    case QG_ARG_WORKSPACE:
        return workspace_at(r, a->buffer, a->expr, &out->pointer, err);
    case QG_ARG_TENSOR_MAP:
        return make_map(r, a->map, &out->map, err);
    }
    return QG_INTERNAL;
}

/* --- operations --- */

static qg_status do_clear(run *r, const qg_op *op, qg_error *err) {
    int64_t bytes;
    void *at;
    qg_status status = workspace_at(r, op->buffer, op->offset, &at, err);
    if (status == QG_OK) status = eval(r, op->bytes, &bytes, err);
    if (status != QG_OK) return status;
    if (bytes < 0 || (char *)at + bytes > (char *)r->call.workspace + r->workspace_size)
        return bad(r, err, "%lld bytes to clear reach outside the workspace", bytes);
    if (bytes) memset(at, 0, (size_t)bytes);
    return QG_OK;
}

static qg_status do_launch(run *r, int i, qg_error *err) {
    const qg_op *op = &r->m->program->ops[i];
    argument *value = calloc((size_t)op->arg_count + 1, sizeof *value);
    void **args = calloc((size_t)op->arg_count + 1, sizeof *args);
    qhx_launch l = {.own = &r->own,
                    .kernel_name = op->kernel,
                    .kernel = r->m->kernel[i],
                    .args = args,
                    .block = (uint32_t)op->block,
                    .cluster = op->cluster > 0 ? op->cluster : 1,
                    .cooperative = op->cooperative,
                    .poison = r->m->executor->poison,
                    .waits_expire = r->m->executor->waits_expire};
    qg_status status = value && args ? QG_OK : qg_fail(err, QG_NO_MEMORY, "host executor", "no memory", "");
    for (int k = 0; status == QG_OK && k < op->arg_count; k++) {
        status = make_argument(r, &op->args[k], &value[k], err);
        args[k] = &value[k];
    }
    int64_t smem = 0;
    bool empty = false;
    for (int k = 0; status == QG_OK && k < 3; k++) {
        status = eval(r, op->grid[k], &l.grid[k], err);
        if (status == QG_OK && l.grid[k] < 0) status = bad(r, err, "a grid of %lld blocks", l.grid[k]);
        empty |= l.grid[k] == 0;
    }
    if (status == QG_OK && op->smem) status = eval(r, op->smem, &smem, err);
    if (status == QG_OK && (smem < 0 || (r->m->device.smem_optin > 0 && smem > r->m->device.smem_optin)))
        status = bad(r, err, "%lld bytes of shared memory are more than the device has", smem);
    l.smem = (uint32_t)smem;
    qhx_order_start(&l.order, r->order, r->seed * 1000003u + (uint64_t)i);
    if (status == QG_OK && !empty) status = qhx_launch_run(&l, r->stacks, err);
    free(value);
    free(args);
    return status;
}

static qg_status prepare(run *r, qg_error *err) {
    const qg_program *p = r->m->program;
    r->offsets = calloc((size_t)p->buffer_count + 1, sizeof *r->offsets);
    if (!r->offsets) return qg_fail(err, QG_NO_MEMORY, "host executor", "no memory", "");
    qg_status status = qg_program_workspace(p, &r->call, &r->m->device, &r->workspace_size, r->offsets, err);
    if (status != QG_OK || r->call.workspace || r->workspace_size == 0) return status;
    if (posix_memalign(&r->owned, 256, (size_t)r->workspace_size) != 0) {
        r->owned = NULL;
        return qg_failf(err, QG_NO_MEMORY, r->m->name, "", "no memory for a workspace of %lld bytes",
                        (long long)r->workspace_size);
    }
    /* Not left to chance when nobody asks for poison. */
    memset(r->owned, 0, (size_t)r->workspace_size);
    r->call.workspace = r->owned;
    return QG_OK;
}

static qg_status run_ops(run *r, qg_error *err) {
    qg_status status = prepare(r, err);
    if (status == QG_OK && r->m->executor->poison) poison(r);
    for (int i = 0; status == QG_OK && i < r->m->program->op_count; i++) {
        const qg_op *op = &r->m->program->ops[i];
        snprintf(r->what, sizeof r->what, "%s: operation %d (%s)", r->m->name, i,
                 op->kind == QG_OP_CLEAR ? "clear" : op->kernel);
        status = op->kind == QG_OP_CLEAR ? do_clear(r, op, err) : do_launch(r, i, err);
    }
    return status;
}

qg_status qhx_run(qhx_module *m, const qg_call *call, qg_error *err) {
    qhx_stacks_node *node = qhx_executor_take_stacks(m->executor);
    if (!node) return qg_fail(err, QG_NO_MEMORY, "host executor", "no memory", "");
    run r = {.m = m, .call = *call, .stacks = &node->stacks};
    qhx_context_own(&r.own);
    qhx_executor_order(m->executor, &r.order, &r.seed);
    qg_status status = run_ops(&r, err);
    free(r.offsets);
    free(r.owned);
    qhx_executor_give_stacks(m->executor, node);
    return status;
}
