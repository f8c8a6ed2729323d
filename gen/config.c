#include "gen/config.h"

#include "gen/json_read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FORMAT "qrsmith-config-1"

enum { MAX_ENTRIES = 4096 };

/* What "defaults" may give for every shape. */
typedef struct defaults {
    qg_layout layout_in, layout_out;
    int64_t max_batch;
    bool batch_invariant;
    const json_t *precision; /* borrowed; a string or a list */
} defaults;

static qg_status read_layout(const json_t *object, const char *key, qg_layout *out, const qg_where *where,
                             qg_error *err) {
    const char *text;
    if (!json_object_get(object, key)) return QG_OK;
    qg_status s = qg_json_string(object, key, &text, where, err);
    if (s || qg_layout_parse(text, out)) return s;
    qg_where at = qg_where_key(where, key);
    return qg_failf(err, QG_BAD_INPUT, at.text, "\"row\" or \"col\"", "found \"%.60s\"", text);
}

/* A precision or a list of them. */
static qg_status check_precision(const json_t *value, const qg_where *where, qg_error *err) {
    qg_precision unused;
    char found[160];
    qg_where at = qg_where_key(where, "precision");
    size_t count = json_is_array(value) ? json_array_size(value) : 1;
    if (count == 0) return qg_fail(err, QG_BAD_INPUT, at.text, "an empty list", "at least one precision");
    for (size_t i = 0; i < count; i++) {
        const json_t *one = json_is_array(value) ? json_array_get(value, i) : value;
        if (!json_is_string(one) || !qg_precision_parse(json_string_value(one), &unused))
            return qg_failf(err, QG_BAD_INPUT, at.text, "\"fp32\", \"fp16\" or a list of both", "found %s",
                            qg_json_found(one, found, sizeof found));
    }
    return QG_OK;
}

/* The keys that "defaults" and each shape share. */
static qg_status read_common(const json_t *object, defaults *d, const qg_where *where, qg_error *err) {
    qg_status s;
    if ((s = read_layout(object, "layout", &d->layout_in, where, err))) return s;
    if (json_object_get(object, "layout")) d->layout_out = d->layout_in;
    if ((s = read_layout(object, "layout_in", &d->layout_in, where, err)) ||
        (s = read_layout(object, "layout_out", &d->layout_out, where, err)))
        return s;
    if (json_object_get(object, "max_batch") &&
        (s = qg_json_integer(object, "max_batch", 1, QG_MAX_BATCH, &d->max_batch, where, err)))
        return s;
    if (json_object_get(object, "batch_invariant") &&
        (s = qg_json_bool(object, "batch_invariant", &d->batch_invariant, where, err)))
        return s;
    if (!json_object_get(object, "precision")) return QG_OK;
    d->precision = json_object_get(object, "precision");
    return check_precision(d->precision, where, err);
}

static bool same_shape(const qg_config_entry *a, const qg_config_entry *b) {
    const qg_shape *x = &a->shape, *y = &b->shape;
    bool same_family =
        (!a->family && !b->family) || (a->family && b->family && strcmp(a->family, b->family) == 0);
    return x->m == y->m && x->n == y->n && x->layout_in == y->layout_in && x->layout_out == y->layout_out &&
           x->precision == y->precision && x->max_batch == y->max_batch &&
           x->batch_invariant == y->batch_invariant && same_family &&
           (a->params == b->params || json_equal(a->params, b->params));
}

static qg_status add_entry(qg_config *c, const qg_config_entry *model, const json_t *precision,
                           const qg_where *where, qg_error *err) {
    if (c->count == MAX_ENTRIES)
        return qg_failf(err, QG_BAD_INPUT, where->text, "", "more than %d shapes", MAX_ENTRIES);
    qg_config_entry *e = &c->entries[c->count];
    *e = *model;
    qg_precision_parse(json_string_value(precision), &e->shape.precision);
    for (int i = 0; i < c->count; i++)
        if (same_shape(&c->entries[i], e))
            return qg_failf(err, QG_BAD_INPUT, where->text, "each shape once", "the same shape as %s",
                            c->entries[i].where);
    e->family = model->family ? strdup(model->family) : NULL;
    e->params = json_incref(model->params);
    c->count++;
    return model->family && !e->family ? qg_fail(err, QG_NO_MEMORY, where->text, "out of memory", "") : QG_OK;
}

