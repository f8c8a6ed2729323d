// A panel of 32 columns from its whole Gram matrix, for panels at least twice as tall as wide: gram_whole.cuh, which explains it, for fewer columns, a pair of columns
// at a time. With 64 rows and more a random panel loses 10 eps, with 48 as many, with 32 thousands.
//
// Parameters: LD: row stride of X, G and R; LDM: of M; LEAST: share of a column's square that must be left of it. WHOLE: for gram_whole.cuh, which puts things
// into their places itself. Template parameter KEEP: two inverses come out, too.
// Layout: two warps hold X, and two G, a few pairs ahead, each two with barriers of their own; R's rows are announced by twos of pairs. Thread (ty, tx) of 8 x 8 has rows
// 2 ty, 2 ty + 1 and those 16 further on, and columns by tx likewise. After eight pairs the threads' first columns are finished: the others come first, and the lower
// rows, so that a pair's rows and columns are always number 0 and 1 of their owners'. Owners hand rows and columns round through shared memory in the order in which
// threads hold them ("dealt"). What threads hold of finished columns is left to itself: it is never used, unless KEEP lets the inverses grow there, as if of the identity.
// A pair's steps on X are 110 instructions, at about two cycles each most of their time: hence two pairs a turn, with parities and addresses fixed.
% if not WHOLE then
% include("blocks/gram_sound.cuh", { B = 32, LD = LD, LEAST = LEAST })
% end
struct alignas(16) gram_narrow_pivots { // of a pair, by its parity
    float x[2][4][32]; // rows of X, columns of X
    float g[2][2][32]; // rows of G
    float corner[2][4]; // X's entries in the pair's rows and columns
    float pivot[2][4]; // G's, if KEEP
    float diagonal[16][4]; // R's, all pairs: what a step waits for comes by two loads, not by five in whatever order
};

QRS_DEV void gram_read(float (&to)[4], saddr from)
{
    const f32x4 v = lds<f32x4>(from);
    to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
}
// This thread's of a matrix.
QRS_DEV void gram_deal(float (&y)[4][4], const float *from)
{
    from += ((int)threadIdx.x >> 3 & 7) * ${2 * LD} + ((int)threadIdx.x & 7) * 2;
    #pragma unroll
    for (int i = 0; i < 4; i++)
        #pragma unroll
        for (int c = 0; c < 4; c += 2) {
            const f32x2 v = *(const f32x2 *)(from + ((i >> 1) * 16 + (i & 1)) * ${LD} + 8 * c);
            y[i][c] = v.x, y[i][c + 1] = v.y;
        }
}
// The second half of the columns comes first, and that of the rows.
template <bool KEEP> QRS_DEV void gram_halves(float (&y)[4][4])
{
    #pragma unroll
    for (int i = 0; i < 2; i++)
        #pragma unroll
        for (int c = 0; c < 2; c++) {
            const float upper = y[i][c + 2], first = y[i][c];
            if (KEEP)
                y[i][c + 2] = y[i + 2][c];
            y[i][c] = y[i + 2][c + 2];
            y[i + 2][c] = upper;
            if (KEEP)
                y[i + 2][c + 2] = first;
        }
}

