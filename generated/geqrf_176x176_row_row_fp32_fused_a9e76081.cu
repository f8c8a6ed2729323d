#line 162 "families/fused.lua"
#include "device/core.cuh"
#include "device/math.cuh"
#include "device/warp.cuh"
#include "device/block.cuh"
#include "device/mma.cuh"
#include "device/copy.cuh"
#line 172 "families/fused.lua"

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
// Column blocks of A: requested into a tile of shared memory ahead of time, scaled, taken into mma accumulators and given back.
//
// Parameters: M, N; MT = M rounded up to 16; W warps; TILES row tiles a warp; THREADS; IN layout.
// Tile: MT rows of 36 floats, zero past the matrix. Loops over it are rolled: a panel walks its code once, and what the
// instruction cache does not hold costs more than the loop's own instructions.
// Fragment: C^T in the accumulator layout of m16n8k16, so that it is at once the A operand of W^T = C^T V. Warp w holds row
// tiles i W + w of 16 rows; c[mt][i][n][e] is row (i W + w) 16 + 8 n + 2 q + (e & 1), column 16 mt + g + 8 (e >> 1), with
// g = lane / 4, q = lane % 4.
// Scale: column j is multiplied by 2^(LIFT - e_j), e_j the exponent of its largest finite magnitude. LIFT keeps the low
// halves of split fp16 operands away from fp16's subnormals.
#define QRS_LIFT 6

typedef float fused_tile[2][2][2][4];

// Starts the copy of the 32 columns from `first` on. Asynchronous: the caller commits, waits and synchronises.
QRS_DEV void fused_request(float *tile, const float *a, i64 lda, int first)
{
    const int left = 176 - first, tid = (int)threadIdx.x;
    const saddr to = to_saddr(tile);
    a += first;
#line 22 "blocks/fused_load.cuh"
    if (left >= 32 && ((((u64)a >> 2) | (u64)lda) & 3) == 0) {
        #pragma unroll 1
        for (int e = tid; e < 1408; e += 256)
            cp_async16(to + (e >> 3) * 144 + (e & 7) * 16, a + (e >> 3) * lda + (e & 7) * 4);
    } else {
        #pragma unroll 1
        for (int e = tid; e < 5632; e += 256)
            if ((e & 31) < left)
                cp_async4(to + (e >> 5) * 144 + (e & 31) * 4, a + (e >> 5) * lda + (e & 31));
    }
#line 40 "blocks/fused_load.cuh"
    #pragma unroll 1
    for (int e = tid; e < 5632; e += 256)
        if ((e >> 5) >= 176 || (e & 31) >= left)
            tile[(e >> 5) * 36 + (e & 31)] = 0.0f;
#line 45 "blocks/fused_load.cuh"
}

// The exponent of column `lane`, 0 for a zero column; also to exponent[32] (shared). largest: [W][32], shared. *bad is set (never
// cleared) to 1 when an entry is not finite. Synchronises once, before it writes exponent.
QRS_DEV int fused_exponents(const float *tile, float *largest, int *bad, int *exponent, bool &filled)
{
    float most = 0.0f;
    bool odd = false;
    #pragma unroll 4
    for (int i = (int)warp(); i < 176; i += 8) {
        const float v = fabsf(tile[i * 36 + lane()]);
        const bool finite = v <= 0x1.fffffep127f;
        odd = odd || !finite;
        most = fmaxf(most, finite ? v : 0.0f);
    }
    largest[threadIdx.x] = most;
    if (odd)
        *bad = 1;
    block_sync();
    #pragma unroll
    for (int v = 0; v < 8; v++)
        most = fmaxf(most, largest[v * 32 + lane()]);
    const int ex = most > 0.0f ? pow2_exponent(most) : 0;
    if (warp() == 0)
        exponent[lane()] = ex;
    filled = warp_any(most > 0.0f) || *bad;
    return ex;
}

// The first entry of a thread in the tile; its others follow at constant distances.
QRS_DEV int fused_place() { return ((int)warp() * 16 + (int)(lane() & 3) * 2) * 36 + (int)(lane() >> 2); }

