/* Files that are part of the library: everything below templates/ (paths without that prefix) and configs/
 * (with it), put there by the build. Sorted by path; the last entry is {NULL, NULL, 0}. */
#ifndef QG_EMBEDDED_H
#define QG_EMBEDDED_H

#include <stddef.h>

typedef struct qg_embedded {
    const char *path; /* "device/warp.cuh", "families/blocked.lua", "configs/devices/h200.json" */
    const char *data; /* NUL-terminated */
    size_t size;      /* without the NUL */
} qg_embedded;

extern const qg_embedded qg_embedded_files[];

/* NULL when there is no such file. */
const qg_embedded *qg_embedded_find(const char *path);

#endif
