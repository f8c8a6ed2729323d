/* Shared addresses: 1024 + offset in the thread's own block; rank + 1 above bit 24 for another block of the
 * cluster. */
#ifndef QHX_SHARED_H
#define QHX_SHARED_H

#include "runtime/host/state.h"

/* The block an address lies in; stops the fibre when there is none or it has ended. */
qhx_block *qhx_shared_block(qhx_fibre *f, uint32_t address);
/* Checked for bounds and alignment (1: any); the fibre has entered its primitive. */
void *qhx_shared_at(qhx_fibre *f, uint32_t address, uint32_t bytes, uint32_t alignment);

void *qhx_shared(qhx_thread *t, uint32_t address, uint32_t bytes, const char *what, QHX_AT);
uint32_t qhx_shared_address(qhx_thread *t, const void *p, QHX_AT);
uint32_t qhx_cluster_map(qhx_thread *t, uint32_t address, int rank, QHX_AT);

/* The offset part of an address. */
static inline uint32_t qhx_shared_local(uint32_t address) {
    return address & ((1u << QHX_RANK_SHIFT) - 1);
}

#endif
