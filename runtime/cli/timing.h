/* How a time is taken: one pass over all arrays between two marks on the device's clock, caches overwritten
 * before each pass, repeated until the standard error of the mean is small or the time is up. */
#ifndef CLI_TIMING_H
#define CLI_TIMING_H

#include "runtime/cli/device.h"

typedef struct cli_timer {
    cli_device *device;
    void *flush; /* overwritten before each pass; NULL on the CPU */
    int64_t flush_bytes;
    double max_seconds; /* a measurement; at least one pass is timed */
} cli_timer;

typedef struct cli_timing {
    double mean, median, least; /* us a call */
    double error;               /* standard error over mean */
    int repetitions;            /* timed passes */
} cli_timing;

/* What is timed. `before` (may be NULL) and `pass` put work on the device; `calls` of them are in a pass. */
typedef struct cli_timed {
    qg_status (*before)(void *context, qg_error *err);
    qg_status (*pass)(void *context, qg_error *err);
    void *context;
    int calls;
} cli_timed;

/* On failure too, close it. */
qg_status cli_timer_open(cli_device *device, double max_seconds, cli_timer *out, qg_error *err);
void cli_timer_close(cli_timer *t);

/* Passes to warm up (at least one), then the timed ones. */
qg_status cli_time(cli_timer *t, const cli_timed *timed, cli_timing *out, qg_error *err);

/* How many arrays of so many bytes fit 256 MiB: 1 .. 50. */
int cli_array_count(int64_t bytes);

/* Mean, median, least and standard error of `count` >= 1 samples, which are sorted in place. */
cli_timing cli_statistics(double *samples, int count);

#endif
