-- pack: small matrices, one launch. A group of lanes holds a matrix in registers, a lane per column; a block stages a
-- run of matrices through shared memory so that global memory is read and written once, in address order.

local function k_of(shape) return math.min(shape.m, shape.n) end

local function registers(shape, p)
  if p.lanes == 128 then return (ceildiv(shape.n, 32) + 2) * ceildiv(shape.m, 4) + 48 end
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
  if p.lanes == 128 then -- four warps, a lane per column (blocks/pack_split.cuh)
    local slots, rw = ceildiv(shape.n, 32), ceildiv(shape.m, 4)
    return { SPLIT = true, M = shape.m, N = shape.n, K = k_of(shape), L = 128, MB = 1, THREADS = 128, RW = rw, SLOTS = slots,
             IN = shape.layout_in, OUT = shape.layout_out, SMEM = 2 * (20 * (32 * slots + 4) + 16 * align(rw, 4)) + 64 * 32 * slots,
             -- As many as registers allow without spills: 640 matrices on 132 SMs are five each.
             MIN_BLOCKS = slots == 1 and 1 or (shape.n == 64 or shape.m <= 48) and 5 or 4 }
  end
  local ld, ms = strides(shape, p)
  local mb = per_block(shape, p)
  local v = { M = shape.m, N = shape.n, K = k_of(shape), L = p.lanes, SLOTS = ceildiv(shape.n, p.lanes), LD = ld, MS = ms,
              MB = mb, THREADS = mb * p.lanes, IN = shape.layout_in, OUT = shape.layout_out, PM = align(shape.m, 4) }
  -- Rows of whole sectors go straight between registers and global memory, the rest through a tile in shared memory.
  local straight = p.lanes >= 8 and shape.n % 8 == 0
  v.IN_TILE = not (straight and shape.layout_in == "row")
  v.OUT_TILE = not (straight and shape.layout_out == "row")
  v.PIVOT = (v.IN_TILE or v.OUT_TILE) and align(mb * ms, 4) or 0
  v.PS = pivot_stride(shape, p)
  v.TAU = v.PIVOT + (p.lanes > 1 and mb * v.PS or 0)
  v.BAD = v.TAU + (p.lanes == 1 and align(mb * v.K, 4) or 0)
  v.SMEM = 4 * (v.BAD + mb)
  return v
end

