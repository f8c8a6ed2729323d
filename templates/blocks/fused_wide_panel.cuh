// A panel of 64 columns in shared memory (the layout of fused_wide.cuh): Gram recursion on the top block, everything tall by warpgroup products,
// and a plain column-by-column way to fall back to.
//
// Parameters: M, N, K, NT, LIMIT.

// Exponent that brings `most` to [32, 64), bounded so that its powers of two are normal.
QRS_DEV int wide_shift(float most)
{
    const int e = most > 0.0f && is_finite(most) ? pow2_exponent(most) - 5 : 0;
    return e < -120 ? -120 : e > 120 ? 120 : e;
}
QRS_DEV float wide_power(int e) { return as_f32((u32)(127 + e) << 23); }

// The panel one column after another where it lies in shared memory: a warp takes every eighth column, a barrier a column, nothing clever and little
// code. rows: how many there are. V below the diagonal and R on and above it afterwards. steps: columns that have a reflector.
// tau: shared, 64. Synchronises.
QRS_DEV void wide_rows(u8 *v, int rows, int steps, float *tau)
{
    const int w = warp(), l = lane();
    #pragma unroll 1
    for (int step = 0; step < steps; step++) {
        const wide_line x = wide_column_line(v, step);
        float squares = 0.0f, most = 0.0f;
        #pragma unroll 1
        for (int i = step + 1 + l; i < rows; i += 32) {
            const float y = wide_entry(x, i);
            squares = fmaf(y, y, squares);
            most = fmaxf(most, fabsf(y));
        }
        squares = warp_sum(squares);
        power_of_two shrink = {1.0f, 1.0f}, grow = {1.0f, 1.0f};
        bool zero = false;
        const float raw = wide_entry(x, step);
        if (squares < QRS_TINY_SQUARES * 0x1p12f) { // rare: all warps find the same
            most = warp_max(most);
            zero = most == 0.0f;
            if (!zero && is_finite(raw)) {
                const int ex = pow2_exponent(fmaxf(most, fabsf(raw)));
                shrink = make_power_of_two(-ex);
                grow = make_power_of_two(ex);
                squares = 0.0f;
                #pragma unroll 1
                for (int i = step + 1 + l; i < rows; i += 32) {
                    const float y = times(shrink, wide_entry(x, i));
                    squares = fmaf(y, y, squares);
                }
                squares = warp_sum(squares);
            }
        }
        const reflector r = zero ? no_reflector(raw) : make_reflector(times(shrink, raw), squares);
        #pragma unroll 1
        for (int col = step + 1 + ((w - step - 1) & 7); col < 64; col += 8) {
            const wide_line y = wide_column_line(v, col);
            float dot = 0.0f;
            #pragma unroll 2
            for (int i = step + 1 + l; i < rows; i += 32)
                dot = fmaf(times(shrink, wide_entry(x, i)), wide_entry(y, i), dot);
            dot = warp_sum(dot);
            const float p = wide_entry(y, step), g = r.step * fmaf(r.rho, dot, p);
            warp_sync(); // everybody has read the pivot row
            #pragma unroll 2
            for (int i = step + 1 + l; i < rows; i += 32)
                wide_entry(y, i) = fmaf(-g, times(shrink, wide_entry(x, i)), wide_entry(y, i));
            if (l == 0)
                wide_entry(y, step) = fmaf(-g, r.gap, p);
        }
        block_sync(); // nobody needs the raw column any more
        if (w == (step & 7)) {
            #pragma unroll 1
            for (int i = step + 1 + l; i < rows; i += 32)
                wide_entry(x, i) = times(shrink, wide_entry(x, i)) * r.rho;
            if (l == 0) {
                wide_entry(x, step) = zero ? raw : times(grow, r.beta);
                tau[step] = r.tau;
            }
        }
    }
    if ((int)threadIdx.x < 64 && (int)threadIdx.x >= steps)
        tau[threadIdx.x] = 0.0f;
    block_sync();
}

