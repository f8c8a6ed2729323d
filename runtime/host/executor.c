#include "runtime/host/executor.h"

#include "runtime/host/context.h"

#include <stdlib.h>
#include <string.h>

static qg_status check(const qhx_options *o, qg_error *err) {
    if (o->order < QHX_FORWARD || o->order > QHX_SEEDED)
        return qg_failf(err, QG_BAD_INPUT, "host executor", "0 forward, 1 reverse, 2 seeded",
                        "there is no order %d", o->order);
    if (o->sanitize && !QHX_ASAN)
        return qg_fail(err, QG_BAD_INPUT, "host executor",
                       "sanitize needs AddressSanitizer in the program itself",
                       "build the library with -fsanitize=address");
    return QG_OK;
}

qg_status qhx_open(const qhx_options *options, qhx_executor **out, qg_error *err) {
    static const qhx_options defaults = {.poison = true};
    const qhx_options *o = options ? options : &defaults;
    *out = NULL;
    qg_status status = check(o, err);
    if (status != QG_OK) return status;
    qhx_executor *ex = calloc(1, sizeof *ex);
    if (!ex) return qg_fail(err, QG_NO_MEMORY, "host executor", "no memory", "");
    pthread_mutex_init(&ex->lock, NULL);
    ex->sanitize = o->sanitize;
    ex->poison = o->poison;
    ex->waits_expire = o->waits_expire;
    ex->order = o->order;
    ex->seed = o->seed;
    if (o->cxx && !(ex->cxx = strdup(o->cxx)))
        status = qg_fail(err, QG_NO_MEMORY, "host executor", "no memory", "");
    if (status == QG_OK) status = qhx_object_folder(o->cache_dir, ex->dir, &ex->temporary, err);
    if (status != QG_OK) {
        ex->temporary = false;
        qhx_close(ex);
        return status;
    }
    *out = ex;
    return QG_OK;
}

void qhx_close(qhx_executor *ex) {
    if (!ex) return;
    for (qhx_stacks_node *n = ex->idle, *next; n; n = next) {
        next = n->next;
        qhx_stacks_free(&n->stacks);
        free(n);
    }
    if (ex->temporary) qhx_object_remove_folder(ex->dir);
    pthread_mutex_destroy(&ex->lock);
    free(ex->cxx);
    free(ex);
}

qg_status qhx_set_order(qhx_executor *ex, int order, uint64_t seed) {
    if (order < QHX_FORWARD || order > QHX_SEEDED) return QG_BAD_INPUT;
    pthread_mutex_lock(&ex->lock);
    ex->order = order;
    ex->seed = seed;
    pthread_mutex_unlock(&ex->lock);
    return QG_OK;
}

void qhx_executor_order(qhx_executor *ex, int *order, uint64_t *seed) {
    pthread_mutex_lock(&ex->lock);
    *order = ex->order;
    *seed = ex->seed;
    pthread_mutex_unlock(&ex->lock);
}

qg_status qhx_executor_compiler(qhx_executor *ex, const qhx_compiler **out, qg_error *err) {
    pthread_mutex_lock(&ex->lock);
    qg_status status = ex->compiler_known ? QG_OK : qhx_compiler_find(ex->cxx, &ex->compiler, err);
    ex->compiler_known = status == QG_OK;
    pthread_mutex_unlock(&ex->lock);
    *out = &ex->compiler;
    return status;
}

qhx_stacks_node *qhx_executor_take_stacks(qhx_executor *ex) {
    pthread_mutex_lock(&ex->lock);
    qhx_stacks_node *node = ex->idle;
    if (node) ex->idle = node->next;
    pthread_mutex_unlock(&ex->lock);
    return node ? node : calloc(1, sizeof *node);
}

void qhx_executor_give_stacks(qhx_executor *ex, qhx_stacks_node *node) {
    pthread_mutex_lock(&ex->lock);
    node->next = ex->idle;
    ex->idle = node;
    pthread_mutex_unlock(&ex->lock);
}
