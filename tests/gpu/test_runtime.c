/* The public interface on a real GPU: right results, the same bits whatever stands around a call, graphs,
 * large batches, flat memory, host cost. What is right is judged by a residual in double on the host. */
#include "tests/lib/support.h"

#include "runtime/qrsmith.h"
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static qrs_context *context;

/* The driver calls that only a test needs. */
static struct {
    int (*begin)(void *stream, int mode);
    int (*end)(void *stream, void **graph);
    int (*instantiate)(void **executable, void *graph, unsigned long long flags);
    int (*launch)(void *executable, void *stream);
    int (*destroy)(void *graph);
    int (*destroy_executable)(void *executable);
    int (*memory)(size_t *unused, size_t *total);
    int (*current)(void **context);
    int (*push)(void *context);
    int (*retain)(void **context, int device);
} driver;

static void check(qrs_status status) {
    if (status) fail_msg("%s: %s", qrs_status_name(status), qrs_last_error());
}

static int set_up(void **state) {
    (void)state;
    qrs_context_options options = {.struct_size = sizeof options};
    if (qrs_context_create(&options, &context)) {
        print_error("%s\n", qrs_last_error());
        return 1;
    }
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    const struct {
        void **to;
        const char *name;
    } symbols[] = {{(void **)&driver.begin, "cuStreamBeginCapture_v2"},
                   {(void **)&driver.end, "cuStreamEndCapture"},
                   {(void **)&driver.instantiate, "cuGraphInstantiateWithFlags"},
                   {(void **)&driver.launch, "cuGraphLaunch"},
                   {(void **)&driver.destroy, "cuGraphDestroy"},
                   {(void **)&driver.destroy_executable, "cuGraphExecDestroy"},
                   {(void **)&driver.memory, "cuMemGetInfo_v2"},
                   {(void **)&driver.current, "cuCtxGetCurrent"},
                   {(void **)&driver.push, "cuCtxPushCurrent_v2"},
                   {(void **)&driver.retain, "cuDevicePrimaryCtxRetain"}};
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++)
        if (!(*symbols[i].to = dlsym(library, symbols[i].name))) return 1;
    void *primary; /* made current, as a program that uses the CUDA runtime has it */
    if (driver.retain(&primary, 0) || driver.push(primary)) return 1;
    print_message("%s\n", qrs_context_info(context));
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    qrs_context_destroy(context);
    return 0;
}

/* ---------------------------------------------------------------------------------------------- a call */

typedef struct setup {
    int64_t m, n, batch;
    qrs_layout in, out;
    qrs_precision precision;
    int64_t lda_gap, stride_gap; /* elements of padding after each line and each matrix */
    int64_t shift;               /* elements that pointers are off a 256-byte boundary */
    int in_place;
    int dirty; /* byte that workspace and outputs hold before */
} setup;

typedef struct result {
    int64_t lda, ldh, stride_a, stride_h, count_a, count_h, k;
    float *A, *H, *tau; /* host copies */
    int32_t *info;
} result;

static int64_t lines(const setup *s, qrs_layout l) {
    return l == QRS_ROW ? s->m : s->n;
}
static int64_t line(const setup *s, qrs_layout l) {
    return l == QRS_ROW ? s->n : s->m;
}

static float *entry(float *base, int64_t b, int64_t i, int64_t j, qrs_layout l, int64_t ld, int64_t stride) {
    return base + b * stride + (l == QRS_ROW ? i * ld + j : i + j * ld);
}

/* Numbers of matrix b don't depend on batch, layout or padding. */
static float number(int64_t b, int64_t i, int64_t j) {
    uint64_t x = (uint64_t)b * 0x9e3779b97f4a7c15u + (uint64_t)i * 0xbf58476d1ce4e5b9u +
                 (uint64_t)j * 0x94d049bb133111ebu + 1;
    x ^= x >> 31, x *= 0xd6e8feb86659fd93u, x ^= x >> 29, x *= 0xd6e8feb86659fd93u, x ^= x >> 32;
    return (float)(int32_t)(x >> 32) * 0x1p-31f;
}

static void *need(size_t bytes) {
    void *memory = malloc(bytes ? bytes : 1);
    assert_non_null(memory);
    return memory;
}

