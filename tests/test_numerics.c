/* Every family that factors, by forced plan, on the host executor: every kind of input, judged by the
 * contract and compared with LAPACK in double; four thread orders with the same bits; padding, in place, NaN
 * in a neighbour, position in a batch (there, runs that must give the same bits are in different orders).
 * Families are asked for, not listed: a new one joins by existing. `make test` runs a few shapes,
 * QRSMITH_TEST_ALL=1 all sizes up to 96 in both precisions and every pair of layouts. */
#include "runtime/judge/contract.h"
#include "runtime/judge/inputs.h"
#include "tests/lib/hostrun.h"
#include "tests/lib/support.h"

#include <lapacke.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { INFO_NONFINITE = 1, INFO_TIMEOUT = 8, PAD = 3 };

typedef struct shape {
    int64_t m, n;
    qg_layout in, out;
    qg_precision precision;
} shape;

/* Each pair of layouts, both precisions, square, tall and wide, sizes that divide by nothing, single rows and
 * columns. */
static const shape few[] = {
    {3, 3, QG_ROW, QG_ROW, QG_FP32},   {1, 6, QG_ROW, QG_COL, QG_FP32},   {7, 1, QG_COL, QG_ROW, QG_FP32},
    {16, 16, QG_COL, QG_COL, QG_FP32}, {33, 21, QG_COL, QG_ROW, QG_FP32}, {19, 37, QG_ROW, QG_COL, QG_FP32},
    {48, 48, QG_ROW, QG_ROW, QG_FP16}, {64, 64, QG_ROW, QG_ROW, QG_FP32}, {72, 40, QG_COL, QG_COL, QG_FP16},
    {96, 96, QG_ROW, QG_ROW, QG_FP32},
};

enum { EVERY_MODE = 5 };

static const int64_t grid[][2] = {
    {33, 33}, {64, 64}, {96, 96}, {90, 33}, {32, 64}, {1, 1},   {2, 2},   {1, 9},
    {9, 1},   {3, 3},   {5, 4},   {8, 8},   {9, 9},   {16, 16}, {17, 17}, {24, 24},
    {31, 31}, {32, 32}, {40, 40}, {48, 48}, {63, 63}, {65, 65}, {80, 80}, {95, 95},
    {96, 8},  {8, 96},  {64, 32}, {33, 90}, {50, 49}, {49, 50}, {96, 1},  {1, 96},
};

static qt_host host;
static char **families;

static int open_host(void **state) {
    (void)state;
    qt_host_open(&host);
    families = qt_family_names(&host, "geqrf");
    return 0;
}

static int close_host(void **state) {
    (void)state;
    qt_names_free(families);
    qt_host_close(&host);
    return 0;
}

/* One plan of one family, compiled. */
typedef struct subject {
    shape s;
    const char *family;
    qhx_module *module;
    char what[160];
} subject;

typedef void (*check)(const subject *s);

static void with_plan(const shape *s, const char *family, check run) {
    qg_shape want = {.m = s->m,
                     .n = s->n,
                     .layout_in = s->in,
                     .layout_out = s->out,
                     .precision = s->precision,
                     .operation = QG_GEQRF,
                     .max_batch = 40};
    qg_error why;
    qg_plan *plan = qt_plan(&host, &want, family, NULL, &why);
    if (!plan) {
        /* Only the family that takes everything may not refuse. */
        if (strcmp(family, "blocked") == 0)
            fail_msg("blocked refuses %lldx%lld: %s", (long long)s->m, (long long)s->n, why.why);
        return;
    }
    subject x = {.s = *s, .family = family, .module = qt_load(&host, plan)};
    qg_plan_free(plan);
    snprintf(x.what, sizeof x.what, "%s %lldx%lld %s to %s, %s", family, (long long)s->m, (long long)s->n,
             qg_layout_name(s->in), qg_layout_name(s->out), qg_precision_name(s->precision));
    run(&x);
    qhx_unload(x.module);
}

