#line 79 "families/wgmma.lua"
#include "device/core.cuh"
#include "device/math.cuh"
#include "device/warp.cuh"
#include "device/block.cuh"
#include "device/copy.cuh"
#include "device/wgmma.cuh"
using namespace qrs;

// A value that the compiler may not know more about: stops it from keeping hundreds of addresses across the panel loop.
template <class T> QRS_DEV T fresh(T x) {
#ifndef QRS_HOST
    if constexpr (sizeof(T) == 8) asm volatile("" : "+l"(x));
    else asm volatile("" : "+r"(x));
#endif
    return x;
}

#line 1 "blocks/wgmma_panel.cuh"
// Factors the 64 columns of a panel from their 64 top rows and the Gram matrix of the rows below: two Gram recursions of 32
// columns with the block update between them (see blocks/wgmma_recursion.cuh). All 256 threads call it.
//
// Parameters: LD (row stride of the 64 x 64 arrays in shared memory, floats).
//   p1 [64][LD]  in: P1; out: R on and above the diagonal
//   gs [64][LD]  in: G = P2' P2 (both triangles)
//   x  [64][LD]  out: V1 strictly below the diagonal, M on and above; V2 = P2 M, M upper triangular
//   gp [32][LD], y [32][LD]  scratch;  diag [64], tau [64]: of each reflector the squared norm of
//   its column's tail and tau as the recursion has it;  work: RECURSION_64_WORK floats
//   count: reflectors to make, 1..64 (uniform)
#line 1 "blocks/wgmma_recursion.cuh"
// Gram recursion: Householder reflectors of a panel from its top rows and the Gram matrix of the rows below.
//
// Parameters of the template: NAME (of the function), COLS (32 or 64: columns that take part; the reflectors are those of the
// first 32 columns, or of the first `count`).
//
// With P = [P1; P2], P1 the ROWS = 32 top rows and G = P2' P2, step j needs only column j of P1 and row j of G:
//   s = sum_{i>j} P1[i,j]^2 + G[j,j];  beta = -copysign(sqrt(alpha^2 + s), alpha);  rho = 1 / (alpha - beta)
//   w_c = tau (P1[j,c] + rho (sum_{i>j} P1[i,j] P1[i,c] + G[j,c]));  g_c = rho w_c
//   P1[j,c] -= w_c;  P1[i,c] -= g_c P1[i,j];  M[:,c] -= g_c M[:,j];  G -= g G[j,:] + G[:,j] g' - g g' G[j,j]
// so that at the end V2 = P2 M. (LAPACK geqr2 with its dot products taken from the Gram matrix.) The work is independent of the
// panel's height. M is upper triangular and V1 strictly lower: one square X holds both, row j of X turning from P1 to M at step j.
//
// 4 warps (threads 0..127) take part; warp w holds rows 4k + w, lane l columns l + 32 q. One barrier a column: partial dots are
// double-buffered, the update of G lags one step behind so that it hides in the scalar chain, and every lane forms the next
// pivot column for itself. In shared memory:
//   p1 [32][LD]  in: P1; out: the rows of R (rows >= count, if any: what is left of P1)
//   g  [32..][LD] in: the first 32 rows of G
//   x  [32][LD]  out: column j scaled by rho_j: V1 below the diagonal, M on and above (0 where tau = 0)
//   diag, tau [32]  out: s of each column (the squared norm of the tail) and tau, for the caller's safety test
//   work         gram_recursion_64_WORK floats, 16-aligned
// The caller synchronises before and after.
enum { gram_recursion_64_WORK = 2 * 4 * 68 + 2 * 2 * 68 + 6 * 32 };

