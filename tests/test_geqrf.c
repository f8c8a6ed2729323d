/* The rules about qrs_geqrf's arguments, one table row a rule, against the stand-in driver: what is refused
 * has its own code and launches nothing; what has nothing to do succeeds; what is unusual but right goes
 * through. */
#include "tests/lib/support.h"

#include "runtime/qrsmith.h"
#include "tests/lib/fake.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *folder;
static fake_cuda_record *fake;
static qrs_context *context;

static int set_up(void **state) {
    (void)state;
    folder = qt_tmpdir();
    fake = qt_fake_gpu(folder);
    qrs_context_options options = {
        .struct_size = sizeof options, .cache_dir = "", .templates = "tests/fake/templates"};
    return qrs_context_create(&options, &context) != QRS_OK;
}

static int tear_down(void **state) {
    (void)state;
    qrs_context_destroy(context);
    qt_remove_tree(folder);
    free(folder);
    return 0;
}

/* A call as numbers: pointers are bytes into one arena, < 0 for null. */
typedef struct args {
    int64_t batch, A, lda, stride_a, H, ldh, stride_h, tau, stride_tau, info, workspace, bytes;
} args;

#define NONE INT64_MIN

static char arena[1 << 20] __attribute__((aligned(256)));

static void *at(int64_t offset) {
    return offset == NONE ? NULL : arena + offset;
}

static qrs_status call(qrs_plan *plan, const args *a) {
    return qrs_geqrf(plan, NULL, a->batch, at(a->A), a->lda, a->stride_a, at(a->H), a->ldh, a->stride_h,
                     at(a->tau), a->stride_tau, at(a->info), at(a->workspace), a->bytes);
}

static qrs_plan *plan_of(int64_t m, int64_t n, qrs_layout in, qrs_layout out) {
    qrs_shape shape = {.m = m, .n = n, .layout_in = in, .layout_out = out, .max_batch = 100};
    qrs_plan *plan;
    qrs_status status = qrs_plan_create(context, &shape, NULL, &plan);
    if (status) fail_msg("%s", qrs_last_error());
    return plan;
}

/* 10 x 6, rows in, columns out: A needs lda >= 6, H ldh >= 10. Apart from each other by far. */
static const args usual = {.batch = 4,
                           .A = 0,
                           .lda = 6,
                           .stride_a = 60,
                           .H = 100000,
                           .ldh = 10,
                           .stride_h = 60,
                           .tau = 200000,
                           .stride_tau = 6,
                           .info = 300000,
                           .workspace = 0x60000,
                           .bytes = 100000};

typedef struct row {
    const char *name;
    args a;
    qrs_status expected;
} row;

static void run_table(qrs_plan *plan, const row *rows, size_t count) {
    for (size_t i = 0; i < count; i++) {
        int before = fake->launch_count + fake->set_count;
        qrs_status status = call(plan, &rows[i].a);
        if (status != rows[i].expected)
            fail_msg("%s: %s instead of %s (%s)", rows[i].name, qrs_status_name(status),
                     qrs_status_name(rows[i].expected), qrs_last_error());
        bool launched = fake->launch_count + fake->set_count != before;
        if (launched != (status == QRS_OK)) fail_msg("%s: launched: %d", rows[i].name, launched);
    }
}

/* The usual call with some fields changed. */
#define WITH(...)                                                                                            \
    ({                                                                                                       \
        args changed = usual;                                                                                \
        args *u = &changed;                                                                                  \
        __VA_ARGS__;                                                                                         \
        changed;                                                                                             \
    })

