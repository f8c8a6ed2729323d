#line 113 "families/pack.lua"
#include "device/core.cuh"
#include "device/math.cuh"
#include "device/warp.cuh"
#include "device/block.cuh"

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
#line 1 "blocks/pack_split.cuh"
// Householder QR of one matrix by four warps: lane = column, rows dealt to the warps. For batches too small to fill the GPU.
//
// Parameters: M <= 64, N <= 32, K = min(M, N); RW = ceil(M / 4); IN, OUT layouts.
// Layout: warp w holds row top + 4 k + w of its lane's column as x[k]; every four columns the finished rows x[0] leave for H, R and V
// in one, and the others move up, so that the loop over columns is one short piece of code: a launch this small is over before
// more code than that has been fetched.
// Every lane carries the pivot column at its warp's rows (xb) and finds the next one from its old values and its own g, as the
// column's owner does, bit for bit. Scalars as in fused_rows.cuh; one barrier a column.
struct alignas(16) pack_shared {
    float part[2][36][4]; // dots by column and warp, one buffer a parity of the column
    float pivot[2][36];   // the pivot row
};

QRS_DEV float pack_sum(const float *part)
{
    const f32x4 v = *(const f32x4 *)part;
    return (v.x + v.y) + (v.z + v.w);
}

QRS_DEV float pack_dot(const float (&xb)[8], const float (&x)[8])
{
    float d[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    #pragma unroll
    for (int k = 0; k < 8; k++)
        d[k & 3] = fmaf(xb[k], x[k], d[k & 3]);
    return (d[0] + d[1]) + (d[2] + d[3]);
}

// All 128 threads of the block call. True when an entry is not finite.
QRS_DEV bool pack_split(const float *a, i64 lda, float *h, i64 ldh, float *tau, pack_shared *s)
{
    const int l = lane(), w = warp();
    float x[8], xb[8], most = 0.0f;
    bool odd = false;
    const float *from = a + w * lda + l;
    #pragma unroll
    for (int k = 0; k < 8; k++, from += 4 * lda)
        x[k] = true ? *from : 0.0f;
    #pragma unroll
    for (int k = 0; k < 8; k++) {
        const bool finite = is_finite(x[k]);
        odd = odd || !finite;
        most = fmaxf(most, finite ? fabsf(x[k]) : 0.0f);
    }
    s->part[1][l][w] = most;
    const bool bad = block_any(odd);
    const f32x4 m = *(const f32x4 *)s->part[1][l];
    most = fmaxf(fmaxf(m.x, m.y), fmaxf(m.z, m.w));
    const int ex = most > 0.0f ? pow2_exponent(most) : 0;
    const power_of_two down = make_power_of_two(-ex);
    #pragma unroll
    for (int k = 0; k < 8; k++) {
        x[k] = times(down, x[k]);
        xb[k] = shfl(x[k], 0);
    }
    if (w == 0)
        xb[0] = 0.0f;

    // Of this lane's column, once it is finished.
    float alpha_of = 0.0f, squares_of = 0.0f, rho_of = 0.0f;
    int scale_of = ex, scale = 0;
    bool again = false, zero = false;
    float d = pack_dot(xb, x);
    #pragma unroll 1
    for (int top = 0; top < 32; top += 4) {
        #pragma unroll 1
        for (int jw = 0; jw < 4 && top + jw < 32;) {
            const int j = top + jw;
            float *pivot = s->pivot[jw & 1];
            float(*part)[4] = s->part[jw & 1];
            part[l][w] = d;
            if (w == jw)
                pivot[l] = x[0];
            block_sync();
            float squares = pack_sum(part[j]), alpha = pivot[j], pn = pivot[j + 1], p = pivot[l];
            float dn = pack_sum(part[j + 1]), dl = pack_sum(part[l]), square = fmaf(alpha, alpha, squares);
            if (!(squares >= QRS_TINY_SQUARES) || !is_finite(square)) { // rare, and the same for the whole block
                if (squares < QRS_TINY_SQUARES && !again) { // either the tail is exactly zero, or the step repeats rescaled
                    most = 0.0f;
                    #pragma unroll
                    for (int k = 0; k < 8; k++)
                        most = fmaxf(most, fabsf(xb[k]));
                    block_sync();
                    part[l][w] = most;
                    block_sync();
                    const f32x4 all = *(const f32x4 *)part[l];
                    most = fmaxf(fmaxf(all.x, all.y), fmaxf(all.z, all.w));
                    block_sync();
                    zero = most == 0.0f;
                    if (!zero) {
                        again = true;
                        if (is_finite(alpha)) {
                            scale = pow2_exponent(fmaxf(most, fabsf(alpha)));
                            const power_of_two shrink = make_power_of_two(-scale);
                            #pragma unroll
                            for (int k = 0; k < 8; k++) {
                                xb[k] = times(shrink, xb[k]);
                                if (l == j && (k > 0 || w >= jw)) // entries of R above the pivot keep their scale
                                    x[k] = times(shrink, x[k]);
                            }
                        }
                        d = pack_dot(xb, x);
                        continue;
                    }
                    // No reflector: every g is zero, whatever alpha.
                    alpha = is_finite(alpha) ? alpha : 1.0f;
                    squares = 1.0f;
                    square = fmaf(alpha, alpha, 1.0f);
                    dl = dn = p = pn = 0.0f;
                }
                if (!is_finite(square) && l <= j) { // finished columns are not to be touched by what is not finite
                    #pragma unroll
                    for (int k = 0; k < 8; k++)
                        xb[k] = 0.0f;
                }
            }
            float next[8];
            #pragma unroll
            for (int k = 0; k < 8; k++)
                next[k] = shfl(x[k], (j + 1) & 31);
            const float q = rsqrt_normal(square), gap = fabsf(alpha) + square * q;
            const float rho = copysignf(rcp_normal(gap), alpha), step = copysignf(q, alpha);
            const float gn = step * fmaf(rho, dn, pn), gl = step * fmaf(rho, dl, p), g = l > j ? gl : 0.0f;
            if (w == jw)
                xb[0] = l > j ? copysignf(gap, alpha) : 0.0f;
            #pragma unroll
            for (int k = 0; k < 8; k++) {
                x[k] = fmaf(-g, xb[k], x[k]);
                xb[k] = fmaf(-gn, xb[k], next[k]);
            }
            if (w <= jw + 1)
                xb[0] = 0.0f;
#line 134 "blocks/pack_split.cuh"
            if (w + jw == 3 && w == 0)
                xb[1] = 0.0f;
#line 137 "blocks/pack_split.cuh"
            d = pack_dot(xb, x);
            if (l == j)
                alpha_of = alpha, squares_of = squares, rho_of = zero ? 0.0f : rho, scale_of += scale;
            again = zero = false;
            scale = 0;
            jw++;
        }
        const int row = top + w;
        float y = x[0] * rho_of;
        if (row <= l) { // R; on its diagonal what is left of the column, unless the tail was zero
            if (row == l && rho_of != 0.0f)
                y = reflector_beta(alpha_of, squares_of);
            else
                y = x[0];
            y = times(make_power_of_two(row == l ? scale_of : ex), y);
        }
        if (true)
            h[row * ldh + l] = y;
        #pragma unroll
        for (int k = 0; k < 7; k++) {
            x[k] = x[k + 1];
            xb[k] = xb[k + 1];
        }
        x[7] = xb[7] = 0.0f;
    }
    if (w == 0 && l < 32)
        tau[l] = reflector_tau(rho_of, squares_of);
    return bad;
}
#line 123 "families/pack.lua"

QRS_KERNEL(pack, 128, 1)(const float *a, i64 lda, i64 stride_a, float *h, i64 ldh, i64 stride_h, float *tau, i64 stride_tau, int *info,
                         i64 batch)
{
    const i64 b = blockIdx.x;
    const bool bad = pack_split(a + b * stride_a, lda, h + b * stride_h, ldh, tau + b * stride_tau, (pack_shared *)dynamic_smem());
    if (info && threadIdx.x == 0)
        info[b] = bad;
    (void)batch;
}
#line 201 "families/pack.lua"
QRS_ENTRY(pack)
