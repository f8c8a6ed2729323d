// A panel of 32 columns from its whole Gram matrix, for panels at least twice as tall as wide: gram_whole.cuh, which explains it, for fewer columns, a pair of columns
// at a time. With 64 rows and more a random panel loses 10 eps, with 32 thousands.
//
// Parameters: LD: row stride of X, G and R; LDM: of M; LEAST: share of a column's square that must be left of it.
// Layout: one warp holds G and runs ahead, another X, so that a step needs no barrier but its warp's; R's rows are announced by twos of pairs. Lane (ty, tx) of 8 x 4 has
// rows 2 ty, 2 ty + 1 and those 16 further on, columns 2 tx, 2 tx + 1 and those 8, 16, 24 further on. Four pairs are a sweep: after it the first columns of every lane are
// finished and the others move up, zeros behind them; after two sweeps rows change places. So a pair's rows and columns are always number 0 and 1 of their owners', who
// hand them round through shared memory in the order in which lanes hold them ("dealt"), and one body of a few hundred instructions does for all pairs:
// it is met with a cold cache in every panel.
% include("blocks/gram_sound.cuh", { B = 32, LD = LD, LEAST = LEAST })
struct alignas(16) gram_narrow_pivots { // by parity of the pair
    struct {
        float rows[2][32], columns[2][32]; // the pair's rows of X, dealt, zero in finished columns; its columns, dealt
    } x[2];
    float g[2][2][32]; // its rows of G, likewise
};

template <int N> QRS_DEV void gram_read(float (&to)[N], saddr from)
{
    #pragma unroll
    for (int i = 0; i < N; i += 4) {
        const f32x4 v = lds<f32x4>(from + 4 * i);
        to[i] = v.x, to[i + 1] = v.y, to[i + 2] = v.z, to[i + 3] = v.w;
    }
}
QRS_DEV void gram_deal(float (&y)[4][8], const float *from)
{
    from += ((int)lane() >> 2) * ${2 * LD} + ((int)lane() & 3) * 2;
    #pragma unroll
    for (int i = 0; i < 4; i++)
        #pragma unroll
        for (int c = 0; c < 8; c += 2) {
            const f32x2 v = *(const f32x2 *)(from + ((i >> 1) * 16 + (i & 1)) * ${LD} + 4 * c);
            y[i][c] = v.x, y[i][c + 1] = v.y;
        }
}
// Rows 0 and 1 of their owner. live: whether its first two columns are not finished.
QRS_DEV void gram_give_rows(const float (&y)[4][8], saddr to, bool own, bool live)
{
    #pragma unroll
    for (int e = 0; e < 2; e++) {
        sts_if(own, to + 128 * e, {live ? y[e][0] : 0.0f, live ? y[e][1] : 0.0f, y[e][2], y[e][3]});
        sts_if(own, to + 128 * e + 16, {y[e][4], y[e][5], y[e][6], y[e][7]});
    }
}
// The next sweep: the first columns are finished.
QRS_DEV void gram_move_up(float (&y)[4][8])
{
    #pragma unroll
    for (int i = 0; i < 4; i++)
        #pragma unroll
        for (int c = 0; c < 8; c++)
            y[i][c] = c < 6 ? y[i][c + 2] : 0.0f;
}

// The pair's 2 x 2 block, straight from its owner: it is on the chain.
QRS_DEV void gram_pivots_of(float (&to)[4], const float (&y)[4][8], int pair)
{
    const int owner = 4 * pair + (pair & 3) & 31;
    #pragma unroll
    for (int e = 0; e < 4; e++)
        to[e] = shfl(y[e >> 1][e & 1], owner);
}

