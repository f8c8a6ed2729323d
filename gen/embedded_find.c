#include "gen/embedded.h"

#include <string.h>

const qg_embedded *qg_embedded_find(const char *path) {
    for (const qg_embedded *f = qg_embedded_files; f->path; f++)
        if (strcmp(f->path, path) == 0) return f;
    return NULL;
}
