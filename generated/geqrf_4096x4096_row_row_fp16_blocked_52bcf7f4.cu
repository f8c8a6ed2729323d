#line 135 "families/blocked.lua"
#include "device/core.cuh"
#include "device/math.cuh"
#include "device/warp.cuh"
#include "device/block.cuh"
#include "device/mma.cuh"
#include "device/cluster.cuh"
#include "device/flag.cuh"
using namespace qrs;

#line 1 "blocks/blocked_prologue.cuh"
// First launch of family blocked: A in its layout becomes the working matrix H in its own, each column multiplied by the power of two that
// brings its largest finite magnitude to [1, 2). A CTA of 256 threads takes 32 columns of one matrix; in place is safe, since it reads
// and writes the same columns, tile by tile.
//
// Parameters: M, N; ROW_IN, ROW_OUT: layouts; STATS: whether to record which columns are concentrated (for the choice of products).
// Writes exponents [batch][N], concentrated [batch][N] (1: few rows carry the column's weight), sets bit 1 of flags [batch] on NaN or Inf.
QRS_KERNEL(prologue, 256, 0)
(const float *a_all, i64 lda, i64 stride_a, float *h_all, i64 ldh, i64 stride_h, int *exponents, int *concentrated, int *flags) {
    constexpr int M = 4096, N = 4096, TILES = (N + 31) / 32;
    u8 *smem = dynamic_smem();
    float *tile = reinterpret_cast<float *>(smem);                 // [32][33]
    float *first = tile + 32 * 33, *second = first + 32;           // [32] each: the scale in two factors
    float *l1 = second + 32, *l2 = l1 + 32;
    const int t = threadIdx.x, c_tile = (blockIdx.x % TILES) * 32;
    const i64 matrix = blockIdx.x / TILES;
    const float *a = a_all + matrix * stride_a;
    float *h = h_all + matrix * stride_h;
    // Entry k of this thread in a 32 x 32 tile, consecutive threads along the layout's contiguous direction.
#line 20 "blocks/blocked_prologue.cuh"
    float largest[4] = {0.f, 0.f, 0.f, 0.f};
    bool finite = true;
    for (int r0 = 0; r0 < M; r0 += 32) {
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const int r = (t >> 5) + 8 * k, c = t & 31;
            if (r0 + r < M && c_tile + c < N) {
                const float x = fabsf(a[(i64)(r0 + r) * lda + c_tile + c]);
                if (is_finite(x)) largest[k] = fmaxf(largest[k], x);
                else finite = false;
            }
        }
    }
#pragma unroll
    for (int k = 0; k < 4; k++) {
        const int r = (t >> 5) + 8 * k, c = t & 31;
        tile[r * 33 + c] = largest[k];
    }
    if (block_any(!finite) && t == 0) atomic_or(flags + matrix, 1);
    if (t < 32) {
        float x = 0.f;
        for (int r = 0; r < 32; r++) x = fmaxf(x, tile[r * 33 + t]);
        const int e = x > 0.f ? pow2_exponent(x) : 0;
        // 2^149 is no float: two factors. The second is 1 but for subnormal columns.
        const int f = -e > 127 ? 127 : -e;
        first[t] = scale_pow2(1.f, f);
        second[t] = scale_pow2(1.f, -e - f);
        if (c_tile + t < N) exponents[matrix * N + c_tile + t] = e;
        l1[t] = l2[t] = 0.f;
    }
    block_sync();
    for (int r0 = 0; r0 < M; r0 += 32) {
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const int r = (t >> 5) + 8 * k, c = t & 31;
            float x = 0.f;
            if (r0 + r < M && c_tile + c < N)
                x = a[(i64)(r0 + r) * lda + c_tile + c] * first[c] * second[c];
            tile[r * 33 + c] = x;
        }
        block_sync();
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const int r = (t >> 5) + 8 * k, c = t & 31;
            if (r0 + r < M && c_tile + c < N)
                h[(i64)(r0 + r) * ldh + c_tile + c] = tile[r * 33 + c];
        }
#line 68 "blocks/blocked_prologue.cuh"
        if (t < 32) {
            float s1 = l1[t], s2 = l2[t];
            for (int r = 0; r < 32; r++) {
                const float x = tile[r * 33 + t];
                s1 += fabsf(x);
                s2 = fmaf(x, x, s2);
            }
            l1[t] = s1, l2[t] = s2;
        }
#line 78 "blocks/blocked_prologue.cuh"
        block_sync();
    }
#line 81 "blocks/blocked_prologue.cuh"
    // ||a||_1 / (sqrt(m) ||a||_2) is 0.80 for normal entries, 0.34 and 0.20 for graded rows and bands. Zero columns need nothing.
    if (t < 32 && c_tile + t < N) concentrated[matrix * N + c_tile + t] = !(l1[t] * l1[t] >= 1474.56f * l2[t]);