QRS_DEV void gram_recursion_64(float *p1, const float *g, float *x, float *diag, float *tau, float *work, int count) {
    constexpr int COLS = 64, Q = COLS / 32, ROWS = 32, RW = ROWS / 4, LD = 68;
    constexpr int PART = 4 * (COLS + 4), PIVOT = 2 * (COLS + 4);
    float *part = work, *pivot = part + 2 * PART, *next_column = pivot + 2 * PIVOT, *grow = next_column + 2 * ROWS,
          *gamma_rows = grow + 2 * ROWS;
    const int t = fresh<int>(threadIdx.x), l = t & 31, w = t >> 5 & 3;
    const int permuted = (l & 3) * RW + (l >> 2); // where row l sits among the rows of its warp
    float X[RW][Q], G[RW][Q], column[RW], grow_old[RW], gamma_old[Q], h_old[Q], g_next[Q], rho_own[Q];
#pragma unroll
    for (int k = 0; k < RW; k++) {
#pragma unroll
        for (int q = 0; q < Q; q++) {
            X[k][q] = p1[(4 * k + w) * LD + l + 32 * q];
            G[k][q] = g[(4 * k + w) * LD + l + 32 * q];
        }
        column[k] = p1[(4 * k + w) * LD];
        grow_old[k] = 0.f;
    }
#pragma unroll
    for (int q = 0; q < Q; q++) {
        gamma_old[q] = h_old[q] = rho_own[q] = 0.f;
        g_next[q] = G[0][q];
    }
    for (int i = t & 127; i < gram_recursion_64_WORK; i += 128) work[i] = 0.f;
    bar_sync(1, 128);

#pragma unroll
    for (int jj = 0; jj < RW; jj++) {
#pragma unroll 1
        for (int jw = 0; jw < 4; jw++) {
            const int j = 4 * jj + jw, b = j & 1;
            const bool own = w == jw;
            if (j >= count) break;
            // 1. Publish partial dots, the pivot row of P1 and G, and the next column as it stands.
#pragma unroll
            for (int q = 0; q < Q; q++) {
                float a0 = own ? g_next[q] : 0.f, a1 = 0.f;
                a0 = fmaf(w > jw ? column[jj] : 0.f, X[jj][q], a0);
#pragma unroll
                for (int k = jj + 1; k < RW; k++) {
                    if ((k - jj) & 1) a1 = fmaf(column[k], X[k][q], a1);
                    else a0 = fmaf(column[k], X[k][q], a0);
                }
                part[b * PART + (l + 32 * q) * 4 + w] = a0 + a1;
                if (own) {
                    *reinterpret_cast<f32x2 *>(pivot + b * PIVOT + (l + 32 * q) * 2) = f32x2{X[jj][q], g_next[q]};
                    if (q == 0) grow[b * ROWS + permuted] = g_next[q];
                }
            }
            if (l == ((j + 1) & 31)) {
#pragma unroll
                for (int k = 0; k < RW; k += 4) {
                    f32x4 v = {X[k][0], X[k + 1][0], X[k + 2][0], X[k + 3][0]};
                    *reinterpret_cast<f32x4 *>(next_column + b * ROWS + w * RW + k) = v;
                }
            }
            bar_sync(1, 128);

            // 2. Everybody forms the reflector's scalars, its own gammas and that of the next column.
            const f32x4 sj4 = *reinterpret_cast<f32x4 *>(part + b * PART + j * 4);
            const f32x4 sn4 = *reinterpret_cast<f32x4 *>(part + b * PART + (j + 1) * 4);
            const f32x2 pj = *reinterpret_cast<f32x2 *>(pivot + b * PIVOT + j * 2);
            const f32x2 pn = *reinterpret_cast<f32x2 *>(pivot + b * PIVOT + (j + 1) * 2);
            const float s = (sj4.x + sj4.y) + (sj4.z + sj4.w), sn = (sn4.x + sn4.y) + (sn4.z + sn4.w);
            float dot[Q];
            f32x2 pc[Q];
#pragma unroll
            for (int q = 0; q < Q; q++) {
                const f32x4 d = *reinterpret_cast<f32x4 *>(part + b * PART + (l + 32 * q) * 4);
                dot[q] = (d.x + d.y) + (d.z + d.w);
                pc[q] = *reinterpret_cast<f32x2 *>(pivot + b * PIVOT + (l + 32 * q) * 2);
            }
            float gamma_r[RW], next[RW], grow_now[RW];
#pragma unroll
            for (int k = 0; k < RW; k += 4) {
                const f32x4 u = *reinterpret_cast<f32x4 *>(gamma_rows + (b ^ 1) * ROWS + w * RW + k);
                const f32x4 v = *reinterpret_cast<f32x4 *>(next_column + b * ROWS + w * RW + k);
                const f32x4 t = *reinterpret_cast<f32x4 *>(grow + b * ROWS + w * RW + k);
                gamma_r[k] = u.x, gamma_r[k + 1] = u.y, gamma_r[k + 2] = u.z, gamma_r[k + 3] = u.w;
                next[k] = v.x, next[k + 1] = v.y, next[k + 2] = v.z, next[k + 3] = v.w;
                grow_now[k] = t.x, grow_now[k + 1] = t.y, grow_now[k + 2] = t.z, grow_now[k + 3] = t.w;
            }
            const float alpha = pj.x, magnitude = fabsf(alpha);
            const float square = fmaxf(fmaf(alpha, alpha, s), 1e-37f), inverse = rsqrt_approx(square);
            const float gap = fmaf(square, inverse, magnitude), reciprocal = rcp_approx(gap);
            // The update of G that step j - 1 owes: rows of its gammas and of its G column.
#pragma unroll
            for (int k = jj; k < RW; k++)
#pragma unroll
                for (int q = 0; q < Q; q++)
                    G[k][q] = fmaf(-grow_old[k], gamma_old[q], fmaf(-gamma_r[k], h_old[q], G[k][q]));
            const bool reflects = s > 0.f;
            const float rho = reflects ? copysignf(reciprocal, alpha) : 0.f;
            const float tau_rho = reflects ? copysignf(inverse, alpha) : 0.f; // tau rho = sign(alpha) / norm
            const float gamma_next = tau_rho * fmaf(rho, sn, pn.x);
            float gamma[Q], gamma_row[Q];
#pragma unroll
            for (int q = 0; q < Q; q++) {
                const int c = l + 32 * q;
                gamma_row[q] = tau_rho * fmaf(rho, dot[q], pc[q].x);
                gamma[q] = c > j ? gamma_row[q] : 0.f;
                if (c == j) rho_own[q] = rho;
            }
            // 3. Row j becomes a row of M (the identity so far), then one rank-1 update serves P1 and M.
            if (own) {
                column[jj] = 1.f;
                next[jj] = 0.f;
#pragma unroll
                for (int q = 0; q < Q; q++)
                    if (l + 32 * q >= j) X[jj][q] = l + 32 * q == j ? 1.f : 0.f;
            }
#pragma unroll
            for (int k = RW - 1; k >= 0; k--) {
#pragma unroll
                for (int q = 0; q < Q; q++) X[k][q] = fmaf(-gamma[q], column[k], X[k][q]);
                column[k] = fmaf(-gamma_next, column[k], next[k]);
            }
#pragma unroll
            for (int q = 0; q < Q; q++) {
                h_old[q] = fmaf(-gamma[q], pj.y, pc[q].y);
                gamma_old[q] = gamma[q];
                float up = G[jj][q];
                if (jj + 1 < RW && jw == 3) up = G[jj + 1 < RW ? jj + 1 : jj][q];
                g_next[q] = fmaf(-pn.y, gamma[q], fmaf(-gamma_next, h_old[q], up));
            }
#pragma unroll
            for (int k = 0; k < RW; k++) grow_old[k] = grow_now[k];
            if (own) {
                gamma_rows[b * ROWS + permuted] = gamma[0];
#pragma unroll
                for (int q = 0; q < Q; q++)
                    if (l + 32 * q >= j)
                        p1[j * LD + l + 32 * q] = fmaf(-gamma_row[q], copysignf(gap, alpha), pc[q].x);
                if (l == 0) {
                    diag[j] = s;
                    tau[j] = fmaf(magnitude, inverse, 1.f);
                    if (!reflects) p1[j * LD + j] = alpha;
                }
            }
        }
    }
    bar_sync(1, 128);
#pragma unroll
    for (int k = 0; k < RW; k++)
#pragma unroll
        for (int q = 0; q < Q; q++) {
            const int r = 4 * k + w, c = l + 32 * q;
            if (r >= count) p1[r * LD + c] = X[k][q];
            // Columns of a second half are no reflectors yet: what M holds of them is not scaled.
            x[r * LD + c] = r >= count && c >= count ? 0.f : q == 0 ? X[k][q] * rho_own[q] : X[k][q];
        }
}
#line 1 "blocks/wgmma_recursion.cuh"
// Gram recursion: Householder reflectors of a panel from its top rows and the Gram matrix of the rows below.
//
// Parameters of the template: NAME (of the function), COLS (32 or 64: columns that take part; the reflectors are those of the
// first 32 columns, or of the first `count`).
//
// With P = [P1; P2], P1 the ROWS = 32 top rows and G = P2' P2, step j needs only column j of P1 and row j of G:
//   s = sum_{i>j} P1[i,j]^2 + G[j,j];  beta = -copysign(sqrt(alpha^2 + s), alpha);  rho = 1 / (alpha - beta)
//   w_c = tau (P1[j,c] + rho (sum_{i>j} P1[i,j] P1[i,c] + G[j,c]));  g_c = rho w_c
//   P1[j,c] -= w_c;  P1[i,c] -= g_c P1[i,j];  M[:,c] -= g_c M[:,j];  G -= g G[j,:] + G[:,j] g' - g g' G[j,j]
// so that at the end V2 = P2 M. (LAPACK geqr2 with its dot products taken from the Gram matrix.) The work is independent of the
// panel's height. M is upper triangular and V1 strictly lower: one square X holds both, row j of X turning from P1 to M at step j.
//
// 4 warps (threads 0..127) take part; warp w holds rows 4k + w, lane l columns l + 32 q. One barrier a column: partial dots are
// double-buffered, the update of G lags one step behind so that it hides in the scalar chain, and every lane forms the next
// pivot column for itself. In shared memory:
//   p1 [32][LD]  in: P1; out: the rows of R (rows >= count, if any: what is left of P1)
//   g  [32..][LD] in: the first 32 rows of G
//   x  [32][LD]  out: column j scaled by rho_j: V1 below the diagonal, M on and above (0 where tau = 0)
//   diag, tau [32]  out: s of each column (the squared norm of the tail) and tau, for the caller's safety test
//   work         gram_recursion_32_WORK floats, 16-aligned
// The caller synchronises before and after.
enum { gram_recursion_32_WORK = 2 * 4 * 36 + 2 * 2 * 36 + 6 * 32 };