/* QRSMITH_TEST_FAMILY=name: only that one, for who is writing it. */
static bool chosen(const char *family) {
    const char *only = getenv("QRSMITH_TEST_FAMILY");
    return !only || strcmp(only, family) == 0;
}

static void with_families(const shape *s, check run) {
    for (char **family = families; *family; family++)
        if (chosen(*family)) with_plan(s, *family, run);
}

static void for_each_subject(check run) {
    if (!qt_test_all()) {
        for (size_t i = 0; i < sizeof few / sizeof *few; i++)
            with_families(&few[i], run);
        return;
    }
    /* The first sizes in every pair of layouts and both precisions; the others take turns, one pair each
     * precision. */
    for (int i = 0; i < (int)(sizeof grid / sizeof *grid); i++)
        for (int mode = 0; mode < 8; mode++) {
            int layouts = mode & 3, precision = mode >> 2;
            if (i >= EVERY_MODE && layouts != ((i + precision) & 3)) continue;
            shape s = {grid[i][0], grid[i][1], layouts & 1 ? QG_COL : QG_ROW, layouts & 2 ? QG_COL : QG_ROW,
                       precision ? QG_FP16 : QG_FP32};
            with_families(&s, run);
        }
}

/* ---------------------------------------------------------------------------------------------------- the
 * inputs */

enum { MAX_VARIANTS = 64 };

typedef struct variant {
    const qj_kind *kind;
    double value, cond;
} variant;

/* Every kind with each of its values, and with cond 0 and 4 where it knows cond. */
static int list_variants(variant out[MAX_VARIANTS]) {
    int count = 0;
    for (int i = 0; qj_kind_at(i); i++) {
        const qj_kind *kind = qj_kind_at(i);
        for (int v = 0; v == 0 || kind->values[v] != 0; v++)
            for (double cond = 0; cond <= (kind->uses_cond ? 4 : 0); cond += 4) {
                assert_in_range(count, 0, MAX_VARIANTS - 1);
                out[count++] = (variant){kind, kind->values[v], cond};
            }
    }
    return count;
}

static void fill(const qt_batch *b, int64_t matrix, const variant *v, uint64_t seed) {
    qg_case c = {.batch = b->batch,
                 .m = b->m,
                 .n = b->n,
                 .layout_in = b->in,
                 .seed = seed,
                 .cond = v->cond,
                 .kind_value = v->value};
    snprintf(c.kind, sizeof c.kind, "%s", v->kind->name);
    assert_int_equal(qj_fill_part(b->a + matrix * b->stride_a, &c, matrix, 1, b->lda, b->stride_a, NULL),
                     QG_OK);
}

static qt_batch *new_batch(const subject *s, int64_t batch) {
    return qt_batch_new(batch, s->s.m, s->s.n, s->s.in, s->s.out, PAD);
}

static qt_batch *dense_batch(const subject *s, int64_t batch) {
    qt_batch *b = new_batch(s, batch);
    variant dense = {qj_kind_find("dense"), 0, 0};
    for (int64_t matrix = 0; matrix < batch; matrix++)
        fill(b, matrix, &dense, 5);
    return b;
}

/* -------------------------------------------------------------------------------------------- against LAPACK
 */

static void lapack_signs(const qt_batch *b, int64_t matrix, const char *what) {
    const float *tau = qt_batch_tau(b, matrix);
    for (int64_t j = 0; j < b->k; j++)
        if (tau[j] != 0 && !(tau[j] > 0.999999f && tau[j] < 2.000002f))
            fail_msg("%s: tau[%lld] = %.9g is neither 0 nor in [1, 2]", what, (long long)j, tau[j]);
    if (b->m <= b->n && tau[b->k - 1] != 0) fail_msg("%s: the last tau is %.9g, not 0", what, tau[b->k - 1]);
}

/* How far R may be from that of A in exact arithmetic, relative to ||A||: backward error times condition. */
static double forward_error(const double *h, const qt_batch *b, const qj_limits *limits) {
    double rcond = 0;
    assert_int_equal(
        LAPACKE_dtrcon(LAPACK_COL_MAJOR, '1', 'U', 'N', (lapack_int)b->k, h, (lapack_int)b->m, &rcond), 0);
    return rcond > 0 ? limits->factor * QJ_EPS / rcond : INFINITY;
}

