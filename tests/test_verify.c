/* The verify family on the host executor against LAPACK in double: honest results, planted errors, NaN and
 * Inf, over tall, wide, single-column and single-row shapes, every pair of layouts, padding, both places that
 * columns are held in. */
#include "runtime/judge/contract.h"
#include "runtime/judge/inputs.h"
#include "tests/lib/hostrun.h"
#include "tests/lib/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct shape {
    int64_t m, n, batch;
    qg_layout in, out;
    const char *params; /* JSON, NULL: defaults */
    bool always;        /* not only with QRSMITH_TEST_ALL=1 */
} shape;

static const shape shapes[] = {
    {3, 3, 50, QG_ROW, QG_ROW, NULL, true}, /* several matrices a block, the last block not full */
    {20, 12, 9, QG_COL, QG_ROW, NULL, true},
    {12, 20, 9, QG_ROW, QG_COL, NULL, true},
    {67, 50, 3, QG_COL, QG_COL, NULL, true}, /* several blocks a matrix, teams of 4 */
    {40, 30, 3, QG_ROW, QG_COL, "{\"hold\": \"workspace\", \"lanes\": 8}", true},
    {5, 1, 40, QG_COL, QG_ROW, NULL, true},
    {1, 5, 40, QG_ROW, QG_ROW, NULL, false},
    {1, 1, 70, QG_ROW, QG_ROW, NULL, false},
    {300, 20, 2, QG_ROW, QG_ROW, NULL, false},
    {20, 300, 2, QG_COL, QG_ROW, NULL, false},
    {70, 70, 2, QG_ROW, QG_ROW, "{\"lanes\": 32, \"threads\": 256, \"tile\": 1}", false},
    {33, 65, 2, QG_COL, QG_COL, "{\"lanes\": 1, \"threads\": 32, \"tile\": 2}", false},
    {65, 33, 2, QG_COL, QG_ROW, "{\"hold\": \"workspace\", \"threads\": 64}", false},
    {600, 9, 2, QG_ROW, QG_COL, NULL, false},
    {2500, 20, 2, QG_ROW, QG_ROW, NULL, false}, /* a warp a column, few columns a block */
    {12000, 3, 2, QG_COL, QG_ROW, NULL, false}, /* too tall for shared memory */
};

static qt_host host;

static int open_host(void **state) {
    (void)state;
    qt_host_open(&host);
    return 0;
}

static int close_host(void **state) {
    (void)state;
    qt_host_close(&host);
    return 0;
}

static qhx_module *load(const shape *s) {
    qg_shape want = {.m = s->m,
                     .n = s->n,
                     .layout_in = s->in,
                     .layout_out = s->out,
                     .operation = QG_VERIFY,
                     .max_batch = s->batch};
    json_t *params = s->params ? json_loads(s->params, 0, NULL) : NULL;
    qg_error why;
    qg_plan *plan = qt_plan(&host, &want, "verify", params, &why);
    if (!plan) fail_msg("verify refuses %lldx%lld: %s", (long long)s->m, (long long)s->n, why.why);
    qhx_module *module = qt_load(&host, plan);
    qg_plan_free(plan);
    json_decref(params);
    return module;
}

/* Matrices of all kinds in turn, factored by sgeqrf. */
static qt_batch *factored(const shape *s) {
    qt_batch *b = qt_batch_new(s->batch, s->m, s->n, s->in, s->out, 3);
    int kinds = 0;
    while (qj_kind_at(kinds))
        kinds++;
    for (int64_t matrix = 0; matrix < s->batch; matrix++) {
        const qj_kind *kind = qj_kind_at((int)(matrix % kinds));
        qg_case c = {.batch = s->batch,
                     .m = s->m,
                     .n = s->n,
                     .layout_in = s->in,
                     .seed = 3,
                     .kind_value = kind->values[0]};
        snprintf(c.kind, sizeof c.kind, "%s", kind->name);
        qt_matrix a = qt_batch_a(b, matrix), h = qt_batch_h(b, matrix);
        assert_int_equal(qj_fill_part(a.at, &c, matrix, 1, b->lda, b->stride_a, NULL), QG_OK);
        qt_sgeqrf(&a, &h, b->tau + matrix * b->stride_tau);
    }
    return b;
}