// Cholesky steps, one warp: R's rows to rv, dealt as of their sweep. What a pair needs is fetched at the end of the one before it.
struct gram_narrow_g {
    float y[4][8], c0[8], c1[8], r0[4], r1[4]; // c, r: the pair's rows in this lane's columns, and in columns of the numbers of its rows
    float q0, q1, u;                           // R's diagonal, inverted; what the second row loses of the first
};
QRS_DEV void gram_fetch(gram_narrow_g &d, saddr base, saddr across, int pair)
{
    const int ty = (int)lane() >> 2, tx = (int)lane() & 3;
    const int at = (pair & 1) * 256;
    float g[4];
    gram_pivots_of(g, d.y, pair);
    d.q0 = g[0] == 0.0f ? 0.0f : rsqrt_normal(g[0]), d.u = d.q0 * d.q0 * g[1];
    const float next = fmaf(-d.u, g[1], g[3]);
    d.q1 = next == 0.0f ? 0.0f : rsqrt_normal(next);
    gram_give_rows(d.y, base + at + 32 * tx, ty == (pair & 7), tx >= (pair & 3));
    warp_sync();
    gram_read(d.c0, base + at + 32 * tx);
    #pragma unroll
    for (int i = 0; i < 4; i += 2) {
        const f32x2 a = lds<f32x2>((across ^ 8 * i) + at), b = lds<f32x2>((across ^ 8 * i) + at + 128);
        d.r0[i] = a.x, d.r0[i + 1] = a.y, d.r1[i] = b.x, d.r1[i + 1] = b.y;
    }
    gram_read(d.c1, base + at + 32 * tx + 128);
}
QRS_DEV void gram_narrow_cholesky(const float *gram, float *rv, gram_narrow_pivots *s)
{
    const int ty = (int)lane() >> 2, tx = (int)lane() & 3;
    const saddr base = to_saddr(s->g);
    saddr r = to_saddr(rv) + 32 * tx;
    gram_narrow_g d;
    gram_deal(d.y, gram);
    bar_sync(2 + 9, 32); // tells the compiler that the warp is together, so that shuffles need not ask
    #pragma unroll 1
    for (int sweep = 0; sweep < 4; sweep++) {
        // Where columns of the numbers of these rows lie; for rows that are finished, anywhere.
        const saddr across = base + 32 * (ty & 3) + 8 * ((ty >> 2) - (sweep & 1) & 3);
        gram_fetch(d, base, across, 4 * sweep);
        #pragma unroll 1
        for (int k = 4 * sweep; k < 4 * sweep + 4; k++) {
            const float q0 = d.q0, q1 = d.q1, w0 = q0 * q0, w1 = q1 * q1, u = d.u;
            #pragma unroll
            for (int c = 0; c < 8; c++)
                d.c1[c] = fmaf(-u, d.c0[c], d.c1[c]);
            #pragma unroll
            for (int i = 0; i < 4; i++) {
                const float a0 = w0 * d.r0[i], a1 = w1 * fmaf(-u, d.r0[i], d.r1[i]);
                #pragma unroll
                for (int c = 0; c < 8; c++)
                    d.y[i][c] = fmaf(-a1, d.c1[c], fmaf(-a0, d.c0[c], d.y[i][c]));
            }
            #pragma unroll
            for (int c = 0; c < 8; c += 4) {
                sts_if(ty == (k & 7), r + 4 * c, {q0 * d.c0[c], q0 * d.c0[c + 1], q0 * d.c0[c + 2], q0 * d.c0[c + 3]});
                sts_if(ty == (k & 7), r + ${4 * LD} + 4 * c, {q1 * d.c1[c], q1 * d.c1[c + 1], q1 * d.c1[c + 2], q1 * d.c1[c + 3]});
            }
            r += ${8 * LD};
            gram_fetch(d, base, across, k + 1);
            bar_arrive_if(k & 1, 3 + k / 2, 64); // behind the warp's barrier
        }
        gram_move_up(d.y);
        if (sweep == 1)
            #pragma unroll
            for (int c = 0; c < 8; c++)
                d.y[0][c] = d.y[2][c], d.y[1][c] = d.y[3][c];
    }
}

