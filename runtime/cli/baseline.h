/* NVIDIA's own libraries as rivals in bench: cuSOLVER Sgeqrf, looped over the batch, and cuBLAS
 * SgeqrfBatched. Found with dlopen; the few calls are declared here, so that no CUDA header is needed to
 * build. */
#ifndef CLI_BASELINE_H
#define CLI_BASELINE_H

#include "gen/config.h"
#include "runtime/cli/timing.h"

typedef struct cli_baseline cli_baseline; /* one library, opened */

/* `name`: "cusolver" or "cublas"; others are QG_BAD_INPUT. QG_ENVIRONMENT when the library isn't there, with
 * what was tried. */
qg_status cli_baseline_open(const char *name, cli_device *device, cli_baseline **out, qg_error *err);
void cli_baseline_close(cli_baseline *b); /* NULL is fine */
const char *cli_baseline_name(const cli_baseline *b);

/* Times a call over the case's batch, its input in column-major order. `timed` is how many matrices were
 * timed: fewer than the batch when the whole would take longer than the timer's limit; the times are then
 * scaled up to the batch. */
qg_status cli_baseline_time(cli_baseline *b, cli_timer *timer, const qg_case *test, cli_timing *out,
                            int64_t *timed, qg_error *err);

#endif
