#include "runtime/tune/grid.h"

#include "gen/json_read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FORMAT "qrsmith-grid-1"

const json_t *tune_family(const json_t *families, const char *name) {
    const json_t *family;
    size_t i;
    json_array_foreach(families, i, family) {
        const char *each = json_string_value(json_object_get(family, "name"));
        if (each && !strcmp(each, name)) return family;
    }
    return NULL;
}

/* ---- families, parameters, values ---- */

/* "a, b, c" of a list's names, or of its values when `member` is NULL. Returns out. */
static char *list_text(const json_t *list, const char *member, char *out, size_t size) {
    const json_t *item;
    size_t i, used = 0;
    out[0] = 0;
    json_array_foreach(list, i, item) {
        char *text = json_dumps(member ? json_object_get(item, member) : item, JSON_ENCODE_ANY);
        if (text && used < size)
            used += (size_t)snprintf(out + used, size - used, "%s%s", i ? ", " : "", text);
        free(text);
    }
    return out;
}

static const json_t *find_param(const json_t *family, const char *name) {
    const json_t *params = json_object_get(family, "params"), *param;
    size_t i;
    json_array_foreach(params, i, param) {
        const char *each = json_string_value(json_object_get(param, "name"));
        if (each && !strcmp(each, name)) return param;
    }
    return NULL;
}

/* Where a value is among others; -1: nowhere. */
static int place_of(const json_t *values, size_t count, const json_t *value) {
    for (size_t i = 0; i < count; i++)
        if (json_equal(json_array_get(values, i), value)) return (int)i;
    return -1;
}

/* The values to sweep of one parameter: the list given, or all there are. New reference in *out. */
static qg_status read_values(const json_t *param, const json_t *given, json_t **out, const qg_where *where,
                             qg_error *err) {
    const json_t *values = json_object_get(param, "values"), *value;
    char fix[480], found[160];
    size_t i;
    list_text(values, NULL, fix, sizeof fix);
    if (json_is_string(given) && !strcmp(json_string_value(given), "all")) {
        *out = json_copy((json_t *)(uintptr_t)values);
        return *out ? QG_OK : qg_fail(err, QG_NO_MEMORY, where->text, "out of memory", "");
    }
    if (!json_is_array(given) || json_array_size(given) == 0)
        return qg_failf(err, QG_BAD_INPUT, where->text, "\"all\", or a list of at least one value",
                        "found %s", qg_json_found(given, found, sizeof found));
    json_array_foreach(given, i, value) {
        qg_where at = qg_where_index(where, i);
        if (place_of(values, json_array_size(values), value) < 0)
            return qg_failf(err, QG_BAD_INPUT, at.text, fix, "the family does not take %s",
                            qg_json_found(value, found, sizeof found));
        if (place_of(given, i, value) >= 0)
            return qg_failf(err, QG_BAD_INPUT, at.text, "each value once", "%s again",
                            qg_json_found(value, found, sizeof found));
    }
    *out = json_incref((json_t *)(uintptr_t)given);
    return QG_OK;
}

static qg_status read_params(const json_t *family, json_t *given, tune_grid_sweep *sweep,
                             const qg_where *where, qg_error *err) {
    const char *name;
    json_t *value, *values = NULL;
    char fix[480], found[160];
    sweep->params = json_object();
    if (!sweep->params) return qg_fail(err, QG_NO_MEMORY, where->text, "out of memory", "");
    if (given && !json_is_object(given))
        return qg_failf(err, QG_BAD_INPUT, where->text, "an object: parameter -> list of values", "found %s",
                        qg_json_found(given, found, sizeof found));
    json_object_foreach(given, name, value) {
        qg_where at = qg_where_key(where, name);
        const json_t *param = find_param(family, name);
        if (!param)
            return qg_failf(err, QG_BAD_INPUT, at.text,
                            list_text(json_object_get(family, "params"), "name", fix, sizeof fix),
                            "family %s has no such parameter", sweep->family);
        qg_status s = read_values(param, value, &values, &at, err);
        if (s) return s;
        if (json_object_set_new(sweep->params, name, values))
            return qg_fail(err, QG_NO_MEMORY, at.text, "out of memory", "");
    }
    return QG_OK;
}

static qg_status read_family(tune_grid *g, const json_t *object, tune_grid_sweep *sweep,
                             const qg_where *where, qg_error *err) {
    const char *name;
    char fix[480];
    qg_status s = qg_json_string(object, "family", &name, where, err);
    if (s) return s;
    const json_t *family = tune_family(g->families, name);
    const char *op = json_string_value(json_object_get(family, "op"));
    qg_where at = qg_where_key(where, "family"), params = qg_where_key(where, "params");
    if (!family || !op || strcmp(op, "geqrf"))
        return qg_failf(err, QG_BAD_INPUT, at.text, list_text(g->families, "name", fix, sizeof fix),
                        family ? "\"%.60s\" factors nothing" : "there is no family \"%.60s\"", name);
    if (!(sweep->family = strdup(name))) return qg_fail(err, QG_NO_MEMORY, at.text, "out of memory", "");
    return read_params(family, json_object_get(object, "params"), sweep, &params, err);
}

