/* Launch programs, format 1: what the runtime executes. A program knows nothing of QR; it names kernels, and
 * gives grids, buffers and arguments as integer expressions over the batch and the device record.
 *
 * JSON form (unknown fields are refused everywhere):
 *   { "format": "qrsmith-program-1",
 *     "buffers": [ {"name": "V", "bytes": EXPR} ... ],            workspace, in order, each aligned to 256
 * bytes "ops": [
 *       {"op": "clear",  "buffer": "flags", "offset": EXPR, "bytes": EXPR},          fills with zero bytes
 *       {"op": "launch", "kernel": "panel", "grid": [EXPR, EXPR, EXPR], "block": INT, "cluster": INT, "smem":
 * EXPR, "cooperative": BOOL, "early": BOOL, "args": [ARG ...]} ... ] } early (may be left out: false): the
 * launch may start while the one ahead of it in the stream still runs, its kernel waits by itself
 * (device/launch.cuh). EXPR: an integer, or a string such as "ceildiv(batch, 8) * 32": + - * / ( ) ceildiv
 * min max, the variables batch, lda, ldh, sms, smem_optin, smem_sm, l2, max_cluster, regs; 64-bit, overflow
 * and division by zero are errors. ARG:  {"i32": EXPR} {"i64": EXPR}
 * {"f32": NUMBER} {"call": "batch|lda|ldh|stride_a|stride_h|stride_tau"} (int64)
 *         {"pointer": "A|H|tau|info|gates"} (64-bit device pointer)
 *         {"workspace": "V", "offset": EXPR} (64-bit device pointer into a buffer; offset optional)
 *         {"tensor_map": {"pointer"|"workspace"..., "type": "f32|f16", "dims": [EXPR..], "strides": [EXPR..]
 * bytes (rank-1), "box": [INT..], "swizzle": 0|32|64|128}} (128-byte CUtensorMap by value) Every launch whose
 * grid has a zero extent is skipped. */
#ifndef QG_PROGRAM_H
#define QG_PROGRAM_H

#include "gen/device.h"
#include "gen/error.h"
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define QG_PROGRAM_FORMAT "qrsmith-program-1"

typedef enum qg_scalar {
    QG_BATCH,
    QG_LDA,
    QG_LDH,
    QG_STRIDE_A,
    QG_STRIDE_H,
    QG_STRIDE_TAU,
    QG_SCALAR_COUNT
} qg_scalar;
typedef enum qg_pointer {
    QG_PTR_A,
    QG_PTR_H,
    QG_PTR_TAU,
    QG_PTR_INFO,
    QG_PTR_GATES,
    QG_PTR_COUNT
} qg_pointer;

/* What expressions and arguments are evaluated against. */
typedef struct qg_call {
    int64_t scalar[QG_SCALAR_COUNT];
    void *pointer[QG_PTR_COUNT];
    void *workspace; /* base; >= qg_program_workspace() bytes, aligned to 256 */
} qg_call;

typedef struct qg_expr qg_expr; /* compiled expression */
qg_status qg_expr_compile(const json_t *value, qg_expr **out, const char *where, qg_error *err);
qg_status qg_expr_eval(const qg_expr *e, const qg_call *call, const qg_device *dev, int64_t *out,
                       qg_error *err);
bool qg_expr_constant(const qg_expr *e, int64_t *out); /* true when it depends on nothing */
void qg_expr_free(qg_expr *e);

typedef enum qg_arg_kind {
    QG_ARG_I32,
    QG_ARG_I64,
    QG_ARG_F32,
    QG_ARG_CALL,
    QG_ARG_POINTER,
    QG_ARG_WORKSPACE,
    QG_ARG_TENSOR_MAP
} qg_arg_kind;

typedef struct qg_tensor_map {
    bool from_workspace;
    qg_pointer pointer;
    int buffer;
    qg_expr *offset;
    int element_bytes; /* 4: f32, 2: f16 */
    int rank;          /* 1..5 */
    qg_expr *dims[5];
    qg_expr *strides[4];
    int box[5];
    int swizzle;
} qg_tensor_map;

typedef struct qg_arg {
    qg_arg_kind kind;
    qg_expr *expr; /* I32, I64, WORKSPACE offset */
    float f32;
    qg_scalar scalar;
    qg_pointer pointer;
    int buffer;
    qg_tensor_map *map;
} qg_arg;

typedef enum qg_op_kind { QG_OP_CLEAR, QG_OP_LAUNCH } qg_op_kind;

typedef struct qg_op {
    qg_op_kind kind;
    /* clear */
    int buffer;
    qg_expr *offset, *bytes;
    /* launch */
    char *kernel;
    qg_expr *grid[3];
    int block;
    int cluster;
    qg_expr *smem;
    bool cooperative, early;
    qg_arg *args;
    int arg_count;
} qg_op;

typedef struct qg_buffer {
    char *name;
    qg_expr *bytes;
} qg_buffer;

typedef struct qg_program {
    qg_buffer *buffers;
    int buffer_count;
    qg_op *ops;
    int op_count;
} qg_program;

qg_status qg_program_parse(const json_t *root, const char *where, qg_program **out, qg_error *err);
void qg_program_free(qg_program *p);

/* Total workspace bytes, and (when offsets != NULL) where each buffer starts. */
qg_status qg_program_workspace(const qg_program *p, const qg_call *call, const qg_device *dev, int64_t *total,
                               int64_t *offsets, qg_error *err);

#endif
