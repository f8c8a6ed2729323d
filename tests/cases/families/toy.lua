-- The smallest whole family: a block a matrix, the matrix in shared memory, a thread a column. A file in a folder and
-- nothing else; tests/test_families.c shows that it is enough.
return {
  name = "toy", op = "geqrf", summary = "a test's family: one block a matrix, column by column",
  params = {
    { name = "threads", values = { 32, 64 }, doc = "threads a block",
      default = function(shape, device) return shape.n > 32 and 64 or 32 end },
    { name = "note", values = { "plain", "shouted" }, doc = "a comment in the source",
      default = function(shape, device) return "plain" end },
  },
  legal = function(shape, device, p)
    if shape.m > 64 or shape.n > 64 then
      return false, "takes at most 64 rows and columns, not " .. shape.m .. " x " .. shape.n
    end
    if p.note == "shouted" and p.threads == 64 then return false, "shouts with 32 threads only" end
    return true
  end,
  rank = function(shape, device) return -100 end,
  resources = function(shape, device, p)
    return { threads = p.threads, smem = 4 * shape.m * shape.n, registers = 64, l2 = 0 }
  end,
  vars = function(shape, device, p)
    local function strides(layout) return layout == "row" and { "ld", "1" } or { "1", "ld" } end
    return { IN = strides(shape.layout_in), OUT = strides(shape.layout_out), NOTE = p.note }
  end,
  program = function(shape, device, p, v)
    return { products = "fp32", buffers = {}, ops = {
      { op = "launch", kernel = "toy", grid = { "batch", 1, 1 }, block = p.threads, cluster = 1,
        smem = 4 * shape.m * shape.n, cooperative = false,
        args = { { pointer = "A" }, { call = "lda" }, { call = "stride_a" }, { pointer = "H" }, { call = "ldh" },
                 { call = "stride_h" }, { pointer = "tau" }, { call = "stride_tau" } } } } }
  end,
}
--[==[ source
#include "device/core.cuh"
#include "device/math.cuh"
#include "device/block.cuh"
using namespace qrs;

// ${NOTE}
QRS_KERNEL(toy, ${p.threads}, 1)
(const float *A, i64 lda, i64 stride_a, float *H, i64 ldh, i64 stride_h, float *tau, i64 stride_tau) {
    float *C = reinterpret_cast<float *>(dynamic_smem()); // columns of ${shape.m}
    const i64 matrix = blockIdx.x;
% for i, side in ipairs { { "A", "lda", IN }, { "H", "ldh", OUT } } do
    auto ${side[1]}_at = [=](int row, int column) {
        const i64 ld = ${side[2]};
        return matrix * stride_${string.lower(side[1])} + row * static_cast<i64>(${side[3][1]}) + column * static_cast<i64>(${side[3][2]});
    };
% end
    for (int i = threadIdx.x; i < ${shape.m * shape.n}; i += ${p.threads})
        C[i] = A[A_at(i % ${shape.m}, i / ${shape.m})];
    block_sync();
    for (int j = 0; j < ${shape.k}; j++) {
        const float *x = C + j * ${shape.m};
        float sum = 0.0f;
        for (int i = j + 1; i < ${shape.m}; i++)
            sum = fmaf(x[i], x[i], sum);
        const float alpha = x[j], beta = -copysignf(sqrt_rn(fmaf(alpha, alpha, sum)), alpha);
        const bool flat = sum == 0.0f;
        const float t = flat ? 0.0f : div_rn(beta - alpha, beta), scale = flat ? 0.0f : div_rn(1.0f, alpha - beta);
        for (int c = j + 1 + threadIdx.x; c < ${shape.n}; c += ${p.threads}) {
            float *y = C + c * ${shape.m};
            float dot = y[j];
            for (int i = j + 1; i < ${shape.m}; i++)
                dot = fmaf(x[i] * scale, y[i], dot);
            y[j] -= t * dot;
            for (int i = j + 1; i < ${shape.m}; i++)
                y[i] = fmaf(-t * dot, x[i] * scale, y[i]);
        }
        block_sync();
        if (threadIdx.x == 0) {
            tau[matrix * stride_tau + j] = t;
            float *v = C + j * ${shape.m};
            if (!flat) v[j] = beta;
            for (int i = j + 1; i < ${shape.m}; i++)
                v[i] *= scale;
        }
        block_sync();
    }
    for (int i = threadIdx.x; i < ${shape.m * shape.n}; i += ${p.threads})
        H[H_at(i % ${shape.m}, i / ${shape.m})] = C[i];
}
QRS_ENTRY(toy)
]==]
