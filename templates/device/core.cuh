// Types, kernel declarations, shared addresses and plain memory access. Every other device header starts
// here. The CUDA version needs no CUDA header; the host version runs one fibre a CUDA thread (see
// device/host_abi.h).
#pragma once

#ifdef QRS_HOST
#include "device/host_abi.h"
#include <math.h>
#include <string.h>
#endif

namespace qrs {

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using i32 = int;
using i64 = long long;
using saddr = u32; // byte address in shared memory

struct alignas(8) f32x2 {
    float x, y;
};
struct alignas(16) f32x4 {
    float x, y, z, w;
};
struct alignas(8) u32x2 {
    u32 x, y;
};
struct alignas(16) u32x4 {
    u32 x, y, z, w;
};
// Passed by value to kernels that use TMA; filled by the runtime.
struct alignas(64) tensor_map {
    u64 opaque[16];
};

} // namespace qrs

#ifdef QRS_HOST

#define QRS_DEV  inline __attribute__((unused))
#define QRS_CALL static __attribute__((unused))
#define QRS_GRID_CONSTANT
#define QRS_KERNEL(name, threads, min_blocks)                                                                \
    enum { qrs_threads_of_##name = (threads) };                                                              \
    static void qrs_body_of_##name
#define QRS_ENTRY(name)                                                                                      \
    extern "C" __attribute__((visibility("default"))) const qhx_kernel qrs_kernel_##name = {                 \
        QHX_ABI, qrs_threads_of_##name, ::qrs::host::entry<qrs_body_of_##name>::letters(),                   \
        ::qrs::host::entry<qrs_body_of_##name>::run, ::qrs::host::slot};
// Hidden last parameters of every collective: reports name the template's own file and line.
#define QRS_AT      const char *at_file = __builtin_FILE(), int at_line = __builtin_LINE()
#define QRS_AT_PASS at_file, at_line
#define threadIdx   (::qrs::host::self()->thread)
#define blockIdx    (::qrs::host::self()->block)
#define blockDim    (::qrs::host::self()->block_size)
#define gridDim     (::qrs::host::self()->grid)

namespace qrs {
namespace host {

static thread_local qhx_thread *running;
static qhx_thread **slot() {
    return &running;
}
inline qhx_thread *self() {
    return running;
}

template <class T> struct letter { static const char value; };
template <class T> struct letter<T *> { static constexpr char value = 'p'; };
template <> struct letter<i32> { static constexpr char value = 'i'; };
template <> struct letter<i64> { static constexpr char value = 'l'; };
template <> struct letter<long> { static constexpr char value = 'l'; };
template <> struct letter<float> { static constexpr char value = 'f'; };
template <> struct letter<tensor_map> { static constexpr char value = 'm'; };
template <class T> struct plain { using type = T; };
template <class T> struct plain<const T> { using type = T; };
template <int... I> struct list {};
template <int N, int... I> struct count : count<N - 1, N - 1, I...> {};
template <int... I> struct count<0, I...> { using type = list<I...>; };

template <auto F> struct entry;
template <class... A, void (*F)(A...)> struct entry<F> {
    template <int... I> static void call(void **args, list<I...>) {
        (void)args;
        F(*static_cast<typename plain<A>::type *>(args[I])...);
    }
    static void run(void **args) { call(args, typename count<sizeof...(A)>::type()); }
    static const char *letters() {
        static const char text[] = {letter<typename plain<A>::type>::value..., 0};
        return text;
    }
};

} // namespace host
} // namespace qrs

#else // CUDA

#define QRS_DEV           __device__ __forceinline__
// A function that stays one: the compiler schedules it by itself, without the register pressure around its call. Nothing large may
// live across the call.
#define QRS_CALL          __device__ __noinline__
#define QRS_GRID_CONSTANT __grid_constant__
#define QRS_KERNEL(name, threads, min_blocks)                                                                \
    extern "C" __global__ void __launch_bounds__(threads, min_blocks) name
#define QRS_ENTRY(name)
#define QRS_ARCH_90 (!defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900)

#endif

namespace qrs {

#ifdef QRS_HOST

QRS_DEV u8 *dynamic_smem() {
    return host::self()->smem;
}
QRS_DEV saddr to_saddr(const void *p, QRS_AT) {
    return host::self()->services->shared_address(host::self(), p, QRS_AT_PASS);
}
template <class T> QRS_DEV T *host_shared(saddr a, const char *what, const char *file, int line) {
    qhx_thread *t = host::self();
    u32 off = a - QHX_SHARED_BASE;
    if (__builtin_expect(off <= t->smem_size && t->smem_size - off >= sizeof(T) && off % sizeof(T) == 0, 1))
        return reinterpret_cast<T *>(t->smem + off);
    return static_cast<T *>(t->services->shared(t, a, sizeof(T), what, file, line));
}
template <class T> QRS_DEV T lds(saddr a, QRS_AT) {
    T v;
    memcpy(&v, host_shared<T>(a, "lds", QRS_AT_PASS), sizeof v);
    return v;
}
template <class T> QRS_DEV void sts(saddr a, T v, QRS_AT) {
    memcpy(host_shared<T>(a, "sts", QRS_AT_PASS), &v, sizeof v);
}
QRS_DEV void sts_if(bool there, saddr a, f32x4 v, QRS_AT) {
    if (there) sts(a, v, QRS_AT_PASS);
}
QRS_DEV u32 lane() {
    return threadIdx.x & 31;
}
QRS_DEV u32 warp() {
    return threadIdx.x >> 5;
}
QRS_DEV u32 clock32() {
    return host::self()->services->clock(host::self());
}
QRS_DEV void spin(u32) {}
QRS_DEV void nanosleep(u32, QRS_AT) {
    host::self()->services->poll(host::self(), QRS_AT_PASS);
}
QRS_DEV void trap(QRS_AT) {
    host::self()->services->fail(host::self(), "trap()", QRS_AT_PASS);
}
QRS_DEV u32 as_u32(float x) {
    u32 r;
    memcpy(&r, &x, sizeof r);
    return r;
}
QRS_DEV float as_f32(u32 x) {
    float r;
    memcpy(&r, &x, sizeof r);
    return r;
}
template <class T> QRS_DEV T load_cg(const T *p) {
    return *p;
}
template <class T> QRS_DEV T load_stream(const T *p) {
    return *p;
}
template <class T> QRS_DEV void store_stream(T *p, T v) {
    *p = v;
}
QRS_DEV void prefetch_l2(const void *) {}

#else // CUDA

QRS_DEV u8 *dynamic_smem() {
    extern __shared__ __align__(1024) u8 qrs_dynamic_smem[];
    return qrs_dynamic_smem;
}
QRS_DEV saddr to_saddr(const void *p) {
    u64 r;
    asm("cvta.to.shared.u64 %0, %1;" : "=l"(r) : "l"(p));
    return static_cast<saddr>(r);
}

// Moves of 2, 4, 8 and 16 bytes in one memory instruction each, with the state space and cache operator in
// OP.
template <int BYTES> struct words;
#define QRS_LOAD(NAME, SPACE, ADDRESS, CONSTRAINT)                                                           \
    QRS_DEV static void NAME(ADDRESS p, u16(&r)[1]) {                                                        \
        asm volatile("ld." SPACE ".b16 %0, [%1];" : "=h"(r[0]) : CONSTRAINT(p) : "memory");                  \
    }                                                                                                        \
    QRS_DEV static void NAME(ADDRESS p, u32(&r)[1]) {                                                        \
        asm volatile("ld." SPACE ".b32 %0, [%1];" : "=r"(r[0]) : CONSTRAINT(p) : "memory");                  \
    }                                                                                                        \
    QRS_DEV static void NAME(ADDRESS p, u32(&r)[2]) {                                                        \
        asm volatile("ld." SPACE ".v2.b32 {%0, %1}, [%2];"                                                   \
                     : "=r"(r[0]), "=r"(r[1])                                                                \
                     : CONSTRAINT(p)                                                                         \
                     : "memory");                                                                            \
    }                                                                                                        \
    QRS_DEV static void NAME(ADDRESS p, u32(&r)[4]) {                                                        \
        asm volatile("ld." SPACE ".v4.b32 {%0, %1, %2, %3}, [%4];"                                           \
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])                                        \
                     : CONSTRAINT(p)                                                                         \
                     : "memory");                                                                            \
    }
