#include "runtime/module.h"
#include "runtime/module_inside.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static qg_status no_memory(const qg_plan *plan, qg_error *err) {
    return qg_fail(err, QG_NO_MEMORY, plan->name, "out of memory", "");
}

/* ------------------------------------------------------------------------------------------ making ready */

static qrt_value ready_value(const qg_expr *expr) {
    qrt_value value = {.expr = expr};
    if (!expr || qg_expr_constant(expr, &value.constant)) value.expr = NULL;
    return value;
}

static int function_index(qrt_module *module, const char *name) {
    int i = 0;
    while (i < module->function_count && strcmp(module->functions[i].name, name))
        i++;
    if (i == module->function_count)
        module->functions[module->function_count++] = (qrt_function){.name = name};
    return i;
}

static void ready_attributes(qrt_op *ready) {
    if (ready->op->cooperative) {
        qrt_launch_attribute *a = &ready->attributes[ready->attribute_count++];
        a->id = QRT_LAUNCH_COOPERATIVE;
        a->value.cooperative = 1;
    }
    if (ready->op->cluster > 1) {
        qrt_launch_attribute *a = &ready->attributes[ready->attribute_count++];
        a->id = QRT_LAUNCH_CLUSTER;
        a->value.cluster[0] = (unsigned)ready->op->cluster;
        a->value.cluster[1] = a->value.cluster[2] = 1;
    }
    if (ready->op->early) {
        qrt_launch_attribute *a = &ready->attributes[ready->attribute_count++];
        a->id = QRT_LAUNCH_EARLY;
        a->value.early = 1;
    }
}

static qg_status ready_launch(qrt_module *module, qrt_op *ready, qg_error *err) {
    const qg_op *op = ready->op;
    int maps = 0;
    for (int i = 0; i < op->arg_count; i++)
        maps += op->args[i].kind == QG_ARG_TENSOR_MAP;
    if (op->arg_count > QRT_MAX_ARGS || maps > QRT_MAX_MAPS)
        return qg_failf(err, QG_UNSUPPORTED, module->plan->name, "pass fewer",
                        "kernel %s takes %d arguments with %d tensor maps; at most %d and %d are possible",
                        op->kernel, op->arg_count, maps, QRT_MAX_ARGS, QRT_MAX_MAPS);
    ready->args = calloc((size_t)op->arg_count + 1, sizeof *ready->args);
    if (!ready->args) return no_memory(module->plan, err);
    for (int i = 0; i < op->arg_count; i++)
        ready->args[i] = (qrt_arg){.arg = &op->args[i], .value = ready_value(op->args[i].expr)};
    for (int i = 0; i < 3; i++)
        ready->grid[i] = ready_value(op->grid[i]);
    ready->smem = ready_value(op->smem);
    ready->function = function_index(module, op->kernel);
    ready_attributes(ready);
    return QG_OK;
}

static qg_status make_ready(qrt_module *module, qg_error *err) {
    const qg_program *program = module->plan->program;
    if (program->buffer_count > QRT_MAX_BUFFERS)
        return qg_failf(err, QG_UNSUPPORTED, module->plan->name, "",
                        "%d workspace buffers; at most %d are possible", program->buffer_count,
                        QRT_MAX_BUFFERS);
    module->ops = calloc((size_t)program->op_count + 1, sizeof *module->ops);
    module->functions = calloc((size_t)program->op_count + 1, sizeof *module->functions);
    if (!module->ops || !module->functions) return no_memory(module->plan, err);
    qg_status status = QG_OK;
    for (int i = 0; !status && i < program->op_count; i++) {
        qrt_op *ready = &module->ops[module->op_count++];
        ready->op = &program->ops[i];
        if (ready->op->kind == QG_OP_LAUNCH) {
            status = ready_launch(module, ready, err);
        } else {
            ready->offset = ready_value(ready->op->offset);
            ready->bytes = ready_value(ready->op->bytes);
        }
    }
    return status;
}

/* ------------------------------------------------------------------------------------------ on the device */

static qg_status load_failed(const qrt_module *module, int result, qg_error *err) {
    const qrt_driver *d = qrt_device_driver(module->dev);
    qg_status status = qrt_driver_check(d, result, module->plan->name, err);
    bool mismatch = result == QRT_CUDA_INVALID_IMAGE || result == QRT_CUDA_NO_BINARY_FOR_GPU ||
                    result == QRT_CUDA_UNSUPPORTED_PTX_VERSION;
    if (mismatch && err)
        snprintf(
            err->fix, sizeof err->fix,
            "the driver (CUDA %d.%d) may be older than the NVRTC that made the cubin: update the driver, or "
            "name an NVRTC of CUDA %d in QRSMITH_NVRTC",
            d->version / 1000, d->version % 1000 / 10, d->version / 1000);
    return status;
}

