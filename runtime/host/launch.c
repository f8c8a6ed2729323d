#include "runtime/host/launch.h"

#include "runtime/host/async.h"
#include "runtime/host/flag.h"
#include "runtime/host/race.h"
#include "runtime/host/report.h"
#include "runtime/host/services.h"
#include "runtime/host/team.h"
#include "runtime/host/transfer.h"
#include "runtime/host/wgmma.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A cooperative grid of more threads than this is refused rather than left to eat the machine's memory. */
enum { MAX_FIBRES = 1 << 16 };
/* Without AddressSanitizer, bytes behind a block's shared memory that must keep their value. */
enum { TAIL = QHX_ASAN ? 0 : 64 };
#define TAIL_BYTE 0xA5

typedef struct grid_walk {
    int64_t *cluster; /* linear numbers in running order */
    int64_t count, next;
} grid_walk;

static bool allocate(qhx_team *t, const qhx_launch *l, int slots) {
    uint32_t blocks = (uint32_t)(slots * l->cluster);
    t->fibre_count = blocks * l->block;
    t->cluster_count = slots;
    t->ready_size = 1;
    while (t->ready_size < t->fibre_count)
        t->ready_size *= 2;
    t->fibre = calloc(t->fibre_count, sizeof *t->fibre);
    t->warp = calloc(t->fibre_count / QHX_LANES, sizeof *t->warp);
    t->block = calloc(blocks, sizeof *t->block);
    t->cluster = calloc((size_t)slots, sizeof *t->cluster);
    t->ready = calloc(t->ready_size, sizeof *t->ready);
    t->scratch = calloc(t->fibre_count, sizeof *t->scratch);
    if (!t->fibre || !t->warp || !t->block || !t->cluster || !t->ready || !t->scratch) return false;
    for (uint32_t i = 0; i < blocks; i++) {
        qhx_block *b = &t->block[i];
        void *smem = NULL;
        /* 0 bytes still get an address of their own */
        if (posix_memalign(&smem, 1024, l->smem + (l->smem + TAIL == 0 ? 1 : TAIL)) != 0) return false;
        b->smem = smem;
        b->smem_size = l->smem;
        memset(b->smem, 0, l->smem);
    }
    return true;
}

/* What never changes while the launch runs. */
static void connect(qhx_team *t, const qhx_launch *l) {
    for (int c = 0; c < t->cluster_count; c++) {
        t->cluster[c].block = &t->block[c * l->cluster];
        t->cluster[c].size = l->cluster;
        for (int r = 0; r < l->cluster; r++) {
            qhx_block *b = &t->cluster[c].block[r];
            b->cluster = &t->cluster[c];
            b->rank = r;
            b->threads = l->block;
            b->fibre = &t->fibre[(size_t)(b - t->block) * l->block];
            b->warp = &t->warp[(size_t)(b - t->block) * (l->block / QHX_LANES)];
        }
    }
    for (uint32_t i = 0; i < t->fibre_count; i++) {
        qhx_fibre *f = &t->fibre[i];
        f->team = t;
        f->block = &t->block[i / l->block];
        f->warp = &t->warp[i / QHX_LANES];
        f->lane = i % QHX_LANES;
        if (f->lane == 0) f->warp->fibre = f;
        f->thread.services = &qhx_service_table;
        f->thread.smem = f->block->smem;
        f->thread.smem_size = l->smem;
        f->thread.thread = (qhx_dim){i % l->block, 0, 0};
        f->thread.grid = (qhx_dim){(uint32_t)l->grid[0], (uint32_t)l->grid[1], (uint32_t)l->grid[2]};
        f->thread.block_size = (qhx_dim){l->block, 1, 1};
        f->thread.cluster_rank = f->block->rank;
        f->thread.cluster_size = l->cluster;
    }
}

static void release_memory(qhx_team *t) {
    for (uint32_t i = 0; t->fibre && i < t->fibre_count; i++) {
        qhx_async_free(&t->fibre[i]);
        qhx_context_forget(&t->fibre[i].context);
    }
    for (uint32_t i = 0; t->warp && i < t->fibre_count / QHX_LANES; i++)
        free(t->warp[i].product);
    for (int i = 0; t->block && i < t->cluster_count * (t->cluster ? t->cluster->size : 0); i++)
        free(t->block[i].smem);
    qhx_transfer_free(t);
    qhx_race_end(t->carrier);
    free(t->fibre);
    free(t->warp);
    free(t->block);
    free(t->cluster);
    free(t->ready);
    free(t->scratch);
}

