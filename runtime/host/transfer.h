/* mbarriers, and the copies that complete on them. The barrier's state lies in its 8 bytes of shared memory.
 */
#ifndef QHX_TRANSFER_H
#define QHX_TRANSFER_H

#include "runtime/host/state.h"

void qhx_mbar(qhx_thread *t, int op, uint32_t address, uint32_t value, QHX_AT);
void qhx_bulk_load(qhx_thread *t, uint32_t dst, const void *src, uint32_t bytes, uint32_t mbar, QHX_AT);
void qhx_tma_load(qhx_thread *t, uint32_t dst, const void *map, const int *at, int rank, uint32_t mbar,
                  QHX_AT);
void qhx_st_async(qhx_thread *t, uint32_t dst, const void *value, uint32_t bytes, uint32_t mbar, QHX_AT);
/* Lets one pending copy land (which one the order picks). False: there was none, or the team has failed. */
bool qhx_transfer_land(qhx_team *team);
/* The block has ended: false, and the team has failed, when a copy is still on its way into it. */
bool qhx_transfer_check_end(qhx_team *team, const qhx_block *block);
void qhx_transfer_free(qhx_team *team);

#endif
