#line 263 "families/fused.lua"
#include "device/core.cuh"
#include "device/math.cuh"
#include "device/warp.cuh"
#include "device/block.cuh"
#include "device/mma.cuh"
#include "device/copy.cuh"
#include "device/launch.cuh"
#line 276 "families/fused.lua"
#include "device/stmatrix.cuh"
#line 279 "families/fused.lua"
#include "device/cluster.cuh"
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
#line 1 "blocks/fused_load.cuh"
// Column blocks of A: requested into a tile of shared memory ahead of time, scaled, taken into mma accumulators and given back.
//
// Parameters: M, N; MT = M rounded up to 16; W warps; TILES row tiles a warp; THREADS; IN layout; LASTS.
// Tile: MT rows of 36 floats, zero past the matrix. Loops over it are rolled: a panel walks its code once, and what the
// instruction cache does not hold costs more than the loop's own instructions.
// Fragment: C^T in the accumulator layout of m16n8k16, so that it is at once the A operand of W^T = C^T V. Warp w holds row
// tiles i W + w of 16 rows; c[mt][i][n][e] is row (i W + w) 16 + 8 n + 2 q + (e & 1), column 16 mt + g + 8 (e >> 1), with
// g = lane / 4, q = lane % 4.
// Scale: column j is multiplied by 2^(LIFT - e_j), e_j the exponent of its largest finite magnitude. LIFT keeps the low
// halves of split fp16 operands away from fp16's subnormals.
#define QRS_LIFT 6

typedef float fused_tile[2][2][2][4];

// The warps that do something together: all of the block, or some of them (barrier: theirs, 0 for the block's).
struct fused_team {
    int thread, threads, warp, warps, barrier;
};
QRS_DEV fused_team fused_all() { return {(int)threadIdx.x, 256, (int)warp(), 8, 0}; }
QRS_DEV void fused_sync(fused_team team)
{
    if (team.barrier == 0)
        block_sync();
    else
        bar_sync(team.barrier, team.threads);
}

// Starts the copy of the 32 columns from `first` on. Asynchronous: the caller commits, waits and synchronises.
#line 37 "blocks/fused_load.cuh"
QRS_DEV void fused_request(fused_team team, float *tile, const float *a, i64 lda, int first)
{
#line 40 "blocks/fused_load.cuh"
    const int left = 176 - first;
#line 42 "blocks/fused_load.cuh"
    const saddr to = to_saddr(tile);
    a += first;
#line 45 "blocks/fused_load.cuh"
    if (((((u64)a >> 2) | (u64)lda) & 3) == 0) {
        const int row = team.thread >> 3, column = (team.thread & 7) * 4, rows = team.threads >> 3;
        saddr at = to + row * 144 + column * 4;
        a += row * lda + column;
        #pragma unroll 2
        for (int i = row; i < 192; i += rows, at += rows * 144, a += rows * lda)
            cp_async16_or_zero(at, a, i < 176 && column < left);
    } else {
        #pragma unroll 1
        for (int e = team.thread; e < 6144; e += team.threads)
            cp_async4_or_zero(to + (e >> 5) * 144 + (e & 31) * 4, a + (e >> 5) * lda + (e & 31), (e >> 5) < 176 && (e & 31) < left);
    }
#line 64 "blocks/fused_load.cuh"
}

// Column exponents of a tile that is there.
struct fused_scales {
    int exponent[32]; // 0 for a zero column
    int found;        // bits: 1 something is not zero, 2 something is not finite
};
struct alignas(16) fused_largest { // by warp, on the way
    float most[8][32];
    int odd[8];
};

