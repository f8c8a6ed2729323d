#include "runtime/cli/earlier.h"
#include <string.h>

/* What makes two results the same case. */
static const char *const identity[] = {"precision", "batch", "m",         "n",         "kind",
                                       "value",     "cond",  "layout_in", "layout_out"};

qg_status cli_earlier_read(const char *path, json_t **out, qg_error *err) {
    static const char fix[] = "a file written by qrsmith bench --json FILE";
    json_error_t trouble;
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &trouble);
    *out = NULL;
    if (!root && json_error_code(&trouble) == json_error_cannot_open_file)
        return qg_fail(err, QG_BAD_INPUT, path, trouble.text, fix);
    if (!root) return qg_failf(err, QG_BAD_INPUT, path, fix, "line %d: %s", trouble.line, trouble.text);
    const char *format = json_string_value(json_object_get(root, "format"));
    json_t *results = json_object_get(root, "results");
    qg_status status = QG_OK;
    if (!format || strcmp(format, CLI_BENCH_FORMAT) || !json_is_array(results))
        status = qg_failf(err, QG_BAD_INPUT, path, fix, "not of format %s", CLI_BENCH_FORMAT);
    else
        *out = json_incref(results);
    json_decref(root);
    return status;
}

static int same(const json_t *a, const json_t *b) {
    if (json_is_number(a) && json_is_number(b)) return json_number_value(a) == json_number_value(b);
    return json_equal(a, b);
}

double cli_earlier_mean(const json_t *earlier, const json_t *result) {
    size_t i, matches;
    json_t *each;
    json_array_foreach(earlier, i, each) {
        for (matches = 0; matches < sizeof identity / sizeof *identity; matches++)
            if (!same(json_object_get(each, identity[matches]), json_object_get(result, identity[matches])))
                break;
        if (matches == sizeof identity / sizeof *identity)
            return json_number_value(json_object_get(each, "mean_us"));
    }
    return 0;
}
