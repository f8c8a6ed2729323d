/* The judge's inputs: random numbers against known values, every kind against its definition, reproducibility
 * whatever the threads, layout or part of the batch, and refusals. */
#include "runtime/judge/inputs.h"
#include "runtime/judge/random.h"
#include "tests/lib/support.h"

#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

static qg_case make_case(const char *kind, int64_t batch, int64_t m, int64_t n) {
    qg_case c = {.batch = batch, .m = m, .n = n, .seed = 7};
    snprintf(c.kind, sizeof c.kind, "%s", kind);
    const qj_kind *k = qj_kind_find(kind);
    assert_non_null(k);
    c.kind_value = k->values[0];
    return c;
}

/* Packed, in the case's layout. Caller frees. */
static float *filled(const qg_case *c) {
    int64_t size = c->m * c->n;
    float *a = malloc((size_t)(c->batch * size + 1) * sizeof *a);
    assert_non_null(a);
    qg_error err;
    if (qj_fill(a, c, c->layout_in == QG_ROW ? c->n : c->m, size, &err) != QG_OK)
        fail_msg("%s: %s", err.what, err.why);
    return a;
}

static uint64_t hash(const float *a, int64_t count) {
    uint64_t h = 14695981039346656037ull;
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &a[i], 4);
        h = (h ^ bits) * 1099511628211ull;
    }
    return h;
}

/* Salmon et al., known answers of philox4x32_10. */
static void philox_matches_its_known_answers(void **state) {
    (void)state;
    uint32_t out[4];
    qj_random_words(&(qj_place){0, 0, QJ_STREAM_BASE, 0, 0}, out);
    const uint32_t zeros[4] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
    assert_memory_equal(out, zeros, sizeof out);
    /* Key ffffffff:ffffffff and all counter bits set: quad takes 24 bits, so the stream's byte is 255 here.
     */
    qj_random_words(&(qj_place){UINT64_MAX, UINT64_MAX, (qj_stream)255, 0xffffff, UINT32_MAX}, out);
    const uint32_t ones[4] = {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd};
    assert_memory_equal(out, ones, sizeof out);
}

static void logarithm_and_powers_of_ten_are_accurate(void **state) {
    (void)state;
    for (int i = 1; i < 4000; i++) {
        double x = i * 0.37e-3 * (i % 7 ? 1 : 1e-9);
        assert_true(fabs(qj_log(x) - log(x)) <= 4e-16 * fmax(1, fabs(log(x))));
        double p = (i - 2000) * 0.01;
        assert_true(fabs(qj_pow10(p) - pow(10, p)) <= 2e-15 * pow(10, p));
    }
    assert_true(qj_pow10(0) == 1 && qj_pow10(-4) == 1e-4);
}

/* erfc is the definition: P(X < x) = erfc(-x / sqrt(2)) / 2. */
static void quantile_inverts_the_normal_distribution(void **state) {
    (void)state;
    for (uint64_t word = 0; word <= UINT32_MAX; word += 1299709) {
        double x = qj_normal_quantile((uint32_t)word), p = (word + 0.5) * 0x1p-32;
        double tail = p < 0.5 ? p : 1 - p, got = 0.5 * erfc(fabs(x) / sqrt(2));
        assert_true(fabs(got - tail) <= 4e-14 * tail);
        assert_true((x < 0) == (p < 0.5));
    }
    assert_true(qj_normal_quantile(0) == -qj_normal_quantile(UINT32_MAX));
}

static void dense_has_the_moments_of_a_normal(void **state) {
    (void)state;
    qg_case c = make_case("dense", 4, 200, 250);
    float *a = filled(&c);
    double sum[5] = {0}, count = 4 * 200 * 250, cross = 0;
    for (int64_t i = 0; i < (int64_t)count; i++)
        for (int p = 1; p <= 4; p++)
            sum[p] += pow(a[i], p);
    for (int64_t i = 1; i < (int64_t)count; i++)
        cross += (double)a[i] * a[i - 1];
    double sigma = 1 / sqrt(count);
    assert_true(fabs(sum[1] / count) < 4 * sigma);
    assert_true(fabs(sum[2] / count - 1) < 4 * sqrt(2) * sigma);
    assert_true(fabs(sum[3] / count) < 4 * sqrt(15) * sigma);
    assert_true(fabs(sum[4] / count - 3) < 4 * sqrt(96) * sigma);
    assert_true(fabs(cross / count) < 4 * sigma);
    free(a);
}