QRS_DEV void gram_recursion_32(float *p1, const float *g, float *x, float *diag, float *tau, float *work, int count) {
    constexpr int COLS = 32, Q = COLS / 32, ROWS = 32, RW = ROWS / 4, LD = 68;
    constexpr int PART = 4 * (COLS + 4), PIVOT = 2 * (COLS + 4);
    float *part = work, *pivot = part + 2 * PART, *next_column = pivot + 2 * PIVOT, *grow = next_column + 2 * ROWS,
          *gamma_rows = grow + 2 * ROWS;
    const int t = fresh<int>(threadIdx.x), l = t & 31, w = t >> 5 & 3;
    const int permuted = (l & 3) * RW + (l >> 2); // where row l sits among the rows of its warp
    float X[RW][Q], G[RW][Q], column[RW], grow_old[RW], gamma_old[Q], h_old[Q], g_next[Q], rho_own[Q];
#pragma unroll
    for (int k = 0; k < RW; k++) {
#pragma unroll
        for (int q = 0; q < Q; q++) {
            X[k][q] = p1[(4 * k + w) * LD + l + 32 * q];
            G[k][q] = g[(4 * k + w) * LD + l + 32 * q];
        }
        column[k] = p1[(4 * k + w) * LD];
        grow_old[k] = 0.f;
    }
#pragma unroll
    for (int q = 0; q < Q; q++) {
        gamma_old[q] = h_old[q] = rho_own[q] = 0.f;
        g_next[q] = G[0][q];
    }
    for (int i = t & 127; i < gram_recursion_32_WORK; i += 128) work[i] = 0.f;
    bar_sync(1, 128);

#pragma unroll
    for (int jj = 0; jj < RW; jj++) {
#pragma unroll 1
        for (int jw = 0; jw < 4; jw++) {
            const int j = 4 * jj + jw, b = j & 1;
            const bool own = w == jw;
            if (j >= count) break;
            // 1. Publish partial dots, the pivot row of P1 and G, and the next column as it stands.
#pragma unroll
            for (int q = 0; q < Q; q++) {
                float a0 = own ? g_next[q] : 0.f, a1 = 0.f;
                a0 = fmaf(w > jw ? column[jj] : 0.f, X[jj][q], a0);
#pragma unroll
                for (int k = jj + 1; k < RW; k++) {
                    if ((k - jj) & 1) a1 = fmaf(column[k], X[k][q], a1);
                    else a0 = fmaf(column[k], X[k][q], a0);
                }
                part[b * PART + (l + 32 * q) * 4 + w] = a0 + a1;
                if (own) {
                    *reinterpret_cast<f32x2 *>(pivot + b * PIVOT + (l + 32 * q) * 2) = f32x2{X[jj][q], g_next[q]};
                    if (q == 0) grow[b * ROWS + permuted] = g_next[q];
                }
            }
            if (l == ((j + 1) & 31)) {
#pragma unroll
                for (int k = 0; k < RW; k += 4) {
                    f32x4 v = {X[k][0], X[k + 1][0], X[k + 2][0], X[k + 3][0]};
                    *reinterpret_cast<f32x4 *>(next_column + b * ROWS + w * RW + k) = v;
                }
            }
            bar_sync(1, 128);

            // 2. Everybody forms the reflector's scalars, its own gammas and that of the next column.
            const f32x4 sj4 = *reinterpret_cast<f32x4 *>(part + b * PART + j * 4);
            const f32x4 sn4 = *reinterpret_cast<f32x4 *>(part + b * PART + (j + 1) * 4);
            const f32x2 pj = *reinterpret_cast<f32x2 *>(pivot + b * PIVOT + j * 2);
            const f32x2 pn = *reinterpret_cast<f32x2 *>(pivot + b * PIVOT + (j + 1) * 2);
            const float s = (sj4.x + sj4.y) + (sj4.z + sj4.w), sn = (sn4.x + sn4.y) + (sn4.z + sn4.w);
            float dot[Q];
            f32x2 pc[Q];
#pragma unroll
            for (int q = 0; q < Q; q++) {
                const f32x4 d = *reinterpret_cast<f32x4 *>(part + b * PART + (l + 32 * q) * 4);
                dot[q] = (d.x + d.y) + (d.z + d.w);
                pc[q] = *reinterpret_cast<f32x2 *>(pivot + b * PIVOT + (l + 32 * q) * 2);
            }
            float gamma_r[RW], next[RW], grow_now[RW];
#pragma unroll
            for (int k = 0; k < RW; k += 4) {
                const f32x4 u = *reinterpret_cast<f32x4 *>(gamma_rows + (b ^ 1) * ROWS + w * RW + k);
                const f32x4 v = *reinterpret_cast<f32x4 *>(next_column + b * ROWS + w * RW + k);
                const f32x4 t = *reinterpret_cast<f32x4 *>(grow + b * ROWS + w * RW + k);
                gamma_r[k] = u.x, gamma_r[k + 1] = u.y, gamma_r[k + 2] = u.z, gamma_r[k + 3] = u.w;
                next[k] = v.x, next[k + 1] = v.y, next[k + 2] = v.z, next[k + 3] = v.w;
                grow_now[k] = t.x, grow_now[k + 1] = t.y, grow_now[k + 2] = t.z, grow_now[k + 3] = t.w;
            }
            const float alpha = pj.x, magnitude = fabsf(alpha);
            const float square = fmaxf(fmaf(alpha, alpha, s), 1e-37f), inverse = rsqrt_approx(square);
            const float gap = fmaf(square, inverse, magnitude), reciprocal = rcp_approx(gap);
            // The update of G that step j - 1 owes: rows of its gammas and of its G column.
#pragma unroll
            for (int k = jj; k < RW; k++)
#pragma unroll
                for (int q = 0; q < Q; q++)
                    G[k][q] = fmaf(-grow_old[k], gamma_old[q], fmaf(-gamma_r[k], h_old[q], G[k][q]));
            const bool reflects = s > 0.f;
            const float rho = reflects ? copysignf(reciprocal, alpha) : 0.f;
            const float tau_rho = reflects ? copysignf(inverse, alpha) : 0.f; // tau rho = sign(alpha) / norm
            const float gamma_next = tau_rho * fmaf(rho, sn, pn.x);
            float gamma[Q], gamma_row[Q];
#pragma unroll
            for (int q = 0; q < Q; q++) {
                const int c = l + 32 * q;
                gamma_row[q] = tau_rho * fmaf(rho, dot[q], pc[q].x);
                gamma[q] = c > j ? gamma_row[q] : 0.f;
                if (c == j) rho_own[q] = rho;
            }
            // 3. Row j becomes a row of M (the identity so far), then one rank-1 update serves P1 and M.
            if (own) {
                column[jj] = 1.f;
                next[jj] = 0.f;
#pragma unroll
                for (int q = 0; q < Q; q++)
                    if (l + 32 * q >= j) X[jj][q] = l + 32 * q == j ? 1.f : 0.f;
            }
#pragma unroll
            for (int k = RW - 1; k >= 0; k--) {
#pragma unroll
                for (int q = 0; q < Q; q++) X[k][q] = fmaf(-gamma[q], column[k], X[k][q]);
                column[k] = fmaf(-gamma_next, column[k], next[k]);
            }
#pragma unroll
            for (int q = 0; q < Q; q++) {
                h_old[q] = fmaf(-gamma[q], pj.y, pc[q].y);
                gamma_old[q] = gamma[q];
                float up = G[jj][q];
                if (jj + 1 < RW && jw == 3) up = G[jj + 1 < RW ? jj + 1 : jj][q];
                g_next[q] = fmaf(-pn.y, gamma[q], fmaf(-gamma_next, h_old[q], up));
            }
#pragma unroll
            for (int k = 0; k < RW; k++) grow_old[k] = grow_now[k];
            if (own) {
                gamma_rows[b * ROWS + permuted] = gamma[0];
#pragma unroll
                for (int q = 0; q < Q; q++)
                    if (l + 32 * q >= j)
                        p1[j * LD + l + 32 * q] = fmaf(-gamma_row[q], copysignf(gap, alpha), pc[q].x);
                if (l == 0) {
                    diag[j] = s;
                    tau[j] = fmaf(magnitude, inverse, 1.f);
                    if (!reflects) p1[j * LD + j] = alpha;
                }
            }
        }
    }
    bar_sync(1, 128);
#pragma unroll
    for (int k = 0; k < RW; k++)
#pragma unroll
        for (int q = 0; q < Q; q++) {
            const int r = 4 * k + w, c = l + 32 * q;
            if (r >= count) p1[r * LD + c] = X[k][q];
            // Columns of a second half are no reflectors yet: what M holds of them is not scaled.
            x[r * LD + c] = r >= count && c >= count ? 0.f : q == 0 ? X[k][q] * rho_own[q] : X[k][q];
        }
}
#line 13 "blocks/wgmma_panel.cuh"