static double norm1(const qt_matrix *a) {
    double largest = 0;
    for (int64_t j = 0; j < a->n; j++) {
        double sum = 0;
        for (int64_t i = 0; i < a->m; i++)
            sum += fabs(qt_get(a, i, j));
        largest = fmax(largest, sum);
    }
    return largest;
}

static void compare_with_lapack(const qt_batch *b, int64_t matrix, const qj_limits *limits,
                                const char *what) {
    qt_matrix a = qt_batch_a(b, matrix), h = qt_batch_h(b, matrix);
    double *truth = calloc((size_t)(b->m * b->n), sizeof *truth), *tau = calloc((size_t)b->k, sizeof *tau);
    assert_true(truth && tau);
    qt_dgeqrf(&a, truth, tau);
    double error = 4 * forward_error(truth, b, limits), size = norm1(&a);
    /* Of an ill-conditioned matrix R and V may be anything; the residuals have been judged. */
    for (int64_t j = 0; j < b->n && error < 0.05; j++)
        for (int64_t i = 0; i < b->m; i++) {
            double got = qt_get(&h, i, j), expected = truth[i + j * b->m];
            if (!(fabs(got - expected) <= error * (i <= j ? size : 4)))
                fail_msg("%s: H[%lld][%lld] = %.9g, LAPACK's is %.9g, allowed difference %.3g", what,
                         (long long)i, (long long)j, got, expected, error * (i <= j ? size : 4));
        }
    free(truth);
    free(tau);
}

/* The largest share of a limit that a family used, and where. */
typedef struct tally {
    int plans;
    double share;
    char where[400];
} tally;

static void judge(const subject *s, const qt_batch *b, const variant *variants, tally *t) {
    qj_limits limits = qj_limits_for(b->m, b->n, s->s.precision);
    for (int64_t matrix = 0; matrix < b->batch; matrix++) {
        const variant *v = &variants[matrix];
        char *what = qt_format("%s, %s %g, cond %g", s->what, v->kind->name, v->value, v->cond), text[200];
        qt_matrix a = qt_batch_a(b, matrix), h = qt_batch_h(b, matrix);
        double gates[QJ_GATES];
        qt_gates(&a, &h, qt_batch_tau(b, matrix), gates);
        qj_verdict verdict = qj_judge(&limits, gates, 1);
        if (!verdict.pass) fail_msg("%s: %s", what, qj_verdict_text(&verdict, text, sizeof text));
        if (b->info[matrix] & (INFO_NONFINITE | INFO_TIMEOUT) || b->info[matrix] < 0)
            fail_msg("%s: info is %d", what, b->info[matrix]);
        if (verdict.share > t->share) {
            t->share = verdict.share;
            snprintf(t->where, sizeof t->where, "%s: %s", what, qj_gate_name(verdict.gate));
        }
        lapack_signs(b, matrix, what);
        compare_with_lapack(b, matrix, &limits, what);
        free(what);
    }
}

/* ---------------------------------------------------------------------------------------------------- the
 * checks */

static tally tallies[32]; /* in the order of families */

static tally *tally_of(const char *family) {
    size_t i = 0;
    while (strcmp(families[i], family) != 0)
        i++;
    assert_in_range(i, 0, sizeof tallies / sizeof *tallies - 1);
    return &tallies[i];
}

static void check_kinds(const subject *s) {
    variant variants[MAX_VARIANTS];
    int count = list_variants(variants);
    qt_batch *b = new_batch(s, count);
    for (int i = 0; i < count; i++)
        fill(b, i, &variants[i], 17);
    qt_run_orders(&host, s->module, b, s->what);
    tally_of(s->family)->plans++;
    judge(s, b, variants, tally_of(s->family));
    qt_batch_free(b);
}

