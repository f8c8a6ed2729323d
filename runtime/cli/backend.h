/* Internal to device.c and the two backends: what a backend implements. Functions as in device.h. */
#ifndef CLI_BACKEND_H
#define CLI_BACKEND_H

#include "runtime/cli/device.h"

typedef struct cli_backend {
    void (*close)(void *self);
    qg_status (*alloc)(void *self, int64_t bytes, void **out, qg_error *err);
    void (*release)(void *self, void *memory);
    qg_status (*fill)(void *self, void *memory, int byte, int64_t bytes, qg_error *err);
    qg_status (*upload)(void *self, void *to, const void *from, int64_t bytes, qg_error *err);
    qg_status (*download)(void *self, void *to, const void *from, int64_t bytes, qg_error *err);
    qg_status (*copy)(void *self, void *to, const void *from, int64_t bytes, qg_error *err);
    qg_status (*sync)(void *self, qg_error *err);
    qg_status (*load)(void *self, const qg_plan *plan, void **module, qg_error *err);
    void (*unload)(void *self, void *module);
    qg_status (*run)(void *self, void *module, const qg_call *call, qg_error *err);
    qg_status (*time_start)(void *self, qg_error *err);
    qg_status (*time_stop)(void *self, qg_error *err);
    qg_status (*time_read)(void *self, double *microseconds, qg_error *err);
} cli_backend;

struct cli_device {
    const cli_backend *backend;
    void *self;
    const qg_library *lib;
    qg_device record;
    char title[160];
    bool gpu;
    int driver;
    void *stream;
    struct qrt_device *gpu_handle;
};

/* Each fills backend, self, record, title, gpu, driver and stream. */
qg_status cli_gpu_open(int ordinal, const cli_device_options *options, cli_device *out, qg_error *err);
qg_status cli_cpu_open(cli_device *out, qg_error *err);

#endif
