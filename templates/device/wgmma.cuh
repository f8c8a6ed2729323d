// Warpgroup products (sm_90a): D (64 x N, fp32 registers) += A (64 x 16, fp16, registers or shared memory) B
// (16 x N, fp16 in shared memory). All 128 threads of an aligned warpgroup call together. Asynchronous:
// wgmma_fence() after the last plain touch of d or a, products, wgmma_commit(), and only after wgmma_wait()
// may d be read, a be changed or B be overwritten. After a wait the next product needs a fence again (the
// host insists).
//
// Fragments, with w = warp in the warpgroup, g = lane / 4, q = lane % 4:
//   d[4i + 0..1] (16w + g, 8i + 2q..2q+1)   d[4i + 2..3] (16w + g + 8, 8i + 2q..)    a0..a3 as mma_f16's A in
//   rows 16w..16w+15
// B by descriptor (bytes; start, lbo and sbo multiples of 16; swizzle 0, 32, 64 or 128, tiles aligned to 8
// swizzled rows):
//   TRANS_B = false, K-major: element (k, n) lies in row n of length `swizzle` bytes, its k at byte 2k. Rows
//   8j.. start at j * sbo.
//              Without swizzle rows are 16 bytes (8 rows = 128 bytes), k >= 8 starts lbo further.
//   TRANS_B = true, N-major: row k holds `swizzle` bytes of n; 8 rows k are one atom, the next 8 start sbo
//   further, and the
//              next `swizzle` / 2 columns n start lbo further. Without swizzle atoms are 8 x 8, the next 8 n
//              start sbo further and the next 8 k lbo further.
// A by descriptor is laid out as B is, with its rows for B's columns: TRANS_A = false is K-major. Nothing of
// it is in registers, so that other tiles may be prepared while the product runs.
//   Swizzle: byte address bits 4.. are xored with bits 7..: 1, 2, 3 bits for 32, 64, 128.
#pragma once
#include "device/core.cuh"

namespace qrs {

QRS_DEV u64 smem_desc(saddr start, int swizzle, u32 lbo, u32 sbo) {
    const u64 mode = swizzle == 128 ? 1 : swizzle == 64 ? 2 : swizzle == 32 ? 3 : 0;
    return static_cast<u64>((start & 0x3ffffu) >> 4) | static_cast<u64>((lbo & 0x3ffffu) >> 4) << 16 |
           static_cast<u64>((sbo & 0x3ffffu) >> 4) << 32 | mode << 62;
}

#ifdef QRS_HOST

QRS_DEV void wgmma_fence(QRS_AT) {
    host::self()->services->wgmma_order(host::self(), QHX_WARP_WGMMA_FENCE, 0, QRS_AT_PASS);
}
QRS_DEV void wgmma_commit(QRS_AT) {
    host::self()->services->wgmma_order(host::self(), QHX_WARP_WGMMA_COMMIT, 0, QRS_AT_PASS);
}
template <int KEEP> QRS_DEV void wgmma_wait(QRS_AT) {
    host::self()->services->wgmma_order(host::self(), QHX_WARP_WGMMA_WAIT, KEEP, QRS_AT_PASS);
}
template <int KEEP, int R> QRS_DEV void wgmma_wait(float (&)[R], QRS_AT) {
    wgmma_wait<KEEP>(QRS_AT_PASS);
}
template <int R> QRS_DEV void wgmma_hold(float (&)[R]) {}
template <int R> QRS_DEV void wgmma_drop(float (&d)[R]) {
    for (int i = 0; i < R; i++)
        d[i] = 0.0f;
}
template <int N, bool TRANS_B>
QRS_DEV void wgmma_f16_rs(float (&d)[N / 2], u32 a0, u32 a1, u32 a2, u32 a3, u64 desc, bool accumulate,
                          QRS_AT) {
    const u32 a[4] = {a0, a1, a2, a3};
    host::self()->services->wgmma(host::self(), d, N, a, desc, accumulate, TRANS_B, QRS_AT_PASS);
}

template <int N, bool TRANS_A, bool TRANS_B>
QRS_DEV void wgmma_f16_ss(float (&d)[N / 2], u64 desc_a, u64 desc, bool accumulate, QRS_AT) {
    host::self()->services->wgmma_shared(host::self(), d, N, desc_a, desc, accumulate, TRANS_A, TRANS_B,
                                         QRS_AT_PASS);
}

#elif QRS_ARCH_90

QRS_DEV void wgmma_fence() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
QRS_DEV void wgmma_commit() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// All but the newest KEEP groups are complete.
template <int KEEP> QRS_DEV void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(KEEP) : "memory");
}
// Keeps the compiler from moving uses of d across this point: it does not know that registers change
// asynchronously.
template <int R> QRS_DEV void wgmma_hold(float (&d)[R]) {
#pragma unroll
    for (int i = 0; i < R; i++)
        asm volatile("" : "+f"(d[i])::"memory");
}
// What d held is not wanted, and need not live until here. (An undefined register would live from the
// kernel's start.)
template <int R> QRS_DEV void wgmma_drop(float (&d)[R]) {
#pragma unroll
    for (int i = 0; i < R; i++)
        asm volatile("mov.f32 %0, 0f00000000;" : "=f"(d[i]));
}
template <int KEEP, int R> QRS_DEV void wgmma_wait(float (&d)[R]) {
    wgmma_wait<KEEP>();
    wgmma_hold(d);
}

