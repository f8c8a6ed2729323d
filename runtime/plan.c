#include "runtime/api.h"
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------------------------------------- requests */

static qrs_status read_shape(const qrs_context *context, const qrs_shape *s, qg_shape *out) {
    if (s->m < 0 || s->n < 0 || s->m > QG_MAX_DIM || s->n > QG_MAX_DIM)
        return qrt_refuse(QRS_BAD_SHAPE, "rows and columns are 0 to 1048576", "shape %lld x %lld",
                          (long long)s->m, (long long)s->n);
    if (s->max_batch < 1 || s->max_batch > QG_MAX_BATCH)
        return qrt_refuse(QRS_BAD_SHAPE, "give the largest batch the plan will be used with, 1 to 2147483647",
                          "max_batch %lld", (long long)s->max_batch);
    if ((s->layout_in != QRS_ROW && s->layout_in != QRS_COL) ||
        (s->layout_out != QRS_ROW && s->layout_out != QRS_COL))
        return qrt_refuse(QRS_BAD_OPTION, "QRS_ROW or QRS_COL", "layouts %d and %d", (int)s->layout_in,
                          (int)s->layout_out);
    if (s->precision != QRS_FP32 && s->precision != QRS_FP16)
        return qrt_refuse(QRS_BAD_OPTION, "QRS_FP32 or QRS_FP16", "precision %d", (int)s->precision);
    *out = (qg_shape){.m = s->m,
                      .n = s->n,
                      .layout_in = s->layout_in == QRS_ROW ? QG_ROW : QG_COL,
                      .layout_out = s->layout_out == QRS_ROW ? QG_ROW : QG_COL,
                      .precision = s->precision == QRS_FP32 ? QG_FP32 : QG_FP16,
                      .operation = QG_GEQRF,
                      .max_batch = s->max_batch,
                      .batch_invariant = context->batch_invariant};
    return QRS_OK;
}

static qrs_status read_options(const qrs_plan_options *given, qrs_plan_options *o, json_t **params) {
    *o = (qrs_plan_options){.struct_size = sizeof *o};
    *params = NULL;
    if (!given) return QRS_OK;
    if (given->struct_size < sizeof given->struct_size || given->struct_size > 4096)
        return qrt_refuse(QRS_BAD_ARGUMENT, "set it to sizeof(qrs_plan_options)",
                          "qrs_plan_options.struct_size is %zu", given->struct_size);
    memcpy(o, given, given->struct_size < sizeof *o ? given->struct_size : sizeof *o);
    if (o->flags & ~QRS_DEFER)
        return qrt_refuse(QRS_BAD_ARGUMENT, "QRS_DEFER", "qrs_plan_options.flags is %#x", o->flags);
    if (!o->params) return QRS_OK;
    json_error_t error;
    *params = json_loads(o->params, JSON_REJECT_DUPLICATES, &error);
    if (!*params)
        return qrt_refuse(QRS_BAD_OPTION, "a JSON object like {\"panel\": 16}",
                          "plan parameters, column %d: %s", error.column, error.text);
    if (json_is_object(*params)) return QRS_OK;
    json_decref(*params);
    *params = NULL;
    return qrt_refuse(QRS_BAD_OPTION, "a JSON object like {\"panel\": 16}", "plan parameters: %s", o->params);
}

/* ---------------------------------------------------------------------------------------------- preparing */

static void note_report(qrs_plan *plan, const qrt_cubin *cubin) {
    plan->origin = cubin->origin;
    for (int i = 0; i < cubin->kernel_count; i++) {
        const qrt_kernel_report *k = &cubin->kernels[i];
        if (k->registers > plan->registers) plan->registers = k->registers;
        plan->spill_bytes += k->stack + k->spill_stores + k->spill_loads;
    }
    atomic_store(&plan->prepared, true);
}

static qrs_status prepare_locked(qrs_plan *plan) {
    qrs_context *context = plan->context;
    qg_error err;
    qrt_cubin *cubin;
    if (atomic_load(&plan->prepared)) return QRS_OK;
    qg_status failed = qrt_compile(context->compiler, context->lib, plan->plan->source,
                                   plan->plan->source_size, context->record.arch, &cubin, &err);
    if (failed) return qrt_report(failed, QRT_STAGE_COMPILE, &err);
    if (context->dev) {
        qrt_module *module = NULL;
        failed = qrt_module_from_cubin(context->dev, cubin, plan->plan, &module, &err);
        if (!failed) atomic_store_explicit(&plan->module, module, memory_order_release);
    }
    if (!failed) note_report(plan, cubin);
    qrt_cubin_free(cubin);
    return qrt_report(failed, QRT_STAGE_LAUNCH, &err);
}

