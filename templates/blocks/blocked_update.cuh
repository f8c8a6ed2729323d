// Trailing update of family blocked: C -= V (T' (V' C)) for a tile of 64 columns of one matrix, 256 threads, two passes over the rows in
// chunks of 64 (LAPACK larfb with the compact WY form of Schreiber and Van Loan). The first B rows leave as rows of R, scaled back.
//
// Parameters: B (16 or 32), M, N, ROW_OUT, TERMS (0: FFMA in fp32; 1: one fp16 product, fp32 accumulation, but two terms for tiles that hold
// a concentrated column: its error would stand out against the small 1-norm; 2: always two terms, three products, fp32 level). V_SCALE and C_SCALE: powers of two on the fp16 operands V and
// C or W', which keep large sums below fp16's end and low terms above its subnormals.
// W' = T' W: entries (t + 256 k) / 64, t % 64 for this thread. ts [B][B + 1], ws [B][68].
constexpr int UPDATE_OWN = ${B * 64 // 256};
QRS_DEV void apply_t(float (&z)[UPDATE_OWN], const float *ts, const float *ws) {
    const int t = threadIdx.x, c = t % 64;
#pragma unroll
    for (int k = 0; k < UPDATE_OWN; k++) {
        const int j = (t + 256 * k) / 64;
        z[k] = 0.f;
        for (int i = 0; i <= j; i++) z[k] = fmaf(ts[i * ${B + 1} + j], ws[i * 68 + c], z[k]);
    }
}

QRS_KERNEL(update, 256, 2)
(float *h_all, i64 ldh, i64 stride_h, const u8 *v_all, const float *t_all, const int *exponents, const int *concentrated, int *flags, int first,
 int tiles) {
    constexpr int B = ${B}, M = ${M}, N = ${N}, TERMS = ${TERMS};
    u8 *smem = dynamic_smem();
    const int t = threadIdx.x, rows = M - first;
    const int c_first = first + B + (blockIdx.x % tiles) * 64;
    const i64 matrix = blockIdx.x / tiles;
    float *h = h_all + matrix * stride_h;
    float *ts = reinterpret_cast<float *>(smem); // [B][B + 1]
    float *ws = reinterpret_cast<float *>(smem + ${align(B * (B + 1) * 4, 16)});
    for (int i = t; i < B * B; i += 256) ts[i / B * (B + 1) + i % B] = t_all[matrix * (B * B) + i];
    auto element = [&](int row, int column) -> float & {
        return h[${ROW_OUT and "(i64)(first + row) * ldh + column" or "(i64)column * ldh + first + row"}];
    };
% if TERMS == 0 then
    constexpr int LV = B + 4, QUADS = B / 4, GROUPS = 16 / QUADS; // row groups of the first pass: QUADS x 16 tiles of 4 x 4 each
    const float *v = reinterpret_cast<const float *>(v_all) + matrix * (i64)(M * B);
    float *vs = ws + B * 68;   // [64][LV]
    float *cs = vs + 64 * LV;  // [64][68]
    auto load_v = [&](int r0) {
        for (int i = t; i < 64 * QUADS; i += 256) {
            const int r = i / QUADS, c = i % QUADS * 4;
            const f32x4 zero = {0.f, 0.f, 0.f, 0.f};
            *reinterpret_cast<f32x4 *>(vs + r * LV + c) =
                r0 + r < rows ? *reinterpret_cast<const f32x4 *>(v + (i64)(r0 + r) * B + c) : zero;
        }
    };
    auto load_c = [&](int r0) {
        for (int i = t; i < 4096; i += 256) {
            const int r = ${ROW_OUT and "i / 64" or "i % 64"}, c = ${ROW_OUT and "i % 64" or "i / 64"};
            cs[r * 68 + c] = r0 + r < rows && c_first + c < N ? element(r0 + r, c_first + c) : 0.f;
        }
    };
    {
        float w[4][4];
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int c = 0; c < 4; c++) w[i][c] = 0.f;
        const int group = t / (QUADS * 16), place = t % (QUADS * 16), v0 = place / 16 * 4, c0 = place % 16 * 4;
        for (int r0 = 0; r0 < rows; r0 += 64) {
            load_v(r0);
            load_c(r0);
            block_sync();
#pragma unroll 4
            for (int r = group; r < 64; r += GROUPS) {
                const f32x4 a = *reinterpret_cast<f32x4 *>(vs + r * LV + v0), b = *reinterpret_cast<f32x4 *>(cs + r * 68 + c0);
                const float av[4] = {a.x, a.y, a.z, a.w}, bv[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
                for (int i = 0; i < 4; i++)
#pragma unroll
                    for (int c = 0; c < 4; c++) w[i][c] = fmaf(av[i], bv[c], w[i][c]);
            }
            block_sync();
        }
        for (int turn = 0; turn < GROUPS; turn++) {
            if (group == turn) {
#pragma unroll
                for (int i = 0; i < 4; i++)
#pragma unroll
                    for (int c = 0; c < 4; c++) {
                        float &sum = ws[(v0 + i) * 68 + c0 + c];
                        sum = turn == 0 ? w[i][c] : sum + w[i][c];
                    }
            }
            block_sync();
        }
    }
    float z_own[UPDATE_OWN];
    apply_t(z_own, ts, ws);
    block_sync();
#pragma unroll
    for (int k = 0; k < UPDATE_OWN; k++) ws[(t + 256 * k) / 64 * 68 + t % 64] = z_own[k];
    block_sync();
    const int q0 = t / 16 * 4, c0 = t % 16 * 4;
    for (int r0 = 0; r0 < rows; r0 += 64) {
        load_v(r0);
        load_c(r0);
        block_sync();
        float x[4][4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const f32x4 a = *reinterpret_cast<f32x4 *>(cs + (q0 + i) * 68 + c0);
            x[i][0] = a.x, x[i][1] = a.y, x[i][2] = a.z, x[i][3] = a.w;
        }
#pragma unroll 8
        for (int k = 0; k < B; k++) {
            const f32x4 z = *reinterpret_cast<f32x4 *>(ws + k * 68 + c0);
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float a = -vs[(q0 + i) * LV + k];
                x[i][0] = fmaf(a, z.x, x[i][0]);
                x[i][1] = fmaf(a, z.y, x[i][1]);
                x[i][2] = fmaf(a, z.z, x[i][2]);
                x[i][3] = fmaf(a, z.w, x[i][3]);
            }
        }
        block_sync();
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int c = 0; c < 4; c++) cs[(q0 + i) * 68 + c0 + c] = x[i][c];
        block_sync();
        for (int i = t; i < 4096; i += 256) {
            const int r = ${ROW_OUT and "i / 64" or "i % 64"}, c = ${ROW_OUT and "i % 64" or "i / 64"};
            if (r0 + r >= rows || c_first + c >= N) continue;
            float value = cs[r * 68 + c];
            if (r0 + r < B) value = scale_pow2(value, exponents[matrix * N + c_first + c]);
            element(r0 + r, c_first + c) = value;
        }
        block_sync();
    }
