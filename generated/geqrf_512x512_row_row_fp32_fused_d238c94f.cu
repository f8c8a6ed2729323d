#line 170 "families/fused.lua"
#include "device/core.cuh"
#include "device/math.cuh"
#include "device/warp.cuh"
#include "device/block.cuh"
#include "device/mma.cuh"
#include "device/copy.cuh"
#line 177 "families/fused.lua"
#include "device/wgmma.cuh"
#include "device/stmatrix.cuh"
#line 180 "families/fused.lua"

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

// Calls f(address, j, i, inside) for every c[j][i] of block `first` of a matrix in global memory. Addresses advance by
// additions: products of the pitch with every row number would be most of the kernel's code.
#line 66 "blocks/fused_wide.cuh"
template <class P, class F> QRS_DEV void wide_walk(P *a, i64 ld, int first, F f)
{
    const int wg = wide_group(), row = wg * 64 + wide_row(0), col = first + wide_column(0);
#line 73 "blocks/fused_wide.cuh"
    P *at = a + (i64)row * ld + col;
    const i64 across = 8, next = ld, eight = 8 * ld;
#line 76 "blocks/fused_wide.cuh"
    #pragma unroll
    for (int j = 0; j < 4; j++) {
        #pragma unroll
        for (int i = 0; i < 8; i++) {
            #pragma unroll
            for (int e = 0; e < 2; e++)
                #pragma unroll
                for (int h = 0; h < 2; h++) {
                    const bool in = true && true;
                    f(at + e * next + h * across, j, 4 * i + 2 * h + e, in);
                }
            at += eight;
        }
        at += 8 * eight; // the other warpgroup's tile
    }
}
#line 93 "blocks/fused_wide.cuh"

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
    for (int j = 0; j < 4; j++)
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
        for (int j = 0; j < 4; j++)
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
#line 164 "blocks/fused_wide.cuh"
    return some ? 1 : 0;
#line 166 "blocks/fused_wide.cuh"
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
// Layout: warp w of 4, lane + 32 t = column; x[k] and gram[k] are row 4 k + w. Row j of x turns into row j of M once it has been
// the pivot row, so one array holds both. Everything off the chain dots -> barrier -> scalars -> update runs in its shadow: the
// update of G by step j happens during step j + 1, of which only row j + 1 is needed at once (`row`), and every lane also carries
// the next pivot column at its own rows (xb), found from its old values and its own g. One barrier of 128 threads a column.
// Measured on an H200, NC = 1, with 4 warps: 258 cycles a column (1, 2, 8 warps: 763, 303, 400); 64 columns at once: 454.
#line 18 "blocks/gram_recursion.cuh"
// Shared; read and written four floats at a time. Every first index is the column's parity.
struct alignas(16) gram_buffers {
    float part[2][68][4]; // dots by column and warp
    f32x2 pivot[2][68]; // row j of P1 and of G
    float next[2][32];    // old column j + 1 of x, in the order of the rows' owners: row 4 k + w at 8 w + k
    float row[2][32];     // row j of G in that order
    float g[2][32];       // g of step j in that order
};

