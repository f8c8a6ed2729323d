// A panel of 64 columns in registers (the fragments of fused_wide.cuh): Gram recursion on the top block, everything tall by warpgroup products,
// and a plain column-by-column way to fall back to.
//
// Parameters: M, N, K, NT, J, LIMIT, LOOSE (gram_panel.cuh), TALL (LIMIT for columns from whole Gram matrices), OUT; WHOLE: tall panels by gram_whole.cuh,
// WEIGH: where no column's weight is in the top block; LAST: half of the last panel, too.

// Exponent that brings `most` to [32, 64), bounded so that its powers of two are normal.
QRS_DEV int wide_shift(float most)
{
    const int e = most > 0.0f && is_finite(most) ? pow2_exponent(most) - 5 : 0;
    return e < -120 ? -120 : e > 120 ? 120 : e;
}
QRS_DEV float wide_power(int e) { return as_f32((u32)(127 + e) << 23); }

// What is packed of a column takes 2^-e.
QRS_DEV void wide_set_shift(wide_shared *s, int col, int e)
{
    s->down[col] = wide_power(-e);
    s->up[col] = wide_power(e);
}

// A panel in shared memory as fp32: tile of 64 rows by tile of 64 rows, where its fp16 planes are; each tile's columns 0..31 fill the 8 KB of
// its high plane, the others the low plane's. A column's 64 rows adjoin but for a swizzle, which lets a warp touch 8 columns x 4
// rows, or whole columns four rows a lane, without bank conflicts.
QRS_DEV float *wide_column_line(u8 *v, int col) { return (float *)(v + (col >> 5) * ${NT * 8192}) + (col & 31) * 64; }
QRS_DEV int wide_swizzle(int col) { return (col & 3) << 3 | (col & 4); } // flips bits 2..4 of the row
QRS_DEV f32x4 &wide_four(u8 *v, int col, int row) // rows row .. row + 3, row a multiple of 4
{
    return *(f32x4 *)(wide_column_line(v, col) + (row >> 6) * 2048 + ((row & 63) ^ wide_swizzle(col)));
}
QRS_DEV f32x2 &wide_pair(u8 *v, int tile, int i, int h)
{
    const int col = wide_column(h);
    return *(f32x2 *)(wide_column_line(v, col) + tile * 2048 + (wide_row(i) ^ wide_swizzle(col)));
}

// One tile on: loops over tiles whose registers go round have one body, and the tile at work is number 0 or comes last.
QRS_DEV void wide_turn(wide_tile &c)
{
    #pragma unroll
    for (int j = 0; j + 1 < ${J}; j++)
        #pragma unroll
        for (int i = 0; i < 32; i++)
            c[j][i] = c[j + 1][i];
}

// The top block to s->rv, and as it is to spare, for a second attempt.
QRS_DEV void wide_take_top(const float (&c)[32], float *rv, f32x4 *spare)
{
    if (wide_group() != 0)
        return;
    float *at = rv + wide_row(0) * 68 + wide_column(0);
    #pragma unroll
    for (int i = 0; i < 8; i++) {
        #pragma unroll
        for (int e = 0; e < 4; e++)
            at[(8 * i + (e & 1)) * 68 + 8 * (e >> 1)] = c[4 * i + e];
        spare[i * 128 + threadIdx.x] = {c[4 * i], c[4 * i + 1], c[4 * i + 2], c[4 * i + 3]};
    }
}

// V's top block from where wide_finish_top left it.
QRS_DEV void wide_give_top(float (&c)[32], const wide_shared *s)
{
    if (wide_group() != 0)
        return;
    const float *at = s->gram + wide_row(0) * 68 + wide_column(0);
    #pragma unroll
    for (int i = 0; i < 32; i++)
        c[i] = at[(8 * (i >> 2) + (i & 1)) * 68 + 8 * (i >> 1 & 1)];
}