return {
  name = "pack", op = "geqrf",
  summary = "many small matrices: a few lanes a matrix, a lane per column, all in registers, one launch",
  params = {
    { name = "lanes", values = { 1, 2, 4, 8, 16, 32, 128 },
      doc = "lanes that hold one matrix; 1: the whole matrix in a thread; 128: four warps, a lane per column, rows dealt to the warps",
      default = function(shape, device)
        if shape.m * shape.n <= 36 then return 1 end
        -- Too few matrices to fill the GPU: what counts is the chain of one. Wide ones need the registers of four warps.
        local few = not shape.batch_invariant and shape.max_batch <= 2 * device.sms
        if shape.n > 32 or few and shape.m >= 16 and shape.n > 8 then return 128 end
        local lanes = 1
        while lanes < shape.n do lanes = lanes * 2 end
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
  },
  legal = function(shape, device, p)
    if shape.m < 1 or shape.n < 1 then return false, "an empty matrix has nothing to pack" end
    if shape.n > 64 or shape.m > 64 then return false, "pack holds at most 64 rows and 64 columns" end
    if p.lanes == 128 then
      return true
    end
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
  vars = function(shape, device, p)
    local v = layout(shape, p)
    -- Whether the next launch's blocks find SMs of their own: where they don't, they would take places that this one's blocks need.
    v.ROOM = ceildiv(shape.max_batch, v.MB) <= device.sms
    -- Five blocks an SM leave 96 registers a thread, which is enough on sm_90 alone.
    if device.arch ~= 90 and v.SPLIT then v.MIN_BLOCKS = math.min(v.MIN_BLOCKS, 4) end
    return v
  end,
  program = function(shape, device, p, v)
    return {
      products = "fp32", buffers = {},
      ops = { { op = "launch", kernel = "pack", grid = { "ceildiv(batch, " .. v.MB .. ")", 1, 1 }, block = v.THREADS, cluster = 1,
                smem = v.SMEM, cooperative = false, early = device.arch >= 90,
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
#include "device/launch.cuh"

using namespace qrs;

% include("blocks/pack_reflector.cuh")
% if SPLIT then
% include("blocks/pack_split.cuh")

QRS_KERNEL(pack, 128, ${MIN_BLOCKS})(const float *a, i64 lda, i64 stride_a, float *h, i64 ldh, i64 stride_h, float *tau, i64 stride_tau, int *info,
                         i64 batch)
{
% if ROOM then
    release_next();
% end
    wait_for_earlier();
    const i64 b = blockIdx.x;
    const bool bad = pack_split(a + b * stride_a, lda, h + b * stride_h, ldh, tau + b * stride_tau, (pack_shared *)dynamic_smem());
    if (info && threadIdx.x == 0)
        info[b] = bad;
    (void)batch;
}
% else
// ${M} x ${N}, ${L} lanes a matrix, ${MB} matrices a block.
% if IN_TILE or OUT_TILE then
% include("blocks/pack_stage.cuh")
% end
% if L > 1 then
% include("blocks/pack_lanes.cuh")
% else
% include("blocks/pack_columns.cuh")
% end

QRS_KERNEL(pack, ${THREADS}, 1)(const float *a, i64 lda, i64 stride_a, float *h, i64 ldh, i64 stride_h, float *tau,
                                i64 stride_tau, int *info, i64 batch)
{
% if ROOM then
    release_next();
% end
    wait_for_earlier();
    float *smem = (float *)dynamic_smem();
    int *bad = (int *)(smem + ${BAD});
    const int tid = (int)threadIdx.x, mine = tid / ${L};
    const i64 first = (i64)blockIdx.x * ${MB};
    const int count = batch - first < ${MB} ? (int)(batch - first) : ${MB};

    for (int b = tid; b < ${MB}; b += ${THREADS})
        bad[b] = 0;
% if IN_TILE then
    // Places of matrices past the batch are computed on too (their lanes share warps with real ones): let them be zeros.
    if (count < ${MB})
        for (int e = count * ${MS} + tid; e < ${MB * MS}; e += ${THREADS})
            smem[e] = 0.0f;
    pack_load(smem, a + first * stride_a, lda, stride_a, count);
% end
    block_sync();

% if L > 1 then
    pack_lane s;
    s.column = tid % ${L};
    const bool present = mine < count;
    if (${IN_TILE and "pack_take(s, smem + mine * " .. MS .. ", " .. LD .. ", true)" or "pack_take(s, a + (first + mine) * stride_a, lda, present)"})
        bad[mine] = 1;
    pack_factor(s, ${OUT_TILE and "smem + mine * " .. MS .. ", " .. LD or "h + (first + mine) * stride_h, ldh"}, present, smem + ${PIVOT} + mine * ${PS},
                tau + (first + mine) * stride_tau);
% else
    if (pack_factor(smem + mine * ${MS}, smem + ${TAU} + mine * ${K}))
        bad[mine] = 1;
% end
    block_sync();

% if OUT_TILE then
    pack_store(h + first * stride_h, ldh, stride_h, smem, count);
% end
% if L == 1 then
    for (int e = tid; e < count * ${K}; e += ${THREADS})
        tau[(first + e / ${K}) * stride_tau + e % ${K}] = smem[${TAU} + e];
% end
    if (info)
        for (int b = tid; b < count; b += ${THREADS})
            info[first + b] = bad[b];
}
% end
QRS_ENTRY(pack)
]==]
