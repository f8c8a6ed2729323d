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

QRS_DEV float pack_dot(const float (&xb)[${RW}], const float (&x)[${RW}])
{
    float d[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    #pragma unroll
    for (int k = 0; k < ${RW}; k++)
        d[k & 3] = fmaf(xb[k], x[k], d[k & 3]);
    return (d[0] + d[1]) + (d[2] + d[3]);
}

// All 128 threads of the block call. True when an entry is not finite.
QRS_DEV bool pack_split(const float *a, i64 lda, float *h, i64 ldh, float *tau, pack_shared *s)
{
    const int l = lane(), w = warp();
    float x[${RW}], xb[${RW}], most = 0.0f;
    bool odd = false;
    const float *from = a + ${IN == "col" and "l * lda + w" or "w * lda + l"};
    #pragma unroll
    for (int k = 0; k < ${RW}; k++, from += 4${IN == "col" and "" or " * lda"})
        x[k] = ${N < 32 and "l < " .. N .. " && " or ""}${M % 4 > 0 and "4 * k + w < " .. M or "true"} ? *from : 0.0f;
    #pragma unroll
    for (int k = 0; k < ${RW}; k++) {
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
    for (int k = 0; k < ${RW}; k++) {
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
    for (int top = 0; top < ${M}; top += 4) {
        #pragma unroll 1
        for (int jw = 0; jw < 4 && top + jw < ${K};) {
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
                    for (int k = 0; k < ${RW}; k++)
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
                            for (int k = 0; k < ${RW}; k++) {
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
                    for (int k = 0; k < ${RW}; k++)
                        xb[k] = 0.0f;
                }
            }
            float next[${RW}];
            #pragma unroll
            for (int k = 0; k < ${RW}; k++)
                next[k] = shfl(x[k], (j + 1) & 31);
            const float q = rsqrt_normal(square), gap = fabsf(alpha) + square * q;
            const float rho = copysignf(rcp_normal(gap), alpha), step = copysignf(q, alpha);
            const float gn = step * fmaf(rho, dn, pn), gl = step * fmaf(rho, dl, p), g = l > j ? gl : 0.0f;
            if (w == jw)
                xb[0] = l > j ? copysignf(gap, alpha) : 0.0f;
            #pragma unroll
            for (int k = 0; k < ${RW}; k++) {
                x[k] = fmaf(-g, xb[k], x[k]);
                xb[k] = fmaf(-gn, xb[k], next[k]);
            }
            if (w <= jw + 1)
                xb[0] = 0.0f;
% if RW > 1 then
            if (w + jw == 3 && w == 0)
                xb[1] = 0.0f;
% end
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
        if (${M % 4 > 0 and "row < " .. M .. " && " or ""}${N < 32 and "l < " .. N or "true"})
            h[${OUT == "col" and "l * ldh + row" or "row * ldh + l"}] = y;
        #pragma unroll
        for (int k = 0; k < ${RW - 1}; k++) {
            x[k] = x[k + 1];
            xb[k] = xb[k + 1];
        }
        x[${RW - 1}] = xb[${RW - 1}] = 0.0f;
    }
    if (w == 0 && l < ${K})
        tau[l] = reflector_tau(rho_of, squares_of);
    return bad;
}
