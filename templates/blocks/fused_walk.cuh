// The finished panels' way to a block: where their V and T are, and the loop that applies them.
//
// Parameters: MT, K, KP, THREADS, PRODUCTS, PLANES, PLANE, V_BYTES, RESIDENT, DIRECT, STAGE, STAGES, CLUSTER; shared memory places O_V, O_T, O_WS, O_WP, O_READY.
// V and T of all panels are in shared memory (RESIDENT), or in scratch and come to shared memory stage by stage. Where CTAs share a matrix, a panel has
// two mbarriers in each of them: one completes when its V is there, the other when its T is. Resident, they count the bytes that the panel's CTA
// sends (no fence of global memory stands in the chain then); otherwise that CTA arrives when all is in scratch.

// What a CTA knows about its matrix so far.
struct fused_matrix {
    u8 *v, *t;  // scratch
    u32 zero;   // bit p: panel p was zero throughout, so it has no reflectors${CLUSTER > 1 and " (of this CTA's panels)" or ""}
    u32 parity; // of the panels' mbarriers
% if CLUSTER > 1 and not RESIDENT then
    u32 full;   // bit s: parity of stage s's next copy
    int known;  // V and T of the panels before this one have been waited for
% end
};

// Byte offset of panel p's trapezoid among those before it (one plane).
QRS_DEV int fused_trapezoid(int p) { return (p * ${MT} - 16 * p * (p - 1)) * 64; }
% if RESIDENT then
QRS_DEV u8 *fused_v(int p) { return dynamic_smem() + ${O_V} + fused_trapezoid(p); }
QRS_DEV u8 *fused_t(int p) { return dynamic_smem() + ${O_T} + p * 4096; }

% else
% if CLUSTER > 1 then
QRS_DEV saddr fused_full(int stage) { return to_saddr(dynamic_smem() + ${O_FULL}) + 8 * stage; } // completes when a stage's copy is there

% end
// Starts the copy of panel p's V and T from scratch into a stage that all are done with; without_t: T is not there yet.
% if CLUSTER > 1 then
// The last warp does it, which has the fewest row tiles. fresh: plain writes made what is fetched, or what it takes the place of, since this thread's last fence.
% end
QRS_DEV void fused_fetch(const fused_matrix &matrix, int stage, int p, bool without_t${CLUSTER > 1 and ", bool fresh" or ""})
{
    const u8 *from = matrix.v + fused_trapezoid(p);
    const saddr v = to_saddr(dynamic_smem() + ${O_V}) + stage * ${STAGE}, t = to_saddr(dynamic_smem() + ${O_T}) + stage * 4096;
% if CLUSTER > 1 then
    if (threadIdx.x == ${THREADS - 32}) {
        const u32 bytes = (${MT} - 32 * p) * 64;
        if (fresh)
            fence_async();
        mbar_expect(fused_full(stage), ${PLANES} * bytes + (without_t ? 0 : 4096));
        bulk_load(v, from, bytes, fused_full(stage));
% if PRODUCTS == 3 then
        bulk_load(v + ${PLANE}, from + ${V_BYTES}, bytes, fused_full(stage));
% end
        if (!without_t)
            bulk_load(t, matrix.t + p * 4096, 4096, fused_full(stage));
    }
% else
    #pragma unroll 2
    for (int i = 16 * (int)threadIdx.x; i < (${MT} - 32 * p) * 64; i += ${16 * THREADS}) {
        cp_async16(v + i, from + i);
% if PRODUCTS == 3 then
        cp_async16(v + ${PLANE} + i, from + ${V_BYTES} + i);
% end
    }
    if (!without_t)
        for (int i = (int)threadIdx.x; i < 256; i += ${THREADS})
            cp_async16(t + 16 * i, matrix.t + p * 4096 + 16 * i);
    cp_async_commit();
% end
}
% end