// ex: of column `lane`.
QRS_DEV void fused_take(fused_tile &c, const float *tile, int ex)
{
    const float *at = tile + fused_place();
    #pragma unroll
    for (int s = 0; s < 4; s++) {
        const power_of_two f = make_power_of_two(QRS_LIFT - shfl(ex, 8 * s + (int)(lane() >> 2)));
        #pragma unroll
        for (int i = 0; i < 2; i++) {
            const bool in = i * 8 + (int)warp() < 11;
            #pragma unroll
            for (int n = 0; n < 2; n++)
                #pragma unroll
                for (int e = 0; e < 2; e++)
                    c[s >> 1][i][n][(s & 1) * 2 + e] = in ? times(f, at[i * 4608 + n * 288 + e * 36 + 8 * s]) : 0.0f;
        }
    }
}
// Row tiles from tile0 on.
QRS_DEV void fused_give(const fused_tile &c, float *tile, int tile0)
{
    float *at = tile + fused_place();
    #pragma unroll
    for (int i = 0; i < 2; i++)
        if (i * 8 + (int)warp() >= tile0 && i * 8 + (int)warp() < 11)
            #pragma unroll
            for (int s = 0; s < 4; s++)
                #pragma unroll
                for (int n = 0; n < 2; n++)
                    #pragma unroll
                    for (int e = 0; e < 2; e++)
                        at[i * 4608 + n * 288 + e * 36 + 8 * s] = c[s >> 1][i][n][(s & 1) * 2 + e];
}
#line 1 "blocks/fused_out.cuh"
// A finished tile of 32 columns: to H, and its reflectors to fp16 planes.
//
// Parameters: M, N; MT, W, THREADS, OUT; PRODUCTS, PLANE, V_BYTES, RESIDENT as in the family.
// The tile (fused_load.cuh) holds R on and above the diagonal of the panel, still scaled, and V below it. top: the panel's first row, MT when
// the columns lie past the last panel.
QRS_DEV void fused_out(const float *tile, float *h, i64 ldh, int first, int top, const int *exponent)
{
    const int l = lane(), w = warp();
#line 10 "blocks/fused_out.cuh"
    const power_of_two f = make_power_of_two(exponent[l] - QRS_LIFT);
    float *to = h + w * ldh + first + l;
    if (first + l < 176)
        #pragma unroll 4
        for (int i = w; i < 176; i += 8, to += 8 * ldh) {
            const float x = tile[i * 36 + l];
            *to = i > top + l ? x : times(f, x);
        }
#line 30 "blocks/fused_out.cuh"
}

// hi and lo halves of a pair; lo is what rounding to fp16 left, itself rounded.
QRS_DEV void fused_split(float x, float y, u32 &hi, u32 &lo)
{
    float hx, hy;
    hi = pack_f16(x, y);
    unpack_f16(hi, hx, hy);
    lo = pack_f16(x - hx, y - hy);
}

QRS_DEV int fused_chunk(int row, int chunk) { return row * 64 + ((chunk ^ ((row >> 1) & 3)) << 4); }

