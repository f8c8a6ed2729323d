/* qrs_geqrf: every rule about its arguments, then the plan's launches. */
#include "runtime/api.h"

typedef struct problem { /* the arguments, with what follows from the plan */
    const qg_shape *shape;
    int64_t batch, k;
    const float *A;
    int64_t lda, stride_a;
    float *H;
    int64_t ldh, stride_h;
    float *tau;
    int64_t stride_tau;
    int32_t *info;
    void *workspace;
    int64_t bytes;
} problem;

/* ---------------------------------------------------------------------------------------------- one array */

static qrs_status check_pointer(const char *name, const void *pointer, uintptr_t alignment) {
    if (!pointer) return qrt_refuse(QRS_NULL_POINTER, "", "qrs_geqrf: %s is null", name);
    if ((uintptr_t)pointer % alignment == 0) return QRS_OK;
    return qrt_refuse(QRS_MISALIGNED, "", "qrs_geqrf: %s = %p isn't aligned to %d bytes", name, pointer,
                      (int)alignment);
}

/* Elements from the first to the last of one matrix; 0 when that passes int64. */
static int64_t extent_of(const qg_shape *s, qg_layout layout, int64_t ld) {
    int64_t length = layout == QG_ROW ? s->n : s->m, lines = layout == QG_ROW ? s->m : s->n, extent;
    if (__builtin_mul_overflow(lines - 1, ld, &extent) || __builtin_add_overflow(extent, length, &extent))
        return 0;
    return extent;
}

static qrs_status bad_stride(const char *name, int64_t stride, int64_t least) {
    return qrt_refuse(QRS_BAD_STRIDE, "",
                      "qrs_geqrf: stride of %s is %lld, at least %lld keeps the matrices apart", name,
                      (long long)stride, (long long)least);
}

/* Apart, or side by side within the leading dimension; and all offsets within 2^60 bytes. */
static qrs_status check_stride(const char *name, int64_t batch, int64_t stride, int64_t extent,
                               int64_t length, int64_t ld) {
    int64_t span;
    if (batch == 1) return QRS_OK;
    if (stride < 0 || __builtin_mul_overflow(batch, stride, &span) || span > INT64_MAX / 8)
        return bad_stride(name, stride, extent);
    bool apart = stride >= extent, side_by_side = stride >= length && span - stride + length <= ld;
    return apart || side_by_side ? QRS_OK : bad_stride(name, stride, extent);
}

static qrs_status check_matrix(const problem *p, const char *name, qg_layout layout, int64_t ld,
                               int64_t stride) {
    int64_t length = layout == QG_ROW ? p->shape->n : p->shape->m;
    if (ld < length)
        return qrt_refuse(QRS_BAD_LEADING_DIMENSION, "",
                          "qrs_geqrf: leading dimension of %s is %lld, its %s is %lld long", name,
                          (long long)ld, layout == QG_ROW ? "row" : "column", (long long)length);
    int64_t extent = extent_of(p->shape, layout, ld);
    if (extent <= 0 || extent > INT64_MAX / 8)
        return qrt_refuse(QRS_BAD_LEADING_DIMENSION, "",
                          "qrs_geqrf: leading dimension of %s is %lld, past any memory", name, (long long)ld);
    return check_stride(name, p->batch, stride, extent, length, ld);
}

/* ---------------------------------------------------------------------------------------------- several
 * arrays */

typedef struct span { /* `count` pieces of `extent` bytes, `stride` bytes apart */
    const char *name;
    uintptr_t base;
    uint64_t extent, stride, count;
} span;

static uint64_t whole(const span *s) {
    return (s->count - 1) * s->stride + s->extent;
}

/* Whether they share a byte, as far as that is cheap to know: arrays of equal stride may interleave, as
 * records do. */