// Synchronises once; the scales are for whoever comes after the team's next barrier. Returns the exponent of column `lane`.
QRS_DEV int fused_exponents(fused_team team, const float *tile, fused_scales *s, fused_largest *of, int &found)
{
    const int row = (int)lane() >> 3, column = ((int)lane() & 7) * 4; // four rows at a time, four columns a lane
    f32x4 most4 = {0.0f, 0.0f, 0.0f, 0.0f}, odd4 = most4;             // odd4: NaN once something is not finite
    #pragma unroll 4
    for (int i = 4 * team.warp + row; i < 192; i += 4 * team.warps) {
        const f32x4 v = *(const f32x4 *)(tile + i * 36 + column);
        most4 = {fmaxf(most4.x, fabsf(v.x)), fmaxf(most4.y, fabsf(v.y)), fmaxf(most4.z, fabsf(v.z)), fmaxf(most4.w, fabsf(v.w))};
        odd4 = {fmaf(v.x, 0.0f, odd4.x), fmaf(v.y, 0.0f, odd4.y), fmaf(v.z, 0.0f, odd4.z), fmaf(v.w, 0.0f, odd4.w)};
    }
    const float odds = (odd4.x + odd4.y) + (odd4.z + odd4.w);
    bool odd = warp_any(odds != odds);
    float most = 0.0f;
    if (odd) { // rare: column `lane` again, what is finite of it
        #pragma unroll 1
        for (int i = 4 * team.warp; i < 192; i += (i & 3) == 3 ? 4 * team.warps - 3 : 1) {
            const float v = fabsf(tile[i * 36 + lane()]);
            most = fmaxf(most, v <= 0x1.fffffep127f ? v : 0.0f);
        }
        of->most[team.warp][lane()] = most;
    } else {
        #pragma unroll
        for (int d = 8; d < 32; d *= 2)
            most4 = {fmaxf(most4.x, shfl_xor(most4.x, d)), fmaxf(most4.y, shfl_xor(most4.y, d)), fmaxf(most4.z, shfl_xor(most4.z, d)),
                     fmaxf(most4.w, shfl_xor(most4.w, d))};
        if (row == 0)
            *(f32x4 *)(of->most[team.warp] + column) = most4;
    }
    if (lane() == 0)
        of->odd[team.warp] = odd;
    fused_sync(team);
    #pragma unroll
    for (int v = 0; v < 8; v++)
        if (v < team.warps) {
            most = fmaxf(most, of->most[v][lane()]);
            odd = odd || of->odd[v];
        }
    const int ex = most > 0.0f ? pow2_exponent(most) : 0;
    found = (warp_any(most > 0.0f) || odd ? 1 : 0) | (odd ? 2 : 0);
    if (team.warp == 0) {
        s->exponent[lane()] = ex;
        if (lane() == 0)
            s->found = found;
    }
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
            const bool in = i * 8 + (int)warp() < 12;
            #pragma unroll
            for (int n = 0; n < 2; n++)
                #pragma unroll
                for (int e = 0; e < 2; e++)
                    c[s >> 1][i][n][(s & 1) * 2 + e] = in ? times(f, at[i * 4608 + n * 288 + e * 36 + 8 * s]) : 0.0f;
        }
    }
}
#line 146 "blocks/fused_load.cuh"
// Scales this warp's rows in place: for a block that no reflector has touched yet.
QRS_DEV void fused_scale(float *tile, int ex)
{
    const int column = ((int)lane() & 7) * 4;
    power_of_two f[4];
    #pragma unroll
    for (int u = 0; u < 4; u++)
        f[u] = make_power_of_two(QRS_LIFT - shfl(ex, column + u));
    #pragma unroll 1
    for (int i = (int)warp(); i < 12; i += 8) {
        f32x4 *at = (f32x4 *)(tile + (16 * i + ((int)lane() >> 3)) * 36 + column), v[4];
        #pragma unroll
        for (int r = 0; r < 4; r++)
            v[r] = at[36 * r];
        #pragma unroll
        for (int r = 0; r < 4; r++)
            at[36 * r] = {times(f[0], v[r].x), times(f[1], v[r].y), times(f[2], v[r].z), times(f[3], v[r].w)};
    }
}
#line 166 "blocks/fused_load.cuh"
// Row tiles from tile0 on.
QRS_DEV void fused_give(const fused_tile &c, float *tile, int tile0)
{
    float *at = tile + fused_place();
    #pragma unroll
    for (int i = 0; i < 2; i++)
        if (i * 8 + (int)warp() >= tile0 && i * 8 + (int)warp() < 12)
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
// Parameters: M, N, K, KP; MT, W, OUT; PRODUCTS, PLANE, V_BYTES, RESIDENT, DIRECT (only what falls back comes here) as in the family.
// The tile (fused_load.cuh) holds R on and above the diagonal of the panel, still scaled, and V below it. top: the panel's first row, MT when
// the columns lie past the last panel.
QRS_DEV void fused_out(fused_team team, const float *tile, float *h, i64 ldh, int first, int top, const int *exponent)
{
    const int l = lane(), w = team.warp;
#line 11 "blocks/fused_out.cuh"
    if ((((u64)h >> 2 | (u64)ldh) & 3) == 0) { // four rows at a time, four columns a lane
        const int row = 4 * w + (l >> 3), column = (l & 7) * 4;
        power_of_two f[4];
        #pragma unroll
        for (int u = 0; u < 4; u++)
            f[u] = make_power_of_two(exponent[column + u] - QRS_LIFT);
        const float *from = tile + row * 36 + column;
        float *to = h + row * ldh + first + column;
        if (first + column < 176)
            #pragma unroll 2
            for (int i = row; i < 176; i += 4 * team.warps, from += 144 * team.warps, to += 4 * team.warps * ldh) {
                f32x4 x = *(const f32x4 *)from;
                if (i < top + 32) {
                    x.x = i > top + column ? x.x : times(f[0], x.x);
                    x.y = i > top + column + 1 ? x.y : times(f[1], x.y);
                    x.z = i > top + column + 2 ? x.z : times(f[2], x.z);
                    x.w = i > top + column + 3 ? x.w : times(f[3], x.w);
                }
                *(f32x4 *)to = x;
            }
        return;
    }
#line 34 "blocks/fused_out.cuh"
    const power_of_two f = make_power_of_two(exponent[l] - QRS_LIFT);
    float *to = h + w * ldh + first + l;
    if (first + l < 176)
        #pragma unroll 4
        for (int i = w; i < 176; i += team.warps, to += team.warps * ldh) {
            const float x = tile[i * 36 + l];
            *to = i > top + l ? x : times(f, x);
        }
#line 54 "blocks/fused_out.cuh"
}

// Block k leaves: its columns to H, its panel's scalars to tau.
QRS_DEV void fused_leave(fused_team team, const float *tile, float *h, i64 ldh, int k, const int *exponent, float *tau, const float *stau)
{
    const int first = 32 * k;
    fused_out(team, tile, h, ldh, first, k < 6 ? first : 192, exponent);
    if (team.thread < 32 && first + team.thread < 176)
        tau[first + team.thread] = stau[team.thread];
}

QRS_DEV int fused_chunk(int row, int chunk) { return row * 64 + ((chunk ^ ((row >> 1) & 3)) << 4); }

// V from the tile's rows of the panel into planes of fp16, scaled by 2^LIFT, layout as in fused_apply.cuh. v: in shared memory.
#line 71 "blocks/fused_out.cuh"
QRS_CALL void fused_reflectors(fused_team team, const float *panel, int rows, u8 *v)
{
    #pragma unroll 1
    for (int start = team.thread; start < rows * 4; start += 4 * team.threads) { // four chunks at once: their loads first
        float y[4][8];
        #pragma unroll
        for (int c = 0; c < 4; c++) {
            const int e = start + c * team.threads < rows * 4 ? start + c * team.threads : start;
            *(f32x4 *)y[c] = *(const f32x4 *)(panel + (e >> 2) * 36 + (e & 3) * 8);
            *(f32x4 *)(y[c] + 4) = *(const f32x4 *)(panel + (e >> 2) * 36 + (e & 3) * 8 + 4);
        }
        #pragma unroll
        for (int c = 0; c < 4; c++) {
            const int e = start + c * team.threads, i = e >> 2, j = (e & 3) * 8;
            if (e >= rows * 4)
                break;
            #pragma unroll
            for (int u = 0; u < 8; u++)
                y[c][u] *= 0x1p6f;
            if (c == 0 && i < 32) // a team has 128 threads or more, so the top block is in the first chunks
                #pragma unroll
                for (int u = 0; u < 8; u++)
                    y[c][u] = i > j + u ? y[c][u] : i == j + u ? 0x1p6f : 0.0f;
            u32x4 hi, lo;
            split_f16(y[c][0], y[c][1], hi.x, lo.x);
            split_f16(y[c][2], y[c][3], hi.y, lo.y);
            split_f16(y[c][4], y[c][5], hi.z, lo.z);
            split_f16(y[c][6], y[c][7], hi.w, lo.w);
            const int at = fused_chunk(i, e & 3);
            *(u32x4 *)(v + at) = hi;
#line 102 "blocks/fused_out.cuh"
            *(u32x4 *)(v + 43008 + at) = lo;
#line 115 "blocks/fused_out.cuh"
        }
    }
}
#line 1 "blocks/fused_apply.cuh"
// C <- (I - V T' V') C for one finished panel, on the tensor cores, C^T in accumulators (fused_load.cuh).
//
// Parameters: MT rows rounded up to 16; W warps; TILES; PRODUCTS 1 or 3; HALVES 1 or 2; PLANE; RESIDENT; CLUSTER.
// V lies in shared memory as fp16 rows of 64 bytes, from the panel's first row on (a trapezoid), its 16-byte chunks swizzled so that
// ldmatrix of 8 rows is free of conflicts; scaled by 2^LIFT. With three products a second plane holds what rounding left (v = hi + lo),
// C and W' are split in registers, and lo x lo is dropped: fp32-level products from fp16 tensor cores.
// Per pair: W^T = C^T V (each warp over its rows), sum over warps through shared memory, W'^T = W^T T,
// C^T -= W'^T V^T.
// The warp's 32 x 32 partial (accumulator layout, rows = first index) into 4 KB of red, by default its own, columns XORed by 8 (row % 4).
// NT column tiles of 8 from tile n0 on.
template <int NT> QRS_DEV void fused_partial(float *red, const float (&w)[2][NT][4], int n0, int share = warp())
{
    const int g = lane() >> 2, q = lane() & 3;
    float *at = red + share * 1024 + g * 32;
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
// Sum over SHARES warps' shares of row r, columns c .. c + 3 (c a multiple of 4), first to last.
template <int SHARES> QRS_DEV f32x4 fused_total(const float *red, int r, int c)
{
    const float *at = red + r * 32 + (c ^ ((r & 3) << 3));
    f32x4 sum = *(const f32x4 *)at;
    #pragma unroll
    for (int v = 1; v < SHARES; v++) {
        const f32x4 x = *(const f32x4 *)(at + v * 1024);
        sum = {sum.x + x.x, sum.y + x.y, sum.z + x.z, sum.w + x.w};
    }
    return sum;
}

template <int NT> QRS_DEV void fused_products(float (&acc)[2][NT][4], const u32 (&a)[2][4], const u32 (&b)[NT / 2][4])
{
    #pragma unroll
    for (int mt = 0; mt < 2; mt++)
        #pragma unroll
        for (int n = 0; n < NT; n++)
            mma_f16(acc[mt][n], a[mt], b[n / 2][n % 2 * 2], b[n / 2][n % 2 * 2 + 1]);
}

#line 48 "blocks/fused_apply.cuh"
// Row tile i of C as the left operand of W^T: in fp16, and what that left.
QRS_DEV void fused_operand(u32 (&a)[2][2][4], const fused_tile &c, int i)
{
    #pragma unroll
    for (int mt = 0; mt < 2; mt++)
        #pragma unroll
        for (int x = 0; x < 4; x++) {
            const float *y = &c[mt][i][x >> 1][(x & 1) * 2];
#line 57 "blocks/fused_apply.cuh"
            split_f16(y[0], y[1], a[0][mt][x], a[1][mt][x]);
#line 61 "blocks/fused_apply.cuh"
        }
}

// p: the finished panel, applied to rows 32 p on. v: its V; lo plane 43008 bytes further. red: W x 4 KB; ws: 4 KB; wp: 2 KB a plane; t: T in fp16 as
// V is, its low plane 2 KB further, there once t_ready, and V once v_ready, (if not 0) completes its phase of the given parity. Synchronises three times; on return other
// warps may still read v and wp.
QRS_DEV void fused_apply(fused_tile &c, int p, saddr v, float *red, float *ws, u8 *wp, const u8 *t, saddr v_ready, saddr t_ready, u32 parity)
{
    const int w = warp(), l = lane();
#line 72 "blocks/fused_apply.cuh"
    u32 halves[2][2][2][4]; // C's, while V is awaited
    #pragma unroll
    for (int i = 0; i < 2; i++)
        fused_operand(halves[i], c, i);
#line 78 "blocks/fused_apply.cuh"
    if (v_ready)
        mbar_wait(v_ready, parity);
#line 81 "blocks/fused_apply.cuh"
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
            if (tile >= 2 * p && tile < 12) {
#line 98 "blocks/fused_apply.cuh"
                const u32(&a)[2][2][4] = halves[i];
#line 103 "blocks/fused_apply.cuh"
                // One term after another: products into the same sums are as far apart as can be.
                u32 b[2][4];
                #pragma unroll
                for (int n = 0; n < 2; n++)
                    ldmatrix_x4_trans(b[n], (v1 ^ ((half + n) << 5)) + i * 8192);
                fused_products<4>(acc, a[0], b);
#line 110 "blocks/fused_apply.cuh"
                fused_products<4>(acc, a[1], b);
                #pragma unroll
                for (int n = 0; n < 2; n++)
                    ldmatrix_x4_trans(b[n], (v1 ^ ((half + n) << 5)) + i * 8192 + 43008);
                fused_products<4>(acc, a[0], b);
#line 116 "blocks/fused_apply.cuh"
            }
        }
        fused_partial(red, acc, 4 * half);
    }
#line 128 "blocks/fused_apply.cuh"
    block_sync();

    // W^T, rows C's columns: sums, four a thread, and both halves of them in fp16 where the sums in `ws` were.
    // Both V and C carry 2^LIFT; 2^4 of the product's stays, for the low halves' sake.
    u8 *wt = (u8 *)ws;
#line 134 "blocks/fused_apply.cuh"
    if (const int e = (int)threadIdx.x + 0; true) {
        const int r = e >> 3, n = e & 7;
        const f32x4 y = fused_total<8>(red, r, 4 * n);
        u32x2 hi, lo;
        split_f16(0x1p-8f * y.x, 0x1p-8f * y.y, hi.x, lo.x);
        split_f16(0x1p-8f * y.z, 0x1p-8f * y.w, hi.y, lo.y);
        u8 *to = wt + fused_chunk(r, n >> 1) + (n & 1) * 8;
        *(u32x2 *)to = hi;
        *(u32x2 *)(to + 2048) = lo;
    }
#line 149 "blocks/fused_apply.cuh"
    block_sync();

    // W'^T = W^T T with three products whatever the update takes: they are few, and two roundings more would cost accuracy. A warp forms tiles of 16 x 8;
    // the minus sign makes the second product an accumulation.
    const saddr wa = to_saddr(wp);
#line 155 "blocks/fused_apply.cuh"
    if (t_ready)
        mbar_wait(t_ready, parity);
#line 161 "blocks/fused_apply.cuh"
    #pragma unroll
    for (int tile = w; tile < 8; tile += 8) {
        const int mt = tile & 1, n = tile >> 1;
        const saddr from = to_saddr(wt) + fused_chunk(mt * 16 + (l & 15), l >> 4);
        u32 a[2][4], al[2][4], b[4], bl[4];
        ldmatrix_x4(a[0], from);
        ldmatrix_x4(a[1], from ^ 32);
        ldmatrix_x4(al[0], from + 2048);
        ldmatrix_x4(al[1], (from + 2048) ^ 32);
        ldmatrix_x4_trans(b, to_saddr(t) + fused_chunk(l, n));
        ldmatrix_x4_trans(bl, to_saddr(t) + 2048 + fused_chunk(l, n));
        float d[4] = {0.0f, 0.0f, 0.0f, 0.0f}, e[2][4] = {}; // the small products apart: short chains
        #pragma unroll
        for (int k = 0; k < 2; k++) {
            mma_f16(e[0], a[k], bl[2 * k], bl[2 * k + 1]);
            mma_f16(e[1], al[k], b[2 * k], b[2 * k + 1]);
            mma_f16(d, a[k], b[2 * k], b[2 * k + 1]);
        }
        #pragma unroll
        for (int x = 0; x < 4; x++)
            d[x] += e[0][x] + e[1][x];
        #pragma unroll
        for (int h = 0; h < 2; h++) {
            u8 *at = wp + fused_chunk(mt * 16 + h * 8 + (l >> 2), n) + (l & 3) * 4;
            u32 hi, lo;
            split_f16(-0x1p-4f * d[2 * h], -0x1p-4f * d[2 * h + 1], hi, lo);
            *(u32 *)at = hi;
#line 189 "blocks/fused_apply.cuh"
            *(u32 *)(at + 2048) = lo;
#line 191 "blocks/fused_apply.cuh"
        }
    }
    block_sync();

    const saddr v2 = v + (w * 16 - 32 * p) * 64 + fused_chunk(((l >> 4) << 3) + (l & 7), (l >> 3) & 1);
    #pragma unroll
    for (int kk = 0; kk < 2; kk++) {
        u32 a[2][4];
        #pragma unroll
        for (int mt = 0; mt < 2; mt++)
            ldmatrix_x4(a[mt], wa + fused_chunk(mt * 16 + (l & 15), kk * 2 + (l >> 4)));
#line 203 "blocks/fused_apply.cuh"
        u32 al[2][4];
        #pragma unroll
        for (int mt = 0; mt < 2; mt++)
            ldmatrix_x4(al[mt], wa + 2048 + fused_chunk(mt * 16 + (l & 15), kk * 2 + (l >> 4)));
#line 208 "blocks/fused_apply.cuh"
        #pragma unroll
        for (int i = 0; i < 2; i++) {
            const int tile = i * 8 + w;
            if (tile >= 2 * p && tile < 12) {
                u32 b[4];
                ldmatrix_x4(b, (kk ? v2 ^ 32 : v2) + i * 8192);
                #pragma unroll
                for (int mt = 0; mt < 2; mt++) {
                    mma_f16(c[mt][i][0], a[mt], b[0], b[1]);
                    mma_f16(c[mt][i][1], a[mt], b[2], b[3]);
                }
#line 220 "blocks/fused_apply.cuh"
                #pragma unroll
                for (int mt = 0; mt < 2; mt++) {
                    mma_f16(c[mt][i][0], al[mt], b[0], b[1]);
                    mma_f16(c[mt][i][1], al[mt], b[2], b[3]);
                }
                u32 bl[4];
                ldmatrix_x4(bl, (kk ? v2 ^ 32 : v2) + 43008 + i * 8192);
                #pragma unroll
                for (int mt = 0; mt < 2; mt++) {
                    mma_f16(c[mt][i][0], a[mt], bl[0], bl[1]);
                    mma_f16(c[mt][i][1], a[mt], bl[2], bl[3]);
                }
#line 233 "blocks/fused_apply.cuh"
            }
        }
    }
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

#line 1 "blocks/t_blocks.cuh"
// T of a panel of 32 columns from V'V and tau, by two blocks of 16.
//
// Parameters: LDG, LDT: rows of V'V and of T lie so far apart, multiples of 4.
// T = (I + D striu(V'V))^-1 D with D = diag(tau) (Schreiber and Van Loan's compact WY), so T's rows are independent of each other: t_j = -tau_j sum_{k<j} t_k (V'V)_kj
// behind t_i = tau_i in row i. A lane finds a row of a diagonal block so: one multiplication and one addition a column. What is between the blocks is
// -T_1 (V'V)_12 T_2, by tensor cores (gram_small.cuh), transposed, so that what comes out of the first product is an operand of the second. tau = 0 gives a zero
// row and column.

// One warp. gram: V'V on and above the diagonal. t: T; its lower left quarter is left alone.
QRS_DEV void t_of_panel(const float *gram, const float *tau, float *t)
{
    const int l = (int)lane(), g = l >> 2, q = l & 3, first = l & 16, i = l & 15;
    {
        const float *from = gram + first * 37;
        float row[16], sum[16];
        #pragma unroll
        for (int j = 0; j < 16; j++)
            sum[j] = 0.0f;
        #pragma unroll
        for (int k = 0; k < 16; k += 4) {
            const f32x4 f = *(const f32x4 *)(tau + first + k);
            #pragma unroll
            for (int e = 0; e < 4; e++) {
                const float of = e == 0 ? f.x : e == 1 ? f.y : e == 2 ? f.z : f.w;
                row[k + e] = i == k + e ? of : -of * sum[k + e]; // before column i all sums are zero
                #pragma unroll
                for (int j = k; j < 16; j += 4) {
                    const f32x4 v = *(const f32x4 *)(from + (k + e) * 36 + j);
                    sum[j] = fmaf(row[k + e], v.x, sum[j]);
                    sum[j + 1] = fmaf(row[k + e], v.y, sum[j + 1]);
                    sum[j + 2] = fmaf(row[k + e], v.z, sum[j + 2]);
                    sum[j + 3] = fmaf(row[k + e], v.w, sum[j + 3]);
                }
            }
        }
        #pragma unroll
        for (int j = 0; j < 16; j += 4)
            *(f32x4 *)(t + l * 36 + first + j) = {row[j], row[j + 1], row[j + 2], row[j + 3]};
    }
    warp_sync();
    // (T_1 (V'V)_12 T_2)' = (T_2' (V'V)_12') T_1'
    gram_left a[2];
    float x[2][4] = {}, small[2][4] = {};
    #pragma unroll
    for (int k = 0; k < 2; k++) {
        const float *of = t + (16 + 8 * k + 2 * q) * 36 + 16 + g;
        gram_operand(a[k], of[0], of[8], of[36], of[44]);
    }
    #pragma unroll
    for (int k = 0; k < 2; k++)
        #pragma unroll
        for (int n = 0; n < 2; n++) {
            const f32x2 v = *(const f32x2 *)(gram + (8 * n + g) * 36 + 16 + 8 * k + 2 * q);
            gram_right b;
            gram_operand(b, v.x, v.y);
            mma_tf32(small[n], a[k].hi, b.lo[0], b.lo[1]);
            mma_tf32(x[n], a[k].hi, b.hi[0], b.hi[1]);
            mma_tf32(small[n], a[k].lo, b.hi[0], b.hi[1]);
        }
    float y[2][4] = {};
    #pragma unroll
    for (int k = 0; k < 2; k++)
        gram_operand(a[k], x[k][0] + small[k][0], x[k][2] + small[k][2], x[k][1] + small[k][1], x[k][3] + small[k][3]);
    #pragma unroll
    for (int n = 0; n < 2; n++)
        #pragma unroll
        for (int e = 0; e < 4; e++)
            small[n][e] = 0.0f;
    #pragma unroll
    for (int k = 0; k < 2; k++)
        #pragma unroll
        for (int n = 0; n <= k; n++) {
            const f32x2 v = *(const f32x2 *)(t + (8 * n + g) * 36 + 8 * k + 2 * q);
            gram_right b;
            gram_operand(b, v.x, v.y);
            mma_tf32(small[n], a[k].hi, b.lo[0], b.lo[1]);
            mma_tf32(y[n], a[k].hi, b.hi[0], b.hi[1]);
            mma_tf32(small[n], a[k].lo, b.hi[0], b.hi[1]);
        }
    #pragma unroll
    for (int n = 0; n < 2; n++)
        #pragma unroll
        for (int e = 0; e < 4; e++)
            t[(8 * n + 2 * q + (e & 1)) * 36 + 16 + g + 8 * (e >> 1)] = -(y[n][e] + small[n][e]);
}
#line 1 "blocks/fused_t.cuh"
// T of a panel from V and tau.
//
// Parameters: PRODUCTS, PLANE, RESIDENT, CLUSTER, LASTS (shares of V'V have a place beside the panel), DIRECT, EARLY (the last four warps, else the first).
// T itself by one warp (t_blocks.cuh).

#line 19 "blocks/fused_t.cuh"

// Four warps, the block's last: their shares of V'V, the 16 x 16 blocks on and above the diagonal, from V's planes (shared memory), to
// red: 4 x 4 KB. Products of the halves that V's planes have.
QRS_DEV void fused_shares(const u8 *v, int rows, float *red)
{
    const int l = lane(), w = (int)warp() - 4;
    float acc[2][4][4];
    #pragma unroll
    for (int mt = 0; mt < 2; mt++)
        #pragma unroll
        for (int n = 0; n < 4; n++)
            #pragma unroll
            for (int e = 0; e < 4; e++)
                acc[mt][n][e] = 0.0f;
#line 34 "blocks/fused_t.cuh"
    const saddr at = to_saddr(v) + fused_chunk((l >> 4) * 8 + (l & 7), l >> 3 & 1);
    #pragma unroll 1
    for (int i = 16 * w; i < rows; i += 64) {
        // By planes: 16 columns, 16 rows. What is an operand on the left is two on the right, too.
        u32 x[2][2][4];
        #pragma unroll
        for (int plane = 0; plane < 2; plane++)
            #pragma unroll
            for (int mt = 0; mt < 2; mt++)
                ldmatrix_x4_trans(x[plane][mt], (at ^ (32 * mt)) + i * 64 + plane * 43008);
        #pragma unroll
        for (int term = 0; term < 3; term++)
            #pragma unroll
            for (int mt = 0; mt < 2; mt++)
                #pragma unroll
                for (int n = 2 * mt; n < 4; n++) {
                    const u32(&b)[4] = x[term == 2][n >> 1];
                    mma_f16(acc[mt][n], x[term == 1][mt], b[n & 1], b[2 + (n & 1)]);
                }
    }
#line 96 "blocks/fused_t.cuh"
    fused_partial(red, acc, 0, w);
}

// The same warps: T from those shares and tau. s: 32 rows of 36 floats. Planes of fp16 go to `planes`.
#line 101 "blocks/fused_t.cuh"
// They go to the same place in the other CTAs too, counted on their mbarriers `bar`.
#line 104 "blocks/fused_t.cuh"
// What else the warps have to do they do while one of them makes T, and that one, if it is long, after it.
#line 106 "blocks/fused_t.cuh"
template <class REST> QRS_DEV void fused_build_t(const float *tau, float *red, float *s, u8 *planes, saddr bar, bool long_rest, REST rest)
{
    const int w = (int)warp() - 4, thread = (int)threadIdx.x - 128;
    bar_sync(1, 128);
    #pragma unroll
    for (int i = 0; i < 2; i++) { // the sums; what is below the 16 x 16 blocks of the diagonal nobody reads
        const int r = 16 * i + (thread >> 3), c = (thread & 7) * 4;
        const f32x4 x = fused_total<4>(red, r, c);
        *(f32x4 *)(s + r * 36 + c) = {0x1p-12f * x.x, 0x1p-12f * x.y, 0x1p-12f * x.z, 0x1p-12f * x.w};
    }
    bar_sync(1, 128);

    float *t = red; // 32 rows of 36 floats
#line 120 "blocks/fused_t.cuh"
    const bool later = w == 0 && long_rest;
    if (!later)
        rest();
#line 124 "blocks/fused_t.cuh"
    if (w == 0)
        t_of_panel(s, tau, t);
    bar_sync(1, 128);
    const int row = thread >> 2, chunk = thread & 3, place = fused_chunk(row, chunk);
    const f32x4 none = {0.0f, 0.0f, 0.0f, 0.0f};
    const bool below = row >= 16 && chunk < 2;
    const float *from = t + row * 36 + chunk * 8;
    const f32x4 left = below ? none : *(const f32x4 *)from, right = below ? none : *(const f32x4 *)(from + 4);
    u32x4 hi, lo;
    split_f16(left.x, left.y, hi.x, lo.x);
    split_f16(left.z, left.w, hi.y, lo.y);
    split_f16(right.x, right.y, hi.z, lo.z);
    split_f16(right.z, right.w, hi.w, lo.w);
    *(u32x4 *)(planes + place) = hi;
    *(u32x4 *)(planes + 2048 + place) = lo;
#line 140 "blocks/fused_t.cuh"
    #pragma unroll
    for (int other = 1; other < 2; other++) {
        const int rank = cluster_rank() ^ other;
        const u32 to = cluster_map(to_saddr(planes), rank) + place, ready = cluster_map(bar, rank);
        st_async(to, hi, ready);
        st_async(to + 2048, lo, ready);
    }
#line 149 "blocks/fused_t.cuh"
    if (later)
        rest();
#line 152 "blocks/fused_t.cuh"
}
#line 1 "blocks/fused_rows.cuh"
// Householder panel of 32 columns, rows in registers, one fused reduction and one barrier a column, one copy of the step.
//
// Parameters: LAYERS of RS = 4 W rows; W warps; GRAM (this is what falls back: a call, out of the way of the code that is walked).
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
QRS_CALL void fused_rows(float *panel, int rows, int steps, fused_step *s, float *tau)
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
        float squares = fused_sum(part + cj * 12), dn = fused_sum(part + (cj + 1) * 12), alpha = pivot[cj], pn = pivot[cj + 1];
        const float mine = fused_sum(part + l * 12);
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
            if (l == 0)
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
                    for (int kk = 0; kk < 6; kk++) {
                        xb[kk] = times(shrink, xb[kk]);
                        if (cg == cj && (kk >= 1 || kk * 32 + ri >= j)) // entries of R above the pivot keep their scale
                            x[kk][0] = times(shrink, x[kk][0]);
                    }
                }
                continue;
            }
        }
        #pragma unroll
        for (int kk = 0; kk < 6; kk++)
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
        for (int kk = 0; kk < 6; kk++)
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
            for (int k0 = 0; k0 < 6; k0 += 3)
                if (k0 == 0 || k0 < layers) {
                    #pragma unroll
                    for (int kk = k0; kk < k0 + 3 && kk < 6; kk++)
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
    float part[36][4]; // dots by column and warp
    f32x2 pivot[36];   // row j of P1 and of G
    float next[32];              // old column j + 1 of x, in the order of the rows' owners: x[k] of warp w at 8 w + k
    float row[32];               // row j of G in that order
    float g[32];                 // g of step j in that order
#line 37 "blocks/gram_recursion.cuh"
};
struct gram_buffers {
    gram_buffer side[2];
    f32x4 scalars[32]; // pivot entry, square sum of its tail, 1 / norm, |rho|
};
static_assert(sizeof(gram_buffers) == 3008, "offsets below");

