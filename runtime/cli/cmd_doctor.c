/* qrsmith doctor: what of the machine was found, and what to do about the rest. */
#include "gen/device.h"
#include "gen/plan.h"
#include "runtime/cli/commands.h"
#include "runtime/cli/report.h"
#include "runtime/runtime.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct values {
    bool json;
} values;

typedef enum verdict { GOOD, OPTIONAL, MISSING } verdict;

typedef struct finding {
    const char *name;
    verdict verdict;
    char found[4096], fix[512];
} finding;

static void found(finding *f, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void found(finding *f, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(f->found, sizeof f->found, format, args);
    va_end(args);
}

static void trouble(finding *f, verdict v, const qg_error *err) {
    f->verdict = v;
    snprintf(f->found, sizeof f->found, "%s: %s", err->what, err->why);
    snprintf(f->fix, sizeof f->fix, "%s", err->fix);
}

/* ---- what is looked at ---- */

static void look_driver(finding *f) {
    qrt_driver driver;
    qg_error err = {0};
    if (qrt_driver_open(&driver, &err) != QG_OK) {
        trouble(f, OPTIONAL, &err);
        return;
    }
    found(f, "%s, CUDA %d.%d", driver.path, driver.version / 1000, driver.version % 1000 / 10);
    qrt_driver_close(&driver);
}

static void look_gpu(finding *f) {
    qg_error err = {0};
    int count = qrt_device_count(&err);
    if (count <= 0) {
        found(f, "none; --device cpu works without");
        snprintf(f->fix, sizeof f->fix, "%s", err.fix);
        f->verdict = OPTIONAL;
        return;
    }
    size_t used = 0;
    for (int i = 0; i < count; i++) {
        qrt_device *dev = NULL;
        bool open = qrt_device_open(i, &dev, &err) == QG_OK;
        const qg_device *d = open ? qrt_device_record(dev) : NULL;
        char memory[32];
        if (used < sizeof f->found)
            used += (size_t)(open ? snprintf(f->found + used, sizeof f->found - used,
                                             "%s%d: %s, sm_%d, %lld SMs, %s", i ? "; " : "", i, d->name,
                                             d->arch, (long long)d->sms, cli_bytes((double)d->memory, memory))
                                  : snprintf(f->found + used, sizeof f->found - used, "%s%d: %s",
                                             i ? "; " : "", i, err.why));
        f->verdict = open || f->verdict == MISSING ? f->verdict : MISSING;
        qrt_device_close(dev);
    }
}

static void look_nvrtc(finding *f) {
    qrt_nvrtc nvrtc;
    qg_error err = {0};
    if (qrt_nvrtc_open(NULL, &nvrtc, &err) != QG_OK) {
        trouble(f, MISSING, &err);
        return;
    }
    found(f, "%s, %d.%d", nvrtc.path, nvrtc.major, nvrtc.minor);
    qrt_nvrtc_close(&nvrtc);
}

static void look_templates(finding *f) {
    qg_library *lib = NULL;
    qg_error err = {0};
    if (qg_library_open(NULL, &lib, &err) != QG_OK) {
        trouble(f, MISSING, &err);
        return;
    }
    int headers = 0;
    while (qg_library_header_name(lib, headers))
        headers++;
    json_t *families = qg_library_families(lib);
    const char *folder = getenv("QRSMITH_TEMPLATES");
    if (!json_array_size(families)) {
        qg_fail(&err, QG_ENVIRONMENT, folder && *folder ? folder : "templates",
                "there is no kernel family in it",
                "QRSMITH_TEMPLATES is to name a folder with families/*.lua, or nothing");
        trouble(f, MISSING, &err);
    } else {
        found(f, "%zu families and %d headers, %s", json_array_size(families), headers,
              folder && *folder ? folder : "built in");
    }
    json_decref(families);
    qg_library_close(lib);
}

static void look_targets(finding *f) {
    found(f, "%s", qg_compile_targets());
}

static void look_cache(finding *f) {
    qrt_cache *cache = NULL;
    qg_error err = {0};
    if (qrt_cache_open(NULL, &cache, &err) != QG_OK) {
        trouble(f, MISSING, &err);
        return;
    }
    const char *folder = qrt_cache_directory(cache), *why = qrt_cache_trouble(cache);
    found(f, "%s%s%s", *folder ? folder : "memory only", *why ? ": " : "", why);
    if (!*folder) {
        f->verdict = OPTIONAL;
        snprintf(f->fix, sizeof f->fix, "QRSMITH_CACHE_DIR=a folder of your own keeps compiled kernels");
    }
    qrt_cache_close(cache);
}

/* Whether a program is on PATH; its place in `out`. */
static bool on_path(const char *name, char *out, size_t size) {
    const char *path = getenv("PATH");
    snprintf(out, size, "%s", name);
    if (strchr(name, '/')) return !access(name, X_OK);
    while (path && *path) {
        size_t length = strcspn(path, ":");
        snprintf(out, size, "%.*s/%s", (int)length, path, name);
        if (!access(out, X_OK)) return true;
        path += length + (path[length] == ':');
    }
    return false;
}

static void look_compiler(finding *f) {
    const char *cxx = getenv("CXX");
    char name[256], place[1024];
    cxx = cxx && *cxx ? cxx : "c++";
    snprintf(name, sizeof name, "%.*s", (int)strcspn(cxx, " "), cxx); /* without options */
    if (on_path(name, place, sizeof place)) {
        found(f, "%.900s", place);
        return;
    }
    found(f, "%s is not there; only --device cpu needs it", name);
    snprintf(f->fix, sizeof f->fix, "apt-get install g++, or set CXX");
    f->verdict = OPTIONAL;
}

static void look_tuned(finding *f) {
    const char *tuned = getenv("QRSMITH_TUNED");
    if (!tuned || !*tuned) {
        found(f, "QRSMITH_TUNED is not set: the user's own table, else the built-in one");
        return;
    }
    found(f, "%.900s", tuned);
    if (access(tuned, R_OK)) {
        found(f, "%.900s: %s", tuned, strerror(errno));
        snprintf(f->fix, sizeof f->fix, "set QRSMITH_TUNED to a readable file, or unset it");
        f->verdict = MISSING;
    }
}

static const struct look {
    const char *name;
    void (*look)(finding *);
} looks[] = {{"driver", look_driver},   {"gpu", look_gpu},
             {"nvrtc", look_nvrtc},     {"templates", look_templates},
             {"targets", look_targets}, {"cache", look_cache},
             {"tuned", look_tuned},     {"host compiler", look_compiler}};
enum { LOOKS = sizeof looks / sizeof *looks };

/* ---- telling ---- */

static const char *const marks[] = {[GOOD] = "ok", [OPTIONAL] = "--", [MISSING] = "!!"};
static const char *const words[] = {[GOOD] = "ok", [OPTIONAL] = "optional", [MISSING] = "missing"};

static void print_folded(const char *text) {
    for (; *text; text++)
        putchar(*text == '\n' ? ' ' : *text);
}

static void print_finding(const finding *f) {
    printf("%s  %-14s ", marks[f->verdict], f->name);
    print_folded(f->found);
    if (*f->fix) {
        printf("\n%19s-> ", "");
        print_folded(f->fix);
    }
    putchar('\n');
}

static json_t *finding_json(const finding *f) {
    return json_pack("{s:s, s:s, s:s, s:s}", "name", f->name, "state", words[f->verdict], "found", f->found,
                     "fix", f->fix);
}

static int run(const void *p) {
    const values *v = p;
    finding *all = calloc(LOOKS, sizeof *all);
    json_t *list = v->json ? json_array() : NULL;
    bool missing = false;
    for (int i = 0; all && i < LOOKS; i++) {
        all[i].name = looks[i].name;
        looks[i].look(&all[i]);
        missing |= all[i].verdict == MISSING;
        if (list)
            json_array_append_new(list, finding_json(&all[i]));
        else
            print_finding(&all[i]);
    }
    free(all);
    if (list && !cli_print_json(json_pack("{s:s, s:o}", "version", QRSMITH_BUILD_VERSION, "findings", list)))
        return CLI_ENVIRONMENT;
    return missing ? CLI_ENVIRONMENT : CLI_DONE;
}

static const cli_option options[] = {{"json", 0, CLI_FLAG, offsetof(values, json), NULL, "as JSON", 0, 0},
                                     {0}};

const cli_command cli_doctor = {
    "doctor",
    "say what GPU, driver, NVRTC, templates, cache and compiler are found, and what to do",
    "ok: found. --: not here, and qrsmith works without (as the line says). !!: missing or broken; exit 3.\n"
    "Looked at: QRSMITH_CUDA, QRSMITH_NVRTC, CUDA_HOME, QRSMITH_TEMPLATES, QRSMITH_TUNED, QRSMITH_CACHE_DIR, "
    "CXX.",
    "  qrsmith doctor",
    NULL,
    options,
    sizeof(values),
    NULL,
    run};
