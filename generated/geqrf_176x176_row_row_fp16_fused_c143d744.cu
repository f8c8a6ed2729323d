#line 170 "families/fused.lua"
#include "device/core.cuh"
#include "device/math.cuh"
#include "device/warp.cuh"
#include "device/block.cuh"
#include "device/mma.cuh"
#include "device/copy.cuh"
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
#line 1 "blocks/fused_load.cuh"
// Column block k of A into mma accumulators, scaled, and the finished rows of R out of them.
//
// Parameters: M, N; W warps; TILES row tiles a warp; IN, OUT layouts.
// Fragment: C^T in the accumulator layout of m16n8k16, so that it is at once the A operand of W^T = C^T V. Warp w holds row
// tiles i W + w of 16 rows; c[mt][i][n][e] is row (i W + w) 16 + 8 n + 2 q + (e & 1), column 16 mt + g + 8 (e >> 1), with
// g = lane / 4, q = lane % 4. Entries past the matrix are zero.
// Scale: column j is multiplied by 2^(LIFT - e_j), e_j the exponent of its largest finite magnitude. LIFT keeps the low
// halves of split fp16 operands away from fp16's subnormals.
#define QRS_LIFT 6

typedef float fused_tile[2][2][2][4];

QRS_DEV int fused_row(int i, int n, int e) { return (i * 8 + (int)warp()) * 16 + n * 8 + (int)(lane() & 3) * 2 + (e & 1); }
QRS_DEV int fused_column(int mt, int e) { return mt * 16 + (int)(lane() >> 2) + (e >> 1) * 8; }