// s->down and s->up from tiles begin .. tiles-1. Synchronises.
QRS_DEV void wide_measure(const wide_tile &c, int begin, int tiles, wide_shared *s)
{
    const int wg = wide_group();
    float most[2] = {0.0f, 0.0f}; // NaN goes by, but not by the recursion's test
    #pragma unroll
    for (int j = 0; j < ${J}; j++)
        if (2 * j + wg >= begin && 2 * j + wg < tiles)
            #pragma unroll
            for (int i = 0; i < 32; i++)
                most[i >> 1 & 1] = fmaxf(most[i >> 1 & 1], fabsf(c[j][i]));
    #pragma unroll
    for (int h = 0; h < 2; h++) {
        const u32 all = wide_most(as_u32(most[h]));
        if ((lane() & 3) == 0)
            s->columns.most[wg][wide_column(h)] = all;
    }
    block_sync();
    if (threadIdx.x < 64) {
        const u32 u = s->columns.most[0][threadIdx.x], d = s->columns.most[1][threadIdx.x];
        wide_set_shift(s, threadIdx.x, wide_shift(as_f32(u > d ? u : d)));
    }
    block_sync();
}

// Tiles begin .. tiles-1 to shared memory as fp16 pairs, times 2^-shift; X'X of them to s->gram. Without `low` there are no low halves. The registers go
// round, so that one body does for all tiles; c is lost. Synchronises after.
QRS_DEV void wide_pack(wide_tile &c, u8 *v, int begin, int tiles, bool low, wide_shared *s)
{
    const int wg = wide_group();
    const float f[2] = {s->down[wide_column(0)], s->down[wide_column(1)]};
    const u32 mask = low ? ~0u : 0u;
    const saddr sv = to_saddr(v);
    float d[32];
    #pragma unroll
    for (int i = 0; i < 32; i++)
        d[i] = 0.0f;
    #pragma unroll 1
    for (int t = wg; t < tiles; t += 2) {
        if (t >= begin) {
            const saddr at = sv + t * 8192;
            u32 a[4][4], al[4][4];
            #pragma unroll
            for (int step = 0; step < 4; step++) {
                wide_operand(c[0], step, f[0], f[1], a[step], al[step]);
                #pragma unroll
                for (int i = 0; i < 4; i++)
                    al[step][i] &= mask;
                stmatrix_x4_trans(at + wide_place(step), a[step]);
                stmatrix_x4_trans(at + ${NT * 8192} + wide_place(step), al[step]);
            }
            fence_async_shared();
            bar_sync(2 + wg, 128); // this warpgroup alone multiplies the tile
            const u32 b = wide_desc(at);
            wgmma_hold(d);
            if (low) {
                wgmma_fence();
                #pragma unroll
                for (int step = 0; step < 4; step++)
                    wide_product<true, true>(d, a[step], al[step], wide_further(b, step * 2048));
                wgmma_commit();
                wgmma_wait<0>(d);
            } else {
                wgmma_fence();
                #pragma unroll
                for (int step = 0; step < 4; step++)
                    wide_product<false, true>(d, a[step], al[step], wide_further(b, step * 2048));
                wgmma_commit();
                wgmma_wait<0>(d);
            }
        }
        wide_turn(c);
    }
    // The second warpgroup's share through shared memory, added by the first and scaled back.
    f32x4 *x = (f32x4 *)s->half + (threadIdx.x & 127);
    if (wg == 1) {
        #pragma unroll
        for (int i = 0; i < 8; i++)
            x[i * 128] = {d[4 * i], d[4 * i + 1], d[4 * i + 2], d[4 * i + 3]};
    }
    block_sync();
    if (wg == 0) {
        const float up[2] = {s->up[wide_column(0)], s->up[wide_column(1)]};
        #pragma unroll
        for (int i = 0; i < 8; i++) {
            const f32x4 o = x[i * 128];
            const f32x2 both = *(const f32x2 *)&s->up[wide_row(i)];
            float *to = s->gram + wide_column(0) * 68 + wide_row(i);
            *(f32x2 *)to = {(d[4 * i] + o.x) * (up[0] * both.x), (d[4 * i + 1] + o.y) * (up[0] * both.y)};
            *(f32x2 *)(to + 8 * 68) = {(d[4 * i + 2] + o.z) * (up[1] * both.x), (d[4 * i + 3] + o.w) * (up[1] * both.y)};
        }
    }
    block_sync();
}

