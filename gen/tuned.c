#include "gen/tuned.h"

#include "gen/embedded.h"
#include "gen/family.h"
#include "gen/json_read.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FORMAT "qrsmith-tuned-1"

/* A shape further away than this (the sum of the logarithms of its ratios) is no guide. What differs besides
 * the size counts as much as a size that far off. */
static const double NEAR = 0.7, OTHER_LAYOUT = 0.01, OTHER_SMS = 0.05, OTHER_ARCH = 0.4, PER_BATCH = 0.5;
/* The logarithm of 4: a batch further off is another case, even of the same size. */
static const double FAR_BATCH = 1.3863;

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
        (s = qg_json_integer(device, "sms", 1, 4096, &number, &dev, err)) ||
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

/* ---- what entries choose, held against the families */

/* A family's description, kept in `known` by name; NULL when there is no such family that can be read. */
static const json_t *describe(const qg_library *lib, json_t *known, const char *name) {
    char path[160];
    json_t *family = json_object_get(known, name);
    if (family) return json_is_object(family) ? family : NULL;
    snprintf(path, sizeof path, "families/%.120s.lua", name);
    const qg_file *file = qg_library_find(lib, path);
    if (!file || qg_family_describe(lib, file, &family, NULL)) family = json_null();
    json_object_set_new(known, name, family);
    return json_is_object(family) ? family : NULL;
}

static bool is_value(const json_t *family, const char *param, const json_t *value) {
    const json_t *params = json_object_get(family, "params");
    for (size_t i = 0; i < json_array_size(params); i++) {
        const json_t *p = json_array_get(params, i), *values = json_object_get(p, "values");
        if (strcmp(json_string_value(json_object_get(p, "name")), param) != 0) continue;
        for (size_t k = 0; k < json_array_size(values); k++)
            if (json_equal(json_array_get(values, k), value)) return true;
    }
    return false;
}

static qg_status check_choice(const qg_library *lib, json_t *known, const json_t *entry,
                              const qg_where *where, qg_error *err) {
    const char *name = json_string_value(json_object_get(entry, "family")), *key;
    const json_t *family = describe(lib, known, name);
    json_t *value;
    char found[160];
    if (!family)
        return qg_failf(err, QG_BAD_INPUT, where->text, "see `qrsmith families`",
                        "there is no family \"%.60s\"", name);
    json_object_foreach(json_object_get(entry, "params"), key, value) {
        if (!is_value(family, key, value))
            return qg_failf(err, QG_BAD_INPUT, where->text, "see `qrsmith families`",
                            "family %.60s does not take %.60s = %s", name, key,
                            qg_json_found(value, found, sizeof found));
    }
    return QG_OK;
}

static void take_entries(qg_library *lib, json_t *known, const json_t *root, const char *name) {
    static const char *const keys[] = {"format", "about", "entries", NULL};
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
        if (check_entry(entry, &at, &e) || check_choice(lib, known, entry, &at, &e))
            complain(lib, &e);
        else
            json_array_append(lib->tuned, entry);
    }
}

/* ---- where tables are */

static void user_table(char *path, size_t size) {
    const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    path[0] = 0;
    if (config && *config)
        snprintf(path, size, "%s/qrsmith/tuned.json", config);
    else if (home && *home)
        snprintf(path, size, "%s/.config/qrsmith/tuned.json", home);
}

/* The built-in table goes with the built-in templates. To others its entries may mean nothing, which is
 * nobody's fault: those are left out without a word. */
static void take_embedded(qg_library *lib, json_t *known) {
    size_t said = json_array_size(lib->tuned_complaints);
    bool own_templates = lib->file_count && lib->files[0].owned;
    for (const qg_embedded *f = qg_embedded_files; f->path; f++) {
        qg_error e = {0};
        json_t *root = NULL;
        if (strncmp(f->path, "configs/tuned/", 14) != 0 || !strstr(f->path, ".json")) continue;
        if (qg_json_text(f->data, f->size, f->path, &root, &e))
            complain(lib, &e);
        else
            take_entries(lib, known, root, f->path);
        json_decref(root);
    }
    while (own_templates && json_array_size(lib->tuned_complaints) > said)
        json_array_remove(lib->tuned_complaints, said);
}

static void take_file(qg_library *lib, json_t *known, const char *path) {
    qg_error e = {0};
    json_t *root = NULL;
    if (qg_json_file(path, &root, &e))
        complain(lib, &e);
    else
        take_entries(lib, known, root, path);
    json_decref(root);
}

qg_status qg_tuned_open(qg_library *lib, const char *path, qg_error *err) {
    char user[1024];
    json_t *known = json_object();
    lib->tuned = json_array();
    lib->tuned_complaints = json_array();
    qg_status s = QG_OK;
    if (!lib->tuned || !lib->tuned_complaints || !known)
        s = qg_fail(err, QG_NO_MEMORY, "tuned table", "out of memory", "");
    else if (path && access(path, R_OK))
        s = qg_fail(err, QG_BAD_INPUT, path, "the tuned table cannot be read", "a file of format " FORMAT);
    if (!s) {
        user_table(user, sizeof user);
        if (!path && *user && access(user, R_OK) == 0) path = user;
        if (path) take_file(lib, known, path);
        take_embedded(lib, known);
    }
    json_decref(known);
    return s;
}

/* ---- look-up */

static int64_t member(const json_t *o, const char *key) {
    return json_integer_value(json_object_get(o, key));
}

static bool same_text(const json_t *o, const char *key, const char *text) {
    return strcmp(json_string_value(json_object_get(o, key)), text) == 0;
}

static double ratio(int64_t a, int64_t b) {
    return a > 0 && b > 0 ? fabs(log((double)a / (double)b)) : a == b ? 0 : 100;
}

/* How far an entry is from the shape; infinite when it says nothing about it. The batch counts too, since
 * what serves one that leaves SMs idle (a whole SM a matrix) is no guide for one that fills them: 20 x 32 x
 * 32 tuned took twice the time of the default at 5,000 x 32 x 32. */
static double distance(const json_t *entry, const qg_shape *shape, const qg_device *dev, bool *exact) {
    const json_t *s = json_object_get(entry, "shape"), *d = json_object_get(entry, "device");
    if (shape->operation != QG_GEQRF || !same_text(s, "precision", qg_precision_name(shape->precision)))
        return INFINITY;
    double x = ratio(member(s, "m"), shape->m) + ratio(member(s, "n"), shape->n);
    if (!same_text(s, "layout_in", qg_layout_name(shape->layout_in)) ||
        !same_text(s, "layout_out", qg_layout_name(shape->layout_out)))
        x += OTHER_LAYOUT;
    if (member(d, "arch") != dev->arch)
        x += OTHER_ARCH;
    else if (member(d, "sms") != dev->sms)
        x += OTHER_SMS;
    double apart = shape->batch_invariant ? 0 : ratio(member(s, "batch"), shape->max_batch);
    double batch = PER_BATCH * apart;
    *exact = x == 0 && apart <= FAR_BATCH;
    if (*exact) return 1e-6 * batch; /* before all that are not */
    return x + batch > NEAR ? INFINITY : x + batch;
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