static void wrong_arguments_have_codes_of_their_own(void **state) {
    (void)state;
    qrs_plan *plan = plan_of(10, 6, QRS_ROW, QRS_COL);
    const row rows[] = {
        {"usual", usual, QRS_OK},
        {"negative batch", WITH(u->batch = -1), QRS_BAD_BATCH},
        {"batch over max_batch", WITH(u->batch = 101), QRS_BAD_BATCH},
        {"null A", WITH(u->A = NONE), QRS_NULL_POINTER},
        {"null H", WITH(u->H = NONE), QRS_NULL_POINTER},
        {"null tau", WITH(u->tau = NONE), QRS_NULL_POINTER},
        {"null info is fine", WITH(u->info = NONE), QRS_OK},
        {"null workspace", WITH(u->workspace = NONE), QRS_NULL_POINTER},
        {"A off by 2 bytes", WITH(u->A = 2), QRS_MISALIGNED},
        {"H off by 1 byte", WITH(u->H += 1), QRS_MISALIGNED},
        {"tau off by 3 bytes", WITH(u->tau += 3), QRS_MISALIGNED},
        {"info off by 2 bytes", WITH(u->info += 2), QRS_MISALIGNED},
        {"workspace off by 4 bytes", WITH(u->workspace += 4), QRS_MISALIGNED},
        {"everything at 4 bytes", WITH(u->A += 4, u->H += 4, u->tau += 4, u->info += 4), QRS_OK},
        {"lda short", WITH(u->lda = 5), QRS_BAD_LEADING_DIMENSION},
        {"lda zero", WITH(u->lda = 0), QRS_BAD_LEADING_DIMENSION},
        {"lda negative", WITH(u->lda = -6), QRS_BAD_LEADING_DIMENSION},
        {"ldh short", WITH(u->ldh = 9), QRS_BAD_LEADING_DIMENSION},
        {"lda past memory", WITH(u->lda = INT64_MAX / 2), QRS_BAD_LEADING_DIMENSION},
        {"lda long", WITH(u->lda = 9, u->stride_a = 87), QRS_OK},
        {"stride one short", WITH(u->stride_a = 59), QRS_BAD_STRIDE},
        {"stride short for lda", WITH(u->lda = 9), QRS_BAD_STRIDE},
        {"stride zero", WITH(u->stride_a = 0), QRS_BAD_STRIDE},
        {"stride negative", WITH(u->stride_h = -60), QRS_BAD_STRIDE},
        {"stride past memory", WITH(u->stride_a = INT64_MAX / 2), QRS_BAD_STRIDE},
        {"tau stride short", WITH(u->stride_tau = 5), QRS_BAD_STRIDE},
        {"gaps", WITH(u->stride_a = 77, u->stride_h = 99, u->stride_tau = 11), QRS_OK},
        {"side by side", WITH(u->lda = 24, u->stride_a = 6, u->ldh = 40, u->stride_h = 10), QRS_OK},
        {"side by side, too many", WITH(u->lda = 23, u->stride_a = 6), QRS_BAD_STRIDE},
        {"strides of one matrix don't matter",
         WITH(u->batch = 1, u->stride_a = -1, u->stride_h = 0, u->stride_tau = 0), QRS_OK},
        {"workspace one byte short", WITH(u->bytes = 256 + 4095), QRS_WORKSPACE_TOO_SMALL},
        {"workspace just enough", WITH(u->bytes = 256 + 4096), QRS_OK},
        {"workspace of 0 bytes", WITH(u->bytes = 0, u->workspace = NONE), QRS_WORKSPACE_TOO_SMALL},
        {"workspace negative", WITH(u->bytes = -1), QRS_WORKSPACE_TOO_SMALL},
        {"H == A with unlike layouts", WITH(u->H = 0), QRS_OVERLAP},
        {"H inside A", WITH(u->H = 400), QRS_OVERLAP},
        {"H right behind A", WITH(u->H = 960), QRS_OK},
        {"tau inside H", WITH(u->tau = u->H + 40), QRS_OVERLAP},
        {"info inside A", WITH(u->info = 8), QRS_OVERLAP},
        {"workspace over H", WITH(u->workspace = 99840), QRS_OVERLAP},
        {"tau in records with H", WITH(u->stride_h = 66, u->stride_tau = 66, u->tau = u->H + 240), QRS_OK},
        {"tau in records, one early", WITH(u->stride_h = 66, u->stride_tau = 66, u->tau = u->H + 236),
         QRS_OVERLAP},
        {"tau in records, before H", WITH(u->stride_h = 66, u->stride_tau = 66, u->tau = u->H - 24), QRS_OK},
    };
    run_table(plan, rows, sizeof rows / sizeof *rows);
    assert_int_equal(qrs_geqrf(NULL, NULL, 1, NULL, 1, 1, NULL, 1, 1, NULL, 1, NULL, NULL, 0),
                     QRS_BAD_ARGUMENT);
    int64_t bytes;
    assert_int_equal(qrs_workspace_bytes(plan, 101, &bytes), QRS_BAD_BATCH);
    assert_int_equal(qrs_workspace_bytes(plan, 4, NULL), QRS_BAD_ARGUMENT);
    assert_int_equal(qrs_workspace_bytes(plan, 4, &bytes), QRS_OK);
    assert_int_equal(bytes, 256 + 4096);
    qrs_plan_destroy(plan);
}

