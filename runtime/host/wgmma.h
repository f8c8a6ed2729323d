/* Warpgroup products. Each warp computes its own 16 rows; accumulators change when the products are waited
 * for, or at once, as the order says, so that a missing wait shows. */
#ifndef QHX_WGMMA_H
#define QHX_WGMMA_H

#include "runtime/host/state.h"

void qhx_wgmma(qhx_thread *t, float *d, int n, const uint32_t *a, uint64_t desc, int accumulate, int trans_b,
               QHX_AT);
void qhx_wgmma_shared(qhx_thread *t, float *d, int n, uint64_t desc_a, uint64_t desc, int accumulate,
                      int trans_a, int trans_b, QHX_AT);
void qhx_wgmma_order(qhx_thread *t, int op, int keep, QHX_AT);
void qhx_wgmma_work(qhx_warp *w);
void qhx_wgmma_fence_work(qhx_warp *w);
void qhx_wgmma_commit_work(qhx_warp *w);
void qhx_wgmma_wait_work(qhx_warp *w);

/* Whether the four warps of each warpgroup issued as many products as each other: a warp alone computes
 * nothing on a GPU. */
bool qhx_wgmma_balanced(const qhx_block *block);

#endif
