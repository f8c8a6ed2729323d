#include "runtime/api.h"
#include <stdlib.h>
#include <string.h>

static json_t *device_json(const qg_device *d) {
    return json_pack("{s:s, s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "name", d->name, "arch", d->arch, "sms",
                     (json_int_t)d->sms, "smem_optin", (json_int_t)d->smem_optin, "smem_sm",
                     (json_int_t)d->smem_sm, "regs", (json_int_t)d->regs, "l2", (json_int_t)d->l2,
                     "max_cluster", (json_int_t)d->max_cluster, "memory", (json_int_t)d->memory);
}

static char *describe(const qrs_context *context) {
    json_t *driver = json_null();
    if (context->dev) {
        const qrt_driver *d = qrt_device_driver(context->dev);
        driver = json_pack("{s:s, s:i}", "library", d->path, "cuda_version", d->version);
    }
    json_t *root = json_pack("{s:s, s:o, s:o, s:s, s:s}", "version", qrs_version_text(), "device",
                             device_json(&context->record), "driver", driver, "cache",
                             qrt_cache_directory(qrt_compiler_cache(context->compiler)), "cache_trouble",
                             qrt_cache_trouble(qrt_compiler_cache(context->compiler)));
    char *text = json_dumps(root, JSON_COMPACT);
    json_decref(root);
    return text;
}

static qrs_status open_library(qrs_context *context, const qrs_context_options *o) {
    qg_error err;
    qg_library_options options = {.templates = o->templates, .tuned = o->tuned};
    qrs_status status = qrt_report(qg_library_open(&options, &context->lib, &err), QRT_STAGE_PLAN, &err);
    for (int i = 0; !status && o->warn && qg_library_complaint(context->lib, i); i++)
        o->warn(o->warn_user, qg_library_complaint(context->lib, i));
    return status;
}

static qrs_status open_compiler(qrs_context *context, const qrs_context_options *o) {
    qg_error err;
    qrt_compiler_options options = {.nvrtc = o->nvrtc,
                                    .cache = {.dir = o->cache_dir,
                                              .shared_dir = o->shared_cache_dir,
                                              .warn = o->warn,
                                              .warn_user = o->warn_user},
                                    .lineinfo = o->flags & QRS_LINE_INFO,
                                    .threads = o->compile_threads};
    return qrt_report(qrt_compiler_open(&options, &context->compiler, &err), QRT_STAGE_COMPILE, &err);
}

static qrs_status open_device(qrs_context *context, const qrs_context_options *o) {
    qg_error err;
    if (o->device_profile)
        return qrt_report(qg_device_profile(o->device_profile, &context->record, &err), QRT_STAGE_PLAN, &err);
    qrs_status status = qrt_report(qrt_device_open(o->device, &context->dev, &err), QRT_STAGE_DEVICE, &err);
    if (!status) context->record = *qrt_device_record(context->dev);
    return status;
}

static qrs_status open_all(qrs_context *context, const qrs_context_options *o) {
    qrs_status status = open_library(context, o);
    if (!status) status = open_device(context, o);
    if (!status) status = open_compiler(context, o);
    if (status) return status;
    context->info = describe(context);
    return context->info ? QRS_OK : qrt_refuse(QRS_OUT_OF_MEMORY, "", "creating a context: out of memory");
}

/* The caller's options, with defaults in what its older struct doesn't have. */
static qrs_status read_options(const qrs_context_options *given, qrs_context_options *o) {
    *o = (qrs_context_options){.struct_size = sizeof *o};
    if (!given) return QRS_OK;
    if (given->struct_size < sizeof given->struct_size || given->struct_size > 4096)
        return qrt_refuse(QRS_BAD_ARGUMENT, "set it to sizeof(qrs_context_options)",
                          "qrs_context_options.struct_size is %zu", given->struct_size);
    memcpy(o, given, given->struct_size < sizeof *o ? given->struct_size : sizeof *o);
    if (o->flags & ~(QRS_BATCH_INVARIANT | QRS_LINE_INFO))
        return qrt_refuse(QRS_BAD_ARGUMENT, "QRS_BATCH_INVARIANT, QRS_LINE_INFO",
                          "qrs_context_options.flags is %#x", o->flags);
    if (o->device < QRS_CURRENT_DEVICE)
        return qrt_refuse(QRS_BAD_ARGUMENT, "0, 1, ... or QRS_CURRENT_DEVICE",
                          "qrs_context_options.device is %d", o->device);
    return QRS_OK;
}

qrs_status qrs_context_create(const qrs_context_options *given, qrs_context **out) {
    qrs_context_options options;
    if (!out) return qrt_refuse(QRS_BAD_ARGUMENT, "", "qrs_context_create: the result pointer is null");
    *out = NULL;
    qrs_status status = read_options(given, &options);
    if (status) return status;
    qrs_context *context = calloc(1, sizeof *context);
    if (!context) return qrt_refuse(QRS_OUT_OF_MEMORY, "", "creating a context: out of memory");
    atomic_init(&context->references, 1);
    context->batch_invariant = options.flags & QRS_BATCH_INVARIANT;
    status = open_all(context, &options);
    if (status)
        qrt_context_drop(context);
    else
        *out = context;
    return status;
}

void qrt_context_hold(qrs_context *context) {
    atomic_fetch_add(&context->references, 1);
}

void qrt_context_drop(qrs_context *context) {
    if (atomic_fetch_sub(&context->references, 1) > 1) return;
    qrt_compiler_close(context->compiler);
    qrt_device_close(context->dev);
    qg_library_close(context->lib);
    free(context->info);
    free(context);
}

void qrs_context_destroy(qrs_context *context) {
    if (context) qrt_context_drop(context);
}

const char *qrs_context_info(const qrs_context *context) {
    return context ? context->info : "";
}

qrs_status qrt_context_usable(const qrs_context *context) {
    if (!context->dev)
        return qrt_refuse(QRS_NO_DEVICE, "create the context for a real device to run kernels",
                          "%s: the context was made for a device profile", context->record.name);
    if (!qrt_device_alive(context->dev))
        return qrt_refuse(QRS_FORKED, "start CUDA only after fork(), or start the child with exec",
                          "%s: this process was forked after CUDA was started", context->record.name);
    return QRS_OK;
}
