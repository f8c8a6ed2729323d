// T of a panel of 32 columns from V'V and tau, by one warp.
//
// T = (I + D striu(V'V))^-1 D with D = diag(tau) (Schreiber and Van Loan's compact WY): the two 16 x 16 blocks of the diagonal
// by substitution at once, then the block above them as T12 = -T11 (S12 T22), instead of a chain of 32 columns. tau = 0 gives a zero row and column by itself.
// T12 = -T11 (S12 T22) of the halves in t (32 x 32), as two transposed products whose first result is at once the second's operand: a
// lane's pair of columns 2 q, 2 q + 1 of it counts as k = q and k = q + 4, in both operands alike. s: V'V, rows 36 apart.
QRS_DEV void small_t_corner(const float *s, float *t)
{
    const int g = lane() >> 2, q = lane() & 3;
    float y[2][4], z[2][4];
    #pragma unroll
    for (int n = 0; n < 2; n++)
        #pragma unroll
        for (int e = 0; e < 4; e++)
            y[n][e] = z[n][e] = 0.0f;
    #pragma unroll
    for (int k = 0; k < 16; k += 8) { // (S12 T22)' = T22' S12'
        u32 a[4], al[4], b[2][2], bl[2][2];
        #pragma unroll
        for (int e = 0; e < 4; e++)
            gram_split(t[(16 + k + q + (e >> 1) * 4) * 32 + 16 + g + (e & 1) * 8], a[e], al[e]);
        #pragma unroll
        for (int n = 0; n < 2; n++)
            #pragma unroll
            for (int e = 0; e < 2; e++)
                gram_split(s[(8 * n + g) * 36 + 16 + k + q + 4 * e], b[n][e], bl[n][e]);
        #pragma unroll
        for (int n = 0; n < 2; n++) {
            mma_tf32(y[n], a, bl[n][0], bl[n][1]);
            mma_tf32(y[n], al, b[n][0], b[n][1]);
            mma_tf32(y[n], a, b[n][0], b[n][1]);
        }
    }
    #pragma unroll
    for (int k = 0; k < 2; k++) { // T12' = -(S12 T22)' T11'
        u32 a[4], al[4];
        gram_split(-y[k][0], a[0], al[0]);
        gram_split(-y[k][2], a[1], al[1]);
        gram_split(-y[k][1], a[2], al[2]);
        gram_split(-y[k][3], a[3], al[3]);
        #pragma unroll
        for (int n = 0; n < 2; n++) {
            u32 b[2], bl[2];
            #pragma unroll
            for (int e = 0; e < 2; e++)
                gram_split(t[(8 * n + g) * 32 + 8 * k + 2 * q + e], b[e], bl[e]);
            mma_tf32(z[n], a, bl[0], bl[1]);
            mma_tf32(z[n], al, b[0], b[1]);
            mma_tf32(z[n], a, b[0], b[1]);
        }
    }
    #pragma unroll
    for (int n = 0; n < 2; n++)
        #pragma unroll
        for (int e = 0; e < 4; e++)
            t[(8 * n + 2 * q + (e & 1)) * 32 + 16 + g + (e >> 1) * 8] = z[n][e];
}

// gram: V'V, rows 36 apart; t: 32 x 32, rows 32 apart.
QRS_CALL void small_t(const float *gram, const float *tau, float *t)
{
    const int l = lane(), o = l & 16, r = l & 15; // lane = row of T; columns of its half one after another, each added to those after it
    const saddr from = to_saddr(gram + o * 37);
    float x[16], sum[16], f[16];
    f32x4 g[3][4]; // rows of V'V on their way, two ahead of the chain
    #pragma unroll
    for (int j = 0; j < 16; j++) {
        sum[j] = 0.0f;
        f[j] = tau[o + j];
    }
    #pragma unroll
    for (int i = -2; i < 16; i++) {
        #pragma unroll
        for (int j = (i + 3) / 4; j < 4; j++)
            if (i + 2 < 16)
                g[(i + 2) % 3][j] = lds<f32x4>(from + (i + 2) * 144 + j * 16);
        if (i < 0)
            continue;
        x[i] = r == i ? f[i] : r < i ? -f[i] * sum[i] : 0.0f;
        #pragma unroll
        for (int j = (i + 1) / 4; j < 4; j++) {
            const f32x4 u = g[i % 3][j];
            sum[4 * j] = fmaf(x[i], u.x, sum[4 * j]);
            sum[4 * j + 1] = fmaf(x[i], u.y, sum[4 * j + 1]);
            sum[4 * j + 2] = fmaf(x[i], u.z, sum[4 * j + 2]);
            sum[4 * j + 3] = fmaf(x[i], u.w, sum[4 * j + 3]);
        }
    }
    #pragma unroll
    for (int j = 0; j < 16; j += 4) {
        *(f32x4 *)(t + l * 32 + o + j) = {x[j], x[j + 1], x[j + 2], x[j + 3]};
        *(f32x4 *)(t + l * 32 + 16 - o + j) = {0.0f, 0.0f, 0.0f, 0.0f};
    }
    warp_sync();
    small_t_corner(gram, t);
}
