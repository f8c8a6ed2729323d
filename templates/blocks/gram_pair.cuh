// A panel of 64 columns as two Gram recursions of 32 with a block update between them: 64 at once cost 454 cycles a column, two of 32 about 300.
//
// The first half transforms the second half's columns along (they are its passive ones): R12 and Z with C2 <- C2 + P2a Z come out, P2a being the
// rows below the first 32. What the second half needs follows from 32 x 32 products: its top block, and
//   G22 + G21 Z + Z'(G12 + G11 Z)
// for the rows below both. Then V[32:64, 0:32] = P1[32:64, 0:32] M1 and M = [M1, Z M2; 0, M2].
//
// All 256 threads call. rv: top block, 64 x 64 with stride 68, becomes R on and above the diagonal and V below. gram: G of the rows below,
// likewise, becomes M. half: 32 x 68 floats; whole: 64. steps, bare: as in
// gram_recursion. Returns, in thread 0 alone, whether both recursions went well. Synchronises.
QRS_DEV bool gram_pair(float *rv, float *gram, float *half, float *whole, gram_buffers *s, float *tau, int steps, bool bare)
{
    const int w = warp(), row = (w >> 2) * 16, col = (w & 3) * 8; // this warp's tile of a 32 x 32 product
    float *lower = rv + 32 * 68, *corner = rv + 32 * 68 + 32, *g21 = gram + 32 * 68, *g22 = gram + 32 * 68 + 32;
    float d[4], e[4];
    bool good = true;

    if (threadIdx.x < 64)
        whole[threadIdx.x] = gram_square(rv, gram, 64, threadIdx.x);
    #pragma unroll
    for (int c = 0; c < 64; c += 32) { // rows 32..63 are below the first half's top block
        gram_tile_get(d, gram, 68, row, col + c);
        gram_tile<true>(d, lower, 68, lower, 68, row, col + c);
        gram_tile_put(d, half, 68, row, col + c);
    }
    block_sync();
    #pragma unroll 1
    for (int h = 0; h < 2; h++) {
        if (w < 4)
            good = gram_recursion(h ? corner : rv, h ? g22 : half, whole + 32 * h, s, h ? g22 : half, h ? corner : rv, tau + 32 * h,
                                  steps - 32 * h, h && bare, h == 0) && good;
        block_sync();
        if (h == 0) {
            gram_tile_get(d, corner, 68, row, col);
            gram_tile<false>(d, lower, 68, half + 32, 68, row, col);
            gram_tile_get(e, gram + 32, 68, row, col);
            gram_tile<false>(e, gram, 68, half + 32, 68, row, col);
            block_sync();
            gram_tile_put(d, corner, 68, row, col);
            gram_tile_put(e, gram + 32, 68, row, col);
            d[0] = d[1] = d[2] = d[3] = 0.0f;
            gram_tile<false>(d, lower, 68, half, 68, row, col);
            block_sync();
            gram_tile_put(d, lower, 68, row, col);
            gram_tile_get(e, g22, 68, row, col);
            gram_tile<false>(e, g21, 68, half + 32, 68, row, col);
            gram_tile<true>(e, half + 32, 68, gram + 32, 68, row, col);
            gram_tile_put(e, g22, 68, row, col);
            block_sync();
        }
    }
    d[0] = d[1] = d[2] = d[3] = 0.0f;
    gram_tile<false>(d, half + 32, 68, g22, 68, row, col);
    gram_tile_put(d, gram + 32, 68, row, col);
    gram_tile_get(e, half, 68, row, col);
    gram_tile_put(e, gram, 68, row, col);
    d[0] = d[1] = d[2] = d[3] = 0.0f;
    gram_tile_put(d, g21, 68, row, col);
    block_sync();
    return good;
}
