#include "runtime/host/tensor.h"

#include "runtime/host/shared.h"
#include "runtime/host/team.h"

#include <string.h>

uint32_t qhx_tensor_check(qhx_fibre *f, const void *map, int rank, uint32_t shared) {
    const qhx_tensor_map *m = map;
    if (m->magic != QHX_TENSOR_MAGIC)
        qhx_stop(f, QG_INTERNAL, "pass the map as a kernel argument",
                 "the tensor map was not made by a launch");
    if (m->rank != rank)
        qhx_stop(f, QG_INTERNAL, "", "the tensor map has %d dimensions, not %d", m->rank, rank);
    if (qhx_shared_local(shared) % 128 != 0)
        qhx_stop(f, QG_INTERNAL, "", "shared address 0x%x is not a multiple of 128", shared);
    uint32_t bytes = m->element_bytes;
    for (int i = 0; i < rank; i++)
        bytes *= m->box[i];
    return bytes;
}

/* Address of the first element of the box row at index `i` (dimensions 1..), NULL outside the tensor. */
static unsigned char *row_start(const qhx_tensor_map *m, const int *at, const int *i) {
    unsigned char *p = (unsigned char *)(uintptr_t)m->base;
    for (int k = 1; k < m->rank; k++) {
        int64_t c = (int64_t)at[k] + i[k];
        if (c < 0 || (uint64_t)c >= m->dims[k]) return NULL;
        p += (uint64_t)c * m->strides[k - 1];
    }
    return p;
}

static void move_element(const qhx_tensor_map *m, unsigned char *row, int64_t x, unsigned char *s,
                         bool load) {
    bool inside = row && x >= 0 && (uint64_t)x < m->dims[0];
    if (load && inside)
        memcpy(s, row + (uint64_t)x * m->element_bytes, m->element_bytes);
    else if (load)
        memset(s, 0, m->element_bytes);
    else if (inside)
        memcpy(row + (uint64_t)x * m->element_bytes, s, m->element_bytes);
}

void qhx_tensor_move(const qhx_tensor_map *m, const int *at, unsigned char *smem, uint32_t shared,
                     bool load) {
    uint32_t mask = m->swizzle ? m->swizzle / 16u - 1 : 0, base = qhx_shared_local(shared), offset = 0;
    int i[5] = {0};
    for (;;) {
        unsigned char *row = row_start(m, at, i);
        for (int x = 0; x < m->box[0]; x++, offset += m->element_bytes) {
            uint32_t a = base + offset, s = a ^ (a >> 7 & mask) << 4;
            move_element(m, row, (int64_t)at[0] + x, smem + (int32_t)(s - base), load);
        }
        int k = 1;
        while (k < m->rank && ++i[k] == m->box[k])
            i[k++] = 0;
        if (k >= m->rank) return;
    }
}