static bool share(const span *a, const span *b) {
    if (a->base + whole(a) <= b->base || b->base + whole(b) <= a->base) return false;
    if (a->count < 2 || a->stride != b->stride || a->extent > a->stride || b->extent > b->stride) return true;
    uint64_t stride = a->stride;
    uint64_t ahead =
        b->base >= a->base ? (b->base - a->base) % stride : (stride - (a->base - b->base) % stride) % stride;
    return ahead < a->extent || ahead + b->extent > stride;
}

static bool in_place(const problem *p) {
    return p->A == p->H && p->shape->layout_in == p->shape->layout_out && p->lda == p->ldh &&
           (p->batch == 1 || p->stride_a == p->stride_h);
}

static qrs_status check_overlap(const problem *p) {
    const qg_shape *s = p->shape;
    uint64_t count = (uint64_t)p->batch;
    const span spans[] = {
        {"A", (uintptr_t)p->A, 4 * (uint64_t)extent_of(s, s->layout_in, p->lda), 4 * (uint64_t)p->stride_a,
         count},
        {"H", (uintptr_t)p->H, 4 * (uint64_t)extent_of(s, s->layout_out, p->ldh), 4 * (uint64_t)p->stride_h,
         count},
        {"tau", (uintptr_t)p->tau, 4 * (uint64_t)p->k, 4 * (uint64_t)p->stride_tau, count},
        {"info", (uintptr_t)p->info, p->info ? 4 * count : 0, 0, 1},
        {"workspace", (uintptr_t)p->workspace, p->workspace ? (uint64_t)p->bytes : 0, 0, 1},
    };
    int n = sizeof spans / sizeof *spans;
    for (int i = 0; i < n; i++)
        for (int j = i + 1; j < n; j++) {
            if (!spans[i].extent || !spans[j].extent || (i == 0 && j == 1 && in_place(p))) continue;
            if (share(&spans[i], &spans[j]))
                return qrt_refuse(QRS_OVERLAP,
                                  "in place means H == A with equal layout, leading dimension and stride",
                                  "qrs_geqrf: %s and %s overlap", spans[i].name, spans[j].name);
        }
    return QRS_OK;
}

static qrs_status check(const problem *p) {
    qrs_status status = check_pointer("A", p->A, 4);
    if (!status) status = check_pointer("H", p->H, 4);
    if (!status) status = check_pointer("tau", p->tau, 4);
    if (!status && p->info) status = check_pointer("info", p->info, 4);
    if (!status) status = check_matrix(p, "A", p->shape->layout_in, p->lda, p->stride_a);
    if (!status) status = check_matrix(p, "H", p->shape->layout_out, p->ldh, p->stride_h);
    if (!status) status = check_stride("tau", p->batch, p->stride_tau, p->k, p->k, 0);
    return status;
}

static qrs_status check_workspace(const problem *p, const qg_plan *plan, const qg_call *call) {
    qg_error err;
    int64_t needed;
    qg_status failed = qg_program_workspace(plan->program, call, &plan->device, &needed, NULL, &err);
    if (failed) return qrt_report(failed, QRT_STAGE_PLAN, &err);
    if (p->bytes < needed)
        return qrt_refuse(QRS_WORKSPACE_TOO_SMALL, "", "qrs_geqrf: workspace of %lld bytes, needed are %lld",
                          (long long)p->bytes, (long long)needed);
    return needed ? check_pointer("workspace", p->workspace, 256) : QRS_OK;
}

/* ---------------------------------------------------------------------------------------------- calls */

/* What may take a while happens at a deferred plan's first use, and never under capture. */
static qrs_status ready_module(qrs_plan *plan, void *stream, qrt_module **module) {
    *module = atomic_load_explicit(&plan->module, memory_order_acquire);
    if (*module) return QRS_OK;
    qrs_status status = qrt_context_usable(plan->context);
    if (status) return status;
    qg_error err;
    bool capturing;
    qg_status failed = qrt_stream_capturing(plan->context->dev, stream, &capturing, &err);
    if (failed || capturing)
        return qrt_refuse(QRS_NOT_READY, "call qrs_plan_prepare before the capture",
                          "%s: the first use of a deferred plan is under stream capture", plan->plan->name);
    return qrt_plan_module(plan, module);
}

