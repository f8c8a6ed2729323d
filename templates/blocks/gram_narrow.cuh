// A panel of 32 columns from its whole Gram matrix, for panels at least twice as tall as wide: gram_whole.cuh, which explains it, for fewer columns, a pair of columns
// at a time. With 64 rows and more a random panel loses 10 eps, with 32 thousands.
//
// A pair's step on X, with t its rows of X plus signed R and l its columns of X: X -= l (L U)^-1 t, L U = the 2 x 2 block of t, where only z = (L U)^-1 t is formed; V's
// top block and M are the columns l U^-1, all formed at the end. (The pair's own rows count as those of the identity.) On G likewise.
//
// Parameters: LD: row stride of X, G and R; LDM: of M; LEAST: share of a column's square that must be left of it.
// Layout: two warps hold G and run ahead, two X, either with barriers of its own; R's rows are announced by twos of pairs. Thread (ty, tx) of 4 x 16 has columns 2 tx,
// 2 tx + 1 and of every eight rows 2 ty, 2 ty + 1. After four pairs the next eight rows come first, so that a pair's rows are always number 0 and 1 of their owners', and
// one body does for all pairs: every panel meets the code with a cold cache. A warp issues an instruction every other cycle, and 110 of them are a pair's steps on X.
// Columns of finished pairs are left to themselves: what stands there is never used.
% include("blocks/gram_sound.cuh", { B = 32, LD = LD, LEAST = LEAST })
struct alignas(16) gram_narrow_pivots {
    float x[2][2][32], g[2][2][32]; // a pair's rows, by its parity; of G dealt: for each ty the columns of those numbers, as rows
    f32x4 pair[16];                 // n and L: n00, n01, n11, l10
};

// Rows of this thread, of threads 0..63 or 64..127.
QRS_DEV void gram_deal(float (&y)[8][2], const float *from)
{
    from += ((int)threadIdx.x >> 4 & 3) * ${2 * LD} + ((int)threadIdx.x & 15) * 2;
    #pragma unroll
    for (int i = 0; i < 8; i++) {
        const f32x2 v = *(const f32x2 *)(from + (8 * (i >> 1) + (i & 1)) * ${LD});
        y[i][0] = v.x, y[i][1] = v.y;
    }
}
// y -= l0 z0 + l1 z1, with a pair's columns l of all rows.
QRS_DEV void gram_take(float (&y)[8][2], const f32x4 (&l0)[2], const f32x4 (&l1)[2], const float (&z0)[2], const float (&z1)[2])
{
    #pragma unroll
    for (int i = 0; i < 8; i++) {
        const f32x4 a = l0[i >> 2], b = l1[i >> 2];
        const float of0[4] = {a.x, a.y, a.z, a.w}, of1[4] = {b.x, b.y, b.z, b.w};
        #pragma unroll
        for (int c = 0; c < 2; c++)
            y[i][c] = fmaf(-of0[i & 3], z0[c], fmaf(-of1[i & 3], z1[c], y[i][c]));
    }
}
// The next eight rows come first, the first last.
QRS_DEV void gram_turn(float (&y)[8][2])
{
    #pragma unroll
    for (int c = 0; c < 2; c++) {
        const float a = y[0][c], b = y[1][c];
        #pragma unroll
        for (int i = 0; i < 6; i++)
            y[i][c] = y[i + 2][c];
        y[6][c] = a, y[7][c] = b;
    }
}