static result make_input(const setup *s) {
    result r = {.k = s->m < s->n ? s->m : s->n};
    r.lda = line(s, s->in) + s->lda_gap;
    r.ldh = line(s, s->out) + s->lda_gap;
    r.stride_a = r.lda * lines(s, s->in) + s->stride_gap;
    r.stride_h = r.ldh * lines(s, s->out) + s->stride_gap;
    r.count_a = r.stride_a * s->batch;
    r.count_h = r.stride_h * s->batch;
    r.A = need((size_t)r.count_a * 4);
    r.H = need((size_t)r.count_h * 4);
    r.tau = need((size_t)(s->batch * r.k) * 4);
    r.info = need((size_t)s->batch * 4);
    memset(r.A, 0xff, (size_t)r.count_a * 4); /* padding is NaN */
    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t i = 0; i < s->m; i++)
            for (int64_t j = 0; j < s->n; j++)
                *entry(r.A, b, i, j, s->in, r.lda, r.stride_a) = number(b, i, j);
    return r;
}

static void free_result(result *r) {
    free(r->A);
    free(r->H);
    free(r->tau);
    free(r->info);
}

typedef struct device_arrays {
    char *A, *H, *tau, *info, *workspace; /* as allocated */
    int64_t bytes, shift;
} device_arrays;

static char *on_device(int64_t bytes, int byte) {
    void *memory, *fill = need((size_t)bytes);
    check(qrs_memory_alloc(context, bytes, &memory));
    memset(fill, byte, (size_t)bytes);
    check(qrs_copy_to_device(context, memory, fill, bytes));
    free(fill);
    return memory;
}

static device_arrays to_device(const setup *s, qrs_plan *plan, const result *r) {
    device_arrays d = {.shift = 4 * s->shift};
    check(qrs_workspace_bytes(plan, s->batch, &d.bytes));
    d.A = on_device(r->count_a * 4 + 256, s->dirty);
    d.H = s->in_place ? d.A : on_device(r->count_h * 4 + 256, s->dirty);
    d.tau = on_device(s->batch * r->k * 4 + 256, s->dirty);
    d.info = on_device(s->batch * 4 + 256, s->dirty);
    d.workspace = d.bytes ? on_device(d.bytes, s->dirty) : NULL;
    check(qrs_copy_to_device(context, d.A + d.shift, r->A, r->count_a * 4));
    return d;
}

static qrs_status launch(const setup *s, qrs_plan *plan, const result *r, const device_arrays *d,
                         void *stream) {
    return qrs_geqrf(plan, stream, s->batch, (float *)(d->A + d->shift), r->lda, r->stride_a,
                     (float *)(d->H + d->shift), r->ldh, r->stride_h, (float *)(d->tau + d->shift), r->k,
                     (int32_t *)(d->info + d->shift), d->workspace, d->bytes);
}

static void to_host(const setup *s, result *r, const device_arrays *d) {
    check(qrs_copy_to_host(context, r->H, d->H + d->shift, r->count_h * 4));
    check(qrs_copy_to_host(context, r->tau, d->tau + d->shift, s->batch * r->k * 4));
    check(qrs_copy_to_host(context, r->info, d->info + d->shift, s->batch * 4));
}

static void free_device(const setup *s, device_arrays *d) {
    qrs_memory_free(context, d->A);
    if (!s->in_place) qrs_memory_free(context, d->H);
    qrs_memory_free(context, d->tau);
    qrs_memory_free(context, d->info);
    qrs_memory_free(context, d->workspace);
}

static qrs_plan *plan_for(const setup *s, int64_t max_batch, uint32_t flags) {
    qrs_shape shape = {s->m, s->n, s->in, s->out, s->precision, max_batch};
    qrs_plan_options options = {.struct_size = sizeof options, .flags = flags};
    qrs_plan *plan;
    check(qrs_plan_create(context, &shape, &options, &plan));
    return plan;
}

static result run_with(qrs_plan *plan, const setup *s) {
    result r = make_input(s);
    device_arrays d = to_device(s, plan, &r);
    check(launch(s, plan, &r, &d, NULL));
    check(qrs_stream_wait(context, NULL));
    to_host(s, &r, &d);
    free_device(s, &d);
    return r;
}

static result run(const setup *s) {
    qrs_plan *plan = plan_for(s, s->batch, 0);
    result r = run_with(plan, s);
    qrs_plan_destroy(plan);
    return r;
}

/* ---------------------------------------------------------------------------------------------- judging */