/* ---- shapes ---- */

static qg_status read_layout(const json_t *object, const char *key, qg_layout *out, const qg_where *where,
                             qg_error *err) {
    const char *text;
    if (!json_object_get(object, key)) return QG_OK;
    qg_status s = qg_json_string(object, key, &text, where, err);
    if (s || qg_layout_parse(text, out)) return s;
    qg_where at = qg_where_key(where, key);
    return qg_failf(err, QG_BAD_INPUT, at.text, "\"row\" or \"col\"", "found \"%.60s\"", text);
}

static bool same_shape(const qg_shape *x, const qg_shape *y) {
    return x->m == y->m && x->n == y->n && x->layout_in == y->layout_in && x->layout_out == y->layout_out &&
           x->precision == y->precision && x->max_batch == y->max_batch;
}

/* Shapes that several sweeps name are one target: their candidates compete. */
static qg_status add_target(tune_grid *g, const qg_shape *shape, int sweep, const qg_where *where,
                            qg_error *err) {
    tune_target *t = NULL;
    for (int i = 0; i < g->target_count && !t; i++)
        if (same_shape(&g->targets[i].shape, shape)) t = &g->targets[i];
    if (t && t->sweep_count && t->sweeps[t->sweep_count - 1] == sweep)
        return qg_fail(err, QG_BAD_INPUT, where->text, "the same shape again", "each shape once a sweep");
    if (!t && g->target_count == TUNE_TARGETS_MAX)
        return qg_failf(err, QG_BAD_INPUT, where->text, "", "more than %d shapes", TUNE_TARGETS_MAX);
    if (!t) {
        t = &g->targets[g->target_count++];
        t->shape = *shape;
    }
    t->sweeps[t->sweep_count++] = sweep;
    return QG_OK;
}

static qg_status read_size(const json_t *value, qg_shape *shape, const qg_where *where, qg_error *err) {
    qg_status s;
    if ((s = qg_json_integer(value, "batch", 1, INT32_MAX, &shape->max_batch, where, err)) ||
        (s = qg_json_integer(value, "m", 1, QG_MAX_DIM, &shape->m, where, err)))
        return s;
    shape->n = shape->m;
    if (json_object_get(value, "n") &&
        (s = qg_json_integer(value, "n", 1, QG_MAX_DIM, &shape->n, where, err)))
        return s;
    if ((s = read_layout(value, "layout", &shape->layout_in, where, err))) return s;
    shape->layout_out = shape->layout_in;
    if ((s = read_layout(value, "layout_in", &shape->layout_in, where, err))) return s;
    return read_layout(value, "layout_out", &shape->layout_out, where, err);
}

static qg_status read_shape(tune_grid *g, const json_t *value, int sweep, const qg_where *where,
                            qg_error *err) {
    static const char *const keys[] = {"m",      "n",         "batch",      "precision",
                                       "layout", "layout_in", "layout_out", NULL};
    qg_shape shape = {.operation = QG_GEQRF};
    const json_t *given = json_object_get(value, "precision");
    char found[160];
    qg_status s = qg_json_keys(value, keys, where, err);
    if (!s) s = read_size(value, &shape, where, err);
    if (s || !given) return s ? s : add_target(g, &shape, sweep, where, err);
    qg_where at = qg_where_key(where, "precision");
    size_t count = json_is_array(given) ? json_array_size(given) : 1;
    if (!count) return qg_fail(err, QG_BAD_INPUT, at.text, "an empty list", "at least one precision");
    for (size_t i = 0; i < count && !s; i++) {
        const json_t *one = json_is_array(given) ? json_array_get(given, i) : given;
        if (!json_is_string(one) || !qg_precision_parse(json_string_value(one), &shape.precision))
            return qg_failf(err, QG_BAD_INPUT, at.text, "\"fp32\", \"fp16\" or a list of both", "found %s",
                            qg_json_found(one, found, sizeof found));
        s = add_target(g, &shape, sweep, where, err);
    }
    return s;
}