// Cholesky steps, warps 2 and 3: R's rows to rv, dealt; if KEEP R^-T's in their first columns, the pair's included.
template <bool KEEP> QRS_DEV void gram_narrow_cholesky(const float *gram, float *rv, gram_narrow_pivots *s)
{
    const int ty = (int)threadIdx.x >> 3 & 7, tx = (int)threadIdx.x & 7;
    const saddr mine = to_saddr(s->g) + 16 * tx, across = to_saddr(s->g) + 16 * ty;
    saddr r = to_saddr(rv) + 16 * tx, diagonal = to_saddr(s->diagonal);
    const saddr pivot = to_saddr(s->pivot);
    int announced = 3;
    float y[4][4];
    gram_deal(y, gram);
    #pragma unroll 1
    for (int half = 0; half < 2; half++) {
        saddr pivots = to_saddr(s->g);
        #pragma unroll 1
        for (int two = 0; two < 8; two += 2, pivots += 32, diagonal += 32, r += ${16 * LD}) {
% for odd = 0, 1 do
%   local AT, R = 256 * odd, 8 * LD * odd
            {
                const bool own = ty == two + ${odd};
                const bool column = KEEP && tx == two + ${odd};
                if (KEEP)
                    sts_if(own && column, pivot + ${16 * odd}, {y[0][0], y[0][1], y[1][0], y[1][1]});
                #pragma unroll
                for (int e = 0; e < 2; e++)
                    sts_if(own, mine + ${AT} + 128 * e, {column ? 1.0f - e : y[e][0], column ? 0.0f + e : y[e][1], y[e][2], y[e][3]});
                #pragma unroll
                for (int i = 0; i < 4; i++)
                    #pragma unroll
                    for (int c = 0; c < 2; c++)
                        y[i][c] = column ? 0.0f : y[i][c];
                bar_sync(12, 64);
                f32x4 g;
                if (KEEP) {
                    g = lds<f32x4>(pivot + ${16 * odd});
                } else {
                    const f32x2 first = lds<f32x2>(pivots + ${AT + 16 * odd});
                    g = {first.x, first.y, 0.0f, lds<float>(pivots + ${AT + 16 * odd + 132})};
                }
                float c0[4], c1[4], r0[4], r1[4];
                gram_read(r0, across + ${AT});
                gram_read(c0, mine + ${AT});
                gram_read(c1, mine + ${AT + 128});
                gram_read(r1, across + ${AT + 128});
                const float q0 = g.x == 0.0f ? 0.0f : rsqrt_normal(g.x), w0 = q0 * q0, u = w0 * g.y;
                const float g1 = fmaf(-u, g.y, g.w), q1 = g1 == 0.0f ? 0.0f : rsqrt_normal(g1), w1 = q1 * q1;
                #pragma unroll
                for (int c = 0; c < 4; c++)
                    c1[c] = fmaf(-u, c0[c], c1[c]);
                #pragma unroll
                for (int i = 0; i < 4; i++) {
                    const float a0 = w0 * r0[i], a1 = w1 * fmaf(-u, r0[i], r1[i]);
                    #pragma unroll
                    for (int c = 0; c < 4; c++)
                        y[i][c] = fmaf(-a1, c1[c], fmaf(-a0, c0[c], y[i][c]));
                }
                sts_if(own, r + ${R}, {q0 * c0[0], q0 * c0[1], q0 * c0[2], q0 * c0[3]});
                sts_if(own, r + ${R + 4 * LD}, {q1 * c1[0], q1 * c1[1], q1 * c1[2], q1 * c1[3]});
                sts_if(own && tx == ty, diagonal + ${16 * odd}, {q0 * g.x, q0 * g.y, 0.0f, q1 * g1});
            }
% end
            bar_arrive(announced++, 128);
        }
        gram_halves<KEEP>(y);
    }
}

