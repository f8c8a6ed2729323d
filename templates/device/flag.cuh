// Flags and counters in global memory between CTAs. A kernel whose CTAs wait on one another is launched
// cooperatively, or takes its work by an atomic ticket and waits only on lower tickets.
#pragma once
#include "device/core.cuh"

namespace qrs {

#ifdef QRS_HOST

QRS_DEV i32 ld_acquire(const i32 *p, QRS_AT) {
    host::self()->services->poll(host::self(), QRS_AT_PASS); // a loop on it must let the others run
    return *p;
}
QRS_DEV void st_release(i32 *p, i32 v) {
    *p = v;
    host::self()->services->flag_set(host::self(), p);
}
QRS_DEV i32 atomic_add(i32 *p, i32 v) {
    i32 old = *p;
    *p = static_cast<i32>(static_cast<u32>(old) + static_cast<u32>(v));
    host::self()->services->flag_set(host::self(), p);
    return old;
}
QRS_DEV i32 add_release(i32 *p, i32 v) {
    return atomic_add(p, v);
}
QRS_DEV i32 atomic_or(i32 *p, i32 v) {
    i32 old = *p;
    *p = old | v;
    host::self()->services->flag_set(host::self(), p);
    return old;
}
QRS_DEV bool wait_at_least(const i32 *p, i32 value, u32 spins, QRS_AT) {
    return host::self()->services->flag_wait(host::self(), p, value, spins, QRS_AT_PASS) != 0;
}
QRS_DEV void fence_gpu() {}

#else // CUDA

QRS_DEV i32 ld_acquire(const i32 *p) {
    i32 r;
    asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(r) : "l"(p) : "memory");
    return r;
}
QRS_DEV void st_release(i32 *p, i32 v) {
    asm volatile("st.release.gpu.global.s32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
QRS_DEV i32 add_release(i32 *p, i32 v) {
    i32 r;
    asm volatile("atom.add.release.gpu.global.s32 %0, [%1], %2;" : "=r"(r) : "l"(p), "r"(v) : "memory");
    return r;
}
QRS_DEV i32 atomic_add(i32 *p, i32 v) {
    i32 r;
    asm volatile("atom.add.relaxed.gpu.global.s32 %0, [%1], %2;" : "=r"(r) : "l"(p), "r"(v) : "memory");
    return r;
}
QRS_DEV i32 atomic_or(i32 *p, i32 v) {
    i32 r;
    asm volatile("atom.or.relaxed.gpu.global.b32 %0, [%1], %2;" : "=r"(r) : "l"(p), "r"(v) : "memory");
    return r;
}
// False when the value has not come after `spins` looks: the caller then sets the info bit and gives up.
QRS_DEV bool wait_at_least(const i32 *p, i32 value, u32 spins) {
    for (u32 i = 0; i < spins; i++) {
        if (ld_acquire(p) >= value) return true;
        if (i > 64) nanosleep(64);
    }
    return false;
}
QRS_DEV void fence_gpu() {
    asm volatile("fence.acq_rel.gpu;" ::: "memory");
}

#endif

} // namespace qrs
