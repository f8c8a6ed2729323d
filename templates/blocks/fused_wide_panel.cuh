// A panel of 64 columns in the fragment layout of fused_wide.cuh: Gram recursion on the top block, everything tall by warpgroup products,
// and a plain column-by-column way to fall back to.
//
// Parameters: M, N, K, NT, J, OUT, LIMIT.
// Shared memory of a panel, in the region that updates use for exchange:
struct wide_shared {
    float exchange[4096];      // one warpgroup's share of a 64 x 64 sum; then T in fp32
    float rv[64 * 68];         // top block; then R on and above the diagonal, V below
    float gram[64 * 68];       // G; then M; then V'V
    int shift[64];             // P2's columns times 2^-shift have their largest magnitude in [32, 64)
    float most[2][64], square[2][64], whole[64];
    int verdict;
    union {
        gram_buffers recursion;
        float product[32 * 33];
    };
};

// Exponent that brings `most` to [32, 64), bounded so that its powers of two are normal.
QRS_DEV int wide_shift(float most)
{
    const int e = most > 0.0f && is_finite(most) ? pow2_exponent(most) - 5 : 0;
    return e < -120 ? -120 : e > 120 ? 120 : e;
}
QRS_DEV float wide_power(int e) { return as_f32((u32)(127 + e) << 23); }

// Column `col` of a panel held in fp32 where the planes were: of each tile of 64 rows, columns 0..31 fill the high plane's 8 KB and the others
// the low plane's; row i of the column is at [(i >> 6) * 2048 + (i & 63)].
QRS_DEV float *wide_line(u8 *v, u8 *vl, int col) { return (float *)(col < 32 ? v : vl) + (col & 31) * 64; }
QRS_DEV float &wide_entry(float *line, int i) { return line[(i >> 6) * 2048 + (i & 63)]; }

// Brings the panel there from what wide_store left: fp32 level against each column's largest magnitude. Synchronises.
QRS_DEV void wide_restore(u8 *v, u8 *vl, const float *top, const int *shift, int tiles)
{
    const int col = threadIdx.x & 63, part = (threadIdx.x >> 6) * 16;
    #pragma unroll 1
    for (int tile = 0; tile < tiles; tile++) {
        float x[16];
        #pragma unroll
        for (int i = 0; i < 16; i++) {
            const int at = tile * 8192 + wide_chunk(part + i, col >> 3) + (col & 7) * 2;
            x[i] = tile == 0 ? top[(part + i) * 64 + col] : wide_power(shift[col]) * (f16_value(*(u16 *)(v + at)) + f16_value(*(u16 *)(vl + at)));
        }
        block_sync();
        #pragma unroll
        for (int i = 0; i < 16; i++)
            wide_line(v, vl, col)[tile * 2048 + part + i] = x[i];
        block_sync();
    }
}

// The panel one column after another in that place: a warp takes every eighth column, a barrier a column, nothing clever and little
// code. rows: how many there are. V below the diagonal and R on and above it afterwards. steps: columns that have a reflector.
// tau: shared, 64. Synchronises.
QRS_DEV void wide_rows(u8 *v, u8 *vl, int rows, int steps, float *tau)
{
    const int w = warp(), l = lane();
    #pragma unroll 1
    for (int step = 0; step < steps; step++) {
        float *x = wide_line(v, vl, step);
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
            float *y = wide_line(v, vl, col), dot = 0.0f;
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

// Adds the warpgroups' shares of a symmetric 64 x 64 sum, times f, into out (row stride 68). Synchronises before and after.
QRS_DEV void wide_sum(const float (&d)[32], float f, float *exchange, float *out)
{
    const int wg = wide_group();
    f32x4 *x = (f32x4 *)exchange + (threadIdx.x & 127);
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
            float *at = out + wide_column(0) * 68 + wide_row(i);
            *(f32x2 *)at = {f * (d[4 * i] + o.x), f * (d[4 * i + 1] + o.y)};
            *(f32x2 *)(at + 8 * 68) = {f * (d[4 * i + 2] + o.z), f * (d[4 * i + 3] + o.w)};
        }
    }
    block_sync();
}

