#line 121 "families/pack.lua"
#include "device/core.cuh"
#include "device/math.cuh"
#include "device/warp.cuh"
#include "device/block.cuh"
#include "device/launch.cuh"

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
// Householder QR of one matrix by four warps: lane = column (and column + 32), rows dealt to the warps.
//
// Parameters: M, N <= 64, K = min(M, N); RW = ceil(M / 4); SLOTS = ceil(N / 32); IN, OUT layouts.
// Layout: warp w holds row top + 4 k + w of its lane's columns as x[slot][k]; every four columns the finished rows x[.][0] leave for
// H, R and V in one, and the others move up. Code: four steps straight-line, a copy for every 16 columns (ROWS rows a warp are left,
// columns before 32 SLOT are finished), the loop over the copy's groups rolled: short enough to be fetched within a launch of a few
// microseconds.
// Every lane carries the pivot column at its warp's rows (xb) and finds the next one from its old values and its own g, as the
// column's owner does, bit for bit. Scalars as in pack_reflector.cuh, without Newton steps. One barrier a column; whether a step is
// one of the rare ones is known long before its g, so nothing waits for that branch.
#line 13 "blocks/pack_split.cuh"
struct alignas(16) pack_shared {
    float part[2][36][4];      // dots by column and warp, one buffer a parity of the column
    float next[2][4][8]; // old column j + 1 by warp
    float pivot[2][36];        // the pivot row
    f32x4 facts[4][32];     // of finished columns, a copy a warp: alpha, squares, rho, exponent of alpha's scale
};
#line 20 "blocks/pack_split.cuh"

// Addresses in parity 0, so that a step needs no arithmetic for them.
struct pack_places {
    saddr part, next, pivot;                   // columns `top` and after; next: of this warp
    saddr my_dot, my_dots, my_pivot, my_facts; // of this lane's column
};

struct pack_split_state {
    float x[1][8], xb[8], d[1];
    int exponent[1]; // of the power of two that gives R's column its scale back
};

QRS_DEV float pack_sum(f32x4 part)
{
    return (part.x + part.y) + (part.z + part.w);
}

