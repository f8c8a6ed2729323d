#include "gen/plan.h"

#include "gen/family.h"
#include "gen/library.h"
#include "gen/lua_json.h"
#include "gen/number.h"
#include "gen/template.h"
#include "gen/tuned.h"

#include <inttypes.h>
#include <lauxlib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A plan in the making. On the Lua stack: FAMILY, SHAPE, DEVICE, PARAMS, then VARS. */
typedef struct making {
    const qg_library *lib;
    const qg_shape *shape;
    const qg_device *dev;
    qg_lua lua;
    qg_family family;
    qg_error *err;
} making;

enum { FAMILY = 1, SHAPE, DEVICE, PARAMS, VARS };
enum { MAX_THREADS = 1024, MAX_CLUSTER = 16 };

static void set_integer(lua_State *L, const char *name, int64_t v) {
    lua_pushinteger(L, v);
    lua_setfield(L, -2, name);
}

static void set_string(lua_State *L, const char *name, const char *v) {
    lua_pushstring(L, v);
    lua_setfield(L, -2, name);
}

static void push_shape(lua_State *L, const qg_shape *s) {
    lua_newtable(L);
    set_integer(L, "m", s->m);
    set_integer(L, "n", s->n);
    set_integer(L, "k", s->m < s->n ? s->m : s->n);
    set_string(L, "layout_in", qg_layout_name(s->layout_in));
    set_string(L, "layout_out", qg_layout_name(s->layout_out));
    set_string(L, "precision", qg_precision_name(s->precision));
    set_string(L, "op", qg_operation_name(s->operation));
    /* Plans that must not depend on the batch see one and the same value. */
    set_integer(L, "max_batch", s->batch_invariant ? 64 : s->max_batch);
    lua_pushboolean(L, s->batch_invariant);
    lua_setfield(L, -2, "batch_invariant");
}

static void push_device(lua_State *L, const qg_device *d) {
    lua_newtable(L);
    set_integer(L, "arch", d->arch);
    set_integer(L, "sms", d->sms);
    set_integer(L, "smem_optin", d->smem_optin);
    set_integer(L, "smem_sm", d->smem_sm);
    set_integer(L, "regs", d->regs);
    set_integer(L, "l2", d->l2);
    set_integer(L, "max_cluster", d->max_cluster);
    set_integer(L, "memory", d->memory);
}

/* Pushes family.NAME and the arguments SHAPE, DEVICE and, from the third on, what follows them; calls it. */
static qg_status call_member(making *k, const char *name, int args, int results) {
    lua_State *L = k->lua.L;
    lua_getfield(L, FAMILY, name);
    for (int i = 0; i < args; i++)
        lua_pushvalue(L, SHAPE + i);
    return qg_lua_call(&k->lua, args, results, k->family.file->path, k->err);
}

/* ---- parameters */

/* The value on top becomes the list's own (32.0 is 32 there, and prints as that); false: not in the list. */
static bool take_legal_value(lua_State *L, int values) {
    for (lua_Integer i = 1, n = (lua_Integer)lua_rawlen(L, values); i <= n; i++) {
        lua_geti(L, values, i);
        if (lua_rawequal(L, -1, -2)) {
            lua_remove(L, -2);
            return true;
        }
        lua_pop(L, 1);
    }
    return false;
}

static qg_status refuse_value(making *k, const char *name, int values) {
    const char *why;
    json_t *list = qg_lua_to_json(k->lua.L, values, &why), *found = qg_lua_to_json(k->lua.L, -1, &why);
    char *allowed = json_dumps(list, JSON_ENCODE_ANY), *value = json_dumps(found, JSON_ENCODE_ANY);
    char what[160], fix[400];
    snprintf(what, sizeof what, "family %.40s, parameter %.60s", k->family.file->path, name);
    snprintf(fix, sizeof fix, "one of %.380s", allowed ? allowed : "?");
    qg_status s = qg_failf(k->err, QG_BAD_INPUT, what, fix, "found %s", value ? value : "no JSON value");
    free(allowed);
    free(value);
    json_decref(list);
    json_decref(found);
    return s;
}