// T = (I + D striu(V'V))^-1 D as in fused_t.cuh, for 64 columns. gram: V'V; t: 64 x 64 floats. Synchronises before it returns.
QRS_DEV void wide_build_t(const float *gram, const float *tau, float *t, float *y)
{
    const int tid = threadIdx.x;
    for (int e = tid; e < 4096; e += 256)
        t[e] = 0.0f;
    block_sync();
    if (tid < 64) {
        const int o = tid & ~7, r = tid & 7;
        float x[8];
        #pragma unroll
        for (int j = 0; j < 8; j++) {
            float sum = 0.0f;
            #pragma unroll
            for (int i = 0; i < j; i++)
                sum = fmaf(x[i], gram[(o + i) * 68 + o + j], sum);
            const float f = tau[o + j];
            x[j] = r == j ? f : r < j ? -f * sum : 0.0f;
            t[tid * 64 + o + j] = x[j];
        }
    }
    block_sync();
    #pragma unroll
    for (int size = 8; size < 64; size *= 2) {
        const int all = 32 * size;
        for (int e = tid; e < all; e += 256) {
            const int o = e / (size * size) * 2 * size, r = e / size % size, j = e % size;
            float sum = 0.0f;
            #pragma unroll 8
            for (int i = 0; i < size; i++)
                sum = fmaf(gram[(o + r) * 68 + o + size + i], t[(o + size + i) * 64 + o + size + j], sum);
            y[(o / 2 + r) * 33 + j] = sum;
        }
        block_sync();
        for (int e = tid; e < all; e += 256) {
            const int o = e / (size * size) * 2 * size, r = e / size % size, j = e % size;
            float sum = 0.0f;
            #pragma unroll 8
            for (int i = 0; i < size; i++)
                sum = fmaf(t[(o + r) * 64 + o + i], y[(o / 2 + i) * 33 + j], sum);
            t[(o + r) * 64 + o + size + j] = -sum;
        }
        block_sync();
    }
}

// Splits panel k off c: the top block to s->rv and to `top` (64 x 64), rows below as fp16 pairs to the planes. c may be forgotten after.
QRS_DEV void wide_store(const wide_tile &c, int k, saddr v, saddr vl, wide_shared *s, float *top)
{
    const int wg = wide_group();
    #pragma unroll
    for (int h = 0; h < 2; h++) {
        float most = 0.0f;
        #pragma unroll
        for (int j = 0; j < ${J}; j++)
            if (2 * j + wg > k) {
                #pragma unroll
                for (int i = 0; i < 8; i++)
                    most = fmaxf(most, fmaxf(fabsf(c[j][4 * i + 2 * h]), fabsf(c[j][4 * i + 2 * h + 1])));
            }
        most = fmaxf(most, shfl_xor(most, 1));
        most = fmaxf(most, shfl_xor(most, 2));
        if ((lane() & 3) == 0)
            s->most[wg][wide_column(h)] = most;
    }
    #pragma unroll
    for (int j = 0; j < ${J}; j++)
        if (2 * j + wg == k) {
            #pragma unroll
            for (int i = 0; i < 8; i++)
                #pragma unroll
                for (int e = 0; e < 4; e++) {
                    const int row = wide_row(i) + (e & 1), col = wide_column(e >> 1);
                    s->rv[row * 68 + col] = top[row * 64 + col] = c[j][4 * i + e];
                }
        }
    block_sync();
    if (threadIdx.x < 64)
        s->shift[threadIdx.x] = wide_shift(fmaxf(s->most[0][threadIdx.x], s->most[1][threadIdx.x]));
    float down[2];
    #pragma unroll
    for (int h = 0; h < 2; h++)
        down[h] = wide_power(-wide_shift(fmaxf(s->most[0][wide_column(h)], s->most[1][wide_column(h)])));
    #pragma unroll
    for (int j = 0; j < ${J}; j++) {
        const int tile = 2 * j + wg;
        if (tile > k && tile < ${NT}) {
            #pragma unroll
            for (int step = 0; step < 4; step++) {
                u32 a[4], al[4];
                wide_operand(c[j], step, down[0], down[1], a, al);
                stmatrix_x4_trans(v + (tile - k) * 8192 + wide_place(step), a);
                stmatrix_x4_trans(vl + (tile - k) * 8192 + wide_place(step), al);
            }
        }
    }
    fence_async_shared();
    block_sync();
}

// The fp16 pair fragments of k step `step` that wide_store put at tile `at`.
QRS_DEV void wide_fetch(saddr at, saddr atl, int step, u32 (&a)[4], u32 (&al)[4])
{
    ldmatrix_x4_trans(a, at + wide_place(step));
    ldmatrix_x4_trans(al, atl + wide_place(step));
}