qrs_status qrs_plan_prepare(qrs_plan *plan) {
    if (!plan) return qrt_refuse(QRS_BAD_ARGUMENT, "", "qrs_plan_prepare: the plan is null");
    if (!plan->plan) return QRS_OK;
    if (plan->context->dev) {
        qrs_status status = qrt_context_usable(plan->context);
        if (status) return status;
    }
    pthread_mutex_lock(&plan->mutex);
    qrs_status status = prepare_locked(plan);
    pthread_mutex_unlock(&plan->mutex);
    return status;
}

qrs_status qrt_plan_module(qrs_plan *plan, qrt_module **out) {
    *out = atomic_load_explicit(&plan->module, memory_order_acquire);
    if (*out) return QRS_OK;
    qrs_status status = qrt_context_usable(plan->context);
    if (!status) status = qrs_plan_prepare(plan);
    *out = atomic_load_explicit(&plan->module, memory_order_acquire);
    return status;
}

/* ---------------------------------------------------------------------------------------------- plans */

static qrs_status choose(qrs_plan *plan, const qg_shape *shape, const char *family, const json_t *params) {
    qg_error err;
    qg_request request = {.family = family, .params = params};
    qg_status failed =
        qg_plan_make(plan->context->lib, shape, &plan->context->record, &request, &plan->plan, &err);
    if (failed) return qrt_report(failed, QRT_STAGE_PLAN, &err);
    plan->params = json_dumps(plan->plan->params, JSON_COMPACT | JSON_SORT_KEYS);
    plan->program = json_dumps(plan->plan->program_json, JSON_COMPACT);
    if (plan->params && plan->program) return QRS_OK;
    return qrt_refuse(QRS_OUT_OF_MEMORY, "", "creating a plan: out of memory");
}

static qrs_status create(qrs_context *context, const qg_shape *shape, const qrs_plan_options *o,
                         const json_t *params, qrs_plan **out) {
    qrs_plan *plan = calloc(1, sizeof *plan);
    if (!plan) return qrt_refuse(QRS_OUT_OF_MEMORY, "", "creating a plan: out of memory");
    plan->context = context;
    qrt_context_hold(context);
    pthread_mutex_init(&plan->mutex, NULL);
    plan->shape = *shape;
    qg_shape_name(shape, plan->name, sizeof plan->name);
    bool empty = !shape->m || !shape->n;
    qrs_status status = empty ? QRS_OK : choose(plan, shape, o->family, params);
    if (!status && !(o->flags & QRS_DEFER)) status = qrs_plan_prepare(plan);
    if (status)
        qrs_plan_destroy(plan);
    else
        *out = plan;
    return status;
}

qrs_status qrs_plan_create(qrs_context *context, const qrs_shape *shape, const qrs_plan_options *given,
                           qrs_plan **out) {
    if (!context || !shape || !out)
        return qrt_refuse(QRS_BAD_ARGUMENT, "",
                          "qrs_plan_create: context, shape and result pointer must not be null");
    *out = NULL;
    qg_shape wanted;
    qrs_plan_options options;
    json_t *params = NULL;
    qrs_status status = read_shape(context, shape, &wanted);
    if (!status) status = read_options(given, &options, &params);
    if (!status) status = create(context, &wanted, &options, params, out);
    json_decref(params);
    return status;
}

void qrs_plan_destroy(qrs_plan *plan) {
    if (!plan) return;
    qrt_module_unload(atomic_load(&plan->module));
    qg_plan_free(plan->plan);
    pthread_mutex_destroy(&plan->mutex);
    free(plan->params);
    free(plan->program);
    qrt_context_drop(plan->context);
    free(plan);
}

qrs_status qrs_plan_info(const qrs_plan *plan, qrs_plan_facts *out) {
    if (!plan || !out || out->struct_size < sizeof out->struct_size)
        return qrt_refuse(QRS_BAD_ARGUMENT, "set struct_size to sizeof(qrs_plan_facts)",
                          "qrs_plan_info: plan and result must not be null, and the result's size set");
    bool prepared = atomic_load(&plan->prepared);
    const qg_plan *p = plan->plan;
    qrs_plan_facts facts = {.struct_size = out->struct_size,
                            .name = p ? p->name : plan->name,
                            .family = p ? p->family : "none",
                            .grade = qg_grade_name(p ? p->grade : QG_GRADE_DEFAULT),
                            .products = p ? p->products : "fp32",
                            .params = p ? plan->params : "{}",
                            .program = p ? plan->program : "{}",
                            .source = p ? p->source : "",
                            .origin = prepared ? qrt_origin_name(plan->origin) : "",
                            .registers = prepared ? plan->registers : 0,
                            .spill_bytes = prepared ? plan->spill_bytes : 0};
    memcpy(out, &facts, out->struct_size < sizeof facts ? out->struct_size : sizeof facts);
    return QRS_OK;
}