% if CLUSTER > 1 then
// Places in each CTA of the cluster.
QRS_DEV saddr fused_ready(int p) { return to_saddr(dynamic_smem() + ${O_READY}) + 8 * p; }
QRS_DEV saddr fused_t_ready(int p) { return to_saddr(dynamic_smem() + ${O_READY + KP * 8}) + 8 * p; }
% if RESIDENT then
// Before a matrix: what the panels of the other CTAs will bring.
QRS_DEV void fused_expect()
{
    const int p = (int)threadIdx.x;
    if (p < ${USED} && p % ${CLUSTER} != cluster_rank()) {
        mbar_expect(fused_ready(p), (${MT} - 32 * p) * ${64 * PLANES});
        mbar_expect(fused_t_ready(p), 4096);
    }
}
% if DIRECT then
// Panel k leaves, by one thread, from planes that are there for bulk copies.
QRS_DEV void fused_send(int k)
{
    #pragma unroll
    for (int other = 1; other < ${CLUSTER}; other++) {
        const int rank = cluster_rank() ^ other;
        const saddr from = to_saddr(fused_v(k));
        const u32 to = cluster_map(from, rank), ready = cluster_map(fused_ready(k), rank);
        #pragma unroll
        for (int plane = 0; plane < ${PLANES}; plane++)
            bulk_send(to + plane * ${PLANE}, from + plane * ${PLANE}, (${MT} - 32 * k) * 64, ready);
    }
}
% end
// After it: everything has come, also what was not needed here.
QRS_DEV void fused_came(u32 parity)
{
    #pragma unroll 1
    for (int p = 0; p < ${USED}; p++)
        if (p % ${CLUSTER} != cluster_rank()) {
            mbar_wait(fused_ready(p), parity);
            mbar_wait(fused_t_ready(p), parity);
        }
}
% else
QRS_DEV float *fused_skipped(int p) { return (float *)(dynamic_smem() + ${O_READY + KP * 16}) + p; } // not 0: the panel has no reflectors

% if DIRECT then
// Panel k leaves, by one thread, from planes that are there for bulk copies.
QRS_DEV void fused_send(const fused_matrix &matrix, int k, const u8 *planes)
{
    u8 *to = matrix.v + fused_trapezoid(k);
    #pragma unroll
    for (int plane = 0; plane < ${PLANES}; plane++)
        bulk_store(to + plane * ${V_BYTES}, to_saddr(planes) + plane * ${PLANE}, (${MT} - 32 * k) * 64);
    bulk_commit();
}
// It says so when all has left; skipped: that there is nothing.
QRS_DEV void fused_sent(int k, bool skipped)
{
    bulk_wait<0>();
    #pragma unroll
    for (int rank = 0; rank < ${CLUSTER}; rank++) {
        sts_remote(cluster_map(to_saddr(fused_skipped(k)), rank), skipped ? 1.0f : 0.0f);
        mbar_arrive_remote(cluster_map(fused_ready(k), rank));
    }
}
% end
// What the team wrote is there for all that wait for bar.
QRS_DEV void fused_announce(fused_team team, saddr bar)
{
    fused_sync(team);
    if (team.thread < ${CLUSTER})
        mbar_arrive_remote(cluster_map(bar, team.thread));
}
// After a matrix: every panel was announced, also those that were not needed here.
QRS_DEV void fused_came(u32 parity)
{
    #pragma unroll 1
    for (int p = 0; p < ${USED}; p++) {
        mbar_wait_cluster(fused_ready(p), parity);
        mbar_wait_cluster(fused_t_ready(p), parity);
    }
}
% end
% else
// The first panel from p on that was not skipped, `end` when there is none.
QRS_DEV int fused_next(u32 zero, int p, int end)
{
    while (p < end && (zero >> p & 1))
        p++;
    return p;
}
% end

% if CLUSTER > 1 and not RESIDENT then
// Waits for panel p, with_t: for its T too. Returns whether it has reflectors.
QRS_DEV bool fused_arrived(const fused_matrix &matrix, int p, bool with_t)
{
    if (p >= matrix.known) {
        mbar_wait_cluster(fused_ready(p), matrix.parity);
        if (with_t)
            mbar_wait_cluster(fused_t_ready(p), matrix.parity);
    }
    return *fused_skipped(p) == 0.0f;
}
// Starts the fetch of the first panel for block k if that is there for sure, as those up to the one this CTA made last are. Returns whether it did.
QRS_DEV bool fused_fetch_first(const fused_matrix &matrix, int k)
{
    const bool comes = k >= ${CLUSTER} && fused_arrived(matrix, 0, true);
    if (comes)
        fused_fetch(matrix, 0, 0, false, true);
    return comes;
}
% end

