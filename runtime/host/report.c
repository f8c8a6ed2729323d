#include "runtime/host/report.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct text {
    char *data;
    size_t size, used;
} text;

static void put(text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(text *t, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = vsnprintf(t->data + t->used, t->size - t->used, format, args);
    va_end(args);
    if (n > 0) t->used = t->used + (size_t)n < t->size ? t->used + (size_t)n : t->size - 1;
}

static void put_place(text *t, const qhx_fibre *f) {
    put(t, "%s", f->what ? f->what : "the kernel's start");
    if (f->file) put(t, " at %s:%d", f->file, f->line);
}

static void put_block(text *t, const qhx_block *b) {
    put(t, "block (%u,%u,%u)", b->index.x, b->index.y, b->index.z);
}

void qhx_report_thread(const qhx_fibre *f, char *out, size_t size) {
    text t = {out, size, 0};
    put(&t, "thread %u of ", f->thread.thread.x);
    put_block(&t, f->block);
    put(&t, " in ");
    put_place(&t, f);
}

static bool same_place(const qhx_fibre *a, const qhx_fibre *b) {
    if ((a->status == QHX_DONE) != (b->status == QHX_DONE)) return false;
    if (a->status == QHX_DONE) return true;
    return a->line == b->line && a->what == b->what &&
           (a->file == b->file || (a->file && b->file && strcmp(a->file, b->file) == 0));
}

static bool first_of_place(const qhx_block *b, uint32_t i) {
    for (uint32_t k = 0; k < i; k++)
        if (same_place(&b->fibre[k], &b->fibre[i])) return false;
    return true;
}

static void put_group(text *t, const qhx_block *b, uint32_t first) {
    const qhx_fibre *f = &b->fibre[first];
    uint32_t count = 0;
    for (uint32_t i = first; i < b->threads; i++)
        count += same_place(&b->fibre[i], f);
    put(t, "%u thread%s (%u%s) ", count, count == 1 ? "" : "s", first, count == 1 ? "" : ", ...");
    if (f->status == QHX_DONE) {
        put(t, "ended");
        return;
    }
    put(t, "in ");
    put_place(t, f);
    if (f->status == QHX_IN_WARP) put(t, " with %u of 32 lanes there", f->warp->arrived);
    if (f->status == QHX_IN_BARRIER)
        put(t, " with %d of %d threads there", b->barrier[f->barrier].arrived,
            b->barrier[f->barrier].threads);
    if (f->status == QHX_IN_FLAG) put(t, " for %d where there is %d", f->flag_value, *f->flag);
}

static void put_waiters(text *t, const qhx_block *b) {
    enum { SHOWN = 6 };
    int groups = 0;
    put_block(t, b);
    put(t, ": ");
    for (uint32_t i = 0; i < b->threads; i++) {
        if (!first_of_place(b, i)) continue;
        if (groups++ == SHOWN) {
            put(t, ", and others elsewhere");
            return;
        }
        put(t, "%s", groups > 1 ? ", " : "");
        put_group(t, b, i);
    }
}

void qhx_report_deadlock(qhx_team *team) {
    enum { SHOWN = 3 };
    char why[2048], what[256];
    text t = {why, sizeof why, 0};
    int blocks = 0;
    put(&t, "deadlock: no thread can go on; ");
    for (int c = 0; c < team->cluster_count; c++) {
        const qhx_cluster *cluster = &team->cluster[c];
        for (int r = 0; cluster->live && r < cluster->size; r++) {
            if (cluster->block[r].live == 0 || blocks++ >= SHOWN) continue;
            put(&t, "%s", blocks > 1 ? "; " : "");
            put_waiters(&t, &cluster->block[r]);
        }
    }
    if (blocks > SHOWN) put(&t, "; and %d more blocks", blocks - SHOWN);
    snprintf(what, sizeof what, "kernel %s", team->kernel_name);
    const char *fix =
        team->flag_waiters
            ? "set the flag on every path; blocks that wait on each other need a cooperative launch "
              "or atomic tickets"
            : "";
    qg_fail(&team->error, QG_INTERNAL, what, why, fix);
    team->failed = true;
}
