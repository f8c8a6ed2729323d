/* The worker's side of worker.h: requests from standard input, one JSON line each, replies to standard
 * output.
 *
 *   {"job": "prepare", "shape": {...}}                                    -> {"verdict": "ready"}
 *   {"job": "judge" | "validate" | "time" | "measure", "shape", "family", "params", "seconds"}
 *       -> {"verdict": "timed" | "passed" | "wrong" | "failed" | "crashed", "why", times...}
 *
 * "measure" is judge, then time. After "failed" and "crashed" it ends: a CUDA context that saw an illegal
 * access is of no use. */
#ifndef TUNE_SERVE_H
#define TUNE_SERVE_H

#include "gen/shape.h"
#include <jansson.h>

/* Returns an exit code. `device` as for cli_device_open. */
int tune_serve(const char *device);

/* A shape in requests, journals and tables: {"m", "n", "precision", "layout_in", "layout_out", "batch"}. */
json_t *tune_shape_json(const qg_shape *shape);
bool tune_shape_read(const json_t *object, qg_shape *out);

#endif
