// Small fp32-level products on tensor cores.
//
// Three TF32 products (hi hi + hi lo + lo hi) keep about fp32's accuracy with fp32's range.
QRS_DEV void gram_split(float x, u32 &hi, u32 &lo)
{
    hi = tf32_bits(x);
    lo = tf32_bits(x - as_f32(hi));
}

// d += A B for a 16 x 8 tile at (row, col) of a product with 32 terms, one warp, operands in shared memory. A(i, k) = a[i lda + k], or with TRANSPOSED
// a[k lda + i]; B(k, j) = b[k ldb + j]. d as m16n8k8 has it: d[0..1] at (row + g, col + 2q..), d[2..3] eight rows below.
template <bool TRANSPOSED> QRS_DEV void gram_tile(float (&d)[4], const float *a, int lda, const float *b, int ldb, int row, int col)
{
    const int g = lane() >> 2, q = lane() & 3;
    #pragma unroll
    for (int k = 0; k < 32; k += 8) {
        u32 h[4], lo[4], bh[2], bl[2];
        #pragma unroll
        for (int e = 0; e < 4; e++) {
            const int i = row + g + (e & 1) * 8, kk = k + q + (e >> 1) * 4;
            gram_split(TRANSPOSED ? a[kk * lda + i] : a[i * lda + kk], h[e], lo[e]);
        }
        #pragma unroll
        for (int e = 0; e < 2; e++)
            gram_split(b[(k + q + e * 4) * ldb + col + g], bh[e], bl[e]);
        mma_tf32(d, h, bl[0], bl[1]);
        mma_tf32(d, lo, bh[0], bh[1]);
        mma_tf32(d, h, bh[0], bh[1]);
    }
}
QRS_DEV void gram_tile_get(float (&d)[4], const float *from, int ld, int row, int col)
{
    const float *at = from + (row + ((int)lane() >> 2)) * ld + col + ((int)lane() & 3) * 2;
    d[0] = at[0], d[1] = at[1], d[2] = at[8 * ld], d[3] = at[8 * ld + 1];
}
QRS_DEV void gram_tile_put(const float (&d)[4], float *to, int ld, int row, int col)
{
    float *at = to + (row + ((int)lane() >> 2)) * ld + col + ((int)lane() & 3) * 2;
    at[0] = d[0], at[1] = d[1], at[8 * ld] = d[2], at[8 * ld + 1] = d[3];
}
