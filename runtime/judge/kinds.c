#include "runtime/judge/kinds.h"
#include "runtime/judge/exact.h"

#include <stdlib.h>
#include <string.h>

#define EPS      0x1p-23
#define SQRT_EPS 3.4526698300124393e-04

static void normal(const qj_recipe *r, qj_stream stream, uint64_t matrix, int64_t quad, int64_t j,
                   double out[4]) {
    qj_place at = {r->c->seed, matrix, stream, (uint32_t)quad, (uint32_t)j};
    qj_random_normal(&at, out);
}

static void add_noise(const qj_recipe *r, double size, uint64_t matrix, int64_t quad, int64_t j,
                      double out[4]) {
    double noise[4];
    normal(r, QJ_STREAM_NOISE, matrix, quad, j, noise);
    for (int q = 0; q < 4; q++)
        out[q] += size * noise[q];
}

/* From first to last over k - 1 steps. */
static double along_diagonal(const qj_recipe *r, double first, double last, int64_t i) {
    return r->k == 1 ? first : first + (last - first) * (double)i / (double)(r->k - 1);
}

static void dense(const qj_recipe *r, uint64_t matrix, int64_t quad, int64_t j, double out[4]) {
    normal(r, QJ_STREAM_BASE, matrix, quad, j, out);
}

static void rankdef(const qj_recipe *r, uint64_t matrix, int64_t quad, int64_t j, double out[4]) {
    if (j >= 3 * r->k / 4)
        memset(out, 0, 4 * sizeof *out);
    else
        dense(r, matrix, quad, j, out);
}

static void nearrank(const qj_recipe *r, uint64_t matrix, int64_t quad, int64_t j, double out[4]) {
    int64_t first = 3 * r->k / 4;
    if (j < first || first == 0) {
        dense(r, matrix, quad, j, out);
        return;
    }
    dense(r, matrix, quad, (j - first) % first, out);
    add_noise(r, 1e-5, matrix, quad, j, out);
}

static void clustered(const qj_recipe *r, uint64_t matrix, int64_t quad, int64_t j, double out[4]) {
    int64_t half = r->k / 2;
    bool special = r->k >= 8 && j >= half - 2 && j <= half + 1;
    double scale = special ? SQRT_EPS : j >= half ? 4 * EPS : 1.0;
    dense(r, matrix, quad, j, out);
    for (int q = 0; q < 4; q++)
        out[q] *= scale;
}

static void band(const qj_recipe *r, uint64_t matrix, int64_t quad, int64_t j, double out[4]) {
    int64_t width = r->k / 32;
    width = width > 32 ? 32 : width < 2 ? 2 : width;
    memset(out, 0, 4 * sizeof *out);
    if (4 * quad + 3 < j - width || 4 * quad > j + width) return;
    double value[4];
    dense(r, matrix, quad, j, value);
    for (int q = 0; q < 4; q++) {
        int64_t i = 4 * quad + q;
        if (i >= j - width && i <= j + width) out[q] = value[q];
        if (i == j) out[q] += along_diagonal(r, 1.0, 0.5, i);
    }
}

static void rowscale(const qj_recipe *r, uint64_t matrix, int64_t quad, int64_t j, double out[4]) {
    dense(r, matrix, quad, j, out);
    for (int q = 0; q < 4; q++) {
        int64_t i = 4 * quad + q;
        if (i < r->m) out[q] *= r->row_scale[i];
    }
}

static void nearcollinear(const qj_recipe *r, uint64_t matrix, int64_t quad, int64_t j, double out[4]) {
    normal(r, QJ_STREAM_COLUMN, matrix, quad, 0, out);
    add_noise(r, 1e-4, matrix, quad, j, out);
}

static void upper(const qj_recipe *r, uint64_t matrix, int64_t quad, int64_t j, double out[4]) {
    memset(out, 0, 4 * sizeof *out);
    if (4 * quad > j) return;
    double value[4];
    dense(r, matrix, quad, j, value);
    for (int q = 0; q < 4; q++) {
        int64_t i = 4 * quad + q;
        if (i <= j) out[q] = value[q];
        if (i == j) out[q] += along_diagonal(r, 1.0, 0.25, i);
    }
}

static void diagonal(const qj_recipe *r, uint64_t matrix, int64_t quad, int64_t j, double out[4]) {
    memset(out, 0, 4 * sizeof *out);
    if (j >= r->k || j / 4 != quad) return;
    qj_place at = {r->c->seed, matrix, QJ_STREAM_SIGN, (uint32_t)quad, (uint32_t)j};
    uint32_t words[4];
    qj_random_words(&at, words);
    double steepness = r->cond > 2 ? r->cond : 2;
    double size = r->k == 1 ? 1.0 : qj_pow10(-steepness * (double)j / (double)(r->k - 1));
    out[j % 4] = words[0] >> 31 ? -size : size;
}

static void pairs(const qj_recipe *r, uint64_t matrix, int64_t quad, int64_t j, double out[4]) {
    dense(r, matrix, quad, j - j % 2, out);
    if (j % 2) add_noise(r, r->c->kind_value, matrix, quad, j, out);
}

static void collinear(const qj_recipe *r, uint64_t matrix, int64_t quad, int64_t j, double out[4]) {
    normal(r, QJ_STREAM_COLUMN, matrix, quad, 0, out);
    add_noise(r, r->c->kind_value, matrix, quad, j, out);
}

static void lowones(const qj_recipe *r, uint64_t matrix, int64_t quad, int64_t j, double out[4]) {
    for (int q = 0; q < 4; q++)
        out[q] = 4 * quad + q >= j ? 1.0 : 0.0;
    add_noise(r, 1e-3, matrix, quad, j, out);
}

