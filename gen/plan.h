/* From a shape to rendered source and a launch program: the heart of gen/.
 *
 * A library holds the templates (embedded, or the folder QRSMITH_TEMPLATES points at) and the tuned table.
 * Making a plan picks the family and parameters (the request's, else the tuned table's, else the nearest
 * tuned shape's, else the family's default) and says which it was (the grade). A library is immutable once
 * opened and safe to share between threads. */
#ifndef QG_PLAN_H
#define QG_PLAN_H

#include "gen/device.h"
#include "gen/program.h"
#include "gen/shape.h"

typedef struct qg_library qg_library;

typedef struct qg_library_options {
    const char *templates; /* folder; NULL: QRSMITH_TEMPLATES, else embedded */
    const char
        *tuned;   /* file; NULL: QRSMITH_TUNED, else user's config folder, else embedded configs/tuned/ */
    bool untuned; /* no tuned table at all: every plan is requested or a default */
    const char *extra_families; /* folder of more family files (tests); NULL: none */
} qg_library_options;

qg_status qg_library_open(const qg_library_options *options, qg_library **out, qg_error *err);
void qg_library_close(qg_library *lib);

/* Whether every family file can be read; the error names the first that cannot. The others serve without it.
 */
qg_status qg_library_check(const qg_library *lib, qg_error *err);

/* What was left out of the tuned tables and why, a text an entry, in order; NULL past the end. Whoever opens
 * a library for a user should pass these on once. */
const char *qg_library_complaint(const qg_library *lib, int i);

/* Families that can be read, as JSON: [{name, op, summary, params: [{name, doc, values}]}]. New reference. */
json_t *qg_library_families(const qg_library *lib);

/* Text of an embedded header "device/warp.cuh"; NULL when there is none. Owned by the library. */
const char *qg_library_header(const qg_library *lib, const char *name, size_t *size);
/* i-th header name, NULL past the end. */
const char *qg_library_header_name(const qg_library *lib, int i);

typedef enum qg_grade { QG_GRADE_REQUESTED, QG_GRADE_TUNED, QG_GRADE_NEAREST, QG_GRADE_DEFAULT } qg_grade;
const char *qg_grade_name(qg_grade g); /* "requested" | "tuned" | "nearest" | "default" */

typedef struct qg_request {
    const char *family;   /* NULL: choose */
    const json_t *params; /* object of forced parameters, may be partial; NULL: none */
} qg_request;

typedef struct qg_plan {
    qg_shape shape;
    qg_device device;
    qg_grade grade;
    char *name; /* file-name-safe and unique per rendered content: shape name + family + hash of params */
    char *family;
    json_t *params;    /* every parameter with its value */
    json_t *resources; /* what the family's formulas say: {"smem":..,"threads":..,...} */
    char *products;    /* "fp32", "1", "2", "3": how trailing products are formed */
    char *source;      /* rendered CUDA source */
    size_t source_size;
    json_t *program_json;
    qg_program *program;
} qg_plan;

/* Refuses with the family's own reason when the forced family or parameters are not legal. */
qg_status qg_plan_make(const qg_library *lib, const qg_shape *shape, const qg_device *dev,
                       const qg_request *request, qg_plan **out, qg_error *err);
void qg_plan_free(qg_plan *plan);

#endif
