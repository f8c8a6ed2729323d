#line 113 "families/pack.lua"
#include "device/core.cuh"
#include "device/math.cuh"
#include "device/warp.cuh"
#include "device/block.cuh"

using namespace qrs;

// 32 x 32, 32 lanes a matrix, 1 matrices a block.
QRS_DEV void pack_sync()
{
#line 124 "families/pack.lua"
    warp_sync();
#line 130 "families/pack.lua"
}

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
#line 1 "blocks/pack_stage.cuh"
// Moves a contiguous run of whole matrices between global memory and a tile in shared memory.
//
// Parameters: M, N rows and columns; LD, MS strides of the tile in floats (row, matrix: entry (i, c) of matrix b is at
// b MS + i LD + c); THREADS of the block; IN, OUT layouts ("row" | "col").
// All threads of the block call; the caller synchronises. Needs no shared memory of its own.
// Fast path: 16-byte accesses, where the addresses allow (a minor extent that is a multiple of 4 with aligned strides, or
// matrices that follow one another without gaps). Anything else moves entry by entry, still in address order.
template <bool COL> struct pack_order {
    static constexpr int MINOR = COL ? 32 : 32;
    static constexpr int SIZE = 1024;

    // Where entry e (counted in storage order over the run of matrices) lies in the tile.
    QRS_DEV static int tile(int e)
    {
        int b = e / SIZE, r = e - b * SIZE, major = r / MINOR, minor = r - major * MINOR;
        return b * 1056 + (COL ? minor * 33 + major : major * 33 + minor);
    }
    QRS_DEV static i64 global(int e, i64 ld, i64 stride)
    {
        int b = e / SIZE, r = e - b * SIZE, major = r / MINOR, minor = r - major * MINOR;
        return b * stride + major * ld + minor;
    }
    QRS_DEV static bool dense(i64 ld, i64 stride) { return (ld == MINOR || SIZE == MINOR) && stride == SIZE; }
    QRS_DEV static bool wide(const float *a, i64 ld, i64 stride)
    {
        bool pitch = MINOR % 4 == 0 ? ((ld | stride) & 3) == 0 : dense(ld, stride);
        return pitch && ((u64)a & 15) == 0;
    }
};

// a: first matrix of the run; count matrices of it exist, the tile's others stay as they are.
QRS_DEV void pack_load(float *tile, const float *a, i64 ld, i64 stride, int count)
{
    using order = pack_order<false>;
    const int total = count * order::SIZE;
    int done = 0;
    if (order::wide(a, ld, stride)) {
        done = total & ~3;
        #pragma unroll 4
        for (int e = 4 * (int)threadIdx.x; e < done; e += 128) {
            i64 at = order::MINOR % 4 == 0 ? order::global(e, ld, stride) : (i64)e;
            f32x4 v = *(const f32x4 *)(a + at);
            tile[order::tile(e)] = v.x;
            tile[order::tile(e + 1)] = v.y;
            tile[order::tile(e + 2)] = v.z;
            tile[order::tile(e + 3)] = v.w;
        }
    }
    #pragma unroll 4
    for (int e = done + (int)threadIdx.x; e < total; e += 32)
        tile[order::tile(e)] = a[order::global(e, ld, stride)];
}

QRS_DEV void pack_store(float *h, i64 ld, i64 stride, const float *tile, int count)
{
    using order = pack_order<false>;
    const int total = count * order::SIZE;
    int done = 0;
    if (order::wide(h, ld, stride)) {
        done = total & ~3;
        #pragma unroll 4
        for (int e = 4 * (int)threadIdx.x; e < done; e += 128) {
            i64 at = order::MINOR % 4 == 0 ? order::global(e, ld, stride) : (i64)e;
            f32x4 v;
            v.x = tile[order::tile(e)];
            v.y = tile[order::tile(e + 1)];
            v.z = tile[order::tile(e + 2)];
            v.w = tile[order::tile(e + 3)];
            *(f32x4 *)(h + at) = v;
        }
    }
    #pragma unroll 4
    for (int e = done + (int)threadIdx.x; e < total; e += 32)
        h[order::global(e, ld, stride)] = tile[order::tile(e)];
}
#line 1 "blocks/pack_columns.cuh"
// Householder QR of a matrix held by a group of L lanes, a lane per column (and every L-th column after it).
//
// Parameters: M, N, K = min(M, N); L lanes a matrix; SLOTS = ceil(N / L) columns a lane; LD row stride of the tile.
// Layout: lane c holds column q L + c as x[q][0..M-1], rotated: at step j, x[q][0] is row j, so every index is a
// constant although the loop over columns is rolled (few instructions to fetch: most launches are a few microseconds).
// A finished row of R and a finished column of V leave for the tile in the step that finishes them; registers of
// finished columns are garbage from then on and never read.
// The pivot column travels through pivot[2][32] (double-buffered, one synchronisation a column); a dot with the lane's own
// column needs no reduction at all. With L = 1 the whole matrix sits in one thread and nothing travels.
// Synchronisation: pack_sync() joins the lanes of one matrix (a warp, or a named barrier when L > 32).
struct pack_lane {
    float x[1][32];
    power_of_two up[1]; // gives R's column its scale back
    int column;                // of slot 0
};