// Applies panels 0 .. k-1 to block k${CLUSTER > 1 and not RESIDENT and "; first: what fused_fetch_first said" or ""}. sums: W x 4 KB + 4,608 + 2,048 bytes a plane, for partial sums; every thread is done with them on return.
QRS_DEV void fused_update(fused_tile &c, int k, float *sums, fused_matrix &matrix${CLUSTER > 1 and not RESIDENT and ", bool first" or ""})
{
    const int done = k < ${KP} ? k : ${KP};
    float *ws = sums + ${O_WS // 4};
    u8 *wp = (u8 *)sums + ${O_WP};
% if RESIDENT and CLUSTER > 1 then
    #pragma unroll 1
    for (int p = 0; p < done; p++) {
        const bool own = p % ${CLUSTER} == cluster_rank();
        if (own && (matrix.zero >> p & 1))
            continue;
        fused_apply(c, p, to_saddr(fused_v(p)), sums, ws, wp, fused_t(p), own ? 0 : fused_ready(p), own ? 0 : fused_t_ready(p), matrix.parity);
    }
    block_sync();
% elseif RESIDENT then
    #pragma unroll 1
    for (int p = fused_next(matrix.zero, 0, done); p < done; p = fused_next(matrix.zero, p + 1, done))
        fused_apply(c, p, to_saddr(fused_v(p)), sums, ws, wp, fused_t(p));
    block_sync();
% else
    const saddr v = to_saddr(dynamic_smem() + ${O_V});
    const u8 *t = dynamic_smem() + ${O_T};
% if CLUSTER > 1 then
    // Panels up to this CTA's last block come a stage ahead, T with V; the others are late, and T of one later than its V. A stage's first copy takes the
    // place of sums or of the recursion's state (fresh: bit s for a stage without a copy yet), and what was not known is news.
    #pragma unroll 1
    for (int p = 0, stage = 0, here = first ? 0 : -1, fresh = first ? 2 : 3; p < done; p++) {
        const bool late = p > k - ${CLUSTER};
        if (!fused_arrived(matrix, p, !late))
            continue;
        if (here != p)
            fused_fetch(matrix, stage, p, late, fresh >> stage & 1 || p >= matrix.known);
        fresh &= 2 - stage;
% if STAGES == 2 then
        if (p + 1 < done && p + 1 <= k - ${CLUSTER} && fused_arrived(matrix, p + 1, true)) {
            here = p + 1;
            fused_fetch(matrix, stage ^ 1, here, false, fresh >> (stage ^ 1) & 1 || here >= matrix.known);
            fresh = 0;
        }
% end
        mbar_wait(fused_full(stage), matrix.full >> stage & 1);
        matrix.full ^= 1u << stage;
        fused_apply(c, p, v + stage * ${STAGE}, sums, ws, wp, t + stage * 4096, fused_t_ready(p), matrix.parity, late ? matrix.t + p * 4096 : nullptr);
        block_sync();
        stage ^= ${STAGES - 1};
    }
    matrix.known = done;
% elseif STAGES == 2 then
    // Stages take turns; the next panel's V and T are on their way while this one is applied.
    #pragma unroll 1
    for (int p = -1, next = fused_next(matrix.zero, 0, done), stage = 0;; stage ^= 1) {
        if (next < done)
            fused_fetch(matrix, stage, next, false);
        if (p >= 0)
            fused_apply(c, p, v + (stage ^ 1) * ${STAGE}, sums, ws, wp, t + (stage ^ 1) * 4096);
        cp_async_wait<0>();
        block_sync();
        if (next >= done)
            break;
        p = next;
        next = fused_next(matrix.zero, p + 1, done);
    }
% else
    #pragma unroll 1
    for (int p = fused_next(matrix.zero, 0, done); p < done; p = fused_next(matrix.zero, p + 1, done)) {
        fused_fetch(matrix, 0, p, false);
        cp_async_wait<0>();
        block_sync();
        fused_apply(c, p, v, sums, ws, wp, t);
        block_sync();
    }
% end
% end
}