#define QRS_STORE(NAME, SPACE, ADDRESS, CONSTRAINT)                                                          \
    QRS_DEV static void NAME(ADDRESS p, const u16(&r)[1]) {                                                  \
        asm volatile("st." SPACE ".b16 [%0], %1;" ::CONSTRAINT(p), "h"(r[0]) : "memory");                    \
    }                                                                                                        \
    QRS_DEV static void NAME(ADDRESS p, const u32(&r)[1]) {                                                  \
        asm volatile("st." SPACE ".b32 [%0], %1;" ::CONSTRAINT(p), "r"(r[0]) : "memory");                    \
    }                                                                                                        \
    QRS_DEV static void NAME(ADDRESS p, const u32(&r)[2]) {                                                  \
        asm volatile("st." SPACE ".v2.b32 [%0], {%1, %2};" ::CONSTRAINT(p), "r"(r[0]), "r"(r[1])             \
                     : "memory");                                                                            \
    }                                                                                                        \
    QRS_DEV static void NAME(ADDRESS p, const u32(&r)[4]) {                                                  \
        asm volatile("st." SPACE ".v4.b32 [%0], {%1, %2, %3, %4};" ::CONSTRAINT(p), "r"(r[0]), "r"(r[1]),    \
                     "r"(r[2]), "r"(r[3])                                                                    \
                     : "memory");                                                                            \
    }
