#include "runtime/host/mma.h"

#include "runtime/host/half.h"
#include "runtime/host/race.h"
#include "runtime/host/shared.h"
#include "runtime/host/team.h"
#include "runtime/host/warp.h"

#include <string.h>

enum { ROWS = 16, COLUMNS = 8, DEPTH = 16 };

typedef struct operands {
    float a[ROWS][DEPTH];
    float b[DEPTH][COLUMNS];
    int depth;
} operands;

static void put_pair(float *first, uint32_t pair) {
    first[0] = qhx_half_float((uint16_t)pair);
    first[1] = qhx_half_float((uint16_t)(pair >> 16));
}

static void gather_f16(operands *o, const qhx_fibre *f, int g, int q) {
    put_pair(&o->a[g][2 * q], f->word[0]);
    put_pair(&o->a[g + 8][2 * q], f->word[1]);
    put_pair(&o->a[g][2 * q + 8], f->word[2]);
    put_pair(&o->a[g + 8][2 * q + 8], f->word[3]);
    for (int half = 0; half < 2; half++) {
        float pair[2];
        put_pair(pair, f->word[4 + half]);
        o->b[2 * q + 8 * half][g] = pair[0];
        o->b[2 * q + 8 * half + 1][g] = pair[1];
    }
}

static void gather_tf32(operands *o, const qhx_fibre *f, int g, int q) {
    for (int i = 0; i < 4; i++)
        o->a[g + (i & 1) * 8][q + (i >> 1) * 4] = qhx_tf32_float(f->word[i]);
    o->b[q][g] = qhx_tf32_float(f->word[4]);
    o->b[q + 4][g] = qhx_tf32_float(f->word[5]);
}

/* d = a row of A times B plus d, in float64 and rounded once. */
static void row_times_b(const operands *o, int row, int column, float *d) {
    double sum[2] = {0, 0};
    for (int k = 0; k < o->depth; k++)
        for (int e = 0; e < 2; e++)
            sum[e] += (double)o->a[row][k] * (double)o->b[k][column + e];
    for (int e = 0; e < 2; e++)
        d[e] = (float)((double)d[e] + sum[e]);
}

void qhx_mma_work(qhx_warp *w) {
    operands o;
    bool f16 = w->fibre[0].arg == QHX_MMA_F16;
    o.depth = f16 ? 16 : 8;
    for (int lane = 0; lane < QHX_LANES; lane++)
        (f16 ? gather_f16 : gather_tf32)(&o, &w->fibre[lane], lane / 4, lane % 4);
    for (int lane = 0; lane < QHX_LANES; lane++) {
        float *d = w->fibre[lane].d;
        row_times_b(&o, lane / 4, 2 * (lane % 4), d);
        row_times_b(&o, lane / 4 + 8, 2 * (lane % 4), d + 2);
    }
}

void qhx_mma(qhx_thread *t, int kind, float *d, const uint32_t *a, uint32_t b0, uint32_t b1, QHX_AT) {
    qhx_fibre *f = qhx_fibre_of(t);
    f->arg = kind;
    f->d = d;
    memcpy(f->word, a, 4 * sizeof *a);
    f->word[4] = b0;
    f->word[5] = b1;
    qhx_warp_join(f, QHX_WARP_MMA, file, line);
}

void qhx_ldmatrix_work(qhx_warp *w) {
    int count = w->fibre[0].arg;
    bool transposed = w->fibre[0].flags;
    for (int i = 0; i < count; i++)
        for (int lane = 0; lane < QHX_LANES; lane++) {
            int row = lane / 4, column = 2 * (lane % 4);
            uint16_t pair[2];
            for (int e = 0; e < 2; e++) {
                int r = transposed ? column + e : row, c = transposed ? row : column + e;
                memcpy(&pair[e], (const char *)w->fibre[8 * i + r].out + 2 * c, sizeof pair[e]);
            }
            w->fibre[lane].word[i] = pair[0] | (uint32_t)pair[1] << 16;
        }
}

void qhx_ldmatrix(qhx_thread *t, uint32_t *r, int count, int transposed, uint32_t address, QHX_AT) {
    qhx_fibre *f = qhx_fibre_of(t);
    qhx_enter(f, "ldmatrix", file, line);
    f->arg = count;
    f->flags = transposed;
    /* lanes beyond the last matrix's rows give no address */
    f->out = (int)f->lane < 8 * count ? qhx_shared_at(f, address, 16, 16) : NULL;
    if (f->out) qhx_race_read(f->out, 16);
    qhx_warp_join(f, QHX_WARP_LDMATRIX, file, line);
    memcpy(r, f->word, (size_t)count * sizeof *r);
}
