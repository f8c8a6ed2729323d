/* One launch: a grid of one kernel, from its first thread to its last. */
#ifndef QHX_LAUNCH_H
#define QHX_LAUNCH_H

#include "runtime/host/stacks.h"
#include "runtime/host/state.h"

typedef struct qhx_launch {
    const qhx_context *own; /* of the calling thread: qhx_context_own() */
    const char *kernel_name;
    const qhx_kernel *kernel;
    void **args;
    int64_t grid[3];
    uint32_t block;
    int cluster;
    uint32_t smem;
    bool cooperative;
    qhx_order order;
    bool poison, waits_expire;
} qhx_launch;

qg_status qhx_launch_run(const qhx_launch *launch, qhx_stacks *stacks, qg_error *err);

#endif
