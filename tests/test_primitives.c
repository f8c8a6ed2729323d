/* The host versions of the device primitives against plain references, and the same in every thread order.
 * The GPU versions are compared with them by tests/gpu/test_primitives.c. */
#include "runtime/host/context.h"
#include "runtime/host/host.h"
#include "tests/lib/primitives.h"
#include "tests/lib/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = QT_PRIMITIVE_COLUMNS, SIZE = QT_PRIMITIVE_SIZE };

typedef struct fixture {
    qg_library *lib;
    qhx_executor *executor;
    qhx_module *module;
    _Alignas(64) float a[SIZE]; /* tensor maps and vectors want 16 bytes */
    _Alignas(64) float h[SIZE];
} fixture;

static void require(qg_status status, const qg_error *err) {
    if (status != QG_OK) fail_msg("%s: %s (%s)", err->what, err->why, err->fix);
}

static void run(fixture *f, float *h, int order, uint64_t seed) {
    qg_call c = {0};
    qg_error err;
    c.scalar[QG_BATCH] = 1;
    c.scalar[QG_LDA] = c.scalar[QG_LDH] = COLUMNS;
    c.scalar[QG_STRIDE_A] = c.scalar[QG_STRIDE_H] = SIZE;
    c.pointer[QG_PTR_A] = f->a;
    c.pointer[QG_PTR_H] = h;
    qhx_set_order(f->executor, order, seed);
    require(qhx_run(f->module, &c, &err), &err);
}

static int set_up(void **state) {
    fixture *f = NULL;
    qg_error err;
    qg_device device;
    qg_plan *plan;
    qg_shape shape = {.m = QT_PRIMITIVE_ROWS, .n = COLUMNS, .max_batch = 1};
    if (posix_memalign((void **)&f, 64, sizeof *f) != 0) return 1;
    memset(f, 0, sizeof *f);
    require(qg_library_open(&(qg_library_options){.extra_families = "tests/cases/families"}, &f->lib, &err),
            &err);
    require(qg_device_profile("h200", &device, &err), &err);
    require(qg_plan_make(f->lib, &shape, &device, &(qg_request){.family = "primitives"}, &plan, &err), &err);
    require(qhx_open(&(qhx_options){.sanitize = QHX_ASAN, .poison = true}, &f->executor, &err), &err);
    require(qhx_load(f->executor, f->lib, plan, &f->module, &err), &err);
    qg_plan_free(plan);
    qt_primitive_fill(f->a);
    run(f, f->h, QHX_FORWARD, 0);
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    qhx_unload(f->module);
    qhx_close(f->executor);
    qg_library_close(f->lib);
    free(f);
    return 0;
}

static void every_order_agrees(void **state) {
    fixture *f = *state;
    float *h = malloc(sizeof f->h);
    for (int order = 1; order < 4; order++) {
        run(f, h, order < 2 ? order : QHX_SEEDED, (uint64_t)order);
        for (int i = 0; i < SIZE; i++)
            if (memcmp(&h[i], &f->h[i], sizeof *h) != 0)
                fail_msg("order %d, row %d, thread %d", order, i / COLUMNS, i % COLUMNS);
    }
    free(h);
}

static void every_row_is_written(void **state) {
    const fixture *f = *state;
    for (int i = 0; i < SIZE; i++) {
        uint32_t bits;
        memcpy(&bits, &f->h[i], sizeof bits);
        if (bits == 0xffffffff && i / COLUMNS != 34) /* a ballot may be all ones */
            fail_msg("row %d, thread %d", i / COLUMNS, i % COLUMNS);
    }
}

/* The file that GPUs are compared with. QRSMITH_RENEW=1 writes it anew. */
static void the_reference_file_is_what_the_host_gives(void **state) {
    const fixture *f = *state;
    if (getenv("QRSMITH_RENEW")) qt_write("tests/cases/primitives.f32", f->h, sizeof f->h);
    size_t size;
    char *file = qt_read("tests/cases/primitives.f32", &size);
    assert_int_equal(size, sizeof f->h);
    for (int i = 0; i < SIZE; i++)
        if (memcmp(file + (size_t)i * sizeof(float), &f->h[i], sizeof(float)) != 0)
            fail_msg("row %d, thread %d", i / COLUMNS, i % COLUMNS);
    free(file);
}

/* --- references --- */

static uint32_t bits_of(float x) {
    uint32_t b;
    memcpy(&b, &x, sizeof b);
    return b;
}

static float from_bits(uint32_t b) {
    float x;
    memcpy(&x, &b, sizeof x);
    return x;
}

/* The kernel's function of the same name. */
static float odd(const float *a, int t) {
    static const uint32_t special[] = {0, 0x80000000, 0x7f800000, 0xff800000, 1, 0x807fffff, 0x7f7fffff};
    if (t < 7) return from_bits(special[t]);
    int e = (int)(bits_of(a[t]) & 511) - 256;
    return t & 1 ? a[t] : (float)ldexp((double)a[t], e / 2);
}

