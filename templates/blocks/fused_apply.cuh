// C <- (I - V T' V') C for one finished panel, on the tensor cores, C^T in accumulators (fused_load.cuh).
//
// Parameters: MT rows rounded up to 16; W warps; TILES; PRODUCTS 1 or 3; HALVES 1 or 2; PLANE; RESIDENT; CLUSTER.
// V lies in shared memory as fp16 rows of 64 bytes, from the panel's first row on (a trapezoid), its 16-byte chunks swizzled so that
// ldmatrix of 8 rows is free of conflicts; scaled by 2^LIFT. With three products a second plane holds what rounding left (v = hi + lo),
// C and W' are split in registers, and lo x lo is dropped: fp32-level products from fp16 tensor cores.
// Per pair: W^T = C^T V (each warp over its rows), sum over warps through shared memory, W'^T = W^T T,
// C^T -= W'^T V^T.
// The warp's 32 x 32 partial (accumulator layout, rows = first index) into 4 KB of red, by default its own, columns XORed by 8 (row % 4).
// NT column tiles of 8 from tile n0 on.
template <int NT> QRS_DEV void fused_partial(float *red, const float (&w)[2][NT][4], int n0, int share = warp())
{
    const int g = lane() >> 2, q = lane() & 3;
    float *at = red + share * 1024 + g * 32;
    #pragma unroll
    for (int mt = 0; mt < 2; mt++)
        #pragma unroll
        for (int h = 0; h < 2; h++)
            #pragma unroll
            for (int n = 0; n < NT; n++) {
                f32x2 v = {w[mt][n][2 * h], w[mt][n][2 * h + 1]};
                *(f32x2 *)(at + (mt * 16 + h * 8) * 32 + (((n0 + n) * 8 + q * 2) ^ ((g & 3) << 3))) = v;
            }
}
// Sum over SHARES warps' shares of row r, columns c .. c + 3 (c a multiple of 4), first to last.
template <int SHARES> QRS_DEV f32x4 fused_total(const float *red, int r, int c)
{
    const float *at = red + r * 32 + (c ^ ((r & 3) << 3));
    f32x4 sum = *(const f32x4 *)at;
    #pragma unroll
    for (int v = 1; v < SHARES; v++) {
        const f32x4 x = *(const f32x4 *)(at + v * 1024);
        sum = {sum.x + x.x, sum.y + x.y, sum.z + x.z, sum.w + x.w};
    }
    return sum;
}

template <int NT> QRS_DEV void fused_products(float (&acc)[2][NT][4], const u32 (&a)[2][4], const u32 (&b)[NT / 2][4])
{
    #pragma unroll
    for (int mt = 0; mt < 2; mt++)
        #pragma unroll
        for (int n = 0; n < NT; n++)
            mma_f16(acc[mt][n], a[mt], b[n / 2][n % 2 * 2], b[n / 2][n % 2 * 2 + 1]);
}

% local PARTS = PRODUCTS == 3 and 2 or 1
// Row tile i of C as the left operand of W^T: in fp16${PARTS == 2 and ", and what that left" or ""}.
QRS_DEV void fused_operand(u32 (&a)[${PARTS}][2][4], const fused_tile &c, int i)
{
    #pragma unroll
    for (int mt = 0; mt < 2; mt++)
        #pragma unroll
        for (int x = 0; x < 4; x++) {
            const float *y = &c[mt][i][x >> 1][(x & 1) * 2];
% if PARTS == 2 then
            split_f16(y[0], y[1], a[0][mt][x], a[1][mt][x]);
% else
            a[0][mt][x] = pack_f16(y[0], y[1]);
% end
        }
}

