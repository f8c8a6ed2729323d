#include "gen/template.h"

#include "gen/number.h"

#include <lauxlib.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_INCLUDE_DEPTH = 16, MAX_PATH = 256, MAX_OUTPUT = 32 << 20 };

/* What the functions that a running template calls need; lives on the C stack of qg_template_render. */
typedef struct rendering {
    qg_lua *lua;
    const qg_template_source *source;
    qg_text *out;
    const char *path;    /* where output comes from now */
    char seen[MAX_PATH]; /* the file and line that a C compiler believes to be at; a copy, Lua may free its
                            name */
    int seen_line, depth;
} rendering;

static rendering *current(lua_State *L) {
    return lua_touserdata(L, lua_upvalueindex(1));
}

static void put(lua_State *L, rendering *r, const char *data, size_t size) {
    if (r->out->size + size > MAX_OUTPUT)
        luaL_error(L, "the rendered text is larger than %d MiB", MAX_OUTPUT >> 20);
    if (!qg_text_put(r->out, data, size)) luaL_error(L, "out of memory");
    for (size_t i = 0; i < size; i++)
        r->seen_line += data[i] == '\n';
}

/* line(n): the text that follows is line n of the template. */
static int set_line(lua_State *L) {
    rendering *r = current(L);
    int line = (int)lua_tointeger(L, 1);
    if (strcmp(r->seen, r->path) == 0 && r->seen_line == line) return 0;
    /* A directive cannot stand inside of a macro that goes on over lines: the next line will do. */
    if (r->out->size >= 2 && memcmp(r->out->data + r->out->size - 2, "\\\n", 2) == 0) return 0;
    char text[MAX_PATH + 32];
    int size = snprintf(text, sizeof text, "#line %d \"%s\"\n", line, r->path);
    put(L, r, text, (size_t)size);
    strcpy(r->seen, r->path);
    r->seen_line = line;
    return 0;
}

/* text(s): bytes of the template itself. */
static int write_text(lua_State *L) {
    size_t size;
    const char *s = luaL_checklstring(L, 1, &size);
    put(L, current(L), s, size);
    return 0;
}

/* value(v, text): the result of a ${expression}, and how it is written. */
static int write_value(lua_State *L) {
    rendering *r = current(L);
    char number[QG_NUMBER_TEXT + 2];
    size_t size;
    switch (lua_type(L, 1)) {
    case LUA_TNUMBER:
        if (lua_isinteger(L, 1)) {
            size = (size_t)snprintf(number, sizeof number, "%lld", (long long)lua_tointeger(L, 1));
        } else {
            if (!isfinite(lua_tonumber(L, 1)))
                return luaL_error(L, "${%s} is infinite or NaN", luaL_checkstring(L, 2));
            qg_number_text(lua_tonumber(L, 1), number);
            strcat(number, "f");
            size = strlen(number);
        }
        put(L, r, number, size);
        return 0;
    case LUA_TSTRING: {
        const char *s = lua_tolstring(L, 1, &size);
        put(L, r, s, size);
        return 0;
    }
    case LUA_TBOOLEAN:
        put(L, r, lua_toboolean(L, 1) ? "true" : "false", lua_toboolean(L, 1) ? 4 : 5);
        return 0;
    default:
        return luaL_error(L, "${%s} is %s where text or a number is needed", luaL_checkstring(L, 2),
                          luaL_typename(L, 1));
    }
}

/* ---- from template to Lua */

/* The end of the expression that starts at s (just behind "${"): its closing brace, or NULL. */
static const char *expression_end(const char *s, const char *end) {
    int depth = 1;
    for (char quote = 0; s < end; s++) {
        if (quote) {
            if (*s == '\\')
                s++;
            else if (*s == quote)
                quote = 0;
        } else if (*s == '"' || *s == '\'') {
            quote = *s;
        } else if (*s == '{') {
            depth++;
        } else if (*s == '}' && --depth == 0) {
            return s;
        }
    }
    return NULL;
}

/* A Lua string literal on one line. */
static bool quote(qg_text *lua, const char *s, size_t size) {
    bool ok = qg_text_puts(lua, "\"");
    for (size_t i = 0; i < size && ok; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c == '"' || c == '\\')
            ok = qg_text_printf(lua, "\\%c", c);
        else if (c < 32 || c == 127)
            ok = qg_text_printf(lua, "\\%03d", c);
        else
            ok = qg_text_put(lua, s + i, 1);
    }
    return ok && qg_text_puts(lua, "\"");
}

static bool call_text(qg_text *lua, const char *s, size_t size) {
    return qg_text_puts(lua, " __text(") && quote(lua, s, size) && qg_text_puts(lua, ")");
}

/* The parentheses keep one value of many. */
static bool call_value(qg_text *lua, const char *s, size_t size) {
    return qg_text_puts(lua, " __value((") && qg_text_put(lua, s, size) && qg_text_puts(lua, "), ") &&
           quote(lua, s, size) && qg_text_puts(lua, ")");
}

/* One line of text; on failure says why. */
static const char *translate_text(qg_text *lua, const char *s, const char *end, int line) {
    if (!qg_text_printf(lua, "__line(%d)", line)) return "out of memory";
    while (s < end) {
        const char *open = s;
        while (open < end && !(open[0] == '$' && open + 1 < end && open[1] == '{'))
            open++;
        if (open > s && !call_text(lua, s, (size_t)(open - s))) return "out of memory";
        if (open == end) break;
        const char *close = expression_end(open + 2, end);
        if (!close) return "${ without its closing }";
        if (!call_value(lua, open + 2, (size_t)(close - open - 2))) return "out of memory";
        s = close + 1;
    }
    return call_text(lua, "\n", 1) ? NULL : "out of memory";
}

