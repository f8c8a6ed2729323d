#include "runtime/cli/backend.h"
#include "runtime/cli/report.h"
#include "runtime/host/host.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The CPU runs what would run on this GPU. */
static const char profile[] = "h200";

typedef struct cpu {
    qhx_executor *executor;
    const qg_library *lib;
    double start, stop;
} cpu;

static void cpu_close(void *self) {
    cpu *c = self;
    if (c->executor) qhx_close(c->executor);
    free(c);
}

static qg_status cpu_alloc(void *self, int64_t bytes, void **out, qg_error *err) {
    (void)self;
    *out = (uint64_t)bytes < SIZE_MAX - 256 ? aligned_alloc(256, ((size_t)bytes + 255) / 256 * 256) : NULL;
    if (!*out)
        return qg_failf(err, QG_NO_MEMORY, "memory", "a smaller batch", "no %lld bytes to be had",
                        (long long)bytes);
    return QG_OK;
}

static void cpu_release(void *self, void *memory) {
    (void)self;
    free(memory);
}

static qg_status cpu_fill(void *self, void *memory, int byte, int64_t bytes, qg_error *err) {
    (void)self, (void)err;
    memset(memory, byte, (size_t)bytes);
    return QG_OK;
}

static qg_status cpu_copy(void *self, void *to, const void *from, int64_t bytes, qg_error *err) {
    (void)self, (void)err;
    memcpy(to, from, (size_t)bytes);
    return QG_OK;
}

static qg_status cpu_sync(void *self, qg_error *err) {
    (void)self, (void)err;
    return QG_OK;
}

static qg_status cpu_load(void *self, const qg_plan *plan, void **module, qg_error *err) {
    cpu *c = self;
    return qhx_load(c->executor, c->lib, plan, (qhx_module **)module, err);
}

static void cpu_unload(void *self, void *module) {
    (void)self;
    qhx_unload(module);
}

static qg_status cpu_run(void *self, void *module, const qg_call *call, qg_error *err) {
    (void)self;
    return qhx_run(module, call, err);
}

static qg_status cpu_time_start(void *self, qg_error *err) {
    (void)err;
    ((cpu *)self)->start = cli_clock();
    return QG_OK;
}

static qg_status cpu_time_stop(void *self, qg_error *err) {
    (void)err;
    ((cpu *)self)->stop = cli_clock();
    return QG_OK;
}

static qg_status cpu_time_read(void *self, double *us, qg_error *err) {
    (void)err;
    *us = 1e6 * (((cpu *)self)->stop - ((cpu *)self)->start);
    return QG_OK;
}

qg_status cli_cpu_open(cli_device *out, qg_error *err) {
    static const cli_backend backend = {cpu_close, cpu_alloc,      cpu_release,   cpu_fill,     cpu_copy,
                                        cpu_copy,  cpu_copy,       cpu_sync,      cpu_load,     cpu_unload,
                                        cpu_run,   cpu_time_start, cpu_time_stop, cpu_time_read};
    qg_status status = qg_device_profile(profile, &out->record, err);
    if (status != QG_OK) return status;
    cpu *c = calloc(1, sizeof *c);
    if (!c) return qg_fail(err, QG_NO_MEMORY, "device", "no memory for it", "");
    c->lib = out->lib;
    qhx_options options = {0};
    status = qhx_open(&options, &c->executor, err);
    if (status != QG_OK) {
        cpu_close(c);
        return status;
    }
    out->backend = &backend;
    out->self = c;
    snprintf(out->title, sizeof out->title, "CPU (host executor, plans for %s)", profile);
    return QG_OK;
}
