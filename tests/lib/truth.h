/* The truth that factorizations and the verify family are held against: LAPACK in double. Nothing here shares
 * code with the judge. Failures (no memory, LAPACK's refusal) fail the running test. */
#ifndef TESTS_TRUTH_H
#define TESTS_TRUTH_H

#include "gen/shape.h"

/* A float matrix somewhere in memory. */
typedef struct qt_matrix {
    float *at;
    int64_t m, n, ld;
    qg_layout layout;
} qt_matrix;

float qt_get(const qt_matrix *a, int64_t i, int64_t j);
void qt_set(const qt_matrix *a, int64_t i, int64_t j, float value);

/* The four gates of runtime/judge/contract.h from A, H and tau: dormqr on A and on the identity. NaN and Inf
 * are never shown to LAPACK: with one of them in A, H or tau the gates are {NaN, NaN, NaN, 0}. */
void qt_gates(const qt_matrix *a, const qt_matrix *h, const float *tau, double gates[4]);

/* sgeqrf and dgeqrf of A. H is written in h's layout; tau has min(m, n) entries. */
void qt_sgeqrf(const qt_matrix *a, const qt_matrix *h, float *tau);
/* h: m x n doubles, by columns, ld = m. */
void qt_dgeqrf(const qt_matrix *a, double *h, double *tau);

#endif
