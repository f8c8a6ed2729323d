#include "gen/lua_sandbox.h"

#include "gen/number.h"

#include <lauxlib.h>
#include <lualib.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    HOOK_STEP = 10000,
    BYTES_AN_INSTRUCTION = 16,
    PATTERN_REPEATS = 4,
    PATTERN_SUBJECT = 1 << 16,
    MESSAGE_SIZE = 4096
};
static const size_t MEMORY_LIMIT = (size_t)192 << 20;
static const long INSTRUCTION_LIMIT = 100 * 1000 * 1000;

static void *allocate(void *user, void *old, size_t old_size, size_t size) {
    qg_lua *lua = user;
    if (!old) old_size = 0; /* then it holds a type tag */
    if (size == 0) {
        free(old);
        lua->used -= old_size;
        return NULL;
    }
    size_t more = size > old_size ? size - old_size : 0;
    /* Who has no instructions left gets memory for the message that says so, no more. */
    bool refused = lua->used + more > lua->limit || (lua->instructions_left <= 0 && more > MESSAGE_SIZE);
    /* Outside of a protected call a refusal would end the process. */
    if (more && lua->calls && refused) return NULL;
    void *p = realloc(old, size);
    if (p) lua->used += size - old_size;
    /* One instruction can ask for a lot (string.rep): it pays by size, at once, since the hook comes late. */
    lua->instructions_left -= (long)(more / BYTES_AN_INSTRUCTION);
    return p;
}

static qg_lua *self(lua_State *L) {
    qg_lua *lua;
    memcpy(&lua, lua_getextraspace(L), sizeof lua);
    return lua;
}

/* level: 0 when Lua runs, 1 when a function in C does. */
static int out_of_instructions(lua_State *L, int level) {
    luaL_where(L, level);
    lua_pushfstring(L, "more than %d million instructions: an endless loop?",
                    (int)(INSTRUCTION_LIMIT / 1000000));
    lua_concat(L, 2);
    return lua_error(L);
}

static void count_instructions(lua_State *L, lua_Debug *d) {
    (void)d;
    qg_lua *lua = self(L);
    lua->instructions_left -= HOOK_STEP;
    if (lua->instructions_left <= 0) out_of_instructions(L, 0);
}

/* ---- functions of the environment */

static int ceildiv(lua_State *L) {
    lua_Integer a = luaL_checkinteger(L, 1), b = luaL_checkinteger(L, 2);
    luaL_argcheck(L, b > 0, 2, "a positive divisor expected");
    lua_pushinteger(L, a >= 0 ? (a + (b - 1)) / b : -(-a / b));
    return 1;
}

static int align(lua_State *L) {
    ceildiv(L);
    lua_pushinteger(L, lua_tointeger(L, -1) * lua_tointeger(L, 2));
    return 1;
}

/* As Lua's, but running out of instructions or memory ends the template, not just the protected call. */
static int limited_pcall(lua_State *L) {
    luaL_checkany(L, 1);
    int code = lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0);
    if (code == LUA_ERRMEM) self(L)->out_of_memory = true;
    qg_lua *lua = self(L);
    if (lua->instructions_left <= 0) return out_of_instructions(L, 1);
    if (lua->out_of_memory) return lua_error(L);
    lua_pushboolean(L, code == LUA_OK);
    lua_insert(L, 1);
    return lua_gettop(L);
}

/* find, match, gmatch and gsub take time outside of the instruction count, exponential in the pattern's
 * repetitions: what templates need is far below these bounds. */
static int limited_pattern(lua_State *L) {
    size_t subject, size;
    luaL_checklstring(L, 1, &subject);
    const char *pattern = luaL_checklstring(L, 2, &size);
    int repeats = 0;
    for (size_t i = 0; i < size; i++)
        repeats += strchr("*+-?", pattern[i]) && pattern[i];
    if (repeats > 1 && (repeats > PATTERN_REPEATS || subject > PATTERN_SUBJECT / (1u << 4 * (repeats - 1))))
        return luaL_error(L, "a pattern with %d repetitions over %d bytes takes too long", repeats,
                          (int)subject);
    int args = lua_gettop(L);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, args, LUA_MULTRET);
    return lua_gettop(L);
}

/* Lua's own text of a table or function holds an address, which differs from run to run. */
static int plain_tostring(lua_State *L) {
    luaL_checkany(L, 1);
    int type = lua_type(L, 1);
    if (type == LUA_TTABLE || type == LUA_TFUNCTION || type == LUA_TUSERDATA)
        return luaL_error(L, "a %s has no text", luaL_typename(L, 1));
    char number[QG_NUMBER_TEXT];
    if (type == LUA_TNUMBER && !lua_isinteger(L, 1) && isfinite(lua_tonumber(L, 1)))
        lua_pushstring(L, qg_number_text(lua_tonumber(L, 1), number));
    else
        luaL_tolstring(L, 1, NULL);
    return 1;
}

