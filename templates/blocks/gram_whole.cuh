// A panel of B columns from its whole Gram matrix, for panels much taller than wide: no sums over rows, so a column costs little more than its scalars.
//
// With X the top block (B x B) and G = P'P of all rows, for j = 0..B-1 (Householder reconstruction: Ballard, Demmel, Grigori, Jacquelin, Nguyen,
// Solomonik 2014, with M taken along by Gauss-Jordan steps):
//   r = G[j,:] / sqrt(G[j,j]); G -= r'r;
//   s = -sign(X[j,j]); R[j,:] = s r; n = X[j,:] - R[j,:], zero before column j; tau = |n[j]| / r[j];
//   X[i,:] -= (X[i,j] / n[j]) n and X[i,j] -> X[i,j] / n[j] for i /= j; X[j,:] = -n / n[j], X[j,j] = 1 / n[j].
// Then X holds V's top block below its diagonal, and on and above it M, the inverse of the matrix of all n: V2 = P2 M. All of P's conditioning is
// squared, where the recursion squares that of the rows below only: with 2 B rows and more a random panel loses 10 eps, with B thousands.
// A zero column gets no reflector (r = 0, 1 / n[j] taken as 0). After it only zero columns may come: another one's G would lack row j.
//
// Parameters: B = 32 or 64; LD: row stride of X, G and R; LDM: of M; LEAST: share of a column's square that must be left of it.
// Layout: half of the warps hold G and run a pair of columns ahead, the others hold X; thread (ty, tx) of 8 x B / 4 has rows ty + 8 r and columns tx + B / 4 c of it,
// so that what is left shrinks alike for all: each quarter of the columns has code of its own, without the finished ones. A pair's owners hand it
// round through shared memory, every thread finds its scalars itself, and one barrier a pair does for both.
% local R, W, T, RR = B // 8, B // 4, 2 * B, B // 32
struct gram_pivots {
    float g[2][${B}], x[2][${B}]; // the pair's rows of G and X by column (tx, c): 0 in finished ones of the quarter, undefined in earlier quarters
    float l[2][${B}];           // its columns of X by row (ty, r)
% if B == 64 then
    float h[2][${B}];           // its rows of G once more, in the order of rows
% end
};

// What a thread has of row ${W} Q + jj, or of the next one: their owners have both at the same place. Finished columns are 0.
template <int Q> QRS_DEV void gram_row(const float (&y)[${R}][4], int jj, int tx, float (&v)[4])
{
    #pragma unroll
    for (int c = 0; c < 4; c++)
        v[c] = c < Q || (c == Q && tx < jj) ? 0.0f : ${RR == 2 and "jj >= 8 ? y[2 * Q + 1][c] : y[2 * Q][c]" or "y[Q][c]"};
}
template <int N> QRS_DEV void gram_read(float (&to)[N], const float *from)
{
    #pragma unroll
    for (int i = 0; i < N; i += 4) {
        const f32x4 v = *(const f32x4 *)(from + i);
        to[i] = v.x, to[i + 1] = v.y, to[i + 2] = v.z, to[i + 3] = v.w;
    }
}

// A pair of Cholesky steps in quarter Q: given to all and, after a barrier, taken. jj: first column of the pair in its quarter.
template <int Q> QRS_DEV void gram_give_g(const float (&y)[${R}][4], gram_pivots &p, int jj, int tx, int ty)
{
    const int who = ty - (jj & 7);
    if ((who | 1) != 1)
        return;
    float v[4];
    gram_row<Q>(y, jj, tx, v);
    *(f32x4 *)(p.g[who] + 4 * tx) = {v[0], v[1], v[2], v[3]};
% if B == 64 then
    #pragma unroll
    for (int c = Q; c < 4; c++)
        p.h[who][(tx & 7) * 8 + (tx >> 3) + 2 * c] = v[c];
% end
}
template <int Q> QRS_DEV void gram_take_g(float (&y)[${R}][4], const gram_pivots &p, float *rv, int jj, int tx, int ty)
{
    const int j = ${W} * Q + jj, who = ty - (jj & 7);
    const float g00 = p.g[0][4 * jj + Q], g01 = p.g[0][4 * jj + 4 + Q], below = p.g[1][4 * jj + 4 + Q];
    float c0[4], c1[4], r0[${R}], r1[${R}];
    gram_read(c0, p.g[0] + 4 * tx);
    gram_read(c1, p.g[1] + 4 * tx);
    gram_read(r0, p.${B == 64 and "h" or "g"}[0] + ${R} * ty);
    gram_read(r1, p.${B == 64 and "h" or "g"}[1] + ${R} * ty);
    const float q0 = g00 == 0.0f ? 0.0f : rsqrt_normal(g00), w0 = q0 * q0, u = w0 * g01;
    const float g11 = fmaf(-u, g01, below), q1 = g11 == 0.0f ? 0.0f : rsqrt_normal(g11), w1 = q1 * q1;
    #pragma unroll
    for (int c = Q; c < 4; c++)
        c1[c] = fmaf(-u, c0[c], c1[c]);
    if ((who | 1) == 1)
        #pragma unroll
        for (int c = Q; c < 4; c++)
            rv[(j + who) * ${LD} + tx + ${W} * c] = who == 0 ? q0 * c0[c] : q1 * c1[c]; // finished columns: what comes below the diagonal is written once more
    #pragma unroll
    for (int r = ${RR} * Q; r < ${R}; r++) {
        const float a0 = w0 * r0[r], a1 = w1 * fmaf(-u, r0[r], r1[r]);
        #pragma unroll
        for (int c = Q; c < 4; c++)
            y[r][c] = fmaf(-a1, c1[c], fmaf(-a0, c0[c], y[r][c]));
    }
}