static bool agree(double got, double truth) {
    if (isnan(truth) || isnan(got)) return isnan(truth) && isnan(got);
    if (isinf(truth) || isinf(got)) return truth == got;
    return fabs(got - truth) <= 1e-5 + 1e-6 * truth;
}

static void compare(const qt_batch *b, const double *gates, const char *what) {
    for (int64_t matrix = 0; matrix < b->batch; matrix++) {
        qt_matrix a = qt_batch_a(b, matrix), h = qt_batch_h(b, matrix);
        double truth[4];
        qt_gates(&a, &h, qt_batch_tau(b, matrix), truth);
        for (int g = 0; g < 4; g++) {
            /* Which gates of a non-finite matrix become NaN is not promised, only that it is reported. */
            if (truth[3] == 0 && g < 3) continue;
            if (!agree(gates[4 * matrix + g], truth[g]))
                fail_msg("%s: %lldx%lld, matrix %lld: %s is %.9g, LAPACK says %.9g", what, (long long)b->m,
                         (long long)b->n, (long long)matrix, qj_gate_name((qj_gate)g), gates[4 * matrix + g],
                         truth[g]);
        }
    }
}

static void check(qhx_module *module, const qt_batch *b, const char *what) {
    double *gates = qt_verify(&host, module, b);
    compare(b, gates, what);
    free(gates);
}

/* sgeqrf passes the contract's fp32 limits but for orthogonality at a few sizes; judge with twice that. */
static void judge_honest(qhx_module *module, const qt_batch *b) {
    qj_limits limits = qj_limits_for(b->m, b->n, QG_FP32);
    limits.orth *= 2;
    double *gates = qt_verify(&host, module, b);
    qj_verdict v = qj_judge(&limits, gates, b->batch);
    char text[200];
    if (!v.pass)
        fail_msg("%lldx%lld: %s", (long long)b->m, (long long)b->n, qj_verdict_text(&v, text, sizeof text));
    free(gates);
}

/* ------------------------------------------------------------------------------------------------ planted
 * errors */

static void add(const qt_batch *b, int64_t matrix, int64_t i, int64_t j, float value) {
    qt_matrix h = qt_batch_h(b, matrix);
    qt_set(&h, i, j, qt_get(&h, i, j) + value);
}

static void wrong_r(qt_batch *b) {
    add(b, b->batch - 1, 0, b->n - 1, 0.25f);
}
static void wrong_last_r(qt_batch *b) {
    add(b, 0, b->k - 1, b->n - 1, -0.01f);
}
static void wrong_v(qt_batch *b) {
    if (b->m > 1) add(b, b->batch / 2, b->m - 1, 0, 0.125f);
}
static void wrong_tau(qt_batch *b) {
    b->tau[b->k / 2] += 0x1p-12f;
}
static void negative_tau(qt_batch *b) {
    b->tau[0] = -b->tau[0];
}
static void huge_tau(qt_batch *b) {
    b->tau[(b->batch - 1) * b->stride_tau] = 1e30f;
}
static void forgotten_reflector(qt_batch *b) {
    b->tau[0] = 0;
}
static void wrong_sign_of_a_row(qt_batch *b) {
    qt_matrix h = qt_batch_h(b, 0);
    for (int64_t j = 0; j < b->n; j++)
        qt_set(&h, 0, j, -qt_get(&h, 0, j));
}
static void swapped_matrices(qt_batch *b) {
    for (int64_t i = 0; b->batch > 1 && i < b->stride_h; i++) {
        float kept = b->h[i];
        b->h[i] = b->h[b->stride_h + i];
        b->h[b->stride_h + i] = kept;
    }
}
static void result_is_the_input(qt_batch *b) {
    qt_matrix a = qt_batch_a(b, 0), h = qt_batch_h(b, 0);
    for (int64_t i = 0; i < b->m; i++)
        for (int64_t j = 0; j < b->n; j++)
            qt_set(&h, i, j, qt_get(&a, i, j));
}
static void zero_input(qt_batch *b) {
    qt_matrix a = qt_batch_a(b, 0), h = qt_batch_h(b, 0);
    for (int64_t i = 0; i < b->m; i++)
        for (int64_t j = 0; j < b->n; j++) {
            qt_set(&a, i, j, 0);
            qt_set(&h, i, j, 0);
        }
    memset(b->tau, 0, (size_t)b->k * sizeof *b->tau);
}
static void zero_input_wrong_r(qt_batch *b) {
    zero_input(b);
    add(b, 0, 0, 0, 0x1p-100f);
}