// G = P2'P2 from the planes, into s->gram.
QRS_DEV void wide_gram(int k, saddr v, saddr vl, wide_shared *s)
{
    const int wg = wide_group();
    float d[32];
    #pragma unroll
    for (int i = 0; i < 32; i++)
        d[i] = 0.0f;
    #pragma unroll 1
    for (int tile = k + 1 + ((k + 1 + wg) & 1); tile < ${NT}; tile += 2) {
        const saddr at = v + (tile - k) * 8192, atl = vl + (tile - k) * 8192;
        u32 a[4][4], al[4][4];
        #pragma unroll
        for (int step = 0; step < 4; step++)
            wide_fetch(at, atl, step, a[step], al[step]);
        wgmma_hold(d);
        wgmma_fence();
        #pragma unroll
        for (int step = 0; step < 4; step++)
            wide_product<true, true>(d, a[step], al[step], wide_further(wide_desc(at), step * 2048), wide_further(wide_desc(atl), step * 2048));
        wgmma_commit();
        wgmma_wait<0>(d);
    }
    #pragma unroll
    for (int i = 0; i < 32; i++)
        d[i] = times(make_power_of_two(s->shift[wide_row(i >> 2) + (i & 1)] + s->shift[wide_column(i >> 1 & 1)]), d[i]);
    wide_sum(d, 1.0f, s->exchange, s->gram);
}

// V2^T = M^T P2^T into c, zero elsewhere.
QRS_DEV void wide_below(wide_tile &c, int k, saddr v, saddr vl, const wide_shared *s)
{
    const int wg = wide_group();
    const u64 b0 = wide_desc(v), bl0 = wide_desc(vl);
    int shift[2]; // of M's columns, once its rows have taken P2's
    #pragma unroll
    for (int h = 0; h < 2; h++) {
        float most = 0.0f;
        #pragma unroll 4
        for (int i = (int)lane() & 3; i < 64; i += 4)
            most = fmaxf(most, fabsf(wide_power(s->shift[i]) * s->gram[i * 68 + wide_column(h)]));
        most = fmaxf(most, shfl_xor(most, 1));
        most = fmaxf(most, shfl_xor(most, 2));
        shift[h] = wide_shift(most);
    }
    u32 a[4][4], al[4][4];
    #pragma unroll
    for (int step = 0; step < 4; step++)
        #pragma unroll
        for (int x = 0; x < 4; x++) {
            const int i = 16 * step + 8 * (x >> 1) + ((int)lane() & 3) * 2;
            const float *m = s->gram + i * 68 + wide_column(x & 1), f = wide_power(-shift[x & 1]);
            wide_split(wide_power(s->shift[i]) * m[0] * f, wide_power(s->shift[i + 1]) * m[68] * f, a[step][x], al[step][x]);
        }
    #pragma unroll
    for (int j = 0; j < ${J}; j++) {
        #pragma unroll
        for (int i = 0; i < 32; i++)
            c[j][i] = 0.0f;
        wgmma_hold(c[j]);
    }
    #pragma unroll
    for (int j = 0; j < ${J}; j++) {
        const int tile = 2 * j + wg;
        if (tile > k && tile < ${NT}) {
            const u64 b = wide_further(b0, (tile - k) * 8192), bl = wide_further(bl0, (tile - k) * 8192);
            wgmma_fence();
            #pragma unroll
            for (int step = 0; step < 4; step++)
                wide_product<true, false>(c[j], a[step], al[step], wide_further(b, step * 32), wide_further(bl, step * 32));
            wgmma_commit();
        }
    }
    #pragma unroll
    for (int j = 0; j < ${J}; j++) {
        wgmma_wait<0>(c[j]);
        #pragma unroll
        for (int i = 0; i < 32; i++)
            c[j][i] *= wide_power(shift[i >> 1 & 1]);
    }
}

