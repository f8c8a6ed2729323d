/* mma and ldmatrix, computed for a whole warp at its rendezvous. */
#ifndef QHX_MMA_H
#define QHX_MMA_H

#include "runtime/host/state.h"

void qhx_mma(qhx_thread *t, int kind, float *d, const uint32_t *a, uint32_t b0, uint32_t b1, QHX_AT);
void qhx_ldmatrix(qhx_thread *t, uint32_t *r, int count, int transposed, uint32_t address, QHX_AT);
void qhx_mma_work(qhx_warp *w);
void qhx_ldmatrix_work(qhx_warp *w);

#endif
