/* Where a command computes: one GPU through the runtime, or the CPU through the host executor, behind one
 * interface. Memory is the device's own: on a GPU move data with cli_upload and cli_download only. Work runs
 * in order on one stream; on a GPU cli_run returns before it is done. */
#ifndef CLI_DEVICE_H
#define CLI_DEVICE_H

#include "gen/plan.h"
#include <stdbool.h>

typedef struct cli_device cli_device;
typedef struct cli_module cli_module; /* a plan made ready on a device */

/* `choice`: "cpu", a GPU's number, or NULL for GPU 0 where there is one and the CPU where there is none (a
 * note on stderr says which). `no_cache`: kernels are compiled anew and not kept (GPU only). The library must
 * outlive the device. */
typedef struct cli_device_options {
    const char *choice;
    bool no_cache, lineinfo;
    bool quiet;    /* no note about the choice */
    bool gpu_only; /* never fall back to the CPU: a reason to fail instead */
} cli_device_options;

qg_status cli_device_open(const cli_device_options *options, const qg_library *lib, cli_device **out,
                          qg_error *err);
void cli_device_close(cli_device *d); /* NULL is fine */

/* Number of GPUs; 0 with a reason in *err. */
int cli_gpu_count(qg_error *err);

bool cli_device_is_gpu(const cli_device *d);
const char *
cli_device_title(const cli_device *d); /* "GPU 0, NVIDIA H200 (sm_90)", "CPU (host executor, as h200)" */
const qg_device *cli_device_record(const cli_device *d);
const qg_library *cli_device_library(const cli_device *d);
int cli_device_driver(const cli_device *d);             /* 13000 for 13.0; 0 on the CPU */
void *cli_device_stream(const cli_device *d);           /* CUstream; NULL on the CPU */
struct qrt_device *cli_device_gpu(const cli_device *d); /* for other libraries' calls; NULL on the CPU */

/* Memory aligned to 256 bytes; 0 bytes give NULL. */
qg_status cli_alloc(cli_device *d, int64_t bytes, void **out, qg_error *err);
void cli_release(cli_device *d, void *memory);
qg_status cli_fill(cli_device *d, void *memory, int byte, int64_t bytes, qg_error *err);
/* These wait until the copy is done; cli_download also for all work before it. */
qg_status cli_upload(cli_device *d, void *to, const void *from, int64_t bytes, qg_error *err);
qg_status cli_download(cli_device *d, void *to, const void *from, int64_t bytes, qg_error *err);
/* In the order of the stream. */
qg_status cli_copy(cli_device *d, void *to, const void *from, int64_t bytes, qg_error *err);
qg_status cli_sync(cli_device *d, qg_error *err);

/* Compiles (or finds in the cache) and loads. The plan must outlive the module. */
qg_status cli_load(cli_device *d, const qg_plan *plan, cli_module **out, qg_error *err);
void cli_unload(cli_module *m); /* NULL is fine */
qg_status cli_workspace(const cli_module *m, const qg_call *call, int64_t *bytes, qg_error *err);
qg_status cli_run(cli_module *m, const qg_call *call, qg_error *err);

/* A stopwatch on the device's own clock: start, work, stop, then read (which waits). */
qg_status cli_time_start(cli_device *d, qg_error *err);
qg_status cli_time_stop(cli_device *d, qg_error *err);
qg_status cli_time_read(cli_device *d, double *microseconds, qg_error *err);

#endif
