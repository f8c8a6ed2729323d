-- fused: one launch for everything. A CTA takes a matrix at a time (persistent over the batch) and walks its column blocks
-- left-looking: load block k of A, apply the finished reflectors V_0 .. V_{k-1} on the tensor cores, factor the panel, write
-- R, V and tau, keep V_k and T_k. The trailing matrix is never stored, the panel never leaves fp32, and A is read once.

local PANEL = 32
local GRAM_BYTES = 16976 -- struct gram_shared without its norms

local function products_of(shape, p)
  if p.products ~= "auto" then return tonumber(p.products) end
  return 3
end

-- Panels of 64 columns, warpgroup products (blocks/fused_wide_kernel.cuh).
local function wide_layout(shape, device, p)
  local m, n = shape.m, shape.n
  local k, nt = math.min(m, n), ceildiv(m, 64)
  local v = { WIDE = true, M = m, N = n, K = k, W = 8, THREADS = 256, CTAS = 1, NT = nt, J = ceildiv(nt, 2), NP = ceildiv(n, 64),
              KP = ceildiv(k, 64), IN = shape.layout_in, OUT = shape.layout_out, RESIDENT = false }
  v.SELECT = p.products == "auto" and shape.precision == "fp16" and k >= 512
  v.PRODUCTS = p.products == "auto" and (v.SELECT and 1 or 3) or tonumber(p.products)
  v.PLANES = (v.SELECT or v.PRODUCTS == 3) and 2 or 1
  v.USED = math.min(v.KP, v.NP - 1)
  v.LIMIT = shape.precision == "fp16" and math.min(1e-3, 1e-9 * k * k) or 1e-10 * k * k
  local tiles = 0
  for i = 0, v.KP - 1 do tiles = tiles + nt - i end
  v.V_BYTES = tiles * 8192
  v.T_BYTES = v.KP * 16384
  v.O_V = 0
  v.O_X = 2 * nt * 8192
  v.O_T = v.O_X + 65536
  v.O_TAU = v.O_T + (v.PRODUCTS == 3 and 16384 or 32768)
  v.O_SEEN = v.O_TAU + 256
  v.O_EXP = v.O_SEEN + 32
  v.O_FLAG = v.O_EXP + 256
  v.O_BAR = v.O_FLAG + 16
  v.SMEM = v.O_BAR + 16
  return v
end

