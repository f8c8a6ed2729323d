/* The runtime's inside, for the command line, the judge and the tuner: everything that runs a qg_plan (of any
 * operation) on a CUDA device. The public interface is runtime/qrsmith.h.
 *
 *     qrt_device_open(0, &dev, &err);
 *     qrt_compiler_open(NULL, &compiler, &err);
 *     qg_plan_make(lib, &shape, qrt_device_record(dev), NULL, &plan, &err);
 *     qrt_module_load(dev, compiler, lib, plan, &module, &err);
 *     qrt_module_workspace(module, &call, &bytes, &err); qrt_memory_alloc(dev, bytes, &call.workspace, &err);
 *     qrt_module_launch(module, &call, stream, &err);
 */
#ifndef QRT_RUNTIME_H
#define QRT_RUNTIME_H

#include "runtime/cache.h"
#include "runtime/compile.h"
#include "runtime/device.h"
#include "runtime/driver.h"
#include "runtime/module.h"
#include "runtime/nvrtc.h"

#endif
