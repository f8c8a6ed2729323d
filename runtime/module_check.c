/* Refusals at load: better a named reason when the plan is made than a driver's error at the thousandth call.
 */
#include "runtime/module_inside.h"
#include <stdio.h>
#include <string.h>

/* A call of the largest batch that the plan is for, matrices packed. */
static qg_call full_call(const qg_plan *plan) {
    const qg_shape *s = &plan->shape;
    int64_t lda = s->layout_in == QG_ROW ? s->n : s->m, ldh = s->layout_out == QG_ROW ? s->n : s->m;
    return (qg_call){.scalar = {[QG_BATCH] = s->max_batch,
                                [QG_LDA] = lda,
                                [QG_LDH] = ldh,
                                [QG_STRIDE_A] = s->m * s->n,
                                [QG_STRIDE_H] = s->m * s->n,
                                [QG_STRIDE_TAU] = s->m < s->n ? s->m : s->n}};
}

static qg_status refuse(const qrt_module *module, const qrt_op *op, const char *thing, int64_t asked,
                        int64_t available, qg_error *err) {
    char what[384];
    snprintf(what, sizeof what, "%s: kernel %s on %s", module->plan->name, op->op->kernel,
             module->plan->device.name);
    return qg_failf(err, QG_UNSUPPORTED, what, "choose other parameters or another family",
                    "asks for %lld %s, available are %lld", (long long)asked, thing, (long long)available);
}

static qg_status opt_in(qrt_module *module, const qrt_op *op, int64_t smem, qg_error *err) {
    const qrt_driver *d = qrt_device_driver(module->dev);
    qrt_function *f = &module->functions[op->function];
    int64_t available = qrt_device_record(module->dev)->smem_optin - f->static_smem;
    if (smem > available)
        return refuse(module, op, "bytes of dynamic shared memory a block", smem, available, err);
    int result = 0;
    if (smem > f->smem) {
        result = d->function_set(f->handle, QRT_FUNCTION_MAX_DYNAMIC_SMEM, (int)smem);
        f->smem = smem;
    }
    if (!result && op->op->cluster > 8)
        result = d->function_set(f->handle, QRT_FUNCTION_NON_PORTABLE_CLUSTER, 1);
    return qrt_driver_check(d, result, module->plan->name, err);
}

static qg_status check_cluster(const qrt_module *module, const qrt_op *op, const unsigned grid[3],
                               int64_t smem, qg_error *err) {
    const qrt_driver *d = qrt_device_driver(module->dev);
    int64_t largest = qrt_device_record(module->dev)->max_cluster;
    int clusters = 0;
    if (largest <= 1) return refuse(module, op, "blocks a cluster", op->op->cluster, 1, err);
    if (!d->max_clusters) return QG_OK;
    qrt_launch_attribute attributes[QRT_LAUNCH_ATTRIBUTES];
    memcpy(attributes, op->attributes, sizeof attributes);
    qrt_launch_config config = {.grid = {grid[0], grid[1], grid[2]},
                                .block = {(unsigned)op->op->block, 1, 1},
                                .smem = (unsigned)smem,
                                .attributes = attributes,
                                .attribute_count = op->attribute_count};
    int result = d->max_clusters(&clusters, module->functions[op->function].handle, &config);
    if (!result && clusters >= 1) return QG_OK;
    return refuse(module, op, "resident clusters of its size", 1, 0, err);
}

static qg_status check_cooperative(const qrt_module *module, const qrt_op *op, const unsigned grid[3],
                                   int64_t smem, qg_error *err) {
    const qrt_driver *d = qrt_device_driver(module->dev);
    int blocks = 0;
    int result = d->occupancy(&blocks, module->functions[op->function].handle, op->op->block, (size_t)smem);
    if (result) return qrt_driver_check(d, result, module->plan->name, err);
    int64_t available = blocks * qrt_device_record(module->dev)->sms;
    int64_t asked = (int64_t)grid[0] * grid[1] * grid[2];
    return asked > available ? refuse(module, op, "blocks resident at once", asked, available, err) : QG_OK;
}

static qg_status check_launch(qrt_module *module, const qrt_op *op, const qg_call *call, qg_error *err) {
    const qrt_function *f = &module->functions[op->function];
    int64_t smem = 0;
    unsigned grid[3];
    bool empty = false;
    qg_status status = qrt_value_get(&op->smem, call, qrt_device_record(module->dev), &smem, err);
    if (!status && op->op->block > f->max_threads)
        status = refuse(module, op, "threads a block with its registers", op->op->block, f->max_threads, err);
    if (!status) status = opt_in(module, op, smem, err);
    if (!status) status = qrt_op_grid(module, op, call, grid, &empty, err);
    if (!status && !empty && op->op->cluster > 1) status = check_cluster(module, op, grid, smem, err);
    if (!status && !empty && op->op->cooperative) status = check_cooperative(module, op, grid, smem, err);
    return status;
}

qg_status qrt_module_check(qrt_module *module, qg_error *err) {
    qg_call call = full_call(module->plan);
    qg_status status = QG_OK;
    for (int i = 0; !status && i < module->op_count; i++)
        if (module->ops[i].op->kind == QG_OP_LAUNCH)
            status = check_launch(module, &module->ops[i], &call, err);
    return status;
}
