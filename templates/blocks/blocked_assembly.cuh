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
    constexpr int B = ${B}, M = ${M}, N = ${N}, K = ${K}, LD = B + 1, CHUNK = 128;
    u8 *smem = dynamic_smem();
    float *tile = reinterpret_cast<float *>(smem); // [CHUNK][LD]
    float *s = tile + CHUNK * LD;                  // [B][LD]: V'V
    float *tau_s = s + B * LD;                     // [B]
    int *last = reinterpret_cast<int *>(tau_s + B);
    const int t = threadIdx.x, chunk = blockIdx.x % chunks, rows = M - first;
    const i64 matrix = blockIdx.x / chunks;
    const float *panel = panel_all + matrix * (i64)${M * B};
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
% if ROW_OUT then
        const int r = i / B, c = i % B;
% else
        const int r = i % CHUNK, c = i / CHUNK;
% end
        const int row = chunk * CHUNK + r;
        if (row < rows && first + c < N) {
            float x = tile[r * LD + c];
            if (row <= c) x = scale_pow2(x, exponents[matrix * N + first + c]);
            h[${ROW_OUT and "(i64)(first + row) * ldh + first + c" or "(i64)(first + c) * ldh + first + row"}] = x;
        }
    }
    if (!update) return;
    block_sync();
    for (int i = t; i < CHUNK * B; i += 256) {
        const int r = i / B, c = i % B, row = chunk * CHUNK + r;
        if (row >= rows) continue;
        float &x = tile[r * LD + c];
        if (row <= c) x = row == c ? 1.f : 0.f;
% if TERMS == 0 then
        reinterpret_cast<float *>(v_all)[(matrix * M + row) * B + c] = x;
% else
        u16 *v = reinterpret_cast<u16 *>(v_all) + matrix * (i64)${2 * M * B};
        const float scaled = x * ${V_SCALE};
        v[(i64)row * B + c] = f16_bits(scaled);
        v[(i64)(M + row) * B + c] = f16_bits(scaled - f16_value(f16_bits(scaled)));
% end
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