// Tile 0 to s->rv, and back. Every warp its own columns.
QRS_DEV void wide_top(u8 *v, float *rv, bool back)
{
    const wide_line line = wide_column_line(v, wide_mine());
    #pragma unroll 1
    for (int i = wide_start(); i < 64; i += 16) {
        float *at = rv + i * 68 + wide_mine();
        f32x4 &x = wide_four(line, i);
        if (back)
            x = {at[0], at[68], at[136], at[204]};
        else
            at[0] = x.x, at[68] = x.y, at[136] = x.z, at[204] = x.w;
    }
}

// s->shift from the rows below the top block. Every warp its own columns.
QRS_DEV void wide_measure(u8 *v, int tiles, int *shift)
{
    const wide_line line = wide_column_line(v, wide_mine());
    u32 most = 0;
    #pragma unroll 2
    for (int i = 64 + wide_start(); i < 64 * tiles; i += 16)
        most = wide_largest(most, wide_four(line, i));
    most = wide_most(most);
    if (wide_start() == 0)
        shift[wide_mine()] = wide_shift(as_f32(most));
}

// Tiles begin .. tiles-1 become fp16 pairs, times 2^-shift, in the planes, which fill the same space; X'X of them to s->gram. Without `low` there are
// no low halves. Synchronises after.
QRS_DEV void wide_pack(u8 *v, int begin, int tiles, bool low, wide_shared *s)
{
    const int wg = wide_group();
    const wide_places p = wide_fragment(v);
    const saddr sv = to_saddr(v), svl = sv + ${NT * 8192};
    const float f0 = wide_power(-s->shift[wide_column(0)]), f1 = wide_power(-s->shift[wide_column(1)]);
    const u32 mask = low ? ~0u : 0u;
    float d[32];
    #pragma unroll
    for (int i = 0; i < 32; i++)
        d[i] = 0.0f;
    #pragma unroll 1
    for (int tile = begin + ((begin + wg) & 1); tile < tiles; tile += 2) {
        const saddr at = sv + tile * 8192, atl = svl + tile * 8192;
        u32 a[4][4], al[4][4];
        {
            float x[32];
            wide_get(x, p, tile * 2048);
            #pragma unroll
            for (int step = 0; step < 4; step++)
                wide_operand(x, step, f0, f1, a[step], al[step]);
        }
        bar_sync(2 + wg, 128); // this warpgroup alone knows the tile
        #pragma unroll
        for (int step = 0; step < 4; step++) {
            #pragma unroll
            for (int i = 0; i < 4; i++)
                al[step][i] &= mask;
            stmatrix_x4_trans(at + wide_place(step), a[step]);
            stmatrix_x4_trans(atl + wide_place(step), al[step]);
        }
        fence_async_shared();
        bar_sync(2 + wg, 128);
        wgmma_hold(d);
        wgmma_fence();
        #pragma unroll
        for (int step = 0; step < 4; step++)
            wide_product<true, true>(d, a[step], al[step], wide_further(wide_desc(at), step * 2048), wide_further(wide_desc(atl), step * 2048));
        wgmma_commit();
        wgmma_wait<0>(d);
    }
    // The second warpgroup's share to shared memory, added by the first, scaled back by all.
    f32x4 *x = (f32x4 *)s->half + (threadIdx.x & 127);
    if (wg == 1) {
        #pragma unroll
        for (int i = 0; i < 8; i++)
            x[i * 128] = {d[4 * i], d[4 * i + 1], d[4 * i + 2], d[4 * i + 3]};
    }
    block_sync();
    if (wg == 0) {
        #pragma unroll
        for (int i = 0; i < 8; i++) {
            const f32x4 o = x[i * 128];
            float *to = s->gram + wide_column(0) * 68 + wide_row(i);
            *(f32x2 *)to = {d[4 * i] + o.x, d[4 * i + 1] + o.y};
            *(f32x2 *)(to + 8 * 68) = {d[4 * i + 2] + o.z, d[4 * i + 3] + o.w};
        }
    }
    block_sync();
    const float f = wide_power(s->shift[threadIdx.x & 63]);
    #pragma unroll 4
    for (int i = threadIdx.x >> 6; i < 64; i += 4)
        s->gram[i * 68 + (threadIdx.x & 63)] *= f * wide_power(s->shift[i]);
    block_sync();
}