// The same pairs' steps on X, warps 0 and 1: V's top block and M by columns to m, dealt. To inverse, if KEEP: (R - X)^-1.
template <bool KEEP> QRS_DEV void gram_narrow_jordan(const float *x, const float *rv, float *m, float *inverse, gram_narrow_pivots *s)
{
    const int ty = (int)threadIdx.x >> 3 & 7, tx = (int)threadIdx.x & 7;
    const saddr rows_of_x = to_saddr(s->x) + 16 * tx, columns_of_x = to_saddr(s->x) + 256 + 16 * ty;
    const saddr corner = to_saddr(s->corner);
    saddr r = to_saddr(rv) + 16 * tx, diagonal = to_saddr(s->diagonal), to = to_saddr(m) + 16 * ty;
    int announced = 3;
    float y[4][4];
    gram_deal(y, x);
    #pragma unroll 1
    for (int half = 0; half < 2; half++) {
        #pragma unroll 1
        for (int two = 0; two < 8; two += 2, diagonal += 32, r += ${16 * LD}, to += ${16 * LDM}) {
% for odd = 0, 1 do
%   local AT, R = 512 * odd, 8 * LD * odd
            {
                const bool rows = ty == two + ${odd}, columns = tx == two + ${odd};
                #pragma unroll
                for (int e = 0; e < 2; e++) {
                    sts_if(rows, rows_of_x + ${AT} + 128 * e, {KEEP && columns ? 1.0f - e : y[e][0], KEEP && columns ? 0.0f + e : y[e][1], y[e][2], y[e][3]});
                    // The pair's own rows turn into rows of M, as if of the identity.
                    sts_if(columns, columns_of_x + ${AT} + 128 * e, {rows ? 1.0f - e : y[0][e], rows ? 0.0f + e : y[1][e], y[2][e], y[3][e]});
                }
                sts_if(rows && columns, corner + ${16 * odd}, {y[0][0], y[0][1], y[1][0], y[1][1]});
                #pragma unroll
                for (int e = 0; e < 2; e++)
                    #pragma unroll
                    for (int c = 0; c < 4; c++)
                        y[e][c] = rows ? 0.0f : y[e][c];
                if (KEEP)
                    #pragma unroll
                    for (int i = 0; i < 4; i++)
                        #pragma unroll
                        for (int c = 0; c < 2; c++)
                            y[i][c] = columns ? 0.0f : y[i][c];
                ${odd == 0 and "bar_wait(announced++, 128)" or "bar_wait(11, 64)"};
                const f32x4 x = lds<f32x4>(corner + ${16 * odd}), rr = lds<f32x4>(diagonal + ${16 * odd});
                float n0[4], n1[4], c0[4], c1[4], e0[4], e1[4];
                gram_read(e0, columns_of_x + ${AT});
                gram_read(n0, rows_of_x + ${AT});
                gram_read(c0, r + ${R});
                gram_read(e1, columns_of_x + ${AT + 128});
                gram_read(n1, rows_of_x + ${AT + 128});
                gram_read(c1, r + ${R + 4 * LD});
                // The second pivot by way of their determinant: the reciprocals need not wait for each other, nor the magnitudes for signs.
                const float s0 = copysignf(1.0f, x.x), size0 = fabsf(x.x) + rr.x, n00 = s0 * size0, n01 = fmaf(s0, rr.y, x.y), det = fmaf(x.w, n00, -x.z * n01);
                const float s1 = copysignf(s0, det) * s0, size1 = fmaf(rr.w, size0, fabsf(det));
                float inv0, inv1;
                rcp_normal_pair(size0, size1, inv0, inv1);
                inv0 = rr.x == 0.0f ? 0.0f : s0 * inv0;
                inv1 = rr.w == 0.0f ? 0.0f : s1 * (size0 * inv1);
                const float l10 = x.z * inv0;
                const bool late = tx > two + ${odd} || !KEEP, early = !half || !KEEP; // R^-T is in the other columns
                const float add0[2] = {late ? s0 : 0.0f, early ? s0 : 0.0f}, add1[2] = {late ? s1 : 0.0f, early ? s1 : 0.0f};
                #pragma unroll
                for (int c = 0; c < 4; c++) {
                    n0[c] = fmaf(add0[c >> 1], c0[c], n0[c]);
                    n1[c] = fmaf(add1[c >> 1], c1[c], fmaf(-l10, n0[c], n1[c]));
                }
                #pragma unroll
                for (int i = 0; i < 4; i++) {
                    e0[i] *= inv0;
                    e1[i] = fmaf(-e0[i], n01, e1[i]) * inv1;
                    #pragma unroll
                    for (int c = 0; c < 4; c++)
                        y[i][c] = fmaf(-e1[i], n1[c], fmaf(-e0[i], n0[c], y[i][c]));
                }
                sts_if(columns, to + ${8 * LDM * odd}, {e0[0], rows ? l10 : e0[1], e0[2], e0[3]});
                sts_if(columns, to + ${8 * LDM * odd + 4 * LDM}, {e1[0], e1[1], e1[2], e1[3]});
            }
% end
        }
        gram_halves<KEEP>(y);
    }
    if (KEEP) {
        inverse += ty * ${2 * LD} + tx * 2;
        #pragma unroll
        for (int i = 0; i < 4; i++)
            #pragma unroll
            for (int c = 0; c < 4; c += 2)
                *(f32x2 *)(inverse + ((i >> 1) * 16 + (i & 1)) * ${LD} + 8 * c) = {y[i][c], y[i][c + 1]};
    }
}

// 1 / n of a row, on the diagonal of M as it is dealt; its sign is X's.
QRS_DEV float gram_narrow_pivot(const float *m, int row) { return m[row * ${LDM} + (row >> 1 & 7) * 4 + (row & 1)]; }