template <int ROWS> QRS_DEV float pack_dot(const float *xb, const float *x)
{
    float d[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    #pragma unroll
    for (int k = 0; k < ROWS; k++)
        d[k & 3] = fmaf(xb[k], x[k], d[k & 3]);
    return (d[0] + d[1]) + (d[2] + d[3]);
}

// A tail without squares to speak of: true when it is exactly zero, otherwise the pivot column is rescaled and the step is to be
// repeated. above: row x[.][0] of this warp lies above the pivot. All threads call.
template <int ROWS, int SLOT>
QRS_DEV bool pack_rescale(pack_split_state &r, const pack_places &at, int b, int column, bool above, float alpha, int *exponent)
{
    float most = 0.0f;
    #pragma unroll
    for (int k = 0; k < ROWS; k++)
        most = fmaxf(most, fabsf(r.xb[k]));
    block_sync();
    sts(at.my_dot + b * 576, most);
    block_sync();
    const f32x4 all = lds<f32x4>(at.my_dots + b * 576);
    most = fmaxf(fmaxf(all.x, all.y), fmaxf(all.z, all.w));
    if (most == 0.0f)
        return true;
    if (is_finite(alpha)) {
        const int scale = pow2_exponent(fmaxf(most, fabsf(alpha)));
        const power_of_two shrink = make_power_of_two(-scale);
        #pragma unroll
        for (int k = 0; k < ROWS; k++) {
            r.xb[k] = times(shrink, r.xb[k]);
            if ((int)lane() == column && (k > 0 || !above)) // entries of R keep their scale
                r.x[SLOT][k] = times(shrink, r.x[SLOT][k]);
        }
        *exponent += scale;
    }
    #pragma unroll
    for (int t = SLOT; t < 1; t++)
        r.d[t] = pack_dot<ROWS>(r.xb, r.x[t]);
    return false;
}

// The step of column j = top + JW, which is column `column` of slot SLOT. ENDS: row M - 1 may be its pivot row.
template <int ROWS, int SLOT, bool ENDS, int JW> QRS_DEV void pack_step(pack_split_state &r, const pack_places &at, int top)
{
    const int l = lane(), w = warp(), j = top + JW, column = j - 32 * SLOT, b = JW & 1;
    const bool cross = SLOT + 1 < 1 && JW == 3 && column == 31; // column j + 1 is the first of the next slot
    float alpha, square, q, gap, rho, squares, dn, pn, dl[1], p[1];
    int exponent = r.exponent[SLOT];
    bool again = false;
    #pragma unroll 1
    while (true) {
        if (again)
            block_sync();
        #pragma unroll
        for (int t = SLOT; t < 1; t++) {
            sts(at.my_dot + (b * 576 + 512 * t), r.d[t]);
            if (w == JW)
                sts(at.my_pivot + (b * 144 + 128 * t), r.x[t][0]);
        }
        if (l == ((column + 1) & 31)) {
            #pragma unroll
            for (int k = 0; k < ROWS; k += 4) {
                constexpr int after = SLOT + 1 < 1 ? SLOT + 1 : SLOT;
                f32x4 v = {r.x[SLOT][k], r.x[SLOT][k + 1], r.x[SLOT][k + 2], r.x[SLOT][k + 3]};
                if (cross)
                    v = {r.x[after][k], r.x[after][k + 1], r.x[after][k + 2], r.x[after][k + 3]};
                sts(at.next + (b * 128 + 4 * k), v);
            }
        }
        block_sync();
        // In the order in which the chain wants them.
        squares = pack_sum(lds<f32x4>(at.part + (b * 576 + 16 * JW)));
        alpha = lds<float>(at.pivot + (b * 144 + 4 * JW));
        dn = pack_sum(lds<f32x4>(at.part + (b * 576 + 16 * JW + 16)));
        pn = lds<float>(at.pivot + (b * 144 + 4 * JW + 4));
        square = fmaf(alpha, alpha, squares);
        q = rsqrt_normal(square);
        gap = fabsf(alpha) + square * q;
        rho = copysignf(rcp_normal(gap), alpha);
        #pragma unroll
        for (int t = SLOT; t < 1; t++) {
            dl[t] = pack_sum(lds<f32x4>(at.my_dots + (b * 576 + 512 * t)));
            p[t] = lds<float>(at.my_pivot + (b * 144 + 128 * t));
        }
        const bool ends = ENDS && j == 31, finite = square <= 0x1p126f;
        if (squares >= QRS_TINY_SQUARES && finite)
            break;
        // Rare, and the same for the whole block: the tail is zero (after the last row always), its squares have lost digits, or something
        // is not finite.
        if (ends || (squares < QRS_TINY_SQUARES && !again)) {
            if (ends || pack_rescale<ROWS, SLOT>(r, at, b, column, w < JW, alpha, &exponent)) {
                q = gap = rho = 0.0f;
                break;
            }
            again = true;
            continue;
        }
        if (!finite && l <= column) { // finished columns are not to be touched
            #pragma unroll
            for (int k = 0; k < ROWS; k++)
                r.xb[k] = 0.0f;
            gap = 0.0f;
        }
        break;
    }
    const float step = copysignf(q, alpha), gn = step * fmaf(rho, dn, pn);
    if (w == JW)
        r.xb[0] = copysignf(gap, alpha);
    #pragma unroll
    for (int t = SLOT; t < 1; t++) {
        const float gl = step * fmaf(rho, dl[t], p[t]), g = t > SLOT || l > column ? gl : 0.0f;
        #pragma unroll
        for (int k = 0; k < ROWS; k++)
            r.x[t][k] = fmaf(-g, r.xb[k], r.x[t][k]);
    }
    #pragma unroll
    for (int k = 0; k < ROWS; k += 4) {
        const f32x4 next = lds<f32x4>(at.next + (b * 128 + 4 * k));
        r.xb[k] = fmaf(-gn, r.xb[k], next.x), r.xb[k + 1] = fmaf(-gn, r.xb[k + 1], next.y);
        r.xb[k + 2] = fmaf(-gn, r.xb[k + 2], next.z), r.xb[k + 3] = fmaf(-gn, r.xb[k + 3], next.w);
    }
    if (w <= JW + 1)
        r.xb[0] = 0.0f;
    if (JW == 3 && w == 0 && ROWS > 1)
        r.xb[1] = 0.0f;
    #pragma unroll
    for (int t = SLOT; t < 1; t++)
        r.d[t] = pack_dot<ROWS>(r.xb, r.x[t]);
    if (l == column)
        sts(at.my_facts + 512 * SLOT, f32x4{alpha, squares, rho, as_f32((u32)exponent)});
}

// The finished rows top .. top + 3, one a warp, leave; the others move up.
template <int ROWS> QRS_DEV void pack_leave(pack_split_state &r, const pack_places &at, int top, float *to, i64 ldh)
{
    const int l = lane(), row = top + (int)warp();
    warp_sync();
    #pragma unroll
    for (int t = 0; t < 1; t++) {
        const f32x4 facts = lds<f32x4>(at.my_facts + 512 * t);
        float y = times(make_power_of_two(r.exponent[t]), r.x[t][0]);
        if (l + 32 * t < row)
            y = r.x[t][0] * facts.z;
        if (l + 32 * t == row) // the diagonal of R: what is left of the column, unless the tail was zero
            y = times(make_power_of_two((int)as_u32(facts.w)), facts.z != 0.0f ? reflector_beta(facts.x, facts.y) : r.x[t][0]);
        if (true)
            to[32 * t] = y;
        #pragma unroll
        for (int k = 0; k + 1 < ROWS; k++)
            r.x[t][k] = r.x[t][k + 1];
        r.x[t][ROWS - 1] = 0.0f;
    }
    #pragma unroll
    for (int k = 0; k + 1 < ROWS; k++)
        r.xb[k] = r.xb[k + 1];
    r.xb[ROWS - 1] = 0.0f;
}

// All 128 threads of the block call. True when an entry is not finite.
QRS_DEV bool pack_split(const float *a, i64 lda, float *h, i64 ldh, float *tau, pack_shared *s)
{
    const int l = lane(), w = warp();
    pack_split_state r;
    float most[1];
    bool odd = false;
    const float *from = a + w * lda + l;
    #pragma unroll
    for (int k = 0; k < 8; k++, from += 4 * lda)
        #pragma unroll
        for (int t = 0; t < 1; t++) {
            const bool in = true;
            r.x[t][k] = in ? from[32 * t] : 0.0f;
        }
    #pragma unroll
    for (int t = 0; t < 1; t++) {
        most[t] = 0.0f;
        #pragma unroll
        for (int k = 0; k < 8; k++) {
            const bool finite = is_finite(r.x[t][k]);
            odd = odd || !finite;
            most[t] = fmaxf(most[t], finite ? fabsf(r.x[t][k]) : 0.0f);
        }
        s->part[1][l + 32 * t][w] = most[t];
    }
    const bool bad = block_any(odd);
    #pragma unroll
    for (int t = 0; t < 1; t++) {
        const f32x4 m = *(const f32x4 *)s->part[1][l + 32 * t];
        most[t] = fmaxf(fmaxf(m.x, m.y), fmaxf(m.z, m.w));
        const int ex = most[t] > 0.0f ? pow2_exponent(most[t]) : 0;
        const power_of_two down = make_power_of_two(-ex);
        #pragma unroll
        for (int k = 0; k < 8; k++) {
            r.x[t][k] = k < 8 ? times(down, r.x[t][k]) : 0.0f;
            if (t == 0)
                r.xb[k] = shfl(r.x[0][k], 0);
        }
        if (t == 0 && w == 0)
            r.xb[0] = 0.0f;
        r.d[t] = pack_dot<8>(r.xb, r.x[t]);
        r.exponent[t] = ex;
    }

    pack_places at = {to_saddr(s->part[0]),    to_saddr(s->next[0][w]),   to_saddr(s->pivot[0]),   to_saddr(&s->part[0][l][w]),
                      to_saddr(s->part[0][l]), to_saddr(&s->pivot[0][l]), to_saddr(&s->facts[w][l])};
    float *to = h + w * ldh + l;
    const i64 group = 4 * ldh;
#line 248 "blocks/pack_split.cuh"
    #pragma unroll 1
    for (int top = 0; top < 16; top += 4, to += group, at.part += 64, at.pivot += 16) {
#line 254 "blocks/pack_split.cuh"
        pack_step<8, 0, false, 0>(r, at, top);
#line 254 "blocks/pack_split.cuh"
        pack_step<8, 0, false, 1>(r, at, top);
#line 254 "blocks/pack_split.cuh"
        pack_step<8, 0, false, 2>(r, at, top);
#line 254 "blocks/pack_split.cuh"
        pack_step<8, 0, false, 3>(r, at, top);
#line 256 "blocks/pack_split.cuh"
        pack_leave<8>(r, at, top, to, ldh);
    }
#line 248 "blocks/pack_split.cuh"
    #pragma unroll 1
    for (int top = 16; top < 32; top += 4, to += group, at.part += 64, at.pivot += 16) {
#line 254 "blocks/pack_split.cuh"
        pack_step<4, 0, true, 0>(r, at, top);
#line 254 "blocks/pack_split.cuh"
        pack_step<4, 0, true, 1>(r, at, top);
#line 254 "blocks/pack_split.cuh"
        pack_step<4, 0, true, 2>(r, at, top);
#line 254 "blocks/pack_split.cuh"
        pack_step<4, 0, true, 3>(r, at, top);
#line 256 "blocks/pack_split.cuh"
        pack_leave<4>(r, at, top, to, ldh);
    }
#line 264 "blocks/pack_split.cuh"
    if (w == 0) {
        #pragma unroll
        for (int t = 0; t < 1; t++) {
            const f32x4 facts = lds<f32x4>(at.my_facts + 512 * t);
            if (l + 32 * t < 32)
                tau[l + 32 * t] = reflector_tau(facts.z, facts.y);
        }
    }
    return bad;
}
#line 132 "families/pack.lua"

QRS_KERNEL(pack, 128, 1)(const float *a, i64 lda, i64 stride_a, float *h, i64 ldh, i64 stride_h, float *tau, i64 stride_tau, int *info,
                         i64 batch)
{
#line 137 "families/pack.lua"
    release_next();
#line 139 "families/pack.lua"
    wait_for_earlier();
    const i64 b = blockIdx.x;
    const bool bad = pack_split(a + b * stride_a, lda, h + b * stride_h, ldh, tau + b * stride_tau, (pack_shared *)dynamic_smem());
    if (info && threadIdx.x == 0)
        info[b] = bad;
    (void)batch;
}
#line 207 "families/pack.lua"
QRS_ENTRY(pack)
