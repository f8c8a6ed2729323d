#include "runtime/nvrtc.h"
#include "gen/text.h"
#include <dlfcn.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct symbol {
    const char *name;
    size_t offset;
} symbol;

#define ENTRY(field, name, parameters) {name, offsetof(qrt_nvrtc, field)},
static const symbol symbols[] = {
    QRT_NVRTC_SYMBOLS(ENTRY){"nvrtcGetErrorString", offsetof(qrt_nvrtc, error_text)}};
#undef ENTRY

static const char *const sonames[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
#define SONAMES (sizeof sonames / sizeof *sonames)

/* Cuts the last component off. */
static bool parent(char *path) {
    char *slash = strrchr(path, '/');
    if (!slash || slash == path) return false;
    *slash = 0;
    return true;
}

/* NVRTC opens its builtins by name alone, which only the loader's own folders answer. Loaded beforehand from
 * NVRTC's folder they are found anywhere; where they aren't there, NVRTC may still find them. */
static void load_builtins(qrt_nvrtc *nvrtc) {
    Dl_info info;
    char path[PATH_MAX], folder[PATH_MAX];
    if (!dladdr((const void *)(uintptr_t)nvrtc->version, &info) || !info.dli_fname) return;
    if (snprintf(folder, sizeof folder, "%s", info.dli_fname) >= (int)sizeof folder || !parent(folder))
        return;
    int size =
        snprintf(path, sizeof path, "%s/libnvrtc-builtins.so.%d.%d", folder, nvrtc->major, nvrtc->minor);
    if (size < (int)sizeof path) nvrtc->builtins = dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

/* Loads one file. False, with a line more in `tried`, when it is not there or not usable. */
static bool try_file(const char *path, qrt_nvrtc *out, qg_text *tried) {
    *out = (qrt_nvrtc){0};
    out->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!out->handle) {
        const char *why = dlerror();
        qg_text_printf(tried, "%s%s", tried->size ? "; " : "", why ? why : path);
        return false;
    }
    const char *missing = NULL;
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *found = dlsym(out->handle, symbols[i].name);
        memcpy((char *)out + symbols[i].offset, &found, sizeof found);
        if (!found && !missing) missing = symbols[i].name;
    }
    if (out->version) out->version(&out->major, &out->minor);
    if (!missing && out->major >= 12) {
        snprintf(out->path, sizeof out->path, "%s", path);
        load_builtins(out);
        return true;
    }
    qg_text_printf(tried, "%s%s is version %d.%d", tried->size ? "; " : "", path, out->major, out->minor);
    if (missing) qg_text_printf(tried, " and lacks %s", missing);
    dlclose(out->handle);
    *out = (qrt_nvrtc){0};
    return false;
}

static bool try_folder(const char *folder, const char *below, qrt_nvrtc *out, qg_text *tried) {
    for (size_t i = 0; i < SONAMES; i++) {
        char path[PATH_MAX];
        if (snprintf(path, sizeof path, "%s%s/%s", folder, below, sonames[i]) >= (int)sizeof path)
            return false;
        if (access(path, F_OK)) continue;
        if (try_file(path, out, tried)) return true;
    }
    qg_text_printf(tried, "%sno libnvrtc in %s%s", tried->size ? "; " : "", folder, below);
    return false;
}

/* Where a build (build/nvrtc) and an installation (lib/qrsmith/nvrtc) keep an NVRTC of their own. */
static const char *const bundles[] = {"/nvrtc", "/qrsmith/nvrtc", "/lib/qrsmith/nvrtc"};

/* Beside the file that holds this code, and one folder up (for build/tests/test_x, bin/qrsmith). */
static bool try_beside(qrt_nvrtc *out, qg_text *tried) {
    Dl_info info;
    char path[PATH_MAX];
    if (!dladdr((const void *)(uintptr_t)&qrt_nvrtc_open, &info) || !info.dli_fname) return false;
    if (!realpath(info.dli_fname, path)) {
        ssize_t size = readlink("/proc/self/exe", path, sizeof path - 1);
        if (size <= 0) return false;
        path[size] = 0;
    }
    for (int up = 0; up < 2 && parent(path); up++)
        for (size_t i = 0; i < sizeof bundles / sizeof *bundles; i++)
            if (try_folder(path, bundles[i], out, tried)) return true;
    return false;
}

static bool search(qrt_nvrtc *out, qg_text *tried) {
    const char *home = getenv("CUDA_HOME");
    bool given = home && *home;
    if (given && try_folder(home, "/lib64", out, tried)) return true;
    if (try_beside(out, tried)) return true;
    for (size_t i = 0; i < SONAMES; i++)
        if (try_file(sonames[i], out, tried)) return true;
    return !given && try_folder("/usr/local/cuda", "/lib64", out, tried);
}

qg_status qrt_nvrtc_open(const char *path, qrt_nvrtc *out, qg_error *err) {
    const char *forced = path && *path ? path : getenv("QRSMITH_NVRTC");
    qg_text tried = {0};
    bool found = forced && *forced ? try_file(forced, out, &tried) : search(out, &tried);
    qg_status status = QG_OK;
    if (!found) {
        *out = (qrt_nvrtc){0};
        status =
            qg_failf(err, QG_ENVIRONMENT, "NVRTC, NVIDIA's run-time compiler",
                     "install the CUDA toolkit 12 or newer or the Python wheel nvidia-cuda-nvrtc, and name "
                     "libnvrtc.so in QRSMITH_NVRTC",
                     "no usable library, tried: %s", tried.data ? tried.data : "nothing");
    }
    qg_text_free(&tried);
    return status;
}

void qrt_nvrtc_close(qrt_nvrtc *nvrtc) {
    /* The library stays loaded: loading it again costs more than its memory, and its threads may still run.
     */
    *nvrtc = (qrt_nvrtc){0};
}
