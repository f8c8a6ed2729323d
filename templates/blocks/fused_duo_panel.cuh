// A panel of 32 columns of fused_duo.cuh: Gram recursion, everything tall by warpgroup products, and a column-by-column way to fall back to.
//
// Parameters: M, N, K; NT, TW, PLANE; LIMIT; shared memory places. What the panel keeps beside V lies where updates keep C and the exchange:
// Regions of that place, in time: G's and V'V's parts (16 KB), where R and V's top block, M and the recursion's buffers are between the two; the
// top block as it was; G, then M in fp16.
#define DUO_EXCHANGE 0
#define DUO_RV       0
#define DUO_M        4608
#define DUO_BUFFERS  9728
#define DUO_TOP      16384
#define DUO_GRAM     21504
// and while T is made
#define DUO_T        0
#define DUO_T_FIRST  4096
#define DUO_MIDDLE   8192
#define DUO_VV       16384
#define DUO_VV_FIRST 21504
QRS_DEV float *duo_at(int place) { return (float *)(dynamic_smem() + ${O_C} + place); }

// Exponent that brings `most` to [32, 64), bounded so that its powers of two are normal.
QRS_DEV int duo_shift(float most)
{
    const int e = most > 0.0f && is_finite(most) ? pow2_exponent(most) - 5 : 0;
    return e < -120 ? -120 : e > 120 ? 120 : e;
}
QRS_DEV float duo_power(int e) { return as_f32((u32)(127 + e) << 23); }

// Whether this warp's rows of a tile lie below the panel's top block (they all do, or none).
QRS_DEV bool duo_below(int tile, int k) { return tile > k >> 1 || (tile == k >> 1 && !(k & 1) && (warp() & 3) >= 2); }

// A warpgroup's part of a 64 x 32 sum, columns XORed by 8 (row % 4).
QRS_DEV void duo_part(const float (&d)[16])
{
    float *to = duo_at(DUO_EXCHANGE) + duo_group() * 2048;
    #pragma unroll
    for (int h = 0; h < 2; h++)
        #pragma unroll
        for (int i = 0; i < 4; i++) {
            const int row = duo_row() + 8 * h;
            *(f32x2 *)(to + row * 32 + ((8 * i + duo_column()) ^ ((row & 3) << 3))) = {d[4 * i + 2 * h], d[4 * i + 2 * h + 1]};
        }
}
QRS_DEV float duo_total(int row, int col)
{
    const float *at = duo_at(DUO_EXCHANGE) + row * 32 + (col ^ ((row & 3) << 3));
    return at[0] + at[2048];
}

