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

% if NC == 2 then
// to = from + sign A B (from null: 0), 32 x 32 x 32, rows 68 apart, all in shared memory, where `to` may be any of the others. A(i, k) is a[68 i + k], or with
// `turned` a[68 k + i]. Four warps form a quarter each, or nothing where their `to` is null. Synchronises `threads` threads between and after, by barrier `bar`: so
// all 256 may form two products at once, warps 0-3 one and warps 4-7 another. A rolled loop: it runs at what its loads and products take one after another, but code that
// is walked a few times a panel costs more.
QRS_CALL void gram_product(float *to, const float *from, const float *a, bool turned, const float *b, float sign, int bar, int threads)
{
    const int w = warp(), g = lane() >> 2, q = lane() & 3, row = (w & 2) * 8 + g, col = (w & 1) * 16;
    const int ai = turned ? 1 : 68, ak = turned ? 68 : 1, place = row * 68 + col + 2 * q;
    float d[2][4], e[2][4], f[2][4]; // the leading product, and the two small ones: shorter chains
    if (to) {
        #pragma unroll
        for (int n = 0; n < 2; n++)
            #pragma unroll
            for (int x = 0; x < 4; x++)
                d[n][x] = e[n][x] = f[n][x] = 0.0f;
        a += row * ai + q * ak;
        b += q * 68 + col + g;
        #pragma unroll 1
        for (int k = 0; k < 4; k++, a += 8 * ak, b += 8 * 68) {
            gram_left l;
            gram_operand(l, a[0], a[8 * ai], a[4 * ak], a[8 * ai + 4 * ak]);
            #pragma unroll
            for (int n = 0; n < 2; n++) {
                gram_right r;
                gram_operand(r, b[8 * n], b[4 * 68 + 8 * n]);
                mma_tf32(e[n], l.hi, r.lo[0], r.lo[1]);
                mma_tf32(f[n], l.lo, r.hi[0], r.hi[1]);
                mma_tf32(d[n], l.hi, r.hi[0], r.hi[1]);
            }
        }
        #pragma unroll
        for (int n = 0; n < 2; n++)
            #pragma unroll
            for (int x = 0; x < 4; x++)
                d[n][x] = fmaf(sign, d[n][x] + (e[n][x] + f[n][x]), from ? from[place + 8 * n + (x & 1) + (x >> 1) * 8 * 68] : 0.0f);
    }
    bar_sync(bar, threads);
    if (to) {
        #pragma unroll
        for (int n = 0; n < 2; n++)
            #pragma unroll
            for (int x = 0; x < 4; x++)
                to[place + 8 * n + (x & 1) + (x >> 1) * 8 * 68] = d[n][x];
    }
    bar_sync(bar, threads);
}
% end
