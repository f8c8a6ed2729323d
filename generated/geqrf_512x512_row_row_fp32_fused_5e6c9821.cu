#line 260 "families/fused.lua"
#include "device/core.cuh"
#include "device/math.cuh"
#include "device/warp.cuh"
#include "device/block.cuh"
#include "device/mma.cuh"
#include "device/copy.cuh"
#include "device/launch.cuh"
#line 268 "families/fused.lua"
#include "device/flag.cuh"
#include "device/wgmma.cuh"
#include "device/stmatrix.cuh"
#line 278 "families/fused.lua"

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
// panel, which costs more than executing it).
// Fragment: warpgroup wg holds row tiles t = 2 j + wg; c[j][4 i + e] is row 8 i + 2 q + (e & 1) of tile t, column 16 w + g + 8 (e >> 1) of the block,
// with w the warp in the warpgroup, g = lane / 4, q = lane % 4. Tiles count from the panel's top one round (wide_tile_at): c[0] of the
// first warpgroup is always the top block. Entries past the matrix are zero.
// V of a finished panel: fp16 tiles of 64 rows x 128 bytes, 128-byte swizzle, from the panel's first row on, scaled by 2^LIFT; one such tile
// is B of both products: W^T = C^T V (rows of the tile are k: N-major) and C^T -= W'^T V^T (K-major).
#define QRS_LIFT 6
// Lanes that announce a warp's column, after __syncwarp. All 32 for a race checker, which does not see what that orders.
#define WIDE_GIVERS 1
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