/* The bits are part of the suites: a change here changes every recorded result. */
static void bits_are_pinned(void **state) {
    (void)state;
    static const struct {
        const char *kind;
        uint64_t bits;
    } pinned[] = {
        {"dense", 0x72b967e429bdadb1},         {"rankdef", 0xc42e5911815aa909},
        {"nearrank", 0x3f1ae1c5ffd18796},      {"clustered", 0x8f0cf189276a0963},
        {"band", 0x31d7c7c0c3c34415},          {"rowscale", 0x457c8092a8236e1c},
        {"nearcollinear", 0x3a7b07da8bba2206}, {"upper", 0xafab5079f8a929ea},
        {"diagonal", 0x27ee9e061e7667a4},      {"mixed", 0xffbceb6145fe6f91},
        {"pairs", 0x9e2f5a9a25f2a9c3},         {"collinear", 0x6d5e6ca9043fff54},
        {"lowones", 0xe9f6d385360925fc},       {"gram", 0x74358693e451ac75},
        {"gaps", 0x72b967e429bdadb1}, /* as dense: 29 columns are one block */
    };
    for (size_t i = 0; i < sizeof pinned / sizeof *pinned; i++) {
        qg_case c = make_case(pinned[i].kind, 3, 37, 29);
        c.cond = qj_kind_find(c.kind)->uses_cond ? 2 : 0;
        float *a = filled(&c);
        if (hash(a, 3 * 37 * 29) != pinned[i].bits)
            fail_msg("%s: %#llx", c.kind, (unsigned long long)hash(a, 3 * 37 * 29));
        free(a);
    }
}

static void layouts_padding_and_parts_hold_the_same_numbers(void **state) {
    (void)state;
    for (int i = 0; qj_kind_at(i); i++) {
        qg_case c = make_case(qj_kind_at(i)->name, 5, 33, 19);
        float *rows = filled(&c);
        c.layout_in = QG_COL;
        int64_t ld = 40, stride = ld * 19 + 3;
        float *columns = malloc((size_t)(5 * stride) * sizeof *columns);
        assert_non_null(columns);
        memset(columns, 0xff, (size_t)(5 * stride) * sizeof *columns);
        qg_error err;
        /* In two parts: the second must not depend on where it starts. */
        assert_int_equal(qj_fill_part(columns, &c, 0, 2, ld, stride, &err), QG_OK);
        assert_int_equal(qj_fill_part(columns + 2 * stride, &c, 2, 3, ld, stride, &err), QG_OK);
        for (int64_t b = 0; b < 5; b++)
            for (int64_t at = 0; at < stride; at++) {
                int64_t row = at % ld, column = at / ld;
                float value = columns[b * stride + at];
                if (row < 33 && column < 19)
                    assert_true(value == rows[b * 33 * 19 + row * 19 + column]);
                else
                    assert_true(isnan(value));
            }
        free(rows);
        free(columns);
    }
}

static void one_thread_gives_the_bits_of_many(void **state) {
    (void)state;
    cpu_set_t before, one;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    qg_case c = make_case("mixed", 9, 70, 50);
    float *many = filled(&c);
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &before) && CPU_COUNT(&one) == 0) CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    float *single = filled(&c);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    assert_memory_equal(many, single, 9 * 70 * 50 * sizeof *many);
    free(many);
    free(single);
}

/* ------------------------------------------------------------------------------- each kind, by its
 * definition */

typedef struct sample {
    qg_case c;
    float *a, *dense; /* the kind, and dense with the same seed and cond 0; by rows, one matrix */
    int64_t k;
} sample;

