/* Flags in global memory. */
#ifndef QHX_FLAG_H
#define QHX_FLAG_H

#include "runtime/host/state.h"

void qhx_flag_set(qhx_thread *t, const void *p);
int qhx_flag_wait(qhx_thread *t, const int32_t *p, int32_t value, uint32_t spins, QHX_AT);
void qhx_flag_poll(qhx_thread *t, QHX_AT);
/* Releases the waiters of `p` (NULL: of any flag) whose value has come; with `expire` all, as timed out.
 * True: some. */
bool qhx_flag_wake(qhx_team *team, const void *p, bool expire);

#endif