#line 84 "blocks/blocked_prologue.cuh"
}
QRS_ENTRY(prologue)
#line 1 "blocks/blocked_panel.cuh"
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
#line 14 "blocks/blocked_panel.cuh"
QRS_KERNEL(panel_cluster_4, 512, 1)
(const float *h_all, i64 ldh, i64 stride_h, float *panel_all, float *tau_all, int first, int count) {
    constexpr int B = 32, CG = 8, LR = 4, W = 16, RS = 64, RT = 16, CLUSTER = 4, M = 4096, N = 4096;
    constexpr int PART = RS * RT; // rows of a CTA
    u8 *smem = dynamic_smem();
    float *partial = reinterpret_cast<float *>(smem);   // [2][W][B]
    float *shared = partial + 2 * W * B;                // [2][CLUSTER][B]: sums of each CTA
    float *pivot = shared + 2 * CLUSTER * B;            // [2][B]: row j before step j
    float *most = pivot + 2 * B;                        // [W + CLUSTER]: largest magnitudes
    const int t = threadIdx.x, l = lane(), w = warp(), cg = l % CG, rl = l / CG, row_in = w * LR + rl;
    const int rank = cluster_rank();
    const i64 matrix = blockIdx.x / CLUSTER;
    const int rows = M - first;
    const float *h = h_all + matrix * stride_h;
    float *out = panel_all + matrix * (i64)131072;
    float X[RT][4], rho_of[4] = {0.f, 0.f, 0.f, 0.f};
#pragma unroll
    for (int kk = 0; kk < RT; kk++)
#pragma unroll
        for (int s = 0; s < 4; s++) {
            const int row = rank * PART + kk * RS + row_in, column = first + s * CG + cg;
            const bool inside = row < rows && column < N;
            X[kk][s] = inside ? h[(i64)(first + row) * ldh + column] : 0.f;
        }
    const bool top = rank == 0;
#line 40 "blocks/blocked_panel.cuh"
    cluster_sync(); // everybody's shared memory exists
#line 42 "blocks/blocked_panel.cuh"
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
#line 70 "blocks/blocked_panel.cuh"
                if (rl < 4) partial[(b * W + w) * B + rl * CG + cg] = d0;
                if (top && row_in == j) {
#pragma unroll
                    for (int s = sj; s < 4; s++) {
#line 75 "blocks/blocked_panel.cuh"
                        for (int r = 0; r < CLUSTER; r++)
                            sts_remote(cluster_map(to_saddr(pivot + b * B + s * CG + cg), r), X[0][s]);
#line 80 "blocks/blocked_panel.cuh"
                    }
                }
                block_sync();
                const int c = l % B;
                float dot = 0.f;
#pragma unroll
                for (int v = 0; v < W; v++) dot += partial[(b * W + v) * B + c];
#line 88 "blocks/blocked_panel.cuh"
                if (w == 0 && l < B)
                    for (int r = 0; r < CLUSTER; r++)
                        sts_remote(cluster_map(to_saddr(shared + (b * CLUSTER + rank) * B + c), r), dot);
                cluster_sync();
                dot = 0.f;
                for (int r = 0; r < CLUSTER; r++) dot += shared[(b * CLUSTER + r) * B + c];
#line 95 "blocks/blocked_panel.cuh"
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
#line 117 "blocks/blocked_panel.cuh"
                if (t == 0)
                    for (int r = 0; r < CLUSTER; r++) sts_remote(cluster_map(to_saddr(most + W + rank), r), largest);
                cluster_sync();
                for (int r = 0; r < CLUSTER; r++) largest = fmaxf(largest, most[W + r]);
                cluster_sync();
#line 125 "blocks/blocked_panel.cuh"
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
            if (lifted) cluster_sync(); // two buffers were used, the next column takes one of them
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
#line 166 "blocks/blocked_panel.cuh"
    cluster_sync(); // nobody leaves while others may still write here
#line 168 "blocks/blocked_panel.cuh"
}
QRS_ENTRY(panel_cluster_4)
#line 1 "blocks/blocked_panel.cuh"
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
#line 14 "blocks/blocked_panel.cuh"
QRS_KERNEL(panel_cluster_2, 512, 1)
(const float *h_all, i64 ldh, i64 stride_h, float *panel_all, float *tau_all, int first, int count) {
    constexpr int B = 32, CG = 8, LR = 4, W = 16, RS = 64, RT = 16, CLUSTER = 2, M = 4096, N = 4096;
    constexpr int PART = RS * RT; // rows of a CTA
    u8 *smem = dynamic_smem();
    float *partial = reinterpret_cast<float *>(smem);   // [2][W][B]
    float *shared = partial + 2 * W * B;                // [2][CLUSTER][B]: sums of each CTA
    float *pivot = shared + 2 * CLUSTER * B;            // [2][B]: row j before step j
    float *most = pivot + 2 * B;                        // [W + CLUSTER]: largest magnitudes
    const int t = threadIdx.x, l = lane(), w = warp(), cg = l % CG, rl = l / CG, row_in = w * LR + rl;
    const int rank = cluster_rank();
    const i64 matrix = blockIdx.x / CLUSTER;
    const int rows = M - first;
    const float *h = h_all + matrix * stride_h;
    float *out = panel_all + matrix * (i64)131072;
    float X[RT][4], rho_of[4] = {0.f, 0.f, 0.f, 0.f};
#pragma unroll
    for (int kk = 0; kk < RT; kk++)
#pragma unroll
        for (int s = 0; s < 4; s++) {
            const int row = rank * PART + kk * RS + row_in, column = first + s * CG + cg;
            const bool inside = row < rows && column < N;
            X[kk][s] = inside ? h[(i64)(first + row) * ldh + column] : 0.f;
        }
    const bool top = rank == 0;
#line 40 "blocks/blocked_panel.cuh"
    cluster_sync(); // everybody's shared memory exists
#line 42 "blocks/blocked_panel.cuh"
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
#line 70 "blocks/blocked_panel.cuh"
                if (rl < 4) partial[(b * W + w) * B + rl * CG + cg] = d0;
                if (top && row_in == j) {
#pragma unroll
                    for (int s = sj; s < 4; s++) {
#line 75 "blocks/blocked_panel.cuh"
                        for (int r = 0; r < CLUSTER; r++)
                            sts_remote(cluster_map(to_saddr(pivot + b * B + s * CG + cg), r), X[0][s]);
#line 80 "blocks/blocked_panel.cuh"
                    }
                }
                block_sync();
                const int c = l % B;
                float dot = 0.f;
#pragma unroll
                for (int v = 0; v < W; v++) dot += partial[(b * W + v) * B + c];
#line 88 "blocks/blocked_panel.cuh"
                if (w == 0 && l < B)
                    for (int r = 0; r < CLUSTER; r++)
                        sts_remote(cluster_map(to_saddr(shared + (b * CLUSTER + rank) * B + c), r), dot);
                cluster_sync();
                dot = 0.f;
                for (int r = 0; r < CLUSTER; r++) dot += shared[(b * CLUSTER + r) * B + c];
#line 95 "blocks/blocked_panel.cuh"
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
#line 117 "blocks/blocked_panel.cuh"
                if (t == 0)
                    for (int r = 0; r < CLUSTER; r++) sts_remote(cluster_map(to_saddr(most + W + rank), r), largest);
                cluster_sync();
                for (int r = 0; r < CLUSTER; r++) largest = fmaxf(largest, most[W + r]);
                cluster_sync();
#line 125 "blocks/blocked_panel.cuh"
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
            if (lifted) cluster_sync(); // two buffers were used, the next column takes one of them
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
#line 166 "blocks/blocked_panel.cuh"
    cluster_sync(); // nobody leaves while others may still write here
#line 168 "blocks/blocked_panel.cuh"
}
QRS_ENTRY(panel_cluster_2)
#line 1 "blocks/blocked_panel.cuh"
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
#line 14 "blocks/blocked_panel.cuh"
QRS_KERNEL(panel_16, 512, 1)
(const float *h_all, i64 ldh, i64 stride_h, float *panel_all, float *tau_all, int first, int count) {
    constexpr int B = 32, CG = 8, LR = 4, W = 16, RS = 64, RT = 16, CLUSTER = 1, M = 4096, N = 4096;
    constexpr int PART = RS * RT; // rows of a CTA
    u8 *smem = dynamic_smem();
    float *partial = reinterpret_cast<float *>(smem);   // [2][W][B]
    float *shared = partial + 2 * W * B;                // [2][CLUSTER][B]: sums of each CTA
    float *pivot = shared + 2 * CLUSTER * B;            // [2][B]: row j before step j
    float *most = pivot + 2 * B;                        // [W + CLUSTER]: largest magnitudes
    const int t = threadIdx.x, l = lane(), w = warp(), cg = l % CG, rl = l / CG, row_in = w * LR + rl;
    const int rank = 0;
    const i64 matrix = blockIdx.x / CLUSTER;
    const int rows = M - first;
    const float *h = h_all + matrix * stride_h;
    float *out = panel_all + matrix * (i64)131072;
    float X[RT][4], rho_of[4] = {0.f, 0.f, 0.f, 0.f};
#pragma unroll
    for (int kk = 0; kk < RT; kk++)
#pragma unroll
        for (int s = 0; s < 4; s++) {
            const int row = rank * PART + kk * RS + row_in, column = first + s * CG + cg;
            const bool inside = row < rows && column < N;
            X[kk][s] = inside ? h[(i64)(first + row) * ldh + column] : 0.f;
        }
    const bool top = rank == 0;
#line 42 "blocks/blocked_panel.cuh"
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
#line 70 "blocks/blocked_panel.cuh"
                if (rl < 4) partial[(b * W + w) * B + rl * CG + cg] = d0;
                if (top && row_in == j) {
#pragma unroll
                    for (int s = sj; s < 4; s++) {
#line 78 "blocks/blocked_panel.cuh"
                        pivot[b * B + s * CG + cg] = X[0][s];
#line 80 "blocks/blocked_panel.cuh"
                    }
                }
                block_sync();
                const int c = l % B;
                float dot = 0.f;
#pragma unroll
                for (int v = 0; v < W; v++) dot += partial[(b * W + v) * B + c];
#line 95 "blocks/blocked_panel.cuh"
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
#line 123 "blocks/blocked_panel.cuh"
                block_sync();
#line 125 "blocks/blocked_panel.cuh"
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
            if (lifted) block_sync(); // two buffers were used, the next column takes one of them
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
#line 168 "blocks/blocked_panel.cuh"
}
QRS_ENTRY(panel_16)
#line 1 "blocks/blocked_panel.cuh"
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
#line 14 "blocks/blocked_panel.cuh"
QRS_KERNEL(panel_8, 512, 1)
(const float *h_all, i64 ldh, i64 stride_h, float *panel_all, float *tau_all, int first, int count) {
    constexpr int B = 32, CG = 8, LR = 4, W = 16, RS = 64, RT = 8, CLUSTER = 1, M = 4096, N = 4096;
    constexpr int PART = RS * RT; // rows of a CTA
    u8 *smem = dynamic_smem();
    float *partial = reinterpret_cast<float *>(smem);   // [2][W][B]
    float *shared = partial + 2 * W * B;                // [2][CLUSTER][B]: sums of each CTA
    float *pivot = shared + 2 * CLUSTER * B;            // [2][B]: row j before step j
    float *most = pivot + 2 * B;                        // [W + CLUSTER]: largest magnitudes
    const int t = threadIdx.x, l = lane(), w = warp(), cg = l % CG, rl = l / CG, row_in = w * LR + rl;
    const int rank = 0;
    const i64 matrix = blockIdx.x / CLUSTER;
    const int rows = M - first;
    const float *h = h_all + matrix * stride_h;
    float *out = panel_all + matrix * (i64)131072;
    float X[RT][4], rho_of[4] = {0.f, 0.f, 0.f, 0.f};
#pragma unroll
    for (int kk = 0; kk < RT; kk++)
#pragma unroll
        for (int s = 0; s < 4; s++) {
            const int row = rank * PART + kk * RS + row_in, column = first + s * CG + cg;
            const bool inside = row < rows && column < N;
            X[kk][s] = inside ? h[(i64)(first + row) * ldh + column] : 0.f;
        }
    const bool top = rank == 0;
#line 42 "blocks/blocked_panel.cuh"
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
#line 70 "blocks/blocked_panel.cuh"
                if (rl < 4) partial[(b * W + w) * B + rl * CG + cg] = d0;
                if (top && row_in == j) {
#pragma unroll
                    for (int s = sj; s < 4; s++) {
#line 78 "blocks/blocked_panel.cuh"
                        pivot[b * B + s * CG + cg] = X[0][s];
#line 80 "blocks/blocked_panel.cuh"
                    }
                }
                block_sync();
                const int c = l % B;
                float dot = 0.f;
#pragma unroll
                for (int v = 0; v < W; v++) dot += partial[(b * W + v) * B + c];
#line 95 "blocks/blocked_panel.cuh"
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
#line 123 "blocks/blocked_panel.cuh"
                block_sync();
#line 125 "blocks/blocked_panel.cuh"
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
            if (lifted) block_sync(); // two buffers were used, the next column takes one of them
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
#line 168 "blocks/blocked_panel.cuh"
}
QRS_ENTRY(panel_8)
#line 1 "blocks/blocked_panel.cuh"
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
#line 14 "blocks/blocked_panel.cuh"
QRS_KERNEL(panel_4, 512, 1)
(const float *h_all, i64 ldh, i64 stride_h, float *panel_all, float *tau_all, int first, int count) {
    constexpr int B = 32, CG = 8, LR = 4, W = 16, RS = 64, RT = 4, CLUSTER = 1, M = 4096, N = 4096;
    constexpr int PART = RS * RT; // rows of a CTA
    u8 *smem = dynamic_smem();
    float *partial = reinterpret_cast<float *>(smem);   // [2][W][B]
    float *shared = partial + 2 * W * B;                // [2][CLUSTER][B]: sums of each CTA
    float *pivot = shared + 2 * CLUSTER * B;            // [2][B]: row j before step j
    float *most = pivot + 2 * B;                        // [W + CLUSTER]: largest magnitudes
    const int t = threadIdx.x, l = lane(), w = warp(), cg = l % CG, rl = l / CG, row_in = w * LR + rl;
    const int rank = 0;
    const i64 matrix = blockIdx.x / CLUSTER;
    const int rows = M - first;
    const float *h = h_all + matrix * stride_h;
    float *out = panel_all + matrix * (i64)131072;
    float X[RT][4], rho_of[4] = {0.f, 0.f, 0.f, 0.f};
#pragma unroll
    for (int kk = 0; kk < RT; kk++)
#pragma unroll
        for (int s = 0; s < 4; s++) {
            const int row = rank * PART + kk * RS + row_in, column = first + s * CG + cg;
            const bool inside = row < rows && column < N;
            X[kk][s] = inside ? h[(i64)(first + row) * ldh + column] : 0.f;
        }
    const bool top = rank == 0;
#line 42 "blocks/blocked_panel.cuh"
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
#line 70 "blocks/blocked_panel.cuh"
                if (rl < 4) partial[(b * W + w) * B + rl * CG + cg] = d0;
                if (top && row_in == j) {
#pragma unroll
                    for (int s = sj; s < 4; s++) {
#line 78 "blocks/blocked_panel.cuh"
                        pivot[b * B + s * CG + cg] = X[0][s];
#line 80 "blocks/blocked_panel.cuh"
                    }
                }
                block_sync();
                const int c = l % B;
                float dot = 0.f;
#pragma unroll
                for (int v = 0; v < W; v++) dot += partial[(b * W + v) * B + c];
#line 95 "blocks/blocked_panel.cuh"
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
#line 123 "blocks/blocked_panel.cuh"
                block_sync();
#line 125 "blocks/blocked_panel.cuh"
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
            if (lifted) block_sync(); // two buffers were used, the next column takes one of them
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
#line 168 "blocks/blocked_panel.cuh"
}
QRS_ENTRY(panel_4)
#line 1 "blocks/blocked_assembly.cuh"
// Assembly of family blocked: a factored panel becomes R (scaled back), V and tau in the user's arrays, and the copies of V and T that the
// update reads. CTAs of 256 threads take 128 rows each and form their part of V'V; the last of a matrix to finish adds the parts in
// order (so the bits don't depend on who is last) and forms T.
//
// Parameters: B, M, N, K = min(M, N), ROW_OUT, TERMS (0: V in fp32, else in two fp16 terms), V_SCALE (of those terms).
// T is the inverse form of larft (Puglisi; Joffrain et al.): T (I + striu(V'V) D) = D, D = diag(tau). tau = 0 gives a zero row and column.
// v_terms [batch][2][M][B] u16, or v_full [batch][M][B] float: unit diagonal, zeros above. t_all [batch][B][B] float, row-major.
// parts [batch][chunks][B][B] float; tickets [batch] zero before and after.
QRS_KERNEL(assembly, 256, 0)
(const float *panel_all, const float *panel_tau, const int *exponents, float *h_all, i64 ldh, i64 stride_h, float *tau_all, i64 stride_tau,
 u8 *v_all, float *t_all, float *parts, int *tickets, int first, int chunks, int update) {
    constexpr int B = 32, M = 4096, N = 4096, K = 4096, LD = B + 1, CHUNK = 128;
    u8 *smem = dynamic_smem();
    float *tile = reinterpret_cast<float *>(smem); // [CHUNK][LD]
    float *s = tile + CHUNK * LD;                  // [B][LD]: V'V
    float *tau_s = s + B * LD;                     // [B]
    int *last = reinterpret_cast<int *>(tau_s + B);
    const int t = threadIdx.x, chunk = blockIdx.x % chunks, rows = M - first;
    const i64 matrix = blockIdx.x / chunks;
    const float *panel = panel_all + matrix * (i64)131072;
    float *h = h_all + matrix * stride_h;
    for (int i = t; i < CHUNK * B; i += 256) {
        const int row = chunk * CHUNK + i / B;
        tile[i / B * LD + i % B] = row < rows ? panel[(i64)row * B + i % B] : 0.f;
    }
    if (t < B) {
        const float tau = panel_tau[matrix * B + t];
        tau_s[t] = tau;
        if (chunk == 0 && first + t < K) tau_all[matrix * stride_tau + first + t] = tau;
    }
    block_sync();
    for (int i = t; i < CHUNK * B; i += 256) {
#line 34 "blocks/blocked_assembly.cuh"
        const int r = i / B, c = i % B;
#line 38 "blocks/blocked_assembly.cuh"
        const int row = chunk * CHUNK + r;
        if (row < rows && first + c < N) {
            float x = tile[r * LD + c];
            if (row <= c) x = scale_pow2(x, exponents[matrix * N + first + c]);
            h[(i64)(first + row) * ldh + first + c] = x;
        }
    }
    if (!update) return;
    block_sync();
    for (int i = t; i < CHUNK * B; i += 256) {
        const int r = i / B, c = i % B, row = chunk * CHUNK + r;
        if (row >= rows) continue;
        float &x = tile[r * LD + c];
        if (row <= c) x = row == c ? 1.f : 0.f;
#line 55 "blocks/blocked_assembly.cuh"
        u16 *v = reinterpret_cast<u16 *>(v_all) + matrix * (i64)262144;
        const float scaled = x * 32768.0f;
        v[(i64)row * B + c] = f16_bits(scaled);
        v[(i64)(M + row) * B + c] = f16_bits(scaled - f16_value(f16_bits(scaled)));
#line 60 "blocks/blocked_assembly.cuh"
    }
    block_sync();
    // This chunk's part of V'V: tiles of 4 x 4 sums a thread, row groups side by side, then added in turn.
    constexpr int QUADS = B / 4, GROUPS = 256 / (QUADS * QUADS);
    const int group = t / (QUADS * QUADS), i0 = t % (QUADS * QUADS) / QUADS * 4, c0 = t % QUADS * 4;
    float sum[4][4];
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int c = 0; c < 4; c++) sum[i][c] = 0.f;
#pragma unroll 4
    for (int r = group; r < CHUNK; r += GROUPS) {
        float a[4], b[4];
#pragma unroll
        for (int i = 0; i < 4; i++) a[i] = tile[r * LD + i0 + i], b[i] = tile[r * LD + c0 + i];
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int c = 0; c < 4; c++) sum[i][c] = fmaf(a[i], b[c], sum[i][c]);
    }
    for (int turn = 0; turn < GROUPS; turn++) {
        if (group == turn) {
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int c = 0; c < 4; c++) {
                    float &to = s[(i0 + i) * LD + c0 + c];
                    to = turn == 0 ? sum[i][c] : to + sum[i][c];
                }
        }
        block_sync();
    }
    if (chunks > 1) {
        float *part = parts + (matrix * chunks + chunk) * (B * B);
        for (int i = t; i < B * B; i += 256) part[i] = s[i / B * LD + i % B];
        fence_gpu();
        block_sync();
        if (t == 0) *last = add_release(tickets + matrix, 1) == chunks - 1;
        block_sync();
        if (!*last) return;
        fence_gpu();
        part = parts + matrix * chunks * (B * B);
        for (int i = t; i < B * B; i += 256) {
            float x = 0.f;
            for (int k = 0; k < chunks; k++) x += load_cg(part + (i64)k * (B * B) + i);
            s[i / B * LD + i % B] = x;
        }
        if (t == 0) tickets[matrix] = 0;
        block_sync();
    }
    // Row `lane` of T, in registers: T_ij = -tau_j sum_{i <= l < j} T_il S_lj.
    if (t < 32) {
        float row[B];
#pragma unroll
        for (int j = 0; j < B; j++) {
            float even = 0.f, odd = 0.f;
#pragma unroll
            for (int l = 0; l < j; l++) {
                if (l & 1) odd = fmaf(row[l], s[l * LD + j], odd);
                else even = fmaf(row[l], s[l * LD + j], even);
            }
            row[j] = t == j ? tau_s[j] : t < j ? -tau_s[j] * (even + odd) : 0.f;
        }
        if (t < B) {
#pragma unroll
            for (int j = 0; j < B; j++) tile[t * LD + j] = row[j];
        }
    }
    block_sync();
    for (int i = t; i < B * B; i += 256) t_all[matrix * (B * B) + i] = tile[i / B * LD + i % B];
}
QRS_ENTRY(assembly)
#line 1 "blocks/blocked_update.cuh"
// Trailing update of family blocked: C -= V (T' (V' C)) for a tile of 64 columns of one matrix, 256 threads, two passes over the rows in
// chunks of 64 (LAPACK larfb with the compact WY form of Schreiber and Van Loan). The first B rows leave as rows of R, scaled back.
//
// Parameters: B (16 or 32), M, N, ROW_OUT, TERMS (0: FFMA in fp32; 1: one fp16 product, fp32 accumulation, but two terms for tiles that hold
// a concentrated column: its error would stand out against the small 1-norm; 2: always two terms, three products, fp32 level). V_SCALE and C_SCALE: powers of two on the fp16 operands V and
// C or W', which keep large sums below fp16's end and low terms above its subnormals.
// W' = T' W: entries (t + 256 k) / 64, t % 64 for this thread. ts [B][B + 1], ws [B][68].
constexpr int UPDATE_OWN = 8;
QRS_DEV void apply_t(float (&z)[UPDATE_OWN], const float *ts, const float *ws) {
    const int t = threadIdx.x, c = t % 64;
#pragma unroll
    for (int k = 0; k < UPDATE_OWN; k++) {
        const int j = (t + 256 * k) / 64;
        z[k] = 0.f;
        for (int i = 0; i <= j; i++) z[k] = fmaf(ts[i * 33 + j], ws[i * 68 + c], z[k]);
    }
}

