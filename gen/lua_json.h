/* Values between Lua and JSON. */
#ifndef QG_LUA_JSON_H
#define QG_LUA_JSON_H

#include "gen/lua_sandbox.h"
#include <jansson.h>

/* The value at `index` as JSON (new reference). Tables of positions, and empty ones, are lists, tables of
 * names objects with their keys sorted; whole floats are integers. NULL with *why set when it holds anything
 * else, is nested too deeply or too large. */
json_t *qg_lua_to_json(lua_State *L, int index, const char **why);

/* Pushes a JSON value. */
void qg_lua_push_json(lua_State *L, const json_t *value);

#endif
