/* Launch programs on a stream. The hot path: no allocation, no lock, nothing remembered. */
#include "runtime/module_inside.h"
#include <limits.h>
#include <stdio.h>
#include <string.h>

typedef struct frame { /* one call in progress */
    const qrt_module *module;
    const qg_call *call;
    const qg_device *dev;
    const qrt_driver *driver;
    void *stream;
    int64_t offsets[QRT_MAX_BUFFERS];
} frame;

typedef struct arguments { /* of one launch */
    void *pointers[QRT_MAX_ARGS];
    union {
        int32_t i32;
        int64_t i64;
        float f32;
        void *pointer;
    } values[QRT_MAX_ARGS];
    qrt_tensor_map maps[QRT_MAX_MAPS];
    int map_count;
} arguments;

qg_status qrt_value_get(const qrt_value *value, const qg_call *call, const qg_device *dev, int64_t *out,
                        qg_error *err) {
    *out = value->constant;
    return value->expr ? qg_expr_eval(value->expr, call, dev, out, err) : QG_OK;
}

static qg_status evaluate(const frame *f, const qg_expr *expr, int64_t *out, qg_error *err) {
    *out = 0;
    return expr ? qg_expr_eval(expr, f->call, f->dev, out, err) : QG_OK;
}

qg_status qrt_op_grid(const qrt_module *module, const qrt_op *op, const qg_call *call, unsigned grid[3],
                      bool *empty, qg_error *err) {
    static const int64_t limit[3] = {INT_MAX, 65535, 65535};
    *empty = false;
    for (int i = 0; i < 3; i++) {
        int64_t extent;
        qg_status status = qrt_value_get(&op->grid[i], call, qrt_device_record(module->dev), &extent, err);
        if (status) return status;
        if (extent < 0 || extent > limit[i])
            return qg_failf(err, QG_UNSUPPORTED, module->plan->name, "use a smaller batch",
                            "kernel %s needs grid.%c = %lld, possible is 0 to %lld", op->op->kernel, "xyz"[i],
                            (long long)extent, (long long)limit[i]);
        grid[i] = (unsigned)extent;
        *empty = *empty || !extent;
    }
    return QG_OK;
}

/* ------------------------------------------------------------------------------------------ arguments */

static void *buffer_at(const frame *f, int buffer, int64_t offset) {
    return (char *)f->call->workspace + f->offsets[buffer] + offset;
}

static qg_status encode_map(const frame *f, const qg_tensor_map *map, qrt_tensor_map *out, qg_error *err) {
    uint64_t dims[5] = {0}, strides[5] = {0};
    uint32_t box[5], ones[5];
    int64_t value = 0;
    qg_status status = QG_OK;
    for (int i = 0; !status && i < map->rank; i++) {
        status = evaluate(f, map->dims[i], &value, err);
        dims[i] = (uint64_t)value;
        box[i] = (uint32_t)map->box[i];
        ones[i] = 1;
        if (status || i + 1 == map->rank) continue;
        status = evaluate(f, map->strides[i], &value, err);
        strides[i] = (uint64_t)value;
    }
    if (!status) status = evaluate(f, map->offset, &value, err);
    if (status) return status;
    void *base = map->from_workspace ? buffer_at(f, map->buffer, value)
                                     : (char *)f->call->pointer[map->pointer] + value;
    if (!f->driver->encode_tiled)
        return qg_fail(err, QG_ENVIRONMENT, f->module->plan->name, "the driver has no cuTensorMapEncodeTiled",
                       "update the driver");
    int type = map->element_bytes == 2 ? QRT_TENSOR_FLOAT16 : QRT_TENSOR_FLOAT32;
    int swizzle = map->swizzle == 128 ? 3 : map->swizzle / 32;
    int result = f->driver->encode_tiled(out, type, (uint32_t)map->rank, base, dims, strides, box, ones, 0,
                                         swizzle, QRT_TENSOR_L2_128B, 0);
    return result ? qrt_driver_check(f->driver, result, "a tensor map", err) : QG_OK;
}

static qg_status number_argument(const frame *f, const qrt_arg *a, arguments *to, int i, qg_error *err) {
    int64_t value;
    qg_status status = qrt_value_get(&a->value, f->call, f->dev, &value, err);
    if (status) return status;
    if (a->arg->kind == QG_ARG_WORKSPACE) {
        to->values[i].pointer = buffer_at(f, a->arg->buffer, value);
    } else if (a->arg->kind == QG_ARG_I64) {
        to->values[i].i64 = value;
    } else if (value < INT32_MIN || value > INT32_MAX) {
        return qg_failf(err, QG_UNSUPPORTED, f->module->plan->name, "", "argument %d is %lld, over 32 bits",
                        i, (long long)value);
    } else {
        to->values[i].i32 = (int32_t)value;
    }
    return QG_OK;
}

