-- The column step from the whole Gram matrix: a panel of 64 or of 32 columns. The top of H is written.
return {
  name = "step_whole", op = "geqrf", summary = "microbenchmark: columns of gram_whole.cuh or gram_narrow.cuh",
  params = {}, legal = function(shape) return (shape.n == 64 or shape.n == 32) and shape.m >= 2 * shape.n, "64 or 32 columns, twice as many rows" end, rank = function() return 0 end,
  resources = function(shape) return { threads = shape.n * 4, smem = 73728, registers = 128, l2 = 0 } end,
  vars = function(shape) return { M = shape.m, N = shape.n } end,
  program = function(shape)
    return { products = "fp32", buffers = {},
             ops = { { op = "launch", kernel = "step_whole", grid = { "batch", 1, 1 }, block = shape.n * 4, cluster = 1, smem = 73728, cooperative = false,
                       args = { { pointer = "A" }, { call = "lda" }, { pointer = "H" }, { call = "ldh" }, { pointer = "tau" }, { pointer = "info" } } } } }
  end,
}
--[==[ source
#include "device/core.cuh"
#include "device/math.cuh"
#include "device/warp.cuh"
#include "device/block.cuh"
#include "device/mma.cuh"

using namespace qrs;

% include("blocks/gram_small.cuh", { NC = N // 32 })
% if N == 64 then
% include("blocks/gram_recursion.cuh", { B = 32, ROLLED = true, NC = 2, LD = 68, LDM = 68 })
% include("blocks/gram_whole.cuh", { LD = 68, LDM = 68, LEAST = "1e-6" })
% else
% include("blocks/gram_narrow.cuh", { LD = 36, LDM = 36, LEAST = "1e-6", WHOLE = false })
% end

% if N == 64 then
struct nothing {
    QRS_DEV static void run(bool) {}
};
% end
QRS_KERNEL(step_whole, ${4 * N}, 1)(const float *a, i64 lda, float *h, i64 ldh, float *tau, int *info)
{
    float *rv = (float *)(dynamic_smem() + 16384), *gram = rv + ${N * (N + 4)}, *left = gram + ${N * (N + 4)}, *whole = left + ${N * (N + 4)}, *stau = whole + ${N};
    const int c = threadIdx.x & ${N - 1}, part = threadIdx.x / ${N};
    u32 cycles = 0;
    #pragma unroll 1
    for (int pass = 0; pass < 2; pass++) { // the first brings the code near
        #pragma unroll 1
        for (int i = part; i < ${N}; i += 4) {
            float sum = 0.0f;
            for (int k = 0; k < ${M}; k++)
                sum = fmaf(a[k * lda + i], a[k * lda + c], sum);
            rv[i * ${N + 4} + c] = a[i * lda + c];
            gram[i * ${N + 4} + c] = sum;
        }
        block_sync();
        const u32 begun = clock32();
% if N == 64 then
        gram_whole<nothing>(rv, gram, left, whole, (gram_buffers *)(dynamic_smem() + 4096), (gram_narrow_pivots *)dynamic_smem(), stau, 64, false);
% else
        gram_narrow(rv, gram, gram, left, whole, stau + ${N}, (gram_narrow_pivots *)dynamic_smem(), stau);
% end
        cycles = clock32() - begun;
        block_sync();
    }
    for (int i = part; i < ${N}; i += 4)
        h[i * ldh + c] = ${N == 64 and "rv" or "gram"}[i * ${N + 4} + c];
    if (part == 0)
        tau[c] = stau[c];
    if (threadIdx.x == 0)
        info[0] = (int)cycles;
}
QRS_ENTRY(step_whole)
]==]