// True when V (c below the top block, s->rv in it) and tau agree; tau then becomes 2 / (v'v) of the v that is stored. Synchronises.
QRS_DEV bool wide_agrees(const wide_tile &c, int k, wide_shared *s, float *tau)
{
    const int wg = wide_group(), l = lane();
    #pragma unroll
    for (int h = 0; h < 2; h++) {
        float part[8]; // short chains: tau is only as good as this sum
        #pragma unroll
        for (int i = 0; i < 8; i++) {
            part[i] = 0.0f;
            #pragma unroll
            for (int j = 0; j < ${J}; j++)
                part[i] = fmaf(c[j][4 * i + 2 * h], c[j][4 * i + 2 * h], fmaf(c[j][4 * i + 2 * h + 1], c[j][4 * i + 2 * h + 1], part[i]));
        }
        float sum = ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]));
        sum += shfl_xor(sum, 1);
        sum += shfl_xor(sum, 2);
        if ((l & 3) == 0)
            s->square[wg][wide_column(h)] = sum;
    }
    block_sync();
    bool good = true;
    float square[2], was[2];
    #pragma unroll
    for (int h = 0; h < 2; h++) {
        const int col = l + 32 * h;
        float part[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
        #pragma unroll 1
        for (int i = 0; i < 64; i += 8)
            #pragma unroll
            for (int e = 0; e < 8; e++) {
                const float x = i + e > col ? s->rv[(i + e) * 68 + col] : 0.0f;
                part[e] = fmaf(x, x, part[e]);
            }
        square[h] = 1.0f + ((((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]))) +
                            (s->square[0][col] + s->square[1][col]));
        was[h] = tau[col];
        good = good && (was[h] == 0.0f || fabsf(fmaf(0.5f * was[h], square[h], -1.0f)) <= ${LIMIT});
    }
    good = warp_all(good);
    block_sync(); // everybody has read tau
    if (good && warp() == 0) {
        #pragma unroll
        for (int h = 0; h < 2; h++)
            tau[l + 32 * h] = was[h] == 0.0f ? 0.0f : div_rn(2.0f, square[h]);
    }
    return good;
}

// H of the panel from c and s->rv.
QRS_DEV void wide_write(const wide_tile &c, int k, float *h, i64 ldh, const int *exponent, const wide_shared *s)
{
    const int wg = wide_group(), first = 64 * k;
    for (int e = threadIdx.x; e < 4096; e += 256) {
        const int i = e ${OUT == "col" and "& 63" or ">> 6"}, j = e ${OUT == "col" and ">> 6" or "& 63"}, row = first + i, col = first + j;
        const float x = s->rv[i * 68 + j];
        if (row < ${M} && col < ${N})
            h[${OUT == "col" and "col * ldh + row" or "row * ldh + col"}] = i > j ? x : times(make_power_of_two(exponent[j] - QRS_LIFT), x);
    }
    wide_walk${IN == OUT and "" or "_out"}(h, ldh, first, [&](float *at, int j, int i, bool in) {
        if (in && 2 * j + wg > k)
            *at = c[j][i];
    });
}

// fp16 V to the planes and V'V of it to s->gram, one product or three. Synchronises.
template <bool LOW> QRS_DEV void wide_publish(const wide_tile &c, int k, u8 *v, u8 *vl, wide_shared *s)
{
    const int wg = wide_group();
    const saddr sv = to_saddr(v), svl = to_saddr(vl);
    for (int e = threadIdx.x; e < 2048; e += 256) {
        const int i = e >> 5, j = (e & 31) * 2, at = wide_chunk(i, j >> 3) + (j & 7) * 2;
        u32 hi, lo;
        wide_split(i > j ? 0x1p6f * s->rv[i * 68 + j] : i == j ? 0x1p6f : 0.0f,
                   i > j + 1 ? 0x1p6f * s->rv[i * 68 + j + 1] : i == j + 1 ? 0x1p6f : 0.0f, hi, lo);
        *(u32 *)(v + at) = hi;
        if (LOW)
            *(u32 *)(vl + at) = lo;
    }
    #pragma unroll
    for (int j = 0; j < ${J}; j++) {
        const int tile = 2 * j + wg;
        if (tile > k && tile < ${NT}) {
            #pragma unroll
            for (int step = 0; step < 4; step++) {
                u32 a[4], al[4];
                wide_operand(c[j], step, 0x1p6f, 0x1p6f, a, al);
                stmatrix_x4_trans(sv + (tile - k) * 8192 + wide_place(step), a);
                if (LOW)
                    stmatrix_x4_trans(svl + (tile - k) * 8192 + wide_place(step), al);
            }
        }
    }
    fence_async_shared();
    block_sync();
    float d[32];
    #pragma unroll
    for (int i = 0; i < 32; i++)
        d[i] = 0.0f;
    #pragma unroll 1
    for (int tile = k + ((k + wg) & 1); tile < ${NT}; tile += 2) {
        const saddr at = sv + (tile - k) * 8192, atl = svl + (tile - k) * 8192;
        u32 a[4][4], al[4][4];
        #pragma unroll
        for (int step = 0; step < 4; step++) {
            if (LOW)
                wide_fetch(at, atl, step, a[step], al[step]);
            else
                ldmatrix_x4_trans(a[step], at + wide_place(step));
        }
        wgmma_hold(d);
        wgmma_fence();
        #pragma unroll
        for (int step = 0; step < 4; step++)
            wide_product<LOW, true>(d, a[step], al[step], wide_further(wide_desc(at), step * 2048), wide_further(wide_desc(atl), step * 2048));
        wgmma_commit();
        wgmma_wait<0>(d);
    }
    wide_sum(d, 0x1p-12f, s->exchange, s->gram);
}