// Threads 0..127 call. Results in shared memory: m, upper triangular with zeros below, columns scaled by rho (may be gram_in's place); rv, R on and
// above the diagonal and V1 below (may be p1's place); tau. whole: the columns' squares at the panel's start. bare: nothing lies below the
// top block, so that nothing can cancel. steps: columns past these have no reflector. passive: the passive columns are there.
// True, in each of the four warps, when the recursion went well as far as it can tell; the true norms of V have the last word.
QRS_DEV bool gram_recursion(const float *p1, const float *gram_in, const float *whole, gram_buffers *s, float *m, float *rv, float *tau,
                            int steps, bool bare, bool passive)
{
    const int l = lane(), w = warp();
    float x[8][2], gram[8][2], xb[8], old_row[8], old_h[2], old_g[2], row[2];
    float start = gram_in[l * 69], rho_of = 0.0f, squares_of = 0.0f, beta_of = 0.0f;
    #pragma unroll
    for (int t = 0; t < 2; t++) {
        #pragma unroll
        for (int k = 0; k < 8; k++) {
            x[k][t] = t == 0 || passive ? p1[(4 * k + w) * 68 + l + 32 * t] : 0.0f;
            gram[k][t] = t == 0 || passive ? gram_in[(4 * k + w) * 68 + l + 32 * t] : 0.0f;
        }
        row[t] = gram[0][t];
        old_h[t] = old_g[t] = 0.0f;
    }
    #pragma unroll
    for (int k = 0; k < 8; k++) {
        xb[k] = shfl(x[k][0], 0);
        old_row[k] = 0.0f;
    }
    if (w == 0)
        s->g[1][l] = 0.0f;
    if (w == 0 && l < 2) { // "next" of the last column
        *(f32x4 *)s->part[l][64] = {0.0f, 0.0f, 0.0f, 0.0f};
        s->pivot[l][64] = {0.0f, 0.0f};
    }

    #pragma unroll
    for (int jj = 0; jj < 8; jj++) {
        #pragma unroll 1
        for (int jw = 0; jw < 4; jw++) {
            const int j = jj * 4 + jw, b = j & 1;
            const bool own = w == jw;
            #pragma unroll
            for (int t = 0; t < 2; t++) {
                float even = fmaf(w > jw ? xb[jj] : 0.0f, x[jj][t], own ? row[t] : 0.0f), odd = 0.0f;
                #pragma unroll
                for (int k = jj + 1; k < 8; k++) {
                    if ((k - jj) & 1)
                        odd = fmaf(xb[k], x[k][t], odd);
                    else
                        even = fmaf(xb[k], x[k][t], even);
                }
                s->part[b][l + 32 * t][w] = even + odd;
                if (own) {
                    s->pivot[b][l + 32 * t] = {x[jj][t], row[t]};
                    if (t == 0)
                        s->row[b][(l & 3) * 8 + (l >> 2)] = row[t];
                }
            }
            if (l == j + 1) {
                #pragma unroll
                for (int k = 0; k < 8; k += 4)
                    *(f32x4 *)&s->next[b][w * 8 + k] = {x[k][0], x[k + 1][0], x[k + 2][0], x[k + 3][0]};
            }
            bar_sync(1, 128);
            const f32x4 dj = *(const f32x4 *)s->part[b][j], dn = *(const f32x4 *)s->part[b][j + 1];
            const f32x2 pj = s->pivot[b][j], pn = s->pivot[b][j + 1];
            const float squares = (dj.x + dj.y) + (dj.z + dj.w);
            const float norm2 = fmaxf(fmaf(pj.x, pj.x, squares), 0x1p-120f);
            const float q = rsqrt_approx(norm2), norm = norm2 * q;
            const float rho0 = rcp_approx(fabsf(pj.x) + norm);
            float dl[2];
            f32x2 pl[2];
            #pragma unroll
            for (int t = 0; t < 2; t++) {
                const f32x4 d = *(const f32x4 *)s->part[b][l + 32 * t];
                dl[t] = (d.x + d.y) + (d.z + d.w);
                pl[t] = s->pivot[b][l + 32 * t];
            }
            float next[8], last_g[8], this_row[8];
            #pragma unroll
            for (int k = 0; k < 8; k += 4) {
                f32x4 v = *(const f32x4 *)&s->next[b][w * 8 + k];
                next[k] = v.x, next[k + 1] = v.y, next[k + 2] = v.z, next[k + 3] = v.w;
                v = *(const f32x4 *)&s->g[b ^ 1][w * 8 + k];
                last_g[k] = v.x, last_g[k + 1] = v.y, last_g[k + 2] = v.z, last_g[k + 3] = v.w;
                v = *(const f32x4 *)&s->row[b][w * 8 + k];
                this_row[k] = v.x, this_row[k + 1] = v.y, this_row[k + 2] = v.z, this_row[k + 3] = v.w;
            }
            #pragma unroll
            for (int k = jj; k < 8; k++)
                #pragma unroll
                for (int t = 0; t < 2; t++)
                    gram[k][t] = fmaf(-old_row[k], old_g[t], fmaf(-last_g[k], old_h[t], gram[k][t]));

            const bool some = squares > 0.0f;
            const float rho = some ? copysignf(rho0, pj.x) : 0.0f, step = some ? copysignf(q, pj.x) : 0.0f;
            const float gap = copysignf(fabsf(pj.x) + norm, pj.x);
            const float gn = step * fmaf(rho, (dn.x + dn.y) + (dn.z + dn.w), pn.x);
            if (own) { // the pivot row leaves P1 and becomes a row of M
                xb[jj] = 1.0f;
                next[jj] = 0.0f;
            }
            #pragma unroll
            for (int t = 0; t < 2; t++) {
                const int c = l + 32 * t;
                const float gl = step * fmaf(rho, dl[t], pl[t].x), g = c > j ? gl : 0.0f;
                if (c == j) {
                    rho_of = rho;
                    squares_of = squares;
                    beta_of = some ? copysignf(norm, -pj.x) : pj.x;
                }
                if (own) {
                    x[jj][t] = c < j ? x[jj][t] : c == j ? 1.0f : 0.0f;
                    if (t == 0)
                        s->g[b][(l & 3) * 8 + (l >> 2)] = g;
                    if (c > j && (t == 0 || passive))
                        rv[j * 68 + c] = fmaf(-gl, gap, pl[t].x);
                }
                #pragma unroll
                for (int k = 0; k < 8; k++)
                    x[k][t] = fmaf(-g, xb[k], x[k][t]);
                old_h[t] = fmaf(-g, pj.y, pl[t].y);
                old_g[t] = g;
                float below = gram[jj][t];
                if (jj + 1 < 8)
                    below = jw == 3 ? gram[jj + 1 < 8 ? jj + 1 : jj][t] : below;
                row[t] = fmaf(-pn.y, g, fmaf(-gn, old_h[t], below));
            }
            #pragma unroll
            for (int k = 0; k < 8; k++) {
                xb[k] = fmaf(-gn, xb[k], next[k]);
                old_row[k] = this_row[k];
            }
            if (threadIdx.x == 0)
                tau[j] = some ? fmaf(fabsf(pj.x), q, 1.0f) : 0.0f;
        }
    }
    #pragma unroll
    for (int k = 0; k < 8; k++) {
        const int i = 4 * k + w;
        m[i * 68 + l] = i <= l ? x[k][0] * rho_of : 0.0f;
        if (i >= l)
            rv[i * 68 + l] = i == l ? beta_of : x[k][0] * rho_of;
#line 168 "blocks/gram_recursion.cuh"
        if (passive)
            m[i * 68 + l + 32] = x[k][1];
#line 171 "blocks/gram_recursion.cuh"
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
// Three TF32 products (hi hi + hi lo + lo hi) keep about fp32's accuracy with fp32's range.
QRS_DEV void gram_split(float x, u32 &hi, u32 &lo)
{
    hi = tf32_bits(x);
    lo = tf32_bits(x - as_f32(hi));
}

// d += A B for a 16 x 8 tile at (row, col) of a product with 32 terms, one warp, operands in shared memory. A(i, k) = a[i lda + k], or with TRANSPOSED
// a[k lda + i]; B(k, j) = b[k ldb + j]. d as m16n8k8 has it: d[0..1] at (row + g, col + 2q..), d[2..3] eight rows below.
template <bool TRANSPOSED> QRS_DEV void gram_tile(float (&d)[4], const float *a, int lda, const float *b, int ldb, int row, int col)
{
    const int g = lane() >> 2, q = lane() & 3;
    #pragma unroll
    for (int k = 0; k < 32; k += 8) {
        u32 h[4], lo[4], bh[2], bl[2];
        #pragma unroll
        for (int e = 0; e < 4; e++) {
            const int i = row + g + (e & 1) * 8, kk = k + q + (e >> 1) * 4;
            gram_split(TRANSPOSED ? a[kk * lda + i] : a[i * lda + kk], h[e], lo[e]);
        }
        #pragma unroll
        for (int e = 0; e < 2; e++)
            gram_split(b[(k + q + e * 4) * ldb + col + g], bh[e], bl[e]);
        mma_tf32(d, h, bl[0], bl[1]);
        mma_tf32(d, lo, bh[0], bh[1]);
        mma_tf32(d, h, bh[0], bh[1]);
    }
}
QRS_DEV void gram_tile_get(float (&d)[4], const float *from, int ld, int row, int col)
{
    const float *at = from + (row + ((int)lane() >> 2)) * ld + col + ((int)lane() & 3) * 2;
    d[0] = at[0], d[1] = at[1], d[2] = at[8 * ld], d[3] = at[8 * ld + 1];
}
QRS_DEV void gram_tile_put(const float (&d)[4], float *to, int ld, int row, int col)
{
    float *at = to + (row + ((int)lane() >> 2)) * ld + col + ((int)lane() & 3) * 2;
    at[0] = d[0], at[1] = d[1], at[8 * ld] = d[2], at[8 * ld + 1] = d[3];
}
#line 1 "blocks/gram_pair.cuh"
// A panel of 64 columns as two Gram recursions of 32 with a block update between them: 64 at once cost 454 cycles a column, two of 32 about 300.
//
// The first half transforms the second half's columns along (they are its passive ones): R12 and Z with C2 <- C2 + P2a Z come out, P2a being the
// rows below the first 32. What the second half needs follows from 32 x 32 products: its top block, and
//   G22 + G21 Z + Z'(G12 + G11 Z)
// for the rows below both. Then V[32:64, 0:32] = P1[32:64, 0:32] M1 and M = [M1, Z M2; 0, M2].
//
// All 256 threads call. rv: top block, 64 x 64 with stride 68, becomes R on and above the diagonal and V below. gram: G of the rows below,
// likewise, becomes M. half: 32 x 68 floats; whole: 64. steps, bare: as in
// gram_recursion. Returns, in thread 0 alone, whether both recursions went well. Synchronises.
QRS_DEV bool gram_pair(float *rv, float *gram, float *half, float *whole, gram_buffers *s, float *tau, int steps, bool bare)
{
    const int w = warp(), row = (w >> 2) * 16, col = (w & 3) * 8; // this warp's tile of a 32 x 32 product
    float *lower = rv + 32 * 68, *corner = rv + 32 * 68 + 32, *g21 = gram + 32 * 68, *g22 = gram + 32 * 68 + 32;
    float d[4], e[4];
    bool good = true;

    if (threadIdx.x < 64)
        whole[threadIdx.x] = gram_square(rv, gram, 64, threadIdx.x);
    #pragma unroll
    for (int c = 0; c < 64; c += 32) { // rows 32..63 are below the first half's top block
        gram_tile_get(d, gram, 68, row, col + c);
        gram_tile<true>(d, lower, 68, lower, 68, row, col + c);
        gram_tile_put(d, half, 68, row, col + c);
    }
    block_sync();
    #pragma unroll 1
    for (int h = 0; h < 2; h++) {
        if (w < 4)
            good = gram_recursion(h ? corner : rv, h ? g22 : half, whole + 32 * h, s, h ? g22 : half, h ? corner : rv, tau + 32 * h,
                                  steps - 32 * h, h && bare, h == 0) && good;
        block_sync();
        if (h == 0) {
            gram_tile_get(d, corner, 68, row, col);
            gram_tile<false>(d, lower, 68, half + 32, 68, row, col);
            gram_tile_get(e, gram + 32, 68, row, col);
            gram_tile<false>(e, gram, 68, half + 32, 68, row, col);
            block_sync();
            gram_tile_put(d, corner, 68, row, col);
            gram_tile_put(e, gram + 32, 68, row, col);
            d[0] = d[1] = d[2] = d[3] = 0.0f;
            gram_tile<false>(d, lower, 68, half, 68, row, col);
            block_sync();
            gram_tile_put(d, lower, 68, row, col);
            gram_tile_get(e, g22, 68, row, col);
            gram_tile<false>(e, g21, 68, half + 32, 68, row, col);
            gram_tile<true>(e, half + 32, 68, gram + 32, 68, row, col);
            gram_tile_put(e, g22, 68, row, col);
            block_sync();
        }
    }
    d[0] = d[1] = d[2] = d[3] = 0.0f;
    gram_tile<false>(d, half + 32, 68, g22, 68, row, col);
    gram_tile_put(d, gram + 32, 68, row, col);
    gram_tile_get(e, half, 68, row, col);
    gram_tile_put(e, gram, 68, row, col);
    d[0] = d[1] = d[2] = d[3] = 0.0f;
    gram_tile_put(d, g21, 68, row, col);
    block_sync();
    return good;
}
#line 1 "blocks/fused_wide_panel.cuh"
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
        for (int j = 0; j < 4; j++)
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
    for (int j = 0; j < 4; j++)
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
    for (int j = 0; j < 4; j++) {
        const int tile = 2 * j + wg;
        if (tile > k && tile < 8) {
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
    for (int tile = k + 1 + ((k + 1 + wg) & 1); tile < 8; tile += 2) {
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
    for (int j = 0; j < 4; j++) {
        #pragma unroll
        for (int i = 0; i < 32; i++)
            c[j][i] = 0.0f;
        wgmma_hold(c[j]);
    }
    #pragma unroll
    for (int j = 0; j < 4; j++) {
        const int tile = 2 * j + wg;
        if (tile > k && tile < 8) {
            const u64 b = wide_further(b0, (tile - k) * 8192), bl = wide_further(bl0, (tile - k) * 8192);
            wgmma_fence();
            #pragma unroll
            for (int step = 0; step < 4; step++)
                wide_product<true, false>(c[j], a[step], al[step], wide_further(b, step * 32), wide_further(bl, step * 32));
            wgmma_commit();
        }
    }
    #pragma unroll
    for (int j = 0; j < 4; j++) {
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
            for (int j = 0; j < 4; j++)
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
        good = good && (was[h] == 0.0f || fabsf(fmaf(0.5f * was[h], square[h], -1.0f)) <= 2.62144e-05f);
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
        const int i = e >> 6, j = e & 63, row = first + i, col = first + j;
        const float x = s->rv[i * 68 + j];
        if (row < 512 && col < 512)
            h[row * ldh + col] = i > j ? x : times(make_power_of_two(exponent[j] - QRS_LIFT), x);
    }
    wide_walk(h, ldh, first, [&](float *at, int j, int i, bool in) {
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
    for (int j = 0; j < 4; j++) {
        const int tile = 2 * j + wg;
        if (tile > k && tile < 8) {
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
    for (int tile = k + ((k + wg) & 1); tile < 8; tile += 2) {
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
    const bool good = gram_pair(s->rv, s->gram, s->exchange, s->whole, &s->recursion, tau, 512 - 64 * k, k == 7);
    if (threadIdx.x == 0)
        s->verdict = good;
    block_sync();
    bool gram = shfl(s->verdict, 0);
    if (gram) {
        wide_below(c, k, sv, svl, s);
        gram = shfl((int)wide_agrees(c, k, s, tau), 0);
    }
    if (!gram) {
        wide_restore(v, vl, top, s->shift, 8 - k);
        wide_rows(v, vl, (8 - k) * 64, 512 - 64 * k < 64 ? 512 - 64 * k : 64, tau);
        #pragma unroll
        for (int h = 0; h < 2; h++) {
            const float *line = wide_line(v, vl, wide_column(h)) + (wg - k) * 2048 + wide_row(0);
            #pragma unroll
            for (int j = 0; j < 4; j++)
                if (2 * j + wg > k && 2 * j + wg < 8) {
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
#line 1 "blocks/fused_wide_kernel.cuh"
// The whole left-looking walk with panels of 64 columns and warpgroup products: one CTA an SM, 256 threads (fused.lua, update = wgmma).
//
// Parameters: M, N, K, NP, KP, USED, NT, J, layouts, PRODUCTS, SELECT, shared memory places O_*, scratch sizes V_BYTES and PLANES.
// Finished V and T lie in scratch exactly as they lie in shared memory, so each moves by one bulk copy. With one product two stages alternate
// and the next panel's V arrives while this one is applied; with three, both planes fill the same space and copies wait for it.
struct wide_stage {
    const u8 *v, *t; // scratch of all CTAs; this one's place is found anew each time, registers being what is short
    u32 phases;      // of the two barriers, bit = slot
};
QRS_DEV i64 wide_v_place() { return (i64)blockIdx.x * 589824; }
QRS_DEV i64 wide_t_place() { return (i64)blockIdx.x * 131072; }
QRS_DEV int wide_trapezoid(int p) { return (p * 8 - p * (p - 1) / 2) * 8192; }

template <bool SPLIT> QRS_DEV void wide_issue(const wide_stage &s, int p, int slot)
{
    if (threadIdx.x != 0)
        return;
    const u32 bytes = (8 - p) * 8192;
    const saddr base = to_saddr(dynamic_smem()), bar = base + 215056 + 8 * slot;
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
        mbar_wait(base + 215056 + 8 * slot, s.phases >> slot & 1);
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

// Tiles before `tiles` are final: to H, with their scale.
QRS_DEV void wide_spill(const wide_tile &c, float *h, i64 ldh, int first, int tiles, const int *exponent)
{
    const int wg = wide_group();
    power_of_two f[2];
    #pragma unroll
    for (int half = 0; half < 2; half++)
        f[half] = make_power_of_two(exponent[wide_column(half)] - QRS_LIFT);
    wide_walk(h, ldh, first, [&](float *at, int j, int i, bool in) {
        if (in && 2 * j + wg < tiles)
            *at = times(f[i >> 1 & 1], c[j][i]);
    });
}

// Asks L2 for block `first` of A, a 128-byte line a request: it arrives while the chain of a panel keeps memory idle.
QRS_DEV void wide_prefetch(const float *a, i64 lda, int first)
{
#line 82 "blocks/fused_wide_kernel.cuh"
    #pragma unroll 1
    for (int e = threadIdx.x; e < 1024; e += 256) {
        const int major = e / 2, line = e % 2 * 32;
#line 89 "blocks/fused_wide_kernel.cuh"
        if (first + line < 512)
            prefetch_l2(a + major * lda + first + line);
#line 92 "blocks/fused_wide_kernel.cuh"
    }
}

QRS_KERNEL(fused, 256, 1)(const float *a, i64 lda, i64 stride_a, float *h, i64 ldh, i64 stride_h, float *tau, i64 stride_tau, int *info,
                          i64 batch, u8 *v_scratch, u8 *t_scratch)
{
    u8 *smem = dynamic_smem();
    wide_shared *shared = (wide_shared *)(smem + 131072);
    float *stau = (float *)(smem + 212992), *stats = (float *)(smem + 213248);
    int *exponent = (int *)(smem + 214784), *bad = (int *)(smem + 215040);
    u8 *v = smem + 0, *vl = v + 65536, *t = smem + 196608, *tl = t + 8192;
    const int tid = (int)threadIdx.x;
    if (tid == 0) {
        mbar_init(to_saddr(smem + 215056), 1);
        mbar_init(to_saddr(smem + 215064), 1);
        fence_mbar_init();
    }
    wide_stage stage = {v_scratch, t_scratch, 0};

    #pragma unroll 1
    for (i64 b = blockIdx.x; b < batch; b += gridDim.x) {
        u32 zero = 0;    // bit p: panel p was zero throughout and has no reflectors
        int split = 0, flags = 0; // panels from `split` on have a low plane, and use it
        if (tid == 0)
            *bad = 0;
        block_sync();
        #pragma unroll 1
        for (int k = 0; k < 8; k++) {
            wide_tile c;
            const int first = 64 * k, done = k < 8 ? k : 8;
            // From here on every branch around products hangs on values that went through a shuffle: the compiler must see
            // that they are uniform, or it serialises the products.
            const int found = shfl(wide_load(c, a + b * stride_a, lda, first, stats, bad, exponent), 0);
            {
                const bool same = k + 1 < 8;
                const i64 next = same ? b : b + gridDim.x;
                if (next < batch)
                    wide_prefetch(a + next * stride_a, lda, same ? first + 64 : 0);
            }
            const bool filled = found & 1;
#line 138 "blocks/fused_wide_kernel.cuh"
            if (filled) {
                if (tid == 0)
                    bulk_wait<0>(); // the last V and T are out of shared memory, and in scratch
#line 150 "blocks/fused_wide_kernel.cuh"
                wide_update<true>(c, 0, done, zero, stage);
#line 152 "blocks/fused_wide_kernel.cuh"
            }
            block_sync();
            wide_spill(c, h + b * stride_h, ldh, first, filled ? done : 8, exponent);
            if (k >= 8)
                ;
            else if (!filled) {
                zero |= 1u << k;
                if (tid < 64)
                    stau[tid] = 0.0f;
            } else {
                if (!wide_panel(c, k, h + b * stride_h, ldh, exponent, v, vl, t, tl, k < 7, split <= k, shared, stau))
                    flags |= 2;
                if (k < 7 && tid == 0) {
                    const u32 bytes = (8 - k) * 8192;
                    bulk_store(v_scratch + wide_v_place() + wide_trapezoid(k), to_saddr(v), bytes);
                    bulk_store(t_scratch + wide_t_place() + k * 16384, to_saddr(t), 16384);
#line 169 "blocks/fused_wide_kernel.cuh"
                    if (split <= k)
                        bulk_store(v_scratch + wide_v_place() + 294912 + wide_trapezoid(k), to_saddr(vl), bytes);
#line 172 "blocks/fused_wide_kernel.cuh"
                    bulk_commit();
                }
            }
            if (k < 8 && tid < 64 && first + tid < 512)
                tau[b * stride_tau + first + tid] = stau[tid];
        }
        if (info && tid == 0)
            info[b] = *bad | flags;
        block_sync();
    }
    if (tid == 0)
        bulk_wait<0>();
}
QRS_ENTRY(fused)
