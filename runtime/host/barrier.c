#include "runtime/host/barrier.h"

#include "runtime/host/race.h"
#include "runtime/host/team.h"

static const char *barrier_name(int id, int arrive) {
    return id == 0 ? "block_sync" : arrive ? "bar_arrive" : "bar_sync";
}

static void check(qhx_fibre *f, int id, int threads) {
    if (id < 0 || id >= QHX_BARRIERS)
        qhx_stop(f, QG_INTERNAL, "ids are 0 to 15", "there is no barrier %d", id);
    if (threads <= 0 || threads % QHX_LANES != 0 || threads > (int)f->block->threads)
        qhx_stop(f, QG_INTERNAL, "thread counts are multiples of 32 up to the block's",
                 "barrier %d for %d threads in a block of %u", id, threads, f->block->threads);
    const qhx_barrier_state *b = &f->block->barrier[id];
    if (b->arrived && b->threads != threads)
        qhx_stop(f, QG_INTERNAL, "", "barrier %d for %d threads, others are there for %d", id, threads,
                 b->threads);
}

static void complete(qhx_fibre *f, int id) {
    qhx_block *block = f->block;
    qhx_barrier_state *b = &block->barrier[id];
    qhx_fibre **list = f->team->scratch;
    uint32_t n = 0;
    for (uint32_t i = 0; i < block->threads; i++) {
        qhx_fibre *g = &block->fibre[i];
        if (g->status == QHX_IN_BARRIER && g->barrier == id) {
            g->result = (uint64_t)b->any;
            list[n++] = g;
        }
    }
    *b = (qhx_barrier_state){.phase = b->phase + 1};
    qhx_release(f->team, list, n, false);
}

int qhx_barrier(qhx_thread *t, int id, int threads, int arrive, int pred, QHX_AT) {
    qhx_fibre *f = qhx_fibre_of(t);
    qhx_enter(f, barrier_name(id, arrive), file, line);
    check(f, id, threads);
    qhx_barrier_state *b = &f->block->barrier[id];
    b->threads = threads;
    b->any |= pred != 0;
    char *race = &b->race[b->phase & 1];
    qhx_race_before(race);
    bool last = ++b->arrived == threads;
    if (arrive) {
        if (last) complete(f, id);
        return 0;
    }
    f->barrier = id;
    f->status = QHX_IN_BARRIER;
    if (last) complete(f, id);
    qhx_pass(f);
    qhx_race_after(race);
    return (int)f->result;
}

static void complete_cluster(qhx_fibre *f) {
    qhx_cluster *c = f->block->cluster;
    uint32_t n = 0, threads = f->block->threads * (uint32_t)c->size;
    c->arrived = 0;
    c->phase++;
    for (uint32_t i = 0; i < threads; i++)
        if (c->block->fibre[i].status == QHX_IN_CLUSTER) f->team->scratch[n++] = &c->block->fibre[i];
    qhx_release(f->team, f->team->scratch, n, false);
}

void qhx_cluster_barrier(qhx_thread *t, int op, QHX_AT) {
    qhx_fibre *f = qhx_fibre_of(t);
    qhx_cluster *c = f->block->cluster;
    qhx_enter(f, op == QHX_CLUSTER_ARRIVE ? "cluster_arrive" : "cluster_wait", file, line);
    if (f->cluster_arrived == (op == QHX_CLUSTER_ARRIVE))
        qhx_stop(f, QG_INTERNAL, "cluster_arrive() and cluster_wait() alternate", "%s",
                 f->cluster_arrived ? "a second arrive without a wait" : "a wait without an arrive");
    if (op == QHX_CLUSTER_ARRIVE) {
        f->cluster_arrived = true;
        f->cluster_phase = c->phase;
        qhx_race_before(&c->race[c->phase & 1]);
        if (++c->arrived == f->block->threads * (uint32_t)c->size) complete_cluster(f);
        return;
    }
    f->cluster_arrived = false;
    if (f->cluster_phase == c->phase) qhx_suspend(f, QHX_IN_CLUSTER);
    qhx_race_after(&c->race[f->cluster_phase & 1]);
}
