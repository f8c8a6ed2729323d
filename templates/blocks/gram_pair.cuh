// A panel of 64 columns as two Gram recursions of 32 with a block update between them: 64 at once cost 454 cycles a column, two of 32 about 300.
//
// The first half transforms the second half's columns along (they are its passive ones): R12 and Z with C2 <- C2 + P2a Z come out, P2a being the
// rows below the first 32. What the second half needs follows from 32 x 32 products: its top block, and
//   G22 + G21 Z + Z'(G12 + G11 Z)
// for the rows below both. Then V[32:64, 0:32] = P1[32:64, 0:32] M1 and M = [M1, Z M2; 0, M2].
//
// Shared memory of a panel, in the region that updates use for exchange:
struct wide_shared {
    float half[64 * 68];   // of the two recursions; also one warpgroup's share of a 64 x 64 sum; then T in fp32
    float rv[64 * 68];     // top block; then R on and above the diagonal, V below
    float gram[64 * 68];   // G; then M's right half; then V'V
    wide_columns columns;
    float down[64], up[64]; // powers of two: what is packed, times down, has its columns' largest magnitudes in [32, 64)
    float back[64], whole[64];
    alignas(16) float out[64]; // what rows take on their way to H
    gram_buffers recursion;
    wide_away away;
};

// Squares of the top block's columns, 16 rows a thread: to be put together once others can see them.
QRS_DEV void gram_top_squares(wide_shared *s)
{
    const int part = threadIdx.x >> 6, col = threadIdx.x & 63;
    float sum = 0.0f;
    #pragma unroll 4
    for (int i = 0; i < 16; i++) {
        const float x = s->rv[(16 * part + i) * 68 + col];
        sum = fmaf(x, x, sum);
    }
    s->columns.top[part][col] = sum;
}

// All 256 threads call. s->rv: top block, becomes R on and above the diagonal and V below. s->gram: G of the rows below; its right half becomes M's,
// and the left half of s->half M's top left quarter. steps, bare: as in gram_recursion. Returns false, in some thread, unless both recursions
// went well. Synchronises.
QRS_CALL bool gram_pair(wide_shared *s, float *tau, int steps, bool bare)
{
    const int tid = threadIdx.x;
    float *rv = s->rv, *lower = rv + 32 * 68, *corner = lower + 32, *half = s->half, *z = half + 32;
    float *gram = s->gram, *g12 = gram + 32, *g21 = gram + 32 * 68, *g22 = g21 + 32;
    bool good = true;
    gram_top_squares(s);
    // One loop: the products' code, and the recursion's, is there once. Rows 32..63 are below the first half's top block.
    const bool second = shfl((int)warp() >> 2, 0);
    #pragma unroll 1
    for (int op = 0; op < 6; op++) {
        if (op == 1 || op == 4) {
            const int h = op == 4;
            if (h) { // the second half of its update
                #pragma unroll
                for (int e = tid; e < 1024; e += 256)
                    g22[(e >> 5) * 68 + (e & 31)] += gram[(e >> 5) * 68 + (e & 31)];
                block_sync();
            } else if (tid < 64) {
                s->whole[tid] = gram[tid * 69] + ((s->columns.top[0][tid] + s->columns.top[1][tid]) + (s->columns.top[2][tid] + s->columns.top[3][tid]));
            }
            if (!h || !second)
                good = gram_recursion(h ? corner : rv, h ? g22 : half, s->whole + 32 * h, &s->recursion, h ? g22 : half, h ? corner : rv,
                                      tau + 32 * h, steps - 32 * h, h && bare, h ? 128 : 256) && good;
            block_sync();
            continue;
        }
        float *to, *from, *a, *b; // of warps 0-3, of warps 4-7
        switch (2 * op + second) {
        case 0: to = half, from = gram, a = lower, b = lower; break;
        case 1: to = z, from = g12, a = lower, b = corner; break;
        case 4: to = from = corner, a = lower, b = z; break;
        case 5: to = from = g12, a = gram, b = z; break;
        case 6: to = gram, from = nullptr, a = z, b = g12; break; // G11 is done with
        case 7: to = from = g22, a = g21, b = z; break;
        case 10: to = g12, from = nullptr, a = z, b = g22; break;
        case 11: to = lower, from = nullptr, a = lower, b = half; break;
        default: to = from = a = b = nullptr;
        }
        gram_product(to, from, a, op == 0 || (op == 3 && !second), b, 1.0f, 1, 256);
    }
    return good;
}
