#include "runtime/host/wgmma.h"

#include "runtime/host/half.h"
#include "runtime/host/shared.h"
#include "runtime/host/team.h"
#include "runtime/host/warp.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS = 16, DEPTH = 16, MAX_N = 256 };

/* The fields of a shared memory descriptor, in bytes. */
typedef struct tile {
    uint32_t start, lbo, sbo;
    uint32_t swizzle; /* bytes; 0: none */
} tile;

static tile decode(uint64_t desc) {
    static const uint32_t swizzles[4] = {0, 128, 64, 32};
    return (tile){(uint32_t)(desc & 0x3fff) << 4, (uint32_t)(desc >> 16 & 0x3fff) << 4,
                  (uint32_t)(desc >> 32 & 0x3fff) << 4, swizzles[desc >> 62]};
}

/* Byte address of element (k, n) of B before the swizzle; of A, (k, row). */
static uint32_t place(const tile *b, bool transposed, uint32_t k, uint32_t n) {
    uint32_t row = b->swizzle ? b->swizzle : 16, wide = row / 2;
    if (!transposed && b->swizzle) return b->start + n / 8 * b->sbo + n % 8 * row + 2 * k;
    if (!transposed) return b->start + n / 8 * b->sbo + k / 8 * b->lbo + n % 8 * row + k % 8 * 2;
    if (b->swizzle) return b->start + n / wide * b->lbo + k / 8 * b->sbo + k % 8 * row + n % wide * 2;
    return b->start + n / 8 * b->sbo + k / 8 * b->lbo + k % 8 * row + n % 8 * 2;
}

static uint32_t swizzled(uint32_t address, uint32_t swizzle) {
    uint32_t mask = swizzle ? swizzle / 16 - 1 : 0;
    return address ^ (address >> 7 & mask) << 4;
}

static double element(qhx_fibre *f, const tile *t, bool transposed, uint32_t k, uint32_t n) {
    uint16_t h;
    memcpy(&h, qhx_shared_at(f, swizzled(place(t, transposed, k, n), t->swizzle), 2, 2), sizeof h);
    return (double)qhx_half_float(h);
}

static void load_b(qhx_fibre *f, const qhx_product *p, double (*b)[MAX_N]) {
    tile t = decode(p->desc);
    for (uint32_t k = 0; k < DEPTH; k++)
        for (uint32_t n = 0; n < (uint32_t)p->n; n++)
            b[k][n] = element(f, &t, p->transposed, k, n);
}

static void load_a(qhx_fibre *f, const qhx_product *p, double (*a)[DEPTH]) {
    tile t = decode(p->desc_a);
    for (uint32_t i = 0; i < ROWS && p->a_shared; i++)
        for (uint32_t k = 0; k < DEPTH; k++)
            a[i][k] = element(f, &t, p->a_transposed, k, (uint32_t)p->rows + i);
    if (p->a_shared) return;
    for (int lane = 0; lane < QHX_LANES; lane++)
        for (int i = 0; i < 4; i++)
            for (int e = 0; e < 2; e++)
                a[lane / 4 + (i & 1) * 8][2 * (lane % 4) + (i >> 1) * 8 + e] =
                    (double)qhx_half_float((uint16_t)(p->a[lane][i] >> 16 * e));
}

static void compute(qhx_fibre *f, qhx_product *p) {
    double a[ROWS][DEPTH], b[DEPTH][MAX_N], row[MAX_N];
    load_a(f, p, a);
    load_b(f, p, b);
    for (int i = 0; i < ROWS; i++) {
        memset(row, 0, sizeof row);
        for (int k = 0; k < DEPTH; k++)
            for (int n = 0; n < p->n; n++)
                row[n] += a[i][k] * b[k][n];
        for (int n = 0; n < p->n; n++) {
            float *d = &p->d[(i % 8) * 4 + n % 8 / 2][n / 8 * 4 + i / 8 * 2 + n % 2];
            *d = (float)((p->accumulate ? (double)*d : 0) + row[n]);
        }
    }
    p->done = true;
}

static qhx_product *append(qhx_warp *w) {
    if (w->product_count == w->product_capacity) {
        uint32_t capacity = w->product_capacity ? 2 * w->product_capacity : 16;
        qhx_product *product = realloc(w->product, capacity * sizeof *product);
        if (!product) return NULL;
        w->product = product;
        w->product_capacity = capacity;
    }
    return &w->product[w->product_count++];
}