// What wide_pack made of a tile, back. f: s->up of the thread's two columns.
QRS_DEV void wide_unpack(float (&x)[32], saddr tile, const float (&f)[2])
{
    #pragma unroll
    for (int step = 0; step < 4; step++) {
        u32 hi[4], lo[4];
        ldmatrix_x4_trans(hi, tile + wide_place(step));
        ldmatrix_x4_trans(lo, tile + ${NT * 8192} + wide_place(step));
        #pragma unroll
        for (int i = 0; i < 4; i++) {
            float y[4];
            unpack_f16(hi[i], y[0], y[1]);
            unpack_f16(lo[i], y[2], y[3]);
            x[8 * step + 2 * i] = (y[0] + y[2]) * f[i & 1];
            x[8 * step + 2 * i + 1] = (y[1] + y[3]) * f[i & 1];
        }
    }
}
% if WEIGH then
// All of it, but for the top block, to c.
QRS_DEV void wide_restore(wide_tile &c, u8 *v, int tiles, const wide_shared *s)
{
    const float f[2] = {s->up[wide_column(0)], s->up[wide_column(1)]};
    #pragma unroll 1
    for (int t = wide_group(); t < ${2 * J}; t += 2) { // the registers go round
        float x[32];
        #pragma unroll
        for (int i = 0; i < 32; i++)
            x[i] = 0.0f;
        if (t > 0 && t < tiles)
            wide_unpack(x, to_saddr(v) + t * 8192, f);
        wide_turn(c);
        #pragma unroll
        for (int i = 0; i < 32; i++)
            c[${J - 1}][i] = x[i];
    }
}
% end

// M, where gram_pair leaves it, to s->half as fp16 pairs, a column a row of 128 bytes. Its rows take P2's powers of two, its columns get their own:
// s->back takes them away again. Synchronises.
QRS_CALL void wide_pack_m(wide_shared *s)
{
    u8 *half = (u8 *)s->half;
    const int col = threadIdx.x & 63, part = threadIdx.x >> 6;
    const bool none = col < 32 && part >= 2;
    const float *from = col < 32 ? s->half : s->gram;
    float m[16];
    u32 most = 0;
    #pragma unroll
    for (int i = 0; i < 16; i++) {
        m[i] = none ? 0.0f : from[(16 * part + i) * 68 + col] * s->up[16 * part + i];
        most = wide_larger(most, m[i]);
    }
    s->columns.top[part][col] = as_f32(most);
    block_sync();
    #pragma unroll
    for (int i = 0; i < 4; i++)
        most = wide_larger(most, s->columns.top[i][col]);
    const int shift = wide_shift(as_f32(most));
    const float f = wide_power(-shift);
    if (part == 0)
        s->back[col] = wide_power(shift);
    #pragma unroll
    for (int i = 0; i < 2; i++) {
        u32 hi[4], lo[4];
        #pragma unroll
        for (int x = 0; x < 4; x++)
            split_f16(f * m[8 * i + 2 * x], f * m[8 * i + 2 * x + 1], hi[x], lo[x]);
        *(u32x4 *)(half + wide_chunk(col, 2 * part + i)) = {hi[0], hi[1], hi[2], hi[3]};
        *(u32x4 *)(half + 8192 + wide_chunk(col, 2 * part + i)) = {lo[0], lo[1], lo[2], lo[3]};
    }
    block_sync();
}