static void check_in_place(const subject *s) {
    if (s->s.in != s->s.out) return;
    qt_batch *b = dense_batch(s, 3), *own = dense_batch(s, 3);
    qt_run_once(&host, s->module, b, 0, false);
    qt_run_once(&host, s->module, own, 1, true);
    char *what = qt_format("%s, in place", s->what);
    qt_batch_same(b, own, what);
    free(what);
    qt_batch_free(b);
    qt_batch_free(own);
}

/* The same matrices without padding and with padding of NaN. */
static void check_padding(const subject *s) {
    qt_batch *padded = dense_batch(s, 3);
    qt_batch *packed = qt_batch_new(3, s->s.m, s->s.n, s->s.in, s->s.out, 0);
    variant dense = {qj_kind_find("dense"), 0, 0};
    for (int64_t matrix = 0; matrix < 3; matrix++)
        fill(packed, matrix, &dense, 5);
    qt_run_once(&host, s->module, packed, 0, false);
    qt_run_once(&host, s->module, padded, 2, false);
    char *what = qt_format("%s, padded", s->what);
    qt_batch_same(packed, padded, what);
    qt_batch_padding_kept(padded, what);
    free(what);
    qt_batch_free(padded);
    qt_batch_free(packed);
}

static bool matrix_is_finite(const qt_batch *b, int64_t matrix) {
    qt_matrix h = qt_batch_h(b, matrix);
    for (int64_t i = 0; i < b->m; i++)
        for (int64_t j = 0; j < b->n; j++)
            if (!isfinite(qt_get(&h, i, j))) return false;
    return true;
}

static void copy_result(qt_batch *to, const qt_batch *from, int64_t matrix) {
    memcpy(to->h + matrix * to->stride_h, from->h + matrix * to->stride_h,
           (size_t)to->stride_h * sizeof *to->h);
    memcpy(to->tau + matrix * to->stride_tau, from->tau + matrix * to->stride_tau,
           (size_t)to->stride_tau * sizeof *to->tau);
    to->info[matrix] = from->info[matrix];
}

static void check_one_poison(const subject *s, const qt_batch *clean, int order, int64_t i, int64_t j,
                             float value) {
    const int64_t victim = clean->batch / 2;
    qt_batch *b = dense_batch(s, clean->batch);
    qt_matrix a = qt_batch_a(b, victim);
    qt_set(&a, i, j, value);
    qt_run_once(&host, s->module, b, order, false);
    char *what = qt_format("%s, %f at [%lld][%lld] of matrix %lld", s->what, value, (long long)i,
                           (long long)j, (long long)victim);
    if (!(b->info[victim] & INFO_NONFINITE)) fail_msg("%s: info is %d", what, b->info[victim]);
    if (matrix_is_finite(b, victim)) fail_msg("%s: H is finite", what);
    copy_result(b, clean, victim);
    qt_batch_same(clean, b, what);
    free(what);
    qt_batch_free(b);
}

static void check_neighbours(const subject *s) {
    qt_batch *clean = dense_batch(s, 5);
    qt_run_once(&host, s->module, clean, 0, false);
    int64_t m = s->s.m, n = s->s.n;
    check_one_poison(s, clean, 1, 0, 0, NAN);
    check_one_poison(s, clean, 2, m - 1, n - 1, INFINITY);
    check_one_poison(s, clean, 3, m / 2, n / 2, NAN);
    qt_batch_free(clean);
}

static void check_positions(const subject *s) {
    enum { BATCH = 11 };
    variant dense = {qj_kind_find("dense"), 0, 0};
    qt_batch *one = new_batch(s, 1), *many = new_batch(s, BATCH);
    fill(one, 0, &dense, 8);
    for (int64_t matrix = 0; matrix < BATCH; matrix++)
        memcpy(many->a + matrix * many->stride_a, one->a, (size_t)one->stride_a * sizeof *one->a);
    qt_run_once(&host, s->module, one, 0, false);
    qt_run_once(&host, s->module, many, 3, false);
    for (int64_t matrix = 0; matrix < BATCH; matrix++) {
        qt_batch view = *many;
        view.batch = 1;
        view.h += matrix * many->stride_h;
        view.tau += matrix * many->stride_tau;
        view.info += matrix;
        char *what = qt_format("%s, position %lld of a batch", s->what, (long long)matrix);
        qt_batch_same(one, &view, what);
        free(what);
    }
    qt_batch_free(one);
    qt_batch_free(many);
}

