-- The column step of family pack: a matrix of up to 64 x 64 by four warps, from its load to its store.
return {
  name = "step_pack", op = "geqrf", summary = "microbenchmark: columns of pack_split.cuh",
  params = {}, legal = function(shape) return shape.m <= 64 and shape.n <= 64, "at most 64 x 64" end, rank = function() return 0 end,
  resources = function() return { threads = 128, smem = 8192, registers = 96, l2 = 0 } end,
  vars = function(shape)
    return { M = shape.m, N = shape.n, K = math.min(shape.m, shape.n), RW = ceildiv(shape.m, 4), SLOTS = ceildiv(shape.n, 32), IN = "row", OUT = "row" }
  end,
  program = function()
    return { products = "fp32", buffers = {},
             ops = { { op = "launch", kernel = "step_pack", grid = { "batch", 1, 1 }, block = 128, cluster = 1, smem = 8192, cooperative = false,
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
% include("blocks/pack_split.cuh")

QRS_KERNEL(step_pack, 128, 1)(const float *a, i64 lda, float *h, i64 ldh, float *tau, int *info)
{
    u32 cycles = 0;
    #pragma unroll 1
    for (int pass = 0; pass < 2; pass++) { // the first brings code and data near
        block_sync();
        const u32 begun = clock32();
        pack_split(a, lda, h, ldh, tau, (pack_shared *)dynamic_smem());
        block_sync();
        cycles = clock32() - begun;
    }
    if (threadIdx.x == 0)
        info[0] = (int)cycles;
}
QRS_ENTRY(step_pack)
]==]
