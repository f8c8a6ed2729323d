/* The judge's inputs: batches of matrices of every kind that check, bench and the tests use.
 *
 * An element is a pure function of (kind, m, n, cond, value, seed, matrix, i, j): the number of threads, the
 * layout and which part of a batch is asked for change nothing (only mixed looks at the batch's size, to make
 * sure that one dense and one hard matrix are there). Arithmetic is in double, rounded once to float; see
 * random.h for what makes it the same on every machine.
 *
 * k = min(m, n). A scale "over s steps" at step i is 10^(-c i/s), and 1 when s = 0. Where the rules leave a
 * case open:
 *   - cond scales a column after the kind has made it (after band's and upper's diagonal is added);
 *   - nearrank, n > k: column 3k/4 + i copies column i mod 3k/4; with 3k/4 = 0 the matrix stays dense;
 *   - diagonals run linearly over k - 1 steps;
 *   - gram: A = value * G G(0:n)' with G max(m, n) x max(1, k/4);
 *   - mixed: the draws of matrices decide; if none is dense, matrix 0 is made dense, if none is hard, the
 * last one of two or more is made hard (a batch of one is whatever it drew). */
#ifndef QJ_INPUTS_H
#define QJ_INPUTS_H

#include "gen/config.h"

typedef struct qj_kind {
    const char *name;
    const char *about;
    bool uses_cond;
    bool has_value;   /* needs qg_case.kind_value > 0 */
    double values[6]; /* values worth testing, 0-terminated; empty when !has_value */
} qj_kind;

const qj_kind *qj_kind_at(int i);              /* NULL past the end */
const qj_kind *qj_kind_find(const char *name); /* NULL: no such kind */

/* Fills matrices first .. first+count-1 of the case's batch: matrix first+b starts at a + b*stride, in
 * c->layout_in with leading dimension ld (>= n by rows, >= m by columns). Padding is left alone. Refuses an
 * unknown kind, a missing or superfluous value, a dimension out of range, an ld or stride too small. */
qg_status qj_fill_part(float *a, const qg_case *c, int64_t first, int64_t count, int64_t ld, int64_t stride,
                       qg_error *err);
/* The whole batch. */
qg_status qj_fill(float *a, const qg_case *c, int64_t ld, int64_t stride, qg_error *err);

/* The kind that matrix `matrix` of a case really has: its own, or what mixed drew for it. */
const char *qj_kind_of(const qg_case *c, int64_t matrix);

#endif