// V below the top block: P2 M from P2's planes and wide_pack_m's M, or with `rows` what wide_rows left; sums of its squares to s->columns. One body for
// all tiles: the registers go round.
QRS_DEV void wide_below(wide_tile &c, u8 *v, int tiles, bool rows, wide_shared *s)
{
    const int wg = wide_group();
    u32 a[4][4], al[4][4];
    float back[2] = {1.0f, 1.0f}, part[2][2] = {{0.0f, 0.0f}, {0.0f, 0.0f}}; // 32 short chains a column: tau is only as good as this sum
    #pragma unroll
    for (int step = 0; step < 4; step++) {
        const int l = lane(), row = ((int)warp() & 3) * 16 + (l & 15);
        const saddr at = to_saddr(s->half) + wide_chunk(row, 2 * step + (l >> 4));
        ldmatrix_x4(a[step], at);
        ldmatrix_x4(al[step], at + 8192);
    }
    if (!rows)
        back[0] = s->back[wide_column(0)], back[1] = s->back[wide_column(1)];
    #pragma unroll
    for (int j = 0; j < ${J}; j++)
        wgmma_drop(c[j]);
    const saddr sv = to_saddr(v);
    #pragma unroll 1
    for (int t = wg; t < ${2 * J}; t += 2) {
        float d[32];
        #pragma unroll
        for (int i = 0; i < 32; i++)
            d[i] = 0.0f;
        if (t > 0 && t < tiles) {
            if (rows) {
                #pragma unroll
                for (int i = 0; i < 8; i++)
                    #pragma unroll
                    for (int h = 0; h < 2; h++) {
                        const f32x2 x = wide_pair(v, t, i, h);
                        d[4 * i + 2 * h] = x.x;
                        d[4 * i + 2 * h + 1] = x.y;
                    }
            } else {
                const u32 b = wide_desc(sv + t * 8192);
                wgmma_hold(d);
                wgmma_fence();
                #pragma unroll
                for (int step = 0; step < 4; step++)
                    wide_product<true, false>(d, a[step], al[step], wide_further(b, step * 32));
                wgmma_commit();
                wgmma_wait<0>(d);
            }
        }
        wide_turn(c);
        #pragma unroll
        for (int i = 0; i < 32; i++) {
            const int h = i >> 1 & 1;
            const float x = back[h] * d[i];
            c[${J - 1}][i] = x;
            part[h][i & 1] = fmaf(x, x, part[h][i & 1]);
        }
    }
    #pragma unroll
    for (int h = 0; h < 2; h++) {
        const float square = wide_total(part[h][0] + part[h][1]);
        if ((lane() & 3) == 0)
            s->columns.sums[wg][wide_column(h)].x = square;
    }
}

// After wide_finish_top and wide_below: true when a column and its tau disagree; otherwise, or when anyway, tau becomes 2 / (v'v) of the v that is
// stored. The test is gram_panel.cuh's; from the whole Gram matrix (the first `tall` columns) a tail that adds nothing may be zero, where LAPACK has
// tau = 0. Synchronises, but for tau.
QRS_DEV bool wide_disagrees(bool anyway, int tall, wide_shared *s, float *tau)
{
    block_sync();
    float now = 0.0f;
    bool wrong = false;
    if (threadIdx.x < 64) {
        const int col = threadIdx.x;
        float square = 1.0f + (s->columns.sums[0][col].x + s->columns.sums[1][col].x +
                               ((s->columns.top[0][col] + s->columns.top[1][col]) + (s->columns.top[2][col] + s->columns.top[3][col])));
        const float was = tau[col], off = fabsf(fmaf(0.5f * was, square, -1.0f));
        const float left = sqrt_rn(warp_max(fmaxf(s->whole[lane()], s->whole[lane() + 32])));
        const float limit = col < tall ? ${TALL} : ${LIMIT};
        wrong = !(was == 0.0f || ((square > 1.0f || col >= tall) && off <= ${LOOSE} && off * fminf(0x1p-6f * left, 1.0f) <= limit));
        now = was == 0.0f ? 0.0f : div_rn(2.0f, square);
    }
    if (block_any(wrong) && !anyway)
        return true;
    if (threadIdx.x < 64)
        tau[threadIdx.x] = now;
    return false;
}