// V from the tile's rows of the panel into planes of fp16, scaled by 2^LIFT, layout as in fused_apply.cuh; and to `copy` in global memory.
QRS_DEV void fused_reflectors(const float *panel, int rows, u8 *v)
{
    #pragma unroll 1
    for (int e = (int)threadIdx.x; e < rows * 4; e += 256) {
        const int i = e >> 2, j = (e & 3) * 8;
        float y[8];
        *(f32x4 *)y = *(const f32x4 *)(panel + i * 36 + j);
        *(f32x4 *)(y + 4) = *(const f32x4 *)(panel + i * 36 + j + 4);
        u32x4 hi, lo;
        #pragma unroll
        for (int u = 0; u < 8; u++)
            y[u] = i > j + u ? 0x1p6f * y[u] : i == j + u ? 0x1p6f : 0.0f;
        fused_split(y[0], y[1], hi.x, lo.x);
        fused_split(y[2], y[3], hi.y, lo.y);
        fused_split(y[4], y[5], hi.z, lo.z);
        fused_split(y[6], y[7], hi.w, lo.w);
        const int at = fused_chunk(i, e & 3);
        *(u32x4 *)(v + at) = hi;
#line 63 "blocks/fused_out.cuh"
        *(u32x4 *)(v + 36864 + at) = lo;
#line 71 "blocks/fused_out.cuh"
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
#line 59 "blocks/fused_apply.cuh"
                u32 al[2][4];
#line 61 "blocks/fused_apply.cuh"
                #pragma unroll
                for (int mt = 0; mt < 2; mt++)
                    #pragma unroll
                    for (int x = 0; x < 4; x++) {
                        const float *y = &c[mt][i][x >> 1][(x & 1) * 2];
#line 67 "blocks/fused_apply.cuh"
                        fused_split(y[0], y[1], a[mt][x], al[mt][x]);
#line 71 "blocks/fused_apply.cuh"
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
#line 82 "blocks/fused_apply.cuh"
                        mma_f16(acc[mt][2 * n], al[mt], b[0], b[1]);
                        mma_f16(acc[mt][2 * n + 1], al[mt], b[2], b[3]);
#line 85 "blocks/fused_apply.cuh"
                    }
#line 87 "blocks/fused_apply.cuh"
                    ldmatrix_x4_trans(b, at + 36864);
                    #pragma unroll
                    for (int mt = 0; mt < 2; mt++) {
                        mma_f16(acc[mt][2 * n], a[mt], b[0], b[1]);
                        mma_f16(acc[mt][2 * n + 1], a[mt], b[2], b[3]);
                    }
#line 94 "blocks/fused_apply.cuh"
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
#line 130 "blocks/fused_apply.cuh"
        *(u16 *)(at + 2048) = f16_bits(y - f16_value(hi));
#line 132 "blocks/fused_apply.cuh"
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
#line 144 "blocks/fused_apply.cuh"
        u32 al[2][4];
        #pragma unroll
        for (int mt = 0; mt < 2; mt++)
            ldmatrix_x4(al[mt], wa + 2048 + fused_chunk(mt * 16 + (l & 15), kk * 2 + (l >> 4)));
#line 149 "blocks/fused_apply.cuh"
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
#line 160 "blocks/fused_apply.cuh"
                    mma_f16(c[mt][i][0], al[mt], b[0], b[1]);
                    mma_f16(c[mt][i][1], al[mt], b[2], b[3]);
#line 163 "blocks/fused_apply.cuh"
                }
#line 165 "blocks/fused_apply.cuh"
                u32 bl[4];
                ldmatrix_x4(bl, (kk ? v2 ^ 32 : v2) + 36864 + i * 8192);
                #pragma unroll
                for (int mt = 0; mt < 2; mt++) {
                    mma_f16(c[mt][i][0], a[mt], bl[0], bl[1]);
                    mma_f16(c[mt][i][1], a[mt], bl[2], bl[3]);
                }
#line 173 "blocks/fused_apply.cuh"
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
// Householder panel of 32 columns, rows in registers, one fused reduction and one barrier a column, one copy of the step.
//
// Parameters: LAYERS of RS = 4 W rows; W warps.
// A thread holds x[kk][c] = row kk RS + 4 w + lane / 8, column 8 (slot + c) + lane % 8 of the panel (rows counted from the panel's first):
// the registers of eight finished columns move to the back, so that the loop over columns stays rolled.
// Columns are named relative to the slot: the pivot is column cj of 0..7, its successor cj + 1. One pass gives x'a_c of the
// un-normalised pivot column x for every c; v'a_c and the norm follow from them and the pivot row (pack_reflector.cuh).
// Every thread carries the pivot column at its own rows (xb) and finds the next one from its old values and its own g, as
// the column's owner does, bit for bit: nothing has to be fetched between the update and the next dots. What only the
// results need (tau, the diagonal of R) waits in `kept` until the end.
#line 13 "blocks/fused_rows.cuh"
struct alignas(16) fused_step {
    float part[2][32][12]; // dots by column and warp, one buffer a parity of the column
    float pivot[2][32];       // the pivot row
    f32x4 kept[32];           // alpha, square sum of the tail, rho, exponent of both as a float
};

QRS_DEV float fused_sum(const float *part)
{
    float sum = 0.0f;
    #pragma unroll
    for (int u = 0; u < 8; u += 4) {
        const f32x4 v = *(const f32x4 *)(part + u);
        sum += (v.x + v.y) + (v.z + v.w);
    }
    return sum;
}

// Dots of xb with four columns in two chains each, of the `live` columns that are not finished.
QRS_DEV void fused_dots(float (&d)[4], const float (&xb)[6], const float (&x)[6][4])
{
    #pragma unroll
    for (int c = 0; c < 4; c++) {
        d[c] = 0.0f;
        #pragma unroll
        for (int kk = 0; kk < 6; kk++)
            d[c] = fmaf(xb[kk], x[kk][c], d[c]);
    }
}

// panel: the columns, shared, row-major with stride 36, `rows` of them, scaled by 2^LIFT; afterwards R on and above the diagonal, V below.
// steps: columns with a reflector. tau: shared, zero past them. The caller synchronises before and after.
QRS_DEV void fused_rows(float *panel, int rows, int steps, fused_step *s, float *tau)
{
    const int l = lane(), w = warp(), cg = l & 7, rl = l >> 3, ri = w * 4 + rl;
    const int layers = (rows + 31) / 32;
    float x[6][4], xb[6], d[4];
    float *own = panel + ri * 36 + cg;
    #pragma unroll
    for (int kk = 0; kk < 6; kk++) {
        const bool in = kk * 32 + ri < rows;
        #pragma unroll
        for (int c = 0; c < 4; c++)
            x[kk][c] = in ? own[kk * 1152 + c * 8] : 0.0f;
        xb[kk] = shfl(x[kk][0], l & 24);
    }
    if (ri == 0)
        xb[0] = 0.0f;

    int slot = 0, cj = 0, scale = 0;
    bool fresh = true, again = false, zero = false;
    #pragma unroll 1
    for (int j = 0; j < steps;) {
        if (fresh)
            fused_dots(d, xb, x);
        float *pivot = s->pivot[j & 1], *part = &s->part[j & 1][0][0];
        #pragma unroll
        for (int kk = 0; kk < 1; kk++)
            if (kk * 32 + ri == j) {
                #pragma unroll
                for (int c = 0; c < 4; c++)
                    pivot[c * 8 + cg] = x[kk][c];
            }
        // Transposing sum over the four rows of lanes: lane l ends with column l.
        const bool high = rl & 2, odd = rl & 1;
        float a0 = high ? d[2] : d[0], a1 = high ? d[3] : d[1], b0 = high ? d[0] : d[2], b1 = high ? d[1] : d[3];
        a0 += shfl_xor(b0, 16);
        a1 += shfl_xor(b1, 16);
        float e = odd ? a1 : a0, f = odd ? a0 : a1;
        e += shfl_xor(f, 8);
        part[l * 12 + w] = e;
        block_sync();
        const float squares = fused_sum(part + cj * 12), dn = fused_sum(part + (cj + 1) * 12), mine = fused_sum(part + l * 12);
        const float alpha = pivot[cj], pn = pivot[cj + 1];
        float dot[4], p[4], next[6];
        #pragma unroll
        for (int c = 0; c < 4; c++) {
            dot[c] = shfl(mine, c * 8 + cg);
            p[c] = pivot[c * 8 + cg];
        }
        if (squares < QRS_TINY_SQUARES * 0x1p12f && !again) {
            // Rare, and the same for the whole block: either the tail is exactly zero, or the step repeats rescaled.
            float most = 0.0f;
            #pragma unroll
            for (int kk = 0; kk < 6; kk++)
                most = fmaxf(most, fabsf(xb[kk]));
            most = warp_max(most);
            block_sync();
            part[w] = most;
            block_sync();
            #pragma unroll 1
            for (int u = 0; u < 8; u++)
                most = fmaxf(most, part[u]);
            block_sync();
            again = true;
            zero = most == 0.0f;
            if (!zero && is_finite(alpha)) {
                scale = pow2_exponent(fmaxf(most, fabsf(alpha)));
                const power_of_two shrink = make_power_of_two(-scale);
                #pragma unroll
                for (int kk = 0; kk < 6; kk++) {
                    xb[kk] = times(shrink, xb[kk]);
                    if (cg == cj && (kk >= 1 || kk * 32 + ri >= j)) // entries of R above the pivot keep their scale
                        x[kk][0] = times(shrink, x[kk][0]);
                }
            }
            fresh = true;
            continue;
        }
        #pragma unroll
        for (int kk = 0; kk < 6; kk++)
            next[kk] = shfl(cj == 7 ? x[kk][1] : x[kk][0], (l & 24) + ((cj + 1) & 7));

        // As make_reflector, but for the Newton steps: rho and step are good to two units in the last place, and tau is made from the
        // v that is stored.
        const float square = fmaf(alpha, alpha, squares), q = rsqrt_approx(square), gap = zero ? 0.0f : fabsf(alpha) + square * q;
        const float rho = zero ? 0.0f : copysignf(rcp_approx(gap), alpha), step = zero ? 0.0f : copysignf(q, alpha);
        const float gn = step * fmaf(rho, dn, pn);
        #pragma unroll
        for (int kk = 0; kk < 1; kk++)
            if (kk * 32 + ri == j)
                xb[kk] = copysignf(gap, alpha);
        #pragma unroll
        for (int kk = 0; kk < 6; kk++)
            next[kk] = fmaf(-gn, xb[kk], next[kk]);
        #pragma unroll
        for (int kk = 0; kk < 1; kk++)
            if (kk * 32 + ri <= j + 1)
                next[kk] = 0.0f;
        #pragma unroll
        for (int c = 0; c < 4; c++) {
            if (c > 3 - slot)
                break;
            const float g = step * fmaf(rho, dot[c], p[c]);
            const bool touch = c > 0 || cg > cj; // finished columns are left alone, not multiplied by zero: the pivot may be NaN
            float even = 0.0f, odd = 0.0f;
            #pragma unroll
            for (int kk = 0; kk < 6; kk++) {
                if (kk > 0 && kk % 3 == 0 && kk >= layers)
                    break;
                const float y = fmaf(-g, xb[kk], x[kk][c]);
                x[kk][c] = touch ? y : x[kk][c];
                if (kk & 1)
                    odd = fmaf(next[kk], x[kk][c], odd);
                else
                    even = fmaf(next[kk], x[kk][c], even);
            }
            d[c] = even + odd;
        }
        if (threadIdx.x == 0)
            s->kept[j] = {alpha, squares, rho, (float)scale};
        #pragma unroll
        for (int kk = 0; kk < 6; kk++)
            xb[kk] = next[kk];
        fresh = again = zero = false;
        scale = 0;
        j++;
        if (++cj == 8) {
            cj = 0;
            slot++;
            #pragma unroll
            for (int kk = 0; kk < 6; kk++) {
                const float first = x[kk][0];
                x[kk][0] = x[kk][1], x[kk][1] = x[kk][2], x[kk][2] = x[kk][3], x[kk][3] = first;
            }
            const float first = d[0];
            d[0] = d[1], d[1] = d[2], d[2] = d[3], d[3] = first;
        }
    }
    block_sync();
    #pragma unroll
    for (int c = 0; c < 4; c++) {
        const int j = ((slot + c) & 3) * 8 + cg;
        const float rho = j < steps ? s->kept[j].z : 0.0f;
        float *to = panel + ri * 36 + j;
        #pragma unroll
        for (int kk = 0; kk < 6; kk++) {
            const int i = kk * 32 + ri;
            if (i < rows)
                to[kk * 1152] = i > j ? x[kk][c] * rho : x[kk][c];
        }
    }
    block_sync();
    if (threadIdx.x < 32) {
        const f32x4 k = s->kept[l];
        const bool some = k.z != 0.0f;
        if (l < steps && some) // NaN too
            panel[l * 37] = times(make_power_of_two((int)k.w), copysignf(sqrt_rn(fmaf(k.x, k.x, k.y)), -k.x));
        tau[l] = l < steps && some ? div_rn(2.0f, fmaf(k.z * k.z, k.y, 1.0f)) : 0.0f;
    }
}
#line 194 "families/fused.lua"

// Byte offset of panel p's trapezoid among those before it (one plane).
QRS_DEV int fused_trapezoid(int p) { return (p * 176 - 16 * p * (p - 1)) * 64; }

// The first panel from p on that was not skipped, `end` when there is none.
QRS_DEV int fused_next(const u32 *zero, int p, int end)
{
    while (p < end && (*zero >> p & 1))
        p++;
    return p;
}

#line 223 "families/fused.lua"

QRS_KERNEL(fused, 256, 1)(const float *a, i64 lda, i64 stride_a, float *h, i64 ldh, i64 stride_h, float *tau,
                                       i64 stride_tau, int *info, i64 batch, u8 *v_scratch, float *t_scratch)
{
    u8 *smem = dynamic_smem();
    float *t = (float *)(smem + 73728), *stau = (float *)(smem + 102144), *largest = (float *)(smem + 102272);
    int *exponent = (int *)(smem + 103296), *bad = (int *)(smem + 103424);
    u32 *zero = (u32 *)(bad + 1); // bit p: panel p was zero throughout, so it has no reflectors
    fused_step *step = (fused_step *)(smem + 98304);
#line 235 "families/fused.lua"
    const saddr sv = to_saddr(smem + 0);
    const int tid = (int)threadIdx.x;
#line 241 "families/fused.lua"

    i64 b = blockIdx.x;
    int k = 0, turn = 0;
    fused_request((float *)(smem + 103552), a + b * stride_a, lda, 0);
    cp_async_commit();
    #pragma unroll 1
    while (b < batch) { // a column block a turn
        const int first = 32 * k, done = k < 6 ? k : 6, rows = 176 - first;
        float *tile = (float *)(smem + 103552 + turn * 41472), *panel = tile + first * 36;
        float *red = tile, *ws = tile + 8192;
        u8 *wp = (u8 *)tile + 37376;
        if (k == 0 && tid == 0) {
            bad[0] = bad[2] = 0;
            *zero = 0;
        }
        cp_async_wait<0>();
        block_sync();
        bool filled;
        const int ex = fused_exponents(tile, largest, bad, exponent, filled);
        fused_tile c;
        if (filled) {
            fused_take(c, tile, ex);
            block_sync(); // partial sums go where the tile lies
#line 265 "families/fused.lua"
            #pragma unroll 1
            for (int p = fused_next(zero, 0, done); p < done; p = fused_next(zero, p + 1, done))
                fused_apply(c, p, sv + fused_trapezoid(p), red, ws, wp, t + p * 1024);
#line 302 "families/fused.lua"
            block_sync();
            fused_give(c, tile, 0);
        } else if (k < 6) { // a zero block stays zero under any reflector
            if (tid == 0)
                *zero |= 1u << k;
            if (tid < 32)
                stau[tid] = 0.0f;
        }
        const bool last = k == 5;
        const i64 b_next = last ? b + gridDim.x : b;
        const int k_next = last ? 0 : k + 1;
#line 314 "families/fused.lua"
        turn ^= 1;
        if (b_next < batch)
            fused_request((float *)(smem + 103552 + turn * 41472), a + b_next * stride_a, lda, 32 * k_next);
        cp_async_commit();
#line 319 "families/fused.lua"
        block_sync();
        u8 *v = smem + 0 + fused_trapezoid(k);
        if (filled && k < 6) {
#line 328 "families/fused.lua"
            fused_rows(panel, rows, 176 - first < 32 ? 176 - first : 32, step, stau);
            block_sync();
            if (k < 5)
                fused_reflectors(panel, rows, v);
        }
        fused_out(tile, h + b * stride_h, ldh, first, k < 6 ? first : 176, exponent);
        if (tid < 32 && first + tid < 176)
            tau[b * stride_tau + first + tid] = stau[tid];
        block_sync();
        if (filled && k < 5) {
            fused_build_t(k, to_saddr(v), red, ws, stau, t + k * 1024);
#line 343 "families/fused.lua"
        }
#line 349 "families/fused.lua"
        if (last && info && tid == 0)
            info[b] = bad[0] | bad[2];
        b = b_next;
        k = k_next;
    }
}
QRS_ENTRY(fused)
