-- pack: small matrices, one launch. A group of lanes holds a matrix in registers, a lane per column; a block stages a
-- run of matrices through shared memory so that global memory is read and written once, in address order.

local function k_of(shape) return math.min(shape.m, shape.n) end

-- The loop over columns is cut where the slot of the pivot changes and every few rows, so that less and less is computed.
local function ranges(shape, p)
  local list, j, k = {}, 0, k_of(shape)
  local cut = p.lanes == 1 and 1 or p.section
  while j < k do
    local to = math.min(k, (j // cut + 1) * cut, (j // p.lanes + 1) * p.lanes)
    list[#list + 1] = { from = j, to = to, rows = shape.m - j, slot = j // p.lanes, cross = to % p.lanes == 0 }
    j = to
  end
  return list
end

local function registers(shape, p)
  local slots = ceildiv(shape.n, p.lanes)
  return align(shape.m, 4) * (slots + 1) + 2 * slots + 40
end

local function per_block(shape, p)
  return math.max(p.matrices, ceildiv(32, p.lanes))
end

-- Strides of a matrix in the tile, in floats: an odd row stride keeps reads and writes of either order free of bank
-- conflicts, and matrices start `lanes` banks apart so that neighbouring groups do not collide.
local function strides(shape, p)
  local ld = shape.n | 1
  local ms = shape.m * ld
  local apart = math.min(p.lanes, 32) % 32
  while ms % 32 ~= apart do ms = ms + 1 end
  return ld, ms
end

-- A pivot buffer a matrix, groups four banks apart.
local function pivot_stride(shape, p)
  return align(2 * align(shape.m, 4), 32) + 4
end

local function layout(shape, p)
  local ld, ms = strides(shape, p)
  local mb = per_block(shape, p)
  local v = { M = shape.m, N = shape.n, K = k_of(shape), L = p.lanes, SLOTS = ceildiv(shape.n, p.lanes), LD = ld, MS = ms,
              MB = mb, THREADS = mb * p.lanes, IN = shape.layout_in, OUT = shape.layout_out, ranges = ranges(shape, p) }
  v.PIVOT = align(mb * ms, 4)
  v.PS = pivot_stride(shape, p)
  v.TAU = v.PIVOT + (p.lanes > 1 and mb * v.PS or 0)
  v.BAD = v.TAU + align(mb * v.K, 4)
  v.SMEM = 4 * (v.BAD + mb)
  return v
end

return {
  name = "pack", op = "geqrf",
  summary = "many small matrices: a few lanes a matrix, a lane per column, all in registers, one launch",
  params = {
    { name = "lanes", values = { 1, 2, 4, 8, 16, 32, 64 },
      doc = "lanes that hold one matrix; 1: the whole matrix in a thread",
      default = function(shape, device)
        if shape.m * shape.n <= 36 then return 1 end
        local lanes = 1
        while lanes < shape.n and lanes < 64 do lanes = lanes * 2 end
        -- With enough matrices to fill the device, two columns a lane save the barrier between the two warps.
        if lanes == 64 and not shape.batch_invariant and shape.max_batch > 8 * device.sms and shape.m <= 48 then lanes = 32 end
        return lanes
      end },
    { name = "matrices", values = { 1, 2, 4, 8, 16, 32, 64, 128 },
      doc = "matrices a block, at least a warp's worth",
      default = function(shape, device)
        local lanes = 1
        while lanes < shape.n and lanes < 64 do lanes = lanes * 2 end
        if shape.m * shape.n <= 36 then return 128 end
        local most = math.max(1, 128 // lanes)
        -- Few matrices: spread them over the SMs rather than fill blocks.
        if not shape.batch_invariant and shape.max_batch < 2 * most * device.sms then return math.max(1, 32 // lanes) end
        return most
      end },
    { name = "section", values = { 2, 4, 8, 16 },
      doc = "columns between two cuts of the row count: smaller computes less and is more code",
      default = function(shape) return shape.m <= 16 and 4 or 8 end },
  },
  legal = function(shape, device, p)
    if shape.m < 1 or shape.n < 1 then return false, "an empty matrix has nothing to pack" end
    if shape.n > 64 or shape.m > 64 then return false, "pack holds at most 64 rows and 64 columns" end
    if p.lanes == 1 and shape.m * shape.n > 72 then return false, "a thread holds at most 72 entries: use more lanes" end
    if p.lanes > 1 and p.lanes >= 2 * shape.n then return false, "more than half of the lanes would have no column: use fewer lanes" end
    if ceildiv(shape.n, p.lanes) > 8 then return false, "at most 8 columns a lane: use more lanes" end
    if registers(shape, p) > 232 then return false, "the columns of a lane do not fit its registers: use more lanes" end
    local v = layout(shape, p)
    if v.THREADS > 256 then return false, "at most 256 threads a block: lower matrices or lanes" end
    if v.SMEM > device.smem_optin then return false, "the block's matrices do not fit shared memory: lower matrices" end
    return true
  end,
  rank = function(shape, device) return 30 end,
  resources = function(shape, device, p)
    local v = layout(shape, p)
    return { threads = v.THREADS, smem = v.SMEM, registers = registers(shape, p), l2 = 0 }
  end,
  vars = function(shape, device, p) return layout(shape, p) end,
  program = function(shape, device, p, v)
    return {
      products = "fp32", buffers = {},
      ops = { { op = "launch", kernel = "pack", grid = { "ceildiv(batch, " .. v.MB .. ")", 1, 1 }, block = v.THREADS, cluster = 1,
                smem = v.SMEM, cooperative = false,
                args = { { pointer = "A" }, { call = "lda" }, { call = "stride_a" }, { pointer = "H" }, { call = "ldh" },
                         { call = "stride_h" }, { pointer = "tau" }, { call = "stride_tau" }, { pointer = "info" }, { call = "batch" } } } },
    }
  end,
}
--[==[ source
#include "device/core.cuh"
#include "device/math.cuh"
#include "device/warp.cuh"
#include "device/block.cuh"

using namespace qrs;

// ${M} x ${N}, ${L} lanes a matrix, ${MB} matrices a block.
QRS_DEV void pack_sync()
{
% if L <= 32 then
    warp_sync();
% elseif THREADS == L then
    block_sync();
% else
    bar_sync(1 + (int)threadIdx.x / ${L}, ${L});
% end
}

% include("blocks/pack_reflector.cuh")
% include("blocks/pack_stage.cuh")
% include("blocks/pack_columns.cuh")

QRS_KERNEL(pack, ${THREADS}, 1)(const float *a, i64 lda, i64 stride_a, float *h, i64 ldh, i64 stride_h, float *tau,
                                i64 stride_tau, int *info, i64 batch)
{
    float *smem = (float *)dynamic_smem();
    int *bad = (int *)(smem + ${BAD});
    const int tid = (int)threadIdx.x;
    const i64 first = (i64)blockIdx.x * ${MB};
    const int count = batch - first < ${MB} ? (int)(batch - first) : ${MB};

    // Places of matrices past the batch are computed on too (their lanes share warps with real ones): let them be zeros.
    if (count < ${MB})
        for (int e = count * ${MS} + tid; e < ${MB * MS}; e += ${THREADS})
            smem[e] = 0.0f;
    for (int b = tid; b < ${MB}; b += ${THREADS})
        bad[b] = 0;
    pack_load(smem, a + first * stride_a, lda, stride_a, count);
    block_sync();

    const int mine = tid / ${L};
    if (pack_factor(tid % ${L}, smem + mine * ${MS}, smem + ${PIVOT} + ${L > 1 and "mine * " .. PS or "0"}, smem + ${TAU} + mine * ${K}))
        bad[mine] = 1;
    block_sync();

    pack_store(h + first * stride_h, ldh, stride_h, smem, count);
    for (int e = tid; e < count * ${K}; e += ${THREADS})
        tau[(first + e / ${K}) * stride_tau + e % ${K}] = smem[${TAU} + e];
    if (info)
        for (int b = tid; b < count; b += ${THREADS})
            info[first + b] = bad[b];
}
QRS_ENTRY(pack)
]==]
