/* The microbenchmarks of tests/gpu/micro: which there are, their inputs, and what their results must be. */
#ifndef TESTS_MICRO_H
#define TESTS_MICRO_H

#include "gen/plan.h"

#define QT_MICRO_FOLDER "tests/gpu/micro"

/* What a kernel does with A (rows x columns, row-major) and leaves in H, in rows 0 .. checked_rows - 1 of the
 * columns from first_column on. */
typedef enum qt_micro_task {
    QT_MICRO_QR, /* Householder steps on the first `steps` columns, applied to all of them: LAPACK's [R \ V]
                  */
    QT_MICRO_UPDATE /* C - V (V'C) of A = [V | C], V being the first `steps` columns; each half of the rows by
                       itself */
} qt_micro_task;

typedef struct qt_micro {
    const char *family; /* NULL ends the list */
    qt_micro_task task;
    qg_precision precision;
    int rows, columns, steps, checked_rows, first_column;
    double tolerance; /* of the largest entry */
    double flops;     /* of what is timed; 0: it is `steps` columns that are */
} qt_micro;

extern const qt_micro qt_micros[];

qg_shape qt_micro_shape(const qt_micro *m);
/* A: normal-like numbers; V of an update is small, so that repeating the update keeps C finite. */
void qt_micro_fill(const qt_micro *m, float *a);
/* The largest difference from the result in double, as a share of the largest entry; NaN when one is missing.
 */
double qt_micro_error(const qt_micro *m, const float *a, const float *h);

#endif
