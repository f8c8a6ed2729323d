#include "runtime/host/transfer.h"

#include "runtime/host/host.h"
#include "runtime/host/race.h"
#include "runtime/host/shared.h"
#include "runtime/host/team.h"
#include "runtime/host/tensor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The 8 bytes of an mbarrier. Poison (all ones) is no valid state, so a barrier used before mbar_init() is
 * found out. */
typedef struct mbar_state {
    uint32_t count, pending; /* arrivals of a phase; still missing: 20 bits each */
    int32_t bytes;           /* expected minus landed: 22 bits */
    uint32_t phase;          /* parity of the current phase: 1 bit */
} mbar_state;

enum { MAX_COUNT = (1 << 20) - 1 };

static bool unpack(uint64_t w, mbar_state *s) {
    s->count = (uint32_t)(w & MAX_COUNT);
    s->pending = (uint32_t)(w >> 20 & MAX_COUNT);
    s->bytes = (int32_t)(w >> 40 & 0x3fffff) - (1 << 21);
    s->phase = (uint32_t)(w >> 62 & 1);
    return w >> 63 == 0 && s->count > 0;
}

static uint64_t pack(const mbar_state *s) {
    return s->count | (uint64_t)s->pending << 20 | (uint64_t)(uint32_t)(s->bytes + (1 << 21)) << 40 |
           (uint64_t)s->phase << 62;
}

static mbar_state load(qhx_fibre *f, uint32_t address) {
    uint64_t w;
    mbar_state s;
    memcpy(&w, qhx_shared_at(f, address, 8, 8), sizeof w);
    if (!unpack(w, &s))
        qhx_stop(f, QG_INTERNAL, "mbar_init() it, then block_sync()", "no mbarrier at shared address 0x%x",
                 address);
    return s;
}

static void wake(qhx_team *team, qhx_block *block, uint32_t offset) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < block->threads; i++) {
        qhx_fibre *f = &block->fibre[i];
        if (f->status == QHX_IN_MBAR && qhx_shared_local(f->address) == offset) team->scratch[n++] = f;
    }
    qhx_release(team, team->scratch, n, false);
}

/* Stores the state, having turned the phase when nothing is missing any more. */
static void settle(qhx_team *team, qhx_block *block, uint32_t offset, mbar_state *s) {
    bool turn = s->pending == 0 && s->bytes == 0;
    if (turn) {
        s->pending = s->count;
        s->phase ^= 1;
    }
    uint64_t w = pack(s);
    memcpy(block->smem + (offset - QHX_SHARED_BASE), &w, sizeof w);
    team->polls = 0;
    if (turn) wake(team, block, offset);
}

static void init(qhx_fibre *f, uint32_t address, uint32_t count) {
    if (count == 0 || count > MAX_COUNT) qhx_stop(f, QG_INTERNAL, "", "an mbarrier for %u arrivals", count);
    mbar_state s = {count, count, 0, 0};
    uint64_t w = pack(&s);
    memcpy(qhx_shared_at(f, address, 8, 8), &w, sizeof w);
}

static void arrive(qhx_fibre *f, uint32_t address, uint32_t bytes) {
    mbar_state s = load(f, address);
    if (s.pending == 0)
        qhx_stop(f, QG_INTERNAL, "", "more arrivals than the mbarrier's %u in one phase", s.count);
    if (bytes >= 1u << 20) qhx_stop(f, QG_INTERNAL, "", "an mbarrier cannot expect %u bytes", bytes);
    qhx_race_before((char *)qhx_shared_at(f, address, 8, 8) + s.phase);
    s.bytes += (int32_t)bytes;
    s.pending--;
    settle(f->team, qhx_shared_block(f, address), qhx_shared_local(address), &s);
}

static void wait_for(qhx_fibre *f, uint32_t address, uint32_t parity) {
    f->address = address;
    f->parity = parity & 1;
    while (load(f, address).phase == f->parity)
        qhx_suspend(f, QHX_IN_MBAR);
    qhx_race_after((char *)qhx_shared_at(f, address, 8, 8) + f->parity);
}

void qhx_mbar(qhx_thread *t, int op, uint32_t address, uint32_t value, QHX_AT) {
    static const struct {
        const char *name;
        void (*work)(qhx_fibre *, uint32_t, uint32_t);
    } ops[] = {
        [QHX_MBAR_INIT] = {"mbar_init", init},
        [QHX_MBAR_EXPECT] = {"mbar_expect", arrive},
        [QHX_MBAR_ARRIVE] = {"mbar_arrive", arrive},
        [QHX_MBAR_WAIT] = {"mbar_wait", wait_for},
    };
    qhx_fibre *f = qhx_fibre_of(t);
    qhx_enter(f, ops[op].name, file, line);
    ops[op].work(f, address, value);
}

/* The carrier moves the data and counts its bytes. The barrier may have gone bad since then: returns NULL, or
 * why. */
