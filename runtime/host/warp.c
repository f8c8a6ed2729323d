#include "runtime/host/warp.h"

#include "runtime/host/mma.h"
#include "runtime/host/race.h"
#include "runtime/host/team.h"
#include "runtime/host/wgmma.h"

#include <math.h>
#include <string.h>

static float as_float(uint64_t bits) {
    uint32_t low = (uint32_t)bits;
    float x;
    memcpy(&x, &low, sizeof x);
    return x;
}

static uint64_t as_bits(float x) {
    uint32_t low;
    memcpy(&low, &x, sizeof low);
    return low;
}

static void do_nothing(qhx_warp *w) {
    (void)w;
}

static void do_shfl(qhx_warp *w) {
    for (int i = 0; i < QHX_LANES; i++)
        w->fibre[i].result = w->fibre[w->fibre[i].arg & 31].value;
}

static void do_xor(qhx_warp *w) {
    for (int i = 0; i < QHX_LANES; i++) {
        int from = i ^ w->fibre[i].arg;
        w->fibre[i].result = w->fibre[from >= 0 && from < QHX_LANES ? from : i].value;
    }
}

static void do_down(qhx_warp *w) {
    for (int i = 0; i < QHX_LANES; i++) {
        int from = i + (w->fibre[i].arg & 31);
        w->fibre[i].result = w->fibre[from < QHX_LANES ? from : i].value;
    }
}

static void do_ballot(qhx_warp *w) {
    uint32_t bits = 0;
    for (int i = 0; i < QHX_LANES; i++)
        bits |= (uint32_t)(w->fibre[i].value != 0) << i;
    for (int i = 0; i < QHX_LANES; i++)
        w->fibre[i].result = bits;
}

static void butterfly(qhx_warp *w, float (*combine)(float, float)) {
    float x[QHX_LANES], y[QHX_LANES];
    for (int i = 0; i < QHX_LANES; i++)
        x[i] = as_float(w->fibre[i].value);
    for (int mask = 16; mask > 0; mask >>= 1) {
        for (int i = 0; i < QHX_LANES; i++)
            y[i] = combine(x[i], x[i ^ mask]);
        memcpy(x, y, sizeof x);
    }
    for (int i = 0; i < QHX_LANES; i++)
        w->fibre[i].result = as_bits(x[i]);
}

static float plus(float a, float b) {
    return a + b;
}

static void do_sum(qhx_warp *w) {
    butterfly(w, plus);
}

static void do_max(qhx_warp *w) {
    butterfly(w, fmaxf);
}

static void do_or(qhx_warp *w) {
    uint32_t bits = 0;
    for (int i = 0; i < QHX_LANES; i++)
        bits |= (uint32_t)w->fibre[i].value;
    for (int i = 0; i < QHX_LANES; i++)
        w->fibre[i].result = bits;
}

static const struct {
    const char *name;
    void (*work)(qhx_warp *);
} ops[QHX_WARP_OP_COUNT] = {
    [QHX_WARP_SYNC] = {"warp_sync", do_nothing},
    [QHX_WARP_SHFL] = {"shfl", do_shfl},
    [QHX_WARP_SHFL_XOR] = {"shfl_xor", do_xor},
    [QHX_WARP_SHFL_DOWN] = {"shfl_down", do_down},
    [QHX_WARP_BALLOT] = {"warp_ballot", do_ballot},
    [QHX_WARP_SUM] = {"warp_sum", do_sum},
    [QHX_WARP_MAX] = {"warp_max", do_max},
    [QHX_WARP_OR] = {"redux_or", do_or},
    [QHX_WARP_MMA] = {"mma", qhx_mma_work},
    [QHX_WARP_LDMATRIX] = {"ldmatrix", qhx_ldmatrix_work},
    [QHX_WARP_WGMMA] = {"wgmma_f16_rs", qhx_wgmma_work},
    [QHX_WARP_WGMMA_FENCE] = {"wgmma_fence", qhx_wgmma_fence_work},
    [QHX_WARP_WGMMA_COMMIT] = {"wgmma_commit", qhx_wgmma_commit_work},
    [QHX_WARP_WGMMA_WAIT] = {"wgmma_wait", qhx_wgmma_wait_work},
};

static void check_same(qhx_fibre *f, int op) {
    const qhx_fibre *o = f->warp->opener;
    if (o->line == f->line && f->warp->op == op && (o->file == f->file || strcmp(o->file, f->file) == 0))
        return;
    qhx_stop(f, QG_INTERNAL, "all lanes of a warp call the same collective together",
             "the warp is divergent: lane %u is in %s at %s:%d", o->lane, o->what, o->file, o->line);
}

void qhx_warp_join(qhx_fibre *f, int op, const char *file, int line) {
    qhx_warp *w = f->warp;
    qhx_enter(f, ops[op].name, file, line);
    if (w->ended)
        qhx_stop(f, QG_INTERNAL, "lanes that have nothing to do still call the collectives",
                 "%u lanes of the warp have returned already", w->ended);
    if (w->arrived == 0) {
        w->opener = f;
        w->op = op;
    } else {
        check_same(f, op);
    }
    char *race = &w->race[w->phase & 1];
    if (op == QHX_WARP_SYNC) qhx_race_before(race);
    if (++w->arrived < QHX_LANES) {
        qhx_suspend(f, QHX_IN_WARP);
        if (op == QHX_WARP_SYNC) qhx_race_after(race);
        return;
    }
    w->arrived = 0;
    w->phase++;
    ops[op].work(w);
    qhx_fibre *list[QHX_LANES];
    for (int i = 0; i < QHX_LANES; i++)
        list[i] = &w->fibre[i];
    qhx_team *team = f->team;
    qhx_release(team, list, QHX_LANES, qhx_order_warp_first(&team->order));
    qhx_pass(f);
    if (op == QHX_WARP_SYNC) qhx_race_after(race);
}

uint64_t qhx_warp_call(qhx_thread *t, int op, uint64_t value, int arg, QHX_AT) {
    qhx_fibre *f = qhx_fibre_of(t);
    f->value = value;
    f->arg = arg;
    qhx_warp_join(f, op, file, line);
    return f->result;
}
