// A panel of 32 columns from its whole Gram matrix, for panels at least twice as tall as wide: gram_whole.cuh, which explains it, for fewer columns and half of the
// threads, a pair of columns at a time. With 64 rows and more a random panel loses 10 eps, with 32 thousands.
//
// Parameters: LD: row stride of X, G and R; LDM: of M; LEAST: share of a column's square that must be left of it.
// Layout: two warps hold G and run a pair of columns ahead, two hold X; thread (ty, tx) of 8 x 8 has rows 4 ty.. and columns 4 tx.. of it. A pair's owners
// hand it round through shared memory, every thread finds its scalars itself, and one barrier a pair does for both.
% local B, R, T = 32, 4, 64
% include("blocks/gram_sound.cuh", { B = B, LD = LD, LEAST = LEAST })
struct gram_narrow_pivots {
    float g[2][${B}], x[2][${B}]; // the pair's rows of G and of X, zero in finished columns
    float l[2][${B}];             // its columns of X
};

// Pair Q of a block's four rows to shared memory, from its own columns on.
template <int Q> QRS_DEV void gram_give_rows(const float (&y)[${R}][4], float (*to)[${B}], int block, int tx)
{
    const bool early = tx > block || (tx == block && Q == 0), late = tx >= block;
    #pragma unroll
    for (int e = 0; e < 2; e++)
        *(f32x4 *)(to[e] + 4 * tx) = {early ? y[2 * Q + e][0] : 0.0f, early ? y[2 * Q + e][1] : 0.0f, late ? y[2 * Q + e][2] : 0.0f,
                                    late ? y[2 * Q + e][3] : 0.0f};
}
template <int N> QRS_DEV void gram_read(float (&to)[N], const float *from)
{
    #pragma unroll
    for (int i = 0; i < N; i += 4) {
        const f32x4 v = *(const f32x4 *)(from + i);
        to[i] = v.x, to[i + 1] = v.y, to[i + 2] = v.z, to[i + 3] = v.w;
    }
}

// Pair Q of a block's Cholesky steps, once its owners have given it away.
template <int Q> QRS_DEV void gram_cholesky_pair(float (&y)[${R}][4], const gram_narrow_pivots &p, float *rv, int block, int tx, int ty)
{
    const int j = ${R} * block + 2 * Q;
    const f32x2 g0 = *(const f32x2 *)(p.g[0] + j);
    const float below = p.g[1][j + 1];
    float c0[4], c1[4], r0[${R}], r1[${R}];
    gram_read(c0, p.g[0] + 4 * tx);
    gram_read(c1, p.g[1] + 4 * tx);
    gram_read(r0, p.g[0] + ${R} * ty);
    gram_read(r1, p.g[1] + ${R} * ty);
    const float q0 = g0.x == 0.0f ? 0.0f : rsqrt_normal(g0.x), w0 = q0 * q0, u = w0 * g0.y;
    const float g1 = fmaf(-u, g0.y, below), q1 = g1 == 0.0f ? 0.0f : rsqrt_normal(g1), w1 = q1 * q1;
    #pragma unroll
    for (int c = 0; c < 4; c++)
        c1[c] = fmaf(-u, c0[c], c1[c]);
    if (ty == block) {
        *(f32x4 *)(rv + j * ${LD} + 4 * tx) = {q0 * c0[0], q0 * c0[1], q0 * c0[2], q0 * c0[3]};
        *(f32x4 *)(rv + (j + 1) * ${LD} + 4 * tx) = {q1 * c1[0], q1 * c1[1], q1 * c1[2], q1 * c1[3]};
    }
    if (4 * (int)warp() + 3 >= block) // else these rows are finished
        #pragma unroll
        for (int i = 0; i < ${R}; i++) {
            const float a0 = w0 * r0[i], a1 = w1 * fmaf(-u, r0[i], r1[i]);
            #pragma unroll
            for (int c = 0; c < 4; c++)
                y[i][c] = fmaf(-a1, c1[c], fmaf(-a0, c0[c], y[i][c]));
        }
}

