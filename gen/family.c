#include "gen/family.h"

#include "gen/lua_json.h"
#include "gen/number.h"

#include <lauxlib.h>
#include <stdio.h>
#include <string.h>

bool qg_family_is_file(const char *path) {
    size_t size = strlen(path);
    return strncmp(path, "families/", 9) == 0 && size > 13 && strcmp(path + size - 4, ".lua") == 0;
}

/* The start of the line that is exactly `marker`, from `s` on; NULL when there is none. Counts lines passed.
 */
static const char *find_line(const char *s, const char *marker, int *line) {
    size_t size = strlen(marker);
    while (*s) {
        const char *end = strchr(s, '\n');
        size_t length = end ? (size_t)(end - s) : strlen(s);
        if (length == size && memcmp(s, marker, size) == 0) return s;
        if (!end) return NULL;
        s = end + 1;
        ++*line;
    }
    return NULL;
}

static qg_status split(const qg_file *file, qg_family *f, size_t *chunk_size, qg_error *err) {
    int line = 1;
    const char *begin = find_line(file->data, QG_FAMILY_BEGIN, &line);
    if (!begin)
        return qg_fail(err, QG_BAD_INPUT, file->path, "there is no line \"" QG_FAMILY_BEGIN "\"",
                       "the family's table, then its template between \"" QG_FAMILY_BEGIN
                       "\" and \"" QG_FAMILY_END "\"");
    *chunk_size = (size_t)(begin - file->data);
    f->file = file;
    f->source = begin + strlen(QG_FAMILY_BEGIN);
    if (*f->source) f->source++; /* nothing follows a marker that ends the file */
    f->source_line = line + 1;
    const char *end = find_line(f->source, QG_FAMILY_END, &line);
    if (!end)
        return qg_fail(err, QG_BAD_INPUT, file->path,
                       "the template does not end in a line \"" QG_FAMILY_END "\"", "");
    f->source_size = (size_t)(end - f->source);
    return QG_OK;
}

/* use("lib/x.lua"): the value of a chunk of shared Lua, run in the same sandbox. */
static int use(lua_State *L) {
    const qg_library *lib = lua_touserdata(L, lua_upvalueindex(1));
    const char *path = luaL_checkstring(L, 1);
    const qg_file *file = qg_library_find(lib, path);
    char name[256];
    if (!file || strncmp(path, "lib/", 4) != 0)
        return luaL_error(L, "use: no file \"%s\" (lib/*.lua of the templates)", path);
    snprintf(name, sizeof name, "=%.250s", path);
    if (luaL_loadbufferx(L, file->data, file->size, name, "t")) return lua_error(L);
    lua_call(L, 0, 1);
    return 1;
}

static qg_status require_member(lua_State *L, const char *name, int type, const qg_file *file,
                                qg_error *err) {
    int found = lua_getfield(L, -1, name);
    lua_pop(L, 1);
    if (found == type) return QG_OK;
    return qg_failf(err, QG_BAD_INPUT, file->path, "", "the family's table has no %s \"%s\"",
                    lua_typename(L, type), name);
}

