/* A loaded object with its launch program. */
#ifndef QHX_MODULE_H
#define QHX_MODULE_H

#include "runtime/host/executor.h"
#include "templates/device/host_abi.h"

struct qhx_module {
    qhx_executor *executor;
    char *name;
    qg_shape shape;
    qg_device device;
    qg_program *program;
    const qhx_kernel **kernel; /* one an op; NULL for clears */
    void *object;              /* dlopen's */
    bool compiled;
};

#endif
