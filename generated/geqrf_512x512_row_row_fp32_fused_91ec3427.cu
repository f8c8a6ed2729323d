#line 263 "families/fused.lua"
#include "device/core.cuh"
#include "device/math.cuh"
#include "device/warp.cuh"
#include "device/block.cuh"
#include "device/mma.cuh"
#include "device/copy.cuh"
#include "device/launch.cuh"
#line 271 "families/fused.lua"
#include "device/flag.cuh"
#include "device/wgmma.cuh"
#include "device/stmatrix.cuh"
#line 281 "families/fused.lua"

using namespace qrs;

#line 1 "blocks/pack_reflector.cuh"
// Scalars of one Householder reflector, LAPACK's signs (slarfg), from the pivot entry and the square sum of its tail.
//
// With n = sqrt(alpha^2 + s) and x the column below the pivot:
//   beta = -sign(alpha) n, tau = 2 / v'v (= (beta - alpha) / beta), v = [1; rho x], rho = 1 / (alpha - beta).
// Applied to another column with pivot-row entry p and dot d = x'a:  g = tau rho (p + rho d) = step (p + rho d) is what
// x is subtracted with (a -= g x), and p - g (alpha - beta) is the new pivot-row entry. Nothing has to wait for v.
// Approximate reciprocal and square root are each followed by a Newton step, so the scalars carry about one rounding.
struct reflector {
    float beta, tau, rho, step, gap; // gap = alpha - beta
};

// A square sum below this is recomputed from rescaled entries: the design's 2^-80 relative to a column near one.
#define QRS_TINY_SQUARES 0x1p-80f

// Requires s > 0 (or NaN) and s, alpha^2 in range: callers scale columns on load and rescale tiny tails.
QRS_DEV reflector make_reflector(float alpha, float s)
{
    float square = fmaf(alpha, alpha, s);
    float q = rsqrt_approx(square), n = square * q;
    float r = fmaf(-n, 0.5f * q, 0.5f); // (1 - square q^2) / 2
    n = fmaf(n, r, n);
    q = fmaf(q, r, q);
    float gap = fabsf(alpha) + n;
    float rho = rcp_approx(gap);
    rho = fmaf(rho, fmaf(-gap, rho, 1.0f), rho);
    reflector h;
    h.beta = copysignf(n, -alpha);
    // tau = 2 / v'v for v = [1; rho x] with rho as rounded, not 1 + |alpha| / n: orthogonality hangs on this product alone. Over
    // 4 million random 3 x 3 matrices the worst loss falls from 12.3 eps to 8.2 (sgeqrf: 12.6).
    const float vv = fmaf(rho * rho, s, 1.0f);
    float half_tau = rcp_approx(vv);
    half_tau = fmaf(half_tau, fmaf(-vv, half_tau, 1.0f), half_tau);
    h.tau = 2.0f * half_tau;
    h.rho = copysignf(rho, alpha);
    h.step = copysignf(q, alpha);
    h.gap = copysignf(gap, alpha);
    return h;
}

// The two scalars that only results need, for steps that leave the Newton steps out of their chain: tau of the v that is stored, and the
// diagonal of R.
QRS_DEV float reflector_tau(float rho, float s)
{
    const float vv = fmaf(rho * rho, s, 1.0f);
    float half_tau = rcp_approx(vv);
    half_tau = fmaf(half_tau, fmaf(-vv, half_tau, 1.0f), half_tau);
    return rho == 0.0f ? 0.0f : 2.0f * half_tau;
}
QRS_DEV float reflector_beta(float alpha, float s)
{
    const float square = fmaf(alpha, alpha, s), q = rsqrt_approx(square), n = square * q;
    return copysignf(fmaf(n, fmaf(-n, 0.5f * q, 0.5f), n), -alpha);
}

// The identity: the tail is exactly zero, so LAPACK leaves the diagonal entry alone.
QRS_DEV reflector no_reflector(float alpha)
{
    reflector h;
    h.beta = alpha;
    h.tau = h.rho = h.step = h.gap = 0.0f;
    return h;
}

// 2^e as a product of two floats, so that multiplying by both never rounds twice (e in [-276, 253]): the first factor
// moves the value towards its result by a normal power, the second carries what is left.
struct power_of_two {
    float first, second;
};
QRS_DEV power_of_two make_power_of_two(int e)
{
    int rest = e > 127 ? e - 127 : e < -126 ? -126 : 0;
    power_of_two f;
    f.first = as_f32((u32)(e - rest + 127) << 23);
    f.second = as_f32((u32)(rest + 127) << 23);
    return f;
}
QRS_DEV float times(power_of_two f, float x)
{
    return x * f.first * f.second;
}
#line 1 "blocks/fused_wide.cuh"
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
typedef float wide_tile[4][32];

QRS_DEV int wide_group() { return shfl((int)warp() >> 2, 0); } // a warpgroup's branches must be seen to be uniform
QRS_DEV int wide_column(int h) { return ((int)warp() & 3) * 16 + ((int)lane() >> 2) + 8 * h; }
QRS_DEV int wide_row(int i) { return 8 * i + ((int)lane() & 3) * 2; } // of a tile, first of the pair
// Tile t of a block whose panel starts at tile `turn`, counted from the matrix's first row.
QRS_DEV int wide_tile_at(int t, int turn) { return t + turn < 8 ? t + turn : t + turn - 8; }
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
QRS_DEV void wide_product(float (&d)[32], const u32 (&a)[4], const u32 (&al)[4], u32 b, int low = 65536)
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

