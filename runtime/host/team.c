#include "runtime/host/team.h"

#include "runtime/host/async.h"
#include "runtime/host/host.h"
#include "runtime/host/race.h"
#include "runtime/host/report.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void push_back(qhx_team *t, qhx_fibre *f) {
    t->ready[(t->ready_head + t->ready_count++) & (t->ready_size - 1)] = f;
}

static void push_front(qhx_team *t, qhx_fibre *f) {
    t->ready_head = (t->ready_head - 1) & (t->ready_size - 1);
    t->ready[t->ready_head] = f;
    t->ready_count++;
}

/* NULL when the launch loop has to decide. Pollers alone are not work: every so often the loop looks whether
 * anything can still happen. */
static qhx_fibre *pop(qhx_team *t) {
    if (t->ready_count == 0 || t->failed || (t->polls && t->polls % (2u * t->fibre_count) == 0)) return NULL;
    qhx_fibre *f = t->ready[t->ready_head];
    t->ready_head = (t->ready_head + 1) & (t->ready_size - 1);
    t->ready_count--;
    return f;
}

static qhx_context *go_to(qhx_team *t, qhx_fibre *next) {
    if (!next) return &t->main;
    next->status = QHX_RUNNING;
    *t->self = &next->thread;
    return &next->context;
}

void qhx_pass(qhx_fibre *f) {
    qhx_fibre *next = pop(f->team);
    if (next == f)
        f->status = QHX_RUNNING;
    else
        qhx_context_switch(&f->context, go_to(f->team, next));
}

void qhx_suspend(qhx_fibre *f, qhx_status status) {
    f->status = status;
    qhx_pass(f);
}

void qhx_release(qhx_team *t, qhx_fibre **list, uint32_t n, bool front) {
    t->polls = 0;
    qhx_order_arrange(&t->order, (void **)list, n);
    for (uint32_t i = 0; i < n; i++) {
        qhx_fibre *f = list[front ? n - 1 - i : i];
        f->status = QHX_READY;
        if (front)
            push_front(t, f);
        else
            push_back(t, f);
    }
}

void qhx_poll(qhx_fibre *f) {
    qhx_team *t = f->team;
    t->polls++;
    push_back(t, f);
    qhx_suspend(f, QHX_POLLING);
}

void qhx_dispatch(qhx_team *t) {
    qhx_fibre *next = pop(t);
    qhx_race_before(&t->race);
    if (next) qhx_context_switch(&t->main, go_to(t, next));
    qhx_race_after(&t->race);
    *t->self = NULL;
}

static void finish(qhx_fibre *f) {
    qhx_team *t = f->team;
    qhx_enter(f, "the end of the kernel", NULL, 0);
    qhx_async_end(f);
    f->status = QHX_DONE;
    qhx_race_before(&t->race);
    f->warp->ended++;
    f->block->live--;
    t->polls = 0;
    /* A slot that became free is filled before anybody else goes on: the loop does that. */
    qhx_fibre *next = --f->block->cluster->live == 0 ? NULL : pop(t);
    qhx_context_leave(&f->context, go_to(t, next));
}

static void body(void *argument) {
    qhx_fibre *f = argument;
    qhx_context_started();
    qhx_race_after(&f->team->race);
    f->team->kernel->run(f->team->args);
    finish(f);
}

void qhx_fibre_start(qhx_fibre *f, void *stack, size_t size, size_t skip) {
    qhx_context_make(&f->context, stack, size, skip, body, f);
}

void qhx_stop(qhx_fibre *f, qg_status status, const char *fix, const char *format, ...) {
    qhx_team *t = f->team;
    char text[1024], where[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    qhx_report_thread(f, where, sizeof where);
    char what[256];
    snprintf(what, sizeof what, "kernel %s", t->kernel_name);
    qg_failf(&t->error, status, what, fix, "%s: %s", where, text);
    t->failed = true;
    qhx_context_leave(&f->context, &t->main);
    __builtin_unreachable();
}
