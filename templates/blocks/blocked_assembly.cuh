// Assembly of family blocked: a factored panel becomes R (scaled back), V and tau in the user's arrays, and the copies of V and T that the
// update reads. CTAs of 256 threads take 128 rows each; the first of a matrix also forms V'V and T.
//
// Parameters: B, M, N, K = min(M, N), ROW_OUT, TERMS (0: V in fp32; 1 or 2: V in so many fp16 terms).
// T is the inverse form of larft (Puglisi; Joffrain et al.): (I + D striu(V'V)) T = D, D = diag(tau). tau = 0 gives a zero row and column.
// v_terms [batch][TERMS][M][B] u16, or v_full [batch][M][B] float: unit diagonal, zeros above. t_all [batch][B][B] float, row-major.
QRS_KERNEL(assembly, 256, 0)
(const float *panel_all, const float *panel_tau, const int *exponents, float *h_all, i64 ldh, i64 stride_h, float *tau_all, i64 stride_tau,
 u8 *v_all, float *t_all, int first, int chunks, int update) {
    constexpr int B = ${B}, M = ${M}, N = ${N}, K = ${K}, TERMS = ${TERMS}, LD = B + 1;
    u8 *smem = dynamic_smem();
    float *tile = reinterpret_cast<float *>(smem); // [128][LD]
    float *s = tile + 128 * LD;                    // [B][LD]
    const int t = threadIdx.x, chunk = blockIdx.x % chunks, rows = M - first;
    const i64 matrix = blockIdx.x / chunks;
    const float *panel = panel_all + matrix * (i64)${M * B};
    float *h = h_all + matrix * stride_h;
    for (int i = t; i < 128 * B; i += 256) {
        const int row = chunk * 128 + i / B;
        tile[i / B * LD + i % B] = row < rows ? panel[(i64)row * B + i % B] : 0.f;
    }
    block_sync();
    for (int i = t; i < 128 * B; i += 256) {
% if ROW_OUT then
        const int r = i / B, c = i % B;
% else
        const int r = i % 128, c = i / 128;
% end
        const int row = chunk * 128 + r;
        if (row < rows && first + c < N) {
            float x = tile[r * LD + c];
            if (row <= c) x = scale_pow2(x, exponents[matrix * N + first + c]);
            h[${ROW_OUT and "(i64)(first + row) * ldh + first + c" or "(i64)(first + c) * ldh + first + row"}] = x;
        }
    }
    if (chunk == 0 && t < B && first + t < K) tau_all[matrix * stride_tau + first + t] = panel_tau[matrix * B + t];
    if (!update) return;
    for (int i = t; i < 128 * B; i += 256) {
        const int r = i / B, c = i % B, row = chunk * 128 + r;
        if (row >= rows) continue;
        const float x = row > c ? tile[r * LD + c] : row == c ? 1.f : 0.f;
% if TERMS == 0 then
        reinterpret_cast<float *>(v_all)[(matrix * M + row) * B + c] = x;
% else
        u16 *v = reinterpret_cast<u16 *>(v_all) + matrix * (i64)(TERMS * M * B);
        v[(i64)row * B + c] = f16_bits(x);
% if TERMS == 2 then
        v[(i64)(M + row) * B + c] = f16_bits(x - f16_value(f16_bits(x)));
% end
% end
    }
    if (chunk) return;
    // V'V: thread (i, quarter) sums column pairs over every fourth.. row of the panel, chunk by chunk.
    constexpr int PAIRS = B * B / 256; // of (i, c) a thread
    float sum[PAIRS];
#pragma unroll
    for (int k = 0; k < PAIRS; k++) sum[k] = 0.f;
    for (int r0 = 0; r0 < rows; r0 += 128) {
        block_sync();
        for (int i = t; i < 128 * B; i += 256) {
            const int row = r0 + i / B, c = i % B;
            const float x = row < rows ? panel[(i64)row * B + c] : 0.f;
            tile[i / B * LD + c] = row > c ? x : row == c && row < rows ? 1.f : 0.f;
        }
        block_sync();
#pragma unroll 4
        for (int r = 0; r < 128; r++)
#pragma unroll
            for (int k = 0; k < PAIRS; k++) {
                const int pair = t + 256 * k;
                sum[k] = fmaf(tile[r * LD + pair / B], tile[r * LD + pair % B], sum[k]);
            }
    }
#pragma unroll
    for (int k = 0; k < PAIRS; k++) {
        const int pair = t + 256 * k;
        s[pair / B * LD + pair % B] = sum[k];
    }
    block_sync();
    // Back substitution, a column of T a thread.
    if (t < B) {
        float *column = tile + t; // [B] with stride LD: column t of a scratch, no array in registers indexed at run time
        for (int i = B - 1; i >= 0; i--) {
            const float tau = panel_tau[matrix * B + i];
            float x = 0.f;
            for (int k = i + 1; k <= t; k++) x = fmaf(s[i * LD + k], column[k * LD], x);
            const float value = i == t ? tau : i < t ? -tau * x : 0.f;
            column[i * LD] = value;
            t_all[matrix * (B * B) + i * B + t] = value;
        }
    }
}
QRS_ENTRY(assembly)
