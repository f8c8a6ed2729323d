/* Tuning grids ("qrsmith-grid-1"): which shapes, and which families with which parameter values for them.
 * configs/README.md explains every key. Unknown keys, families, parameters and values are refused with the
 * place in the file; which combinations of legal values are legal together is the family's to say later. */
#ifndef TUNE_GRID_H
#define TUNE_GRID_H

#include "gen/plan.h"

enum { TUNE_SWEEPS_MAX = 64, TUNE_TARGETS_MAX = 1024, TUNE_CANDIDATES_MAX = 65536 };

typedef struct tune_grid_sweep {
    char *family;
    json_t *params; /* name -> list of values; parameters not named keep the family's default */
} tune_grid_sweep;

/* A shape, and which of the grid's sweeps name it. shape.max_batch is the batch that is timed. */
typedef struct tune_target {
    qg_shape shape;
    int sweeps[TUNE_SWEEPS_MAX], sweep_count;
} tune_target;

typedef struct tune_grid {
    char *path;
    json_t *families; /* as qg_library_families gives them */
    tune_grid_sweep *sweeps;
    int sweep_count;
    tune_target *targets; /* in the order of the file */
    int target_count;
} tune_grid;

qg_status tune_grid_read(const qg_library *lib, const char *path, tune_grid **out, qg_error *err);
void tune_grid_free(tune_grid *g); /* NULL is fine */

/* Every combination for a target: a list of {"family", "params"}. New reference; NULL without memory. */
json_t *tune_grid_expand(const tune_grid *g, const tune_target *target);

/* The families' description of one of them, or NULL. Borrowed. */
const json_t *tune_family(const json_t *families, const char *name);

#endif
