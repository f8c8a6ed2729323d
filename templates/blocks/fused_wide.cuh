// Left-looking updates of a 64-column block by warpgroup products: C^T in the accumulators of two warpgroups.
//
// Parameters: M, N, K; NT = row tiles of 64; J = tiles a warpgroup; IN, OUT layouts.
// Code is short on purpose: a panel walks all of it once, and what an SM's instruction cache (128 KB) does not keep is fetched again
// for every panel, which costs more than executing it. Whatever can be a rolled loop over shared memory is one.
// Block in shared memory: fp32, where the planes of V go later, tile of 64 rows by tile of 64 rows; each tile's columns 0..31 fill the 8 KB that
// its high plane will take, the others the low plane's. A column's 64 rows adjoin but for a swizzle (wide_swizzle), which lets a warp
// touch 8 columns x 4 rows, 4 rows at a time, or whole columns without bank conflicts.
// Fragment: warpgroup wg holds row tiles 2 j + wg; c[j][4 i + e] is row (2 j + wg) 64 + 8 i + 2 q + (e & 1), column 16 w + g + 8 (e >> 1) of the block,
// with w the warp in the warpgroup, g = lane / 4, q = lane % 4. Entries past the matrix are zero.
// V of a finished panel: fp16 tiles of 64 rows x 128 bytes, 128-byte swizzle, from the panel's first row on, scaled by 2^LIFT; one such tile
// is B of both products: W^T = C^T V (rows of the tile are k: N-major) and C^T -= W'^T V^T (K-major).
#define QRS_LIFT 6
typedef float wide_tile[${J}][32];

QRS_DEV int wide_group() { return shfl((int)warp() >> 2, 0); } // a warpgroup's branches must be seen to be uniform
QRS_DEV int wide_column(int h) { return ((int)warp() & 3) * 16 + ((int)lane() >> 2) + 8 * h; }
QRS_DEV int wide_row(int i) { return 8 * i + ((int)lane() & 3) * 2; } // of a tile, first of the pair
QRS_DEV int wide_chunk(int row, int chunk) { return row * 128 + ((chunk ^ (row & 7)) << 4); }
// A descriptor counts 16 bytes: `by` bytes further is an addition (smem_desc anew each time costs registers).
QRS_DEV u64 wide_desc(saddr a) { return smem_desc(a, 128, 16, 1024); }
QRS_DEV u64 wide_further(u64 desc, int by) { return desc + (u64)(u32)(by >> 4); }

QRS_DEV void wide_split(float x, float y, u32 &hi, u32 &lo)
{
    float hx, hy;
    hi = pack_f16(x, y);
    unpack_f16(hi, hx, hy);
    lo = pack_f16(x - hx, y - hy);
}

// A fragments of k = 16 s .. 16 s + 15 from accumulators of a 64 x 64 tile, times f (by row half).
QRS_DEV void wide_operand(const float (&d)[32], int s, float f0, float f1, u32 (&hi)[4])
{
    #pragma unroll
    for (int x = 0; x < 4; x++) {
        const float f = x & 1 ? f1 : f0;
        hi[x] = pack_f16(f * d[8 * s + 2 * x], f * d[8 * s + 2 * x + 1]);
    }
}
QRS_DEV void wide_operand(const float (&d)[32], int s, float f0, float f1, u32 (&hi)[4], u32 (&lo)[4])
{
    #pragma unroll
    for (int x = 0; x < 4; x++) {
        const float f = x & 1 ? f1 : f0;
        wide_split(f * d[8 * s + 2 * x], f * d[8 * s + 2 * x + 1], hi[x], lo[x]);
    }
}

// Where lane's 16-byte row of a stmatrix_x4_trans goes that stores k step s of wide_operand into a tile.
QRS_DEV int wide_place(int s)
{
    const int l = lane();
    return wide_chunk(16 * s + (l >> 4) * 8 + (l & 7), ((int)warp() & 3) * 2 + ((l >> 3) & 1));
}

// D += A B and, with three products, the two cross terms; one k step.
template <bool SPLIT, bool TRANS>
QRS_DEV void wide_product(float (&d)[32], const u32 (&a)[4], const u32 (&al)[4], u64 b, u64 bl)
{
    if (SPLIT) {
        wgmma_f16_rs<64, TRANS>(d, al[0], al[1], al[2], al[3], b, true);
        wgmma_f16_rs<64, TRANS>(d, a[0], a[1], a[2], a[3], bl, true);
    }
    wgmma_f16_rs<64, TRANS>(d, a[0], a[1], a[2], a[3], b, true);
}