static qg_status find_functions(qrt_module *module, qg_error *err) {
    const qrt_driver *d = qrt_device_driver(module->dev);
    int result = 0;
    for (int i = 0; !result && i < module->function_count; i++) {
        qrt_function *f = &module->functions[i];
        result = d->module_function(&f->handle, module->handle, f->name);
        if (result) {
            char what[256];
            snprintf(what, sizeof what, "%s: kernel %s", module->plan->name, f->name);
            return qrt_driver_check(d, result, what, err);
        }
        /* Asking for attributes also makes a lazily loading driver load the kernel now, outside any capture.
         */
        result = d->function_get(&f->registers, QRT_FUNCTION_REGISTERS, f->handle);
        if (!result) result = d->function_get(&f->static_smem, QRT_FUNCTION_STATIC_SMEM, f->handle);
        if (!result) result = d->function_get(&f->max_threads, QRT_FUNCTION_MAX_THREADS, f->handle);
    }
    return qrt_driver_check(d, result, module->plan->name, err);
}

static qg_status load_in_context(qrt_module *module, const void *image, qg_error *err) {
    const qrt_driver *d = qrt_device_driver(module->dev);
    /* Relaxed: loading must neither be refused by nor break a capture that is going on in this or another
     * thread. */
    int mode = QRT_CAPTURE_MODE_RELAXED;
    int exchanged = d->capture_mode(&mode);
    int result = d->module_load(&module->handle, image);
    qg_status status = result ? load_failed(module, result, err) : find_functions(module, err);
    if (!status) status = qrt_module_check(module, err);
    if (!exchanged) d->capture_mode(&mode);
    return status;
}

static qg_status copy_report(qrt_module *module, const qrt_cubin *cubin, qg_error *err) {
    module->report = *cubin;
    module->report.data = NULL;
    module->report.kernels = calloc((size_t)cubin->kernel_count + 1, sizeof *cubin->kernels);
    if (!module->report.kernels) return no_memory(module->plan, err);
    if (cubin->kernel_count)
        memcpy(module->report.kernels, cubin->kernels, (size_t)cubin->kernel_count * sizeof *cubin->kernels);
    return QG_OK;
}

static qg_status load(qrt_module *module, const qrt_cubin *cubin, qg_error *err) {
    qg_status status = copy_report(module, cubin, err);
    if (!status) status = make_ready(module, err);
    if (status) return status;
    bool entered;
    status = qrt_device_enter(module->dev, &entered, err);
    if (status) return status;
    status = load_in_context(module, cubin->data, err);
    qrt_device_leave(module->dev, entered);
    return status;
}

qg_status qrt_module_from_cubin(qrt_device *dev, const qrt_cubin *cubin, const qg_plan *plan,
                                qrt_module **out, qg_error *err) {
    qrt_module *module = calloc(1, sizeof *module);
    if (!module) return no_memory(plan, err);
    module->dev = dev;
    module->plan = plan;
    qg_status status = load(module, cubin, err);
    if (status) {
        qrt_module_unload(module);
        return status;
    }
    *out = module;
    return QG_OK;
}

qg_status qrt_module_load(qrt_device *dev, qrt_compiler *compiler, const qg_library *lib, const qg_plan *plan,
                          qrt_module **out, qg_error *err) {
    qrt_cubin *cubin;
    qg_status status =
        qrt_compile(compiler, lib, plan->source, plan->source_size, plan->device.arch, &cubin, err);
    if (status) return status;
    status = qrt_module_from_cubin(dev, cubin, plan, out, err);
    qrt_cubin_free(cubin);
    return status;
}

void qrt_module_unload(qrt_module *module) {
    if (!module) return;
    bool entered;
    if (module->handle && !qrt_device_enter(module->dev, &entered, NULL)) {
        qrt_device_driver(module->dev)
            ->module_unload(module->handle); /* fails harmlessly when the context is gone */
        qrt_device_leave(module->dev, entered);
    }
    for (int i = 0; i < module->op_count; i++)
        free(module->ops[i].args);
    free(module->ops);
    free(module->functions);
    free(module->report.kernels);
    free(module);
}

const qrt_cubin *qrt_module_cubin(const qrt_module *module) {
    return &module->report;
}

qg_status qrt_module_workspace(const qrt_module *module, const qg_call *call, int64_t *bytes, qg_error *err) {
    return qg_program_workspace(module->plan->program, call, qrt_device_record(module->dev), bytes, NULL,
                                err);
}