static const struct {
    const char *name;
    void (*plant)(qt_batch *b);
} plants[] = {
    {"wrong R", wrong_r},
    {"wrong last R", wrong_last_r},
    {"wrong V", wrong_v},
    {"wrong tau", wrong_tau},
    {"negative tau", negative_tau},
    {"huge tau", huge_tau},
    {"forgotten reflector", forgotten_reflector},
    {"wrong sign of a row", wrong_sign_of_a_row},
    {"swapped matrices", swapped_matrices},
    {"result is the input", result_is_the_input},
    {"zero input", zero_input},
    {"zero input, wrong R", zero_input_wrong_r},
};

/* --------------------------------------------------------------------------------------------------- not
 * numbers */

static void spoil_a(qt_batch *b, float value) {
    qt_matrix a = qt_batch_a(b, 1);
    qt_set(&a, b->m - 1, b->n - 1, value);
}
static void spoil_r(qt_batch *b, float value) {
    qt_matrix h = qt_batch_h(b, 1);
    qt_set(&h, 0, b->n - 1, value);
}
static void spoil_v(qt_batch *b, float value) {
    qt_matrix h = qt_batch_h(b, 1);
    qt_set(&h, b->m - 1, 0, value);
}
static void spoil_tau(qt_batch *b, float value) {
    b->tau[b->stride_tau + b->k - 1] = value;
}

static void (*const spoilers[])(qt_batch *, float) = {spoil_a, spoil_r, spoil_v, spoil_tau};

static void spoil_and_check(qhx_module *module, const shape *s, void (*spoil)(qt_batch *, float),
                            float value) {
    qt_batch *b = factored(s);
    double *clean = qt_verify(&host, module, b);
    spoil(b, value);
    double *gates = qt_verify(&host, module, b);
    qj_limits limits = qj_limits_for(b->m, b->n, QG_FP16);
    qj_verdict v = qj_judge(&limits, gates, b->batch);
    assert_true(gates[4 + QJ_FINITE] == 0);
    assert_true(!v.pass && v.failed == 1 && v.matrix == 1 && v.gate == QJ_FINITE);
    for (int64_t at = 0; at < 4 * b->batch; at++)
        if (at / 4 != 1) assert_true(gates[at] == clean[at]);
    free(clean);
    free(gates);
    qt_batch_free(b);
}

/* ----------------------------------------------------------------------------------------------------- the
 * tests */

static void for_each_shape(void (*check_shape)(const shape *s, qhx_module *module)) {
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        if (!shapes[i].always && !qt_test_all()) continue;
        qhx_module *module = load(&shapes[i]);
        check_shape(&shapes[i], module);
        qhx_unload(module);
    }
}

static void check_honest(const shape *s, qhx_module *module) {
    qt_batch *b = factored(s);
    check(module, b, "sgeqrf");
    judge_honest(module, b);
    qt_batch_free(b);
}

static void check_plants(const shape *s, qhx_module *module) {
    for (size_t i = 0; i < sizeof plants / sizeof *plants; i++) {
        qt_batch *b = factored(s);
        plants[i].plant(b);
        check(module, b, plants[i].name);
        qt_batch_free(b);
    }
}