static double get(const sample *s, int64_t i, int64_t j) {
    return s->a[i * s->c.n + j];
}
static double base(const sample *s, int64_t i, int64_t j) {
    return s->dense[i * s->c.n + j];
}
static double over(int64_t i, int64_t steps) {
    return steps == 0 ? 0 : (double)i / (double)steps;
}
static double scale(const sample *s, int64_t j) {
    return pow(10, -s->c.cond * over(j, s->c.n - 1));
}
static bool close_to(double got, double expected) {
    return fabs(got - expected) <= 2e-7 * fabs(expected) + 1e-37;
}

static void check_dense(const sample *s, int64_t i, int64_t j) {
    assert_true(close_to(get(s, i, j), base(s, i, j) * scale(s, j)));
}
static void check_rankdef(const sample *s, int64_t i, int64_t j) {
    assert_true(close_to(get(s, i, j), j >= 3 * s->k / 4 ? 0 : base(s, i, j) * scale(s, j)));
}
static void check_nearrank(const sample *s, int64_t i, int64_t j) {
    int64_t first = 3 * s->k / 4;
    if (j < first || first == 0)
        assert_true(close_to(get(s, i, j), base(s, i, j) * scale(s, j)));
    else {
        double difference = get(s, i, j) / scale(s, j) - base(s, i, (j - first) % first);
        assert_true(fabs(difference) < 7e-5);
    }
}
static void check_clustered(const sample *s, int64_t i, int64_t j) {
    double factor = j >= s->k / 2 ? 4 * 0x1p-23 : 1;
    if (s->k >= 8 && j >= s->k / 2 - 2 && j <= s->k / 2 + 1) factor = sqrt(0x1p-23);
    assert_true(close_to(get(s, i, j), base(s, i, j) * factor));
}
static void check_band(const sample *s, int64_t i, int64_t j) {
    int64_t width = s->k / 32 < 2 ? 2 : s->k / 32 > 32 ? 32 : s->k / 32;
    double expected = llabs(i - j) <= width ? base(s, i, j) : 0;
    if (i == j) expected += 1 - 0.5 * over(i, s->k - 1);
    assert_true(fabs(get(s, i, j) - expected * scale(s, j)) <= 1e-6);
}
static void check_rowscale(const sample *s, int64_t i, int64_t j) {
    double factor = pow(10, -fmax(s->c.cond, 4) * over(i, s->c.m - 1));
    assert_true(close_to(get(s, i, j), base(s, i, j) * factor));
}
static void check_nearcollinear(const sample *s, int64_t i, int64_t j) {
    assert_true(fabs(get(s, i, j) / scale(s, j) - get(s, i, 0)) < 14e-4);
}
static void check_upper(const sample *s, int64_t i, int64_t j) {
    double expected = i <= j ? base(s, i, j) : 0;
    if (i == j) expected += 1 - 0.75 * over(i, s->k - 1);
    assert_true(fabs(get(s, i, j) - expected * scale(s, j)) <= 1e-6);
}
static void check_diagonal(const sample *s, int64_t i, int64_t j) {
    double expected = i == j ? pow(10, -fmax(s->c.cond, 2) * over(i, s->k - 1)) : 0;
    assert_true(close_to(fabs(get(s, i, j)), expected));
}
static void check_pairs(const sample *s, int64_t i, int64_t j) {
    if (j % 2 == 0)
        assert_true(get(s, i, j) == base(s, i, j));
    else
        assert_true(fabs(get(s, i, j) - get(s, i, j - 1)) < 7 * s->c.kind_value);
}
static void check_collinear(const sample *s, int64_t i, int64_t j) {
    assert_true(fabs(get(s, i, j) - get(s, i, 0)) < 14 * s->c.kind_value);
}
static void check_lowones(const sample *s, int64_t i, int64_t j) {
    assert_true(fabs(get(s, i, j) - (i >= j)) < 7e-3);
}
static void check_gaps(const sample *s, int64_t i, int64_t j) {
    static const bool zero[6] = {false, true, false, false, true, true};
    assert_true(close_to(get(s, i, j), zero[j / 32 % 6] ? 0 : base(s, i, j) * scale(s, j)));
}
/* Rank one when k < 8: every 2 x 2 minor vanishes. Symmetric where both places exist. */
static void check_gram(const sample *s, int64_t i, int64_t j) {
    double size = fmax(fabs(get(s, 0, 0) * get(s, i, j)), 1e-30);
    if (s->k < 8) assert_true(fabs(get(s, 0, 0) * get(s, i, j) - get(s, 0, j) * get(s, i, 0)) <= 1e-6 * size);
    if (j < s->c.m && i < s->c.n) assert_true(get(s, i, j) == get(s, j, i));
    if (i == j) assert_true(get(s, i, j) > 0);
}