// p: the finished panel, applied to rows 32 p on. v: its V; lo plane ${PLANE} bytes further. red: W x 4 KB; ws: 4 KB; wp: 2 KB a plane; t: T in fp16 as
// V is, its low plane 2 KB further${CLUSTER > 1 and ", there once t_ready" .. (RESIDENT and ", and V once v_ready," or "") .. " (if not 0) completes its phase of the given parity" or ""}${CLUSTER > 1 and not RESIDENT and "; late: null, or where it then is to be copied from" or ""}. Synchronises three times; on return other
// warps may still read v and wp.
QRS_DEV void fused_apply(fused_tile &c, int p, saddr v, float *red, float *ws, u8 *wp, const u8 *t${CLUSTER > 1 and RESIDENT and ", saddr v_ready" or ""}${CLUSTER > 1 and ", saddr t_ready, u32 parity" or ""}${CLUSTER > 1 and not RESIDENT and ", const u8 *late" or ""})
{
    const int w = warp(), l = lane();
% local AHEAD = RESIDENT and CLUSTER > 1 and HALVES == 1 and TILES <= 2
% if AHEAD then
    u32 halves[${TILES}][${PARTS}][2][4]; // C's, while V is awaited
    #pragma unroll
    for (int i = 0; i < ${TILES}; i++)
        fused_operand(halves[i], c, i);
% end
% if RESIDENT and CLUSTER > 1 then
    if (v_ready)
        mbar_wait(v_ready, parity);
% end
    // One half of V's columns at a time: with all 32, the accumulators would push C out of the registers two CTAs leave.
    #pragma unroll ${HALVES}
    for (int half = 0; half < ${HALVES}; half++) {
        float acc[2][${4 // HALVES}][4];
        #pragma unroll
        for (int mt = 0; mt < 2; mt++)
            #pragma unroll
            for (int n = 0; n < ${4 // HALVES}; n++)
                #pragma unroll
                for (int e = 0; e < 4; e++)
                    acc[mt][n][e] = 0.0f;
        const saddr v1 = v + (w * 16 - 32 * p) * 64 + fused_chunk(l & 15, l >> 4);
        #pragma unroll
        for (int i = 0; i < ${TILES}; i++) {
            const int tile = i * ${W} + w;
            if (tile >= 2 * p && tile < ${MT // 16}) {
% if AHEAD then
                const u32(&a)[${PARTS}][2][4] = halves[i];
% else
                u32 a[${PARTS}][2][4];
                fused_operand(a, c, i);
% end
                // One term after another: products into the same sums are as far apart as can be.
                u32 b[${2 // HALVES}][4];
                #pragma unroll
                for (int n = 0; n < ${2 // HALVES}; n++)
                    ldmatrix_x4_trans(b[n], (v1 ^ ((half + n) << 5)) + i * ${W * 1024});
                fused_products<${4 // HALVES}>(acc, a[0], b);
% if PRODUCTS == 3 then
                fused_products<${4 // HALVES}>(acc, a[1], b);
                #pragma unroll
                for (int n = 0; n < ${2 // HALVES}; n++)
                    ldmatrix_x4_trans(b[n], (v1 ^ ((half + n) << 5)) + i * ${W * 1024} + ${PLANE});
                fused_products<${4 // HALVES}>(acc, a[0], b);
% end
            }
        }
        fused_partial(red, acc, ${4 // HALVES} * half);
    }
% if CLUSTER > 1 and not RESIDENT then
    if (late) {
        mbar_wait_cluster(t_ready, parity);
        for (int i = (int)threadIdx.x; i < 256; i += ${THREADS})
            cp_async16(to_saddr(t) + 16 * i, late + 16 * i);
        cp_async_commit();
    }
% end
    block_sync();

    // W^T, rows C's columns: sums, four a thread, and both halves of them in fp16 where the sums in `ws` were.
    // Both V and C carry 2^LIFT; 2^4 of the product's stays, for the low halves' sake.
    u8 *wt = (u8 *)ws;
% for e = 0, 255, THREADS do
    if (const int e = (int)threadIdx.x + ${e}; ${THREADS > 256 and "e < 256" or "true"}) {
        const int r = e >> 3, n = e & 7;
        const f32x4 y = fused_total<${W}>(red, r, 4 * n);
        u32x2 hi, lo;
        split_f16(0x1p-8f * y.x, 0x1p-8f * y.y, hi.x, lo.x);
        split_f16(0x1p-8f * y.z, 0x1p-8f * y.w, hi.y, lo.y);
        u8 *to = wt + fused_chunk(r, n >> 1) + (n & 1) * 8;
        *(u32x2 *)to = hi;
        *(u32x2 *)(to + 2048) = lo;
    }
% end
% if CLUSTER > 1 and not RESIDENT then
    if (late)
        cp_async_wait<0>();
% end
    block_sync();

    // W'^T = W^T T with three products whatever the update takes: they are few, and two roundings more would cost accuracy. A warp forms tiles of 16 x 8;
    // the minus sign makes the second product an accumulation.
    const saddr wa = to_saddr(wp);
% if CLUSTER > 1 and RESIDENT then
    if (t_ready)
        mbar_wait(t_ready, parity);
% end
% if W > 8 then
    if (w < 8)
% end
    #pragma unroll
    for (int tile = w; tile < 8; tile += ${W}) {
        const int mt = tile & 1, n = tile >> 1;
        const saddr from = to_saddr(wt) + fused_chunk(mt * 16 + (l & 15), l >> 4);
        u32 a[2][4], al[2][4], b[4], bl[4];
        ldmatrix_x4(a[0], from);
        ldmatrix_x4(a[1], from ^ 32);
        ldmatrix_x4(al[0], from + 2048);
        ldmatrix_x4(al[1], (from + 2048) ^ 32);
        ldmatrix_x4_trans(b, to_saddr(t) + fused_chunk(l, n));
        ldmatrix_x4_trans(bl, to_saddr(t) + 2048 + fused_chunk(l, n));
        float d[4] = {0.0f, 0.0f, 0.0f, 0.0f}, e[2][4] = {}; // the small products apart: short chains
        #pragma unroll
        for (int k = 0; k < 2; k++) {
            mma_f16(e[0], a[k], bl[2 * k], bl[2 * k + 1]);
            mma_f16(e[1], al[k], b[2 * k], b[2 * k + 1]);
            mma_f16(d, a[k], b[2 * k], b[2 * k + 1]);
        }
        #pragma unroll
        for (int x = 0; x < 4; x++)
            d[x] += e[0][x] + e[1][x];
        #pragma unroll
        for (int h = 0; h < 2; h++) {
            u8 *at = wp + fused_chunk(mt * 16 + h * 8 + (l >> 2), n) + (l & 3) * 4;
            u32 hi, lo;
            split_f16(-0x1p-4f * d[2 * h], -0x1p-4f * d[2 * h + 1], hi, lo);
            *(u32 *)at = hi;
% if PRODUCTS == 3 then
            *(u32 *)(at + 2048) = lo;
% end
        }
    }
    block_sync();

    const saddr v2 = v + (w * 16 - 32 * p) * 64 + fused_chunk(((l >> 4) << 3) + (l & 7), (l >> 3) & 1);
    #pragma unroll
    for (int kk = 0; kk < 2; kk++) {
        u32 a[2][4];
        #pragma unroll
        for (int mt = 0; mt < 2; mt++)
            ldmatrix_x4(a[mt], wa + fused_chunk(mt * 16 + (l & 15), kk * 2 + (l >> 4)));
% if PRODUCTS == 3 then
        u32 al[2][4];
        #pragma unroll
        for (int mt = 0; mt < 2; mt++)
            ldmatrix_x4(al[mt], wa + 2048 + fused_chunk(mt * 16 + (l & 15), kk * 2 + (l >> 4)));
% end
        #pragma unroll
        for (int i = 0; i < ${TILES}; i++) {
            const int tile = i * ${W} + w;
            if (tile >= 2 * p && tile < ${MT // 16}) {
                u32 b[4];
                ldmatrix_x4(b, (kk ? v2 ^ 32 : v2) + i * ${W * 1024});
                #pragma unroll
                for (int mt = 0; mt < 2; mt++) {
                    mma_f16(c[mt][i][0], a[mt], b[0], b[1]);
                    mma_f16(c[mt][i][1], a[mt], b[2], b[3]);
                }
% if PRODUCTS == 3 then
                #pragma unroll
                for (int mt = 0; mt < 2; mt++) {
                    mma_f16(c[mt][i][0], al[mt], b[0], b[1]);
                    mma_f16(c[mt][i][1], al[mt], b[2], b[3]);
                }
                u32 bl[4];
                ldmatrix_x4(bl, (kk ? v2 ^ 32 : v2) + ${PLANE} + i * ${W * 1024});
                #pragma unroll
                for (int mt = 0; mt < 2; mt++) {
                    mma_f16(c[mt][i][0], a[mt], bl[0], bl[1]);
                    mma_f16(c[mt][i][1], a[mt], bl[2], bl[3]);
                }
% end
            }
        }
    }
}