// V2 = P2 M below the top block, in place of P2's planes. Synchronises before.
QRS_DEV void wide_below(u8 *v, int tiles, wide_shared *s)
{
    const int wg = wide_group();
    { // M's rows take P2's powers of two, its columns get their own
        const int col = wide_mine();
        u32 most = 0;
        #pragma unroll 4
        for (int i = (int)lane() >> 3; i < 64; i += 4) {
            float &m = s->gram[i * 68 + col];
            m *= wide_power(s->shift[i]);
            const u32 bits = as_u32(m) & 0x7fffffffu;
            most = most > bits ? most : bits;
        }
        const int shift = wide_shift(as_f32(wide_most(most)));
        #pragma unroll 4
        for (int i = (int)lane() >> 3; i < 64; i += 4)
            s->gram[i * 68 + col] *= wide_power(-shift);
        s->back[col] = wide_power(shift);
    }
    block_sync();
    u32 a[4][4], al[4][4];
    #pragma unroll
    for (int step = 0; step < 4; step++)
        #pragma unroll
        for (int x = 0; x < 4; x++) {
            const float *m = s->gram + (16 * step + 8 * (x >> 1) + ((int)lane() & 3) * 2) * 68 + wide_column(x & 1);
            wide_split(m[0], m[68], a[step][x], al[step][x]);
        }
    const float f0 = s->back[wide_column(0)], f1 = s->back[wide_column(1)];
    const wide_places p = wide_fragment(v);
    const u64 b0 = wide_desc(to_saddr(v)), bl0 = wide_desc(to_saddr(v) + ${NT * 8192});
    #pragma unroll 1
    for (int tile = 1 + ((1 + wg) & 1); tile < tiles; tile += 2) {
        const u64 b = wide_further(b0, tile * 8192), bl = wide_further(bl0, tile * 8192);
        float d[32];
        #pragma unroll
        for (int i = 0; i < 32; i++)
            d[i] = 0.0f;
        wgmma_hold(d);
        wgmma_fence();
        #pragma unroll
        for (int step = 0; step < 4; step++)
            wide_product<true, false>(d, a[step], al[step], wide_further(b, step * 32), wide_further(bl, step * 32));
        wgmma_commit();
        wgmma_wait<0>(d);
        bar_sync(2 + wg, 128); // the tile has been read
        #pragma unroll
        for (int i = 0; i < 32; i++)
            d[i] *= i & 2 ? f1 : f0;
        wide_put(d, p, tile * 2048);
    }
}

// True, in a warp, when V of its columns and tau agree; tau becomes 2 / (v'v) of the v that is stored.
QRS_DEV bool wide_agrees(u8 *v, int tiles, float *tau)
{
    const int col = wide_mine();
    const wide_line line = wide_column_line(v, col);
    f32x4 part = {0.0f, 0.0f, 0.0f, 0.0f}; // 16 short chains a column: tau is only as good as this sum
    #pragma unroll 2
    for (int i = wide_start(); i < 64 * tiles; i += 16) {
        f32x4 x = wide_four(line, i);
        x = {i > col ? x.x : 0.0f, i + 1 > col ? x.y : 0.0f, i + 2 > col ? x.z : 0.0f, i + 3 > col ? x.w : 0.0f};
        part = {fmaf(x.x, x.x, part.x), fmaf(x.y, x.y, part.y), fmaf(x.z, x.z, part.z), fmaf(x.w, x.w, part.w)};
    }
    const float square = 1.0f + wide_total((part.x + part.y) + (part.z + part.w)), was = tau[col];
    warp_sync(); // everybody has read it
    if (wide_start() == 0)
        tau[col] = was == 0.0f ? 0.0f : div_rn(2.0f, square);
    return warp_all(was == 0.0f || fabsf(fmaf(0.5f * was, square, -1.0f)) <= ${LIMIT});
}