// Threads 0..127 call. Results in shared memory: m, upper triangular with zeros below, columns scaled by rho (may be gram_in's place); rv, R on and
// above the diagonal and V1 below (may be p1's place); tau. whole: room for 128 floats. bare: nothing lies below the
// top block, so that nothing can cancel. steps: columns past these have no reflector; they go no further than that, and leave rows past `steps` of R as they were.
// True, in each warp of the active columns (and in the others), when the recursion went well as far as it can tell; the true norms of V have the last word.
QRS_CALL bool gram_recursion(const float *p1, const float *gram_in, float *whole, gram_buffers *s, float *m, float *rv, float *tau,
                            int steps, bool bare, int threads)
{
    const int l = lane(), w = warp() & 3, c = (int)threadIdx.x >> 7 << 5 | l;
    const bool active = true;
    // Addresses by hand: 32 bits, and the loop adds to them no more than the parity of the column.
    const saddr base = to_saddr(s), my_part = base + c * 16, my_share = my_part + w * 4, my_pivot = base + 576 + c * 8;
    const saddr rows = base + w * 32, owner = base + (l & 3) * 32;
    const saddr rv_at = to_saddr(rv) + c * 4;
    float x[8], gram[8], xb[8], old_row[8], old_h = 0.0f, old_g = 0.0f;
    #pragma unroll
    for (int k = 0; k < 8; k++) {
        x[k] = p1[(4 * k + w) * 36 + c];
        gram[k] = gram_in[(4 * k + w) * 36 + c];
        xb[k] = p1[(4 * k + w) * 36];
        old_row[k] = 0.0f;
    }
    float row = gram[0];
    const float start = active ? gram_in[l * 37] : 0.0f;
    if (threadIdx.x < 32)
        s->side[1].g[l] = 0.0f;
#line 70 "blocks/gram_recursion.cuh"
    float square = w == 0 ? start : 0.0f; // this warp's share of the columns' squares at the panel's start
    #pragma unroll
    for (int k = 0; k < 8; k++)
        square = fmaf(x[k], x[k], square);
    whole[threadIdx.x] = square;
    if (threadIdx.x < 32 && l >= steps)
        s->scalars[l] = {0.0f, 0.0f, 0.0f, 0.0f};
#line 78 "blocks/gram_recursion.cuh"
    if (threadIdx.x < 2) { // "next" of the last column
        *(f32x4 *)s->side[l].part[32] = {0.0f, 0.0f, 0.0f, 0.0f};
        s->side[l].pivot[32] = {0.0f, 0.0f};
    }

#line 91 "blocks/gram_recursion.cuh"
    #pragma unroll
    for (int jj = 0; jj < 8 && 4 * jj < steps; jj++) {
        const int top = jj, ahead = top + 1 < 8 ? top + 1 : top;
        // Where its owner finds a lane's row, and will find it when registers have turned.
        const saddr owner_now = owner + ((l >> 2) - jj + top & 7) * 4;
        const saddr owner_then = owner_now;
        #pragma unroll 1
        for (int jw = 0; jw < 4; jw++) {
            const int j = jj * 4 + jw;
            const saddr side = (jw & 1) * 1248, pivot = my_pivot + side, rows_now = rows + side;
            const saddr dots = base + side + j * 16, pivots = base + side + 576 + j * 8;
            const bool own = w == jw;
            {
                float sum[2] = {own ? row : 0.0f, (w > jw ? xb[top] : 0.0f) * x[top]};
                #pragma unroll
                for (int k = top + 1; k < 8; k++)
                    sum[(k - top) & 1] = fmaf(xb[k], x[k], sum[(k - top) & 1]);
                sts(my_share + side, sum[0] + sum[1]);
                if (own) {
                    sts(pivot, f32x2{x[top], row});
                    sts(owner_now + side + 992, row);
                }
                if (c == j + 1) {
                    #pragma unroll
                    for (int k = 0; k < 8; k += 4)
                        sts(rows_now + 864 + 4 * k, f32x4{x[k], x[k + 1], x[k + 2], x[k + 3]});
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
                f32x4 v = lds<f32x4>(rows_now + 864 + 4 * k);
                next[k] = v.x, next[k + 1] = v.y, next[k + 2] = v.z, next[k + 3] = v.w;
                if (k + 3 >= top) {
                    v = lds<f32x4>(rows + 1248 - side + 1120 + 4 * k);
                    last_g[k] = v.x, last_g[k + 1] = v.y, last_g[k + 2] = v.z, last_g[k + 3] = v.w;
                    v = lds<f32x4>(rows_now + 992 + 4 * k);
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
#line 166 "blocks/gram_recursion.cuh"
            }
            old_h = fmaf(-g, pj.y, pc.y);
            old_g = g;
            row = fmaf(-pn.y, g, fmaf(-gn, old_h, jw == 3 ? gram[ahead] : gram[top]));
            if (own) {
                sts((jw == 3 ? owner_then : owner_now) + side + 1120, g);
                sts(rv_at + j * 144, fmaf(-gc, gap, pc.x)); // what is on and below the diagonal is written at the end
                sts_if(c == 0, base + 2496 + j * 16, f32x4{pj.x, squares, q, rho0});
            }
        }
#line 183 "blocks/gram_recursion.cuh"
    }
    bar_sync(1, threads);
    const f32x4 scalars = lds<f32x4>(base + 2496 + l * 16);
    const bool some = scalars.y > 0.0f;
    const float norm = fmaxf(fmaf(scalars.x, scalars.x, scalars.y), 0x1p-120f) * scalars.z;
    const float rho_of = some ? copysignf(scalars.w, scalars.x) : 0.0f, squares_of = scalars.y;
    const float beta_of = some ? copysignf(norm, -scalars.x) : scalars.x;
    if (threadIdx.x < 32)
        tau[l] = some ? fmaf(fabsf(scalars.x), scalars.z, 1.0f) : 0.0f;
    #pragma unroll
    for (int k = 0; k < 8; k++) {
        const int i = 4 * k + w;
        m[i * 40 + c] = !active ? x[k] : i < c ? x[k] * rho_of : i == c ? rho_of : 0.0f;
        if (i >= c)
            rv[i * 36 + c] = i == c ? beta_of : x[k] * rho_of;
    }
    // What cancelled cannot be trusted: a norm far below the column's own, a tail that is negative, tiny, or zero only by
    // cancellation. NaN fails.
    const float whole_of = (whole[l] + whole[32 + l]) + (whole[64 + l] + whole[96 + l]);
    const bool sound = beta_of * beta_of >= 1e-6f * whole_of && (squares_of == 0.0f ? start == 0.0f : squares_of >= 1e-6f * whole_of);
    return warp_all(!active || l >= steps || (bare ? squares_of == 0.0f || squares_of >= 0x1p-60f : sound));
}
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
#line 1 "blocks/gram_sound.cuh"
// The last word on a panel from its whole Gram matrix (gram_whole.cuh, gram_narrow.cuh).
//
// Parameters: B columns; LD: row stride of R; LEAST: share of a column's square that must be left of it.
// Thread = column, of 32: its tau from |n|, and whether its pivot can be trusted. What cancelled cannot, nor a zero that only cancellation made. NaN fails. whole: G's diagonal.
QRS_DEV bool gram_sound(const float *rv, const float *whole, float *tau)
{
    const int col = threadIdx.x;
    const float r = fabsf(rv[col * 37]), of = whole[col];
    tau[col] = r == 0.0f ? 0.0f : fabsf(tau[col]) * rcp_normal(r); // for the test of v'v: what is stored comes from that
    return r == 0.0f ? of == 0.0f && (col == 31 || whole[col + 1] == 0.0f) : r * r >= 1e-6f * of;
}
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
    from += ((int)threadIdx.x >> 3 & 7) * 72 + ((int)threadIdx.x & 7) * 2;
    #pragma unroll
    for (int i = 0; i < 4; i++)
        #pragma unroll
        for (int c = 0; c < 4; c += 2) {
            const f32x2 v = *(const f32x2 *)(from + ((i >> 1) * 16 + (i & 1)) * 36 + 8 * c);
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
        for (int two = 0; two < 8; two += 2, pivots += 32, diagonal += 32, r += 576) {
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
                sts_if(own, r + 144, {q1 * c1[0], q1 * c1[1], q1 * c1[2], q1 * c1[3]});
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
                sts_if(own, r + 288, {q0 * c0[0], q0 * c0[1], q0 * c0[2], q0 * c0[3]});
                sts_if(own, r + 432, {q1 * c1[0], q1 * c1[1], q1 * c1[2], q1 * c1[3]});
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
        for (int two = 0; two < 8; two += 2, diagonal += 32, r += 576, to += 640) {
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
                gram_read(c1, r + 144);
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
                sts_if(columns, to + 160, {e1[0], e1[1], e1[2], e1[3]});
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
                gram_read(c0, r + 288);
                gram_read(e1, columns_of_x + 640);
                gram_read(n1, rows_of_x + 640);
                gram_read(c1, r + 432);
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
                sts_if(columns, to + 320, {e0[0], rows ? l10 : e0[1], e0[2], e0[3]});
                sts_if(columns, to + 480, {e1[0], e1[1], e1[2], e1[3]});
            }
#line 194 "blocks/gram_narrow.cuh"
        }
        gram_halves<KEEP>(y);
    }
    if (KEEP) {
        inverse += ty * 72 + tx * 2;
        #pragma unroll
        for (int i = 0; i < 4; i++)
            #pragma unroll
            for (int c = 0; c < 4; c += 2)
                *(f32x2 *)(inverse + ((i >> 1) * 16 + (i & 1)) * 36 + 8 * c) = {y[i][c], y[i][c + 1]};
    }
}

// 1 / n of a row, on the diagonal of M as it is dealt; its sign is X's.
QRS_DEV float gram_narrow_pivot(const float *m, int row) { return m[row * 40 + (row >> 1 & 7) * 4 + (row & 1)]; }

// Threads of four warps: everything to its place, and R's signs. dealt: R; rv, m: where R above the diagonal and V below, and M, go (m may be dealt's place);
// from: M, dealt (may be m). Synchronises before it writes, by barrier `bar`; and after.
QRS_DEV void gram_narrow_place(const float *dealt, float *rv, const float *from,
                               float *m, float *tau, int bar)
{
    // Columns 8 q.. of a row by a thread. A late row was dealt without the first half of its columns.
    const int tid = threadIdx.x & 127, row = tid >> 2, q = tid & 3, half = row >> 4, of = q >> 1;
    dealt += row * 36 + 16 * (q & 1) + (half ? 0 : 2 * of);
    const float inv = gram_narrow_pivot(from, row), sign = -copysignf(1.0f, inv);
    from += 8 * q * 40 + (row >> 1 & 7) * 4 + 2 * (half ^ of) + (row & 1);
    float r[8], v[8];
    #pragma unroll
    for (int c = 0; c < 8; c += 2) {
        const f32x2 r2 = *(const f32x2 *)(dealt + 2 * c);
        r[c] = r2.x, r[c + 1] = r2.y, v[c] = from[c * 40], v[c + 1] = from[(c + 1) * 40];
    }
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
        *(f32x4 *)(rv + row * 36 + 8 * q + c) = {top[0], top[1], top[2], top[3]};
        *(f32x4 *)(m + row * 40 + 8 * q + c) = {inverse[0], inverse[1], inverse[2], inverse[3]};
    }
    if (q == 0)
        tau[row] = inv == 0.0f ? 0.0f : rcp_normal(inv);
    bar_sync(bar, 128);
}
#line 265 "blocks/gram_narrow.cuh"