static void check_no_info(const subject *s) {
    qt_batch *with = dense_batch(s, 2), *without = dense_batch(s, 2);
    qt_run_once(&host, s->module, with, 0, false);
    int32_t *kept = without->info;
    without->info = NULL;
    qt_run_once(&host, s->module, without, 1, false);
    without->info = kept;
    memcpy(without->info, with->info, 2 * sizeof *kept);
    char *what = qt_format("%s, without info", s->what);
    qt_batch_same(with, without, what);
    free(what);
    qt_batch_free(with);
    qt_batch_free(without);
}

static void no_matrices(const subject *s) {
    qt_batch *b = new_batch(s, 0);
    qt_run_once(&host, s->module, b, 0, false);
    qt_batch_free(b);
}

/* Zero blocks between others, and matrices that end in them, by plans that pass panels on: to the CTA that
 * shares the matrix, and in scratch from matrix to matrix where a CTA has several. */
static const struct {
    int64_t m, n, batch;
    const char *params;
} passing_on[] = {
    {100, 230, 3, "{\"update\": \"mma\", \"ctas\": 2, \"keep\": \"scratch\", \"stages\": 1}"},
    {193, 385, 2, "{\"update\": \"mma\", \"ctas\": 2, \"keep\": \"scratch\", \"stages\": 2}"},
    {100, 230, 2, "{\"update\": \"mma\", \"ctas\": 4, \"keep\": \"scratch\", \"stages\": 2}"},
    {100, 230, 3, "{\"update\": \"mma\", \"ctas\": 2, \"keep\": \"shared\"}"},
    {62, 260, 140, "{\"update\": \"wgmma\"}"},
};

/* Loads a plan of fused with these parameters; s: shape. */
static void load_fused(subject *s, int64_t batch, const char *params) {
    qg_shape want = {.m = s->s.m,
                     .n = s->s.n,
                     .layout_in = s->s.in,
                     .layout_out = s->s.out,
                     .precision = s->s.precision,
                     .operation = QG_GEQRF,
                     .max_batch = batch};
    json_t *forced = json_loads(params, 0, NULL);
    assert_non_null(forced);
    qg_error why;
    s->family = "fused";
    qg_plan *plan = qt_plan(&host, &want, s->family, forced, &why);
    if (!plan) fail_msg("%s: %s", params, why.why);
    s->module = qt_load(&host, plan);
    qg_plan_free(plan);
    json_decref(forced);
    snprintf(s->what, sizeof s->what, "fused %lldx%lld %s", (long long)s->s.m, (long long)s->s.n, params);
}

/* Factors a batch whose matrices take the kinds in turn, in every thread order, and judges it. */
static qt_batch *factor_kinds(const subject *s, int64_t batch, const variant *kinds, int kind_count) {
    variant *variants = calloc((size_t)batch, sizeof *variants);
    assert_non_null(variants);
    qt_batch *b = new_batch(s, batch);
    for (int64_t q = 0; q < batch; q++) {
        variants[q] = kinds[q % kind_count];
        fill(b, q, &variants[q], 23);
    }
    qt_run_orders(&host, s->module, b, s->what);
    tally t = {0};
    judge(s, b, variants, &t);
    free(variants);
    return b;
}

static void zero_blocks_between_others_keep_the_contract(void **state) {
    (void)state;
    const variant kinds[] = {
        {qj_kind_find("gaps"), 0, 0}, {qj_kind_find("dense"), 0, 0}, {qj_kind_find("rankdef"), 0, 0}};
    for (size_t i = 0; i < sizeof passing_on / sizeof *passing_on; i++) {
        subject s = {.s = {passing_on[i].m, passing_on[i].n, QG_ROW, QG_ROW, QG_FP32}};
        load_fused(&s, passing_on[i].batch, passing_on[i].params);
        qt_batch_free(factor_kinds(&s, passing_on[i].batch, kinds, 3));
        qhx_unload(s.module);
    }
}

