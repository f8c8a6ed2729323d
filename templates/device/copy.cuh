// Asynchronous copies and the barriers that announce them. cp_async* and mbarriers exist from sm_80; bulk and
// tensor copies from sm_90 (on older targets they are not declared, so a kernel that names one fails to
// compile). On the host a copy lands as late as its wait allows in one thread order and at once in another.
#pragma once
#include "device/core.cuh"

namespace qrs {

#ifdef QRS_HOST

QRS_DEV void cp_async16(saddr dst, const void *src, QRS_AT) {
    host::self()->services->cp_async(host::self(), dst, src, 16, QRS_AT_PASS);
}
QRS_DEV void cp_async4(saddr dst, const void *src, QRS_AT) {
    host::self()->services->cp_async(host::self(), dst, src, 4, QRS_AT_PASS);
}
QRS_DEV void cp_async16_or_zero(saddr dst, const void *src, bool there, QRS_AT) {
    host::self()->services->cp_async(host::self(), dst, there ? src : nullptr, 16, QRS_AT_PASS);
}
QRS_DEV void cp_async4_or_zero(saddr dst, const void *src, bool there, QRS_AT) {
    host::self()->services->cp_async(host::self(), dst, there ? src : nullptr, 4, QRS_AT_PASS);
}
QRS_DEV void cp_async_commit(QRS_AT) {
    host::self()->services->cp_async_commit(host::self(), QRS_AT_PASS);
}
template <int KEEP> QRS_DEV void cp_async_wait(QRS_AT) {
    host::self()->services->cp_async_wait(host::self(), KEEP, QRS_AT_PASS);
}
QRS_DEV void mbar_init(saddr bar, u32 count, QRS_AT) {
    host::self()->services->mbar(host::self(), QHX_MBAR_INIT, bar, count, QRS_AT_PASS);
}
QRS_DEV void mbar_arrive(saddr bar, QRS_AT) {
    host::self()->services->mbar(host::self(), QHX_MBAR_ARRIVE, bar, 0, QRS_AT_PASS);
}
QRS_DEV void mbar_wait(saddr bar, u32 parity, QRS_AT) {
    host::self()->services->mbar(host::self(), QHX_MBAR_WAIT, bar, parity, QRS_AT_PASS);
}
QRS_DEV void mbar_expect(saddr bar, u32 bytes, QRS_AT) {
    host::self()->services->mbar(host::self(), QHX_MBAR_EXPECT, bar, bytes, QRS_AT_PASS);
}
QRS_DEV void fence_mbar_init() {}
QRS_DEV void fence_async_shared() {}
QRS_DEV void fence_async() {}
QRS_DEV void bulk_load(saddr dst, const void *src, u32 bytes, saddr bar, QRS_AT) {
    host::self()->services->bulk_load(host::self(), dst, src, bytes, bar, QRS_AT_PASS);
}
QRS_DEV void bulk_store(void *dst, saddr src, u32 bytes, QRS_AT) {
    host::self()->services->bulk_store(host::self(), dst, src, bytes, QRS_AT_PASS);
}
QRS_DEV void bulk_commit(QRS_AT) {
    host::self()->services->bulk_commit(host::self(), QRS_AT_PASS);
}
template <int KEEP> QRS_DEV void bulk_wait(QRS_AT) {
    host::self()->services->bulk_wait(host::self(), KEEP, 0, QRS_AT_PASS);
}
template <int KEEP> QRS_DEV void bulk_wait_read(QRS_AT) {
    host::self()->services->bulk_wait(host::self(), KEEP, 1, QRS_AT_PASS);
}
QRS_DEV void tma_load_2d(saddr dst, const tensor_map &map, int x, int y, saddr bar, QRS_AT) {
    const int at[2] = {x, y};
    host::self()->services->tma_load(host::self(), dst, &map, at, 2, bar, QRS_AT_PASS);
}
QRS_DEV void tma_load_3d(saddr dst, const tensor_map &map, int x, int y, int z, saddr bar, QRS_AT) {
    const int at[3] = {x, y, z};
    host::self()->services->tma_load(host::self(), dst, &map, at, 3, bar, QRS_AT_PASS);
}
QRS_DEV void tma_store_2d(const tensor_map &map, saddr src, int x, int y, QRS_AT) {
    const int at[2] = {x, y};
    host::self()->services->tma_store(host::self(), &map, src, at, 2, QRS_AT_PASS);
}
QRS_DEV void tma_store_3d(const tensor_map &map, saddr src, int x, int y, int z, QRS_AT) {
    const int at[3] = {x, y, z};
    host::self()->services->tma_store(host::self(), &map, src, at, 3, QRS_AT_PASS);
}

#else // CUDA

QRS_DEV void cp_async16(saddr dst, const void *src) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(dst), "l"(src) : "memory");
}
QRS_DEV void cp_async4(saddr dst, const void *src) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(dst), "l"(src) : "memory");
}
// Zeros in place of what is not there; src is not touched then.
QRS_DEV void cp_async16_or_zero(saddr dst, const void *src, bool there) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(dst), "l"(src), "r"(there ? 16 : 0) : "memory");
}
QRS_DEV void cp_async4_or_zero(saddr dst, const void *src, bool there) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(dst), "l"(src), "r"(there ? 4 : 0) : "memory");
}
QRS_DEV void cp_async_commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}
// All but the newest KEEP groups of this thread have landed; other threads see them after a barrier.
template <int KEEP> QRS_DEV void cp_async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(KEEP) : "memory");
}

