/* What modules share: compiler, folder, order, stacks. */
#ifndef QHX_EXECUTOR_H
#define QHX_EXECUTOR_H

#include "runtime/host/compiler.h"
#include "runtime/host/host.h"
#include "runtime/host/object.h"
#include "runtime/host/order.h"
#include "runtime/host/stacks.h"

#include <pthread.h>

typedef struct qhx_stacks_node {
    struct qhx_stacks_node *next;
    qhx_stacks stacks;
} qhx_stacks_node;

struct qhx_executor {
    pthread_mutex_t lock; /* of all below that changes */
    char *cxx;            /* as asked for */
    bool compiler_known;
    qhx_compiler compiler;
    char dir[QHX_PATH];
    bool temporary, sanitize, poison, waits_expire;
    int order;
    uint64_t seed;
    qhx_stacks_node *idle; /* stacks that no run uses now */
};

/* Found at the first load: opening an executor needs no compiler. */
qg_status qhx_executor_compiler(qhx_executor *ex, const qhx_compiler **out, qg_error *err);
/* Stacks for one run, given back after it. NULL: no memory. */
qhx_stacks_node *qhx_executor_take_stacks(qhx_executor *ex);
void qhx_executor_give_stacks(qhx_executor *ex, qhx_stacks_node *node);
void qhx_executor_order(qhx_executor *ex, int *order, uint64_t *seed);

#endif