/* ||A - QR||_F / ||A||_F of one matrix, and that tau is 2/(v'v). */
static void assert_right(const setup *s, result *r, int64_t b) {
    double *x = need((size_t)s->m * sizeof *x), off = 0, all = 0;
    for (int64_t j = 0; j < s->n; j++) {
        for (int64_t i = 0; i < s->m; i++)
            x[i] = i <= j ? (double)*entry(r->H, b, i, j, s->out, r->ldh, r->stride_h) : 0.0;
        for (int64_t c = r->k - 1; c >= 0; c--) {
            double dot = x[c], tau = (double)r->tau[b * r->k + c];
            for (int64_t i = c + 1; i < s->m; i++)
                dot += (double)*entry(r->H, b, i, c, s->out, r->ldh, r->stride_h) * x[i];
            x[c] -= tau * dot;
            for (int64_t i = c + 1; i < s->m; i++)
                x[i] -= tau * dot * (double)*entry(r->H, b, i, c, s->out, r->ldh, r->stride_h);
        }
        for (int64_t i = 0; i < s->m; i++) {
            double a = (double)number(b, i, j);
            off += (a - x[i]) * (a - x[i]);
            all += a * a;
        }
    }
    free(x);
    double got = sqrt(off / all), limit = s->precision == QRS_FP16 ? 2e-3 : 1.2e-7 * (8 + 0.2 * (double)r->k);
    if (!(got <= limit))
        fail_msg("%lld x %lld, matrix %lld: residual %.2e, limit %.2e", (long long)s->m, (long long)s->n,
                 (long long)b, got, limit);
    assert_int_equal(r->info[b] & ~6, 0);
}

static void assert_same_bits(const setup *sa, result *a, int64_t ba, const setup *sb, result *b, int64_t bb) {
    for (int64_t i = 0; i < sa->m; i++)
        for (int64_t j = 0; j < sa->n; j++)
            if (memcmp(entry(a->H, ba, i, j, sa->out, a->ldh, a->stride_h),
                       entry(b->H, bb, i, j, sb->out, b->ldh, b->stride_h), 4))
                fail_msg("%lld x %lld: H(%lld, %lld) of matrices %lld and %lld differ", (long long)sa->m,
                         (long long)sa->n, (long long)i, (long long)j, (long long)ba, (long long)bb);
    assert_memory_equal(a->tau + ba * a->k, b->tau + bb * b->k, (size_t)a->k * 4);
}

static void assert_padding_untouched(const setup *s, result *r) {
    int64_t length = line(s, s->out);
    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t x = 0; x < r->stride_h; x++) {
            if (x / r->ldh < lines(s, s->out) && x % r->ldh < length) continue;
            const unsigned char *at = (const unsigned char *)(r->H + b * r->stride_h + x);
            for (int i = 0; i < 4; i++)
                assert_int_equal(at[i], s->in_place ? 0xff : s->dirty);
        }
}

static const int64_t sizes[][2] = {{3, 3},   {16, 16}, {17, 9},  {9, 17},    {32, 32},  {64, 64},
                                   {96, 40}, {40, 96}, {97, 97}, {176, 176}, {300, 64}, {512, 512}};
#define SIZES ((int)(sizeof sizes / sizeof *sizes))

/* Every size in both precisions by rows; some in every pair of layouts. False past the last. */
static bool nth_setup(int i, setup *s) {
    int size = i / 8, variant = i % 8; /* bits: layout in, layout out, precision */
    if (size >= SIZES) return false;
    *s = (setup){.m = sizes[size][0],
                 .n = sizes[size][1],
                 .batch = 9,
                 .in = variant & 1,
                 .out = variant >> 1 & 1,
                 .precision = variant >> 2};
    return true;
}

static bool wanted(int i) {
    return i % 4 == 0 || i / 8 == 2 || i / 8 == 4 || i / 8 == 6;
}

static atomic_int next_setup;

/* Compiles take seconds each: all of them at once, before the tests, into the cache. */
static void *warm_up(void *unused) {
    setup s;
    (void)unused;
    for (int i; nth_setup(i = atomic_fetch_add(&next_setup, 1), &s);)
        if (wanted(i)) {
            qrs_shape shape = {s.m, s.n, s.in, s.out, s.precision, 9};
            qrs_plan *plan;
            if (!qrs_plan_create(context, &shape, NULL, &plan)) qrs_plan_destroy(plan);
        }
    return NULL;
}

static void compile_all(void) {
    pthread_t threads[16];
    for (int i = 0; i < 16; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, warm_up, NULL), 0);
    for (int i = 0; i < 16; i++)
        pthread_join(threads[i], NULL);
}

