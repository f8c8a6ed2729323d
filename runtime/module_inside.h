/* What module.c, module_check.c and execute.c share: a launch program made ready. Not for others. */
#ifndef QRT_MODULE_INSIDE_H
#define QRT_MODULE_INSIDE_H

#include "runtime/module.h"

/* Bounds that keep a launch's arguments on the stack; a program that passes them is refused when it is
 * loaded. */
#define QRT_MAX_ARGS    64
#define QRT_MAX_MAPS    8
#define QRT_MAX_BUFFERS 64

typedef struct qrt_value { /* an expression, or what it comes to when that never changes */
    const qg_expr *expr;   /* NULL: constant */
    int64_t constant;
} qrt_value;

typedef struct qrt_arg {
    const qg_arg *arg;
    qrt_value value; /* I32, I64, WORKSPACE offset */
} qrt_arg;

typedef struct qrt_function {
    const char *name;
    void *handle;
    int64_t smem; /* dynamic bytes opted in to */
    int registers, static_smem, max_threads;
} qrt_function;

typedef struct qrt_op {
    const qg_op *op;
    /* clear */
    qrt_value offset, bytes;
    /* launch */
    int function; /* index */
    qrt_value grid[3], smem;
    qrt_arg *args;
    qrt_launch_attribute attributes[QRT_LAUNCH_ATTRIBUTES];
    unsigned attribute_count;
} qrt_op;

struct qrt_module {
    qrt_device *dev;
    const qg_plan *plan;
    qrt_cubin report; /* without data */
    void *handle;     /* CUmodule */
    qrt_function *functions;
    int function_count;
    qrt_op *ops;
    int op_count;
};

qg_status qrt_value_get(const qrt_value *value, const qg_call *call, const qg_device *dev, int64_t *out,
                        qg_error *err);

/* Grid of a launch; *empty when an extent is zero. Refuses what no GPU takes. */
qg_status qrt_op_grid(const qrt_module *module, const qrt_op *op, const qg_call *call, unsigned grid[3],
                      bool *empty, qg_error *err);

/* Refuses, at load, what the device can't hold, for a call of the plan's full batch; opts in to shared
 * memory. */
qg_status qrt_module_check(qrt_module *module, qg_error *err);

#endif
