// A finished tile of 32 columns: to H, and its reflectors to fp16 planes.
//
// Parameters: M, N, K, KP; MT, W, OUT; PRODUCTS, PLANE, V_BYTES, RESIDENT, DIRECT (only what falls back comes here) as in the family.
// The tile (fused_load.cuh) holds R on and above the diagonal of the panel, still scaled, and V below it. top: the panel's first row, MT when
// the columns lie past the last panel.
QRS_DEV void fused_out(fused_team team, const float *tile, float *h, i64 ldh, int first, int top, const int *exponent)
{
    const int l = lane(), w = team.warp;
% if OUT == "row" then
% if N % 4 == 0 then
    if ((((u64)h >> 2 | (u64)ldh) & 3) == 0) { // four rows at a time, four columns a lane
        const int row = 4 * w + (l >> 3), column = (l & 7) * 4;
        power_of_two f[4];
        #pragma unroll
        for (int u = 0; u < 4; u++)
            f[u] = make_power_of_two(exponent[column + u] - QRS_LIFT);
        const float *from = tile + row * 36 + column;
        float *to = h + row * ldh + first + column;
        if (first + column < ${N})
            #pragma unroll 2
            for (int i = row; i < ${M}; i += 4 * team.warps, from += 144 * team.warps, to += 4 * team.warps * ldh) {
                f32x4 x = *(const f32x4 *)from;
                if (i < top + 32) {
                    x.x = i > top + column ? x.x : times(f[0], x.x);
                    x.y = i > top + column + 1 ? x.y : times(f[1], x.y);
                    x.z = i > top + column + 2 ? x.z : times(f[2], x.z);
                    x.w = i > top + column + 3 ? x.w : times(f[3], x.w);
                }
                *(f32x4 *)to = x;
            }
        return;
    }
% end
    const power_of_two f = make_power_of_two(exponent[l] - QRS_LIFT);
    float *to = h + w * ldh + first + l;
    if (first + l < ${N})
        #pragma unroll 4
        for (int i = w; i < ${M}; i += team.warps, to += team.warps * ldh) {
            const float x = tile[i * 36 + l];
            *to = i > top + l ? x : times(f, x);
        }
% else
    #pragma unroll 1
    for (int j = w; j < 32 && first + j < ${N}; j += team.warps) {
        const power_of_two f = make_power_of_two(exponent[j] - QRS_LIFT);
        float *to = h + (first + j) * ldh;
        #pragma unroll 4
        for (int i = l; i < ${M}; i += 32) {
            const float x = tile[i * 36 + j];
            to[i] = i > top + j ? x : times(f, x);
        }
    }
% end
}

// Block k leaves: its columns to H, its panel's scalars to tau.
QRS_DEV void fused_leave(fused_team team, const float *tile, float *h, i64 ldh, int k, const int *exponent, float *tau, const float *stau)
{
    const int first = 32 * k;
    fused_out(team, tile, h, ldh, first, k < ${KP} ? first : ${MT}, exponent);
    if (team.thread < 32 && first + team.thread < ${K})
        tau[first + team.thread] = stau[team.thread];
}

QRS_DEV int fused_chunk(int row, int chunk) { return row * 64 + ((chunk ^ ((row >> 1) & 3)) << 4); }

// V from the tile's rows of the panel into planes of fp16, scaled by 2^LIFT, layout as in fused_apply.cuh. v: in shared memory${not DIRECT and not RESIDENT and " or scratch" or ""}.
% if RESIDENT and CLUSTER > 1 and not DIRECT then
// They go to the same place in all other CTAs too, counted on their mbarriers `bar`.
% end
${DIRECT and "QRS_CALL" or "QRS_DEV"} void fused_reflectors(fused_team team, const float *panel, int rows, u8 *v${RESIDENT and CLUSTER > 1 and not DIRECT and ", saddr bar" or ""})
{
    #pragma unroll 1
    for (int start = team.thread; start < rows * 4; start += 4 * team.threads) { // four chunks at once: their loads first
        float y[4][8];
        #pragma unroll
        for (int c = 0; c < 4; c++) {
            const int e = start + c * team.threads < rows * 4 ? start + c * team.threads : start;
            *(f32x4 *)y[c] = *(const f32x4 *)(panel + (e >> 2) * 36 + (e & 3) * 8);
            *(f32x4 *)(y[c] + 4) = *(const f32x4 *)(panel + (e >> 2) * 36 + (e & 3) * 8 + 4);
        }
        #pragma unroll
        for (int c = 0; c < 4; c++) {
            const int e = start + c * team.threads, i = e >> 2, j = (e & 3) * 8;
            if (e >= rows * 4)
                break;
            #pragma unroll
            for (int u = 0; u < 8; u++)
                y[c][u] *= 0x1p6f;
            if (c == 0 && i < 32) // a team has 128 threads or more, so the top block is in the first chunks
                #pragma unroll
                for (int u = 0; u < 8; u++)
                    y[c][u] = i > j + u ? y[c][u] : i == j + u ? 0x1p6f : 0.0f;
            u32x4 hi, lo;
            split_f16(y[c][0], y[c][1], hi.x, lo.x);
            split_f16(y[c][2], y[c][3], hi.y, lo.y);
            split_f16(y[c][4], y[c][5], hi.z, lo.z);
            split_f16(y[c][6], y[c][7], hi.w, lo.w);
            const int at = fused_chunk(i, e & 3);
            *(u32x4 *)(v + at) = hi;
% if PRODUCTS == 3 then
            *(u32x4 *)(v + ${(RESIDENT or DIRECT) and PLANE or V_BYTES} + at) = lo;
% end
% if RESIDENT and CLUSTER > 1 and not DIRECT then
            #pragma unroll
            for (int other = 1; other < ${CLUSTER}; other++) {
                const int rank = cluster_rank() ^ other;
                const u32 to = cluster_map(to_saddr(v), rank) + at, ready = cluster_map(bar, rank);
                st_async(to, hi, ready);
% if PRODUCTS == 3 then
                st_async(to + ${PLANE}, lo, ready);
% end
            }
% end
        }
    }
}
