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
    float sum[16]; // of the columns from 4 k on
    #pragma unroll
    for (int j = 0; j < 16; j++)
        sum[j] = 0.0f;
    #pragma unroll 1
    for (int k = 0; k < 4; k++) {
        const f32x4 f4 = *(const f32x4 *)(tau + o + 4 * k);
        const float f[4] = {f4.x, f4.y, f4.z, f4.w};
        f32x4 g[4][4]; // rows of V'V
        #pragma unroll
        for (int i = 0; i < 4; i++)
            #pragma unroll
            for (int j = 0; j < 4; j++)
                g[i][j] = j + k < 4 ? lds<f32x4>(from + k * ${16 * LDG + 16} + i * ${4 * LDG} + j * 16) : f32x4{0.0f, 0.0f, 0.0f, 0.0f};
        float x[4];
        #pragma unroll
        for (int i = 0; i < 4; i++) {
            x[i] = r == 4 * k + i ? f[i] : r < 4 * k + i ? -f[i] * sum[i] : 0.0f;
            #pragma unroll
            for (int j = (i + 1) / 4; j < 4; j++) {
                sum[4 * j] = fmaf(x[i], g[i][j].x, sum[4 * j]);
                sum[4 * j + 1] = fmaf(x[i], g[i][j].y, sum[4 * j + 1]);
                sum[4 * j + 2] = fmaf(x[i], g[i][j].z, sum[4 * j + 2]);
                sum[4 * j + 3] = fmaf(x[i], g[i][j].w, sum[4 * j + 3]);
            }
        }
        #pragma unroll
        for (int j = 0; j + 4 < 16; j++)
            sum[j] = sum[j + 4];
        *(f32x4 *)(t + l * ${LDT} + o + 4 * k) = {x[0], x[1], x[2], x[3]};
        *(f32x4 *)(t + l * ${LDT} + 16 - o + 4 * k) = {0.0f, 0.0f, 0.0f, 0.0f};
    }
    warp_sync();
    t_corner(gram, t);
}