// The same pairs' steps on X, another warp: V's top block and M to m, n's diagonal to sizes.
struct gram_narrow_x {
    float y[4][8], n0[8], n1[8], c0[8], c1[8], e0[4], e1[4]; // the pair's rows of X and of R, its columns of X
    f32x2 r0;                                                // R's 2 x 2 block
    float r1, s0, s1, n00, n01, n11, l10, inv0, inv1;        // of the pair's 2 x 2 block: signs, n, L, 1 / n
};
QRS_DEV void gram_pivot(gram_narrow_x &d, int pair)
{
    float x[4];
    gram_pivots_of(x, d.y, pair);
    // The second pivot by way of their determinant: the reciprocals need not wait for each other, nor the magnitudes for signs.
    const float size0 = fabsf(x[0]) + d.r0.x;
    d.s0 = copysignf(1.0f, x[0]), d.n00 = d.s0 * size0, d.n01 = fmaf(d.s0, d.r0.y, x[1]);
    const float det = fmaf(x[3], d.n00, -x[2] * d.n01);
    d.s1 = copysignf(d.s0, det) * d.s0;
    d.inv0 = d.r0.x == 0.0f ? 0.0f : d.s0 * rcp_normal(size0);
    d.inv1 = d.r1 == 0.0f ? 0.0f : d.s1 * (size0 * rcp_normal(fmaf(d.r1, size0, fabsf(det))));
    d.l10 = x[2] * d.inv0;
    d.n11 = fmaf(d.s1, d.r1, fmaf(-d.l10, d.n01, x[3]));
}
QRS_DEV void gram_fetch(gram_narrow_x &d, saddr base, int pair)
{
    const int ty = (int)lane() >> 2, tx = (int)lane() & 3;
    const saddr at = base + (pair & 1) * 512;
    #pragma unroll
    for (int e = 0; e < 2; e++)
        sts_if(tx == (pair & 3), at + 256 + 128 * e + 16 * ty, {d.y[0][e], d.y[1][e], d.y[2][e], d.y[3][e]});
    gram_give_rows(d.y, at + 32 * tx, ty == (pair & 7), tx >= (pair & 3));
    warp_sync();
    gram_read(d.e0, at + 256 + 16 * ty);
    gram_read(d.n0, at + 32 * tx);
    gram_read(d.e1, at + 384 + 16 * ty);
    gram_read(d.n1, at + 128 + 32 * tx);
}
QRS_DEV void gram_fetch_r(gram_narrow_x &d, saddr r, int pair)
{
    const int tx = (int)lane() & 3;
    bar_sync_if((pair & 1) == 0 && pair < 16, 3 + pair / 2, 64);
    const saddr row = r + (pair < 16 ? pair : 0) * ${8 * LD};
    d.r0 = lds<f32x2>(row + 32 * (pair & 3));
    d.r1 = lds<float>(row + ${4 * LD + 4} + 32 * (pair & 3));
    gram_read(d.c0, row + 32 * tx);
    gram_read(d.c1, row + ${4 * LD} + 32 * tx);
}
QRS_DEV void gram_narrow_jordan(const float *x, const float *rv, float *m, float *sizes, gram_narrow_pivots *s)
{
    const int ty = (int)lane() >> 2, tx = (int)lane() & 3;
    const saddr base = to_saddr(s->x), r = to_saddr(rv);
    gram_narrow_x d;
    gram_deal(d.y, x);
    gram_fetch_r(d, r, 0);
    #pragma unroll 1
    for (int sweep = 0; sweep < 4; sweep++) {
        gram_pivot(d, 4 * sweep);
        gram_fetch(d, base, 4 * sweep);
        #pragma unroll 1
        for (int p = 0; p < 4; p++) {
            const int k = 4 * sweep + p;
            const bool rows = ty == (k & 7), columns = tx == p, live = tx >= p;
            if (rows && columns)
                *(f32x2 *)(sizes + 2 * k) = {d.n00, d.n11};
            #pragma unroll
            for (int e = 0; e < 2; e++) // the owner's turn into rows of M
                #pragma unroll
                for (int c = 0; c < 8; c++)
                    d.y[e][c] = rows && (live || c > 1) ? 0.0f : d.y[e][c];
            #pragma unroll
            for (int c = 0; c < 8; c++) {
                d.n0[c] = fmaf(d.s0, d.c0[c], d.n0[c]);
                d.n1[c] = fmaf(d.s1, d.c1[c], fmaf(-d.l10, d.n0[c], d.n1[c]));
            }
            #pragma unroll
            for (int i = 0; i < 4; i++) {
                d.e0[i] *= d.inv0;
                d.e1[i] = fmaf(-d.e0[i], d.n01, d.e1[i]) * d.inv1;
            }
            const float last = d.e0[1];
            d.e0[0] = rows ? d.inv0 : d.e0[0];
            d.e1[0] = rows ? -d.inv0 * d.n01 * d.inv1 : d.e1[0];
            d.e0[1] = rows ? 0.0f : d.e0[1];
            d.e1[1] = rows ? d.inv1 : d.e1[1];
            gram_fetch_r(d, r, k + 1);
            #pragma unroll
            for (int i = 0; i < 4; i++) {
                #pragma unroll
                for (int c = 0; c < 8; c++) {
                    const float of = fmaf(-d.e1[i], d.n1[c], fmaf(-d.e0[i], d.n0[c], d.y[i][c]));
                    d.y[i][c] = c > 1 || !columns ? of : c == 1 ? d.e1[i] : i == 1 ? last : d.e0[i];
                }
                if (i == 1)
                    gram_pivot(d, k + 1);
            }
            gram_fetch(d, base, k + 1);
        }
        #pragma unroll
        for (int i = 0; i < 4; i++)
            *(f32x2 *)(m + (((i ^ sweep) & 2) * 8 + 2 * ty + (i & 1)) * ${LDM} + 8 * sweep + 2 * tx) = {d.y[i][0], d.y[i][1]};
        gram_move_up(d.y);
        if (sweep == 1)
            #pragma unroll
            for (int c = 0; c < 8; c++) {
                const float a = d.y[0][c], b = d.y[1][c];
                d.y[0][c] = d.y[2][c], d.y[1][c] = d.y[3][c], d.y[2][c] = a, d.y[3][c] = b;
            }
    }
}