static qg_status lay_out(const frame *f, const qrt_op *op, arguments *to, qg_error *err) {
    to->map_count = 0;
    for (int i = 0; i < op->op->arg_count; i++) {
        const qrt_arg *a = &op->args[i];
        qg_status status = QG_OK;
        to->pointers[i] = &to->values[i];
        switch (a->arg->kind) {
        case QG_ARG_F32:
            to->values[i].f32 = a->arg->f32;
            break;
        case QG_ARG_CALL:
            to->values[i].i64 = f->call->scalar[a->arg->scalar];
            break;
        case QG_ARG_POINTER:
            to->values[i].pointer = f->call->pointer[a->arg->pointer];
            break;
        case QG_ARG_TENSOR_MAP:
            to->pointers[i] = &to->maps[to->map_count];
            status = encode_map(f, a->arg->map, &to->maps[to->map_count++], err);
            break;
        default:
            status = number_argument(f, a, to, i, err);
        }
        if (status) return status;
    }
    return QG_OK;
}

/* ------------------------------------------------------------------------------------------ operations */

static qg_status launch(const frame *f, const qrt_op *op, arguments *to, qg_error *err) {
    const qrt_function *function = &f->module->functions[op->function];
    unsigned grid[3];
    bool empty;
    int64_t smem;
    qg_status status = qrt_op_grid(f->module, op, f->call, grid, &empty, err);
    if (status || empty) return status;
    status = qrt_value_get(&op->smem, f->call, f->dev, &smem, err);
    if (!status) status = lay_out(f, op, to, err);
    if (status) return status;
    if (smem < 0 || smem > function->smem)
        return qg_failf(err, QG_INTERNAL, f->module->plan->name, "",
                        "kernel %s asks for %lld bytes of shared memory in this call, %lld were opted in to",
                        op->op->kernel, (long long)smem, (long long)function->smem);
    qrt_launch_attribute attributes[QRT_LAUNCH_ATTRIBUTES];
    memcpy(attributes, op->attributes, sizeof attributes);
    qrt_launch_config config = {.grid = {grid[0], grid[1], grid[2]},
                                .block = {(unsigned)op->op->block, 1, 1},
                                .smem = (unsigned)smem,
                                .stream = f->stream,
                                .attributes = attributes,
                                .attribute_count = op->attribute_count};
    int result = f->driver->launch(&config, function->handle, to->pointers, NULL);
    return result ? qrt_driver_check(f->driver, result, op->op->kernel, err) : QG_OK;
}

static qg_status clear(const frame *f, const qrt_op *op, qg_error *err) {
    int64_t offset, bytes;
    qg_status status = qrt_value_get(&op->offset, f->call, f->dev, &offset, err);
    if (!status) status = qrt_value_get(&op->bytes, f->call, f->dev, &bytes, err);
    if (status || bytes <= 0) return status;
    qrt_address at = (qrt_address)(uintptr_t)buffer_at(f, op->op->buffer, offset);
    int result = f->driver->memory_set8(at, 0, (size_t)bytes, f->stream);
    return result ? qrt_driver_check(f->driver, result, "clearing workspace", err) : QG_OK;
}

static qg_status run_ops(frame *f, qg_error *err) {
    const qrt_module *module = f->module;
    arguments to;
    int64_t total;
    qg_status status = qg_program_workspace(module->plan->program, f->call, f->dev, &total, f->offsets, err);
    for (int i = 0; !status && i < module->op_count; i++) {
        const qrt_op *op = &module->ops[i];
        status = op->op->kind == QG_OP_LAUNCH ? launch(f, op, &to, err) : clear(f, op, err);
    }
    return status;
}

qg_status qrt_module_launch(const qrt_module *module, const qg_call *call, void *stream, qg_error *err) {
    bool entered;
    qg_status status = qrt_device_enter(module->dev, &entered, err);
    if (status) return status;
    frame f = {.module = module,
               .call = call,
               .dev = qrt_device_record(module->dev),
               .driver = qrt_device_driver(module->dev),
               .stream = stream};
    status = run_ops(&f, err);
    qrt_device_leave(module->dev, entered);
    return status;
}
