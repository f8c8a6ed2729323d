// Stores four 8 x 8 matrices of fp16 from fragments, transposed: the inverse of ldmatrix_x4_trans (sm_90 and later).
// Lanes 8i..8i+7 give the addresses of the eight 16-byte rows that matrix i occupies in shared memory; r[i] holds the pair
// (g, 2q..2q+1) of the matrix's transpose, g = lane / 4, q = lane % 4. All 32 lanes call together.
#pragma once
#include "device/core.cuh"
#include "device/warp.cuh"

namespace qrs {

#ifdef QRS_HOST

QRS_DEV void stmatrix_x4_trans(saddr a, const u32 (&r)[4], QRS_AT) {
    const int g = static_cast<int>(lane()) >> 2, q = static_cast<int>(lane()) & 3;
    for (int i = 0; i < 4; i++)
        for (int e = 0; e < 2; e++) {
            saddr row = shfl(a, i * 8 + 2 * q + e, QRS_AT_PASS);
            sts<u16>(row + 2 * static_cast<u32>(g), static_cast<u16>(r[i] >> 16 * e), QRS_AT_PASS);
        }
    warp_sync(QRS_AT_PASS);
}

#elif QRS_ARCH_90

QRS_DEV void stmatrix_x4_trans(saddr a, const u32 (&r)[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(a), "r"(r[0]), "r"(r[1]),
                 "r"(r[2]), "r"(r[3])
                 : "memory");
}

#endif

} // namespace qrs
