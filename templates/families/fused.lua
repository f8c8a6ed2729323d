-- fused: one launch for everything. A CTA takes a matrix at a time (persistent over the batch) and walks its column blocks
-- left-looking: load block k of A, apply the finished reflectors V_0 .. V_{k-1} on the tensor cores, factor the panel, write
-- R, V and tau, keep V_k and T_k. The trailing matrix is never stored, the panel never leaves fp32, and A is read once.

local PANEL = 32
local GRAM_BYTES = 18016 -- struct gram_shared without its norms

local function products_of(shape, p)
  if p.products ~= "auto" then return p.products end
  return 3
end

-- How far tau v'v / 2 of a Gram panel may be from 1, counted by what is left of its columns, and in any case (blocks/gram_panel.cuh). It grows with
-- the square of the panel's conditioning, and the factor's error with its root: in fp32 at n = 512 a limit of 1e-10 n^2 lets 117 eps through
-- (collinear 0.1), 2e-11 n^2 at most 0.47 of the contract (29 eps, collinear 0.25 at n = 352); below 1e-11 n^2 graded rows fall back. Four eps of fp32 are
-- allowed to a few columns too: dense ones take up to two, and every kind with 9 to 64 columns stays at 0.83 of the contract.
local function limits_of(shape, k)
  local limit = math.min(math.max(5e-7, 1e-10 * k * k), math.max(1e-6, 2e-11 * k * k))
  if shape.precision == "fp16" then limit = math.min(1e-3, math.max(1e-5, 1e-9 * k * k)) end
  return limit, math.max(limit, 1e-4)
end

-- Panels of 64 columns, warpgroup products (blocks/fused_wide_kernel.cuh).
local function wide_layout(shape, device, p)
  local m, n = shape.m, shape.n
  local k, nt = math.min(m, n), ceildiv(m, 64)
  local v = { WIDE = true, M = m, N = n, K = k, W = 8, THREADS = 256, CTAS = 1, CLUSTER = 1, NT = nt, J = ceildiv(nt, 2), NP = ceildiv(n, 64),
              KP = ceildiv(k, 64), IN = shape.layout_in, OUT = shape.layout_out, RESIDENT = false }
  v.SELECT = p.products == "auto" and shape.precision == "fp16" and k >= 512
  v.PRODUCTS = p.products == "auto" and (v.SELECT and 1 or 3) or p.products
  v.PLANES = (v.SELECT or v.PRODUCTS == 3) and 2 or 1
  -- Tall panels by their whole Gram matrix (blocks/gram_whole.cuh): in fp32 plans where no column's weight is in the top block, or concentrated columns lose up to
  -- 200 eps of their 85, and where what collinear ones lose (up to 33 eps) is well within the limit.
  v.WHOLE = m >= 128 and (shape.precision == "fp16" or k > 256)
  v.WEIGH = v.WHOLE and shape.precision == "fp32"
  v.LAST = v.WHOLE and not v.WEIGH and m % 64 == 0 and k > m - 32 -- the first half of a last panel of 64 rows, too
  v.USED = math.min(v.KP, v.NP - 1)
  v.LIMIT, v.LOOSE = limits_of(shape, k)
  -- From whole Gram matrices collinear columns take 100 eps at LIMIT (1.2 of the contract; collinear 0.3 at n = 512), dense ones up to 10 at 1e-6.
  v.TALL = v.WEIGH and math.max(1.5e-6, 8e-12 * k * k) or v.LIMIT
  local tiles = 0
  for i = 0, v.KP - 1 do tiles = tiles + nt - i end
  v.V_BYTES = tiles * 8192
  v.T_BYTES = v.KP * 16384
  v.O_V = 0
  v.O_X = 2 * nt * 8192
  v.O_T = v.O_X + 65536
  v.O_TAU = v.O_T + (v.PRODUCTS == 3 and not v.WHOLE and 16384 or 32768) -- two stages of T; gram_whole takes the second
  v.O_EXP = v.O_TAU + 256
  v.O_FLAG = v.O_EXP + 256
  v.O_BAR = v.O_FLAG + 16
  v.O_GIVEN = v.O_BAR + 16 -- a barrier a warp
  v.SMEM = v.O_GIVEN + 64
  return v
end

