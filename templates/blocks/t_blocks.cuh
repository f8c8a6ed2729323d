// T of a panel from V'V and tau, by blocks of 8 columns.
//
// Parameters: B columns; LDG, LDT: rows of V'V and of T lie so far apart, even.
// T = (I + D striu(V'V))^-1 D with D = diag(tau) (Schreiber and Van Loan's compact WY). With Y the identity at first, a block J at a time:
//   T[:,J] = Y[:,J] T_J and Y[:,n] -= T[:,J] V'V[J,n] for the columns n behind, T_J being the T of the block alone.
// The T_J are independent, and so are T's rows: a warp finds one T_J, then a warp 16 rows of T without waiting for another. Products are tensor cores': three of
// TF32 (gram_small.cuh). tau = 0 gives a zero row and column.
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
            gram_left a;
            gram_right b[${NB}];
            gram_operand(b[0], blocks[block][2 * q][g], blocks[block][2 * q + 1][g]);
            const float *from = gram + (8 * block + 2 * q) * ${LDG} + 8 * block + g;
            #pragma unroll
            for (int n = 1; n < ${NB}; n++)
                gram_operand(b[n], block + n < ${NB} ? from[8 * n] : 0.0f, block + n < ${NB} ? from[${LDG} + 8 * n] : 0.0f);
            gram_operand(a, y[0][0], y[0][2], y[0][1], y[0][3]);
            float small[4] = {0.0f, 0.0f, 0.0f, 0.0f};
            mma_tf32(small, a.hi, b[0].lo[0], b[0].lo[1]);
            mma_tf32(x, a.hi, b[0].hi[0], b[0].hi[1]);
            mma_tf32(small, a.lo, b[0].hi[0], b[0].hi[1]);
            #pragma unroll
            for (int e = 0; e < 4; e++)
                x[e] += small[e];
            gram_operand(a, -x[0], -x[2], -x[1], -x[3]);
            #pragma unroll
            for (int n = 1; n < ${NB}; n++)
                #pragma unroll
                for (int e = 0; e < 4; e++)
                    y[n - 1][e] = y[n][e];
            // One term after another: products into the same sums are as far apart as can be.
            #pragma unroll
            for (int n = 1; n < ${NB}; n++)
                mma_tf32(y[n - 1], a.hi, b[n].lo[0], b[n].lo[1]);
            #pragma unroll
            for (int n = 1; n < ${NB}; n++)
                mma_tf32(y[n - 1], a.lo, b[n].hi[0], b[n].hi[1]);
            #pragma unroll
            for (int n = 1; n < ${NB}; n++)
                mma_tf32(y[n - 1], a.hi, b[n].hi[0], b[n].hi[1]);
        }
        #pragma unroll
        for (int half = 0; half < 2; half++)
            *(f32x2 *)(t + 8 * half * ${LDT} + 8 * block) = {x[2 * half], x[2 * half + 1]};
    }
}