// Cholesky steps, threads 64..127: R's rows to rv.
QRS_DEV void gram_narrow_cholesky(const float *gram, float *rv, gram_narrow_pivots *s)
{
    const int ty = (int)threadIdx.x >> 4 & 3, tx = (int)threadIdx.x & 15;
    const saddr base = to_saddr(s->g), other = 2 * base + 256; // less one parity's place is the other's
    saddr r = to_saddr(rv) + 8 * tx, at = base;
    float y[8][2];
    gram_deal(y, gram);
    #pragma unroll 1
    for (int sweep = 0; sweep < 4; sweep++) {
        const int place = 32 * (tx & 3) + 8 * ((tx >> 2) - sweep & 3); // of this thread's columns in a dealt row
        #pragma unroll 1
        for (int p = 0; p < 4; p++) {
            const bool own = ty == p;
            if (own) {
                sts(at + place, f32x2{y[0][0], y[0][1]});
                sts(at + 128 + place, f32x2{y[1][0], y[1][1]});
            }
            bar_sync(12, 64);
            const f32x2 g0 = lds<f32x2>(at + 32 * p);
            const float g11 = lds<float>(at + 128 + 32 * p + 4);
            const f32x2 c0 = lds<f32x2>(at + place), c1 = lds<f32x2>(at + 128 + place);
            f32x4 r0[2], r1[2];
            #pragma unroll
            for (int i = 0; i < 2; i++) {
                r1[i] = lds<f32x4>(at + 128 + 32 * ty + 16 * i);
                r0[i] = lds<f32x4>(at + 32 * ty + 16 * i);
            }
            const float q0 = g0.x == 0.0f ? 0.0f : rsqrt_normal(g0.x), w0 = q0 * q0, u = w0 * g0.y;
            const float left = fmaf(-u, g0.y, g11), q1 = left == 0.0f ? 0.0f : rsqrt_normal(left), w1 = q1 * q1;
            const f32x2 t1 = {fmaf(-u, c0.x, c1.x), fmaf(-u, c0.y, c1.y)};
            const float z1[2] = {w1 * t1.x, w1 * t1.y}, z0[2] = {fmaf(-u, z1[0], w0 * c0.x), fmaf(-u, z1[1], w0 * c0.y)};
            gram_take(y, r0, r1, z0, z1);
            if (own) {
                sts(r, f32x2{q0 * c0.x, q0 * c0.y});
                sts(r + ${4 * LD}, f32x2{q1 * t1.x, q1 * t1.y});
            }
            if (p & 1)
                bar_arrive(3 + 2 * sweep + p / 2, 128);
            r += ${8 * LD};
            at = other - at;
        }
        gram_turn(y);
    }
}

// The same pairs' steps on X, threads 0..63: a pair's columns l to two rows of m, dealt (rows by ty, the pair's eight first).
QRS_DEV void gram_narrow_jordan(const float *x, const float *rv, float *m, gram_narrow_pivots *s)
{
    const int ty = (int)threadIdx.x >> 4, tx = (int)threadIdx.x & 15;
    const saddr base = to_saddr(s->x), other = 2 * (base + 8 * tx) + 256;
    saddr at = base + 8 * tx, r = to_saddr(rv) + 8 * tx, l = to_saddr(m) + 32 * ty, pair = to_saddr(s->pair);
    int owner = -8 * tx; // the place of the pair's columns, less this thread's
    float y[8][2];
    gram_deal(y, x);
    #pragma unroll 1
    for (int sweep = 0; sweep < 4; sweep++) {
        #pragma unroll 1
        for (int p = 0; p < 4; p++) {
            const bool rows = ty == p, columns = owner == 0;
            #pragma unroll
            for (int e = 0; e < 2; e++) {
                if (rows)
                    sts(at + 128 * e, f32x2{y[e][0], y[e][1]});
                sts_if(columns, l + ${4 * LDM} * e, {y[0][e], y[1][e], y[2][e], y[3][e]});
                sts_if(columns, l + ${4 * LDM} * e + 16, {y[4][e], y[5][e], y[6][e], y[7][e]});
            }
            bar_sync(p & 1 ? 11 : 3 + 2 * sweep + p / 2, p & 1 ? 64 : 128);
            const f32x2 x0 = lds<f32x2>(at + owner), r0 = lds<f32x2>(r + owner), x1 = lds<f32x2>(at + owner + 128);
            const float r1 = lds<float>(r + owner + ${4 * LD + 4});
            const f32x2 p0 = lds<f32x2>(at), p1 = lds<f32x2>(at + 128), c0 = lds<f32x2>(r), c1 = lds<f32x2>(r + ${4 * LD});
            f32x4 l0[2], l1[2];
            #pragma unroll
            for (int i = 0; i < 2; i++) {
                l1[i] = lds<f32x4>(l + ${4 * LDM} + 16 * i);
                l0[i] = lds<f32x4>(l + 16 * i);
            }
            // The second pivot by way of their determinant: the reciprocals need not wait for each other, nor the magnitudes for signs.
            const float s0 = copysignf(1.0f, x0.x), size0 = fabsf(x0.x) + r0.x, n00 = s0 * size0, n01 = fmaf(s0, r0.y, x0.y), det = fmaf(x1.y, n00, -x1.x * n01);
            const float s1 = copysignf(s0, det) * s0, inv0 = r0.x == 0.0f ? 0.0f : s0 * rcp_normal(size0),
                        inv1 = r1 == 0.0f ? 0.0f : s1 * (size0 * rcp_normal(fmaf(r1, size0, fabsf(det))));
            const float l10 = x1.x * inv0, n11 = fmaf(s1, r1, fmaf(-l10, n01, x1.y));
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
                sts(pair, f32x4{n00, n01, n11, l10});
            r += ${8 * LD};
            l += ${8 * LDM};
            pair += 16;
            owner += 8;
            at = other - at;
        }
        gram_turn(y);
    }
}

