#include "gen/tuned.h"

#include "gen/embedded.h"
#include "gen/json_read.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FORMAT "qrsmith-tuned-1"

/* A shape further away than this (the sum of the logarithms of its ratios) is no guide. */
static const double NEAR = 0.7;

static qg_status check_entry(const json_t *entry, const qg_where *where, qg_error *err) {
    static const char *const keys[] = {"shape", "device", "family", "params", "provenance", NULL};
    static const char *const shape_keys[] = {"m", "n", "precision", "layout_in", "layout_out", "batch", NULL};
    static const char *const device_keys[] = {"arch", "sms", NULL};
    const char *text = NULL;
    int64_t number;
    qg_layout layout;
    qg_precision precision;
    qg_status s = qg_json_keys(entry, keys, where, err);
    if (s) return s;
    const json_t *shape = json_object_get(entry, "shape"), *device = json_object_get(entry, "device");
    qg_where at = qg_where_key(where, "shape"), dev = qg_where_key(where, "device");
    if ((s = qg_json_keys(shape, shape_keys, &at, err)) ||
        (s = qg_json_keys(device, device_keys, &dev, err)) ||
        (s = qg_json_integer(shape, "m", 0, QG_MAX_DIM, &number, &at, err)) ||
        (s = qg_json_integer(shape, "n", 0, QG_MAX_DIM, &number, &at, err)) ||
        (s = qg_json_integer(shape, "batch", 1, INT64_MAX, &number, &at, err)) ||
        (s = qg_json_integer(device, "arch", 10, 10000, &number, &dev, err)) ||
        (s = qg_json_string(shape, "precision", &text, &at, err)))
        return s;
    if (!qg_precision_parse(text, &precision))
        return qg_fail(err, QG_BAD_INPUT, at.text, "not a precision", "fp32 or fp16");
    for (int i = 0; i < 2; i++)
        if ((s = qg_json_string(shape, i ? "layout_out" : "layout_in", &text, &at, err)))
            return s;
        else if (!qg_layout_parse(text, &layout))
            return qg_fail(err, QG_BAD_INPUT, at.text, "not a layout", "row or col");
    if ((s = qg_json_string(entry, "family", &text, where, err))) return s;
    if (!json_is_object(json_object_get(entry, "params")))
        return qg_fail(err, QG_BAD_INPUT, where->text, "\"params\" is no object", "an object, maybe empty");
    return QG_OK;
}

static void complain(qg_library *lib, const qg_error *e) {
    char text[1200];
    snprintf(text, sizeof text, "%.300s: %.800s", e->what, e->why);
    json_array_append_new(lib->tuned_complaints, json_string(text));
}

static void take_entries(qg_library *lib, const json_t *root, const char *name) {
    static const char *const keys[] = {"format", "entries", NULL};
    qg_where where = qg_where_root(name), list = qg_where_key(&where, "entries");
    qg_error e = {0};
    const json_t *entries;
    if (qg_json_keys(root, keys, &where, &e) || qg_json_format(root, FORMAT, &where, &e) ||
        qg_json_array(root, "entries", &entries, &where, &e)) {
        complain(lib, &e);
        return;
    }
    for (size_t i = 0; i < json_array_size(entries); i++) {
        qg_where at = qg_where_index(&list, i);
        json_t *entry = json_array_get(entries, i);
        if (check_entry(entry, &at, &e))
            complain(lib, &e);
        else
            json_array_append(lib->tuned, entry);
    }
}

static void user_table(char *path, size_t size) {
    const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    path[0] = 0;
    if (config && *config)
        snprintf(path, size, "%s/qrsmith/tuned.json", config);
    else if (home && *home)
        snprintf(path, size, "%s/.config/qrsmith/tuned.json", home);
}

static void take_embedded(qg_library *lib) {
    for (const qg_embedded *f = qg_embedded_files; f->path; f++) {
        qg_error e = {0};
        json_t *root = NULL;
        if (strncmp(f->path, "configs/tuned/", 14) != 0 || !strstr(f->path, ".json")) continue;
        if (qg_json_text(f->data, f->size, f->path, &root, &e))
            complain(lib, &e);
        else
            take_entries(lib, root, f->path);
        json_decref(root);
    }
}

qg_status qg_tuned_open(qg_library *lib, const char *path, qg_error *err) {
    char user[1024];
    lib->tuned = json_array();
    lib->tuned_complaints = json_array();
    if (!lib->tuned || !lib->tuned_complaints)
        return qg_fail(err, QG_NO_MEMORY, "tuned table", "out of memory", "");
    if (path && access(path, R_OK))
        return qg_fail(err, QG_BAD_INPUT, path, "the tuned table cannot be read", "a file of format " FORMAT);
    user_table(user, sizeof user);
    if (!path && *user && access(user, R_OK) == 0) path = user;
    if (!path) {
        take_embedded(lib);
        return QG_OK;
    }
    qg_error e = {0};
    json_t *root = NULL;
    if (qg_json_file(path, &root, &e))
        complain(lib, &e);
    else
        take_entries(lib, root, path);
    json_decref(root);
    return QG_OK;
}

static int64_t member(const json_t *o, const char *key) {
    return json_integer_value(json_object_get(o, key));
}

static bool same_text(const json_t *o, const char *key, const char *text) {
    return strcmp(json_string_value(json_object_get(o, key)), text) == 0;
}

static double ratio(int64_t a, int64_t b) {
    return a > 0 && b > 0 ? fabs(log((double)a / (double)b)) : a == b ? 0 : 100;
}

/* How far an entry is from the shape; infinite when it says nothing about it. The batch matters least: it
 * only separates entries of one size. */
static double distance(const json_t *entry, const qg_shape *shape, const qg_device *dev, bool *exact) {
    const json_t *s = json_object_get(entry, "shape"), *d = json_object_get(entry, "device");
    if (member(d, "arch") != dev->arch || !same_text(s, "precision", qg_precision_name(shape->precision)))
        return INFINITY;
    double size = ratio(member(s, "m"), shape->m) + ratio(member(s, "n"), shape->n);
    bool layouts = same_text(s, "layout_in", qg_layout_name(shape->layout_in)) &&
                   same_text(s, "layout_out", qg_layout_name(shape->layout_out));
    *exact = size == 0 && layouts;
    double batch = shape->batch_invariant ? 0 : ratio(member(s, "batch"), shape->max_batch);
    return size > NEAR ? INFINITY : size + (layouts ? 0 : 0.01) + 1e-4 * batch;
}

const json_t *qg_tuned_find(const qg_library *lib, const qg_shape *shape, const qg_device *dev, int i,
                            bool *exact) {
    /* Selection by repeated minimum: tables have tens of entries, and i is 0 nearly always. Ties go to the
     * earlier entry. */
    double last = -1;
    size_t last_index = 0;
    for (;; i--) {
        const json_t *best = NULL;
        double least = INFINITY;
        size_t least_index = 0;
        for (size_t k = 0; k < json_array_size(lib->tuned); k++) {
            bool is_exact = false;
            double x = distance(json_array_get(lib->tuned, k), shape, dev, &is_exact);
            bool after = x > last || (x == last && k > last_index);
            if (after && x < least) {
                best = json_array_get(lib->tuned, k);
                least = x;
                least_index = k;
                *exact = is_exact;
            }
        }
        if (!best || i == 0) return best;
        last = least;
        last_index = least_index;
    }
}
