#line 178 "families/fused.lua"
#include "device/core.cuh"
#include "device/math.cuh"
#include "device/warp.cuh"
#include "device/block.cuh"
#include "device/mma.cuh"
#include "device/copy.cuh"
#line 188 "families/fused.lua"

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

typedef float fused_tile[2][3][2][4];

// Starts the copy of the 32 columns from `first` on. Asynchronous: the caller commits, waits and synchronises.
QRS_DEV void fused_request(float *tile, const float *a, i64 lda, int first)
{
    const int left = 352 - first, tid = (int)threadIdx.x;
    const saddr to = to_saddr(tile);
    a += first;
#line 22 "blocks/fused_load.cuh"
    if (left >= 32 && ((((u64)a >> 2) | (u64)lda) & 3) == 0) {
        #pragma unroll 1
        for (int e = tid; e < 2816; e += 256)
            cp_async16(to + (e >> 3) * 144 + (e & 7) * 16, a + (e >> 3) * lda + (e & 7) * 4);
    } else {
        #pragma unroll 1
        for (int e = tid; e < 11264; e += 256)
            if ((e & 31) < left)
                cp_async4(to + (e >> 5) * 144 + (e & 31) * 4, a + (e >> 5) * lda + (e & 31));
    }
#line 45 "blocks/fused_load.cuh"
}

