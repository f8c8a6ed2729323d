/* Device memory, copies and streams for programs without the CUDA headers. */
#include "runtime/api.h"

static qrs_status usable(const qrs_context *context, const char *function) {
    if (!context) return qrt_refuse(QRS_BAD_ARGUMENT, "", "%s: the context is null", function);
    return qrt_context_usable(context);
}

#define CALL(context, function, call)                                                                        \
    do {                                                                                                     \
        qg_error err;                                                                                        \
        qrs_status status = usable(context, function);                                                       \
        return status ? status : qrt_report((call), QRT_STAGE_LAUNCH, &err);                                 \
    } while (0)

qrs_status qrs_memory_alloc(qrs_context *context, int64_t bytes, void **out) {
    if (!out) return qrt_refuse(QRS_BAD_ARGUMENT, "", "qrs_memory_alloc: the result pointer is null");
    CALL(context, "qrs_memory_alloc", qrt_memory_alloc(context->dev, bytes, out, &err));
}

void qrs_memory_free(qrs_context *context, void *memory) {
    if (context && context->dev) qrt_memory_free(context->dev, memory);
}

qrs_status qrs_copy_to_device(qrs_context *context, void *target, const void *source, int64_t bytes) {
    CALL(context, "qrs_copy_to_device", qrt_copy_to_device(context->dev, target, source, bytes, &err));
}

qrs_status qrs_copy_to_host(qrs_context *context, void *target, const void *source, int64_t bytes) {
    CALL(context, "qrs_copy_to_host", qrt_copy_to_host(context->dev, target, source, bytes, &err));
}

qrs_status qrs_stream_create(qrs_context *context, void **out) {
    if (!out) return qrt_refuse(QRS_BAD_ARGUMENT, "", "qrs_stream_create: the result pointer is null");
    CALL(context, "qrs_stream_create", qrt_stream_create(context->dev, out, &err));
}

void qrs_stream_destroy(qrs_context *context, void *stream) {
    if (context && context->dev) qrt_stream_destroy(context->dev, stream);
}

qrs_status qrs_stream_wait(qrs_context *context, void *stream) {
    CALL(context, "qrs_stream_wait", qrt_stream_sync(context->dev, stream, &err));
}
