/* A plan made ready on a device: cubin loaded, kernels found, shared memory opted in, arguments laid out.
 *
 * Loading refuses what the device can't hold (shared memory, registers, cluster size, resident blocks of a
 * cooperative launch), naming asked and available. Launching is asynchronous, allocates nothing, locks
 * nothing, may run from many threads at once, and may be captured into a graph. A module belongs to the
 * device's CUDA context. */
#ifndef QRT_MODULE_H
#define QRT_MODULE_H

#include "gen/plan.h"
#include "runtime/compile.h"
#include "runtime/device.h"

typedef struct qrt_module qrt_module;

/* The plan must outlive the module. */
qg_status qrt_module_load(qrt_device *dev, qrt_compiler *compiler, const qg_library *lib, const qg_plan *plan,
                          qrt_module **out, qg_error *err);
/* The same from a cubin already at hand (which may be freed afterwards). */
qg_status qrt_module_from_cubin(qrt_device *dev, const qrt_cubin *cubin, const qg_plan *plan,
                                qrt_module **out, qg_error *err);
void qrt_module_unload(qrt_module *module); /* NULL is fine */

const qrt_cubin *qrt_module_cubin(const qrt_module *module); /* reports, key, origin; its data is NULL */

/* Workspace for a call's scalars; pointers are not looked at. */
qg_status qrt_module_workspace(const qrt_module *module, const qg_call *call, int64_t *bytes, qg_error *err);

/* Puts the plan's launches on `stream`. call->workspace holds qrt_module_workspace() bytes, aligned to 256.
 */
qg_status qrt_module_launch(const qrt_module *module, const qg_call *call, void *stream, qg_error *err);

#endif
