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
% local TOPS = math.min(LAYERS, math.max(1, 32 // RS))
% local PS = W == 4 and 4 or W + 4
struct alignas(16) fused_step {
    float part[2][32][${PS}]; // dots by column and warp, one buffer a parity of the column
    float pivot[2][32];       // the pivot row
    f32x4 kept[32];           // alpha, square sum of the tail, rho, exponent of both as a float
};

QRS_DEV float fused_sum(const float *part)
{
    f32x4 v = *(const f32x4 *)part;
    float sum = (v.x + v.y) + (v.z + v.w);
    #pragma unroll
    for (int u = 4; u < ${W}; u += 4) {
        v = *(const f32x4 *)(part + u);
        sum += (v.x + v.y) + (v.z + v.w);
    }
    return sum;
}

// Dots of xb with the four columns.
QRS_DEV void fused_dots(float (&d)[4], const float (&xb)[${LAYERS}], const float (&x)[${LAYERS}][4])
{
    #pragma unroll
    for (int c = 0; c < 4; c++) {
        d[c] = 0.0f;
        #pragma unroll
        for (int kk = 0; kk < ${LAYERS}; kk++)
            d[c] = fmaf(xb[kk], x[kk][c], d[c]);
    }
}

// panel: the columns, shared, row-major with stride 36, `rows` of them, scaled by 2^LIFT; afterwards R on and above the diagonal, V below.
// steps: columns with a reflector. tau: shared, zero past them. The caller synchronises before and after.
${GRAM and "QRS_CALL" or "QRS_DEV"} void fused_rows(float *panel, int rows, int steps, fused_step *s, float *tau)
{
    const int l = lane(), w = warp(), cg = l & 7, rl = l >> 3, ri = w * 4 + rl;
    const int layers = (rows + ${RS - 1}) / ${RS};
    float x[${LAYERS}][4], xb[${LAYERS}], d[4];
    float *own = panel + ri * 36 + cg;
    #pragma unroll
    for (int kk = 0; kk < ${LAYERS}; kk++) {
        const bool in = kk * ${RS} + ri < rows;
        #pragma unroll
        for (int c = 0; c < 4; c++)
            x[kk][c] = in ? own[kk * ${RS * 36} + c * 8] : 0.0f;
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
        for (int kk = 0; kk < ${TOPS}; kk++)
            if (kk * ${RS} + ri == j) {
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
        part[l * ${PS} + w] = e;
        block_sync();
        float squares = fused_sum(part + cj * ${PS}), dn = fused_sum(part + (cj + 1) * ${PS}), alpha = pivot[cj], pn = pivot[cj + 1];
        const float mine = fused_sum(part + l * ${PS});
        float dot[4], p[4], next[${LAYERS}];
        #pragma unroll
        for (int c = 0; c < 4; c++) {
            dot[c] = shfl(mine, c * 8 + cg);
            p[c] = pivot[c * 8 + cg];
        }
        if (squares < QRS_TINY_SQUARES * 0x1p12f && !again) {
            // Rare, and the same for the whole block: either the tail is exactly zero, or the step repeats rescaled.
            float most = 0.0f;
            #pragma unroll
            for (int kk = 0; kk < ${LAYERS}; kk++)
                most = fmaxf(most, fabsf(xb[kk]));
            most = warp_max(most);
            block_sync();
            if (l == 0)
                part[w] = most;
            block_sync();
            #pragma unroll 1
            for (int u = 0; u < ${W}; u++)
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
                    for (int kk = 0; kk < ${LAYERS}; kk++) {
                        xb[kk] = times(shrink, xb[kk]);
                        if (cg == cj && (kk >= ${TOPS} || kk * ${RS} + ri >= j)) // entries of R above the pivot keep their scale
                            x[kk][0] = times(shrink, x[kk][0]);
                    }
                }
                continue;
            }
        }
        #pragma unroll
        for (int kk = 0; kk < ${LAYERS}; kk++)
            next[kk] = shfl(cj == 7 ? x[kk][1] : x[kk][0], (l & 24) + ((cj + 1) & 7));

        // As make_reflector, but for the Newton steps: rho and step are good to two units in the last place, and tau is made from the
        // v that is stored.
        const float square = fmaf(alpha, alpha, squares), q = rsqrt_normal(square), gap = fabsf(alpha) + square * q;
        const float rho = copysignf(rcp_normal(gap), alpha), step = copysignf(q, alpha);
        const float gn = step * fmaf(rho, dn, pn);
        #pragma unroll
        for (int kk = 0; kk < ${TOPS}; kk++)
            if (kk * ${RS} + ri == j)
                xb[kk] = copysignf(gap, alpha);
        #pragma unroll
        for (int kk = 0; kk < ${LAYERS}; kk++)
            next[kk] = fmaf(-gn, xb[kk], next[kk]);
        #pragma unroll
        for (int kk = 0; kk < ${TOPS}; kk++)
            if (kk * ${RS} + ri <= j + 1)
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
            for (int k0 = 0; k0 < ${LAYERS}; k0 += 3)
                if (k0 == 0 || k0 < layers) {
                    #pragma unroll
                    for (int kk = k0; kk < k0 + 3 && kk < ${LAYERS}; kk++)
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
        for (int kk = 0; kk < ${LAYERS}; kk++)
            xb[kk] = next[kk];
        fresh = again = zero = false;
        scale = 0;
        j++;
        if (++cj == 8) {
            cj = 0;
            slot++;
            #pragma unroll
            for (int kk = 0; kk < ${LAYERS}; kk++) {
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
        for (int kk = 0; kk < ${LAYERS}; kk++) {
            const int i = kk * ${RS} + ri;
            if (i < rows)
                to[kk * ${RS * 36}] = i > j ? x[kk][c] * rho : x[kk][c];
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