// The same pair's steps on X. sizes: n[j] by column.
template <int Q> QRS_DEV void gram_give_x(const float (&y)[${R}][4], gram_pivots &p, int jj, int tx, int ty)
{
    const int who = ty - (jj & 7), column = tx - jj;
    if ((who | 1) == 1) {
        float v[4];
        gram_row<Q>(y, jj, tx, v);
        *(f32x4 *)(p.x[who] + 4 * tx) = {v[0], v[1], v[2], v[3]};
    }
    if ((column | 1) == 1)
        #pragma unroll
        for (int r = 0; r < ${R}; r += 4)
            *(f32x4 *)(p.l[column] + ${R} * ty + r) = {y[r][Q], y[r + 1][Q], y[r + 2][Q], y[r + 3][Q]};
}
template <int Q> QRS_DEV void gram_take_x(float (&y)[${R}][4], const gram_pivots &p, const float *rv, float *sizes, int jj, int tx, int ty)
{
    const int j = ${W} * Q + jj, who = ty - (jj & 7), column = tx - jj;
    const float x00 = p.x[0][4 * jj + Q], x01 = p.x[0][4 * jj + 4 + Q], x10 = p.x[1][4 * jj + Q], below = p.x[1][4 * jj + 4 + Q];
    const f32x2 r00 = *(const f32x2 *)(rv + j * ${LD + 1});
    const float r11 = rv[(j + 1) * ${LD + 1}];
    float n0[4], n1[4], e0[${R}], e1[${R}];
    gram_read(n0, p.x[0] + 4 * tx);
    gram_read(n1, p.x[1] + 4 * tx);
    gram_read(e0, p.l[0] + ${R} * ty);
    gram_read(e1, p.l[1] + ${R} * ty);
    const float s0 = copysignf(1.0f, x00), size0 = fmaf(s0, r00.x, x00), inv0 = r00.x == 0.0f ? 0.0f : rcp_normal(size0);
    const float n01 = fmaf(s0, r00.y, x01), l10 = x10 * inv0, x11 = fmaf(-l10, n01, below);
    const float s1 = copysignf(1.0f, x11), size1 = fmaf(s1, r11, x11), inv1 = r11 == 0.0f ? 0.0f : rcp_normal(size1);
    #pragma unroll
    for (int c = Q; c < 4; c++) {
        const bool left = c > Q || tx >= jj;
        n0[c] = left ? fmaf(s0, rv[j * ${LD} + tx + ${W} * c], n0[c]) : 0.0f;
        n1[c] = left ? fmaf(s1, rv[(j + 1) * ${LD} + tx + ${W} * c], fmaf(-l10, n0[c], n1[c])) : 0.0f;
    }
    #pragma unroll
    for (int r = 0; r < ${R}; r++) {
        e0[r] *= inv0;
        e1[r] = fmaf(-e0[r], n01, e1[r]) * inv1;
    }
    if ((who | 1) == 1) // this row turns into one of M
        #pragma unroll
        for (int r = ${RR} * Q; r < ${RR} * (Q + 1); r++)
            if (${RR == 2 and "(jj >= 8) == (r & 1)" or "true"}) {
                #pragma unroll
                for (int c = Q; c < 4; c++)
                    y[r][c] = c > Q || tx >= jj ? 0.0f : y[r][c];
                e0[r] = who == 0 ? inv0 : 0.0f;
                e1[r] = who == 0 ? -inv0 * n01 * inv1 : inv1;
            }
    if (tx == 0 && ty == 0)
        *(f32x2 *)(sizes + j) = {size0, size1};
    #pragma unroll
    for (int r = 0; r < ${R}; r++) {
        #pragma unroll
        for (int c = Q; c < 4; c++)
            y[r][c] = fmaf(-e1[r], n1[c], fmaf(-e0[r], n0[c], y[r][c]));
        y[r][Q] = column == 0 ? e0[r] : column == 1 ? e1[r] : y[r][Q];
    }
    if (column == 0 && who == 1)
        #pragma unroll
        for (int r = ${RR} * Q; r < ${RR} * (Q + 1); r++)
            y[r][Q] = ${RR == 2 and "(jj >= 8) == (r & 1) ? l10 : y[r][Q]" or "l10"};
}

