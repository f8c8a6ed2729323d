// Left-looking updates of a 64-column block by warpgroup products: C^T in the accumulators of two warpgroups.
//
// Parameters: M, N, K; NT = row tiles of 64; J = tiles a warpgroup; IN, OUT layouts.
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

// Calls f(address, j, i, inside) for every c[j][i] of block `first` of a matrix in global memory. Addresses advance by
// additions: products of the pitch with every row number would be most of the kernel's code.
% for _, layout in ipairs(IN == OUT and { IN } or { IN, OUT }) do
template <class P, class F> QRS_DEV void wide_walk${layout == IN and "" or "_out"}(P *a, i64 ld, int first, F f)
{
    const int wg = wide_group(), row = wg * 64 + wide_row(0), col = first + wide_column(0);
% if layout == "col" then
    P *at = a + (i64)col * ld + row;
    const i64 across = 8 * ld, next = 1, eight = 8;
% else
    P *at = a + (i64)row * ld + col;
    const i64 across = 8, next = ld, eight = 8 * ld;
% end
    #pragma unroll
    for (int j = 0; j < ${J}; j++) {
        #pragma unroll
        for (int i = 0; i < 8; i++) {
            #pragma unroll
            for (int e = 0; e < 2; e++)
                #pragma unroll
                for (int h = 0; h < 2; h++) {
                    const bool in = ${(M % 128 == 0 and 'true' or 'row + ' .. 'j * 128 + 8 * i + e < ' .. M)} && ${N % 64 == 0 and 'true' or 'col + 8 * h < ' .. N};
                    f(at + e * next + h * across, j, 4 * i + 2 * h + e, in);
                }
            at += eight;
        }
        at += 8 * eight; // the other warpgroup's tile
    }
}
% end

// Block `first` of A, scaled as in fused_load.cuh (every column's largest finite magnitude to [1, 2) 2^LIFT). Returns bits: 1 when it is not all
// zero, 2 when a column's weight is concentrated on few rows, where one fp16 product is not enough: its 1-norm is below 0.6 sqrt(m) times its
// 2-norm (0.80 for Gaussian columns; 0.34 and 0.20 for the kinds that fail). stats: shared, [3][2][64].
QRS_DEV int wide_load(wide_tile &c, const float *a, i64 lda, int first, float *stats, int *bad, int *exponent)
{
    const int wg = wide_group();
    wide_walk(a, lda, first, [&](const float *at, int j, int i, bool in) { c[j][i] = in ? *at : 0.0f; });
    float most[2] = {0.0f, 0.0f}, sum[2] = {0.0f, 0.0f}, square[2] = {0.0f, 0.0f};
    bool odd = false;
    #pragma unroll
    for (int j = 0; j < ${J}; j++)
        #pragma unroll
        for (int i = 0; i < 32; i++) {
            const float v = fabsf(c[j][i]);
            const bool finite = v <= 0x1.fffffep127f;
            odd = odd || !finite;
            most[i >> 1 & 1] = fmaxf(most[i >> 1 & 1], finite ? v : 0.0f);
        }
    #pragma unroll
    for (int h = 0; h < 2; h++) {
        most[h] = fmaxf(most[h], shfl_xor(most[h], 1));
        most[h] = fmaxf(most[h], shfl_xor(most[h], 2));
        if ((lane() & 3) == 0)
            stats[wg * 64 + wide_column(h)] = most[h];
    }
    if (odd)
        *bad = 1;
    block_sync();
    #pragma unroll
    for (int h = 0; h < 2; h++) {
        const float mine = fmaxf(stats[wide_column(h)], stats[64 + wide_column(h)]);
        const int ex = mine > 0.0f ? pow2_exponent(mine) : 0;
        if (wg == 0 && (lane() & 3) == 0)
            exponent[wide_column(h)] = ex;
        const power_of_two f = make_power_of_two(QRS_LIFT - ex);
        #pragma unroll
        for (int j = 0; j < ${J}; j++)
            #pragma unroll
            for (int i = 0; i < 8; i++)
                #pragma unroll
                for (int e = 0; e < 2; e++) {
                    float &x = c[j][4 * i + 2 * h + e];
                    x = times(f, x);
                    sum[h] += fabsf(x);
                    square[h] = fmaf(x, x, square[h]);
                }
    }
    const bool some = warp_any(stats[lane()] > 0.0f || stats[32 + lane()] > 0.0f || stats[64 + lane()] > 0.0f || stats[96 + lane()] > 0.0f) || *bad;
% if SELECT then
    #pragma unroll
    for (int h = 0; h < 2; h++) {
        sum[h] += shfl_xor(sum[h], 1);
        sum[h] += shfl_xor(sum[h], 2);
        square[h] += shfl_xor(square[h], 1);
        square[h] += shfl_xor(square[h], 2);
        if ((lane() & 3) == 0) {
            stats[128 + wg * 64 + wide_column(h)] = sum[h];
            stats[256 + wg * 64 + wide_column(h)] = square[h];
        }
    }
    block_sync();
    bool few = false;
    #pragma unroll
    for (int t = 0; t < 2; t++) {
        const int col = lane() + 32 * t;
        const float one = stats[128 + col] + stats[192 + col], two = stats[256 + col] + stats[320 + col];
        few = few || one * one < ${0.36 * M} * two;
    }
    return (some ? 1 : 0) | (warp_any(few) ? 2 : 0);
% else
    return some ? 1 : 0;
% end
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
