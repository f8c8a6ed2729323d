/* Scheduling inside a team. Functions that take a fibre are called on that fibre's stack. */
#ifndef QHX_TEAM_H
#define QHX_TEAM_H

#include "runtime/host/state.h"

static inline qhx_fibre *qhx_fibre_of(qhx_thread *t) {
    return (qhx_fibre *)(void *)t;
}

/* Notes which primitive the fibre is in. */
static inline void qhx_enter(qhx_fibre *f, const char *what, const char *file, int line) {
    f->what = what;
    f->file = file;
    f->line = line;
}

/* Gives up the CPU with the given status until somebody makes the fibre ready. */
void qhx_suspend(qhx_fibre *f, qhx_status status);
/* Makes n fibres (ascending) ready, in the order's arrangement. The list may include the caller, which then
 * suspends itself with QHX_READY. */
void qhx_release(qhx_team *team, qhx_fibre **list, uint32_t n, bool front);
/* Suspends a fibre that was put into the ready ring by qhx_release. */
void qhx_pass(qhx_fibre *f);
/* Behind everybody who is ready. */
void qhx_poll(qhx_fibre *f);

/* The launch loop's side: runs fibres until none is ready, one finished its cluster, or the team failed. */
void qhx_dispatch(qhx_team *team);
void qhx_fibre_start(qhx_fibre *f, void *stack, size_t size, size_t skip);

/* Records the error and leaves for the launch loop, for ever. `fix` may be "". */
_Noreturn void qhx_stop(qhx_fibre *f, qg_status status, const char *fix, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
