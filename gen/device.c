#include "gen/device.h"

#include "gen/embedded.h"
#include "gen/json_read.h"

#include <stdio.h>
#include <string.h>

static const struct {
    int arch;
    const char *target;
} targets[] = {{80, "sm_80"},    {86, "sm_86"},    {89, "sm_89"},  {90, "sm_90a"},
               {100, "sm_100a"}, {103, "sm_103a"}, {120, "sm_120"}};

const char *qg_compile_target(int arch) {
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
        if (targets[i].arch == arch) return targets[i].target;
    return NULL;
}

const char *qg_compile_targets(void) {
    return "sm_80, sm_86, sm_89, sm_90, sm_100, sm_103, sm_120";
}

static qg_status read_record(const json_t *root, const char *file, qg_device *out, qg_error *err) {
    static const char *const keys[] = {"format", "name", "arch",        "sms",    "smem_optin", "smem_sm",
                                       "regs",   "l2",   "max_cluster", "memory", NULL};
    qg_where where = qg_where_root(file);
    const char *name;
    int64_t arch;
    qg_device d = {0};
    qg_status s;
    if ((s = qg_json_keys(root, keys, &where, err)) ||
        (s = qg_json_format(root, "qrsmith-device-1", &where, err)) ||
        (s = qg_json_string(root, "name", &name, &where, err)) ||
        (s = qg_json_integer(root, "arch", 80, 1000, &arch, &where, err)) ||
        (s = qg_json_integer(root, "sms", 1, 4096, &d.sms, &where, err)) ||
        (s = qg_json_integer(root, "smem_optin", 16384, 1 << 24, &d.smem_optin, &where, err)) ||
        (s = qg_json_integer(root, "smem_sm", 16384, 1 << 24, &d.smem_sm, &where, err)) ||
        (s = qg_json_integer(root, "regs", 16384, 1 << 24, &d.regs, &where, err)) ||
        (s = qg_json_integer(root, "l2", 1 << 16, INT64_C(1) << 40, &d.l2, &where, err)) ||
        (s = qg_json_integer(root, "max_cluster", 1, 64, &d.max_cluster, &where, err)) ||
        (s = qg_json_integer(root, "memory", 1 << 20, INT64_C(1) << 50, &d.memory, &where, err)))
        return s;
    snprintf(d.name, sizeof d.name, "%s", name);
    d.arch = (int)arch;
    if (!qg_compile_target(d.arch))
        return qg_failf(err, QG_UNSUPPORTED, where.text, qg_compile_targets(),
                        "no compile target for arch %d", d.arch);
    *out = d;
    return QG_OK;
}

static void list_profiles(char *out, size_t size) {
    snprintf(out, size, "a path that ends in .json, or one of");
    for (const qg_embedded *f = qg_embedded_files; f->path; f++) {
        size_t used = strlen(out), length = strlen(f->path);
        if (strncmp(f->path, "configs/devices/", 16) == 0 && length > 21)
            snprintf(out + used, size - used, " %.*s", (int)(length - 21), f->path + 16);
    }
}

qg_status qg_device_profile(const char *name_or_path, qg_device *out, qg_error *err) {
    size_t length = strlen(name_or_path);
    json_t *root = NULL;
    qg_status s;
    if (length > 5 && strcmp(name_or_path + length - 5, ".json") == 0) {
        s = qg_json_file(name_or_path, &root, err);
    } else {
        char path[160], fix[500];
        snprintf(path, sizeof path, "configs/devices/%.100s.json", name_or_path);
        const qg_embedded *f = qg_embedded_find(path);
        if (!f) {
            list_profiles(fix, sizeof fix);
            return qg_failf(err, QG_BAD_INPUT, "device profile", fix, "there is no profile \"%.80s\"",
                            name_or_path);
        }
        s = qg_json_text(f->data, f->size, path, &root, err);
    }
    if (!s) s = read_record(root, name_or_path, out, err);
    json_decref(root);
    return s;
}
