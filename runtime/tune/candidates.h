/* A target's candidates: planned, compiled, told apart and put in order. */
#ifndef TUNE_CANDIDATES_H
#define TUNE_CANDIDATES_H

#include "runtime/compile.h"
#include "runtime/tune/choice.h"
#include "runtime/tune/grid.h"

typedef struct tune_candidate {
    char *family;
    json_t *params; /* every parameter with its value */
    char *plan;     /* the plan's name; NULL when there is none */
    char *key;      /* names what is measured, where: journals tell candidates apart by it */
    char *rank;     /* the fixed order, by strcmp */
    bool is_default;
    qg_status status; /* of compiling */
    char why[400];    /* when that failed */
    tune_time time;   /* `out` until it has a time */
    bool done;        /* it has a final verdict */
    int attempts;
    char verdict[16]; /* "timed", "wrong", ...; empty: none yet */
} tune_candidate;

typedef struct tune_candidates {
    tune_candidate *list; /* in the fixed order: the default plan first, then family and parameters in the
                             order of their declaration */
    int count;
    int illegal;     /* combinations that their family refuses */
    int twins;       /* combinations whose kernels are another candidate's */
    json_t *refused; /* the illegal ones: [{"family", "params", "why"}] */
} tune_candidates;

typedef struct tune_bench {
    const qg_library *lib; /* without a tuned table: its choice is the default plan */
    qrt_compiler *compiler;
    qg_device device;
    char title[96]; /* what keys call the device */
    int driver, threads;
} tune_bench;

/* Plans and compiles every combination, `threads` at once. A combination that does not compile is a candidate
 * with that verdict; only what would fail for all (no compiler) is an error. */
qg_status tune_candidates_make(const tune_bench *bench, const tune_grid *grid, const tune_target *target,
                               tune_candidates *out, qg_error *err);
void tune_candidates_free(tune_candidates *c);

#endif
