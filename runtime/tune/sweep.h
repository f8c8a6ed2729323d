/* A whole sweep: every target of a grid measured, judged and decided, the winners put into the table. */
#ifndef TUNE_SWEEP_H
#define TUNE_SWEEP_H

#include "runtime/tune/grid.h"

typedef struct tune_options {
    const char *table, *journal, *device; /* device: NULL for the first GPU */
    const char *worker;                   /* as tune_worker_options.program */
    double seconds;                       /* a measurement */
    double timeout;                       /* a candidate, before it counts as hung */
    int threads;                          /* compiles at once */
    bool resume;
    void (*started)(void *user, const char *device); /* may be NULL */
    void (*done)(void *user, const json_t *result);  /* after each target; may be NULL */
    void *user;
} tune_options;

/* A target's result: {"shape", "winner": null or the table's entry, "why" (without a winner), "kept": it was
 * decided in an earlier run, "candidates", "illegal", "twins", "timed", "wrong", "failed", "crashed",
 * "timeout", "reused", "default_us"}. */
qg_status tune_run(const tune_grid *grid, const tune_options *options, qg_error *err);

#endif
