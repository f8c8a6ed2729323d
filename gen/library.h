/* Inside of a library: its files, embedded or read from folders. */
#ifndef QG_LIBRARY_H
#define QG_LIBRARY_H

#include "gen/plan.h"

typedef struct qg_file {
    char *path; /* relative to the templates' root: "families/blocked.lua" */
    const char *data;
    size_t size;
    char *owned; /* data when it was read from a folder */
} qg_file;

struct qg_library {
    qg_file *files; /* sorted by path */
    int file_count, file_capacity;
    json_t *tuned;            /* entries of the tuned table; a list, maybe empty */
    json_t *tuned_complaints; /* what was skipped, as texts */
};

const qg_file *qg_library_find(const qg_library *lib, const char *path);

#endif
