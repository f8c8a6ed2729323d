/* cp.async and bulk stores: copies that the issuing thread itself waits for, in commit groups. */
#ifndef QHX_ASYNC_H
#define QHX_ASYNC_H

#include "runtime/host/state.h"

/* src: null for zeros. */
void qhx_cp_async(qhx_thread *t, uint32_t dst, const void *src, uint32_t bytes, QHX_AT);
void qhx_cp_async_commit(qhx_thread *t, QHX_AT);
void qhx_cp_async_wait(qhx_thread *t, int keep, QHX_AT);
void qhx_bulk_store(qhx_thread *t, void *dst, uint32_t src, uint32_t bytes, QHX_AT);
void qhx_tma_store(qhx_thread *t, const void *map, uint32_t src, const int *at, int rank, QHX_AT);
void qhx_bulk_commit(qhx_thread *t, QHX_AT);
void qhx_bulk_wait(qhx_thread *t, int keep, int only_read, QHX_AT);
/* The thread returns: its written data lands; a store that has not read its shared memory is an error. */
void qhx_async_end(qhx_fibre *f);
/* Frees what an abandoned or ended thread holds. */
void qhx_async_free(qhx_fibre *f);

#endif
