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
    constexpr int TOP = SLOT * 8 / ${RS} < LAYERS ? SLOT * 8 / ${RS} : LAYERS - 1;
    const int l = lane(), w = warp(), cg = l & 7, rl = l >> 3, ri = TOP * ${RS} + w * 4 + rl;
    #pragma unroll 1
    for (int cj = 0; cj < 8; cj++) {
        const int j = SLOT * 8 + cj;
        if (j >= steps)
            break;
        float *part = s.part + (j & 1) * ${W * 32}, *pivot = s.pivot + (j & 1) * 32;
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
            for (int u = 0; u < ${W}; u += 2) {
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
            for (int u = 0; u < ${W}; u++)
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
    const int rows = ${MT} - first, steps = ${K} - first < 32 ? ${K} - first : 32;
    #pragma unroll
    for (int kk = 0; kk < LAYERS; kk++)
        #pragma unroll
        for (int c = 0; c < 4; c++)
            s.x[kk][c] = kk * ${RS} + ri < rows ? panel[(kk * ${RS} + ri) * 36 + c * 8 + cg] : 0.0f;
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
            const int i = kk * ${RS} + ri, row = first + i;
            float below = s.x[kk][c] * s.rho[c];
            if (row < ${M} && col < ${N})
                h[${OUT == "col" and "col * ldh + row" or "row * ldh + col"}] = i > j ? below : times(scale, s.x[kk][c]);
            if (i < rows)
                fused_put(v, i, j, i > j ? below : i == j ? 1.0f : 0.0f);
        }
    }
}