// sum over k < 32 of a(r, k) b[k][c .. c+3], where a(r, k) = a[r * LD + k], or a[k * LD + r] when TRANSPOSED;
// UPPER takes only the upper triangle of b.
template <bool TRANSPOSED, bool UPPER>
QRS_DEV f32x4 product_32(const float *a, const float *b, int r, int c, f32x4 sum) {
    constexpr int LD = 68;
#pragma unroll 8
    for (int k = 0; k < 32; k++) {
        const float f = TRANSPOSED ? a[k * LD + r] : a[r * LD + k];
        f32x4 v = *reinterpret_cast<const f32x4 *>(b + k * LD + c);
        if (UPPER) {
            v.x = k <= c ? v.x : 0.f;
            v.y = k <= c + 1 ? v.y : 0.f;
            v.z = k <= c + 2 ? v.z : 0.f;
            v.w = k <= c + 3 ? v.w : 0.f;
        }
        sum.x = fmaf(f, v.x, sum.x);
        sum.y = fmaf(f, v.y, sum.y);
        sum.z = fmaf(f, v.z, sum.z);
        sum.w = fmaf(f, v.w, sum.w);
    }
    return sum;
}

QRS_DEV void factor_panel_64(float *p1, const float *gs, float *x, float *gp, float *y, float *diag, float *tau,
                             float *work,
                             int count) {
    constexpr int LD = 68, HALF = 32 * LD;
    const int t = fresh<int>(threadIdx.x), r = t >> 3, c = (t & 7) * 4;
    const f32x4 zero = {0.f, 0.f, 0.f, 0.f};
    auto at = [](float *p, int row, int column) { return reinterpret_cast<f32x4 *>(p + row * LD + column); };
    auto read = [](const float *p, int row, int column) {
        return *reinterpret_cast<const f32x4 *>(p + row * LD + column);
    };
    // The first half sees rows 32..63 through the Gram matrix as well.
    *at(gp, r, c) = product_32<true, false>(p1 + HALF, p1 + HALF, r, c, read(gs, r, c));
    *at(gp, r, c + 32) = product_32<true, false>(p1 + HALF, p1 + HALF + 32, r, c, read(gs, r, c + 32));
    block_sync();
    if (t < 128) gram_recursion_64(p1, gp, x, diag, tau, work, count < 32 ? count : 32);
    block_sync();
    // V1's rows 32..63 of the first half; x's columns 32..63 hold N with P_new[:, 32:] = P[:, 32:] + P[:, :32] N.
    *at(x, r + 32, c) = product_32<false, true>(p1 + HALF, x, r, c, zero);
    if (count > 32) {
        *at(p1, r + 32, c + 32) = product_32<false, false>(p1 + HALF, x + 32, r, c, read(p1, r + 32, c + 32));
        *at(y, r, c) = product_32<false, false>(gs, x + 32, r, c, read(gs, r, c + 32));
        block_sync();
        f32x4 sum = product_32<true, false>(x + 32, y, r, c, read(gs, r + 32, c + 32));
        *at(gp, r, c) = product_32<true, false>(gs + 32, x + 32, r, c, sum);
        block_sync();
        if (t < 128) gram_recursion_32(p1 + HALF + 32, gp, x + HALF + 32, diag + 32, tau + 32, work, count - 32);
        block_sync();
        // M's upper right block: N times the second half's M. A warp owns whole rows of N, so it may replace them.
        const f32x4 m = product_32<false, true>(x + 32, x + HALF + 32, r, c, zero);
        warp_sync();
        *at(x, r, c + 32) = m;
    } else {
        block_sync();
        *at(x, r, c + 32) = zero;
        *at(x, r + 32, c + 32) = zero;
    }
    block_sync();
}
#line 1 "blocks/wgmma_rows.cuh"
// Panel by rows, exact, out of shared memory: the fall-back when the Gram recursion's safety test fails on a panel.
// 256 threads; thread t serves column t % 64 and every fourth row. Not fast (about 3,000 cycles a column), right on every input:
// exact tails, tails whose square sum is under 2^-80 rescaled, NaN and Inf as in LAPACK.
//
// Parameters: none.
//   tile [rows][64]  in: the panel (columns scaled to a largest magnitude near 1); out: R on and above the diagonal, V below
//   partial [4][64], rho [64], extra [8] scratch;  rows, count: rows of the tile, reflectors to make (uniform)
// Formulas: LAPACK geqr2/larfg with x'a_c of the un-normalised column x, so that one pass gives every dot product.
QRS_DEV void factor_rows_64(float *tile, float *partial, float *rho_of, float *extra, int rows, int count) {
    const int t = fresh<int>(threadIdx.x), c = t & 63, group = t >> 6;
    for (int j = 0; j < count; j++) {
        float dot = 0.f, tail = 0.f;
        auto dots = [&]() {
            dot = 0.f;
            for (int i = j + 1 + group; i < rows; i += 4) dot = fmaf(tile[i * 64 + j], tile[i * 64 + c], dot);
            partial[group * 64 + c] = dot;
            block_sync();
            dot = (partial[c] + partial[64 + c]) + (partial[128 + c] + partial[192 + c]);
            tail = (partial[j] + partial[64 + j]) + (partial[128 + j] + partial[192 + j]);
        };
        dots();
        float alpha = tile[j * 64 + j], unlift = 1.f;
        block_sync();
        if (tail < 0x1p-80f) { // uniform; false for NaN
            float largest = 0.f;
            for (int i = j + 1 + t; i < rows; i += 256) largest = fmaxf(largest, fabsf(tile[i * 64 + j]));
            largest = warp_max(largest);
            if (lane() == 0) extra[warp()] = largest;
            block_sync();
            largest = 0.f;
            for (int i = 0; i < 8; i++) largest = fmaxf(largest, extra[i]);
            block_sync();
            if (largest == 0.f) { // H = I: the column, its sign included, stays as it is
                if (t == 0) rho_of[j] = 0.f;
                block_sync();
                continue;
            }
            const int e = pow2_exponent(fmaxf(largest, fabsf(alpha)));
            // In two steps, since 2^-e may exceed the range when the column is subnormal.
            const int half = -e / 2;
            const float first = scale_pow2(1.f, half), second = scale_pow2(1.f, -e - half);
            for (int i = j + t; i < rows; i += 256) tile[i * 64 + j] = tile[i * 64 + j] * first * second;
            block_sync();
            dots();
            alpha = tile[j * 64 + j];
            unlift = scale_pow2(1.f, e);
            block_sync();
        }
        const float norm = sqrt_rn(fmaf(alpha, alpha, tail)), beta = -copysignf(norm, alpha);
        const float gap = alpha - beta, rho = div_rn(1.f, gap), tau = div_rn(-gap, beta);
        const float p = c > j ? tile[j * 64 + c] : 0.f;
        const float w = tau * fmaf(rho, dot, p), g = w * rho;
        block_sync();
        if (c > j) {
            for (int i = j + 1 + group; i < rows; i += 4) tile[i * 64 + c] = fmaf(-g, tile[i * 64 + j], tile[i * 64 + c]);
            if (group == 0) tile[j * 64 + c] = p - w;
        }
        if (t == j) {
            tile[j * 64 + j] = beta * unlift;
            rho_of[j] = rho;
        }
        block_sync();
    }
    if (c < count)
        for (int i = c + 1 + group; i < rows; i += 4) tile[i * 64 + c] *= rho_of[c];
    block_sync();
}
#line 98 "families/wgmma.lua"

