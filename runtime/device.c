#include "runtime/device.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct qrt_device {
    qrt_driver driver;
    qg_device record;
    int ordinal; /* the driver's CUdevice */
    void *context;
    bool retained;        /* primary context, to be released */
    unsigned char *alive; /* a page that the kernel zeroes in forked children */
    size_t page;
};

static bool make_alive(qrt_device *dev) {
    dev->page = (size_t)sysconf(_SC_PAGESIZE);
    void *page = mmap(NULL, dev->page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return false;
    dev->alive = page;
    dev->alive[0] = 1;
    madvise(page, dev->page,
            MADV_WIPEONFORK); /* without it a child's first call fails in the driver instead */
    return true;
}

bool qrt_device_alive(const qrt_device *dev) {
    return dev->alive[0];
}

/* ------------------------------------------------------------------------------------------ opening */

static qg_status current_context(qrt_device *dev, qg_error *err) {
    const qrt_driver *d = &dev->driver;
    qg_status status =
        qrt_driver_check(d, d->context_current(&dev->context), "the current CUDA context", err);
    if (status) return status;
    if (!dev->context)
        return qg_fail(err, QG_ENVIRONMENT, "the current CUDA context", "none is current on this thread",
                       "call cudaSetDevice or cuCtxSetCurrent first, or name a device");
    return qrt_driver_check(d, d->context_device(&dev->ordinal), "the current CUDA device", err);
}

static qg_status primary_context(qrt_device *dev, int ordinal, qg_error *err) {
    const qrt_driver *d = &dev->driver;
    char what[64];
    int count = 0;
    snprintf(what, sizeof what, "CUDA device %d", ordinal);
    qg_status status = qrt_driver_check(d, d->device_count(&count), "counting CUDA devices", err);
    if (status) return status;
    if (ordinal < 0 || ordinal >= count)
        return qg_failf(err, QG_ENVIRONMENT, what, "CUDA_VISIBLE_DEVICES hides devices",
                        "the driver shows %d device%s", count, count == 1 ? "" : "s");
    status = qrt_driver_check(d, d->device_get(&dev->ordinal, ordinal), what, err);
    if (!status) status = qrt_driver_check(d, d->primary_retain(&dev->context, dev->ordinal), what, err);
    dev->retained = !status;
    return status;
}

/* Attributes in one table: where each goes in the record. */
static const struct fact {
    int attribute;
    size_t offset;
} facts[] = {
    {QRT_ATTRIBUTE_SMS, offsetof(qg_device, sms)},
    {QRT_ATTRIBUTE_SMEM_OPTIN, offsetof(qg_device, smem_optin)},
    {QRT_ATTRIBUTE_SMEM_SM, offsetof(qg_device, smem_sm)},
    {QRT_ATTRIBUTE_REGISTERS_SM, offsetof(qg_device, regs)},
    {QRT_ATTRIBUTE_L2_BYTES, offsetof(qg_device, l2)},
};

static qg_status read_record(qrt_device *dev, qg_error *err) {
    const qrt_driver *d = &dev->driver;
    qg_device *r = &dev->record;
    int major = 0, minor = 0, clusters = 0;
    size_t memory = 0;
    int result = d->device_name(r->name, sizeof r->name, dev->ordinal);
    if (!result) result = d->device_memory(&memory, dev->ordinal);
    if (!result) result = d->device_attribute(&major, QRT_ATTRIBUTE_MAJOR, dev->ordinal);
    if (!result) result = d->device_attribute(&minor, QRT_ATTRIBUTE_MINOR, dev->ordinal);
    for (size_t i = 0; !result && i < sizeof facts / sizeof *facts; i++) {
        int value = 0;
        result = d->device_attribute(&value, facts[i].attribute, dev->ordinal);
        *(int64_t *)((char *)r + facts[i].offset) = value;
    }
    if (result) return qrt_driver_check(d, result, "reading the CUDA device's attributes", err);
    d->device_attribute(&clusters, QRT_ATTRIBUTE_CLUSTER_LAUNCH,
                        dev->ordinal); /* unknown to old drivers: 0 */
    r->arch = 10 * major + minor;
    r->memory = (int64_t)memory;
    r->max_cluster = clusters ? 8 : 1; /* 8 is what every device with clusters holds */
    if (qg_compile_target(r->arch)) return QG_OK;
    return qg_failf(err, QG_UNSUPPORTED, r->name, "use a newer qrsmith, or a device of a known kind",
                    "compute capability %d.%d has no compile target here (known: %s)", major, minor,
                    qg_compile_targets());
}

static qg_status open_device(qrt_device *dev, int ordinal, qg_error *err) {
    qg_status status = qrt_driver_open(&dev->driver, err);
    if (!status)
        status =
            ordinal == QRT_CURRENT_DEVICE ? current_context(dev, err) : primary_context(dev, ordinal, err);
    return status ? status : read_record(dev, err);
}

qg_status qrt_device_open(int ordinal, qrt_device **out, qg_error *err) {
    qrt_device *dev = calloc(1, sizeof *dev);
    if (!dev || !make_alive(dev)) {
        free(dev);
        return qg_fail(err, QG_NO_MEMORY, "opening a CUDA device", "out of memory", "");
    }
    qg_status status = open_device(dev, ordinal, err);
    if (status) {
        qrt_device_close(dev);
        return status;
    }
    *out = dev;
    return QG_OK;
}

void qrt_device_close(qrt_device *dev) {
    if (!dev) return;
    /* In a forked child the driver must not be touched; a dead context makes release fail, which is no
     * matter. */
    if (dev->retained && qrt_device_alive(dev)) dev->driver.primary_release(dev->ordinal);
    qrt_driver_close(&dev->driver);
    munmap(dev->alive, dev->page);
    free(dev);
}

const qg_device *qrt_device_record(const qrt_device *dev) {
    return &dev->record;
}
const qrt_driver *qrt_device_driver(const qrt_device *dev) {
    return &dev->driver;
}
int qrt_device_ordinal(const qrt_device *dev) {
    return dev->ordinal;
}

int qrt_device_count(qg_error *err) {
    qrt_driver driver;
    int count = 0;
    if (qrt_driver_open(&driver, err)) return 0;
    qg_status status = qrt_driver_check(&driver, driver.device_count(&count), "counting CUDA devices", err);
    if (status) count = 0;
    if (!status && !count)
        qg_fail(err, QG_ENVIRONMENT, "counting CUDA devices", "the driver shows none",
                "check CUDA_VISIBLE_DEVICES");
    qrt_driver_close(&driver);
    return count;
}

qg_status qrt_device_enter(const qrt_device *dev, bool *entered, qg_error *err) {
    const qrt_driver *d = &dev->driver;
    void *current = NULL;
    *entered = false;
    if (!qrt_device_alive(dev))
        return qg_fail(err, QG_ENVIRONMENT, dev->record.name,
                       "this process was forked after CUDA was started",
                       "start CUDA only after fork(), or start the child with exec");
    int result = d->context_current(&current);
    if (!result && current == dev->context) return QG_OK;
    if (!result) result = d->context_push(dev->context);
    *entered = !result;
    return result ? qrt_driver_check(d, result, "making the CUDA context current", err) : QG_OK;
}

void qrt_device_leave(const qrt_device *dev, bool entered) {
    void *popped;
    if (entered) dev->driver.context_pop(&popped);
}
