#include "runtime/host/async.h"

#include "runtime/host/shared.h"
#include "runtime/host/team.h"
#include "runtime/host/tensor.h"

#include <stdlib.h>
#include <string.h>

static qhx_copy *append(qhx_fibre *f, qhx_copies *c) {
    if (c->count == c->capacity) {
        uint32_t capacity = c->capacity ? 2 * c->capacity : 16;
        qhx_copy *item = realloc(c->item, capacity * sizeof *item);
        if (!item) qhx_stop(f, QG_NO_MEMORY, "", "no memory for a pending copy");
        c->item = item;
        c->capacity = capacity;
    }
    qhx_copy *copy = &c->item[c->count++];
    memset(copy, 0, sizeof *copy);
    copy->group = c->group;
    return copy;
}

static void drop(qhx_copies *c, uint32_t n) {
    if (n == 0) return;
    for (uint32_t i = 0; i < n; i++) {
        free(c->item[i].staged);
        free(c->item[i].map);
    }
    memmove(c->item, c->item + n, (c->count - n) * sizeof *c->item);
    c->count -= n;
}

/* How many copies belong to groups older than the newest `keep` committed ones. */
static uint32_t due(const qhx_copies *c, int keep) {
    uint32_t n = 0;
    while (n < c->count && (int64_t)c->item[n].group < (int64_t)c->group - keep)
        n++;
    return n;
}

static void check_aligned(qhx_fibre *f, const void *p, uint32_t to) {
    if ((uintptr_t)p % to != 0)
        qhx_stop(f, QG_INTERNAL, "", "global address %p is not a multiple of %u", p, to);
}

void qhx_cp_async(qhx_thread *t, uint32_t dst, const void *src, uint32_t bytes, QHX_AT) {
    static const unsigned char zeros[16];
    qhx_fibre *f = qhx_fibre_of(t);
    qhx_enter(f, bytes == 16 ? "cp_async16" : "cp_async4", file, line);
    if (!src) src = zeros;
    void *to = qhx_shared_at(f, dst, bytes, bytes);
    if (src != zeros) check_aligned(f, src, bytes);
    if (qhx_order_lands_now(&f->team->order)) {
        memcpy(to, src, bytes);
        return;
    }
    qhx_copy *c = append(f, &f->loads);
    c->dst = to;
    c->src = src;
    c->bytes = bytes;
}

void qhx_cp_async_commit(qhx_thread *t, QHX_AT) {
    (void)file, (void)line;
    qhx_fibre_of(t)->loads.group++;
}

void qhx_cp_async_wait(qhx_thread *t, int keep, QHX_AT) {
    (void)file, (void)line;
    qhx_copies *c = &qhx_fibre_of(t)->loads;
    uint32_t n = due(c, keep);
    for (uint32_t i = 0; i < n; i++)
        memcpy(c->item[i].dst, c->item[i].src, c->item[i].bytes);
    drop(c, n);
}

void qhx_bulk_store(qhx_thread *t, void *dst, uint32_t src, uint32_t bytes, QHX_AT) {
    qhx_fibre *f = qhx_fibre_of(t);
    qhx_enter(f, "bulk_store", file, line);
    const void *from = qhx_shared_at(f, src, bytes, 16);
    check_aligned(f, dst, 16);
    if (bytes % 16 != 0) qhx_stop(f, QG_INTERNAL, "", "%u bytes are not a multiple of 16", bytes);
    if (qhx_order_lands_now(&f->team->order)) {
        memcpy(dst, from, bytes);
        return;
    }
    qhx_copy *c = append(f, &f->stores);
    c->dst = dst;
    c->src = from;
    c->bytes = bytes;
}

void qhx_tma_store(qhx_thread *t, const void *map, uint32_t src, const int *at, int rank, QHX_AT) {
    qhx_fibre *f = qhx_fibre_of(t);
    qhx_enter(f, "tma_store", file, line);
    uint32_t bytes = qhx_tensor_check(f, map, rank, src);
    unsigned char *from = qhx_shared_at(f, src, bytes, 16);
    if (qhx_order_lands_now(&f->team->order)) {
        qhx_tensor_move(map, at, from, src, false);
        return;
    }
    qhx_copy *c = append(f, &f->stores);
    c->src = from;
    c->bytes = bytes;
    c->address = src;
    memcpy(c->at, at, (size_t)rank * sizeof *at);
    c->map = malloc(sizeof *c->map);
    if (!c->map) qhx_stop(f, QG_NO_MEMORY, "", "no memory for a pending copy");
    memcpy(c->map, map, sizeof *c->map);
}

void qhx_bulk_commit(qhx_thread *t, QHX_AT) {
    (void)file, (void)line;
    qhx_fibre_of(t)->stores.group++;
}

static void read_store(qhx_fibre *f, qhx_copy *c) {
    if (c->staged || !c->bytes) return;
    c->staged = malloc(c->bytes);
    if (!c->staged) qhx_stop(f, QG_NO_MEMORY, "", "no memory for a pending copy");
    memcpy(c->staged, c->src, c->bytes);
}

static void write_store(qhx_copy *c) {
    if (c->map)
        qhx_tensor_move(c->map, c->at, c->staged, c->address, false);
    else
        memcpy(c->dst, c->staged, c->bytes);
}

void qhx_bulk_wait(qhx_thread *t, int keep, int only_read, QHX_AT) {
    qhx_fibre *f = qhx_fibre_of(t);
    qhx_enter(f, only_read ? "bulk_wait_read" : "bulk_wait", file, line);
    qhx_copies *c = &f->stores;
    uint32_t n = due(c, keep);
    for (uint32_t i = 0; i < n; i++)
        if (c->item[i].bytes) read_store(f, &c->item[i]);
    if (only_read) return;
    for (uint32_t i = 0; i < n; i++)
        if (c->item[i].bytes) write_store(&c->item[i]);
    drop(c, n);
}

void qhx_async_end(qhx_fibre *f) {
    for (uint32_t i = 0; i < f->stores.count; i++) {
        qhx_copy *c = &f->stores.item[i];
        if (!c->staged)
            qhx_stop(f, QG_INTERNAL, "wait with bulk_wait_read<0>() before the thread returns",
                     "a bulk store may not have read its shared memory yet");
        write_store(c);
    }
    qhx_async_free(f);
}

void qhx_async_free(qhx_fibre *f) {
    drop(&f->loads, f->loads.count);
    drop(&f->stores, f->stores.count);
    free(f->loads.item);
    free(f->stores.item);
    memset(&f->loads, 0, sizeof f->loads);
    memset(&f->stores, 0, sizeof f->stores);
}
