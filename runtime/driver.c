#include "runtime/driver.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char what_failed[] = "the NVIDIA driver";

typedef struct symbol {
    const char *name;
    size_t offset; /* of the field in qrt_driver */
} symbol;

#define ENTRY(field, name, parameters) {name, offsetof(qrt_driver, field)},
static const symbol required[] = {QRT_DRIVER_REQUIRED(ENTRY)};
static const symbol optional[] = {QRT_DRIVER_OPTIONAL(ENTRY)};
#undef ENTRY
#define COUNT(a) (sizeof(a) / sizeof *(a))

/* The name of the first symbol that is missing; NULL when all are there. */
static const char *resolve(qrt_driver *driver, const symbol *symbols, size_t count) {
    const char *missing = NULL;
    for (size_t i = 0; i < count; i++) {
        void *found = dlsym(driver->handle, symbols[i].name);
        memcpy((char *)driver + symbols[i].offset, &found, sizeof found);
        if (!found && !missing) missing = symbols[i].name;
    }
    return missing;
}

static void version_text(int version, char *out, size_t size) {
    if (version > 0)
        snprintf(out, size, "CUDA %d.%d", version / 1000, version % 1000 / 10);
    else
        snprintf(out, size, "an unknown version");
}

static qg_status load(qrt_driver *driver, qg_error *err) {
    const char *forced = getenv("QRSMITH_CUDA");
    const char *const names[] = {"libcuda.so.1", "libcuda.so"};
    char tried[1024] = "";
    int count = forced && *forced ? 1 : 2;
    for (int i = 0; i < count && !driver->handle; i++) {
        const char *name = forced && *forced ? forced : names[i];
        driver->handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
        if (driver->handle) {
            snprintf(driver->path, sizeof driver->path, "%s", name);
        } else {
            const char *why = dlerror();
            size_t used = strlen(tried);
            snprintf(tried + used, sizeof tried - used, "%s%s", used ? "; " : "", why ? why : name);
        }
    }
    if (driver->handle) return QG_OK;
    return qg_failf(
        err, QG_ENVIRONMENT, what_failed,
        "install the NVIDIA driver, or name its library in QRSMITH_CUDA; without a GPU use a device profile",
        "could not be loaded, tried: %s", tried);
}

static qg_status initialise(qrt_driver *driver, qg_error *err) {
    const char *missing = resolve(driver, required, COUNT(required));
    resolve(driver, optional, COUNT(optional));
    if (driver->driver_version) driver->driver_version(&driver->version);
    char version[32];
    version_text(driver->version, version, sizeof version);
    if (missing)
        return qg_failf(err, QG_ENVIRONMENT, what_failed, "update the driver to 520 (CUDA 11.8) or newer",
                        "%s is for %s and lacks %s", driver->path, version, missing);
    int result = driver->init(0);
    if (!result) return QG_OK;
    const char *name = NULL, *text = NULL;
    driver->error_name(result, &name);
    driver->error_string(result, &text);
    const char *fix = "check that nvidia-smi works for this user";
    if (result == QRT_CUDA_NO_DEVICE) fix = "check nvidia-smi, CUDA_VISIBLE_DEVICES and /dev/nvidia*";
    if (result == QRT_CUDA_STUB_LIBRARY) fix = "take the toolkit's lib64/stubs out of LD_LIBRARY_PATH";
    if (result == QRT_CUDA_SYSTEM_DRIVER_MISMATCH || result == QRT_CUDA_COMPAT_NOT_SUPPORTED)
        fix = "the kernel module and libcuda are of different versions: reboot, or remove the compat libcuda";
    return qg_failf(err, QG_ENVIRONMENT, what_failed, fix, "%s (%s) could not start: %s (%s)", driver->path,
                    version, name ? name : "unknown error", text ? text : "no text");
}

qg_status qrt_driver_open(qrt_driver *out, qg_error *err) {
    *out = (qrt_driver){0};
    qg_status status = load(out, err);
    if (!status) status = initialise(out, err);
    if (status) {
        qrt_driver found = {.version = out->version};
        memcpy(found.path, out->path, sizeof found.path);
        qrt_driver_close(out);
        *out = found;
    }
    return status;
}

void qrt_driver_close(qrt_driver *driver) {
    /* libcuda stays loaded: it keeps threads and exit handlers that must not lose their code. */
    *driver = (qrt_driver){0};
}

qg_status qrt_driver_check(const qrt_driver *driver, int result, const char *what, qg_error *err) {
    if (!result) return QG_OK;
    const char *name = NULL, *text = NULL;
    char version[32];
    driver->error_name(result, &name);
    driver->error_string(result, &text);
    version_text(driver->version, version, sizeof version);
    return qg_failf(err, result == QRT_CUDA_OUT_OF_MEMORY ? QG_NO_MEMORY : QG_ENVIRONMENT, what, "",
                    "%s: %s (result %d, driver for %s)", name ? name : "unknown error",
                    text ? text : "no text", result, version);
}