// The exponent of column `lane`, 0 for a zero column; also to exponent[32] (shared). largest: [W][32], shared. *bad is set (never
// cleared) to 1 when an entry is not finite. Synchronises once, before it writes exponent.
QRS_DEV int fused_exponents(const float *tile, float *largest, int *bad, int *exponent, bool &filled)
{
    float most = 0.0f;
    bool odd = false;
    #pragma unroll 4
    for (int i = (int)warp(); i < 352; i += 8) {
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
        for (int i = 0; i < 3; i++) {
            const bool in = i * 8 + (int)warp() < 22;
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
    for (int i = 0; i < 3; i++)
        if (i * 8 + (int)warp() >= tile0 && i * 8 + (int)warp() < 22)
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
    if (first + l < 352)
        #pragma unroll 4
        for (int i = w; i < 352; i += 8, to += 8 * ldh) {
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
QRS_DEV void fused_reflectors(const float *panel, int rows, u8 *v, u8 *copy)
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
        *(u32x4 *)(v + 22528 + at) = lo;
#line 66 "blocks/fused_out.cuh"
        *(u32x4 *)(copy + at) = hi;
#line 68 "blocks/fused_out.cuh"
        *(u32x4 *)(copy + 135168 + at) = lo;
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

// p: the finished panel, applied to rows 32 p on. v: its V; lo plane 22528 bytes further. red: W x 4 KB; ws: 32 x 36 floats; wp: 2 KB a plane;
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
        for (int i = 0; i < 3; i++) {
            const int tile = i * 8 + w;
            if (tile >= 2 * p && tile < 22) {
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
                    ldmatrix_x4_trans(b, at + 22528);
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
        for (int i = 0; i < 3; i++) {
            const int tile = i * 8 + w;
            if (tile >= 2 * p && tile < 22) {
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
                ldmatrix_x4(bl, (kk ? v2 ^ 32 : v2) + 22528 + i * 8192);
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
    for (int i = 0; i < 3; i++) {
        const int tile = i * 8 + w;
        if (tile >= 2 * p && tile < 22) {
            u32 a[2][4];
            #pragma unroll
            for (int mt = 0; mt < 2; mt++)
                ldmatrix_x4_trans(a[mt], (va ^ (mt << 5)) + i * 8192);
#line 30 "blocks/fused_t.cuh"
            u32 al[2][4];
            #pragma unroll
            for (int mt = 0; mt < 2; mt++)
                ldmatrix_x4_trans(al[mt], (va ^ (mt << 5)) + 22528 + i * 8192);
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
                ldmatrix_x4_trans(b, (vb ^ (n << 5)) + 22528 + i * 8192);
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
    f32x4 v = *(const f32x4 *)part;
    float sum = (v.x + v.y) + (v.z + v.w);
    #pragma unroll
    for (int u = 4; u < 8; u += 4) {
        v = *(const f32x4 *)(part + u);
        sum += (v.x + v.y) + (v.z + v.w);
    }
    return sum;
}

// Dots of xb with the four columns.
QRS_DEV void fused_dots(float (&d)[4], const float (&xb)[11], const float (&x)[11][4])
{
    #pragma unroll
    for (int c = 0; c < 4; c++) {
        d[c] = 0.0f;
        #pragma unroll
        for (int kk = 0; kk < 11; kk++)
            d[c] = fmaf(xb[kk], x[kk][c], d[c]);
    }
}

// panel: the columns, shared, row-major with stride 36, `rows` of them, scaled by 2^LIFT; afterwards R on and above the diagonal, V below.
// steps: columns with a reflector. tau: shared, zero past them. The caller synchronises before and after.
QRS_DEV void fused_rows(float *panel, int rows, int steps, fused_step *s, float *tau)
{
    const int l = lane(), w = warp(), cg = l & 7, rl = l >> 3, ri = w * 4 + rl;
    const int layers = (rows + 31) / 32;
    float x[11][4], xb[11], d[4];
    float *own = panel + ri * 36 + cg;
    #pragma unroll
    for (int kk = 0; kk < 11; kk++) {
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
        float squares = fused_sum(part + cj * 12), dn = fused_sum(part + (cj + 1) * 12), alpha = pivot[cj], pn = pivot[cj + 1];
        const float mine = fused_sum(part + l * 12);
        float dot[4], p[4], next[11];
        #pragma unroll
        for (int c = 0; c < 4; c++) {
            dot[c] = shfl(mine, c * 8 + cg);
            p[c] = pivot[c * 8 + cg];
        }
        if (squares < QRS_TINY_SQUARES * 0x1p12f && !again) {
            // Rare, and the same for the whole block: either the tail is exactly zero, or the step repeats rescaled.
            float most = 0.0f;
            #pragma unroll
            for (int kk = 0; kk < 11; kk++)
                most = fmaxf(most, fabsf(xb[kk]));
            most = warp_max(most);
            block_sync();
            part[w] = most;
            block_sync();
            #pragma unroll 1
            for (int u = 0; u < 8; u++)
                most = fmaxf(most, part[u]);
            block_sync();
            if (most == 0.0f) { // no reflector: every g is zero, whatever alpha
                zero = true;
                squares = 1.0f;
                dn = pn = 0.0f;
                if (!is_finite(alpha))
                    alpha = 1.0f;
                #pragma unroll
                for (int c = 0; c < 4; c++)
                    dot[c] = p[c] = 0.0f;
            } else {
                again = fresh = true;
                if (is_finite(alpha)) {
                    scale = pow2_exponent(fmaxf(most, fabsf(alpha)));
                    const power_of_two shrink = make_power_of_two(-scale);
                    #pragma unroll
                    for (int kk = 0; kk < 11; kk++) {
                        xb[kk] = times(shrink, xb[kk]);
                        if (cg == cj && (kk >= 1 || kk * 32 + ri >= j)) // entries of R above the pivot keep their scale
                            x[kk][0] = times(shrink, x[kk][0]);
                    }
                }
                continue;
            }
        }
        #pragma unroll
        for (int kk = 0; kk < 11; kk++)
            next[kk] = shfl(cj == 7 ? x[kk][1] : x[kk][0], (l & 24) + ((cj + 1) & 7));

        // As make_reflector, but for the Newton steps: rho and step are good to two units in the last place, and tau is made from the
        // v that is stored.
        const float square = fmaf(alpha, alpha, squares), q = rsqrt_normal(square), gap = fabsf(alpha) + square * q;
        const float rho = copysignf(rcp_normal(gap), alpha), step = copysignf(q, alpha);
        const float gn = step * fmaf(rho, dn, pn);
        #pragma unroll
        for (int kk = 0; kk < 1; kk++)
            if (kk * 32 + ri == j)
                xb[kk] = copysignf(gap, alpha);
        #pragma unroll
        for (int kk = 0; kk < 11; kk++)
            next[kk] = fmaf(-gn, xb[kk], next[kk]);
        #pragma unroll
        for (int kk = 0; kk < 1; kk++)
            if (kk * 32 + ri <= j + 1)
                next[kk] = 0.0f;
        float g[4];
        #pragma unroll
        for (int c = 0; c < 4; c++)
            g[c] = step * fmaf(rho, dot[c], p[c]);
        #pragma unroll
        for (int c0 = 0; c0 < 4; c0 += 2) { // two slots at once: one alone would wait for its own sums
            if (c0 > 0 && slot > 1)
                continue;
            float even[2] = {0.0f, 0.0f}, odd[2] = {0.0f, 0.0f};
            // Finished columns are left alone, not multiplied by zero: the pivot may be NaN.
            const bool touch[2] = {c0 > 0 || cg > cj, c0 + 1 + slot < 4};
            #pragma unroll
            for (int k0 = 0; k0 < 11; k0 += 3)
                if (k0 == 0 || k0 < layers) {
                    #pragma unroll
                    for (int kk = k0; kk < k0 + 3 && kk < 11; kk++)
                        #pragma unroll
                        for (int c = 0; c < 2; c++) {
                            float &y = x[kk][c0 + c];
                            const float z = fmaf(-g[c0 + c], xb[kk], y);
                            y = touch[c] ? z : y;
                            if (kk & 1)
                                odd[c] = fmaf(next[kk], y, odd[c]);
                            else
                                even[c] = fmaf(next[kk], y, even[c]);
                        }
                }
            d[c0] = even[0] + odd[0];
            d[c0 + 1] = even[1] + odd[1];
        }
        if (threadIdx.x == 0)
            s->kept[j] = {alpha, squares, zero ? 0.0f : rho, (float)scale};
        #pragma unroll
        for (int kk = 0; kk < 11; kk++)
            xb[kk] = next[kk];
        fresh = again = zero = false;
        scale = 0;
        j++;
        if (++cj == 8) {
            cj = 0;
            slot++;
            #pragma unroll
            for (int kk = 0; kk < 11; kk++) {
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
        for (int kk = 0; kk < 11; kk++) {
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
            panel[l * 37] = times(make_power_of_two((int)k.w), reflector_beta(k.x, k.y));
        tau[l] = l < steps ? reflector_tau(k.z, k.y) : 0.0f;
    }
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
// Registers turn by one place after every four columns, so that the pivot row is always number 0: the loop over columns is rolled, and
// its code short (straight-line code is fetched again for every panel when a kernel outgrows the instruction cache). Rows of M are then
// the last ones, x[k] for k >= live.
// Measured on an H200, NC = 1, with 4 warps and straight-line code: 258 cycles a column (1, 2, 8 warps: 763, 303, 400); 64 columns at once: 454.
#line 21 "blocks/gram_recursion.cuh"
// Shared; read and written four floats at a time. Every first index is the column's parity.
struct alignas(16) gram_buffers {
    float part[2][36][4]; // dots by column and warp
    f32x2 pivot[2][36]; // row j of P1 and of G
    float next[2][32];    // old column j + 1 of x, in the order of the rows' owners: x[k] of warp w at 8 w + k
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
    float x[8][1], gram[8][1], xb[8], old_row[8], old_h[1], old_g[1], row[1];
    float start = gram_in[l * 37], rho_of = 0.0f, squares_of = 0.0f, beta_of = 0.0f;
    #pragma unroll
    for (int t = 0; t < 1; t++) {
        #pragma unroll
        for (int k = 0; k < 8; k++) {
            x[k][t] = t == 0 || passive ? p1[(4 * k + w) * 36 + l + 32 * t] : 0.0f;
            gram[k][t] = t == 0 || passive ? gram_in[(4 * k + w) * 36 + l + 32 * t] : 0.0f;
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
        *(f32x4 *)s->part[l][32] = {0.0f, 0.0f, 0.0f, 0.0f};
        s->pivot[l][32] = {0.0f, 0.0f};
    }

    #pragma unroll 1
    for (int jj = 0; jj < 8; jj++) {
        const int live = 8 - jj;
        #pragma unroll 1
        for (int jw = 0; jw < 4; jw++) {
            const int j = jj * 4 + jw, b = j & 1;
            const bool own = w == jw;
            #pragma unroll
            for (int t = 0; t < 1; t++) {
                if (t > 0 && !passive)
                    break;
                float sum[4] = {own ? row[t] : 0.0f, 0.0f, 0.0f, 0.0f};
                #pragma unroll
                for (int k = 0; k < 8; k++)
                    sum[k & 3] = fmaf((k == 0 ? w > jw : k < live) ? xb[k] : 0.0f, x[k][t], sum[k & 3]);
                s->part[b][l + 32 * t][w] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
                if (own) {
                    s->pivot[b][l + 32 * t] = {x[0][t], row[t]};
                    if (t == 0)
                        s->row[b][(l & 3) * 8 + (((l >> 2) - jj) & 7)] = row[t];
                }
            }
            if (l == j + 1) {
                #pragma unroll
                for (int k = 0; k < 8; k += 4)
                    *(f32x4 *)&s->next[b][w * 8 + k] = {x[k][0], x[k + 1][0], x[k + 2][0], x[k + 3][0]};
            }
            bar_sync(1, 128);
            // What the chain needs, at once: the compiler would load it as late as it can.
            const f32x4 dj = lds<f32x4>(to_saddr(s->part[b][j]));
            const f32x2 pj = lds<f32x2>(to_saddr(&s->pivot[b][j]));
            const f32x4 dn = lds<f32x4>(to_saddr(s->part[b][j + 1]));
            const f32x2 pn = lds<f32x2>(to_saddr(&s->pivot[b][j + 1]));
            const float dots_n = (dn.x + dn.y) + (dn.z + dn.w);
            const float squares = (dj.x + dj.y) + (dj.z + dj.w);
            const float norm2 = fmaxf(fmaf(pj.x, pj.x, squares), 0x1p-120f);
            const float q = rsqrt_normal(norm2), norm = norm2 * q;
            const float rho0 = rcp_normal(fabsf(pj.x) + norm);
            float dl[1];
            f32x2 pl[1];
            #pragma unroll
            for (int t = 0; t < 1; t++) {
                if (t > 0 && !passive)
                    break;
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
            for (int t = 0; t < 1; t++)
                #pragma unroll
                for (int k = 0; k < 8; k++)
                    gram[k][t] = fmaf(-old_row[k], old_g[t], fmaf(-last_g[k], old_h[t], gram[k][t]));

            const bool some = squares > 0.0f;
            // step (p + rho d) = |step| (+-p + |rho| d): signs and the zero are settled while rho is on its way.
            const float size = some ? q : 0.0f;
            const u32 flip = as_u32(pj.x) & 0x80000000u;
            const float gap = copysignf(fabsf(pj.x) + norm, pj.x);
            const float gn = size * fmaf(rho0, dots_n, as_f32(as_u32(pn.x) ^ flip));
            if (own) { // the pivot row leaves P1 and becomes a row of M
                xb[0] = 1.0f;
                next[0] = 0.0f;
            }
            #pragma unroll
            for (int t = 0; t < 1; t++) {
                if (t > 0 && !passive)
                    break;
                const int c = l + 32 * t;
                const float gl = size * fmaf(rho0, dl[t], as_f32(as_u32(pl[t].x) ^ flip)), g = c > j ? gl : 0.0f;
                if (c == j) {
                    rho_of = some ? copysignf(rho0, pj.x) : 0.0f;
                    squares_of = squares;
                    beta_of = some ? copysignf(norm, -pj.x) : pj.x;
                }
                if (own) {
                    x[0][t] = c < j ? x[0][t] : c == j ? 1.0f : 0.0f;
                    if (t == 0)
                        s->g[b][(l & 3) * 8 + (((l >> 2) - (jw == 3 ? jj + 1 : jj)) & 7)] = g; // read when registers have turned
                    if (c > j && (t == 0 || passive))
                        rv[j * 36 + c] = fmaf(-gl, gap, pl[t].x);
                }
                #pragma unroll
                for (int k = 0; k < 8; k++)
                    x[k][t] = fmaf(-g, xb[k], x[k][t]);
                old_h[t] = fmaf(-g, pj.y, pl[t].y);
                old_g[t] = g;
                row[t] = fmaf(-pn.y, g, fmaf(-gn, old_h[t], jw == 3 ? gram[1][t] : gram[0][t]));
            }
            #pragma unroll
            for (int k = 0; k < 8; k++) {
                xb[k] = fmaf(-gn, xb[k], next[k]);
                old_row[k] = this_row[k];
            }
            if (threadIdx.x == 0)
                tau[j] = some ? fmaf(fabsf(pj.x), q, 1.0f) : 0.0f;
        }
        const float xb0 = xb[0], old0 = old_row[0];
        #pragma unroll
        for (int k = 0; k + 1 < 8; k++) {
            xb[k] = xb[k + 1];
            old_row[k] = old_row[k + 1];
        }
        xb[7] = xb0;
        old_row[7] = old0;
        #pragma unroll
        for (int t = 0; t < 1; t++) {
            const float x0 = x[0][t], gram0 = gram[0][t];
            #pragma unroll
            for (int k = 0; k + 1 < 8; k++) {
                x[k][t] = x[k + 1][t];
                gram[k][t] = gram[k + 1][t];
            }
            x[7][t] = x0;
            gram[7][t] = gram0;
        }
    }
    #pragma unroll
    for (int k = 0; k < 8; k++) {
        const int i = 4 * k + w;
        m[i * 40 + l] = i <= l ? x[k][0] * rho_of : 0.0f;
        if (i >= l)
            rv[i * 36 + l] = i == l ? beta_of : x[k][0] * rho_of;
#line 199 "blocks/gram_recursion.cuh"
    }
    // What cancelled cannot be trusted: a norm far below the column's own, a tail that is negative, tiny, or zero only by
    // cancellation. NaN fails.
    const bool sound = beta_of * beta_of >= 1e-6f * whole[l] && (squares_of == 0.0f ? start == 0.0f : squares_of >= 1e-6f * whole[l]);
    return warp_all(l >= steps || (bare ? squares_of == 0.0f || squares_of >= 0x1p-60f : sound));
}

// The squares of a panel's columns, from its top block and G.
QRS_DEV float gram_square(const float *p1, const float *gram, int rows, int c)
{
    float s = gram[c * 37];
    #pragma unroll 8
    for (int i = 0; i < rows; i++)
        s = fmaf(p1[i * 36 + c], p1[i * 36 + c], s);
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

#line 1 "blocks/gram_panel.cuh"
// A panel of 32 columns by the Gram recursion (gram_recursion.cuh), with its safety test.
//
// Parameters: M, N, K, W, TILES, MT, OUT, PRODUCTS, PLANE, LIMIT (largest deviation of tau v'v / 2 from 1).
// G = P2'P2 and V2 = P2 M are formed as three TF32 products (hi hi + hi lo + lo hi): fp32 level, with fp32's range, so that
// columns that shrank lose nothing. G takes both operands straight from the accumulators that hold C^T.
struct gram_shared {
    gram_buffers buffers;
    float gram[32 * 36], m[32 * 40], rv[32 * 36], whole[32];
    float norms[8][32];
    int good;
};

// This warp's share of G over row tiles from `tile0` on, into its part of red (fused_partial): the 16 x 16 blocks on and above the diagonal.
QRS_DEV void gram_product(const fused_tile &c, int tile0, float *red)
{
    float acc[2][4][4];
    #pragma unroll
    for (int mt = 0; mt < 2; mt++)
        #pragma unroll
        for (int n = 0; n < 4; n++)
            #pragma unroll
            for (int e = 0; e < 4; e++)
                acc[mt][n][e] = 0.0f;
    #pragma unroll
    for (int i = 0; i < 3; i++) {
        if (i * 8 + (int)warp() < tile0)
            continue;
        #pragma unroll
        for (int n8 = 0; n8 < 2; n8++) {
            // Eight columns a group; the two rows of a lane are k = q and k = q + 4 of the product, in both operands alike.
            u32 h[4][2], lo[4][2];
            #pragma unroll
            for (int u = 0; u < 4; u++)
                #pragma unroll
                for (int e = 0; e < 2; e++)
                    gram_split(c[u >> 1][i][n8][(u & 1) * 2 + e], h[u][e], lo[u][e]);
            #pragma unroll
            for (int mt = 0; mt < 2; mt++) {
                const u32 ah[4] = {h[2 * mt][0], h[2 * mt + 1][0], h[2 * mt][1], h[2 * mt + 1][1]};
                const u32 al[4] = {lo[2 * mt][0], lo[2 * mt + 1][0], lo[2 * mt][1], lo[2 * mt + 1][1]};
                #pragma unroll
                for (int n = 2 * mt; n < 4; n++) {
                    mma_tf32(acc[mt][n], ah, lo[n][0], lo[n][1]);
                    mma_tf32(acc[mt][n], al, h[n][0], h[n][1]);
                    mma_tf32(acc[mt][n], ah, h[n][0], h[n][1]);
                }
            }
        }
    }
    fused_partial(red, acc, 0);
}

// Sums the shares into gram, both triangles.
QRS_DEV void gram_total(const float *red, float *gram)
{
    #pragma unroll
    for (int i = 0; i < 4; i++) {
        const int r = (int)warp() * 4 + i, l = lane();
        const bool flip = r >= 16 && l < 16;
        const int row = flip ? l : r, col = flip ? r : l;
        const float *at = red + row * 32 + (col ^ ((row & 3) << 3));
        float sum = 0.0f;
        #pragma unroll
        for (int v = 0; v < 8; v++)
            sum += at[v * 1024];
        gram[r * 36 + l] = sum;
    }
}

// V2^T = M^T P2^T in the accumulator layout of C^T, from the panel in shared memory (stride 36, rows from `first` on).
QRS_DEV void gram_apply(fused_tile &v, const float *panel, int tile0, const float *m)
{
    const int g = lane() >> 2, q = lane() & 3;
    #pragma unroll
    for (int mt = 0; mt < 2; mt++)
        #pragma unroll
        for (int i = 0; i < 3; i++)
            #pragma unroll
            for (int n = 0; n < 2; n++)
                #pragma unroll
                for (int e = 0; e < 4; e++)
                    v[mt][i][n][e] = 0.0f;
    #pragma unroll 1
    for (int kk = 0; kk < 4; kk++) {
        u32 h[2][4], lo[2][4];
        #pragma unroll
        for (int mt = 0; mt < 2; mt++)
            #pragma unroll
            for (int e = 0; e < 4; e++)
                gram_split(m[(kk * 8 + q + (e >> 1) * 4) * 40 + mt * 16 + g + (e & 1) * 8], h[mt][e], lo[mt][e]);
        #pragma unroll
        for (int i = 0; i < 3; i++) {
            const int tile = i * 8 + (int)warp();
            if (tile < tile0 + 2 || tile >= 22)
                continue;
            #pragma unroll
            for (int n = 0; n < 2; n++) {
                const float *at = panel + ((tile - tile0) * 16 + n * 8 + g) * 36 + kk * 8 + q;
                u32 bh[2], bl[2];
                gram_split(at[0], bh[0], bl[0]);
                gram_split(at[4], bh[1], bl[1]);
                #pragma unroll
                for (int mt = 0; mt < 2; mt++) {
                    mma_tf32(v[mt][i][n], h[mt], bl[0], bl[1]);
                    mma_tf32(v[mt][i][n], lo[mt], bh[0], bh[1]);
                    mma_tf32(v[mt][i][n], h[mt], bh[0], bh[1]);
                }
            }
        }
    }
}

// panel: stride 36; G of its rows from 32 on in s->gram already, visible to the block. False: nothing was written, take the rows.
// Otherwise the panel holds R on and above the diagonal, V below, and tau (shared) its scalars. Synchronises; the caller does once more after.
QRS_DEV bool gram_panel(float *panel, int first, gram_shared *s, float *tau)
{
    const int l = lane(), w = warp(), tile0 = first / 16;
    if (threadIdx.x < 32)
        s->whole[l] = gram_square(panel, s->gram, 32, l);
    if (w < 4) {
        const bool good = gram_recursion(panel, s->gram, s->whole, &s->buffers, s->m, s->rv, tau, 32, false, false);
        if (threadIdx.x == 0)
            s->good = good;
    }
    block_sync();
    if (!s->good)
        return false;
    fused_tile c;
    gram_apply(c, panel, tile0, s->m);

    // v'v of every column: the rows below the top block here, the rest from V1.
    #pragma unroll
    for (int u = 0; u < 4; u++) {
        float part[4] = {0.0f, 0.0f, 0.0f, 0.0f}; // short chains: tau is only as good as this sum
        #pragma unroll
        for (int i = 0; i < 3; i++)
            #pragma unroll
            for (int n = 0; n < 2; n++)
                #pragma unroll
                for (int e = 0; e < 2; e++) {
                    float x = c[u >> 1][i][n][(u & 1) * 2 + e];
                    part[2 * n + e] = fmaf(x, x, part[2 * n + e]);
                }
        float sum = (part[0] + part[1]) + (part[2] + part[3]);
        sum += shfl_xor(sum, 1);
        sum += shfl_xor(sum, 2);
        if ((l & 3) == 0)
            s->norms[w][u * 8 + (l >> 2)] = sum;
    }
    block_sync();
    float part[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
    #pragma unroll
    for (int i = 0; i < 32; i++) {
        float x = i > l ? s->rv[i * 36 + l] : 0.0f;
        part[i & 7] = fmaf(x, x, part[i & 7]);
    }
    #pragma unroll
    for (int u = 0; u < 8; u++)
        part[u & 7] += s->norms[u][l];
    const float square = 1.0f + (((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7])));
    const float t = tau[l];
    const bool good = t == 0.0f || fabsf(fmaf(0.5f * t, square, -1.0f)) <= 1.23904e-06f;
    if (!warp_all(good))
        return false;
    block_sync(); // everybody has read tau, and is done with the panel
    if (w == 0)
        tau[l] = t == 0.0f ? 0.0f : div_rn(2.0f, square); // of the v that is stored

    #pragma unroll 1
    for (int e = threadIdx.x; e < 1024; e += 256)
        panel[(e >> 5) * 36 + (e & 31)] = s->rv[(e >> 5) * 36 + (e & 31)];
    fused_give(c, panel - first * 36, tile0 + 2);
    return true;
}
#line 210 "families/fused.lua"

// Byte offset of panel p's trapezoid among those before it (one plane).
QRS_DEV int fused_trapezoid(int p) { return (p * 352 - 16 * p * (p - 1)) * 64; }

// The first panel from p on that was not skipped, `end` when there is none.
QRS_DEV int fused_next(const u32 *zero, int p, int end)
{
    while (p < end && (*zero >> p & 1))
        p++;
    return p;
}

#line 223 "families/fused.lua"
// Starts the copy of panel p's V and T from scratch into a stage.
QRS_DEV void fused_fetch(saddr stage, const u8 *v, saddr t, const float *ts, int p)
{
    const u8 *from = v + fused_trapezoid(p);
    #pragma unroll 2
    for (int i = 16 * (int)threadIdx.x; i < (352 - 32 * p) * 64; i += 4096) {
        cp_async16(stage + i, from + i);
#line 231 "families/fused.lua"
        cp_async16(stage + 22528 + i, from + 135168 + i);
#line 233 "families/fused.lua"
    }
    for (int i = (int)threadIdx.x; i < 256; i += 256)
        cp_async16(t + 16 * i, ts + p * 1024 + 4 * i);
    cp_async_commit();
}
#line 239 "families/fused.lua"

QRS_KERNEL(fused, 256, 1)(const float *a, i64 lda, i64 stride_a, float *h, i64 ldh, i64 stride_h, float *tau,
                                       i64 stride_tau, int *info, i64 batch, u8 *v_scratch, float *t_scratch)
{
    u8 *smem = dynamic_smem();
    float *t = (float *)(smem + 90112), *stau = (float *)(smem + 102144), *largest = (float *)(smem + 98304);
    int *exponent = (int *)(smem + 102272), *bad = (int *)(smem + 102400);
    u32 *zero = (u32 *)(bad + 1); // bit p: panel p was zero throughout, so it has no reflectors
    fused_step *step = (fused_step *)(smem + 98304);
#line 249 "families/fused.lua"
    gram_shared *gs = (gram_shared *)(smem + 102528);
#line 251 "families/fused.lua"
    const saddr sv = to_saddr(smem + 0);
    const int tid = (int)threadIdx.x;
#line 254 "families/fused.lua"
    v_scratch += (i64)blockIdx.x * 270336;
    t_scratch += (i64)blockIdx.x * 11264;
#line 257 "families/fused.lua"

    i64 b = blockIdx.x;
    int k = 0, turn = 0;
    fused_request((float *)(smem + 120576), a + b * stride_a, lda, 0);
    cp_async_commit();
    #pragma unroll 1
    while (b < batch) { // a column block a turn
        const int first = 32 * k, done = k < 11 ? k : 11, rows = 352 - first;
        float *tile = (float *)(smem + 120576 + turn * 50688), *panel = tile + first * 36;
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
#line 286 "families/fused.lua"
            // Stages take turns; the next panel's V and T are on their way while this one is applied.
            #pragma unroll 1
            for (int p = -1, next = fused_next(zero, 0, done), stage = 0;; stage ^= 1) {
                if (next < done)
                    fused_fetch(sv + stage * 45056, v_scratch, to_saddr(t + stage * 1024), t_scratch, next);
                if (p >= 0)
                    fused_apply(c, p, sv + (stage ^ 1) * 45056, red, ws, wp, t + (stage ^ 1) * 1024);
                if (next >= done)
                    break;
                cp_async_wait<0>();
                block_sync();
                p = next;
                next = fused_next(zero, p + 1, done);
            }
#line 312 "families/fused.lua"
            if (first + 64 <= 352) { // the last square block and short panels go by rows
                gram_product(c, 2 * k + 2, red);
                block_sync();
                gram_total(red, gs->gram);
            }
#line 318 "families/fused.lua"
            block_sync();
            fused_give(c, tile, 0);
        } else if (k < 11) { // a zero block stays zero under any reflector
            if (tid == 0)
                *zero |= 1u << k;
            if (tid < 32)
                stau[tid] = 0.0f;
        }
        const bool last = k == 10;
        const i64 b_next = last ? b + gridDim.x : b;
        const int k_next = last ? 0 : k + 1;
#line 330 "families/fused.lua"
        turn ^= 1;
        if (b_next < batch)
            fused_request((float *)(smem + 120576 + turn * 50688), a + b_next * stride_a, lda, 32 * k_next);
        cp_async_commit();
#line 335 "families/fused.lua"
        block_sync();
        u8 *v = smem + 0;
        if (filled && k < 11) {
#line 339 "families/fused.lua"
            const bool gram = first + 64 <= 352, by_gram = gram && gram_panel(panel, first, gs, stau);
            if (gram && !by_gram && tid == 0)
                bad[2] = 2;
            if (!by_gram)
#line 344 "families/fused.lua"
            fused_rows(panel, rows, 352 - first < 32 ? 352 - first : 32, step, stau);
            block_sync();
            if (k < 10)
                fused_reflectors(panel, rows, v, v_scratch + fused_trapezoid(k));
        }
        fused_out(tile, h + b * stride_h, ldh, first, k < 11 ? first : 352, exponent);
        if (tid < 32 && first + tid < 352)
            tau[b * stride_tau + first + tid] = stau[tid];
        block_sync();
        if (filled && k < 10) {
            fused_build_t(k, to_saddr(v), red, ws, stau, t);
#line 356 "families/fused.lua"
            for (int i = tid; i < 1024; i += 256)
                t_scratch[k * 1024 + i] = t[i];
#line 359 "families/fused.lua"
        }
#line 365 "families/fused.lua"
        if (last && info && tid == 0)
            info[b] = bad[0] | bad[2];
        b = b_next;
        k = k_next;
    }
}
QRS_ENTRY(fused)
