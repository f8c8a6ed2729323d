// Small fp32-level products on tensor cores.
//
// Three TF32 products (hi hi + hi lo + lo hi) keep about fp32's accuracy with fp32's range.
QRS_DEV void gram_split(float x, u32 &hi, u32 &lo)
{
    hi = tf32_bits(x);
    lo = tf32_bits(x - as_f32(hi));
}

% if NC == 2 then
// to = from + A B (from null: 0) times `sign`, 32 x 32 x 32, rows 68 apart, all in shared memory, where `to` may be any of the others. A(i, k) is
// a[68 i + k], or with `turned` a[68 k + i]. All 256 threads: warp w forms the 16 x 8 tile m16n8k8 holds. Synchronises between and after.
QRS_DEV void gram_product(float *to, const float *from, const float *a, bool turned, const float *b, float sign)
{
    const int w = warp(), g = lane() >> 2, q = lane() & 3, row = (w >> 2) * 16 + g, col = (w & 3) * 8;
    const int ai = turned ? 1 : 68, ak = turned ? 68 : 1, place = row * 68 + col + 2 * q;
    float d[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    if (from) {
        d[0] = from[place], d[1] = from[place + 1], d[2] = from[place + 8 * 68], d[3] = from[place + 8 * 68 + 1];
    }
    a += row * ai + q * ak;
    b += q * 68 + col + g;
    #pragma unroll
    for (int k = 0; k < 4; k++) {
        u32 h[4], lo[4], bh[2], bl[2];
        gram_split(a[0], h[0], lo[0]);
        gram_split(a[8 * ai], h[1], lo[1]);
        gram_split(a[4 * ak], h[2], lo[2]);
        gram_split(a[4 * ak + 8 * ai], h[3], lo[3]);
        gram_split(b[0], bh[0], bl[0]);
        gram_split(b[4 * 68], bh[1], bl[1]);
        mma_tf32(d, h, bl[0], bl[1]);
        mma_tf32(d, lo, bh[0], bh[1]);
        mma_tf32(d, h, bh[0], bh[1]);
        a += 8 * ak;
        b += 8 * 68;
    }
    block_sync();
    to[place] = sign * d[0], to[place + 1] = sign * d[1], to[place + 8 * 68] = sign * d[2], to[place + 8 * 68 + 1] = sign * d[3];
    block_sync();
}
% end
