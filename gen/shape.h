/* A shape is everything of a problem that is baked into a kernel. */
#ifndef QG_SHAPE_H
#define QG_SHAPE_H

#include "gen/error.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum qg_layout { QG_ROW = 0, QG_COL = 1 } qg_layout;
typedef enum qg_precision { QG_FP32 = 0, QG_FP16 = 1 } qg_precision;
typedef enum qg_operation { QG_GEQRF = 0, QG_VERIFY = 1 } qg_operation;

typedef struct qg_shape {
    int64_t m, n; /* rows, columns; 0 <= each <= QG_MAX_DIM */
    qg_layout layout_in, layout_out;
    qg_precision precision;
    qg_operation operation;
    int64_t max_batch;    /* what plan choice may look at; >= 1 */
    bool batch_invariant; /* plan choice ignores max_batch */
} qg_shape;

#define QG_MAX_DIM   1048576
#define QG_MAX_BATCH 2147483647

const char *qg_layout_name(qg_layout l);             /* "row" | "col" */
const char *qg_precision_name(qg_precision p);       /* "fp32" | "fp16" */
const char *qg_operation_name(qg_operation o);       /* "geqrf" | "verify" */
bool qg_layout_parse(const char *s, qg_layout *out); /* false: not a layout */
bool qg_precision_parse(const char *s, qg_precision *out);

/* "640x512x512:fp16" (batch x m x n : precision; precision optional, default fp32, layouts row). Sets *batch
 * and shape->max_batch to the batch. */
qg_status qg_shape_parse(const char *text, qg_shape *shape, int64_t *batch, qg_error *err);

/* A file-name-safe name, equal for equal baked-in facts: "geqrf_512x512_row_row_fp16" (+ "_b640"/"_inv" only
 * where the caller adds a family and parameter hash). Returns out. */
char *qg_shape_name(const qg_shape *shape, char *out, size_t size);

#endif
