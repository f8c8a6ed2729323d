// T of a panel of 64 columns from V'V and tau, as fp16 pairs for warpgroup products.
//
// Parameters: LD: rows of V'V lie so far apart, a multiple of 4.
// T = (I + D striu(V'V))^-1 D with D = diag(tau) (Schreiber and Van Loan's compact WY), by blocks J of 8 columns: with Y the identity at first,
//   T[:,J] = Y[:,J] T_J and Y[:,n] -= T[:,J] V'V[J,n] for the columns n behind, T_J being the T of the block alone.
// The T_J are independent, and so are T's rows: a warp finds one T_J, then a warp 16 rows of T without waiting for another. Products are tensor cores': three of
// TF32 (gram_small.cuh), where an accumulator's columns 2 q, 2 q + 1 count as k = q, q + 4 on both sides (t_corner.cuh). tau = 0 gives a zero row and column.
typedef float t_block[8][8];

// One warp: T of 8 columns from the diagonal block of V'V at gram and their tau.
QRS_DEV void t_diagonal(const float *gram, const float *tau, t_block &to)
{
    const int g = (int)lane() >> 2, q = (int)lane() & 3; // lane = row g, columns 2 q, 2 q + 1
    float t[2] = {0.0f, 0.0f}, sum[2] = {0.0f, 0.0f};    // of T, and of T striu(V'V)
    #pragma unroll 1
    for (int k = 0, mine = 4 * g; k < 8; k += 2, mine++, tau += 2, gram += ${2 * LD}) {
        const f32x2 f = *(const f32x2 *)tau, row0 = *(const f32x2 *)(gram + 2 * q), row1 = *(const f32x2 *)(gram + ${LD} + 2 * q);
        const float corner = gram[k + 1], s0 = shfl(sum[0], mine), s1 = shfl(sum[1], mine);
        const float x = g == k ? f.x : g < k ? -f.x * s0 : 0.0f, y = g == k + 1 ? f.y : g <= k ? -f.y * fmaf(x, corner, s1) : 0.0f;
        sum[0] = fmaf(y, row1.x, fmaf(x, row0.x, sum[0]));
        sum[1] = fmaf(y, row1.y, fmaf(x, row0.y, sum[1]));
        t[0] = 2 * q == k ? x : t[0];
        t[1] = 2 * q == k ? y : t[1];
    }
    *(f32x2 *)(to[g] + 2 * q) = {t[0], t[1]};
}

// Warp w of four: rows 16 w.. of T to tiles like V's at `to`, the low one 8 KB after the high one.
QRS_CALL void t_rows(const float *gram, const t_block *blocks, u8 *to, int w)
{
    const int g = (int)lane() >> 2, q = (int)lane() & 3, row = 16 * w + g;
    float y[8][4]; // of the n-th block of columns, counted from the block at work: rows g and g + 8
    #pragma unroll
    for (int n = 0; n < 8; n++)
        #pragma unroll
        for (int e = 0; e < 4; e++)
            y[n][e] = n == e >> 1 && g == 2 * q + (e & 1) ? 1.0f : 0.0f;
    #pragma unroll 1
    for (int block = 0; block < 8; block++) {
        float t[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        if (block >= 2 * w) { // else it is below the diagonal
            u32 a[4], al[4], b[2], bl[2];
            #pragma unroll
            for (int x = 0; x < 4; x++)
                gram_split(y[0][(x & 1) * 2 + (x >> 1)], a[x], al[x]);
            #pragma unroll
            for (int x = 0; x < 2; x++)
                gram_split(blocks[block][2 * q + x][g], b[x], bl[x]);
            mma_tf32(t, a, bl[0], bl[1]);
            mma_tf32(t, al, b[0], b[1]);
            mma_tf32(t, a, b[0], b[1]);
            #pragma unroll
            for (int x = 0; x < 4; x++)
                gram_split(-t[(x & 1) * 2 + (x >> 1)], a[x], al[x]);
            const float *from = gram + (8 * block + 2 * q) * ${LD} + 8 * block + 8 + g;
            #pragma unroll
            for (int n = 1; n < 8; n++) {
                if (block + n < 8)
                    #pragma unroll
                    for (int x = 0; x < 2; x++)
                        gram_split(from[x * ${LD} + 8 * (n - 1)], b[x], bl[x]);
                #pragma unroll
                for (int e = 0; e < 4; e++)
                    y[n - 1][e] = y[n][e];
                mma_tf32(y[n - 1], a, bl[0], bl[1]);
                mma_tf32(y[n - 1], al, b[0], b[1]);
                mma_tf32(y[n - 1], a, b[0], b[1]);
            }
        }
        #pragma unroll
        for (int half = 0; half < 2; half++) {
            u32 hi, lo;
            split_f16(t[2 * half], t[2 * half + 1], hi, lo);
            u8 *at = to + wide_chunk(row + 8 * half, block) + 4 * q;
            *(u32 *)at = hi;
            *(u32 *)(at + 8192) = lo;
        }
    }
}