#line 85 "blocks/fused_wide.cuh"
// Block `first` of A on its way to shared memory (the caller commits and waits), where the planes of V go later, as it lies in A: sixteen bytes a
// request, whole lines of memory. Swizzled so that a fragment is read without bank conflicts. What is past the matrix is zero.
QRS_DEV void wide_request(u8 *v, const float *a, i64 lda, int first)
{
    const saddr to = to_saddr(v);
    const bool aligned = ((u64)a & 15) == 0 && (lda & 3) == 0;
#line 98 "blocks/fused_wide.cuh"
    int row = threadIdx.x >> 4, col = (threadIdx.x & 15) * 4, at = row * 256 + (col * 4 ^ (row & 6) << 4); // of all its rows the swizzle is the same
    const float *from = a + row * lda + first + col;
    if (aligned && 512 - first - col >= 4)
        #pragma unroll 4
        for (; row < 512; row += 16, at += 4096, from += 16 * lda)
            cp_async16(to + at, from);
    #pragma unroll 1
    for (; row < 512; row += 16, at += 4096, from += 16 * lda) {
        const int inside = row < 512 ? 512 - first - col : 0;
#line 108 "blocks/fused_wide.cuh"
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
#line 123 "blocks/fused_wide.cuh"
struct wide_places_row {
    u8 *at[2];
};
QRS_DEV wide_places_row wide_find_row(u8 *v)
{
    const int col = wide_column(0), q2 = wide_row(0);
    wide_places_row p;
#line 135 "blocks/fused_wide.cuh"
    #pragma unroll
    for (int h = 0; h < 2; h++)
        p.at[h] = v + q2 * 256 + ((col + 8 * h) * 4 ^ q2 << 4);
#line 139 "blocks/fused_wide.cuh"
    return p;
}
#line 142 "blocks/fused_wide.cuh"

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
#line 160 "blocks/fused_wide.cuh"
                    x.x = *(const float *)(p.at[h] + tile * 16384 + i * 2048);
                    x.y = *(const float *)(p.at[h] + tile * 16384 + i * 2048 + 256);
#line 163 "blocks/fused_wide.cuh"
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
    // Without a mask: as signed integers the largest is the largest positive one, as unsigned ones the negative one of the largest magnitude, if there is any.
    i32 positive[2] = {0, 0};
    u32 most[2] = {0, 0};
    #pragma unroll
    for (int j = 0; j < 4; j++)
        #pragma unroll
        for (int i = 0; i < 32; i++) {
            const u32 bits = as_u32(c[j][i]);
            const int h = i >> 1 & 1;
            positive[h] = positive[h] > (i32)bits ? positive[h] : (i32)bits;
            most[h] = most[h] > bits ? most[h] : bits;
        }
    #pragma unroll
    for (int h = 0; h < 2; h++) {
        most[h] = wide_most(wide_larger((u32)positive[h], as_f32(most[h])));
        if ((l & 3) == 0)
            s->most[wg][wide_column(h)] = most[h];
    }
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
#line 244 "blocks/fused_wide.cuh"
    #pragma unroll
    for (int j = 0; j < 4; j++)
        #pragma unroll
        for (int i = 0; i < 32; i++) {
            const int h = i >> 1 & 1;
            const float x = f[h] * c[j][i];
            c[j][i] = x;
#line 255 "blocks/fused_wide.cuh"
        }
#line 272 "blocks/fused_wide.cuh"
    return false;
#line 274 "blocks/fused_wide.cuh"
}

// Rows begin .. end-1 of the block, whole tiles, to H, times f (by column half), by way of shared memory: whole lines again. Synchronises.
QRS_DEV void wide_write(const wide_tile &c, u8 *v, float *out, i64 ldh, int first, int turn, int begin, int end, const float (&f)[2])
{
    if (begin >= end)
        return;
    const int wg = wide_group();
    const wide_places_row p = wide_find_row(v);
    #pragma unroll
    for (int j = 0; j < 4; j++) {
        const int t = 2 * j + wg, tile = wide_tile_at(t, turn);
        if (64 * tile >= begin && 64 * tile < end) {
            #pragma unroll
            for (int i = 0; i < 8; i++)
                #pragma unroll
                for (int h = 0; h < 2; h++) {
                    const f32x2 x = {f[h] * c[j][4 * i + 2 * h], f[h] * c[j][4 * i + 2 * h + 1]};
#line 295 "blocks/fused_wide.cuh"
                    *(float *)(p.at[h] + tile * 16384 + i * 2048) = x.x;
                    *(float *)(p.at[h] + tile * 16384 + i * 2048 + 256) = x.y;
#line 298 "blocks/fused_wide.cuh"
                }
        }
    }
    block_sync();
    const bool aligned = ((u64)out & 15) == 0 && (ldh & 3) == 0;
#line 312 "blocks/fused_wide.cuh"
    const int col = (threadIdx.x & 15) * 4, inside = 512 - first - col, last = end < 512 ? end : 512;
    int row = begin + ((int)threadIdx.x >> 4);
    const u8 *from = v + row * 256 + (col * 4 ^ (row & 6) << 4); // of all its rows the swizzle is the same
    float *to = out + row * ldh + first + col;
    if (aligned && inside >= 4)
        #pragma unroll 1
        for (; row + 48 < last; row += 64, from += 16384) {
            f32x4 x[4];
            #pragma unroll
            for (int e = 0; e < 4; e++)
                x[e] = *(const f32x4 *)(from + 4096 * e);
            #pragma unroll
            for (int e = 0; e < 4; e++, to += 16 * ldh)
                *(f32x4 *)to = x[e];
        }
    #pragma unroll 1
    for (; row < last; row += 16, from += 4096, to += 16 * ldh) {
        const f32x4 x = *(const f32x4 *)from;
#line 331 "blocks/fused_wide.cuh"
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
    block_sync();
}

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
    if (threadIdx.x != 0)
        return;
    const u32 bytes = (8 - k) * 8192;
    u8 *to = s.v + wide_v_place() + wide_trapezoid(k);
    const saddr from = to_saddr(dynamic_smem()) + 0;
    bulk_store(to, from, bytes);
#line 364 "blocks/fused_wide.cuh"
    if (low)
        bulk_store(to + 294912, from + 65536, bytes);
#line 367 "blocks/fused_wide.cuh"
    bulk_commit();
}
QRS_DEV void wide_keep_t(u8 *scratch, int k)
{
    if (threadIdx.x != 0)
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
// to = from + A B (from null: 0) times `sign`, 32 x 32 x 32, rows 68 apart, all in shared memory, where `to` may be any of the others. A(i, k) is
// a[68 i + k], or with `turned` a[68 k + i]. All 256 threads, two products at once: warps 0-3 one, warps 4-7 another; a warp forms a quarter,
// or nothing where its `to` is null. Synchronises between and after.
QRS_CALL void gram_product(float *to, const float *from, const float *a, bool turned, const float *b, float sign)
{
    const int w = warp(), g = lane() >> 2, q = lane() & 3, row = (w & 2) * 8 + g, col = (w & 1) * 16;
    const int ai = turned ? 1 : 68, ak = turned ? 68 : 1, place = row * 68 + col + 2 * q;
    float d[2][4], e[2][4]; // the leading product, and the two small ones: shorter chains
    if (to) {
        #pragma unroll
        for (int n = 0; n < 2; n++)
            #pragma unroll
            for (int x = 0; x < 4; x++) {
                d[n][x] = from ? from[place + 8 * n + (x & 1) + (x >> 1) * 8 * 68] : 0.0f;
                e[n][x] = 0.0f;
            }
        a += row * ai + q * ak;
        b += q * 68 + col + g;
        #pragma unroll
        for (int k = 0; k < 4; k++) {
            u32 h[4], lo[4];
            #pragma unroll
            for (int x = 0; x < 4; x++)
                gram_split(a[(x & 1) * 8 * ai + (8 * k + (x >> 1) * 4) * ak], h[x], lo[x]);
            #pragma unroll
            for (int n = 0; n < 2; n++) {
                u32 bh[2], bl[2];
                #pragma unroll
                for (int x = 0; x < 2; x++)
                    gram_split(b[(8 * k + 4 * x) * 68 + 8 * n], bh[x], bl[x]);
                mma_tf32(e[n], h, bl[0], bl[1]);
                mma_tf32(e[n], lo, bh[0], bh[1]);
                mma_tf32(d[n], h, bh[0], bh[1]);
            }
        }
    }
    block_sync();
    if (to) {
        #pragma unroll
        for (int n = 0; n < 2; n++)
            #pragma unroll
            for (int x = 0; x < 4; x++)
                to[place + 8 * n + (x & 1) + (x >> 1) * 8 * 68] = sign * (d[n][x] + e[n][x]);
    }
    block_sync();
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
// Eight columns at a time. With J their numbers, D = X[J,J] and N the rows n of J:
//   D + S R[J,J] = L U by rows, each sign when its row is reached; N = L^-1 (X[J,:] + S R[J,:]), S = diag(sign); E = X[i,J] U^-1 for rows i outside J,
//   E = U^-1 for the rows J; X -= E N, the rows J from zero; then E is final in columns J (V below, M above), and L is V's within J.
// Products are tensor cores': three of TF32 (gram_small.cuh).
//
// Parameters: LD: row stride of X, G and R; LDM: of M; LEAST: share of a column's square that must be left of it.
// Layout: G is a block of columns ahead of X. Of eight warps four hold X, 16 rows each, two hold G, 32 rows each, and one each factors the 8 x 8 blocks of G
// and of X. That is the chain: while a block is factored the others do what is left to do for the one before it, and of a block's products the next
// 8 x 8 block comes first. Rows lie as accumulators: of 16 rows and the n-th block of columns, counted from the block at work, y[n] is (row g, columns 2 q, 2 q + 1),
// (row g + 8, the same). An 8 x 8 block lies in a warp likewise, and so can be an operand at once if k = 2 q, 2 q + 1 count as q, q + 4 on both sides
// (gram_small.cuh). The rows of R and N come out transposed, as accumulators of a row a column, which are operands too.
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
#line 25 "blocks/gram_whole.cuh"
struct gram_rows { // of the block at work: what is left of G's and X's
    float g[8][68], x[8][68];
};
struct gram_pivots {
    gram_rows rows[2];                  // by parity of the block
    float r[2][8][8];                   // R's diagonal block, upper half
    float dg[8][8], dx[8][8];           // the 8 x 8 blocks of G and of X
    float lg[8][8], lx[8][8], u[8][8], sign[8]; // their factors: G's L^-1; X's L^-1, U^-1 and signs
};

// Two blocks of columns from number `block` on of a block's rows, transposed: 0 past the last one. from: the block's first row.
QRS_DEV void gram_columns(float (&v)[4], const float *from, int stride, int block)
{
    const float *at = from + ((int)lane() & 3) * 2 * stride + 8 * block + ((int)lane() >> 2);
    #pragma unroll
    for (int e = 0; e < 4; e++)
        v[e] = block + (e & 1) < 8 ? at[(e >> 1) * stride + 8 * (e & 1)] : 0.0f;
}

// What a block's steps take off: rows (their operand has the sign turned) times columns, which are found by c from the block's rows, with X from those and R's.
struct gram_factors {
    gram_left a[2];
    gram_right c;
    float s[2];
};
// The PAIR-th pair of blocks of columns after `block` of M 16 rows: y moves up by one. r: R's rows of the block, or null.
template <int M, int PAIR>
QRS_DEV void gram_take(float (&y)[2][8][4], const gram_factors &f, const float (*from)[68], const float *r, int block)
{
    if (block + 2 * PAIR + 1 >= 8)
        return;
    float v[4], plus[4], columns[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    gram_left u;
    gram_columns(v, from[0], 68, block + 2 * PAIR + 1);
    if (M == 1) { // X
        gram_columns(plus, r, 68, block + 2 * PAIR + 1);
        #pragma unroll
        for (int e = 0; e < 4; e++)
            v[e] = fmaf(f.s[e >> 1], plus[e], v[e]);
    }
    gram_operand(u, v[0], v[1], v[2], v[3]);
    gram_multiply(columns, u, f.c);
    #pragma unroll
    for (int n = 0; n < (PAIR == 3 ? 1 : 2); n++) {
        gram_right b;
        gram_operand(b, columns[2 * n], columns[2 * n + 1]);
        #pragma unroll
        for (int i = 0; i < M; i++) {
            #pragma unroll
            for (int e = 0; e < 4; e++)
                y[i][2 * PAIR + n][e] = y[i][2 * PAIR + n + 1][e];
            gram_multiply(y[i][2 * PAIR + n], f.a[i], b);
        }
    }
}
template <int M> QRS_DEV void gram_take_rest(float (&y)[2][8][4], const gram_factors &f, const float (*from)[68], const float *r, int block)
{
    if (block < 0)
        return;
    gram_take<M, 1>(y, f, from, r, block);
#line 86 "blocks/gram_whole.cuh"
    gram_take<M, 2>(y, f, from, r, block);
#line 86 "blocks/gram_whole.cuh"
    gram_take<M, 3>(y, f, from, r, block);
#line 88 "blocks/gram_whole.cuh"
}
// Of 16 rows the eight of a block: its own columns to d; those behind to rows.
QRS_DEV void gram_give_block(const float (&y)[8][4], float (*d)[8], int block)
{
    const int g = (int)lane() >> 2, q = (int)lane() & 3;
    *(f32x2 *)(d[g] + 2 * q) = {block & 1 ? y[0][2] : y[0][0], block & 1 ? y[0][3] : y[0][1]};
}
QRS_DEV void gram_give_rows(const float (&y)[8][4], float (*rows)[68], int block)
{
    const int g = (int)lane() >> 2, q = (int)lane() & 3;
    #pragma unroll
    for (int n = 1; n < 8; n++)
        if (block + n < 8)
            *(f32x2 *)(rows[g] + 8 * (block + n) + 2 * q) = {block & 1 ? y[n][2] : y[n][0], block & 1 ? y[n][3] : y[n][1]};
}

// Cholesky steps of an 8 x 8 block of G: L^-1 to low, R to r.
QRS_DEV void gram_cholesky(const float (*from)[8], float (*low)[8], float (*r)[8])
{
    const int g = (int)lane() >> 2, q = (int)lane() & 3;
    const f32x2 own = *(const f32x2 *)(from[g] + 2 * q);
    float d[2] = {own.x, own.y}, z[2] = {g == 2 * q ? 1.0f : 0.0f, g == 2 * q + 1 ? 1.0f : 0.0f}, scale = 0.0f; // the block; L^-1, both less 1 / sqrt(pivot) a row
    // Rows 2 t and 2 t + 1. at: where the first pivot is; mine: where a row's entries of the two columns are; row: where a column's entries of the first
    // row are; below: how far this row is.
    #pragma unroll 1
    for (int at = 0, mine = 4 * g, row = q, below = g; at < 36; at += 9, mine++, row += 8, below -= 2) {
        const float p00 = shfl(d[0], at), p01 = shfl(d[1], at), p11 = shfl(d[1], at + 4), c0 = shfl(d[0], mine), c1 = shfl(d[1], mine);
        const float root0 = p00 == 0.0f ? 0.0f : rsqrt_normal(p00), w0 = root0 * root0, l10 = p01 * w0, next = fmaf(-l10, p01, p11),
                    root1 = next == 0.0f ? 0.0f : rsqrt_normal(next);
        const float f0 = below > 0 ? c0 * w0 : 0.0f, f1 = below > 1 ? fmaf(-f0, p01, c1) * (root1 * root1) : 0.0f;
        #pragma unroll
        for (int x = 0; x < 2; x++) {
            const float d0 = shfl(d[x], row), d1 = shfl(d[x], row + 4), z0 = shfl(z[x], row), z1 = shfl(z[x], row + 4);
            d[x] = fmaf(-f1, fmaf(-l10, d0, d1), fmaf(-f0, d0, d[x]));
            z[x] = fmaf(-f1, fmaf(-l10, z0, z1), fmaf(-f0, z0, z[x]));
        }
        scale = below == 0 ? root0 : below == 1 ? root1 : scale;
    }
    *(f32x2 *)(r[g] + 2 * q) = {scale * d[0], scale * d[1]};
    *(f32x2 *)(low[g] + 2 * q) = {scale * z[0], scale * z[1]};
}

// Gauss-Jordan steps of an 8 x 8 block of X with R's: to p; L and R to rv, where the block's place is, n's diagonal to sizes.
QRS_DEV void gram_jordan(gram_pivots &p, const float (*r)[8], float *rv, float *sizes)
{
    const int g = (int)lane() >> 2, q = (int)lane() & 3;
    const f32x2 own = *(const f32x2 *)(p.dx[g] + 2 * q), r2 = *(const f32x2 *)(r[g] + 2 * q);
    float d[2] = {own.x, own.y}, z[2] = {g == 2 * q ? 1.0f : 0.0f, g == 2 * q + 1 ? 1.0f : 0.0f}, sign = 0.0f, size = 0.0f; // the block, which becomes L and U^-1; L^-1
    const float *diagonal = r[0], *rows_of_r = r[0] + 2 * q;
    #pragma unroll 1
    for (int at = 0, mine = 4 * g, row = q, below = g, right = q; at < 36; at += 9, mine++, row += 8, below -= 2, right--, diagonal += 18, rows_of_r += 16) { // as in gram_cholesky
        const float p00 = shfl(d[0], at), p01 = shfl(d[1], at), p10 = shfl(d[0], at + 4), p11 = shfl(d[1], at + 4), c0 = shfl(d[0], mine), c1 = shfl(d[1], mine);
        const f32x2 r0 = *(const f32x2 *)diagonal, row0 = *(const f32x2 *)rows_of_r, row1 = *(const f32x2 *)(rows_of_r + 8);
        const float r1 = diagonal[9];
        // The second pivot by way of their determinant: the reciprocals need not wait for each other, nor the magnitudes for signs.
        const float s0 = copysignf(1.0f, p00), size0 = fabsf(p00) + r0.x, n00 = s0 * size0, n01 = fmaf(s0, r0.y, p01), det = fmaf(p11, n00, -p10 * n01);
        const float s1 = copysignf(s0, det) * s0, inv0 = r0.x == 0.0f ? 0.0f : s0 * rcp_normal(size0),
                    inv1 = r1 == 0.0f ? 0.0f : s1 * (size0 * rcp_normal(fmaf(r1, size0, fabsf(det))));
        const float low = p10 * inv0, n11 = fmaf(s1, r1, fmaf(-low, n01, p11));
        const bool first = below == 0, second = below == 1;
        const float f0 = first ? inv0 : c0 * inv0, f1 = second ? inv1 : fmaf(-f0, n01, first ? 0.0f : c1) * inv1;
        const float own0 = second ? 0.0f : f0, below0 = below > 0 ? f0 : 0.0f, below1 = below > 1 ? f1 : 0.0f;
        #pragma unroll
        for (int x = 0; x < 2; x++) {
            const float d0 = shfl(d[x], row), d1 = shfl(d[x], row + 4), z0 = shfl(z[x], row), z1 = shfl(z[x], row + 4);
            const float n0 = fmaf(s0, x ? row0.y : row0.x, d0), n1 = fmaf(s1, x ? row1.y : row1.x, fmaf(-low, n0, d1));
            const float past = fmaf(-f1, n1, fmaf(-own0, n0, first || second ? 0.0f : d[x]));
            d[x] = right > 0 ? past : right == 0 ? (x ? f1 : f0) : d[x];
            z[x] = fmaf(-below1, fmaf(-low, z0, z1), fmaf(-below0, z0, z[x]));
        }
        sign = first ? s0 : second ? s1 : sign;
        size = first ? n00 : second ? n11 : size;
    }
    const bool low0 = g > 2 * q, low1 = g > 2 * q + 1;
    *(f32x2 *)(p.lx[g] + 2 * q) = {z[0], z[1]};
    *(f32x2 *)(p.u[g] + 2 * q) = {low0 ? 0.0f : d[0], low1 ? 0.0f : d[1]};
    *(f32x2 *)(rv + g * 68 + 2 * q) = {low0 ? d[0] : r2.x, low1 ? d[1] : r2.y};
    if (q == 0) {
        p.sign[g] = sign;
        sizes[g] = size;
    }
}

// 16 rows from `from` on.
QRS_DEV void gram_load(float (&y)[8][4], const float *from)
{
    from += ((int)lane() >> 2) * 68 + ((int)lane() & 3) * 2;
    #pragma unroll
    for (int n = 0; n < 8; n++) {
        const f32x2 a = *(const f32x2 *)(from + 8 * n), b = *(const f32x2 *)(from + 544 + 8 * n);
        y[n][0] = a.x, y[n][1] = a.y, y[n][2] = b.x, y[n][3] = b.y;
    }
}

// A block's products by the warp that holds rows 32 w.. of G, once it is factored: R's rows to rv, the next 8 x 8 block to dg.
QRS_DEV void gram_step_g(float (&y)[2][8][4], gram_factors &f, gram_pivots *s, float *rv, int block, int w)
{
    const int g = (int)lane() >> 2, q = (int)lane() & 3;
    const gram_rows &now = s->rows[block & 1];
    gram_operand(f.c, s->lg[g][2 * q], s->lg[g][2 * q + 1]);
    #pragma unroll
    for (int i = 0; i < 2; i++) { // R's columns of these rows' numbers
        const int mine = 4 * w + 2 * i;
        float v[4], rows[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        gram_columns(v, now.g[0], 68, mine);
        #pragma unroll
        for (int e = 0; e < 4; e++)
            v[e] = mine + (e & 1) > block ? v[e] : 0.0f;
        gram_left a;
        gram_operand(a, v[0], v[1], v[2], v[3]);
        gram_multiply(rows, a, f.c);
        gram_operand(f.a[i], -rows[0], -rows[2], -rows[1], -rows[3]);
        #pragma unroll
        for (int e = 0; e < 4; e++)
            if (mine + (e >> 1) > block)
                rv[(8 * block + 2 * q + (e & 1)) * 68 + 8 * mine + 8 * (e >> 1) + g] = rows[e];
    }
    gram_take<2, 0>(y, f, now.g, nullptr, block);
    #pragma unroll
    for (int i = 0; i < 2; i++)
        if (block + 1 >> 1 == 2 * w + i)
            gram_give_block(y[i], s->dg, block + 1);
}

// The same by the warp that holds rows 16 w.. of X. m: M, row stride 68.
QRS_DEV void gram_step_x(float (&y)[2][8][4], gram_factors &f, gram_pivots *s, float *rv, float *m, int block, int w)
{
    const int g = (int)lane() >> 2, q = (int)lane() & 3, j = 8 * block;
    const bool own = w == block >> 1, odd = block & 1;
    gram_left a;
    {
        const float one[2] = {g == 2 * q ? 1.0f : 0.0f, g == 2 * q + 1 ? 1.0f : 0.0f};
        const bool up = own && !odd, down = own && odd;
        gram_operand(a, up ? one[0] : y[0][0][0], down ? one[0] : y[0][0][2], up ? one[1] : y[0][0][1], down ? one[1] : y[0][0][3]);
    }
    gram_right b;
    gram_operand(b, s->u[2 * q][g], s->u[2 * q + 1][g]);
    gram_operand(f.c, s->lx[g][2 * q], s->lx[g][2 * q + 1]);
    f.s[0] = s->sign[2 * q];
    f.s[1] = s->sign[2 * q + 1];
    if (own) // its rows J start from zero
        #pragma unroll
        for (int n = 1; n < 8; n++)
            #pragma unroll
            for (int e = 0; e < 4; e++)
                y[0][n][e] = odd == (e >> 1) ? 0.0f : y[0][n][e];
    float rows[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    gram_multiply(rows, a, b);
    gram_operand(f.a[0], -rows[0], -rows[2], -rows[1], -rows[3]);
    gram_take<1, 0>(y, f, s->rows[block & 1].x, rv + j * 68, block);
    if (w == block + 1 >> 1)
        gram_give_block(y[0], s->dx, block + 1);
    #pragma unroll
    for (int half = 0; half < 2; half++) {
        const int row = 16 * w + 8 * half + g;
        const bool below = 2 * w + half > block;
        const f32x2 v = {rows[2 * half], rows[2 * half + 1]};
        if (below)
            *(f32x2 *)(rv + row * 68 + j + 2 * q) = v;
        *(f32x2 *)(m + row * 68 + j + 2 * q) = below ? f32x2{0.0f, 0.0f} : v;
    }
}

// Threads 0..255 call. x: top block (64 x 64); rv (may be its place): becomes R on and above the diagonal and V below. gram: G; left, right: M's halves, columns
// keeping their numbers (right may be G's place). whole: G's diagonal. Returns false, in some thread, unless the pivots can be trusted. Synchronises.
QRS_CALL bool gram_whole(const float *x, const float *gram, float *rv, float *left, float *right, float *whole, gram_pivots *s, float *tau)
{
    const int tid = threadIdx.x, w = shfl((int)warp(), 0);
    const bool of_x = w >= 4, of_g = w < 2; // the other two factor
    float y[2][8][4];
    gram_factors f; // none yet, but defined: an undefined register would live from the kernel's start
    gram_operand(f.a[0], 0.0f, 0.0f, 0.0f, 0.0f);
    f.a[1] = f.a[0];
    gram_operand(f.c, 0.0f, 0.0f);
    f.s[0] = f.s[1] = 0.0f;
    #pragma unroll
    for (int i = 0; i < 2; i++)
        gram_load(y[i], of_x ? x + 16 * (w - 4) * 68 : gram + (32 * (w & 1) + 16 * i) * 68);
    if (tid < 64)
        whole[tid] = gram[tid * 69];
    if (w == 0 || w == 4)
        gram_give_block(y[0], of_x ? s->dx : s->dg, 0);
    #pragma unroll 1
    for (int round = 0; round <= 8; round++) { // block `round` of G, and the one before it of X
        const int block = of_x ? round - 1 : round;
        const bool live = of_x ? block >= 0 : of_g && block < 8 && 4 * w + 3 >= block; // else it comes, or all its rows are finished
        bar_sync(1, 256);
        if (live && of_x) {
            gram_take_rest<1>(y, f, s->rows[~block & 1].x, rv + (8 * block - 8) * 68, block - 1);
            if (block >> 1 == w - 4)
                gram_give_rows(y[0], s->rows[block & 1].x, block);
        } else if (live) {
            gram_take_rest<2>(y, f, s->rows[~block & 1].g, nullptr, block - 1);
            #pragma unroll
            for (int i = 0; i < 2; i++)
                if (block >> 1 == 2 * w + i)
                    gram_give_rows(y[i], s->rows[block & 1].g, block);
        } else if (w == 2 && block < 8) {
            gram_cholesky(s->dg, s->lg, s->r[block & 1]);
        } else if (w == 3 && block > 0) {
            gram_jordan(*s, s->r[~block & 1], rv + (block - 1) * 552, tau + 8 * (block - 1));
        }
        bar_sync(1, 256);
        if (live && of_x)
            gram_step_x(y, f, s, rv, block < 4 ? left : right, block, w - 4);
        else if (live)
            gram_step_g(y, f, s, rv, block, w);
    }
    bar_sync(1, 256);
    #pragma unroll
    for (int i = 0; i < 4; i++) { // R's signs
        const int row = 16 * i + tid / 16, col = 4 * (tid & 15);
        f32x4 *to = (f32x4 *)(rv + row * 68 + col);
        const f32x4 v = *to;
        const float sign = -copysignf(1.0f, tau[row]);
        *to = {row > col ? v.x : sign * v.x, row > col + 1 ? v.y : sign * v.y, row > col + 2 ? v.z : sign * v.z, row > col + 3 ? v.w : sign * v.w};
    }
    bar_sync(1, 256);
    return tid >= 64 || gram_sound(rv, whole, tau);
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
    gram_buffers recursion;
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
        gram_product(to, from, a, op == 0 || (op == 3 && !second), b, 1.0f);
    }
    return good;
}
#line 1 "blocks/fused_wide_panel.cuh"
// A panel of 64 columns in registers (the fragments of fused_wide.cuh): Gram recursion on the top block, everything tall by warpgroup products,
// and a plain column-by-column way to fall back to.
//
// Parameters: M, N, K, NT, J, LIMIT, LOOSE (gram_panel.cuh), OUT; WHOLE: tall panels by gram_whole.cuh, WEIGH: where no column's weight is in the top block.

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
#line 186 "blocks/fused_wide_panel.cuh"
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
#line 205 "blocks/fused_wide_panel.cuh"

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
// stored. The test is gram_panel.cuh's; from the whole Gram matrix (tall) a tail that adds nothing may be zero, where LAPACK has tau = 0. Synchronises,
// but for tau.
QRS_DEV bool wide_disagrees(bool anyway, bool tall, wide_shared *s, float *tau)
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
        wrong = !(was == 0.0f || ((square > 1.0f || !tall) && off <= 0.0001f && off * fminf(0x1p-6f * left, 1.0f) <= 5.24288e-06f));
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
        gram_product(!mine ? nullptr : op ? t + 32 : gram + 32, nullptr, op ? t : gram + 32, false, op ? gram + 32 : t + 32 * 69, op ? -1.0f : 1.0f);
}

// fp16 T as tiles, swizzled like V's, the low one 8 KB after the high one.
QRS_DEV void wide_put_t(const float *t, u8 *to)
{
    #pragma unroll 1
    for (int e = threadIdx.x; e < 2048; e += 256) {
        const int i = e >> 5, j = (e & 31) * 2, at = wide_chunk(i, j >> 3) + (j & 7) * 2;
        u32 hi, lo;
        split_f16(t[i * 68 + j], t[i * 68 + j + 1], hi, lo);
        *(u32 *)(to + at) = hi;
        *(u32 *)(to + 8192 + at) = lo;
    }
}

#line 542 "blocks/fused_wide_panel.cuh"
// The top block of panel k, finished, from s->rv to H; to s->gram as V's, with its ones and zeros, and sums of squares of what is below the ones.
QRS_CALL void wide_finish_top(float *out, i64 ldh, int k, const int *exponent, wide_shared *s)
{
    const int col = threadIdx.x & 63, part = threadIdx.x >> 6;
#line 547 "blocks/fused_wide_panel.cuh"
    const power_of_two f = make_power_of_two(exponent[col] - QRS_LIFT);
    out += (64 * k + part) * ldh + 64 * k + col;
#line 558 "blocks/fused_wide_panel.cuh"
    float square = 0.0f;
    #pragma unroll 4
    for (int i = 0; i < 16; i++) {
        const int row = 4 * i + part, at = row * 68 + col;
        const float y = s->rv[at], x = row > col ? y : 0.0f;
        s->gram[at] = row == col ? 1.0f : x;
        square = fmaf(x, x, square);
#line 566 "blocks/fused_wide_panel.cuh"
        if (true)
            *out = row > col ? y : times(f, y);
        out += 4 * ldh;
#line 570 "blocks/fused_wide_panel.cuh"
    }
    s->columns.top[part][col] = square;
}

#line 575 "blocks/fused_wide_panel.cuh"
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

#line 588 "blocks/fused_wide_panel.cuh"
// Writes block k to H, and before that, with `panel`, factors it from tile k down: tau to shared memory, V's planes, with the low one if `low`, on
// their way to scratch when some block comes `later`. t: T's place, until then the top block's for a second attempt. Returns true when the Gram recursion did
// not do. Synchronises before.
QRS_DEV bool wide_panel(wide_tile &c, const wide_stage &stage, int k, bool panel, float *out, i64 ldh, const int *exponent, u8 *v, u8 *t,
                        bool later, bool low, wide_shared *s, float *tau)
{
    const int steps = 512 - 64 * k < 64 ? 512 - 64 * k : 64, tiles = panel ? 8 - k : 0, turn = k < 8 ? k : 0;
    bool tall = 512 - 64 * k >= 128; // its whole Gram matrix will do
    bool rows = false;
    block_sync(); // everybody is done with the update, and knows the exponents
    float f[2] = {wide_apply(c, 0, exponent[wide_column(0)] - QRS_LIFT, tiles), wide_apply(c, 1, exponent[wide_column(1)] - QRS_LIFT, tiles)};
    // First R above the panel, P2 and its Gram matrix, then V and its own, by the same code.
    #pragma unroll 1
    for (int pass = 0; pass < 2; pass++) {
        wide_write(c, v, out, ldh, 64 * k, turn, pass ? 64 * k + 64 : 0, panel && pass == 0 ? 64 * k : 512, f);
        if (!panel || (pass && !later))
            return rows;
        if (pass == 0)
            wide_take_top(c[0], s->rv, (f32x4 *)t);
#line 608 "blocks/fused_wide_panel.cuh"
        #pragma unroll 1
        for (;;) { // once more without the top block, if that is where the weight is
            if (pass == 0)
                wide_measure(c, tall ? 0 : 1, tiles, s);
            wide_pack(c, v, tall || pass ? 0 : 1, tiles, pass == 0 || shfl((int)low, 0), s);
            if (pass || !tall || !wide_leans(s))
                break;
            tall = false;
            wide_restore(c, v, tiles, s);
        }
#line 623 "blocks/fused_wide_panel.cuh"
        if (pass)
            break;
        const bool good = tall ? gram_whole(s->rv, s->gram, s->rv, s->half, s->gram, s->whole, (gram_pivots *)(t + 16384), tau) :
                          gram_pair(s, tau, steps, k == 7);
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
        f[0] = f[1] = 1.0f;
        if (threadIdx.x < 64)
            wide_set_shift(s, threadIdx.x, -QRS_LIFT);
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
    if (threadIdx.x != 0)
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

// Asks L2 for block `first` of A, a 128-byte line a request: it arrives while the chain of a panel keeps memory idle.
QRS_DEV void wide_prefetch(const float *a, i64 lda, int first)
{
#line 62 "blocks/fused_wide_kernel.cuh"
    #pragma unroll 1
    for (int e = threadIdx.x; e < 1024; e += 256) {
        const int major = e / 2, line = e % 2 * 32;
#line 69 "blocks/fused_wide_kernel.cuh"
        if (first + line < 512)
            prefetch_l2(a + major * lda + first + line);
#line 72 "blocks/fused_wide_kernel.cuh"
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
            if (tid == 0) {
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
            fence_async_shared(); // V comes there next
            // From here on every branch around products hangs on values that went through a shuffle: the compiler must see
            // that they are uniform, or it serialises the products.
            const bool filled = wide_largest(c, &shared->columns);
            const int start = wide_next(zero, 0, done);
            if (filled && start < done && tid == 0)
                bulk_wait_read<0>(); // the last T has left the place where another one comes
            if (filled && start < done) { // the first V travels while the block is scaled
#line 149 "blocks/fused_wide_kernel.cuh"
                if (start >= split)
                    wide_issue<true>(stage, start, 0);
#line 152 "blocks/fused_wide_kernel.cuh"
            }
            const bool few = wide_scale(c, &shared->columns, bad, exponent);
#line 159 "blocks/fused_wide_kernel.cuh"
            if (filled && k > 0) {
                block_sync();
#line 170 "blocks/fused_wide_kernel.cuh"
                wide_update<true>(c, 0, done, turn, zero, true, stage);
#line 172 "blocks/fused_wide_kernel.cuh"
            }
            {
                const bool same = k + 1 < 8;
                const i64 next = same ? b : *following;
                if (next < batch)
                    wide_prefetch(a + next * stride_a, lda, same ? first + 64 : 0);
            }
            const bool panel = filled && k < 8;
            if (k < 8 && !filled) {
                zero |= 1u << k;
                if (tid < 64)
                    stau[tid] = 0.0f;
            }
            if (wide_panel(c, stage, k, panel, h + b * stride_h, ldh, exponent, v, t, k < 7, split <= k, shared, stau) && tid == 0)
                bad[1] = 2;
            if (k < 8 && tid < 64 && first + tid < 512)
                tau[b * stride_tau + first + tid] = stau[tid];
        }
        if (info && tid == 0)
            info[b] = bad[0] | bad[1];
        block_sync();
    }
    if (tid == 0)
        bulk_wait<0>();
}
QRS_ENTRY(fused)
