// Panel of family blocked for heights that no CTA or cluster holds in registers: the panel streams through one CTA out of the
// workspace (L2), once a column: the pass that applies reflector j also forms the dot products of column j + 1.
//
// Parameters: NAME, B (16 or 32), ROW_OUT. 512 threads; a group of B lanes holds a row. Formulas and results as in blocks/blocked_panel.cuh.
QRS_KERNEL(${NAME}, 512, 1)
(const float *h_all, i64 ldh, i64 stride_h, float *panel_all, float *tau_all, int first, int count) {
    constexpr int B = ${B}, GROUPS = 512 / B, M = ${M}, N = ${N};
    u8 *smem = dynamic_smem();
    float *partial = reinterpret_cast<float *>(smem); // [GROUPS][B]
    float *rho_of = partial + GROUPS * B;             // [B]
    float *most = rho_of + B;                         // [16]
    const int t = threadIdx.x, c = t % B, group = t / B, rows = M - first;
    const i64 matrix = blockIdx.x;
    const float *h = h_all + matrix * stride_h;
    float *panel = panel_all + matrix * (i64)${M * B};
    for (int row = group; row < rows; row += GROUPS)
        panel[(i64)row * B + c] =
            first + c < N ? h[${ROW_OUT and "(i64)(first + row) * ldh + first + c" or "(i64)(first + c) * ldh + first + row"}] : 0.f;
    block_sync();
    float dot = 0.f, tail = 0.f;
    // Sums over the groups of x'a_c for column j; x is column j below row j.
    auto sum_up = [&](int j) {
        partial[group * B + c] = dot;
        block_sync();
        dot = tail = 0.f;
        for (int g = 0; g < GROUPS; g++) {
            dot += partial[g * B + c];
            tail += partial[g * B + j];
        }
        block_sync();
    };
    auto dots = [&](int j) {
        dot = 0.f;
        for (int row = j + 1 + group; row < rows; row += GROUPS)
            dot = fmaf(panel[(i64)row * B + j], panel[(i64)row * B + c], dot);
        sum_up(j);
    };
    if (count > 0) dots(0);
    for (int j = 0; j < count; j++) {
        float alpha = panel[j * B + j], unlift = 1.f;
        bool nothing = false;
        if (tail < 0x1p-80f) { // uniform; false for NaN
            float largest = 0.f;
            for (int row = j + 1 + t; row < rows; row += 512) largest = fmaxf(largest, fabsf(panel[(i64)row * B + j]));
            largest = warp_max(largest);
            if (lane() == 0) most[warp()] = largest;
            block_sync();
            for (int v = 0; v < 16; v++) largest = fmaxf(largest, most[v]);
            block_sync();
            nothing = largest == 0.f;
            if (!nothing) {
                const int e = pow2_exponent(fmaxf(largest, fabsf(alpha))), half = -e / 2;
                const float up = scale_pow2(1.f, half), up_more = scale_pow2(1.f, -e - half);
                for (int row = j + t; row < rows; row += 512) panel[(i64)row * B + j] = panel[(i64)row * B + j] * up * up_more;
                unlift = scale_pow2(1.f, e);
                block_sync();
                dots(j);
                alpha = panel[j * B + j];
                block_sync();
            }
        }
        float beta = alpha, rho = 0.f, tau = 0.f, g = 0.f, w = 0.f;
        const float p = panel[j * B + c];
        if (!nothing) {
            beta = -copysignf(sqrt_rn(fmaf(alpha, alpha, tail)), alpha);
            rho = div_rn(1.f, alpha - beta);
            tau = div_rn(beta - alpha, beta);
            w = c > j ? tau * fmaf(rho, dot, p) : 0.f;
            g = w * rho;
        }
        block_sync();
        if (group == 0 && !nothing) panel[j * B + c] = c > j ? p - w : c == j ? beta * unlift : p;
        if (t == j) {
            rho_of[j] = rho;
            tau_all[matrix * B + j] = tau;
        }
        // Whole warps stay together for the shuffles: the loop runs to the same end for every lane.
        dot = 0.f;
        const int base = lane() / B * B;
        for (int row0 = j + 1; row0 < rows; row0 += GROUPS) {
            const int row = row0 + group;
            const bool inside = row < rows;
            float v = inside ? panel[(i64)row * B + c] : 0.f;
            const float x = shfl(v, base + j);
            if (c > j && !nothing) v = fmaf(-g, x, v);
            if (inside && c > j && !nothing) panel[(i64)row * B + c] = v;
            const float next = shfl(v, base + (j + 1 < B ? j + 1 : j));
            if (row > j + 1) dot = fmaf(next, v, dot);
        }
        block_sync();
        if (j + 1 < count) sum_up(j + 1);
    }
    for (int row = group; row < rows; row += GROUPS)
        if (row > c) {
            float &v = panel[(i64)row * B + c];
            v = c < count ? v * rho_of[c] : 0.f;
        }
    if (t < B && t >= count) tau_all[matrix * B + t] = 0.f;
}
QRS_ENTRY(${NAME})
