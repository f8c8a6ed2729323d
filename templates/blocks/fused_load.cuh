// Column block k of A into mma accumulators, scaled, and the finished rows of R out of them.
//
// Parameters: M, N; W warps; TILES row tiles a warp; IN, OUT layouts.
// Fragment: C^T in the accumulator layout of m16n8k16, so that it is at once the A operand of W^T = C^T V. Warp w holds row
// tiles i W + w of 16 rows; c[mt][i][n][e] is row (i W + w) 16 + 8 n + 2 q + (e & 1), column 16 mt + g + 8 (e >> 1), with
// g = lane / 4, q = lane % 4. Entries past the matrix are zero.
// Scale: column j is multiplied by 2^(LIFT - e_j), e_j the exponent of its largest finite magnitude. LIFT keeps the low
// halves of split fp16 operands away from fp16's subnormals.
#define QRS_LIFT 6

typedef float fused_tile[2][${TILES}][2][4];

QRS_DEV int fused_row(int i, int n, int e) { return (i * ${W} + (int)warp()) * 16 + n * 8 + (int)(lane() & 3) * 2 + (e & 1); }
QRS_DEV int fused_column(int mt, int e) { return mt * 16 + (int)(lane() >> 2) + (e >> 1) * 8; }

// True when the block is not all zero. exponent: [32], of the columns, 0 for a zero column; largest: [W][32]; both shared.
// *bad is set (never cleared) to 1 when an entry is not finite. Synchronises the block once; the caller synchronises before it
// reads exponent, and before a next call.
QRS_DEV bool fused_load(fused_tile &c, const float *a, i64 lda, int first, float *largest, int *bad, int *exponent)
{
    float most[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    bool odd = false;
    const float *at = a + ${IN == "col" and "(first + fused_column(0, 0)) * lda + fused_row(0, 0, 0)" or "fused_row(0, 0, 0) * lda + first + fused_column(0, 0)"};
    #pragma unroll
    for (int i = 0; i < ${TILES}; i++)
        #pragma unroll
        for (int n = 0; n < 2; n++)
            #pragma unroll
            for (int e = 0; e < 2; e++)
                #pragma unroll
                for (int s = 0; s < 4; s++) {
                    bool in = fused_row(i, n, e) < ${M} && first + fused_column(0, 0) + 8 * s < ${N};
                    const int down = i * ${W * 16} + n * 8 + e;
                    c[s >> 1][i][n][(s & 1) * 2 + e] = in ? at[${IN == "col" and "8 * s * lda + down" or "down * lda + 8 * s"}] : 0.0f;
                }
    #pragma unroll
    for (int mt = 0; mt < 2; mt++)
        #pragma unroll
        for (int i = 0; i < ${TILES}; i++)
            #pragma unroll
            for (int n = 0; n < 2; n++)
                #pragma unroll
                for (int e = 0; e < 4; e++) {
                    float v = fabsf(c[mt][i][n][e]);
                    bool finite = v <= 0x1.fffffep127f;
                    odd = odd || !finite;
                    most[2 * mt + (e >> 1)] = fmaxf(most[2 * mt + (e >> 1)], finite ? v : 0.0f);
                }
    #pragma unroll
    for (int s = 0; s < 4; s++) {
        most[s] = fmaxf(most[s], shfl_xor(most[s], 1));
        most[s] = fmaxf(most[s], shfl_xor(most[s], 2));
        if ((lane() & 3) == 0)
            largest[warp() * 32 + fused_column(s >> 1, (s & 1) * 2)] = most[s];
    }
    if (odd)
        *bad = 1;
    block_sync();
    float mine = 0.0f;
    #pragma unroll
    for (int v = 0; v < ${W}; v++)
        mine = fmaxf(mine, largest[v * 32 + lane()]);
    const int ex = mine > 0.0f ? pow2_exponent(mine) : 0;
    if (warp() == 0)
        exponent[lane()] = ex;
    #pragma unroll
    for (int s = 0; s < 4; s++) {
        power_of_two f = make_power_of_two(QRS_LIFT - shfl(ex, fused_column(s >> 1, (s & 1) * 2)));
        #pragma unroll
        for (int i = 0; i < ${TILES}; i++)
            #pragma unroll
            for (int n = 0; n < 2; n++) {
                float *x = &c[s >> 1][i][n][(s & 1) * 2];
                x[0] = times(f, x[0]);
                x[1] = times(f, x[1]);
            }
    }
    return warp_any(mine > 0.0f) || *bad;
}

// Rows above `active` are final: to H, with their scale. The others to the panel buffer, row-major with stride 36.
QRS_DEV void fused_spill(const fused_tile &c, float *h, i64 ldh, int first, int active, float *panel, const int *exponent)
{
    #pragma unroll
    for (int mt = 0; mt < 2; mt++)
        #pragma unroll
        for (int s = 0; s < 2; s++) {
            int j = fused_column(mt, 2 * s), col = first + j;
            power_of_two f = make_power_of_two(exponent[j] - QRS_LIFT);
            #pragma unroll
            for (int i = 0; i < ${TILES}; i++)
                #pragma unroll
                for (int n = 0; n < 2; n++)
                    #pragma unroll
                    for (int e = 0; e < 2; e++) {
                        int row = fused_row(i, n, e);
                        float v = c[mt][i][n][2 * s + e];
                        if (row >= active && row < ${MT})
                            panel[(row - active) * 36 + j] = v;
                        else if (row < ${M} && col < ${N})
                            h[${OUT == "col" and "col * ldh + row" or "row * ldh + col"}] = times(f, v);
                    }
        }
}
