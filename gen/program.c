#include "gen/program.h"

#include "gen/json_read.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGN = 256, MAX_OPS = 65536, MAX_BUFFERS = 64, MAX_ARGS = 64 };

static const char *const scalar_names[QG_SCALAR_COUNT] = {"batch",    "lda",      "ldh",
                                                          "stride_a", "stride_h", "stride_tau"};
static const char *const pointer_names[QG_PTR_COUNT] = {"A", "H", "tau", "info", "gates"};

/* Index of a name in a table; -1 and a refusal that lists the table otherwise. */
static int find(const char *name, const char *const *names, int count, const qg_where *where, qg_error *err) {
    char fix[256] = "one of";
    for (int i = 0; i < count; i++) {
        if (strcmp(names[i], name) == 0) return i;
        size_t used = strlen(fix);
        snprintf(fix + used, sizeof fix - used, " %s", names[i]);
    }
    qg_failf(err, QG_BAD_INPUT, where->text, fix, "found \"%.80s\"", name);
    return -1;
}

static int find_buffer(const qg_program *p, const char *name, const qg_where *where, qg_error *err) {
    for (int i = 0; i < p->buffer_count; i++)
        if (strcmp(p->buffers[i].name, name) == 0) return i;
    qg_failf(err, QG_BAD_INPUT, where->text, "the name of one of the program's buffers", "found \"%.80s\"",
             name);
    return -1;
}

static qg_status expr_at(const json_t *object, const char *key, qg_expr **out, const qg_where *where,
                         qg_error *err) {
    qg_where at = qg_where_key(where, key);
    return qg_expr_compile(json_object_get(object, key), out, at.text, err);
}

/* A member that may be absent: the expression 0 then. */
static qg_status offset_at(const json_t *object, qg_expr **out, const qg_where *where, qg_error *err) {
    if (json_object_get(object, "offset")) return expr_at(object, "offset", out, where, err);
    json_t *zero = json_integer(0);
    if (!zero) return qg_fail(err, QG_NO_MEMORY, where->text, "out of memory", "");
    qg_status s = qg_expr_compile(zero, out, where->text, err);
    json_decref(zero);
    return s;
}

static qg_status expr_list(const json_t *object, const char *key, size_t low, size_t high, qg_expr **out,
                           int *count, const qg_where *where, qg_error *err) {
    const json_t *list;
    qg_status s = qg_json_array(object, key, &list, where, err);
    qg_where at = qg_where_key(where, key);
    if (s) return s;
    if (json_array_size(list) < low || json_array_size(list) > high)
        return qg_failf(err, QG_BAD_INPUT, at.text, "", "found %zu values where %zu to %zu are allowed",
                        json_array_size(list), low, high);
    for (size_t i = 0; i < json_array_size(list) && !s; i++) {
        qg_where item = qg_where_index(&at, i);
        s = qg_expr_compile(json_array_get(list, i), &out[i], item.text, err);
    }
    *count = (int)json_array_size(list);
    return s;
}

/* {"pointer": NAME} or {"workspace": BUFFER, "offset": EXPR} */
static qg_status parse_base(const qg_program *p, const json_t *value, bool *workspace, qg_pointer *pointer,
                            int *buffer, qg_expr **offset, const qg_where *where, qg_error *err) {
    const char *name;
    qg_status s;
    *workspace = json_object_get(value, "workspace") != NULL;
    if (*workspace ? json_object_get(value, "pointer") : json_object_get(value, "offset"))
        return qg_fail(err, QG_BAD_INPUT, where->text,
                       *workspace ? "both \"pointer\" and \"workspace\"" : "\"offset\" without \"workspace\"",
                       "a pointer, or a workspace buffer with an offset");
    if (!*workspace) {
        if ((s = qg_json_string(value, "pointer", &name, where, err))) return s;
        int i = find(name, pointer_names, QG_PTR_COUNT, where, err);
        *pointer = (qg_pointer)i;
        return i < 0 ? QG_BAD_INPUT : QG_OK;
    }
    if ((s = qg_json_string(value, "workspace", &name, where, err))) return s;
    *buffer = find_buffer(p, name, where, err);
    return *buffer < 0 ? QG_BAD_INPUT : offset_at(value, offset, where, err);
}

