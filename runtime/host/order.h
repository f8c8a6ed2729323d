/* Every choice the executor may make freely, made by one order: forward and reverse are the two extremes,
 * seeded orders mix. */
#ifndef QHX_ORDER_H
#define QHX_ORDER_H

#include <stdbool.h>
#include <stdint.h>

typedef struct qhx_order {
    int kind; /* QHX_FORWARD, QHX_REVERSE, QHX_SEEDED */
    uint64_t state;
} qhx_order;

void qhx_order_start(qhx_order *o, int kind, uint64_t seed);
/* Uniform below n (n > 0) in seeded orders; 0 in forward, n - 1 in reverse. */
uint32_t qhx_order_pick(qhx_order *o, uint32_t n);
/* Puts n pointers, given in ascending order of who they are, into the order they run in. */
void qhx_order_arrange(qhx_order *o, void **items, uint32_t n);
void qhx_order_arrange_i64(qhx_order *o, int64_t *items, int64_t n);
/* Whether an asynchronous copy lands at once: never forward, always reverse. */
bool qhx_order_lands_now(qhx_order *o);
/* Whether a released warp goes on before all others: always but for some in seeded orders. */
bool qhx_order_warp_first(qhx_order *o);
/* Whether a waiter goes on as soon as its flag is set (else once nothing else can). */
bool qhx_order_wakes_early(qhx_order *o);
/* How many clusters of an ordinary grid run interleaved. */
int qhx_order_residency(const qhx_order *o);

#endif