// The panel once more, one column after another: P2 back from its planes (exactly what the Gram recursion saw), the top block from spare, then a warp
// holds every eighth column in registers, four adjacent rows a lane, and the column at work goes round through shared memory.
// A warp's columns move up as they are finished, so that its next one is always number 0. Leaves V there for wide_below, s->rv and tau as the
// recursion does. Synchronises.
QRS_CALL void wide_rows(u8 *v, int tiles, const f32x4 *spare, wide_shared *s, float *tau)
{
    const int wg = wide_group(), w = warp(), l = lane();
    {
        const saddr sv = to_saddr(v);
        const float f[2] = {s->up[wide_column(0)], s->up[wide_column(1)]};
        #pragma unroll 1
        for (int tile = wg; tile < tiles; tile += 2) {
            float x[32];
            wide_unpack(x, sv + tile * 8192, f);
            if (tile == 0)
                #pragma unroll
                for (int i = 0; i < 8; i++) {
                    const f32x4 y = spare[i * 128 + (threadIdx.x & 127)];
                    x[4 * i] = y.x, x[4 * i + 1] = y.y, x[4 * i + 2] = y.z, x[4 * i + 3] = y.w;
                }
            bar_sync(2 + wg, 128);
            #pragma unroll
            for (int i = 0; i < 8; i++)
                #pragma unroll
                for (int h = 0; h < 2; h++)
                    wide_pair(v, tile, i, h) = {x[4 * i + 2 * h], x[4 * i + 2 * h + 1]};
        }
    }
    block_sync();

    float y[8][${J}][4];
    #pragma unroll
    for (int n = 0; n < 8; n++)
        #pragma unroll
        for (int r = 0; r < ${J}; r++) {
            const int row = 128 * r + 4 * l;
            const f32x4 x = row < 64 * tiles ? wide_four(v, 8 * n + w, row) : f32x4{0.0f, 0.0f, 0.0f, 0.0f};
            y[n][r][0] = x.x, y[n][r][1] = x.y, y[n][r][2] = x.z, y[n][r][3] = x.w;
        }
    // A warp that is to give the next column updates that one first, and its others when it has; it finds out by a barrier a warp. The eight places where
    // columns go round suffice: who writes to one again has read a column of every other warp since, and they had read this one by then.
    const saddr given = to_saddr(dynamic_smem()) + ${O_GIVEN};
    float x[${J}][4], f = 0.0f;
    #pragma unroll
    for (int r = 0; r < ${J}; r++)
        #pragma unroll
        for (int e = 0; e < 4; e++)
            x[r][e] = 0.0f;
    #pragma unroll 1
    for (int step = 0; step < 64; step++) {
        const int who = step & 7, last = step - 1;
        if (who == 0 && step > 0) // every warp has given its first
            #pragma unroll
            for (int n = 0; n < 8; n++)
                #pragma unroll
                for (int r = 0; r < ${J}; r++)
                    #pragma unroll
                    for (int e = 0; e < 4; e++)
                        y[n][r][e] = n < 7 ? y[n + 1][r][e] : 0.0f;
        if (step > 0) {
            const float *u = s->half + (last & 7) * ${128 * J + 4}; // the column, from its pivot on, and the factor its products take
            mbar_wait(given + 8 * (last & 7), last >> 3 & 1);
            f = u[${128 * J}];
            #pragma unroll
            for (int r = 0; r < ${J}; r++) {
                const f32x4 four = *(const f32x4 *)(u + 128 * r + 4 * l);
                x[r][0] = four.x, x[r][1] = four.y, x[r][2] = four.z, x[r][3] = four.w;
            }
        }
        if (w == who) {
            float part[2] = {0.0f, 0.0f};
            #pragma unroll
            for (int r = 0; r < ${J}; r++)
                #pragma unroll
                for (int e = 0; e < 4; e++)
                    part[e & 1] = fmaf(x[r][e], y[0][r][e], part[e & 1]);
            const float t = f * warp_sum(part[0] + part[1]);
            float squares = 0.0f, most = 0.0f, raw = 0.0f;
            #pragma unroll
            for (int r = 0; r < ${J}; r++)
                #pragma unroll
                for (int e = 0; e < 4; e++) {
                    const int row = 128 * r + 4 * l + e;
                    y[0][r][e] = fmaf(-t, x[r][e], y[0][r][e]);
                    const float tail = row > step ? y[0][r][e] : 0.0f;
                    squares = fmaf(tail, tail, squares);
                    most = fmaxf(most, fabsf(tail));
                    if (r == 0)
                        raw = row == step ? y[0][r][e] : raw;
                }
            raw = shfl(raw, step >> 2);
            squares = warp_sum(squares);
            power_of_two shrink = {1.0f, 1.0f}, grow = {1.0f, 1.0f};
            bool zero = false;
            if (squares < QRS_TINY_SQUARES * 0x1p12f) { // rare
                most = warp_max(most);
                zero = most == 0.0f;
                if (!zero && is_finite(raw)) {
                    const int ex = pow2_exponent(fmaxf(most, fabsf(raw)));
                    shrink = make_power_of_two(-ex);
                    grow = make_power_of_two(ex);
                    squares = 0.0f;
                    #pragma unroll
                    for (int r = 0; r < ${J}; r++)
                        #pragma unroll
                        for (int e = 0; e < 4; e++) {
                            const float tail = 128 * r + 4 * l + e > step ? times(shrink, y[0][r][e]) : 0.0f;
                            squares = fmaf(tail, tail, squares);
                        }
                    squares = warp_sum(squares);
                }
            }
            const reflector h = zero ? no_reflector(raw) : make_reflector(times(shrink, raw), squares);
            float *u = s->half + who * ${128 * J + 4};
            warp_sync(); // its other lanes have read the factor that lane 0 writes again
            #pragma unroll
            for (int r = 0; r < ${J}; r++) {
                const int row = 128 * r + 4 * l;
                float given_row[4], kept[4];
                #pragma unroll
                for (int e = 0; e < 4; e++) {
                    const float tail = times(shrink, y[0][r][e]);
                    given_row[e] = row + e > step ? tail : row + e == step ? h.gap : 0.0f;
                    kept[e] = row + e > step ? tail * h.rho : row + e == step ? (zero ? raw : times(grow, h.beta)) : y[0][r][e];
                }
                *(f32x4 *)(u + row) = {given_row[0], given_row[1], given_row[2], given_row[3]};
                if (row < 64 * tiles)
                    wide_four(v, step, row) = {kept[0], kept[1], kept[2], kept[3]};
            }
            if (l == 0) {
                u[${128 * J}] = h.step * h.rho;
                tau[step] = h.tau;
            }
            warp_sync();
            if (l < WIDE_GIVERS)
                mbar_arrive(given + 8 * who);
        }
        #pragma unroll
        for (int half = 0; half < 8; half += 4) {
            if (half > 0 && step >= 32) // four columns are left at most
                continue;
            float dot[4];
            #pragma unroll
            for (int n = 0; n < 4; n++) {
                float part[2] = {0.0f, 0.0f};
                #pragma unroll
                for (int r = 0; r < ${J}; r++)
                    #pragma unroll
                    for (int e = 0; e < 4; e++)
                        part[e & 1] = fmaf(x[r][e], y[half + n][r][e], part[e & 1]);
                dot[n] = part[0] + part[1];
            }
            #pragma unroll
            for (int mask = 16; mask > 0; mask >>= 1)
                #pragma unroll
                for (int n = 0; n < 4; n++)
                    dot[n] += shfl_xor(dot[n], mask);
            #pragma unroll
            for (int n = 0; n < 4; n++) {
                const float t = f * dot[n];
                #pragma unroll
                for (int r = 0; r < ${J}; r++)
                    #pragma unroll
                    for (int e = 0; e < 4; e++)
                        y[half + n][r][e] = fmaf(-t, x[r][e], y[half + n][r][e]);
            }
        }
    }
    mbar_wait(given + 56, 1); // of the last column, for the barrier's next round
    block_sync();
    #pragma unroll 1
    for (int i = 4 * (threadIdx.x >> 6); i < 64; i += 16) {
        const f32x4 x = wide_four(v, threadIdx.x & 63, i);
        float *at = s->rv + i * 68 + (threadIdx.x & 63);
        at[0] = x.x, at[68] = x.y, at[136] = x.z, at[204] = x.w;
    }
    block_sync();
}

