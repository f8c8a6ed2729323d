#include "gen/library.h"

#include "gen/embedded.h"
#include "gen/family.h"
#include "gen/text.h"
#include "gen/tuned.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { FILE_LIMIT = 4 << 20, MAX_FILES = 4096, MAX_FOLDER_DEPTH = 4 };

static qg_status add_file(qg_library *lib, const char *path, const char *data, size_t size, char *owned,
                          qg_error *err) {
    if (lib->file_count == lib->file_capacity) {
        int capacity = lib->file_capacity ? 2 * lib->file_capacity : 64;
        qg_file *files = realloc(lib->files, (size_t)capacity * sizeof *files);
        if (!files) goto no_memory;
        lib->files = files;
        lib->file_capacity = capacity;
    }
    qg_file *f = &lib->files[lib->file_count];
    *f = (qg_file){.path = strdup(path), .data = data, .size = size, .owned = owned};
    if (!f->path) goto no_memory;
    lib->file_count++;
    return QG_OK;
no_memory:
    free(owned);
    return qg_fail(err, QG_NO_MEMORY, path, "out of memory", "");
}

/* Reads folder/prefix.. into the library under names that start with `as`. */
static qg_status add_folder(qg_library *lib, const char *folder, const char *as, int depth, qg_error *err) {
    DIR *d = opendir(folder);
    if (!d)
        return qg_failf(err, QG_BAD_INPUT, folder, "a folder of templates", "cannot open: %s",
                        strerror(errno));
    qg_status s = QG_OK;
    struct dirent *e;
    while (!s && (e = readdir(d))) {
        char path[1024], name[512];
        struct stat st;
        if (e->d_name[0] == '.') continue;
        int a = snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        int b = snprintf(name, sizeof name, "%s%s", as, e->d_name);
        if (a >= (int)sizeof path || b >= (int)sizeof name - 1 || stat(path, &st)) continue;
        if (S_ISDIR(st.st_mode)) {
            strcat(name, "/");
            if (depth < MAX_FOLDER_DEPTH) s = add_folder(lib, path, name, depth + 1, err);
        } else if (S_ISREG(st.st_mode) && lib->file_count < MAX_FILES) {
            qg_text text = {0};
            s = qg_text_read(&text, path, FILE_LIMIT, err);
            if (!s)
                s = add_file(lib, name, text.data, text.size, text.data, err);
            else
                qg_text_free(&text);
        }
    }
    closedir(d);
    return s;
}

static int by_path(const void *a, const void *b) {
    return strcmp(((const qg_file *)a)->path, ((const qg_file *)b)->path);
}

static const char *setting(const char *given, const char *variable) {
    if (given) return given;
    const char *value = getenv(variable);
    return value && *value ? value : NULL;
}

static qg_status open_files(qg_library *lib, const qg_library_options *o, qg_error *err) {
    const char *folder = setting(o ? o->templates : NULL, "QRSMITH_TEMPLATES");
    qg_status s = folder ? add_folder(lib, folder, "", 0, err) : QG_OK;
    for (const qg_embedded *e = qg_embedded_files; !folder && !s && e->path; e++)
        if (strncmp(e->path, "configs/", 8) != 0) s = add_file(lib, e->path, e->data, e->size, NULL, err);
    if (!s && o && o->extra_families) s = add_folder(lib, o->extra_families, "families/", 0, err);
    if (s) return s;
    if (lib->file_count) qsort(lib->files, (size_t)lib->file_count, sizeof *lib->files, by_path);
    for (int i = 1; i < lib->file_count; i++)
        if (strcmp(lib->files[i - 1].path, lib->files[i].path) == 0)
            return qg_fail(err, QG_BAD_INPUT, lib->files[i].path, "two template files have this name",
                           "one of each");
    return QG_OK;
}

qg_status qg_library_open(const qg_library_options *options, qg_library **out, qg_error *err) {
    qg_library *lib = calloc(1, sizeof *lib);
    if (!lib) return qg_fail(err, QG_NO_MEMORY, "library", "out of memory", "");
    qg_status s = open_files(lib, options, err);
    if (!s && !(options && options->untuned))
        s = qg_tuned_open(lib, setting(options ? options->tuned : NULL, "QRSMITH_TUNED"), err);
    if (s) {
        qg_library_close(lib);
        return s;
    }
    *out = lib;
    return QG_OK;
}

void qg_library_close(qg_library *lib) {
    if (!lib) return;
    for (int i = 0; i < lib->file_count; i++) {
        free(lib->files[i].path);
        free(lib->files[i].owned);
    }
    free(lib->files);
    json_decref(lib->tuned);
    json_decref(lib->tuned_complaints);
    free(lib);
}

const qg_file *qg_library_find(const qg_library *lib, const char *path) {
    int low = 0, high = lib->file_count - 1;
    while (low <= high) {
        int middle = (low + high) / 2, order = strcmp(lib->files[middle].path, path);
        if (order == 0) return &lib->files[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle - 1;
    }
    return NULL;
}

static bool is_header(const qg_file *f) {
    return strncmp(f->path, "device/", 7) == 0;
}

const char *qg_library_header(const qg_library *lib, const char *name, size_t *size) {
    const qg_file *f = qg_library_find(lib, name);
    if (!f || !is_header(f)) return NULL;
    if (size) *size = f->size;
    return f->data;
}

const char *qg_library_header_name(const qg_library *lib, int i) {
    for (int k = 0; k < lib->file_count; k++)
        if (is_header(&lib->files[k]) && i-- == 0) return lib->files[k].path;
    return NULL;
}

const char *qg_library_complaint(const qg_library *lib, int i) {
    return i < 0 ? NULL : json_string_value(json_array_get(lib->tuned_complaints, (size_t)i));
}

qg_status qg_library_check(const qg_library *lib, qg_error *err) {
    for (int i = 0; i < lib->file_count; i++) {
        json_t *family = NULL;
        if (!qg_family_is_file(lib->files[i].path)) continue;
        qg_status s = qg_family_describe(lib, &lib->files[i], &family, err);
        json_decref(family);
        if (s) return s;
    }
    return QG_OK;
}

json_t *qg_library_families(const qg_library *lib) {
    json_t *list = json_array();
    for (int i = 0; list && i < lib->file_count; i++) {
        json_t *family = NULL;
        if (!qg_family_is_file(lib->files[i].path)) continue;
        if (qg_family_describe(lib, &lib->files[i], &family, NULL) == QG_OK)
            json_array_append_new(list, family);
    }
    return list;
}
