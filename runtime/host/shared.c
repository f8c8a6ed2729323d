#include "runtime/host/shared.h"

#include "runtime/host/team.h"

qhx_block *qhx_shared_block(qhx_fibre *f, uint32_t address) {
    uint32_t tag = address >> QHX_RANK_SHIFT;
    qhx_cluster *c = f->block->cluster;
    if (tag == 0) return f->block;
    if (tag > (uint32_t)c->size)
        qhx_stop(f, QG_INTERNAL, "", "0x%x is not an address of this cluster's shared memory", address);
    qhx_block *b = &c->block[tag - 1];
    if (b->live == 0)
        qhx_stop(f, QG_INTERNAL, "keep every block until the last access with cluster_sync()",
                 "block %u of the cluster has ended, its shared memory is gone", tag - 1);
    return b;
}

void *qhx_shared_at(qhx_fibre *f, uint32_t address, uint32_t bytes, uint32_t alignment) {
    qhx_block *b = qhx_shared_block(f, address);
    uint32_t offset = qhx_shared_local(address) - QHX_SHARED_BASE;
    if (qhx_shared_local(address) < QHX_SHARED_BASE || offset > b->smem_size || b->smem_size - offset < bytes)
        qhx_stop(f, QG_INTERNAL, "", "%u bytes at shared offset %d lie outside the block's %u bytes", bytes,
                 (int)offset, b->smem_size);
    if (offset % alignment != 0)
        qhx_stop(f, QG_INTERNAL, "", "shared offset %u is not a multiple of %u", offset, alignment);
    return b->smem + offset;
}

void *qhx_shared(qhx_thread *t, uint32_t address, uint32_t bytes, const char *what, QHX_AT) {
    qhx_fibre *f = qhx_fibre_of(t);
    qhx_enter(f, what, file, line);
    return qhx_shared_at(f, address, bytes, bytes);
}

uint32_t qhx_shared_address(qhx_thread *t, const void *p, QHX_AT) {
    qhx_fibre *f = qhx_fibre_of(t);
    uintptr_t offset = (uintptr_t)p - (uintptr_t)f->block->smem;
    if (offset > f->block->smem_size) {
        qhx_enter(f, "to_saddr", file, line);
        qhx_stop(f, QG_INTERNAL, "", "the pointer is not into the block's shared memory");
    }
    return QHX_SHARED_BASE + (uint32_t)offset;
}

uint32_t qhx_cluster_map(qhx_thread *t, uint32_t address, int rank, QHX_AT) {
    qhx_fibre *f = qhx_fibre_of(t);
    if (rank < 0 || rank >= f->block->cluster->size || address >> QHX_RANK_SHIFT) {
        qhx_enter(f, "cluster_map", file, line);
        qhx_stop(f, QG_INTERNAL, "", "no rank %d in a cluster of %d, or 0x%x is mapped already", rank,
                 f->block->cluster->size, address);
    }
    return address | (uint32_t)(rank + 1) << QHX_RANK_SHIFT;
}