local function layout(shape, device, p)
  if p.update == "wgmma" then return wide_layout(shape, device, p) end
  local m, n = shape.m, shape.n
  local k = math.min(m, n)
  local w = p.threads // 32
  local mt = align(m, 16)
  local v = { M = m, N = n, K = k, W = w, THREADS = p.threads, MT = mt, TILES = ceildiv(mt // 16, w), RS = 4 * w,
              NP = ceildiv(n, PANEL), KP = ceildiv(k, PANEL), IN = shape.layout_in, OUT = shape.layout_out, CTAS = p.ctas_per_sm,
              PRODUCTS = products_of(shape, p), RESIDENT = p.keep == "shared" }
  -- Panels that somebody applies: all but the last, and that one too when the matrix is wider than its panels.
  v.USED = math.min(v.KP, v.NP - 1)
  v.HALVES = v.PRODUCTS == 3 and v.TILES == 4 and p.ctas_per_sm * p.threads > 256 and 2 or 1
  v.PLANES = v.PRODUCTS == 3 and 2 or 1
  local rows = 0
  for i = 0, v.KP - 1 do rows = rows + mt - PANEL * i end
  v.V_BYTES = rows * 64                             -- all trapezoids, one plane
  v.PLANE = v.RESIDENT and v.V_BYTES or mt * 64     -- distance of the low plane in shared memory
  v.STAGES = v.RESIDENT and 1 or p.stages
  v.STAGE = v.PLANE * v.PLANES
  -- Shared memory. The fp32 panel lives between the last update and the panel's load into registers, when neither partial
  -- sums nor staged V are live: it overlaps them.
  local at = 0
  local function take(bytes) local o = at; at = at + align(bytes, 128); return o end
  v.O_V = take(v.RESIDENT and v.STAGE or 0)
  v.O_PANEL = at
  if not v.RESIDENT then v.O_V = take(v.STAGE * v.STAGES) end
  v.O_RED = take(w * 4096)
  v.O_WS = take(32 * 36 * 4)
  v.O_WP = take(2048 * v.PLANES)
  at = math.max(at, align(v.O_PANEL + mt * 36 * 4, 128))
  v.O_T = take(v.RESIDENT and v.KP * 4096 or 4096)
  v.O_PART = take(2 * w * 32 * 4)
  v.O_PIVOT = take(2 * 32 * 4)
  v.O_TAU = take(32 * 4)
  v.O_MAX = take(w * 32 * 4)
  v.O_EXP = take(32 * 4)
  v.O_FLAG = take(32)
  v.GRAM = p.method == "gram"
  v.LIMIT = shape.precision == "fp16" and math.min(1e-3, 1e-9 * k * k) or 1e-10 * k * k
  v.O_GRAM = take(v.GRAM and GRAM_BYTES + w * 128 or 0)
  v.T_BYTES = v.KP * 4096
  v.SMEM = at
  -- Instances of the row panel: quarters of the height, as the work shrinks with every panel.
  local layers, list = ceildiv(m, v.RS), {}
  for q = 4, 1, -1 do
    local c = ceildiv(layers * q, 4)
    if p.method == "gram" and q > 1 and q < 4 then c = layers end -- rows are the fall-back, and the last two panels
    if #list == 0 or list[#list] ~= c then list[#list + 1] = c end
  end
  v.INSTANCES = list
  return v
end

local function registers(v)
  if v.WIDE then return 255 end
  return math.max(16 * v.TILES + 32 + 32, v.INSTANCES[1] * 5 + 40)
end

return {
  name = "fused", op = "geqrf",
  summary = "one launch, a CTA a matrix, left-looking: earlier reflectors on tensor cores, row panels in registers",
  params = {
    { name = "update", values = { "mma", "wgmma" },
      doc = "mma: panels of 32, warp products, several CTAs an SM; wgmma: panels of 64 by the Gram recursion, warpgroup products, one CTA an SM (sm_90)",
      default = function(shape, device)
        return device.arch == 90 and shape.m > 384 and shape.m <= 512 and shape.n > 256 and "wgmma" or "mma"
      end },
    { name = "threads", values = { 128, 256, 512 }, doc = "threads of a CTA",
      default = function(shape) return shape.m > 512 and 512 or 256 end },
    { name = "method", values = { "rows", "gram" },
      doc = "panels: rows in registers, one reduction a column; or the Gram recursion, which falls back to rows where it is not safe",
      -- A column of rows grows with the height, one of the Gram recursion does not: they meet at about 220 rows.
      default = function(shape) return shape.m >= 224 and "gram" or "rows" end },
    { name = "products", values = { "auto", "1", "3" },
      doc = "fp16 products an update is formed of: 1, or 3 with both factors split (fp32 level); auto: what the precision asks for",
      default = function() return "auto" end },
    { name = "ctas_per_sm", values = { 1, 2, 3, 4 }, doc = "CTAs meant to share an SM: bounds registers and the grid",
      default = function(shape, device)
        if not shape.batch_invariant and shape.max_batch <= device.sms then return 1 end
        return shape.m > 512 and 1 or 2
      end },
    { name = "keep", values = { "shared", "scratch" }, doc = "where V and T of finished panels stay: shared memory, or global scratch (L2)",
      default = function(shape, device)
        local k, rows = math.min(shape.m, shape.n), 0
        for i = 0, ceildiv(k, PANEL) - 1 do rows = rows + align(shape.m, 16) - PANEL * i end
        local alone = not shape.batch_invariant and shape.max_batch <= device.sms
        local bytes = rows * 128 + ceildiv(k, PANEL) * 4096 + math.max(46 * 1024, shape.m * 144) + 8192
        return bytes <= (alone and device.smem_optin or device.smem_sm // 2 - 2048) and "shared" or "scratch"
      end },
    { name = "stages", values = { 1, 2 }, doc = "V buffers in shared memory when V stays in scratch",
      default = function(shape) return shape.m <= 256 and 2 or 1 end },
  },
  legal = function(shape, device, p)
    if shape.m < 1 or shape.n < 1 then return false, "an empty matrix has nothing to factor" end
    if p.update == "wgmma" then
      if device.arch ~= 90 then return false, "wgmma is sm_90's: update = mma" end
      if shape.m > 512 then return false, "wgmma holds at most 512 rows: update = mma" end
      if shape.n > 2048 then return false, "at most 32 panels of 64 columns" end
      return true
    end
    if math.min(shape.m, shape.n) > 1024 then return false, "fused walks at most 32 panels" end
    local v = layout(shape, device, p)
    if v.TILES > 4 then return false, "at most 64 rows a warp: use more threads" end
    if v.SMEM > device.smem_optin then return false, "shared memory does not suffice: keep = scratch, or fewer stages" end
    if (v.SMEM + 1024) * p.ctas_per_sm > device.smem_sm then -- the driver keeps 1 KB a CTA
      return false, "so many CTAs do not fit an SM's shared memory: lower ctas_per_sm" end
    if registers(v) * p.threads * p.ctas_per_sm > 65536 then return false, "so many CTAs do not fit an SM's registers: lower ctas_per_sm" end
    return true
  end,
  rank = function(shape, device) return 20 end,
  resources = function(shape, device, p)
    local v = layout(shape, device, p)
    return { threads = v.THREADS, smem = v.SMEM, registers = registers(v),
             l2 = v.RESIDENT and 0 or device.sms * p.ctas_per_sm * (v.V_BYTES * v.PLANES + v.T_BYTES) }
  end,
  vars = function(shape, device, p) return layout(shape, device, p) end,
  program = function(shape, device, p, v)
    local ctas = "min(batch, sms * " .. v.CTAS .. ")"
    local each = v.RESIDENT and 0 or v.V_BYTES * v.PLANES
    return {
      products = v.SELECT and "1" or tostring(v.PRODUCTS),
      buffers = { { name = "V", bytes = ctas .. " * " .. each }, { name = "T", bytes = ctas .. " * " .. (v.RESIDENT and 0 or v.T_BYTES) } },
      ops = { { op = "launch", kernel = "fused", grid = { ctas, 1, 1 }, block = v.THREADS, cluster = 1, smem = v.SMEM, cooperative = false,
                args = { { pointer = "A" }, { call = "lda" }, { call = "stride_a" }, { pointer = "H" }, { call = "ldh" },
                         { call = "stride_h" }, { pointer = "tau" }, { call = "stride_tau" }, { pointer = "info" }, { call = "batch" },
                         { workspace = "V" }, { workspace = "T" } } } },
    }
  end,
}
--[==[ source
#include "device/core.cuh"
#include "device/math.cuh"
#include "device/warp.cuh"
#include "device/block.cuh"
#include "device/mma.cuh"
#include "device/copy.cuh"
% if WIDE then
#include "device/wgmma.cuh"
#include "device/stmatrix.cuh"
% end

using namespace qrs;

% include("blocks/pack_reflector.cuh")
% if WIDE then
% include("blocks/fused_wide.cuh")
% include("blocks/gram_recursion.cuh", { B = 32, NC = 2, LD = 68, LDM = 68 })
% include("blocks/gram_small.cuh", { NC = 2 })
% include("blocks/gram_pair.cuh")
% include("blocks/fused_wide_panel.cuh")
% include("blocks/fused_wide_kernel.cuh")
% else
% include("blocks/fused_load.cuh")
% include("blocks/fused_apply.cuh")
% include("blocks/fused_t.cuh")
% include("blocks/fused_rows.cuh")
% if GRAM then
% include("blocks/gram_recursion.cuh", { B = 32, NC = 1, LD = 36, LDM = 40 })
% include("blocks/gram_small.cuh", { NC = 1 })
% include("blocks/gram_panel.cuh")
% end

// Byte offset of panel p's trapezoid among those before it (one plane).
QRS_DEV int fused_trapezoid(int p) { return (p * ${MT} - 16 * p * (p - 1)) * 64; }

// The first panel from p on that was not skipped, `end` when there is none.
QRS_DEV int fused_next(const u32 *zero, int p, int end)
{
    while (p < end && (*zero >> p & 1))
        p++;
    return p;
}

% if not RESIDENT then
// Starts the copy of panel p's V from scratch into a stage.
QRS_DEV void fused_fetch(saddr stage, const u8 *scratch, int p)
{
    const u8 *from = scratch + fused_trapezoid(p);
    for (int i = 16 * (int)threadIdx.x; i < (${MT} - 32 * p) * 64; i += ${16 * THREADS}) {
        cp_async16(stage + i, from + i);
% if PRODUCTS == 3 then
        cp_async16(stage + ${PLANE} + i, from + ${V_BYTES} + i);
% end
    }
}
QRS_DEV void fused_fetch_t(saddr to, const float *from)
{
    for (int i = (int)threadIdx.x; i < 256; i += ${THREADS})
        cp_async16(to + 16 * i, from + 4 * i);
}
% end

QRS_KERNEL(fused, ${THREADS}, ${CTAS})(const float *a, i64 lda, i64 stride_a, float *h, i64 ldh, i64 stride_h, float *tau,
                                       i64 stride_tau, int *info, i64 batch, u8 *v_scratch, float *t_scratch)
{
    u8 *smem = dynamic_smem();
    float *panel = (float *)(smem + ${O_PANEL}), *red = (float *)(smem + ${O_RED}), *ws = (float *)(smem + ${O_WS});
    float *t = (float *)(smem + ${O_T}), *part = (float *)(smem + ${O_PART}), *pivot = (float *)(smem + ${O_PIVOT});
    float *stau = (float *)(smem + ${O_TAU}), *largest = (float *)(smem + ${O_MAX});
    int *exponent = (int *)(smem + ${O_EXP}), *bad = (int *)(smem + ${O_FLAG});
    u32 *zero = (u32 *)(bad + 1); // bit p: panel p was zero throughout, so it has no reflectors
    // Pitches are read anew for every panel: kept in registers they would be multiplied by every row number in advance.
    i64 *pitch = (i64 *)(bad + 4);
    u8 *wp = smem + ${O_WP};
    const saddr sv = to_saddr(smem + ${O_V});
    const int tid = (int)threadIdx.x;
% if not RESIDENT then
    v_scratch += (i64)blockIdx.x * ${V_BYTES * PLANES};
    t_scratch += (i64)blockIdx.x * ${KP * 1024};
% end

    #pragma unroll 1
    for (i64 b = blockIdx.x; b < batch; b += gridDim.x) {
        const float *ab = a + b * stride_a;
        float *hb = h + b * stride_h;
        if (tid == 0) {
            bad[0] = bad[2] = 0;
            *zero = 0;
            pitch[0] = lda;
            pitch[1] = ldh;
        }
        block_sync();
        #pragma unroll 1
        for (int k = 0; k < ${NP}; k++) {
            fused_tile c;
            const int first = 32 * k, active = k < ${KP} ? first : ${MT}, done = k < ${KP} ? k : ${KP};
            const bool filled = fused_load(c, ab, pitch[0], first, largest, bad, exponent);
            if (filled) {
% if RESIDENT then
                #pragma unroll 1
                for (int p = fused_next(zero, 0, done); p < done; p = fused_next(zero, p + 1, done))
                    fused_apply(c, p, sv + fused_trapezoid(p), red, ws, wp, t + p * 1024);
% else
                // Stages take turns; the next panel's V is on its way while this one is applied.
                int p = fused_next(zero, 0, done)${STAGES == 2 and ", stage = 0" or ""};
                if (p < done) {
                    fused_fetch(sv, v_scratch, p);
                    fused_fetch_t(to_saddr(t), t_scratch + p * 1024);
                    cp_async_commit();
                }
                #pragma unroll 1
                while (p < done) {
                    const int next = fused_next(zero, p + 1, done);
                    cp_async_wait<0>();
                    block_sync();
% if STAGES == 2 then
                    if (next < done)
                        fused_fetch(sv + (stage ^ 1) * ${STAGE}, v_scratch, next);
% end
                    fused_apply(c, p, sv${STAGES == 2 and " + stage * " .. STAGE or ""}, red, ws, wp, t);
                    // Everybody is past reading T: a synchronisation lies between.
% if STAGES == 1 then
                    block_sync();
                    if (next < done)
                        fused_fetch(sv, v_scratch, next);
% else
                    stage ^= 1;
% end
                    if (next < done) {
                        fused_fetch_t(to_saddr(t), t_scratch + next * 1024);
                        cp_async_commit();
                    }
                    p = next;
                }
% end
            } else if (k < ${KP}) {
                if (tid == 0)
                    *zero |= 1u << k;
                if (tid < 32)
                    stau[tid] = 0.0f;
            }
% if GRAM then
            // The last square block and short panels go by rows.
            const bool gram = filled && first + 64 <= ${K};
            gram_shared *gs = (gram_shared *)(smem + ${O_GRAM});
            if (gram) {
                gram_product(c, 2 * k + 2, red);
                block_sync();
                gram_total(red, gs->gram);
            }
% end
            block_sync();
            // A zero block stays zero under any reflector: written as it is.
            fused_spill(c, hb, pitch[1], first, filled ? active : ${MT}, panel, exponent);
            block_sync();
            if (k < ${KP}) {
                if (filled) {
                    const int rows = ${M} - first;
                    u8 *v = smem + ${O_V}${RESIDENT and " + fused_trapezoid(k)" or ""};
% if GRAM then
                    const bool done_by_gram = gram && gram_panel(panel, first, exponent, hb, pitch[1], gs, stau, v);
                    if (gram && !done_by_gram && tid == 0)
                        bad[2] = 2;
                    if (done_by_gram) {
                    } else
% end
% for i = #INSTANCES, 1, -1 do
                    ${i == #INSTANCES and "" or "else "}${i > 1 and "if (rows <= " .. INSTANCES[i] * RS .. ")" or ""}
                        fused_rows<${INSTANCES[i]}>(panel, first, exponent, hb, pitch[1], part, pivot, stau, v);
% end
                    block_sync();
                    if (k < ${USED}) {
                        const saddr vs = sv${RESIDENT and " + fused_trapezoid(k)" or ""};
                        float *tk = t${RESIDENT and " + k * 1024" or ""};
                        fused_build_t(k, vs, red, ws, stau, tk);
% if not RESIDENT then
                        u8 *to = v_scratch + fused_trapezoid(k);
                        for (int i = 16 * tid; i < (${MT} - first) * 64; i += ${16 * THREADS}) {
                            *(f32x4 *)(to + i) = *(const f32x4 *)(v + i);
% if PRODUCTS == 3 then
                            *(f32x4 *)(to + ${V_BYTES} + i) = *(const f32x4 *)(v + ${PLANE} + i);
% end
                        }
                        for (int i = tid; i < 1024; i += ${THREADS})
                            t_scratch[k * 1024 + i] = t[i];
                        block_sync();
% end
                    }
                }
                if (tid < 32 && first + tid < ${K})
                    tau[b * stride_tau + first + tid] = stau[tid];
            }
        }
        if (info && tid == 0)
            info[b] = bad[0] | bad[2];
        block_sync();
    }
}
QRS_ENTRY(fused)
% end
]==]
