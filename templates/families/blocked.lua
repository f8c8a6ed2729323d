-- Right-looking blocked Householder QR in separate launches: for each panel of B columns a panel launch, an assembly launch and an update of the
-- trailing columns. Any m and n, every pair of layouts, every architecture: the family that always works, and the reference for the
-- others. H in the user's layout is the working matrix; kernels are compiled once a shape and get the step as an argument.

-- Rows a CTA of the register panel can hold, at most.
local ROWS_A_THREAD = 16

-- Panel kernels of a shape, largest capacity first: the last that holds the rows left is the one to launch. A cluster shares rows that one
-- CTA cannot hold (distributed shared memory is sm_90's); what no cluster holds streams through L2.
local function panel_variants(shape, device, p, rows_a_pass)
  local variants, cluster = {}, 1
  while rows_a_pass * ROWS_A_THREAD * cluster < shape.m and cluster * 2 <= math.min(8, device.max_cluster) do cluster = cluster * 2 end
  if rows_a_pass * ROWS_A_THREAD * cluster < shape.m then variants[1] = { name = "panel_stream", capacity = shape.m, cluster = 1 } end
  while cluster > 1 do
    variants[#variants + 1] = { name = "panel_cluster_" .. cluster, capacity = rows_a_pass * ROWS_A_THREAD * cluster, cluster = cluster,
                                rt = ROWS_A_THREAD }
    cluster = cluster // 2
  end
  for _, rt in ipairs({ 16, 8, 4 }) do
    -- 4 rows a thread always, more where there are rows for them.
    if rt == 4 or shape.m > rows_a_pass * rt // 2 then
      variants[#variants + 1] = { name = "panel_" .. rt, capacity = rows_a_pass * rt, cluster = 1, rt = rt }
    end
  end
  return variants
end

-- The largest power of two that keeps a bound of M rows inside fp16 (65504, with room for rounding).
local function fp16_scale(bound)
  local scale = 1
  while scale * 2 * bound < 65000 do scale = scale * 2 end
  return scale * 1.0
end

local function layout(shape, device, p)
  local b, w = p.panel, p.threads // 32
  local v = { M = shape.m, N = shape.n, K = shape.k, B = b, THREADS = p.threads, ROW_OUT = shape.layout_out == "row" }
  v.VARIANTS = panel_variants(shape, device, p, w * (32 // (b // 4)))
  local largest = 1
  for _, x in ipairs(v.VARIANTS) do largest = math.max(largest, x.cluster) end
  v.TERMS = p.products == "fp32" and 0 or p.products == 1 and 1 or 2
  v.STATS = v.TERMS == 1
  -- Entries of v are at most 1. A column starts below 2 in magnitude, so neither its entries nor W' leave 4 sqrt(m).
  v.V_SCALE = fp16_scale(1)
  v.C_SCALE = fp16_scale(4 * math.sqrt(shape.m))
  v.PANEL_SMEM = (2 * w * b + 2 * largest * b + 2 * b + w + largest) * 4
  v.STREAM_SMEM = (512 + b + 16) * 4
  v.PROLOGUE_SMEM = (32 * 33 + 4 * 32) * 4
  v.ASSEMBLY_SMEM = (128 + b) * (b + 1) * 4 + (b + 1) * 4
  local fixed = align(b * (b + 1) * 4, 16) + b * 68 * 4
  if v.TERMS == 0 then v.UPDATE_SMEM = fixed + (64 * (b + 4) + 64 * 68) * 4
  else v.UPDATE_SMEM = fixed + (2 * 64 * (b + 8) + 2 * 64 * 72) * 2 end
  return v
end

return {
  name = "blocked",
  op = "geqrf",
  summary = "any m and n: right-looking, separate panel, assembly and update launches",
  params = {
    { name = "panel", values = { 16, 32 }, default = function(shape) return shape.k <= 16 and 16 or 32 end,
      doc = "columns of a panel; 16 is less work where that is all there is" },
    { name = "threads", values = { 256, 512 }, default = function(shape) return shape.m > 512 and 512 or 256 end,
      doc = "threads of a panel's CTA; with panel 32, 256 hold 512 rows and 512 hold 1024 in registers" },
    { name = "products", values = { "fp32", 1, 3 },
      default = function(shape) return shape.precision == "fp32" and "fp32" or shape.k >= 512 and 1 or 3 end,
      doc = "trailing products: fp32 units, 1 fp16 product (two terms for tiles that need them) or 3 (fp32 level), on tensor cores" },
  },
  legal = function(shape, device, p)
    if p.products == 1 and (shape.precision == "fp32" or shape.k < 512) then
      return false, "products = 1 breaks the precision contract of this shape: take 3 or \"fp32\" (1 is for fp16 plans, min(m, n) >= 512)"
    end
    return true
  end,
  rank = function() return 1 end,
  resources = function(shape, device, p)
    local v = layout(shape, device, p)
    return { threads = p.threads, smem = math.max(v.PANEL_SMEM, v.UPDATE_SMEM, v.ASSEMBLY_SMEM), registers = 128,
             l2 = shape.m * p.panel * 4 }
  end,
  vars = function(shape, device, p) return layout(shape, device, p) end,
  program = function(shape, device, p, v)
    local m, n, b = shape.m, shape.n, p.panel
    local ops = {}
    local function launch(kernel, grid, block, cluster, smem, args)
      ops[#ops + 1] = { op = "launch", kernel = kernel, grid = { grid, 1, 1 }, block = block, cluster = cluster, smem = smem,
                        cooperative = false, args = args }
    end
    local h1, h2, h3 = { pointer = "H" }, { call = "ldh" }, { call = "stride_h" }
    local exponents, concentrated, flags = { workspace = "exponents" }, { workspace = "concentrated" }, { workspace = "flags" }
    ops[1] = { op = "clear", buffer = "flags", offset = 0, bytes = "batch * 4" }
    ops[2] = { op = "clear", buffer = "tickets", offset = 0, bytes = "batch * 4" }
    launch("prologue", "batch * " .. ceildiv(n, 32), 256, 1, v.PROLOGUE_SMEM,
           { { pointer = "A" }, { call = "lda" }, { call = "stride_a" }, h1, h2, h3, exponents, concentrated, flags })
    for first = 0, shape.k - 1, b do
      local count = math.max(0, math.min(b, n - first, m - 1 - first))
      local panel
      for _, x in ipairs(v.VARIANTS) do
        if x.capacity >= m - first then panel = x end
      end
      local tiles = ceildiv(n - first - b, 64)
      local chunks = ceildiv(m - first, 128)
      local threads, smem = p.threads, v.PANEL_SMEM
      if not panel.rt then threads, smem = 512, v.STREAM_SMEM end
      launch(panel.name, "batch * " .. panel.cluster, threads, panel.cluster, smem,
             { h1, h2, h3, { workspace = "panel" }, { workspace = "panel_tau" }, { i32 = first }, { i32 = count } })
      launch("assembly", "batch * " .. chunks, 256, 1, v.ASSEMBLY_SMEM,
             { { workspace = "panel" }, { workspace = "panel_tau" }, exponents, h1, h2, h3, { pointer = "tau" }, { call = "stride_tau" },
               { workspace = "v" }, { workspace = "t" }, { workspace = "parts" }, { workspace = "tickets" },
               { i32 = first }, { i32 = chunks }, { i32 = n > first + b and 1 or 0 } })
      if n > first + b then
        launch("update", "batch * " .. tiles, 256, 1, v.UPDATE_SMEM,
               { h1, h2, h3, { workspace = "v" }, { workspace = "t" }, exponents, concentrated, flags, { i32 = first }, { i32 = tiles } })
      end
    end
    launch("epilogue", "ceildiv(batch, 256)", 256, 1, 0, { flags, { pointer = "info" }, { call = "batch" } })
    return {
      products = v.TERMS == 0 and "fp32" or v.TERMS == 1 and "1" or "3",
      buffers = {
        { name = "exponents", bytes = "batch * " .. n * 4 },
        { name = "concentrated", bytes = v.STATS and "batch * " .. n * 4 or 256 },
        { name = "flags", bytes = "batch * 4" },
        { name = "tickets", bytes = "batch * 4" },
        { name = "parts", bytes = m > 128 and "batch * " .. ceildiv(m, 128) * b * b * 4 or 256 },
        { name = "panel", bytes = "batch * " .. m * b * 4 },
        { name = "panel_tau", bytes = "batch * " .. b * 4 },
        { name = "v", bytes = "batch * " .. m * b * 4 },
        { name = "t", bytes = "batch * " .. b * b * 4 },
      },
      ops = ops,
    }
  end,
}
--[==[ source
#include "device/core.cuh"
#include "device/math.cuh"
#include "device/warp.cuh"
#include "device/block.cuh"
#include "device/mma.cuh"
#include "device/cluster.cuh"
#include "device/flag.cuh"
using namespace qrs;

% include("blocks/blocked_prologue.cuh")
% for _, x in ipairs(VARIANTS) do
%   if x.rt then
%     include("blocks/blocked_panel.cuh", { NAME = x.name, RT = x.rt, CLUSTER = x.cluster })
%   else
%     include("blocks/blocked_stream.cuh", { NAME = x.name })
%   end
% end
% include("blocks/blocked_assembly.cuh")
% include("blocks/blocked_update.cuh")
]==]
