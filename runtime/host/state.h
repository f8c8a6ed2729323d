/* The records of a running launch. A team is what runs together: one cluster (of one or more blocks) of an
 * ordinary grid, a few in seeded orders, all blocks of a cooperative one. Fibres switch directly to the next
 * ready fibre; when there is none, control returns to the launch loop, which finds something to go on with or
 * reports what everybody waits for. */
#ifndef QHX_STATE_H
#define QHX_STATE_H

#include "gen/error.h"
#include "runtime/host/context.h"
#include "runtime/host/order.h"
#include "templates/device/host_abi.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { QHX_LANES = 32, QHX_BARRIERS = 16, QHX_MAX_BLOCK = 1024, QHX_MAX_CLUSTER = 16 };

typedef enum qhx_status {
    QHX_NEW, /* no thread here yet */
    QHX_READY,
    QHX_RUNNING,
    QHX_IN_WARP,
    QHX_IN_BARRIER,
    QHX_IN_CLUSTER,
    QHX_IN_MBAR,
    QHX_IN_FLAG,
    QHX_POLLING, /* ready, but only to look again */
    QHX_DONE
} qhx_status;

typedef struct qhx_team qhx_team;
typedef struct qhx_block qhx_block;
typedef struct qhx_cluster qhx_cluster;
typedef struct qhx_warp qhx_warp;

/* One thread's copies that end at its own waits (cp.async, bulk stores), oldest first, counted in commit
 * groups. */
typedef struct qhx_copy {
    void *dst;
    const void *src;
    void *staged; /* bulk stores: what was read, when it was read before it could be written */
    uint32_t bytes;
    uint32_t group;
    qhx_tensor_map *map; /* tensor stores: owned; else NULL */
    int at[5];
    uint32_t address;
} qhx_copy;
typedef struct qhx_copies {
    qhx_copy *item;
    uint32_t count, capacity;
    uint32_t group; /* the one now open */
} qhx_copies;

typedef struct qhx_fibre {
    qhx_thread thread; /* first: what the kernel sees */
    qhx_context context;
    qhx_status status;
    const char *what, *file; /* the primitive it is in, and where that was called */
    int line;
    qhx_team *team;
    qhx_block *block;
    qhx_warp *warp;
    uint32_t lane;
    /* operands and result of a collective */
    uint64_t value, result;
    int arg, flags;
    float *d;
    uint32_t word[6];
    void *out;
    /* what it waits for */
    uint32_t address, parity; /* mbarrier */
    const int32_t *flag;
    int32_t flag_value;
    int barrier;
    uint32_t cluster_phase;
    bool cluster_arrived;
    qhx_copies loads, stores;
} qhx_fibre;

/* An issued wgmma of one warp, computed when it is waited for (or at once, as the order says). */
typedef struct qhx_product {
    float *d[QHX_LANES];
    uint32_t a[QHX_LANES][4];
    uint64_t desc;
    int n;
    bool accumulate, transposed, done;
    uint32_t group;
} qhx_product;

struct qhx_warp {
    qhx_fibre *fibre; /* the first of 32 */
    uint32_t arrived, ended, phase;
    char race[2];
    int op;
    qhx_fibre *opener; /* the first to arrive */
    qhx_product *product;
    uint32_t product_count, product_capacity, product_group, products; /* pending; ...; issued in all */
    bool fenced;                                                       /* wgmma_fence() since the last wait */
};

typedef struct qhx_barrier_state {
    int threads, arrived, any;
    uint32_t phase;
    char race[2]; /* by parity of the phase */
} qhx_barrier_state;

struct qhx_block {
    qhx_cluster *cluster;
    qhx_fibre *fibre;
    qhx_warp *warp;
    uint32_t threads, live;
    int rank;
    qhx_dim index;
    unsigned char *smem; /* exactly as large as asked for, so that AddressSanitizer sees an overrun */
    uint32_t smem_size;
    qhx_barrier_state barrier[QHX_BARRIERS];
};

struct qhx_cluster {
    qhx_block *block; /* size of them */
    int size;
    uint32_t live; /* threads; 0: the slot is free */
    uint32_t arrived, phase;
    char race[2];
};

/* A copy that an mbarrier announces. */
typedef struct qhx_transfer {
    qhx_block *block; /* whose shared memory and mbarrier */
    uint32_t dst, mbar, bytes;
    const void *src;         /* bulk */
    unsigned char value[16]; /* st_async */
    bool tensor;
    qhx_tensor_map map;
    int at[5];
    const char *what, *file;
    int line;
} qhx_transfer;

struct qhx_team {
    const char *kernel_name;
    const qhx_kernel *kernel;
    void **args;
    qhx_thread **self; /* the loaded object's slot for this OS thread */
    qhx_context main;
    qhx_order order;
    bool poison, waits_expire;

    qhx_fibre *fibre;
    uint32_t fibre_count;
    qhx_warp *warp;
    qhx_block *block;
    qhx_cluster *cluster;
    int cluster_count; /* slots */

    qhx_fibre **ready; /* ring of ready_size (a power of two) */
    uint32_t ready_size, ready_head, ready_count;
    qhx_fibre **scratch; /* as many as fibres */
    uint64_t polls;      /* since something last happened */
    uint32_t flag_waiters;
    uint32_t clock;

    qhx_transfer *transfer;
    uint32_t transfer_count, transfer_capacity;
    void *carrier;      /* who moves them, to ThreadSanitizer (race.h) */
    char race, carried; /* what starts and ends of fibres order; what sending orders */

    bool failed;
    qg_error error;
};

#endif
