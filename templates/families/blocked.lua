-- Right-looking blocked Householder QR in separate launches: for each panel of B columns a panel launch, an assembly launch and an update of the
-- trailing columns. Any m and n, every pair of layouts, every architecture: the family that always works, and the reference for the
-- others. H in the user's layout is the working matrix; kernels are compiled once a shape and get the step as an argument.

local ROWS_A_THREAD = { 16, 8, 4 } -- variants of the panel kernel, for what is left of the rows

-- How the panel at `first` is factored: kernel, CTAs a matrix.
local function panel_kernel(v, first)
  local rows, best = v.M - first, nil
  if v.CAPACITY < rows then return "panel_stream", 1, 512, v.STREAM_SMEM end
  for _, rt in ipairs(ROWS_A_THREAD) do
    if v.RS * rt * v.CLUSTER >= rows then best = rt end
  end
  return "panel_" .. best, v.CLUSTER, v.THREADS, v.PANEL_SMEM
end

local function layout(shape, device, p)
  local v = { M = shape.m, N = shape.n, K = shape.k, B = p.panel, THREADS = p.threads }
  v.W = p.threads // 32
  v.LR = 32 // (p.panel // 4)
  v.RS = v.W * v.LR
  v.CLUSTER = 1
  -- A cluster shares rows that one CTA cannot hold, where there are clusters.
  while v.CLUSTER < math.min(8, device.max_cluster) and v.RS * 16 * v.CLUSTER < shape.m do v.CLUSTER = v.CLUSTER * 2 end
  v.CAPACITY = v.RS * 16 * v.CLUSTER
  v.STREAM = v.CAPACITY < shape.m
  v.ROW_OUT = shape.layout_out == "row"
  v.TERMS = p.products == "fp32" and 0 or p.products == 1 and 1 or 2
  v.STATS = v.TERMS == 1
  v.PANEL_SMEM = (2 * v.W * p.panel + 2 * v.CLUSTER * p.panel + 2 * p.panel + v.W + v.CLUSTER) * 4
  v.STREAM_SMEM = (512 + p.panel + 16) * 4
  v.PROLOGUE_SMEM = (32 * 33 + 4 * 32) * 4
  v.ASSEMBLY_SMEM = (128 + p.panel) * (p.panel + 1) * 4
  local fixed = align(p.panel * (p.panel + 1) * 4, 16) + p.panel * 68 * 4
  if v.TERMS == 0 then v.UPDATE_SMEM = fixed + (64 * (p.panel + 4) + 64 * 68) * 4
  else v.UPDATE_SMEM = fixed + (v.TERMS * 64 * (p.panel + 8) + 2 * 64 * 72) * 2 end
  return v
end

return {
  name = "blocked",
  op = "geqrf",
  summary = "any m and n: right-looking, separate panel, assembly and update launches",
  params = {
    { name = "panel", values = { 16, 32 }, default = function() return 32 end, doc = "columns of a panel" },
    { name = "threads", values = { 256, 512 }, default = function(shape) return shape.m > 512 and 512 or 256 end,
      doc = "threads of a panel's CTA; with panel 32, 256 hold 512 rows and 512 hold 1024 in registers" },
    { name = "products", values = { "fp32", 1, 3 },
      default = function(shape) return shape.precision == "fp32" and "fp32" or shape.k >= 512 and 1 or 3 end,
      doc = "trailing products: fp32 units, 1 fp16 product (two terms for tiles that need them) or 3 (fp32 level), on tensor cores" },
  },
  legal = function(shape, device, p)
    if p.products == 1 and (shape.precision == "fp32" or shape.k < 512) then
      return false, "one fp16 product breaks the contract here: products 3 or fp32 (1 is for fp16 plans with min(m, n) >= 512)"
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
    local h = function() return { pointer = "H" }, { call = "ldh" }, { call = "stride_h" } end
    local h1, h2, h3 = h()
    local exponents, dense, flags = { workspace = "exponents" }, { workspace = "dense" }, { workspace = "flags" }
    ops[1] = { op = "clear", buffer = "flags", offset = 0, bytes = "batch * 4" }
    launch("prologue", "batch * " .. ceildiv(n, 32), 256, 1, v.PROLOGUE_SMEM,
           { { pointer = "A" }, { call = "lda" }, { call = "stride_a" }, h1, h2, h3, exponents, dense, flags })
    for first = 0, shape.k - 1, b do
      local count = math.max(0, math.min(b, n - first, m - 1 - first))
      local kernel, ctas, threads, smem = panel_kernel(v, first)
      local tiles = ceildiv(n - first - b, 64)
      local chunks = ceildiv(m - first, 128)
      launch(kernel, "batch * " .. ctas, threads, ctas, smem,
             { h1, h2, h3, { workspace = "panel" }, { workspace = "panel_tau" }, { i32 = first }, { i32 = count } })
      launch("assembly", "batch * " .. chunks, 256, 1, v.ASSEMBLY_SMEM,
             { { workspace = "panel" }, { workspace = "panel_tau" }, exponents, h1, h2, h3, { pointer = "tau" }, { call = "stride_tau" },
               { workspace = "v" }, { workspace = "t" }, { i32 = first }, { i32 = chunks }, { i32 = n > first + b and 1 or 0 } })
      if n > first + b then
        launch("update", "batch * " .. tiles, 256, 1, v.UPDATE_SMEM,
               { h1, h2, h3, { workspace = "v" }, { workspace = "t" }, exponents, dense, flags, { i32 = first }, { i32 = tiles } })
      end
    end
    launch("epilogue", "ceildiv(batch, 256)", 256, 1, 0, { flags, { pointer = "info" }, { call = "batch" } })
    return {
      products = v.TERMS == 0 and "fp32" or v.TERMS == 1 and "1" or "3",
      buffers = {
        { name = "exponents", bytes = "batch * " .. n * 4 },
        { name = "dense", bytes = v.STATS and "batch * " .. n * 4 or 256 },
        { name = "flags", bytes = "batch * 4" },
        { name = "panel", bytes = "batch * " .. m * b * 4 },
        { name = "panel_tau", bytes = "batch * " .. b * 4 },
        { name = "v", bytes = "batch * " .. m * b * (v.TERMS == 0 and 4 or 2 * v.TERMS) },
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
% for _, rt in ipairs({16, 8, 4}) do
%   if true then
% include("blocks/blocked_panel.cuh", { NAME = "panel_" .. rt, RT = rt })
%   end
% end
% if STREAM then
% include("blocks/blocked_stream.cuh", { NAME = "panel_stream" })
% end
% include("blocks/blocked_assembly.cuh")
% include("blocks/blocked_update.cuh")
]==]
