/* The rows that tests/cases/families/primitives.lua writes, and how closely two machines must agree on each.
 */
#ifndef TESTS_PRIMITIVES_H
#define TESTS_PRIMITIVES_H

#include <stdbool.h>
#include <stddef.h>

enum {
    QT_PRIMITIVE_ROWS = 96,
    QT_PRIMITIVE_COLUMNS = 256,
    QT_PRIMITIVE_SIZE = QT_PRIMITIVE_ROWS * QT_PRIMITIVE_COLUMNS
};

typedef enum qt_agreement {
    QT_SAME_BITS,   /* NaN payloads aside, which no kernel may depend on */
    QT_APPROXIMATE, /* the *_approx functions: 3 ulp */
    QT_TENSOR_SUM,  /* sums of products in an order of the hardware's own */
} qt_agreement;

typedef struct qt_primitive {
    int row, rows;
    const char *name;
    qt_agreement agreement;
    bool sm90;
} qt_primitive;

extern const qt_primitive qt_primitives[]; /* ends with rows == 0 */

/* The input: normal-like numbers, the same on every machine. */
void qt_primitive_fill(float a[QT_PRIMITIVE_SIZE]);

/* The first disagreement on one primitive as text in `out`; true when there is none. */
bool qt_primitive_agree_on(const qt_primitive *p, const float *a, const float *b, char *out, size_t size);

#endif