// The rows below the top block as fp16 pairs, each column times a power of two of its own, and their Gram matrix. The planes lie as V's do, the low one in
// the second plane's place. Also keeps the top block, and its columns' squares in s->whole. Synchronises.
QRS_DEV void duo_gram(const duo_tile &c, int k, duo_shared *s)
{
    const int wg = duo_group(), l = lane(), pair = k >> 1, odd = k & 1;
    float v[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
    float *top = duo_at(DUO_TOP);
    #pragma unroll
    for (int j = 0; j < ${TW}; j++) {
        const int tile = 2 * j + wg;
        if (duo_below(tile, k)) // NaN goes by, but not by the recursion's test
            #pragma unroll
            for (int i = 0; i < 16; i++)
                v[(i >> 2) * 2 + (i & 1)] = fmaxf(v[(i >> 2) * 2 + (i & 1)], fabsf(c[j][i]));
        if (tile == pair && ((int)warp() >> 1 & 1) == odd)
            #pragma unroll
            for (int i = 0; i < 4; i++)
                #pragma unroll
                for (int h = 0; h < 2; h++)
                    *(f32x2 *)(top + ((duo_row() & 31) + 8 * h) * 36 + 8 * i + duo_column()) = {c[j][4 * i + 2 * h], c[j][4 * i + 2 * h + 1]};
    }
    s->part[warp()][duo_of(l)] = duo_gather(v, duo_larger());
    block_sync();
    float most = 0.0f;
    #pragma unroll
    for (int w = 0; w < 8; w++)
        most = fmaxf(most, s->part[w][l]);
    const int shift = duo_shift(most);
    if (warp() == 0)
        s->up[l] = duo_power(shift);
    duo_spread(duo_power(-shift), v);
    if (warp() == 7) {
        float sum = 0.0f;
        #pragma unroll 8
        for (int i = 0; i < 32; i++)
            sum = fmaf(top[i * 36 + l], top[i * 36 + l], sum);
        s->whole[l] = sum;
    }
    const saddr sv = to_saddr(dynamic_smem()) + ${O_V};
    const duo_spots to = duo_find(sv + wg * 4096);
    #pragma unroll
    for (int j = 0; j < ${TW}; j++) {
        const int tile = 2 * j + wg;
        if (tile >= pair + odd && tile < ${NT}) {
            const bool below = duo_below(tile, k);
            #pragma unroll
            for (int i = 0; i < 4; i++)
                #pragma unroll
                for (int h = 0; h < 2; h++) {
                    u32 hi, lo;
                    duo_split(v[2 * i] * c[j][4 * i + 2 * h], v[2 * i + 1] * c[j][4 * i + 2 * h + 1], hi, lo);
                    sts(to.at[i] + j * 8192 + 512 * h, below ? hi : 0u);
                    sts(to.at[i] + j * 8192 + ${PLANE} + 512 * h, below ? lo : 0u);
                }
        }
    }
    fence_async_shared();
    bar_sync(2 + wg, 128); // this warpgroup alone multiplies its tiles
    // Rows 0..31: hi'hi, rows 32..63: lo'hi, whose transpose is the third term.
    float d[16];
    #pragma unroll
    for (int i = 0; i < 16; i++)
        d[i] = 0.0f;
    const int w = (int)warp() & 3;
    const saddr from = sv + (w >> 1) * ${PLANE} + duo_across(0, 2 * (w & 1));
    const u64 b0 = duo_desc(sv);
    #pragma unroll 1
    for (int tile = pair + odd + (pair + odd + wg & 1); tile < ${NT}; tile += 2) {
        u32 a[4][4];
        #pragma unroll
        for (int e = 0; e < 4; e++)
            ldmatrix_x4_trans(a[e], from + tile * 4096 + e * 1024);
        wgmma_hold(d);
        wgmma_fence();
        #pragma unroll
        for (int e = 0; e < 4; e++)
            wgmma_f16_rs<32, true>(d, a[e][0], a[e][1], a[e][2], a[e][3], duo_further(b0, tile * 4096 + e * 1024), true);
        wgmma_commit();
        wgmma_wait<0>(d);
    }
    duo_part(d);
    block_sync();
    float *gram = duo_at(DUO_GRAM);
    #pragma unroll
    for (int i = (int)warp(); i < 32; i += 8)
        gram[i * 36 + l] = (duo_total(i, l) + (duo_total(32 + i, l) + duo_total(32 + l, i))) * (s->up[i] * s->up[l]);
    block_sync();
}

// M to fp16 pairs, a column a row of 64 bytes. Its rows take P2's powers of two, its columns get their own: s->back takes them away again. Synchronises.
QRS_CALL void duo_pack_m(duo_shared *s)
{
    u8 *half = (u8 *)duo_at(DUO_GRAM);
    const int l = lane(), w = warp();
    const float *from = duo_at(DUO_M) + l;
    float m[4], most = 0.0f;
    #pragma unroll
    for (int i = 0; i < 4; i++) {
        m[i] = from[(4 * w + i) * 40] * s->up[4 * w + i];
        most = duo_larger()(most, fabsf(m[i]));
    }
    s->part[w][l] = most;
    block_sync();
    #pragma unroll
    for (int i = 0; i < 8; i++)
        most = duo_larger()(most, s->part[i][l]);
    const int shift = duo_shift(most);
    const float f = duo_power(-shift);
    if (w == 0)
        s->back[l] = duo_power(shift);
    u32x2 hi, lo;
    duo_split(f * m[0], f * m[1], hi.x, lo.x);
    duo_split(f * m[2], f * m[3], hi.y, lo.y);
    const int at = duo_chunk(l, w >> 1) + (w & 1) * 8;
    *(u32x2 *)(half + at) = hi;
    *(u32x2 *)(half + 2048 + at) = lo;
    fence_async_shared();
    block_sync();
}

// A panel in shared memory as fp32, a tile's columns 0..15 in the place of its first plane, the others in the second's. A column's 64 rows adjoin but for a
// swizzle, which lets a warp touch 8 columns x 4 rows, or whole columns four rows a lane, without bank conflicts.
QRS_DEV float *duo_line(int col, int row) { return (float *)(dynamic_smem() + ${O_V} + (col >> 4) * ${PLANE} + (row >> 6) * 4096) + (col & 15) * 64; }
QRS_DEV int duo_flip(int col) { return (col >> 1 & 3) << 3 | (col & 1) << 2; } // of bits 2..4 of the row
QRS_DEV f32x4 &duo_four(int col, int row) { return *(f32x4 *)(duo_line(col, row) + ((row & 63) ^ duo_flip(col))); }
QRS_DEV float &duo_one(int col, int row) { return duo_line(col, row)[(row & 63) ^ duo_flip(col)]; }

// The panel once more, one column after another: P2 back from its planes (exactly what the Gram recursion saw), the top block as it was, then a warp
// holds every eighth column in registers, four adjacent rows a lane, and the column at work goes round through shared memory, a barrier a column.
// Columns rotate through the registers, so that the next one is always number 0. Leaves V there for duo_finish, R and V's top block and tau
// where the recursion does. Synchronises.
QRS_CALL void duo_rows(int k, duo_shared *s)
{
    const int wg = duo_group(), w = warp(), l = lane(), base = 64 * (k >> 1), pivot = 32 * k - base;
    const saddr sv = to_saddr(dynamic_smem()) + ${O_V};
    const float *top = duo_at(DUO_TOP);
    #pragma unroll 1
    for (int tile = (k >> 1) + ((k >> 1) + wg & 1); tile < ${NT}; tile += 2) {
        float x[16];
        #pragma unroll
        for (int i = 0; i < 16; i++)
            x[i] = 0.0f;
        if (duo_below(tile, k)) {
            #pragma unroll
            for (int i = 0; i < 2; i++) {
                u32 hi[4], lo[4];
                const saddr from = sv + tile * 4096 + duo_along(16 * (w & 3), 2 * i);
                ldmatrix_x4(hi, from);
                ldmatrix_x4(lo, from + ${PLANE});
                #pragma unroll
                for (int e = 0; e < 4; e++) { // rows 8 (e & 1) further, columns 8 (e >> 1)
                    float y[4];
                    unpack_f16(hi[e], y[0], y[1]);
                    unpack_f16(lo[e], y[2], y[3]);
                    const int at = 8 * i + 4 * (e >> 1) + 2 * (e & 1), col = 16 * i + 8 * (e >> 1) + duo_column();
                    x[at] = (y[0] + y[2]) * s->up[col];
                    x[at + 1] = (y[1] + y[3]) * s->up[col + 1];
                }
            }
        } else if (tile == k >> 1 && (w >> 1 & 1) == (k & 1)) {
            #pragma unroll
            for (int i = 0; i < 4; i++)
                #pragma unroll
                for (int h = 0; h < 2; h++) {
                    const f32x2 y = *(const f32x2 *)(top + ((duo_row() & 31) + 8 * h) * 36 + 8 * i + duo_column());
                    x[4 * i + 2 * h] = y.x;
                    x[4 * i + 2 * h + 1] = y.y;
                }
        }
        bar_sync(2 + wg, 128);
        #pragma unroll
        for (int i = 0; i < 16; i++)
            duo_one(8 * (i >> 2) + duo_column() + (i & 1), 64 * tile + duo_row() + 8 * (i >> 1 & 1)) = x[i];
    }
    block_sync();

    float y[4][${TW}][4];
    #pragma unroll
    for (int n = 0; n < 4; n++)
        #pragma unroll
        for (int r = 0; r < ${TW}; r++) {
            const int row = base + 128 * r + 4 * l;
            const f32x4 x = row < ${64 * NT} ? duo_four(8 * n + w, row) : f32x4{0.0f, 0.0f, 0.0f, 0.0f};
            y[n][r][0] = x.x, y[n][r][1] = x.y, y[n][r][2] = x.z, y[n][r][3] = x.w;
        }
    #pragma unroll 1
    for (int turn = 0; turn < 4; turn++) {
        #pragma unroll 1
        for (int who = 0; who < 8; who++) {
            const int col = 8 * turn + who, step = pivot + col;
            float *u = duo_at(DUO_BUFFERS) + (who & 1) * ${128 * TW + 4}; // the column, from its pivot on, and the factor its products take
            if (w == who) {
                float squares = 0.0f, most = 0.0f, raw = 0.0f;
                #pragma unroll
                for (int r = 0; r < ${TW}; r++)
                    #pragma unroll
                    for (int e = 0; e < 4; e++) {
                        const int row = 128 * r + 4 * l + e;
                        const float x = row > step ? y[0][r][e] : 0.0f;
                        squares = fmaf(x, x, squares);
                        most = fmaxf(most, fabsf(x));
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
                        for (int r = 0; r < ${TW}; r++)
                            #pragma unroll
                            for (int e = 0; e < 4; e++) {
                                const float x = 128 * r + 4 * l + e > step ? times(shrink, y[0][r][e]) : 0.0f;
                                squares = fmaf(x, x, squares);
                            }
                        squares = warp_sum(squares);
                    }
                }
                const reflector h = zero ? no_reflector(raw) : make_reflector(times(shrink, raw), squares);
                #pragma unroll
                for (int r = 0; r < ${TW}; r++) {
                    const int row = 128 * r + 4 * l;
                    float x[4], z[4];
                    #pragma unroll
                    for (int e = 0; e < 4; e++) {
                        const float tail = times(shrink, y[0][r][e]);
                        x[e] = row + e > step ? tail : row + e == step ? h.gap : 0.0f;
                        z[e] = row + e > step ? tail * h.rho : row + e == step ? (zero ? raw : times(grow, h.beta)) : y[0][r][e];
                    }
                    *(f32x4 *)(u + row) = {x[0], x[1], x[2], x[3]};
                    if (base + row < ${64 * NT})
                        duo_four(col, base + row) = {z[0], z[1], z[2], z[3]};
                }
                if (l == 0) {
                    u[${128 * TW}] = h.step * h.rho;
                    s->tau[col] = h.tau;
                }
            }
            block_sync();
            const float f = u[${128 * TW}];
            float x[${TW}][4];
            #pragma unroll
            for (int r = 0; r < ${TW}; r++) {
                const f32x4 four = *(const f32x4 *)(u + 128 * r + 4 * l);
                x[r][0] = four.x, x[r][1] = four.y, x[r][2] = four.z, x[r][3] = four.w;
            }
            float dot[4];
            #pragma unroll
            for (int n = 0; n < 4; n++) {
                float part[2] = {0.0f, 0.0f};
                #pragma unroll
                for (int r = 0; r < ${TW}; r++)
                    #pragma unroll
                    for (int e = 0; e < 4; e++)
                        part[e & 1] = fmaf(x[r][e], y[n][r][e], part[e & 1]);
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
                for (int r = 0; r < ${TW}; r++)
                    #pragma unroll
                    for (int e = 0; e < 4; e++)
                        y[n][r][e] = fmaf(-t, x[r][e], y[n][r][e]);
            }
        }
        #pragma unroll
        for (int n = 0; n < 4; n++)
            #pragma unroll
            for (int r = 0; r < ${TW}; r++)
                #pragma unroll
                for (int e = 0; e < 4; e++)
                    y[n][r][e] = n < 3 ? y[n + 1][r][e] : 0.0f;
    }
    block_sync();
    float *rv = duo_at(DUO_RV);
    #pragma unroll
    for (int i = w; i < 32; i += 8)
        rv[i * 36 + l] = duo_one(l, base + pivot + i);
    block_sync();
}