QRS_KERNEL(update, 256, 2)
(float *h_all, i64 ldh, i64 stride_h, const u8 *v_all, const float *t_all, const int *exponents, const int *concentrated, int *flags, int first,
 int tiles) {
    constexpr int B = 32, M = 4096, N = 4096, TERMS = 1;
    u8 *smem = dynamic_smem();
    const int t = threadIdx.x, rows = M - first;
    const int c_first = first + B + (blockIdx.x % tiles) * 64;
    const i64 matrix = blockIdx.x / tiles;
    float *h = h_all + matrix * stride_h;
    float *ts = reinterpret_cast<float *>(smem); // [B][B + 1]
    float *ws = reinterpret_cast<float *>(smem + 4224);
    for (int i = t; i < B * B; i += 256) ts[i / B * (B + 1) + i % B] = t_all[matrix * (B * B) + i];
    auto element = [&](int row, int column) -> float & {
        return h[(i64)(first + row) * ldh + column];
    };
#line 133 "blocks/blocked_update.cuh"
    // Strides of 80 and 144 bytes keep ldmatrix free of bank conflicts.
    constexpr int LV = B + 8, LC = 72, VT = 64 * LV, CT = 64 * LC, ZT = B * LC; // in fp16 elements
    const u16 *v = reinterpret_cast<const u16 *>(v_all) + matrix * (i64)262144;
    u16 *vs = reinterpret_cast<u16 *>(ws + B * 68); // [2][64][LV]
    u16 *cs = vs + 2 * VT;                          // [2][64][LC]: C's terms; in the second pass W' [2][B][LC]
    constexpr float SCALE = 4194304.0f, UNSCALE = 2.384185791015625e-07f;
    const int w = warp(), l = lane(), g = l >> 2, q = l & 3;
#line 141 "blocks/blocked_update.cuh"
    const bool split = block_any(t < 64 && c_first + t < N && concentrated[matrix * N + c_first + t]);
    if (split && t == 0) atomic_or(flags + matrix, 4);
#line 146 "blocks/blocked_update.cuh"
    auto load_v = [&](int r0) {
        constexpr int OCTETS = B / 8; // 16 bytes at a time
        for (int i = t; i < (split ? 2 : 1) * 64 * OCTETS; i += 256) {
            const int term = i / (64 * OCTETS), r = i / OCTETS % 64, c = i % OCTETS * 8;
            const u32x4 zero = {0, 0, 0, 0};
            *reinterpret_cast<u32x4 *>(vs + term * VT + r * LV + c) =
                r0 + r < rows ? *reinterpret_cast<const u32x4 *>(v + ((i64)term * M + r0 + r) * B + c) : zero;
        }
    };
    {
        float acc[B / 16][4];
#pragma unroll
        for (int i = 0; i < B / 16; i++)
#pragma unroll
            for (int e = 0; e < 4; e++) acc[i][e] = 0.f;
        for (int r0 = 0; r0 < rows; r0 += 64) {
            load_v(r0);
            for (int i = t; i < 4096; i += 256) {
                const int r = i / 64, c = i % 64;
                const float x = r0 + r < rows && c_first + c < N ? element(r0 + r, c_first + c) : 0.f;
                const float scaled = x * 128.0f;
                const u16 upper = f16_bits(scaled);
                cs[r * LC + c] = upper;
                if (split) cs[CT + r * LC + c] = f16_bits(scaled - f16_value(upper));
            }
            block_sync();
            // Warp w: columns 8 w .. 8 w + 7 of W = V' C, all B rows.
#pragma unroll
            for (int s = 0; s < 4; s++) {
                u32 c_upper[2], c_lower[2] = {0, 0};
                ldmatrix_x2_trans(c_upper, to_saddr(cs + (s * 16 + (l & 15)) * LC + w * 8));
                if (split) ldmatrix_x2_trans(c_lower, to_saddr(cs + CT + (s * 16 + (l & 15)) * LC + w * 8));
#pragma unroll
                for (int i = 0; i < B / 16; i++) {
                    // A = V' : matrices (v 0-7, r 0-7), (v 8-15, r 0-7), (v 0-7, r 8-15), (v 8-15, r 8-15), stored by rows r
                    const int r = s * 16 + (l & 7) + (l >> 4) * 8, c = i * 16 + (l >> 3 & 1) * 8;
                    u32 a[4];
                    ldmatrix_x4_trans(a, to_saddr(vs + r * LV + c));
                    if (split) {
                        u32 a_lower[4];
                        ldmatrix_x4_trans(a_lower, to_saddr(vs + VT + r * LV + c));
                        mma_f16(acc[i], a, c_lower[0], c_lower[1]);
                        mma_f16(acc[i], a_lower, c_upper[0], c_upper[1]);
                    }
                    mma_f16(acc[i], a, c_upper[0], c_upper[1]);
                }
            }
            block_sync();
        }
#pragma unroll
        for (int i = 0; i < B / 16; i++)
#pragma unroll
            for (int e = 0; e < 4; e++) ws[(i * 16 + g + (e >> 1) * 8) * 68 + w * 8 + 2 * q + (e & 1)] = acc[i][e] * UNSCALE;
        block_sync();
    }
    float z_own[UPDATE_OWN];
    apply_t(z_own, ts, ws);
#pragma unroll
    for (int k = 0; k < UPDATE_OWN; k++) {
        const int at = (t + 256 * k) / 64 * LC + t % 64;
        const float scaled = -z_own[k] * 128.0f;
        const u16 upper = f16_bits(scaled);
        cs[at] = upper;
        cs[ZT + at] = f16_bits(scaled - f16_value(upper));
    }
    block_sync();
    // Warp w: rows 16 (w % 4).. of a chunk, columns 32 (w / 4)..; its part of W' stays in registers.
    const int r_warp = (w & 3) * 16, c_warp = (w >> 2) * 32;
    u32 z_upper[B / 16][4][2], z_lower[B / 16][4][2];
#pragma unroll
    for (int s = 0; s < B / 16; s++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            ldmatrix_x2_trans(z_upper[s][i], to_saddr(cs + (s * 16 + (l & 15)) * LC + c_warp + i * 8));
            ldmatrix_x2_trans(z_lower[s][i], to_saddr(cs + ZT + (s * 16 + (l & 15)) * LC + c_warp + i * 8));
        }
    const int column_own = c_first + c_warp + 2 * q;
    const i64 row_step = ldh, column_step = 1;
    float *at = h + (first + r_warp + g) * row_step + column_own * column_step; // steps from one pointer: few registers
    for (int r0 = 0; r0 < rows; r0 += 64, at += 64 * row_step) {
        load_v(r0);
        const int row_own = r0 + r_warp + g;
        float acc[4][4];
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int row = row_own + (e >> 1) * 8, column = column_own + i * 8 + (e & 1);
                acc[i][e] = row < rows && column < N ? at[(e >> 1) * 8 * row_step + (i * 8 + (e & 1)) * column_step] * SCALE : 0.f;
            }
        block_sync();
#pragma unroll
        for (int s = 0; s < B / 16; s++) {
            const int r = r_warp + (l & 7) + (l >> 3 & 1) * 8, c = s * 16 + (l >> 4) * 8;
            u32 a[4];
            ldmatrix_x4(a, to_saddr(vs + r * LV + c));
            u32 a_lower[4] = {0, 0, 0, 0};
            if (split) ldmatrix_x4(a_lower, to_saddr(vs + VT + r * LV + c));
#pragma unroll
            for (int i = 0; i < 4; i++) {
                if (split) {
                    mma_f16(acc[i], a, z_lower[s][i][0], z_lower[s][i][1]);
                    mma_f16(acc[i], a_lower, z_upper[s][i][0], z_upper[s][i][1]);
                }
                mma_f16(acc[i], a, z_upper[s][i][0], z_upper[s][i][1]);
            }
        }
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int row = row_own + (e >> 1) * 8, column = column_own + i * 8 + (e & 1);
                if (row >= rows || column >= N) continue;
                const float value = acc[i][e] * UNSCALE;
                at[(e >> 1) * 8 * row_step + (i * 8 + (e & 1)) * column_step] = row < B ? scale_pow2(value, exponents[matrix * N + column]) : value;
            }
        block_sync();
    }
#line 265 "blocks/blocked_update.cuh"
}
QRS_ENTRY(update)

// Last launch: what happened to each matrix, for who asked.
QRS_KERNEL(epilogue, 256, 0)
(const int *flags, int *info, i64 batch) {
    const i64 i = (i64)blockIdx.x * 256 + threadIdx.x;
    if (i < batch && info) info[i] = flags[i];
}
QRS_ENTRY(epilogue)