/* ---------------------------------------------------------------------------------------------- tests */

static void every_size_layout_and_precision_is_right(void **state) {
    (void)state;
    compile_all();
    setup s;
    for (int i = 0; nth_setup(i, &s); i++) {
        if (!wanted(i)) continue;
        result r = run(&s);
        assert_right(&s, &r, 0);
        assert_right(&s, &r, 8);
        free_result(&r);
    }
}

/* A call whose surroundings differ gives the bits of a plain one. */
static void assert_same_as_plain(const setup *plain, const setup *other) {
    result a = run(plain), b = run(other);
    for (int64_t i = 0; i < plain->batch && i < other->batch; i++)
        assert_same_bits(plain, &a, i, other, &b, i);
    assert_padding_untouched(other, &b);
    free_result(&a);
    free_result(&b);
}

static void surroundings_change_no_bit(void **state) {
    (void)state;
    setup plain;
    for (int i = 0; nth_setup(i, &plain); i++) {
        if (!wanted(i) || plain.in != plain.out) continue;
        setup other = plain;
        other.dirty = 0xff; /* NaN everywhere before */
        assert_same_as_plain(&plain, &other);
        other.in_place = 1;
        assert_same_as_plain(&plain, &other);
        other = plain, other.lda_gap = 3, other.stride_gap = 5, other.dirty = 0xff;
        assert_same_as_plain(&plain, &other);
        other.in_place = 1;
        assert_same_as_plain(&plain, &other);
    }
}

static void alignment_of_4_bytes_is_right(void **state) {
    (void)state;
    for (int i = 0; i < SIZES; i++)
        for (int64_t shift = 1; shift < 4; shift++) {
            setup s = {
                .m = sizes[i][0], .n = sizes[i][1], .batch = 9, .shift = shift, .precision = shift & 1};
            result r = run(&s);
            assert_right(&s, &r, 0);
            assert_right(&s, &r, 8);
            free_result(&r);
        }
}

static void one_plan_serves_batches_in_turn(void **state) {
    (void)state;
    static const int64_t batches[] = {7, 512, 3, 100, 1};
    setup s = {.m = 64, .n = 48, .batch = 912, .dirty = 0xff};
    qrs_plan *plan = plan_for(&s, 912, 0);
    result all = run_with(plan, &s);
    for (int i = 0; i < 5; i++) {
        setup part = s;
        part.batch = batches[i];
        result r = run_with(plan, &part);
        for (int64_t b = 0; b < part.batch; b += 1 + part.batch / 5)
            assert_same_bits(&s, &all, b, &part, &r, b);
        assert_right(&part, &r, part.batch - 1);
        free_result(&r);
    }
    free_result(&all);
    qrs_plan_destroy(plan);
}

static void large_batches_are_right_at_both_ends(void **state) {
    (void)state;
    static const int64_t cases[][3] = {
        {65535, 3, 3}, {65536, 3, 3}, {65537, 3, 3}, {1000000, 3, 3}, {65537, 20, 12}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        setup s = {.m = cases[i][1], .n = cases[i][2], .batch = cases[i][0]};
        result r = run(&s);
        assert_right(&s, &r, 0);
        assert_right(&s, &r, s.batch / 2);
        assert_right(&s, &r, s.batch - 1);
        free_result(&r);
    }
}

static void a_nan_stays_in_its_matrix(void **state) {
    (void)state;
    for (int i = 0; i < SIZES; i++) {
        setup s = {.m = sizes[i][0], .n = sizes[i][1], .batch = 9};
        qrs_plan *plan = plan_for(&s, 9, 0);
        result clean = run_with(plan, &s), r = make_input(&s);
        *entry(r.A, 3, s.m / 2, s.n / 2, s.in, r.lda, r.stride_a) = NAN;
        device_arrays d = to_device(&s, plan, &r);
        check(launch(&s, plan, &r, &d, NULL));
        check(qrs_stream_wait(context, NULL));
        to_host(&s, &r, &d);
        for (int64_t b = 0; b < 9; b++)
            if (b != 3) assert_same_bits(&s, &clean, b, &s, &r, b);
        assert_int_equal(r.info[3] & 1, 1);
        free_device(&s, &d);
        free_result(&clean);
        free_result(&r);
        qrs_plan_destroy(plan);
    }
}

