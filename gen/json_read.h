/* Strict reading of JSON: every refusal names the JSON path, what was found and what is allowed. */
#ifndef QG_JSON_READ_H
#define QG_JSON_READ_H

#include "gen/error.h"
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A place in a document: "file: $.shapes[3].m". Build with the two functions below; too long paths are cut.
 */
typedef struct qg_where {
    char text[384];
} qg_where;

qg_where qg_where_root(const char *file);
qg_where qg_where_key(const qg_where *parent, const char *key);
qg_where qg_where_index(const qg_where *parent, size_t index);

/* "an object", "the string \"abc\"", "the number 3.5": for texts that say what was found. Returns out. */
char *qg_json_found(const json_t *value, char *out, size_t size);

/* Parses a whole file (duplicate keys refused; at most 16 MiB). New reference. Syntax errors name line and
 * column. */
qg_status qg_json_file(const char *path, json_t **out, qg_error *err);
/* The same from memory; `name` stands for the file in errors. */
qg_status qg_json_text(const char *data, size_t size, const char *name, json_t **out, qg_error *err);

/* Refuses anything but an object whose keys are all among `allowed` (NULL-terminated; lists them). */
qg_status qg_json_keys(const json_t *value, const char *const *allowed, const qg_where *where, qg_error *err);

/* Required members. The value must be of the type and in the range. */
qg_status qg_json_string(const json_t *object, const char *key, const char **out, const qg_where *where,
                         qg_error *err);
qg_status qg_json_integer(const json_t *object, const char *key, int64_t low, int64_t high, int64_t *out,
                          const qg_where *where, qg_error *err);
qg_status qg_json_number(const json_t *object, const char *key, double low, double high, double *out,
                         const qg_where *where, qg_error *err);
qg_status qg_json_bool(const json_t *object, const char *key, bool *out, const qg_where *where,
                       qg_error *err);
qg_status qg_json_array(const json_t *object, const char *key, const json_t **out, const qg_where *where,
                        qg_error *err);

/* The member "format" must be this string. */
qg_status qg_json_format(const json_t *object, const char *format, const qg_where *where, qg_error *err);

#endif