/* By wgmma, a matrix of each kind. */
static qt_batch *factor_tall(subject *s, const variant *kinds, int kind_count) {
    load_fused(s, kind_count, "{\"update\": \"wgmma\"}");
    return factor_kinds(s, kind_count, kinds, kind_count);
}

/* What a panel's whole Gram matrix squares: columns that depend on each other, zero ones, and some whose
 * weight is in a panel's top block. */
enum { SQUARED = 9 };
static void list_squared(variant out[SQUARED]) {
    static const struct {
        const char *kind;
        double value;
    } squared[SQUARED] = {{"pairs", 0.05}, {"gaps", 0},    {"band", 0},        {"rankdef", 0}, {"dense", 0},
                          {"upper", 0},    {"pairs", 0.3}, {"collinear", 0.1}, {"rowscale", 0}};
    for (int i = 0; i < SQUARED; i++)
        out[i] = (variant){qj_kind_find(squared[i].kind), squared[i].value, 0};
}

static void panels_from_their_whole_gram_matrix_keep_the_contract(void **state) {
    (void)state;
    const shape shapes[] = {{200, 130, QG_ROW, QG_ROW, QG_FP16},
                            {140, 150, QG_COL, QG_COL, QG_FP16},
                            {270, 260, QG_COL, QG_ROW, QG_FP32}};
    variant squared[SQUARED];
    list_squared(squared);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        subject s = {.s = shapes[i]};
        qt_batch_free(factor_tall(&s, squared, SQUARED));
        qhx_unload(s.module);
    }
}

static void panels_of_32_columns_from_their_whole_gram_matrix_keep_the_contract(void **state) {
    (void)state;
    const struct {
        shape s;
        const char *params;
    } plans[] = {
        {{176, 100, QG_ROW, QG_ROW, QG_FP32}, "{\"ctas\": 2, \"keep\": \"shared\", \"method\": \"gram\"}"},
        {{140, 150, QG_COL, QG_COL, QG_FP16},
         "{\"ctas\": 2, \"keep\": \"scratch\", \"stages\": 2, \"method\": \"gram\"}"}};
    variant squared[SQUARED];
    list_squared(squared);
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        subject s = {.s = plans[i].s};
        load_fused(&s, SQUARED, plans[i].params);
        qt_batch_free(factor_kinds(&s, SQUARED, squared, SQUARED));
        qhx_unload(s.module);
    }
}

static void weight_in_a_panels_top_block_is_no_reason_to_fall_back(void **state) {
    (void)state;
    const shape shapes[] = {{270, 260, QG_ROW, QG_ROW, QG_FP32}, {200, 100, QG_ROW, QG_ROW, QG_FP32}};
    const char *plans[] = {"{\"update\": \"wgmma\"}", "{\"ctas\": 2, \"method\": \"gram\"}"};
    const variant heavy = {qj_kind_find("band"), 0, 0};
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        subject s = {.s = shapes[i]};
        load_fused(&s, 2, plans[i]);
        qt_batch *b = factor_kinds(&s, 2, &heavy, 1);
        if (b->info[0] || b->info[1]) fail_msg("%s: info %d, %d", s.what, b->info[0], b->info[1]);
        qt_batch_free(b);
        qhx_unload(s.module);
    }
}

static void dense_panels_do_not_fall_back_from_their_whole_gram_matrix(void **state) {
    (void)state;
    subject s = {.s = {256, 128, QG_ROW, QG_ROW, QG_FP16}};
    qt_batch *b = factor_tall(&s, &(variant){qj_kind_find("dense"), 0, 0}, 1);
    assert_int_equal(b->info[0], 0);
    qt_batch_free(b);
    qhx_unload(s.module);
}