static void check_spoilers(const shape *s, qhx_module *module) {
    if (s->batch < 2) return;
    for (size_t i = 0; i < sizeof spoilers / sizeof *spoilers; i++) {
        spoil_and_check(module, s, spoilers[i], NAN);
        spoil_and_check(module, s, spoilers[i], -INFINITY);
    }
}

static void honest_results_are_measured_as_lapack_does_and_pass(void **state) {
    (void)state;
    for_each_shape(check_honest);
}

static void planted_errors_are_measured_as_lapack_does(void **state) {
    (void)state;
    for_each_shape(check_plants);
}

static void not_numbers_are_reported_never_pass_and_stay_in_their_matrix(void **state) {
    (void)state;
    for_each_shape(check_spoilers);
}

static void planted_errors_fail_the_contract(void **state) {
    (void)state;
    const shape *s = &shapes[1];
    qhx_module *module = load(s);
    qj_limits limits = qj_limits_for(s->m, s->n, QG_FP16);
    for (size_t i = 0; i < sizeof plants / sizeof *plants; i++) {
        if (plants[i].plant == zero_input) continue;
        qt_batch *b = factored(s);
        plants[i].plant(b);
        double *gates = qt_verify(&host, module, b);
        qj_verdict v = qj_judge(&limits, gates, b->batch);
        if (v.pass) fail_msg("%s passes", plants[i].name);
        free(gates);
        qt_batch_free(b);
    }
    qhx_unload(module);
}

static void a_zero_matrix_has_no_residual(void **state) {
    (void)state;
    const shape *s = &shapes[1];
    qhx_module *module = load(s);
    qt_batch *b = factored(s);
    zero_input(b);
    double *gates = qt_verify(&host, module, b);
    assert_true(gates[QJ_FACTOR] == 0 && gates[QJ_ORTH] == 0 && gates[QJ_TAU] == 0 && gates[QJ_FINITE] == 1);
    free(gates);
    add(b, 0, 0, 0, 0x1p-140f);
    gates = qt_verify(&host, module, b);
    assert_true(isinf(gates[QJ_FACTOR]) && gates[QJ_FINITE] == 1);
    free(gates);
    qt_batch_free(b);
    qhx_unload(module);
}

/* Below the diagonal of a reflector that is switched off there is nothing: else R and V say different things.
 */
static void a_zero_tau_with_a_vector_is_an_error(void **state) {
    (void)state;
    const shape *s = &shapes[1];
    qhx_module *module = load(s);
    qt_batch *b = factored(s);
    zero_input(b);
    add(b, 0, s->m - 1, 2, 1.0f);
    double *gates = qt_verify(&host, module, b);
    assert_true(gates[QJ_FACTOR] == 0 && gates[QJ_ORTH] == 0 && isinf(gates[QJ_TAU]));
    free(gates);
    qt_batch_free(b);
    qhx_unload(module);
}

static void illegal_requests_are_refused_with_the_reason(void **state) {
    (void)state;
    qg_shape tall = {.m = 100000, .n = 8, .operation = QG_VERIFY, .max_batch = 1};
    json_t *params = json_loads("{\"hold\": \"shared\"}", 0, NULL);
    qg_error why;
    assert_null(qt_plan(&host, &tall, "verify", params, &why));
    qt_assert_contains(why.why, "shared memory");
    json_decref(params);
    qg_plan *plan = qt_plan(&host, &tall, "verify", NULL, NULL);
    assert_non_null(plan);
    assert_string_equal(json_string_value(json_object_get(plan->params, "hold")), "workspace");
    qg_plan_free(plan);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(honest_results_are_measured_as_lapack_does_and_pass),
        cmocka_unit_test(planted_errors_are_measured_as_lapack_does),
        cmocka_unit_test(not_numbers_are_reported_never_pass_and_stay_in_their_matrix),
        cmocka_unit_test(planted_errors_fail_the_contract),
        cmocka_unit_test(a_zero_matrix_has_no_residual),
        cmocka_unit_test(a_zero_tau_with_a_vector_is_an_error),
        cmocka_unit_test(illegal_requests_are_refused_with_the_reason),
    };
    return cmocka_run_group_tests(tests, open_host, close_host);
}