// The panel's rows of c, finished: R (times `grow`, the columns' own scale) and V's top block from where the recursion left them, V below as P2 M or, with `rows`, as duo_rows left it. Sums of V's squares
// to s->part.
QRS_DEV void duo_finish(duo_tile &c, int k, bool rows, power_of_two grow, duo_shared *s)
{
    const int wg = duo_group(), l = lane(), w = (int)warp() & 3, pair = k >> 1, odd = k & 1;
    const saddr sv = to_saddr(dynamic_smem()) + ${O_V};
    float v[8], squares[8];
    duo_spread(rows ? 1.0f : s->back[l], v);
    #pragma unroll
    for (int i = 0; i < 8; i++)
        squares[i] = 0.0f;
    const u64 b = duo_desc(to_saddr(duo_at(DUO_GRAM)));
    const float *rv = duo_at(DUO_RV);
    #pragma unroll
    for (int j = 0; j < ${TW}; j++) {
        const int tile = 2 * j + wg;
        wgmma_drop(c[j]);
        if (tile >= pair + odd && tile < ${NT}) {
            if (rows) {
                if (duo_below(tile, k))
                    #pragma unroll
                    for (int i = 0; i < 16; i++)
                        c[j][i] = duo_one(8 * (i >> 2) + duo_column() + (i & 1), 64 * tile + duo_row() + 8 * (i >> 1 & 1));
            } else {
                u32 a[2][4], al[2][4];
                #pragma unroll
                for (int e = 0; e < 2; e++) {
                    const saddr from = sv + tile * 4096 + duo_along(16 * w, 2 * e);
                    ldmatrix_x4(a[e], from);
                    ldmatrix_x4(al[e], from + ${PLANE});
                }
                wgmma_hold(c[j]);
                wgmma_fence();
                #pragma unroll
                for (int e = 0; e < 2; e++) {
                    wgmma_f16_rs<32, false>(c[j], al[e][0], al[e][1], al[e][2], al[e][3], duo_further(b, 32 * e), true);
                    wgmma_f16_rs<32, false>(c[j], a[e][0], a[e][1], a[e][2], a[e][3], duo_further(b, 2048 + 32 * e), true);
                    wgmma_f16_rs<32, false>(c[j], a[e][0], a[e][1], a[e][2], a[e][3], duo_further(b, 32 * e), true);
                }
                wgmma_commit();
                wgmma_wait<0>(c[j]);
            }
            #pragma unroll
            for (int i = 0; i < 16; i++) {
                const int n = (i >> 2) * 2 + (i & 1);
                c[j][i] *= v[n];
                squares[n] = fmaf(c[j][i], c[j][i], squares[n]);
            }
        }
    }
    // The top block last: one copy of its code, whichever tile it is in.
    if (wg == (pair & 1) && w >> 1 == odd) {
        float f1[8], f2[8], x[16];
        duo_spread(grow.first, f1);
        duo_spread(grow.second, f2);
        #pragma unroll
        for (int i = 0; i < 16; i++) {
            const int row = (duo_row() & 31) + 8 * (i >> 1 & 1), col = 8 * (i >> 2) + duo_column() + (i & 1), n = (i >> 2) * 2 + (i & 1);
            const float y = rv[row * 36 + col];
            x[i] = row > col ? y : y * f1[n] * f2[n];
            squares[n] = fmaf(row > col ? y : 0.0f, y, squares[n]);
        }
        #pragma unroll
        for (int j = 0; j < ${TW}; j++)
            if (2 * j + wg == pair)
                #pragma unroll
                for (int i = 0; i < 16; i++)
                    c[j][i] = x[i];
    }
    s->part[warp()][duo_of(l)] = duo_gather(squares, duo_sum());
}