% else
    // Strides of 80 and 144 bytes keep ldmatrix free of bank conflicts.
    constexpr int LV = B + 8, LC = 72, VT = 64 * LV, CT = 64 * LC, ZT = B * LC; // in fp16 elements
    const u16 *v = reinterpret_cast<const u16 *>(v_all) + matrix * (i64)${2 * M * B};
    u16 *vs = reinterpret_cast<u16 *>(ws + B * 68); // [2][64][LV]
    u16 *cs = vs + 2 * VT;                          // [2][64][LC]: C's terms; in the second pass W' [2][B][LC]
    constexpr float SCALE = ${V_SCALE * C_SCALE}, UNSCALE = ${1 / (V_SCALE * C_SCALE)};
    const int w = warp(), l = lane(), g = l >> 2, q = l & 3;
% if TERMS == 1 then
    const bool split = block_any(t < 64 && c_first + t < N && concentrated[matrix * N + c_first + t]);
    if (split && t == 0) atomic_or(flags + matrix, 4);
% else
    constexpr bool split = true;
% end
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
                const int r = ${ROW_OUT and "i / 64" or "i % 64"}, c = ${ROW_OUT and "i % 64" or "i / 64"};
                const float x = r0 + r < rows && c_first + c < N ? element(r0 + r, c_first + c) : 0.f;
                const float scaled = x * ${C_SCALE};
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
        const float scaled = -z_own[k] * ${C_SCALE};
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
    const i64 row_step = ${ROW_OUT and "ldh" or "1"}, column_step = ${ROW_OUT and "1" or "ldh"};
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
% end
}
QRS_ENTRY(update)

// Last launch: what happened to each matrix, for who asked.
QRS_KERNEL(epilogue, 256, 0)
(const int *flags, int *info, i64 batch) {
    const i64 i = (i64)blockIdx.x * 256 + threadIdx.x;
    if (i < batch && info) info[i] = flags[i];
}
QRS_ENTRY(epilogue)