static void start_block(qhx_team *t, qhx_block *b, const qhx_stacks *stacks) {
    memset(b->barrier, 0, sizeof b->barrier);
    if (t->poison) memset(b->smem, 0xff, b->smem_size);
    memset(b->smem + b->smem_size, TAIL_BYTE, TAIL);
    b->live = b->threads;
    for (uint32_t w = 0; w < b->threads / QHX_LANES; w++) {
        b->warp[w].arrived = b->warp[w].ended = 0;
        b->warp[w].product_count = b->warp[w].product_group = b->warp[w].products = 0;
        b->warp[w].fenced = false;
    }
    for (uint32_t i = 0; i < b->threads; i++) {
        qhx_fibre *f = &b->fibre[i];
        uint32_t number = (uint32_t)(f - t->fibre);
        f->thread.block = b->index;
        f->what = NULL;
        f->file = NULL;
        f->cluster_arrived = false;
        /* Stacks start at different lines of the cache: all tops at one page offset would share a few sets.
         */
        qhx_fibre_start(f, qhx_stacks_at(stacks, number), stacks->size, number % 61 * 64);
    }
}

/* Puts the cluster with this linear number into a free slot. */
static void start_cluster(qhx_team *t, qhx_cluster *c, const qhx_launch *l, int64_t number,
                          const qhx_stacks *stacks) {
    int64_t wide = l->grid[0] / l->cluster;
    c->arrived = c->phase = 0;
    c->live = l->block * (uint32_t)c->size;
    for (int r = 0; r < c->size; r++) {
        c->block[r].index.x = (uint32_t)(number % wide * l->cluster + r);
        c->block[r].index.y = (uint32_t)(number / wide % l->grid[1]);
        c->block[r].index.z = (uint32_t)(number / wide / l->grid[1]);
        start_block(t, &c->block[r], stacks);
    }
    for (uint32_t i = 0; i < c->live; i++)
        t->scratch[i] = &c->block->fibre[i];
    qhx_release(t, t->scratch, c->live, false);
}

static bool tail_whole(const qhx_block *b) {
    for (int i = 0; i < TAIL; i++)
        if (b->smem[b->smem_size + (uint32_t)i] != TAIL_BYTE) return false;
    return true;
}

static void fail_block(qhx_team *t, const qhx_block *b, const char *why) {
    char what[256];
    snprintf(what, sizeof what, "kernel %s", t->kernel_name);
    qg_failf(&t->error, QG_INTERNAL, what, "", "block (%u,%u,%u) %s", b->index.x, b->index.y, b->index.z,
             why);
    t->failed = true;
}

static void check_ended(qhx_team *t, qhx_cluster *c) {
    for (int r = 0; r < c->size && !t->failed; r++) {
        qhx_block *b = &c->block[r];
        char why[128];
        snprintf(why, sizeof why, "wrote behind its %u bytes of shared memory", b->smem_size);
        if (!qhx_transfer_check_end(t, b)) continue;
        if (!tail_whole(b))
            fail_block(t, b, why);
        else if (!qhx_wgmma_balanced(b))
            fail_block(t, b, "issued more wgmma products in one warp of a warpgroup than in another");
    }
}

/* Fills free slots. False when none was filled. */
static bool refill(qhx_team *t, grid_walk *walk, const qhx_launch *l, const qhx_stacks *stacks) {
    bool filled = false;
    for (int c = 0; c < t->cluster_count && walk->next < walk->count; c++)
        if (t->cluster[c].live == 0) {
            start_cluster(t, &t->cluster[c], l, walk->cluster[walk->next++], stacks);
            filled = true;
        }
    return filled;
}

static bool alive(const qhx_team *t) {
    for (int c = 0; c < t->cluster_count; c++)
        if (t->cluster[c].live) return true;
    return false;
}

/* Nobody is ready, or only those who look at a flag again and again: something that may happen now happens.
 */
static void unblock(qhx_team *t) {
    if (qhx_flag_wake(t, NULL, false) || qhx_transfer_land(t) || t->failed) return;
    if (t->ready_count && t->polls < 1000 + 200 * (uint64_t)t->fibre_count) {
        t->polls++;
        return;
    }
    if (t->waits_expire && qhx_flag_wake(t, NULL, true)) return;
    qhx_report_deadlock(t);
}