static qg_status parse_box(const json_t *value, qg_tensor_map *map, const qg_where *where, qg_error *err) {
    const json_t *box;
    qg_status s = qg_json_array(value, "box", &box, where, err);
    if (s) return s;
    if (json_array_size(box) != (size_t)map->rank)
        return qg_fail(err, QG_BAD_INPUT, where->text, "\"box\" and \"dims\" differ in length", "");
    for (int i = 0; i < map->rank; i++) {
        json_int_t v = json_integer_value(json_array_get(box, (size_t)i));
        if (v < 1 || v > 256)
            return qg_fail(err, QG_BAD_INPUT, where->text, "a box extent is no integer from 1 to 256", "");
        map->box[i] = (int)v;
    }
    return QG_OK;
}

static qg_status parse_map(const qg_program *p, const json_t *value, qg_tensor_map *map,
                           const qg_where *where, qg_error *err) {
    static const char *const keys[] = {"pointer", "workspace", "offset",  "type", "dims",
                                       "strides", "box",       "swizzle", NULL};
    static const char *const types[] = {"f32", "f16"};
    qg_status s = qg_json_keys(value, keys, where, err);
    if (!s)
        s = parse_base(p, value, &map->from_workspace, &map->pointer, &map->buffer, &map->offset, where, err);
    const char *type = NULL;
    if (!s) s = qg_json_string(value, "type", &type, where, err);
    if (s) return s;
    int kind = find(type, types, 2, where, err);
    if (kind < 0) return QG_BAD_INPUT;
    map->element_bytes = kind == 0 ? 4 : 2;
    int strides = 0;
    if ((s = expr_list(value, "dims", 1, 5, map->dims, &map->rank, where, err)) ||
        (s = expr_list(value, "strides", (size_t)map->rank - 1, (size_t)map->rank - 1, map->strides, &strides,
                       where, err)) ||
        (s = parse_box(value, map, where, err)))
        return s;
    int64_t swizzle;
    if ((s = qg_json_integer(value, "swizzle", 0, 128, &swizzle, where, err))) return s;
    if (swizzle != 0 && swizzle != 32 && swizzle != 64 && swizzle != 128)
        return qg_fail(err, QG_BAD_INPUT, where->text, "\"swizzle\" is not 0, 32, 64 or 128", "");
    map->swizzle = (int)swizzle;
    return QG_OK;
}

static qg_status parse_arg(const qg_program *p, const json_t *value, qg_arg *arg, const qg_where *where,
                           qg_error *err) {
    static const char *const keys[] = {"i32",       "i64",    "f32",        "call", "pointer",
                                       "workspace", "offset", "tensor_map", NULL};
    qg_status s = qg_json_keys(value, keys, where, err);
    if (s) return s;
    bool offset = json_object_get(value, "offset") != NULL,
         workspace = json_object_get(value, "workspace") != NULL;
    if (json_object_size(value) != (offset ? 2u : 1u) || (offset && !workspace))
        return qg_fail(err, QG_BAD_INPUT, where->text, "not one kind of argument",
                       "one of i32, i64, f32, call, pointer, workspace (with offset), tensor_map");
    if (json_object_get(value, "i32")) {
        arg->kind = QG_ARG_I32;
        return expr_at(value, "i32", &arg->expr, where, err);
    }
    if (json_object_get(value, "i64")) {
        arg->kind = QG_ARG_I64;
        return expr_at(value, "i64", &arg->expr, where, err);
    }
    if (json_object_get(value, "f32")) {
        double x;
        arg->kind = QG_ARG_F32;
        s = qg_json_number(value, "f32", -3.4028234663852886e38, 3.4028234663852886e38, &x, where, err);
        arg->f32 = s ? 0 : (float)x;
        return s;
    }
    if (json_object_get(value, "call")) {
        const char *name;
        arg->kind = QG_ARG_CALL;
        if ((s = qg_json_string(value, "call", &name, where, err))) return s;
        int i = find(name, scalar_names, QG_SCALAR_COUNT, where, err);
        arg->scalar = (qg_scalar)i;
        return i < 0 ? QG_BAD_INPUT : QG_OK;
    }
    if (json_object_get(value, "tensor_map")) {
        qg_where at = qg_where_key(where, "tensor_map");
        arg->kind = QG_ARG_TENSOR_MAP;
        arg->map = calloc(1, sizeof *arg->map);
        if (!arg->map) return qg_fail(err, QG_NO_MEMORY, where->text, "out of memory", "");
        return parse_map(p, json_object_get(value, "tensor_map"), arg->map, &at, err);
    }
    arg->kind = workspace ? QG_ARG_WORKSPACE : QG_ARG_POINTER;
    return parse_base(p, value, &workspace, &arg->pointer, &arg->buffer, &arg->expr, where, err);
}