/* Zero blocks between others: of kernels' panels of 32 columns and of 64. */
static void gaps(const qj_recipe *r, uint64_t matrix, int64_t quad, int64_t j, double out[4]) {
    int64_t block = j / 32 % 6;
    if (block == 1 || block >= 4)
        memset(out, 0, 4 * sizeof *out);
    else
        dense(r, matrix, quad, j, out);
}

static const qj_maker makers[] = {
    {{"dense", "N(0,1)", true, false, {0}}, dense, 6},
    {{"rankdef", "columns from 3k/4 on are zero", true, false, {0}}, rankdef, 1},
    {{"nearrank", "column 3k/4+i = column i + 1e-5 N(0,1)", true, false, {0}}, nearrank, 1},
    {{"clustered", "columns from k/2 on tiny (4 eps), four around k/2 times sqrt(eps)", false, false, {0}},
     clustered,
     1},
    {{"band", "|i-j| <= max(2, min(32, k/32)) plus a diagonal from 1 to 0.5", true, false, {0}}, band, 1},
    {{"rowscale", "row i times 10^(-max(cond,4) i/(m-1))", false, false, {0}}, rowscale, 1},
    {{"nearcollinear", "one column repeated, plus 1e-4 N(0,1)", true, false, {0}}, nearcollinear, 1},
    {{"upper", "upper triangle plus a diagonal from 1 to 0.25", true, false, {0}}, upper, 0},
    {{"diagonal", "+-1 times 10^(-max(cond,2) i/(k-1))", false, false, {0}}, diagonal, 0},
    {{"mixed", "each matrix draws dense (6 of 12) or one of the six hard kinds after it", true, false, {0}},
     NULL,
     0},
    {{"pairs", "column 2i+1 = column 2i + d N(0,1)", false, true, {0.3, 0.1, 0.05, 0.02}}, pairs, 0},
    {{"collinear", "one column repeated, plus d N(0,1)", false, true, {0.3, 0.1, 0.03, 0.01}}, collinear, 0},
    {{"lowones", "tril(ones) + 1e-3 N(0,1)", false, false, {0}}, lowones, 0},
    {{"gaps", "of every six blocks of 32 columns the second, fifth and sixth are zero", true, false, {0}},
     gaps,
     0},
    {{"gram", "d G G' of rank k/4", false, true, {1, 1e-6, 1e-10}}, NULL, 0},
    {{NULL, NULL, false, false, {0}}, NULL, 0},
};

const qj_maker *qj_makers(void) {
    return makers;
}

const qj_maker *qj_maker_find(const char *name) {
    for (const qj_maker *maker = makers; maker->kind.name; maker++)
        if (strcmp(maker->kind.name, name) == 0) return maker;
    return NULL;
}

/* lot < sum of weights */
static const qj_maker *maker_by_lot(int lot) {
    for (const qj_maker *maker = makers; maker->kind.name; maker++) {
        if (lot < maker->weight) return maker;
        lot -= maker->weight;
    }
    return makers;
}

static uint32_t draw(const qg_case *c, int64_t matrix, int word) {
    qj_place at = {c->seed, (uint64_t)matrix, QJ_STREAM_KIND, 0, 0};
    uint32_t words[4];
    qj_random_words(&at, words);
    return words[word];
}

static const qj_maker *drawn(const qg_case *c, int64_t matrix) {
    return maker_by_lot((int)(draw(c, matrix, 0) % 12));
}

static bool any_drawn(const qg_case *c, bool is_dense) {
    for (int64_t b = 0; b < c->batch; b++)
        if ((drawn(c, b) == makers) == is_dense) return true;
    return false;
}

const qj_maker *qj_maker_of(const qg_case *c, int64_t matrix) {
    if (strcmp(c->kind, "mixed") != 0) return qj_maker_find(c->kind);
    const qj_maker *own = drawn(c, matrix);
    if (c->batch < 2) return own;
    /* Only the first and the last matrix can be overruled, so only they look at the others. */
    if (matrix == 0 && own != makers && !any_drawn(c, true)) return makers;
    if (matrix == c->batch - 1 && own == makers && !any_drawn(c, false))
        return maker_by_lot(makers[0].weight + (int)(draw(c, matrix, 1) % 6));
    return own;
}

qg_status qj_recipe_init(qj_recipe *r, const qg_case *c, qg_error *err) {
    *r = (qj_recipe){.c = c, .m = c->m, .n = c->n, .k = c->m < c->n ? c->m : c->n, .cond = c->cond};
    r->column_scale = malloc((size_t)(r->n + 1) * sizeof *r->column_scale);
    r->row_scale = malloc((size_t)(r->m + 1) * sizeof *r->row_scale);
    if (!r->column_scale || !r->row_scale) {
        qj_recipe_free(r);
        return qg_fail(err, QG_NO_MEMORY, "filling inputs", "out of host memory", "");
    }
    double steepness = r->cond > 4 ? r->cond : 4;
    for (int64_t j = 0; j < r->n; j++)
        r->column_scale[j] = r->n == 1 ? 1.0 : qj_pow10(-r->cond * (double)j / (double)(r->n - 1));
    for (int64_t i = 0; i < r->m; i++)
        r->row_scale[i] = r->m == 1 ? 1.0 : qj_pow10(-steepness * (double)i / (double)(r->m - 1));
    return QG_OK;
}

void qj_recipe_free(qj_recipe *r) {
    free(r->column_scale);
    free(r->row_scale);
    r->column_scale = r->row_scale = NULL;
}