static void capture_and_replay_give_the_same_bits(void **state) {
    (void)state;
    for (int i = 0; i < SIZES; i++) {
        setup s = {.m = sizes[i][0], .n = sizes[i][1], .batch = 9, .dirty = 0xff};
        qrs_plan *plan = plan_for(&s, 9, QRS_DEFER);
        result plain = run(&s), r = make_input(&s);
        device_arrays d = to_device(&s, plan, &r);
        void *stream, *graph, *executable;
        check(qrs_stream_create(context, &stream));
        assert_int_equal(driver.begin(stream, 0), 0); /* global mode, the strictest */
        assert_int_equal(launch(&s, plan, &r, &d, stream), QRS_NOT_READY);
        check(qrs_plan_prepare(plan));
        check(launch(&s, plan, &r, &d, stream));
        assert_int_equal(driver.end(stream, &graph), 0); /* the capture stayed valid */
        assert_int_equal(driver.instantiate(&executable, graph, 0), 0);
        for (int replay = 0; replay < 3; replay++)
            assert_int_equal(driver.launch(executable, stream), 0);
        check(qrs_stream_wait(context, stream));
        to_host(&s, &r, &d);
        for (int64_t b = 0; b < 9; b++)
            assert_same_bits(&s, &plain, b, &s, &r, b);
        driver.destroy_executable(executable);
        driver.destroy(graph);
        qrs_stream_destroy(context, stream);
        free_device(&s, &d);
        free_result(&plain);
        free_result(&r);
        qrs_plan_destroy(plan);
    }
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void ten_thousand_calls_leave_memory_flat(void **state) {
    (void)state;
    setup s = {.m = 16, .n = 16, .batch = 4};
    qrs_plan *plan = plan_for(&s, 4, 0);
    result r = make_input(&s);
    device_arrays d = to_device(&s, plan, &r);
    size_t before, after, total;
    for (int i = 0; i < 1000; i++)
        check(launch(&s, plan, &r, &d, NULL));
    check(qrs_stream_wait(context, NULL));
    driver.memory(&before, &total);
    double started = now();
    for (int i = 0; i < 10000; i++)
        check(launch(&s, plan, &r, &d, NULL));
    double took = now() - started;
    check(qrs_stream_wait(context, NULL));
    driver.memory(&after, &total);
    print_message("    %.2f us of host time a call, the driver's launches included\n", took / 10000 * 1e6);
    assert_int_equal(before, after);
    free_device(&s, &d);
    free_result(&r);
    qrs_plan_destroy(plan);
}

static void refused_calls_leave_no_cuda_error_behind(void **state) {
    (void)state;
    setup s = {.m = 16, .n = 16, .batch = 4};
    qrs_plan *plan = plan_for(&s, 4, 0), *none;
    result r = make_input(&s);
    device_arrays d = to_device(&s, plan, &r);
    result wrong = r;
    wrong.lda = 3;
    assert_int_equal(launch(&s, plan, &wrong, &d, NULL), QRS_BAD_LEADING_DIMENSION);
    device_arrays misaligned = d;
    misaligned.shift = 2;
    assert_int_equal(launch(&s, plan, &r, &misaligned, NULL), QRS_MISALIGNED);
    qrs_shape shape = {.m = -1, .n = 4, .max_batch = 1};
    assert_int_equal(qrs_plan_create(context, &shape, NULL, &none), QRS_BAD_SHAPE);
    check(launch(&s, plan, &r, &d, NULL));
    check(qrs_stream_wait(context, NULL));
    to_host(&s, &r, &d);
    assert_right(&s, &r, 0);
    void *current;
    assert_int_equal(driver.current(&current), 0);
    assert_non_null(current);
    free_device(&s, &d);
    free_result(&r);
    qrs_plan_destroy(plan);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size_layout_and_precision_is_right),
        cmocka_unit_test(surroundings_change_no_bit),
        cmocka_unit_test(alignment_of_4_bytes_is_right),
        cmocka_unit_test(one_plan_serves_batches_in_turn),
        cmocka_unit_test(large_batches_are_right_at_both_ends),
        cmocka_unit_test(a_nan_stays_in_its_matrix),
        cmocka_unit_test(capture_and_replay_give_the_same_bits),
        cmocka_unit_test(ten_thousand_calls_leave_memory_flat),
        cmocka_unit_test(refused_calls_leave_no_cuda_error_behind),
    };
    return cmocka_run_group_tests_name("gpu runtime", tests, set_up, tear_down);
}