struct move {
    QRS_LOAD(load_shared, "shared", saddr, "r")
    QRS_LOAD(load_cluster, "shared::cluster", u32, "r")
    QRS_LOAD(load_cg, "global.cg", const void *, "l")
    QRS_LOAD(load_cs, "global.cs", const void *, "l")
    QRS_STORE(store_shared, "shared", saddr, "r")
    QRS_STORE(store_cluster, "shared::cluster", u32, "r")
    QRS_STORE(store_cs, "global.cs", void *, "l")
};
template <> struct words<2> {
    using type = u16;
    enum { count = 1 };
};
template <> struct words<4> {
    using type = u32;
    enum { count = 1 };
};
template <> struct words<8> {
    using type = u32;
    enum { count = 2 };
};
template <> struct words<16> {
    using type = u32;
    enum { count = 4 };
};
template <class T> union as_words {
    T value;
    typename words<sizeof(T)>::type word[words<sizeof(T)>::count];
    QRS_DEV as_words() {}
    QRS_DEV as_words(T v) : value(v) {}
};

template <class T> QRS_DEV T lds(saddr a) {
    as_words<T> r;
    move::load_shared(a, r.word);
    return r.value;
}
template <class T> QRS_DEV void sts(saddr a, T v) {
    as_words<T> r(v);
    move::store_shared(a, r.word);
}
// A store of some lanes that is no branch: what is around it can be scheduled across.
QRS_DEV void sts_if(bool there, saddr a, f32x4 v) {
    asm volatile("{.reg .pred p;\n setp.ne.b32 p, %0, 0;\n @p st.shared.v4.f32 [%1], {%2, %3, %4, %5};}" ::"r"(static_cast<u32>(there)), "r"(a), "f"(v.x),
                 "f"(v.y), "f"(v.z), "f"(v.w)
                 : "memory");
}
QRS_DEV u32 lane() {
    u32 r;
    asm("mov.u32 %0, %%laneid;" : "=r"(r));
    return r;
}
QRS_DEV u32 warp() {
    return threadIdx.x >> 5;
}
QRS_DEV u32 clock32() {
    u32 r;
    asm volatile("mov.u32 %0, %%clock;" : "=r"(r)::"memory");
    return r;
}
// Stays here for about so many cycles, at most a few hundred thousand.
QRS_DEV void spin(u32 cycles) {
    const u32 begun = clock32();
    while (clock32() - begun < cycles) {
    }
}
QRS_DEV void nanosleep(u32 ns) {
    asm volatile("nanosleep.u32 %0;" ::"r"(ns));
}
QRS_DEV void trap() {
    asm volatile("trap;");
}
QRS_DEV u32 as_u32(float x) {
    u32 r;
    asm("mov.b32 %0, %1;" : "=r"(r) : "f"(x));
    return r;
}
QRS_DEV float as_f32(u32 x) {
    float r;
    asm("mov.b32 %0, %1;" : "=f"(r) : "r"(x));
    return r;
}
// L2 only: sees what other SMs have published.
template <class T> QRS_DEV T load_cg(const T *p) {
    as_words<T> r;
    move::load_cg(p, r.word);
    return r.value;
}
// Evict first: data that is touched once.
template <class T> QRS_DEV T load_stream(const T *p) {
    as_words<T> r;
    move::load_cs(p, r.word);
    return r.value;
}
template <class T> QRS_DEV void store_stream(T *p, T v) {
    as_words<T> r(v);
    move::store_cs(p, r.word);
}
QRS_DEV void prefetch_l2(const void *p) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(p));
}

#endif

} // namespace qrs
