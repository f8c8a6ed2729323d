// Tensor core products of one warp, and the loads that feed them. All 32 lanes call together.
//
// Fragments, with g = lane / 4 and q = lane % 4 (row, column):
//   mma_f16  m16n8k16  A: a[0] (g, 2q..2q+1)  a[1] (g+8, 2q..)  a[2] (g, 2q+8..)  a[3] (g+8, 2q+8..)   fp16
//   pairs, low half first
//                      B: b0 (2q..2q+1, g)  b1 (2q+8.., g)      D: d[0..1] (g, 2q..2q+1)  d[2..3] (g+8,
//                      2q..2q+1)
//   mma_tf32 m16n8k8   A: a[0] (g, q)  a[1] (g+8, q)  a[2] (g, q+4)  a[3] (g+8, q+4)    B: b0 (q, g)  b1
//   (q+4, g)    D: as above
// Operands of mma_tf32 are rounded by tf32_bits() first: the unit drops the low 13 bits.
// ldmatrix: lanes 8i..8i+7 give the addresses of the eight 16-byte rows of matrix i; r[i] holds (g, 2q..2q+1)
// of it, or of its transpose. The host forms each sum exactly in float64 and rounds once; a GPU's own order
// of additions differs in the last bits.
#pragma once
#include "device/core.cuh"

namespace qrs {

#ifdef QRS_HOST

QRS_DEV void mma_f16(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, QRS_AT) {
    host::self()->services->mma(host::self(), QHX_MMA_F16, d, a, b0, b1, QRS_AT_PASS);
}
QRS_DEV void mma_tf32(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, QRS_AT) {
    host::self()->services->mma(host::self(), QHX_MMA_TF32, d, a, b0, b1, QRS_AT_PASS);
}
QRS_DEV void ldmatrix_x4(u32 (&r)[4], saddr a, QRS_AT) {
    host::self()->services->ldmatrix(host::self(), r, 4, 0, a, QRS_AT_PASS);
}
QRS_DEV void ldmatrix_x4_trans(u32 (&r)[4], saddr a, QRS_AT) {
    host::self()->services->ldmatrix(host::self(), r, 4, 1, a, QRS_AT_PASS);
}
QRS_DEV void ldmatrix_x2(u32 (&r)[2], saddr a, QRS_AT) {
    host::self()->services->ldmatrix(host::self(), r, 2, 0, a, QRS_AT_PASS);
}
QRS_DEV void ldmatrix_x2_trans(u32 (&r)[2], saddr a, QRS_AT) {
    host::self()->services->ldmatrix(host::self(), r, 2, 1, a, QRS_AT_PASS);
}

#else // CUDA

QRS_DEV void mma_f16(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
QRS_DEV void mma_tf32(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
#define QRS_LDMATRIX(NAME, MODE)                                                                             \
    QRS_DEV void ldmatrix_x4##NAME(u32(&r)[4], saddr a) {                                                    \
        asm volatile("ldmatrix.sync.aligned.m8n8.x4" MODE ".shared.b16 {%0, %1, %2, %3}, [%4];"              \
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])                                        \
                     : "r"(a)                                                                                \
                     : "memory");                                                                            \
    }                                                                                                        \
    QRS_DEV void ldmatrix_x2##NAME(u32(&r)[2], saddr a) {                                                    \
        asm volatile("ldmatrix.sync.aligned.m8n8.x2" MODE ".shared.b16 {%0, %1}, [%2];"                      \
                     : "=r"(r[0]), "=r"(r[1])                                                                \
                     : "r"(a)                                                                                \
                     : "memory");                                                                            \
    }
QRS_LDMATRIX(, "")
QRS_LDMATRIX(_trans, ".trans")
#undef QRS_LDMATRIX

#endif

} // namespace qrs
