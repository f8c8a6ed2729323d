// T of a panel from V and tau.
//
// Parameters: PRODUCTS, PLANE, RESIDENT, CLUSTER, LASTS (shares of V'V have a place beside the panel), DIRECT, EARLY (the last four warps, else the first).
// T itself by one warp (t_blocks.cuh).

% if not DIRECT then
// A lane's 16 of 16 rows by 32 columns: x[u][n][e] is at row 8 n + e, column 8 u.
QRS_DEV void fused_pick(float (&x)[4][2][2], const float *at)
{
    #pragma unroll
    for (int u = 0; u < 4; u++)
        #pragma unroll
        for (int n = 0; n < 2; n++)
            #pragma unroll
            for (int e = 0; e < 2; e++)
                x[u][n][e] = at[n * 288 + e * 36 + 8 * u];
}
% end

// Four warps, the block's ${EARLY and "last" or "first"}: their shares of V'V, the 16 x 16 blocks on and above the diagonal, from ${DIRECT and "V's planes (shared memory)" or "the panel (rows 36 apart; V below its diagonal)"}, to
// red: 4 x 4 KB${(LASTS or DIRECT) and "" or " (the panel may lie there)"}. Products of the halves that V's planes have.
QRS_DEV void fused_shares(${DIRECT and "const u8 *v" or "const float *panel"}, int rows, float *red)
{
    const int l = lane(), w = (int)warp()${EARLY and " - 4" or ""}${DIRECT and "" or ", g = l >> 2, q = l & 3"};
    float acc[2][4][4];
    #pragma unroll
    for (int mt = 0; mt < 2; mt++)
        #pragma unroll
        for (int n = 0; n < 4; n++)
            #pragma unroll
            for (int e = 0; e < 4; e++)
                acc[mt][n][e] = 0.0f;
% if DIRECT then
    const saddr at = to_saddr(v) + fused_chunk((l >> 4) * 8 + (l & 7), l >> 3 & 1);
    #pragma unroll 1
    for (int i = 16 * w; i < rows; i += 64) {
        // By planes: 16 columns, 16 rows. What is an operand on the left is two on the right, too.
        u32 x[${PRODUCTS == 3 and 2 or 1}][2][4];
        #pragma unroll
        for (int plane = 0; plane < ${PRODUCTS == 3 and 2 or 1}; plane++)
            #pragma unroll
            for (int mt = 0; mt < 2; mt++)
                ldmatrix_x4_trans(x[plane][mt], (at ^ (32 * mt)) + i * 64 + plane * ${PLANE});
        #pragma unroll
        for (int term = 0; term < ${PRODUCTS}; term++)
            #pragma unroll
            for (int mt = 0; mt < 2; mt++)
                #pragma unroll
                for (int n = 2 * mt; n < 4; n++) {
                    const u32(&b)[4] = x[term == 2][n >> 1];
                    mma_f16(acc[mt][n], x[term == 1][mt], b[n & 1], b[2 + (n & 1)]);
                }
    }
% else
    float x[4][2][2]; // rows ahead by one turn
    const float *at = panel + (16 * w + 2 * q) * 36 + g;
    if (16 * w < rows)
        fused_pick(x, at);
    #pragma unroll 1
    for (int i = 16 * w; i < rows; i += 64) {
        if (i < 32)
            #pragma unroll
            for (int u = 0; u < 4; u++)
                #pragma unroll
                for (int n = 0; n < 2; n++)
                    #pragma unroll
                    for (int e = 0; e < 2; e++) {
                        const int below = i + 2 * q + 8 * n + e - 8 * u - g;
                        x[u][n][e] = below > 0 ? x[u][n][e] : below == 0 ? 1.0f : 0.0f;
                    }
        // Eight columns a group, eight rows a half: what is an operand's part on the left is one on the right, too.
        u32 h[4][2], lo[4][2];
        #pragma unroll
        for (int u = 0; u < 4; u++)
            #pragma unroll
            for (int n = 0; n < 2; n++)
                split_f16(0x1p6f * x[u][n][0], 0x1p6f * x[u][n][1], h[u][n], lo[u][n]);
        at += 64 * 36;
        if (i + 64 < rows)
            fused_pick(x, at);
        #pragma unroll
        for (int term = 0; term < ${PRODUCTS}; term++)
            #pragma unroll
            for (int mt = 0; mt < 2; mt++) {
                const u32(&y)[4][2] = term == 1 ? lo : h, (&z)[4][2] = term == 2 ? lo : h;
                const u32 a[4] = {y[2 * mt][0], y[2 * mt + 1][0], y[2 * mt][1], y[2 * mt + 1][1]};
                #pragma unroll
                for (int n = 2 * mt; n < 4; n++)
                    mma_f16(acc[mt][n], a, z[n][0], z[n][1]);
            }
    }
% if not LASTS then
    bar_sync(1, 128);
% end
% end
    fused_partial(red, acc, 0${EARLY and ", w" or ""});
}

