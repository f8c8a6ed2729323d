// Left-looking updates of a 64-column block by warpgroup products: C^T in the accumulators of two warpgroups.
//
// Parameters: M, N, K; NT = row tiles of 64; J = tiles a warpgroup; IN, OUT layouts; SELECT.
// A block stays in registers from A to H: loaded, scaled, updated, packed and written as fragments of C^T. Code that touches all of a thread's
// 128 values is long, so each such piece is there once (what an SM's instruction cache (128 KB) does not keep is fetched again for every
// panel, which costs more than executing it). For the same reason what every panel calls adjoins: a cubin has functions in the order of their mangled names, _Z10..
// ahead of _Z9.., so that wide_rows and gram_pair come last, and wide_leave under a name of nine letters, behind them, takes 8 % more of 640 x 512.
// Fragment: warpgroup wg holds row tiles t = 2 j + wg; c[j][4 i + e] is row 8 i + 2 q + (e & 1) of tile t, column 16 w + g + 8 (e >> 1) of the block,
// with w the warp in the warpgroup, g = lane / 4, q = lane % 4. Tiles count from the panel's top one round (wide_tile_at): c[0] of the
// first warpgroup is always the top block. Entries past the matrix are zero.
// V of a finished panel: fp16 tiles of 64 rows x 128 bytes, 128-byte swizzle, from the panel's first row on, scaled by 2^LIFT; one such tile
// is B of both products: W^T = C^T V (rows of the tile are k: N-major) and C^T -= W'^T V^T (K-major).
#define QRS_LIFT 6
// Lanes that announce a warp's column, after __syncwarp. All 32 for a race checker, which does not see what that orders.
#define WIDE_GIVERS 1
// The thread that makes all bulk copies, and waits for them.
#define WIDE_SENDER 128
typedef float wide_tile[${J}][32];

QRS_DEV int wide_group() { return shfl((int)warp() >> 2, 0); } // a warpgroup's branches must be seen to be uniform
QRS_DEV int wide_column(int h) { return ((int)warp() & 3) * 16 + ((int)lane() >> 2) + 8 * h; }
QRS_DEV int wide_row(int i) { return 8 * i + ((int)lane() & 3) * 2; } // of a tile, first of the pair
// Tile t of a block whose panel starts at tile `turn`, counted from the matrix's first row.
QRS_DEV int wide_tile_at(int t, int turn) { return t + turn < ${NT} ? t + turn : t + turn - ${NT}; }
QRS_DEV int wide_chunk(int row, int chunk) { return row * 128 + ((chunk ^ (row & 7)) << 4); }
// Descriptors of tiles: only their lower half depends on the place, and it counts 16 bytes, so that `by` bytes further is an addition of 32 bits. (Whole
// ones take five instructions a product instead of two.)
QRS_DEV u32 wide_desc(saddr a) { return (u32)smem_desc(a, 128, 16, 1024); }
QRS_DEV u32 wide_further(u32 desc, int by) { return desc + (u32)(by >> 4); }
QRS_DEV u64 wide_whole(u32 desc) { return smem_desc(0, 128, 0, 1024) | desc; }

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
        split_f16(f * d[8 * s + 2 * x], f * d[8 * s + 2 * x + 1], hi[x], lo[x]);
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
QRS_DEV void wide_product(float (&d)[32], const u32 (&a)[4], const u32 (&al)[4], u32 b, int low = ${NT * 8192})
{
    if (SPLIT) {
        wgmma_f16_rs<64, TRANS>(d, al[0], al[1], al[2], al[3], wide_whole(b), true);
        wgmma_f16_rs<64, TRANS>(d, a[0], a[1], a[2], a[3], wide_whole(wide_further(b, low)), true);
    }
    wgmma_f16_rs<64, TRANS>(d, a[0], a[1], a[2], a[3], wide_whole(b), true);
}

// Magnitudes compare as integers, and NaN and infinity come out on top.
QRS_DEV u32 wide_larger(u32 most, float x)
{
    const u32 bits = as_u32(x) & 0x7fffffffu;
    return most > bits ? most : bits;
}
QRS_DEV u32 wide_most(u32 x) // over the four lanes of a column
{
    u32 y = shfl_xor(x, 1);
    x = x > y ? x : y;
    y = shfl_xor(x, 2);
    return x > y ? x : y;
}
QRS_DEV float wide_total(float x)
{
    x += shfl_xor(x, 1);
    return x + shfl_xor(x, 2);
}

