/* A growing byte buffer, always NUL-terminated once something was put. */
#ifndef QG_TEXT_H
#define QG_TEXT_H

#include "gen/error.h"
#include <stdbool.h>
#include <stddef.h>

typedef struct qg_text {
    char *data;
    size_t size, capacity;
} qg_text;

/* False when memory ran out; the text is then unchanged. */
bool qg_text_put(qg_text *t, const char *data, size_t size);
bool qg_text_puts(qg_text *t, const char *s);
bool qg_text_printf(qg_text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void qg_text_free(qg_text *t);

/* Reads a whole regular file of at most `limit` bytes. */
qg_status qg_text_read(qg_text *t, const char *path, size_t limit, qg_error *err);

#endif