/* The i-th entry of params is on top: sets its value in PARAMS. */
static qg_status choose_param(making *k, const json_t *forced) {
    lua_State *L = k->lua.L;
    int param = lua_gettop(L);
    lua_getfield(L, param, "name");
    lua_getfield(L, param, "values");
    int values = lua_gettop(L);
    const char *name = lua_tostring(L, param + 1);
    if (!name || !lua_istable(L, values))
        return qg_fail(k->err, QG_BAD_INPUT, k->family.file->path, "a parameter lacks its name or values",
                       "");
    json_t *given = json_object_get(forced, name);
    if (given) {
        qg_lua_push_json(L, given);
    } else {
        lua_getfield(L, param, "default");
        lua_pushvalue(L, SHAPE);
        lua_pushvalue(L, DEVICE);
        lua_pushvalue(L, PARAMS); /* those before it in the list */
        qg_status s = qg_lua_call(&k->lua, 3, 1, k->family.file->path, k->err);
        if (s) return s;
    }
    if (!take_legal_value(L, values)) return refuse_value(k, name, values);
    lua_setfield(L, PARAMS, name);
    return QG_OK;
}

static qg_status refuse_unknown_params(making *k, const json_t *forced) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)forced, key, value) {
        bool known = lua_getfield(k->lua.L, PARAMS, key) != LUA_TNIL;
        lua_pop(k->lua.L, 1);
        if (!known)
            return qg_failf(k->err, QG_BAD_INPUT, k->family.file->path, "see `qrsmith families`",
                            "the family has no parameter \"%.60s\"", key);
    }
    return QG_OK;
}

static qg_status choose_params(making *k, const json_t *forced) {
    lua_State *L = k->lua.L;
    lua_settop(L, DEVICE);
    lua_newtable(L);
    lua_getfield(L, FAMILY, "params");
    int list = lua_gettop(L);
    qg_status s = QG_OK;
    for (lua_Integer i = 1, n = (lua_Integer)lua_rawlen(L, list); i <= n && !s; i++) {
        lua_geti(L, list, i);
        s = choose_param(k, forced);
        lua_settop(L, list);
    }
    if (!s && forced) s = refuse_unknown_params(k, forced);
    lua_settop(L, PARAMS);
    return s;
}

/* ---- choice */

static qg_status check_operation(making *k) {
    lua_getfield(k->lua.L, FAMILY, "op");
    bool same = strcmp(lua_tostring(k->lua.L, -1), qg_operation_name(k->shape->operation)) == 0;
    lua_pop(k->lua.L, 1);
    return same ? QG_OK
                : qg_failf(k->err, QG_BAD_INPUT, k->family.file->path, "see `qrsmith families`",
                           "the family does not serve the operation %s",
                           qg_operation_name(k->shape->operation));
}

static qg_status check_legal(making *k) {
    lua_State *L = k->lua.L;
    qg_status s = call_member(k, "legal", 3, 2);
    if (s) return s;
    if (!lua_toboolean(L, -2)) {
        const char *why = lua_tostring(L, -1);
        char name[96];
        s = qg_failf(k->err, QG_UNSUPPORTED, qg_shape_name(k->shape, name, sizeof name),
                     "another family or other parameters; `qrsmith families` lists them", "%s refuses: %s",
                     k->family.file->path, why ? why : "no reason given");
    }
    lua_settop(L, PARAMS);
    return s;
}

/* What the family says it takes must be there. */
static qg_status check_resources(making *k) {
    lua_State *L = k->lua.L;
    const struct {
        const char *name, *unit;
        int64_t available;
    } limits[] = {{"smem", "bytes of shared memory a block", k->dev->smem_optin},
                  {"threads", "threads a block", MAX_THREADS},
                  {"cluster", "blocks a cluster", MAX_CLUSTER}};
    qg_status s = call_member(k, "resources", 3, 1);
    if (!s && !lua_istable(L, -1))
        s = qg_fail(k->err, QG_BAD_INPUT, k->family.file->path, "resources does not return a table", "");
    for (size_t i = 0; i < sizeof limits / sizeof *limits && !s; i++) {
        lua_getfield(L, -1, limits[i].name);
        lua_Integer asked = lua_tointeger(L, -1);
        lua_pop(L, 1);
        if (asked > limits[i].available)
            s = qg_failf(k->err, QG_UNSUPPORTED, k->family.file->path, "other parameters or another family",
                         "it asks for %lld %s, %s has %lld", (long long)asked, limits[i].unit, k->dev->name,
                         (long long)limits[i].available);
    }
    lua_settop(L, PARAMS);
    return s;
}