static double half_value(uint32_t h) {
    int e = (int)(h >> 10 & 31), f = (int)(h & 1023);
    double v = e == 0    ? ldexp(f, -24)
               : e == 31 ? (f ? (double)NAN : (double)INFINITY)
                         : ldexp(1024 + f, e - 25);
    return h & 0x8000 ? -v : v;
}

/* Nearest half, ties to even, by looking at all of them. */
static uint32_t nearest_half(float x) {
    double m = fabs((double)x);
    uint32_t sign = signbit(x) ? 0x8000 : 0, h = 0;
    if (m >= 65520) return sign | 0x7c00;
    while (half_value(h + 1) <= m)
        h++;
    double below = m - half_value(h), above = (h == 0x7bff ? 65536 : half_value(h + 1)) - m;
    return sign | (below > above || (below == above && (h & 1)) ? h + 1 : h);
}

#define ROW(r) (f->h + (r)*COLUMNS)
#define ASSERT_BITS(r, t, expected)                                                                          \
    do {                                                                                                     \
        uint32_t got_ = bits_of(ROW(r)[t]), want_ = (expected);                                              \
        if (got_ != want_) fail_msg("row %d, thread %d: %08x, not %08x", r, t, got_, want_);                 \
    } while (0)
#define ASSERT_VALUE(r, t, expected)                                                                         \
    do {                                                                                                     \
        float got_ = ROW(r)[t], want_ = (expected);                                                          \
        if (!(isnan(got_) && isnan(want_)) && bits_of(got_) != bits_of(want_))                               \
            fail_msg("row %d, thread %d: %.9g, not %.9g", r, t, (double)got_, (double)want_);                \
    } while (0)

static void arithmetic_is_ieee(void **state) {
    const fixture *f = *state;
    for (int t = 0; t < COLUMNS; t++) {
        float x = odd(f->a, t), y = f->a[256 + t];
        ASSERT_VALUE(0, t, x + y);
        ASSERT_VALUE(1, t, x * y);
        ASSERT_VALUE(2, t, x / y);
        ASSERT_VALUE(3, t, sqrtf(fabsf(x)));
        ASSERT_VALUE(4, t, 1.0f / (t < 2 ? 3.0f : x));
        ASSERT_VALUE(7, t, fmaf(y, f->a[512 + t], f->a[768 + t]));
        ASSERT_VALUE(39, t, 1.0f / (1.0f + (float)t) + 1.0f / (300.0f - (float)t));
        ASSERT_BITS(8, t, isfinite(x) ? 1 : 0);
    }
}

static void powers_of_two_are_exact(void **state) {
    const fixture *f = *state;
    for (int t = 0; t < COLUMNS; t++) {
        float x = odd(f->a, t);
        int e = x == 0 ? -151 : isinf(x) ? 128 : ilogbf(x);
        ASSERT_BITS(9, t, (uint32_t)(e + 1000));
        /* exact in double, so the conversion is the only rounding */
        ASSERT_VALUE(10, t, (float)ldexp((double)x, (t & 63) * 5 - 160));
    }
}

static void conversions_round_to_nearest(void **state) {
    const fixture *f = *state;
    for (int t = 0; t < COLUMNS; t++) {
        float x = odd(f->a, t), y = f->a[256 + t];
        ASSERT_BITS(11, t, nearest_half(x));
        ASSERT_VALUE(12, t, (float)half_value(bits_of(y) >> 8 & 0xffff));
        ASSERT_BITS(13, t, nearest_half(x) | nearest_half(y) << 16);
        ASSERT_VALUE(14, t, (float)half_value(nearest_half(x)));
        ASSERT_VALUE(15, t, (float)half_value(nearest_half(y)));
        if (isfinite(x) && fabsf(x) < 3e38f) { /* ten bits after the point, ties away from zero */
            int e;
            double m = frexp((double)x, &e), ulp = ldexp(1, (e < -125 ? -125 : e) - 11);
            ASSERT_VALUE(16, t, (float)(copysign(floor(fabs(ldexp(m, e)) / ulp + 0.5) * ulp, (double)x)));
        }
    }
}

static void warps_exchange(void **state) {
    const fixture *f = *state;
    const float *a = f->a;
    for (int t = 0; t < COLUMNS; t++) {
        int w = t & ~31, l = t & 31;
        float sum[32], largest = a[w];
        uint32_t ballot = 0;
        for (int i = 0; i < 32; i++) {
            sum[i] = a[w + i];
            largest = fmaxf(largest, a[w + i]);
            ballot |= (uint32_t)(a[w + i] > 0) << i;
        }
        for (int n = 16; n > 0; n /= 2)
            for (int i = 0; i < n; i++)
                sum[i] += sum[i + n];
        ASSERT_VALUE(28, t, a[w + (t * 7 & 31)]);
        ASSERT_VALUE(29, t, a[w + (l ^ 5)]);
        ASSERT_VALUE(30, t, a[l + 3 < 32 ? t + 3 : t]);
        ASSERT_BITS(31, t, (uint32_t)(w + 9) * 11);
        ASSERT_BITS(34, t, ballot);
        ASSERT_VALUE(36, t, sum[0]);
        ASSERT_VALUE(37, t, largest);
        ASSERT_BITS(38, t, 0xffff);
    }
}

