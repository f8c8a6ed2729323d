/* Values between Lua and JSON. */
#ifndef QG_LUA_JSON_H
#define QG_LUA_JSON_H

#include "gen/lua_sandbox.h"
#include <jansson.h>

/* The value at `index` as JSON (new reference). Tables with an array part, and empty ones, are lists, others
 * objects with their keys sorted; whole floats are integers. NULL with *why set when it holds anything else
 * or is nested too deeply. */
json_t *qg_lua_to_json(lua_State *L, int index, const char **why);

/* Pushes a JSON value. */
void qg_lua_push_json(lua_State *L, const json_t *value);

#endif