// T = (I + D striu(V'V))^-1 D as in fused_t.cuh, for 64 columns: blocks of 16 by substitution, then twice T12 = -T11 (G12 T22), G12 T22 in
// G12's place. gram: V'V, symmetric; t: rows 68 apart. Synchronises.
QRS_DEV void wide_build_t(float *gram, const float *tau, float *t)
{
    const int tid = threadIdx.x;
    #pragma unroll 1
    for (int e = tid; e < ${64 * 17}; e += 256)
        ((f32x4 *)t)[e] = {0.0f, 0.0f, 0.0f, 0.0f};
    block_sync();
    if (tid < 64) { // thread = row of T; its block's columns one after another
        const int o = tid & ~15, r = tid & 15;
        const float *g = gram + o * 69;
        float x[16];
        #pragma unroll
        for (int j = 0; j < 16; j++) {
            float sum[2] = {0.0f, 0.0f};
            #pragma unroll
            for (int i = 0; i < j; i++)
                sum[i & 1] = fmaf(x[i], g[j * 68 + i], sum[i & 1]);
            const float f = tau[o + j];
            x[j] = r == j ? f : r < j ? -f * (sum[0] + sum[1]) : 0.0f;
            t[tid * 68 + o + j] = x[j];
        }
    }
    block_sync();
    // Both blocks of 32 at once, by the warps that form a product's upper right quarter; what else these products of 32 touch is zero in T.
    const int w = warp(), o = (w >> 2) * 32 * 69;
    #pragma unroll 1
    for (int op = 0; op < 4; op++) {
        const bool all = op >= 2, mine = all ? w < 4 : (w & 3) == 1;
        float *to, *a, *b;
        if (op & 1)
            to = all ? t + 32 : t + o, a = all ? t : t + o, b = all ? gram + 32 : gram + o;
        else
            to = a = all ? gram + 32 : gram + o, b = all ? t + 32 * 69 : t + o;
        gram_product(mine ? to : nullptr, nullptr, a, false, b, op & 1 ? -1.0f : 1.0f);
    }
}

// fp16 T as tiles, swizzled like V's, the low one 8 KB after the high one.
QRS_DEV void wide_put_t(const float *t, u8 *to)
{
    #pragma unroll 1
    for (int e = threadIdx.x; e < 2048; e += 256) {
        const int i = e >> 5, j = (e & 31) * 2, at = wide_chunk(i, j >> 3) + (j & 7) * 2;
        u32 hi, lo;
        wide_split(t[i * 68 + j], t[i * 68 + j + 1], hi, lo);
        *(u32 *)(to + at) = hi;
        *(u32 *)(to + 8192 + at) = lo;
    }
}

// Factors panel k, which lies in v with its top block as tile 0, its rows of R last; rows: column by column. t: where its fp16 T goes. later:
// some block comes after it, so V and T are wanted, with low planes if `low`, and on their way to scratch on return. Writes the block to H, tau
// to shared memory. Returns false, and nothing is written, when the Gram recursion does not do.
QRS_DEV bool wide_panel(const wide_stage &stage, int k, float *out, i64 ldh, const int *exponent, u8 *v, u8 *t, bool later, bool low, bool rows,
                        wide_shared *s, float *tau)
{
    const int tiles = ${NT} - k, steps = ${K} - 64 * k < 64 ? ${K} - 64 * k : 64;
    if (rows)
        wide_rows(v, tiles * 64, steps, tau);
    // P2 and its Gram matrix, then V and its own, by the same code.
    #pragma unroll 1
    for (int pass = rows; pass < 2; pass++) {
        if (pass == 0) {
            wide_top(v, s->rv, false);
            wide_measure(v, tiles, s->shift);
        } else {
            const bool agrees = wide_agrees(v, tiles, tau);
            if (block_any(!agrees && !rows))
                return false;
            wide_write(v, out, ldh, 64 * k, k, true, exponent);
            if (!later)
                return true;
            if (threadIdx.x < 64)
                s->shift[threadIdx.x] = -6;
        }
        block_sync();
        wide_pack(v, 1 - pass, tiles, pass == 0 || shfl((int)low, 0), s);
        if (pass == 0) {
            const bool good = gram_pair(s, tau, steps, k == ${NT - 1});
            if (threadIdx.x == 0)
                s->verdict = good;
            block_sync();
            if (!s->verdict)
                return false;
            wide_below(v, tiles, s);
            wide_top(v, s->rv, true);
            block_sync();
        }
    }
    wide_keep_v(stage, k, low);
    wide_build_t(s->gram, tau, s->half);
    wide_put_t(s->half, t);
    fence_async_shared();
    block_sync();
    wide_keep_t(stage, k);
    return true;
}
