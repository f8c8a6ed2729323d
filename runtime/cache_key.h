/* The name of a cubin: a SHA-256 over everything that shapes it, and nothing else.
 *
 * In the key, and what it invalidates: the cache format version (a change of ours to keys or entries), the
 * NVRTC version (a toolkit upgrade), the compile target, the options in order, the rendered source, and the
 * name and content of every header the source includes, transitively (only kernels that use a touched header
 * miss). Includes under a preprocessor condition count as used. Not in the key: times, paths, host names,
 * locale, the driver version (cubins don't depend on it), launch programs (made anew with each plan). Every
 * field goes in with its length, so that no two different inputs read the same. */
#ifndef QRT_CACHE_KEY_H
#define QRT_CACHE_KEY_H

#include "gen/error.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define QRT_CACHE_FORMAT 1

typedef struct qrt_key {
    uint8_t bytes[32];
} qrt_key;

#define QRT_KEY_TEXT 65 /* 64 hexadecimal digits and a NUL */

typedef struct qrt_key_inputs {
    const char *source;
    size_t source_size;
    const char *const *options;
    int option_count;
    int nvrtc_major, nvrtc_minor;
    const char *target; /* "sm_90a" */
    /* Content of a header; NULL when there is none of that name (then its name alone counts). */
    const char *(*header)(void *user, const char *name, size_t *size);
    void *user;
} qrt_key_inputs;

/* QG_NO_MEMORY is the only failure. */
qg_status qrt_key_make(const qrt_key_inputs *inputs, qrt_key *out, qg_error *err);

/* The headers a source includes, transitively, in the order of first mention; owned by the caller, each name
 * and the array. */
qg_status qrt_key_headers(const qrt_key_inputs *inputs, char ***names, int *count, qg_error *err);
void qrt_key_headers_free(char **names, int count);

const char *qrt_key_text(const qrt_key *key, char text[QRT_KEY_TEXT]); /* returns text */
bool qrt_key_parse(const char *text, qrt_key *out);

#endif