/* Every parameter: a name, a list of values, a default, a line of documentation. */
static qg_status check_params(lua_State *L, const qg_file *file, qg_error *err) {
    static const struct {
        const char *name;
        int type;
    } members[] = {
        {"name", LUA_TSTRING}, {"values", LUA_TTABLE}, {"default", LUA_TFUNCTION}, {"doc", LUA_TSTRING}};
    lua_getfield(L, -1, "params");
    qg_status s = QG_OK;
    for (lua_Integer i = 1, n = (lua_Integer)lua_rawlen(L, -1); i <= n && !s; i++) {
        bool table = lua_geti(L, -1, i) == LUA_TTABLE;
        if (!table)
            s = qg_failf(err, QG_BAD_INPUT, file->path, "{ name =, values =, default =, doc = }",
                         "params[%d] is no table", (int)i);
        for (size_t k = 0; k < sizeof members / sizeof *members && !s; k++) {
            if (lua_getfield(L, -1, members[k].name) != members[k].type)
                s = qg_failf(err, QG_BAD_INPUT, file->path, "", "params[%d] has no %s \"%s\"", (int)i,
                             lua_typename(L, members[k].type), members[k].name);
            else if (members[k].type == LUA_TTABLE && lua_rawlen(L, -1) == 0)
                s = qg_failf(err, QG_BAD_INPUT, file->path, "", "params[%d]: its list of values is empty",
                             (int)i);
            lua_pop(L, 1);
        }
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    return s;
}

static qg_status check_table(lua_State *L, const qg_file *file, qg_error *err) {
    static const struct {
        const char *name;
        int type;
    } members[] = {{"name", LUA_TSTRING},        {"op", LUA_TSTRING},      {"summary", LUA_TSTRING},
                   {"params", LUA_TTABLE},       {"legal", LUA_TFUNCTION}, {"rank", LUA_TFUNCTION},
                   {"resources", LUA_TFUNCTION}, {"vars", LUA_TFUNCTION},  {"program", LUA_TFUNCTION}};
    if (!lua_istable(L, -1))
        return qg_fail(err, QG_BAD_INPUT, file->path, "the chunk does not return a table",
                       "return { name = ..., ... }");
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        qg_status s = require_member(L, members[i].name, members[i].type, file, err);
        if (s) return s;
    }
    qg_status params = check_params(L, file, err);
    if (params) return params;
    lua_getfield(L, -1, "name");
    const char *name = lua_tostring(L, -1);
    size_t size = strlen(name);
    bool same = strlen(file->path) == size + 13 && memcmp(file->path + 9, name, size) == 0;
    lua_pop(L, 1);
    return same ? QG_OK
                : qg_failf(err, QG_BAD_INPUT, file->path, "the file's name without .lua",
                           "the family calls itself \"%.60s\"", name);
}

qg_status qg_family_load(qg_lua *lua, const qg_library *lib, const qg_file *file, qg_family *out,
                         qg_error *err) {
    size_t chunk_size = 0;
    qg_status s = split(file, out, &chunk_size, err);
    if (s) return s;
    lua_pushlightuserdata(lua->L, (void *)(uintptr_t)lib);
    lua_pushcclosure(lua->L, use, 1);
    lua_setglobal(lua->L, "use");
    if ((s = qg_lua_load(lua, file->data, chunk_size, file->path, 0, err)) ||
        (s = qg_lua_call(lua, 0, 1, file->path, err)))
        return s;
    if ((s = check_table(lua->L, file, err))) lua_pop(lua->L, 1);
    return s;
}

static json_t *describe_params(lua_State *L, const char **why) {
    json_t *list = json_array();
    lua_getfield(L, -1, "params");
    for (lua_Integer i = 1, n = (lua_Integer)lua_rawlen(L, -1); list && i <= n; i++) {
        static const char *const members[] = {"name", "doc", "values"};
        json_t *param = json_object();
        lua_geti(L, -1, i);
        for (int k = 0; k < 3; k++) {
            lua_getfield(L, -1, members[k]);
            json_object_set_new(param, members[k], qg_lua_to_json(L, -1, why));
            lua_pop(L, 1);
        }
        lua_pop(L, 1);
        json_array_append_new(list, param);
    }
    lua_pop(L, 1);
    return list;
}

qg_status qg_family_describe(const qg_library *lib, const qg_file *file, json_t **out, qg_error *err) {
    qg_lua lua;
    qg_family family;
    qg_c_locale locale;
    const char *why;
    qg_c_locale_enter(&locale);
    qg_status s = qg_lua_open(&lua, err);
    if (!s) s = qg_family_load(&lua, lib, file, &family, err);
    if (!s) {
        static const char *const members[] = {"name", "op", "summary"};
        *out = json_object();
        for (int i = 0; *out && i < 3; i++) {
            lua_getfield(lua.L, -1, members[i]);
            json_object_set_new(*out, members[i], qg_lua_to_json(lua.L, -1, &why));
            lua_pop(lua.L, 1);
        }
        json_object_set_new(*out, "params", describe_params(lua.L, &why));
    }
    qg_lua_close(&lua);
    qg_c_locale_leave(&locale);
    return s;
}
