#include "gen/lua_json.h"

#include <lauxlib.h>
#include <math.h>
#include <stdbool.h>

enum { MAX_DEPTH = 12 };

static json_t *convert(lua_State *L, int index, int depth, const char **why);

static json_t *convert_list(lua_State *L, int index, lua_Integer n, int depth, const char **why) {
    json_t *list = json_array();
    for (lua_Integer i = 1; list && i <= n; i++) {
        lua_geti(L, index, i);
        json_t *item = convert(L, lua_gettop(L), depth, why);
        lua_pop(L, 1);
        if (!item || json_array_append_new(list, item)) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static json_t *convert_object(lua_State *L, int index, int depth, const char **why) {
    json_t *object = json_object();
    lua_pushnil(L);
    while (object && lua_next(L, index)) {
        if (lua_type(L, -2) != LUA_TSTRING) {
            *why = "a table mixes names and positions";
            lua_pop(L, 2);
            json_decref(object);
            return NULL;
        }
        json_t *item = convert(L, lua_gettop(L), depth, why);
        const char *key = lua_tostring(L, -2);
        if (!item || json_object_set_new(object, key, item)) {
            lua_pop(L, 2);
            json_decref(object);
            return NULL;
        }
        lua_pop(L, 1);
    }
    return object;
}

static json_t *convert(lua_State *L, int index, int depth, const char **why) {
    if (depth > MAX_DEPTH || !lua_checkstack(L, 8)) {
        *why = "tables are nested too deeply";
        return NULL;
    }
    switch (lua_type(L, index)) {
    case LUA_TBOOLEAN:
        return json_boolean(lua_toboolean(L, index));
    case LUA_TSTRING: {
        json_t *s = json_string(lua_tostring(L, index));
        if (!s) *why = "a string is not UTF-8";
        return s;
    }
    case LUA_TNUMBER: {
        lua_Integer i = 0;
        lua_Number x = lua_tonumber(L, index);
        if (lua_isinteger(L, index) || (x == floor(x) && lua_numbertointeger(x, &i)))
            return json_integer(lua_isinteger(L, index) ? lua_tointeger(L, index) : i);
        if (!isfinite(x)) {
            *why = "a number is infinite or NaN";
            return NULL;
        }
        return json_real(x);
    }
    case LUA_TTABLE: {
        lua_Integer n = (lua_Integer)lua_rawlen(L, index);
        lua_pushnil(L);
        bool empty = lua_next(L, index) == 0;
        if (!empty) lua_pop(L, 2);
        return n > 0 || empty ? convert_list(L, index, n, depth + 1, why)
                              : convert_object(L, index, depth + 1, why);
    }
    default:
        *why =
            lua_isnil(L, index) ? "a value is nil" : "a value is neither a table, text, number nor boolean";
        return NULL;
    }
}

json_t *qg_lua_to_json(lua_State *L, int index, const char **why) {
    *why = "out of memory";
    return convert(L, lua_absindex(L, index), 0, why);
}

void qg_lua_push_json(lua_State *L, const json_t *value) {
    luaL_checkstack(L, 8, "JSON");
    switch (value ? json_typeof(value) : JSON_NULL) {
    case JSON_INTEGER:
        lua_pushinteger(L, json_integer_value(value));
        break;
    case JSON_REAL:
        lua_pushnumber(L, json_real_value(value));
        break;
    case JSON_STRING:
        lua_pushlstring(L, json_string_value(value), json_string_length(value));
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        lua_pushboolean(L, json_is_true(value));
        break;
    case JSON_ARRAY:
        lua_newtable(L);
        for (size_t i = 0; i < json_array_size(value); i++) {
            qg_lua_push_json(L, json_array_get(value, i));
            lua_seti(L, -2, (lua_Integer)i + 1);
        }
        break;
    case JSON_OBJECT: {
        const char *key;
        json_t *item;
        lua_newtable(L);
        json_object_foreach((json_t *)value, key, item) {
            qg_lua_push_json(L, item);
            lua_setfield(L, -2, key);
        }
        break;
    }
    default:
        lua_pushnil(L);
    }
}
