// T of a panel from V'V and tau, by blocks of 8 columns.
//
// Parameters: B columns; LDG, LDT: rows of V'V and of T lie so far apart, even.
// T = (I + D striu(V'V))^-1 D with D = diag(tau) (Schreiber and Van Loan's compact WY). With Y the identity at first, a block J at a time:
//   T[:,J] = Y[:,J] T_J and Y[:,n] -= T[:,J] V'V[J,n] for the columns n behind, T_J being the T of the block alone.
// The T_J are independent, and so are T's rows: a warp finds one T_J, then a warp 16 rows of T without waiting for another. Products are tensor cores': three of
// TF32 (gram_small.cuh), where an accumulator's columns 2 q, 2 q + 1 count as k = q, q + 4 on both sides (t_corner.cuh). tau = 0 gives a zero row and column.
% local NB = B // 8
typedef float t_block[8][8];

// One warp: T of 8 columns from the diagonal block of V'V at gram and their tau.
QRS_DEV void t_diagonal(const float *gram, const float *tau, t_block &to)
{
    const int g = (int)lane() >> 2, q = (int)lane() & 3; // lane = row g, columns 2 q, 2 q + 1
    float t[2] = {0.0f, 0.0f}, sum[2] = {0.0f, 0.0f};    // of T, and of T striu(V'V)
    #pragma unroll
    for (int k = 0; k < 8; k += 2) {
        const f32x2 f = *(const f32x2 *)(tau + k), row0 = *(const f32x2 *)(gram + k * ${LDG} + 2 * q), row1 = *(const f32x2 *)(gram + (k + 1) * ${LDG} + 2 * q);
        const float corner = gram[k * ${LDG} + k + 1], s0 = shfl(sum[0], 4 * g + k / 2), s1 = shfl(sum[1], 4 * g + k / 2);
        const float x = g == k ? f.x : g < k ? -f.x * s0 : 0.0f, y = g == k + 1 ? f.y : g <= k ? -f.y * fmaf(x, corner, s1) : 0.0f;
        sum[0] = fmaf(y, row1.x, fmaf(x, row0.x, sum[0]));
        sum[1] = fmaf(y, row1.y, fmaf(x, row0.y, sum[1]));
        t[0] = 2 * q == k ? x : t[0];
        t[1] = 2 * q == k ? y : t[1];
    }
    *(f32x2 *)(to[g] + 2 * q) = {t[0], t[1]};
}

// Warp w of ${B // 16}: rows 16 w.. of T to t.
QRS_DEV void t_rows(const float *gram, const t_block *blocks, float *t, int w)
{
    const int g = (int)lane() >> 2, q = (int)lane() & 3;
    float y[${NB}][4]; // of the n-th block of columns, counted from the block at work: rows g and g + 8
    #pragma unroll
    for (int n = 0; n < ${NB}; n++)
        #pragma unroll
        for (int e = 0; e < 4; e++)
            y[n][e] = n == e >> 1 && g == 2 * q + (e & 1) ? 1.0f : 0.0f;
    t += (16 * w + g) * ${LDT} + 2 * q;
    #pragma unroll 1
    for (int block = 0; block < ${NB}; block++) {
        float x[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        if (block >= 2 * w) { // else it is below the diagonal
            u32 a[4], al[4], b[${NB}][2], bl[${NB}][2];
            #pragma unroll
            for (int e = 0; e < 2; e++)
                gram_split(blocks[block][2 * q + e][g], b[0][e], bl[0][e]);
            const float *from = gram + (8 * block + 2 * q) * ${LDG} + 8 * block + g;
            #pragma unroll
            for (int n = 1; n < ${NB}; n++)
                #pragma unroll
                for (int e = 0; e < 2; e++)
                    gram_split(block + n < ${NB} ? from[e * ${LDG} + 8 * n] : 0.0f, b[n][e], bl[n][e]);
            #pragma unroll
            for (int e = 0; e < 4; e++)
                gram_split(y[0][(e & 1) * 2 + (e >> 1)], a[e], al[e]);
            float small[4] = {0.0f, 0.0f, 0.0f, 0.0f};
            mma_tf32(small, a, bl[0][0], bl[0][1]);
            mma_tf32(x, a, b[0][0], b[0][1]);
            mma_tf32(small, al, b[0][0], b[0][1]);
            #pragma unroll
            for (int e = 0; e < 4; e++)
                x[e] += small[e];
            #pragma unroll
            for (int e = 0; e < 4; e++)
                gram_split(-x[(e & 1) * 2 + (e >> 1)], a[e], al[e]);
            #pragma unroll
            for (int n = 1; n < ${NB}; n++) {
                #pragma unroll
                for (int e = 0; e < 4; e++)
                    y[n - 1][e] = y[n][e];
                mma_tf32(y[n - 1], a, bl[n][0], bl[n][1]);
            }
            #pragma unroll
            for (int n = 1; n < ${NB}; n++)
                mma_tf32(y[n - 1], al, b[n][0], b[n][1]);
            #pragma unroll
            for (int n = 1; n < ${NB}; n++)
                mma_tf32(y[n - 1], a, b[n][0], b[n][1]);
        }
        #pragma unroll
        for (int half = 0; half < 2; half++)
            *(f32x2 *)(t + 8 * half * ${LDT} + 8 * block) = {x[2 * half], x[2 * half + 1]};
    }
}
