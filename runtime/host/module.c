#include "runtime/host/module.h"

#include "runtime/host/race.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char letter_of(const qg_arg *a) {
    static const char letters[] = {
        [QG_ARG_I32] = 'i',     [QG_ARG_I64] = 'l',       [QG_ARG_F32] = 'f',       [QG_ARG_CALL] = 'l',
        [QG_ARG_POINTER] = 'p', [QG_ARG_WORKSPACE] = 'p', [QG_ARG_TENSOR_MAP] = 'm'};
    return letters[a->kind];
}

static qg_status check_arguments(const qg_op *op, const qhx_kernel *k, const char *what, qg_error *err) {
    size_t takes = strlen(k->args);
    if (takes != (size_t)op->arg_count)
        return qg_failf(err, QG_INTERNAL, what, "", "the kernel takes %zu arguments, the program gives %d",
                        takes, op->arg_count);
    for (int i = 0; i < op->arg_count; i++)
        if (k->args[i] != letter_of(&op->args[i]))
            return qg_failf(err, QG_INTERNAL, what, "i i32, l i64, f f32, p pointer, m tensor map",
                            "argument %d is of type '%c' in the kernel, '%c' in the program", i, k->args[i],
                            letter_of(&op->args[i]));
    return QG_OK;
}

static qg_status bind(qhx_module *m, int i, qg_error *err) {
    const qg_op *op = &m->program->ops[i];
    char symbol[256], what[512];
    if (op->kind != QG_OP_LAUNCH) return QG_OK;
    snprintf(what, sizeof what, "%s: kernel %s", m->name, op->kernel);
    snprintf(symbol, sizeof symbol, "qrs_kernel_%s", op->kernel);
    const qhx_kernel *k = dlsym(m->object, symbol);
    if (!k)
        return qg_fail(err, QG_INTERNAL, what, "the source has no kernel of that name",
                       "declare it with QRS_KERNEL(name, threads, min_blocks) and QRS_ENTRY(name)");
    if (k->abi != QHX_ABI)
        return qg_failf(err, QG_INTERNAL, what, "use the templates of this library",
                        "the device headers speak version %u of the interface, the executor %d", k->abi,
                        QHX_ABI);
    m->kernel[i] = k;
    return check_arguments(op, k, what, err);
}

static qg_status open_object(qhx_module *m, const qg_library *lib, const qg_plan *plan, qg_error *err) {
    const qhx_compiler *compiler;
    char path[QHX_PATH];
    qg_status status = qhx_executor_compiler(m->executor, &compiler, err);
    if (status != QG_OK) return status;
    qhx_object_request request = {.compiler = compiler,
                                  .sanitize = m->executor->sanitize,
                                  .dir = m->executor->dir,
                                  .lib = lib,
                                  .name = plan->name,
                                  .source = plan->source,
                                  .source_size = plan->source_size};
    status = qhx_object_get(&request, path, &m->compiled, err);
    if (status != QG_OK) return status;
    m->object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!m->object) return qg_fail(err, QG_ENVIRONMENT, path, dlerror(), "");
    return QG_OK;
}

static qg_status fill(qhx_module *m, const qg_library *lib, const qg_plan *plan, qg_error *err) {
    m->name = strdup(plan->name ? plan->name : "kernel");
    if (!m->name) return qg_fail(err, QG_NO_MEMORY, "host executor", "no memory", "");
    m->shape = plan->shape;
    m->device = plan->device;
    qg_status status = qg_program_parse(plan->program_json, m->name, &m->program, err);
    if (status != QG_OK) return status;
    m->kernel = calloc((size_t)m->program->op_count + 1, sizeof(void *));
    if (!m->kernel) return qg_fail(err, QG_NO_MEMORY, "host executor", "no memory", "");
    status = open_object(m, lib, plan, err);
    for (int i = 0; status == QG_OK && i < m->program->op_count; i++)
        status = bind(m, i, err);
    return status;
}

qg_status qhx_load(qhx_executor *ex, const qg_library *lib, const qg_plan *plan, qhx_module **out,
                   qg_error *err) {
    *out = NULL;
    qhx_module *m = calloc(1, sizeof *m);
    if (!m) return qg_fail(err, QG_NO_MEMORY, "host executor", "no memory", "");
    m->executor = ex;
    qg_status status = fill(m, lib, plan, err);
    if (status != QG_OK) {
        qhx_unload(m);
        return status;
    }
    *out = m;
    return QG_OK;
}

void qhx_unload(qhx_module *m) {
    if (!m) return;
    if (m->object && !QHX_TSAN) dlclose(m->object); /* a report names lines of kernels that have run */
    qg_program_free(m->program);
    free(m->kernel);
    free(m->name);
    free(m);
}

bool qhx_compiled(const qhx_module *m) {
    return m->compiled;
}
