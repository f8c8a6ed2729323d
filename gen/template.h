/* Templates: text with ${expression} substitutions and lines of Lua that start with '%'.
 *
 * A template is compiled to one Lua chunk with exactly one line of Lua a line of text, so that Lua's own
 * messages name the template's line. Whenever the text that comes out would not sit on the line that a C
 * compiler expects, a `#line N "path"` goes before it; paths are relative to the templates' root. */
#ifndef QG_TEMPLATE_H
#define QG_TEMPLATE_H

#include "gen/lua_sandbox.h"
#include "gen/text.h"

/* Finds a template's text by its path ("blocks/panel.cuh"); NULL when there is none. */
typedef const char *(*qg_template_find)(void *user, const char *path, size_t *size);

typedef struct qg_template_source {
    qg_template_find find;
    void *user;
} qg_template_source;

/* Renders text (the lines of `path` from `first_line` on) with the table at stack index `env` as its
 * environment, which gets `include(path, {names})` added. Appends to out. */
qg_status qg_template_render(qg_lua *lua, const qg_template_source *source, const char *text, size_t size,
                             const char *path, int first_line, int env, qg_text *out, qg_error *err);

#endif