#line 88 "blocks/fused_wide.cuh"
// Block `first` of A on its way to shared memory (the caller commits and waits), where the planes of V go later, as it lies in A: sixteen bytes a
// request, whole lines of memory. Swizzled so that a fragment is read without bank conflicts. What is past the matrix is zero.
QRS_DEV void wide_request(u8 *v, const float *a, i64 lda, int first)
{
    const saddr to = to_saddr(v);
    const bool aligned = ((u64)a & 15) == 0 && (lda & 3) == 0;
#line 101 "blocks/fused_wide.cuh"
    int row = threadIdx.x >> 4, col = (threadIdx.x & 15) * 4, at = row * 256 + (col * 4 ^ (row & 6) << 4); // of all its rows the swizzle is the same
    const float *from = a + row * lda + first + col;
    if (aligned && 512 - first - col >= 4)
        #pragma unroll 4
        for (; row < 512; row += 16, at += 4096, from += 16 * lda)
            cp_async16(to + at, from);
    #pragma unroll 1
    for (; row < 512; row += 16, at += 4096, from += 16 * lda) {
        const int inside = row < 512 ? 512 - first - col : 0;
#line 111 "blocks/fused_wide.cuh"
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
#line 126 "blocks/fused_wide.cuh"
struct wide_places_row {
    u8 *at[2];
};
QRS_DEV wide_places_row wide_find_row(u8 *v)
{
    const int col = wide_column(0), q2 = wide_row(0);
    wide_places_row p;
#line 138 "blocks/fused_wide.cuh"
    #pragma unroll
    for (int h = 0; h < 2; h++)
        p.at[h] = v + q2 * 256 + ((col + 8 * h) * 4 ^ q2 << 4);
#line 142 "blocks/fused_wide.cuh"
    return p;
}
#line 145 "blocks/fused_wide.cuh"

// The block from there to registers.
QRS_DEV void wide_fill(wide_tile &c, u8 *v, int turn)
{
    const int wg = wide_group();
    const wide_places_row p = wide_find_row(v);
    #pragma unroll
    for (int j = 0; j < 4; j++) {
        const int t = 2 * j + wg, tile = wide_tile_at(t, turn);
        #pragma unroll
        for (int i = 0; i < 8; i++)
            #pragma unroll
            for (int h = 0; h < 2; h++) {
                f32x2 x = {0.0f, 0.0f};
                if (true) {
#line 163 "blocks/fused_wide.cuh"
                    x.x = *(const float *)(p.at[h] + tile * 16384 + i * 2048);
                    x.y = *(const float *)(p.at[h] + tile * 16384 + i * 2048 + 256);
#line 166 "blocks/fused_wide.cuh"
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
        for (int j = 0; j < 4; j++)
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
    for (int j = 0; j < 4; j++)
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
// its 2-norm (0.80 for Gaussian columns; 0.34 and 0.20 for the kinds that fail).
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
#line 242 "blocks/fused_wide.cuh"
    #pragma unroll
    for (int j = 0; j < 4; j++)
        #pragma unroll
        for (int i = 0; i < 32; i++) {
            const int h = i >> 1 & 1;
            const float x = f[h] * c[j][i];
            c[j][i] = x;
#line 253 "blocks/fused_wide.cuh"
        }
#line 270 "blocks/fused_wide.cuh"
    return false;
#line 272 "blocks/fused_wide.cuh"
}

// Rows begin .. end-1 of the block, whole tiles, on their way to H: by way of shared memory, so that whole lines leave.
#line 276 "blocks/fused_wide.cuh"
// Where a row lies there: with k < 0 as in a block. Otherwise they are the 64 k rows above a panel, whose planes leave just their room: the first half of them before
// the low plane, the others behind it.
QRS_DEV int wide_aside(int k, bool second) { return k < 0 ? 0 : 65536 - k * 8192 + (second ? 65536 - k * 8192 : 0); }
#line 280 "blocks/fused_wide.cuh"
QRS_DEV void wide_lay(const wide_tile &c, u8 *v, int turn, int begin, int end, int k)
{
    const int wg = wide_group();
    const wide_places_row p = wide_find_row(v);
    #pragma unroll
    for (int j = 0; j < 4; j++) {
        const int t = 2 * j + wg, tile = wide_tile_at(t, turn);
        if (64 * tile >= begin && 64 * tile < end) {
#line 289 "blocks/fused_wide.cuh"
            const int at[2] = {tile * 16384 + wide_aside(k, 2 * tile >= k), tile * 16384 + wide_aside(k, 2 * tile + 1 >= k)};
#line 291 "blocks/fused_wide.cuh"
            #pragma unroll
            for (int i = 0; i < 8; i++)
                #pragma unroll
                for (int h = 0; h < 2; h++) {
                    const f32x2 x = {c[j][4 * i + 2 * h], c[j][4 * i + 2 * h + 1]};
#line 299 "blocks/fused_wide.cuh"
                    *(float *)(p.at[h] + at[i >> 2] + i * 2048) = x.x;
                    *(float *)(p.at[h] + at[i >> 2] + i * 2048 + 256) = x.y;
#line 302 "blocks/fused_wide.cuh"
                }
        }
    }
}
// From there to H, by thread `thread` of 128 or 256, times f (by column).
QRS_CALL void wide_leave(const u8 *v, const float *f, float *out, i64 ldh, int first, int begin, int end, int thread, int threads)
{
    const bool aligned = ((u64)out & 15) == 0 && (ldh & 3) == 0;
#line 319 "blocks/fused_wide.cuh"
    const int col = (thread & 15) * 4, inside = 512 - first - col, last = end < 512 ? end : 512, rows = threads >> 4;
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
#line 339 "blocks/fused_wide.cuh"
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
#line 355 "blocks/fused_wide.cuh"
    #pragma unroll 1
    for (int e = thread; e < 1024; e += threads) {
        const int major = e / 2, line = e % 2 * 32;
#line 362 "blocks/fused_wide.cuh"
        if (first + line < 512)
            prefetch_l2(a + major * lda + first + line);
#line 365 "blocks/fused_wide.cuh"
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
QRS_DEV i64 wide_v_place() { return (i64)blockIdx.x * 589824; }
QRS_DEV i64 wide_t_place() { return (i64)blockIdx.x * 131072; }
QRS_DEV int wide_trapezoid(int p) { return (p * 8 - p * (p - 1) / 2) * 8192; }

// One thread starts the way of panel k's V and T to scratch.
QRS_DEV void wide_keep_v(const wide_stage &s, int k, bool low)
{
    if (threadIdx.x != WIDE_SENDER)
        return;
    const u32 bytes = (8 - k) * 8192;
    u8 *to = s.v + wide_v_place() + wide_trapezoid(k);
    const saddr from = to_saddr(dynamic_smem()) + 0;
    bulk_store(to, from, bytes);
#line 396 "blocks/fused_wide.cuh"
    if (low)
        bulk_store(to + 294912, from + 65536, bytes);
#line 399 "blocks/fused_wide.cuh"
    bulk_commit();
}
QRS_DEV void wide_keep_t(u8 *scratch, int k)
{
    if (threadIdx.x != WIDE_SENDER)
        return;
    bulk_store(scratch + wide_t_place() + k * 16384, to_saddr(dynamic_smem()) + 196608, 16384);
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
    for (int j = 0; j < 4; j++) {
        const int t = 2 * j + wg, tile = wide_tile_at(t, turn);
        if (tile >= p) {
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
    for (int j = 0; j < 4; j++) {
        const int t = 2 * j + wg, tile = wide_tile_at(t, turn);
        if (tile >= p) {
            const u32 b = wide_further(b0, (tile - p) * 8192);
            wgmma_fence();
            #pragma unroll
            for (int s = 0; s < 4; s++)
                wide_product<SPLIT, false>(c[j], a[s], al[s], wide_further(b, s * 32));
            wgmma_commit();
        }
    }
    #pragma unroll
    for (int j = 0; j < 4; j++)
        wgmma_wait<0>(c[j]);
}
#line 1 "blocks/gram_recursion.cuh"
// Householder panel of B columns from its top block and a Gram matrix: sequential work that does not grow with the rows.
//
// With P1 the top B x B block, P2 the rows below and G = P2'P2, run for j = 0..B-1 (M starts as the identity):
//   s = sum_{i>j} P1[i,j]^2 + G[j,j]; beta, tau, rho, step as in pack_reflector.cuh;
//   d_c = sum_{i>j} P1[i,j] P1[i,c] + G[j,c]; g_c = step (P1[j,c] + rho d_c) for c > j;
//   R[j,c] = P1[j,c] - g_c (alpha - beta); P1[i,c] -= P1[i,j] g_c (i > j); M[:,c] -= g_c M[:,j];
//   G -= g G[j,:] + G[:,j] g' - g g' G[j,j] on what is left.
// Then V1 = P1 rho below its diagonal and V2 = P2 (M rho). Only what lies below the top block is squared in conditioning.
//
// Parameters: B = 32; ROLLED; NC = 1, or 2: 32 passive columns follow the 32 of the panel and are only transformed; LD row stride of P1, G and
// [R \\ V1]; LDM of M. G has B rows and 32 NC columns. Of a passive column c, R[:,c] and M[:,c] come out: the column is now C + P2 M[:,c].
// Layout: lane = column, warps 4.. hold the passive ones; x[k] and gram[k] are row 4 k + (warp & 3). Row j of x turns into row j of M once it
// has been the pivot row, so one array holds both. Everything off the chain dots -> barrier -> scalars -> update runs in its shadow: the
// update of G by step j happens during step j + 1, of which only row j + 1 is needed at once (`row`), and every lane also carries
// the next pivot column at its own rows (xb), found from its old values and its own g. One barrier a column.
// Columns go by fours. With a body for each four what is left of x and gram has fixed registers, and shrinks; inside, the four are a rolled
// loop. ROLLED: one body for all, for kernels that outgrow the instruction cache (128 KB; what it does not keep is fetched again for every
// panel): registers turn by one place after every four columns, so that the pivot row is always number 0, and xd is xb but for zeros where
// rows have become M's. 12 KB less code, 40 cycles a column more.
// A call, not inlined: scheduled under the registers of a kernel that has none to spare a column takes 310 cycles instead of 270.
// Measured on an H200, NC = 1, with 4 warps and straight-line code: 258 cycles a column (1, 2, 8 warps: 763, 303, 400); 64 columns at once: 454.
#line 27 "blocks/gram_recursion.cuh"
// Shared; read and written four floats at a time. One for each parity of the column.
struct alignas(16) gram_buffer {
    float part[68][4]; // dots by column and warp
    f32x2 pivot[68];   // row j of P1 and of G
    float next[32];              // old column j + 1 of x, in the order of the rows' owners: x[k] of warp w at 8 w + k
    float row[32];               // row j of G in that order
    float g[32];                 // g of step j in that order
#line 35 "blocks/gram_recursion.cuh"
    float spare[64];         // what the passive columns would write to the two
#line 37 "blocks/gram_recursion.cuh"
};
struct gram_buffers {
    gram_buffer side[2];
    f32x4 scalars[32]; // pivot entry, square sum of its tail, 1 / norm, |rho|
};
static_assert(sizeof(gram_buffers) == 5056, "offsets below");

// Threads 0..127 call, with passive columns 0..255. Results in shared memory: m, upper triangular with zeros below, columns scaled by rho (may be gram_in's place); rv, R on and
// above the diagonal and V1 below (may be p1's place); tau. whole: the columns' squares at the panel's start. bare: nothing lies below the
// top block, so that nothing can cancel. steps: columns past these have no reflector.
// True, in each warp of the active columns (and in the others), when the recursion went well as far as it can tell; the true norms of V have the last word.
QRS_CALL bool gram_recursion(const float *p1, const float *gram_in, const float *whole, gram_buffers *s, float *m, float *rv, float *tau,
                            int steps, bool bare, int threads)
{
    const int l = lane(), w = warp() & 3, c = (int)threadIdx.x >> 7 << 5 | l;
    const bool active = c < 32;
    // Addresses by hand: 32 bits, and the loop adds to them no more than the parity of the column.
    const saddr base = to_saddr(s), my_part = base + c * 16, my_share = my_part + w * 4, my_pivot = base + 1088 + c * 8;
    const saddr rows = base + w * 32, owner = base + (l & 3) * 32 + (active ? 0 : 256);
    const saddr rv_at = to_saddr(rv) + c * 4;
    float x[8], gram[8], xb[8], old_row[8], old_h = 0.0f, old_g = 0.0f;
    #pragma unroll
    for (int k = 0; k < 8; k++) {
        x[k] = p1[(4 * k + w) * 68 + c];
        gram[k] = gram_in[(4 * k + w) * 68 + c];
        xb[k] = p1[(4 * k + w) * 68];
        old_row[k] = 0.0f;
    }
    float row = gram[0];
    const float start = active ? gram_in[l * 69] : 0.0f;
    if (threadIdx.x < 32)
        s->side[1].g[l] = 0.0f;
#line 78 "blocks/gram_recursion.cuh"
    if (threadIdx.x < 2) { // "next" of the last column
        *(f32x4 *)s->side[l].part[64] = {0.0f, 0.0f, 0.0f, 0.0f};
        s->side[l].pivot[64] = {0.0f, 0.0f};
    }

#line 84 "blocks/gram_recursion.cuh"
    float live[8], xd[8]; // live: 1 for rows of P1, 0 for those that have become M's
    #pragma unroll
    for (int k = 0; k < 8; k++) {
        live[k] = 1.0f;
        xd[k] = xb[k];
    }
#line 91 "blocks/gram_recursion.cuh"
    #pragma unroll 1
    for (int jj = 0; jj < 8; jj++) {
        const int top = 0, ahead = top + 1 < 8 ? top + 1 : top;
        // Where its owner finds a lane's row, and will find it when registers have turned.
        const saddr owner_now = owner + ((l >> 2) - jj + top & 7) * 4;
        const saddr owner_then = owner + ((l >> 2) - jj - 1 & 7) * 4;
        #pragma unroll 1
        for (int jw = 0; jw < 4; jw++) {
            const int j = jj * 4 + jw;
            const saddr side = (jw & 1) * 2272, pivot = my_pivot + side, rows_now = rows + side;
            const saddr dots = base + side + j * 16, pivots = base + side + 1088 + j * 8;
            const bool own = w == jw;
            {
                float sum[2] = {own ? row : 0.0f, (w > jw ? xb[top] : 0.0f) * x[top]};
                #pragma unroll
                for (int k = top + 1; k < 8; k++)
                    sum[(k - top) & 1] = fmaf(xd[k], x[k], sum[(k - top) & 1]);
                sts(my_share + side, sum[0] + sum[1]);
                if (own) {
                    sts(pivot, f32x2{x[top], row});
                    sts(owner_now + side + 1760, row);
                }
                if (c == j + 1) {
                    #pragma unroll
                    for (int k = 0; k < 8; k += 4)
                        sts(rows_now + 1632 + 4 * k, f32x4{x[k], x[k + 1], x[k + 2], x[k + 3]});
                }
            }
            bar_sync(1, threads);
            const f32x4 dj = lds<f32x4>(dots);
            const f32x2 pj = lds<f32x2>(pivots);
            const f32x4 dn = lds<f32x4>(dots + 16);
            const f32x2 pn = lds<f32x2>(pivots + 8);
            const f32x4 dc = lds<f32x4>(my_part + side);
            const f32x2 pc = lds<f32x2>(pivot);
            float next[8], last_g[8], this_row[8];
            #pragma unroll
            for (int k = 0; k < 8; k += 4) {
                f32x4 v = lds<f32x4>(rows_now + 1632 + 4 * k);
                next[k] = v.x, next[k + 1] = v.y, next[k + 2] = v.z, next[k + 3] = v.w;
                if (k + 3 >= top) {
                    v = lds<f32x4>(rows + 2272 - side + 1888 + 4 * k);
                    last_g[k] = v.x, last_g[k + 1] = v.y, last_g[k + 2] = v.z, last_g[k + 3] = v.w;
                    v = lds<f32x4>(rows_now + 1760 + 4 * k);
                    this_row[k] = v.x, this_row[k + 1] = v.y, this_row[k + 2] = v.z, this_row[k + 3] = v.w;
                }
            }
            const float squares = (dj.x + dj.y) + (dj.z + dj.w);
            const float norm2 = fmaxf(fmaf(pj.x, pj.x, squares), 0x1p-120f);
            const float q = rsqrt_normal(norm2), norm = norm2 * q;
            const float rho0 = rcp_normal(fabsf(pj.x) + norm);
            const float dots_n = (dn.x + dn.y) + (dn.z + dn.w), dots_c = (dc.x + dc.y) + (dc.z + dc.w);
            #pragma unroll
            for (int k = top; k < 8; k++) {
                gram[k] = fmaf(-old_row[k], old_g, fmaf(-last_g[k], old_h, gram[k]));
                old_row[k] = this_row[k];
            }

            const bool some = squares > 0.0f;
            // step (p + rho d) = |step| (+-p + |rho| d): signs and the zero are settled while rho is on its way.
            const float size = some ? q : 0.0f;
            const u32 flip = as_u32(pj.x) & 0x80000000u;
            const float gap = copysignf(fabsf(pj.x) + norm, pj.x);
            const float gn = size * fmaf(rho0, dots_n, as_f32(as_u32(pn.x) ^ flip));
            const float gc = size * fmaf(rho0, dots_c, as_f32(as_u32(pc.x) ^ flip)), g = c > j ? gc : 0.0f;
            // The pivot row leaves P1 and becomes a row of M, where it is zero but for the one on the diagonal.
            xb[top] = own ? 1.0f : xb[top];
            next[top] = own ? 0.0f : next[top];
            #pragma unroll
            for (int k = 7; k >= 0; k--) {
                x[k] = fmaf(-g, xb[k], k == top && own && c > j ? 0.0f : x[k]);
                xb[k] = fmaf(-gn, xb[k], next[k]);
#line 164 "blocks/gram_recursion.cuh"
                xd[k] = live[k] * xb[k];
#line 166 "blocks/gram_recursion.cuh"
            }
            old_h = fmaf(-g, pj.y, pc.y);
            old_g = g;
            row = fmaf(-pn.y, g, fmaf(-gn, old_h, jw == 3 ? gram[ahead] : gram[top]));
            if (own) {
                sts((jw == 3 ? owner_then : owner_now) + side + 1888, g);
                sts(rv_at + j * 272, fmaf(-gc, gap, pc.x)); // what is on and below the diagonal is written at the end
                sts_if(c == 0, base + 4544 + j * 16, f32x4{pj.x, squares, q, rho0});
            }
        }
#line 177 "blocks/gram_recursion.cuh"
        const float x0 = x[0], gram0 = gram[0], xb0 = xb[0], old0 = old_row[0];
        #pragma unroll
        for (int k = 0; k + 1 < 8; k++)
            x[k] = x[k + 1], gram[k] = gram[k + 1], xb[k] = xb[k + 1], xd[k] = xd[k + 1], old_row[k] = old_row[k + 1], live[k] = live[k + 1];
        x[7] = x0, gram[7] = gram0, xb[7] = xb0, old_row[7] = old0, live[7] = xd[7] = 0.0f;
#line 183 "blocks/gram_recursion.cuh"
    }
    bar_sync(1, threads);
    const f32x4 scalars = lds<f32x4>(base + 4544 + l * 16);
    const bool some = scalars.y > 0.0f;
    const float norm = fmaxf(fmaf(scalars.x, scalars.x, scalars.y), 0x1p-120f) * scalars.z;
    const float rho_of = some ? copysignf(scalars.w, scalars.x) : 0.0f, squares_of = scalars.y;
    const float beta_of = some ? copysignf(norm, -scalars.x) : scalars.x;
    if (threadIdx.x < 32)
        tau[l] = some ? fmaf(fabsf(scalars.x), scalars.z, 1.0f) : 0.0f;
    #pragma unroll
    for (int k = 0; k < 8; k++) {
        const int i = 4 * k + w;
        m[i * 68 + c] = !active ? x[k] : i < c ? x[k] * rho_of : i == c ? rho_of : 0.0f;
        if (i >= c)
            rv[i * 68 + c] = i == c ? beta_of : x[k] * rho_of;
    }
    // What cancelled cannot be trusted: a norm far below the column's own, a tail that is negative, tiny, or zero only by
    // cancellation. NaN fails.
    const float whole_of = whole[l];
    const bool sound = beta_of * beta_of >= 1e-6f * whole_of && (squares_of == 0.0f ? start == 0.0f : squares_of >= 1e-6f * whole_of);
    return warp_all(!active || l >= steps || (bare ? squares_of == 0.0f || squares_of >= 0x1p-60f : sound));
}
#line 1 "blocks/gram_small.cuh"
// Small fp32-level products on tensor cores.
//
// Three TF32 products (hi hi + hi lo + lo hi) keep about fp32's accuracy with fp32's range. The high half is rounded, by hand, as the
// conversion takes five instructions; of the low half the unit drops what is below 2^-22 of x. A NaN that does not survive
// in hi does in lo.
QRS_DEV void gram_split(float x, u32 &hi, u32 &lo)
{
    hi = (as_u32(x) + 0x1000u) & 0xffffe000u;
    lo = as_u32(x - as_f32(hi));
}

// Operands of a product of 16 x 8 x 8: on the left rows g, g + 8 of columns q, then of q + 4; on the right rows q, q + 4 of column g (g = lane / 4, q = lane % 4). An
// accumulator's columns 2 q, 2 q + 1 can be either at once, if they count as q, q + 4 on both sides.
struct gram_left {
    u32 hi[4], lo[4];
};
struct gram_right {
    u32 hi[2], lo[2];
};
QRS_DEV void gram_operand(gram_left &a, float v0, float v1, float v2, float v3)
{
    gram_split(v0, a.hi[0], a.lo[0]);
    gram_split(v1, a.hi[1], a.lo[1]);
    gram_split(v2, a.hi[2], a.lo[2]);
    gram_split(v3, a.hi[3], a.lo[3]);
}
QRS_DEV void gram_operand(gram_right &b, float v0, float v1)
{
    gram_split(v0, b.hi[0], b.lo[0]);
    gram_split(v1, b.hi[1], b.lo[1]);
}
QRS_DEV void gram_multiply(float (&d)[4], const gram_left &a, const gram_right &b)
{
    mma_tf32(d, a.hi, b.lo[0], b.lo[1]);
    mma_tf32(d, a.lo, b.hi[0], b.hi[1]);
    mma_tf32(d, a.hi, b.hi[0], b.hi[1]);
}

#line 40 "blocks/gram_small.cuh"
// to = from + sign A B (from null: 0), 32 x 32 x 32, rows 68 apart, all in shared memory, where `to` may be any of the others. A(i, k) is a[68 i + k], or with
// `turned` a[68 k + i]. Four warps form a quarter each, or nothing where their `to` is null. Synchronises `threads` threads between and after, by barrier `bar`: so
// all 256 may form two products at once, warps 0-3 one and warps 4-7 another. A rolled loop: it runs at what its loads and products take one after another, but code that
// is walked a few times a panel costs more.
QRS_CALL void gram_product(float *to, const float *from, const float *a, bool turned, const float *b, float sign, int bar, int threads)
{
    const int w = warp(), g = lane() >> 2, q = lane() & 3, row = (w & 2) * 8 + g, col = (w & 1) * 16;
    const int ai = turned ? 1 : 68, ak = turned ? 68 : 1, place = row * 68 + col + 2 * q;
    float d[2][4], e[2][4], f[2][4]; // the leading product, and the two small ones: shorter chains
    if (to) {
        #pragma unroll
        for (int n = 0; n < 2; n++)
            #pragma unroll
            for (int x = 0; x < 4; x++)
                d[n][x] = e[n][x] = f[n][x] = 0.0f;
        a += row * ai + q * ak;
        b += q * 68 + col + g;
        #pragma unroll 1
        for (int k = 0; k < 4; k++, a += 8 * ak, b += 8 * 68) {
            gram_left l;
            gram_operand(l, a[0], a[8 * ai], a[4 * ak], a[8 * ai + 4 * ak]);
            #pragma unroll
            for (int n = 0; n < 2; n++) {
                gram_right r;
                gram_operand(r, b[8 * n], b[4 * 68 + 8 * n]);
                mma_tf32(e[n], l.hi, r.lo[0], r.lo[1]);
                mma_tf32(f[n], l.lo, r.hi[0], r.hi[1]);
                mma_tf32(d[n], l.hi, r.hi[0], r.hi[1]);
            }
        }
        #pragma unroll
        for (int n = 0; n < 2; n++)
            #pragma unroll
            for (int x = 0; x < 4; x++)
                d[n][x] = fmaf(sign, d[n][x] + (e[n][x] + f[n][x]), from ? from[place + 8 * n + (x & 1) + (x >> 1) * 8 * 68] : 0.0f);
    }
    bar_sync(bar, threads);
    if (to) {
        #pragma unroll
        for (int n = 0; n < 2; n++)
            #pragma unroll
            for (int x = 0; x < 4; x++)
                to[place + 8 * n + (x & 1) + (x >> 1) * 8 * 68] = d[n][x];
    }
    bar_sync(bar, threads);
}
#line 1 "blocks/t_small.cuh"
// T of a panel of 32 columns from V'V and tau, by one warp.
//
// Parameters: LDG, LDT: rows of V'V and of T lie so far apart, multiples of 4.
// T = (I + D striu(V'V))^-1 D with D = diag(tau) (Schreiber and Van Loan's compact WY): the two 16 x 16 blocks of the diagonal
// by substitution at once, then the block above them as T12 = -T11 (S12 T22), instead of a chain of 32 columns. tau = 0 gives a zero row and column by itself.
#line 1 "blocks/t_corner.cuh"
// The block of T above those of its diagonal.
//
// Parameters: LDG, LDT: rows of V'V and of T lie so far apart.
// T12 = -T11 (S12 T22) of the halves in t (32 x 32), as two transposed products whose first result is at once the second's operand (gram_small.cuh). s: V'V.
QRS_DEV void t_corner(const float *s, float *t)
{
    const int g = lane() >> 2, q = lane() & 3;
    float y[2][4], z[2][4];
    #pragma unroll
    for (int n = 0; n < 2; n++)
        #pragma unroll
        for (int e = 0; e < 4; e++)
            y[n][e] = z[n][e] = 0.0f;
    #pragma unroll
    for (int k = 0; k < 16; k += 8) { // (S12 T22)' = T22' S12'
        const float *from = t + (16 + k + q) * 68 + 16 + g;
        gram_left a;
        gram_operand(a, from[0], from[8], from[272], from[280]);
        #pragma unroll
        for (int n = 0; n < 2; n++) {
            gram_right b;
            gram_operand(b, s[(8 * n + g) * 68 + 16 + k + q], s[(8 * n + g) * 68 + 20 + k + q]);
            gram_multiply(y[n], a, b);
        }
    }
    #pragma unroll
    for (int k = 0; k < 2; k++) { // T12' = -(S12 T22)' T11'
        gram_left a;
        gram_operand(a, -y[k][0], -y[k][2], -y[k][1], -y[k][3]);
        #pragma unroll
        for (int n = 0; n < 2; n++) {
            const float *from = t + (8 * n + g) * 68 + 8 * k + 2 * q;
            gram_right b;
            gram_operand(b, from[0], from[1]);
            gram_multiply(z[n], a, b);
        }
    }
    #pragma unroll
    for (int n = 0; n < 2; n++)
        #pragma unroll
        for (int e = 0; e < 4; e++)
            t[(8 * n + 2 * q + (e & 1)) * 68 + 16 + g + (e >> 1) * 8] = z[n][e];
}
#line 7 "blocks/t_small.cuh"

// gram: V'V, symmetric; t: 32 x 32.
QRS_CALL void small_t(const float *gram, const float *tau, float *t)
{
    const int l = lane(), o = l & 16, r = l & 15; // lane = row of T; columns of its half one after another, each added to those after it
    const saddr from = to_saddr(gram + o * 69);
    float sum[16]; // of the columns from 4 k on
    #pragma unroll
    for (int j = 0; j < 16; j++)
        sum[j] = 0.0f;
    #pragma unroll 1
    for (int k = 0; k < 4; k++) {
        const f32x4 f4 = *(const f32x4 *)(tau + o + 4 * k);
        const float f[4] = {f4.x, f4.y, f4.z, f4.w};
        f32x4 g[4][4]; // rows of V'V
        #pragma unroll
        for (int i = 0; i < 4; i++)
            #pragma unroll
            for (int j = 0; j < 4; j++)
                g[i][j] = j + k < 4 ? lds<f32x4>(from + k * 1104 + i * 272 + j * 16) : f32x4{0.0f, 0.0f, 0.0f, 0.0f};
        float x[4];
        #pragma unroll
        for (int i = 0; i < 4; i++) {
            x[i] = r == 4 * k + i ? f[i] : r < 4 * k + i ? -f[i] * sum[i] : 0.0f;
            #pragma unroll
            for (int j = (i + 1) / 4; j < 4; j++) {
                sum[4 * j] = fmaf(x[i], g[i][j].x, sum[4 * j]);
                sum[4 * j + 1] = fmaf(x[i], g[i][j].y, sum[4 * j + 1]);
                sum[4 * j + 2] = fmaf(x[i], g[i][j].z, sum[4 * j + 2]);
                sum[4 * j + 3] = fmaf(x[i], g[i][j].w, sum[4 * j + 3]);
            }
        }
        #pragma unroll
        for (int j = 0; j + 4 < 16; j++)
            sum[j] = sum[j + 4];
        *(f32x4 *)(t + l * 68 + o + 4 * k) = {x[0], x[1], x[2], x[3]};
        *(f32x4 *)(t + l * 68 + 16 - o + 4 * k) = {0.0f, 0.0f, 0.0f, 0.0f};
    }
    warp_sync();
    t_corner(gram, t);
}
#line 1 "blocks/gram_whole.cuh"
// A panel of 64 columns from its whole Gram matrix, for panels much taller than wide: no sums over rows, so a column costs little more than its scalars.
//
// With X the top block (64 x 64) and G = P'P of all rows, for j = 0..63 (Householder reconstruction: Ballard, Demmel, Grigori, Jacquelin, Nguyen,
// Solomonik 2014, with M taken along by Gauss-Jordan steps):
//   r = G[j,:] / sqrt(G[j,j]); G -= r'r;
//   s = -sign(X[j,j]); R[j,:] = s r; n = X[j,:] - R[j,:], zero before column j; tau = |n[j]| / r[j];
//   X[i,:] -= (X[i,j] / n[j]) n and X[i,j] -> X[i,j] / n[j] for i /= j; X[j,:] = -n / n[j], X[j,j] = 1 / n[j].
// Then X holds V's top block below its diagonal, and on and above it M, the inverse of the matrix of all n: V2 = P2 M. All of P's conditioning is
// squared, where the recursion squares that of the rows below only: with 128 rows and more a random panel loses 10 eps, with 64 thousands.
// A zero column gets no reflector (r = 0, 1 / n[j] taken as 0). After it only zero columns may come: another one's G would lack row j.
//
// The steps are gram_narrow.cuh's, 32 columns at a time, 1 and 2 the halves of rows and columns. Between them, with what it keeps of the first 32,
//   R12 = R11^-T G12 but for the signs, G22 -= R12'R12,
//   Z = (R11 - X11)^-1 (X12 - R12), X22 += X21 Z; afterwards V21 = X21 M11 and M12 = Z M22,
// by four warps that take no part in the steps: what belongs to G beside the steps on X11, what follows from M11 beside those on X22.
// A panel of just 64 rows can have its first half so, too. Its second half, X22 then, is square, and is the recursion's.
//
// Parameters: LD = 68: row stride of all matrices; LEAST: share of a column's square that must be left of it.
#line 1 "blocks/gram_narrow.cuh"
// A panel of 32 columns from its whole Gram matrix, for panels at least twice as tall as wide: gram_whole.cuh, which explains it, for fewer columns, a pair of columns
// at a time. With 64 rows and more a random panel loses 10 eps, with 48 as many, with 32 thousands.
//
// Parameters: LD: row stride of X, G and R; LDM: of M; LEAST: share of a column's square that must be left of it. WHOLE: for gram_whole.cuh, which puts things
// into their places itself. Template parameter KEEP: two inverses come out, too.
// Layout: two warps hold X, and two G, a few pairs ahead, each two with barriers of their own; R's rows are announced by twos of pairs. Thread (ty, tx) of 8 x 8 has rows
// 2 ty, 2 ty + 1 and those 16 further on, and columns by tx likewise. After eight pairs the threads' first columns are finished: the others come first, and the lower
// rows, so that a pair's rows and columns are always number 0 and 1 of their owners'. Owners hand rows and columns round through shared memory in the order in which
// threads hold them ("dealt"). What threads hold of finished columns is left to itself: it is never used, unless KEEP lets the inverses grow there, as if of the identity.
// A pair's steps on X are 110 instructions, at about two cycles each most of their time: hence two pairs a turn, with parities and addresses fixed.
#line 14 "blocks/gram_narrow.cuh"
struct alignas(16) gram_narrow_pivots { // of a pair, by its parity
    float x[2][4][32]; // rows of X, columns of X
    float g[2][2][32]; // rows of G
    float corner[2][4]; // X's entries in the pair's rows and columns
    float pivot[2][4]; // G's, if KEEP
    float diagonal[16][4]; // R's, all pairs: what a step waits for comes by two loads, not by five in whatever order
};

QRS_DEV void gram_read(float (&to)[4], saddr from)
{
    const f32x4 v = lds<f32x4>(from);
    to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
}
// This thread's of a matrix.
QRS_DEV void gram_deal(float (&y)[4][4], const float *from)
{
    from += ((int)threadIdx.x >> 3 & 7) * 136 + ((int)threadIdx.x & 7) * 2;
    #pragma unroll
    for (int i = 0; i < 4; i++)
        #pragma unroll
        for (int c = 0; c < 4; c += 2) {
            const f32x2 v = *(const f32x2 *)(from + ((i >> 1) * 16 + (i & 1)) * 68 + 8 * c);
            y[i][c] = v.x, y[i][c + 1] = v.y;
        }
}
// The second half of the columns comes first, and that of the rows.
template <bool KEEP> QRS_DEV void gram_halves(float (&y)[4][4])
{
    #pragma unroll
    for (int i = 0; i < 2; i++)
        #pragma unroll
        for (int c = 0; c < 2; c++) {
            const float upper = y[i][c + 2], first = y[i][c];
            if (KEEP)
                y[i][c + 2] = y[i + 2][c];
            y[i][c] = y[i + 2][c + 2];
            y[i + 2][c] = upper;
            if (KEEP)
                y[i + 2][c + 2] = first;
        }
}

// Cholesky steps, warps 2 and 3: R's rows to rv, dealt; if KEEP R^-T's in their first columns, the pair's included.
template <bool KEEP> QRS_DEV void gram_narrow_cholesky(const float *gram, float *rv, gram_narrow_pivots *s)
{
    const int ty = (int)threadIdx.x >> 3 & 7, tx = (int)threadIdx.x & 7;
    const saddr mine = to_saddr(s->g) + 16 * tx, across = to_saddr(s->g) + 16 * ty;
    saddr r = to_saddr(rv) + 16 * tx, diagonal = to_saddr(s->diagonal);
    const saddr pivot = to_saddr(s->pivot);
    int announced = 3;
    float y[4][4];
    gram_deal(y, gram);
    #pragma unroll 1
    for (int half = 0; half < 2; half++) {
        saddr pivots = to_saddr(s->g);
        #pragma unroll 1
        for (int two = 0; two < 8; two += 2, pivots += 32, diagonal += 32, r += 1088) {
#line 73 "blocks/gram_narrow.cuh"
            {
                const bool own = ty == two + 0;
                const bool column = KEEP && tx == two + 0;
                if (KEEP)
                    sts_if(own && column, pivot + 0, {y[0][0], y[0][1], y[1][0], y[1][1]});
                #pragma unroll
                for (int e = 0; e < 2; e++)
                    sts_if(own, mine + 0 + 128 * e, {column ? 1.0f - e : y[e][0], column ? 0.0f + e : y[e][1], y[e][2], y[e][3]});
                #pragma unroll
                for (int i = 0; i < 4; i++)
                    #pragma unroll
                    for (int c = 0; c < 2; c++)
                        y[i][c] = column ? 0.0f : y[i][c];
                bar_sync(12, 64);
                f32x4 g;
                if (KEEP) {
                    g = lds<f32x4>(pivot + 0);
                } else {
                    const f32x2 first = lds<f32x2>(pivots + 0);
                    g = {first.x, first.y, 0.0f, lds<float>(pivots + 132)};
                }
                float c0[4], c1[4], r0[4], r1[4];
                gram_read(r0, across + 0);
                gram_read(c0, mine + 0);
                gram_read(c1, mine + 128);
                gram_read(r1, across + 128);
                const float q0 = g.x == 0.0f ? 0.0f : rsqrt_normal(g.x), w0 = q0 * q0, u = w0 * g.y;
                const float g1 = fmaf(-u, g.y, g.w), q1 = g1 == 0.0f ? 0.0f : rsqrt_normal(g1), w1 = q1 * q1;
                #pragma unroll
                for (int c = 0; c < 4; c++)
                    c1[c] = fmaf(-u, c0[c], c1[c]);
                #pragma unroll
                for (int i = 0; i < 4; i++) {
                    const float a0 = w0 * r0[i], a1 = w1 * fmaf(-u, r0[i], r1[i]);
                    #pragma unroll
                    for (int c = 0; c < 4; c++)
                        y[i][c] = fmaf(-a1, c1[c], fmaf(-a0, c0[c], y[i][c]));
                }
                sts_if(own, r + 0, {q0 * c0[0], q0 * c0[1], q0 * c0[2], q0 * c0[3]});
                sts_if(own, r + 272, {q1 * c1[0], q1 * c1[1], q1 * c1[2], q1 * c1[3]});
                sts_if(own && tx == ty, diagonal + 0, {q0 * g.x, q0 * g.y, 0.0f, q1 * g1});
            }
#line 73 "blocks/gram_narrow.cuh"
            {
                const bool own = ty == two + 1;
                const bool column = KEEP && tx == two + 1;
                if (KEEP)
                    sts_if(own && column, pivot + 16, {y[0][0], y[0][1], y[1][0], y[1][1]});
                #pragma unroll
                for (int e = 0; e < 2; e++)
                    sts_if(own, mine + 256 + 128 * e, {column ? 1.0f - e : y[e][0], column ? 0.0f + e : y[e][1], y[e][2], y[e][3]});
                #pragma unroll
                for (int i = 0; i < 4; i++)
                    #pragma unroll
                    for (int c = 0; c < 2; c++)
                        y[i][c] = column ? 0.0f : y[i][c];
                bar_sync(12, 64);
                f32x4 g;
                if (KEEP) {
                    g = lds<f32x4>(pivot + 16);
                } else {
                    const f32x2 first = lds<f32x2>(pivots + 272);
                    g = {first.x, first.y, 0.0f, lds<float>(pivots + 404)};
                }
                float c0[4], c1[4], r0[4], r1[4];
                gram_read(r0, across + 256);
                gram_read(c0, mine + 256);
                gram_read(c1, mine + 384);
                gram_read(r1, across + 384);
                const float q0 = g.x == 0.0f ? 0.0f : rsqrt_normal(g.x), w0 = q0 * q0, u = w0 * g.y;
                const float g1 = fmaf(-u, g.y, g.w), q1 = g1 == 0.0f ? 0.0f : rsqrt_normal(g1), w1 = q1 * q1;
                #pragma unroll
                for (int c = 0; c < 4; c++)
                    c1[c] = fmaf(-u, c0[c], c1[c]);
                #pragma unroll
                for (int i = 0; i < 4; i++) {
                    const float a0 = w0 * r0[i], a1 = w1 * fmaf(-u, r0[i], r1[i]);
                    #pragma unroll
                    for (int c = 0; c < 4; c++)
                        y[i][c] = fmaf(-a1, c1[c], fmaf(-a0, c0[c], y[i][c]));
                }
                sts_if(own, r + 544, {q0 * c0[0], q0 * c0[1], q0 * c0[2], q0 * c0[3]});
                sts_if(own, r + 816, {q1 * c1[0], q1 * c1[1], q1 * c1[2], q1 * c1[3]});
                sts_if(own && tx == ty, diagonal + 16, {q0 * g.x, q0 * g.y, 0.0f, q1 * g1});
            }
#line 116 "blocks/gram_narrow.cuh"
            bar_arrive(announced++, 128);
        }
        gram_halves<KEEP>(y);
    }
}

// The same pairs' steps on X, warps 0 and 1: V's top block and M by columns to m, dealt. To inverse, if KEEP: (R - X)^-1.
template <bool KEEP> QRS_DEV void gram_narrow_jordan(const float *x, const float *rv, float *m, float *inverse, gram_narrow_pivots *s)
{
    const int ty = (int)threadIdx.x >> 3 & 7, tx = (int)threadIdx.x & 7;
    const saddr rows_of_x = to_saddr(s->x) + 16 * tx, columns_of_x = to_saddr(s->x) + 256 + 16 * ty;
    const saddr corner = to_saddr(s->corner);
    saddr r = to_saddr(rv) + 16 * tx, diagonal = to_saddr(s->diagonal), to = to_saddr(m) + 16 * ty;
    int announced = 3;
    float y[4][4];
    gram_deal(y, x);
    #pragma unroll 1
    for (int half = 0; half < 2; half++) {
        #pragma unroll 1
        for (int two = 0; two < 8; two += 2, diagonal += 32, r += 1088, to += 1088) {
#line 138 "blocks/gram_narrow.cuh"
            {
                const bool rows = ty == two + 0, columns = tx == two + 0;
                #pragma unroll
                for (int e = 0; e < 2; e++) {
                    sts_if(rows, rows_of_x + 0 + 128 * e, {KEEP && columns ? 1.0f - e : y[e][0], KEEP && columns ? 0.0f + e : y[e][1], y[e][2], y[e][3]});
                    // The pair's own rows turn into rows of M, as if of the identity.
                    sts_if(columns, columns_of_x + 0 + 128 * e, {rows ? 1.0f - e : y[0][e], rows ? 0.0f + e : y[1][e], y[2][e], y[3][e]});
                }
                sts_if(rows && columns, corner + 0, {y[0][0], y[0][1], y[1][0], y[1][1]});
                #pragma unroll
                for (int e = 0; e < 2; e++)
                    #pragma unroll
                    for (int c = 0; c < 4; c++)
                        y[e][c] = rows ? 0.0f : y[e][c];
                if (KEEP)
                    #pragma unroll
                    for (int i = 0; i < 4; i++)
                        #pragma unroll
                        for (int c = 0; c < 2; c++)
                            y[i][c] = columns ? 0.0f : y[i][c];
                bar_wait(announced++, 128);
                const f32x4 x = lds<f32x4>(corner + 0), rr = lds<f32x4>(diagonal + 0);
                float n0[4], n1[4], c0[4], c1[4], e0[4], e1[4];
                gram_read(e0, columns_of_x + 0);
                gram_read(n0, rows_of_x + 0);
                gram_read(c0, r + 0);
                gram_read(e1, columns_of_x + 128);
                gram_read(n1, rows_of_x + 128);
                gram_read(c1, r + 272);
                // The second pivot by way of their determinant: the reciprocals need not wait for each other, nor the magnitudes for signs.
                const float s0 = copysignf(1.0f, x.x), size0 = fabsf(x.x) + rr.x, n00 = s0 * size0, n01 = fmaf(s0, rr.y, x.y), det = fmaf(x.w, n00, -x.z * n01);
                const float s1 = copysignf(s0, det) * s0, size1 = fmaf(rr.w, size0, fabsf(det));
                float inv0, inv1;
                rcp_normal_pair(size0, size1, inv0, inv1);
                inv0 = rr.x == 0.0f ? 0.0f : s0 * inv0;
                inv1 = rr.w == 0.0f ? 0.0f : s1 * (size0 * inv1);
                const float l10 = x.z * inv0;
                const bool late = tx > two + 0 || !KEEP, early = !half || !KEEP; // R^-T is in the other columns
                const float add0[2] = {late ? s0 : 0.0f, early ? s0 : 0.0f}, add1[2] = {late ? s1 : 0.0f, early ? s1 : 0.0f};
                #pragma unroll
                for (int c = 0; c < 4; c++) {
                    n0[c] = fmaf(add0[c >> 1], c0[c], n0[c]);
                    n1[c] = fmaf(add1[c >> 1], c1[c], fmaf(-l10, n0[c], n1[c]));
                }
                #pragma unroll
                for (int i = 0; i < 4; i++) {
                    e0[i] *= inv0;
                    e1[i] = fmaf(-e0[i], n01, e1[i]) * inv1;
                    #pragma unroll
                    for (int c = 0; c < 4; c++)
                        y[i][c] = fmaf(-e1[i], n1[c], fmaf(-e0[i], n0[c], y[i][c]));
                }
                sts_if(columns, to + 0, {e0[0], rows ? l10 : e0[1], e0[2], e0[3]});
                sts_if(columns, to + 272, {e1[0], e1[1], e1[2], e1[3]});
            }
#line 138 "blocks/gram_narrow.cuh"
            {
                const bool rows = ty == two + 1, columns = tx == two + 1;
                #pragma unroll
                for (int e = 0; e < 2; e++) {
                    sts_if(rows, rows_of_x + 512 + 128 * e, {KEEP && columns ? 1.0f - e : y[e][0], KEEP && columns ? 0.0f + e : y[e][1], y[e][2], y[e][3]});
                    // The pair's own rows turn into rows of M, as if of the identity.
                    sts_if(columns, columns_of_x + 512 + 128 * e, {rows ? 1.0f - e : y[0][e], rows ? 0.0f + e : y[1][e], y[2][e], y[3][e]});
                }
                sts_if(rows && columns, corner + 16, {y[0][0], y[0][1], y[1][0], y[1][1]});
                #pragma unroll
                for (int e = 0; e < 2; e++)
                    #pragma unroll
                    for (int c = 0; c < 4; c++)
                        y[e][c] = rows ? 0.0f : y[e][c];
                if (KEEP)
                    #pragma unroll
                    for (int i = 0; i < 4; i++)
                        #pragma unroll
                        for (int c = 0; c < 2; c++)
                            y[i][c] = columns ? 0.0f : y[i][c];
                bar_wait(11, 64);
                const f32x4 x = lds<f32x4>(corner + 16), rr = lds<f32x4>(diagonal + 16);
                float n0[4], n1[4], c0[4], c1[4], e0[4], e1[4];
                gram_read(e0, columns_of_x + 512);
                gram_read(n0, rows_of_x + 512);
                gram_read(c0, r + 544);
                gram_read(e1, columns_of_x + 640);
                gram_read(n1, rows_of_x + 640);
                gram_read(c1, r + 816);
                // The second pivot by way of their determinant: the reciprocals need not wait for each other, nor the magnitudes for signs.
                const float s0 = copysignf(1.0f, x.x), size0 = fabsf(x.x) + rr.x, n00 = s0 * size0, n01 = fmaf(s0, rr.y, x.y), det = fmaf(x.w, n00, -x.z * n01);
                const float s1 = copysignf(s0, det) * s0, size1 = fmaf(rr.w, size0, fabsf(det));
                float inv0, inv1;
                rcp_normal_pair(size0, size1, inv0, inv1);
                inv0 = rr.x == 0.0f ? 0.0f : s0 * inv0;
                inv1 = rr.w == 0.0f ? 0.0f : s1 * (size0 * inv1);
                const float l10 = x.z * inv0;
                const bool late = tx > two + 1 || !KEEP, early = !half || !KEEP; // R^-T is in the other columns
                const float add0[2] = {late ? s0 : 0.0f, early ? s0 : 0.0f}, add1[2] = {late ? s1 : 0.0f, early ? s1 : 0.0f};
                #pragma unroll
                for (int c = 0; c < 4; c++) {
                    n0[c] = fmaf(add0[c >> 1], c0[c], n0[c]);
                    n1[c] = fmaf(add1[c >> 1], c1[c], fmaf(-l10, n0[c], n1[c]));
                }
                #pragma unroll
                for (int i = 0; i < 4; i++) {
                    e0[i] *= inv0;
                    e1[i] = fmaf(-e0[i], n01, e1[i]) * inv1;
                    #pragma unroll
                    for (int c = 0; c < 4; c++)
                        y[i][c] = fmaf(-e1[i], n1[c], fmaf(-e0[i], n0[c], y[i][c]));
                }
                sts_if(columns, to + 544, {e0[0], rows ? l10 : e0[1], e0[2], e0[3]});
                sts_if(columns, to + 816, {e1[0], e1[1], e1[2], e1[3]});
            }
#line 194 "blocks/gram_narrow.cuh"
        }
        gram_halves<KEEP>(y);
    }
    if (KEEP) {
        inverse += ty * 136 + tx * 2;
        #pragma unroll
        for (int i = 0; i < 4; i++)
            #pragma unroll
            for (int c = 0; c < 4; c += 2)
                *(f32x2 *)(inverse + ((i >> 1) * 16 + (i & 1)) * 68 + 8 * c) = {y[i][c], y[i][c + 1]};
    }
}

// 1 / n of a row, on the diagonal of M as it is dealt; its sign is X's.
QRS_DEV float gram_narrow_pivot(const float *m, int row) { return m[row * 68 + (row >> 1 & 7) * 4 + (row & 1)]; }

// Threads of four warps: everything to its place, and R's signs. dealt: R; rv, m: where R above the diagonal and V below, and M, go (m may be dealt's place);
// from: M, dealt (may be m). diagonal: R's, by pairs, which KEEP leaves only there. Synchronises before it writes, by barrier `bar`; and after.
QRS_CALL void gram_narrow_place(const float *dealt, const float (*diagonal)[4], float *rv, const float *from,
                               float *m, float *tau, int bar)
{
    // Columns 8 q.. of a row by a thread. A late row was dealt without the first half of its columns.
    const int tid = threadIdx.x & 127, row = tid >> 2, q = tid & 3, half = row >> 4, of = q >> 1;
    dealt += row * 68 + 16 * (q & 1) + (half ? 0 : 2 * of);
    const float inv = gram_narrow_pivot(from, row), sign = -copysignf(1.0f, inv);
    from += 8 * q * 68 + (row >> 1 & 7) * 4 + 2 * (half ^ of) + (row & 1);
    float r[8], v[8];
    #pragma unroll
    for (int c = 0; c < 8; c += 2) {
        const f32x2 r2 = *(const f32x2 *)(dealt + 2 * c);
        r[c] = r2.x, r[c + 1] = r2.y, v[c] = from[c * 68], v[c + 1] = from[(c + 1) * 68];
    }
#line 227 "blocks/gram_narrow.cuh"
    const f32x2 pair = *(const f32x2 *)(diagonal[row >> 1] + 2 * (row & 1));
    #pragma unroll
    for (int c = 0; c < 8; c += 2)
        if (8 * q + c == (row & 30))
            r[c] = pair.x, r[c + 1] = pair.y;
#line 233 "blocks/gram_narrow.cuh"
    bar_sync(bar, 128);
    #pragma unroll
    for (int c = 0; c < 8; c += 4) {
        float top[4], inverse[4];
        #pragma unroll
        for (int i = 0; i < 4; i++) {
            const bool below = row > 8 * q + c + i;
            top[i] = below ? v[c + i] : sign * r[c + i];
            inverse[i] = below ? 0.0f : v[c + i];
        }
        *(f32x4 *)(rv + row * 68 + 8 * q + c) = {top[0], top[1], top[2], top[3]};
        *(f32x4 *)(m + row * 68 + 8 * q + c) = {inverse[0], inverse[1], inverse[2], inverse[3]};
    }
    if (q == 0)
        tau[row] = inv == 0.0f ? 0.0f : rcp_normal(inv);
    bar_sync(bar, 128);
}
#line 251 "blocks/gram_narrow.cuh"

// Threads of four warps: R^-T from among R's rows to low.
QRS_DEV void gram_narrow_low(const float *dealt, float *low)
{
    const int tid = threadIdx.x & 127, row = tid >> 2, q = tid & 3;
    dealt += row * 68 + 16 * (q & 1) + 2 * (row >> 4 ^ q >> 1);
    low += row * 68 + 8 * q;
    #pragma unroll
    for (int c = 0; c < 8; c += 2) {
        const f32x2 x = *(const f32x2 *)(dealt + 2 * c);
        *(f32x2 *)(low + c) = {8 * q + c <= row ? x.x : 0.0f, 8 * q + c < row ? x.y : 0.0f};
    }
}
#line 1 "blocks/gram_sound.cuh"
// The last word on a panel from its whole Gram matrix (gram_whole.cuh, gram_narrow.cuh).
//
// Parameters: B columns; LD: row stride of R; LEAST: share of a column's square that must be left of it.
// Thread = column, of 64: its tau from |n|, and whether its pivot can be trusted. What cancelled cannot, nor a zero that only cancellation made. NaN fails. whole: G's diagonal.
QRS_DEV bool gram_sound(const float *rv, const float *whole, float *tau)
{
    const int col = threadIdx.x;
    const float r = fabsf(rv[col * 69]), of = whole[col];
    tau[col] = r == 0.0f ? 0.0f : fabsf(tau[col]) * rcp_normal(r); // for the test of v'v: what is stored comes from that
    return r == 0.0f ? of == 0.0f && (col == 63 || whole[col + 1] == 0.0f) : r * r >= 1e-6f * of;
}
#line 21 "blocks/gram_whole.cuh"

// All 256 threads call. rv: top block; becomes R on and above the diagonal and V below. gram: G; its right half becomes M's, half's top left quarter M's
// (half: a third matrix). whole: G's diagonal. steps: columns past these have no reflector. square: the panel has no more rows; steps are more than 32 then.
// Returns false, in some thread, unless the pivots can be trusted. Synchronises, by barriers 1..15, too. The last four warps call Beside::run(false), then
// run(true), for something else to do.
template <class Beside>
QRS_CALL bool gram_whole(float *rv, float *gram, float *half, float *whole, gram_buffers *buffers, gram_narrow_pivots *s, float *tau, int steps, bool square)
{
    const int tid = threadIdx.x, w = shfl((int)warp(), 0);
    float *x12 = rv + 32, *x21 = rv + 32 * 68, *x22 = x21 + 32, *g12 = gram + 32, *g21 = gram + 32 * 68, *g22 = g21 + 32;
    float *kept = half + 32, *low = half + 32 * 68, *r12 = low + 32; // (R11 - X11)^-1, R11^-T, R12 without its signs
    // Of R12's and X12's: four of a row's entries twice, 16 rows apart.
    const int row = tid >> 3 & 15, col = (tid & 7) * 4;
    bool good = true;
    #pragma unroll 1
    for (int h = 0; h < 2; h++) {
        if (h && w < 4)
            gram_product(g22, square ? nullptr : g22, r12, true, r12, square ? 0.0f : -1.0f, 15, 128); // square: zeros, as nothing lies below
        if (h && square && w < 4) {
            bar_wait(14, 256);
            good = gram_recursion(x22, g22, whole + 32, buffers, g22, x22, tau + 32, steps - 32, true, 128);
        } else if (w < 2) {
            if (h)
                bar_wait(14, 192);
            gram_narrow_jordan<true>(h ? x22 : rv, h ? g22 : gram, h ? g21 : half, kept, s + h);
        } else if (w < 4) {
            if (!h)
                whole[tid - 64] = gram[(tid - 64) * 69];
            gram_narrow_cholesky<true>(h ? g22 : gram, h ? g22 : gram, s + h);
            if (!h)
                bar_arrive(13, 192);
        } else if (!h) {
            Beside::run(false);
            bar_wait(13, 192);
            gram_narrow_low(gram, low);
            bar_sync(2, 128); // R^-T is there
            gram_product(r12, nullptr, low, false, g12, 1.0f, 2, 128);
        } else {
            float sign[2];
            #pragma unroll
            for (int i = 0; i < 2; i++) {
                const int of = row + 16 * i;
                sign[i] = copysignf(1.0f, gram_narrow_pivot(half, of));
                const f32x4 r = *(const f32x4 *)(r12 + of * 68 + col);
                f32x4 *x = (f32x4 *)(x12 + of * 68 + col);
                *x = {fmaf(sign[i], r.x, x->x), fmaf(sign[i], r.y, x->y), fmaf(sign[i], r.z, x->z), fmaf(sign[i], r.w, x->w)};
            }
            bar_sync(2, 128);
            gram_product(g12, nullptr, kept, false, x12, 1.0f, 2, 128);
            gram_product(x22, x22, x21, false, g12, 1.0f, 2, 128);
            bar_arrive(14, square ? 256 : 192);
            gram_narrow_place(gram, s[0].diagonal, rv, half, half, tau, 2);
            #pragma unroll
            for (int i = 0; i < 2; i++) {
                const f32x4 r = *(const f32x4 *)(r12 + (row + 16 * i) * 68 + col);
                *(f32x4 *)(x12 + (row + 16 * i) * 68 + col) = {-sign[i] * r.x, -sign[i] * r.y, -sign[i] * r.z, -sign[i] * r.w};
            }
            gram_product(x21, nullptr, x21, false, half, 1.0f, 2, 128);
            Beside::run(true);
        }
        block_sync();
    }
    if (w < 4 && !square)
        gram_narrow_place(g22, s[1].diagonal, x22, g21, g22, tau + 32, 1);
    block_sync();
    if (w >= 4)
        gram_product(g12, nullptr, g12, false, g22, 1.0f, 2, 128);
    block_sync();
    return good && (tid >= (square ? 32 : 64) || gram_sound(rv, whole, tau));
}
#line 1 "blocks/gram_pair.cuh"
// A panel of 64 columns as two Gram recursions of 32 with a block update between them: 64 at once cost 454 cycles a column, two of 32 about 300.
//
// The first half transforms the second half's columns along (they are its passive ones): R12 and Z with C2 <- C2 + P2a Z come out, P2a being the
// rows below the first 32. What the second half needs follows from 32 x 32 products: its top block, and
//   G22 + G21 Z + Z'(G12 + G11 Z)
// for the rows below both. Then V[32:64, 0:32] = P1[32:64, 0:32] M1 and M = [M1, Z M2; 0, M2].
//
// Shared memory of a panel, in the region that updates use for exchange:
struct wide_shared {
    float half[64 * 68];   // of the two recursions; also one warpgroup's share of a 64 x 64 sum; then T in fp32
    float rv[64 * 68];     // top block; then R on and above the diagonal, V below
    float gram[64 * 68];   // G; then M's right half; then V'V
    wide_columns columns;
    float down[64], up[64]; // powers of two: what is packed, times down, has its columns' largest magnitudes in [32, 64)
    float back[64], whole[64];
    alignas(16) float out[64]; // what rows take on their way to H
    gram_buffers recursion;
    wide_away away;
};

// Squares of the top block's columns, 16 rows a thread: to be put together once others can see them.
QRS_DEV void gram_top_squares(wide_shared *s)
{
    const int part = threadIdx.x >> 6, col = threadIdx.x & 63;
    float sum = 0.0f;
    #pragma unroll 4
    for (int i = 0; i < 16; i++) {
        const float x = s->rv[(16 * part + i) * 68 + col];
        sum = fmaf(x, x, sum);
    }
    s->columns.top[part][col] = sum;
}

// All 256 threads call. s->rv: top block, becomes R on and above the diagonal and V below. s->gram: G of the rows below; its right half becomes M's,
// and the left half of s->half M's top left quarter. steps, bare: as in gram_recursion. Returns false, in some thread, unless both recursions
// went well. Synchronises.
QRS_CALL bool gram_pair(wide_shared *s, float *tau, int steps, bool bare)
{
    const int tid = threadIdx.x;
    float *rv = s->rv, *lower = rv + 32 * 68, *corner = lower + 32, *half = s->half, *z = half + 32;
    float *gram = s->gram, *g12 = gram + 32, *g21 = gram + 32 * 68, *g22 = g21 + 32;
    bool good = true;
    gram_top_squares(s);
    // One loop: the products' code, and the recursion's, is there once. Rows 32..63 are below the first half's top block.
    const bool second = shfl((int)warp() >> 2, 0);
    #pragma unroll 1
    for (int op = 0; op < 6; op++) {
        if (op == 1 || op == 4) {
            const int h = op == 4;
            if (h) { // the second half of its update
                #pragma unroll
                for (int e = tid; e < 1024; e += 256)
                    g22[(e >> 5) * 68 + (e & 31)] += gram[(e >> 5) * 68 + (e & 31)];
                block_sync();
            } else if (tid < 64) {
                s->whole[tid] = gram[tid * 69] + ((s->columns.top[0][tid] + s->columns.top[1][tid]) + (s->columns.top[2][tid] + s->columns.top[3][tid]));
            }
            if (!h || !second)
                good = gram_recursion(h ? corner : rv, h ? g22 : half, s->whole + 32 * h, &s->recursion, h ? g22 : half, h ? corner : rv,
                                      tau + 32 * h, steps - 32 * h, h && bare, h ? 128 : 256) && good;
            block_sync();
            continue;
        }
        float *to, *from, *a, *b; // of warps 0-3, of warps 4-7
        switch (2 * op + second) {
        case 0: to = half, from = gram, a = lower, b = lower; break;
        case 1: to = z, from = g12, a = lower, b = corner; break;
        case 4: to = from = corner, a = lower, b = z; break;
        case 5: to = from = g12, a = gram, b = z; break;
        case 6: to = gram, from = nullptr, a = z, b = g12; break; // G11 is done with
        case 7: to = from = g22, a = g21, b = z; break;
        case 10: to = g12, from = nullptr, a = z, b = g22; break;
        case 11: to = lower, from = nullptr, a = lower, b = half; break;
        default: to = from = a = b = nullptr;
        }
        gram_product(to, from, a, op == 0 || (op == 3 && !second), b, 1.0f, 1, 256);
    }
    return good;
}
#line 1 "blocks/fused_wide_panel.cuh"
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
QRS_DEV float *wide_column_line(u8 *v, int col) { return (float *)(v + (col >> 5) * 65536) + (col & 31) * 64; }
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
    for (int j = 0; j + 1 < 4; j++)
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
    for (int j = 0; j < 4; j++)
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
                stmatrix_x4_trans(at + 65536 + wide_place(step), al[step]);
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
        ldmatrix_x4_trans(lo, tile + 65536 + wide_place(step));
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
#line 187 "blocks/fused_wide_panel.cuh"
// All of it, but for the top block, to c.
QRS_DEV void wide_restore(wide_tile &c, u8 *v, int tiles, const wide_shared *s)
{
    const float f[2] = {s->up[wide_column(0)], s->up[wide_column(1)]};
    #pragma unroll 1
    for (int t = wide_group(); t < 8; t += 2) { // the registers go round
        float x[32];
        #pragma unroll
        for (int i = 0; i < 32; i++)
            x[i] = 0.0f;
        if (t > 0 && t < tiles)
            wide_unpack(x, to_saddr(v) + t * 8192, f);
        wide_turn(c);
        #pragma unroll
        for (int i = 0; i < 32; i++)
            c[3][i] = x[i];
    }
}
#line 206 "blocks/fused_wide_panel.cuh"

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
    for (int j = 0; j < 4; j++)
        wgmma_drop(c[j]);
    const saddr sv = to_saddr(v);
    #pragma unroll 1
    for (int t = wg; t < 8; t += 2) {
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
            c[3][i] = x;
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
        const float limit = col < tall ? 2.097152e-06f : 5.24288e-06f;
        wrong = !(was == 0.0f || ((square > 1.0f || col >= tall) && off <= 0.0001f && off * fminf(0x1p-6f * left, 1.0f) <= limit));
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

    float y[8][4][4];
    #pragma unroll
    for (int n = 0; n < 8; n++)
        #pragma unroll
        for (int r = 0; r < 4; r++) {
            const int row = 128 * r + 4 * l;
            const f32x4 x = row < 64 * tiles ? wide_four(v, 8 * n + w, row) : f32x4{0.0f, 0.0f, 0.0f, 0.0f};
            y[n][r][0] = x.x, y[n][r][1] = x.y, y[n][r][2] = x.z, y[n][r][3] = x.w;
        }
    // A warp that is to give the next column updates that one first, and its others when it has; it finds out by a barrier a warp. The eight places where
    // columns go round suffice: who writes to one again has read a column of every other warp since, and they had read this one by then.
    const saddr given = to_saddr(dynamic_smem()) + 229920;
    float x[4][4], f = 0.0f;
    #pragma unroll
    for (int r = 0; r < 4; r++)
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
                for (int r = 0; r < 4; r++)
                    #pragma unroll
                    for (int e = 0; e < 4; e++)
                        y[n][r][e] = n < 7 ? y[n + 1][r][e] : 0.0f;
        if (step > 0) {
            const float *u = s->half + (last & 7) * 516; // the column, from its pivot on, and the factor its products take
            mbar_wait(given + 8 * (last & 7), last >> 3 & 1);
            f = u[512];
            #pragma unroll
            for (int r = 0; r < 4; r++) {
                const f32x4 four = *(const f32x4 *)(u + 128 * r + 4 * l);
                x[r][0] = four.x, x[r][1] = four.y, x[r][2] = four.z, x[r][3] = four.w;
            }
        }
        if (w == who) {
            float part[2] = {0.0f, 0.0f};
            #pragma unroll
            for (int r = 0; r < 4; r++)
                #pragma unroll
                for (int e = 0; e < 4; e++)
                    part[e & 1] = fmaf(x[r][e], y[0][r][e], part[e & 1]);
            const float t = f * warp_sum(part[0] + part[1]);
            float squares = 0.0f, most = 0.0f, raw = 0.0f;
            #pragma unroll
            for (int r = 0; r < 4; r++)
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
                    for (int r = 0; r < 4; r++)
                        #pragma unroll
                        for (int e = 0; e < 4; e++) {
                            const float tail = 128 * r + 4 * l + e > step ? times(shrink, y[0][r][e]) : 0.0f;
                            squares = fmaf(tail, tail, squares);
                        }
                    squares = warp_sum(squares);
                }
            }
            const reflector h = zero ? no_reflector(raw) : make_reflector(times(shrink, raw), squares);
            float *u = s->half + who * 516;
            warp_sync(); // its other lanes have read the factor that lane 0 writes again
            #pragma unroll
            for (int r = 0; r < 4; r++) {
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
                u[512] = h.step * h.rho;
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
                for (int r = 0; r < 4; r++)
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
                for (int r = 0; r < 4; r++)
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

#line 544 "blocks/fused_wide_panel.cuh"
// The top block of panel k, finished, from s->rv to H; to s->gram as V's, with its ones and zeros, and sums of squares of what is below the ones.
QRS_CALL void wide_finish_top(float *out, i64 ldh, int k, const int *exponent, wide_shared *s)
{
    const int col = threadIdx.x & 63, part = threadIdx.x >> 6;
#line 549 "blocks/fused_wide_panel.cuh"
    const power_of_two f = make_power_of_two(exponent[col] - QRS_LIFT);
    out += (64 * k + part) * ldh + 64 * k + col;
#line 560 "blocks/fused_wide_panel.cuh"
    float square = 0.0f;
    #pragma unroll 4
    for (int i = 0; i < 16; i++) {
        const int row = 4 * i + part, at = row * 68 + col;
        const float y = s->rv[at], x = row > col ? y : 0.0f;
        s->gram[at] = row == col ? 1.0f : x;
        square = fmaf(x, x, square);
#line 568 "blocks/fused_wide_panel.cuh"
        if (true)
            *out = row > col ? y : times(f, y);
        out += 4 * ldh;
#line 572 "blocks/fused_wide_panel.cuh"
    }
    s->columns.top[part][col] = square;
}

#line 577 "blocks/fused_wide_panel.cuh"
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

#line 590 "blocks/fused_wide_panel.cuh"
// What need not be waited for: half `second` of the rows above a panel go to H; after them, L2 is asked for the next block.
QRS_DEV void wide_meanwhile(bool second, int thread, int threads)
{
    const wide_shared *s = (const wide_shared *)(dynamic_smem() + 131072);
    const wide_away &away = s->away;
#line 596 "blocks/fused_wide_panel.cuh"
    const int rows = 32 * away.k, begin = second ? rows : 0;
    wide_leave(dynamic_smem() + wide_aside(away.k, second), s->out, away.out, away.ldh, 2 * rows, begin, begin + rows, thread, threads);
#line 599 "blocks/fused_wide_panel.cuh"
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
    const int steps = 512 - 64 * k < 64 ? 512 - 64 * k : 64, tiles = panel ? 8 - k : 0, turn = k < 8 ? k : 0;
    // For how many columns, the first, their whole Gram matrix will do.
    int tall = 512 - 64 * k >= 128 ? 64 : 0;
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
        const int begin = pass ? 64 * k + 64 : 0, end = above ? 64 * k : 512;
        wide_lay(c, v, turn, begin, end, above ? k : -1);
        block_sync();
        if (!above) {
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
#line 647 "blocks/fused_wide_panel.cuh"
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
#line 662 "blocks/fused_wide_panel.cuh"
        if (pass)
            break;
        bool good;
#line 666 "blocks/fused_wide_panel.cuh"
        if (tall) {
            good = gram_whole<wide_beside>(s->rv, s->gram, s->half, s->whole, &s->recursion, (gram_narrow_pivots *)(t + 16384), tau, steps,
                                           tall == 32);
        } else
#line 671 "blocks/fused_wide_panel.cuh"
        {
            #pragma unroll 1
            for (int second = 0; second < 2; second++)
                wide_meanwhile(second, threadIdx.x, 256);
            good = gram_pair(s, tau, steps, k == 7);
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
#line 1 "blocks/fused_wide_kernel.cuh"
// The whole left-looking walk with panels of 64 columns and warpgroup products: one CTA an SM, 256 threads (fused.lua, update = wgmma).
//
// Parameters: M, N, K, NP, KP, USED, NT, J, layouts, PRODUCTS, SELECT, shared memory places O_*, scratch sizes V_BYTES and PLANES.
// With one product two stages of V alternate and the next panel's V arrives while this one is applied; with three, both planes fill the
// same space and copies wait for it.
template <bool SPLIT> QRS_DEV void wide_issue(const wide_stage &s, int p, int slot)
{
    if (threadIdx.x != WIDE_SENDER)
        return;
    if (p == s.last)
        bulk_wait<0>();
    const u32 bytes = (8 - p) * 8192;
    const saddr base = to_saddr(dynamic_smem()), bar = base + 229904 + 8 * slot;
    mbar_expect(bar, (SPLIT ? 2 * bytes : bytes) + 16384);
    bulk_load(base + 0 + slot * 65536, s.v + wide_v_place() + wide_trapezoid(p), bytes, bar);
    bulk_load(base + 196608 + slot * 16384, s.t + wide_t_place() + p * 16384, 16384, bar);
    if (SPLIT)
        bulk_load(base + 65536, s.v + wide_v_place() + 294912 + wide_trapezoid(p), bytes, bar);
}

QRS_DEV int wide_next(u32 zero, int p, int end)
{
    while (p < end && (zero >> p & 1))
        p++;
    return p;
}

// Applies panels begin .. end-1 but those marked in zero; with SPLIT all of them have a low plane. sent: the first one's V is on its way.
template <bool SPLIT> QRS_DEV void wide_update(wide_tile &c, int begin, int end, int turn, u32 zero, bool sent, wide_stage &s)
{
    const saddr base = to_saddr(dynamic_smem());
    int slot = 0, p = wide_next(zero, begin, end); // applied from `slot` while its successor arrives in the other one
    if (p < end && !sent)
        wide_issue<SPLIT>(s, p, 0);
    #pragma unroll 1
    while (p < end) {
        const saddr v = base + 0 + slot * 65536, t = base + 196608 + slot * 16384;
        float *x = (float *)(dynamic_smem() + 131072 + slot * 32768), wa[32];
        const int next = wide_next(zero, p + 1, end);
        mbar_wait(base + 229904 + 8 * slot, s.phases >> slot & 1);
        s.phases ^= 1u << slot;
        wide_gather<SPLIT>(c, wa, p, turn, v, x);
        block_sync();
        if (!SPLIT && next < end)
            wide_issue<false>(s, next, slot ^ 1);
        wide_scatter<SPLIT>(c, wa, p, turn, v, x, t);
        if (SPLIT) {
            block_sync();
            if (next < end)
                wide_issue<true>(s, next, 0);
        } else {
            slot ^= 1;
        }
        p = next;
    }
}

QRS_KERNEL(fused, 256, 1)(const float *a, i64 lda, i64 stride_a, float *h, i64 ldh, i64 stride_h, float *tau, i64 stride_tau, int *info,
                          i64 batch, u8 *v_scratch, u8 *t_scratch, int *tickets)
{
    u8 *smem = dynamic_smem();
    wide_shared *shared = (wide_shared *)(smem + 131072);
    float *stau = (float *)(smem + 229376);
    int *exponent = (int *)(smem + 229632), *bad = (int *)(smem + 229888);
    i64 *following = (i64 *)(bad + 2);
    u8 *v = smem + 0, *t = smem + 196608;
    const int tid = (int)threadIdx.x;
    if (tid == 0) {
        mbar_init(to_saddr(smem + 229904), 1);
        mbar_init(to_saddr(smem + 229912), 1);
        #pragma unroll 1
        for (int w = 0; w < 8; w++)
            mbar_init(to_saddr(smem + 229920) + 8 * w, WIDE_GIVERS);
        fence_mbar_init();
    }
    wide_stage stage = {v_scratch, t_scratch, 0, -1};
    // CTAs in step all ask for memory at once, and all leave it alone at once. In long batches they pay to be a quarter of a panel apart.
    if (batch >= 3 * gridDim.x)
        spin((blockIdx.x & 3) * 23000u);

    // Matrices are not all the same work: who is done takes the next one.
    #pragma unroll 1
    for (i64 b = blockIdx.x; b < batch; b = *following) {
        u32 zero = 0;    // bit p: panel p was zero throughout and has no reflectors
        int split = 0; // panels from `split` on have a low plane, and use it
        if (tid == 0)
            bad[0] = bad[1] = 0;
        #pragma unroll 1
        for (int k = 0; k < 8; k++) {
            const int first = 64 * k, done = k < 8 ? k : 8, turn = k < 8 ? k : 0;
            const bool owed = k > 0 && k <= 7 && !(zero >> (k - 1) & 1); // T of the last panel
            // Two warps begin T while V leaves shared memory; this block arrives there while T is completed.
            if (owed) {
                wide_begin_t(shared->gram, stau, shared->half);
                stage.last = k - 1;
            }
            if (tid == WIDE_SENDER) {
                if (k == 0)
                    bulk_wait<0>(); // what the matrix before kept is not to land on what this one keeps
                else
                    bulk_wait_read<0>();
            }
            block_sync();
            if (k == 0 && tid == 0)
                *following = batch > gridDim.x ? gridDim.x + (u32)atomic_add(tickets, 1) : batch;
            wide_request(v, a + b * stride_a, lda, first);
            cp_async_commit();
            if (owed) {
                wide_build_t(shared->gram, shared->half);
                wide_put_t(shared->half, t);
                fence_async_shared();
                block_sync();
                wide_keep_t(stage.t, k - 1);
            }
            cp_async_wait<0>();
            block_sync();
            wide_tile c;
            wide_fill(c, v, turn);
            // From here on every branch around products hangs on values that went through a shuffle: the compiler must see
            // that they are uniform, or it serialises the products.
            const bool filled = wide_largest(c, &shared->columns);
            const int start = wide_next(zero, 0, done);
            if (filled && start < done && tid == WIDE_SENDER)
                bulk_wait_read<0>(); // the last T has left the place where another one comes
            if (filled && start < done) { // the first V travels while the block is scaled
#line 131 "blocks/fused_wide_kernel.cuh"
                if (start >= split)
                    wide_issue<true>(stage, start, 0);
#line 134 "blocks/fused_wide_kernel.cuh"
            }
            const bool few = wide_scale(c, &shared->columns, bad, exponent);
#line 141 "blocks/fused_wide_kernel.cuh"
            if (filled && k > 0) {
                block_sync();
#line 152 "blocks/fused_wide_kernel.cuh"
                wide_update<true>(c, 0, done, turn, zero, true, stage);
#line 154 "blocks/fused_wide_kernel.cuh"
            }
            const bool panel = filled && k < 8;
            if (k < 8 && !filled) {
                zero |= 1u << k;
                if (tid < 64)
                    stau[tid] = 0.0f;
            }
            const bool same = k + 1 < 8;
            const i64 next = same ? b : *following;
            const wide_away away = {h + b * stride_h, next < batch ? a + next * stride_a : nullptr, ldh, lda, same ? first + 64 : 0, k};
            if (wide_panel(c, stage, away, panel, exponent, v, t, k < 7, split <= k, shared, stau) && tid == 0)
                bad[1] = 2;
            if (k < 8 && tid < 64 && first + tid < 512)
                tau[b * stride_tau + first + tid] = stau[tid];
        }
        if (info && tid == 0)
            info[b] = bad[0] | bad[1];
        block_sync();
    }
    if (tid == WIDE_SENDER)
        bulk_wait<0>();
}
QRS_ENTRY(fused)
