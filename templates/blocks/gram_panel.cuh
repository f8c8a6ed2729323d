// A panel of 32 columns by the Gram recursion (gram_recursion.cuh)${WHOLE and ", or from its whole Gram matrix (gram_narrow.cuh)" or ""}, with its safety test.
//
// Parameters: M, N, K, W, TILES, MT, LASTS, CLUSTER, PRODUCTS, PLANE, DIRECT, EARLY, GRAM_STATE, WHOLE (panels of 48 rows and more by gram_narrow.cuh where that is safe), LIMIT, SHORT, LOOSE.
// What tau v'v / 2 is off from 1 is an error of that share of what was left of the panel's columns, and counts by what it is of whole columns, whose
// largest entry is 2^LIFT at least: that may be LIMIT, or SHORT in panels of fewer than 64 rows. LOOSE bounds it however little is left.
// G = P2'P2 and V2 = P2 M are formed as three TF32 products (hi hi + hi lo + lo hi): fp32 level, with fp32's range, so that
// columns that shrank lose nothing. G takes both operands straight from the accumulators that hold C^T.
struct gram_shared {
    gram_buffers buffers;
    float gram[32 * 36], m[32 * 40], rv[32 * 36], whole[128], tau[32];
    float left; // of the panel's columns at its start: the largest norm
    float norms[${2 * W}][32];
    int good, fine; // fine: gram_finish's own result, for those that do not look themselves. good: ${WHOLE and "1: by the recursion, 2: from the whole" or "by the recursion"}; 0: not to be trusted
};

static_assert(sizeof(gram_shared) <= ${GRAM_STATE}, "what the family reserves");