static qg_status read_shape(qg_config *c, const json_t *value, size_t index, const defaults *given,
                            const qg_where *where, qg_error *err) {
    static const char *const keys[] = {"m",         "n",          "precision", "layout",
                                       "layout_in", "layout_out", "max_batch", "batch_invariant",
                                       "family",    "params",     NULL};
    qg_config_entry e = {0};
    defaults d = *given;
    const char *family = NULL;
    qg_status s;
    if ((s = qg_json_keys(value, keys, where, err)) ||
        (s = qg_json_integer(value, "m", 1, QG_MAX_DIM, &e.shape.m, where, err)))
        return s;
    e.shape.n = e.shape.m;
    if (json_object_get(value, "n") &&
        (s = qg_json_integer(value, "n", 1, QG_MAX_DIM, &e.shape.n, where, err)))
        return s;
    if ((s = read_common(value, &d, where, err))) return s;
    if (json_object_get(value, "family") && (s = qg_json_string(value, "family", &family, where, err)))
        return s;
    e.params = json_object_get(value, "params");
    if (e.params && (!json_is_object(e.params) || !family)) {
        qg_where at = qg_where_key(where, "params");
        return qg_fail(
            err, QG_BAD_INPUT, at.text, family ? "not an object" : "parameters without a family",
            "an object of the family's parameters beside \"family\"; `qrsmith families` lists them");
    }
    e.family = (char *)(uintptr_t)family;
    e.shape.layout_in = d.layout_in;
    e.shape.layout_out = d.layout_out;
    e.shape.max_batch = d.max_batch;
    e.shape.batch_invariant = d.batch_invariant;
    snprintf(e.where, sizeof e.where, "$.shapes[%zu]", index);
    if (!json_is_array(d.precision)) return add_entry(c, &e, d.precision, where, err);
    for (size_t i = 0; i < json_array_size(d.precision) && !s; i++)
        s = add_entry(c, &e, json_array_get(d.precision, i), where, err);
    return s;
}

static qg_status read_root(qg_config *c, const json_t *root, qg_error *err) {
    static const char *const keys[] = {"format", "about", "defaults", "shapes", NULL};
    static const char *const default_keys[] = {"precision", "layout",          "layout_in", "layout_out",
                                               "max_batch", "batch_invariant", NULL};
    qg_where where = qg_where_root(c->path), list = qg_where_key(&where, "shapes"),
             at = qg_where_key(&where, "defaults");
    json_t *fp32 = json_string("fp32");
    defaults d = {.max_batch = 64, .precision = fp32};
    const json_t *given = json_object_get(root, "defaults"), *shapes;
    qg_status s;
    if ((s = qg_json_keys(root, keys, &where, err)) || (s = qg_json_format(root, FORMAT, &where, err)) ||
        (given && (s = qg_json_keys(given, default_keys, &at, err))) ||
        (given && (s = read_common(given, &d, &at, err))) ||
        (s = qg_json_array(root, "shapes", &shapes, &where, err)))
        goto done;
    if (json_array_size(shapes) == 0) {
        s = qg_fail(err, QG_BAD_INPUT, list.text, "an empty list", "at least one shape");
        goto done;
    }
    if (!(c->entries = calloc(MAX_ENTRIES, sizeof *c->entries))) {
        s = qg_fail(err, QG_NO_MEMORY, c->path, "out of memory", "");
        goto done;
    }
    for (size_t i = 0; i < json_array_size(shapes) && !s; i++) {
        qg_where item = qg_where_index(&list, i);
        s = read_shape(c, json_array_get(shapes, i), i, &d, &item, err);
    }
done:
    json_decref(fp32);
    return s;
}

static qg_config *new_config(const char *path) {
    qg_config *c = calloc(1, sizeof *c);
    if (c && !(c->path = strdup(path))) {
        free(c);
        return NULL;
    }
    return c;
}

qg_status qg_config_read(const char *path, qg_config **out, qg_error *err) {
    json_t *root = NULL;
    qg_status s = qg_json_file(path, &root, err);
    if (s) return s;
    qg_config *c = new_config(path);
    s = c ? read_root(c, root, err) : qg_fail(err, QG_NO_MEMORY, path, "out of memory", "");
    json_decref(root);
    if (s)
        qg_config_free(c);
    else
        *out = c;
    return s;
}

static qg_status add_word(qg_config *c, const char *text, qg_error *err) {
    int64_t batch;
    qg_config_entry *e = &c->entries[c->count];
    qg_status s = qg_shape_parse(text, &e->shape, &batch, err);
    if (s) return s;
    snprintf(e->where, sizeof e->where, "--shape %.100s", text);
    for (int i = 0; i < c->count; i++)
        if (same_shape(&c->entries[i], e))
            return qg_fail(err, QG_BAD_INPUT, e->where, "given twice", "each shape once");
    c->count++;
    return QG_OK;
}

qg_status qg_config_from_shapes(const char *const *texts, int count, qg_config **out, qg_error *err) {
    qg_config *c = new_config("--shape");
    if (c) c->entries = calloc((size_t)count + 1, sizeof *c->entries);
    qg_status s = c && c->entries ? QG_OK : qg_fail(err, QG_NO_MEMORY, "--shape", "out of memory", "");
    for (int i = 0; i < count && !s; i++)
        s = add_word(c, texts[i], err);
    if (s)
        qg_config_free(c);
    else
        *out = c;
    return s;
}

void qg_config_free(qg_config *c) {
    if (!c) return;
    for (int i = 0; i < c->count; i++) {
        free(c->entries[i].family);
        json_decref(c->entries[i].params);
    }
    free(c->entries);
    free(c->path);
    free(c);
}
