/* tests/cases/edge_cases.json by every family that factors, forced, fp32, in four thread orders: each case
 * alone, and embedded at the diagonal of a larger matrix: top left, across panel boundaries, in the last
 * panel.
 *
 * Two kinds of embedding. Apart: the case's rows and columns are zero outside the case, so no reflector mixes
 * it with its surroundings and H there must be the case's own. Mixed: random entries all around it, judged by
 * the residual of each column against that column's own norm, since columns may be 60 decades apart.
 * One matrix holds a case at each place, and every case takes every place in turn. Families are asked for,
 * not listed: a new one joins by existing. */
#include "runtime/judge/contract.h"
#include "runtime/judge/inputs.h"
#include "tests/lib/hostrun.h"
#include "tests/lib/support.h"

#include <jansson.h>
#include <lapacke.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 8, CASES = 64, INFO_NONFINITE = 1 };

/* The matrices around the cases. `make test` takes the first, QRSMITH_TEST_ALL=1 all. */
static const struct {
    int64_t m, n;
    qg_layout in, out;
} around[] = {{136, 100, QG_ROW, QG_COL},
              {70, 70, QG_COL, QG_ROW},
              {200, 72, QG_ROW, QG_ROW},
              {97, 180, QG_COL, QG_COL},
              {176, 176, QG_ROW, QG_ROW}};

/* Panels are 16, 32 or 64 columns wide: a place across each boundary; the last leaves room for the widest
 * case. */
enum { PLACES = 5 };

static int places_in(int64_t m, int64_t n, int64_t at[PLACES]) {
    static const int64_t wanted[PLACES - 1] = {0, 15, 31, 63};
    int64_t last = (m < n ? m : n) - MOST;
    int count = 0;
    for (int i = 0; i < PLACES - 1; i++)
        if (wanted[i] + MOST <= last) at[count++] = wanted[i];
    at[count++] = last;
    return count;
}

typedef struct edge_case {
    const char *name, *check; /* of the JSON document */
    int64_t m, n;
    float a[MOST][MOST];
    double h[MOST][MOST], tau[MOST], rtol, atol;
} edge_case;

static qt_host host;
static json_t *document;
static edge_case cases[CASES];
static int case_count;

static double number(const json_t *value) {
    return json_is_string(value) ? strtod(json_string_value(value), NULL) : json_number_value(value);
}

static void read_case(edge_case *c, const json_t *from) {
    c->name = json_string_value(json_object_get(from, "name"));
    c->check = json_string_value(json_object_get(from, "check"));
    c->m = json_integer_value(json_object_get(from, "m"));
    c->n = json_integer_value(json_object_get(from, "n"));
    c->rtol = number(json_object_get(from, "rtol"));
    c->atol = number(json_object_get(from, "atol"));
    assert_true(c->m <= MOST && c->n <= MOST);
    for (int64_t i = 0; i < c->m; i++)
        for (int64_t j = 0; j < c->n; j++) {
            const json_t *a = json_array_get(json_object_get(from, "a"), (size_t)i);
            const json_t *h = json_array_get(json_object_get(from, "h"), (size_t)i);
            c->a[i][j] = (float)number(json_array_get(a, (size_t)j));
            c->h[i][j] = number(json_array_get(h, (size_t)j));
        }
    for (int64_t j = 0; j < c->m && j < c->n; j++)
        c->tau[j] = number(json_array_get(json_object_get(from, "tau"), (size_t)j));
}