static qhx_fibre *caller(qhx_warp *w) {
    for (int i = 0; i < QHX_LANES; i++)
        if (w->fibre[i].status == QHX_RUNNING) return &w->fibre[i];
    return w->fibre;
}

static void check_issue(qhx_fibre *f) {
    qhx_warp *w = f->warp;
    uint32_t number = (uint32_t)(w - f->block->warp);
    if ((number | 3) >= f->block->threads / QHX_LANES)
        qhx_stop(f, QG_INTERNAL, "blocks that use wgmma are a multiple of 128 threads",
                 "warp %u belongs to no whole warpgroup", number);
    if (!w->fenced)
        qhx_stop(f, QG_INTERNAL, "wgmma_fence() after the last plain touch of the registers",
                 "no wgmma_fence() before the first product since the last wait");
}

bool qhx_wgmma_balanced(const qhx_block *block) {
    for (uint32_t i = 0; i < block->threads / QHX_LANES; i++)
        if (block->warp[i].products != block->warp[i & ~3u].products) return false;
    return true;
}

void qhx_wgmma_fence_work(qhx_warp *w) {
    w->fenced = true;
}

void qhx_wgmma_work(qhx_warp *w) {
    qhx_fibre *f = caller(w);
    check_issue(f);
    w->products++;
    qhx_product *p = append(w);
    if (!p) qhx_stop(f, QG_NO_MEMORY, "", "no memory for a pending product");
    memset(p, 0, sizeof *p);
    for (int i = 0; i < QHX_LANES; i++) {
        p->d[i] = w->fibre[i].d;
        memcpy(p->a[i], w->fibre[i].word, sizeof p->a[i]);
    }
    p->n = f->arg;
    p->rows = (int)((w - f->block->warp) & 3) * ROWS;
    p->desc = f->value;
    p->a_shared = f->flags & 4;
    p->a_transposed = f->flags & 8;
    if (p->a_shared) memcpy(&p->desc_a, f->word, sizeof p->desc_a);
    p->accumulate = f->flags & 1;
    p->transposed = f->flags & 2;
    p->group = w->product_group;
    /* Products into the same registers keep their order: one may run at once only when none waits. */
    if (w->product_count == 1 && qhx_order_lands_now(&f->team->order)) {
        compute(f, p);
        w->product_count = 0;
    }
}

void qhx_wgmma_commit_work(qhx_warp *w) {
    w->product_group++;
}

void qhx_wgmma_wait_work(qhx_warp *w) {
    qhx_fibre *f = caller(w);
    w->fenced = false;
    uint32_t n = 0;
    while (n < w->product_count && (int64_t)w->product[n].group < (int64_t)w->product_group - f->arg)
        compute(f, &w->product[n++]);
    if (n == 0) return; /* perhaps nothing was ever issued */
    memmove(w->product, w->product + n, (w->product_count - n) * sizeof *w->product);
    w->product_count -= n;
}

void qhx_wgmma(qhx_thread *t, float *d, int n, const uint32_t *a, uint64_t desc, int accumulate, int trans_b,
               QHX_AT) {
    qhx_fibre *f = qhx_fibre_of(t);
    f->d = d;
    f->arg = n;
    f->value = desc;
    f->flags = (accumulate != 0) | (trans_b != 0) << 1;
    memcpy(f->word, a, 4 * sizeof *a);
    qhx_warp_join(f, QHX_WARP_WGMMA, file, line);
}

void qhx_wgmma_shared(qhx_thread *t, float *d, int n, uint64_t desc_a, uint64_t desc, int accumulate,
                      int trans_a, int trans_b, QHX_AT) {
    qhx_fibre *f = qhx_fibre_of(t);
    f->d = d;
    f->arg = n;
    f->value = desc;
    f->flags = (accumulate != 0) | (trans_b != 0) << 1 | 4 | (trans_a != 0) << 3;
    memcpy(f->word, &desc_a, sizeof desc_a);
    qhx_warp_join(f, QHX_WARP_WGMMA, file, line);
}

void qhx_wgmma_order(qhx_thread *t, int op, int keep, QHX_AT) {
    qhx_fibre *f = qhx_fibre_of(t);
    f->arg = keep;
    qhx_warp_join(f, op, file, line);
}