// X's side of a pair: its columns to shared memory, and, after a barrier, the steps. sizes: n[j] by column.
template <int Q> QRS_DEV void gram_give_columns(const float (&y)[${R}][4], gram_narrow_pivots &p, int ty)
{
    #pragma unroll
    for (int e = 0; e < 2; e++)
        *(f32x4 *)(p.l[e] + ${R} * ty) = {y[0][2 * Q + e], y[1][2 * Q + e], y[2][2 * Q + e], y[3][2 * Q + e]};
}
template <int Q> QRS_DEV void gram_jordan_pair(float (&y)[${R}][4], const gram_narrow_pivots &p, const float *rv, float *sizes, int block, int tx, int ty)
{
    constexpr int A = 2 * Q, B = A + 1; // in rows as in columns
    const int j = ${R} * block + A;
    const bool rows = ty == block, columns = tx == block;
    const f32x2 x0 = *(const f32x2 *)(p.x[0] + j), x1 = *(const f32x2 *)(p.x[1] + j), r0 = *(const f32x2 *)(rv + j * ${LD + 1});
    const float r1 = rv[(j + 1) * ${LD + 1}];
    float n0[4], n1[4], c0[4], c1[4], e0[${R}], e1[${R}];
    gram_read(n0, p.x[0] + 4 * tx);
    gram_read(n1, p.x[1] + 4 * tx);
    gram_read(c0, rv + j * ${LD} + 4 * tx);
    gram_read(c1, rv + (j + 1) * ${LD} + 4 * tx);
    gram_read(e0, p.l[0] + ${R} * ty);
    gram_read(e1, p.l[1] + ${R} * ty);
    // The second pivot by way of their determinant: the reciprocals need not wait for each other, nor the magnitudes for signs.
    const float s0 = copysignf(1.0f, x0.x), size0 = fabsf(x0.x) + r0.x, n00 = s0 * size0, n01 = fmaf(s0, r0.y, x0.y), det = fmaf(x1.y, n00, -x1.x * n01);
    const float s1 = copysignf(s0, det) * s0, inv0 = r0.x == 0.0f ? 0.0f : s0 * rcp_normal(size0),
                inv1 = r1 == 0.0f ? 0.0f : s1 * (size0 * rcp_normal(fmaf(r1, size0, fabsf(det))));
    const float l10 = x1.x * inv0, n11 = fmaf(s1, r1, fmaf(-l10, n01, x1.y));
    #pragma unroll
    for (int c = 0; c < 4; c++) {
        n0[c] = fmaf(s0, c0[c], n0[c]);
        n1[c] = fmaf(s1, c1[c], fmaf(-l10, n0[c], n1[c]));
    }
    #pragma unroll
    for (int i = 0; i < ${R}; i++) {
        e0[i] *= inv0;
        e1[i] = fmaf(-e0[i], n01, e1[i]) * inv1;
    }
    float last = e0[B];
    if (rows) { // these two turn into rows of M
        const bool early = tx > block || (columns && Q == 0), late = tx >= block;
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
            sizes[j] = n00, sizes[j + 1] = n11;
    }
    #pragma unroll
    for (int i = 0; i < ${R}; i++) {
        #pragma unroll
        for (int c = 0; c < 4; c++)
            y[i][c] = fmaf(-e1[i], n1[c], fmaf(-e0[i], n0[c], y[i][c]));
        if (columns) {
            y[i][A] = i == B ? last : e0[i];
            y[i][B] = e1[i];
        }
    }
}

// Threads 0..${2 * T - 1} call. x: top block; gram: G; rv (may be the place of either): becomes R on and above the diagonal and V below; m: M. whole: G's diagonal.
// Returns false, in some thread, unless the pivots can be trusted. Synchronises.
QRS_CALL bool gram_narrow(const float *x, const float *gram, float *rv, float *m, float *whole, gram_narrow_pivots *sides, float *tau)
{
    const int tid = threadIdx.x, tx = tid & ${B // 4 - 1}, ty = tid / ${B // 4} & 7;
    const bool second = shfl((int)warp() / ${T // 32}, 0);
    float y[${R}][4];
    #pragma unroll
    for (int i = 0; i < ${R}; i++)
        gram_read(y[i], (second ? x : gram) + (${R} * ty + i) * ${LD} + 4 * tx);
    if (tid < ${B})
        whole[tid] = gram[tid * ${LD + 1}];
    // Both at the same barriers, X a pair behind.
    #pragma unroll 1
    for (int block = 0; block <= 8; block++) {
% for q = 0, 1 do
%   local x, of = 1 - q, q == 0 and "block - 1" or "block"
        if (!second && block < 8 && ty == block)
            gram_give_rows<${q}>(y, sides[${q}].g, block, tx);
        if (second && ${q == 0 and "block > 0" or "block < 8"}) {
            if (ty == ${of})
                gram_give_rows<${x}>(y, sides[${x}].x, ${of}, tx);
            if (tx == ${of})
                gram_give_columns<${x}>(y, sides[${x}], ty);
        }
        bar_sync(1, ${2 * T});
        if (!second && block < 8)
            gram_cholesky_pair<${q}>(y, sides[${q}], rv, block, tx, ty);
        if (second && ${q == 0 and "block > 0" or "block < 8"})
            gram_jordan_pair<${x}>(y, sides[${x}], rv, tau, ${of}, tx, ty);
% end
    }
    bar_sync(1, ${2 * T});
    if (second) {
        #pragma unroll
        for (int i = 0; i < ${R}; i++) {
            const int row = ${R} * ty + i;
            f32x4 *at = (f32x4 *)(rv + row * ${LD} + 4 * tx);
            const f32x4 r = *at;
            const float s = -copysignf(1.0f, tau[row]), r4[4] = {s * r.x, s * r.y, s * r.z, s * r.w};
            float v[4], inverse[4];
            #pragma unroll
            for (int c = 0; c < 4; c++) {
                v[c] = row > 4 * tx + c ? y[i][c] : r4[c];
                inverse[c] = row > 4 * tx + c ? 0.0f : y[i][c];
            }
            *at = {v[0], v[1], v[2], v[3]};
            *(f32x4 *)(m + row * ${LDM} + 4 * tx) = {inverse[0], inverse[1], inverse[2], inverse[3]};
        }
    }
    bar_sync(1, ${2 * T});
    return tid >= ${B} || gram_sound(rv, whole, tau);
}