// Threads 0..127 call. x: top block; gram: G; rv (may be G's place): becomes R on and above the diagonal and V below; m: M. whole: G's diagonal, left: the root of its largest.
// Returns false, in some thread, unless the pivots can be trusted. Synchronises, by barriers 1 and 3..12.
QRS_DEV bool gram_narrow(const float *x, const float *gram, float *rv, float *m, float *whole, float *left, gram_narrow_pivots *s, float *tau)
{
    const int tid = threadIdx.x, w = shfl((int)warp(), 0);
    if (w >= 2) {
        const float square = gram[(tid & 31) * 37];
        if (w == 2)
            whole[tid & 31] = square;
        gram_narrow_cholesky<false>(gram, rv, s);
        const float most = sqrt_rn(warp_max(square)); // while X's last steps are awaited
        if (tid == 64)
            *left = most;
    } else
        gram_narrow_jordan<false>(x, rv, m, nullptr, s);
    bar_sync(1, 128);
    gram_narrow_place(rv, rv, m, m, tau, 1);
    return tid >= 32 || gram_sound(rv, whole, tau);
}
#line 1 "blocks/gram_panel.cuh"
// A panel of 32 columns by the Gram recursion (gram_recursion.cuh), or from its whole Gram matrix (gram_narrow.cuh), with its safety test.
//
// Parameters: M, N, K, W, TILES, MT, LASTS, CLUSTER, PRODUCTS, PLANE, DIRECT, EARLY, GRAM_STATE, WHOLE (panels of 48 rows and more by gram_narrow.cuh where that is safe), LIMIT, SHORT, LOOSE.
// What tau v'v / 2 is off from 1 is an error of that share of what was left of the panel's columns, and counts by what it is of whole columns, whose
// largest entry is 2^LIFT at least: that may be LIMIT, or SHORT in panels of fewer than 64 rows. LOOSE bounds it however little is left.
// G = P2'P2 and V2 = P2 M are formed as three TF32 products (hi hi + hi lo + lo hi): fp32 level, with fp32's range, so that
// columns that shrank lose nothing. G takes both operands straight from the accumulators that hold C^T.
struct gram_shared {
    gram_buffers buffers;
    float gram[32 * 36], m[32 * 40], rv[32 * 36], whole[128], tau[32];
    float left; // of the panel's columns at its start: the largest norm
    float norms[16][32];
    int good, fine; // fine: gram_finish's own result, for those that do not look themselves. good: 1: by the recursion, 2: from the whole; 0: not to be trusted
};