/* Loads the family into FAMILY with SHAPE, DEVICE and PARAMS above it, and asks whether it is legal. */
static qg_status try_family(making *k, const qg_file *file, const json_t *params) {
    /* A state of its own: what one family defines or uses up must not touch the next. */
    qg_lua_close(&k->lua);
    qg_status s = qg_lua_open(&k->lua, k->err);
    if (!s) s = qg_family_load(&k->lua, k->lib, file, &k->family, k->err);
    if (s) return s;
    lua_State *L = k->lua.L;
    push_shape(L, k->shape);
    push_device(L, k->dev);
    if ((s = check_operation(k)) || (s = choose_params(k, params))) return s;
    if ((s = check_legal(k))) return s;
    return check_resources(k);
}

static const qg_file *family_file(const qg_library *lib, const char *name) {
    char path[160];
    snprintf(path, sizeof path, "families/%.120s.lua", name);
    return qg_library_find(lib, path);
}

static qg_status try_tuned(making *k, qg_grade *grade) {
    bool exact = false;
    const json_t *entry;
    for (int i = 0; (entry = qg_tuned_find(k->lib, k->shape, k->dev, i, &exact)); i++) {
        const qg_file *file = family_file(k->lib, json_string_value(json_object_get(entry, "family")));
        if (file && !try_family(k, file, json_object_get(entry, "params"))) {
            *grade = exact ? QG_GRADE_TUNED : QG_GRADE_NEAREST;
            return QG_OK;
        }
    }
    return QG_UNSUPPORTED;
}

/* The legal family of highest rank; equal ranks go by name. */
static qg_status try_defaults(making *k) {
    const qg_file *best = NULL;
    double best_rank = 0;
    qg_error first = {0}, e;
    qg_error *err = k->err;
    char reasons[1536] = "";
    k->err = &e;
    for (int i = 0; i < k->lib->file_count; i++) {
        const qg_file *file = &k->lib->files[i];
        if (!qg_family_is_file(file->path)) continue;
        qg_status s = try_family(k, file, NULL);
        if (!s) s = call_member(k, "rank", 2, 1);
        if (s) {
            /* A broken family file is worth reporting; one that does not serve the shape is not. */
            if (s != QG_UNSUPPORTED && s != QG_OK && !strstr(e.why, "does not serve") && !first.status)
                first = e;
            size_t used = strlen(reasons);
            if (s == QG_UNSUPPORTED) snprintf(reasons + used, sizeof reasons - used, "; %.300s", e.why);
            continue;
        }
        double rank = lua_tonumber(k->lua.L, -1);
        if (!best || rank > best_rank) {
            best = file;
            best_rank = rank;
        }
    }
    k->err = err;
    if (best) return try_family(k, best, NULL);
    if (first.status && err) *err = first;
    if (first.status) return first.status;
    char name[96];
    return qg_failf(err, QG_UNSUPPORTED, qg_shape_name(k->shape, name, sizeof name), "",
                    "no family serves this shape on %s%s", k->dev->name, reasons);
}

static qg_status choose(making *k, const qg_request *request, qg_grade *grade) {
    *grade = QG_GRADE_REQUESTED;
    if (request && request->family) {
        const qg_file *file = family_file(k->lib, request->family);
        if (!file)
            return qg_failf(k->err, QG_BAD_INPUT, "family", "see `qrsmith families`",
                            "there is no family \"%.60s\"", request->family);
        return try_family(k, file, request->params);
    }
    if (request && request->params && json_object_size(request->params))
        return qg_fail(k->err, QG_BAD_INPUT, "params", "parameters are given but no family",
                       "name the family too");
    qg_error *err = k->err, unused;
    k->err = &unused;
    qg_status s = try_tuned(k, grade);
    k->err = err;
    if (!s) return QG_OK;
    *grade = QG_GRADE_DEFAULT;
    return try_defaults(k);
}

