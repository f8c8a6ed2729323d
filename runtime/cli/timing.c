#include "runtime/cli/timing.h"
#include "runtime/cli/report.h"
#include <math.h>
#include <stdlib.h>

enum { SAMPLES_MAX = 4096, SAMPLES_MIN = 10, ARRAYS_MAX = 50 };
static const double warm_seconds = 0.1; /* a GPU that idled runs at half its clocks until then */
static const double error_wanted = 1e-3;
static const int64_t array_bytes = INT64_C(256) << 20;

qg_status cli_timer_open(cli_device *device, double max_seconds, cli_timer *out, qg_error *err) {
    *out = (cli_timer){.device = device, .max_seconds = max_seconds};
    if (!cli_device_is_gpu(device)) return QG_OK;
    int64_t l2 = cli_device_record(device)->l2;
    out->flush_bytes = 2 * l2 > (INT64_C(64) << 20) ? 2 * l2 : INT64_C(64) << 20;
    return cli_alloc(device, out->flush_bytes, &out->flush, err);
}

void cli_timer_close(cli_timer *t) {
    if (t->device) cli_release(t->device, t->flush);
    *t = (cli_timer){0};
}

int cli_array_count(int64_t bytes) {
    int64_t count = bytes > 0 ? array_bytes / bytes : ARRAYS_MAX;
    return count < 1 ? 1 : count > ARRAYS_MAX ? ARRAYS_MAX : (int)count;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double standard_error(const double *samples, int count, double mean) {
    double squares = 0;
    for (int i = 0; i < count; i++)
        squares += (samples[i] - mean) * (samples[i] - mean);
    return count > 1 && mean > 0 ? sqrt(squares / (count - 1) / count) / mean : 0;
}

static double mean_of(const double *samples, int count) {
    double sum = 0;
    for (int i = 0; i < count; i++)
        sum += samples[i];
    return sum / count;
}

cli_timing cli_statistics(double *samples, int count) {
    double mean = mean_of(samples, count);
    qsort(samples, (size_t)count, sizeof *samples, ascending);
    return (cli_timing){.mean = mean,
                        .median = (samples[(count - 1) / 2] + samples[count / 2]) / 2,
                        .least = samples[0],
                        .error = standard_error(samples, count, mean),
                        .repetitions = count};
}

/* One pass; its time lies on the device until read. The overwriting is queued ahead of the first mark, so
 * that the host runs ahead of the device while it works and launch costs don't show. */
static qg_status one_pass(cli_timer *t, const cli_timed *timed, int round, double *us, qg_error *err) {
    qg_status status = timed->before ? timed->before(timed->context, err) : QG_OK;
    if (status == QG_OK && t->flush) status = cli_fill(t->device, t->flush, round & 255, t->flush_bytes, err);
    if (status == QG_OK) status = cli_time_start(t->device, err);
    if (status == QG_OK) status = timed->pass(timed->context, err);
    if (status == QG_OK) status = cli_time_stop(t->device, err);
    if (status == QG_OK) status = cli_time_read(t->device, us, err);
    return status;
}

static bool enough(const cli_timer *t, const double *samples, int count, double begun) {
    if (!count) return false;
    if (count == SAMPLES_MAX || cli_clock() - begun >= t->max_seconds) return true;
    return count >= SAMPLES_MIN && standard_error(samples, count, mean_of(samples, count)) < error_wanted;
}

static qg_status warm_up(cli_timer *t, const cli_timed *timed, qg_error *err) {
    double begun = cli_clock(), us = 0;
    qg_status status = QG_OK;
    do {
        status = one_pass(t, timed, 0, &us, err);
    } while (status == QG_OK && cli_clock() - begun < warm_seconds);
    return status;
}

qg_status cli_time(cli_timer *t, const cli_timed *timed, cli_timing *out, qg_error *err) {
    double *samples = malloc(SAMPLES_MAX * sizeof *samples), us = 0;
    int count = 0;
    if (!samples) return qg_fail(err, QG_NO_MEMORY, "timing", "no memory for samples", "");
    qg_status status = warm_up(t, timed, err);
    for (double begun = cli_clock(); status == QG_OK && !enough(t, samples, count, begun);) {
        status = one_pass(t, timed, count + 1, &us, err);
        samples[count++] = us / timed->calls;
    }
    if (status == QG_OK) *out = cli_statistics(samples, count);
    free(samples);
    return status;
}
