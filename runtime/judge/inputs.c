#include "runtime/judge/inputs.h"
#include "runtime/judge/exact.h"
#include "runtime/judge/kinds.h"
#include "runtime/judge/workers.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BLOCK_COLUMNS = 16, /* a cache line a row in row layout */
    GRAM_COLUMNS = 128, /* gram makes all of G again in each piece, so its pieces are wider */
    GRAM_ROWS = 64,
};

typedef struct fill {
    qj_recipe recipe;
    float *a;
    int64_t first, row_step, column_step, stride;
    int64_t block, blocks; /* columns a piece, pieces a matrix */
    atomic_bool no_memory;
} fill;

/* What the pieces of work are about: columns j0 .. j1-1 of one matrix. */
typedef struct piece {
    const qj_maker *maker;
    uint64_t matrix;
    float *a;
    int64_t j0, j1;
} piece;

static void store(const fill *f, float *a, int64_t i, int64_t j, double value) {
    a[i * f->row_step + j * f->column_step] = (float)value;
}

static void fill_elements(const fill *f, const piece *p) {
    const qj_recipe *r = &f->recipe;
    for (int64_t quad = 0; quad < (r->m + 3) / 4; quad++)
        for (int64_t j = p->j0; j < p->j1; j++) {
            double value[4];
            p->maker->element(r, p->matrix, quad, j, value);
            double scale = p->maker->kind.uses_cond ? r->column_scale[j] : 1.0;
            for (int q = 0; q < 4 && 4 * quad + q < r->m; q++)
                store(f, p->a, 4 * quad + q, j, value[q] * scale);
        }
}

/* Rows i0 .. i0+count-1 of G, transposed: g[l * GRAM_COLUMNS + i - i0]. */
static void factor_rows(const qj_recipe *r, uint64_t matrix, int64_t rank, int64_t i0, int64_t count,
                        double *g) {
    for (int64_t l = 0; l < rank; l++)
        for (int64_t quad = i0 / 4; 4 * quad < i0 + count; quad++) {
            qj_place at = {r->c->seed, matrix, QJ_STREAM_FACTOR, (uint32_t)quad, (uint32_t)l};
            double value[4];
            qj_random_normal(&at, value);
            for (int q = 0; q < 4; q++) {
                int64_t i = 4 * quad + q - i0;
                if (i >= 0 && i < count) g[l * GRAM_COLUMNS + i] = value[q];
            }
        }
}

static void fill_gram(fill *f, const piece *p) {
    const qj_recipe *r = &f->recipe;
    int64_t rank = r->k < 8 ? 1 : r->k / 4, columns = p->j1 - p->j0;
    double *g = malloc((size_t)rank * GRAM_COLUMNS * 2 * sizeof *g), *h = g + rank * GRAM_COLUMNS;
    if (!g) {
        atomic_store(&f->no_memory, true);
        return;
    }
    factor_rows(r, p->matrix, rank, p->j0, columns, g);
    for (int64_t i0 = 0; i0 < r->m; i0 += GRAM_ROWS) {
        int64_t rows = r->m - i0 < GRAM_ROWS ? r->m - i0 : GRAM_ROWS;
        factor_rows(r, p->matrix, rank, i0, rows, h);
        for (int64_t i = 0; i < rows; i++) {
            double sum[GRAM_COLUMNS] = {0};
            for (int64_t l = 0; l < rank; l++)
                for (int64_t j = 0; j < columns; j++)
                    sum[j] += h[l * GRAM_COLUMNS + i] * g[l * GRAM_COLUMNS + j];
            for (int64_t j = 0; j < columns; j++)
                store(f, p->a, i0 + i, p->j0 + j, sum[j] * r->c->kind_value);
        }
    }
    free(g);
}

static void fill_piece(void *context, int64_t index) {
    fill *f = context;
    int64_t b = index / f->blocks, j0 = index % f->blocks * f->block, n = f->recipe.n;
    piece p = {.matrix = (uint64_t)(f->first + b),
               .a = f->a + b * f->stride,
               .j0 = j0,
               .j1 = j0 + f->block < n ? j0 + f->block : n};
    p.maker = qj_maker_of(f->recipe.c, (int64_t)p.matrix);
    if (p.maker->element)
        fill_elements(f, &p);
    else
        fill_gram(f, &p);
}

