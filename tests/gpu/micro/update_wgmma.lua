-- What an update by warpgroup products can reach: W = C'V, C -= V W' for 64 columns of C and 64 of V, C^T in the accumulators of two warpgroups, V an fp16
-- tile for every 64 rows that serves both products (device/wgmma.cuh). Every warpgroup keeps to its own rows, and there is no T: the ceiling of
-- fused_wide.cuh. A is [V | C], rows are counted a warpgroup at a time; of H, what becomes of C is written.
return {
  name = "update_wgmma", op = "geqrf", summary = "microbenchmark: warpgroup products as an update uses them",
  params = {}, legal = function(shape, device)
    return device.arch == 90 and shape.m % 128 == 0 and shape.m <= 384 and shape.n == 128, "128 columns, rows by 128, sm_90"
  end,
  rank = function() return 0 end,
  resources = function() return { threads = 256, smem = 65536, registers = 232, l2 = 0 } end,
  vars = function(shape) return { M = shape.m, J = shape.m // 128 } end,
  program = function()
    return { products = "1", buffers = {},
             ops = { { op = "launch", kernel = "update_wgmma", grid = { "batch", 1, 1 }, block = 256, cluster = 1, smem = 65536, cooperative = false,
                       args = { { pointer = "A" }, { call = "lda" }, { pointer = "H" }, { call = "ldh" }, { pointer = "tau" }, { pointer = "info" } } } } }
  end,
}
--[==[ source
#include "device/core.cuh"
#include "device/math.cuh"
#include "device/warp.cuh"
#include "device/block.cuh"
#include "device/wgmma.cuh"
#include "device/copy.cuh"

using namespace qrs;

// A fragments of k = 16 s .. 16 s + 15 from the accumulators of a 64 x 64 tile, times f.
QRS_DEV void operand(const float (&d)[32], int s, float f, u32 (&a)[4])
{
    #pragma unroll
    for (int x = 0; x < 4; x++)
        a[x] = pack_f16(f * d[8 * s + 2 * x], f * d[8 * s + 2 * x + 1]);
}

// C^T -= (C^T V) V^T, over this warpgroup's rows. v: its first tile of V.
QRS_DEV void update(float (&c)[${J}][32], saddr v)
{
    float w[32];
    u32 a[4][4];
    #pragma unroll
    for (int i = 0; i < 32; i++)
        w[i] = 0.0f;
    #pragma unroll
    for (int j = 0; j < ${J}; j++) {
        #pragma unroll
        for (int s = 0; s < 4; s++)
            operand(c[j], s, 1.0f, a[s]);
        wgmma_fence();
        #pragma unroll
        for (int s = 0; s < 4; s++)
            wgmma_f16_rs<64, true>(w, a[s][0], a[s][1], a[s][2], a[s][3], smem_desc(v + j * 8192 + s * 2048, 128, 16, 1024), true);
        wgmma_commit();
        wgmma_wait<0>(w);
    }
    #pragma unroll
    for (int s = 0; s < 4; s++)
        operand(w, s, -1.0f, a[s]);
    wgmma_fence();
    #pragma unroll
    for (int j = 0; j < ${J}; j++)
        #pragma unroll
        for (int s = 0; s < 4; s++)
            wgmma_f16_rs<64, false>(c[j], a[s][0], a[s][1], a[s][2], a[s][3], smem_desc(v + j * 8192 + s * 32, 128, 16, 1024), true);
    wgmma_commit();
    #pragma unroll
    for (int j = 0; j < ${J}; j++)
        wgmma_wait<0>(c[j]);
}

QRS_KERNEL(update_wgmma, 256, 1)(const float *a, i64 lda, float *h, i64 ldh, float *tau, int *info)
{
    u8 *v = dynamic_smem();
    const int group = shfl((int)warp() >> 2, 0), q = (int)lane() & 3, column = ((int)warp() & 3) * 16 + ((int)lane() >> 2);
    for (int e = (int)threadIdx.x; e < ${M * 64}; e += 256) {
        const int i = e >> 6, j = e & 63;
        *(u16 *)(v + i * 128 + (((j >> 3) ^ (i & 7)) << 4) + (j & 7) * 2) = f16_bits(a[i * lda + j]);
    }
    float c[${J}][32];
    #pragma unroll
    for (int j = 0; j < ${J}; j++)
        #pragma unroll
        for (int i = 0; i < 32; i++)
            c[j][i] = a[(i64)((group * ${J} + j) * 64 + 8 * (i >> 2) + 2 * q + (i & 1)) * lda + 64 + column + 8 * (i >> 1 & 1)];
    fence_async_shared();
    block_sync();
    const saddr mine = to_saddr(v) + group * ${J * 8192};
    update(c, mine);
    #pragma unroll
    for (int j = 0; j < ${J}; j++)
        #pragma unroll
        for (int i = 0; i < 32; i++)
            h[(i64)((group * ${J} + j) * 64 + 8 * (i >> 2) + 2 * q + (i & 1)) * ldh + 64 + column + 8 * (i >> 1 & 1)] = c[j][i];
    block_sync();
    const u32 begun = clock32();
    #pragma unroll 1
    for (int i = 0; i < 8; i++)
        update(c, mine);
    block_sync();
    const u32 cycles = (clock32() - begun) / 8;
    float sum = 0.0f; // keeps the updates timed
    #pragma unroll
    for (int j = 0; j < ${J}; j++)
        #pragma unroll
        for (int i = 0; i < 32; i++)
            sum += c[j][i];
    if (threadIdx.x < 64)
        tau[threadIdx.x] = sum;
    if (threadIdx.x == 0)
        info[0] = (int)cycles;
}
QRS_ENTRY(update_wgmma)
]==]