static_assert(sizeof(gram_shared) <= 20064, "what the family reserves");

// This warp's share of G over its row tiles from `tile0` on, into its part of red (fused_partial): the 16 x 16 blocks on and above the diagonal.
#line 20 "blocks/gram_panel.cuh"
// The two tiles before those, the top block's, go to two more shares.
#line 23 "blocks/gram_panel.cuh"
// C is in its tile already and this warp's rows are taken from there, by a rolled loop: code that has left the cache costs more than the loads.
#line 25 "blocks/gram_panel.cuh"
QRS_DEV void gram_product(const float *tile, int tile0, float *red)
{
    float acc[2][4][4];
    #pragma unroll
    for (int mt = 0; mt < 2; mt++)
        #pragma unroll
        for (int n = 0; n < 4; n++)
            #pragma unroll
            for (int e = 0; e < 4; e++)
                acc[mt][n][e] = 0.0f;
#line 36 "blocks/gram_panel.cuh"
    const float *at = tile + fused_place();
    #pragma unroll 1
    for (int i = (int)warp(); i < 12; i += 8, at += 4608) {
        if (i < tile0 - 2)
            continue;
        #pragma unroll
        for (int n8 = 0; n8 < 2; n8++) {
#line 51 "blocks/gram_panel.cuh"
            // Eight columns a group; the two rows of a lane are k = q and k = q + 4 of the product, in both operands alike.
            u32 h[4][2], lo[4][2];
            #pragma unroll
            for (int u = 0; u < 4; u++)
                #pragma unroll
                for (int e = 0; e < 2; e++)
                    gram_split(at[n8 * 288 + e * 36 + 8 * u], h[u][e], lo[u][e]);
            // One term after another: products into the same sums are as far apart as can be.
            #pragma unroll
            for (int term = 0; term < 3; term++)
                #pragma unroll
                for (int mt = 0; mt < 2; mt++) {
                    const u32(&x)[4][2] = term == 1 ? lo : h, (&y)[4][2] = term == 0 ? lo : h;
                    const u32 a[4] = {x[2 * mt][0], x[2 * mt + 1][0], x[2 * mt][1], x[2 * mt + 1][1]};
                    #pragma unroll
                    for (int n = 2 * mt; n < 4; n++)
                        mma_tf32(acc[mt][n], a, y[n][0], y[n][1]);
                }
        }
#line 71 "blocks/gram_panel.cuh"
        if (i < tile0) {
            fused_partial(red, acc, 0, 8 + (i & 1));
            #pragma unroll
            for (int mt = 0; mt < 2; mt++)
                #pragma unroll
                for (int n = 0; n < 4; n++)
                    #pragma unroll
                    for (int e = 0; e < 4; e++)
                        acc[mt][n][e] = 0.0f;
        }
#line 82 "blocks/gram_panel.cuh"
    }
    fused_partial(red, acc, 0);
}

