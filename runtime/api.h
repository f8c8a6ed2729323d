/* What the files behind qrsmith.h share: the objects and how an error reaches qrs_last_error(). Not for
 * others. */
#ifndef QRT_API_H
#define QRT_API_H

#include "runtime/qrsmith.h"
#include "runtime/runtime.h"
#include <pthread.h>
#include <stdatomic.h>

struct qrs_context {
    atomic_int references; /* the user's, and one a plan */
    qg_library *lib;
    qrt_device *dev; /* NULL with a device profile */
    qrt_compiler *compiler;
    qg_device record;
    bool batch_invariant;
    char *info;
};

struct qrs_plan {
    qrs_context *context;
    qg_shape shape;
    qg_plan *plan;                /* NULL for a shape without rows or columns, which needs no kernels */
    char name[96];                /* of such a shape */
    _Atomic(qrt_module *) module; /* NULL until prepared; constant afterwards */
    pthread_mutex_t mutex;        /* of preparing */
    atomic_bool prepared;         /* report below is filled */
    char *params, *program;
    qrt_origin origin;
    int32_t registers, spill_bytes;
};

/* Where an error comes from decides what QG_ENVIRONMENT and QG_INTERNAL are called outside. */
typedef enum qrt_stage { QRT_STAGE_PLAN, QRT_STAGE_DEVICE, QRT_STAGE_COMPILE, QRT_STAGE_LAUNCH } qrt_stage;

/* Both set this thread's qrs_last_error() and return the status; the first one passes QG_OK through
 * untouched. */
qrs_status qrt_report(qg_status status, qrt_stage stage, const qg_error *err);
qrs_status qrt_refuse(qrs_status status, const char *fix, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

void qrt_context_hold(qrs_context *context);
void qrt_context_drop(qrs_context *context);

/* QRS_NO_DEVICE for a profile's context, QRS_FORKED in a forked child. */
qrs_status qrt_context_usable(const qrs_context *context);

/* The plan's module, made now if it wasn't. */
qrs_status qrt_plan_module(qrs_plan *plan, qrt_module **out);

#endif
