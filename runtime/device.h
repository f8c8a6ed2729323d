/* A CUDA device: the driver, one CUDA context on it, and its record. Safe to share between threads.
 *
 * Also the few memory, stream and event calls that the command line, the judge and the examples need, so that
 * they too build without CUDA headers. Streams and events are the driver's handles (CUstream, CUevent) as
 * void *; a NULL stream is the legacy default stream. Nothing here changes which context is current for the
 * caller. */
#ifndef QRT_DEVICE_H
#define QRT_DEVICE_H

#include "gen/device.h"
#include "runtime/driver.h"
#include <stdbool.h>

typedef struct qrt_device qrt_device;

#define QRT_CURRENT_DEVICE (-1) /* the calling thread's current CUDA context, whatever its device */

/* `ordinal` counts as the driver does (CUDA_VISIBLE_DEVICES applies) and takes that device's primary context.
 * QG_ENVIRONMENT: no driver, no such device, nothing current. An arch that qg_compile_target() doesn't know
 * is QG_UNSUPPORTED. */
qg_status qrt_device_open(int ordinal, qrt_device **out, qg_error *err);
void qrt_device_close(qrt_device *dev); /* NULL is fine; also after the CUDA context died */

const qg_device *qrt_device_record(const qrt_device *dev);
const qrt_driver *qrt_device_driver(const qrt_device *dev);
int qrt_device_ordinal(const qrt_device *dev);

/* Number of devices, 0 with a reason in *err when there is none or no driver. Loads the driver for the
 * moment. */
int qrt_device_count(qg_error *err);

/* False in a child process that was forked after the device was opened: CUDA doesn't survive that. Costs one
 * load. */
bool qrt_device_alive(const qrt_device *dev);

/* Makes the device's context current for this thread and takes it back. `entered` says whether there is
 * something to undo. */
qg_status qrt_device_enter(const qrt_device *dev, bool *entered, qg_error *err);
void qrt_device_leave(const qrt_device *dev, bool entered);

qg_status qrt_memory_alloc(qrt_device *dev, int64_t bytes, void **out,
                           qg_error *err); /* 256-aligned; 0 bytes: NULL */
void qrt_memory_free(qrt_device *dev, void *memory);
qg_status qrt_memory_info(qrt_device *dev, int64_t *free_bytes, int64_t *total_bytes, qg_error *err);
qg_status qrt_memory_set(qrt_device *dev, void *memory, int byte, int64_t bytes, void *stream, qg_error *err);
/* These two return when the copy is done. They are not ordered after work on non-blocking streams:
 * synchronise first. */
qg_status qrt_copy_to_device(qrt_device *dev, void *target, const void *source, int64_t bytes, qg_error *err);
qg_status qrt_copy_to_host(qrt_device *dev, void *target, const void *source, int64_t bytes, qg_error *err);
qg_status qrt_copy_on_device(qrt_device *dev, void *target, const void *source, int64_t bytes, void *stream,
                             qg_error *err);

qg_status qrt_stream_create(qrt_device *dev, void **out, qg_error *err); /* non-blocking */
void qrt_stream_destroy(qrt_device *dev, void *stream);
qg_status qrt_stream_sync(qrt_device *dev, void *stream, qg_error *err);
qg_status qrt_stream_capturing(const qrt_device *dev, void *stream, bool *capturing, qg_error *err);

qg_status qrt_event_create(qrt_device *dev, void **out, qg_error *err);
void qrt_event_destroy(qrt_device *dev, void *event);
qg_status qrt_event_record(qrt_device *dev, void *event, void *stream, qg_error *err);
/* Waits for `stop`, then gives the time between the two. */
qg_status qrt_event_elapsed(qrt_device *dev, void *start, void *stop, double *microseconds, qg_error *err);

#endif