// The same warps: T from those shares and tau. s: 32 rows of 36 floats. Planes of fp16 go to `planes`${not RESIDENT and " (scratch)" or ""}.
% if CLUSTER > 1 and RESIDENT then
// They go to the same place in the other CTAs too, counted on their mbarriers `bar`.
% end
% if EARLY then
// What else the warps have to do they do while one of them makes T, and that one, if it is long, after it.
% end
${EARLY and "template <class REST> " or ""}QRS_DEV void fused_build_t(const float *tau, float *red, float *s, u8 *planes${CLUSTER > 1 and RESIDENT and ", saddr bar" or ""}${EARLY and ", bool long_rest, REST rest" or ""})
{
    const int w = (int)warp()${EARLY and " - 4" or ""}, thread = (int)threadIdx.x${EARLY and " - 128" or ""};
    bar_sync(1, 128);
    #pragma unroll
    for (int i = 0; i < 2; i++) { // the sums; what is below the 16 x 16 blocks of the diagonal nobody reads
        const int r = 16 * i + (thread >> 3), c = (thread & 7) * 4;
        const f32x4 x = fused_total<4>(red, r, c);
        *(f32x4 *)(s + r * 36 + c) = {0x1p-12f * x.x, 0x1p-12f * x.y, 0x1p-12f * x.z, 0x1p-12f * x.w};
    }
    bar_sync(1, 128);

    float *t = red; // 32 rows of 36 floats
% if EARLY then
    const bool later = w == 0 && long_rest;
    if (!later)
        rest();
% end
    if (w == 0)
        t_of_panel(s, tau, t);
    bar_sync(1, 128);
    const int row = thread >> 2, chunk = thread & 3, place = fused_chunk(row, chunk);
    const f32x4 none = {0.0f, 0.0f, 0.0f, 0.0f};
    const bool below = row >= 16 && chunk < 2;
    const float *from = t + row * 36 + chunk * 8;
    const f32x4 left = below ? none : *(const f32x4 *)from, right = below ? none : *(const f32x4 *)(from + 4);
    u32x4 hi, lo;
    split_f16(left.x, left.y, hi.x, lo.x);
    split_f16(left.z, left.w, hi.y, lo.y);
    split_f16(right.x, right.y, hi.z, lo.z);
    split_f16(right.z, right.w, hi.w, lo.w);
    *(u32x4 *)(planes + place) = hi;
    *(u32x4 *)(planes + 2048 + place) = lo;
% if RESIDENT and CLUSTER > 1 then
    #pragma unroll
    for (int other = 1; other < ${CLUSTER}; other++) {
        const int rank = cluster_rank() ^ other;
        const u32 to = cluster_map(to_saddr(planes), rank) + place, ready = cluster_map(bar, rank);
        st_async(to, hi, ready);
        st_async(to + 2048, lo, ready);
    }
% end
% if EARLY then
    if (later)
        rest();
% end
}