// to = sign A B, 32 x 32 x 32, all in shared memory, `to` neither of the others; a warp forms 16 x 8.
QRS_CALL void duo_product(float *to, int ldt, const float *a, int lda, const float *b, int ldb, float sign)
{
    const int w = warp(), g = lane() >> 2, q = lane() & 3, row = (w & 1) * 16 + g, col = (w >> 1) * 8;
    float d[4] = {0.0f, 0.0f, 0.0f, 0.0f}, e[4] = {0.0f, 0.0f, 0.0f, 0.0f}; // the leading product, and the two small ones
    #pragma unroll
    for (int k = 0; k < 4; k++) {
        u32 h[4], lo[4], bh[2], bl[2];
        #pragma unroll
        for (int x = 0; x < 4; x++)
            gram_split(a[(row + (x & 1) * 8) * lda + 8 * k + q + (x >> 1) * 4], h[x], lo[x]);
        #pragma unroll
        for (int x = 0; x < 2; x++)
            gram_split(b[(8 * k + q + 4 * x) * ldb + col + g], bh[x], bl[x]);
        mma_tf32(e, h, bl[0], bl[1]);
        mma_tf32(e, lo, bh[0], bh[1]);
        mma_tf32(d, h, bh[0], bh[1]);
    }
    #pragma unroll
    for (int x = 0; x < 4; x++)
        to[(row + (x >> 1) * 8) * ldt + col + 2 * q + (x & 1)] = sign * (d[x] + e[x]);
}