// A column of the block in shared memory; entry i counts from tile 0 of it.
struct wide_line {
    float *at;
    int swizzle;
};
QRS_DEV int wide_swizzle(int col) { return (col & 3) << 3 | (col & 4); } // flips bits 2..4 of the row
QRS_DEV wide_line wide_column_line(u8 *v, int col)
{
    return {(float *)(v + (col >> 5) * ${NT * 8192}) + (col & 31) * 64, wide_swizzle(col)};
}
QRS_DEV float &wide_entry(wide_line l, int i) { return l.at[(i >> 6) * 2048 + ((i & 63) ^ l.swizzle)]; }
QRS_DEV f32x4 &wide_four(wide_line l, int i) { return *(f32x4 *)&wide_entry(l, i); } // rows i .. i + 3, i a multiple of 4

// Rolled loops over the block: a warp takes eight columns, a thread every fourth four rows of one.
QRS_DEV int wide_mine() { return (int)warp() * 8 + ((int)lane() & 7); }
QRS_DEV int wide_start() { return ((int)lane() >> 3) * 4; }
QRS_DEV float wide_total(float x) // over a column's threads
{
    x += shfl_xor(x, 8);
    return x + shfl_xor(x, 16);
}
QRS_DEV u32 wide_most(u32 x)
{
    u32 y = shfl_xor(x, 8);
    x = x > y ? x : y;
    y = shfl_xor(x, 16);
    return x > y ? x : y;
}
// Magnitudes compare as integers, and NaN and infinity come out on top.
QRS_DEV u32 wide_largest(u32 most, f32x4 x)
{
    const float e[4] = {x.x, x.y, x.z, x.w};
    #pragma unroll
    for (int i = 0; i < 4; i++) {
        const u32 bits = as_u32(e[i]) & 0x7fffffffu;
        most = most > bits ? most : bits;
    }
    return most;
}

// A thread's places in a tile's fragment: entry i of it (a pair of rows) is at at[i & 3] + (i >> 2) * 32 + half * 512.
struct wide_places {
    float *at[4];
};
QRS_DEV wide_places wide_fragment(u8 *v)
{
    const wide_line l = wide_column_line(v, wide_column(0));
    wide_places p;
    #pragma unroll
    for (int i = 0; i < 4; i++)
        p.at[i] = l.at + (wide_row(i) ^ l.swizzle);
    return p;
}
QRS_DEV void wide_get(float (&d)[32], wide_places p, int by)
{
    #pragma unroll
    for (int i = 0; i < 8; i++)
        #pragma unroll
        for (int h = 0; h < 2; h++) {
            const f32x2 x = *(const f32x2 *)(p.at[i & 3] + by + (i >> 2) * 32 + h * 512);
            d[4 * i + 2 * h] = x.x;
            d[4 * i + 2 * h + 1] = x.y;
        }
}
QRS_DEV void wide_put(const float (&d)[32], wide_places p, int by)
{
    #pragma unroll
    for (int i = 0; i < 8; i++)
        #pragma unroll
        for (int h = 0; h < 2; h++)
            *(f32x2 *)(p.at[i & 3] + by + (i >> 2) * 32 + h * 512) = {d[4 * i + 2 * h], d[4 * i + 2 * h + 1]};
}

// Shared memory to accumulators, and back with tile `turn` first and those before it last.
QRS_DEV void wide_fill(wide_tile &c, u8 *v)
{
    const int wg = wide_group();
    const wide_places p = wide_fragment(v);
    #pragma unroll
    for (int j = 0; j < ${J}; j++)
        wide_get(c[j], p, (2 * j + wg) * 2048); // beyond the last tile: whatever lies there, as nobody uses it
}
QRS_DEV int wide_turned(int tile, int turn) { return tile - turn + (tile < turn ? ${NT} : 0); }
QRS_DEV void wide_drain(const wide_tile &c, u8 *v, int turn)
{
    const int wg = wide_group();
    const wide_places p = wide_fragment(v);
    #pragma unroll
    for (int j = 0; j < ${J}; j++)
        if (${NT % 2 == 0 and "true" or "2 * j + wg < " .. NT})
            wide_put(c[j], p, wide_turned(2 * j + wg, turn) * 2048);
}

