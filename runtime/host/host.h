/* The host executor: runs rendered plans on the CPU, from the same kernel source that NVRTC compiles.
 *
 * The source is compiled by the host's C++ compiler against the host versions of templates/device/, loaded,
 * and its launch program run with one fibre a CUDA thread. Blocks run one after another (clusters and
 * cooperative grids together), warps and lanes in an order the caller picks: a kernel whose result depends on
 * it lacks a barrier. A kernel that cannot go on (a barrier some thread never reaches, a flag nobody sets),
 * addresses shared memory out of bounds or breaks a primitive's rule is stopped with QG_INTERNAL, naming
 * kernel, thread and template line.
 *
 * Launches run on the calling thread; an executor and its modules may be used from several threads at once.
 */
#ifndef QHX_HOST_H
#define QHX_HOST_H

#include "gen/plan.h"

typedef struct qhx_executor qhx_executor;
typedef struct qhx_module qhx_module;

/* In which order threads that could all go on do so, and when asynchronous copies land. */
enum { QHX_FORWARD = 0, QHX_REVERSE = 1, QHX_SEEDED = 2 };

typedef struct qhx_options {
    const char *cxx; /* NULL: $CXX, else c++ */
    const char
        *cache_dir; /* compiled objects; NULL: as the cubin cache (QRSMITH_CACHE_DIR, XDG_CACHE_HOME, ...) */
    bool sanitize;  /* address and undefined behaviour; only where this library has AddressSanitizer itself */
    int order;      /* QHX_FORWARD, QHX_REVERSE, QHX_SEEDED */
    uint64_t seed;
    bool poison;       /* fill shared memory, workspace and outputs with 0xFF before each run */
    bool waits_expire; /* a flag that nobody will set makes wait_at_least() return false instead of being an
                          error */
} qhx_options;

qg_status qhx_open(const qhx_options *options, qhx_executor **out, qg_error *err);
void qhx_close(qhx_executor *ex); /* after its modules; NULL is fine */

/* Compiles the plan's source, or takes the object of an earlier compile from the cache. The module keeps what
 * it needs of the plan: plan and library may be freed before it. lib gives the device headers (NULL: the
 * embedded ones). */
qg_status qhx_load(qhx_executor *ex, const qg_library *lib, const qg_plan *plan, qhx_module **out,
                   qg_error *err);
void qhx_unload(qhx_module *module);
/* Whether qhx_load had to call the compiler. */
bool qhx_compiled(const qhx_module *module);

qg_status qhx_set_order(qhx_executor *ex, int order, uint64_t seed);

/* Runs the launch program. call->workspace may be NULL: then it is allocated for the run. */
qg_status qhx_run(qhx_module *module, const qg_call *call, qg_error *err);

#endif