// Threads 0..127 call. x: top block; gram: G; rv (may be G's place): becomes R on and above the diagonal and V below; m: M. whole: G's diagonal.
// Returns false, in some thread, unless the pivots can be trusted. Synchronises, by barriers 1 and 3..12.
QRS_CALL bool gram_narrow(const float *x, const float *gram, float *rv, float *m, float *whole, gram_narrow_pivots *s, float *tau)
{
    const int tid = threadIdx.x, row = tid >> 2, q = tid & 3, w = shfl((int)warp(), 0);
    if (w >= 2) {
        if (w == 2)
            whole[tid & 31] = gram[(tid & 31) * ${LD + 1}];
        gram_narrow_cholesky(gram, rv, s);
    } else
        gram_narrow_jordan(x, rv, m, s);
    bar_sync(1, 128);
    // V's top block and M, by the thread that has columns 8 q.. of a row.
    const float *l = m + 8 * q * ${LDM} + 8 * (row >> 1 & 3) + 2 * ((row >> 3) - q & 3) + (row & 1);
    const float size = row & 1 ? s->pair[row >> 1].z : s->pair[row >> 1].x, sign = -copysignf(1.0f, size);
    float v[8], r[8];
    #pragma unroll
    for (int c = 0; c < 8; c += 2) {
        const f32x4 n = s->pair[4 * q + c / 2];
        const f32x2 r2 = *(const f32x2 *)(rv + row * ${LD} + 8 * q + c);
        const bool first = row == 8 * q + c, second = row == 8 * q + c + 1; // these are the identity's
        const float inv0 = n.x == 0.0f ? 0.0f : rcp_normal(n.x), inv1 = n.z == 0.0f ? 0.0f : rcp_normal(n.z);
        const float l0 = l[c * ${LDM}], l1 = l[(c + 1) * ${LDM}], e0 = first ? inv0 : second ? 0.0f : l0 * inv0;
        v[c] = second ? n.w : e0;
        v[c + 1] = second ? inv1 : fmaf(-e0, n.y, first ? 0.0f : l1) * inv1;
        r[c] = sign * r2.x, r[c + 1] = sign * r2.y;
    }
    bar_sync(1, 128);
    #pragma unroll
    for (int c = 0; c < 8; c += 4) {
        const int col = 8 * q + c;
        *(f32x4 *)(rv + row * ${LD} + col) = {row > col ? v[c] : r[c], row > col + 1 ? v[c + 1] : r[c + 1], row > col + 2 ? v[c + 2] : r[c + 2], row > col + 3 ? v[c + 3] : r[c + 3]};
        *(f32x4 *)(m + row * ${LDM} + col) = {row > col ? 0.0f : v[c], row > col + 1 ? 0.0f : v[c + 1], row > col + 2 ? 0.0f : v[c + 2], row > col + 3 ? 0.0f : v[c + 3]};
    }
    if (q == 0)
        tau[row] = size;
    bar_sync(1, 128);
    return tid >= 32 || gram_sound(rv, whole, tau);
}