static qg_status parse_launch(const qg_program *p, const json_t *value, qg_op *op, const qg_where *where,
                              qg_error *err) {
    static const char *const keys[] = {"op",   "kernel",      "grid",  "block", "cluster",
                                       "smem", "cooperative", "early", "args",  NULL};
    const char *kernel = NULL;
    const json_t *args;
    int64_t block, cluster;
    int grid = 0;
    qg_status s;
    op->kind = QG_OP_LAUNCH;
    if ((s = qg_json_keys(value, keys, where, err)) ||
        (s = qg_json_string(value, "kernel", &kernel, where, err)) ||
        (s = expr_list(value, "grid", 3, 3, op->grid, &grid, where, err)) ||
        (s = qg_json_integer(value, "block", 1, 1024, &block, where, err)) ||
        (s = qg_json_integer(value, "cluster", 1, 16, &cluster, where, err)) ||
        (s = expr_at(value, "smem", &op->smem, where, err)) ||
        (s = qg_json_bool(value, "cooperative", &op->cooperative, where, err)) ||
        (json_object_get(value, "early") && (s = qg_json_bool(value, "early", &op->early, where, err))) ||
        (s = qg_json_array(value, "args", &args, where, err)))
        return s;
    if (json_array_size(args) > MAX_ARGS)
        return qg_failf(err, QG_BAD_INPUT, where->text, "", "more than %d arguments", MAX_ARGS);
    op->block = (int)block;
    op->cluster = (int)cluster;
    op->kernel = strdup(kernel);
    op->args = calloc(json_array_size(args) + 1, sizeof *op->args);
    if (!op->kernel || !op->args) return qg_fail(err, QG_NO_MEMORY, where->text, "out of memory", "");
    qg_where list = qg_where_key(where, "args");
    for (size_t i = 0; i < json_array_size(args) && !s; i++) {
        qg_where at = qg_where_index(&list, i);
        op->arg_count++;
        s = parse_arg(p, json_array_get(args, i), &op->args[i], &at, err);
    }
    return s;
}

static qg_status parse_clear(const qg_program *p, const json_t *value, qg_op *op, const qg_where *where,
                             qg_error *err) {
    static const char *const keys[] = {"op", "buffer", "offset", "bytes", NULL};
    const char *buffer;
    qg_status s;
    op->kind = QG_OP_CLEAR;
    if ((s = qg_json_keys(value, keys, where, err)) ||
        (s = qg_json_string(value, "buffer", &buffer, where, err)))
        return s;
    op->buffer = find_buffer(p, buffer, where, err);
    if (op->buffer < 0) return QG_BAD_INPUT;
    if ((s = offset_at(value, &op->offset, where, err))) return s;
    return expr_at(value, "bytes", &op->bytes, where, err);
}

static qg_status parse_buffers(qg_program *p, const json_t *root, const qg_where *where, qg_error *err) {
    static const char *const keys[] = {"name", "bytes", NULL};
    const json_t *list;
    qg_status s = qg_json_array(root, "buffers", &list, where, err);
    if (s) return s;
    qg_where at = qg_where_key(where, "buffers");
    if (json_array_size(list) > MAX_BUFFERS)
        return qg_failf(err, QG_BAD_INPUT, at.text, "", "more than %d buffers", MAX_BUFFERS);
    p->buffers = calloc(json_array_size(list) + 1, sizeof *p->buffers);
    if (!p->buffers) return qg_fail(err, QG_NO_MEMORY, at.text, "out of memory", "");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *value = json_array_get(list, i);
        qg_where item = qg_where_index(&at, i);
        const char *name;
        if ((s = qg_json_keys(value, keys, &item, err)) ||
            (s = qg_json_string(value, "name", &name, &item, err)))
            return s;
        for (int k = 0; k < p->buffer_count; k++)
            if (strcmp(p->buffers[k].name, name) == 0)
                return qg_failf(err, QG_BAD_INPUT, item.text, "", "a second buffer \"%.80s\"", name);
        qg_buffer *b = &p->buffers[p->buffer_count++];
        if (!(b->name = strdup(name))) return qg_fail(err, QG_NO_MEMORY, item.text, "out of memory", "");
        if ((s = expr_at(value, "bytes", &b->bytes, &item, err))) return s;
    }
    return QG_OK;
}

