#include "tests/lib/primitives.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

const qt_primitive qt_primitives[] = {
    {0, 1, "add_rn", QT_SAME_BITS, false},
    {1, 1, "mul_rn", QT_SAME_BITS, false},
    {2, 1, "div_rn", QT_SAME_BITS, false},
    {3, 1, "sqrt_rn", QT_SAME_BITS, false},
    {4, 1, "rcp_rn", QT_SAME_BITS, false},
    {5, 1, "rsqrt_approx", QT_APPROXIMATE, false},
    {6, 1, "rcp_approx", QT_APPROXIMATE, false},
    {7, 1, "fmaf", QT_SAME_BITS, false},
    {8, 1, "is_finite", QT_SAME_BITS, false},
    {9, 1, "pow2_exponent", QT_SAME_BITS, false},
    {10, 1, "scale_pow2", QT_SAME_BITS, false},
    {11, 1, "f16_bits", QT_SAME_BITS, false},
    {12, 1, "f16_value", QT_SAME_BITS, false},
    {13, 1, "pack_f16", QT_SAME_BITS, false},
    {14, 2, "unpack_f16", QT_SAME_BITS, false},
    {16, 1, "tf32_bits", QT_SAME_BITS, false},
    {17, 1, "sqrt_rn of a double", QT_SAME_BITS, false},
    {18, 1, "fma", QT_SAME_BITS, false},
    {19, 1, "fmaxf, fminf, copysignf", QT_SAME_BITS, false},
    {20, 5, "lds, sts, sts_if", QT_SAME_BITS, false},
    {25, 1, "load_stream, store_stream, load_cg", QT_SAME_BITS, false},
    {26, 1, "clock32, lane, warp", QT_SAME_BITS, false},
    {28, 1, "shfl", QT_SAME_BITS, false},
    {29, 1, "shfl_xor", QT_SAME_BITS, false},
    {30, 1, "shfl_down", QT_SAME_BITS, false},
    {31, 1, "shfl of an int", QT_SAME_BITS, false},
    {32, 1, "shfl_xor of 64 bits", QT_SAME_BITS, false},
    {33, 1, "shfl_down of a double", QT_SAME_BITS, false},
    {34, 1, "warp_ballot", QT_SAME_BITS, false},
    {35, 1, "warp_any, warp_all", QT_SAME_BITS, false},
    {36, 1, "warp_sum", QT_SAME_BITS, false},
    {37, 1, "warp_max", QT_SAME_BITS, false},
    {38, 1, "redux_or", QT_SAME_BITS, false},
    {39, 1, "rcp_normal_pair", QT_APPROXIMATE, false},
    {40, 1, "block_sync", QT_SAME_BITS, false},
    {41, 1, "block_any", QT_SAME_BITS, false},
    {42, 1, "bar_sync, bar_wait, bar_arrive", QT_SAME_BITS, false},
    {44, 3, "ldmatrix", QT_SAME_BITS, false},
    {47, 4, "mma_f16", QT_TENSOR_SUM, false},
    {51, 4, "mma_tf32", QT_TENSOR_SUM, false},
    {55, 1, "max_nan", QT_SAME_BITS, false},
    {56, 2, "cp_async", QT_SAME_BITS, false},
    {58, 1, "mbarrier", QT_SAME_BITS, false},
    {59, 1, "cp_async_or_zero", QT_SAME_BITS, false},
    {60, 5, "flags of a cooperative grid", QT_SAME_BITS, false},
    {65, 4, "tickets", QT_SAME_BITS, false},
    {70, 1, "bulk_load", QT_SAME_BITS, true},
    {71, 1, "bulk_store", QT_SAME_BITS, true},
    {72, 3, "tma_load_2d", QT_SAME_BITS, true},
    {75, 1, "tma_load_3d", QT_SAME_BITS, true},
    {76, 8, "tma_store_2d", QT_SAME_BITS, true},
    {84, 4, "clusters", QT_SAME_BITS, true},
    {88, 3, "wgmma_f16_rs, K-major B", QT_TENSOR_SUM, true},
    {91, 4, "wgmma_f16_rs, N-major B", QT_TENSOR_SUM, true},
    {95, 1, "bulk_send", QT_SAME_BITS, true},
    {0, 0, NULL, QT_SAME_BITS, false},
};

void qt_primitive_fill(float a[QT_PRIMITIVE_SIZE]) {
    uint32_t s = 12345;
    for (int i = 0; i < QT_PRIMITIVE_SIZE; i++) {
        double sum = -6;
        for (int k = 0; k < 12; k++) {
            s = s * 1664525u + 1013904223u;
            sum += s * 0x1p-32;
        }
        a[i] = (float)sum;
    }
}

static bool same_bits(float x, float y) {
    return (isnan(x) && isnan(y)) || memcmp(&x, &y, sizeof x) == 0;
}

static bool agree(qt_agreement agreement, float x, float y) {
    double d = fabs((double)x - (double)y), size = fmax(fabs((double)x), fabs((double)y));
    switch (agreement) {
    case QT_SAME_BITS:
        return same_bits(x, y);
    case QT_APPROXIMATE:
        return same_bits(x, y) || d <= 3 * 0x1p-23 * size;
    case QT_TENSOR_SUM: /* up to 64 sums of 32 products of size about 10 */
        return d <= 1e-5 * size + 2e-3;
    }
    return false;
}

bool qt_primitive_agree_on(const qt_primitive *p, const float *a, const float *b, char *out, size_t size) {
    for (int i = p->row * QT_PRIMITIVE_COLUMNS; i < (p->row + p->rows) * QT_PRIMITIVE_COLUMNS; i++)
        if (!agree(p->agreement, a[i], b[i])) {
            uint32_t x, y;
            memcpy(&x, &a[i], sizeof x);
            memcpy(&y, &b[i], sizeof y);
            snprintf(out, size, "%s: row %d, thread %d: %.9g (%08x) and %.9g (%08x)", p->name,
                     i / QT_PRIMITIVE_COLUMNS, i % QT_PRIMITIVE_COLUMNS, (double)a[i], x, (double)b[i], y);
            return false;
        }
    return true;
}
