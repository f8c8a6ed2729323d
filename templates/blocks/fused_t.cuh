// T of a panel from V (fp16 planes in shared memory, as fused_apply.cuh reads them) and tau.
//
// Parameters: MT, W, TILES, THREADS, PRODUCTS, PLANE.
// T = (I + D striu(V'V))^-1 D with D = diag(tau) (Schreiber and Van Loan's compact WY): the four 8 x 8 blocks of the diagonal
// by substitution at once, then off-diagonal blocks of 8 and 16 as T12 = -T11 (S12 T22): five short barriers instead of a
// chain of 32 columns. tau = 0 gives a zero row and column by itself.
// v, p, red, ws as in fused_apply; t: 32 x 32 floats. Synchronises; all of t is visible to the block on return.
QRS_DEV void fused_build_t(int p, saddr v, float *red, float *ws, const float *tau, float *t)
{
    const int w = warp(), l = lane(), tid = threadIdx.x;
    float acc[2][4][4];
    #pragma unroll
    for (int mt = 0; mt < 2; mt++)
        #pragma unroll
        for (int n = 0; n < 4; n++)
            #pragma unroll
            for (int e = 0; e < 4; e++)
                acc[mt][n][e] = 0.0f;
    const saddr va = v + (w * 16 - 32 * p) * 64 + fused_chunk(((l >> 4) << 3) + (l & 7), (l >> 3) & 1);
    const saddr vb = v + (w * 16 - 32 * p) * 64 + fused_chunk(l & 15, l >> 4);
    #pragma unroll
    for (int i = 0; i < ${TILES}; i++) {
        const int tile = i * ${W} + w;
        if (tile >= 2 * p && tile < ${MT // 16}) {
            u32 a[2][4];
            #pragma unroll
            for (int mt = 0; mt < 2; mt++)
                ldmatrix_x4_trans(a[mt], (va ^ (mt << 5)) + i * ${W * 1024});
% if PRODUCTS == 3 then
            u32 al[2][4];
            #pragma unroll
            for (int mt = 0; mt < 2; mt++)
                ldmatrix_x4_trans(al[mt], (va ^ (mt << 5)) + ${PLANE} + i * ${W * 1024});
% end
            #pragma unroll
            for (int n = 0; n < 2; n++) {
                u32 b[4];
                ldmatrix_x4_trans(b, (vb ^ (n << 5)) + i * ${W * 1024});
                #pragma unroll
                for (int mt = 0; mt < 2; mt++) {
                    mma_f16(acc[mt][2 * n], a[mt], b[0], b[1]);
                    mma_f16(acc[mt][2 * n + 1], a[mt], b[2], b[3]);
% if PRODUCTS == 3 then
                    mma_f16(acc[mt][2 * n], al[mt], b[0], b[1]);
                    mma_f16(acc[mt][2 * n + 1], al[mt], b[2], b[3]);
% end
                }
% if PRODUCTS == 3 then
                ldmatrix_x4_trans(b, (vb ^ (n << 5)) + ${PLANE} + i * ${W * 1024});
                #pragma unroll
                for (int mt = 0; mt < 2; mt++) {
                    mma_f16(acc[mt][2 * n], a[mt], b[0], b[1]);
                    mma_f16(acc[mt][2 * n + 1], a[mt], b[2], b[3]);
                }
% end
            }
        }
    }
    fused_partial(red, acc, 0);
    block_sync();
    #pragma unroll
    for (int i = 0; i < ${32 // W}; i++) {
        int r = w * ${32 // W} + i;
        ws[r * 36 + l] = 0x1p-12f * fused_total(red, r);
    }
    for (int e = tid; e < 1024; e += ${THREADS})
        t[e] = 0.0f;
    block_sync();

    if (w == 0) { // lane = row of T; its block's columns one after another
        const int o = l & ~7, r = l & 7;
        float x[8];
        #pragma unroll
        for (int j = 0; j < 8; j++) {
            float s = 0.0f;
            #pragma unroll
            for (int i = 0; i < j; i++)
                s = fmaf(x[i], ws[(o + i) * 36 + o + j], s);
            float f = tau[o + j];
            x[j] = r == j ? f : r < j ? -f * s : 0.0f;
            t[l * 32 + o + j] = x[j];
        }
    }
    block_sync();
    float *y = red; // S12 T22, row-major with stride 17
    #pragma unroll
    for (int size = 8; size < 32; size *= 2) {
        const int blocks = 16 / size, all = blocks * size * size;
        for (int e = tid; e < all; e += ${THREADS}) {
            int o = e / (size * size) * 2 * size, r = e / size % size, j = e % size;
            float s = 0.0f;
            #pragma unroll
            for (int i = 0; i < size; i++)
                s = fmaf(ws[(o + r) * 36 + o + size + i], t[(o + size + i) * 32 + o + size + j], s);
            y[(o + r) * 17 + j] = s;
        }
        block_sync();
        for (int e = tid; e < all; e += ${THREADS}) {
            int o = e / (size * size) * 2 * size, r = e / size % size, j = e % size;
            float s = 0.0f;
            #pragma unroll
            for (int i = 0; i < size; i++)
                s = fmaf(t[(o + r) * 32 + o + i], y[(o + i) * 17 + j], s);
            t[(o + r) * 32 + o + size + j] = -s;
        }
        block_sync();
    }
}