QRS_DEV void mbar_init(saddr bar, u32 count) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(bar), "r"(count) : "memory");
}
QRS_DEV void mbar_arrive(saddr bar) {
    asm volatile("{.reg .b64 t;\n mbarrier.arrive.shared.b64 t, [%0];}" ::"r"(bar) : "memory");
}
// Waits until the phase of the given parity (0 for the first) has completed.
QRS_DEV void mbar_wait(saddr bar, u32 parity) {
#if QRS_ARCH_90
#define QRS_MBAR_TEST "mbarrier.try_wait.parity.shared::cta.b64"
#else
#define QRS_MBAR_TEST "mbarrier.test_wait.parity.shared.b64"
#endif
    u32 done;
    do {
        asm volatile("{.reg .pred p;\n " QRS_MBAR_TEST " p, [%1], %2;\n selp.b32 %0, 1, 0, p;}"
                     : "=r"(done)
                     : "r"(bar), "r"(parity)
                     : "memory");
    } while (!done);
}

#if QRS_ARCH_90
// Arrives once and makes the current phase wait for `bytes` more of copied data.
QRS_DEV void mbar_expect(saddr bar, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}
// After mbar_init, before anyone but the initialising thread (or another proxy) uses the barrier.
QRS_DEV void fence_mbar_init() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
// Plain writes to shared memory before it are seen by bulk copies and wgmma after it.
QRS_DEV void fence_async_shared() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
// The same for plain writes anywhere, those of others too that this thread knows of.
QRS_DEV void fence_async() {
    asm volatile("fence.proxy.async;" ::: "memory");
}

// One thread starts the copy. Addresses and sizes are multiples of 16 bytes.
QRS_DEV void bulk_load(saddr dst, const void *src, u32 bytes, saddr bar) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(dst),
        "l"(src), "r"(bytes), "r"(bar)
        : "memory");
}
QRS_DEV void bulk_store(void *dst, saddr src, u32 bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(dst), "r"(src),
                 "r"(bytes)
                 : "memory");
}
QRS_DEV void bulk_commit() {
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
// All but the newest KEEP store groups of this thread are complete.
template <int KEEP> QRS_DEV void bulk_wait() {
    asm volatile("cp.async.bulk.wait_group %0;" ::"n"(KEEP) : "memory");
}
// ... have read their shared memory, which may be written again.
template <int KEEP> QRS_DEV void bulk_wait_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(KEEP) : "memory");
}
QRS_DEV void tma_load_2d(saddr dst, const tensor_map &map, int x, int y, saddr bar) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], "
        "[%4];" ::"r"(dst),
        "l"(&map), "r"(x), "r"(y), "r"(bar)
        : "memory");
}
QRS_DEV void tma_load_3d(saddr dst, const tensor_map &map, int x, int y, int z, saddr bar) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, "
                 "{%2, %3, %4}], "
                 "[%5];" ::"r"(dst),
                 "l"(&map), "r"(x), "r"(y), "r"(z), "r"(bar)
                 : "memory");
}
QRS_DEV void tma_store_2d(const tensor_map &map, saddr src, int x, int y) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&map),
                 "r"(x), "r"(y), "r"(src)
                 : "memory");
}
QRS_DEV void tma_store_3d(const tensor_map &map, saddr src, int x, int y, int z) {
    asm volatile(
        "cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%1, %2, %3}], [%4];" ::"l"(&map), "r"(x),
        "r"(y), "r"(z), "r"(src)
        : "memory");
}
#endif

#endif

} // namespace qrs
