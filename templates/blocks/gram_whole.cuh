// A panel of 64 columns from its whole Gram matrix, for panels much taller than wide: no sums over rows, so a column costs little more than its scalars.
//
// With X the top block (64 x 64) and G = P'P of all rows, for j = 0..63 (Householder reconstruction: Ballard, Demmel, Grigori, Jacquelin, Nguyen,
// Solomonik 2014, with M taken along by Gauss-Jordan steps):
//   r = G[j,:] / sqrt(G[j,j]); G -= r'r;
//   s = -sign(X[j,j]); R[j,:] = s r; n = X[j,:] - R[j,:], zero before column j; tau = |n[j]| / r[j];
//   X[i,:] -= (X[i,j] / n[j]) n and X[i,j] -> X[i,j] / n[j] for i /= j; X[j,:] = -n / n[j], X[j,j] = 1 / n[j].
// Then X holds V's top block below its diagonal, and on and above it M, the inverse of the matrix of all n: V2 = P2 M. All of P's conditioning is
// squared, where the recursion squares that of the rows below only: with 128 rows and more a random panel loses 10 eps, with 64 thousands.
// A zero column gets no reflector (r = 0, 1 / n[j] taken as 0). After it only zero columns may come: another one's G would lack row j.
//
// Layout: warps 0..3 hold G and run a pair of columns ahead, warps 4..7 hold X; thread (ty, tx) of 8 x 16 has rows 8 ty.. and columns 4 tx... A pair's owners
// hand it round through shared memory, every thread finds its scalars itself, and one barrier a pair does for both.
struct gram_pivots {
    float g[2][64], x[2][64]; // the pair's rows of G and of X, zero in finished columns
    float l[2][64];           // its columns of X
};

// The rows of a pair to shared memory. column: the first of its two in the four of the tile that begin at tile column `at`.
template <int R> QRS_DEV void gram_give_rows(const float (&y)[8][4], float (*to)[64], int tx, int at, int column)
{
    const bool early = tx > at || (tx == at && column == 0), late = tx >= at;
    #pragma unroll
    for (int e = 0; e < 2; e++)
        *(f32x4 *)(to[e] + 4 * tx) = {early ? y[R + e][0] : 0.0f, early ? y[R + e][1] : 0.0f, late ? y[R + e][2] : 0.0f, late ? y[R + e][3] : 0.0f};
}
template <int N> QRS_DEV void gram_read(float (&to)[N], const float *from)
{
    #pragma unroll
    for (int i = 0; i < N; i += 4) {
        const f32x4 v = *(const f32x4 *)(from + i);
        to[i] = v.x, to[i + 1] = v.y, to[i + 2] = v.z, to[i + 3] = v.w;
    }
}

// One pair of Cholesky steps: rows 2 Q, 2 Q + 1 of the eight that begin at 8 block.
template <int Q> QRS_DEV void gram_cholesky_pair(float (&y)[8][4], gram_pivots &p, float *rv, int block, int tx, int ty)
{
    const int j = 8 * block + 2 * Q;
    if (ty == block)
        gram_give_rows<2 * Q>(y, p.g, tx, 2 * block + (Q >> 1), 2 * (Q & 1));
    bar_sync(1, 256);
    const f32x2 g0 = *(const f32x2 *)(p.g[0] + j);
    const float below = p.g[1][j + 1];
    float c0[4], c1[4], r0[8], r1[8];
    gram_read(c0, p.g[0] + 4 * tx);
    gram_read(c1, p.g[1] + 4 * tx);
    gram_read(r0, p.g[0] + 8 * ty);
    gram_read(r1, p.g[1] + 8 * ty);
    const float q0 = g0.x == 0.0f ? 0.0f : rsqrt_normal(g0.x), w0 = q0 * q0, u = w0 * g0.y;
    const float g1 = fmaf(-u, g0.y, below), q1 = g1 == 0.0f ? 0.0f : rsqrt_normal(g1), w1 = q1 * q1;
    #pragma unroll
    for (int c = 0; c < 4; c++)
        c1[c] = fmaf(-u, c0[c], c1[c]);
    if (ty == block) {
        *(f32x4 *)(rv + j * 68 + 4 * tx) = {q0 * c0[0], q0 * c0[1], q0 * c0[2], q0 * c0[3]};
        *(f32x4 *)(rv + (j + 1) * 68 + 4 * tx) = {q1 * c1[0], q1 * c1[1], q1 * c1[2], q1 * c1[3]};
    }
    if (2 * (int)warp() + 1 >= block) // else these rows are finished
        #pragma unroll
        for (int i = 0; i < 8; i++) {
            const float a0 = w0 * r0[i], a1 = w1 * fmaf(-u, r0[i], r1[i]);
            #pragma unroll
            for (int c = 0; c < 4; c++)
                y[i][c] = fmaf(-a1, c1[c], fmaf(-a0, c0[c], y[i][c]));
        }
}