// This warp's share of G over its row tiles from `tile0` on, into its part of red (fused_partial): the 16 x 16 blocks on and above the diagonal.
% if WHOLE then
// The two tiles before those, the top block's, go to two more shares.
% end
% if LASTS then
// C is in its tile already and this warp's rows are taken from there, by a rolled loop: code that has left the cache costs more than the loads.
% end
QRS_DEV void gram_product(${LASTS and "const float *tile" or "const fused_tile &c"}, int tile0, float *red)
{
    float acc[2][4][4];
    #pragma unroll
    for (int mt = 0; mt < 2; mt++)
        #pragma unroll
        for (int n = 0; n < 4; n++)
            #pragma unroll
            for (int e = 0; e < 4; e++)
                acc[mt][n][e] = 0.0f;
% if LASTS then
    const float *at = tile + fused_place();
    #pragma unroll 1
    for (int i = (int)warp(); i < ${MT // 16}; i += ${W}, at += ${W * 576}) {
        if (i < tile0${WHOLE and " - 2" or ""})
            continue;
        #pragma unroll
        for (int n8 = 0; n8 < 2; n8++) {
% else
    #pragma unroll
    for (int i = 0; i < ${TILES}; i++) {
        if (i * ${W} + (int)warp() < tile0)
            continue;
        #pragma unroll
        for (int n8 = 0; n8 < 2; n8++) {
% end
            // Eight columns a group; the two rows of a lane are k = q and k = q + 4 of the product, in both operands alike.
            u32 h[4][2], lo[4][2];
            #pragma unroll
            for (int u = 0; u < 4; u++)
                #pragma unroll
                for (int e = 0; e < 2; e++)
                    gram_split(${LASTS and "at[n8 * 288 + e * 36 + 8 * u]" or "c[u >> 1][i][n8][(u & 1) * 2 + e]"}, h[u][e], lo[u][e]);
            // One term after another: products into the same sums are as far apart as can be.
            #pragma unroll
            for (int term = 0; term < 3; term++)
                #pragma unroll
                for (int mt = 0; mt < 2; mt++) {
                    const u32(&x)[4][2] = term == 1 ? lo : h, (&y)[4][2] = term == 0 ? lo : h;
                    const u32 a[4] = {x[2 * mt][0], x[2 * mt + 1][0], x[2 * mt][1], x[2 * mt + 1][1]};
                    #pragma unroll
                    for (int n = 2 * mt; n < 4; n++)
                        mma_tf32(acc[mt][n], a, y[n][0], y[n][1]);
                }
        }
% if WHOLE then
        if (i < tile0) {
            fused_partial(red, acc, 0, ${W} + (i & 1));
            #pragma unroll
            for (int mt = 0; mt < 2; mt++)
                #pragma unroll
                for (int n = 0; n < 4; n++)
                    #pragma unroll
                    for (int e = 0; e < 4; e++)
                        acc[mt][n][e] = 0.0f;
        }
% end
    }
    fused_partial(red, acc, 0);
}

// Four entries of a symmetric matrix, row r, columns c .. c + 3; what is below the 16 x 16 blocks of the diagonal comes from above them.
QRS_DEV void gram_put(float *gram, int r, int c, f32x4 x)
{
    *(f32x4 *)(gram + r * 36 + c) = x;
    float *across = gram + c * 36 + r;
    if (r < 16 && c >= 16)
        across[0] = x.x, across[36] = x.y, across[72] = x.z, across[108] = x.w;
}
// Sums the shares into gram, both triangles${WHOLE and "; with those of the top block into all" or ""}. Four columns a thread.
QRS_DEV void gram_total(const float *red, float *gram${WHOLE and ", float *all" or ""})
{
% for e = 0, 191, 32 * W do
    if (const int e = (int)threadIdx.x + ${e}; e < 192) {
        const int row = e < 128 ? e >> 3 : e - 64 >> 2, col = e < 128 ? (e & 7) * 4 : 16 + (e & 3) * 4;
        const f32x4 sum = fused_total<${W}>(red, row, col);
        gram_put(gram, row, col, sum);
% if WHOLE then
        const f32x4 top = fused_total<2>(red + ${W * 1024}, row, col);
        gram_put(all, row, col, {sum.x + top.x, sum.y + top.y, sum.z + top.z, sum.w + top.w});
% end
    }
% end
}

// G where nothing lies below the top block.
QRS_DEV void gram_none(float *gram)
{
    for (int e = 4 * (int)threadIdx.x; e < 32 * 36; e += ${4 * 32 * W})
        *(f32x4 *)(gram + e) = {0.0f, 0.0f, 0.0f, 0.0f};
}

// V2^T = M^T P2^T in the accumulator layout of C^T, from the panel in shared memory (stride 36, rows from `first` on).
% local UPPER = TILES <= 3 -- leave out the zero quarter of M; for more tiles the code grows by more than that saves
QRS_DEV void gram_apply(fused_tile &v, const float *panel, int tile0, const float *m)
{
    const int g = lane() >> 2, q = lane() & 3;
    #pragma unroll
    for (int mt = 0; mt < 2; mt++)
        #pragma unroll
        for (int i = 0; i < ${TILES}; i++)
            #pragma unroll
            for (int n = 0; n < 2; n++)
                #pragma unroll
                for (int e = 0; e < 4; e++)
                    v[mt][i][n][e] = 0.0f;
    if (tile0 + 2 >= ${MT // 16}) // nothing lies below the top block
        return;
    #pragma unroll ${UPPER and 4 or 2}
    for (int kk = 0; kk < 4; kk++) {
        u32 h[2][4], lo[2][4];
        #pragma unroll
        for (int mt = ${UPPER and "kk / 2" or "0"}; mt < 2; mt++)
            #pragma unroll
            for (int e = 0; e < 4; e++)
                gram_split(m[(kk * 8 + q + (e >> 1) * 4) * 40 + mt * 16 + g + (e & 1) * 8], h[mt][e], lo[mt][e]);
        #pragma unroll
        for (int i = 0; i < ${TILES}; i++) {
            const int tile = i * ${W} + (int)warp();
            if (tile < tile0 + 2 || tile >= ${MT // 16})
                continue;
            u32 bh[2][2], bl[2][2];
            #pragma unroll
            for (int n = 0; n < 2; n++) {
                const float *at = panel + ((tile - tile0) * 16 + n * 8 + g) * 36 + kk * 8 + q;
                gram_split(at[0], bh[n][0], bl[n][0]);
                gram_split(at[4], bh[n][1], bl[n][1]);
            }
            #pragma unroll
            for (int term = 0; term < 3; term++) // one after another, as in gram_product
                #pragma unroll
                for (int n = 0; n < 2; n++)
                    #pragma unroll
                    for (int mt = ${UPPER and "kk / 2" or "0"}; mt < 2; mt++) {
                        const u32(&y)[2] = term == 0 ? bl[n] : bh[n];
                        mma_tf32(v[mt][i][n], term == 1 ? lo[mt] : h[mt], y[0], y[1]);
                    }
        }
    }
}

// Threads 0..127: panel has stride 36; G of its rows from 32 on is in s->gram already${WHOLE and ", that of all its rows in s->rv" or ""}, visible to them.
QRS_DEV void gram_factor(const float *panel, int first, gram_shared *s)
{
% if WHOLE then
    // Not where a column's weight is in the top block: what is below would be a small part of what is squared.
    if (${M} - first >= 48) {
        static_assert(sizeof s->buffers >= sizeof(gram_narrow_pivots), "they take its place");
        const bool light = warp_all(s->gram[lane() * 37] >= 0x1p-3f * s->rv[lane() * 37]);
        bar_sync(1, 128); // R takes the place of what was looked at
        if (light) {
            const bool good = warp_all(gram_narrow(panel, s->rv, s->rv, s->m, s->whole, &s->left, (gram_narrow_pivots *)&s->buffers, s->tau));
            if (threadIdx.x == 0)
                s->good = good ? 2 : 0;
            bar_sync(1, 128);
            if (s->good)
                return;
        }
    }
% end
    const bool good = gram_recursion(panel, s->gram, s->whole, &s->buffers, s->m, s->rv, s->tau, ${K} - first, first + 32 >= ${M}, 128);
    if (threadIdx.x < 32) {
        const int l = lane();
        const float left = warp_max((s->whole[l] + s->whole[32 + l]) + (s->whole[64 + l] + s->whole[96 + l]));
        if (l == 0)
            s->good = good, s->left = sqrt_rn(left);
    }
}

// The rest, once all threads see what gram_factor left. False: nothing was written, take the rows.
// Otherwise the panel holds R on and above the diagonal, V below, and tau (shared) its scalars. Synchronises; the caller does once more after.
% if DIRECT then
// v: where V's planes go (fused_reflectors), or null. They are made before V is known to be good; as soon as it is, leave() may send them, by bulk copies, too.
% end
% if EARLY then
// Meanwhile, once they are there, the last four warps, which have the fewest rows, can look at them. These have not given V2's rows, in c, to the panel on return.
% end
${DIRECT and "template <class LEAVE" .. (EARLY and ", class MEANWHILE" or "") .. "> " or ""}QRS_DEV bool gram_finish(${EARLY and "fused_tile &c, " or ""}float *panel, int first, gram_shared *s, float *tau${DIRECT and ", u8 *v, LEAVE leave" or ""}${EARLY and ", MEANWHILE meanwhile" or ""})
{
    const int l = lane(), w = warp(), tile0 = first / 16;
    if (!s->good)
        return false;
% if not EARLY then
    fused_tile c;
% end
    gram_apply(c, panel, tile0, s->m);
% if DIRECT then
    if (v) {
        const saddr to = to_saddr(v) + (16 * w - first) * 64 + fused_chunk(l & 7, l >> 3);
        #pragma unroll
        for (int i = 0; i < ${TILES}; i++)
            if (i * ${W} + w >= tile0 + 2 && i * ${W} + w < ${MT // 16})
                #pragma unroll
                for (int n = 0; n < 2; n++) {
                    u32 hi[4], lo[4];
                    #pragma unroll
                    for (int u = 0; u < 4; u++) {
                        const float *x = &c[u >> 1][i][n][(u & 1) * 2];
                        split_f16(0x1p6f * x[0], 0x1p6f * x[1], hi[u], lo[u]);
                    }
                    stmatrix_x4_trans(to + i * ${W * 1024} + n * 512, hi);
% if PRODUCTS == 3 then
                    stmatrix_x4_trans(to + i * ${W * 1024} + n * 512 + ${PLANE}, lo);
% end
                }
        // The top block, four columns a thread.
% for e = 0, 255, 32 * W do
        if (const int e = (int)threadIdx.x + ${e}; ${W > 8 and "e < 256" or "true"}) {
            const int row = e >> 3, j = (e & 7) * 4;
            const f32x4 x = *(const f32x4 *)(s->rv + row * 36 + j);
            float y[4] = {x.x, x.y, x.z, x.w};
            #pragma unroll
            for (int u = 0; u < 4; u++)
                y[u] = row > j + u ? 0x1p6f * y[u] : row == j + u ? 0x1p6f : 0.0f;
            u32x2 hi, lo;
            split_f16(y[0], y[1], hi.x, lo.x);
            split_f16(y[2], y[3], hi.y, lo.y);
            u8 *at = v + fused_chunk(row, j >> 3) + (j & 4) * 2;
            *(u32x2 *)at = hi;
% if PRODUCTS == 3 then
            *(u32x2 *)(at + ${PLANE}) = lo;
% end
        }
% end
% if CLUSTER > 1 then
        fence_async_shared();
% end
    }
% end

    // v'v of every column: the rows below the top block, and those of V1 that are this warp's.
    #pragma unroll
    for (int u = 0; u < 4; u++) {
        float part[4] = {0.0f, 0.0f, 0.0f, 0.0f}; // short chains: tau is only as good as this sum
        #pragma unroll
        for (int i = 0; i < ${TILES}; i++)
            #pragma unroll
            for (int n = 0; n < 2; n++)
                #pragma unroll
                for (int e = 0; e < 2; e++) {
                    float x = c[u >> 1][i][n][(u & 1) * 2 + e];
                    part[2 * n + e] = fmaf(x, x, part[2 * n + e]);
                }
        float sum = (part[0] + part[1]) + (part[2] + part[3]);
        sum += shfl_xor(sum, 1);
        sum += shfl_xor(sum, 2);
        if ((l & 3) == 0)
            s->norms[w][u * 8 + (l >> 2)] = sum;
    }
    float top = 0.0f;
    #pragma unroll
    for (int i = w; i < 32; i += ${W})
        top = i > l ? fmaf(s->rv[i * 36 + l], s->rv[i * 36 + l], top) : top;
    s->norms[${W} + w][l] = top;
    block_sync();
% if EARLY then
    if (v && w >= 4) {
        meanwhile();
        bar_wait(13, ${32 * W});
        return s->fine;
    } else {
% else
    {
% end
        float part[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
        #pragma unroll
        for (int u = 0; u < ${2 * W}; u++)
            part[u & 7] += s->norms[u][l];
        const float square = 1.0f + (((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7])));
        const float t = s->tau[l], off = fabsf(fmaf(0.5f * t, square, -1.0f));
        const bool good = warp_all(t == 0.0f || (${WHOLE and "(square > 1.0f || s->good == 1) && " or ""}off <= ${LOOSE} && off * fminf(0x1p-6f * s->left, 1.0f) <= (${M} - first < 64 ? ${SHORT} : ${LIMIT})));
        if (w == 0 && good)
            tau[l] = t == 0.0f ? 0.0f : div_rn(2.0f, square); // of the v that is stored
% if EARLY then
        if (threadIdx.x == 0)
            s->fine = good;
        if (v)
            bar_arrive(13, ${32 * W});
% end
        if (!good)
            return false;
% if DIRECT then
        leave();
% end
    }

% for e = 0, 255, EARLY and 128 or 32 * W do
    if (const int e = (int)threadIdx.x + ${e}; ${EARLY and "w < 4" or W > 8 and "e < 256" or "true"}) {
        const int at = (e >> 3) * 36 + (e & 7) * 4;
        *(f32x4 *)(panel + at) = *(const f32x4 *)(s->rv + at);
    }
% end
    fused_give(c, panel - first * 36, tile0 + 2);
    return true;
}