// Threads of four warps: everything to its place, and R's signs. dealt: R; rv, m: where R above the diagonal and V below, and M, go (m may be dealt's place);
// from: M, dealt (may be m).${WHOLE and " diagonal: R's, by pairs, which KEEP leaves only there." or ""} Synchronises before it writes, by barrier `bar`; and after.
${WHOLE and "QRS_CALL" or "QRS_DEV"} void gram_narrow_place(const float *dealt,${WHOLE and " const float (*diagonal)[4]," or ""} float *rv, const float *from,
                               float *m, float *tau, int bar)
{
    // Columns 8 q.. of a row by a thread. A late row was dealt without the first half of its columns.
    const int tid = threadIdx.x & 127, row = tid >> 2, q = tid & 3, half = row >> 4, of = q >> 1;
    dealt += row * ${LD} + 16 * (q & 1) + (half ? 0 : 2 * of);
    const float inv = gram_narrow_pivot(from, row), sign = -copysignf(1.0f, inv);
    from += 8 * q * ${LDM} + (row >> 1 & 7) * 4 + 2 * (half ^ of) + (row & 1);
    float r[8], v[8];
    #pragma unroll
    for (int c = 0; c < 8; c += 2) {
        const f32x2 r2 = *(const f32x2 *)(dealt + 2 * c);
        r[c] = r2.x, r[c + 1] = r2.y, v[c] = from[c * ${LDM}], v[c + 1] = from[(c + 1) * ${LDM}];
    }
% if WHOLE then
    const f32x2 pair = *(const f32x2 *)(diagonal[row >> 1] + 2 * (row & 1));
    #pragma unroll
    for (int c = 0; c < 8; c += 2)
        if (8 * q + c == (row & 30))
            r[c] = pair.x, r[c + 1] = pair.y;
% end
    bar_sync(bar, 128);
    #pragma unroll
    for (int c = 0; c < 8; c += 4) {
        float top[4], inverse[4];
        #pragma unroll
        for (int i = 0; i < 4; i++) {
            const bool below = row > 8 * q + c + i;
            top[i] = below ? v[c + i] : sign * r[c + i];
            inverse[i] = below ? 0.0f : v[c + i];
        }
        *(f32x4 *)(rv + row * ${LD} + 8 * q + c) = {top[0], top[1], top[2], top[3]};
        *(f32x4 *)(m + row * ${LDM} + 8 * q + c) = {inverse[0], inverse[1], inverse[2], inverse[3]};
    }
    if (q == 0)
        tau[row] = inv == 0.0f ? 0.0f : rcp_normal(inv);
    bar_sync(bar, 128);
}
% if WHOLE then

// Threads of four warps: R^-T from among R's rows to low.
QRS_DEV void gram_narrow_low(const float *dealt, float *low)
{
    const int tid = threadIdx.x & 127, row = tid >> 2, q = tid & 3;
    dealt += row * ${LD} + 16 * (q & 1) + 2 * (row >> 4 ^ q >> 1);
    low += row * ${LD} + 8 * q;
    #pragma unroll
    for (int c = 0; c < 8; c += 2) {
        const f32x2 x = *(const f32x2 *)(dealt + 2 * c);
        *(f32x2 *)(low + c) = {8 * q + c <= row ? x.x : 0.0f, 8 * q + c < row ? x.y : 0.0f};
    }
}
% else

// Threads 0..127 call. x: top block; gram: G; rv (may be G's place): becomes R on and above the diagonal and V below; m: M. whole: G's diagonal, left: the root of its largest.
// Returns false, in some thread, unless the pivots can be trusted. Synchronises, by barriers 1 and 3..12.
QRS_DEV bool gram_narrow(const float *x, const float *gram, float *rv, float *m, float *whole, float *left, gram_narrow_pivots *s, float *tau)
{
    const int tid = threadIdx.x, w = shfl((int)warp(), 0);
    if (w >= 2) {
        const float square = gram[(tid & 31) * ${LD + 1}];
        if (w == 2)
            whole[tid & 31] = square;
        gram_narrow_cholesky<false>(gram, rv, s);
        const float most = sqrt_rn(warp_max(square)); // while X's last steps are awaited
        if (tid == 64)
            *left = most;
    } else
        gram_narrow_jordan<false>(x, rv, m, nullptr, s);
    bar_sync(1, 128);
    gram_narrow_place(rv, rv, m, m, tau, 1);
    return tid >= 32 || gram_sound(rv, whole, tau);
}
% end