static qg_status read_sweep(tune_grid *g, const json_t *value, const qg_where *where, qg_error *err) {
    static const char *const keys[] = {"about", "shapes", "family", "params", NULL};
    const json_t *shapes, *shape;
    int index = g->sweep_count++; /* freed with the grid however far this gets */
    size_t i;
    qg_status s = qg_json_keys(value, keys, where, err);
    if (!s) s = read_family(g, value, &g->sweeps[index], where, err);
    if (!s) s = qg_json_array(value, "shapes", &shapes, where, err);
    if (s) return s;
    qg_where list = qg_where_key(where, "shapes");
    if (!json_array_size(shapes))
        return qg_fail(err, QG_BAD_INPUT, list.text, "an empty list", "at least one shape");
    json_array_foreach(shapes, i, shape) {
        qg_where at = qg_where_index(&list, i);
        if ((s = read_shape(g, shape, index, &at, err))) return s;
    }
    return QG_OK;
}

static qg_status read_root(tune_grid *g, const json_t *root, qg_error *err) {
    static const char *const keys[] = {"format", "about", "sweeps", NULL};
    qg_where where = qg_where_root(g->path), list = qg_where_key(&where, "sweeps");
    const json_t *sweeps, *sweep;
    size_t i;
    qg_status s = qg_json_keys(root, keys, &where, err);
    if (!s) s = qg_json_format(root, FORMAT, &where, err);
    if (!s) s = qg_json_array(root, "sweeps", &sweeps, &where, err);
    if (s) return s;
    if (!json_array_size(sweeps) || json_array_size(sweeps) > TUNE_SWEEPS_MAX)
        return qg_failf(err, QG_BAD_INPUT, list.text, "1 to 64 sweeps", "%zu sweeps",
                        json_array_size(sweeps));
    g->sweeps = calloc(json_array_size(sweeps), sizeof *g->sweeps);
    g->targets = calloc(TUNE_TARGETS_MAX, sizeof *g->targets);
    if (!g->sweeps || !g->targets) return qg_fail(err, QG_NO_MEMORY, list.text, "out of memory", "");
    json_array_foreach(sweeps, i, sweep) {
        qg_where at = qg_where_index(&list, i);
        if ((s = read_sweep(g, sweep, &at, err))) return s;
    }
    return QG_OK;
}

/* ---- combinations ---- */

static size_t combinations(const tune_grid_sweep *sweep) {
    const char *name;
    json_t *values;
    size_t count = 1;
    json_object_foreach(sweep->params, name, values) {
        count *= json_array_size(values);
        if (count > TUNE_CANDIDATES_MAX) return TUNE_CANDIDATES_MAX + 1;
    }
    return count;
}

static qg_status check_count(const tune_grid *g, qg_error *err) {
    for (int t = 0; t < g->target_count; t++) {
        size_t count = 0;
        for (int i = 0; i < g->targets[t].sweep_count; i++)
            count += combinations(&g->sweeps[g->targets[t].sweeps[i]]);
        if (count > TUNE_CANDIDATES_MAX)
            return qg_failf(err, QG_BAD_INPUT, g->path, "fewer values", "over %d combinations for a shape",
                            TUNE_CANDIDATES_MAX);
    }
    return QG_OK;
}

/* The i-th combination of a sweep: i written in the mixed base of the lists' lengths. */
static json_t *combination(const tune_grid_sweep *sweep, size_t i) {
    const char *name;
    json_t *values, *params = json_object();
    json_object_foreach(sweep->params, name, values) {
        size_t count = json_array_size(values);
        json_object_set(params, name, json_array_get(values, i % count));
        i /= count;
    }
    return json_pack("{s:s, s:o}", "family", sweep->family, "params", params);
}

json_t *tune_grid_expand(const tune_grid *g, const tune_target *target) {
    json_t *all = json_array();
    for (int s = 0; s < target->sweep_count; s++) {
        const tune_grid_sweep *sweep = &g->sweeps[target->sweeps[s]];
        for (size_t i = 0, count = combinations(sweep); i < count; i++)
            if (json_array_append_new(all, combination(sweep, i))) {
                json_decref(all);
                return NULL;
            }
    }
    return all;
}

/* ---- */

qg_status tune_grid_read(const qg_library *lib, const char *path, tune_grid **out, qg_error *err) {
    json_t *root = NULL;
    *out = NULL;
    qg_status s = qg_json_file(path, &root, err);
    if (s) return s;
    tune_grid *g = calloc(1, sizeof *g);
    if (g) g->path = strdup(path);
    if (g) g->families = qg_library_families(lib);
    s = g && g->path && g->families ? read_root(g, root, err)
                                    : qg_fail(err, QG_NO_MEMORY, path, "out of memory", "");
    if (!s) s = check_count(g, err);
    json_decref(root);
    if (s)
        tune_grid_free(g);
    else
        *out = g;
    return s;
}

void tune_grid_free(tune_grid *g) {
    if (!g) return;
    for (int i = 0; i < g->sweep_count; i++) {
        free(g->sweeps[i].family);
        json_decref(g->sweeps[i].params);
    }
    free(g->sweeps);
    free(g->targets);
    json_decref(g->families);
    free(g->path);
    free(g);
}