// Threads 0..127 call. x: top block; gram: G; rv (may be G's place): becomes R on and above the diagonal and V below; m: M. whole: G's diagonal.
// Returns false, in some thread, unless the pivots can be trusted. Synchronises, by barriers 1 and 3..10.
QRS_CALL bool gram_narrow(const float *x, const float *gram, float *rv, float *m, float *whole, gram_narrow_pivots *s, float *tau)
{
    const int tid = threadIdx.x, row = tid >> 2, tx = tid & 3, w = shfl((int)warp(), 0);
    if (w == 0) {
        whole[tid] = gram[tid * ${LD + 1}];
        gram_narrow_cholesky(gram, rv, s);
    } else if (w == 1)
        gram_narrow_jordan(x, rv, m, tau, s);
    bar_sync(1, 128);
    // Everything to its place: a row is dealt to four threads.
    float *to = rv + row * ${LD} + 2 * tx, *inverse = m + row * ${LDM} + 2 * tx;
    const float *dealt = rv + row * ${LD} + 8 * tx - 2 * (row >> 3), sign = -copysignf(1.0f, tau[row]);
    f32x2 r[4], v[4];
    #pragma unroll
    for (int i = 0; i < 4; i++) {
        v[i] = *(const f32x2 *)(inverse + 8 * i);
        r[i] = f32x2{0.0f, 0.0f};
        if (i >= row >> 3)
            r[i] = *(const f32x2 *)(dealt + 2 * i);
    }
    warp_sync();
    #pragma unroll
    for (int i = 0; i < 4; i++) {
        const bool low0 = row > 8 * i + 2 * tx, low1 = row > 8 * i + 2 * tx + 1;
        *(f32x2 *)(to + 8 * i) = {low0 ? v[i].x : sign * r[i].x, low1 ? v[i].y : sign * r[i].y};
        *(f32x2 *)(inverse + 8 * i) = {low0 ? 0.0f : v[i].x, low1 ? 0.0f : v[i].y};
    }
    bar_sync(1, 128);
    return tid >= 32 || gram_sound(rv, whole, tau);
}
