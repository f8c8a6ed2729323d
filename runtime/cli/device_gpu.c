#include "runtime/cli/backend.h"
#include "runtime/cli/report.h"
#include "runtime/runtime.h"
#include <stdio.h>
#include <stdlib.h>

typedef struct gpu {
    qrt_device *dev;
    qrt_compiler *compiler;
    const qg_library *lib;
    void *stream, *start, *stop;
} gpu;

static void gpu_close(void *self) {
    gpu *g = self;
    if (g->dev) {
        if (g->start) qrt_event_destroy(g->dev, g->start);
        if (g->stop) qrt_event_destroy(g->dev, g->stop);
        if (g->stream) qrt_stream_destroy(g->dev, g->stream);
    }
    if (g->compiler) qrt_compiler_close(g->compiler);
    qrt_device_close(g->dev);
    free(g);
}

static qg_status gpu_alloc(void *self, int64_t bytes, void **out, qg_error *err) {
    return qrt_memory_alloc(((gpu *)self)->dev, bytes, out, err);
}

static void gpu_release(void *self, void *memory) {
    qrt_memory_free(((gpu *)self)->dev, memory);
}

static qg_status gpu_fill(void *self, void *memory, int byte, int64_t bytes, qg_error *err) {
    gpu *g = self;
    return qrt_memory_set(g->dev, memory, byte, bytes, g->stream, err);
}

static qg_status gpu_sync(void *self, qg_error *err) {
    gpu *g = self;
    return qrt_stream_sync(g->dev, g->stream, err);
}

/* The copies below are not ordered after the stream, hence the wait. */
static qg_status gpu_upload(void *self, void *to, const void *from, int64_t bytes, qg_error *err) {
    qg_status status = gpu_sync(self, err);
    return status != QG_OK ? status : qrt_copy_to_device(((gpu *)self)->dev, to, from, bytes, err);
}

static qg_status gpu_download(void *self, void *to, const void *from, int64_t bytes, qg_error *err) {
    qg_status status = gpu_sync(self, err);
    return status != QG_OK ? status : qrt_copy_to_host(((gpu *)self)->dev, to, from, bytes, err);
}

static qg_status gpu_copy(void *self, void *to, const void *from, int64_t bytes, qg_error *err) {
    gpu *g = self;
    return qrt_copy_on_device(g->dev, to, from, bytes, g->stream, err);
}

static qg_status gpu_load(void *self, const qg_plan *plan, void **module, qg_error *err) {
    gpu *g = self;
    return qrt_module_load(g->dev, g->compiler, g->lib, plan, (qrt_module **)module, err);
}

static void gpu_unload(void *self, void *module) {
    (void)self;
    qrt_module_unload(module);
}

static qg_status gpu_run(void *self, void *module, const qg_call *call, qg_error *err) {
    return qrt_module_launch(module, call, ((gpu *)self)->stream, err);
}

static qg_status gpu_time_start(void *self, qg_error *err) {
    gpu *g = self;
    return qrt_event_record(g->dev, g->start, g->stream, err);
}

static qg_status gpu_time_stop(void *self, qg_error *err) {
    gpu *g = self;
    return qrt_event_record(g->dev, g->stop, g->stream, err);
}

static qg_status gpu_time_read(void *self, double *us, qg_error *err) {
    gpu *g = self;
    return qrt_event_elapsed(g->dev, g->start, g->stop, us, err);
}

static void warn(void *user, const char *text) {
    (void)user;
    cli_note("%s", text);
}

static qg_status gpu_prepare(gpu *g, int ordinal, const cli_device_options *o, qg_error *err) {
    qrt_compiler_options options = {
        .cache = {.warn = warn}, .no_cache = o->no_cache, .lineinfo = o->lineinfo};
    qg_status status = qrt_device_open(ordinal, &g->dev, err);
    if (status == QG_OK) status = qrt_compiler_open(&options, &g->compiler, err);
    if (status == QG_OK) status = qrt_stream_create(g->dev, &g->stream, err);
    if (status == QG_OK) status = qrt_event_create(g->dev, &g->start, err);
    if (status == QG_OK) status = qrt_event_create(g->dev, &g->stop, err);
    return status;
}

qg_status cli_gpu_open(int ordinal, const cli_device_options *o, cli_device *out, qg_error *err) {
    static const cli_backend backend = {gpu_close,    gpu_alloc,      gpu_release,   gpu_fill,     gpu_upload,
                                        gpu_download, gpu_copy,       gpu_sync,      gpu_load,     gpu_unload,
                                        gpu_run,      gpu_time_start, gpu_time_stop, gpu_time_read};
    gpu *g = calloc(1, sizeof *g);
    if (!g) return qg_fail(err, QG_NO_MEMORY, "device", "no memory for it", "");
    g->lib = out->lib;
    qg_status status = gpu_prepare(g, ordinal, o, err);
    if (status != QG_OK) {
        gpu_close(g);
        return status;
    }
    out->backend = &backend;
    out->self = g;
    out->record = *qrt_device_record(g->dev);
    out->gpu = true;
    out->driver = qrt_device_driver(g->dev)->version;
    out->stream = g->stream;
    out->gpu_handle = g->dev;
    snprintf(out->title, sizeof out->title, "GPU %d, %s (sm_%d)", ordinal, out->record.name,
             out->record.arch);
    return QG_OK;
}

int cli_gpu_count(qg_error *err) {
    return qrt_device_count(err);
}
