#include "gen/text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool reserve(qg_text *t, size_t more) {
    size_t need = t->size + more + 1;
    if (need <= t->capacity) return true;
    size_t capacity = t->capacity ? t->capacity : 256;
    while (capacity < need)
        capacity *= 2;
    char *data = realloc(t->data, capacity);
    if (!data) return false;
    t->data = data;
    t->capacity = capacity;
    return true;
}

bool qg_text_put(qg_text *t, const char *data, size_t size) {
    if (!reserve(t, size)) return false;
    if (size) memcpy(t->data + t->size, data, size);
    t->size += size;
    t->data[t->size] = 0;
    return true;
}

bool qg_text_puts(qg_text *t, const char *s) {
    return qg_text_put(t, s, strlen(s));
}

bool qg_text_printf(qg_text *t, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int size = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (size < 0 || !reserve(t, (size_t)size)) return false;
    va_start(args, format);
    vsnprintf(t->data + t->size, (size_t)size + 1, format, args);
    va_end(args);
    t->size += (size_t)size;
    return true;
}

void qg_text_free(qg_text *t) {
    free(t->data);
    *t = (qg_text){0};
}

static qg_status read_open(qg_text *t, FILE *f, const char *path, size_t limit, qg_error *err) {
    struct stat st;
    if (fstat(fileno(f), &st) == 0 && S_ISDIR(st.st_mode))
        return qg_fail(err, QG_BAD_INPUT, path, "it is a folder", "name a file");
    char block[16384];
    size_t got;
    while ((got = fread(block, 1, sizeof block, f)) > 0) {
        if (t->size + got > limit)
            return qg_failf(err, QG_BAD_INPUT, path, "", "it is larger than %zu bytes", limit);
        if (!qg_text_put(t, block, got)) return qg_fail(err, QG_NO_MEMORY, path, "out of memory", "");
    }
    if (ferror(f)) return qg_failf(err, QG_ENVIRONMENT, path, "", "cannot read: %s", strerror(errno));
    return qg_text_put(t, "", 0) ? QG_OK : qg_fail(err, QG_NO_MEMORY, path, "out of memory", "");
}

qg_status qg_text_read(qg_text *t, const char *path, size_t limit, qg_error *err) {
    FILE *f = fopen(path, "rb");
    if (!f)
        return qg_failf(err, QG_BAD_INPUT, path, "name a file that exists and is readable", "cannot open: %s",
                        strerror(errno));
    qg_status status = read_open(t, f, path, limit, err);
    fclose(f);
    return status;
}