static void few_columns_of_dense_matrices_do_not_fall_back(void **state) {
    (void)state;
    const shape shapes[] = {{66, 33, QG_ROW, QG_ROW, QG_FP32},
                            {200, 32, QG_ROW, QG_ROW, QG_FP32},
                            {400, 16, QG_ROW, QG_ROW, QG_FP32},
                            {200, 9, QG_ROW, QG_ROW, QG_FP16}};
    const variant dense = {qj_kind_find("dense"), 0, 0};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        subject s = {.s = shapes[i]};
        load_fused(&s, 2, "{\"method\": \"gram\"}");
        qt_batch *b = factor_kinds(&s, 2, &dense, 1);
        if (b->info[0] || b->info[1]) fail_msg("%s: info %d, %d", s.what, b->info[0], b->info[1]);
        qt_batch_free(b);
        qhx_unload(s.module);
    }
}

static void a_diagonal_matrix_has_no_reflectors_whatever_the_panel(void **state) {
    (void)state;
    subject s = {.s = {200, 130, QG_ROW, QG_ROW, QG_FP16}};
    qt_batch *b = factor_tall(&s, &(variant){qj_kind_find("diagonal"), 0, 0}, 1);
    for (int64_t j = 0; j < s.s.n; j++)
        if (qt_batch_tau(b, 0)[j] != 0)
            fail_msg("tau[%lld] is %g", (long long)j, (double)qt_batch_tau(b, 0)[j]);
    qt_batch_free(b);
    qhx_unload(s.module);
}

static void every_kind_keeps_the_contract_in_every_thread_order(void **state) {
    (void)state;
    for_each_subject(check_kinds);
    for (char **family = families; *family; family++) {
        const tally *t = tally_of(*family);
        print_message("%s: %d plans, at most %.2f of a limit (%s)\n", *family, t->plans, t->share, t->where);
    }
}
static void in_place_gives_the_bits_of_out_of_place(void **state) {
    (void)state;
    for_each_subject(check_in_place);
}
static void nan_in_the_padding_changes_nothing(void **state) {
    (void)state;
    for_each_subject(check_padding);
}
static void nan_in_one_matrix_leaves_its_neighbours_bits_alone(void **state) {
    (void)state;
    for_each_subject(check_neighbours);
}
static void the_same_matrix_has_the_same_bits_anywhere_in_any_batch(void **state) {
    (void)state;
    for_each_subject(check_positions);
}
static void info_may_be_null(void **state) {
    (void)state;
    for_each_subject(check_no_info);
}
static void an_empty_batch_launches_nothing(void **state) {
    (void)state;
    for_each_subject(no_matrices);
}
static void the_family_that_takes_everything_is_there(void **state) {
    (void)state;
    bool blocked = false;
    for (char **family = families; *family; family++)
        blocked = blocked || strcmp(*family, "blocked") == 0;
    assert_true(blocked);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_family_that_takes_everything_is_there),
        cmocka_unit_test(every_kind_keeps_the_contract_in_every_thread_order),
        cmocka_unit_test(zero_blocks_between_others_keep_the_contract),
        cmocka_unit_test(panels_from_their_whole_gram_matrix_keep_the_contract),
        cmocka_unit_test(panels_of_32_columns_from_their_whole_gram_matrix_keep_the_contract),
        cmocka_unit_test(weight_in_a_panels_top_block_is_no_reason_to_fall_back),
        cmocka_unit_test(dense_panels_do_not_fall_back_from_their_whole_gram_matrix),
        cmocka_unit_test(few_columns_of_dense_matrices_do_not_fall_back),
        cmocka_unit_test(a_diagonal_matrix_has_no_reflectors_whatever_the_panel),
        cmocka_unit_test(in_place_gives_the_bits_of_out_of_place),
        cmocka_unit_test(nan_in_the_padding_changes_nothing),
        cmocka_unit_test(nan_in_one_matrix_leaves_its_neighbours_bits_alone),
        cmocka_unit_test(the_same_matrix_has_the_same_bits_anywhere_in_any_batch),
        cmocka_unit_test(info_may_be_null),
        cmocka_unit_test(an_empty_batch_launches_nothing),
    };
    return cmocka_run_group_tests(tests, open_host, close_host);
}
