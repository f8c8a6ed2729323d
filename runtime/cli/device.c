#include "runtime/cli/device.h"
#include "runtime/cli/backend.h"
#include "runtime/cli/report.h"
#include <stdlib.h>
#include <string.h>

struct cli_module {
    cli_device *device;
    const qg_plan *plan;
    void *self;
};

static qg_status open_chosen(const cli_device_options *o, cli_device *d, qg_error *err) {
    if (!strcmp(o->choice, "cpu")) return cli_cpu_open(d, err);
    char *end = NULL;
    long ordinal = strtol(o->choice, &end, 10);
    if (o->choice[0] < '0' || o->choice[0] > '9' || *end || ordinal > 1023)
        return qg_failf(err, QG_BAD_INPUT, "--device", "cpu, or the number of a GPU: 0, 1, ...",
                        "found '%.64s'", o->choice);
    return cli_gpu_open((int)ordinal, o, d, err);
}

static qg_status open_best(const cli_device_options *o, cli_device *d, qg_error *err) {
    qg_error none = {0};
    if (cli_gpu_count(&none) > 0) return cli_gpu_open(0, o, d, err);
    if (o->gpu_only)
        return qg_failf(err, QG_ENVIRONMENT, "GPU",
                        "bench --device cpu times the host executor, which tells nothing of a GPU's speed",
                        "there is none: %s", none.why[0] ? none.why : "no device found");
    qg_status status = cli_cpu_open(d, err);
    if (status == QG_OK && !o->quiet) cli_note("no GPU here (qrsmith doctor says why)");
    return status;
}

qg_status cli_device_open(const cli_device_options *options, const qg_library *lib, cli_device **out,
                          qg_error *err) {
    cli_device *d = calloc(1, sizeof *d);
    *out = NULL;
    if (!d) return qg_fail(err, QG_NO_MEMORY, "device", "no memory for it", "");
    d->lib = lib;
    qg_status status = options->choice ? open_chosen(options, d, err) : open_best(options, d, err);
    if (status != QG_OK) {
        free(d);
        return status;
    }
    if (!options->choice && !options->quiet) cli_note("using %s", d->title);
    *out = d;
    return QG_OK;
}

void cli_device_close(cli_device *d) {
    if (d) d->backend->close(d->self);
    free(d);
}

bool cli_device_is_gpu(const cli_device *d) {
    return d->gpu;
}
const char *cli_device_title(const cli_device *d) {
    return d->title;
}
const qg_device *cli_device_record(const cli_device *d) {
    return &d->record;
}
const qg_library *cli_device_library(const cli_device *d) {
    return d->lib;
}
int cli_device_driver(const cli_device *d) {
    return d->driver;
}
void *cli_device_stream(const cli_device *d) {
    return d->stream;
}
struct qrt_device *cli_device_gpu(const cli_device *d) {
    return d->gpu_handle;
}

qg_status cli_alloc(cli_device *d, int64_t bytes, void **out, qg_error *err) {
    *out = NULL;
    return bytes > 0 ? d->backend->alloc(d->self, bytes, out, err) : QG_OK;
}

void cli_release(cli_device *d, void *memory) {
    if (memory) d->backend->release(d->self, memory);
}

qg_status cli_fill(cli_device *d, void *memory, int byte, int64_t bytes, qg_error *err) {
    return bytes > 0 ? d->backend->fill(d->self, memory, byte, bytes, err) : QG_OK;
}

qg_status cli_upload(cli_device *d, void *to, const void *from, int64_t bytes, qg_error *err) {
    return bytes > 0 ? d->backend->upload(d->self, to, from, bytes, err) : QG_OK;
}

qg_status cli_download(cli_device *d, void *to, const void *from, int64_t bytes, qg_error *err) {
    return bytes > 0 ? d->backend->download(d->self, to, from, bytes, err) : QG_OK;
}

qg_status cli_copy(cli_device *d, void *to, const void *from, int64_t bytes, qg_error *err) {
    return bytes > 0 ? d->backend->copy(d->self, to, from, bytes, err) : QG_OK;
}

qg_status cli_sync(cli_device *d, qg_error *err) {
    return d->backend->sync(d->self, err);
}

qg_status cli_load(cli_device *d, const qg_plan *plan, cli_module **out, qg_error *err) {
    cli_module *m = calloc(1, sizeof *m);
    *out = NULL;
    if (!m) return qg_fail(err, QG_NO_MEMORY, plan->name, "no memory for a module", "");
    *m = (cli_module){d, plan, NULL};
    qg_status status = d->backend->load(d->self, plan, &m->self, err);
    if (status != QG_OK) {
        free(m);
        return status;
    }
    *out = m;
    return QG_OK;
}

void cli_unload(cli_module *m) {
    if (m) m->device->backend->unload(m->device->self, m->self);
    free(m);
}

qg_status cli_workspace(const cli_module *m, const qg_call *call, int64_t *bytes, qg_error *err) {
    return qg_program_workspace(m->plan->program, call, &m->plan->device, bytes, NULL, err);
}

qg_status cli_run(cli_module *m, const qg_call *call, qg_error *err) {
    return m->device->backend->run(m->device->self, m->self, call, err);
}

qg_status cli_time_start(cli_device *d, qg_error *err) {
    return d->backend->time_start(d->self, err);
}
qg_status cli_time_stop(cli_device *d, qg_error *err) {
    return d->backend->time_stop(d->self, err);
}
qg_status cli_time_read(cli_device *d, double *us, qg_error *err) {
    return d->backend->time_read(d->self, us, err);
}
