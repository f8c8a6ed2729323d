#include "gen/config.h"

#include "gen/json_read.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FORMAT "qrsmith-manifest-1"

/* The folder is written beside its final place and renamed over it, so that readers see the old output or the
 * new one, whole. A folder that exists is moved aside first (rename cannot replace one that is not empty) and
 * brought back if the second rename fails. */

static qg_status io_failed(const char *path, const char *action, qg_error *err) {
    return qg_failf(err, QG_ENVIRONMENT, path, "a place that can be written", "cannot %s: %s", action,
                    strerror(errno));
}

static qg_status write_file(const char *dir, const char *name, const char *suffix, const char *data,
                            size_t size, qg_error *err) {
    char path[1400];
    snprintf(path, sizeof path, "%s/%s%s", dir, name, suffix);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0) return io_failed(path, "create", err);
    bool ok = true;
    while (size && ok) {
        ssize_t put = write(fd, data, size);
        ok = put > 0 || (put < 0 && errno == EINTR);
        if (put > 0) {
            data += put;
            size -= (size_t)put;
        }
    }
    int failed = errno;
    if (close(fd) && ok) {
        ok = false;
        failed = errno;
    }
    errno = failed;
    return ok ? QG_OK : io_failed(path, "write", err);
}

static qg_status write_json(const char *dir, const char *name, const json_t *value, qg_error *err) {
    char *text = json_dumps(value, JSON_INDENT(1) | JSON_SORT_KEYS);
    char *line = text ? malloc(strlen(text) + 2) : NULL;
    if (!line) {
        free(text);
        return qg_fail(err, QG_NO_MEMORY, dir, "out of memory", "");
    }
    strcpy(line, text);
    strcat(line, "\n");
    qg_status s = write_file(dir, name, ".json", line, strlen(line), err);
    free(line);
    free(text);
    return s;
}

static json_t *describe(const qg_plan *p) {
    const qg_shape *s = &p->shape;
    return json_pack(
        "{s:s, s:{s:I, s:I, s:s, s:s, s:s, s:s, s:I, s:b}, s:s, s:O, s:O, s:s, s:s, s:s, s:s, s:i}", "name",
        p->name, "shape", "m", (json_int_t)s->m, "n", (json_int_t)s->n, "layout_in",
        qg_layout_name(s->layout_in), "layout_out", qg_layout_name(s->layout_out), "precision",
        qg_precision_name(s->precision), "operation", qg_operation_name(s->operation), "max_batch",
        (json_int_t)s->max_batch, "batch_invariant", (int)s->batch_invariant, "family", p->family, "params",
        p->params, "resources", p->resources, "products", p->products, "grade", qg_grade_name(p->grade),
        "device", p->device.name, "target",
        qg_compile_target(p->device.arch) ? qg_compile_target(p->device.arch) : "", "arch", p->device.arch);
}

static qg_status write_plan(const char *dir, const qg_plan *p, json_t *manifest, qg_error *err) {
    for (size_t i = 0; i < json_array_size(manifest); i++) {
        const char *name = json_string_value(json_object_get(json_array_get(manifest, i), "name"));
        if (strcmp(name, p->name) == 0)
            return QG_OK; /* two entries that differ in the batch only may share a plan */
    }
    qg_status s = write_file(dir, p->name, ".cu", p->source, p->source_size, err);
    if (!s) s = write_json(dir, p->name, p->program_json, err);
    if (!s && json_array_append_new(manifest, describe(p)))
        s = qg_fail(err, QG_NO_MEMORY, dir, "out of memory", "");
    return s;
}

static qg_status write_all(const qg_library *lib, const qg_config *config, const qg_device *dev,
                           const char *dir, qg_error *err) {
    json_t *plans = json_array();
    qg_status s = plans ? QG_OK : qg_fail(err, QG_NO_MEMORY, dir, "out of memory", "");
    for (int i = 0; i < config->count && !s; i++) {
        const qg_config_entry *e = &config->entries[i];
        qg_request request = {e->family, e->params};
        qg_plan *plan = NULL;
        s = qg_plan_make(lib, &e->shape, dev, &request, &plan, err);
        if (s && err) {
            char what[512];
            snprintf(what, sizeof what, "%.200s: %.100s: %.180s", config->path, e->where, err->what);
            memcpy(err->what, what, sizeof what);
        }
        if (!s) s = write_plan(dir, plan, plans, err);
        qg_plan_free(plan);
    }
    if (!s) {
        json_t *manifest = json_pack("{s:s, s:O}", "format", FORMAT, "plans", plans);
        s = manifest ? write_json(dir, "manifest", manifest, err)
                     : qg_fail(err, QG_NO_MEMORY, dir, "out of memory", "");
        json_decref(manifest);
    }
    json_decref(plans);
    return s;
}

