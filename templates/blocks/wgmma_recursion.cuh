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
//   work         ${NAME}_WORK floats, 16-aligned
// The caller synchronises before and after.
enum { ${NAME}_WORK = 2 * 4 * ${COLS + 4} + 2 * 2 * ${COLS + 4} + 6 * 32 };

QRS_DEV void ${NAME}(float *p1, const float *g, float *x, float *diag, float *tau, float *work, int count) {
    constexpr int COLS = ${COLS}, Q = COLS / 32, ROWS = 32, RW = ROWS / 4, LD = ${LD};
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
    for (int i = t & 127; i < ${NAME}_WORK; i += 128) work[i] = 0.f;
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