local function layout(shape, device, p)
  if p.update == "wgmma" then return wide_layout(shape, device, p) end
  local m, n = shape.m, shape.n
  local k = math.min(m, n)
  local w = p.threads // 32
  local mt = align(m, p.method == "gram" and 32 or 16) -- the recursion reads a whole top block
  local v = { M = m, N = n, K = k, W = w, THREADS = p.threads, MT = mt, TILES = ceildiv(mt // 16, w), RS = 4 * w,
              NP = ceildiv(n, PANEL), KP = ceildiv(k, PANEL), IN = shape.layout_in, OUT = shape.layout_out, CTAS = p.ctas_per_sm,
              CLUSTER = p.ctas, PRODUCTS = products_of(shape, p), RESIDENT = p.keep == "shared" }
  -- Panels that somebody applies: all but the last, and that one too when the matrix is wider than its panels.
  v.USED = math.min(v.KP, v.NP - 1)
  v.HALVES = v.PRODUCTS == 3 and v.TILES >= 3 and p.ctas_per_sm * p.threads > 256 and 2 or 1
  v.PLANES = v.PRODUCTS == 3 and 2 or 1
  local rows = 0
  for i = 0, v.KP - 1 do rows = rows + mt - PANEL * i end
  v.V_BYTES = rows * 64                             -- all trapezoids, one plane
  v.PLANE = v.RESIDENT and v.V_BYTES or mt * 64     -- distance of the low plane in shared memory
  v.STAGES = v.RESIDENT and 1 or p.stages
  v.STAGE = v.PLANE * v.PLANES
  v.LAYERS = ceildiv(m, v.RS)
  -- Shared memory. Partial sums live while C is in registers, where the tile that C came from is idle: they overlap it, unless a tile has to
  -- last (T is formed before its block is written out); then they have a place of their own, or T's take the second stage of V, idle by then.
  local at = 0
  local function take(bytes) local o = at; at = at + align(bytes, 128); return o end
  v.OVERLAP = p.overlap == 1
  v.LASTS = v.CLUSTER > 1 or v.OVERLAP
  v.GRAM = p.method == "gram"
  v.LIMIT, v.LOOSE = limits_of(shape, k)
  -- With few rows below a top block dense panels often miss LIMIT, by less than this; what the contract allows grows with k as this does.
  v.SHORT = v.LIMIT * math.min(4, math.max(1, k / 32))
  -- From whole Gram matrices (blocks/gram_narrow.cuh) where nobody else fills the time of a panel's chain.
  v.WHOLE = v.GRAM and v.LASTS and m >= 2 * PANEL
  v.O_WS = w * 4096
  v.O_WP = v.O_WS + 32 * 36 * 4
  local shares = math.max(v.O_WP, v.WHOLE and w * 4096 + 8192 or 0) -- those of the top block apart
  local sums = align(math.max(v.O_WP + 2048 * v.PLANES, shares), 128)
  v.APART = v.LASTS and v.STAGES == 1
  v.TILE = align(math.max(mt * 36 * 4, v.APART and 0 or sums), 128)
  v.O_V = take(v.RESIDENT and v.STAGE or v.STAGE * v.STAGES)
  v.O_T = take(v.RESIDENT and v.KP * 4096 or v.STAGES * 4096)
  v.O_STEP = take(64 * (w == 4 and 4 or w + 4) * 4 + 768)
  v.O_TAU = take(2 * 32 * 4)
  v.O_SCALES = take(v.OVERLAP and 2 * 132 or 132)
  v.O_FLAG = take(32)
  v.O_READY = take(v.CLUSTER > 1 and v.KP * 20 + v.CLUSTER * 8 or 0) -- two mbarriers a panel, whether it was skipped, what the CTAs found
  v.O_FULL = take(v.CLUSTER > 1 and not v.RESIDENT and v.STAGES * 8 or 0) -- an mbarrier a stage
  v.O_SUM = v.LASTS and not v.APART and v.STAGE >= shares and v.O_V + v.STAGE or take(v.APART and sums or v.LASTS and shares or 0)
  v.RED = v.LASTS and "(float *)(smem + " .. v.O_SUM .. ")" or "tile" -- sums that are formed while the tile is filled, if it can be helped
  -- The recursion is at work when no finished panel's V has to be in shared memory, so a stage of V has room for it.
  local state = v.GRAM and GRAM_BYTES + w * 256 or 0
  v.GRAM_STATE = state
  v.O_GRAM = not v.RESIDENT and v.STAGE >= state and v.O_V or take(state)
  -- V's planes are made from the products that V2 is of: where they stay, or in the second stage, whence they leave. Then T's sums have a place of their own,
  -- or the recursion's, unless the next block's first V may come there meanwhile.
  local t_sums = 16384 + 32 * 36 * 4
  local room = not v.OVERLAP and v.STAGE >= t_sums or v.OVERLAP and at + t_sums + 2 * v.TILE <= device.smem_optin
  v.DIRECT = v.GRAM and device.arch >= 90 and (v.RESIDENT or v.CLUSTER > 1 and v.STAGES == 2 and v.O_GRAM == v.O_V and room)
  -- V'V is formed while it is decided whether V is good, where its sums have a place of their own (with V in scratch it loses more in blocks that wait for nobody).
  v.EARLY = v.DIRECT and v.OVERLAP and w == 8 and v.RESIDENT
  v.T_RED = v.RED
  if v.DIRECT and not v.RESIDENT then v.T_RED = "(float *)(smem + " .. (v.OVERLAP and take(t_sums) or v.O_GRAM) .. ")" end
  v.T_BYTES = v.KP * 4096
  v.O_TILE = at
  -- A second tile, for the next block of A to arrive in, where there is room for it.
  v.TILES2 = at + 2 * v.TILE <= math.min(device.smem_optin, device.smem_sm // p.ctas_per_sm - 1024)
  v.SMEM = at + (v.TILES2 and 2 or 1) * v.TILE
  -- A batch that leaves SMs idle lets the next launch start there.
  v.ROOM = device.arch >= 90 and not shape.batch_invariant and shape.max_batch * p.ctas < device.sms
  return v
end

-- Alone on its SM: batches that leave no second matrix for it.
local function alone(shape, device) return not shape.batch_invariant and shape.max_batch <= device.sms end

-- Batches that leave half of the SMs idle. (Three CTAs are placed as if they were four: 30 clusters on 132 SMs.)
local function shared(shape, device)
  return alone(shape, device) and 2 * shape.max_batch <= device.sms and device.max_cluster >= 2 and shape.n > 64
end

-- A column of rows costs 900 cycles and more with the height, one of the Gram recursion 300; with 512 threads its product spills.
local function method_of(shape) return shape.m <= 512 and "gram" or "rows" end
local function threads_of(shape, device) return shape.m > 512 and 512 or shape.m <= 256 and not alone(shape, device) and 128 or 256 end

-- Where warpgroup products win: a matrix a CTA, one CTA an SM, and much to do. Measured at 256, 300, 320, 352, 384, 448 and 512 for batches of 1 to 640; two
-- CTAs that share a matrix are faster than they with three products, and slower with one (512 columns in fp16 plans).
local function wide(shape, device)
  local one = shape.precision == "fp16" and math.min(shape.m, shape.n) >= 512
  return device.arch == 90 and shape.m > (alone(shape, device) and 352 or 300) and shape.m <= 512 and shape.n > 256 and (one or not shared(shape, device))
end

local function registers(v)
  if v.WIDE then return 255 end
  -- Where the panels are by recursion, rows are only what they fall back to: a few spills there do no harm.
  return math.max(16 * v.TILES + 32 + 32, v.LAYERS * (v.GRAM and 5 or 6) + 45)
end

-- CTAs an SM, where V stays, its stages, CTAs a matrix: the first that fits. Without neighbours on its SM a CTA may take all of the shared
-- memory.
local function choice(shape, device)
  if wide(shape, device) then return 1, "scratch", 1, 1 end
  local single = alone(shape, device)
  local share = shared(shape, device) and 2 or 1
  local tries = { { "shared", 1 }, { "scratch", 2 }, { "scratch", 1 } }
  for ctas = (single or shape.m > 512) and 1 or 3, 1, -1 do
    for _, t in ipairs(tries) do
      local p = { update = "mma", threads = threads_of(shape, device), method = method_of(shape), products = "auto", ctas_per_sm = ctas, keep = t[1],
                  stages = t[2], ctas = share, overlap = 0 }
      local v = layout(shape, device, p)
      if v.SMEM <= device.smem_optin and (v.SMEM + 1024) * ctas <= device.smem_sm and registers(v) * p.threads * ctas <= 65536 then
        return ctas, t[1], t[2], share
      end
    end
  end
  return 1, "scratch", 1, share
end

-- Where a CTA is alone on its SM nobody else fills the time of the warps that a recursion leaves idle.
local function overlap_of(shape, device, asked)
  if asked.update ~= "mma" or asked.method ~= "gram" or asked.threads ~= 256 or not alone(shape, device) or shape.n <= 32 then return 0 end
  local ctas, keep, stages = choice(shape, device)
  local v = layout(shape, device, { update = "mma", threads = 256, method = "gram", products = "auto", ctas_per_sm = ctas, keep = keep,
                                    stages = stages, ctas = asked.ctas, overlap = 1 })
  return v.TILES2 and v.SMEM <= device.smem_optin and 1 or 0
end

return {
  name = "fused", op = "geqrf",
  summary = "one launch, a CTA a matrix, left-looking: earlier reflectors on tensor cores, row panels in registers",
  params = {
    { name = "update", values = { "mma", "wgmma" },
      doc = "mma: panels of 32, warp products, several CTAs an SM; wgmma: panels of 64 from Gram matrices, warpgroup products, one CTA an SM (sm_90)",
      default = function(shape, device)
        return wide(shape, device) and "wgmma" or "mma"
      end },
    { name = "threads", values = { 128, 256, 512 }, doc = "threads of a CTA",
      default = threads_of },
    { name = "method", values = { "rows", "gram" },
      doc = "panels: rows in registers, one reduction a column; or from Gram matrices, which fall back to rows where that is not safe",
      default = method_of },
    { name = "products", values = { "auto", 1, 3 },
      doc = "fp16 products an update is formed of: 1, or 3 with both factors split (fp32 level); auto: what the precision asks for",
      default = function() return "auto" end },
    { name = "ctas", values = { 1, 2, 4, 8 }, doc = "CTAs of the cluster that shares a matrix, each taking every so many-th block of columns (update = mma; wgmma has one)",
      default = function(shape, device) return (select(4, choice(shape, device))) end },
    { name = "overlap", values = { 0, 1 },
      doc = "1: while four warps factor a panel the others load the next block and scale it, and while four make T they write this one out (method = gram, room for two tiles)",
      default = overlap_of },
    { name = "ctas_per_sm", values = { 1, 2, 3, 4 }, doc = "CTAs meant to share an SM: bounds registers and the grid",
      default = function(shape, device) return (choice(shape, device)) end },
    { name = "keep", values = { "shared", "scratch" }, doc = "where V and T of finished panels stay: shared memory, or global scratch (L2)",
      default = function(shape, device) return (select(2, choice(shape, device))) end },
    { name = "stages", values = { 1, 2 }, doc = "V buffers in shared memory when V stays in scratch",
      default = function(shape, device) return (select(3, choice(shape, device))) end },
  },
  legal = function(shape, device, p)
    if shape.m < 1 or shape.n < 1 then return false, "an empty matrix has nothing to factor" end
    if p.products == 1 and (shape.precision == "fp32" or shape.k < 512) then
      return false, "products = 1 breaks the precision contract of this shape: take 3 or \"auto\" (1 is for fp16 plans, min(m, n) >= 512)"
    end
    if p.update == "wgmma" then
      if device.arch ~= 90 then return false, "wgmma is sm_90's: update = mma" end
      if shape.m > 512 then return false, "wgmma holds at most 512 rows: update = mma" end
      if shape.n > 2048 then return false, "at most 32 panels of 64 columns" end
      return true
    end
    if p.ctas > device.max_cluster or p.ctas > device.sms then return false, "the device has no clusters of that size: ctas = 1" end
    if p.ctas > ceildiv(shape.n, 32) then return false, "more CTAs than blocks of 32 columns: lower ctas" end
    if math.min(shape.m, shape.n) > 1024 then return false, "fused walks at most 32 panels" end
    local v = layout(shape, device, p)
    if p.overlap == 1 then
      if p.method ~= "gram" then return false, "nobody is idle in a panel by rows: method = gram, or overlap = 0" end
      if p.threads < 256 then return false, "four warps alone run the recursion: threads = 256, or overlap = 0" end
      if not v.TILES2 then return false, "shared memory has no room for a second tile: overlap = 0" end
    end
    if v.TILES > 4 then return false, "at most 64 rows a warp: use more threads" end
    if v.SMEM > device.smem_optin then return false, "shared memory does not suffice: keep = scratch, or fewer stages" end
    if (v.SMEM + 1024) * p.ctas_per_sm > device.smem_sm then -- the driver keeps 1 KB a CTA
      return false, "so many CTAs do not fit an SM's shared memory: lower ctas_per_sm" end
    if registers(v) * p.threads * p.ctas_per_sm > 65536 then return false, "so many CTAs do not fit an SM's registers: lower ctas_per_sm" end
    return true
  end,
  -- Columns of a few rows: what the split products lose is not averaged over many, and in fp32 plans collinear ones miss the contract by a quarter (one matrix in 200 at most).
  rank = function(shape, device) return shape.precision == "fp32" and shape.m < 16 and shape.n > 32 and 0.5 or 20 end,
  resources = function(shape, device, p)
    local v = layout(shape, device, p)
    return { threads = v.THREADS, smem = v.SMEM, registers = registers(v),
             l2 = v.RESIDENT and 0 or device.sms * p.ctas_per_sm // p.ctas * (v.V_BYTES * v.PLANES + v.T_BYTES) }
  end,
  vars = function(shape, device, p) return layout(shape, device, p) end,
  program = function(shape, device, p, v)
    local ctas = "min(batch, sms * " .. v.CTAS .. (v.CLUSTER > 1 and " / " .. v.CLUSTER or "") .. ")"
    local each = v.RESIDENT and 0 or v.V_BYTES * v.PLANES
    local buffers = { { name = "V", bytes = ctas .. " * " .. each }, { name = "T", bytes = ctas .. " * " .. (v.RESIDENT and 0 or v.T_BYTES) } }
    local args = { { pointer = "A" }, { call = "lda" }, { call = "stride_a" }, { pointer = "H" }, { call = "ldh" }, { call = "stride_h" },
                   { pointer = "tau" }, { call = "stride_tau" }, { pointer = "info" }, { call = "batch" }, { workspace = "V" }, { workspace = "T" } }
    local ops = {}
    if v.WIDE then
      buffers[3], args[#args + 1] = { name = "tickets", bytes = 4 }, { workspace = "tickets" }
      ops[1] = { op = "clear", buffer = "tickets", offset = 0, bytes = 4 }
    end
    ops[#ops + 1] = { op = "launch", kernel = "fused", grid = { v.CLUSTER > 1 and v.CLUSTER .. " * " .. ctas or ctas, 1, 1 }, block = v.THREADS,
                      cluster = v.CLUSTER, smem = v.SMEM, cooperative = false, early = v.ROOM == true, args = args }
    return { products = v.SELECT and "1" or tostring(v.PRODUCTS), buffers = buffers, ops = ops }
  end,
}
--[==[ source
#include "device/core.cuh"
#include "device/math.cuh"
#include "device/warp.cuh"
#include "device/block.cuh"
#include "device/mma.cuh"
#include "device/copy.cuh"
#include "device/launch.cuh"
% if WIDE then
#include "device/flag.cuh"
#include "device/wgmma.cuh"
#include "device/stmatrix.cuh"
% end
% if DIRECT then
#include "device/stmatrix.cuh"
% end
% if CLUSTER > 1 then
#include "device/cluster.cuh"
% end

using namespace qrs;

% include("blocks/pack_reflector.cuh")
% if WIDE then
% include("blocks/fused_wide.cuh")
% include("blocks/gram_recursion.cuh", { B = 32, ROLLED = WHOLE, NC = 2, LD = 68, LDM = 68 })
% include("blocks/gram_small.cuh", { NC = 2 })
% include("blocks/t_small.cuh", { LDG = 68, LDT = 68 })
% if WHOLE then
% include("blocks/gram_whole.cuh", { LD = 68, LDM = 68, LEAST = "1e-6" })
% end
% include("blocks/gram_pair.cuh")
% include("blocks/fused_wide_panel.cuh")
% include("blocks/fused_wide_kernel.cuh")
% else
% include("blocks/fused_load.cuh")
% include("blocks/fused_out.cuh")
% include("blocks/fused_apply.cuh")
% include("blocks/gram_small.cuh", { NC = 1 })
% include("blocks/t_blocks.cuh", { LDG = 36, LDT = 36 })
% include("blocks/fused_t.cuh")
% include("blocks/fused_rows.cuh")
% if GRAM then
% include("blocks/gram_recursion.cuh", { B = 32, ROLLED = false, NC = 1, LD = 36, LDM = 40 })
% if WHOLE then
% include("blocks/gram_narrow.cuh", { LD = 36, LDM = 40, LEAST = "1e-6", WHOLE = false })
% end
% include("blocks/gram_panel.cuh")
% end

% include("blocks/fused_walk.cuh")
% include("blocks/fused_narrow_kernel.cuh")
% end
]==]