% local function place(layout, ld) return layout == "col" and "col * " .. ld .. " + row" or "row * " .. ld .. " + col" end
% local inside = (M % 64 == 0 and "" or " && row + e < " .. M) .. (N % 64 == 0 and "" or " && col < " .. N)
// Block `first` of A to shared memory, scaled as in fused_load.cuh (every column's largest magnitude to [1, 2) 2^LIFT; not finite: not scaled).
// Returns bits, the same in a warp: 1 when its columns are not all zero, 2 when one's weight is concentrated on few rows, where one fp16
// product is not enough: its 1-norm is below 0.6 sqrt(m) times its 2-norm (0.80 for Gaussian columns; 0.34 and 0.20 for the kinds
// that fail).
QRS_DEV int wide_load(u8 *v, const float *a, i64 lda, int first, int *bad, int *exponent)
{
    const int col = first + wide_mine();
    const wide_line line = wide_column_line(v, wide_mine());
    const i64 next = ${IN == "col" and "1" or "lda"};
    u32 most = 0;
    {
        int row = wide_start();
        const float *at = a + (${place(IN, "lda")});
        #pragma unroll 4
        for (; row < ${NT * 64}; row += 16) {
            float x[4];
            #pragma unroll
            for (int e = 0; e < 4; e++)
                x[e] = true${inside} ? at[e * next] : 0.0f;
            const f32x4 four = {x[0], x[1], x[2], x[3]};
            wide_four(line, row) = four;
            most = wide_largest(most, four);
            at += 16 * next;
        }
    }
    most = wide_most(most);
    const bool finite = most < 0x7f800000u;
    const int ex = finite && most > 0 ? pow2_exponent(as_f32(most)) : 0;
    if (wide_start() == 0) {
        exponent[wide_mine()] = ex;
        if (!finite)
            *bad = 1;
    }
    const power_of_two f = make_power_of_two(QRS_LIFT - ex);
    float sum = 0.0f, square = 0.0f;
    #pragma unroll 2
    for (int row = wide_start(); row < ${NT * 64}; row += 16) {
        f32x4 &x = wide_four(line, row);
        const f32x4 y = {times(f, x.x), times(f, x.y), times(f, x.z), times(f, x.w)};
        x = y;
% if SELECT then
        sum += (fabsf(y.x) + fabsf(y.y)) + (fabsf(y.z) + fabsf(y.w));
        square = fmaf(y.x, y.x, fmaf(y.y, y.y, fmaf(y.z, y.z, fmaf(y.w, y.w, square))));
% end
    }
% if SELECT then
    sum = wide_total(sum);
    square = wide_total(square);
% end
    return (warp_any(most > 0) ? 1 : 0) | (warp_any(sum * sum < ${0.36 * M} * square) ? 2 : 0);
}

// The block from shared memory to H: R, scaled back, and with `panel` V below the diagonal. Tile `turn` comes first in
// shared memory. The diagonal tile then becomes V's, with its ones and zeros.
QRS_DEV void wide_write(u8 *v, float *h, i64 ldh, int first, int turn, bool panel, const int *exponent)
{
    const int col = first + wide_mine(), edge = panel ? col : ${NT * 64};
    const wide_line line = wide_column_line(v, wide_mine());
    const i64 next = ${OUT == "col" and "1" or "ldh"};
    const power_of_two f = make_power_of_two(exponent[wide_mine()] - QRS_LIFT);
    int row = wide_start();
    float *at = h + (${place(OUT, "ldh")});
    #pragma unroll 2
    for (; row < ${NT * 64}; row += 16) {
        f32x4 &from = wide_four(line, row + (row < 64 * turn ? ${NT * 64} : 0) - 64 * turn);
        const float x[4] = {from.x, from.y, from.z, from.w};
        #pragma unroll
        for (int e = 0; e < 4; e++)
            if (true${inside})
                at[e * next] = row + e > edge ? x[e] : times(f, x[e]);
        if (panel && row >> 6 == turn) {
            float y[4];
            #pragma unroll
            for (int e = 0; e < 4; e++)
                y[e] = row + e > edge ? x[e] : row + e == edge ? 1.0f : 0.0f;
            from = {y[0], y[1], y[2], y[3]};
        }
        at += 16 * next;
    }
}

// Finished V and T lie in scratch exactly as they lie in shared memory, so each moves by one bulk copy.
struct wide_stage {
    u8 *v, *t; // scratch of all CTAs; this one's place is found anew each time, registers being what is short
    u32 phases;      // of the two barriers, bit = slot
};
QRS_DEV i64 wide_v_place() { return (i64)blockIdx.x * ${V_BYTES * PLANES}; }
QRS_DEV i64 wide_t_place() { return (i64)blockIdx.x * ${KP * 16384}; }
QRS_DEV int wide_trapezoid(int p) { return (p * ${NT} - p * (p - 1) / 2) * 8192; }

// One thread starts the way of panel k's V and T to scratch.
QRS_DEV void wide_keep_v(const wide_stage &s, int k, bool low)
{
    if (threadIdx.x != 0)
        return;
    const u32 bytes = (${NT} - k) * 8192;
    u8 *to = s.v + wide_v_place() + wide_trapezoid(k);
    const saddr from = to_saddr(dynamic_smem()) + ${O_V};
    bulk_store(to, from, bytes);
% if PLANES == 2 then
    if (low)
        bulk_store(to + ${V_BYTES}, from + ${NT * 8192}, bytes);
% end
    bulk_commit();
}
QRS_DEV void wide_keep_t(const wide_stage &s, int k)
{
    if (threadIdx.x != 0)
        return;
    bulk_store(s.t + wide_t_place() + k * 16384, to_saddr(dynamic_smem()) + ${O_T}, 16384);
    bulk_commit();
}