static void blocks_meet(void **state) {
    const fixture *f = *state;
    const float *a = f->a;
    for (int t = 0; t < COLUMNS; t++) {
        ASSERT_VALUE(40, t, a[(t + 77) & 255]);
        ASSERT_BITS(41, t, 2);
        ASSERT_VALUE(42, t, t < 128 ? 0 : (a[255 - t] + 1) + (a[256 + 255 - t] + 1) * 2);
    }
}

/* mma_tf32 from the fragment tables of device/mma.cuh. */
static void tf32_products_follow_the_fragments(void **state) {
    const fixture *f = *state;
    for (int t = 0; t < COLUMNS; t++) {
        int w = t & ~31, g = (t & 31) / 4, q = t & 3;
        for (int i = 0; i < 4; i++) {
            int row = g + (i >> 1) * 8, column = 2 * q + (i & 1);
            double sum = 0.5 * i;
            for (int k = 0; k < 8; k++) {
                int a_lane = row % 8 * 4 + k % 4, a_word = row / 8 + k / 4 * 2, b_lane = column * 4 + k % 4;
                sum += (double)f->a[a_word * 256 + w + a_lane] * (double)f->a[(4 + k / 4) * 256 + w + b_lane];
            }
            if (fabs(sum - (double)ROW(51 + i)[t]) > 0.02)
                fail_msg("row %d, thread %d: %g, not %g", 51 + i, t, (double)ROW(51 + i)[t], sum);
        }
    }
}

static void copies_land(void **state) {
    const fixture *f = *state;
    const float *a = f->a;
    for (int t = 0; t < COLUMNS; t++) {
        ASSERT_VALUE(56, t, a[t * 37 & 1023]);
        ASSERT_VALUE(57, t, a[255 - (t ^ 1)]);
        ASSERT_VALUE(59, t,
                     ((t * 37 & 1023) / 4 & 1 ? a[t * 37 & 1023] : 0) + 2 * ((t ^ 1) % 3 ? 0 : a[t ^ 1]));
        ASSERT_VALUE(58, t, a[t & 127] + a[t & 127] * 2 + a[t & 127] * 3);
        ASSERT_VALUE(70, t, a[t * 3 < 512 ? t * 3 : 1024 + t * 3 - 512]);
        ASSERT_VALUE(71, t, a[255 - t] * 2);
        ASSERT_VALUE(72, t, a[(3 + t / 32) * 256 + 64 + t % 32]);
        int row = t / 32, chunk = t % 32 / 4 ^ row, column = chunk * 4 + t % 4; /* 128-byte swizzle */
        ASSERT_VALUE(73, t, column < 16 ? a[(4 + row) * 256 + 240 + column] : 0);
        ASSERT_VALUE(74, t, row < 4 ? a[(92 + row) * 256 + 32 + column] : 0);
        int slab = t / 128, line = t / 32 % 4;
        ASSERT_VALUE(75, t, a[((1 + slab) * 8 + 2 + line) * 256 + 96 + t % 32]);
        ASSERT_VALUE(76 + t / 32, 32 + t % 32, a[t] + 1);
    }
}

static void blocks_of_a_grid_pass_on(void **state) {
    const fixture *f = *state;
    for (int t = 0; t < COLUMNS; t++) {
        float x = f->a[t];
        for (int b = 0; b < 4; b++) {
            x = b ? x * 0.5f + f->a[b * 256 + t] : x;
            ASSERT_VALUE(60 + b, t, x);
            ASSERT_VALUE(65 + b, t, x);
        }
        ASSERT_BITS(64, t, t ? 0 : 15 + 16 * 10);
    }
}

static void clusters_share(void **state) {
    const fixture *f = *state;
    const float *a = f->a;
    for (int r = 0; r < 4; r++)
        for (int t = 0; t < COLUMNS; t++) {
            /* block r holds what block r - 1 computed from what block r - 2 sent */
            float mine = a[255 - t] + ((r + 2) % 4 + 0.5f), other = a[t] + ((r + 4) % 4 + 0.5f);
            ASSERT_VALUE(84 + r, t, (mine + other) + a[256 + t] * (float)t);
        }
    for (int t = 0; t < COLUMNS; t++) /* a quarter a block, from the block before it */
        ASSERT_VALUE(95, t, a[512 + 255 - t] * (float)((t / 64 + 3) % 4 + 1));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_order_agrees),
        cmocka_unit_test(every_row_is_written),
        cmocka_unit_test(the_reference_file_is_what_the_host_gives),
        cmocka_unit_test(arithmetic_is_ieee),
        cmocka_unit_test(powers_of_two_are_exact),
        cmocka_unit_test(conversions_round_to_nearest),
        cmocka_unit_test(warps_exchange),
        cmocka_unit_test(blocks_meet),
        cmocka_unit_test(tf32_products_follow_the_fragments),
        cmocka_unit_test(copies_land),
        cmocka_unit_test(blocks_of_a_grid_pass_on),
        cmocka_unit_test(clusters_share),
    };
    return cmocka_run_group_tests_name("primitives on the host", tests, set_up, tear_down);
}
