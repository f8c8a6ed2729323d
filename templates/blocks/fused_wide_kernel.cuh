// The whole left-looking walk with panels of 64 columns and warpgroup products: one CTA an SM, 256 threads (fused.lua, update = wgmma).
//
// Parameters: M, N, K, NP, KP, USED, NT, J, layouts, PRODUCTS, SELECT, shared memory places O_*, scratch sizes V_BYTES and PLANES.
// With one product two stages of V alternate and the next panel's V arrives while this one is applied; with three, both planes fill the
// same space and copies wait for it.
template <bool SPLIT> QRS_DEV void wide_issue(const wide_stage &s, int p, int slot)
{
    if (threadIdx.x != WIDE_SENDER)
        return;
    if (p == s.last)
        bulk_wait<0>();
    const u32 bytes = (${NT} - p) * 8192;
    const saddr base = to_saddr(dynamic_smem()), bar = base + ${O_BAR} + 8 * slot;
    mbar_expect(bar, (SPLIT ? 2 * bytes : bytes) + 16384);
    bulk_load(base + ${O_V} + slot * ${NT * 8192}, s.v + wide_v_place() + wide_trapezoid(p), bytes, bar);
    bulk_load(base + ${O_T} + slot * 16384, s.t + wide_t_place() + p * 16384, 16384, bar);
    if (SPLIT)
        bulk_load(base + ${O_V + NT * 8192}, s.v + wide_v_place() + ${V_BYTES} + wide_trapezoid(p), bytes, bar);
}

QRS_DEV int wide_next(u32 zero, int p, int end)
{
    while (p < end && (zero >> p & 1))
        p++;
    return p;
}

// Applies panels begin .. end-1 but those marked in zero; with SPLIT all of them have a low plane. sent: the first one's V is on its way.
template <bool SPLIT> QRS_DEV void wide_update(wide_tile &c, int begin, int end, int turn, u32 zero, bool sent, wide_stage &s)
{
    const saddr base = to_saddr(dynamic_smem());
    int slot = 0, p = wide_next(zero, begin, end); // applied from `slot` while its successor arrives in the other one
    if (p < end && !sent)
        wide_issue<SPLIT>(s, p, 0);
    #pragma unroll 1
    while (p < end) {
        const saddr v = base + ${O_V} + slot * ${NT * 8192}, t = base + ${O_T} + slot * 16384;
        float *x = (float *)(dynamic_smem() + ${O_X} + slot * 32768), wa[32];
        const int next = wide_next(zero, p + 1, end);
        mbar_wait(base + ${O_BAR} + 8 * slot, s.phases >> slot & 1);
        s.phases ^= 1u << slot;
        wide_gather<SPLIT>(c, wa, p, turn, v, x);
        block_sync();
        if (!SPLIT && next < end)
            wide_issue<false>(s, next, slot ^ 1);
        wide_scatter<SPLIT>(c, wa, p, turn, v, x, t);
        if (SPLIT) {
            block_sync();
            if (next < end)
                wide_issue<true>(s, next, 0);
        } else {
            slot ^= 1;
        }
        p = next;
    }
}