static qrs_status launch(qrs_plan *plan, const qg_call *call, void *stream) {
    qg_error err;
    qrt_module *module;
    qrs_status status = ready_module(plan, stream, &module);
    if (status) return status;
    qg_status failed = qrt_module_launch(module, call, stream, &err);
    if (failed && !qrt_device_alive(plan->context->dev)) return qrt_context_usable(plan->context);
    return qrt_report(failed, QRT_STAGE_LAUNCH, &err);
}

static qg_call call_of(const problem *p) {
    return (qg_call){.scalar = {[QG_BATCH] = p->batch,
                                [QG_LDA] = p->lda,
                                [QG_LDH] = p->ldh,
                                [QG_STRIDE_A] = p->stride_a,
                                [QG_STRIDE_H] = p->stride_h,
                                [QG_STRIDE_TAU] = p->stride_tau},
                     .pointer = {[QG_PTR_A] = (void *)(uintptr_t)p->A,
                                 [QG_PTR_H] = p->H,
                                 [QG_PTR_TAU] = p->tau,
                                 [QG_PTR_INFO] = p->info},
                     .workspace = p->workspace};
}

static qrs_status check_batch(const char *function, const qrs_plan *plan, int64_t batch) {
    if (!plan) return qrt_refuse(QRS_BAD_ARGUMENT, "", "%s: the plan is null", function);
    int64_t most = plan->shape.max_batch;
    if (batch < 0 || batch > most)
        return qrt_refuse(QRS_BAD_BATCH, "make a plan with a larger max_batch",
                          "%s: batch %lld, the plan is for 0 to %lld", function, (long long)batch,
                          (long long)most);
    return QRS_OK;
}

static bool nothing_to_do(const qg_shape *s, int64_t batch) {
    return !batch || !s->m || !s->n;
}

qrs_status qrs_geqrf(qrs_plan *plan, void *stream, int64_t batch, const float *A, int64_t lda,
                     int64_t stride_a, float *H, int64_t ldh, int64_t stride_h, float *tau,
                     int64_t stride_tau, int32_t *info, void *workspace, int64_t bytes) {
    qrs_status status = check_batch("qrs_geqrf", plan, batch);
    if (status || nothing_to_do(&plan->shape, batch)) return status;
    const qg_shape *s = &plan->shape;
    problem p = {s,         batch,      s->m < s->n ? s->m : s->n,
                 A,         lda,        stride_a,
                 H,         ldh,        stride_h,
                 tau,       stride_tau, info,
                 workspace, bytes};
    status = check(&p);
    if (status) return status;
    qg_call call = call_of(&p);
    status = check_workspace(&p, plan->plan, &call);
    if (!status) status = check_overlap(&p);
    return status ? status : launch(plan, &call, stream);
}

qrs_status qrs_workspace_bytes(const qrs_plan *plan, int64_t batch, int64_t *bytes) {
    qrs_status status = check_batch("qrs_workspace_bytes", plan, batch);
    if (!status && !bytes)
        status = qrt_refuse(QRS_BAD_ARGUMENT, "", "qrs_workspace_bytes: the result pointer is null");
    if (status) return status;
    *bytes = 0;
    const qg_shape *s = &plan->shape;
    if (nothing_to_do(s, batch)) return QRS_OK;
    qg_call call = {.scalar = {[QG_BATCH] = batch,
                               [QG_LDA] = s->layout_in == QG_ROW ? s->n : s->m,
                               [QG_LDH] = s->layout_out == QG_ROW ? s->n : s->m,
                               [QG_STRIDE_A] = s->m * s->n,
                               [QG_STRIDE_H] = s->m * s->n,
                               [QG_STRIDE_TAU] = s->m < s->n ? s->m : s->n}};
    qg_error err;
    qg_status failed =
        qg_program_workspace(plan->plan->program, &call, &plan->plan->device, bytes, NULL, &err);
    return qrt_report(failed, QRT_STAGE_PLAN, &err);
}
