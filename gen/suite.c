#include "gen/config.h"

#include "gen/json_read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FORMAT "qrsmith-suite-1"

enum { MAX_CASES = 4096 };

/* The kinds of input, what their "value" may be, and whether they need one. What they hold is
 * runtime/judge's. */
static const struct {
    const char *name;
    double low, high; /* of "value"; 0, 0 where the kind has none */
} kinds[] = {{"dense", 0, 0},         {"rankdef", 0, 0},  {"nearrank", 0, 0},      {"clustered", 0, 0},
             {"band", 0, 0},          {"rowscale", 0, 0}, {"nearcollinear", 0, 0}, {"upper", 0, 0},
             {"diagonal", 0, 0},      {"mixed", 0, 0},    {"lowones", 0, 0},       {"pairs", 1e-6, 10},
             {"collinear", 1e-6, 10}, {"gaps", 0, 0},     {"gram", 1e-30, 1e30}};

static qg_status read_kind(const json_t *value, qg_case *c, const qg_where *where, qg_error *err) {
    const char *kind;
    qg_status s = qg_json_string(value, "kind", &kind, where, err);
    if (s) return s;
    char fix[240] = "one of";
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        size_t used = strlen(fix);
        snprintf(fix + used, sizeof fix - used, " %s", kinds[i].name);
        if (strcmp(kinds[i].name, kind) != 0) continue;
        snprintf(c->kind, sizeof c->kind, "%s", kind);
        if (kinds[i].high > 0)
            return qg_json_number(value, "value", kinds[i].low, kinds[i].high, &c->kind_value, where, err);
        if (json_object_get(value, "value"))
            return qg_failf(err, QG_BAD_INPUT, where->text, "\"value\" only with pairs, collinear and gram",
                            "the kind \"%s\" takes no value", kind);
        return QG_OK;
    }
    qg_where at = qg_where_key(where, "kind");
    return qg_failf(err, QG_BAD_INPUT, at.text, fix, "found \"%.60s\"", kind);
}

static qg_status read_layout(const json_t *value, const char *key, qg_layout *out, const qg_where *where,
                             qg_error *err) {
    const char *text;
    if (!json_object_get(value, key)) return QG_OK;
    qg_status s = qg_json_string(value, key, &text, where, err);
    if (s || qg_layout_parse(text, out)) return s;
    qg_where at = qg_where_key(where, key);
    return qg_failf(err, QG_BAD_INPUT, at.text, "\"row\" or \"col\"", "found \"%.60s\"", text);
}

/* "n" alone is a square; "m" and "n" a rectangle. */
static qg_status read_size(const json_t *value, qg_case *c, const qg_where *where, qg_error *err) {
    qg_status s = qg_json_integer(value, "n", 1, QG_MAX_DIM, &c->n, where, err);
    c->m = c->n;
    if (!s && json_object_get(value, "m")) s = qg_json_integer(value, "m", 1, QG_MAX_DIM, &c->m, where, err);
    return s;
}

static qg_status read_case(const json_t *value, size_t index, qg_case *c, const qg_where *where,
                           qg_error *err) {
    static const char *const keys[] = {"batch", "m",         "n",      "cond",      "kind",       "value",
                                       "seed",  "precision", "layout", "layout_in", "layout_out", NULL};
    int64_t seed = 1000 + (int64_t)index;
    qg_status s;
    if ((s = qg_json_keys(value, keys, where, err)) ||
        (s = qg_json_integer(value, "batch", 1, INT32_MAX, &c->batch, where, err)) ||
        (s = read_size(value, c, where, err)) || (s = read_kind(value, c, where, err)) ||
        (s = read_layout(value, "layout", &c->layout_in, where, err)))
        return s;
    c->layout_out = c->layout_in;
    if ((s = read_layout(value, "layout_in", &c->layout_in, where, err)) ||
        (s = read_layout(value, "layout_out", &c->layout_out, where, err)))
        return s;
    if (json_object_get(value, "cond") && (s = qg_json_number(value, "cond", 0, 30, &c->cond, where, err)))
        return s;
    if (json_object_get(value, "seed") &&
        (s = qg_json_integer(value, "seed", 0, INT64_MAX, &seed, where, err)))
        return s;
    c->seed = (uint64_t)seed;
    const char *precision;
    if (!json_object_get(value, "precision")) return QG_OK;
    if ((s = qg_json_string(value, "precision", &precision, where, err))) return s;
    c->has_precision = true;
    if (qg_precision_parse(precision, &c->precision)) return QG_OK;
    qg_where at = qg_where_key(where, "precision");
    return qg_failf(err, QG_BAD_INPUT, at.text, "\"fp32\" or \"fp16\"", "found \"%.60s\"", precision);
}

/* How many cases an entry of the list stands for: "batch" and "n" may be lists, and every pair of theirs is a
 * case. */
static size_t list_length(const json_t *entry, const char *key) {
    const json_t *value = json_object_get(entry, key);
    return json_is_array(value) ? json_array_size(value) : 1;
}

/* The entry with one of its values for `key`, where it has a list. */
static int pick(json_t *entry, const char *key, size_t index) {
    json_t *list = json_object_get(entry, key);
    return json_is_array(list) ? json_object_set(entry, key, json_array_get(list, index)) : 0;
}