static qg_status parse_ops(qg_program *p, const json_t *root, const qg_where *where, qg_error *err) {
    static const char *const kinds[] = {"launch", "clear"};
    const json_t *list;
    qg_status s = qg_json_array(root, "ops", &list, where, err);
    if (s) return s;
    qg_where at = qg_where_key(where, "ops");
    if (json_array_size(list) > MAX_OPS)
        return qg_failf(err, QG_BAD_INPUT, at.text, "", "more than %d operations", MAX_OPS);
    p->ops = calloc(json_array_size(list) + 1, sizeof *p->ops);
    if (!p->ops) return qg_fail(err, QG_NO_MEMORY, at.text, "out of memory", "");
    for (size_t i = 0; i < json_array_size(list) && !s; i++) {
        const json_t *value = json_array_get(list, i);
        qg_where item = qg_where_index(&at, i);
        const char *kind;
        if ((s = qg_json_string(value, "op", &kind, &item, err))) return s;
        int k = find(kind, kinds, 2, &item, err);
        if (k < 0) return QG_BAD_INPUT;
        qg_op *op = &p->ops[p->op_count++];
        s = k == 0 ? parse_launch(p, value, op, &item, err) : parse_clear(p, value, op, &item, err);
    }
    return s;
}

qg_status qg_program_parse(const json_t *root, const char *where, qg_program **out, qg_error *err) {
    static const char *const keys[] = {"format", "buffers", "ops", NULL};
    qg_where at = qg_where_root(where);
    qg_program *p = calloc(1, sizeof *p);
    if (!p) return qg_fail(err, QG_NO_MEMORY, where, "out of memory", "");
    qg_status s;
    if ((s = qg_json_keys(root, keys, &at, err)) || (s = qg_json_format(root, QG_PROGRAM_FORMAT, &at, err)) ||
        (s = parse_buffers(p, root, &at, err)) || (s = parse_ops(p, root, &at, err))) {
        qg_program_free(p);
        return s;
    }
    *out = p;
    return QG_OK;
}

static void free_map(qg_tensor_map *map) {
    if (!map) return;
    qg_expr_free(map->offset);
    for (int i = 0; i < 5; i++)
        qg_expr_free(map->dims[i]);
    for (int i = 0; i < 4; i++)
        qg_expr_free(map->strides[i]);
    free(map);
}

void qg_program_free(qg_program *p) {
    if (!p) return;
    for (int i = 0; i < p->buffer_count; i++) {
        free(p->buffers[i].name);
        qg_expr_free(p->buffers[i].bytes);
    }
    for (int i = 0; i < p->op_count; i++) {
        qg_op *op = &p->ops[i];
        qg_expr_free(op->offset);
        qg_expr_free(op->bytes);
        qg_expr_free(op->smem);
        for (int k = 0; k < 3; k++)
            qg_expr_free(op->grid[k]);
        for (int k = 0; k < op->arg_count; k++) {
            qg_expr_free(op->args[k].expr);
            free_map(op->args[k].map);
        }
        free(op->args);
        free(op->kernel);
    }
    free(p->buffers);
    free(p->ops);
    free(p);
}

qg_status qg_program_workspace(const qg_program *p, const qg_call *call, const qg_device *dev, int64_t *total,
                               int64_t *offsets, qg_error *err) {
    int64_t at = 0;
    for (int i = 0; i < p->buffer_count; i++) {
        int64_t bytes, end;
        qg_status s = qg_expr_eval(p->buffers[i].bytes, call, dev, &bytes, err);
        if (s) return s;
        if (bytes < 0 || __builtin_add_overflow(at, bytes, &end) ||
            __builtin_add_overflow(end, ALIGN - 1, &end))
            return qg_failf(err, QG_BAD_INPUT, p->buffers[i].name, "a smaller batch",
                            "a buffer of %lld bytes", (long long)bytes);
        if (offsets) offsets[i] = at;
        at = end / ALIGN * ALIGN;
    }
    *total = at;
    return QG_OK;
}
