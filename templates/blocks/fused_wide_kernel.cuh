// The whole left-looking walk with panels of 64 columns and warpgroup products: one CTA an SM, 256 threads (fused.lua, update = wgmma).
//
// Parameters: M, N, K, NP, KP, USED, NT, J, layouts, PRODUCTS, SELECT, CLUSTER, shared memory places O_*, scratch sizes V_BYTES and PLANES.
// With one product two stages of V alternate and the next panel's V arrives while this one is applied; with three, both planes fill the
// same space and copies wait for it.
template <bool SPLIT> QRS_DEV void wide_issue(const wide_stage &s, int p, int slot)
{
    if (threadIdx.x != 0)
        return;
% if CLUSTER > 1 then
    fence_async(); // another CTA's copies, which an mbarrier announced
% else
    if (p == s.last)
        bulk_wait<0>();
% end
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

% if CLUSTER > 1 then
// CTAs that share a matrix take its blocks in turn. A panel has an mbarrier in each of them, which completes when its V and T are in scratch (or it has none).
struct wide_shares {
    u32 parity;
    int known; // the panels before this one have been waited for
};
QRS_DEV saddr wide_ready(int p) { return to_saddr(dynamic_smem() + ${O_READY}) + 8 * p; }
QRS_DEV float *wide_skipped(int p) { return (float *)(dynamic_smem() + ${O_READY + 8 * KP}) + p; } // not 0: the panel has no reflectors
QRS_DEV float *wide_found(int parity, int rank) { return (float *)(dynamic_smem() + ${O_READY + 12 * KP}) + parity * ${CLUSTER} + rank; }

// One thread, once what it started has arrived in scratch.
QRS_DEV void wide_announce(int p, bool skipped)
{
    #pragma unroll 1
    for (int other = 0; other < ${CLUSTER}; other++) {
        sts_remote(cluster_map(to_saddr(wide_skipped(p)), other), skipped ? 1.0f : 0.0f);
        mbar_arrive_remote(cluster_map(wide_ready(p), other));
    }
}
// Applies panels 0 .. end-1, each as soon as it is there.
QRS_DEV void wide_follow(wide_tile &c, int end, int turn, wide_stage &s, wide_shares &shares)
{
    const saddr base = to_saddr(dynamic_smem()), v = base + ${O_V}, t = base + ${O_T};
    float *x = (float *)(dynamic_smem() + ${O_X}), wa[32];
    #pragma unroll 1
    for (int p = 0; p < end; p++) {
        if (p >= shares.known)
            mbar_wait_cluster(wide_ready(p), shares.parity);
        if (shfl((int)(*wide_skipped(p) != 0.0f), 0))
            continue;
        wide_issue<true>(s, p, 0);
        mbar_wait(base + ${O_BAR}, s.phases & 1);
        s.phases ^= 1u;
        wide_gather<true>(c, wa, p, turn, v, x);
        block_sync();
        wide_scatter<true>(c, wa, p, turn, v, x, t);
        block_sync();
    }
    shares.known = end;
}
% end

// Asks L2 for block `first` of A, a 128-byte line a request: it arrives while the chain of a panel keeps memory idle.
QRS_DEV void wide_prefetch(const float *a, i64 lda, int first)
{
% local long, lines = IN == "col" and 64 or M, IN == "col" and ceildiv(M, 32) or 2
    #pragma unroll 1
    for (int e = threadIdx.x; e < ${long * lines}; e += 256) {
        const int major = e / ${lines}, line = e % ${lines} * 32;
% if IN == "col" then
        if (first + major < ${N})
            prefetch_l2(a + (first + major) * lda + line);
% else
        if (first + line < ${N})
            prefetch_l2(a + major * lda + first + line);
% end
    }
}

QRS_KERNEL(fused, 256, 1)(const float *a, i64 lda, i64 stride_a, float *h, i64 ldh, i64 stride_h, float *tau, i64 stride_tau, int *info,
                          i64 batch, u8 *v_scratch, u8 *t_scratch${CLUSTER == 1 and ", int *tickets" or ""})
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
% if CLUSTER > 1 then
        #pragma unroll 1
        for (int p = 0; p < ${KP}; p++)
            mbar_init(wide_ready(p), 1);
% end
        fence_mbar_init();
    }
    wide_stage stage = {v_scratch, t_scratch, 0, -1};
