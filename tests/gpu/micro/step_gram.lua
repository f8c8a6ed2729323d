-- The column step by Gram recursion: a panel of 32 columns from its top block and the Gram matrix of what lies below. The top of H is written.
return {
  name = "step_gram", op = "geqrf", summary = "microbenchmark: columns of gram_recursion.cuh",
  params = {}, legal = function(shape) return shape.m > 32 and shape.n == 32, "32 columns of more than 32 rows" end, rank = function() return 0 end,
  resources = function() return { threads = 128, smem = 32768, registers = 128, l2 = 0 } end,
  vars = function(shape) return { M = shape.m } end,
  program = function()
    return { products = "fp32", buffers = {},
             ops = { { op = "launch", kernel = "step_gram", grid = { "batch", 1, 1 }, block = 128, cluster = 1, smem = 32768, cooperative = false,
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
% include("blocks/gram_recursion.cuh", { B = 32, ROLLED = false, NC = 1, LD = 36, LDM = 40 })

QRS_KERNEL(step_gram, 128, 1)(const float *a, i64 lda, float *h, i64 ldh, float *tau, int *info)
{
    float *top = (float *)(dynamic_smem() + 8192), *gram = top + 32 * 36, *result = gram + 32 * 36, *m = result + 32 * 36, *whole = m + 32 * 40;
    const int l = lane(), w = warp();
    u32 cycles = 0;
    #pragma unroll 1
    for (int i = w; i < 32; i += 4) {
        float sum = 0.0f;
        for (int k = 32; k < ${M}; k++)
            sum = fmaf(a[k * lda + i], a[k * lda + l], sum);
        top[i * 36 + l] = a[i * lda + l];
        gram[i * 36 + l] = sum;
    }
    #pragma unroll 1
    for (int pass = 0; pass < 2; pass++) { // the first brings the code near
        block_sync();
        const u32 begun = clock32();
        gram_recursion(top, gram, whole, (gram_buffers *)dynamic_smem(), m, result, whole + 128, 32, false, 128);
        block_sync();
        cycles = clock32() - begun;
    }
    for (int i = w; i < 32; i += 4)
        h[i * ldh + l] = result[i * 36 + l];
    if (w == 0)
        tau[l] = whole[128 + l];
    if (threadIdx.x == 0)
        info[0] = (int)cycles;
}
QRS_ENTRY(step_gram)
]==]
