/* Internal to the judge: how each kind makes its elements. One row of the table is one kind. */
#ifndef QJ_KINDS_H
#define QJ_KINDS_H

#include "runtime/judge/inputs.h"
#include "runtime/judge/random.h"

/* What element functions read; made once a fill and shared by its threads. */
typedef struct qj_recipe {
    const qg_case *c;
    int64_t m, n, k;
    double cond;
    double *column_scale; /* n factors */
    double *row_scale;    /* m factors */
} qj_recipe;

/* Rows 4*quad .. 4*quad+3 of column j of one matrix, before the column scale. Rows >= m are don't-cares. */
typedef void (*qj_element)(const qj_recipe *r, uint64_t matrix, int64_t quad, int64_t j, double out[4]);

typedef struct qj_maker {
    qj_kind kind;
    qj_element element; /* NULL: mixed and gram, which are made otherwise */
    int weight;         /* in twelfths: how often mixed draws it */
} qj_maker;

const qj_maker *qj_makers(void); /* terminated by kind.name = NULL */
const qj_maker *qj_maker_find(const char *name);
/* The maker of one matrix: the case's own, or what mixed drew. */
const qj_maker *qj_maker_of(const qg_case *c, int64_t matrix);

qg_status qj_recipe_init(qj_recipe *r, const qg_case *c, qg_error *err);
void qj_recipe_free(qj_recipe *r);

#endif