static int plain_format(lua_State *L) {
    const char *format = luaL_checkstring(L, 1);
    for (const char *c = format; (c = strchr(c, '%')); c++) {
        c += 1 + strspn(c + 1, "-+ #0123456789.");
        if (*c == 'p') return luaL_error(L, "%%p is not allowed in a format");
        if (!*c) break;
    }
    int top = lua_gettop(L);
    for (int i = 2; i <= top; i++)
        if (lua_type(L, i) >= LUA_TTABLE)
            return luaL_error(L, "argument %d of format is a %s, which has no text", i, luaL_typename(L, i));
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, top, 1);
    return 1;
}

/* In Lua, so that it is counted: a stable merge sort (table.sort draws pivots from the clock, and equal
 * elements end up anywhere), and an order of keys: booleans, numbers by value, strings by bytes. */
static const char SORTING[] =
    "local function sort(a, before) "
    "  before = before or function(x, y) return x < y end "
    "  local n, width = #a, 1 "
    "  while width < n do "
    "    local to = {} "
    "    for low = 1, n, 2 * width do "
    "      local i, j = low, low + width "
    "      local middle, high = low + width, low + 2 * width "
    "      for k = low, (high <= n and high or n + 1) - 1 do "
    "        if i < middle and (j >= high or j > n or not before(a[j], a[i])) then to[k] = a[i] i = i + 1 "
    "        else to[k] = a[j] j = j + 1 end "
    "      end "
    "    end "
    "    for k = 1, n do a[k] = to[k] end "
    "    width = 2 * width "
    "  end "
    "end "
    "local function order(a, b) "
    "  local x, y = type(a), type(b) "
    "  if x ~= y then return x < y end "
    "  if x == 'boolean' then return not a and b end "
    "  return a < b "
    "end "
    "return sort, order";

static int sorted_step(lua_State *L) {
    /* upvalues: table, keys, position */
    lua_Integer i = lua_tointeger(L, lua_upvalueindex(3)) + 1;
    lua_pushinteger(L, i);
    lua_copy(L, -1, lua_upvalueindex(3));
    lua_geti(L, lua_upvalueindex(2), i);
    if (lua_isnil(L, -1)) return 1;
    lua_pushvalue(L, -1);
    lua_gettable(L, lua_upvalueindex(1));
    return 2;
}

static int sorted_pairs(lua_State *L) {
    /* upvalues: sort, order */
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    lua_pushvalue(L, 1);
    lua_newtable(L);
    lua_Integer n = 0;
    lua_pushnil(L);
    while (lua_next(L, 1)) {
        lua_pop(L, 1);
        int type = lua_type(L, -1);
        if (type != LUA_TNUMBER && type != LUA_TSTRING && type != LUA_TBOOLEAN)
            return luaL_error(L, "pairs over a table with a %s as key has no fixed order",
                              luaL_typename(L, -1));
        lua_pushvalue(L, -1);
        lua_seti(L, 3, ++n);
    }
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_pushvalue(L, 3);
    lua_pushvalue(L, lua_upvalueindex(2));
    lua_call(L, 2, 0);
    lua_pushinteger(L, 0);
    lua_pushcclosure(L, sorted_step, 3);
    return 1;
}

/* Copies `names` from the table on top (a standard library) into a new table set as global `to`; pops the
 * library. */
static void keep(lua_State *L, const char *to, const char *const *names) {
    lua_newtable(L);
    for (int i = 0; names[i]; i++) {
        lua_getfield(L, -2, names[i]);
        lua_setfield(L, -2, names[i]);
    }
    lua_setglobal(L, to);
    lua_pop(L, 1);
}

static void open_library(lua_State *L, lua_CFunction open, const char *name, const char *const *names) {
    luaL_requiref(L, name, open, 0);
    keep(L, name, names);
}