/* ---- results */

static qg_status take_json(making *k, const char *what, json_t **out) {
    const char *why;
    *out = qg_lua_to_json(k->lua.L, -1, &why);
    lua_pop(k->lua.L, 1);
    return *out ? QG_OK : qg_failf(k->err, QG_BAD_INPUT, k->family.file->path, "", "%s: %s", what, why);
}

static qg_status make_program(making *k, qg_plan *plan) {
    lua_State *L = k->lua.L;
    json_t *all = NULL;
    qg_status s = call_member(k, "program", 4, 1);
    if (!s) s = take_json(k, "program", &all);
    if (s) return s;
    const char *products = json_string_value(json_object_get(all, "products"));
    if (!products) {
        json_decref(all);
        return qg_fail(k->err, QG_BAD_INPUT, k->family.file->path,
                       "program: there is no string \"products\" in what it returns",
                       "how trailing products are formed: \"fp32\", \"1\", \"2\" or \"3\"");
    }
    plan->products = strdup(products);
    json_object_del(all, "products");
    json_object_set_new(all, "format", json_string(QG_PROGRAM_FORMAT));
    plan->program_json = all;
    char where[200];
    snprintf(where, sizeof where, "%.150s: program", k->family.file->path);
    (void)L;
    return qg_program_parse(all, where, &plan->program, k->err);
}

/* A launch must fit the device at the largest batch that the plan is for. */
static qg_status check_launches(making *k, const qg_plan *plan) {
    const qg_shape *shape = k->shape;
    int64_t lda = shape->layout_in == QG_ROW ? shape->n : shape->m,
            ldh = shape->layout_out == QG_ROW ? shape->n : shape->m;
    const qg_call call = {.scalar = {[QG_BATCH] = shape->max_batch, [QG_LDA] = lda, [QG_LDH] = ldh}};
    for (int i = 0; i < plan->program->op_count; i++) {
        const qg_op *op = &plan->program->ops[i];
        int64_t smem = 0;
        if (op->kind != QG_OP_LAUNCH) continue;
        qg_status s = qg_expr_eval(op->smem, &call, k->dev, &smem, k->err);
        if (s) return s;
        bool cluster = op->cluster > 1 && k->dev->max_cluster == 1;
        if (!cluster && smem >= 0 && smem <= k->dev->smem_optin) continue;
        return qg_failf(k->err, QG_UNSUPPORTED, k->family.file->path, "other parameters or another family",
                        "kernel %.80s asks for %lld bytes of shared memory and clusters of %d, %s has %lld "
                        "and %lld",
                        op->kernel, (long long)smem, op->cluster, k->dev->name, (long long)k->dev->smem_optin,
                        (long long)k->dev->max_cluster);
    }
    return QG_OK;
}

static const char *find_template(void *user, const char *path, size_t *size) {
    const qg_file *f = qg_library_find(user, path);
    if (f) *size = f->size;
    return f ? f->data : NULL;
}

/* The template's environment: the sandbox's globals behind shape, device, p and the family's vars. */
static void push_environment(lua_State *L) {
    lua_newtable(L);
    lua_newtable(L);
    lua_pushglobaltable(L);
    lua_setfield(L, -2, "__index");
    lua_setmetatable(L, -2);
    lua_pushvalue(L, SHAPE);
    lua_setfield(L, -2, "shape");
    lua_pushvalue(L, DEVICE);
    lua_setfield(L, -2, "device");
    lua_pushvalue(L, PARAMS);
    lua_setfield(L, -2, "p");
    lua_pushnil(L);
    while (lua_next(L, VARS)) {
        lua_pushvalue(L, -2);
        lua_insert(L, -2);
        lua_settable(L, -4);
    }
}

static qg_status render(making *k, qg_plan *plan) {
    qg_text out = {0};
    qg_template_source source = {find_template, (void *)(uintptr_t)k->lib};
    push_environment(k->lua.L);
    qg_status s = qg_template_render(&k->lua, &source, k->family.source, k->family.source_size,
                                     k->family.file->path, k->family.source_line, -1, &out, k->err);
    if (!s && !out.data && !qg_text_put(&out, "", 0))
        s = qg_fail(k->err, QG_NO_MEMORY, k->family.file->path, "out of memory", "");
    if (s) {
        qg_text_free(&out);
        return s;
    }
    plan->source = out.data;
    plan->source_size = out.size;
    return QG_OK;
}

