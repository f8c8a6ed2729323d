/* What the worker does with a candidate: judge it on every kind of input, and take its time as bench does.
 * Inputs depend on the shape alone, so they are made once and stay on the device for all its candidates. */
#ifndef TUNE_MEASURE_H
#define TUNE_MEASURE_H

#include "gen/config.h"
#include "runtime/cli/device.h"
#include "runtime/cli/timing.h"

typedef struct tune_measure tune_measure;

/* The device must outlive it. */
qg_status tune_measure_open(cli_device *device, tune_measure **out, qg_error *err);
void tune_measure_close(tune_measure *m); /* NULL is fine */

/* Makes the inputs of a shape, in place of those of the shape before. */
qg_status tune_measure_prepare(tune_measure *m, const qg_shape *shape, qg_error *err);

/* `wrong` is empty when a candidate passed, else says what it did wrong. The shape must be prepared. */
typedef struct tune_verdict {
    char wrong[320];
    double share; /* the largest part of a limit that it took */
    cli_timing timing;
    char plan[256]; /* its name; empty when there was none */
} tune_verdict;

/* On every kind, with small batches of the prepared inputs. */
qg_status tune_measure_judge(tune_measure *m, const qg_request *request, tune_verdict *out, qg_error *err);
/* On every kind, with other seeds and another batch than measured before: what a winner must stand too. */
qg_status tune_measure_validate(tune_measure *m, const qg_request *request, tune_verdict *out, qg_error *err);
/* For at most so many seconds; the outputs of the last pass are judged. */
qg_status tune_measure_time(tune_measure *m, const qg_request *request, double seconds, tune_verdict *out,
                            qg_error *err);

#endif
