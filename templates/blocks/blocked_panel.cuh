// Panel of family blocked, rows in registers: B columns of the working matrix, from row `first` down, one CTA (or a cluster) a matrix.
//
// Parameters: NAME; B (16 or 32 columns); THREADS; RT (rows a thread holds); CLUSTER (CTAs that share the rows, 1: no cluster); ROW_OUT.
// A thread holds RT x 4 entries: columns cg + CG s, rows (16 warps, say) 64 kk + 4 w + rl of its CTA's part. Each column takes one fused
// reduction: x'a_c of the un-normalised column x for all c at once, from which v'a_c and the reflector follow (kernels by rows, LAPACK
// geqr2 and larfg in other words):
//   s = x'x below the diagonal, beta = -copysign(sqrt(alpha^2 + s), alpha), rho = 1 / (alpha - beta), tau = (beta - alpha) / beta
//   w_c = tau (a_jc + rho x'a_c);  a_jc -= w_c;  a_ic -= (rho w_c) x_i;  v = rho x
// Tails: exactly zero gives tau = 0 and leaves the diagonal; a square sum under 2^-80 redoes the column lifted by a power of two.
// Out: panel [rows][B] in the workspace: R on and above the diagonal, V below; tau [B]. `rows` = M - first; count reflectors.
% local CG, W = B // 4, THREADS // 32
% local LR = 32 // CG
% local RS = W * LR
QRS_KERNEL(${NAME}, ${THREADS}, 1)
(const float *h_all, i64 ldh, i64 stride_h, float *panel_all, float *tau_all, int first, int count) {
    constexpr int B = ${B}, CG = ${CG}, LR = ${LR}, W = ${W}, RS = ${RS}, RT = ${RT}, CLUSTER = ${CLUSTER}, M = ${M}, N = ${N};
    constexpr int PART = RS * RT; // rows of a CTA
    u8 *smem = dynamic_smem();
    float *partial = reinterpret_cast<float *>(smem);   // [2][W][B]
    float *shared = partial + 2 * W * B;                // [2][CLUSTER][B]: sums of each CTA
    float *pivot = shared + 2 * CLUSTER * B;            // [2][B]: row j before step j
    float *most = pivot + 2 * B;                        // [W + CLUSTER]: largest magnitudes
    const int t = threadIdx.x, l = lane(), w = warp(), cg = l % CG, rl = l / CG, row_in = w * LR + rl;
    const int rank = ${CLUSTER > 1 and "cluster_rank()" or "0"};
    const i64 matrix = blockIdx.x / CLUSTER;
    const int rows = M - first;
    const float *h = h_all + matrix * stride_h;
    float *out = panel_all + matrix * (i64)${M * B};
    float X[RT][4], rho_of[4] = {0.f, 0.f, 0.f, 0.f};
#pragma unroll
    for (int kk = 0; kk < RT; kk++)
#pragma unroll
        for (int s = 0; s < 4; s++) {
            const int row = rank * PART + kk * RS + row_in, column = first + s * CG + cg;
            const bool inside = row < rows && column < N;
            X[kk][s] = inside ? h[${ROW_OUT and "(i64)(first + row) * ldh + column" or "(i64)column * ldh + first + row"}] : 0.f;
        }
    const bool top = rank == 0;
% if CLUSTER > 1 then
    cluster_sync(); // everybody's shared memory exists
% end
#pragma unroll
    for (int sj = 0; sj < 4; sj++) {
#pragma unroll 1
        for (int cj = 0; cj < CG; cj++) {
            const int j = sj * CG + cj;
            if (j >= count) break;
            float unlift = 1.f, gamma = 0.f, alpha = 0.f, beta = 0.f, rho = 0.f, tau = 0.f;
            float x[RT];
            bool lifted = false;
#pragma unroll 1
            for (int pass = 0; pass < 2; pass++) {
                const int b = (j + pass) & 1; // buffers take turns, so that one barrier a column is enough
#pragma unroll
                for (int kk = 0; kk < RT; kk++) x[kk] = shfl(X[kk][sj], rl * CG + cj);
                if (top && row_in <= j) x[0] = 0.f;
                float d[4] = {0.f, 0.f, 0.f, 0.f};
#pragma unroll
                for (int kk = 0; kk < RT; kk++)
#pragma unroll
                    for (int s = sj; s < 4; s++) d[s] = fmaf(x[kk], X[kk][s], d[s]);
                // Sums over the lanes of a column group; half the values leave in each step, so three shuffles do for four sums.
                const bool upper = rl & 2, odd = rl & 1;
                float d0 = (upper ? d[2] : d[0]) + shfl_xor(upper ? d[0] : d[2], 2 * CG);
                const float d1 = (upper ? d[3] : d[1]) + shfl_xor(upper ? d[1] : d[3], 2 * CG);
                d0 = (odd ? d1 : d0) + shfl_xor(odd ? d0 : d1, CG);
% if LR == 8 then
                d0 += shfl_xor(d0, 4 * CG);
% end
                if (rl < 4) partial[(b * W + w) * B + rl * CG + cg] = d0;
                if (top && row_in == j) {
#pragma unroll
                    for (int s = sj; s < 4; s++) {
% if CLUSTER > 1 then
                        for (int r = 0; r < CLUSTER; r++)
                            sts_remote(cluster_map(to_saddr(pivot + b * B + s * CG + cg), r), X[0][s]);
% else
                        pivot[b * B + s * CG + cg] = X[0][s];
% end
                    }
                }
                block_sync();
                const int c = l % B;
                float dot = 0.f;
#pragma unroll
                for (int v = 0; v < W; v++) dot += partial[(b * W + v) * B + c];
% if CLUSTER > 1 then
                if (w == 0 && l < B)
                    for (int r = 0; r < CLUSTER; r++)
                        sts_remote(cluster_map(to_saddr(shared + (b * CLUSTER + rank) * B + c), r), dot);
                cluster_sync();
                dot = 0.f;
                for (int r = 0; r < CLUSTER; r++) dot += shared[(b * CLUSTER + r) * B + c];
% end
                const float tail = shfl(dot, j);
                alpha = pivot[b * B + j];
                const float p = pivot[b * B + c];
                const bool tiny = tail < 0x1p-80f; // uniform over the matrix's CTAs; false for NaN
                if (!tiny || pass == 1) {
                    const float norm = sqrt_rn(fmaf(alpha, alpha, tail));
                    beta = -copysignf(norm, alpha);
                    rho = div_rn(1.f, alpha - beta);
                    tau = div_rn(beta - alpha, beta);
                    gamma = c > j ? tau * fmaf(rho, dot, p) * rho : 0.f;
                    break;
                }
                // The rare case: is the tail exactly zero? If not, lift the column so that its squares count.
                float largest = 0.f;
#pragma unroll
                for (int kk = 0; kk < RT; kk++) largest = fmaxf(largest, fabsf(x[kk]));
                largest = warp_max(largest);
                if (l == 0) most[w] = largest;
                block_sync();
                largest = 0.f;
                for (int v = 0; v < W; v++) largest = fmaxf(largest, most[v]);
% if CLUSTER > 1 then
                if (t == 0)
                    for (int r = 0; r < CLUSTER; r++) sts_remote(cluster_map(to_saddr(most + W + rank), r), largest);
                cluster_sync();
                for (int r = 0; r < CLUSTER; r++) largest = fmaxf(largest, most[W + r]);
                cluster_sync();
% else
                block_sync();
% end
                if (largest == 0.f) break; // tau = 0: H = I
                const int e = pow2_exponent(fmaxf(largest, fabsf(alpha)));
                const int half = -e / 2;
                const float up = scale_pow2(1.f, half), up_more = scale_pow2(1.f, -e - half);
                if (cg == cj) {
#pragma unroll
                    for (int kk = 0; kk < RT; kk++)
                        if (kk > 0 || !top || row_in >= j) X[kk][sj] = X[kk][sj] * up * up_more;
                }
                unlift = scale_pow2(1.f, e);
                lifted = true;
            }
            if (lifted) ${CLUSTER > 1 and "cluster_sync" or "block_sync"}(); // two buffers were used, the next column takes one of them
            float g[4];
#pragma unroll
            for (int s = sj; s < 4; s++) g[s] = shfl(gamma, s * CG + cg);
            if (top && row_in == j) x[0] = alpha - beta; // row j: a_jc -= w_c = gamma_c (alpha - beta)
            if (tau != 0.f) {
                // Finished columns share registers sj with later ones: they stay as they are, even where x holds NaN.
                const bool later = cg > cj;
#pragma unroll
                for (int kk = 0; kk < RT; kk++) {
                    X[kk][sj] = later ? fmaf(-g[sj], x[kk], X[kk][sj]) : X[kk][sj];
#pragma unroll
                    for (int s = sj + 1; s < 4; s++) X[kk][s] = fmaf(-g[s], x[kk], X[kk][s]);
                }
                if (top && row_in == j && cg == cj) X[0][sj] = beta * unlift;
            }
            if (cg == cj) rho_of[sj] = rho;
            if (top && t == 0) tau_all[matrix * B + j] = tau;
        }
    }
#pragma unroll
    for (int kk = 0; kk < RT; kk++)
#pragma unroll
        for (int s = 0; s < 4; s++) {
            const int row = rank * PART + kk * RS + row_in, c = s * CG + cg;
            if (row < rows) out[(i64)row * B + c] = row > c ? (c < count ? X[kk][s] * rho_of[s] : 0.f) : X[kk][s];
        }
    if (top && t < B && t >= count) tau_all[matrix * B + t] = 0.f;
% if CLUSTER > 1 then
    cluster_sync(); // nobody leaves while others may still write here
% end
}
QRS_ENTRY(${NAME})