static qg_status name_plan(making *k, qg_plan *plan) {
    char *program = json_dumps(plan->program_json, JSON_COMPACT | JSON_SORT_KEYS);
    if (!program) return qg_fail(k->err, QG_NO_MEMORY, "plan", "out of memory", "");
    uint64_t hash = qg_hash(QG_HASH_START, plan->source, plan->source_size);
    hash = qg_hash(hash, program, strlen(program));
    free(program);
    char shape[96], name[224];
    qg_shape_name(&plan->shape, shape, sizeof shape);
    snprintf(name, sizeof name, "%s_%.60s_%08" PRIx32, shape, plan->family, (uint32_t)(hash ^ hash >> 32));
    plan->name = strdup(name);
    return plan->name ? QG_OK : qg_fail(k->err, QG_NO_MEMORY, "plan", "out of memory", "");
}

static qg_status fill(making *k, qg_plan *plan) {
    lua_State *L = k->lua.L;
    qg_status s;
    lua_getfield(L, FAMILY, "name");
    plan->family = strdup(lua_tostring(L, -1));
    lua_settop(L, PARAMS);
    if (!plan->family) return qg_fail(k->err, QG_NO_MEMORY, "plan", "out of memory", "");
    lua_pushvalue(L, PARAMS);
    if ((s = take_json(k, "params", &plan->params))) return s;
    if (json_is_array(plan->params)) { /* an empty table could be either */
        json_decref(plan->params);
        plan->params = json_object();
    }
    if ((s = call_member(k, "resources", 3, 1)) || (s = take_json(k, "resources", &plan->resources)) ||
        (s = call_member(k, "vars", 3, 1)))
        return s;
    if (!lua_istable(L, VARS))
        return qg_fail(k->err, QG_BAD_INPUT, k->family.file->path, "vars does not return a table", "");
    if ((s = make_program(k, plan)) || (s = check_launches(k, plan)) || (s = render(k, plan))) return s;
    return name_plan(k, plan);
}

static qg_status check_shape(const qg_shape *s, qg_error *err) {
    if (s->m < 0 || s->n < 0 || s->m > QG_MAX_DIM || s->n > QG_MAX_DIM)
        return qg_failf(err, QG_BAD_INPUT, "shape", "0 to 1048576 rows and columns", "%lld x %lld",
                        (long long)s->m, (long long)s->n);
    if (s->max_batch < 1)
        return qg_failf(err, QG_BAD_INPUT, "shape", "at least 1", "max_batch %lld", (long long)s->max_batch);
    return QG_OK;
}

qg_status qg_plan_make(const qg_library *lib, const qg_shape *shape, const qg_device *dev,
                       const qg_request *request, qg_plan **out, qg_error *err) {
    qg_error unused;
    making k = {.lib = lib, .shape = shape, .dev = dev, .err = err ? err : &unused};
    qg_status s = check_shape(shape, err);
    if (s) return s;
    qg_plan *plan = calloc(1, sizeof *plan);
    if (!plan) return qg_fail(err, QG_NO_MEMORY, "plan", "out of memory", "");
    plan->shape = *shape;
    plan->device = *dev;
    qg_c_locale locale;
    qg_c_locale_enter(&locale);
    s = choose(&k, request, &plan->grade);
    if (!s) s = fill(&k, plan);
    qg_lua_close(&k.lua);
    qg_c_locale_leave(&locale);
    if (s)
        qg_plan_free(plan);
    else
        *out = plan;
    return s;
}

void qg_plan_free(qg_plan *plan) {
    if (!plan) return;
    free(plan->name);
    free(plan->family);
    json_decref(plan->params);
    json_decref(plan->resources);
    free(plan->products);
    free(plan->source);
    json_decref(plan->program_json);
    qg_program_free(plan->program);
    free(plan);
}

const char *qg_grade_name(qg_grade g) {
    static const char *const names[] = {"requested", "tuned", "nearest", "default"};
    return names[g];
}
