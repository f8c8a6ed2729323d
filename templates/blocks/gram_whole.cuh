// A panel of ${B} columns from its whole Gram matrix, for panels at least twice as tall as wide: no sums over rows, so a column costs little more than its scalars.
//
// With X the top block (${B} x ${B}) and G = P'P of all rows, for j = 0..${B - 1} (Householder reconstruction: Ballard, Demmel, Grigori, Jacquelin, Nguyen,
// Solomonik 2014, with M taken along by Gauss-Jordan steps):
//   r = G[j,:] / sqrt(G[j,j]); G -= r'r;
//   s = -sign(X[j,j]); R[j,:] = s r; n = X[j,:] - R[j,:], zero before column j; tau = |n[j]| / r[j];
//   X[i,:] -= (X[i,j] / n[j]) n and X[i,j] -> X[i,j] / n[j] for i /= j; X[j,:] = -n / n[j], X[j,j] = 1 / n[j].
// Then X holds V's top block below its diagonal, and on and above it M, the inverse of the matrix of all n: V2 = P2 M. All of P's conditioning is
// squared, where the recursion squares that of the rows below only: with twice as many rows as columns a random panel loses 10 eps, with as many thousands.
// A zero column gets no reflector (r = 0, 1 / n[j] taken as 0). After it only zero columns may come: another one's G would lack row j.
//
// Two columns at a time. With t the pair's rows of X - R, l its columns of X and L U its 2 x 2 block of t: X -= l z, z = (L U)^-1 t. A pair's own rows count as
// those of the identity, and l U^-1, V and M, is formed at the end, for all pairs. Of G's rows c and columns: G -= c' z, z = (R'R)^-1 c of the 2 x 2 blocks.
//
// Parameters: B = 32 or 64 columns; LD: row stride of X, G and R; LDM: of M; LEAST: share of a column's square that must be left of it.
// Layout: half of ${4 * B} threads hold X, the others G, a few pairs ahead, each with barriers of their own. Of either half thread (ty, tx) of 4 x ${B // 2} has columns 2 tx, 2 tx + 1, and of
// every eight rows 2 ty, 2 ty + 1. After four pairs, a sweep, the next eight rows come first, so that a pair's rows are always number 0 and 1 of their owners', and one short
// body does for all pairs. What threads hold of finished columns is left to itself: it is never used.
% local T, PAIRS, RPT = 2 * B, B // 2, B // 4
% local STEP = B == 64 and 3 or 2 -- pairs announced at once, by a barrier each: 3..13, or 3..10
struct alignas(16) gram_pivots {
    float x[2][2][${B}], g[2][2][${B}]; // a pair's rows, by its parity; of G dealt: for each ty the columns of its rows' numbers, in the order of the rows
    f32x4 pair[${PAIRS}];               // 1 / n of the first, n01, 1 / n of the second, L's entry
};