static const struct {
    const char *kind;
    void (*check)(const sample *s, int64_t i, int64_t j);
} definitions[] = {
    {"dense", check_dense},       {"rankdef", check_rankdef},
    {"nearrank", check_nearrank}, {"clustered", check_clustered},
    {"band", check_band},         {"rowscale", check_rowscale},
    {"upper", check_upper},       {"nearcollinear", check_nearcollinear},
    {"pairs", check_pairs},       {"diagonal", check_diagonal},
    {"gram", check_gram},         {"collinear", check_collinear},
    {"lowones", check_lowones},   {"gaps", check_gaps},
};

static void check_kind(size_t which, int64_t m, int64_t n, double cond) {
    sample s = {.c = make_case(definitions[which].kind, 1, m, n), .k = m < n ? m : n};
    s.c.cond = cond;
    qg_case d = make_case("dense", 1, m, n);
    s.a = filled(&s.c);
    s.dense = filled(&d);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++)
            definitions[which].check(&s, i, j);
    free(s.a);
    free(s.dense);
}

static void every_kind_follows_its_definition(void **state) {
    (void)state;
    static const int64_t shapes[][2] = {{1, 1},   {1, 5},   {5, 1},  {2, 2},   {7, 7},    {8, 8},  {9, 9},
                                        {40, 24}, {24, 40}, {8, 50}, {96, 96}, {97, 130}, {3, 200}};
    for (size_t which = 0; which < sizeof definitions / sizeof *definitions; which++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            check_kind(which, shapes[s][0], shapes[s][1], 0);
            if (strcmp(definitions[which].kind, "collinear") && strcmp(definitions[which].kind, "pairs"))
                check_kind(which, shapes[s][0], shapes[s][1], 5);
        }
}

static void every_kind_has_a_definition_here(void **state) {
    (void)state;
    int kinds = 0;
    while (qj_kind_at(kinds))
        kinds++;
    assert_int_equal(kinds, sizeof definitions / sizeof *definitions + 1); /* and mixed */
}

static void mixed_draws_with_the_weights_of_the_design(void **state) {
    (void)state;
    static const char *const hard[] = {"rankdef", "nearrank", "clustered",
                                       "band",    "rowscale", "nearcollinear"};
    qg_case c = make_case("mixed", 24000, 4, 4);
    int count[7] = {0};
    for (int64_t b = 0; b < c.batch; b++)
        for (int kind = 0; kind < 7; kind++)
            if (strcmp(qj_kind_of(&c, b), kind ? hard[kind - 1] : "dense") == 0) count[kind]++;
    assert_in_range(count[0], 11600, 12400);
    int all = count[0];
    for (int kind = 1; kind < 7; kind++) {
        assert_in_range(count[kind], 1800, 2200);
        all += count[kind];
    }
    assert_int_equal(all, c.batch);
}

static void mixed_has_one_dense_and_one_hard_matrix(void **state) {
    (void)state;
    for (int64_t batch = 2; batch <= 4; batch++)
        for (uint64_t seed = 0; seed < 200; seed++) {
            qg_case c = make_case("mixed", batch, 4, 4);
            c.seed = seed;
            int dense = 0;
            for (int64_t b = 0; b < batch; b++)
                dense += strcmp(qj_kind_of(&c, b), "dense") == 0;
            assert_in_range(dense, 1, batch - 1);
        }
}