// A block of T, fp32 with rows 32 apart, to its planes.
QRS_DEV void duo_put_t(const float *t, u8 *to)
{
    const int row = threadIdx.x >> 3, col = (threadIdx.x & 7) * 4, at = duo_chunk(row, col >> 3) + (col & 7) * 2;
    const f32x4 x = *(const f32x4 *)(t + row * 32 + col);
    u32x2 hi, lo;
    duo_split(x.x, x.y, hi.x, lo.x);
    duo_split(x.z, x.w, hi.y, lo.y);
    *(u32x2 *)(to + at) = hi;
    *(u32x2 *)(to + 2048 + at) = lo;
}
QRS_DEV void duo_get_t(float *t, const u8 *from)
{
    const int row = threadIdx.x >> 3, col = (threadIdx.x & 7) * 4, at = duo_chunk(row, col >> 3) + (col & 7) * 2;
    const u32x2 hi = *(const u32x2 *)(from + at), lo = *(const u32x2 *)(from + 2048 + at);
    float x[4], y[4];
    unpack_f16(hi.x, x[0], x[1]);
    unpack_f16(hi.y, x[2], x[3]);
    unpack_f16(lo.x, y[0], y[1]);
    unpack_f16(lo.y, y[2], y[3]);
    *(f32x4 *)(t + row * 32 + col) = {x[0] + y[0], x[1] + y[1], x[2] + y[2], x[3] + y[3]};
}