QRS_DEV void gram_deal(float (&y)[${RPT}][2], const float *from)
{
    from += ((int)threadIdx.x / ${PAIRS} & 3) * ${2 * LD} + ((int)threadIdx.x & ${PAIRS - 1}) * 2;
    #pragma unroll
    for (int i = 0; i < ${RPT}; i++) {
        const f32x2 v = *(const f32x2 *)(from + (8 * (i >> 1) + (i & 1)) * ${LD});
        y[i][0] = v.x, y[i][1] = v.y;
    }
}
// y -= l z for a pair's columns l, of all of this thread's rows.
QRS_DEV void gram_take(float (&y)[${RPT}][2], const f32x4 (&l0)[${RPT // 4}], const f32x4 (&l1)[${RPT // 4}], const float (&z0)[2], const float (&z1)[2])
{
    #pragma unroll
    for (int i = 0; i < ${RPT}; i++) {
        const f32x4 a = l0[i >> 2], b = l1[i >> 2];
        const float first[4] = {a.x, a.y, a.z, a.w}, second[4] = {b.x, b.y, b.z, b.w};
        #pragma unroll
        for (int c = 0; c < 2; c++)
            y[i][c] = fmaf(-first[i & 3], z0[c], fmaf(-second[i & 3], z1[c], y[i][c]));
    }
}
// The next eight rows come first, the first eight last.
QRS_DEV void gram_turn(float (&y)[${RPT}][2])
{
    #pragma unroll
    for (int c = 0; c < 2; c++) {
        const float a = y[0][c], b = y[1][c];
        #pragma unroll
        for (int i = 0; i + 2 < ${RPT}; i++)
            y[i][c] = y[i + 2][c];
        y[${RPT - 2}][c] = a, y[${RPT - 1}][c] = b;
    }
}

// Cholesky steps: R's rows to rv.
QRS_DEV void gram_cholesky(float (&y)[${RPT}][2], float *rv, gram_pivots *s)
{
    const int ty = (int)threadIdx.x / ${PAIRS} & 3, tx = (int)threadIdx.x & ${PAIRS - 1};
    const saddr base = to_saddr(s->g), other = 2 * base + ${8 * B}; // less one parity's place: the other's
    saddr r = to_saddr(rv) + 8 * tx, at = base;
    int left = ${STEP}, barrier = 3;
    #pragma unroll 1
    for (int sweep = 0; sweep < ${B // 8}; sweep++) {
        const int place = ${B} * (tx & 3) + 8 * ((tx >> 2) - sweep & ${B // 8 - 1}); // of this thread's columns in a dealt row
        #pragma unroll 1
        for (int p = 0; p < 4; p++) {
            const bool own = ty == p;
            if (own) {
                sts(at + place, f32x2{y[0][0], y[0][1]});
                sts(at + ${4 * B} + place, f32x2{y[1][0], y[1][1]});
            }
            bar_sync(14, ${T});
            const f32x2 g0 = lds<f32x2>(at + ${B} * p);
            const float g11 = lds<float>(at + ${4 * B + 4} + ${B} * p);
            const f32x2 c0 = lds<f32x2>(at + place), c1 = lds<f32x2>(at + ${4 * B} + place);
            f32x4 l0[${RPT // 4}], l1[${RPT // 4}];
            #pragma unroll
            for (int i = 0; i < ${RPT // 4}; i++) {
                l1[i] = lds<f32x4>(at + ${4 * B} + ${B} * ty + 16 * i);
                l0[i] = lds<f32x4>(at + ${B} * ty + 16 * i);
            }
            const float q0 = g0.x == 0.0f ? 0.0f : rsqrt_normal(g0.x), w0 = q0 * q0, u = w0 * g0.y;
            const float next = fmaf(-u, g0.y, g11), q1 = next == 0.0f ? 0.0f : rsqrt_normal(next), w1 = q1 * q1;
            const f32x2 t1 = {fmaf(-u, c0.x, c1.x), fmaf(-u, c0.y, c1.y)};
            const float z1[2] = {w1 * t1.x, w1 * t1.y}, z0[2] = {fmaf(-u, z1[0], w0 * c0.x), fmaf(-u, z1[1], w0 * c0.y)};
            gram_take(y, l0, l1, z0, z1);
            if (own) {
                sts(r, f32x2{q0 * c0.x, q0 * c0.y});
                sts(r + ${4 * LD}, f32x2{q1 * t1.x, q1 * t1.y});
            }
            if (--left == 0${PAIRS % STEP > 0 and " || 4 * sweep + p == " .. PAIRS - 1 or ""}) {
                bar_arrive(barrier++, ${2 * T});
                left = ${STEP};
            }
            r += ${8 * LD};
            at = other - at;
        }
        gram_turn(y);
    }
}

// The same pairs' steps on X: a pair's columns to two of l, dealt (for each ty its rows, the pair's eight first).
QRS_DEV void gram_jordan(float (&y)[${RPT}][2], const float *rv, float *l, gram_pivots *s)
{
    const int ty = (int)threadIdx.x / ${PAIRS} & 3, tx = (int)threadIdx.x & ${PAIRS - 1};
    const saddr base = to_saddr(s->x) + 8 * tx, other = 2 * base + ${8 * B};
    saddr at = base, r = to_saddr(rv) + 8 * tx, to = to_saddr(l) + ${B} * ty, pair = to_saddr(s->pair);
    int owner = -8 * tx, left = 0, barrier = 3; // owner: how far the place of the pair's columns is from this thread's
    #pragma unroll 1
    for (int sweep = 0; sweep < ${B // 8}; sweep++) {
        #pragma unroll 1
        for (int p = 0; p < 4; p++) {
            const bool rows = ty == p, columns = owner == 0, announced = left == 0;
            #pragma unroll
            for (int e = 0; e < 2; e++) {
                if (rows)
                    sts(at + ${4 * B} * e, f32x2{y[e][0], y[e][1]});
                #pragma unroll
                for (int i = 0; i < ${RPT}; i += 4)
                    sts_if(columns, to + ${4 * LD} * e + 4 * i, {y[i][e], y[i + 1][e], y[i + 2][e], y[i + 3][e]});
            }
            bar_wait(announced ? barrier : 15, announced ? ${2 * T} : ${T});
            barrier += announced;
            left = announced ? ${STEP - 1} : left - 1;
            const f32x2 x0 = lds<f32x2>(at + owner), r0 = lds<f32x2>(r + owner), x1 = lds<f32x2>(at + owner + ${4 * B});
            const float r1 = lds<float>(r + owner + ${4 * LD + 4});
            const f32x2 p0 = lds<f32x2>(at), p1 = lds<f32x2>(at + ${4 * B}), c0 = lds<f32x2>(r), c1 = lds<f32x2>(r + ${4 * LD});
            f32x4 l0[${RPT // 4}], l1[${RPT // 4}];
            #pragma unroll
            for (int i = 0; i < ${RPT // 4}; i++) {
                l1[i] = lds<f32x4>(to + ${4 * LD} + 16 * i);
                l0[i] = lds<f32x4>(to + 16 * i);
            }
            // The second pivot by way of their determinant: the reciprocals need not wait for each other, nor the magnitudes for signs.
            const float s0 = copysignf(1.0f, x0.x), size0 = fabsf(x0.x) + r0.x, n00 = s0 * size0, n01 = fmaf(s0, r0.y, x0.y), det = fmaf(x1.y, n00, -x1.x * n01);
            const float s1 = copysignf(s0, det) * s0, inv0 = r0.x == 0.0f ? 0.0f : s0 * rcp_normal(size0),
                        inv1 = r1 == 0.0f ? 0.0f : s1 * (size0 * rcp_normal(fmaf(r1, size0, fabsf(det))));
            const float l10 = x1.x * inv0;
            const float t0[2] = {fmaf(s0, c0.x, p0.x), fmaf(s0, c0.y, p0.y)}, t1[2] = {fmaf(s1, c1.x, p1.x), fmaf(s1, c1.y, p1.y)};
            float z0[2], z1[2];
            #pragma unroll
            for (int c = 0; c < 2; c++) {
                z1[c] = fmaf(-l10, t0[c], t1[c]) * inv1;
                z0[c] = fmaf(-n01, z1[c], t0[c]) * inv0;
            }
            gram_take(y, l0, l1, z0, z1);
            #pragma unroll
            for (int c = 0; c < 2; c++) { // the pair's own rows turn into rows of M
                y[0][c] = rows ? -z0[c] : y[0][c];
                y[1][c] = rows ? -z1[c] : y[1][c];
            }
            if (rows && columns)
                sts(pair, f32x4{inv0, n01, inv1, l10});
            r += ${8 * LD};
            to += ${8 * LD};
            pair += 16;
            owner += 8;
            at = other - at;
        }
        gram_turn(y);
    }
}

// Threads 0..${2 * T - 1} call. x: top block; gram: G; rv (may be the place of either): becomes R on and above the diagonal and V below; m (may be G's place, not rv): M, zero
// below its diagonal; l: ${B * LD} floats for the way. whole: G's diagonal. Returns false, in some thread, unless the pivots can be trusted. Synchronises, by barriers 1 and 3..15.
QRS_CALL bool gram_whole(const float *x, const float *gram, float *rv, float *l, float *m, float *whole, gram_pivots *s, float *tau)
{
    const int tid = threadIdx.x, row = tid >> 2, q = tid & 3;
    const bool of_x = shfl((int)warp(), 0) < ${T // 32};
    float y[${RPT}][2];
    gram_deal(y, of_x ? x : gram);
    if (tid < ${B})
        whole[tid] = gram[tid * ${LD + 1}];
    bar_sync(1, ${2 * T});
    if (of_x)
        gram_jordan(y, rv, l, s);
    else
        gram_cholesky(y, rv, s);
    bar_sync(1, ${2 * T});
    // V's top block, M and R's signs: a pair of columns of a row at a time.
    const float sign = -copysignf(1.0f, row & 1 ? s->pair[row >> 1].z : s->pair[row >> 1].x);
    l += 2 * q * ${LD} + (row >> 1 & 3) * ${RPT} + (row & 1);
    #pragma unroll 1
    for (int i = 0, c = 2 * q, from = row >> 3; i < ${B // 8}; i++, c += 8, from--, l += ${8 * LD}) {
        const f32x4 n = s->pair[c / 2];
        const int place = 2 * (from & ${B // 8 - 1});
        const bool first = row == c, second = row == c + 1; // the identity's
        const float e0 = first ? n.x : second ? 0.0f : l[place] * n.x, e1 = second ? n.z : fmaf(-e0, n.y, first ? 0.0f : l[place + ${LD}]) * n.z, v0 = second ? n.w : e0;
        f32x2 *at = (f32x2 *)(rv + row * ${LD} + c);
        const f32x2 r = *at;
        *at = {row > c ? v0 : sign * r.x, row > c + 1 ? e1 : sign * r.y};
        *(f32x2 *)(m + row * ${LDM} + c) = {row > c ? 0.0f : v0, row > c + 1 ? 0.0f : e1};
    }
    bar_sync(1, ${2 * T});
    if (tid >= ${B})
        return true;
    // What cancelled cannot be trusted, nor a zero that only cancellation made; NaN fails. tau is for the test of v'v only: what is stored comes from that.
    const f32x4 n = s->pair[tid >> 1];
    const float r = fabsf(rv[tid * ${LD + 1}]), of = whole[tid];
    tau[tid] = r == 0.0f ? 0.0f : rcp_normal(fabsf(tid & 1 ? n.z : n.x) * r);
    return r == 0.0f ? of == 0.0f && (tid == ${B - 1} || whole[tid + 1] == 0.0f) : r * r >= ${LEAST}f * of;
}
