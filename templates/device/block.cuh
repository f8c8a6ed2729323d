// Barriers of a block. Barrier 0 is block_sync()'s; ids 1..15 are free. Thread counts are multiples of 32. A
// thread that has returned never arrives: the host reports it, so kernels keep all their threads to the last
// barrier.
#pragma once
#include "device/core.cuh"

namespace qrs {

#ifdef QRS_HOST

QRS_DEV void block_sync(QRS_AT) {
    qhx_thread *t = host::self();
    t->services->barrier(t, 0, static_cast<int>(t->block_size.x), 0, 0, QRS_AT_PASS);
}
QRS_DEV void bar_sync(int id, int threads, QRS_AT) {
    host::self()->services->barrier(host::self(), id, threads, 0, 0, QRS_AT_PASS);
}
QRS_DEV void bar_wait(int id, int threads, QRS_AT) {
    bar_sync(id, threads, QRS_AT_PASS);
}
QRS_DEV void bar_arrive(int id, int threads, QRS_AT) {
    host::self()->services->barrier(host::self(), id, threads, 1, 0, QRS_AT_PASS);
}
QRS_DEV bool block_any(bool p, QRS_AT) {
    qhx_thread *t = host::self();
    return t->services->barrier(t, 0, static_cast<int>(t->block_size.x), 0, p, QRS_AT_PASS) != 0;
}
QRS_DEV void threadfence_block() {}

#else // CUDA

QRS_DEV void block_sync() {
    asm volatile("bar.sync 0;" ::: "memory");
}
QRS_DEV void bar_sync(int id, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
// bar_sync() where others only arrive.
QRS_DEV void bar_wait(int id, int threads) {
    asm volatile("barrier.cta.sync.aligned %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
QRS_DEV void bar_arrive(int id, int threads) {
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
// block_sync() that also returns whether any thread said true.
QRS_DEV bool block_any(bool p) {
    u32 r;
    asm volatile(
        "{.reg .pred p, q;\n setp.ne.b32 p, %1, 0;\n bar.red.or.pred q, 0, p;\n selp.b32 %0, 1, 0, q;}"
        : "=r"(r)
        : "r"(static_cast<u32>(p))
        : "memory");
    return r != 0;
}
QRS_DEV void threadfence_block() {
    asm volatile("fence.acq_rel.cta;" ::: "memory");
}

#endif

} // namespace qrs