static void in_place_needs_equal_layout_leading_dimension_and_stride(void **state) {
    (void)state;
    for (int layout = QRS_ROW; layout <= QRS_COL; layout++) {
        qrs_plan *plan = plan_of(8, 8, (qrs_layout)layout, (qrs_layout)layout);
        args a = usual;
        a.stride_tau = 8, a.lda = a.ldh = 9, a.stride_a = a.stride_h = 80, a.H = a.A;
        const row rows[] = {
            {"in place", a, QRS_OK},
            {"other stride", ({
                 args b = a;
                 b.stride_h = 81;
                 b;
             }),
             QRS_OVERLAP},
            {"other stride of one matrix", ({
                 args b = a;
                 b.stride_h = 81;
                 b.batch = 1;
                 b;
             }),
             QRS_OK},
            {"other leading dimension", ({
                 args b = a;
                 b.ldh = 8;
                 b;
             }),
             QRS_OVERLAP},
            {"one element on", ({
                 args b = a;
                 b.H += 4;
                 b;
             }),
             QRS_OVERLAP},
            {"a matrix on", ({
                 args b = a;
                 b.H += 320;
                 b;
             }),
             QRS_OVERLAP},
            {"behind", ({
                 args b = a;
                 b.H += 4 * 320;
                 b;
             }),
             QRS_OK},
        };
        run_table(plan, rows, sizeof rows / sizeof *rows);
        qrs_plan_destroy(plan);
    }
}

static void nothing_to_do_succeeds_and_launches_nothing(void **state) {
    (void)state;
    static const int64_t shapes[][3] = {
        {0, 6, 4}, {10, 0, 4}, {0, 0, 4}, {10, 6, 0}, {0, 0, 0}}; /* m, n, batch */
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        qrs_plan *plan = plan_of(shapes[i][0], shapes[i][1], QRS_ROW, QRS_ROW);
        int64_t bytes = -1;
        int before = fake->launch_count + fake->set_count;
        assert_int_equal(qrs_workspace_bytes(plan, shapes[i][2], &bytes), QRS_OK);
        assert_int_equal(bytes, 0);
        assert_int_equal(qrs_geqrf(plan, NULL, shapes[i][2], NULL, 0, 0, NULL, 0, 0, NULL, 0, NULL, NULL, 0),
                         QRS_OK);
        assert_int_equal(fake->launch_count + fake->set_count, before);
        qrs_plan_destroy(plan);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_arguments_have_codes_of_their_own),
        cmocka_unit_test(in_place_needs_equal_layout_leading_dimension_and_stride),
        cmocka_unit_test(nothing_to_do_succeeds_and_launches_nothing),
    };
    return cmocka_run_group_tests_name("geqrf", tests, set_up, tear_down);
}
