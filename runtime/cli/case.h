/* A suite's case on a device: its inputs (one array or several that differ), its outputs, and the verdict on
 * them. */
#ifndef CLI_CASE_H
#define CLI_CASE_H

#include "gen/config.h"
#include "runtime/cli/problem.h"

typedef struct cli_case {
    qg_case test;
    qg_shape shape;
    cli_problem problem;
    int arrays;
    /* Device memory, one slab each; array i starts at i * step. Steps are multiples of 256. */
    char *A, *H, *tau, *info;
    int64_t a_step, h_step, tau_step, info_step;
} cli_case;

/* Makes the plan only. On failure too, close it. */
qg_status cli_case_open(cli_device *device, const qg_case *test, qg_precision precision,
                        const qg_request *request, cli_case *out, qg_error *err);
/* The same with a plan that serves `max_batch` matrices, of which test->batch are factored. */
qg_status cli_case_open_part(cli_device *device, const qg_case *test, qg_precision precision,
                             int64_t max_batch, const qg_request *request, cli_case *out, qg_error *err);
void cli_case_close(cli_case *c);

/* Loads kernels, makes the inputs, unless A is set already: borrowed ones, to be unset before closing. Array
 * i has seed test.seed + i * CLI_SEED_STEP. */
#define CLI_SEED_STEP UINT64_C(1000003)
qg_status cli_case_prepare(cli_case *c, int arrays, qg_error *err);

/* Overwrites outputs, so that a result left from before is not taken for a new one. */
qg_status cli_case_poison(cli_case *c, qg_error *err);
/* Factors each array once. */
qg_status cli_case_pass(cli_case *c, qg_error *err);
/* Judges all arrays' outputs as one batch; adds up their info. */
qg_status cli_case_judge(cli_case *c, const qj_limits *limits, qj_verdict *verdict, cli_info_count *info,
                         qg_error *err);

/* "fp16 640 x 512 x 512 dense cond 2". Returns out. */
char *cli_case_name(const cli_case *c, char *out, size_t size);
/* What identifies the case, and its plan when there is one. New reference. */
json_t *cli_case_json(const cli_case *c);
/* null for what JSON can't write. */
json_t *cli_json_real(double value);

#endif
