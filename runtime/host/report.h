/* Texts about threads of a running launch. */
#ifndef QHX_REPORT_H
#define QHX_REPORT_H

#include "runtime/host/state.h"

/* "thread 33 of block (0,0,0) in lds at blocks/panel.cuh:41". */
void qhx_report_thread(const qhx_fibre *f, char *out, size_t size);
/* Fills team->error with who waits where, threads in the same place together. */
void qhx_report_deadlock(qhx_team *team);

#endif