// The same pair's steps on X. sizes: n[j] by column.
template <int Q> QRS_DEV void gram_jordan_pair(float (&y)[8][4], gram_pivots &p, const float *rv, float *sizes, int block, int tx, int ty)
{
    constexpr int A = 2 * Q, B = A + 1, C = 2 * (Q & 1), D = C + 1;
    const int j = 8 * block + A, at = 2 * block + (Q >> 1);
    const bool rows = ty == block, columns = tx == at;
    if (rows)
        gram_give_rows<A>(y, p.x, tx, at, C);
    if (columns)
        #pragma unroll
        for (int i = 0; i < 8; i += 4) {
            *(f32x4 *)(p.l[0] + 8 * ty + i) = {y[i][C], y[i + 1][C], y[i + 2][C], y[i + 3][C]};
            *(f32x4 *)(p.l[1] + 8 * ty + i) = {y[i][D], y[i + 1][D], y[i + 2][D], y[i + 3][D]};
        }
    bar_sync(1, 256);
    const f32x2 x0 = *(const f32x2 *)(p.x[0] + j), x1 = *(const f32x2 *)(p.x[1] + j), r0 = *(const f32x2 *)(rv + j * 69);
    const float r1 = rv[(j + 1) * 69];
    float n0[4], n1[4], c0[4], c1[4], e0[8], e1[8];
    gram_read(n0, p.x[0] + 4 * tx);
    gram_read(n1, p.x[1] + 4 * tx);
    gram_read(c0, rv + j * 68 + 4 * tx);
    gram_read(c1, rv + (j + 1) * 68 + 4 * tx);
    gram_read(e0, p.l[0] + 8 * ty);
    gram_read(e1, p.l[1] + 8 * ty);
    const float s0 = copysignf(1.0f, x0.x), size0 = fmaf(s0, r0.x, x0.x), inv0 = r0.x == 0.0f ? 0.0f : rcp_normal(size0);
    const float n01 = fmaf(s0, r0.y, x0.y), l10 = x1.x * inv0, x11 = fmaf(-l10, n01, x1.y);
    const float s1 = copysignf(1.0f, x11), size1 = fmaf(s1, r1, x11), inv1 = r1 == 0.0f ? 0.0f : rcp_normal(size1);
    #pragma unroll
    for (int c = 0; c < 4; c++) {
        n0[c] = fmaf(s0, c0[c], n0[c]);
        n1[c] = fmaf(s1, c1[c], fmaf(-l10, n0[c], n1[c]));
    }
    #pragma unroll
    for (int i = 0; i < 8; i++) {
        e0[i] *= inv0;
        e1[i] = fmaf(-e0[i], n01, e1[i]) * inv1;
    }
    float last = e0[B];
    if (rows) { // these two turn into rows of M
        const bool early = tx > at || (columns && C == 0), late = tx >= at;
        #pragma unroll
        for (int c = 0; c < 4; c++) {
            y[A][c] = (c < 2 ? early : late) ? 0.0f : y[A][c];
            y[B][c] = (c < 2 ? early : late) ? 0.0f : y[B][c];
        }
        e0[A] = inv0;
        e1[A] = -inv0 * n01 * inv1;
        e0[B] = 0.0f;
        e1[B] = inv1;
        if (columns)
            sizes[j] = size0, sizes[j + 1] = size1;
    }
    #pragma unroll
    for (int i = 0; i < 8; i++) {
        #pragma unroll
        for (int c = 0; c < 4; c++)
            y[i][c] = fmaf(-e1[i], n1[c], fmaf(-e0[i], n0[c], y[i][c]));
        if (columns) {
            y[i][C] = i == B ? last : e0[i];
            y[i][D] = e1[i];
        }
    }
}