// A quarter of X's pairs, G being one pair ahead: both come to the same barrier.
template <int Q> QRS_DEV void gram_quarter(float (&y)[${R}][4], gram_pivots *sides, float *rv, float *sizes, bool second, int tx, int ty)
{
    constexpr int NEXT = Q < 3 ? Q + 1 : Q;
    #pragma unroll 1
    for (int jj = 0; jj < ${W}; jj += 2) {
        gram_pivots &here = sides[jj >> 1 & 1], &there = sides[(jj >> 1 & 1) ^ 1];
        const bool inside = jj + 2 < ${W}, more = inside || Q < 3;
        if (second)
            gram_give_x<Q>(y, here, jj, tx, ty);
        else if (inside)
            gram_give_g<Q>(y, there, jj + 2, tx, ty);
        else if (more)
            gram_give_g<NEXT>(y, there, 0, tx, ty);
        bar_sync(1, ${2 * T});
        if (second)
            gram_take_x<Q>(y, here, rv, sizes, jj, tx, ty);
        else if (inside)
            gram_take_g<Q>(y, there, rv, jj + 2, tx, ty);
        else if (more)
            gram_take_g<NEXT>(y, there, rv, 0, tx, ty);
    }
}

// Threads 0..${2 * T - 1} call. x: top block; rv (may be its place): becomes R on and above the diagonal and V below; gram: G; left, right: M's halves, columns
// keeping their numbers (right may be G's place). whole: G's diagonal. Returns false, in some thread, unless the pivots can be trusted. Synchronises.
QRS_CALL bool gram_whole(const float *x, const float *gram, float *rv, float *left, float *right, float *whole, gram_pivots *sides, float *tau)
{
    const int tid = threadIdx.x, tx = tid & ${W - 1}, ty = tid / ${W} & 7;
    const bool second = shfl((int)warp() / ${T // 32}, 0);
    float y[${R}][4];
    const float *from = (second ? x : gram) + ty * ${LD} + tx;
    #pragma unroll
    for (int r = 0; r < ${R}; r++)
        #pragma unroll
        for (int c = 0; c < 4; c++)
            y[r][c] = from[8 * r * ${LD} + ${W} * c];
    if (tid < ${B})
        whole[tid] = gram[tid * ${LD + 1}];
    if (!second)
        gram_give_g<0>(y, sides[0], 0, tx, ty);
    bar_sync(1, ${2 * T});
    if (!second)
        gram_take_g<0>(y, sides[0], rv, 0, tx, ty);
    gram_quarter<0>(y, sides, rv, tau, second, tx, ty);
    gram_quarter<1>(y, sides, rv, tau, second, tx, ty);
    gram_quarter<2>(y, sides, rv, tau, second, tx, ty);
    gram_quarter<3>(y, sides, rv, tau, second, tx, ty);
    bar_sync(1, ${2 * T});
    if (second)
        #pragma unroll
        for (int r = 0; r < ${R}; r++) {
            const int row = ty + 8 * r;
            const float s = -copysignf(1.0f, tau[row]);
            #pragma unroll
            for (int c = 0; c < 4; c++) {
                const int col = tx + ${W} * c;
                float *at = rv + row * ${LD} + col;
                *at = row > col ? y[r][c] : s * *at;
                (c < 2 ? left : right)[row * ${LDM} + col] = row > col ? 0.0f : y[r][c];
            }
        }
    bar_sync(1, ${2 * T});
    if (tid >= ${B})
        return true;
    // What cancelled cannot be trusted, nor a zero that only cancellation made. NaN fails.
    const float r = fabsf(rv[tid * ${LD + 1}]), of = whole[tid];
    tau[tid] = r == 0.0f ? 0.0f : div_rn(fabsf(tau[tid]), r);
    return r == 0.0f ? of == 0.0f && (tid == ${B - 1} || whole[tid + 1] == 0.0f) : r * r >= ${LEAST}f * of;
}
