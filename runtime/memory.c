/* Memory, streams and events of a device: each a driver call inside the device's context. */
#include "runtime/device.h"
#include <stdint.h>

/* `call` uses d, the driver; its result becomes the function's. */
#define IN_CONTEXT(dev, what, call)                                                                          \
    do {                                                                                                     \
        const qrt_driver *d = qrt_device_driver(dev);                                                        \
        bool entered;                                                                                        \
        qg_status status = qrt_device_enter(dev, &entered, err);                                             \
        if (status) return status;                                                                           \
        int result = (call);                                                                                 \
        qrt_device_leave(dev, entered);                                                                      \
        return qrt_driver_check(d, result, what, err);                                                       \
    } while (0)

#define ADDRESS(p) ((qrt_address)(uintptr_t)(p))

static qg_status allocate(qrt_device *dev, int64_t bytes, qrt_address *address, qg_error *err) {
    IN_CONTEXT(dev, "allocating device memory", d->memory_alloc(address, (size_t)bytes));
}

qg_status qrt_memory_alloc(qrt_device *dev, int64_t bytes, void **out, qg_error *err) {
    qrt_address address = 0;
    *out = NULL;
    if (bytes < 0)
        return qg_failf(err, QG_BAD_INPUT, "allocating device memory", "", "%lld bytes", (long long)bytes);
    qg_status status = bytes ? allocate(dev, bytes, &address, err) : QG_OK;
    if (!status) *out = (void *)(uintptr_t)address;
    return status;
}

void qrt_memory_free(qrt_device *dev, void *memory) {
    bool entered;
    if (!memory || qrt_device_enter(dev, &entered, NULL)) return;
    qrt_device_driver(dev)->memory_free(ADDRESS(memory));
    qrt_device_leave(dev, entered);
}

static qg_status memory_sizes(qrt_device *dev, size_t *free_bytes, size_t *total, qg_error *err) {
    IN_CONTEXT(dev, "reading free device memory", d->memory_info(free_bytes, total));
}

qg_status qrt_memory_info(qrt_device *dev, int64_t *free_bytes, int64_t *total_bytes, qg_error *err) {
    size_t unused = 0, total = 0;
    qg_status status = memory_sizes(dev, &unused, &total, err);
    *free_bytes = (int64_t)unused;
    *total_bytes = (int64_t)total;
    return status;
}

qg_status qrt_memory_set(qrt_device *dev, void *memory, int byte, int64_t bytes, void *stream,
                         qg_error *err) {
    if (bytes <= 0) return QG_OK;
    IN_CONTEXT(dev, "filling device memory",
               d->memory_set8(ADDRESS(memory), (unsigned char)byte, (size_t)bytes, stream));
}

/* The driver's copy may return once pageable memory is staged, before all of it is on the device. It belongs
 * to the default stream, which non-blocking streams do not wait for: so that is waited for here. */
static int copy_and_wait(const qrt_driver *d, qrt_address target, const void *source, size_t bytes) {
    int result = d->copy_to_device(target, source, bytes);
    return result ? result : d->stream_sync(NULL);
}

qg_status qrt_copy_to_device(qrt_device *dev, void *target, const void *source, int64_t bytes,
                             qg_error *err) {
    if (bytes <= 0) return QG_OK;
    IN_CONTEXT(dev, "copying to the device", copy_and_wait(d, ADDRESS(target), source, (size_t)bytes));
}

qg_status qrt_copy_to_host(qrt_device *dev, void *target, const void *source, int64_t bytes, qg_error *err) {
    if (bytes <= 0) return QG_OK;
    IN_CONTEXT(dev, "copying from the device", d->copy_to_host(target, ADDRESS(source), (size_t)bytes));
}

qg_status qrt_copy_on_device(qrt_device *dev, void *target, const void *source, int64_t bytes, void *stream,
                             qg_error *err) {
    if (bytes <= 0) return QG_OK;
    IN_CONTEXT(dev, "copying on the device",
               d->copy_on_device(ADDRESS(target), ADDRESS(source), (size_t)bytes, stream));
}

qg_status qrt_stream_create(qrt_device *dev, void **out, qg_error *err) {
    IN_CONTEXT(dev, "creating a stream", d->stream_create(out, QRT_STREAM_NON_BLOCKING));
}

void qrt_stream_destroy(qrt_device *dev, void *stream) {
    bool entered;
    if (!stream || qrt_device_enter(dev, &entered, NULL)) return;
    qrt_device_driver(dev)->stream_destroy(stream);
    qrt_device_leave(dev, entered);
}

qg_status qrt_stream_sync(qrt_device *dev, void *stream, qg_error *err) {
    IN_CONTEXT(dev, "waiting for the GPU", d->stream_sync(stream));
}

static qg_status capture_status(const qrt_device *dev, void *stream, int *status_out, qg_error *err) {
    IN_CONTEXT(dev, "asking whether a stream is being captured", d->stream_capturing(stream, status_out));
}

qg_status qrt_stream_capturing(const qrt_device *dev, void *stream, bool *capturing, qg_error *err) {
    int status = QRT_CAPTURE_NONE;
    qg_status failed = capture_status(dev, stream, &status, err);
    *capturing = failed || status != QRT_CAPTURE_NONE;
    return failed;
}

qg_status qrt_event_create(qrt_device *dev, void **out, qg_error *err) {
    IN_CONTEXT(dev, "creating an event", d->event_create(out, 0));
}

void qrt_event_destroy(qrt_device *dev, void *event) {
    bool entered;
    if (!event || qrt_device_enter(dev, &entered, NULL)) return;
    qrt_device_driver(dev)->event_destroy(event);
    qrt_device_leave(dev, entered);
}

qg_status qrt_event_record(qrt_device *dev, void *event, void *stream, qg_error *err) {
    IN_CONTEXT(dev, "recording an event", d->event_record(event, stream));
}

static qg_status wait_event(qrt_device *dev, void *event, qg_error *err) {
    IN_CONTEXT(dev, "waiting for the GPU", d->event_sync(event));
}

static qg_status elapsed(qrt_device *dev, void *start, void *stop, float *milliseconds, qg_error *err) {
    IN_CONTEXT(dev, "reading a time", d->event_elapsed(milliseconds, start, stop));
}

qg_status qrt_event_elapsed(qrt_device *dev, void *start, void *stop, double *microseconds, qg_error *err) {
    float milliseconds = 0;
    qg_status status = wait_event(dev, stop, err);
    if (!status) status = elapsed(dev, start, stop, &milliseconds, err);
    *microseconds = 1e3 * (double)milliseconds;
    return status;
}