// All 256 threads call. rv: top block, becomes R on and above the diagonal and V below; gram: G, of which M's right half takes the place, and left M's left half
// (rows 68 apart, the columns' numbers kept). whole: G's diagonal. Returns false, in some thread, unless the pivots can be trusted. Synchronises.
QRS_CALL bool gram_whole(float *rv, float *gram, float *left, float *whole, gram_pivots *sides, float *tau)
{
    const int tid = threadIdx.x, tx = tid & 15, ty = tid >> 4 & 7;
    const bool second = shfl((int)warp() >> 2, 0);
    float y[8][4];
    #pragma unroll
    for (int i = 0; i < 8; i++)
        gram_read(y[i], (second ? rv : gram) + (8 * ty + i) * 68 + 4 * tx);
    if (tid < 64)
        whole[tid] = gram[tid * 69];
    if (!second) {
        #pragma unroll 1
        for (int block = 0; block < 8; block++) {
            gram_cholesky_pair<0>(y, sides[0], rv, block, tx, ty);
            gram_cholesky_pair<1>(y, sides[1], rv, block, tx, ty);
            gram_cholesky_pair<2>(y, sides[0], rv, block, tx, ty);
            gram_cholesky_pair<3>(y, sides[1], rv, block, tx, ty);
        }
        bar_sync(1, 256);
    } else {
        bar_sync(1, 256);
        #pragma unroll 1
        for (int block = 0; block < 8; block++) {
            gram_jordan_pair<0>(y, sides[0], rv, tau, block, tx, ty);
            gram_jordan_pair<1>(y, sides[1], rv, tau, block, tx, ty);
            gram_jordan_pair<2>(y, sides[0], rv, tau, block, tx, ty);
            gram_jordan_pair<3>(y, sides[1], rv, tau, block, tx, ty);
        }
        bar_sync(2, 128);
        #pragma unroll
        for (int i = 0; i < 8; i++) {
            const int row = 8 * ty + i;
            f32x4 *at = (f32x4 *)(rv + row * 68 + 4 * tx);
            const f32x4 r = *at;
            const float s = -copysignf(1.0f, tau[row]), r4[4] = {s * r.x, s * r.y, s * r.z, s * r.w};
            float v[4], m[4];
            #pragma unroll
            for (int c = 0; c < 4; c++) {
                v[c] = row > 4 * tx + c ? y[i][c] : r4[c];
                m[c] = row > 4 * tx + c ? 0.0f : y[i][c];
            }
            *at = {v[0], v[1], v[2], v[3]};
            *(f32x4 *)((tx < 8 ? left : gram) + row * 68 + 4 * tx) = {m[0], m[1], m[2], m[3]};
        }
    }
    block_sync();
    if (tid >= 64)
        return true;
    // What cancelled cannot be trusted, nor a zero that only cancellation made. NaN fails.
    const float r = fabsf(rv[tid * 69]), of = whole[tid];
    tau[tid] = r == 0.0f ? 0.0f : div_rn(fabsf(tau[tid]), r);
    return r == 0.0f ? of == 0.0f && (tid == 63 || whole[tid + 1] == 0.0f) : r * r >= 1e-6f * of;
}
