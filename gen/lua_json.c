#include "gen/lua_json.h"

#include <lauxlib.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 12, MAX_VALUES = 1 << 20 };

typedef struct conversion {
    lua_State *L;
    const char *why;
    int depth, values;
} conversion;

static json_t *convert(conversion *c, int index);

static json_t *refuse(conversion *c, const char *why) {
    c->why = why;
    return NULL;
}

static json_t *convert_list(conversion *c, int index, lua_Integer n) {
    json_t *list = json_array();
    for (lua_Integer i = 1; list && i <= n; i++) {
        lua_geti(c->L, index, i);
        json_t *item = convert(c, lua_gettop(c->L));
        lua_pop(c->L, 1);
        if (!item || json_array_append_new(list, item)) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The table's names in order; they live as long as the table. NULL when memory runs out. */
static const char **sorted_names(lua_State *L, int index, size_t count) {
    const char **names = malloc(count * sizeof *names);
    size_t i = 0;
    lua_pushnil(L);
    while (lua_next(L, index)) {
        lua_pop(L, 1);
        if (names && i < count) names[i++] = lua_tostring(L, -1);
    }
    if (names) qsort(names, count, sizeof *names, by_text);
    return names;
}

static json_t *convert_object(conversion *c, int index, size_t count) {
    const char **names = sorted_names(c->L, index, count);
    json_t *object = names ? json_object() : NULL;
    for (size_t i = 0; object && i < count; i++) {
        lua_getfield(c->L, index, names[i]);
        json_t *item = convert(c, lua_gettop(c->L));
        lua_pop(c->L, 1);
        if (!item || json_object_set_new(object, names[i], item)) {
            json_decref(object);
            object = NULL;
        }
    }
    free(names);
    return object;
}

static json_t *convert_table(conversion *c, int index) {
    lua_Integer positions = (lua_Integer)lua_rawlen(c->L, index);
    size_t names = 0, others = 0;
    lua_pushnil(c->L);
    while (lua_next(c->L, index)) {
        lua_pop(c->L, 1);
        *(lua_type(c->L, -1) == LUA_TSTRING ? &names : &others) += 1;
    }
    if (others != (size_t)positions) return refuse(c, "a list has holes or keys that are no positions");
    if (names && others) return refuse(c, "a table mixes names and positions");
    if (c->depth == MAX_DEPTH) return refuse(c, "tables are nested too deeply");
    c->depth++;
    json_t *out = names ? convert_object(c, index, names) : convert_list(c, index, positions);
    c->depth--;
    return out;
}

static json_t *convert_number(conversion *c, int index) {
    lua_Integer i;
    lua_Number x = lua_tonumber(c->L, index);
    if (lua_isinteger(c->L, index)) return json_integer(lua_tointeger(c->L, index));
    if (!isfinite(x)) return refuse(c, "a number is infinite or NaN");
    if (x == floor(x) && lua_numbertointeger(x, &i)) return json_integer(i);
    return json_real(x);
}

static json_t *convert(conversion *c, int index) {
    if (++c->values > MAX_VALUES || !lua_checkstack(c->L, 8)) return refuse(c, "it holds too many values");
    switch (lua_type(c->L, index)) {
    case LUA_TBOOLEAN:
        return json_boolean(lua_toboolean(c->L, index));
    case LUA_TSTRING: {
        json_t *s = json_string(lua_tostring(c->L, index));
        return s ? s : refuse(c, "a string is not UTF-8");
    }
    case LUA_TNUMBER:
        return convert_number(c, index);
    case LUA_TTABLE:
        return convert_table(c, index);
    case LUA_TNIL:
        return refuse(c, "a value is nil");
    default:
        return refuse(c, "a value is neither a table, text, number nor boolean");
    }
}

json_t *qg_lua_to_json(lua_State *L, int index, const char **why) {
    conversion c = {.L = L, .why = "out of memory"};
    json_t *value = convert(&c, lua_absindex(L, index));
    *why = c.why;
    return value;
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
