#line 200 "families/fused.lua"
#include "device/core.cuh"
#include "device/math.cuh"
#include "device/warp.cuh"
#include "device/block.cuh"
#include "device/mma.cuh"
#include "device/copy.cuh"
#line 207 "families/fused.lua"
#include "device/wgmma.cuh"
#include "device/stmatrix.cuh"
#line 213 "families/fused.lua"

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
typedef float wide_tile[4][32];

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
    return {(float *)(v + (col >> 5) * 65536) + (col & 31) * 64, wide_swizzle(col)};
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
    for (int j = 0; j < 4; j++)
        wide_get(c[j], p, (2 * j + wg) * 2048); // beyond the last tile: whatever lies there, as nobody uses it
}
QRS_DEV int wide_turned(int tile, int turn) { return tile - turn + (tile < turn ? 8 : 0); }
QRS_DEV void wide_drain(const wide_tile &c, u8 *v, int turn)
{
    const int wg = wide_group();
    const wide_places p = wide_fragment(v);
    #pragma unroll
    for (int j = 0; j < 4; j++)
        if (true)
            wide_put(c[j], p, wide_turned(2 * j + wg, turn) * 2048);
}

#line 163 "blocks/fused_wide.cuh"
// Block `first` of A to shared memory, scaled as in fused_load.cuh (every column's largest magnitude to [1, 2) 2^LIFT; not finite: not scaled).
// Returns bits, the same in a warp: 1 when its columns are not all zero, 2 when one's weight is concentrated on few rows, where one fp16
// product is not enough: its 1-norm is below 0.6 sqrt(m) times its 2-norm (0.80 for Gaussian columns; 0.34 and 0.20 for the kinds
// that fail).
QRS_DEV int wide_load(u8 *v, const float *a, i64 lda, int first, int *bad, int *exponent)
{
    const int col = first + wide_mine();
    const wide_line line = wide_column_line(v, wide_mine());
    const i64 next = lda;
    u32 most = 0;
    {
        int row = wide_start();
        const float *at = a + (row * lda + col);
        #pragma unroll 4
        for (; row < 512; row += 16) {
            float x[4];
            #pragma unroll
            for (int e = 0; e < 4; e++)
                x[e] = true ? at[e * next] : 0.0f;
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
    for (int row = wide_start(); row < 512; row += 16) {
        f32x4 &x = wide_four(line, row);
        const f32x4 y = {times(f, x.x), times(f, x.y), times(f, x.z), times(f, x.w)};
        x = y;
#line 204 "blocks/fused_wide.cuh"
        sum += (fabsf(y.x) + fabsf(y.y)) + (fabsf(y.z) + fabsf(y.w));
        square = fmaf(y.x, y.x, fmaf(y.y, y.y, fmaf(y.z, y.z, fmaf(y.w, y.w, square))));
#line 207 "blocks/fused_wide.cuh"
    }
#line 209 "blocks/fused_wide.cuh"
    sum = wide_total(sum);
    square = wide_total(square);
#line 212 "blocks/fused_wide.cuh"
    return (warp_any(most > 0) ? 1 : 0) | (warp_any(sum * sum < 184.32f * square) ? 2 : 0);
}

// The block from shared memory to H: R, scaled back, and with `panel` V below the diagonal. Tile `turn` comes first in
// shared memory. The diagonal tile then becomes V's, with its ones and zeros.
QRS_DEV void wide_write(u8 *v, float *h, i64 ldh, int first, int turn, bool panel, const int *exponent)
{
    const int col = first + wide_mine(), edge = panel ? col : 512;
    const wide_line line = wide_column_line(v, wide_mine());
    const i64 next = ldh;
    const power_of_two f = make_power_of_two(exponent[wide_mine()] - QRS_LIFT);
    int row = wide_start();
    float *at = h + (row * ldh + col);
    #pragma unroll 2
    for (; row < 512; row += 16) {
        f32x4 &from = wide_four(line, row + (row < 64 * turn ? 512 : 0) - 64 * turn);
        const float x[4] = {from.x, from.y, from.z, from.w};
        #pragma unroll
        for (int e = 0; e < 4; e++)
            if (true)
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
#line 263 "blocks/fused_wide.cuh"
    if (low)
        bulk_store(to + 294912, from + 65536, bytes);
#line 266 "blocks/fused_wide.cuh"
    bulk_commit();
}
QRS_DEV void wide_keep_t(const wide_stage &s, int k)
{
    if (threadIdx.x != 0)
        return;
    bulk_store(s.t + wide_t_place() + k * 16384, to_saddr(dynamic_smem()) + 196608, 16384);
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
    for (int j = 0; j < 4; j++) {
        const int tile = 2 * j + wg;
        if (tile >= p && tile < 8) {
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
    for (int j = 0; j < 4; j++) {
        const int tile = 2 * j + wg;
        if (tile >= p && tile < 8) {
            const u64 b = wide_further(b0, (tile - p) * 8192), bl = wide_further(bl0, (tile - p) * 8192);
            wgmma_fence();
            #pragma unroll
            for (int s = 0; s < 4; s++)
                wide_product<SPLIT, false>(c[j], a[s], al[s], wide_further(b, s * 32), wide_further(bl, s * 32));
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
// Parameters: B = 32; NC = 1, or 2: 32 passive columns follow the 32 of the panel and are only transformed; LD row stride of P1, G and
// [R \\ V1]; LDM of M. G has B rows and 32 NC columns. Of a passive column c, R[:,c] and M[:,c] come out: the column is now C + P2 M[:,c].
// Layout: lane = column, warps 4.. hold the passive ones; x[k] and gram[k] are row 4 k + (warp & 3). Row j of x turns into row j of M once it
// has been the pivot row, so one array holds both. Everything off the chain dots -> barrier -> scalars -> update runs in its shadow: the
// update of G by step j happens during step j + 1, of which only row j + 1 is needed at once (`row`), and every lane also carries
// the next pivot column at its own rows (xb), found from its old values and its own g. One barrier a column.
// Columns go by fours, one body for each: what is left of x and gram has fixed registers, and shrinks. Inside, the four are a rolled loop
// (straight-line code is fetched again for every panel when a kernel outgrows the instruction cache).
// Measured on an H200, NC = 1, with 4 warps and straight-line code: 258 cycles a column (1, 2, 8 warps: 763, 303, 400); 64 columns at once: 454.
#line 22 "blocks/gram_recursion.cuh"
// Shared; read and written four floats at a time. One for each parity of the column.
struct alignas(16) gram_buffer {
    float part[68][4]; // dots by column and warp
    f32x2 pivot[68];   // row j of P1 and of G
    float next[32];              // old column j + 1 of x, in the order of the rows' owners: x[k] of warp w at 8 w + k
    float row[32];               // row j of G in that order
    float g[32];                 // g of step j in that order
};
typedef gram_buffer gram_buffers[2];
static_assert(sizeof(gram_buffer) == 2016, "offsets below");

// Threads 0..127 call, with passive columns 0..255. Results in shared memory: m, upper triangular with zeros below, columns scaled by rho (may be gram_in's place); rv, R on and
// above the diagonal and V1 below (may be p1's place); tau. whole: the columns' squares at the panel's start. bare: nothing lies below the
// top block, so that nothing can cancel. steps: columns past these have no reflector.
// True, in each of the first four warps, when the recursion went well as far as it can tell; the true norms of V have the last word.
QRS_DEV bool gram_recursion(const float *p1, const float *gram_in, const float *whole, gram_buffer *s, float *m, float *rv, float *tau,
                            int steps, bool bare, int threads)
{
    const int l = lane(), w = warp() & 3, c = (int)threadIdx.x >> 7 << 5 | l;
    const bool active = c < 32;
    // Addresses by hand: 32 bits, and the loop adds to them no more than the parity of the column.
    const saddr base = to_saddr(s), my_part = base + c * 16, my_share = my_part + w * 4, my_pivot = base + 1088 + c * 8;
    const saddr rows = base + w * 32, owner = base + (l & 3) * 32 + (l >> 2) * 4;
    const saddr tau_at = to_saddr(tau), rv_at = to_saddr(rv) + c * 4;
    float x[8], gram[8], xb[8], old_row[8], old_h = 0.0f, old_g = 0.0f;
    float rho_of = 0.0f, squares_of = 0.0f, beta_of = 0.0f;
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
        s[1].g[l] = 0.0f;
    if (threadIdx.x < 2) { // "next" of the last column
        *(f32x4 *)s[l].part[64] = {0.0f, 0.0f, 0.0f, 0.0f};
        s[l].pivot[64] = {0.0f, 0.0f};
    }

    #pragma unroll
    for (int jj = 0; jj < 8; jj++) {
        const int ahead = jj + 1 < 8 ? jj + 1 : jj;
        #pragma unroll 1
        for (int jw = 0; jw < 4; jw++) {
            const int j = jj * 4 + jw;
            const saddr side = (jw & 1) * 2016, pivot = my_pivot + side, rows_now = rows + side, owner_now = owner + side;
            const saddr dots = base + side + j * 16, pivots = base + side + 1088 + j * 8;
            const bool own = w == jw;
            {
                float sum[2] = {own ? row : 0.0f, (w > jw ? xb[jj] : 0.0f) * x[jj]};
                #pragma unroll
                for (int k = jj + 1; k < 8; k++)
                    sum[(k - jj) & 1] = fmaf(xb[k], x[k], sum[(k - jj) & 1]);
                sts(my_share + side, sum[0] + sum[1]);
                if (own)
                    sts(pivot, f32x2{x[jj], row});
                if (own && active)
                    sts(owner_now + 1760, row);
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
                if (k + 3 >= jj) {
                    v = lds<f32x4>(rows + 2016 - side + 1888 + 4 * k);
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
            for (int k = jj; k < 8; k++) {
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
            // The pivot row leaves P1 and becomes a row of M.
            xb[jj] = own ? 1.0f : xb[jj];
            next[jj] = own ? 0.0f : next[jj];
            x[jj] = own && c >= j ? (c == j ? 1.0f : 0.0f) : x[jj];
            #pragma unroll
            for (int k = 7; k >= 0; k--) {
                x[k] = fmaf(-g, xb[k], x[k]);
                xb[k] = fmaf(-gn, xb[k], next[k]);
            }
            old_h = fmaf(-g, pj.y, pc.y);
            old_g = g;
            row = fmaf(-pn.y, g, fmaf(-gn, old_h, jw == 3 ? gram[ahead] : gram[jj]));
            if (c == j) {
                rho_of = some ? copysignf(rho0, pj.x) : 0.0f;
                squares_of = squares;
                beta_of = some ? copysignf(norm, -pj.x) : pj.x;
            }
            if (own && active)
                sts(owner_now + 1888, g);
            if (own && c > j)
                sts(rv_at + j * 272, fmaf(-gc, gap, pc.x));
            const float t = some ? fmaf(fabsf(pj.x), q, 1.0f) : 0.0f;
            if (threadIdx.x == 0)
                sts(tau_at + j * 4, t);
        }
    }
    #pragma unroll
    for (int k = 0; k < 8; k++) {
        const int i = 4 * k + w;
        m[i * 68 + c] = !active ? x[k] : i <= c ? x[k] * rho_of : 0.0f;
        if (i >= c)
            rv[i * 68 + c] = i == c ? beta_of : x[k] * rho_of;
    }
    // What cancelled cannot be trusted: a norm far below the column's own, a tail that is negative, tiny, or zero only by
    // cancellation. NaN fails.
    const bool sound = beta_of * beta_of >= 1e-6f * whole[l] && (squares_of == 0.0f ? start == 0.0f : squares_of >= 1e-6f * whole[l]);
    return warp_all(l >= steps || (bare ? squares_of == 0.0f || squares_of >= 0x1p-60f : sound));
}

// The squares of a panel's columns, from its top block and G.
QRS_DEV float gram_square(const float *p1, const float *gram, int rows, int c)
{
    float s = gram[c * 69];
    #pragma unroll 8
    for (int i = 0; i < rows; i++)
        s = fmaf(p1[i * 68 + c], p1[i * 68 + c], s);
    return s;
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

#line 13 "blocks/gram_small.cuh"
// to = from + A B (from null: 0) times `sign`, 32 x 32 x 32, rows 68 apart, all in shared memory, where `to` may be any of the others. A(i, k) is
// a[68 i + k], or with `turned` a[68 k + i]. All 256 threads, two products at once: warps 0-3 one, warps 4-7 another; a warp forms a quarter,
// or nothing where its `to` is null. Synchronises between and after.
QRS_DEV void gram_product(float *to, const float *from, const float *a, bool turned, const float *b, float sign)
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
    float gram[64 * 68];   // G; then M; then V'V
    int shift[64];         // what is packed times 2^-shift has its columns' largest magnitudes in [32, 64)
    float back[64], whole[64];
    int verdict;
    gram_buffers recursion;
};

// All 256 threads call. s->rv: top block, becomes R on and above the diagonal and V below. s->gram: G of the rows below, becomes M. s->half is
// overwritten. steps, bare: as in gram_recursion. Returns, in thread 0 alone, whether both recursions went well. Synchronises.
QRS_DEV bool gram_pair(wide_shared *s, float *tau, int steps, bool bare)
{
    const int tid = threadIdx.x;
    float *rv = s->rv, *lower = rv + 32 * 68, *corner = lower + 32, *half = s->half, *z = half + 32;
    float *gram = s->gram, *g12 = gram + 32, *g21 = gram + 32 * 68, *g22 = g21 + 32;
    bool good = true;
    if (tid < 64)
        s->whole[tid] = gram_square(rv, gram, 64, tid);
    // One loop: the products' code, and the recursion's, is there once. Rows 32..63 are below the first half's top block.
    const bool second = shfl((int)warp() >> 2, 0);
    #pragma unroll 1
    for (int op = 0; op < 7; op++) {
        if (op == 1 || op == 5) {
            const int h = op == 5;
            if (!h || !second)
                good = gram_recursion(h ? corner : rv, h ? g22 : half, s->whole + 32 * h, s->recursion, h ? g22 : half, h ? corner : rv,
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
        case 6: to = lower, from = nullptr, a = lower, b = half; break;
        case 7: to = from = g22, a = g21, b = z; break;
        case 9: to = from = g22, a = z, b = g12; break;
        case 12: to = g12, from = nullptr, a = z, b = g22; break;
        default: to = from = a = b = nullptr;
        }
        gram_product(to, from, a, op == 0 || op == 4, b, 1.0f);
    }
    #pragma unroll 1
    for (int e = tid; e < 1024; e += 256) {
        const int at = (e >> 5) * 68 + (e & 31);
        gram[at] = half[at];
        g21[at] = 0.0f;
    }
    block_sync();
    return good;
}
#line 1 "blocks/fused_wide_panel.cuh"
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
    const saddr sv = to_saddr(v), svl = sv + 65536;
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
    const u64 b0 = wide_desc(to_saddr(v)), bl0 = wide_desc(to_saddr(v) + 65536);
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
    return warp_all(was == 0.0f || fabsf(fmaf(0.5f * was, square, -1.0f)) <= 0.000262144f);
}

// T = (I + D striu(V'V))^-1 D as in fused_t.cuh, for 64 columns: blocks of 16 by substitution, then twice T12 = -T11 (G12 T22), G12 T22 in
// G12's place. gram: V'V, symmetric; t: rows 68 apart. Synchronises.
QRS_DEV void wide_build_t(float *gram, const float *tau, float *t)
{
    const int tid = threadIdx.x;
    #pragma unroll 1
    for (int e = tid; e < 1088; e += 256)
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
    const int tiles = 8 - k, steps = 512 - 64 * k < 64 ? 512 - 64 * k : 64;
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
            const bool good = gram_pair(s, tau, steps, k == 7);
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
    const u32 bytes = (8 - p) * 8192;
    const saddr base = to_saddr(dynamic_smem()), bar = base + 229936 + 8 * slot;
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

// Applies panels begin .. end-1 but those marked in zero; with SPLIT all of them have a low plane.
template <bool SPLIT> QRS_DEV void wide_update(wide_tile &c, int begin, int end, u32 zero, wide_stage &s)
{
    const saddr base = to_saddr(dynamic_smem());
    int slot = 0, p = wide_next(zero, begin, end);
    if (p < end)
        wide_issue<SPLIT>(s, p, 0);
    #pragma unroll 1
    while (p < end) {
        const int next = wide_next(zero, p + 1, end);
        const saddr v = base + 0 + slot * 65536, vl = base + 65536, t = base + 196608 + slot * 16384;
        float *x = (float *)(dynamic_smem() + 131072 + slot * 32768);
        mbar_wait(base + 229936 + 8 * slot, s.phases >> slot & 1);
        s.phases ^= 1u << slot;
        wide_gather<SPLIT>(c, p, v, vl, x);
        block_sync();
        if (!SPLIT && next < end)
            wide_issue<false>(s, next, slot ^ 1);
        wide_scatter<SPLIT>(c, p, v, vl, x, t);
        if (SPLIT) {
            block_sync();
            if (next < end)
                wide_issue<SPLIT>(s, next, 0);
        } else {
            slot ^= 1;
        }
        p = next;
    }
}

// Asks L2 for block `first` of A, a 128-byte line a request: it arrives while the chain of a panel keeps memory idle.
QRS_DEV void wide_prefetch(const float *a, i64 lda, int first)
{
#line 60 "blocks/fused_wide_kernel.cuh"
    #pragma unroll 1
    for (int e = threadIdx.x; e < 1024; e += 256) {
        const int major = e / 2, line = e % 2 * 32;
#line 67 "blocks/fused_wide_kernel.cuh"
        if (first + line < 512)
            prefetch_l2(a + major * lda + first + line);
#line 70 "blocks/fused_wide_kernel.cuh"
    }
}

QRS_KERNEL(fused, 256, 1)(const float *a, i64 lda, i64 stride_a, float *h, i64 ldh, i64 stride_h, float *tau, i64 stride_tau, int *info,
                          i64 batch, u8 *v_scratch, u8 *t_scratch)
{
    u8 *smem = dynamic_smem();
    wide_shared *shared = (wide_shared *)(smem + 131072);
    float *stau = (float *)(smem + 229376);
    int *exponent = (int *)(smem + 229664), *bad = (int *)(smem + 229920), *seen = (int *)(smem + 229632);
    u8 *v = smem + 0, *t = smem + 196608;
    const int tid = (int)threadIdx.x;
    if (tid == 0) {
        mbar_init(to_saddr(smem + 229936), 1);
        mbar_init(to_saddr(smem + 229944), 1);
        fence_mbar_init();
    }
    wide_stage stage = {v_scratch, t_scratch, 0};

    #pragma unroll 1
    for (i64 b = blockIdx.x; b < batch; b += gridDim.x) {
        u32 zero = 0;    // bit p: panel p was zero throughout and has no reflectors
        int split = 8, flags = 0; // panels from `split` on have a low plane, and use it
        if (tid == 0)
            *bad = 0;
        block_sync();
        bool rows = false; // the Gram recursion did not do for this panel: once more, by rows
        #pragma unroll 1
        for (int k = 0; k < 8;) {
            const int first = 64 * k, done = k < 8 ? k : 8, turn = k < 8 ? k : 0;
            if (tid == 0)
                bulk_wait_read<0>(); // the last V and T are out of shared memory
            block_sync();
            seen[warp()] = wide_load(v, a + b * stride_a, lda, first, bad, exponent);
            fence_async_shared();
            block_sync();
            {
                const bool same = k + 1 < 8;
                const i64 next = same ? b : b + gridDim.x;
                if (next < batch && !rows)
                    wide_prefetch(a + next * stride_a, lda, same ? first + 64 : 0);
            }
            // From here on every branch around products hangs on values that went through a shuffle: the compiler must see
            // that they are uniform, or it serialises the products.
            const int mine = seen[lane() & 7];
            const int found = shfl((warp_any(mine & 1) ? 1 : 0) | (warp_any(mine & 2) ? 2 : 0), 0);
            const bool filled = found & 1;
#line 118 "blocks/fused_wide_kernel.cuh"
            if ((found & 2) && k < split) {
                split = k;
                flags |= 4;
            }
#line 123 "blocks/fused_wide_kernel.cuh"
            if (filled && k > 0) {
                wide_tile c;
                wide_fill(c, v);
                if (tid == 0)
                    bulk_wait<0>(); // ... and in scratch
                block_sync();
#line 130 "blocks/fused_wide_kernel.cuh"
                wide_update<false>(c, 0, done < split ? done : split, zero, stage);
#line 133 "blocks/fused_wide_kernel.cuh"
                if (split < done) {
                    block_sync();
                    wide_update<true>(c, split, done, zero, stage);
                }
#line 140 "blocks/fused_wide_kernel.cuh"
                block_sync();
                wide_drain(c, v, turn);
                block_sync();
            }
            float *hb = h + b * stride_h;
            if (!filled || k >= 8) {
                wide_write(v, hb, ldh, first, filled ? turn : 0, false, exponent);
                if (k < 8) {
                    zero |= 1u << k;
                    if (tid < 64)
                        stau[tid] = 0.0f;
                }
            } else {
                const bool later = k < 7, low = split <= k;
                if (!wide_panel(stage, k, hb, ldh, exponent, v, t, later, low, rows, shared, stau)) {
                    rows = true;
                    flags |= 2;
                    continue;
                }
                rows = false;
            }
            if (k < 8 && tid < 64 && first + tid < 512)
                tau[b * stride_tau + first + tid] = stau[tid];
            k++;
        }
        if (info && tid == 0)
            info[b] = *bad | flags;
        block_sync();
    }
    if (tid == 0)
        bulk_wait<0>();
}
QRS_ENTRY(fused)
