// Householder panel of 32 columns from its top block and a Gram matrix: sequential work that does not grow with the rows.
//
// With P1 the top 32 x 32 block, P2 the rows below and G = P2'P2, run for j = 0..31 (M starts as the identity):
//   s = sum_{i>j} P1[i,j]^2 + G[j,j]; beta, tau, rho, step as in pack_reflector.cuh;
//   d_c = sum_{i>j} P1[i,j] P1[i,c] + G[j,c]; g_c = step (P1[j,c] + rho d_c) for c > j;
//   R[j,c] = P1[j,c] - g_c (alpha - beta); P1[i,c] -= P1[i,j] g_c (i > j); M[:,c] -= g_c M[:,j];
//   G -= g G[j,:] + G[:,j] g' - g g' G[j,j] on what is left.
// Then V1 = P1 rho below its diagonal and V2 = P2 (M rho). Only what lies below the top block is squared in conditioning.
//
// Layout: warp w of 4, lane = column; x[k] and gram[k] are row 4 k + w. Row j of x turns into row j of M once it has been the
// pivot row, so one array holds both. Everything off the chain dots -> barrier -> scalars -> update runs in its shadow: the update of G
// by step j happens during step j + 1, of which only row j + 1 is needed at once (`row`), and every lane also carries the next pivot
// column at its own rows (xb), found from its old values and its own g. One barrier of 128 threads a column.
// Measured on an H200 at 4 warps: 258 cycles a column; 1, 2, 8 warps: 763, 303, 400.
struct gram_buffers { // shared; every second index is the column's parity
    float part[2][36][4]; // dots by column and warp
    f32x2 pivot[2][36];   // row j of P1 and of G
    float next[2][32];    // old column j + 1 of x, in the order of the rows' owners: row 4 k + w at 8 w + k
    float row[2][32];     // row j of G in that order
    float g[2][32];       // g of step j in that order
    float square[4][32];  // column squares of P1 (and G's diagonal) at the start
};

