// The whole left-looking walk with panels of 32 columns and warp products (fused.lua, update = mma): CTAs that share a matrix take its blocks of columns in turns.
//
// Parameters: the family's.
// A block: it is loaded and scaled (ahead of time: OVERLAP), finished panels are applied as they come, its panel is factored, V leaves for whoever waits for it, T follows, and
// the block is written out. Where a panel is not by rows, and nobody else fills the time (DIRECT, EARLY), V leaves as soon as it is known to be good, four warps form V'V while
// that is decided, and give their rows of V to the tile while one of them makes T.
// Named barriers: 1 who factors, and who makes T; 2 who loads the next block; 3..12 gram_narrow.cuh; 13 V is judged; 14 V's rows are in the tile.
QRS_KERNEL(fused, ${THREADS}, ${CTAS})(const float *a, i64 lda, i64 stride_a, float *h, i64 ldh, i64 stride_h, float *tau,
                                       i64 stride_tau, int *info, i64 batch, u8 *v_scratch, u8 *t_scratch)
{
% if ROOM then
    release_next();
    wait_for_earlier();
% end
    u8 *smem = dynamic_smem();
% if GRAM then
    gram_shared *gs = (gram_shared *)(smem + ${O_GRAM});
% end
    const int tid = (int)threadIdx.x;
    const i64 unit = blockIdx.x${CLUSTER > 1 and " / " .. CLUSTER or ""}; // the CTAs that share a matrix
    fused_matrix matrix = {v_scratch + unit * ${RESIDENT and 0 or V_BYTES * PLANES}, t_scratch + unit * ${RESIDENT and 0 or KP * 4096}, 0, 0${CLUSTER > 1 and not RESIDENT and ", 0, 0" or ""}};
% if CLUSTER > 1 then
    const int rank = cluster_rank();
% end
    i64 b = unit;
    int k = ${CLUSTER > 1 and "rank" or "0"}, flags = 0${TILES2 and ", turn = 0" or ""};
    fused_request(fused_all(), (float *)(smem + ${O_TILE}), a + b * stride_a, lda, 32 * k);
    cp_async_commit();
% if CLUSTER > 1 then
    float *found_by = (float *)(smem + ${O_READY + KP * 20}); // what all CTAs found, in that of rank 0; matrices take turns
    if (tid == 0) { // one after another: racecheck takes an instruction that sets up several for writes of warps that pass it by
        #pragma unroll 1
        for (int i = 0; i < ${2 * KP}; i++)
            mbar_init(fused_ready(i), 1);
% if not RESIDENT then
        #pragma unroll 1
        for (int i = 0; i < ${STAGES}; i++)
            mbar_init(fused_full(i), 1);
% end
    }
    fence_mbar_init();
    cluster_sync();
% if RESIDENT then
    fused_expect();
% end
% end
% if OVERLAP then
    cp_async_wait<0>();
    block_sync();
    int unused;
    fused_exponents(fused_all(), (float *)(smem + ${O_TILE}), (fused_scales *)(smem + ${O_SCALES}), (fused_largest *)(smem + ${O_STEP}), unused);
    block_sync();
% end
    #pragma unroll 1
    while (b < batch) { // a column block a turn
        const int first = 32 * k, rows = ${MT} - first;
        float *tile = (float *)(smem + ${O_TILE}${TILES2 and " + turn * " .. TILE or ""}), *panel = tile + first * 36;
        float *sums = ${APART and "(float *)(smem + " .. O_SUM .. ")" or "tile"}; // where C is while in registers, or beside it
        fused_scales *scales = (fused_scales *)(smem + ${O_SCALES}${OVERLAP and " + turn * 132" or ""});
        float *stau = (float *)(smem + ${O_TAU})${OVERLAP and " + 32 * turn" or ""};
% if OVERLAP then
        const int found = scales->found, ex = scales->exponent[lane()];
% else
        cp_async_wait<0>();
        block_sync();
        int found;
        const int ex = fused_exponents(fused_all(), tile, scales, (fused_largest *)(smem + ${O_STEP}), found);
% end
        const bool filled = found != 0, factor = filled && k < ${KP};
        flags |= found >> 1;
        if (filled) {
            fused_tile c;
% if LASTS then
            if (k == 0)
                fused_scale(tile, ex);
            else {
% else
            {
% end
% if CLUSTER > 1 and not RESIDENT then
                const bool first_there = fused_fetch_first(matrix, k);
% end
                fused_take(c, tile, ex);
                block_sync(); // partial sums go where the tile lies
                fused_update(c, k, sums, matrix${CLUSTER > 1 and not RESIDENT and ", first_there" or ""});
% if LASTS then
                fused_give(c, tile, 0);
% end
            }
% if LASTS then
            warp_sync();
% end
% if GRAM then
            if (factor) {
                if (rows > 32) {
                    gram_product(${LASTS and "tile" or "c"}, 2 * k + 2, ${RED});
                    block_sync();
                    gram_total(${RED}, gs->gram${WHOLE and ", gs->rv" or ""});
                } else
                    gram_none(gs->gram);
                block_sync();
            }
% end
% if not LASTS then
            fused_give(c, tile, 0);
% end
        } else {
            if (k < ${KP}) { // a zero block stays zero under any reflector
                matrix.zero |= 1u << k;
                if (tid < 32)
                    stau[tid] = 0.0f;
            }
% if GRAM and LASTS then
            block_sync(); // the block before it has left
% end
        }
        const bool last = k + ${CLUSTER} >= ${NP};
        const i64 b_next = last ? b + gridDim.x${CLUSTER > 1 and " / " .. CLUSTER or ""} : b;
        const int k_next = last ? ${CLUSTER > 1 and "rank" or "0"} : k + ${CLUSTER};
% if TILES2 and not OVERLAP then
        if (b_next < batch)
            fused_request(fused_all(), (float *)(smem + ${O_TILE} + (turn ^ 1) * ${TILE}), a + b_next * stride_a, lda, 32 * k_next);
        cp_async_commit();
% end
% if not (GRAM and LASTS) then
        block_sync();
% end
% if OVERLAP then
        if (warp() < 4) {
            if (factor)
                gram_factor(panel, first, gs);
        } else if ((warp() & 3) >= 2) { // not on the schedulers of the warps whose instructions are the chain
            const int number = ((int)warp() >> 2) * 2 - 2 + ((int)warp() & 1);
            const fused_team side = {32 * number + (int)lane(), ${16 * (W - 4)}, number, ${(W - 4) // 2}, 2};
            if (b_next < batch) {
                float *other = (float *)(smem + ${O_TILE} + (turn ^ 1) * ${TILE});
                fused_request(side, other, a + b_next * stride_a, lda, 32 * k_next);
                cp_async_commit();
                cp_async_wait<0>();
                fused_sync(side);
                fused_exponents(side, other, (fused_scales *)(smem + ${O_SCALES} + (turn ^ 1) * 132), (fused_largest *)(smem + ${O_STEP}), unused); // no panel goes by rows now
            }
        }
        block_sync();
% elseif GRAM then
        if (factor && warp() < 4)
            gram_factor(panel, first, gs);
        block_sync();
% end
% local v_at, t_at = "fused_v(k)", "fused_t(k)"
% if not RESIDENT then
% v_at, t_at = "matrix.v + fused_trapezoid(k)", "matrix.t + k * 4096"
% elseif CLUSTER > 1 then
% v_at, t_at = DIRECT and v_at or v_at .. ", fused_ready(k)", t_at .. ", fused_t_ready(k)"
% end
% local GIVEN = CLUSTER > 1 and RESIDENT and "true" or "filled" -- others count on a zero panel too: with tau = 0 it does nothing
% local from = DIRECT and "planes" or "panel"
% if DIRECT then
        u8 *planes = ${RESIDENT and v_at or "smem + " .. O_V + STAGE};
        bool left = k >= ${USED};
% end
% if DIRECT and CLUSTER > 1 then
        const auto send = [&] { // by a warp that does not make T
            if (tid == ${EARLY and 96 or THREADS - 32} && !left)
                fused_send(${RESIDENT and "k" or "matrix, k, planes"});
        };
% elseif DIRECT then
        const auto send = [] {};
% end
% if EARLY then
        fused_tile v2;
        bool by_gram = false, given = false; // given: V2's rows are, but for those of the warps that make T
% end
        if (factor) {
% if GRAM then
% if EARLY then
            const auto shares = [&] { fused_shares(planes, rows, ${T_RED}); };
            by_gram = gram_finish(v2, panel, first, gs, stau, left ? nullptr : planes, send, shares);
            given = by_gram && !left;
% else
            const bool by_gram = gram_finish(panel, first, gs, stau${DIRECT and ", left ? nullptr : planes, send" or ""});
% end
            if (!by_gram)
                flags |= 2;
            if (!by_gram)
% end
            fused_rows(panel, rows, ${K} - first < 32 ? ${K} - first : 32, (fused_step *)(smem + ${O_STEP}), stau);
% if EARLY then
            if (!given)
                block_sync();
% elseif DIRECT and W > 4 and OVERLAP then
            if (by_gram && !left && warp() < 4)
                bar_arrive(14, ${THREADS}); // T needs nothing of the panel
            else
                bar_sync(14, ${THREADS});
% else
            block_sync();
% end
% if DIRECT then
            left = left || by_gram;
% end
        }
% if DIRECT then
        if (!left && ${GIVEN}) { // ${GIVEN == "true" and "a panel of zeros, or by rows" or "by rows"}
            fused_reflectors(fused_all(), panel, rows, planes);
% if CLUSTER > 1 then
            fence_async_shared();
% end
            block_sync();
            send();
% if EARLY then
            if (warp() >= 4)
                fused_shares(planes, rows, ${T_RED});
% end
        }
% end
% if DIRECT and CLUSTER > 1 and not RESIDENT then
        if (k < ${USED} && tid == ${THREADS - 32})
            fused_sent(k, !filled);
% end
% if LASTS then
        // ${DIRECT and "T" or W > 4 and "Four warps make T while the others write V" or "V, then T"}. The next barrier of the block, behind what of the next block needs neither, ends it.
% if not DIRECT then
        if (k < ${USED}${W > 4 and " && warp() >= 4" or ""}) {
            const fused_team team = ${W > 4 and "{tid - 128, " .. THREADS - 128 .. ", (int)warp() - 4, " .. W - 4 .. ", 2}" or "fused_all()"};
            if (${GIVEN})
                fused_reflectors(team, panel, rows, ${v_at});
% if CLUSTER > 1 and not RESIDENT then
            if (team.thread < ${CLUSTER})
                sts_remote(cluster_map(to_saddr(fused_skipped(k)), team.thread), filled ? 0.0f : 1.0f);
            fused_announce(team, fused_ready(k));
% end
        }
% end
        if (k < ${USED}${EARLY and " && warp() >= 4" or W > 4 and " && warp() < 4" or ""}) {
            if (${GIVEN}) {
% if not EARLY then
                fused_shares(${from}, rows, ${T_RED});
% end
% if EARLY then
                const auto rest = [&] {
                    if (given) {
                        fused_give(v2, tile, 2 * k + 2);
                        bar_arrive(14, ${THREADS});
                    }
                };
                fused_build_t(stau, ${T_RED}, ${T_RED} + 4096, ${t_at}, 2 * k + 2 <= ${(MT // 16 - 1 - 4) // W * W + 4}, rest);
% else
                fused_build_t(stau, ${T_RED}, ${T_RED} + 4096, ${t_at});
% end
            }
% if CLUSTER > 1 and not RESIDENT then
            fused_announce({tid, 128, (int)warp(), 4, 1}, fused_t_ready(k));
% end
        }
% elseif not DIRECT then
        if (factor && k < ${USED})
            fused_reflectors(fused_all(), panel, rows, ${v_at});
% end
% if EARLY then
        if (given && warp() < 4)
            bar_sync(14, ${THREADS}); // the others have given their rows
% end
% if CLUSTER > 1 then
        if (last) { // said before this block leaves, or it would wait for that
            if (tid == 0)
                sts_remote(cluster_map(to_saddr(found_by + matrix.parity * ${CLUSTER} + rank), 0), (float)flags);
            fused_came(matrix.parity);
            cluster_arrive();
        }
% end
% if OVERLAP then
        // Who does not make T.
        const fused_team writers = k < ${USED} ? ${EARLY and "fused_team{tid, 128, (int)warp(), 4, 2}" or "fused_team{tid - 128, " .. THREADS - 128 .. ", (int)warp() - 4, " .. W - 4 .. ", 2}"} : fused_all();
        if (${EARLY and "writers.thread < writers.threads" or "writers.thread >= 0"})
            fused_leave(writers, tile, h + b * stride_h, ldh, k, scales->exponent, tau + b * stride_tau, stau);
% else
        fused_leave(fused_all(), tile, h + b * stride_h, ldh, k, scales->exponent, tau + b * stride_tau, stau);
        block_sync();
% if not LASTS then
        if (filled && k < ${USED}) {
            if (warp() < 4) {
                fused_shares(${from}, rows, ${T_RED});
                fused_build_t(stau, ${T_RED}, ${T_RED} + 4096, ${t_at});
            }
            block_sync();
        }
% end
% if not TILES2 then
        if (b_next < batch)
            fused_request(fused_all(), tile, a + b_next * stride_a, lda, 32 * k_next);
        cp_async_commit();
% end
% end
        if (last) {
% if CLUSTER > 1 then
            cluster_wait(); // nobody writes over V while it is applied elsewhere
% if RESIDENT then
            fused_expect();
% end
            if (info && rank == 0 && tid == 0) {
                for (int i = 0; i < ${CLUSTER}; i++)
                    flags |= (int)found_by[matrix.parity * ${CLUSTER} + i];
                info[b] = flags;
            }
            matrix.parity ^= 1;
            matrix.zero = 0;
% if not RESIDENT then
            matrix.known = 0;
% end
% else
            if (info && tid == 0)
                info[b] = flags;
            matrix.zero = 0;
% end
            flags = 0;
        }
% if TILES2 then
        turn ^= 1;
% end
        b = b_next;
        k = k_next;
    }
}
QRS_ENTRY(fused)
