/* The rendezvous of a warp: the last lane to arrive does the work of all 32. */
#ifndef QHX_WARP_H
#define QHX_WARP_H

#include "runtime/host/state.h"

/* All lanes of the warp must come with the same op from the same place. Returns when the work is done. */
void qhx_warp_join(qhx_fibre *f, int op, const char *file, int line);
uint64_t qhx_warp_call(qhx_thread *t, int op, uint64_t value, int arg, QHX_AT);

#endif