// True when the block is not all zero. exponent: [32], of the columns, 0 for a zero column; largest: [W][32]; both shared.
// *bad is set (never cleared) to 1 when an entry is not finite. Synchronises the block once; the caller synchronises before it
// reads exponent, and before a next call.
QRS_DEV bool fused_load(fused_tile &c, const float *a, i64 lda, int first, float *largest, int *bad, int *exponent)
{
    float most[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    bool odd = false;
    const float *at = a + fused_row(0, 0, 0) * lda + first + fused_column(0, 0);
    #pragma unroll
    for (int i = 0; i < 2; i++)
        #pragma unroll
        for (int n = 0; n < 2; n++)
            #pragma unroll
            for (int e = 0; e < 2; e++)
                #pragma unroll
                for (int s = 0; s < 4; s++) {
                    bool in = fused_row(i, n, e) < 176 && first + fused_column(0, 0) + 8 * s < 176;
                    const int down = i * 128 + n * 8 + e;
                    c[s >> 1][i][n][(s & 1) * 2 + e] = in ? at[down * lda + 8 * s] : 0.0f;
                }
    #pragma unroll
    for (int mt = 0; mt < 2; mt++)
        #pragma unroll
        for (int i = 0; i < 2; i++)
            #pragma unroll
            for (int n = 0; n < 2; n++)
                #pragma unroll
                for (int e = 0; e < 4; e++) {
                    float v = fabsf(c[mt][i][n][e]);
                    bool finite = v <= 0x1.fffffep127f;
                    odd = odd || !finite;
                    most[2 * mt + (e >> 1)] = fmaxf(most[2 * mt + (e >> 1)], finite ? v : 0.0f);
                }
    #pragma unroll
    for (int s = 0; s < 4; s++) {
        most[s] = fmaxf(most[s], shfl_xor(most[s], 1));
        most[s] = fmaxf(most[s], shfl_xor(most[s], 2));
        if ((lane() & 3) == 0)
            largest[warp() * 32 + fused_column(s >> 1, (s & 1) * 2)] = most[s];
    }
    if (odd)
        *bad = 1;
    block_sync();
    float mine = 0.0f;
    #pragma unroll
    for (int v = 0; v < 8; v++)
        mine = fmaxf(mine, largest[v * 32 + lane()]);
    const int ex = mine > 0.0f ? pow2_exponent(mine) : 0;
    if (warp() == 0)
        exponent[lane()] = ex;
    #pragma unroll
    for (int s = 0; s < 4; s++) {
        power_of_two f = make_power_of_two(QRS_LIFT - shfl(ex, fused_column(s >> 1, (s & 1) * 2)));
        #pragma unroll
        for (int i = 0; i < 2; i++)
            #pragma unroll
            for (int n = 0; n < 2; n++) {
                float *x = &c[s >> 1][i][n][(s & 1) * 2];
                x[0] = times(f, x[0]);
                x[1] = times(f, x[1]);
            }
    }
    return warp_any(mine > 0.0f) || *bad;
}

// Rows above `active` are final: to H, with their scale. The others to the panel buffer, row-major with stride 36.
QRS_DEV void fused_spill(const fused_tile &c, float *h, i64 ldh, int first, int active, float *panel, const int *exponent)
{
    #pragma unroll
    for (int mt = 0; mt < 2; mt++)
        #pragma unroll
        for (int s = 0; s < 2; s++) {
            int j = fused_column(mt, 2 * s), col = first + j;
            power_of_two f = make_power_of_two(exponent[j] - QRS_LIFT);
            #pragma unroll
            for (int i = 0; i < 2; i++)
                #pragma unroll
                for (int n = 0; n < 2; n++)
                    #pragma unroll
                    for (int e = 0; e < 2; e++) {
                        int row = fused_row(i, n, e);
                        float v = c[mt][i][n][2 * s + e];
                        if (row >= active && row < 176)
                            panel[(row - active) * 36 + j] = v;
                        else if (row < 176 && col < 176)
                            h[row * ldh + col] = times(f, v);
                    }
        }
}
#line 1 "blocks/fused_apply.cuh"
// C <- (I - V T' V') C for one finished panel, on the tensor cores, C^T in accumulators (fused_load.cuh).
//
// Parameters: MT rows rounded up to 16; W warps; TILES; PRODUCTS 1 or 3; HALVES 1 or 2.
// V lies in shared memory as fp16 rows of 64 bytes, from the panel's first row on (a trapezoid), its 16-byte chunks swizzled so that
// ldmatrix of 8 rows is free of conflicts; scaled by 2^LIFT. With three products a second plane holds what rounding left (v = hi + lo),
// C and W' are split in registers, and lo x lo is dropped: fp32-level products from fp16 tensor cores.
// Per pair: W^T = C^T V (each warp over its rows), sum over warps through shared memory, W'^T = W^T T in fp32,
// C^T -= W'^T V^T.
QRS_DEV int fused_chunk(int row, int chunk) { return row * 64 + ((chunk ^ ((row >> 1) & 3)) << 4); }

// hi and lo halves of a pair; lo is what rounding to fp16 left, itself rounded.
QRS_DEV void fused_split(float x, float y, u32 &hi, u32 &lo)
{
    float hx, hy;
    hi = pack_f16(x, y);
    unpack_f16(hi, hx, hy);
    lo = pack_f16(x - hx, y - hy);
}

// Entry (i, j) of V, as fp16 scaled by 2^LIFT, into its planes.
QRS_DEV void fused_put(u8 *v, int i, int j, float x)
{
    const float y = x * 0x1p6f;
    u8 *at = v + fused_chunk(i, j >> 3) + (j & 7) * 2;
    const u16 hi = f16_bits(y);
    *(u16 *)at = hi;
#line 28 "blocks/fused_apply.cuh"
    *(u16 *)(at + 36864) = f16_bits(y - f16_value(hi));
#line 30 "blocks/fused_apply.cuh"
}

// The warp's 32 x 32 partial (accumulator layout, rows = first index) into its 4 KB of red, columns XORed by 8 (row % 4).
// NT column tiles of 8 from tile n0 on.
template <int NT> QRS_DEV void fused_partial(float *red, const float (&w)[2][NT][4], int n0)
{
    const int g = lane() >> 2, q = lane() & 3;
    float *at = red + warp() * 1024 + g * 32;
    #pragma unroll
    for (int mt = 0; mt < 2; mt++)
        #pragma unroll
        for (int h = 0; h < 2; h++)
            #pragma unroll
            for (int n = 0; n < NT; n++) {
                f32x2 v = {w[mt][n][2 * h], w[mt][n][2 * h + 1]};
                *(f32x2 *)(at + (mt * 16 + h * 8) * 32 + (((n0 + n) * 8 + q * 2) ^ ((g & 3) << 3))) = v;
            }
}
// Sum over warps of row r, column `lane`.
QRS_DEV float fused_total(const float *red, int r)
{
    float s = 0.0f;
    const float *at = red + r * 32 + (lane() ^ ((r & 3) << 3));
    #pragma unroll
    for (int v = 0; v < 8; v++)
        s += at[v * 1024];
    return s;
}

// p: the finished panel, applied to rows 32 p on. v: its V; lo plane 36864 bytes further. red: W x 4 KB; ws: 32 x 36 floats; wp: 2 KB a plane;
// t: T row-major 32 x 32. Synchronises twice; on return other warps may still read v and wp.
QRS_DEV void fused_apply(fused_tile &c, int p, saddr v, float *red, float *ws, u8 *wp, const float *t)
{
    const int w = warp(), l = lane();
    // One half of V's columns at a time: with all 32, the accumulators would push C out of the registers two CTAs leave.
    #pragma unroll 1
    for (int half = 0; half < 1; half++) {
        float acc[2][4][4];
        #pragma unroll
        for (int mt = 0; mt < 2; mt++)
            #pragma unroll
            for (int n = 0; n < 4; n++)
                #pragma unroll
                for (int e = 0; e < 4; e++)
                    acc[mt][n][e] = 0.0f;
        const saddr v1 = v + (w * 16 - 32 * p) * 64 + fused_chunk(l & 15, l >> 4);
        #pragma unroll
        for (int i = 0; i < 2; i++) {
            const int tile = i * 8 + w;
            if (tile >= 2 * p && tile < 11) {
                u32 a[2][4];
#line 82 "blocks/fused_apply.cuh"
                u32 al[2][4];
#line 84 "blocks/fused_apply.cuh"
                #pragma unroll
                for (int mt = 0; mt < 2; mt++)
                    #pragma unroll
                    for (int x = 0; x < 4; x++) {
                        const float *y = &c[mt][i][x >> 1][(x & 1) * 2];
#line 90 "blocks/fused_apply.cuh"
                        fused_split(y[0], y[1], a[mt][x], al[mt][x]);
#line 94 "blocks/fused_apply.cuh"
                    }
                #pragma unroll
                for (int n = 0; n < 2; n++) {
                    const saddr at = (v1 ^ ((half + n) << 5)) + i * 8192;
                    u32 b[4];
                    ldmatrix_x4_trans(b, at);
                    #pragma unroll
                    for (int mt = 0; mt < 2; mt++) {
                        mma_f16(acc[mt][2 * n], a[mt], b[0], b[1]);
                        mma_f16(acc[mt][2 * n + 1], a[mt], b[2], b[3]);
#line 105 "blocks/fused_apply.cuh"
                        mma_f16(acc[mt][2 * n], al[mt], b[0], b[1]);
                        mma_f16(acc[mt][2 * n + 1], al[mt], b[2], b[3]);
#line 108 "blocks/fused_apply.cuh"
                    }
#line 110 "blocks/fused_apply.cuh"
                    ldmatrix_x4_trans(b, at + 36864);
                    #pragma unroll
                    for (int mt = 0; mt < 2; mt++) {
                        mma_f16(acc[mt][2 * n], a[mt], b[0], b[1]);
                        mma_f16(acc[mt][2 * n + 1], a[mt], b[2], b[3]);
                    }
#line 117 "blocks/fused_apply.cuh"
                }
            }
        }
        fused_partial(red, acc, 4 * half);
    }
    block_sync();

    // Rows of W^T (columns of C) are dealt to the warps: sum, times T, rounded for the second product.
    float *mine = ws + w * 4 * 36;
    float o[4];
    #pragma unroll
    for (int i = 0; i < 4; i++) {
        mine[i * 36 + l] = fused_total(red, w * 4 + i);
        o[i] = 0.0f;
    }
    warp_sync();
    #pragma unroll
    for (int b = 0; b < 32; b += 4) {
        float tv[4];
        #pragma unroll
        for (int e = 0; e < 4; e++)
            tv[e] = t[(b + e) * 32 + l];
        #pragma unroll
        for (int i = 0; i < 4; i++) {
            f32x4 x = *(const f32x4 *)(mine + i * 36 + b);
            o[i] = fmaf(x.x, tv[0], fmaf(x.y, tv[1], fmaf(x.z, tv[2], fmaf(x.w, tv[3], o[i]))));
        }
    }
    #pragma unroll
    for (int i = 0; i < 4; i++) {
        // Both V and C carry 2^LIFT; the minus sign makes the second product an accumulation.
        float y = -0x1p-12f * o[i];
        u16 hi = f16_bits(y);
        u8 *at = wp + fused_chunk(w * 4 + i, l >> 3) + (l & 7) * 2;
        *(u16 *)at = hi;
#line 153 "blocks/fused_apply.cuh"
        *(u16 *)(at + 2048) = f16_bits(y - f16_value(hi));
#line 155 "blocks/fused_apply.cuh"
    }
    block_sync();

    const saddr v2 = v + (w * 16 - 32 * p) * 64 + fused_chunk(((l >> 4) << 3) + (l & 7), (l >> 3) & 1);
    const saddr wa = to_saddr(wp);
    #pragma unroll
    for (int kk = 0; kk < 2; kk++) {
        u32 a[2][4];
        #pragma unroll
        for (int mt = 0; mt < 2; mt++)
            ldmatrix_x4(a[mt], wa + fused_chunk(mt * 16 + (l & 15), kk * 2 + (l >> 4)));
#line 167 "blocks/fused_apply.cuh"
        u32 al[2][4];
        #pragma unroll
        for (int mt = 0; mt < 2; mt++)
            ldmatrix_x4(al[mt], wa + 2048 + fused_chunk(mt * 16 + (l & 15), kk * 2 + (l >> 4)));
#line 172 "blocks/fused_apply.cuh"
        #pragma unroll
        for (int i = 0; i < 2; i++) {
            const int tile = i * 8 + w;
            if (tile >= 2 * p && tile < 11) {
                u32 b[4];
                ldmatrix_x4(b, (kk ? v2 ^ 32 : v2) + i * 8192);
                #pragma unroll
                for (int mt = 0; mt < 2; mt++) {
                    mma_f16(c[mt][i][0], a[mt], b[0], b[1]);
                    mma_f16(c[mt][i][1], a[mt], b[2], b[3]);
#line 183 "blocks/fused_apply.cuh"
                    mma_f16(c[mt][i][0], al[mt], b[0], b[1]);
                    mma_f16(c[mt][i][1], al[mt], b[2], b[3]);
#line 186 "blocks/fused_apply.cuh"
                }
#line 188 "blocks/fused_apply.cuh"
                u32 bl[4];
                ldmatrix_x4(bl, (kk ? v2 ^ 32 : v2) + 36864 + i * 8192);
                #pragma unroll
                for (int mt = 0; mt < 2; mt++) {
                    mma_f16(c[mt][i][0], a[mt], bl[0], bl[1]);
                    mma_f16(c[mt][i][1], a[mt], bl[2], bl[3]);
                }
#line 196 "blocks/fused_apply.cuh"
            }
        }
    }
}
#line 1 "blocks/fused_t.cuh"
// T of a panel from V (fp16 planes in shared memory, as fused_apply.cuh reads them) and tau.
//
// Parameters: MT, W, TILES, THREADS, PRODUCTS, PLANE.
// T = (I + D striu(V'V))^-1 D with D = diag(tau) (Schreiber and Van Loan's compact WY): the four 8 x 8 blocks of the diagonal
// by substitution at once, then off-diagonal blocks of 8 and 16 as T12 = -T11 (S12 T22): five short barriers instead of a
// chain of 32 columns. tau = 0 gives a zero row and column by itself.
// v, p, red, ws as in fused_apply; t: 32 x 32 floats. Synchronises; all of t is visible to the block on return.
QRS_DEV void fused_build_t(int p, saddr v, float *red, float *ws, const float *tau, float *t)
{
    const int w = warp(), l = lane(), tid = threadIdx.x;
    float acc[2][4][4];
    #pragma unroll
    for (int mt = 0; mt < 2; mt++)
        #pragma unroll
        for (int n = 0; n < 4; n++)
            #pragma unroll
            for (int e = 0; e < 4; e++)
                acc[mt][n][e] = 0.0f;
    const saddr va = v + (w * 16 - 32 * p) * 64 + fused_chunk(((l >> 4) << 3) + (l & 7), (l >> 3) & 1);
    const saddr vb = v + (w * 16 - 32 * p) * 64 + fused_chunk(l & 15, l >> 4);
    #pragma unroll
    for (int i = 0; i < 2; i++) {
        const int tile = i * 8 + w;
        if (tile >= 2 * p && tile < 11) {
            u32 a[2][4];
            #pragma unroll
            for (int mt = 0; mt < 2; mt++)
                ldmatrix_x4_trans(a[mt], (va ^ (mt << 5)) + i * 8192);
#line 30 "blocks/fused_t.cuh"
            u32 al[2][4];
            #pragma unroll
            for (int mt = 0; mt < 2; mt++)
                ldmatrix_x4_trans(al[mt], (va ^ (mt << 5)) + 36864 + i * 8192);
#line 35 "blocks/fused_t.cuh"
            #pragma unroll
            for (int n = 0; n < 2; n++) {
                u32 b[4];
                ldmatrix_x4_trans(b, (vb ^ (n << 5)) + i * 8192);
                #pragma unroll
                for (int mt = 0; mt < 2; mt++) {
                    mma_f16(acc[mt][2 * n], a[mt], b[0], b[1]);
                    mma_f16(acc[mt][2 * n + 1], a[mt], b[2], b[3]);
#line 44 "blocks/fused_t.cuh"
                    mma_f16(acc[mt][2 * n], al[mt], b[0], b[1]);
                    mma_f16(acc[mt][2 * n + 1], al[mt], b[2], b[3]);
#line 47 "blocks/fused_t.cuh"
                }
#line 49 "blocks/fused_t.cuh"
                ldmatrix_x4_trans(b, (vb ^ (n << 5)) + 36864 + i * 8192);
                #pragma unroll
                for (int mt = 0; mt < 2; mt++) {
                    mma_f16(acc[mt][2 * n], a[mt], b[0], b[1]);
                    mma_f16(acc[mt][2 * n + 1], a[mt], b[2], b[3]);
                }
#line 56 "blocks/fused_t.cuh"
            }
        }
    }
    fused_partial(red, acc, 0);
    block_sync();
    #pragma unroll
    for (int i = 0; i < 4; i++) {
        int r = w * 4 + i;
        ws[r * 36 + l] = 0x1p-12f * fused_total(red, r);
    }
    for (int e = tid; e < 1024; e += 256)
        t[e] = 0.0f;
    block_sync();

    if (w == 0) { // lane = row of T; its block's columns one after another
        const int o = l & ~7, r = l & 7;
        float x[8];
        #pragma unroll
        for (int j = 0; j < 8; j++) {
            float s = 0.0f;
            #pragma unroll
            for (int i = 0; i < j; i++)
                s = fmaf(x[i], ws[(o + i) * 36 + o + j], s);
            float f = tau[o + j];
            x[j] = r == j ? f : r < j ? -f * s : 0.0f;
            t[l * 32 + o + j] = x[j];
        }
    }
    block_sync();
    float *y = red; // S12 T22, row-major with stride 17
    #pragma unroll
    for (int size = 8; size < 32; size *= 2) {
        const int blocks = 16 / size, all = blocks * size * size;
        for (int e = tid; e < all; e += 256) {
            int o = e / (size * size) * 2 * size, r = e / size % size, j = e % size;
            float s = 0.0f;
            #pragma unroll
            for (int i = 0; i < size; i++)
                s = fmaf(ws[(o + r) * 36 + o + size + i], t[(o + size + i) * 32 + o + size + j], s);
            y[(o + r) * 17 + j] = s;
        }
        block_sync();
        for (int e = tid; e < all; e += 256) {
            int o = e / (size * size) * 2 * size, r = e / size % size, j = e % size;
            float s = 0.0f;
            #pragma unroll
            for (int i = 0; i < size; i++)
                s = fmaf(t[(o + r) * 32 + o + i], y[(o + i) * 17 + j], s);
            t[(o + r) * 32 + o + size + j] = -s;
        }
        block_sync();
    }
}
#line 1 "blocks/fused_rows.cuh"
// Householder panel of 32 columns, rows in registers, one fused reduction and one barrier a column.
//
// Parameters: M, N, K; W warps (RS = 4 W rows a layer); MT = M rounded up to 16; OUT layout; PLANE, PRODUCTS as in fused_apply.cuh.
// A thread holds x[kk][s] = row kk RS + 4 w + lane / 8, column 8 s + lane % 8 of the panel (rows counted from the panel's first):
// of the layouts measured (32 columns, 512 rows) the fastest, as the pivot column comes by one shuffle a row and a column's
// dots leave a warp after three shuffles. One pass gives x'a_c of the un-normalised pivot column x for every c >= j;
// v'a_c and the norm follow from them and the pivot row (pack_reflector.cuh), so a column needs one barrier; buffers alternate.
template <int LAYERS> struct fused_panel {
    float x[LAYERS][4];
    float rho[4];  // of the finished columns: V = rho x
    float *part;   // shared, [2][W][32]: partial dots
    float *pivot;  // shared, [2][32]: the pivot row
    float *tau;    // shared, [32]
};

// Columns 8 SLOT .. 8 SLOT + 7, those before `steps`.
template <int LAYERS, int SLOT> QRS_DEV void fused_rows_slot(fused_panel<LAYERS> &s, int steps)
{
    // The layer of the pivot row; layers above are rows of R, finished.
    constexpr int TOP = SLOT * 8 / 32 < LAYERS ? SLOT * 8 / 32 : LAYERS - 1;
    const int l = lane(), w = warp(), cg = l & 7, rl = l >> 3, ri = TOP * 32 + w * 4 + rl;
    #pragma unroll 1
    for (int cj = 0; cj < 8; cj++) {
        const int j = SLOT * 8 + cj;
        if (j >= steps)
            break;
        float *part = s.part + (j & 1) * 256, *pivot = s.pivot + (j & 1) * 32;
        float xb[LAYERS];
        #pragma unroll
        for (int kk = TOP; kk < LAYERS; kk++)
            xb[kk] = shfl(s.x[kk][SLOT], rl * 8 + cj);
        if (ri <= j)
            xb[TOP] = 0.0f;

        float dot, squares;
        power_of_two grow = {1.0f, 1.0f};
        bool zero = false;
        #pragma unroll 1
        for (bool again = false;; again = true) {
            float d[4] = {0.0f, 0.0f, 0.0f, 0.0f};
            #pragma unroll
            for (int kk = TOP; kk < LAYERS; kk++)
                #pragma unroll
                for (int c = SLOT; c < 4; c++)
                    d[c] = fmaf(xb[kk], s.x[kk][c], d[c]);
            if (ri == j) {
                #pragma unroll
                for (int c = SLOT; c < 4; c++)
                    pivot[c * 8 + cg] = s.x[TOP][c];
            }
            // Transposing sum over the four rows of lanes: lane l ends with column l of the panel.
            const bool high = rl & 2, odd = rl & 1;
            float a0 = high ? d[2] : d[0], a1 = high ? d[3] : d[1], b0 = high ? d[0] : d[2], b1 = high ? d[1] : d[3];
            a0 += shfl_xor(b0, 16);
            a1 += shfl_xor(b1, 16);
            float e = odd ? a1 : a0, f = odd ? a0 : a1;
            e += shfl_xor(f, 8);
            part[w * 32 + l] = e;
            block_sync();
            float sum0 = 0.0f, sum1 = 0.0f;
            #pragma unroll
            for (int u = 0; u < 8; u += 2) {
                sum0 += part[u * 32 + l];
                sum1 += part[(u + 1) * 32 + l];
            }
            dot = sum0 + sum1;
            squares = shfl(dot, j);
            if (!(squares < QRS_TINY_SQUARES * 0x1p12f) || again)
                break;
            // Rare, and the same for the whole block: either the tail is exactly zero, or the step repeats rescaled.
            float most = 0.0f;
            #pragma unroll
            for (int kk = TOP; kk < LAYERS; kk++)
                most = fmaxf(most, fabsf(xb[kk]));
            most = warp_max(most);
            block_sync();
            part[w * 32 + l] = most;
            block_sync();
            #pragma unroll 1
            for (int u = 0; u < 8; u++)
                most = fmaxf(most, part[u * 32]);
            float alpha = fabsf(pivot[j]);
            block_sync();
            zero = most == 0.0f;
            if (zero || !is_finite(alpha))
                break;
            int ex = pow2_exponent(fmaxf(most, alpha));
            power_of_two shrink = make_power_of_two(-ex);
            grow = make_power_of_two(ex);
            #pragma unroll
            for (int kk = TOP; kk < LAYERS; kk++) {
                xb[kk] = times(shrink, xb[kk]);
                if (cg == cj && (kk > TOP || ri >= j)) // entries of R above the pivot keep their scale
                    s.x[kk][SLOT] = times(shrink, s.x[kk][SLOT]);
            }
        }
        float alpha = pivot[j];
        reflector r = zero ? no_reflector(alpha) : make_reflector(alpha, squares);
        float g = r.step * fmaf(r.rho, dot, pivot[l]), gs[4];
        #pragma unroll
        for (int c = SLOT; c < 4; c++)
            gs[c] = shfl(g, c * 8 + cg);
        if (ri == j)
            xb[TOP] = r.gap;
        #pragma unroll
        for (int c = SLOT + 1; c < 4; c++)
            #pragma unroll
            for (int kk = TOP; kk < LAYERS; kk++)
                s.x[kk][c] = fmaf(-gs[c], xb[kk], s.x[kk][c]);
        if (cg > cj) { // finished columns are left alone, not multiplied by zero: the pivot may be NaN
            #pragma unroll
            for (int kk = TOP; kk < LAYERS; kk++)
                s.x[kk][SLOT] = fmaf(-gs[SLOT], xb[kk], s.x[kk][SLOT]);
        }
        if (cg == cj) {
            s.rho[SLOT] = r.rho;
            if (ri == j) {
                s.x[TOP][SLOT] = times(grow, r.beta);
                s.tau[j] = r.tau;
            }
        }
    }
}

// panel: the columns, shared, row-major with stride 36, scaled by 2^LIFT; first: the panel's first row and column; exponent: from fused_load.
// h: of this matrix. part, pivot, tau: shared (see fused_panel). v: shared, where V goes as fp16 planes; may overlap `panel`.
// LAYERS RS rows at least are left. Writes R and V to H, tau to shared memory (zero past K). The caller synchronises after.
template <int LAYERS>
QRS_DEV void fused_rows(const float *panel, int first, const int *exponent, float *h, i64 ldh, float *part, float *pivot, float *tau, u8 *v)
{
    fused_panel<LAYERS> s;
    s.part = part;
    s.pivot = pivot;
    s.tau = tau;
    const int l = lane(), cg = l & 7, ri = (int)warp() * 4 + (l >> 3);
    const int rows = 176 - first, steps = 176 - first < 32 ? 176 - first : 32;
    #pragma unroll
    for (int kk = 0; kk < LAYERS; kk++)
        #pragma unroll
        for (int c = 0; c < 4; c++)
            s.x[kk][c] = kk * 32 + ri < rows ? panel[(kk * 32 + ri) * 36 + c * 8 + cg] : 0.0f;
    #pragma unroll
    for (int c = 0; c < 4; c++)
        s.rho[c] = 1.0f;
    if ((int)threadIdx.x < 32 && (int)threadIdx.x >= steps)
        tau[threadIdx.x] = 0.0f;

    fused_rows_slot<LAYERS, 0>(s, steps);
    fused_rows_slot<LAYERS, 1>(s, steps);
    fused_rows_slot<LAYERS, 2>(s, steps);
    fused_rows_slot<LAYERS, 3>(s, steps);

    #pragma unroll
    for (int c = 0; c < 4; c++) {
        const int j = c * 8 + cg, col = first + j;
        const power_of_two scale = make_power_of_two(exponent[j] - QRS_LIFT);
        #pragma unroll
        for (int kk = 0; kk < LAYERS; kk++) {
            const int i = kk * 32 + ri, row = first + i;
            float below = s.x[kk][c] * s.rho[c];
            if (row < 176 && col < 176)
                h[row * ldh + col] = i > j ? below : times(scale, s.x[kk][c]);
            if (i < rows)
                fused_put(v, i, j, i > j ? below : i == j ? 1.0f : 0.0f);
        }
    }
}
#line 201 "families/fused.lua"

// Byte offset of panel p's trapezoid among those before it (one plane).
QRS_DEV int fused_trapezoid(int p) { return (p * 176 - 16 * p * (p - 1)) * 64; }

// The first panel from p on that was not skipped, `end` when there is none.
QRS_DEV int fused_next(const u32 *zero, int p, int end)
{
    while (p < end && (*zero >> p & 1))
        p++;
    return p;
}

#line 231 "families/fused.lua"

QRS_KERNEL(fused, 256, 1)(const float *a, i64 lda, i64 stride_a, float *h, i64 ldh, i64 stride_h, float *tau,
                                       i64 stride_tau, int *info, i64 batch, u8 *v_scratch, float *t_scratch)
{
    u8 *smem = dynamic_smem();
    float *panel = (float *)(smem + 73728), *red = (float *)(smem + 73728), *ws = (float *)(smem + 106496);
    float *t = (float *)(smem + 115200), *part = (float *)(smem + 139776), *pivot = (float *)(smem + 141824);
    float *stau = (float *)(smem + 142080), *largest = (float *)(smem + 142208);
    int *exponent = (int *)(smem + 143232), *bad = (int *)(smem + 143360);
    u32 *zero = (u32 *)(bad + 1); // bit p: panel p was zero throughout, so it has no reflectors
    // Pitches are read anew for every panel: kept in registers they would be multiplied by every row number in advance.
    i64 *pitch = (i64 *)(bad + 4);
    u8 *wp = smem + 111104;
    const saddr sv = to_saddr(smem + 0);
    const int tid = (int)threadIdx.x;
#line 250 "families/fused.lua"

    #pragma unroll 1
    for (i64 b = blockIdx.x; b < batch; b += gridDim.x) {
        const float *ab = a + b * stride_a;
        float *hb = h + b * stride_h;
        if (tid == 0) {
            bad[0] = bad[2] = 0;
            *zero = 0;
            pitch[0] = lda;
            pitch[1] = ldh;
        }
        block_sync();
        #pragma unroll 1
        for (int k = 0; k < 6; k++) {
            fused_tile c;
            const int first = 32 * k, active = k < 6 ? first : 176, done = k < 6 ? k : 6;
            const bool filled = fused_load(c, ab, pitch[0], first, largest, bad, exponent);
            if (filled) {
#line 269 "families/fused.lua"
                #pragma unroll 1
                for (int p = fused_next(zero, 0, done); p < done; p = fused_next(zero, p + 1, done))
                    fused_apply(c, p, sv + fused_trapezoid(p), red, ws, wp, t + p * 1024);
#line 305 "families/fused.lua"
            } else if (k < 6) {
                if (tid == 0)
                    *zero |= 1u << k;
                if (tid < 32)
                    stau[tid] = 0.0f;
            }
#line 321 "families/fused.lua"
            block_sync();
            // A zero block stays zero under any reflector: written as it is.
            fused_spill(c, hb, pitch[1], first, filled ? active : 176, panel, exponent);
            block_sync();
            if (k < 6) {
                if (filled) {
                    const int rows = 176 - first;
                    u8 *v = smem + 0 + fused_trapezoid(k);
#line 337 "families/fused.lua"
                    if (rows <= 64)
                        fused_rows<2>(panel, first, exponent, hb, pitch[1], part, pivot, stau, v);
#line 337 "families/fused.lua"
                    else if (rows <= 96)
                        fused_rows<3>(panel, first, exponent, hb, pitch[1], part, pivot, stau, v);
#line 337 "families/fused.lua"
                    else if (rows <= 160)
                        fused_rows<5>(panel, first, exponent, hb, pitch[1], part, pivot, stau, v);
#line 337 "families/fused.lua"
                    else 
                        fused_rows<6>(panel, first, exponent, hb, pitch[1], part, pivot, stau, v);
#line 340 "families/fused.lua"
                    block_sync();
                    if (k < 5) {
                        const saddr vs = sv + fused_trapezoid(k);
                        float *tk = t + k * 1024;
                        fused_build_t(k, vs, red, ws, stau, tk);
#line 357 "families/fused.lua"
                    }
                }
                if (tid < 32 && first + tid < 176)
                    tau[b * stride_tau + first + tid] = stau[tid];
            }
        }
        if (info && tid == 0)
            info[b] = bad[0] | bad[2];
        block_sync();
    }
}
QRS_ENTRY(fused)