// clang-format off
#define QRS_TEN(t) "%" t "0, %" t "1, %" t "2, %" t "3, %" t "4, %" t "5, %" t "6, %" t "7, %" t "8, %" t "9, "
#define QRS_REGS_4 "%0, %1, %2, %3"
#define QRS_REGS_8 QRS_REGS_4 ", %4, %5, %6, %7"
#define QRS_REGS_16 QRS_TEN("") "%10, %11, %12, %13, %14, %15"
#define QRS_REGS_32 QRS_TEN("") QRS_TEN("1") QRS_TEN("2") "%30, %31"
#define QRS_REGS_48 QRS_TEN("") QRS_TEN("1") QRS_TEN("2") QRS_TEN("3") "%40, %41, %42, %43, %44, %45, %46, %47"
#define QRS_REGS_64 QRS_TEN("") QRS_TEN("1") QRS_TEN("2") QRS_TEN("3") QRS_TEN("4") QRS_TEN("5") "%60, %61, %62, %63"
#define QRS_REGS_128 QRS_TEN("") QRS_TEN("1") QRS_TEN("2") QRS_TEN("3") QRS_TEN("4") QRS_TEN("5") QRS_TEN("6") \
    QRS_TEN("7") QRS_TEN("8") QRS_TEN("9") QRS_TEN("10") QRS_TEN("11") "%120, %121, %122, %123, %124, %125, %126, %127"
#define QRS_D4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define QRS_D8(i) QRS_D4(i), QRS_D4(i + 4)
#define QRS_D16(i) QRS_D8(i), QRS_D8(i + 8)
#define QRS_D32(i) QRS_D16(i), QRS_D16(i + 16)
#define QRS_D48(i) QRS_D32(i), QRS_D16(i + 32)
#define QRS_D64(i) QRS_D32(i), QRS_D32(i + 32)
#define QRS_D128(i) QRS_D64(i), QRS_D64(i + 64)
// R accumulators; A0..A3, DE, AC, TR: the operand numbers that follow them
#define QRS_WGMMA(N, R, A0, A1, A2, A3, DE, AC, TR)                                                                    \
    asm volatile("{.reg .pred p;\n setp.ne.b32 p, %" #AC ", 0;\n wgmma.mma_async.sync.aligned.m64n" #N                 \
                 "k16.f32.f16.f16 {" QRS_REGS_##R "}, {%" #A0 ", %" #A1 ", %" #A2 ", %" #A3 "}, %" #DE                 \
                 ", p, 1, 1, %" #TR ";}"                                                                               \
                 : QRS_D##R(0)                                                                                         \
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(desc), "r"(static_cast<int>(accumulate)),                   \
                   "n"(static_cast<int>(TRANS_B)))
#define QRS_WGMMA_SS(N, R, DA, DB, AC, TA, TB)                                                                         \
    asm volatile("{.reg .pred p;\n setp.ne.b32 p, %" #AC ", 0;\n wgmma.mma_async.sync.aligned.m64n" #N                 \
                 "k16.f32.f16.f16 {" QRS_REGS_##R "}, %" #DA ", %" #DB ", p, 1, 1, %" #TA ", %" #TB ";}"               \
                 : QRS_D##R(0)                                                                                         \
                 : "l"(desc_a), "l"(desc), "r"(static_cast<int>(accumulate)), "n"(static_cast<int>(TRANS_A)),          \
                   "n"(static_cast<int>(TRANS_B)))
// clang-format on

template <int N, bool TRANS_A, bool TRANS_B>
QRS_DEV void wgmma_f16_ss(float (&d)[N / 2], u64 desc_a, u64 desc, bool accumulate) {
    static_assert(N == 32 || N == 64 || N == 128, "no such width");
    if constexpr (N == 32)
        QRS_WGMMA_SS(32, 16, 16, 17, 18, 19, 20);
    else if constexpr (N == 64)
        QRS_WGMMA_SS(64, 32, 32, 33, 34, 35, 36);
    else
        QRS_WGMMA_SS(128, 64, 64, 65, 66, 67, 68);
}

template <int N, bool TRANS_B>
QRS_DEV void wgmma_f16_rs(float (&d)[N / 2], u32 a0, u32 a1, u32 a2, u32 a3, u64 desc, bool accumulate) {
    static_assert(N == 8 || N == 16 || N == 32 || N == 64 || N == 96 || N == 128 || N == 256,
                  "no such width");
    if constexpr (N == 8)
        QRS_WGMMA(8, 4, 4, 5, 6, 7, 8, 9, 10);
    else if constexpr (N == 16)
        QRS_WGMMA(16, 8, 8, 9, 10, 11, 12, 13, 14);
    else if constexpr (N == 32)
        QRS_WGMMA(32, 16, 16, 17, 18, 19, 20, 21, 22);
    else if constexpr (N == 64)
        QRS_WGMMA(64, 32, 32, 33, 34, 35, 36, 37, 38);
    else if constexpr (N == 96)
        QRS_WGMMA(96, 48, 48, 49, 50, 51, 52, 53, 54);
    else if constexpr (N == 128)
        QRS_WGMMA(128, 64, 64, 65, 66, 67, 68, 69, 70);
    else
        QRS_WGMMA(256, 128, 128, 129, 130, 131, 132, 133, 134);
}

#endif

} // namespace qrs
