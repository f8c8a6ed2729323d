/* A list of compiles, worked off by several threads: one plan for one target each. */
#ifndef CLI_JOBS_H
#define CLI_JOBS_H

#include "gen/config.h"
#include "runtime/compile.h"

typedef struct cli_job {
    const qg_config_entry *entry;
    const qg_device *device;
    qg_plan *plan;
    qrt_cubin *cubin; /* NULL until compiled */
    qg_status status;
    qg_error err;
} cli_job;

/* Makes the plan of every job and compiles it, `threads` at once, each job's outcome in its own status and
 * err. `progress` is called on the caller's thread only. */
void cli_jobs_run(cli_job *jobs, int count, int threads, const qg_library *lib, qrt_compiler *compiler,
                  void (*progress)(int done, int total));
void cli_jobs_free(cli_job *jobs, int count); /* their content */

#endif