// Four entries of a symmetric matrix, row r, columns c .. c + 3; what is below the 16 x 16 blocks of the diagonal comes from above them.
QRS_DEV void gram_put(float *gram, int r, int c, f32x4 x)
{
    *(f32x4 *)(gram + r * 36 + c) = x;
    float *across = gram + c * 36 + r;
    if (r < 16 && c >= 16)
        across[0] = x.x, across[36] = x.y, across[72] = x.z, across[108] = x.w;
}
// Sums the shares into gram, both triangles; with those of the top block into all. Four columns a thread.
QRS_DEV void gram_total(const float *red, float *gram, float *all)
{
#line 98 "blocks/gram_panel.cuh"
    if (const int e = (int)threadIdx.x + 0; e < 192) {
        const int row = e < 128 ? e >> 3 : e - 64 >> 2, col = e < 128 ? (e & 7) * 4 : 16 + (e & 3) * 4;
        const f32x4 sum = fused_total<8>(red, row, col);
        gram_put(gram, row, col, sum);
#line 103 "blocks/gram_panel.cuh"
        const f32x4 top = fused_total<2>(red + 8192, row, col);
        gram_put(all, row, col, {sum.x + top.x, sum.y + top.y, sum.z + top.z, sum.w + top.w});
#line 106 "blocks/gram_panel.cuh"
    }
#line 108 "blocks/gram_panel.cuh"
}

// G where nothing lies below the top block.
QRS_DEV void gram_none(float *gram)
{
    for (int e = 4 * (int)threadIdx.x; e < 32 * 36; e += 1024)
        *(f32x4 *)(gram + e) = {0.0f, 0.0f, 0.0f, 0.0f};
}

// V2^T = M^T P2^T in the accumulator layout of C^T, from the panel in shared memory (stride 36, rows from `first` on).
#line 119 "blocks/gram_panel.cuh"
QRS_DEV void gram_apply(fused_tile &v, const float *panel, int tile0, const float *m)
{
    const int g = lane() >> 2, q = lane() & 3;
    #pragma unroll
    for (int mt = 0; mt < 2; mt++)
        #pragma unroll
        for (int i = 0; i < 2; i++)
            #pragma unroll
            for (int n = 0; n < 2; n++)
                #pragma unroll
                for (int e = 0; e < 4; e++)
                    v[mt][i][n][e] = 0.0f;
    if (tile0 + 2 >= 12) // nothing lies below the top block
        return;
    #pragma unroll 4
    for (int kk = 0; kk < 4; kk++) {
        u32 h[2][4], lo[2][4];
        #pragma unroll
        for (int mt = kk / 2; mt < 2; mt++)
            #pragma unroll
            for (int e = 0; e < 4; e++)
                gram_split(m[(kk * 8 + q + (e >> 1) * 4) * 40 + mt * 16 + g + (e & 1) * 8], h[mt][e], lo[mt][e]);
        #pragma unroll
        for (int i = 0; i < 2; i++) {
            const int tile = i * 8 + (int)warp();
            if (tile < tile0 + 2 || tile >= 12)
                continue;
            u32 bh[2][2], bl[2][2];
            #pragma unroll
            for (int n = 0; n < 2; n++) {
                const float *at = panel + ((tile - tile0) * 16 + n * 8 + g) * 36 + kk * 8 + q;
                gram_split(at[0], bh[n][0], bl[n][0]);
                gram_split(at[4], bh[n][1], bl[n][1]);
            }
            #pragma unroll
            for (int term = 0; term < 3; term++) // one after another, as in gram_product
                #pragma unroll
                for (int n = 0; n < 2; n++)
                    #pragma unroll
                    for (int mt = kk / 2; mt < 2; mt++) {
                        const u32(&y)[2] = term == 0 ? bl[n] : bh[n];
                        mma_tf32(v[mt][i][n], term == 1 ? lo[mt] : h[mt], y[0], y[1]);
                    }
        }
    }
}

// Threads 0..127: panel has stride 36; G of its rows from 32 on is in s->gram already, that of all its rows in s->rv, visible to them.
QRS_DEV void gram_factor(const float *panel, int first, gram_shared *s)
{
#line 170 "blocks/gram_panel.cuh"
    // Not where a column's weight is in the top block: what is below would be a small part of what is squared.
    if (176 - first >= 48) {
        static_assert(sizeof s->buffers >= sizeof(gram_narrow_pivots), "they take its place");
        const bool light = warp_all(s->gram[lane() * 37] >= 0x1p-3f * s->rv[lane() * 37]);
        bar_sync(1, 128); // R takes the place of what was looked at
        if (light) {
            const bool good = warp_all(gram_narrow(panel, s->rv, s->rv, s->m, s->whole, &s->left, (gram_narrow_pivots *)&s->buffers, s->tau));
            if (threadIdx.x == 0)
                s->good = good ? 2 : 0;
            bar_sync(1, 128);
            if (s->good)
                return;
        }
    }
#line 185 "blocks/gram_panel.cuh"
    const bool good = gram_recursion(panel, s->gram, s->whole, &s->buffers, s->m, s->rv, s->tau, 176 - first, first + 32 >= 176, 128);
    if (threadIdx.x < 32) {
        const int l = lane();
        const float left = warp_max((s->whole[l] + s->whole[32 + l]) + (s->whole[64 + l] + s->whole[96 + l]));
        if (l == 0)
            s->good = good, s->left = sqrt_rn(left);
    }
}

