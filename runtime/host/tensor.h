/* Boxes of tensor maps. */
#ifndef QHX_TENSOR_H
#define QHX_TENSOR_H

#include "runtime/host/state.h"

/* Bytes of the map's box; stops the fibre when the map is no map of this rank or the shared address is
 * misaligned. */
uint32_t qhx_tensor_check(qhx_fibre *f, const void *map, int rank, uint32_t shared);
/* Copies the box at coordinates `at` (x first) between global memory and `smem`, whose shared address is
 * `shared` (the swizzle depends on it). Outside the tensor: zeros are loaded, nothing is stored. */
void qhx_tensor_move(const qhx_tensor_map *map, const int *at, unsigned char *smem, uint32_t shared,
                     bool load);

#endif