% if CLUSTER > 1 then
    const int rank = cluster_rank();
    wide_shares shares = {0, 0};
    cluster_sync();
    #pragma unroll 1
    for (i64 b = blockIdx.x / ${CLUSTER}; b < batch; b += gridDim.x / ${CLUSTER}) {
% else
    // CTAs in step all ask for memory at once, and all leave it alone at once. In long batches they pay to be a quarter of a panel apart.
    if (batch >= 3 * gridDim.x)
        spin((blockIdx.x & 3) * 23000u);

    // Matrices are not all the same work: who is done takes the next one.
    #pragma unroll 1
    for (i64 b = blockIdx.x; b < batch; b = *following) {
% end
        u32 zero = 0;    // bit p: panel p was zero throughout and has no reflectors
        int split = ${PRODUCTS == 3 and 0 or KP}; // panels from `split` on have a low plane, and use it
        if (tid == 0)
            bad[0] = bad[1] = 0;
        #pragma unroll 1
        for (int k = ${CLUSTER > 1 and "rank" or "0"}; k < ${NP}; k += ${CLUSTER}) {
            const int first = 64 * k, done = k < ${KP} ? k : ${KP}, turn = k < ${KP} ? k : 0;
% if CLUSTER > 1 then
            if (tid == 0)
                bulk_wait_read<0>();
            block_sync();
            wide_request(v, a + b * stride_a, lda, first);
            cp_async_commit();
% else
            const bool owed = k > 0 && k <= ${USED} && !(zero >> (k - 1) & 1); // T of the last panel
            // Two warps begin T while V leaves shared memory; this block arrives there while T is completed.
            if (owed) {
                wide_begin_t(shared->gram, stau, shared->half);
                stage.last = k - 1;
            }
            if (tid == 0) {
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
% end
            cp_async_wait<0>();
            block_sync();
            wide_tile c;
            wide_fill(c, v, turn);
            fence_async_shared(); // V comes there next
            // From here on every branch around products hangs on values that went through a shuffle: the compiler must see
            // that they are uniform, or it serialises the products.
            const bool filled = wide_largest(c, &shared->columns);
% if CLUSTER == 1 then
            const int start = wide_next(zero, 0, done);
            if (filled && start < done && tid == 0)
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
% end
            const bool few = wide_scale(c, &shared->columns, bad, exponent);
% if SELECT then
            const int was = split;
            if (few && k < split)
                split = k;
% end
            if (filled && k > 0) {
                block_sync();
% if CLUSTER > 1 then
                wide_follow(c, done, turn, stage, shares);
% elseif PRODUCTS == 1 then
                wide_update<false>(c, 0, done < split ? done : split, turn, zero, true, stage);
% end
% if SELECT then
                if (split < done) {
                    block_sync();
                    wide_update<true>(c, split, done, turn, zero, start >= was, stage);
                }
% elseif PRODUCTS == 3 and CLUSTER == 1 then
                wide_update<true>(c, 0, done, turn, zero, true, stage);
% end
            }
            {
                const bool same = k + ${CLUSTER} < ${NP};
                const i64 next = same ? b : ${CLUSTER > 1 and "b + gridDim.x / " .. CLUSTER or "*following"};
                if (next < batch)
                    wide_prefetch(a + next * stride_a, lda, same ? first + ${64 * CLUSTER} : ${CLUSTER > 1 and "64 * rank" or "0"});
            }
            const bool panel = filled && k < ${KP};
            if (k < ${KP} && !filled) {
                zero |= 1u << k;
                if (tid < 64)
                    stau[tid] = 0.0f;
            }
            if (wide_panel(c, stage, k, panel, h + b * stride_h, ldh, exponent, v, t, k < ${USED}, split <= k, shared, stau) && tid == 0)
                bad[1] = 2;
            if (k < ${KP} && tid < 64 && first + tid < ${K})
                tau[b * stride_tau + first + tid] = stau[tid];
% if CLUSTER > 1 then
            if (k < ${USED}) { // T at once: somebody waits for it
                if (panel) {
                    t_block *blocks = (t_block *)shared->rv;
                    t_diagonal(shared->gram + (int)warp() * ${8 * 69}, stau + 8 * (int)warp(), blocks[warp()]);
                    block_sync();
                    if (warp() < 4)
                        t_rows(shared->gram, blocks, shared->half, warp());
                    block_sync();
                    wide_put_t(shared->half, t);
                    fence_async_shared();
                    block_sync();
                    wide_keep_t(stage.t, k);
                }
                if (tid == 0) {
                    bulk_wait<0>();
                    wide_announce(k, !panel);
                }
            }
% end
        }
% if CLUSTER > 1 then
        block_sync(); // all have said what they found
        if (tid == 0)
            sts_remote(cluster_map(to_saddr(wide_found(shares.parity, rank)), 0), (float)(bad[0] | bad[1]));
        #pragma unroll 1
        for (int p = 0; p < ${USED}; p++) // every panel was announced, also those that were not needed here
            mbar_wait_cluster(wide_ready(p), shares.parity);
        cluster_sync(); // and nobody writes over V while it is applied elsewhere
        if (info && rank == 0 && tid == 0) {
            int all = 0;
            for (int i = 0; i < ${CLUSTER}; i++)
                all |= (int)*wide_found(shares.parity, i);
            info[b] = all;
        }
        shares.parity ^= 1;
        shares.known = 0;
% else
        if (info && tid == 0)
            info[b] = bad[0] | bad[1]${SELECT and " | (split < " .. KP .. " ? 4 : 0)" or ""};
        block_sync();
% end
    }
    if (tid == 0)
        bulk_wait<0>();
}
QRS_ENTRY(fused)
