/* A parallel loop over pieces of work, on at most as many threads as this process may use cores. */
#ifndef QJ_WORKERS_H
#define QJ_WORKERS_H

#include <stdint.h>

/* Calls work(context, piece) once for each piece 0 .. pieces-1, in any order and from several threads at
 * once. Returns when all are done. Never fails: where no thread can be started, the caller's does everything.
 */
void qj_parallel(int64_t pieces, void (*work)(void *context, int64_t piece), void *context);

#endif
