#include "runtime/cli/select.h"
#include <stdlib.h>
#include <string.h>

static qg_status check_source(const cli_source *source, const char *kind, qg_error *err) {
    char fix[128];
    snprintf(fix, sizeof fix, "a %s file, or --shape 640x512x512:fp16", kind);
    if (!source->file && !source->shapes.count) return qg_fail(err, QG_BAD_INPUT, kind, "none is given", fix);
    if (source->file && source->shapes.count)
        return qg_fail(err, QG_BAD_INPUT, "--shape", "given as well as a file", fix);
    return QG_OK;
}

qg_status cli_open_config(const cli_source *source, qg_config **out, qg_error *err) {
    qg_status status = check_source(source, "config", err);
    if (status != QG_OK) return status;
    return source->file ? qg_config_read(source->file, out, err)
                        : qg_config_from_shapes(source->shapes.items, source->shapes.count, out, err);
}

qg_status cli_open_suite(const cli_source *source, qg_suite **out, qg_error *err) {
    qg_status status = check_source(source, "suite", err);
    if (status != QG_OK) return status;
    return source->file ? qg_suite_read(source->file, out, err)
                        : qg_suite_from_shapes(source->shapes.items, source->shapes.count, out, err);
}

static json_t *scalar_value(const char *text) {
    json_t *value = json_loads(text, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);
    if (value && (json_is_number(value) || json_is_boolean(value))) return value;
    json_decref(value);
    return json_string(text);
}

static qg_status add_param(json_t *params, const char *text, qg_error *err) {
    const char *equals = strchr(text, '=');
    if (!equals || equals == text || !equals[1])
        return qg_failf(err, QG_BAD_INPUT, "--set", "NAME=VALUE, such as --set panel=32", "found '%.100s'",
                        text);
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)(equals - text), text);
    if (json_object_get(params, name))
        return qg_failf(err, QG_BAD_INPUT, "--set", "each parameter once", "'%s' is given twice", name);
    if (json_object_set_new(params, name, scalar_value(equals + 1)))
        return qg_failf(err, QG_BAD_INPUT, "--set", "NAME=VALUE in UTF-8", "found '%.100s'", text);
    return QG_OK;
}

qg_status cli_forced_params(const cli_list *set, json_t **out, qg_error *err) {
    *out = NULL;
    if (!set->count) return QG_OK;
    json_t *params = json_object();
    if (!params) return qg_fail(err, QG_NO_MEMORY, "--set", "no memory", "");
    for (int i = 0; i < set->count; i++) {
        qg_status status = add_param(params, set->items[i], err);
        if (status != QG_OK) {
            json_decref(params);
            return status;
        }
    }
    *out = params;
    return QG_OK;
}

int cli_split_list(const char *text, char words[][64], int max) {
    int count = 0;
    while (1) {
        size_t length = strcspn(text, ",");
        if (!length || length > 63 || count == max) return -1;
        memcpy(words[count], text, length);
        words[count++][length] = 0;
        if (!text[length]) return count;
        text += length + 1;
    }
}