static void run(qhx_team *t, grid_walk *walk, const qhx_launch *l, const qhx_stacks *stacks) {
    uint32_t *before = calloc((size_t)t->cluster_count, sizeof *before);
    if (!before) {
        t->failed = true;
        qg_fail(&t->error, QG_NO_MEMORY, "host executor", "no memory for a launch", "");
        return;
    }
    refill(t, walk, l, stacks);
    while (!t->failed) {
        for (int c = 0; c < t->cluster_count; c++)
            before[c] = t->cluster[c].live;
        qhx_dispatch(t);
        bool ended = false;
        for (int c = 0; c < t->cluster_count && !t->failed; c++)
            if (before[c] && t->cluster[c].live == 0) {
                check_ended(t, &t->cluster[c]);
                ended = true;
            }
        if (t->failed) break;
        if (ended) {
            if (!refill(t, walk, l, stacks) && !alive(t)) break;
        } else {
            unblock(t);
        }
    }
    free(before);
}

static bool plan_walk(grid_walk *walk, const qhx_launch *l, qhx_order *order) {
    walk->count = l->grid[0] / l->cluster * l->grid[1] * l->grid[2];
    walk->next = 0;
    walk->cluster = malloc((size_t)walk->count * sizeof *walk->cluster);
    if (!walk->cluster) return false;
    for (int64_t i = 0; i < walk->count; i++)
        walk->cluster[i] = i;
    qhx_order_arrange_i64(order, walk->cluster, walk->count);
    return true;
}

static qg_status refuse(const qhx_launch *l, qg_error *err, const char *why) {
    char what[256];
    snprintf(what, sizeof what, "kernel %s", l->kernel_name);
    return qg_fail(err, QG_INTERNAL, what, why, "");
}

static qg_status check(const qhx_launch *l, qg_error *err) {
    if (l->block == 0 || l->block > QHX_MAX_BLOCK || l->block % QHX_LANES != 0)
        return refuse(l, err, "a block has 32 to 1024 threads, in whole warps");
    if (l->block > l->kernel->threads)
        return refuse(l, err, "the block has more threads than the kernel's launch bound");
    if (l->cluster < 1 || l->cluster > QHX_MAX_CLUSTER || l->grid[0] % l->cluster != 0)
        return refuse(l, err, "a cluster has 1 to 16 blocks, and the grid's x extent is a multiple of it");
    if (l->grid[0] > INT32_MAX || l->grid[1] > 65535 || l->grid[2] > 65535)
        return refuse(l, err, "the grid is larger than 2147483647 x 65535 x 65535 blocks");
    return QG_OK;
}

qg_status qhx_launch_run(const qhx_launch *l, qhx_stacks *stacks, qg_error *err) {
    qg_status status = check(l, err);
    if (status != QG_OK) return status;
    qhx_team t = {.kernel_name = l->kernel_name,
                  .kernel = l->kernel,
                  .args = l->args,
                  .self = l->kernel->self(),
                  .order = l->order,
                  .poison = l->poison,
                  .waits_expire = l->waits_expire};
    grid_walk walk;
    if (!plan_walk(&walk, l, &t.order))
        return qg_fail(err, QG_NO_MEMORY, "host executor", "no memory for a grid", "");
    int64_t slots = l->cooperative ? walk.count : qhx_order_residency(&t.order);
    slots = slots < walk.count ? slots : walk.count;
    int64_t fibres = slots * l->cluster * l->block;
    if (fibres > MAX_FIBRES) {
        free(walk.cluster);
        return qg_failf(err, QG_UNSUPPORTED, "host executor", "plan for a device record with fewer SMs",
                        "kernel %s needs %lld threads at once, the CPU takes %d", l->kernel_name,
                        (long long)fibres, MAX_FIBRES);
    }
    t.main = *l->own;
    t.carrier = qhx_race_thread();
    status = qhx_stacks_need(stacks, (uint32_t)fibres, err);
    if (status == QG_OK && !allocate(&t, l, (int)slots))
        status = qg_fail(err, QG_NO_MEMORY, "host executor", "no memory for a launch", "");
    if (status == QG_OK) {
        connect(&t, l);
        run(&t, &walk, l, stacks);
        if (t.failed) {
            status = t.error.status;
            if (err) *err = t.error;
        }
    }
    release_memory(&t);
    free(walk.cluster);
    return status;
}
