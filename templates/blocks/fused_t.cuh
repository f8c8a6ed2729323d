// T of a panel from V (fp16 planes in shared memory, as fused_apply.cuh reads them) and tau.
//
// Parameters: MT, W, TILES, THREADS, PRODUCTS, PLANE.
// T = (I + D striu(V'V))^-1 D with D = diag(tau) (Schreiber and Van Loan's compact WY): the two 16 x 16 blocks of the diagonal
// by substitution at once, then the block above them as T12 = -T11 (S12 T22), instead of a chain of 32 columns. tau = 0 gives a zero row and column by itself.
// T12 = -T11 (S12 T22) of the halves in t (32 x 32), by one warp, as two transposed products whose first result is at once the second's operand: a
// lane's pair of columns 2 q, 2 q + 1 of it counts as k = q and k = q + 4, in both operands alike. s: V'V, rows 36 apart.
QRS_DEV void fused_corner(const float *s, float *t)
{
    const int g = lane() >> 2, q = lane() & 3;
    float y[2][4], z[2][4];
    #pragma unroll
    for (int n = 0; n < 2; n++)
        #pragma unroll
        for (int e = 0; e < 4; e++)
            y[n][e] = z[n][e] = 0.0f;
    #pragma unroll
    for (int k = 0; k < 16; k += 8) { // (S12 T22)' = T22' S12'
        u32 a[4], al[4], b[2][2], bl[2][2];
        #pragma unroll
        for (int e = 0; e < 4; e++)
            gram_split(t[(16 + k + q + (e >> 1) * 4) * 32 + 16 + g + (e & 1) * 8], a[e], al[e]);
        #pragma unroll
        for (int n = 0; n < 2; n++)
            #pragma unroll
            for (int e = 0; e < 2; e++)
                gram_split(s[(8 * n + g) * 36 + 16 + k + q + 4 * e], b[n][e], bl[n][e]);
        #pragma unroll
        for (int n = 0; n < 2; n++) {
            mma_tf32(y[n], a, bl[n][0], bl[n][1]);
            mma_tf32(y[n], al, b[n][0], b[n][1]);
            mma_tf32(y[n], a, b[n][0], b[n][1]);
        }
    }
    #pragma unroll
    for (int k = 0; k < 2; k++) { // T12' = -(S12 T22)' T11'
        u32 a[4], al[4];
        gram_split(-y[k][0], a[0], al[0]);
        gram_split(-y[k][2], a[1], al[1]);
        gram_split(-y[k][1], a[2], al[2]);
        gram_split(-y[k][3], a[3], al[3]);
        #pragma unroll
        for (int n = 0; n < 2; n++) {
            u32 b[2], bl[2];
            #pragma unroll
            for (int e = 0; e < 2; e++)
                gram_split(t[(8 * n + g) * 32 + 8 * k + 2 * q + e], b[e], bl[e]);
            mma_tf32(z[n], a, bl[0], bl[1]);
            mma_tf32(z[n], al, b[0], b[1]);
            mma_tf32(z[n], a, b[0], b[1]);
        }
    }
    #pragma unroll
    for (int n = 0; n < 2; n++)
        #pragma unroll
        for (int e = 0; e < 4; e++)
            t[(8 * n + 2 * q + (e & 1)) * 32 + 16 + g + (e >> 1) * 8] = z[n][e];
}

