/* Family files: a Lua chunk that returns the family's table, then the kernels' template between two marker
 * lines. configs and templates are described in templates/families/README.md. */
#ifndef QG_FAMILY_H
#define QG_FAMILY_H

#include "gen/library.h"
#include "gen/lua_sandbox.h"

#define QG_FAMILY_BEGIN "--[==[ source"
#define QG_FAMILY_END   "]==]"

typedef struct qg_family {
    const qg_file *file;
    const char *source; /* the template */
    size_t source_size;
    int source_line; /* of its first line in the file */
} qg_family;

bool qg_family_is_file(const char *path);

/* Splits the file, runs its chunk and pushes the table, checked to have every member it must. */
qg_status qg_family_load(qg_lua *lua, const qg_library *lib, const qg_file *file, qg_family *out,
                         qg_error *err);

/* {name, op, summary, params: [{name, doc, values}]} of a family file. New reference. */
qg_status qg_family_describe(const qg_library *lib, const qg_file *file, json_t **out, qg_error *err);

#endif