// T of 64 columns: its blocks of 32 at once, each by a warp, then T12 = -T11 (G12 T22), with G12 T22 in G12's place. gram: V'V, symmetric; t: rows 68
// apart. In two halves, so that something can be sent for between. The second synchronises.
QRS_DEV void wide_begin_t(float *gram, const float *tau, float *t)
{
    if (warp() < 2)
        small_t(gram + (int)warp() * 32 * 69, tau + (int)warp() * 32, t + (int)warp() * 32 * 69);
    else if (warp() >= 4) { // below them there is nothing
        f32x4 *below = (f32x4 *)(t + (32 + (((int)threadIdx.x & 127) >> 2)) * 68 + ((int)threadIdx.x & 3) * 8);
        below[0] = below[1] = {0.0f, 0.0f, 0.0f, 0.0f};
    }
}
QRS_DEV void wide_build_t(float *gram, float *t)
{
    const bool mine = warp() < 4;
    #pragma unroll 1
    for (int op = 0; op < 2; op++)
        gram_product(!mine ? nullptr : op ? t + 32 : gram + 32, nullptr, op ? t : gram + 32, false, op ? gram + 32 : t + 32 * 69, op ? -1.0f : 1.0f, 1, 256);
}

// fp16 T as tiles, swizzled like V's, the low one 8 KB after the high one.
QRS_DEV void wide_put_t(const float *t, u8 *to)
{
    #pragma unroll 2
    for (int e = threadIdx.x; e < 2048; e += 256) {
        const int i = e >> 5, j = (e & 31) * 2, at = wide_chunk(i, j >> 3) + (j & 7) * 2;
        u32 hi, lo;
        split_f16(t[i * 68 + j], t[i * 68 + j + 1], hi, lo);
        *(u32 *)(to + at) = hi;
        *(u32 *)(to + 8192 + at) = lo;
    }
}