/* Removes a folder of plain files; best effort. */
static void remove_folder(const char *dir) {
    DIR *d = opendir(dir);
    if (!d) return;
    for (struct dirent *e; (e = readdir(d));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) unlinkat(dirfd(d), e->d_name, 0);
    closedir(d);
    rmdir(dir);
}

/* Whether a manifest that qrsmith wrote names this file. */
static bool is_listed(const json_t *manifest, const char *file) {
    if (strcmp(file, "manifest.json") == 0) return true;
    const json_t *plans = json_object_get(manifest, "plans");
    for (size_t i = 0; i < json_array_size(plans); i++) {
        const char *name = json_string_value(json_object_get(json_array_get(plans, i), "name"));
        size_t size = name ? strlen(name) : 0;
        if (size && strncmp(file, name, size) == 0 &&
            (strcmp(file + size, ".cu") == 0 || strcmp(file + size, ".json") == 0))
            return true;
    }
    return false;
}

/* The folder's manifest; NULL when it has none that qrsmith wrote. */
static json_t *read_manifest(const char *dir) {
    char path[1400];
    qg_where where = qg_where_root(dir);
    json_t *manifest = NULL;
    snprintf(path, sizeof path, "%s/manifest.json", dir);
    if (qg_json_file(path, &manifest, NULL) || !qg_json_format(manifest, FORMAT, &where, NULL))
        return manifest;
    json_decref(manifest);
    return NULL;
}

/* An existing folder may be replaced only when its manifest names all that is in it: a mistyped -o must not
 * eat somebody's files. */
static qg_status check_replaceable(const char *dir, qg_error *err) {
    static const char *const fix = "a new folder, or one that holds output of `qrsmith gen` only";
    DIR *d = opendir(dir);
    if (!d && errno == ENOENT) return QG_OK;
    if (!d) return qg_failf(err, QG_BAD_INPUT, dir, fix, "cannot open as a folder: %s", strerror(errno));
    qg_status s = QG_OK;
    json_t *manifest = read_manifest(dir);
    for (struct dirent *e; !s && (e = readdir(d));) {
        bool dots = strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0;
        if (!dots && !(manifest && is_listed(manifest, e->d_name)))
            s = qg_failf(err, QG_BAD_INPUT, dir, fix, "it holds \"%.200s\"", e->d_name);
    }
    json_decref(manifest);
    closedir(d);
    return s;
}

static qg_status publish(const char *made, const char *dir, qg_error *err) {
    char aside[1200];
    snprintf(aside, sizeof aside, "%s.old.%ld", dir, (long)getpid());
    bool existed = rename(dir, aside) == 0;
    if (!existed && errno != ENOENT) return io_failed(dir, "move aside", err);
    if (rename(made, dir)) {
        qg_status s = io_failed(dir, "rename into place", err);
        if (existed && rename(aside, dir))
            return qg_failf(err, QG_ENVIRONMENT, dir, "", "the old output is whole but now lies at %s",
                            aside);
        return s;
    }
    if (existed) remove_folder(aside);
    return QG_OK;
}

qg_status qg_generate(const qg_library *lib, const qg_config *config, const qg_device *dev, const char *dir,
                      qg_error *err) {
    char target[1024], made[1100];
    snprintf(target, sizeof target, "%s", dir);
    size_t size = strlen(target);
    while (size > 1 && target[size - 1] == '/')
        target[--size] = 0;
    if (size == 0 || strlen(dir) >= sizeof target)
        return qg_fail(err, QG_BAD_INPUT, "output folder", "the path is empty or too long", "");
    /* Where a link leads, not the link, is what gets replaced. */
    char *real = realpath(target, NULL);
    if (real && strlen(real) < sizeof target) strcpy(target, real);
    free(real);
    qg_status s = check_replaceable(target, err);
    if (s) return s;
    snprintf(made, sizeof made, "%s.new.XXXXXX", target);
    if (!mkdtemp(made)) return io_failed(target, "create a folder beside it", err);
    chmod(made, 0755);
    s = write_all(lib, config, dev, made, err);
    if (!s) s = publish(made, target, err);
    if (s) remove_folder(made);
    return s;
}
