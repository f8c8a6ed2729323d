#include "gen/json_read.h"

#include "gen/number.h"
#include "gen/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_LIMIT = 16 << 20 };

qg_where qg_where_root(const char *file) {
    qg_where w;
    snprintf(w.text, sizeof w.text, "%.250s: $", file);
    return w;
}

qg_where qg_where_key(const qg_where *parent, const char *key) {
    qg_where w;
    snprintf(w.text, sizeof w.text, "%.300s.%.60s", parent->text, key);
    return w;
}

qg_where qg_where_index(const qg_where *parent, size_t index) {
    qg_where w;
    snprintf(w.text, sizeof w.text, "%.340s[%zu]", parent->text, index);
    return w;
}

char *qg_json_found(const json_t *value, char *out, size_t size) {
    char number[QG_NUMBER_TEXT];
    switch (value ? json_typeof(value) : JSON_NULL) {
    case JSON_OBJECT:
        snprintf(out, size, "an object");
        break;
    case JSON_ARRAY:
        snprintf(out, size, "a list of %zu", json_array_size(value));
        break;
    case JSON_STRING:
        snprintf(out, size, "the string \"%.80s\"", json_string_value(value));
        break;
    case JSON_INTEGER:
        snprintf(out, size, "the integer %lld", (long long)json_integer_value(value));
        break;
    case JSON_REAL:
        snprintf(out, size, "the number %s", qg_number_text(json_real_value(value), number));
        break;
    case JSON_TRUE:
        snprintf(out, size, "true");
        break;
    case JSON_FALSE:
        snprintf(out, size, "false");
        break;
    default:
        snprintf(out, size, value ? "null" : "nothing");
    }
    return out;
}

qg_status qg_json_text(const char *data, size_t size, const char *name, json_t **out, qg_error *err) {
    qg_c_locale locale;
    json_error_t e;
    qg_c_locale_enter(&locale);
    json_t *root = json_loadb(data, size, JSON_REJECT_DUPLICATES, &e);
    qg_c_locale_leave(&locale);
    if (!root) {
        char what[300];
        snprintf(what, sizeof what, "%.200s:%d:%d", name, e.line, e.column);
        return qg_fail(err, QG_BAD_INPUT, what, e.text, "valid JSON with no key twice in an object");
    }
    *out = root;
    return QG_OK;
}

qg_status qg_json_file(const char *path, json_t **out, qg_error *err) {
    qg_text text = {0};
    qg_status s = qg_text_read(&text, path, FILE_LIMIT, err);
    if (!s) s = qg_json_text(text.data, text.size, path, out, err);
    qg_text_free(&text);
    return s;
}

static qg_status wrong(const json_t *value, const qg_where *where, const char *fix, qg_error *err) {
    char found[160];
    return qg_failf(err, QG_BAD_INPUT, where->text, fix, "found %s",
                    qg_json_found(value, found, sizeof found));
}

static void list_keys(const char *const *allowed, char *out, size_t size) {
    size_t used = 0;
    out[0] = 0;
    for (int i = 0; allowed[i] && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%s", i ? ", " : "", allowed[i]);
}

qg_status qg_json_keys(const json_t *value, const char *const *allowed, const qg_where *where,
                       qg_error *err) {
    char fix[400];
    if (!json_is_object(value)) {
        char keys[340];
        list_keys(allowed, keys, sizeof keys);
        snprintf(fix, sizeof fix, "an object with the keys %s", keys);
        return wrong(value, where, fix, err);
    }
    const char *key;
    json_t *member;
    json_object_foreach((json_t *)value, key, member) {
        int i = 0;
        while (allowed[i] && strcmp(allowed[i], key) != 0)
            i++;
        if (allowed[i]) continue;
        char keys[340];
        list_keys(allowed, keys, sizeof keys);
        snprintf(fix, sizeof fix, "allowed keys: %s", keys);
        return qg_failf(err, QG_BAD_INPUT, where->text, fix, "unknown key \"%.80s\"", key);
    }
    return QG_OK;
}

static qg_status member(const json_t *object, const char *key, const json_t **out, qg_where *at,
                        const qg_where *where, qg_error *err) {
    *at = qg_where_key(where, key);
    *out = json_object_get(object, key);
    return *out ? QG_OK : qg_failf(err, QG_BAD_INPUT, where->text, "", "the key \"%s\" is missing", key);
}

qg_status qg_json_string(const json_t *object, const char *key, const char **out, const qg_where *where,
                         qg_error *err) {
    const json_t *v;
    qg_where at;
    qg_status s = member(object, key, &v, &at, where, err);
    if (s) return s;
    if (!json_is_string(v) || strlen(json_string_value(v)) != json_string_length(v))
        return wrong(v, &at, "a string", err);
    *out = json_string_value(v);
    return QG_OK;
}

qg_status qg_json_integer(const json_t *object, const char *key, int64_t low, int64_t high, int64_t *out,
                          const qg_where *where, qg_error *err) {
    const json_t *v;
    qg_where at;
    qg_status s = member(object, key, &v, &at, where, err);
    if (s) return s;
    if (!json_is_integer(v) || json_integer_value(v) < low || json_integer_value(v) > high) {
        char fix[120];
        snprintf(fix, sizeof fix, "an integer from %lld to %lld", (long long)low, (long long)high);
        return wrong(v, &at, fix, err);
    }
    *out = json_integer_value(v);
    return QG_OK;
}

qg_status qg_json_number(const json_t *object, const char *key, double low, double high, double *out,
                         const qg_where *where, qg_error *err) {
    const json_t *v;
    qg_where at;
    qg_status s = member(object, key, &v, &at, where, err);
    if (s) return s;
    double x = json_number_value(v);
    if (!json_is_number(v) || !(x >= low && x <= high)) {
        char a[QG_NUMBER_TEXT], b[QG_NUMBER_TEXT], fix[120];
        snprintf(fix, sizeof fix, "a number from %s to %s", qg_number_text(low, a), qg_number_text(high, b));
        return wrong(v, &at, fix, err);
    }
    *out = x;
    return QG_OK;
}

qg_status qg_json_bool(const json_t *object, const char *key, bool *out, const qg_where *where,
                       qg_error *err) {
    const json_t *v;
    qg_where at;
    qg_status s = member(object, key, &v, &at, where, err);
    if (s) return s;
    if (!json_is_boolean(v)) return wrong(v, &at, "true or false", err);
    *out = json_is_true(v);
    return QG_OK;
}

qg_status qg_json_array(const json_t *object, const char *key, const json_t **out, const qg_where *where,
                        qg_error *err) {
    const json_t *v;
    qg_where at;
    qg_status s = member(object, key, &v, &at, where, err);
    if (s) return s;
    if (!json_is_array(v)) return wrong(v, &at, "a list", err);
    *out = v;
    return QG_OK;
}

qg_status qg_json_format(const json_t *object, const char *format, const qg_where *where, qg_error *err) {
    const char *found;
    qg_status s = qg_json_string(object, "format", &found, where, err);
    if (s) return s;
    if (strcmp(found, format) == 0) return QG_OK;
    qg_where at = qg_where_key(where, "format");
    char fix[120];
    snprintf(fix, sizeof fix, "\"%s\", the format that this version reads", format);
    return qg_failf(err, QG_BAD_INPUT, at.text, fix, "found \"%.80s\"", found);
}