// First half of an update by panel p, whose V (and low plane) starts at v (vl): this warpgroup's share of W^T to its half of x
// (two halves of 16 KB). The caller synchronises the block between the halves of the update.
template <bool SPLIT> QRS_DEV void wide_gather(const wide_tile &c, int p, saddr v, saddr vl, float *x)
{
    const int wg = wide_group();
    const u64 b0 = wide_desc(v), bl0 = wide_desc(vl);
    float wa[32];
    #pragma unroll
    for (int i = 0; i < 32; i++)
        wa[i] = 0.0f;
    #pragma unroll
    for (int j = 0; j < ${J}; j++) {
        const int tile = 2 * j + wg;
        if (tile >= p && tile < ${NT}) {
            const u64 b = wide_further(b0, (tile - p) * 8192), bl = wide_further(bl0, (tile - p) * 8192);
            u32 a[4][4], al[4][4];
            #pragma unroll
            for (int s = 0; s < 4; s++) {
                if (SPLIT)
                    wide_operand(c[j], s, 1.0f, 1.0f, a[s], al[s]);
                else
                    wide_operand(c[j], s, 1.0f, 1.0f, a[s]);
            }
            wgmma_fence();
            #pragma unroll
            for (int s = 0; s < 4; s++)
                wide_product<SPLIT, true>(wa, a[s], al[s], wide_further(b, s * 2048), wide_further(bl, s * 2048));
            wgmma_commit();
            wgmma_wait<0>(); // a, al need not live longer: with two tiles in flight registers do not suffice
        }
    }
    wgmma_wait<0>(wa);
    f32x4 *to = (f32x4 *)x + wg * 1024 + (threadIdx.x & 127);
    #pragma unroll
    for (int i = 0; i < 8; i++)
        to[i * 128] = {wa[4 * i], wa[4 * i + 1], wa[4 * i + 2], wa[4 * i + 3]};
}

// Second half: W'^T = W^T T, C^T -= W'^T V^T. t: fp16 T as a tile for each plane: this small product always takes three, as two more roundings
// of W and T to fp16 would cost a third of the single product's accuracy (0.78 of the contest's gate at n = 512, against 0.56).
template <bool SPLIT> QRS_DEV void wide_scatter(wide_tile &c, int p, saddr v, saddr vl, const float *x, saddr t)
{
    const int wg = wide_group();
    const u64 b0 = wide_desc(v), bl0 = wide_desc(vl), bt = wide_desc(t);
    float wa[32], wp[32];
    const f32x4 *from = (const f32x4 *)x + (threadIdx.x & 127);
    #pragma unroll
    for (int i = 0; i < 8; i++) {
        const f32x4 u = from[i * 128], d = from[1024 + i * 128]; // the same order in both warpgroups: the same bits
        wa[4 * i] = u.x + d.x, wa[4 * i + 1] = u.y + d.y, wa[4 * i + 2] = u.z + d.z, wa[4 * i + 3] = u.w + d.w;
    }
    // Both factors carry 2^LIFT; 2^4 of it stays, for the low halves' sake.
    u32 a[4][4], al[4][4];
    #pragma unroll
    for (int s = 0; s < 4; s++)
        wide_operand(wa, s, 0x1p-8f, 0x1p-8f, a[s], al[s]);
    #pragma unroll
    for (int i = 0; i < 32; i++)
        wp[i] = 0.0f;
    wgmma_fence();
    #pragma unroll
    for (int s = 0; s < 4; s++)
        wide_product<true, true>(wp, a[s], al[s], wide_further(bt, s * 2048), wide_further(bt, 8192 + s * 2048));
    wgmma_commit();
    wgmma_wait<0>(wp);
    #pragma unroll
    for (int s = 0; s < 4; s++) {
        if (SPLIT)
            wide_operand(wp, s, -0x1p-4f, -0x1p-4f, a[s], al[s]);
        else
            wide_operand(wp, s, -0x1p-4f, -0x1p-4f, a[s]);
    }
    #pragma unroll
    for (int j = 0; j < ${J}; j++) {
        const int tile = 2 * j + wg;
        if (tile >= p && tile < ${NT}) {
            const u64 b = wide_further(b0, (tile - p) * 8192), bl = wide_further(bl0, (tile - p) * 8192);
            wgmma_fence();
            #pragma unroll
            for (int s = 0; s < 4; s++)
                wide_product<SPLIT, false>(c[j], a[s], al[s], wide_further(b, s * 32), wide_further(bl, s * 32));
            wgmma_commit();
        }
    }
    #pragma unroll
    for (int j = 0; j < ${J}; j++)
        wgmma_wait<0>(c[j]);
}