// fp16 T as a tile, swizzled like V's.
QRS_DEV void wide_put_t(const float *t, u8 *to, u8 *low)
{
    for (int e = threadIdx.x; e < 2048; e += 256) {
        const int i = e >> 5, j = (e & 31) * 2, at = wide_chunk(i, j >> 3) + (j & 7) * 2;
        u32 hi, lo;
        wide_split(t[i * 64 + j], t[i * 64 + j + 1], hi, lo);
        *(u32 *)(to + at) = hi;
        *(u32 *)(low + at) = lo;
    }
}

// Factors panel k, held in c. v, vl: its fp16 V (trapezoid), both planes used on the way; t, tl: its fp16 T (the two adjoin: 16 KB that serve as
// scratch before). later: some block comes after it, so V and T are wanted, with low planes if `low`. Writes the panel's H, tau to shared
// memory. Returns false when it fell back. On return everything is visible to the block and to bulk copies.
QRS_DEV bool wide_panel(wide_tile &c, int k, float *out, i64 ldh, const int *exponent, u8 *v, u8 *vl, u8 *t, u8 *tl, bool later, bool low,
                        wide_shared *s, float *tau)
{
    const int wg = wide_group();
    const saddr sv = to_saddr(v), svl = to_saddr(vl);
    float *top = (float *)t;
    wide_store(c, k, sv, svl, s, top);
    wide_gram(k, sv, svl, s);
    const bool good = gram_pair(s->rv, s->gram, s->exchange, s->whole, &s->recursion, tau, ${K} - 64 * k, k == ${NT - 1});
    if (threadIdx.x == 0)
        s->verdict = good;
    block_sync();
    bool gram = shfl(s->verdict, 0);
    if (gram) {
        wide_below(c, k, sv, svl, s);
        gram = shfl((int)wide_agrees(c, k, s, tau), 0);
    }
    if (!gram) {
        wide_restore(v, vl, top, s->shift, ${NT} - k);
        wide_rows(v, vl, (${NT} - k) * 64, ${K} - 64 * k < 64 ? ${K} - 64 * k : 64, tau);
        #pragma unroll
        for (int h = 0; h < 2; h++) {
            const float *line = wide_line(v, vl, wide_column(h)) + (wg - k) * 2048 + wide_row(0);
            #pragma unroll
            for (int j = 0; j < ${J}; j++)
                if (2 * j + wg > k && 2 * j + wg < ${NT}) {
                    #pragma unroll
                    for (int i = 0; i < 8; i++) {
                        const f32x2 y = *(const f32x2 *)(line + j * 4096 + 8 * i);
                        c[j][4 * i + 2 * h] = y.x;
                        c[j][4 * i + 2 * h + 1] = y.y;
                    }
                }
        }
        for (int e = threadIdx.x; e < 4096; e += 256)
            s->rv[(e & 63) * 68 + (e >> 6)] = wide_line(v, vl, e >> 6)[e & 63];
    }
    block_sync();
    wide_write(c, k, out, ldh, exponent, s);
    if (later) {
        if (shfl((int)low, 0))
            wide_publish<true>(c, k, v, vl, s);
        else
            wide_publish<false>(c, k, v, vl, s);
        wide_build_t(s->gram, tau, s->exchange, s->product);
        wide_put_t(s->exchange, t, tl);
        fence_async_shared();
    }
    block_sync();
    return gram;
}