// v, p as in fused_apply; red: W x 4 KB; ws: 32 x 36 floats. t: T's planes of fp16, and `copy` the same in global memory${CLUSTER > 1 and RESIDENT and ", here the other CTAs' t, counted on their mbarriers `bar`" or ""}. Synchronises; all of t
// is visible to the block on return.
QRS_DEV void fused_build_t(int p, saddr v, float *red, float *ws, const float *tau, u8 *planes${not RESIDENT and ", u8 *copy" or CLUSTER > 1 and ", saddr bar" or ""})
{
    float *t = red + 1024; // 32 x 32
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
            u32 b[2][4];
            #pragma unroll
            for (int n = 0; n < 2; n++)
                ldmatrix_x4_trans(b[n], (vb ^ (n << 5)) + i * ${W * 1024});
            fused_products<4>(acc, a, b);
% if PRODUCTS == 3 then
            fused_products<4>(acc, al, b);
            #pragma unroll
            for (int n = 0; n < 2; n++)
                ldmatrix_x4_trans(b[n], (vb ^ (n << 5)) + ${PLANE} + i * ${W * 1024});
            fused_products<4>(acc, a, b);
% end
        }
    }
    fused_partial(red, acc, 0);
    block_sync();
    #pragma unroll
    for (int i = 0; i < ${32 // W}; i++) {
        int r = w * ${32 // W} + i;
        ws[r * 36 + l] = 0x1p-12f * fused_total(red, r);
    }
    block_sync();

    if (w == 0) { // lane = row of T; columns of its half one after another, each added to those after it
        const int o = l & 16, r = l & 15;
        const saddr from = to_saddr(ws + o * 37);
        float x[16], sum[16], f[16];
        f32x4 g[3][4]; // rows of V'V on their way, two ahead of the chain
        #pragma unroll
        for (int j = 0; j < 16; j++) {
            sum[j] = 0.0f;
            f[j] = tau[o + j];
        }
        #pragma unroll
        for (int i = -2; i < 16; i++) {
            #pragma unroll
            for (int j = (i + 3) / 4; j < 4; j++)
                if (i + 2 < 16)
                    g[(i + 2) % 3][j] = lds<f32x4>(from + (i + 2) * 144 + j * 16);
            if (i < 0)
                continue;
            x[i] = r == i ? f[i] : r < i ? -f[i] * sum[i] : 0.0f;
            #pragma unroll
            for (int j = (i + 1) / 4; j < 4; j++) {
                const f32x4 u = g[i % 3][j];
                sum[4 * j] = fmaf(x[i], u.x, sum[4 * j]);
                sum[4 * j + 1] = fmaf(x[i], u.y, sum[4 * j + 1]);
                sum[4 * j + 2] = fmaf(x[i], u.z, sum[4 * j + 2]);
                sum[4 * j + 3] = fmaf(x[i], u.w, sum[4 * j + 3]);
            }
        }
        #pragma unroll
        for (int j = 0; j < 16; j += 4) {
            *(f32x4 *)(t + l * 32 + o + j) = {x[j], x[j + 1], x[j + 2], x[j + 3]};
            *(f32x4 *)(t + l * 32 + 16 - o + j) = {0.0f, 0.0f, 0.0f, 0.0f};
        }
        warp_sync();
        fused_corner(ws, t);
    }
    block_sync();
    #pragma unroll 1
    for (int e = tid; e < 128; e += ${THREADS}) {
        float x[8];
        *(f32x4 *)x = *(const f32x4 *)(t + 8 * e);
        *(f32x4 *)(x + 4) = *(const f32x4 *)(t + 8 * e + 4);
        const int at = fused_chunk(e >> 2, e & 3);
        u32x4 hi, lo;
        fused_split(x[0], x[1], hi.x, lo.x);
        fused_split(x[2], x[3], hi.y, lo.y);
        fused_split(x[4], x[5], hi.z, lo.z);
        fused_split(x[6], x[7], hi.w, lo.w);
        *(u32x4 *)(planes + at) = hi;
        *(u32x4 *)(planes + 2048 + at) = lo;
% if not RESIDENT then
        *(u32x4 *)(copy + at) = hi;
        *(u32x4 *)(copy + 2048 + at) = lo;
% elseif CLUSTER > 1 then
        #pragma unroll
        for (int other = 1; other < ${CLUSTER}; other++) {
            const int rank = cluster_rank() ^ other;
            const u32 to = cluster_map(to_saddr(planes), rank) + at, ready = cluster_map(bar, rank);
            st_async(to, hi, ready);
            st_async(to + 2048, lo, ready);
        }
% end
    }
    block_sync();
}