static qg_status read_entry(const json_t *entry, qg_case *cases, int *count, const qg_where *where,
                            qg_error *err) {
    size_t batches = list_length(entry, "batch"), sizes = list_length(entry, "n");
    if (!batches || !sizes)
        return qg_fail(err, QG_BAD_INPUT, where->text, "an empty list", "at least one value");
    qg_status s = QG_OK;
    for (size_t i = 0; i < batches * sizes && !s; i++) {
        json_t *one = json_copy((json_t *)(uintptr_t)entry);
        if (!one || pick(one, "batch", i % batches) || pick(one, "n", i / batches))
            s = qg_fail(err, QG_NO_MEMORY, where->text, "out of memory", "");
        if (!s) s = read_case(one, (size_t)*count, &cases[*count], where, err);
        json_decref(one);
        (*count)++;
    }
    return s;
}

static qg_status read_cases(const json_t *root, const char *key, qg_case **out, int *count,
                            const qg_where *where, qg_error *err) {
    const json_t *list;
    if (!json_object_get(root, key)) return QG_OK;
    qg_status s = qg_json_array(root, key, &list, where, err);
    if (s) return s;
    qg_where at = qg_where_key(where, key);
    size_t total = 0;
    for (size_t i = 0; i < json_array_size(list); i++)
        total += list_length(json_array_get(list, i), "batch") * list_length(json_array_get(list, i), "n");
    if (total > MAX_CASES) return qg_failf(err, QG_BAD_INPUT, at.text, "", "more than %d cases", MAX_CASES);
    *out = calloc(total + 1, sizeof **out);
    if (!*out) return qg_fail(err, QG_NO_MEMORY, at.text, "out of memory", "");
    for (size_t i = 0; i < json_array_size(list) && !s; i++) {
        qg_where item = qg_where_index(&at, i);
        s = read_entry(json_array_get(list, i), *out, count, &item, err);
    }
    return s;
}

static qg_status read_root(qg_suite *suite, const json_t *root, qg_error *err) {
    static const char *const keys[] = {"format", "name", "about", "tests", "benchmarks", NULL};
    qg_where where = qg_where_root(suite->path);
    const char *name;
    qg_status s;
    if ((s = qg_json_keys(root, keys, &where, err)) || (s = qg_json_format(root, FORMAT, &where, err)) ||
        (s = qg_json_string(root, "name", &name, &where, err)) ||
        (s = read_cases(root, "tests", &suite->tests, &suite->test_count, &where, err)) ||
        (s = read_cases(root, "benchmarks", &suite->benchmarks, &suite->benchmark_count, &where, err)))
        return s;
    if (suite->test_count + suite->benchmark_count == 0)
        return qg_fail(err, QG_BAD_INPUT, where.text, "neither tests nor benchmarks", "at least one case");
    suite->name = strdup(name);
    return suite->name ? QG_OK : qg_fail(err, QG_NO_MEMORY, where.text, "out of memory", "");
}

static qg_suite *new_suite(const char *path) {
    qg_suite *s = calloc(1, sizeof *s);
    if (s && !(s->path = strdup(path))) {
        free(s);
        return NULL;
    }
    return s;
}

qg_status qg_suite_read(const char *path, qg_suite **out, qg_error *err) {
    json_t *root = NULL;
    qg_status s = qg_json_file(path, &root, err);
    if (s) return s;
    qg_suite *suite = new_suite(path);
    s = suite ? read_root(suite, root, err) : qg_fail(err, QG_NO_MEMORY, path, "out of memory", "");
    json_decref(root);
    if (s)
        qg_suite_free(suite);
    else
        *out = suite;
    return s;
}

static qg_status read_word(const char *text, int index, qg_case *out, qg_error *err) {
    qg_shape shape;
    int64_t batch;
    qg_status s = qg_shape_parse(text, &shape, &batch, err);
    if (s) return s;
    if (shape.m < 1 || shape.n < 1 || batch < 1)
        return qg_fail(err, QG_BAD_INPUT, "--shape", text, "at least one matrix, row and column");
    *out = (qg_case){.batch = batch,
                     .m = shape.m,
                     .n = shape.n,
                     .kind = "dense",
                     .seed = 1000 + (uint64_t)index,
                     .has_precision = strchr(text, ':') != NULL,
                     .precision = shape.precision,
                     .layout_in = shape.layout_in,
                     .layout_out = shape.layout_out};
    return QG_OK;
}

qg_status qg_suite_from_shapes(const char *const *texts, int count, qg_suite **out, qg_error *err) {
    qg_suite *suite = new_suite("--shape");
    if (suite) {
        suite->name = strdup(count == 1 ? texts[0] : "--shape");
        suite->tests = calloc((size_t)count + 1, sizeof *suite->tests);
        suite->benchmarks = calloc((size_t)count + 1, sizeof *suite->benchmarks);
    }
    bool whole = suite && suite->name && suite->tests && suite->benchmarks;
    qg_status s = whole ? QG_OK : qg_fail(err, QG_NO_MEMORY, "--shape", "out of memory", "");
    for (int i = 0; i < count && !s; i++) {
        s = read_word(texts[i], i, &suite->tests[i], err);
        suite->benchmarks[i] = suite->tests[i];
        suite->test_count = suite->benchmark_count = i + 1;
    }
    if (s)
        qg_suite_free(suite);
    else
        *out = suite;
    return s;
}

void qg_suite_free(qg_suite *s) {
    if (!s) return;
    free(s->path);
    free(s->name);
    free(s->tests);
    free(s->benchmarks);
    free(s);
}