static void mixed_matrices_are_those_of_their_kind(void **state) {
    (void)state;
    qg_case c = make_case("mixed", 12, 20, 20);
    float *a = filled(&c);
    for (int64_t b = 0; b < c.batch; b++) {
        qg_case own = make_case(qj_kind_of(&c, b), 12, 20, 20);
        float *expected = filled(&own);
        assert_memory_equal(a + b * 400, expected + b * 400, 400 * sizeof *a);
        free(expected);
    }
    free(a);
}

static void seeds_and_matrices_differ(void **state) {
    (void)state;
    qg_case c = make_case("dense", 2, 8, 8);
    float *a = filled(&c);
    c.seed++;
    float *b = filled(&c);
    assert_memory_not_equal(a, a + 64, 64 * sizeof *a);
    assert_memory_not_equal(a, b, 64 * sizeof *a);
    free(a);
    free(b);
}

static void bad_cases_are_refused_with_what_is_allowed(void **state) {
    (void)state;
    static const struct {
        const char *kind, *part;
        double value, cond;
        int64_t m, n, ld, stride;
    } bad[] = {
        {"denser", "one of dense, rankdef", 0, 0, 4, 4, 4, 16},
        {"dense", "no value", 1, 0, 4, 4, 4, 16},
        {"pairs", "needs a value", 0, 0, 4, 4, 4, 16},
        {"pairs", "needs a value", NAN, 0, 4, 4, 4, 16},
        {"dense", "out of range", 0, 0, -1, 4, 4, 16},
        {"dense", "out of range", 0, 0, 4, 1 << 21, 4, 16},
        {"dense", "leading dimension", 0, 0, 4, 4, 3, 16},
        {"dense", "stride", 0, 0, 4, 4, 4, 15},
        {"dense", "cond", 0, -1, 4, 4, 4, 16},
        {"dense", "cond", 0, NAN, 4, 4, 4, 16},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        qg_case c = {
            .batch = 2, .m = bad[i].m, .n = bad[i].n, .cond = bad[i].cond, .kind_value = bad[i].value};
        snprintf(c.kind, sizeof c.kind, "%s", bad[i].kind);
        float a[32] = {0};
        qg_error err;
        assert_int_equal(qj_fill(a, &c, bad[i].ld, bad[i].stride, &err), QG_BAD_INPUT);
        char *text = qt_format("%s: %s (%s)", err.what, err.why, err.fix);
        qt_assert_contains(text, bad[i].part);
        free(text);
    }
}

static void nothing_to_fill_is_fine(void **state) {
    (void)state;
    qg_case c = make_case("dense", 0, 4, 4);
    assert_int_equal(qj_fill(NULL, &c, 4, 16, NULL), QG_OK);
    c = make_case("dense", 3, 0, 4);
    assert_int_equal(qj_fill(NULL, &c, 4, 0, NULL), QG_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_matches_its_known_answers),
        cmocka_unit_test(logarithm_and_powers_of_ten_are_accurate),
        cmocka_unit_test(quantile_inverts_the_normal_distribution),
        cmocka_unit_test(dense_has_the_moments_of_a_normal),
        cmocka_unit_test(bits_are_pinned),
        cmocka_unit_test(layouts_padding_and_parts_hold_the_same_numbers),
        cmocka_unit_test(one_thread_gives_the_bits_of_many),
        cmocka_unit_test(every_kind_follows_its_definition),
        cmocka_unit_test(every_kind_has_a_definition_here),
        cmocka_unit_test(mixed_draws_with_the_weights_of_the_design),
        cmocka_unit_test(mixed_has_one_dense_and_one_hard_matrix),
        cmocka_unit_test(mixed_matrices_are_those_of_their_kind),
        cmocka_unit_test(seeds_and_matrices_differ),
        cmocka_unit_test(bad_cases_are_refused_with_what_is_allowed),
        cmocka_unit_test(nothing_to_fill_is_fine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