static qg_status translate(qg_text *lua, const char *text, size_t size, const char *path, int first_line,
                           qg_error *err) {
    /* Blank lines first: line k of the chunk is line k of the file. */
    for (int i = 1; i < first_line; i++)
        if (!qg_text_put(lua, "\n", 1)) return qg_fail(err, QG_NO_MEMORY, path, "out of memory", "");
    int line = first_line;
    for (const char *s = text, *stop = text + size; s < stop; line++) {
        const char *end = memchr(s, '\n', (size_t)(stop - s));
        if (!end) end = stop;
        const char *first = s;
        while (first < end && (*first == ' ' || *first == '\t'))
            first++;
        const char *why = NULL;
        if (first < end && *first == '%')
            why = qg_text_put(lua, first + 1, (size_t)(end - first - 1)) ? NULL : "out of memory";
        else
            why = translate_text(lua, s, end, line);
        if (!why && !qg_text_put(lua, "\n", 1)) why = "out of memory";
        if (why) {
            char what[300];
            snprintf(what, sizeof what, "%.256s:%d", path, line);
            return qg_fail(err, QG_BAD_INPUT, what, why, "");
        }
        s = end + 1;
    }
    return QG_OK;
}

/* ---- running */

static void set_function(lua_State *L, int env, const char *name, lua_CFunction f, rendering *r) {
    lua_pushlightuserdata(L, r);
    lua_pushcclosure(L, f, 1);
    lua_setfield(L, env, name);
}

/* Pushes the included template's chunk, or puts things back to `before` and raises a Lua error. */
static void push_chunk(lua_State *L, rendering *r, const char *text, size_t size, int env,
                       const char *before) {
    qg_text code = {0};
    qg_error err;
    qg_status s = translate(&code, text, size, r->path, 1, &err);
    if (!s) s = qg_lua_load(r->lua, code.data ? code.data : "", code.size, r->path, env, &err);
    qg_text_free(&code);
    if (!s) return;
    r->path = before;
    r->depth--;
    luaL_error(L, "%s: %s", err.what, err.why);
}

/* include(path, {names}) */
static int include(lua_State *L) {
    rendering *r = current(L);
    const char *path = luaL_checkstring(L, 1);
    size_t size;
    if (lua_isnoneornil(L, 2)) {
        lua_settop(L, 1);
        lua_newtable(L);
    }
    luaL_checktype(L, 2, LUA_TTABLE);
    lua_settop(L, 2);
    const char *text = strlen(path) < MAX_PATH ? r->source->find(r->source->user, path, &size) : NULL;
    if (!text) return luaL_error(L, "include: no template \"%s\"", path);
    if (r->depth == MAX_INCLUDE_DEPTH)
        return luaL_error(L, "include: templates include each other more than %d deep", MAX_INCLUDE_DEPTH);
    r->depth++;
    /* Names given here shadow the including template's, which stay visible. */
    lua_newtable(L);
    lua_newtable(L);
    lua_pushvalue(L, lua_upvalueindex(2));
    lua_setfield(L, -2, "__index");
    lua_setmetatable(L, 3);
    lua_pushnil(L);
    while (lua_next(L, 2)) {
        lua_pushvalue(L, -2);
        lua_insert(L, -2);
        lua_settable(L, 3);
    }
    lua_pushlightuserdata(L, r);
    lua_pushvalue(L, 3);
    lua_pushcclosure(L, include, 2);
    lua_setfield(L, 3, "include");
    const char *before = r->path;
    r->path = path;
    push_chunk(L, r, text, size, 3, before);
    /* Protected: the path must be right again for a template that catches the error. */
    int code = lua_pcall(L, 0, 0, 0);
    if (code == LUA_ERRMEM) r->lua->out_of_memory = true;
    r->path = before;
    r->depth--;
    return code ? lua_error(L) : 0;
}

qg_status qg_template_render(qg_lua *lua, const qg_template_source *source, const char *text, size_t size,
                             const char *path, int first_line, int env, qg_text *out, qg_error *err) {
    lua_State *L = lua->L;
    if (strlen(path) >= MAX_PATH) return qg_fail(err, QG_BAD_INPUT, path, "the path is too long", "");
    rendering r = {.lua = lua, .source = source, .out = out, .path = path};
    env = lua_absindex(L, env);
    set_function(L, env, "__line", set_line, &r);
    set_function(L, env, "__text", write_text, &r);
    set_function(L, env, "__value", write_value, &r);
    lua_pushlightuserdata(L, &r);
    lua_pushvalue(L, env);
    lua_pushcclosure(L, include, 2);
    lua_setfield(L, env, "include");
    qg_text code = {0};
    qg_status s = translate(&code, text, size, path, first_line, err);
    if (!s) s = qg_lua_load(lua, code.data ? code.data : "", code.size, path, env, err);
    qg_text_free(&code);
    if (!s) s = qg_lua_call(lua, 0, 0, path, err);
    /* The functions point at this frame: none may outlive it. */
    static const char *const names[] = {"__line", "__text", "__value", "include"};
    for (int i = 0; i < 4; i++) {
        lua_pushnil(L);
        lua_setfield(L, env, names[i]);
    }
    return s;
}