// V of panel k, in c, and T to shared memory and on to scratch. with_first: the pair's first panel has a V. Synchronises.
QRS_DEV void duo_keep(const duo_tile &c, duo_stage &stage, int k, bool with_first, duo_shared *s)
{
    const int wg = duo_group(), w = (int)warp() & 3, pair = k >> 1, odd = k & 1, tid = (int)threadIdx.x;
    const saddr sv = to_saddr(dynamic_smem()) + ${O_V}, own = sv + odd * ${PLANE};
    u8 *t = dynamic_smem() + ${O_T};
    const bool both = odd && with_first;
    if (both && tid == 0) { // the first panel's V once more; its T is there
        const saddr bar = to_saddr(dynamic_smem()) + ${O_BAR};
        mbar_expect(bar, (${NT} - pair) * 4096);
        bulk_load(sv + pair * 4096, duo_v_place(stage, k - 1), (${NT} - pair) * 4096, bar);
    }
    const duo_spots to = duo_find(own + wg * 4096);
    const int row = duo_row();
    #pragma unroll
    for (int j = 0; j < ${TW}; j++) {
        const int tile = 2 * j + wg;
        if (tile >= pair && tile < ${NT}) {
            #pragma unroll
            for (int i = 0; i < 4; i++)
                #pragma unroll
                for (int h = 0; h < 2; h++) {
                    const int below = 64 * tile + row + 8 * h - 32 * k, col = 8 * i + duo_column(); // the pivot row of column `below`
                    const float x = below > col ? c[j][4 * i + 2 * h] : below == col ? 1.0f : 0.0f;
                    const float y = below > col + 1 ? c[j][4 * i + 2 * h + 1] : below == col + 1 ? 1.0f : 0.0f;
                    sts(to.at[i] + j * 8192 + 512 * h, pack_f16(0x1p6f * x, 0x1p6f * y));
                }
        }
    }
    fence_async_shared();
    bar_sync(2 + wg, 128);
    if (both)
        duo_arrived(stage);
    float d[16];
    #pragma unroll
    for (int i = 0; i < 16; i++)
        d[i] = 0.0f;
    const bool have = w >> 1 ? odd : !odd || both;
    const saddr from = sv + (w >> 1) * ${PLANE} + duo_across(0, 2 * (w & 1));
    const u64 b0 = duo_desc(own);
    #pragma unroll 1
    for (int tile = pair + (pair + wg & 1); tile < ${NT}; tile += 2) {
        u32 a[4][4];
        #pragma unroll
        for (int e = 0; e < 4; e++) {
            ldmatrix_x4_trans(a[e], from + tile * 4096 + e * 1024);
            if (!have)
                a[e][0] = a[e][1] = a[e][2] = a[e][3] = 0;
        }
        wgmma_hold(d);
        wgmma_fence();
        #pragma unroll
        for (int e = 0; e < 4; e++)
            wgmma_f16_rs<32, true>(d, a[e][0], a[e][1], a[e][2], a[e][3], duo_further(b0, tile * 4096 + e * 1024), true);
        wgmma_commit();
        wgmma_wait<0>(d);
    }
    duo_part(d);
    block_sync();
    if (tid == 0) {
        bulk_store(duo_v_place(stage, k), own + pair * 4096, (${NT} - pair) * 4096);
        bulk_commit();
    }
    float *vv = duo_at(DUO_VV), *across = duo_at(DUO_VV_FIRST), *t32 = duo_at(DUO_T), *first = duo_at(DUO_T_FIRST), *middle = duo_at(DUO_MIDDLE);
    #pragma unroll
    for (int i = (int)warp(); i < 32; i += 8) {
        vv[i * 36 + lane()] = 0x1p-12f * duo_total(32 * odd + i, lane());
        if (both)
            across[i * 36 + lane()] = 0x1p-12f * duo_total(i, lane());
    }
    block_sync();
    if (warp() == 0)
        small_t(vv, s->tau, t32);
    if (both)
        duo_get_t(first, t);
    block_sync();
    if (both) { // T12 = -T11 (V1'V2 T22)
        duo_product(middle, 36, across, 36, t32, 32, 1.0f);
        block_sync();
        duo_product(vv, 32, first, 32, middle, 36, -1.0f);
        block_sync();
        duo_put_t(vv, t + 4096);
    }
    duo_put_t(t32, t + odd * 8192);
    fence_async_shared();
    block_sync();
    if (tid == 0) {
        const saddr st = to_saddr(t);
        u8 *to = duo_t_place(stage, pair);
        if (both)
            bulk_store(to + 4096, st + 4096, 8192);
        else
            bulk_store(to + odd * 8192, st + odd * 8192, 4096);
        bulk_commit();
    }
}
