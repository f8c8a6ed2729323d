// Small fp32-level products on tensor cores.
//
// Three TF32 products (hi hi + hi lo + lo hi) keep about fp32's accuracy with fp32's range. The high half is rounded, by hand, as the
// conversion takes five instructions; of the low half the unit drops what is below 2^-22 of x. A NaN that does not survive
// in hi does in lo.
QRS_DEV void gram_split(float x, u32 &hi, u32 &lo)
{
    hi = (as_u32(x) + 0x1000u) & 0xffffe000u;
    lo = as_u32(x - as_f32(hi));
}

// Operands of a product of 16 x 8 x 8: on the left rows g, g + 8 of columns q, then of q + 4; on the right rows q, q + 4 of column g (g = lane / 4, q = lane % 4). An
// accumulator's columns 2 q, 2 q + 1 can be either at once, if they count as q, q + 4 on both sides.
struct gram_left {
    u32 hi[4], lo[4];
};
struct gram_right {
    u32 hi[2], lo[2];
};
QRS_DEV void gram_operand(gram_left &a, float v0, float v1, float v2, float v3)
{
    gram_split(v0, a.hi[0], a.lo[0]);
    gram_split(v1, a.hi[1], a.lo[1]);
    gram_split(v2, a.hi[2], a.lo[2]);
    gram_split(v3, a.hi[3], a.lo[3]);
}
QRS_DEV void gram_operand(gram_right &b, float v0, float v1)
{
    gram_split(v0, b.hi[0], b.lo[0]);
    gram_split(v1, b.hi[1], b.lo[1]);
}
QRS_DEV void gram_multiply(float (&d)[4], const gram_left &a, const gram_right &b)
{
    mma_tf32(d, a.hi, b.lo[0], b.lo[1]);
    mma_tf32(d, a.lo, b.hi[0], b.hi[1]);
    mma_tf32(d, a.hi, b.hi[0], b.hi[1]);
}

// Products with one right side, in turns: none waits for the one before it.
template <int N> QRS_DEV void gram_multiply_all(float (&d)[N][4], const gram_left (&a)[N], const gram_right &b)
{
    #pragma unroll
    for (int i = 0; i < N; i++)
        mma_tf32(d[i], a[i].hi, b.lo[0], b.lo[1]);
    #pragma unroll
    for (int i = 0; i < N; i++)
        mma_tf32(d[i], a[i].lo, b.hi[0], b.hi[1]);
    #pragma unroll
    for (int i = 0; i < N; i++)
        mma_tf32(d[i], a[i].hi, b.hi[0], b.hi[1]);
}

% if NC == 2 then
// to = from + A B (from null: 0) times `sign`, 32 x 32 x 32, rows 68 apart, all in shared memory, where `to` may be any of the others. A(i, k) is
// a[68 i + k], or with `turned` a[68 k + i]. All 256 threads, two products at once: warps 0-3 one, warps 4-7 another; a warp forms a quarter,
// or nothing where its `to` is null. Synchronises between and after.
QRS_CALL void gram_product(float *to, const float *from, const float *a, bool turned, const float *b, float sign)
{
    const int w = warp(), g = lane() >> 2, q = lane() & 3, row = (w & 2) * 8 + g, col = (w & 1) * 16;
    const int ai = turned ? 1 : 68, ak = turned ? 68 : 1, place = row * 68 + col + 2 * q;
    float d[2][4], e[2][4]; // the leading product, and the two small ones: shorter chains
    if (to) {
        #pragma unroll
        for (int n = 0; n < 2; n++)
            #pragma unroll
            for (int x = 0; x < 4; x++) {
                d[n][x] = from ? from[place + 8 * n + (x & 1) + (x >> 1) * 8 * 68] : 0.0f;
                e[n][x] = 0.0f;
            }
        a += row * ai + q * ak;
        b += q * 68 + col + g;
        #pragma unroll
        for (int k = 0; k < 4; k++) {
            u32 h[4], lo[4];
            #pragma unroll
            for (int x = 0; x < 4; x++)
                gram_split(a[(x & 1) * 8 * ai + (8 * k + (x >> 1) * 4) * ak], h[x], lo[x]);
            #pragma unroll
            for (int n = 0; n < 2; n++) {
                u32 bh[2], bl[2];
                #pragma unroll
                for (int x = 0; x < 2; x++)
                    gram_split(b[(8 * k + 4 * x) * 68 + 8 * n], bh[x], bl[x]);
                mma_tf32(e[n], h, bl[0], bl[1]);
                mma_tf32(e[n], lo, bh[0], bh[1]);
                mma_tf32(d[n], h, bh[0], bh[1]);
            }
        }
    }
    block_sync();
    if (to) {
        #pragma unroll
        for (int n = 0; n < 2; n++)
            #pragma unroll
            for (int x = 0; x < 4; x++)
                to[place + 8 * n + (x & 1) + (x >> 1) * 8 * 68] = sign * (d[n][x] + e[n][x]);
    }
    block_sync();
}
% end
