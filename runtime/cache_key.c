#include "runtime/cache_key.h"
#include "gen/text.h"
#include "runtime/sha256.h"
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------ headers in use
 */

typedef struct names {
    char **list;
    int count, capacity;
} names;

static bool known(const names *seen, const char *name, size_t size) {
    for (int i = 0; i < seen->count; i++)
        if (strlen(seen->list[i]) == size && !memcmp(seen->list[i], name, size)) return true;
    return false;
}

static bool remember(names *seen, const char *name, size_t size) {
    if (known(seen, name, size)) return true;
    if (seen->count == seen->capacity) {
        int capacity = seen->capacity ? 2 * seen->capacity : 16;
        char **grown = realloc(seen->list, (size_t)capacity * sizeof *grown);
        if (!grown) return false;
        seen->list = grown;
        seen->capacity = capacity;
    }
    char *copy = strndup(name, size);
    if (!copy) return false;
    seen->list[seen->count++] = copy;
    return true;
}

static const char *skip_blanks(const char *at, const char *end) {
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    return at;
}

/* The name in an #include line; NULL when the line [at, end) is something else. */
static const char *included(const char *at, const char *end, size_t *size) {
    static const char word[] = "include";
    at = skip_blanks(at, end);
    if (at == end || *at != '#') return NULL;
    at = skip_blanks(at + 1, end);
    if ((size_t)(end - at) < sizeof word || memcmp(at, word, sizeof word - 1)) return NULL;
    at = skip_blanks(at + sizeof word - 1, end);
    if (at == end || (*at != '"' && *at != '<')) return NULL;
    const char *close = memchr(at + 1, *at == '"' ? '"' : '>', (size_t)(end - at - 1));
    if (!close) return NULL;
    *size = (size_t)(close - at - 1);
    return at + 1;
}

static bool scan(names *seen, const char *text, size_t size) {
    const char *end = text + size;
    while (text < end) {
        const char *line_end = memchr(text, '\n', (size_t)(end - text));
        if (!line_end) line_end = end;
        size_t name_size;
        const char *name = included(text, line_end, &name_size);
        if (name && !remember(seen, name, name_size)) return false;
        text = line_end + 1;
    }
    return true;
}

static const char *header(const qrt_key_inputs *inputs, const char *name, size_t *size) {
    *size = 0;
    return inputs->header ? inputs->header(inputs->user, name, size) : NULL;
}

qg_status qrt_key_headers(const qrt_key_inputs *inputs, char ***out, int *count, qg_error *err) {
    names seen = {0};
    bool fine = scan(&seen, inputs->source, inputs->source_size);
    for (int i = 0; fine && i < seen.count; i++) {
        size_t size;
        const char *text = header(inputs, seen.list[i], &size);
        if (text) fine = scan(&seen, text, size);
    }
    if (!fine) {
        qrt_key_headers_free(seen.list, seen.count);
        return qg_fail(err, QG_NO_MEMORY, "the headers of a kernel", "out of memory", "");
    }
    *out = seen.list;
    *count = seen.count;
    return QG_OK;
}

void qrt_key_headers_free(char **list, int count) {
    for (int i = 0; i < count; i++)
        free(list[i]);
    free(list);
}

/* ------------------------------------------------------------------------------------------ the key */

static void add_number(qrt_sha256 *hash, uint64_t value) {
    uint8_t bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(value >> (8 * i));
    qrt_sha256_add(hash, bytes, sizeof bytes);
}

static void add_bytes(qrt_sha256 *hash, const void *data, size_t size) {
    add_number(hash, size);
    qrt_sha256_add(hash, data, size);
}

static void add_text(qrt_sha256 *hash, const char *text) {
    add_bytes(hash, text, strlen(text));
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

qg_status qrt_key_make(const qrt_key_inputs *inputs, qrt_key *out, qg_error *err) {
    char **list;
    int count;
    qg_status status = qrt_key_headers(inputs, &list, &count, err);
    if (status) return status;
    if (count) qsort(list, (size_t)count, sizeof *list, by_name);

    qrt_sha256 hash;
    qrt_sha256_start(&hash);
    add_text(&hash, "qrsmith cubin");
    add_number(&hash, QRT_CACHE_FORMAT);
    add_number(&hash, (uint64_t)inputs->nvrtc_major);
    add_number(&hash, (uint64_t)inputs->nvrtc_minor);
    add_text(&hash, inputs->target);
    add_number(&hash, (uint64_t)inputs->option_count);
    for (int i = 0; i < inputs->option_count; i++)
        add_text(&hash, inputs->options[i]);
    add_bytes(&hash, inputs->source, inputs->source_size);
    add_number(&hash, (uint64_t)count);
    for (int i = 0; i < count; i++) {
        size_t size;
        const char *text = header(inputs, list[i], &size);
        add_text(&hash, list[i]);
        add_number(&hash, text != NULL);
        add_bytes(&hash, text ? text : "", text ? size : 0);
    }
    qrt_sha256_end(&hash, out->bytes);
    qrt_key_headers_free(list, count);
    return QG_OK;
}

const char *qrt_key_text(const qrt_key *key, char text[QRT_KEY_TEXT]) {
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < 32; i++) {
        text[2 * i] = digits[key->bytes[i] >> 4];
        text[2 * i + 1] = digits[key->bytes[i] & 15];
    }
    text[64] = 0;
    return text;
}

static int digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool qrt_key_parse(const char *text, qrt_key *out) {
    if (strlen(text) != 64) return false;
    for (int i = 0; i < 32; i++) {
        int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);
        if (high < 0 || low < 0) return false;
        out->bytes[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}
