/* Barriers of a block and of a cluster. */
#ifndef QHX_BARRIER_H
#define QHX_BARRIER_H

#include "runtime/host/state.h"

int qhx_barrier(qhx_thread *t, int id, int threads, int arrive, int pred, QHX_AT);
void qhx_cluster_barrier(qhx_thread *t, int op, QHX_AT);

#endif