static int open_all(void **state) {
    (void)state;
    qt_host_open(&host);
    document = json_load_file("tests/cases/edge_cases.json", JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(document);
    json_t *item;
    size_t i;
    json_array_foreach(json_object_get(document, "cases"), i, item) {
        assert_true(case_count < CASES);
        read_case(&cases[case_count++], item);
    }
    assert_true(case_count > 0);
    return 0;
}

static int close_all(void **state) {
    (void)state;
    json_decref(document);
    qt_host_close(&host);
    return 0;
}

static bool is(const edge_case *c, const char *check) {
    return strcmp(c->check, check) == 0;
}

/* A case's place in a matrix of a batch, and how the failure calls it. */
typedef struct spot {
    const edge_case *c;
    const qt_batch *b;
    int64_t matrix, at;
    const char *what;
} spot;

static float h_at(const spot *s, int64_t i, int64_t j) {
    qt_matrix h = qt_batch_h(s->b, s->matrix);
    return qt_get(&h, s->at + i, s->at + j);
}

static void close_enough(const spot *s, const char *entry, int64_t i, int64_t j, double got, double want,
                         double size) {
    if (!(fabs(got - want) <= s->c->rtol * size + s->c->atol))
        fail_msg("%s: %s at %lld, matrix %lld: %s[%lld][%lld] is %.9g, not %.9g", s->what, s->c->name,
                 (long long)s->at, (long long)s->matrix, entry, (long long)i, (long long)j, got, want);
}

/* H and tau are the case's own: R relative to its column (a zero column must be zero), v and tau to 1. */
static void compare(const spot *s) {
    const edge_case *c = s->c;
    for (int64_t j = 0; j < c->n; j++) {
        double r_size = 0;
        for (int64_t i = 0; i < c->m && i <= j; i++)
            r_size = fmax(r_size, fabs(c->h[i][j]));
        for (int64_t i = 0; i < c->m; i++)
            close_enough(s, "H", i, j, h_at(s, i, j), c->h[i][j], i <= j ? r_size : 1);
        if (j < c->m) close_enough(s, "tau", 0, j, qt_batch_tau(s->b, s->matrix)[s->at + j], c->tau[j], 1);
    }
}

/* Residual of column j of a matrix, |R_j - Q'a_j|, and |a_j|, both 1-norms in double. */
static double column_residual(const qt_batch *b, int64_t matrix, int64_t j, double *size) {
    qt_matrix a = qt_batch_a(b, matrix), h = qt_batch_h(b, matrix);
    const float *tau = qt_batch_tau(b, matrix);
    double *x = calloc((size_t)b->m, sizeof *x), residual = 0;
    assert_non_null(x);
    *size = 0;
    for (int64_t i = 0; i < b->m; i++) {
        x[i] = qt_get(&a, i, j);
        *size += fabs(x[i]);
    }
    /* Reflectors after j don't touch a column that is zero below its diagonal, as R's is. */
    for (int64_t k = 0; k < b->k && k <= j; k++) {
        double dot = x[k];
        for (int64_t i = k + 1; i < b->m; i++)
            dot += (double)qt_get(&h, i, k) * x[i];
        dot *= tau[k];
        x[k] -= dot;
        for (int64_t i = k + 1; i < b->m; i++)
            x[i] -= dot * qt_get(&h, i, k);
    }
    for (int64_t i = 0; i < b->m; i++)
        residual += fabs(x[i] - (i <= j ? (double)qt_get(&h, i, j) : 0));
    free(x);
    return residual;
}

/* The first `columns` columns keep the contract's factor limit, each by its own norm. Subnormal results are
 * right to half a unit in the last place. */
static void columns_right(const qt_batch *b, int64_t matrix, int64_t columns, const char *what) {
    double limit = qj_limits_for(b->m, b->n, QG_FP32).factor * QJ_EPS;
    for (int64_t j = 0; j < columns; j++) {
        double size, residual = column_residual(b, matrix, j, &size);
        if (!(residual <= limit * size + (double)b->m * 0x1p-149))
            fail_msg("%s: column %lld of matrix %lld: residual %.3g of a norm of %.3g", what, (long long)j,
                     (long long)matrix, residual, size);
    }
}

/* Q is orthogonal and tau that of the v stored, as the contract has it; R is columns_right()'s. */
static void reflectors_right(const qt_batch *b, int64_t matrix, const char *what) {
    qj_limits limits = qj_limits_for(b->m, b->n, QG_FP32);
    qt_matrix a = qt_batch_a(b, matrix), h = qt_batch_h(b, matrix);
    double gates[QJ_GATES];
    qt_gates(&a, &h, qt_batch_tau(b, matrix), gates);
    if (!(gates[QJ_ORTH] <= limits.orth) || !(gates[QJ_TAU] <= limits.tau) || gates[QJ_FINITE] != 1)
        fail_msg("%s: matrix %lld: orthogonality %.3g of %.3g eps, tau %.3g of %.3g, finite %g", what,
                 (long long)matrix, gates[QJ_ORTH], limits.orth, gates[QJ_TAU], limits.tau, gates[QJ_FINITE]);
}

/* The first column with NaN or Inf. */
static int64_t first_bad(const edge_case *c) {
    for (int64_t j = 0; j < c->n; j++)
        for (int64_t i = 0; i < c->m; i++)
            if (!isfinite(c->a[i][j])) return j;
    return c->n;
}

/* Columns before the NaN or Inf are right; where LAPACK's unblocked dgeqr2 has no number, neither has H; and
 * info tells. */
static void nonfinite_stays(const spot *s) {
    const qt_batch *b = s->b;
    columns_right(b, s->matrix, s->at + first_bad(s->c), s->what);
    if (!(b->info[s->matrix] & INFO_NONFINITE))
        fail_msg("%s: %s: info is %d", s->what, s->c->name, b->info[s->matrix]);
    qt_matrix a = qt_batch_a(b, s->matrix), h = qt_batch_h(b, s->matrix);
    double *truth = calloc((size_t)(b->m * b->n + b->n + b->k), sizeof *truth);
    assert_non_null(truth);
    for (int64_t j = 0; j < b->n; j++)
        for (int64_t i = 0; i < b->m; i++)
            truth[i + j * b->m] = qt_get(&a, i, j);
    double *tau = truth + b->m * b->n;
    /* The _work variant: the other one refuses NaN. */
    assert_int_equal(LAPACKE_dgeqr2_work(LAPACK_COL_MAJOR, (lapack_int)b->m, (lapack_int)b->n, truth,
                                         (lapack_int)b->m, tau, tau + b->k),
                     0);
    for (int64_t j = 0; j < b->n; j++)
        for (int64_t i = 0; i < b->m; i++)
            if (!isfinite(truth[i + j * b->m]) && isfinite(qt_get(&h, i, j)))
                fail_msg("%s: %s: H[%lld][%lld] is %.9g, but depends on a NaN or Inf", s->what, s->c->name,
                         (long long)i, (long long)j, qt_get(&h, i, j));
    free(truth);
}

/* A family, maybe with one parameter forced. */
typedef struct variant {
    const char *family;
    json_t *params; /* NULL: all by default */
    char name[96];
} variant;

/* A plan for a shape, or NULL where the family refuses; blocked must not. */
static qhx_module *load(const variant *v, int64_t m, int64_t n, qg_layout in, qg_layout out) {
    qg_shape shape = {.m = m,
                      .n = n,
                      .layout_in = in,
                      .layout_out = out,
                      .precision = QG_FP32,
                      .operation = QG_GEQRF,
                      .max_batch = CASES};
    qg_error why;
    qg_plan *plan = qt_plan(&host, &shape, v->family, v->params, &why);
    if (!plan) {
        if (strcmp(v->name, "blocked") == 0)
            fail_msg("blocked refuses %lldx%lld: %s", (long long)m, (long long)n, why.why);
        return NULL;
    }
    qhx_module *module = qt_load(&host, plan);
    qg_plan_free(plan);
    return module;
}

static void put_case(const qt_batch *b, int64_t matrix, const edge_case *c, int64_t at) {
    qt_matrix a = qt_batch_a(b, matrix);
    for (int64_t i = 0; i < c->m; i++)
        for (int64_t j = 0; j < c->n; j++)
            qt_set(&a, at + i, at + j, c->a[i][j]);
}

static void judge_alone(const spot *s) {
    if (is(s->c, "compare"))
        compare(s);
    else if (is(s->c, "residual"))
        columns_right(s->b, s->matrix, s->c->n, s->what);
    if (!is(s->c, "nonfinite_stays") && !is(s->c, "nan_late"))
        reflectors_right(s->b, s->matrix, s->what);
    else
        nonfinite_stays(s);
}

/* All cases of one shape, as a batch. */
static void run_alone(const variant *v, int first) {
    const edge_case *shape = &cases[first], *of[CASES];
    int64_t count = 0;
    for (int i = 0; i < case_count; i++) {
        if (cases[i].m != shape->m || cases[i].n != shape->n) continue;
        if (i < first) return; /* done with an earlier one */
        of[count++] = &cases[i];
    }
    qhx_module *module = load(v, shape->m, shape->n, QG_ROW, QG_ROW);
    if (!module) return;
    qt_batch *b = qt_batch_new(count, shape->m, shape->n, QG_ROW, QG_ROW, 3);
    for (int64_t i = 0; i < count; i++)
        put_case(b, i, of[i], 0);
    char *what = qt_format("%s, alone", v->name);
    qt_run_orders(&host, module, b, what);
    for (int64_t i = 0; i < count; i++)
        judge_alone(&(spot){of[i], b, i, 0, what});
    free(what);
    qt_batch_free(b);
    qhx_unload(module);
}

typedef enum surroundings { MIXED, APART } surroundings;

/* Zeros in the rows and columns that the case at `at` takes. */
static void make_room(const qt_batch *b, int64_t matrix, const edge_case *c, int64_t at) {
    qt_matrix a = qt_batch_a(b, matrix);
    for (int64_t i = 0; i < c->m; i++)
        for (int64_t j = 0; j < b->n; j++)
            qt_set(&a, at + i, j, 0);
    for (int64_t j = 0; j < c->n; j++)
        for (int64_t i = 0; i < b->m; i++)
            qt_set(&a, i, at + j, 0);
}

static void fill_random(const qt_batch *b) {
    qg_case dense = {
        .batch = b->batch, .m = b->m, .n = b->n, .kind = "dense", .seed = 77, .layout_in = b->in};
    qg_error err;
    if (qj_fill(b->a, &dense, b->lda, b->stride_a, &err) != QG_OK) fail_msg("%s", err.why);
}

/* A batch of random matrices of around[shape]. */
static qt_batch *new_around(int64_t count, int shape) {
    qt_batch *b =
        qt_batch_new(count, around[shape].m, around[shape].n, around[shape].in, around[shape].out, 3);
    fill_random(b);
    return b;
}

/* Which of the finite, or else of the other cases. */
static int chosen_cases(bool finite, const edge_case *of[CASES]) {
    int count = 0;
    for (int i = 0; i < case_count; i++)
        if (finite == (first_bad(&cases[i]) == cases[i].n)) of[count++] = &cases[i];
    return count;
}

/* Matrix q holds case q + p at place p. */
static void embed_finite(const variant *v, qhx_module *module, int shape, surroundings kind) {
    const edge_case *of[CASES];
    int count = chosen_cases(true, of);
    qt_batch *b = new_around(count, shape);
    int64_t places[PLACES];
    int place_count = places_in(b->m, b->n, places);
    for (int q = 0; q < count; q++)
        for (int p = 0; p < place_count; p++) {
            const edge_case *c = of[(q + p) % count];
            if (kind == APART) make_room(b, q, c, places[p]);
            put_case(b, q, c, places[p]);
        }
    char *what = qt_format("%s, embedded %s", v->name, kind == APART ? "apart" : "mixed");
    qt_run_orders(&host, module, b, what);
    for (int q = 0; q < count; q++) {
        columns_right(b, q, b->n, what);
        reflectors_right(b, q, what);
        for (int p = 0; p < place_count && kind == APART; p++)
            if (is(of[(q + p) % count], "compare"))
                compare(&(spot){of[(q + p) % count], b, q, places[p], what});
    }
    free(what);
    qt_batch_free(b);
}

/* A matrix a case and place: NaN takes all that comes after it. */
static void embed_nonfinite(const variant *v, qhx_module *module, int shape) {
    const edge_case *of[CASES];
    int count = chosen_cases(false, of);
    int64_t places[PLACES];
    int place_count = places_in(around[shape].m, around[shape].n, places);
    qt_batch *b = new_around((int64_t)count * place_count, shape);
    for (int q = 0; q < count * place_count; q++)
        put_case(b, q, of[q / place_count], places[q % place_count]);
    char *what = qt_format("%s, embedded", v->name);
    qt_run_orders(&host, module, b, what);
    for (int q = 0; q < count * place_count; q++)
        nonfinite_stays(&(spot){of[q / place_count], b, q, places[q % place_count], what});
    free(what);
    qt_batch_free(b);
}

static void run_embedded(const variant *v, int shape) {
    qhx_module *module = load(v, around[shape].m, around[shape].n, around[shape].in, around[shape].out);
    if (!module) return;
    embed_finite(v, module, shape, APART);
    embed_finite(v, module, shape, MIXED);
    embed_nonfinite(v, module, shape);
    qhx_unload(module);
}

/* QRSMITH_TEST_FAMILY=name: only that one, for who is writing it. */
static bool chosen(const char *family) {
    const char *only = getenv("QRSMITH_TEST_FAMILY");
    return !only || strcmp(only, family) == 0;
}

/* What `make test` forces too: the ways through a family that its defaults leave out at these sizes. */
static const char *const always[][3] = {
    {"fused", "update", "\"wgmma\""}, {"fused", "method", "\"rows\""}, {"fused", "ctas", "1"}};

static bool is_always(const char *family, const char *param, const char *value) {
    for (size_t i = 0; i < sizeof always / sizeof *always; i++)
        if (!strcmp(always[i][0], family) && !strcmp(always[i][1], param) && !strcmp(always[i][2], value))
            return true;
    return false;
}

/* Every family as it comes, and with the parameters above; under test-all with each value of each parameter.
 */
static void for_each_variant(void (*run)(const variant *v)) {
    json_t *listed = qg_library_families(host.lib), *family, *param, *value;
    size_t i, k, x;
    json_array_foreach(listed, i, family) {
        variant v = {.family = json_string_value(json_object_get(family, "name"))};
        if (strcmp(json_string_value(json_object_get(family, "op")), "geqrf") != 0 || !chosen(v.family))
            continue;
        snprintf(v.name, sizeof v.name, "%s", v.family);
        run(&v);
        json_array_foreach(json_object_get(family, "params"), k, param)
            json_array_foreach(json_object_get(param, "values"), x, value) {
            const char *name = json_string_value(json_object_get(param, "name"));
            char *text = json_dumps(value, JSON_ENCODE_ANY);
            snprintf(v.name, sizeof v.name, "%.30s %.30s=%.30s", v.family, name, text);
            if (qt_test_all() || is_always(v.family, name, text)) {
                v.params = json_pack("{s:O}", name, value);
                run(&v);
                json_decref(v.params);
            }
            free(text);
        }
    }
    json_decref(listed);
}

static void every_case_alone(const variant *v) {
    for (int i = 0; i < case_count; i++)
        run_alone(v, i);
}

static void every_case_embedded(const variant *v) {
    bool as_it_comes = v->params == NULL;
    int shapes = qt_test_all() && as_it_comes ? (int)(sizeof around / sizeof *around) : 1;
    for (int i = 0; i < shapes; i++)
        run_embedded(v, i);
}

static void each_case_alone(void **state) {
    (void)state;
    for_each_variant(every_case_alone);
}

static void each_case_at_every_place_of_a_larger_matrix(void **state) {
    (void)state;
    for_each_variant(every_case_embedded);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_case_alone),
        cmocka_unit_test(each_case_at_every_place_of_a_larger_matrix),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
