#include "tests/lib/micro.h"
#include <math.h>
#include <stdlib.h>

#define STEP(name, rows, checked)                                                                            \
    { name, QT_MICRO_QR, QG_FP32, rows, 32, 32, checked, 0, 2e-5, 0 }
#define MMA(precision, rows, tolerance)                                                                      \
    { "update_mma", QT_MICRO_QR, precision, rows, 64, 32, rows, 32, tolerance, 4.0 * (rows)*32 * 32 }
#define WGMMA(rows)                                                                                          \
    { "update_wgmma", QT_MICRO_UPDATE, QG_FP16, rows, 128, 64, rows, 64, 2e-3, 4.0 * (rows)*64 * 64 }

const qt_micro qt_micros[] = {STEP("step_pack", 32, 32),
                              STEP("step_rows", 176, 176),
                              STEP("step_rows", 512, 512),
                              STEP("step_gram", 64, 32),
                              {"step_whole", QT_MICRO_QR, QG_FP32, 256, 64, 64, 64, 0, 2e-5, 0},
                              STEP("step_whole", 144, 32),
                              MMA(QG_FP16, 256, 2e-3),
                              MMA(QG_FP32, 256, 2e-5),
                              WGMMA(384),
                              {.family = NULL}};

qg_shape qt_micro_shape(const qt_micro *m) {
    return (qg_shape){.m = m->rows, .n = m->columns, .precision = m->precision, .max_batch = 1};
}

void qt_micro_fill(const qt_micro *m, float *a) {
    uint32_t state = 12345;
    for (int i = 0; i < m->rows * m->columns; i++) {
        double sum = -2; /* of four uniform numbers */
        for (int k = 0; k < 4; k++) {
            state = state * 1664525u + 1013904223u;
            sum += (double)(state >> 8) * 0x1p-24;
        }
        a[i] = (float)(m->task == QT_MICRO_UPDATE && i % m->columns < m->steps ? sum / sqrt(m->rows) : sum);
    }
}

/* One Householder step, LAPACK's signs. */
static void step(double *x, int rows, int columns, int j) {
    double square = 0, alpha = x[j * columns + j];
    for (int i = j + 1; i < rows; i++)
        square += x[i * columns + j] * x[i * columns + j];
    if (square == 0) return;
    double beta = -copysign(sqrt(alpha * alpha + square), alpha), tau = (beta - alpha) / beta;
    for (int i = j + 1; i < rows; i++)
        x[i * columns + j] /= alpha - beta;
    x[j * columns + j] = beta;
    for (int c = j + 1; c < columns; c++) {
        double dot = x[j * columns + c];
        for (int i = j + 1; i < rows; i++)
            dot += x[i * columns + j] * x[i * columns + c];
        x[j * columns + c] -= tau * dot;
        for (int i = j + 1; i < rows; i++)
            x[i * columns + c] -= tau * dot * x[i * columns + j];
    }
}

/* Column c loses its part along each v, all taken from the column as it was; in rows first .. end - 1. */
static void project(double *x, const double *old, const qt_micro *m, int c, int first, int end) {
    for (int j = 0; j < m->steps; j++) {
        double dot = 0;
        for (int i = first; i < end; i++)
            dot += old[i * m->columns + j] * old[i * m->columns + c];
        for (int i = first; i < end; i++)
            x[i * m->columns + c] -= dot * old[i * m->columns + j];
    }
}

double qt_micro_error(const qt_micro *m, const float *a, const float *h) {
    int size = m->rows * m->columns;
    double *x = malloc(2 * (size_t)size * sizeof *x), *old = x + size, worst = 0, largest = 0;
    for (int i = 0; i < size; i++)
        x[i] = old[i] = (double)a[i];
    for (int j = 0; m->task == QT_MICRO_QR && j < m->steps; j++)
        step(x, m->rows, m->columns, j);
    for (int c = m->steps; m->task == QT_MICRO_UPDATE && c < m->columns; c++) {
        project(x, old, m, c, 0, m->rows / 2);
        project(x, old, m, c, m->rows / 2, m->rows);
    }
    for (int i = 0; i < m->checked_rows; i++)
        for (int c = m->first_column; c < m->columns; c++) {
            double error = fabs((double)h[i * m->columns + c] - x[i * m->columns + c]);
            worst = error > worst || isnan(error) ? error : worst; /* a NaN stays */
            largest = fmax(largest, fabs(x[i * m->columns + c]));
        }
    free(x);
    return worst / largest;
}