// Sizes: an M x N matrix in MB x NB blocks of 64; KR reflectors in KB panels.
constexpr int M = 512, N = 512, MB = 8, NB = 8, KR = 511, KB = 8, JB = 4;
constexpr int TERMS = 2, STAGES = 1, SLOT = 131072, T_SLOT = 16384, LD = 68;
constexpr int BLOCK = 8192; // bytes of a 64 x 64 fp16 tile, 128-byte rows, 128-byte swizzle
// Calls visit(j, i, row, column, offset) for the entries that this thread holds of the 64-column panel at first_column: entry
// C[j][i] of the accumulators is (row, column) of the matrix, `offset` elements from its start. The offset runs along, so that
// a handful of registers serves all entries.
template <class F> QRS_DEV void panel_entries(int wg, int q, int c0, int first_column, i64 row_stride, i64 column_stride, F visit) {
    i64 offset = (wg * 64 + 2 * q) * row_stride + (first_column + c0) * column_stride;
#pragma unroll
    for (int j = 0; j < JB; j++) {
#pragma unroll
        for (int i = 0; i < 32; i += 4) {
            const int row = (2 * j + wg) * 64 + i * 2 + 2 * q, column = first_column + c0;
            visit(j, i, row, column, offset);
            visit(j, i + 1, row + 1, column, offset + row_stride);
            visit(j, i + 2, row, column + 8, offset + 8 * column_stride);
            visit(j, i + 3, row + 1, column + 8, offset + row_stride + 8 * column_stride);
            offset += 8 * row_stride;
        }
        offset += 64 * row_stride;
    }
}
#line 123 "families/wgmma.lua"

// A condition that is the same in all lanes, in a form that the compiler can see to be so: products in branches need it.
QRS_DEV bool uniform(bool x) { return shfl(static_cast<i32>(x), 0) != 0; }
// Byte offset of (row, column) in a swizzled tile of 64-column rows; row counts from the tile's first.
QRS_DEV int tile_offset(int row, int column) {
    return row * 128 + ((((column >> 3) ^ row) & 7) << 4) + (column & 7) * 2;
}
QRS_DEV u64 tile_descriptor(saddr a) { return smem_desc(a, 128, 16, 1024); }
QRS_DEV float lower_term(float x) { return x - f16_value(f16_bits(x)); }
QRS_DEV u32 pack_lower(float a, float b) { return pack_f16(lower_term(a), lower_term(b)); }

// The fp16 A fragments of a 64 x 64 operand in accumulator layout: its upper terms, or what they leave (LOWER).
// The compiler must not carry terms over from an earlier use (there are too many of them), hence the hold.
template <bool LOWER> QRS_DEV void fragments(u32 (&f)[16], float (&a)[32]) {
    wgmma_hold(a);
#pragma unroll
    for (int i = 0; i < 16; i++)
        f[i] = LOWER ? pack_lower(a[2 * i], a[2 * i + 1]) : pack_f16(a[2 * i], a[2 * i + 1]);
}
// d += f (the tile at b): four k-steps of 16. TRANSPOSED: the tile's rows are k. One group of products.
template <bool TRANSPOSED> QRS_DEV void multiply(float (&d)[32], const u32 (&f)[16], saddr b) {
    constexpr int STEP = TRANSPOSED ? 2048 : 32;
#pragma unroll
    for (int s = 0; s < 4; s++)
        wgmma_f16_rs<64, TRANSPOSED>(d, f[4 * s], f[4 * s + 1], f[4 * s + 2], f[4 * s + 3],
                                     tile_descriptor(b + s * STEP), true);
}

// Adds the other warpgroup's accumulators to one's own, through x (2 x 16 KB). Two block barriers.
QRS_DEV void sum_warpgroups(float (&d)[32], float *x, int wg) {
    const int t = threadIdx.x & 127;
    f32x4 *mine = reinterpret_cast<f32x4 *>(x) + wg * 1024 + t;
    const f32x4 *other = reinterpret_cast<f32x4 *>(x) + (wg ^ 1) * 1024 + t;
#pragma unroll
    for (int i = 0; i < 8; i++) mine[i * 128] = f32x4{d[4 * i], d[4 * i + 1], d[4 * i + 2], d[4 * i + 3]};
    block_sync();
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const f32x4 v = other[i * 128];
        d[4 * i] += v.x, d[4 * i + 1] += v.y, d[4 * i + 2] += v.z, d[4 * i + 3] += v.w;
    }
    block_sync();
}