static const char *land(qhx_team *team, qhx_transfer *x) {
    uint64_t w;
    mbar_state s;
    unsigned char *dst = x->block->smem + (x->dst - QHX_SHARED_BASE);
    memcpy(&w, x->block->smem + (x->mbar - QHX_SHARED_BASE), sizeof w);
    if (!unpack(w, &s)) return "its mbarrier was not initialised, or has been overwritten";
    qhx_race_after(&team->carried); /* what those that sent things did before */
    if (x->tensor)
        qhx_tensor_move(&x->map, x->at, dst, x->dst, true);
    else
        memcpy(dst, x->src ? x->src : x->value, x->bytes);
    qhx_race_before((char *)x->block->smem + (x->mbar - QHX_SHARED_BASE) + s.phase);
    s.bytes -= (int32_t)x->bytes;
    if (s.bytes <= -(1 << 21)) return "the mbarrier counts too many bytes that nobody expects";
    settle(team, x->block, x->mbar, &s);
    return NULL;
}

static void fail(qhx_team *team, const qhx_transfer *x, const char *why) {
    char what[256];
    snprintf(what, sizeof what, "kernel %s", team->kernel_name);
    qg_failf(&team->error, QG_INTERNAL, what, "wait with mbar_wait()", "%s at %s:%d, block (%u,%u,%u): %s",
             x->what, x->file, x->line, x->block->index.x, x->block->index.y, x->block->index.z, why);
    team->failed = true;
}

bool qhx_transfer_land(qhx_team *team) {
    if (team->transfer_count == 0 || team->failed) return false;
    uint32_t i = team->order.kind == QHX_SEEDED ? qhx_order_pick(&team->order, team->transfer_count) : 0;
    void *self = qhx_race_self();
    qhx_race_switch(team->carrier); /* the list is its own */
    qhx_transfer x = team->transfer[i];
    memmove(team->transfer + i, team->transfer + i + 1, (--team->transfer_count - i) * sizeof x);
    const char *why = land(team, &x);
    qhx_race_switch(self);
    if (why) fail(team, &x, why);
    return !why;
}

bool qhx_transfer_check_end(qhx_team *team, const qhx_block *block) {
    for (uint32_t i = 0; i < team->transfer_count; i++)
        if (team->transfer[i].block == block) {
            fail(team, &team->transfer[i], "the block ended while the copy was on its way");
            return false;
        }
    return true;
}

void qhx_transfer_free(qhx_team *team) {
    free(team->transfer);
    team->transfer = NULL;
    team->transfer_count = team->transfer_capacity = 0;
}

static bool append(qhx_team *team, const qhx_transfer *x) {
    if (team->transfer_count == team->transfer_capacity) {
        uint32_t capacity = team->transfer_capacity ? 2 * team->transfer_capacity : 64;
        qhx_transfer *all = realloc(team->transfer, capacity * sizeof *all);
        if (!all) return false;
        team->transfer = all;
        team->transfer_capacity = capacity;
    }
    team->transfer[team->transfer_count++] = *x;
    return true;
}

static void issue(qhx_fibre *f, qhx_transfer *x, uint32_t dst, uint32_t mbar) {
    qhx_team *team = f->team;
    load(f, mbar); /* it must be a barrier now */
    x->block = qhx_shared_block(f, dst);
    if (qhx_shared_block(f, mbar) != x->block)
        qhx_stop(f, QG_INTERNAL, "", "data and mbarrier lie in different blocks");
    x->dst = qhx_shared_local(dst);
    x->mbar = qhx_shared_local(mbar);
    x->what = f->what;
    x->file = f->file;
    x->line = f->line;
    const char *why = NULL;
    bool room = true;
    void *self = qhx_race_self();
    qhx_race_before(&team->carried);
    qhx_race_switch(team->carrier);
    if (qhx_order_lands_now(&team->order))
        why = land(team, x);
    else
        room = append(team, x);
    qhx_race_switch(self);
    if (why) qhx_stop(f, QG_INTERNAL, "", "%s", why);
    if (!room) qhx_stop(f, QG_NO_MEMORY, "", "no memory for a pending copy");
}

void qhx_bulk_load(qhx_thread *t, uint32_t dst, const void *src, uint32_t bytes, uint32_t mbar, QHX_AT) {
    qhx_fibre *f = qhx_fibre_of(t);
    qhx_enter(f, "bulk_load", file, line);
    if ((uintptr_t)src % 16 != 0 || bytes % 16 != 0)
        qhx_stop(f, QG_INTERNAL, "", "%u bytes from %p: both must be multiples of 16", bytes, src);
    qhx_shared_at(f, dst, bytes, 16);
    qhx_transfer x = {.bytes = bytes, .src = src};
    issue(f, &x, dst, mbar);
}

void qhx_tma_load(qhx_thread *t, uint32_t dst, const void *map, const int *at, int rank, uint32_t mbar,
                  QHX_AT) {
    qhx_fibre *f = qhx_fibre_of(t);
    qhx_enter(f, "tma_load", file, line);
    qhx_transfer x = {.bytes = qhx_tensor_check(f, map, rank, dst), .tensor = true};
    qhx_shared_at(f, dst, x.bytes, 16);
    memcpy(x.at, at, (size_t)rank * sizeof *at);
    memcpy(&x.map, map, sizeof x.map);
    issue(f, &x, dst, mbar);
}

void qhx_st_async(qhx_thread *t, uint32_t dst, const void *value, uint32_t bytes, uint32_t mbar, QHX_AT) {
    qhx_fibre *f = qhx_fibre_of(t);
    qhx_enter(f, "st_async", file, line);
    qhx_shared_at(f, dst, bytes, bytes);
    qhx_transfer x = {.bytes = bytes};
    memcpy(x.value, value, bytes);
    issue(f, &x, dst, mbar);
}