% local inside = (M % 64 ~= 0 and " && 64 * k + row < " .. M or "") .. (N % 64 ~= 0 and " && 64 * k + col < " .. N or "")
// The top block of panel k, finished, from s->rv to H; to s->gram as V's, with its ones and zeros, and sums of squares of what is below the ones.
QRS_CALL void wide_finish_top(float *out, i64 ldh, int k, const int *exponent, wide_shared *s)
{
    const int col = threadIdx.x & 63, part = threadIdx.x >> 6;
% if OUT == "row" then
    const power_of_two f = make_power_of_two(exponent[col] - QRS_LIFT);
    out += (64 * k + part) * ldh + 64 * k + col;
% else
    #pragma unroll 4
    for (int e = threadIdx.x; e < 4096; e += 256) {
        const int row = e & 63, col = e >> 6;
        const power_of_two f = make_power_of_two(row > col ? 0 : exponent[col] - QRS_LIFT);
        if (true${inside})
            out[(64 * k + col) * ldh + 64 * k + row] = times(f, s->rv[row * 68 + col]);
    }
% end
    float square = 0.0f;
    #pragma unroll 4
    for (int i = 0; i < 16; i++) {
        const int row = 4 * i + part, at = row * 68 + col;
        const float y = s->rv[at], x = row > col ? y : 0.0f;
        s->gram[at] = row == col ? 1.0f : x;
        square = fmaf(x, x, square);
% if OUT == "row" then
        if (true${inside})
            *out = row > col ? y : times(f, y);
        out += 4 * ldh;
% end
    }
    s->columns.top[part][col] = square;
}

% if WEIGH then
// Whether the top block has more than seven eighths of a column's square (G being that of all rows). Synchronises.
QRS_DEV bool wide_leans(wide_shared *s)
{
    const int tid = threadIdx.x;
    gram_top_squares(s);
    block_sync();
    bool leans = false;
    if (tid < 64)
        leans = !((s->columns.top[0][tid] + s->columns.top[1][tid]) + (s->columns.top[2][tid] + s->columns.top[3][tid]) <= 0.875f * s->gram[tid * 69]);
    return shfl((int)block_any(leans), 0);
}

% end
// What need not be waited for: half `second` of the rows above a panel go to H; after them, L2 is asked for the next block.
QRS_DEV void wide_meanwhile(bool second, int thread, int threads)
{
    const wide_shared *s = (const wide_shared *)(dynamic_smem() + ${O_X});
    const wide_away &away = s->away;
% if OUT == "row" then
    const int rows = 32 * away.k, begin = second ? rows : 0;
    wide_leave(dynamic_smem() + wide_aside(away.k, second), s->out, away.out, away.ldh, 2 * rows, begin, begin + rows, thread, threads);
% end
    if (second && away.next)
        wide_prefetch(away.next, away.lda, away.first, thread, threads);
}
struct wide_beside { // gram_whole.cuh
    QRS_DEV static void run(bool second) { wide_meanwhile(second, (int)threadIdx.x & 127, 128); }
};

