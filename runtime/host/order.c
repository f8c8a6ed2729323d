#include "runtime/host/order.h"

#include "runtime/host/host.h"

static uint64_t next(qhx_order *o) { /* splitmix64 */
    uint64_t z = (o->state += 0x9e3779b97f4a7c15u);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

void qhx_order_start(qhx_order *o, int kind, uint64_t seed) {
    o->kind = kind;
    o->state = seed;
}

uint32_t qhx_order_pick(qhx_order *o, uint32_t n) {
    switch (o->kind) {
    case QHX_FORWARD:
        return 0;
    case QHX_REVERSE:
        return n - 1;
    default:
        return (uint32_t)((next(o) >> 32) * n >> 32);
    }
}

/* The item that belongs at place i of n when places fill from the end: Fisher-Yates, or a plain reversal. */
static uint64_t partner(qhx_order *o, uint64_t i, uint64_t n) {
    if (o->kind == QHX_REVERSE) return i >= n / 2 ? n - 1 - i : i;
    return next(o) % (i + 1);
}

void qhx_order_arrange(qhx_order *o, void **items, uint32_t n) {
    if (o->kind == QHX_FORWARD) return;
    for (uint32_t i = n; i-- > 1;) {
        uint32_t k = (uint32_t)partner(o, i, n);
        void *item = items[i];
        items[i] = items[k];
        items[k] = item;
    }
}

void qhx_order_arrange_i64(qhx_order *o, int64_t *items, int64_t n) {
    if (o->kind == QHX_FORWARD) return;
    for (int64_t i = n; i-- > 1;) {
        int64_t k = (int64_t)partner(o, (uint64_t)i, (uint64_t)n), item = items[i];
        items[i] = items[k];
        items[k] = item;
    }
}

bool qhx_order_lands_now(qhx_order *o) {
    return o->kind == QHX_REVERSE || (o->kind == QHX_SEEDED && next(o) >> 63);
}

bool qhx_order_warp_first(qhx_order *o) {
    return o->kind != QHX_SEEDED || next(o) >> 62;
}

bool qhx_order_wakes_early(qhx_order *o) {
    return qhx_order_lands_now(o);
}

int qhx_order_residency(const qhx_order *o) {
    return o->kind == QHX_SEEDED ? 3 : 1;
}