static qg_status refuse(qg_error *err, const qg_case *c, const char *fix, const char *why) {
    char what[160];
    snprintf(what, sizeof what, "inputs of kind '%.24s', %lld x %lld", c->kind, (long long)c->m,
             (long long)c->n);
    return qg_fail(err, QG_BAD_INPUT, what, why, fix);
}

static void names(char *out, size_t size) {
    size_t used = (size_t)snprintf(out, size, "one of");
    for (int i = 0; qj_kind_at(i) && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s %s", i ? "," : "", qj_kind_at(i)->name);
}

static qg_status check(const qg_case *c, int64_t first, int64_t count, int64_t ld, int64_t stride,
                       qg_error *err) {
    char fix[400];
    const qj_kind *kind = qj_kind_find(c->kind);
    if (!kind) {
        names(fix, sizeof fix);
        return refuse(err, c, fix, "unknown kind");
    }
    if (c->m < 0 || c->n < 0 || c->m > QG_MAX_DIM || c->n > QG_MAX_DIM)
        return refuse(err, c, "0 to 1048576", "rows or columns out of range");
    if (first < 0 || count < 0 || first > c->batch - count)
        return refuse(err, c, "matrices 0 to batch-1", "part of the batch out of range");
    if (!(c->cond >= 0 && c->cond <= 30)) return refuse(err, c, "0 to 30", "cond out of range");
    if (kind->has_value && !(c->kind_value > 0 && c->kind_value <= 1e30))
        return refuse(err, c, "a value above 0", "the kind needs a value");
    if (!kind->has_value && c->kind_value != 0)
        return refuse(err, c, "leave it out", "the kind takes no value");
    int64_t inner = c->layout_in == QG_ROW ? c->n : c->m, outer = c->layout_in == QG_ROW ? c->m : c->n;
    if (ld < inner || ld > INT64_C(1) << 40)
        return refuse(err, c, "at least a row (row layout) or a column (col)",
                      "leading dimension too small or absurd");
    if (count > 1 && outer > 0 && stride < (outer - 1) * ld + inner)
        return refuse(err, c, "at least a matrix", "stride too small");
    return QG_OK;
}

const qj_kind *qj_kind_at(int i) {
    const qj_maker *makers = qj_makers();
    for (int at = 0; makers[at].kind.name; at++)
        if (at == i) return &makers[at].kind;
    return NULL;
}

const qj_kind *qj_kind_find(const char *name) {
    const qj_maker *maker = qj_maker_find(name);
    return maker ? &maker->kind : NULL;
}

const char *qj_kind_of(const qg_case *c, int64_t matrix) {
    const qj_maker *maker = qj_maker_of(c, matrix);
    return maker ? maker->kind.name : NULL;
}

qg_status qj_fill_part(float *a, const qg_case *c, int64_t first, int64_t count, int64_t ld, int64_t stride,
                       qg_error *err) {
    qg_status status = check(c, first, count, ld, stride, err);
    if (status != QG_OK || count == 0 || c->m == 0 || c->n == 0) return status;
    fill f = {.a = a, .first = first, .stride = stride};
    f.row_step = c->layout_in == QG_ROW ? ld : 1;
    f.column_step = c->layout_in == QG_ROW ? 1 : ld;
    f.block = strcmp(c->kind, "gram") == 0 ? GRAM_COLUMNS : BLOCK_COLUMNS;
    f.blocks = (c->n + f.block - 1) / f.block;
    atomic_init(&f.no_memory, false);
    status = qj_recipe_init(&f.recipe, c, err);
    if (status != QG_OK) return status;
    qj_parallel(count * f.blocks, fill_piece, &f);
    qj_recipe_free(&f.recipe);
    if (atomic_load(&f.no_memory))
        return qg_fail(err, QG_NO_MEMORY, "filling inputs", "out of host memory", "");
    return QG_OK;
}

qg_status qj_fill(float *a, const qg_case *c, int64_t ld, int64_t stride, qg_error *err) {
    return qj_fill_part(a, c, 0, c->batch, ld, stride, err);
}
