#include "runtime/host/flag.h"

#include "runtime/host/race.h"
#include "runtime/host/team.h"

bool qhx_flag_wake(qhx_team *team, const void *p, bool expire) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < team->fibre_count && n < team->flag_waiters; i++) {
        qhx_fibre *f = &team->fibre[i];
        if (f->status != QHX_IN_FLAG || (p && p != f->flag) || (!expire && *f->flag < f->flag_value))
            continue;
        f->result = !expire;
        team->scratch[n++] = f;
    }
    team->flag_waiters -= n;
    if (n) qhx_release(team, team->scratch, n, true);
    return n > 0;
}

void qhx_flag_set(qhx_thread *t, const void *p) {
    qhx_team *team = qhx_fibre_of(t)->team;
    team->polls = 0;
    qhx_race_before((void *)p);
    if (team->flag_waiters && qhx_order_wakes_early(&team->order)) qhx_flag_wake(team, p, false);
}

int qhx_flag_wait(qhx_thread *t, const int32_t *p, int32_t value, uint32_t spins, QHX_AT) {
    qhx_fibre *f = qhx_fibre_of(t);
    (void)spins;
    qhx_enter(f, "wait_at_least", file, line);
    if (*p >= value) {
        qhx_race_after((void *)p);
        return 1;
    }
    f->flag = p;
    f->flag_value = value;
    f->team->flag_waiters++;
    qhx_suspend(f, QHX_IN_FLAG);
    qhx_race_after((void *)p);
    return (int)f->result;
}

void qhx_flag_poll(qhx_thread *t, QHX_AT) {
    qhx_fibre *f = qhx_fibre_of(t);
    qhx_enter(f, "ld_acquire or nanosleep", file, line);
    qhx_poll(f);
}