// Writes block k = away.k to H, and before that, with `panel`, factors it from tile k down: tau to shared memory, V's planes, with the low one if `low`, on
// their way to scratch when some block comes `later`. t: T's place, until then the top block's for a second attempt. Returns true when the Gram recursion did
// not do. Synchronises before.
QRS_DEV bool wide_panel(wide_tile &c, const wide_stage &stage, const wide_away &away, bool panel, const int *exponent, u8 *v, u8 *t, bool later, bool low, wide_shared *s,
                        float *tau)
{
    const int k = away.k;
    float *const out = away.out;
    const i64 ldh = away.ldh;
    const int steps = ${K} - 64 * k < 64 ? ${K} - 64 * k : 64, tiles = panel ? ${NT} - k : 0, turn = k < ${KP} ? k : 0;
    // For how many columns, the first, their whole Gram matrix will do.
    ${WEIGH and "" or "const "}int tall = ${WHOLE and M .. " - 64 * k >= 128 ? 64 : " or ""}${LAST and "k == " .. NT - 1 .. " ? 32 : " or ""}0;
    bool rows = false;
    if (!panel && away.next)
        wide_prefetch(away.next, away.lda, away.first, threadIdx.x, 256);
    block_sync(); // everybody is done with the update, and knows the exponents
    #pragma unroll
    for (int h = 0; h < 2; h++) {
        const float f = wide_apply(c, h, exponent[wide_column(h)] - QRS_LIFT, tiles);
        if ((lane() & 3) == 0 && threadIdx.x < 128)
            s->out[wide_column(h)] = f;
    }
    // First R above the panel, P2 and its Gram matrix, then V and its own, by the same code.
    #pragma unroll 1
    for (int pass = 0; pass < 2; pass++) {
        const bool above = panel && pass == 0;
        const int begin = pass ? 64 * k + 64 : 0, end = above ? 64 * k : ${NT * 64};
        wide_lay(c, v, turn, begin, end${OUT == "row" and ", above ? k : -1" or ""});
        block_sync();
        if (${OUT == "row" and "!above" or "begin < end"}) {
            wide_leave(v, s->out, out, ldh, 64 * k, begin, end, threadIdx.x, 256);
            block_sync();
        }
        if (!panel || (pass && !later))
            return rows;
        if (pass == 0) {
            wide_take_top(c[0], s->rv, (f32x4 *)t);
            if (threadIdx.x == 0)
                s->away = away;
        }
% if WEIGH then
        #pragma unroll 1
        for (;;) { // once more without the top block, if that is where the weight is
            if (pass == 0)
                wide_measure(c, tall ? 0 : 1, tiles, s);
            wide_pack(c, v, tall || pass ? 0 : 1, tiles, pass == 0 || shfl((int)low, 0), s);
            if (pass || !tall || !wide_leans(s))
                break;
            tall = 0;
            wide_restore(c, v, tiles, s);
        }
% else
        if (pass == 0)
            wide_measure(c, tall ? 0 : 1, tiles, s);
        wide_pack(c, v, ${WHOLE and "tall || pass ? 0 : 1" or "1 - pass"}, tiles, pass == 0 || shfl((int)low, 0), s);
% end
        if (pass)
            break;
        bool good;
% if WHOLE then
        if (tall) {
            good = gram_whole<wide_beside>(s->rv, s->gram, s->half, s->whole, &s->recursion, (gram_narrow_pivots *)(t + 16384), tau, steps,
                                           tall == 32);
        } else
% end
        {
            #pragma unroll 1
            for (int second = 0; second < 2; second++)
                wide_meanwhile(second, threadIdx.x, 256);
            good = gram_pair(s, tau, steps, k == ${NT - 1});
        }
        rows = block_any(!good);
        #pragma unroll 1
        for (int attempt = 0; attempt < 2; attempt++) {
            if (shfl((int)rows, 0))
                wide_rows(v, tiles, (const f32x4 *)t, s, tau);
            else
                wide_pack_m(s);
            wide_finish_top(out, ldh, k, exponent, s);
            wide_below(c, v, tiles, shfl((int)rows, 0), s);
            if (!wide_disagrees(rows, tall, s, tau))
                break;
            rows = true;
        }
        wide_give_top(c[0], s);
        if (threadIdx.x < 64) {
            wide_set_shift(s, threadIdx.x, -QRS_LIFT);
            s->out[threadIdx.x] = 1.0f;
        }
        block_sync();
    }
    wide_keep_v(stage, k, low);
    return rows;
}