// The rest, once all threads see what gram_factor left. False: nothing was written, take the rows.
// Otherwise the panel holds R on and above the diagonal, V below, and tau (shared) its scalars. Synchronises; the caller does once more after.
#line 197 "blocks/gram_panel.cuh"
// v: where V's planes go (fused_reflectors), or null. They are made before V is known to be good; as soon as it is, leave() may send them, by bulk copies, too.
#line 200 "blocks/gram_panel.cuh"
// Meanwhile, once they are there, the last four warps, which have the fewest rows, can look at them. These have not given V2's rows, in c, to the panel on return.
#line 202 "blocks/gram_panel.cuh"
template <class LEAVE, class MEANWHILE> QRS_DEV bool gram_finish(fused_tile &c, float *panel, int first, gram_shared *s, float *tau, u8 *v, LEAVE leave, MEANWHILE meanwhile)
{
    const int l = lane(), w = warp(), tile0 = first / 16;
    if (!s->good)
        return false;
#line 210 "blocks/gram_panel.cuh"
    gram_apply(c, panel, tile0, s->m);
#line 212 "blocks/gram_panel.cuh"
    if (v) {
        const saddr to = to_saddr(v) + (16 * w - first) * 64 + fused_chunk(l & 7, l >> 3);
        #pragma unroll
        for (int i = 0; i < 2; i++)
            if (i * 8 + w >= tile0 + 2 && i * 8 + w < 12)
                #pragma unroll
                for (int n = 0; n < 2; n++) {
                    u32 hi[4], lo[4];
                    #pragma unroll
                    for (int u = 0; u < 4; u++) {
                        const float *x = &c[u >> 1][i][n][(u & 1) * 2];
                        split_f16(0x1p6f * x[0], 0x1p6f * x[1], hi[u], lo[u]);
                    }
                    stmatrix_x4_trans(to + i * 8192 + n * 512, hi);
#line 227 "blocks/gram_panel.cuh"
                    stmatrix_x4_trans(to + i * 8192 + n * 512 + 43008, lo);
#line 229 "blocks/gram_panel.cuh"
                }
        // The top block, four columns a thread.
#line 232 "blocks/gram_panel.cuh"
        if (const int e = (int)threadIdx.x + 0; true) {
            const int row = e >> 3, j = (e & 7) * 4;
            const f32x4 x = *(const f32x4 *)(s->rv + row * 36 + j);
            float y[4] = {x.x, x.y, x.z, x.w};
            #pragma unroll
            for (int u = 0; u < 4; u++)
                y[u] = row > j + u ? 0x1p6f * y[u] : row == j + u ? 0x1p6f : 0.0f;
            u32x2 hi, lo;
            split_f16(y[0], y[1], hi.x, lo.x);
            split_f16(y[2], y[3], hi.y, lo.y);
            u8 *at = v + fused_chunk(row, j >> 3) + (j & 4) * 2;
            *(u32x2 *)at = hi;
#line 245 "blocks/gram_panel.cuh"
            *(u32x2 *)(at + 43008) = lo;
#line 247 "blocks/gram_panel.cuh"
        }
#line 250 "blocks/gram_panel.cuh"
        fence_async_shared();
#line 252 "blocks/gram_panel.cuh"
    }
#line 254 "blocks/gram_panel.cuh"

    // v'v of every column: the rows below the top block, and those of V1 that are this warp's.
    #pragma unroll
    for (int u = 0; u < 4; u++) {
        float part[4] = {0.0f, 0.0f, 0.0f, 0.0f}; // short chains: tau is only as good as this sum
        #pragma unroll
        for (int i = 0; i < 2; i++)
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
    float top = 0.0f;
    #pragma unroll
    for (int i = w; i < 32; i += 8)
        top = i > l ? fmaf(s->rv[i * 36 + l], s->rv[i * 36 + l], top) : top;
    s->norms[8 + w][l] = top;
    block_sync();
#line 281 "blocks/gram_panel.cuh"
    if (v && w >= 4) {
        meanwhile();
        bar_wait(13, 256);
        return s->fine;
    } else {
#line 289 "blocks/gram_panel.cuh"
        float part[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
        #pragma unroll
        for (int u = 0; u < 16; u++)
            part[u & 7] += s->norms[u][l];
        const float square = 1.0f + (((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7])));
        const float t = s->tau[l], off = fabsf(fmaf(0.5f * t, square, -1.0f));
        const bool good = warp_all(t == 0.0f || ((square > 1.0f || s->good == 1) && off <= 0.0001f && off * fminf(0x1p-6f * s->left, 1.0f) <= (176 - first < 64 ? 4e-06f : 1e-06f)));
        if (w == 0 && good)
            tau[l] = t == 0.0f ? 0.0f : div_rn(2.0f, square); // of the v that is stored
#line 299 "blocks/gram_panel.cuh"
        if (threadIdx.x == 0)
            s->fine = good;
        if (v)
            bar_arrive(13, 256);
#line 304 "blocks/gram_panel.cuh"
        if (!good)
            return false;
#line 307 "blocks/gram_panel.cuh"
        leave();
#line 309 "blocks/gram_panel.cuh"
    }

#line 312 "blocks/gram_panel.cuh"
    if (const int e = (int)threadIdx.x + 0; w < 4) {
        const int at = (e >> 3) * 36 + (e & 7) * 4;
        *(f32x4 *)(panel + at) = *(const f32x4 *)(s->rv + at);
    }
#line 312 "blocks/gram_panel.cuh"
    if (const int e = (int)threadIdx.x + 128; w < 4) {
        const int at = (e >> 3) * 36 + (e & 7) * 4;
        *(f32x4 *)(panel + at) = *(const f32x4 *)(s->rv + at);
    }
#line 317 "blocks/gram_panel.cuh"
    fused_give(c, panel - first * 36, tile0 + 2);
    return true;
}
#line 311 "families/fused.lua"

#line 1 "blocks/fused_walk.cuh"
// The finished panels' way to a block: where their V and T are, and the loop that applies them.
//
// Parameters: MT, K, KP, THREADS, PRODUCTS, PLANES, PLANE, V_BYTES, RESIDENT, DIRECT, STAGE, STAGES, CLUSTER; shared memory places O_V, O_T, O_WS, O_WP, O_READY.
// V and T of all panels are in shared memory (RESIDENT), or in scratch and come to shared memory stage by stage. Where CTAs share a matrix, a panel has
// two mbarriers in each of them: one completes when its V is there, the other when its T is. Resident, they count the bytes that the panel's CTA
// sends (no fence of global memory stands in the chain then); otherwise that CTA arrives when all is in scratch.

// What a CTA knows about its matrix so far.
struct fused_matrix {
    u8 *v, *t;  // scratch
    u32 zero;   // bit p: panel p was zero throughout, so it has no reflectors (of this CTA's panels)
    u32 parity; // of the panels' mbarriers
#line 17 "blocks/fused_walk.cuh"
};

// Byte offset of panel p's trapezoid among those before it (one plane).
QRS_DEV int fused_trapezoid(int p) { return (p * 192 - 16 * p * (p - 1)) * 64; }
#line 22 "blocks/fused_walk.cuh"
QRS_DEV u8 *fused_v(int p) { return dynamic_smem() + 0 + fused_trapezoid(p); }
QRS_DEV u8 *fused_t(int p) { return dynamic_smem() + 86016 + p * 4096; }

#line 66 "blocks/fused_walk.cuh"

#line 68 "blocks/fused_walk.cuh"
// Places in each CTA of the cluster.
QRS_DEV saddr fused_ready(int p) { return to_saddr(dynamic_smem() + 115200) + 8 * p; }
QRS_DEV saddr fused_t_ready(int p) { return to_saddr(dynamic_smem() + 115248) + 8 * p; }
#line 72 "blocks/fused_walk.cuh"
// Before a matrix: what the panels of the other CTAs will bring.
QRS_DEV void fused_expect()
{
    const int p = (int)threadIdx.x;
    if (p < 5 && p % 2 != cluster_rank()) {
        mbar_expect(fused_ready(p), (192 - 32 * p) * 128);
        mbar_expect(fused_t_ready(p), 4096);
    }
}
#line 82 "blocks/fused_walk.cuh"
// Panel k leaves, by one thread, from planes that are there for bulk copies.
QRS_DEV void fused_send(int k)
{
    #pragma unroll
    for (int other = 1; other < 2; other++) {
        const int rank = cluster_rank() ^ other;
        const saddr from = to_saddr(fused_v(k));
        const u32 to = cluster_map(from, rank), ready = cluster_map(fused_ready(k), rank);
        #pragma unroll
        for (int plane = 0; plane < 2; plane++)
            bulk_send(to + plane * 43008, from + plane * 43008, (192 - 32 * k) * 64, ready);
    }
}
#line 96 "blocks/fused_walk.cuh"
// After it: everything has come, also what was not needed here.
QRS_DEV void fused_came(u32 parity)
{
    #pragma unroll 1
    for (int p = 0; p < 5; p++)
        if (p % 2 != cluster_rank()) {
            mbar_wait(fused_ready(p), parity);
            mbar_wait(fused_t_ready(p), parity);
        }
}
#line 156 "blocks/fused_walk.cuh"

#line 177 "blocks/fused_walk.cuh"

// Applies panels 0 .. k-1 to block k. sums: W x 4 KB + 4,608 + 2,048 bytes a plane, for partial sums; every thread is done with them on return.
QRS_DEV void fused_update(fused_tile &c, int k, float *sums, fused_matrix &matrix)
{
    const int done = k < 6 ? k : 6;
    float *ws = sums + 8192;
    u8 *wp = (u8 *)sums + 37376;
#line 185 "blocks/fused_walk.cuh"
    #pragma unroll 1
    for (int p = 0; p < done; p++) {
        const bool own = p % 2 == cluster_rank();
        if (own && (matrix.zero >> p & 1))
            continue;
        fused_apply(c, p, to_saddr(fused_v(p)), sums, ws, wp, fused_t(p), own ? 0 : fused_ready(p), own ? 0 : fused_t_ready(p), matrix.parity);
    }
    block_sync();
#line 252 "blocks/fused_walk.cuh"
}
#line 1 "blocks/fused_narrow_kernel.cuh"
// The whole left-looking walk with panels of 32 columns and warp products (fused.lua, update = mma): CTAs that share a matrix take its blocks of columns in turns.
//
// Parameters: the family's.
// A block: it is loaded and scaled (ahead of time: OVERLAP), finished panels are applied as they come, its panel is factored, V leaves for whoever waits for it, T follows, and
// the block is written out. Where a panel is not by rows, and nobody else fills the time (DIRECT, EARLY), V leaves as soon as it is known to be good, four warps form V'V while
// that is decided, and give their rows of V to the tile while one of them makes T.
// Named barriers: 1 who factors, and who makes T; 2 who loads the next block; 3..12 gram_narrow.cuh; 13 V is judged; 14 V's rows are in the tile.
QRS_KERNEL(fused, 256, 1)(const float *a, i64 lda, i64 stride_a, float *h, i64 ldh, i64 stride_h, float *tau,
                                       i64 stride_tau, int *info, i64 batch, u8 *v_scratch, u8 *t_scratch)
{
#line 12 "blocks/fused_narrow_kernel.cuh"
    release_next();
    wait_for_earlier();
#line 15 "blocks/fused_narrow_kernel.cuh"
    u8 *smem = dynamic_smem();
#line 17 "blocks/fused_narrow_kernel.cuh"
    gram_shared *gs = (gram_shared *)(smem + 156928);
#line 19 "blocks/fused_narrow_kernel.cuh"
    const int tid = (int)threadIdx.x;
    const i64 unit = blockIdx.x / 2; // the CTAs that share a matrix
    fused_matrix matrix = {v_scratch + unit * 0, t_scratch + unit * 0, 0, 0};
#line 23 "blocks/fused_narrow_kernel.cuh"
    const int rank = cluster_rank();
#line 25 "blocks/fused_narrow_kernel.cuh"
    i64 b = unit;
    int k = rank, flags = 0, turn = 0;
    fused_request(fused_all(), (float *)(smem + 177024), a + b * stride_a, lda, 32 * k);
    cp_async_commit();
#line 30 "blocks/fused_narrow_kernel.cuh"
    float *found_by = (float *)(smem + 115320); // what all CTAs found, in that of rank 0; matrices take turns
    if (tid == 0) { // one after another: racecheck takes an instruction that sets up several for writes of warps that pass it by
        #pragma unroll 1
        for (int i = 0; i < 12; i++)
            mbar_init(fused_ready(i), 1);
#line 40 "blocks/fused_narrow_kernel.cuh"
    }
    fence_mbar_init();
    cluster_sync();
#line 44 "blocks/fused_narrow_kernel.cuh"
    fused_expect();
#line 48 "blocks/fused_narrow_kernel.cuh"
    cp_async_wait<0>();
    block_sync();
    int unused;
    fused_exponents(fused_all(), (float *)(smem + 177024), (fused_scales *)(smem + 114688), (fused_largest *)(smem + 110592), unused);
    block_sync();
#line 54 "blocks/fused_narrow_kernel.cuh"
    #pragma unroll 1
    while (b < batch) { // a column block a turn
        const int first = 32 * k, rows = 192 - first;
        float *tile = (float *)(smem + 177024 + turn * 27648), *panel = tile + first * 36;
        float *sums = (float *)(smem + 115456); // where C is while in registers, or beside it
        fused_scales *scales = (fused_scales *)(smem + 114688 + turn * 132);
        float *stau = (float *)(smem + 114432) + 32 * turn;
#line 62 "blocks/fused_narrow_kernel.cuh"
        const int found = scales->found, ex = scales->exponent[lane()];
#line 69 "blocks/fused_narrow_kernel.cuh"
        const bool filled = found != 0, factor = filled && k < 6;
        flags |= found >> 1;
        if (filled) {
            fused_tile c;
#line 74 "blocks/fused_narrow_kernel.cuh"
            if (k == 0)
                fused_scale(tile, ex);
            else {
#line 83 "blocks/fused_narrow_kernel.cuh"
                fused_take(c, tile, ex);
                block_sync(); // partial sums go where the tile lies
                fused_update(c, k, sums, matrix);
#line 87 "blocks/fused_narrow_kernel.cuh"
                fused_give(c, tile, 0);
#line 89 "blocks/fused_narrow_kernel.cuh"
            }
#line 91 "blocks/fused_narrow_kernel.cuh"
            warp_sync();
#line 94 "blocks/fused_narrow_kernel.cuh"
            if (factor) {
                if (rows > 32) {
                    gram_product(tile, 2 * k + 2, (float *)(smem + 115456));
                    block_sync();
                    gram_total((float *)(smem + 115456), gs->gram, gs->rv);
                } else
                    gram_none(gs->gram);
                block_sync();
            }
#line 107 "blocks/fused_narrow_kernel.cuh"
        } else {
            if (k < 6) { // a zero block stays zero under any reflector
                matrix.zero |= 1u << k;
                if (tid < 32)
                    stau[tid] = 0.0f;
            }
#line 114 "blocks/fused_narrow_kernel.cuh"
            block_sync(); // the block before it has left
#line 116 "blocks/fused_narrow_kernel.cuh"
        }
        const bool last = k + 2 >= 6;
        const i64 b_next = last ? b + gridDim.x / 2 : b;
        const int k_next = last ? rank : k + 2;
#line 129 "blocks/fused_narrow_kernel.cuh"
        if (warp() < 4) {
            if (factor)
                gram_factor(panel, first, gs);
        } else if ((warp() & 3) >= 2) { // not on the schedulers of the warps whose instructions are the chain
            const int number = ((int)warp() >> 2) * 2 - 2 + ((int)warp() & 1);
            const fused_team side = {32 * number + (int)lane(), 64, number, 2, 2};
            if (b_next < batch) {
                float *other = (float *)(smem + 177024 + (turn ^ 1) * 27648);
                fused_request(side, other, a + b_next * stride_a, lda, 32 * k_next);
                cp_async_commit();
                cp_async_wait<0>();
                fused_sync(side);
                fused_exponents(side, other, (fused_scales *)(smem + 114688 + (turn ^ 1) * 132), (fused_largest *)(smem + 110592), unused); // no panel goes by rows now
            }
        }
        block_sync();
#line 159 "blocks/fused_narrow_kernel.cuh"
        u8 *planes = fused_v(k);
        bool left = k >= 5;
#line 163 "blocks/fused_narrow_kernel.cuh"
        const auto send = [&] { // by a warp that does not make T
            if (tid == 96 && !left)
                fused_send(k);
        };
#line 171 "blocks/fused_narrow_kernel.cuh"
        fused_tile v2;
        bool by_gram = false, given = false; // given: V2's rows are, but for those of the warps that make T
#line 174 "blocks/fused_narrow_kernel.cuh"
        if (factor) {
#line 177 "blocks/fused_narrow_kernel.cuh"
            const auto shares = [&] { fused_shares(planes, rows, (float *)(smem + 115456)); };
            by_gram = gram_finish(v2, panel, first, gs, stau, left ? nullptr : planes, send, shares);
            given = by_gram && !left;
#line 183 "blocks/fused_narrow_kernel.cuh"
            if (!by_gram)
                flags |= 2;
            if (!by_gram)
#line 187 "blocks/fused_narrow_kernel.cuh"
            fused_rows(panel, rows, 176 - first < 32 ? 176 - first : 32, (fused_step *)(smem + 110592), stau);
#line 189 "blocks/fused_narrow_kernel.cuh"
            if (!given)
                block_sync();
#line 200 "blocks/fused_narrow_kernel.cuh"
            left = left || by_gram;
#line 202 "blocks/fused_narrow_kernel.cuh"
        }
#line 204 "blocks/fused_narrow_kernel.cuh"
        if (!left && true) { // a panel of zeros, or by rows
            fused_reflectors(fused_all(), panel, rows, planes);
#line 207 "blocks/fused_narrow_kernel.cuh"
            fence_async_shared();
#line 209 "blocks/fused_narrow_kernel.cuh"
            block_sync();
            send();
#line 212 "blocks/fused_narrow_kernel.cuh"
            if (warp() >= 4)
                fused_shares(planes, rows, (float *)(smem + 115456));
#line 215 "blocks/fused_narrow_kernel.cuh"
        }
#line 222 "blocks/fused_narrow_kernel.cuh"
        // T. The next barrier of the block, behind what of the next block needs neither, ends it.
#line 235 "blocks/fused_narrow_kernel.cuh"
        if (k < 5 && warp() >= 4) {
            if (true) {
#line 241 "blocks/fused_narrow_kernel.cuh"
                const auto rest = [&] {
                    if (given) {
                        fused_give(v2, tile, 2 * k + 2);
                        bar_arrive(14, 256);
                    }
                };
                fused_build_t(stau, (float *)(smem + 115456), (float *)(smem + 115456) + 4096, fused_t(k), fused_t_ready(k), 2 * k + 2 <= 4, rest);
#line 251 "blocks/fused_narrow_kernel.cuh"
            }
#line 255 "blocks/fused_narrow_kernel.cuh"
        }
#line 261 "blocks/fused_narrow_kernel.cuh"
        if (given && warp() < 4)
            bar_sync(14, 256); // the others have given their rows
#line 265 "blocks/fused_narrow_kernel.cuh"
        if (last) { // said before this block leaves, or it would wait for that
            if (tid == 0)
                sts_remote(cluster_map(to_saddr(found_by + matrix.parity * 2 + rank), 0), (float)flags);
            fused_came(matrix.parity);
            cluster_arrive();
        }
#line 273 "blocks/fused_narrow_kernel.cuh"
        // Who does not make T.
        const fused_team writers = k < 5 ? fused_team{tid, 128, (int)warp(), 4, 2} : fused_all();
        if (writers.thread < writers.threads)
            fused_leave(writers, tile, h + b * stride_h, ldh, k, scales->exponent, tau + b * stride_tau, stau);
#line 295 "blocks/fused_narrow_kernel.cuh"
        if (last) {
#line 297 "blocks/fused_narrow_kernel.cuh"
            cluster_wait(); // nobody writes over V while it is applied elsewhere
#line 299 "blocks/fused_narrow_kernel.cuh"
            fused_expect();
#line 301 "blocks/fused_narrow_kernel.cuh"
            if (info && rank == 0 && tid == 0) {
                for (int i = 0; i < 2; i++)
                    flags |= (int)found_by[matrix.parity * 2 + i];
                info[b] = flags;
            }
            matrix.parity ^= 1;
            matrix.zero = 0;
#line 316 "blocks/fused_narrow_kernel.cuh"
            flags = 0;
        }
#line 319 "blocks/fused_narrow_kernel.cuh"
        turn ^= 1;
#line 321 "blocks/fused_narrow_kernel.cuh"
        b = b_next;
        k = k_next;
    }
}
QRS_ENTRY(fused)
