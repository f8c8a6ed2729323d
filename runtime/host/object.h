/* Compiled kernels on disk. An object's name is a hash over everything that shapes it: the interface's
 * version, the compiler (path and version), the flags, the device headers and the rendered source. Objects
 * appear by rename and carry a hash of their own content, so a torn or damaged one is compiled again, never
 * loaded. */
#ifndef QHX_OBJECT_H
#define QHX_OBJECT_H

#include "gen/plan.h"
#include "runtime/host/compiler.h"

enum { QHX_PATH = 4096 };

/* The folder for objects in `out`, made if need be. `given` NULL: by the environment, and where that cannot
 * be written or could be written by others (whoever can write there can run code here), a new folder in
 * TMPDIR, *temporary then being true. */
qg_status qhx_object_folder(const char *given, char out[QHX_PATH], bool *temporary, qg_error *err);
void qhx_object_remove_folder(const char *dir);

typedef struct qhx_object_request {
    const qhx_compiler *compiler;
    bool sanitize;
    const char *dir;
    const qg_library *lib; /* device headers; NULL: the embedded ones */
    const char *name;      /* for compiler messages */
    const char *source;
    size_t source_size;
} qhx_object_request;

/* The path of the object, and whether it had to be compiled. */
qg_status qhx_object_get(const qhx_object_request *request, char path[QHX_PATH], bool *compiled,
                         qg_error *err);

#endif