% local tile_inside = NT % 2 == 0 and "" or " && t < " .. NT
// Block `first` of A on its way to shared memory (the caller commits and waits), where the planes of V go later, as it lies in A: sixteen bytes a
// request, whole lines of memory. Swizzled so that a fragment is read without bank conflicts. What is past the matrix is zero.
QRS_DEV void wide_request(u8 *v, const float *a, i64 lda, int first)
{
    const saddr to = to_saddr(v);
    const bool aligned = ((u64)a & 15) == 0 && (lda & 3) == 0;
% if IN == "col" then
    #pragma unroll 2
    for (int e = threadIdx.x; e < ${NT * 1024}; e += 256) {
        const int col = e / ${NT * 16}, row = e % ${NT * 16} * 4, at = col * ${NT * 256} + (row * 4 ^ (col & 3) << 5);
        const float *from = a + (first + col) * lda + row;
        const int inside = first + col < ${N} ? ${M} - row : 0;
% else
    int row = threadIdx.x >> 4, col = (threadIdx.x & 15) * 4, at = row * 256 + (col * 4 ^ (row & 6) << 4); // of all its rows the swizzle is the same
    const float *from = a + row * lda + first + col;
    if (aligned && ${N} - first - col >= 4)
        #pragma unroll 4
        for (; row < ${M}; row += 16, at += 4096, from += 16 * lda)
            cp_async16(to + at, from);
    #pragma unroll 1
    for (; row < ${64 * NT}; row += 16, at += 4096, from += 16 * lda) {
        const int inside = row < ${M} ? ${N} - first - col : 0;
% end
        if (aligned && inside >= 4) {
            cp_async16(to + at, from);
        } else {
            #pragma unroll 1
            for (int x = 0; x < 4; x++)
                if (x < inside)
                    cp_async4(to + at + 4 * x, from + x);
                else
                    sts(to + at + 4 * x, 0.0f);
        }
    }
}

// A fragment's places in a block that lies in shared memory as a matrix does: in A's layout, or in H's.
% for _, way in ipairs(IN == OUT and { IN } or { IN, OUT }) do
struct wide_places_${way} {
    u8 *at[${way == "col" and 4 or 2}];
};
QRS_DEV wide_places_${way} wide_find_${way}(u8 *v)
{
    const int col = wide_column(0), q2 = wide_row(0);
    wide_places_${way} p;
% if way == "col" then
    #pragma unroll
    for (int i = 0; i < 4; i++)
        p.at[i] = v + col * ${NT * 256} + ((8 * i + q2) * 4 ^ (col & 3) << 5);
% else
    #pragma unroll
    for (int h = 0; h < 2; h++)
        p.at[h] = v + q2 * 256 + ((col + 8 * h) * 4 ^ q2 << 4);
% end
    return p;
}
% end

// The block from there to registers.
QRS_DEV void wide_fill(wide_tile &c, u8 *v, int turn)
{
    const int wg = wide_group();
    const wide_places_${IN} p = wide_find_${IN}(v);
    #pragma unroll
    for (int j = 0; j < ${J}; j++) {
        const int t = 2 * j + wg, tile = wide_tile_at(t, turn);
        #pragma unroll
        for (int i = 0; i < 8; i++)
            #pragma unroll
            for (int h = 0; h < 2; h++) {
                f32x2 x = {0.0f, 0.0f};
                if (true${tile_inside}) {
% if IN == "col" then
                    x = *(const f32x2 *)(p.at[i & 3] + tile * 256 + (i >> 2) * 128 + h * ${NT * 2048});
% else
                    x.x = *(const float *)(p.at[h] + tile * 16384 + i * 2048);
                    x.y = *(const float *)(p.at[h] + tile * 16384 + i * 2048 + 256);
% end
                }
                c[j][4 * i + 2 * h] = x.x;
                c[j][4 * i + 2 * h + 1] = x.y;
            }
    }
}

// What the two warpgroups tell each other about a block's columns.
struct wide_columns {
    u32 most[2][64];
    f32x2 sums[2][64];
    float top[4][64];
};

// What is left of a factor 2^e for columns of half h when it takes two powers of two, of which the first is applied here: that is rare. Tiles from
// `begin` on.
QRS_DEV float wide_apply(wide_tile &c, int h, int e, int begin)
{
    const power_of_two f = make_power_of_two(e);
    if (!warp_any(f.second != 1.0f))
        return f.first;
    {
        #pragma unroll
        for (int j = 0; j < ${J}; j++)
            #pragma unroll
            for (int i = 0; i < 32; i++)
                if ((i >> 1 & 1) == h && 2 * j + wide_group() >= begin)
                    c[j][i] *= f.first;
    }
    return f.second;
}

// Largest magnitudes of a block's columns to s->most, a warpgroup's each. False when the block is zero. Synchronises.
QRS_DEV bool wide_largest(const wide_tile &c, wide_columns *s)
{
    const int wg = wide_group(), l = lane();
    float most[2] = {0.0f, 0.0f};
    #pragma unroll
    for (int j = 0; j < ${J}; j++)
        #pragma unroll
        for (int i = 0; i < 32; i++)
            most[i >> 1 & 1] = max_nan(most[i >> 1 & 1], fabsf(c[j][i]));
    #pragma unroll
    for (int h = 0; h < 2; h++) {
        const u32 all = wide_most(as_u32(most[h]));
        if ((l & 3) == 0)
            s->most[wg][wide_column(h)] = all;
    }
    fence_async_shared(); // V comes where the block was
    block_sync();
    return shfl((int)warp_any((s->most[0][l] | s->most[0][l + 32] | s->most[1][l] | s->most[1][l + 32]) != 0), 0);
}

// After wide_largest: scales a block as fused_load.cuh does (every column's largest magnitude to [1, 2) 2^LIFT; not finite: not scaled). Returns
// whether a column's weight is concentrated on few rows, where one fp16 product is not enough: its 1-norm is below 0.6 sqrt(m) times
// its 2-norm (0.80 for Gaussian columns; 0.34 and 0.20 for the kinds that fail).${SELECT and " Synchronises." or ""}
QRS_DEV bool wide_scale(wide_tile &c, wide_columns *s, int *bad, int *exponent)
{
    const int wg = wide_group(), l = lane();
    const bool first = (l & 3) == 0;
    float f[2];
    #pragma unroll
    for (int h = 0; h < 2; h++) {
        const u32 u = s->most[0][wide_column(h)], d = s->most[1][wide_column(h)], most = u > d ? u : d;
        const bool finite = most < 0x7f800000u;
        const int ex = finite && most > 0 ? pow2_exponent(as_f32(most)) : 0;
        f[h] = wide_apply(c, h, QRS_LIFT - ex, 0);
        if (first && wg == 0) {
            exponent[wide_column(h)] = ex;
            if (!finite)
                *bad = 1;
        }
    }
% if SELECT then
    float sum[2] = {0.0f, 0.0f}, square[2] = {0.0f, 0.0f};
% end
    #pragma unroll
    for (int j = 0; j < ${J}; j++)
        #pragma unroll
        for (int i = 0; i < 32; i++) {
            const int h = i >> 1 & 1;
            const float x = f[h] * c[j][i];
            c[j][i] = x;
% if SELECT then
            sum[h] += fabsf(x);
            square[h] = fmaf(x, x, square[h]);
% end
        }
% if SELECT then
    #pragma unroll
    for (int h = 0; h < 2; h++) {
        const f32x2 both = {wide_total(sum[h]), wide_total(square[h])};
        if (first)
            s->sums[wg][wide_column(h)] = both;
    }
    block_sync();
    bool few = false;
    #pragma unroll
    for (int h = 0; h < 2; h++) {
        const f32x2 u = s->sums[0][l + 32 * h], d = s->sums[1][l + 32 * h];
        few = few || (u.x + d.x) * (u.x + d.x) < ${0.36 * M} * (u.y + d.y);
    }
    return shfl((int)warp_any(few), 0);
% else
    return false;
% end
}

// Rows begin .. end-1 of the block, whole tiles, on their way to H: by way of shared memory, so that whole lines leave.
% if OUT == "row" then
// Where a row lies there: with k < 0 as in a block. Otherwise they are the 64 k rows above a panel, whose planes leave just their room: the first half of them before
// the low plane, the others behind it.
QRS_DEV int wide_aside(int k, bool second) { return k < 0 ? 0 : ${NT * 8192} - k * 8192 + (second ? ${NT * 8192} - k * 8192 : 0); }
% end
QRS_DEV void wide_lay(const wide_tile &c, u8 *v, int turn, int begin, int end${OUT == "row" and ", int k" or ""})
{
    const int wg = wide_group();
    const wide_places_${OUT} p = wide_find_${OUT}(v);
    #pragma unroll
    for (int j = 0; j < ${J}; j++) {
        const int t = 2 * j + wg, tile = wide_tile_at(t, turn);
        if (64 * tile >= begin && 64 * tile < end${tile_inside}) {
% if OUT == "row" then
            const int at[2] = {tile * 16384 + wide_aside(k, 2 * tile >= k), tile * 16384 + wide_aside(k, 2 * tile + 1 >= k)};
% end
            #pragma unroll
            for (int i = 0; i < 8; i++)
                #pragma unroll
                for (int h = 0; h < 2; h++) {
                    const f32x2 x = {c[j][4 * i + 2 * h], c[j][4 * i + 2 * h + 1]};
% if OUT == "col" then
                    *(f32x2 *)(p.at[i & 3] + tile * 256 + (i >> 2) * 128 + h * ${NT * 2048}) = x;
% else
                    *(float *)(p.at[h] + at[i >> 2] + i * 2048) = x.x;
                    *(float *)(p.at[h] + at[i >> 2] + i * 2048 + 256) = x.y;
% end
                }
        }
    }
}
// From there to H, by thread `thread` of 128 or 256, times f (by column).
QRS_CALL void wide_leave(const u8 *v, const float *f, float *out, i64 ldh, int first, int begin, int end, int thread, int threads)
{
    const bool aligned = ((u64)out & 15) == 0 && (ldh & 3) == 0;
% if OUT == "col" then
    #pragma unroll 1
    for (int col = thread >> 5; col < 64; col += threads >> 5)
    #pragma unroll 1
    for (int row = begin + 4 * (int)lane(); row < end; row += 128) {
        const f32x4 y4 = *(const f32x4 *)(v + col * ${NT * 256} + (row * 4 ^ (col & 3) << 5)), x = {f[col] * y4.x, f[col] * y4.y, f[col] * y4.z, f[col] * y4.w};
        float *to = out + (first + col) * ldh + row;
        const int inside = first + col < ${N} ? ${M} - row : 0;
% else
    const int col = (thread & 15) * 4, inside = ${N} - first - col, last = end < ${M} ? end : ${M}, rows = threads >> 4;
    int row = begin + (thread >> 4);
    const u8 *from = v + row * 256 + (col * 4 ^ (row & 6) << 4); // of all its rows the swizzle is the same
    float *to = out + row * ldh + first + col;
    const f32x4 f4 = *(const f32x4 *)(f + col);
    if (aligned && inside >= 4)
        #pragma unroll 1
        for (; row + 3 * rows < last; row += 4 * rows, from += 1024 * rows) {
            f32x4 x[4];
            #pragma unroll
            for (int e = 0; e < 4; e++)
                x[e] = *(const f32x4 *)(from + 256 * rows * e);
            #pragma unroll
            for (int e = 0; e < 4; e++, to += rows * ldh)
                *(f32x4 *)to = {f4.x * x[e].x, f4.y * x[e].y, f4.z * x[e].z, f4.w * x[e].w};
        }
    #pragma unroll 1
    for (; row < last; row += rows, from += 256 * rows, to += rows * ldh) {
        const f32x4 y4 = *(const f32x4 *)from, x = {f4.x * y4.x, f4.y * y4.y, f4.z * y4.z, f4.w * y4.w};
% end
        if (aligned && inside >= 4) {
            *(f32x4 *)to = x;
        } else {
            const float y[4] = {x.x, x.y, x.z, x.w};
            #pragma unroll
            for (int e = 0; e < 4; e++)
                if (e < inside)
                    to[e] = y[e];
        }
    }
}

// Asks L2 for block `first` of A, a 128-byte line a request: it arrives while the chain of a panel keeps memory idle.
QRS_CALL void wide_prefetch(const float *a, i64 lda, int first, int thread, int threads)
{
% local long, lines = IN == "col" and 64 or M, IN == "col" and ceildiv(M, 32) or 2
    #pragma unroll 1
    for (int e = thread; e < ${long * lines}; e += threads) {
        const int major = e / ${lines}, line = e % ${lines} * 32;
% if IN == "col" then
        if (first + major < ${N})
            prefetch_l2(a + (first + major) * lda + line);
% else
        if (first + line < ${N})
            prefetch_l2(a + major * lda + first + line);
% end
    }
}

// Of block k: where H is and how far its rows or columns are apart; the matrix after this block, its next block the one from column `first` on (or null).
struct wide_away {
    float *out;
    const float *next;
    i64 ldh, lda;
    int first, k;
};

// Finished V and T lie in scratch exactly as they lie in shared memory, so each moves by one bulk copy.
struct wide_stage {
    u8 *v, *t; // scratch of all CTAs; this one's place is found anew each time, registers being what is short
    u32 phases;      // of the two barriers, bit = slot
    int last;        // panel that was kept last: its V and T may still be on their way to scratch
};
QRS_DEV i64 wide_v_place() { return (i64)blockIdx.x * ${V_BYTES * PLANES}; }
QRS_DEV i64 wide_t_place() { return (i64)blockIdx.x * ${KP * 16384}; }
QRS_DEV int wide_trapezoid(int p) { return (p * ${NT} - p * (p - 1) / 2) * 8192; }

// One thread starts the way of panel k's V and T to scratch.
QRS_DEV void wide_keep_v(const wide_stage &s, int k, bool low)
{
    if (threadIdx.x != WIDE_SENDER)
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
QRS_DEV void wide_keep_t(u8 *scratch, int k)
{
    if (threadIdx.x != WIDE_SENDER)
        return;
    bulk_store(scratch + wide_t_place() + k * 16384, to_saddr(dynamic_smem()) + ${O_T}, 16384);
    bulk_commit();
}

// First half of an update by panel p, whose V (and low plane) starts at v: this warpgroup's share of W^T, which it also leaves in its half of x
// (two halves of 16 KB). The caller synchronises the block between the halves of the update.
template <bool SPLIT> QRS_DEV void wide_gather(const wide_tile &c, float (&wa)[32], int p, int turn, saddr v, float *x)
{
    const int wg = wide_group();
    const u32 b0 = wide_desc(v);
    #pragma unroll
    for (int i = 0; i < 32; i++)
        wa[i] = 0.0f;
    #pragma unroll
    for (int j = 0; j < ${J}; j++) {
        const int t = 2 * j + wg, tile = wide_tile_at(t, turn);
        if (tile >= p${tile_inside}) {
            const u32 b = wide_further(b0, (tile - p) * 8192);
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
                wide_product<SPLIT, true>(wa, a[s], al[s], wide_further(b, s * 2048));
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
template <bool SPLIT> QRS_DEV void wide_scatter(wide_tile &c, float (&wa)[32], int p, int turn, saddr v, const float *x, saddr t)
{
    const int wg = wide_group();
    const u32 b0 = wide_desc(v), bt = wide_desc(t);
    float wp[32];
    const f32x4 *from = (const f32x4 *)x + (wg ^ 1) * 1024 + (threadIdx.x & 127);
    #pragma unroll
    for (int i = 0; i < 8; i++) { // the same sums in both warpgroups: the same bits
        const f32x4 o = from[i * 128];
        wa[4 * i] += o.x, wa[4 * i + 1] += o.y, wa[4 * i + 2] += o.z, wa[4 * i + 3] += o.w;
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
        wide_product<true, true>(wp, a[s], al[s], wide_further(bt, s * 2048), 8192);
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
        const int t = 2 * j + wg, tile = wide_tile_at(t, turn);
        if (tile >= p${tile_inside}) {
            const u32 b = wide_further(b0, (tile - p) * 8192);
            wgmma_fence();
            #pragma unroll
            for (int s = 0; s < 4; s++)
                wide_product<SPLIT, false>(c[j], a[s], al[s], wide_further(b, s * 32));
            wgmma_commit();
        }
    }
    #pragma unroll
    for (int j = 0; j < ${J}; j++)
        wgmma_wait<0>(c[j]);
}
