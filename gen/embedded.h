/* Templates and configs carried inside the library: every file below templates/ (paths without that prefix) and
 * below configs/ (with it), sorted by path in byte order. The table is written by gen/embed.sh at build time. */
#ifndef QG_EMBEDDED_H
#define QG_EMBEDDED_H

#include <stddef.h>

typedef struct qg_embedded {
    const char *path; /* "device/warp.cuh", "families/blocked.lua", "configs/suites/small.json" */
    const char *data; /* NUL-terminated */
    size_t size;      /* without that NUL */
} qg_embedded;

extern const qg_embedded qg_embedded_files[]; /* ends with {NULL, NULL, 0} */

#endif
