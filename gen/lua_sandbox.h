/* A Lua state for families and templates: no way out (no io, os, require, load, bytecode, clock, randomness),
 * the same results on every machine (sorted pairs, no addresses in text), limited in instructions and memory.
 * One state serves one plan and one thread. */
#ifndef QG_LUA_SANDBOX_H
#define QG_LUA_SANDBOX_H

#include "gen/error.h"
#include <lua.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct qg_lua {
    lua_State *L;
    size_t used, limit;     /* bytes */
    long instructions_left; /* counted in steps of the hook; memory taken counts too */
    int calls;              /* protected calls under way: only they can be refused memory */
    bool out_of_memory;     /* seen by a pcall or an include on the way up */
} qg_lua;

/* Opens into *lua, which must not move while open. The globals table is the sandbox's environment. */
qg_status qg_lua_open(qg_lua *lua, qg_error *err);
void qg_lua_close(qg_lua *lua);

/* Calls the function below its `args` arguments, leaving `results`. A Lua error becomes QG_BAD_INPUT with the
 * message ("file:line: ...") as its why; running out of memory or instructions says so. */
qg_status qg_lua_call(qg_lua *lua, int args, int results, const char *what, qg_error *err);

/* Compiles text (never bytecode) named `name` ("families/blocked.lua") and pushes the function. `env`: index
 * of the table to use as its globals, or 0 for the sandbox's. */
qg_status qg_lua_load(qg_lua *lua, const char *text, size_t size, const char *name, int env, qg_error *err);

#endif
