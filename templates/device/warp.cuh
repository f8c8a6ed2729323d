// Collectives of a full warp: all 32 lanes call the same one together.
// (warp_ballot, warp_any, warp_all: plain any, all, ballot are taken, NVRTC declares them in the global
// namespace.)
#pragma once
#include "device/core.cuh"

namespace qrs {

#ifdef QRS_HOST

QRS_DEV u64 host_warp(int op, u64 value, int arg, const char *file, int line) {
    return host::self()->services->warp(host::self(), op, value, arg, file, line);
}
template <class T> QRS_DEV T host_exchange(int op, T v, int arg, const char *file, int line) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "a shuffle moves 4 or 8 bytes");
    u64 bits = 0;
    memcpy(&bits, &v, sizeof v);
    bits = host_warp(op, bits, arg, file, line);
    memcpy(&v, &bits, sizeof v);
    return v;
}
template <class T> QRS_DEV T shfl(T v, int src, QRS_AT) {
    return host_exchange(QHX_WARP_SHFL, v, src, QRS_AT_PASS);
}
template <class T> QRS_DEV T shfl_xor(T v, int mask, QRS_AT) {
    return host_exchange(QHX_WARP_SHFL_XOR, v, mask, QRS_AT_PASS);
}
template <class T> QRS_DEV T shfl_down(T v, int delta, QRS_AT) {
    return host_exchange(QHX_WARP_SHFL_DOWN, v, delta, QRS_AT_PASS);
}
QRS_DEV u32 warp_ballot(bool p, QRS_AT) {
    return static_cast<u32>(host_warp(QHX_WARP_BALLOT, p, 0, QRS_AT_PASS));
}
QRS_DEV bool warp_any(bool p, QRS_AT) {
    return host_warp(QHX_WARP_BALLOT, p, 0, QRS_AT_PASS) != 0;
}
QRS_DEV bool warp_all(bool p, QRS_AT) {
    return host_warp(QHX_WARP_BALLOT, p, 0, QRS_AT_PASS) == 0xffffffffu;
}
QRS_DEV void warp_sync(QRS_AT) {
    host_warp(QHX_WARP_SYNC, 0, 0, QRS_AT_PASS);
}
QRS_DEV float warp_sum(float v, QRS_AT) {
    return host_exchange(QHX_WARP_SUM, v, 0, QRS_AT_PASS);
}
QRS_DEV float warp_max(float v, QRS_AT) {
    return host_exchange(QHX_WARP_MAX, v, 0, QRS_AT_PASS);
}
QRS_DEV u32 redux_or(u32 v, QRS_AT) {
    return host_exchange(QHX_WARP_OR, v, 0, QRS_AT_PASS);
}

#else // CUDA

#define QRS_SHUFFLE(NAME, MODE)                                                                              \
    QRS_DEV u32 NAME##_word(u32 v, int arg) {                                                                \
        u32 r;                                                                                               \
        asm volatile("shfl.sync." MODE ".b32 %0, %1, %2, 31, 0xffffffff;" : "=r"(r) : "r"(v), "r"(arg));     \
        return r;                                                                                            \
    }                                                                                                        \
    template <class T> QRS_DEV T NAME(T v, int arg) {                                                        \
        static_assert(sizeof(T) == 4 || sizeof(T) == 8, "a shuffle moves 4 or 8 bytes");                     \
        as_words<T> a(v), r;                                                                                 \
        r.word[0] = NAME##_word(a.word[0], arg);                                                             \
        if (sizeof(T) == 8) r.word[sizeof(T) / 8] = NAME##_word(a.word[sizeof(T) / 8], arg);                 \
        return r.value;                                                                                      \
    }
QRS_SHUFFLE(shfl, "idx")
QRS_SHUFFLE(shfl_xor, "bfly")
QRS_SHUFFLE(shfl_down, "down")
#undef QRS_SHUFFLE

QRS_DEV u32 warp_ballot(bool p) {
    u32 r;
    asm volatile("{.reg .pred p;\n setp.ne.b32 p, %1, 0;\n vote.sync.ballot.b32 %0, p, 0xffffffff;}"
                 : "=r"(r)
                 : "r"(static_cast<u32>(p)));
    return r;
}
QRS_DEV bool warp_any(bool p) {
    return warp_ballot(p) != 0;
}
QRS_DEV bool warp_all(bool p) {
    return warp_ballot(p) == 0xffffffffu;
}
QRS_DEV void warp_sync() {
    asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
}
// Butterflies 16, 8, 4, 2, 1: every lane gets the same bits, and the host adds in the same order.
QRS_DEV float warp_sum(float v) {
#pragma unroll
    for (int mask = 16; mask > 0; mask >>= 1)
        v += shfl_xor(v, mask);
    return v;
}
QRS_DEV float warp_max(float v) {
#pragma unroll
    for (int mask = 16; mask > 0; mask >>= 1)
        v = fmaxf(v, shfl_xor(v, mask));
    return v;
}
QRS_DEV u32 redux_or(u32 v) {
    u32 r;
    asm volatile("redux.sync.or.b32 %0, %1, 0xffffffff;" : "=r"(r) : "r"(v));
    return r;
}

#endif

} // namespace qrs
