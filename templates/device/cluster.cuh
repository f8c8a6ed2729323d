// Thread block clusters and distributed shared memory (sm_90 and later; clusters along x).
#pragma once
#include "device/copy.cuh"

namespace qrs {

#ifdef QRS_HOST

QRS_DEV int cluster_rank() {
    return host::self()->cluster_rank;
}
QRS_DEV int cluster_size() {
    return host::self()->cluster_size;
}
QRS_DEV void cluster_arrive(QRS_AT) {
    host::self()->services->cluster(host::self(), QHX_CLUSTER_ARRIVE, QRS_AT_PASS);
}
QRS_DEV void cluster_wait(QRS_AT) {
    host::self()->services->cluster(host::self(), QHX_CLUSTER_WAIT, QRS_AT_PASS);
}
QRS_DEV void cluster_sync(QRS_AT) {
    cluster_arrive(QRS_AT_PASS);
    cluster_wait(QRS_AT_PASS);
}
QRS_DEV u32 cluster_map(saddr a, int rank, QRS_AT) {
    return host::self()->services->cluster_map(host::self(), a, rank, QRS_AT_PASS);
}
template <class T> QRS_DEV T lds_remote(u32 a, QRS_AT) {
    T v;
    memcpy(&v, host::self()->services->shared(host::self(), a, sizeof v, "lds_remote", QRS_AT_PASS),
           sizeof v);
    return v;
}
template <class T> QRS_DEV void sts_remote(u32 a, T v, QRS_AT) {
    memcpy(host::self()->services->shared(host::self(), a, sizeof v, "sts_remote", QRS_AT_PASS), &v,
           sizeof v);
}
template <class T> QRS_DEV void st_async(u32 a, T v, u32 bar, QRS_AT) {
    static_assert(sizeof v == 16, "16 bytes at a time");
    host::self()->services->st_async(host::self(), a, &v, sizeof v, bar, QRS_AT_PASS);
}
QRS_DEV void bulk_send(u32 to, saddr from, u32 bytes, u32 bar, QRS_AT) {
    const void *source = host::self()->services->shared(host::self(), from, 16, "bulk_send", QRS_AT_PASS);
    host::self()->services->shared(host::self(), from + bytes - 16, 16, "bulk_send", QRS_AT_PASS);
    host::self()->services->bulk_load(host::self(), to, source, bytes, bar, QRS_AT_PASS);
}
QRS_DEV void mbar_arrive_remote(u32 bar, QRS_AT) {
    host::self()->services->mbar(host::self(), QHX_MBAR_ARRIVE, bar, 0, QRS_AT_PASS);
}

QRS_DEV void mbar_wait_cluster(saddr bar, u32 parity, QRS_AT) {
    mbar_wait(bar, parity, QRS_AT_PASS);
}

#elif QRS_ARCH_90

QRS_DEV int cluster_rank() {
    u32 r;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
    return static_cast<int>(r);
}
QRS_DEV int cluster_size() {
    u32 r;
    asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(r));
    return static_cast<int>(r);
}
QRS_DEV void cluster_arrive() {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
QRS_DEV void cluster_wait() {
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
QRS_DEV void cluster_sync() {
    cluster_arrive();
    cluster_wait();
}
// The address, for the *_remote functions, of what `a` is in the CTA of the given rank.
QRS_DEV u32 cluster_map(saddr a, int rank) {
    u32 r;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(rank));
    return r;
}
template <class T> QRS_DEV T lds_remote(u32 a) {
    as_words<T> r;
    move::load_cluster(a, r.word);
    return r.value;
}
template <class T> QRS_DEV void sts_remote(u32 a, T v) {
    as_words<T> r(v);
    move::store_cluster(a, r.word);
}
// Writes 16 bytes (f32x4, u32x4) in another CTA and counts them on an mbarrier of that same CTA.
template <class T> QRS_DEV void st_async(u32 a, T v, u32 bar) {
    static_assert(sizeof v == 16, "16 bytes at a time");
    as_words<T> r(v);
    asm volatile(
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(a),
        "r"(r.word[0]), "r"(r.word[1]), "r"(r.word[2]), "r"(r.word[3]), "r"(bar)
        : "memory");
}
// Copies this CTA's shared memory to another's, a multiple of 16 bytes, counted on an mbarrier there. Who wrote it called fence_async_shared() before.
QRS_DEV void bulk_send(u32 to, saddr from, u32 bytes, u32 bar) {
    asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "r"(from),
                 "r"(bytes), "r"(bar)
                 : "memory");
}
QRS_DEV void mbar_arrive_remote(u32 bar) {
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(bar) : "memory");
}

// As mbar_wait(), when what it announces are plain writes (sts_remote) of another CTA.
QRS_DEV void mbar_wait_cluster(saddr bar, u32 parity) {
    u32 done;
    do {
        asm volatile(
            "{.reg .pred p;\n mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n "
            "selp.b32 %0, 1, 0, p;}"
            : "=r"(done)
            : "r"(bar), "r"(parity)
            : "memory");
    } while (!done);
}

#endif

} // namespace qrs