// The step of columns j0 .. j1-1, all in slot SLOT; ROWS = rows left at j0. publish_next: the pivot after j1-1 lies in the next slot.
template <int ROWS, int SLOT>
QRS_DEV void pack_columns(pack_lane &s, int j0, int j1, bool publish_next, float *tile, float *pivot, float *tau)
{
    constexpr int PAD = (ROWS + 3) / 4 * 4;
    #pragma unroll 1
    for (int j = j0; j < j1; j++) {
#line 25 "blocks/pack_columns.cuh"
        const float *raw = pivot + (j & 1) * 32;
#line 27 "blocks/pack_columns.cuh"
        float x[PAD];
        #pragma unroll
        for (int k = 0; k < PAD; k += 4) {
#line 31 "blocks/pack_columns.cuh"
            f32x4 v = *(const f32x4 *)(raw + k);
            x[k] = v.x, x[k + 1] = v.y, x[k + 2] = v.z, x[k + 3] = v.w;
#line 36 "blocks/pack_columns.cuh"
        }
        float part[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        #pragma unroll
        for (int k = 1; k < ROWS; k++)
            part[k & 3] = fmaf(x[k], x[k], part[k & 3]);
        float squares = (part[0] + part[1]) + (part[2] + part[3]);

        // Rare: the tail is zero or so small that its squares lose digits. All lanes of the matrix decide alike.
        power_of_two shrink = {1.0f, 1.0f}, grow = {1.0f, 1.0f};
        bool zero = false;
        if (squares < QRS_TINY_SQUARES) {
            float largest = 0.0f;
            #pragma unroll
            for (int k = 1; k < ROWS; k++)
                largest = fmaxf(largest, fabsf(x[k]));
            zero = largest == 0.0f;
            if (!zero && is_finite(x[0])) {
                int e = pow2_exponent(fmaxf(largest, fabsf(x[0])));
                shrink = make_power_of_two(-e), grow = make_power_of_two(e);
                squares = 0.0f;
                #pragma unroll
                for (int k = 0; k < ROWS; k++)
                    x[k] = times(shrink, x[k]);
                #pragma unroll
                for (int k = 1; k < ROWS; k++)
                    squares = fmaf(x[k], x[k], squares);
            }
        }
        reflector h = zero ? no_reflector(x[0]) : make_reflector(x[0], squares);

        #pragma unroll
        for (int q = SLOT; q < 1; q++) {
            const int c = q * 32 + s.column;
            float dot[4] = {0.0f, 0.0f, 0.0f, 0.0f};
            #pragma unroll
            for (int k = 1; k < ROWS; k++)
                dot[k & 3] = fmaf(x[k], s.x[q][k], dot[k & 3]);
            float p = s.x[q][0];
            float g = h.step * fmaf(h.rho, (dot[0] + dot[1]) + (dot[2] + dot[3]), p);
            #pragma unroll
            for (int k = 1; k < ROWS; k++)
                s.x[q][k - 1] = fmaf(-g, x[k], s.x[q][k]);
            s.x[q][ROWS - 1] = 0.0f;
            float r = c == j ? times(grow, h.beta) : fmaf(-g, h.gap, p);
            if (c >= j && c < 32)
                tile[j * 33 + c] = times(s.up[q], r);
        }
        if (s.column == j % 32)
            tau[j] = h.tau;
#line 86 "blocks/pack_columns.cuh"
        if (j + 1 < 32 && s.column == (j + 1) % 32) {
            float *next = pivot + ((j + 1) & 1) * 32;
            bool cross = publish_next && j + 1 == j1;
            #pragma unroll
            for (int k = 0; k < PAD; k += 4) {
                float y[4];
                #pragma unroll
                for (int i = 0; i < 4; i++)
                    y[i] = k + i >= ROWS ? 0.0f : cross ? s.x[SLOT + 1 < 1 ? SLOT + 1 : SLOT][k + i] : s.x[SLOT][k + i];
                f32x4 v = {y[0], y[1], y[2], y[3]};
                *(f32x4 *)(next + k) = v;
            }
        }
        #pragma unroll
        for (int k = 1; k < ROWS; k += 32) {
            int i = k + s.column;
            if (i < 32 - j)
                tile[(j + i) * 33 + j] = times(shrink, raw[i]) * h.rho;
        }
        pack_sync();
#line 111 "blocks/pack_columns.cuh"
    }
}

// Takes the lane's columns from the tile, scaled so that the largest finite magnitude of each lies in [1, 2) (design,
// section 5). True when an entry is not finite.
QRS_DEV bool pack_take(pack_lane &s, const float *tile)
{
    bool bad = false;
    #pragma unroll
    for (int q = 0; q < 1; q++) {
        const int c = q * 32 + s.column;
        const bool mine = true;
        float largest = 0.0f;
        #pragma unroll
        for (int k = 0; k < 32; k++) {
            float v = k < 32 && mine ? tile[k * 33 + c] : 0.0f;
            s.x[q][k] = v;
            bool finite = is_finite(v);
            bad = bad || !finite;
            largest = fmaxf(largest, finite ? fabsf(v) : 0.0f);
        }
        int e = largest > 0.0f ? pow2_exponent(largest) : 0;
        power_of_two down = make_power_of_two(-e);
        s.up[q] = make_power_of_two(e);
        #pragma unroll
        for (int k = 0; k < 32; k++)
            s.x[q][k] = times(down, s.x[q][k]);
    }
    return bad;
}

// Everything between the loaded and the finished tile. The caller synchronises before and after.
QRS_DEV bool pack_factor(int column, float *tile, float *pivot, float *tau)
{
    pack_lane s;
    s.column = column;
    bool bad = pack_take(s, tile);
#line 149 "blocks/pack_columns.cuh"
    if (column == 0) {
        #pragma unroll
        for (int k = 0; k < 32; k++)
            pivot[k] = s.x[0][k];
    }
    pack_sync();
#line 157 "blocks/pack_columns.cuh"
    pack_columns<32, 0>(s, 0, 8, false, tile, pivot, tau);
#line 157 "blocks/pack_columns.cuh"
    pack_columns<24, 0>(s, 8, 16, false, tile, pivot, tau);
#line 157 "blocks/pack_columns.cuh"
    pack_columns<16, 0>(s, 16, 24, false, tile, pivot, tau);
#line 157 "blocks/pack_columns.cuh"
    pack_columns<8, 0>(s, 24, 32, true, tile, pivot, tau);
#line 159 "blocks/pack_columns.cuh"
    return bad;
}
#line 135 "families/pack.lua"

QRS_KERNEL(pack, 32, 1)(const float *a, i64 lda, i64 stride_a, float *h, i64 ldh, i64 stride_h, float *tau,
                                i64 stride_tau, int *info, i64 batch)
{
    float *smem = (float *)dynamic_smem();
    int *bad = (int *)(smem + 1156);
    const int tid = (int)threadIdx.x;
    const i64 first = (i64)blockIdx.x * 1;
    const int count = batch - first < 1 ? (int)(batch - first) : 1;

    // Places of matrices past the batch are computed on too (their lanes share warps with real ones): let them be zeros.
    if (count < 1)
        for (int e = count * 1056 + tid; e < 1056; e += 32)
            smem[e] = 0.0f;
    for (int b = tid; b < 1; b += 32)
        bad[b] = 0;
    pack_load(smem, a + first * stride_a, lda, stride_a, count);
    block_sync();

    const int mine = tid / 32;
    if (pack_factor(tid % 32, smem + mine * 1056, smem + 1056 + mine * 68, smem + 1124 + mine * 32))
        bad[mine] = 1;
    block_sync();

    pack_store(h + first * stride_h, ldh, stride_h, smem, count);
    for (int e = tid; e < count * 32; e += 32)
        tau[(first + e / 32) * stride_tau + e % 32] = smem[1124 + e];
    if (info)
        for (int b = tid; b < count; b += 32)
            info[first + b] = bad[b];
}
QRS_ENTRY(pack)