QRS_KERNEL(geqrf, 256, 1)
(const float *a_all, i64 lda, i64 stride_a, float *h_all, i64 ldh, i64 stride_h, float *tau_all, i64 stride_tau,
 int *info_all, u8 *v_all, u8 *t_all, i64 batch) {
    u8 *smem = dynamic_smem();
    u8 *v_tile = smem;                                            // V by stages; in the panel phase P in two terms
    float *exchange = reinterpret_cast<float *>(smem + 131072);   // warpgroup sums; in the panel phase G and P1 (gs, p1)
    u8 *t_tile = smem + 183296;                                   // T by stages; in the panel phase scratch
    float *gp = reinterpret_cast<float *>(t_tile), *ys = gp + 32 * LD;
    float *small = reinterpret_cast<float *>(smem + 200704);
    float *work = small;                          // RECURSION work, or 4 x 64 partial sums
    float *column_max = small + 1600;             // [2][64]
    float *column_l1 = column_max + 128, *column_l2 = column_l1 + 128; // [2][64] each
    float *norms = column_l2 + 128;               // [2][64]
    float *diag = norms + 128, *start_norm = diag + 64, *tau_s = start_norm + 64, *rho_of = tau_s + 64;
    float *tau_stage = rho_of + 64;               // [2][64]
    int *flags = reinterpret_cast<int *>(tau_stage + 128); // [0] verdict, [1..] panels that are zero
    saddr v_addr = to_saddr(v_tile), t_addr = to_saddr(t_tile), bar_addr = to_saddr(flags + 16);

    const int thread = threadIdx.x;
    u8 *v_scratch = v_all + (i64)blockIdx.x * 1048576;
    u8 *t_scratch = t_all + (i64)blockIdx.x * 133120;
    float *tau_scratch = reinterpret_cast<float *>(t_scratch + KB * T_SLOT);
    if (thread == 0) {
        for (int i = 0; i < STAGES; i++) mbar_init(bar_addr + 8 * i, 1);
        fence_mbar_init();
    }
    block_sync();
    u32 loads = 0; // bulk loads waited for so far: stage and parity follow from it

    // Thread 0 only: V (rows from the panel's own on) and T of a finished panel into a stage.
    auto fetch = [&](int panel, int stage) {
        const saddr bar = bar_addr + 8 * stage;
        const u32 bytes = (MB - panel) * BLOCK;
        mbar_expect(bar, bytes * TERMS + T_SLOT);
        for (int i = 0; i < TERMS; i++)
            bulk_load(v_addr + stage * SLOT + i * MB * BLOCK + panel * BLOCK,
                      v_scratch + (i64)panel * SLOT + i * MB * BLOCK + panel * BLOCK, bytes, bar);
        bulk_load(t_addr + stage * T_SLOT, t_scratch + (i64)panel * T_SLOT, T_SLOT, bar);
    };

#pragma unroll 1
    for (i64 matrix = blockIdx.x; matrix < batch; matrix += gridDim.x) {
        const float *a = a_all + matrix * stride_a;
        float *h = h_all + matrix * stride_h;
        float *tau = tau_all + matrix * stride_tau;
        int report = 0;
#pragma unroll 1
        for (int panel = 0; panel < NB; panel++) {
            const int left = KR - 64 * panel;
            const int count = left < 0 ? 0 : left > 64 ? 64 : left; // reflectors of this panel
            bool by_rows = false, done = false;
#pragma unroll 1
            for (int attempt = 0; attempt < 2 && !done; attempt++) {
                // Lane 4 g + q of warp w holds the panel's columns c0 = 16 w + g and c0 + 8, rows 2 q and 2 q + 1 of every eight.
                const int t = fresh(thread), wg = shfl(t >> 7, 0), place = t & 127, q = place & 3, c0 = (place >> 5) * 16 + ((place & 31) >> 2);
                v_addr = fresh(v_addr), t_addr = fresh(t_addr);
                u8 *v_tile = smem + fresh(0);
                float *p1 = reinterpret_cast<float *>(smem + fresh(131072)) + 64 * LD, *gs = reinterpret_cast<float *>(smem + fresh(131072));
                float *xm = reinterpret_cast<float *>(smem + fresh(165888));
                // ---- the panel's columns from A, scaled by the power of two that brings the largest entry to [1, 2)
                float C[JB][32];
                float largest[2] = {0.f, 0.f};
                bool finite = true;
                const i64 ld_in = fresh(lda);
panel_entries(wg, q, c0, 64 * panel, ld_in, 1,
                              [&](int j, int i, int row, int column, i64 offset) {
                                  C[j][i] = row < M && column < N ? a[offset] : 0.f;
                              });
#pragma unroll
                for (int j = 0; j < JB; j++)
#pragma unroll
                    for (int i = 0; i < 32; i++) {
                        const float x = fabsf(C[j][i]);
                        if (is_finite(x)) largest[(i >> 1) & 1] = fmaxf(largest[(i >> 1) & 1], x);
                        else finite = false;
                    }
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    largest[e] = fmaxf(largest[e], shfl_xor(largest[e], 1));
                    largest[e] = fmaxf(largest[e], shfl_xor(largest[e], 2));
                    if (q == 0) column_max[wg * 64 + c0 + 8 * e] = largest[e];
                }
                if (block_any(!finite)) report |= 1;
                int exponent[2];
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    const float x = fmaxf(column_max[c0 + 8 * e], column_max[64 + c0 + 8 * e]);
                    exponent[e] = x > 0.f ? pow2_exponent(x) : 0;
                }
                {
                    // Two factors: 2^149 is no float. The second is 1 but for subnormal columns.
                    float first[2], second[2];
#pragma unroll
                    for (int e = 0; e < 2; e++) {
                        const int f = -exponent[e] > 127 ? 127 : -exponent[e];
                        first[e] = scale_pow2(1.f, f), second[e] = scale_pow2(1.f, -exponent[e] - f);
                    }
#pragma unroll
                    for (int j = 0; j < JB; j++)
#pragma unroll
                        for (int i = 0; i < 32; i++)
                            C[j][i] = C[j][i] * first[(i >> 1) & 1] * second[(i >> 1) & 1];
                }
                bool split = TERMS == 2;
#line 298 "families/wgmma.lua"

                // ---- earlier panels' reflectors: C' -= ((C' V) T) V'
                int pairs = 0, first_pair = -1; // panels that are not zero
                const int earlier = panel < KB ? panel : KB;
                for (int p = 0; p < earlier; p++)
                    if (!uniform(flags[1 + p])) {
                        if (first_pair < 0) first_pair = p;
                        pairs++;
                    }
                if (split && TERMS == 1 && pairs) report |= 4;
                if (t == 0 && pairs) {
                    fence_async_shared();
                    fetch(first_pair, loads % STAGES);
                }
#pragma unroll 1
                for (int p = first_pair; pairs > 0; pairs--, loads++) {
                    int next = p + 1;
                    while (next < earlier && uniform(flags[1 + next])) next++;
                    const int stage = loads % STAGES;
                    if (STAGES > 1 && t == 0 && pairs > 1) fetch(next, (loads + 1) % STAGES);
                    const saddr v = v_addr + stage * SLOT + wg * BLOCK, tt = t_addr + stage * T_SLOT;
                    const float tau_own = t < 64 ? tau_scratch[p * 64 + t] : 0.f;
                    if (t < 64) tau_stage[t] = tau_own;
                    mbar_wait(bar_addr + 8 * stage, (loads / STAGES) & 1);
                    float W[32];
#pragma unroll
                    for (int i = 0; i < 32; i++) W[i] = 0.f;
#pragma unroll
                    for (int j = 0; j < JB; j++)
                        if (2 * j + wg >= p && 2 * j + wg < MB) {
                            u32 f[16];
                            fragments<false>(f, C[j]);
                            wgmma_fence();
                            multiply<true>(W, f, v + j * 2 * BLOCK);
#line 333 "families/wgmma.lua"
                            multiply<true>(W, f, v + MB * BLOCK + j * 2 * BLOCK);
#line 335 "families/wgmma.lua"
                            wgmma_commit();
                            wgmma_wait<0>(); // one group in flight: fragments of more do not fit the registers
                        }
                    if (split) {
#pragma unroll
                        for (int j = 0; j < JB; j++)
                            if (2 * j + wg >= p && 2 * j + wg < MB) {
                                u32 f[16];
                                fragments<true>(f, C[j]);
                                wgmma_fence();
                                multiply<true>(W, f, v + j * 2 * BLOCK);
                                wgmma_commit();
                                wgmma_wait<0>();
                            }
                    }
                    wgmma_wait<0>();
                    sum_warpgroups(W, exchange, wg);
                    // W' = (W T^) D: the unit upper triangular T^ in fp16, tau in fp32.
                    float Z[32];
#pragma unroll
                    for (int i = 0; i < 32; i++) Z[i] = 0.f;
                    u32 upper[16], lower[16];
                    fragments<false>(upper, W);
                    fragments<true>(lower, W);
                    wgmma_fence();
                    multiply<true>(Z, lower, tt);
#line 362 "families/wgmma.lua"
                    multiply<true>(Z, upper, tt + BLOCK);
#line 364 "families/wgmma.lua"
                    multiply<true>(Z, upper, tt);
                    wgmma_commit();
                    wgmma_wait<0>();
#pragma unroll
                    for (int i = 0; i < 32; i++) Z[i] *= -tau_stage[(i >> 2) * 8 + 2 * q + (i & 1)];
                    fragments<false>(upper, Z);
                    if (split) fragments<true>(lower, Z);
#pragma unroll
                    for (int j = 0; j < JB; j++)
                        if (2 * j + wg >= p && 2 * j + wg < MB) {
                            wgmma_fence();
                            multiply<false>(C[j], upper, v + j * 2 * BLOCK);
#line 377 "families/wgmma.lua"
                            multiply<false>(C[j], upper, v + MB * BLOCK + j * 2 * BLOCK);
#line 379 "families/wgmma.lua"
                            wgmma_commit();
                        }
                    if (split) {
#pragma unroll
                        for (int j = 0; j < JB; j++)
                            if (2 * j + wg >= p && 2 * j + wg < MB) {
                                wgmma_fence();
                                multiply<false>(C[j], lower, v + j * 2 * BLOCK);
                                wgmma_commit();
                            }
                    }
                    wgmma_wait<0>();
                    block_sync(); // everybody is done with this stage and with tau_stage
                    if (STAGES == 1 && t == 0 && pairs > 1) fetch(next, 0);
                    p = next;
                }

                // ---- factor the panel's rows from 64 * panel on
                bool accepted = true, zero = true;
                if (count > 0) {
                    largest[0] = largest[1] = 0.f;
#pragma unroll
                    for (int j = 0; j < JB; j++)
                        if (2 * j + wg >= panel)
#pragma unroll
                            for (int i = 0; i < 32; i++)
                                largest[(i >> 1) & 1] = fmaxf(largest[(i >> 1) & 1], fabsf(C[j][i]));
                    bool some = false; // NaN counts: it must reach the fall-back
#pragma unroll
                    for (int j = 0; j < JB; j++)
                        if (2 * j + wg >= panel)
#pragma unroll
                            for (int i = 0; i < 32; i++) some = some || C[j][i] != 0.f;
#pragma unroll
                    for (int e = 0; e < 2; e++) {
                        largest[e] = fmaxf(largest[e], shfl_xor(largest[e], 1));
                        largest[e] = fmaxf(largest[e], shfl_xor(largest[e], 2));
                        if (q == 0) column_l1[wg * 64 + c0 + 8 * e] = largest[e];
                    }
                    zero = uniform(!block_any(some));
                }
                if (count > 0 && !zero) {
                    float factor[2];
#pragma unroll
                    for (int e = 0; e < 2; e++) {
                        const float x = fmaxf(column_l1[c0 + 8 * e], column_l1[64 + c0 + 8 * e]);
                        // An update of a column that is left with rounding noise alone may leave any exponent; 2^100 is far enough.
                        int f = x > 0.f && is_finite(x) ? pow2_exponent(x) : 0;
                        f = f < -100 ? -100 : f;
                        exponent[e] += f;
                        factor[e] = scale_pow2(1.f, -f);
                    }
#pragma unroll
                    for (int j = 0; j < JB; j++)
#pragma unroll
                        for (int i = 0; i < 32; i++) C[j][i] *= factor[(i >> 1) & 1];
                    const int rows = MB * 64 - 64 * panel;
                    if (by_rows) {
                        float *tile = reinterpret_cast<float *>(v_tile);
#pragma unroll
                        for (int j = 0; j < JB; j++)
#pragma unroll
                            for (int i = 0; i < 32; i++) {
                                const int row = (2 * j + wg - panel) * 64 + (i >> 2) * 8 + 2 * q + (i & 1);
                                if (row >= 0 && row < rows) tile[row * 64 + c0 + ((i >> 1) & 1) * 8] = C[j][i];
                            }
                        block_sync();
                        factor_rows_64(tile, work, rho_of, column_l1, rows, count);
#pragma unroll
                        for (int j = 0; j < JB; j++)
                            if (2 * j + wg > panel)
#pragma unroll
                                for (int i = 0; i < 32; i++) {
                                    const int row = (2 * j + wg - panel) * 64 + (i >> 2) * 8 + 2 * q + (i & 1);
                                    const int column = c0 + ((i >> 1) & 1) * 8;
                                    C[j][i] = row < rows && column < count ? tile[row * 64 + column] : 0.f;
                                }
                        for (int i = t; i < 4096; i += 256) {
                            p1[(i >> 6) * LD + (i & 63)] = tile[i];
                            xm[(i >> 6) * LD + (i & 63)] = (i & 63) < count ? tile[i] : 0.f;
                        }
                        if (t < 64) diag[t] = t < count && rho_of[t] != 0.f ? 1.f : 0.f; // NaN counts as a reflector
                        block_sync();
                    } else {
                        // P1 in fp32, P2 in two fp16 terms
                        float *p1_ = p1;
#pragma unroll
                        for (int j = 0; j < JB; j++) {
                            const int rb = 2 * j + wg;
                            if (rb == panel) {
#pragma unroll
                                for (int i = 0; i < 32; i++)
                                    p1_[((i >> 2) * 8 + 2 * q + (i & 1)) * LD + c0 + ((i >> 1) & 1) * 8] = C[j][i];
                            } else if (rb > panel && rb < MB) {
#pragma unroll
                                for (int i = 0; i < 32; i++) {
                                    const int at = rb * BLOCK + tile_offset((i >> 2) * 8 + 2 * q + (i & 1), c0 + ((i >> 1) & 1) * 8);
                                    *reinterpret_cast<u16 *>(v_tile + at) = f16_bits(C[j][i]);
                                    *reinterpret_cast<u16 *>(v_tile + MB * BLOCK + at) = f16_bits(lower_term(C[j][i]));
                                }
                            }
                        }
                        fence_async_shared();
                        block_sync();
                        // G = P2' P2 at fp32 level: three of the four products of two terms
                        float G[32];
#pragma unroll
                        for (int i = 0; i < 32; i++) G[i] = 0.f;
#pragma unroll
                        for (int j = 0; j < JB; j++)
                            if (2 * j + wg > panel && 2 * j + wg < MB) {
                                const saddr tile = v_addr + (2 * j + wg) * BLOCK;
                                u32 upper[16], lower[16];
                                fragments<true>(lower, C[j]);
                                fragments<false>(upper, C[j]);
                                wgmma_fence();
                                multiply<true>(G, lower, tile);
                                multiply<true>(G, upper, tile + MB * BLOCK);
                                multiply<true>(G, upper, tile);
                                wgmma_commit();
                                wgmma_wait<0>();
                            }
                        wgmma_wait<0>();
                        // Summed in place: one warpgroup writes, the other adds (exchange is taken by p1).
                        if (wg == 0)
#pragma unroll
                            for (int i = 0; i < 32; i++)
                                gs[(c0 + ((i >> 1) & 1) * 8) * LD + (i >> 2) * 8 + 2 * q + (i & 1)] = G[i];
                        block_sync();
                        if (wg == 1)
#pragma unroll
                            for (int i = 0; i < 32; i++)
                                gs[(c0 + ((i >> 1) & 1) * 8) * LD + (i >> 2) * 8 + 2 * q + (i & 1)] += G[i];
                        block_sync();
                        if (t < 64) {
                            float s = gs[t * LD + t];
                            for (int i = 0; i < 64; i++) s = fmaf(p1[i * LD + t], p1[i * LD + t], s);
                            start_norm[t] = s;
                            diag[t] = 0.f;
                        }
                        block_sync();
                        factor_panel_64(p1, gs, xm, gp, ys, diag, tau_s, work, count);
                        // V2' = M' P2', M's columns scaled so that fp16 holds them
                        u32 upper[16], lower[16];
                        float restore[2];
#pragma unroll
                        for (int e = 0; e < 2; e++) {
                            const int column = c0 + 8 * e;
                            float m[16], top = 0.f;
#pragma unroll
                            for (int i = 0; i < 16; i++) {
                                const int row = (i >> 1) * 8 + 2 * q + (i & 1);
                                m[i] = row <= column ? xm[row * LD + column] : 0.f;
                                top = fmaxf(top, fabsf(m[i]));
                            }
                            top = fmaxf(top, shfl_xor(top, 1));
                            top = fmaxf(top, shfl_xor(top, 2));
                            int f = top > 0.f && is_finite(top) ? pow2_exponent(top) : 0;
                            f = f < -100 ? -100 : f > 100 ? 100 : f;
                            restore[e] = scale_pow2(1.f, f);
                            const float scale = scale_pow2(1.f, -f);
#pragma unroll
                            for (int s = 0; s < 4; s++)
#pragma unroll
                                for (int half = 0; half < 2; half++) {
                                    const float x = m[4 * s + 2 * half] * scale, y = m[4 * s + 2 * half + 1] * scale;
                                    upper[4 * s + e + 2 * half] = pack_f16(x, y);
                                    lower[4 * s + e + 2 * half] = pack_lower(x, y);
                                }
                        }
#pragma unroll
                        for (int j = 0; j < JB; j++)
                            if (2 * j + wg > panel && 2 * j + wg < MB) {
                                const saddr tile = v_addr + (2 * j + wg) * BLOCK;
#pragma unroll
                                for (int i = 0; i < 32; i++) C[j][i] = 0.f;
                                wgmma_fence();
                                multiply<false>(C[j], lower, tile);
                                multiply<false>(C[j], upper, tile + MB * BLOCK);
                                multiply<false>(C[j], upper, tile);
                                wgmma_commit();
                            }
                        wgmma_wait<0>();
#pragma unroll
                        for (int j = 0; j < JB; j++)
                            if (2 * j + wg > panel && 2 * j + wg < MB)
#pragma unroll
                                for (int i = 0; i < 32; i++) C[j][i] *= restore[(i >> 1) & 1];
                    }
                    // The block of P1 becomes V1: unit diagonal, zeros above
#pragma unroll
                    for (int j = 0; j < JB; j++)
                        if (2 * j + wg == panel)
#pragma unroll
                            for (int i = 0; i < 32; i++) {
                                const int row = (i >> 2) * 8 + 2 * q + (i & 1), column = c0 + ((i >> 1) & 1) * 8;
                                C[j][i] = row > column ? xm[row * LD + column] : row == column ? 1.f : 0.f;
                            }
                    // v'v of the V produced: the safety test, and tau = 2 / v'v
                    float square[2] = {0.f, 0.f};
#pragma unroll
                    for (int j = 0; j < JB; j++)
                        if (2 * j + wg >= panel)
#pragma unroll
                            for (int i = 0; i < 32; i++) square[(i >> 1) & 1] = fmaf(C[j][i], C[j][i], square[(i >> 1) & 1]);
#pragma unroll
                    for (int e = 0; e < 2; e++) {
                        square[e] += shfl_xor(square[e], 1);
                        square[e] += shfl_xor(square[e], 2);
                        if (q == 0) norms[wg * 64 + c0 + 8 * e] = square[e];
                    }
                    block_sync();
                    bool bad = false;
                    if (t < 64) {
                        const float vv = norms[t] + norms[64 + t];
                        const bool reflects = t < count && diag[t] != 0.f;
                        if (!by_rows && t < count) {
                            const float s = diag[t], beta = p1[t * LD + t];
                            if (start_norm[t] > 0.f) {
                                const float deviation = fabsf(tau_s[t] * vv * 0.5f - 1.f);
                                bad = !(s >= 0x1p-80f) || !(deviation <= 2.61121e-05f) ||
                                      !(beta * beta > 1e-6f * start_norm[t]);
                            } else {
                                bad = !(start_norm[t] == 0.f) || s != 0.f;
                            }
                        }
                        tau_s[t] = reflects ? div_rn(2.f, vv) : 0.f;
                    }
                    accepted = uniform(!block_any(bad));
                } else if (t < 64) {
                    tau_s[t] = 0.f;
                    diag[t] = 0.f;
                }
                if (!accepted) {
                    by_rows = true;
                    report |= 2;
                    continue;
                }
                done = true;

                // ---- out: R above and in the panel, V below, tau
                const bool reflecting = count > 0 && !zero;
                const i64 ld_out = fresh(ldh);
                float up[2], up_more[2];
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    up[e] = scale_pow2(1.f, exponent[e] / 2);
                    up_more[e] = scale_pow2(1.f, exponent[e] - exponent[e] / 2);
                }
panel_entries(wg, q, c0, 64 * panel, ld_out, 1,
                              [&](int j, int i, int row, int column, i64 offset) {
                                  const int e = (i >> 1) & 1, in_row = row & 63, in_column = c0 + 8 * e, rb = 2 * j + wg;
                                  const bool below = reflecting && rb >= panel;
                                  float x = C[j][i];
                                  if (below && rb == panel && in_row <= in_column) x = p1[in_row * LD + in_column];
                                  if (below && (rb > panel || in_row > in_column)) x = diag[in_column] != 0.f ? x : 0.f;
                                  else x = x * up[e] * up_more[e];
                                  if (row < M && column < N) h[offset] = x;
                              });
                if (t < 64 && 64 * panel + t < 512) tau[64 * panel + t] = tau_s[t];

                // ---- V in fp16 and T for the panels to come
                if (t == 0) flags[1 + panel] = !reflecting;
                if (reflecting && panel + 1 < NB) {
#pragma unroll
                    for (int j = 0; j < JB; j++) {
                        const int rb = 2 * j + wg;
                        if (rb >= panel && rb < MB)
#pragma unroll
                            for (int i = 0; i < 32; i++) {
                                const int in_column = c0 + ((i >> 1) & 1) * 8;
                                const int at = rb * BLOCK + tile_offset((i >> 2) * 8 + 2 * q + (i & 1), in_column);
                                *reinterpret_cast<u16 *>(v_tile + at) = f16_bits(C[j][i]);
#line 653 "families/wgmma.lua"
                                *reinterpret_cast<u16 *>(v_tile + MB * BLOCK + at) = f16_bits(lower_term(C[j][i]));
#line 655 "families/wgmma.lua"
                            }
                    }
                    fence_async_shared();
                    block_sync();
                    float S[32];
#pragma unroll
                    for (int i = 0; i < 32; i++) S[i] = 0.f;
#pragma unroll
                    for (int j = 0; j < JB; j++)
                        if (2 * j + wg >= panel && 2 * j + wg < MB) {
                            const saddr tile = v_addr + (2 * j + wg) * BLOCK;
                            u32 upper[16], lower[16];
                            fragments<true>(lower, C[j]);
                            fragments<false>(upper, C[j]);
                            wgmma_fence();
                            multiply<true>(S, lower, tile);
#line 672 "families/wgmma.lua"
                            multiply<true>(S, upper, tile + MB * BLOCK);
#line 674 "families/wgmma.lua"
                            multiply<true>(S, upper, tile);
                            wgmma_commit();
                            wgmma_wait<0>();
                        }
                    wgmma_wait<0>();
                    if (wg == 0)
#pragma unroll
                        for (int i = 0; i < 32; i++)
                            gs[(c0 + ((i >> 1) & 1) * 8) * LD + (i >> 2) * 8 + 2 * q + (i & 1)] = S[i];
                    if (t == 0) { // the tile's readers are past the barrier below when it is written again
                        for (int i = 0; i < TERMS; i++)
                            bulk_store(v_scratch + (i64)panel * SLOT + i * MB * BLOCK + panel * BLOCK,
                                       v_addr + i * MB * BLOCK + panel * BLOCK, (MB - panel) * BLOCK);
                        bulk_commit();
                    }
                    block_sync();
                    if (wg == 1)
#pragma unroll
                        for (int i = 0; i < 32; i++)
                            gs[(c0 + ((i >> 1) & 1) * 8) * LD + (i >> 2) * 8 + 2 * q + (i & 1)] += S[i];
                    block_sync();
                    // T^ = (I + D striu(V'V))^-1 (the inverse form of larft), by halves: [A B; 0 C]^-1 = [A^ -A^ B C^; 0 C^].
                    // Row r of D striu(S) is scaled by tau_r. Two warps, a column a thread.
                    float *ti = xm; // [64][LD]: V1 and M have been used
                    if (t < 64) {
                        const int half = t & 32, own = t & 31;
                        const float *s = gs + half * LD + half;
                        float column[32];
#pragma unroll
                        for (int i = 31; i >= 0; i--) {
                            float sum = 0.f;
#pragma unroll
                            for (int k = i + 1; k < 32; k++) sum = fmaf(s[i * LD + k], column[k], sum);
                            column[i] = i == own ? 1.f : i < own ? -tau_s[half + i] * sum : 0.f;
                        }
#pragma unroll
                        for (int i = 0; i < 32; i++) ti[(half + i) * LD + half + own] = column[i];
                    }
                    block_sync();
                    const int r = t >> 3, c = (t & 7) * 4;
                    {
                        const f32x4 nothing = {0.f, 0.f, 0.f, 0.f};
                        f32x4 b = product_32<false, true>(gs + 32, ti + 32 * LD + 32, r, c, nothing);
                        const float scale = -tau_s[r];
                        b.x *= scale, b.y *= scale, b.z *= scale, b.w *= scale;
                        *reinterpret_cast<f32x4 *>(p1 + r * LD + c) = b;
                        block_sync();
                        b = product_32<false, false>(ti, p1, r, c, nothing);
                        *reinterpret_cast<f32x4 *>(ti + r * LD + 32 + c) = b;
                        *reinterpret_cast<f32x4 *>(ti + (32 + r) * LD + c) = nothing;
                    }
                    block_sync();
                    for (int i = t; i < 4096; i += 256) {
                        const int row = i >> 6, column = i & 63;
                        const float x = ti[row * LD + column];
                        *reinterpret_cast<u16 *>(t_tile + tile_offset(row, column)) = f16_bits(x);
#line 731 "families/wgmma.lua"
                        *reinterpret_cast<u16 *>(t_tile + BLOCK + tile_offset(row, column)) = f16_bits(lower_term(x));
#line 733 "families/wgmma.lua"
                    }
                    if (t < 64) tau_scratch[panel * 64 + t] = tau_s[t];
                    fence_async_shared();
                    block_sync();
                    if (t == 0) {
                        bulk_store(t_scratch + (i64)panel * T_SLOT, t_addr, T_SLOT);
                        bulk_commit();
                        bulk_wait<0>();
                    }
                }
                block_sync();
            }
        }
        if (thread == 0 && info_all) info_all[matrix] = report;
    }
}
QRS_ENTRY(geqrf)