QRS_KERNEL(fused, 256, 1)(const float *a, i64 lda, i64 stride_a, float *h, i64 ldh, i64 stride_h, float *tau, i64 stride_tau, int *info,
                          i64 batch, u8 *v_scratch, u8 *t_scratch, int *tickets)
{
    u8 *smem = dynamic_smem();
    wide_shared *shared = (wide_shared *)(smem + ${O_X});
    float *stau = (float *)(smem + ${O_TAU});
    int *exponent = (int *)(smem + ${O_EXP}), *bad = (int *)(smem + ${O_FLAG});
    i64 *following = (i64 *)(bad + 2);
    u8 *v = smem + ${O_V}, *t = smem + ${O_T};
    const int tid = (int)threadIdx.x;
    if (tid == 0) {
        mbar_init(to_saddr(smem + ${O_BAR}), 1);
        mbar_init(to_saddr(smem + ${O_BAR + 8}), 1);
        #pragma unroll 1
        for (int w = 0; w < 8; w++)
            mbar_init(to_saddr(smem + ${O_GIVEN}) + 8 * w, WIDE_GIVERS);
        fence_mbar_init();
    }
    wide_stage stage = {v_scratch, t_scratch, 0, -1};
    // CTAs in step all ask for memory at once, and all leave it alone at once. In long batches they pay to be a quarter of a panel apart.
    if (batch >= 3 * gridDim.x)
        spin((blockIdx.x & 3) * 23000u);

    // Matrices are not all the same work: who is done takes the next one.
    #pragma unroll 1
    for (i64 b = blockIdx.x; b < batch; b = *following) {
        u32 zero = 0;    // bit p: panel p was zero throughout and has no reflectors
        int split = ${PRODUCTS == 3 and 0 or KP}; // panels from `split` on have a low plane, and use it
        if (tid == 0)
            bad[0] = bad[1] = 0;
        #pragma unroll 1
        for (int k = 0; k < ${NP}; k++) {
            const int first = 64 * k, done = k < ${KP} ? k : ${KP}, turn = k < ${KP} ? k : 0;
            const bool owed = k > 0 && k <= ${USED} && !(zero >> (k - 1) & 1); // T of the last panel
            // Two warps begin T while V leaves shared memory; this block arrives there while T is completed.
            if (owed) {
                wide_begin_t(shared->gram, stau, shared->half);
                stage.last = k - 1;
            }
            if (tid == WIDE_SENDER) {
                if (k == 0)
                    bulk_wait<0>(); // what the matrix before kept is not to land on what this one keeps
                else
                    bulk_wait_read<0>();
            }
            block_sync();
            if (k == 0 && tid == 0)
                *following = batch > gridDim.x ? gridDim.x + (u32)atomic_add(tickets, 1) : batch;
            wide_request(v, a + b * stride_a, lda, first);
            cp_async_commit();
            if (owed) {
                wide_build_t(shared->gram, shared->half);
                wide_put_t(shared->half, t);
                fence_async_shared();
                block_sync();
                wide_keep_t(stage.t, k - 1);
            }
            cp_async_wait<0>();
            block_sync();
            wide_tile c;
            wide_fill(c, v, turn);
            // From here on every branch around products hangs on values that went through a shuffle: the compiler must see
            // that they are uniform, or it serialises the products.
            const bool filled = wide_largest(c, &shared->columns);
            const int start = wide_next(zero, 0, done);
            if (filled && start < done && tid == WIDE_SENDER)
                bulk_wait_read<0>(); // the last T has left the place where another one comes
            if (filled && start < done) { // the first V travels while the block is scaled
% if PRODUCTS == 1 then
                if (start < split)
                    wide_issue<false>(stage, start, 0);
% end
% if PLANES == 2 then
                if (start >= split)
                    wide_issue<true>(stage, start, 0);
% end
            }
            const bool few = wide_scale(c, &shared->columns, bad, exponent);
% if SELECT then
            const int was = split;
            if (few && k < split)
                split = k;
% end
            if (filled && k > 0) {
                block_sync();
% if PRODUCTS == 1 then
                wide_update<false>(c, 0, done < split ? done : split, turn, zero, true, stage);
% end
% if SELECT then
                if (split < done) {
                    block_sync();
                    wide_update<true>(c, split, done, turn, zero, start >= was, stage);
                }
% elseif PRODUCTS == 3 then
                wide_update<true>(c, 0, done, turn, zero, true, stage);
% end
            }
            const bool panel = filled && k < ${KP};
            if (k < ${KP} && !filled) {
                zero |= 1u << k;
                if (tid < 64)
                    stau[tid] = 0.0f;
            }
            const bool same = k + 1 < ${NP};
            const i64 next = same ? b : *following;
            const wide_away away = {h + b * stride_h, next < batch ? a + next * stride_a : nullptr, ldh, lda, same ? first + 64 : 0, k};
            if (wide_panel(c, stage, away, panel, exponent, v, t, k < ${USED}, split <= k, shared, stau) && tid == 0)
                bad[1] = 2;
            if (k < ${KP} && tid < 64 && first + tid < ${K})
                tau[b * stride_tau + first + tid] = stau[tid];
        }
        if (info && tid == 0)
            info[b] = bad[0] | bad[1]${SELECT and " | (split < " .. KP .. " ? 4 : 0)" or ""};
        block_sync();
    }
    if (tid == WIDE_SENDER)
        bulk_wait<0>();
}
QRS_ENTRY(fused)
