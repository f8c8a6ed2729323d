// T of a panel of 32 columns from V'V and tau, by two blocks of 16.
//
// Parameters: LDG, LDT: rows of V'V and of T lie so far apart, multiples of 4.
// T = (I + D striu(V'V))^-1 D with D = diag(tau) (Schreiber and Van Loan's compact WY), so T's rows are independent of each other: t_j = -tau_j sum_{k<j} t_k (V'V)_kj
// behind t_i = tau_i in row i. A lane finds a row of a diagonal block so: one multiplication and one addition a column. What is between the blocks is
// -T_1 (V'V)_12 T_2, by tensor cores (gram_small.cuh), transposed, so that what comes out of the first product is an operand of the second. tau = 0 gives a zero
// row and column.

// One warp. gram: V'V on and above the diagonal. t: T; its lower left quarter is left alone.
QRS_DEV void t_of_panel(const float *gram, const float *tau, float *t)
{
    const int l = (int)lane(), g = l >> 2, q = l & 3, first = l & 16, i = l & 15;
    {
        const float *from = gram + first * ${LDG + 1};
        float row[16], sum[16];
        #pragma unroll
        for (int j = 0; j < 16; j++)
            sum[j] = 0.0f;
        #pragma unroll
        for (int k = 0; k < 16; k += 4) {
            const f32x4 f = *(const f32x4 *)(tau + first + k);
            #pragma unroll
            for (int e = 0; e < 4; e++) {
                const float of = e == 0 ? f.x : e == 1 ? f.y : e == 2 ? f.z : f.w;
                row[k + e] = i == k + e ? of : -of * sum[k + e]; // before column i all sums are zero
                #pragma unroll
                for (int j = k; j < 16; j += 4) {
                    const f32x4 v = *(const f32x4 *)(from + (k + e) * ${LDG} + j);
                    sum[j] = fmaf(row[k + e], v.x, sum[j]);
                    sum[j + 1] = fmaf(row[k + e], v.y, sum[j + 1]);
                    sum[j + 2] = fmaf(row[k + e], v.z, sum[j + 2]);
                    sum[j + 3] = fmaf(row[k + e], v.w, sum[j + 3]);
                }
            }
        }
        #pragma unroll
        for (int j = 0; j < 16; j += 4)
            *(f32x4 *)(t + l * ${LDT} + first + j) = {row[j], row[j + 1], row[j + 2], row[j + 3]};
    }
    warp_sync();
    // (T_1 (V'V)_12 T_2)' = (T_2' (V'V)_12') T_1'
    gram_left a[2];
    float x[2][4] = {}, small[2][4] = {};
    #pragma unroll
    for (int k = 0; k < 2; k++) {
        const float *of = t + (16 + 8 * k + 2 * q) * ${LDT} + 16 + g;
        gram_operand(a[k], of[0], of[8], of[${LDT}], of[${LDT + 8}]);
    }
    #pragma unroll
    for (int k = 0; k < 2; k++)
        #pragma unroll
        for (int n = 0; n < 2; n++) {
            const f32x2 v = *(const f32x2 *)(gram + (8 * n + g) * ${LDG} + 16 + 8 * k + 2 * q);
            gram_right b;
            gram_operand(b, v.x, v.y);
            mma_tf32(small[n], a[k].hi, b.lo[0], b.lo[1]);
            mma_tf32(x[n], a[k].hi, b.hi[0], b.hi[1]);
            mma_tf32(small[n], a[k].lo, b.hi[0], b.hi[1]);
        }
    float y[2][4] = {};
    #pragma unroll
    for (int k = 0; k < 2; k++)
        gram_operand(a[k], x[k][0] + small[k][0], x[k][2] + small[k][2], x[k][1] + small[k][1], x[k][3] + small[k][3]);
    #pragma unroll
    for (int n = 0; n < 2; n++)
        #pragma unroll
        for (int e = 0; e < 4; e++)
            small[n][e] = 0.0f;
    #pragma unroll
    for (int k = 0; k < 2; k++)
        #pragma unroll
        for (int n = 0; n <= k; n++) {
            const f32x2 v = *(const f32x2 *)(t + (8 * n + g) * ${LDT} + 8 * k + 2 * q);
            gram_right b;
            gram_operand(b, v.x, v.y);
            mma_tf32(small[n], a[k].hi, b.lo[0], b.lo[1]);
            mma_tf32(y[n], a[k].hi, b.hi[0], b.hi[1]);
            mma_tf32(small[n], a[k].lo, b.hi[0], b.hi[1]);
        }
    #pragma unroll
    for (int n = 0; n < 2; n++)
        #pragma unroll
        for (int e = 0; e < 4; e++)
            t[(8 * n + 2 * q + (e & 1)) * ${LDT} + 16 + g + 8 * (e >> 1)] = -(y[n][e] + small[n][e]);
}
