/* One shape on one device: plan, kernels and workspace for a batch, and the judge for its results. */
#ifndef CLI_PROBLEM_H
#define CLI_PROBLEM_H

#include "runtime/cli/device.h"
#include "runtime/judge/contract.h"

typedef struct cli_problem {
    cli_device *device;
    int64_t batch, k;
    int64_t a_bytes, h_bytes, tau_bytes, info_bytes; /* of the whole batch, without padding */
    qg_plan *plan, *judge_plan;
    cli_module *module, *judge;
    qg_call call, judge_call; /* scalars and workspace set; pointers are set by each call below */
} cli_problem;

/* Chooses the plan. `shape->max_batch` is taken as the batch. Loads nothing yet. */
qg_status cli_problem_open(cli_device *device, const qg_shape *shape, const qg_request *request,
                           cli_problem *out, qg_error *err);
/* The same for a plan that serves shape->max_batch, called with `batch` matrices. */
qg_status cli_problem_open_part(cli_device *device, const qg_shape *shape, int64_t batch,
                                const qg_request *request, cli_problem *out, qg_error *err);
/* Compiles and loads the kernels and allocates the workspace: all that a timed call must not contain. */
qg_status cli_problem_load(cli_problem *p, qg_error *err);
void cli_problem_close(cli_problem *p); /* a zeroed one is fine */

/* A, H, tau, info: device memory of the sizes above; info may be NULL. */
qg_status cli_problem_factor(cli_problem *p, const void *A, void *H, void *tau, void *info, qg_error *err);

/* Both gates of each matrix, in float64 on the device: batch x QJ_GATES doubles in host memory. */
qg_status cli_problem_gates(cli_problem *p, const void *A, const void *H, const void *tau, double *gates,
                            qg_error *err);

/* How many matrices have each bit of info set. */
typedef enum cli_info_bit {
    CLI_NONFINITE,
    CLI_FELL_BACK,
    CLI_SPLIT,
    CLI_TIMED_OUT,
    CLI_INFO_BITS
} cli_info_bit;
typedef struct cli_info_count {
    int64_t bit[CLI_INFO_BITS];
} cli_info_count;
qg_status cli_problem_info(cli_problem *p, const void *info, cli_info_count *out, qg_error *err);

/* Floating-point operations of one geqrf of m x n, lower terms left out. */
double cli_flops(int64_t m, int64_t n);

#endif
