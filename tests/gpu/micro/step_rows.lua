-- The column step of family fused by rows: a panel of 32 columns in the registers of eight warps.
return {
  name = "step_rows", op = "geqrf", summary = "microbenchmark: columns of fused_rows.cuh",
  params = {}, legal = function(shape) return shape.m <= 512 and shape.n == 32, "32 columns of at most 512 rows" end, rank = function() return 0 end,
  resources = function(shape) return { threads = 256, smem = 8192 + shape.m * 144, registers = 200, l2 = 0 } end,
  vars = function(shape) return { M = shape.m, W = 8, RS = 32, LAYERS = ceildiv(shape.m, 32) } end,
  program = function(shape)
    return { products = "fp32", buffers = {},
             ops = { { op = "launch", kernel = "step_rows", grid = { "batch", 1, 1 }, block = 256, cluster = 1, smem = 8192 + shape.m * 144,
                       cooperative = false,
                       args = { { pointer = "A" }, { call = "lda" }, { pointer = "H" }, { call = "ldh" }, { pointer = "tau" }, { pointer = "info" } } } } }
  end,
}
--[==[ source
#include "device/core.cuh"
#include "device/math.cuh"
#include "device/warp.cuh"
#include "device/block.cuh"

using namespace qrs;

% include("blocks/pack_reflector.cuh")
% include("blocks/fused_rows.cuh")

QRS_KERNEL(step_rows, 256, 1)(const float *a, i64 lda, float *h, i64 ldh, float *tau, int *info)
{
    u8 *smem = dynamic_smem();
    float *panel = (float *)(smem + 8192), *stau = (float *)(smem + 7168);
    u32 cycles = 0;
    #pragma unroll 1
    for (int pass = 0; pass < 2; pass++) { // the first brings the code near
        block_sync();
        for (int i = (int)warp(); i < ${M}; i += 8)
            panel[i * 36 + lane()] = a[i * lda + lane()];
        block_sync();
        const u32 begun = clock32();
        fused_rows(panel, ${M}, ${math.min(M, 32)}, (fused_step *)smem, stau);
        block_sync();
        cycles = clock32() - begun;
    }
    for (int i = (int)warp(); i < ${M}; i += 8)
        h[i * ldh + lane()] = panel[i * 36 + lane()];
    if (threadIdx.x < ${math.min(M, 32)})
        tau[threadIdx.x] = stau[threadIdx.x];
    if (threadIdx.x == 0)
        info[0] = (int)cycles;
}
QRS_ENTRY(step_rows)
]==]
