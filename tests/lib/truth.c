#include "tests/lib/truth.h"
#include "tests/lib/support.h"

#include <lapacke.h>
#include <math.h>
#include <stdlib.h>

static int64_t offset(const qt_matrix *a, int64_t i, int64_t j) {
    return a->layout == QG_ROW ? i * a->ld + j : i + j * a->ld;
}

float qt_get(const qt_matrix *a, int64_t i, int64_t j) {
    return a->at[offset(a, i, j)];
}
void qt_set(const qt_matrix *a, int64_t i, int64_t j, float value) {
    a->at[offset(a, i, j)] = value;
}

static double *doubles(int64_t count) {
    double *p = calloc((size_t)count + 1, sizeof *p);
    assert_non_null(p);
    return p;
}

static double *widen(const qt_matrix *a) {
    double *wide = doubles(a->m * a->n);
    for (int64_t j = 0; j < a->n; j++)
        for (int64_t i = 0; i < a->m; i++)
            wide[i + j * a->m] = qt_get(a, i, j);
    return wide;
}

static bool all_finite(const qt_matrix *a) {
    for (int64_t j = 0; j < a->n; j++)
        for (int64_t i = 0; i < a->m; i++)
            if (!isfinite(qt_get(a, i, j))) return false;
    return true;
}

static double norm1(const double *a, int64_t m, int64_t n) {
    double largest = 0;
    for (int64_t j = 0; j < n; j++) {
        double sum = 0;
        for (int64_t i = 0; i < m; i++)
            sum += fabs(a[i + j * m]);
        if (sum > largest) largest = sum;
    }
    return largest;
}

static void apply(char trans, const qt_matrix *shape, int64_t k, const double *v, const double *tau,
                  double *c, int64_t columns) {
    assert_int_equal(LAPACKE_dormqr(LAPACK_COL_MAJOR, 'L', trans, (lapack_int)shape->m, (lapack_int)columns,
                                    (lapack_int)k, v, (lapack_int)shape->m, tau, c, (lapack_int)shape->m),
                     0);
}

static double factor_gate(const qt_matrix *a, const double *h, const double *tau, int64_t k) {
    double *c = widen(a);
    double size = norm1(c, a->m, a->n) * 0x1p-23;
    apply('T', a, k, h, tau, c, a->n);
    for (int64_t j = 0; j < a->n; j++)
        for (int64_t i = 0; i < a->m; i++)
            c[i + j * a->m] -= i <= j ? h[i + j * a->m] : 0;
    double residual = norm1(c, a->m, a->n);
    free(c);
    return residual == 0 ? 0 : residual / size;
}

/* Q's first k columns, then Q' times them. */
static double orth_gate(const qt_matrix *a, const double *h, const double *tau, int64_t k) {
    double *q = doubles(a->m * k), *top = doubles(k * k);
    for (int64_t j = 0; j < k; j++)
        q[j + j * a->m] = 1;
    apply('N', a, k, h, tau, q, k);
    apply('T', a, k, h, tau, q, k);
    for (int64_t j = 0; j < k; j++)
        for (int64_t i = 0; i < k; i++)
            top[i + j * k] = q[i + j * a->m] - (i == j);
    double residual = norm1(top, k, k);
    free(q);
    free(top);
    return residual / 0x1p-23;
}

static double tau_gate(const qt_matrix *a, const double *h, const double *tau, int64_t k) {
    double worst = 0;
    for (int64_t j = 0; j < k; j++) {
        double square = 1;
        for (int64_t i = j + 1; i < a->m; i++)
            square += h[i + j * a->m] * h[i + j * a->m];
        if (tau[j] == 0 && square == 1) continue;
        worst = fmax(worst, fabs(tau[j] - 2 / square) / (0x1p-23 * fabs(tau[j])));
    }
    return worst;
}

void qt_gates(const qt_matrix *a, const qt_matrix *h, const float *tau, double gates[4]) {
    int64_t k = a->m < a->n ? a->m : a->n;
    bool finite = all_finite(a) && all_finite(h);
    for (int64_t j = 0; j < k; j++)
        finite = finite && isfinite(tau[j]);
    gates[0] = gates[1] = gates[2] = NAN;
    gates[3] = finite;
    if (!finite) return;
    double *wide = widen(h), *wide_tau = doubles(k);
    for (int64_t j = 0; j < k; j++)
        wide_tau[j] = tau[j];
    gates[0] = factor_gate(a, wide, wide_tau, k);
    gates[1] = orth_gate(a, wide, wide_tau, k);
    gates[2] = tau_gate(a, wide, wide_tau, k);
    free(wide);
    free(wide_tau);
}

void qt_sgeqrf(const qt_matrix *a, const qt_matrix *h, float *tau) {
    float *work = malloc(((size_t)a->m * (size_t)a->n + 1) * sizeof *work);
    assert_non_null(work);
    for (int64_t j = 0; j < a->n; j++)
        for (int64_t i = 0; i < a->m; i++)
            work[i + j * a->m] = qt_get(a, i, j);
    lapack_int m = (lapack_int)a->m;
    assert_int_equal(LAPACKE_sgeqrf(LAPACK_COL_MAJOR, m, (lapack_int)a->n, work, m, tau), 0);
    for (int64_t j = 0; j < a->n; j++)
        for (int64_t i = 0; i < a->m; i++)
            qt_set(h, i, j, work[i + j * a->m]);
    free(work);
}

void qt_dgeqrf(const qt_matrix *a, double *h, double *tau) {
    double *wide = widen(a);
    for (int64_t i = 0; i < a->m * a->n; i++)
        h[i] = wide[i];
    free(wide);
    lapack_int m = (lapack_int)a->m;
    assert_int_equal(LAPACKE_dgeqrf(LAPACK_COL_MAJOR, m, (lapack_int)a->n, h, m, tau), 0);
}