// Threads 0..127 call. p1: row-major with stride 36; gram: likewise. Results in shared memory: m, row-major with stride 40, upper triangular,
// columns scaled by rho; v1: stride 36, strictly lower; r: stride 36, upper; tau: 32. True (in every one of the four warps) when the
// recursion went well as far as it can tell; the true norms of V have the last word.
QRS_DEV bool gram_recursion(const float *p1, const float *gram_in, gram_buffers *s, float *m, float *v1, float *r, float *tau)
{
    const int l = lane(), w = warp();
    const int mine = (l & 3) * 8 + (l >> 2); // place of index l in the owners' order
    float x[8], gram[8], xb[8], old_row[8], old_h = 0.0f, old_g = 0.0f, square = 0.0f;
    #pragma unroll
    for (int k = 0; k < 8; k++) {
        x[k] = p1[(4 * k + w) * 36 + l];
        gram[k] = gram_in[(4 * k + w) * 36 + l];
        xb[k] = shfl(x[k], 0);
        old_row[k] = 0.0f;
        square = fmaf(x[k], x[k], square);
        if (4 * k + w == l)
            square += gram[k];
    }
    s->square[w][l] = square;
    const float start = gram_in[l * 36 + l];
    if (w == 0) {
        s->g[1][l] = 0.0f;
        if (l < 2) { // "column 32", next of the last
            *(f32x4 *)s->part[l][32] = {0.0f, 0.0f, 0.0f, 0.0f};
            s->pivot[l][32] = {0.0f, 0.0f};
        }
    }
    float row = gram[0], rho_of = 0.0f, squares_of = 0.0f, beta_of = 0.0f;

    #pragma unroll
    for (int jj = 0; jj < 8; jj++) {
        #pragma unroll 1
        for (int jw = 0; jw < 4; jw++) {
            const int j = jj * 4 + jw, b = j & 1;
            const bool own = w == jw;
            float even = fmaf(w > jw ? xb[jj] : 0.0f, x[jj], own ? row : 0.0f), odd = 0.0f;
            #pragma unroll
            for (int k = jj + 1; k < 8; k++) {
                if ((k - jj) & 1)
                    odd = fmaf(xb[k], x[k], odd);
                else
                    even = fmaf(xb[k], x[k], even);
            }
            s->part[b][l][w] = even + odd;
            if (own) {
                s->pivot[b][l] = {x[jj], row};
                s->row[b][mine] = row;
            }
            if (l == j + 1) {
                #pragma unroll
                for (int k = 0; k < 8; k += 4)
                    *(f32x4 *)&s->next[b][w * 8 + k] = {x[k], x[k + 1], x[k + 2], x[k + 3]};
            }
            bar_sync(1, 128);
            const f32x4 dj = *(const f32x4 *)s->part[b][j], dn = *(const f32x4 *)s->part[b][j + 1], dl = *(const f32x4 *)s->part[b][l];
            const f32x2 pj = s->pivot[b][j], pn = s->pivot[b][j + 1], pl = s->pivot[b][l];
            const float squares = (dj.x + dj.y) + (dj.z + dj.w);
            const float norm2 = fmaxf(fmaf(pj.x, pj.x, squares), 0x1p-120f);
            const float q = rsqrt_approx(norm2), norm = norm2 * q;
            const float rho0 = rcp_approx(fabsf(pj.x) + norm);
            float next[8], last_g[8], this_row[8];
            #pragma unroll
            for (int k = 0; k < 8; k += 4) {
                f32x4 t = *(const f32x4 *)&s->next[b][w * 8 + k];
                next[k] = t.x, next[k + 1] = t.y, next[k + 2] = t.z, next[k + 3] = t.w;
                t = *(const f32x4 *)&s->g[b ^ 1][w * 8 + k];
                last_g[k] = t.x, last_g[k + 1] = t.y, last_g[k + 2] = t.z, last_g[k + 3] = t.w;
                t = *(const f32x4 *)&s->row[b][w * 8 + k];
                this_row[k] = t.x, this_row[k + 1] = t.y, this_row[k + 2] = t.z, this_row[k + 3] = t.w;
            }
            #pragma unroll
            for (int k = jj; k < 8; k++)
                gram[k] = fmaf(-old_row[k], old_g, fmaf(-last_g[k], old_h, gram[k]));

            const bool some = squares > 0.0f;
            const float rho = some ? copysignf(rho0, pj.x) : 0.0f, step = some ? copysignf(q, pj.x) : 0.0f;
            const float gap = copysignf(fabsf(pj.x) + norm, pj.x);
            const float gn = step * fmaf(rho, (dn.x + dn.y) + (dn.z + dn.w), pn.x);
            const float gl = step * fmaf(rho, (dl.x + dl.y) + (dl.z + dl.w), pl.x), g = l > j ? gl : 0.0f;
            if (l == j) {
                rho_of = rho;
                squares_of = squares;
                beta_of = some ? copysignf(norm, -pj.x) : pj.x;
            }
            if (own) { // the pivot row leaves P1 and becomes a row of M
                xb[jj] = 1.0f;
                next[jj] = 0.0f;
                x[jj] = l < j ? x[jj] : l == j ? 1.0f : 0.0f;
            }
            #pragma unroll
            for (int k = 7; k >= 0; k--) {
                x[k] = fmaf(-g, xb[k], x[k]);
                xb[k] = fmaf(-gn, xb[k], next[k]);
            }
            old_h = fmaf(-g, pj.y, pl.y);
            old_g = g;
            float below = gram[jj];
            if (jj < 7)
                below = jw == 3 ? gram[jj < 7 ? jj + 1 : jj] : below;
            row = fmaf(-pn.y, g, fmaf(-gn, old_h, below));
            #pragma unroll
            for (int k = 0; k < 8; k++)
                old_row[k] = this_row[k];
            if (own) {
                s->g[b][mine] = g;
                r[j * 36 + l] = l > j ? fmaf(-gl, gap, pl.x) : 0.0f;
            }
            if (threadIdx.x == 0)
                tau[j] = some ? fmaf(fabsf(pj.x), q, 1.0f) : 0.0f;
        }
    }
    #pragma unroll
    for (int k = 0; k < 8; k++) {
        const int i = 4 * k + w;
        m[i * 40 + l] = i <= l ? x[k] * rho_of : 0.0f;
        v1[i * 36 + l] = i > l ? x[k] * rho_of : 0.0f;
    }
    bar_sync(1, 128);
    if (w == 0)
        r[l * 36 + l] = beta_of;
    // What cancelled cannot be trusted: a norm far below the column's own, a tail that is negative, tiny, or zero only by cancellation.
    const float whole = (s->square[0][l] + s->square[1][l]) + (s->square[2][l] + s->square[3][l]);
    const bool good = beta_of * beta_of >= 1e-6f * whole && (squares_of == 0.0f ? start == 0.0f : squares_of >= 1e-6f * whole);
    return warp_all(good);
}