static int build_environment(lua_State *L) {
    static const char *const maths[] = {"abs",  "ceil",       "floor",      "fmod", "huge", "max",
                                        "min",  "modf",       "sqrt",       "pi",   "ult",  "tointeger",
                                        "type", "maxinteger", "mininteger", NULL};
    static const char *const strings[] = {"byte",  "char",  "find", "format",  "gmatch", "gsub",  "len",
                                          "lower", "match", "rep",  "reverse", "sub",    "upper", NULL};
    static const char *const tables[] = {"concat", "insert", "pack", "remove", "unpack", NULL};
    static const char *const basics[] = {"assert", "error", "ipairs", "select", "tonumber", "type", NULL};
    static const char *const patterns[] = {"find", "gmatch", "gsub", "match", NULL};

    luaL_requiref(L, "_G", luaopen_base, 0); /* into the table of globals itself */
    keep(L, "basics", basics);
    lua_getglobal(L, "basics");
    int kept = lua_gettop(L);
    open_library(L, luaopen_math, "math", maths);
    open_library(L, luaopen_string, "string", strings);
    open_library(L, luaopen_table, "table", tables);
    lua_getglobal(L, "math");
    lua_getglobal(L, "string");
    lua_getglobal(L, "table");

    /* A fresh table of globals: only what is listed. */
    lua_newtable(L);
    int env = lua_gettop(L);
    for (int i = 0; basics[i]; i++) {
        lua_getfield(L, kept, basics[i]);
        lua_setfield(L, env, basics[i]);
    }
    lua_pushvalue(L, kept + 1);
    lua_setfield(L, env, "math");
    lua_getfield(L, kept + 2, "format");
    lua_pushcclosure(L, plain_format, 1);
    lua_setfield(L, kept + 2, "format");
    for (int i = 0; patterns[i]; i++) {
        lua_getfield(L, kept + 2, patterns[i]);
        lua_pushcclosure(L, limited_pattern, 1);
        lua_setfield(L, kept + 2, patterns[i]);
    }
    lua_pushvalue(L, kept + 2);
    lua_setfield(L, env, "string");
    lua_pushvalue(L, kept + 3);
    lua_setfield(L, env, "table");
    lua_pushcfunction(L, plain_tostring);
    lua_setfield(L, env, "tostring");
    lua_pushcfunction(L, limited_pcall);
    lua_setfield(L, env, "pcall");
    lua_pushcfunction(L, ceildiv);
    lua_setfield(L, env, "ceildiv");
    lua_pushcfunction(L, align);
    lua_setfield(L, env, "align");
    if (luaL_loadbufferx(L, SORTING, sizeof SORTING - 1, "=sorting", "t")) return lua_error(L);
    lua_call(L, 0, 2);
    lua_pushvalue(L, -2);
    lua_setfield(L, kept + 3, "sort");
    lua_pushcclosure(L, sorted_pairs, 2);
    lua_setfield(L, env, "pairs");

    /* "abc":upper() goes through the strings' metatable: let it see the kept functions only. */
    lua_pushliteral(L, "");
    lua_getmetatable(L, -1);
    lua_pushvalue(L, kept + 2);
    lua_setfield(L, -2, "__index");
    lua_settop(L, env);

    lua_pushvalue(L, env);
    lua_rawseti(L, LUA_REGISTRYINDEX, LUA_RIDX_GLOBALS);
    lua_newtable(L); /* forget the libraries that luaL_requiref remembers */
    lua_setfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    return 0;
}

qg_status qg_lua_open(qg_lua *lua, qg_error *err) {
    *lua = (qg_lua){.limit = MEMORY_LIMIT, .instructions_left = INSTRUCTION_LIMIT};
    lua->L = lua_newstate(allocate, lua);
    if (!lua->L) return qg_fail(err, QG_NO_MEMORY, "Lua", "out of memory", "");
    memcpy(lua_getextraspace(lua->L), &lua, sizeof lua);
    lua_pushcfunction(lua->L, build_environment);
    qg_status s = qg_lua_call(lua, 0, 0, "Lua", err);
    if (s) {
        qg_lua_close(lua);
        return s;
    }
    lua_sethook(lua->L, count_instructions, LUA_MASKCOUNT, HOOK_STEP);
    return QG_OK;
}

void qg_lua_close(qg_lua *lua) {
    if (lua->L) lua_close(lua->L);
    lua->L = NULL;
}

static qg_status lua_failed(qg_lua *lua, int code, const char *what, qg_error *err) {
    const char *message = lua_tostring(lua->L, -1);
    qg_status s;
    bool memory = code == LUA_ERRMEM || lua->out_of_memory;
    if (memory && lua->instructions_left <= 0)
        s = qg_failf(err, QG_BAD_INPUT, what, "less work, and less memory taken by it",
                     "more than %d million instructions: an endless loop?",
                     (int)(INSTRUCTION_LIMIT / 1000000));
    else if (memory)
        s = qg_failf(err, QG_BAD_INPUT, what, "less memory", "the template takes more than %zu MiB",
                     MEMORY_LIMIT >> 20);
    else
        s = qg_fail(err, QG_BAD_INPUT, what, message ? message : "an error that is no text", "");
    lua_pop(lua->L, 1);
    return s;
}

qg_status qg_lua_call(qg_lua *lua, int args, int results, const char *what, qg_error *err) {
    lua->calls++;
    int code = lua_pcall(lua->L, args, results, 0);
    lua->calls--;
    return code ? lua_failed(lua, code, what, err) : QG_OK;
}

qg_status qg_lua_load(qg_lua *lua, const char *text, size_t size, const char *name, int env, qg_error *err) {
    char chunk[256] = "=";
    strncat(chunk, name, sizeof chunk - 2);
    if (env) env = lua_absindex(lua->L, env);
    lua->calls++;
    int code = luaL_loadbufferx(lua->L, text, size, chunk, "t");
    lua->calls--;
    if (code) return lua_failed(lua, code, name, err);
    if (env) {
        lua_pushvalue(lua->L, env);
        lua_setupvalue(lua->L, -2, 1);
    }
    return QG_OK;
}
