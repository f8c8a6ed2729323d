// T of a panel of 32 columns from V'V and tau, by one warp.
//
// Parameters: LDG, LDT: rows of V'V and of T lie so far apart, multiples of 4.
// T = (I + D striu(V'V))^-1 D with D = diag(tau) (Schreiber and Van Loan's compact WY): the two 16 x 16 blocks of the diagonal
// by substitution at once, then the block above them as T12 = -T11 (S12 T22), instead of a chain of 32 columns. tau = 0 gives a zero row and column by itself.
% include("blocks/t_corner.cuh", { LDG = LDG, LDT = LDT })

// gram: V'V, symmetric; t: 32 x 32.
QRS_CALL void small_t(const float *gram, const float *tau, float *t)
{
    const int l = lane(), o = l & 16, r = l & 15; // lane = row of T; columns of its half one after another, each added to those after it
    const saddr from = to_saddr(gram + o * ${LDG + 1});
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
                g[(i + 2) % 3][j] = lds<f32x4>(from + (i + 2) * ${4 * LDG} + j * 16);
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
        *(f32x4 *)(t + l * ${LDT} + o + j) = {x[j], x[j + 1], x[j + 2], x[j + 3]};
        *(f32x4 *)(t + l * ${LDT} + 16 - o + j) = {0.0f, 0.0f, 0.0f, 0.0f};
    }
    warp_sync();
    t_corner(gram, t);
}
