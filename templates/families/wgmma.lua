-- One CTA a matrix, persistent over the batch: left-looking, 64-column Gram panels, updates by warpgroup products.
--
-- The panel of 64 columns lives transposed in the accumulators of two warpgroups (64-row blocks alternate between them), so that
-- W' = C' V takes C straight from registers and V from one swizzled tile in shared memory that serves both phases. V and T of
-- finished panels wait in a scratch of the resident CTA (it stays in L2) and come back by bulk copies.

local function blocks_of(rows) return ceildiv(rows, 64) end

local LIMIT = 512

local function layout(shape, p)
  local v = {}
  v.M, v.N, v.LD = shape.m, shape.n, 68
  v.MB, v.NB = blocks_of(shape.m), blocks_of(shape.n)
  v.KR = math.min(shape.n, shape.m - 1)         -- reflectors whose tail is not empty
  v.KB = ceildiv(v.KR, 64)
  v.JB = ceildiv(v.MB, 2)                       -- row blocks a warpgroup owns
  v.TERMS = p.products == 1 and 1 or 2          -- fp16 terms that V and T are kept in
  v.SLOT = v.MB * 8192 * v.TERMS
  v.T_SLOT = 8192 * v.TERMS
  local panel = v.MB * 16384                    -- P in two fp16 terms, or in fp32 for the fall-back
  local small = 34816 + 17408 + 2 * v.T_SLOT + 12288
  v.STAGES = (math.max(2 * v.SLOT, panel) + small <= 231000) and 2 or 1
  v.O_X = math.max(v.STAGES * v.SLOT, panel)
  v.O_XM = v.O_X + 34816
  v.O_T = v.O_XM + 17408
  v.O_SMALL = v.O_T + math.max(v.STAGES * v.T_SLOT, 17408)
  v.SMEM = v.O_SMALL + 12288
  v.V_BYTES = v.KB * v.SLOT                     -- scratch of a CTA
  v.T_BYTES = v.KB * v.T_SLOT + v.KB * 256
  -- Loss of orthogonality that the Gram recursion may cause before the panel is redone by rows.
  local n = math.max(v.KR, 64)
  v.LIMIT_DEVIATION = shape.precision == "fp16" and math.min(1e-3, 1e-9 * n * n) or 1e-10 * n * n
  return v
end

return {
  name = "wgmma",
  op = "geqrf",
  summary = "one persistent CTA a matrix, up to 512 x 512: Gram panels of 64 columns, wgmma updates (Hopper)",
  params = {
    { name = "products", values = { 1, 3 },
      default = function(shape) return (shape.precision == "fp16" and shape.k >= 512) and 1 or 3 end,
      doc = "fp16 products of an update: 1 rounds V, C and W' once (two terms of C and W' for panels that need them); 3 keeps fp32 level" },
  },
  legal = function(shape, device, p)
    if device.arch ~= 90 then return false, "wgmma needs sm_90 (Hopper); this device is sm_" .. device.arch end
    if shape.m > LIMIT or shape.n > LIMIT then return false, "the panel does not fit one SM: at most 512 rows and 512 columns" end
    if shape.m < 65 or shape.n < 65 then return false, "too small for 64-column panels: at least 65 rows and columns (see family pack)" end
    if p.products == 1 and (shape.precision == "fp32" or shape.k < 512) then
      return false, "one fp16 product breaks the contract here: products 3 (1 is for fp16 plans with min(m, n) >= 512)"
    end
    return true
  end,
  rank = function(shape) return shape.k > 400 and 30 or 5 end,
  resources = function(shape, device, p)
    local v = layout(shape, p)
    return { threads = 256, smem = v.SMEM, registers = 255, l2 = device.sms * (v.V_BYTES + v.T_BYTES) }
  end,
  vars = function(shape, device, p) return layout(shape, p) end,
  program = function(shape, device, p, v)
    local ctas = "min(batch, sms)"
    return {
      products = p.products == 1 and "1" or "3",
      buffers = {
        { name = "v", bytes = ctas .. " * " .. v.V_BYTES },
        { name = "t", bytes = ctas .. " * " .. v.T_BYTES },
      },
      ops = {
        { op = "launch", kernel = "geqrf", grid = { ctas, 1, 1 }, block = 256, cluster = 1, smem = v.SMEM, cooperative = false,
          args = { { pointer = "A" }, { call = "lda" }, { call = "stride_a" }, { pointer = "H" }, { call = "ldh" },
                   { call = "stride_h" }, { pointer = "tau" }, { call = "stride_tau" }, { pointer = "info" },
                   { workspace = "v" }, { workspace = "t" }, { call = "batch" } } },
      },
    }
  end,
}
--[==[ source
#include "device/core.cuh"
#include "device/math.cuh"
#include "device/warp.cuh"
#include "device/block.cuh"
#include "device/copy.cuh"
#include "device/wgmma.cuh"
using namespace qrs;

// A value that the compiler may not know more about: stops it from keeping hundreds of addresses across the panel loop.
template <class T> QRS_DEV T fresh(T x) {
#ifndef QRS_HOST
    if constexpr (sizeof(T) == 8) asm volatile("" : "+l"(x));
    else asm volatile("" : "+r"(x));
#endif
    return x;
}

% include("blocks/wgmma_panel.cuh", { LD = LD })
% include("blocks/wgmma_rows.cuh", {})

// Sizes: an M x N matrix in MB x NB blocks of 64; KR reflectors in KB panels.
constexpr int M = ${M}, N = ${N}, MB = ${MB}, NB = ${NB}, KR = ${KR}, KB = ${KB}, JB = ${JB};
constexpr int TERMS = ${TERMS}, STAGES = ${STAGES}, SLOT = ${SLOT}, T_SLOT = ${T_SLOT}, LD = ${LD};
constexpr int BLOCK = 8192; // bytes of a 64 x 64 fp16 tile, 128-byte rows, 128-byte swizzle
// Calls visit(j, i, row, column, offset) for the entries that this thread holds of the 64-column panel at first_column: entry
// C[j][i] of the accumulators is (row, column) of the matrix, `offset` elements from its start. The offset runs along, so that
// a handful of registers serves all entries.
template <class F> QRS_DEV void panel_entries(int wg, int q, int c0, int first_column, i64 row_stride, i64 column_stride, F visit) {
    i64 offset = (wg * 64 + 2 * q) * row_stride + (first_column + c0) * column_stride;
#pragma unroll
    for (int j = 0; j < JB; j++) {
#pragma unroll
        for (int i = 0; i < 32; i += 4) {
            const int row = (2 * j + wg) * 64 + i * 2 + 2 * q, column = first_column + c0;
            visit(j, i, row, column, offset);
            visit(j, i + 1, row + 1, column, offset + row_stride);
            visit(j, i + 2, row, column + 8, offset + 8 * column_stride);
            visit(j, i + 3, row + 1, column + 8, offset + row_stride + 8 * column_stride);
            offset += 8 * row_stride;
        }
        offset += 64 * row_stride;
    }
}
% local function strides(layout, ld) return layout == "row" and ld .. ", 1" or "1, " .. ld end

// A condition that is the same in all lanes, in a form that the compiler can see to be so: products in branches need it.
QRS_DEV bool uniform(bool x) { return shfl(static_cast<i32>(x), 0) != 0; }
// Byte offset of (row, column) in a swizzled tile of 64-column rows; row counts from the tile's first.
QRS_DEV int tile_offset(int row, int column) {
    return row * 128 + ((((column >> 3) ^ row) & 7) << 4) + (column & 7) * 2;
}
QRS_DEV u64 tile_descriptor(saddr a) { return smem_desc(a, 128, 16, 1024); }
QRS_DEV float lower_term(float x) { return x - f16_value(f16_bits(x)); }
QRS_DEV u32 pack_lower(float a, float b) { return pack_f16(lower_term(a), lower_term(b)); }

// The fp16 A fragments of a 64 x 64 operand in accumulator layout: its upper terms, or what they leave (LOWER).
// The compiler must not carry terms over from an earlier use (there are too many of them), hence the hold.
template <bool LOWER> QRS_DEV void fragments(u32 (&f)[16], float (&a)[32]) {
    wgmma_hold(a);
#pragma unroll
    for (int i = 0; i < 16; i++)
        f[i] = LOWER ? pack_lower(a[2 * i], a[2 * i + 1]) : pack_f16(a[2 * i], a[2 * i + 1]);
}
// d += f (the tile at b): four k-steps of 16. TRANSPOSED: the tile's rows are k. One group of products.
template <bool TRANSPOSED> QRS_DEV void multiply(float (&d)[32], const u32 (&f)[16], saddr b) {
    constexpr int STEP = TRANSPOSED ? 2048 : 32;
#pragma unroll
    for (int s = 0; s < 4; s++)
        wgmma_f16_rs<64, TRANSPOSED>(d, f[4 * s], f[4 * s + 1], f[4 * s + 2], f[4 * s + 3],
                                     tile_descriptor(b + s * STEP), true);
}

// Adds the other warpgroup's accumulators to one's own, through x (2 x 16 KB). Two block barriers.
QRS_DEV void sum_warpgroups(float (&d)[32], float *x, int wg) {
    const int t = threadIdx.x & 127;
    f32x4 *mine = reinterpret_cast<f32x4 *>(x) + wg * 1024 + t;
    const f32x4 *other = reinterpret_cast<f32x4 *>(x) + (wg ^ 1) * 1024 + t;
#pragma unroll
    for (int i = 0; i < 8; i++) mine[i * 128] = f32x4{d[4 * i], d[4 * i + 1], d[4 * i + 2], d[4 * i + 3]};
    block_sync();
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const f32x4 v = other[i * 128];
        d[4 * i] += v.x, d[4 * i + 1] += v.y, d[4 * i + 2] += v.z, d[4 * i + 3] += v.w;
    }
    block_sync();
}

QRS_KERNEL(geqrf, 256, 1)
(const float *a_all, i64 lda, i64 stride_a, float *h_all, i64 ldh, i64 stride_h, float *tau_all, i64 stride_tau,
 int *info_all, u8 *v_all, u8 *t_all, i64 batch) {
    u8 *smem = dynamic_smem();
    u8 *v_tile = smem;                                            // V by stages; in the panel phase P in two terms
    float *exchange = reinterpret_cast<float *>(smem + ${O_X});   // warpgroup sums; in the panel phase G and P1 (gs, p1)
    u8 *t_tile = smem + ${O_T};                                   // T by stages; in the panel phase scratch
    float *gp = reinterpret_cast<float *>(t_tile), *ys = gp + 32 * LD;
    float *small = reinterpret_cast<float *>(smem + ${O_SMALL});
    float *work = small;                          // RECURSION work, or 4 x 64 partial sums
    float *column_max = small + 1600;             // [2][64]
    float *column_l1 = column_max + 128, *column_l2 = column_l1 + 128; // [2][64] each
    float *norms = column_l2 + 128;               // [2][64]
    float *diag = norms + 128, *start_norm = diag + 64, *tau_s = start_norm + 64, *rho_of = tau_s + 64;
    float *tau_stage = rho_of + 64;               // [2][64]
    int *flags = reinterpret_cast<int *>(tau_stage + 128); // [0] verdict, [1..] panels that are zero
    saddr v_addr = to_saddr(v_tile), t_addr = to_saddr(t_tile), bar_addr = to_saddr(flags + 16);

    const int thread = threadIdx.x;
    u8 *v_scratch = v_all + (i64)blockIdx.x * ${V_BYTES};
    u8 *t_scratch = t_all + (i64)blockIdx.x * ${T_BYTES};
    float *tau_scratch = reinterpret_cast<float *>(t_scratch + KB * T_SLOT);
    if (thread == 0) {
        for (int i = 0; i < STAGES; i++) mbar_init(bar_addr + 8 * i, 1);
        fence_mbar_init();
    }
    block_sync();
    u32 loads = 0; // bulk loads waited for so far: stage and parity follow from it

    // Thread 0 only: V (rows from the panel's own on) and T of a finished panel into a stage.
    auto fetch = [&](int panel, int stage) {
        const saddr bar = bar_addr + 8 * stage;
        const u32 bytes = (MB - panel) * BLOCK;
        mbar_expect(bar, bytes * TERMS + T_SLOT);
        for (int i = 0; i < TERMS; i++)
            bulk_load(v_addr + stage * SLOT + i * MB * BLOCK + panel * BLOCK,
                      v_scratch + (i64)panel * SLOT + i * MB * BLOCK + panel * BLOCK, bytes, bar);
        bulk_load(t_addr + stage * T_SLOT, t_scratch + (i64)panel * T_SLOT, T_SLOT, bar);
    };

#pragma unroll 1
    for (i64 matrix = blockIdx.x; matrix < batch; matrix += gridDim.x) {
        const float *a = a_all + matrix * stride_a;
        float *h = h_all + matrix * stride_h;
        float *tau = tau_all + matrix * stride_tau;
        int report = 0;
#pragma unroll 1
        for (int panel = 0; panel < NB; panel++) {
            const int left = KR - 64 * panel;
            const int count = left < 0 ? 0 : left > 64 ? 64 : left; // reflectors of this panel
            bool by_rows = false, done = false;
#pragma unroll 1
            for (int attempt = 0; attempt < 2 && !done; attempt++) {
                // Lane 4 g + q of warp w holds the panel's columns c0 = 16 w + g and c0 + 8, rows 2 q and 2 q + 1 of every eight.
                const int t = fresh(thread), wg = shfl(t >> 7, 0), place = t & 127, q = place & 3, c0 = (place >> 5) * 16 + ((place & 31) >> 2);
                v_addr = fresh(v_addr), t_addr = fresh(t_addr);
                u8 *v_tile = smem + fresh(0);
                float *p1 = reinterpret_cast<float *>(smem + fresh(${O_X})) + 64 * LD, *gs = reinterpret_cast<float *>(smem + fresh(${O_X}));
                float *xm = reinterpret_cast<float *>(smem + fresh(${O_XM}));
                // ---- the panel's columns from A, scaled by the power of two that brings the largest entry to [1, 2)
                float C[JB][32];
                float largest[2] = {0.f, 0.f};
                bool finite = true;
                const i64 ld_in = fresh(lda);
panel_entries(wg, q, c0, 64 * panel, ${strides(shape.layout_in, "ld_in")},
                              [&](int j, int i, int row, int column, i64 offset) {
                                  C[j][i] = row < M && column < N ? a[offset] : 0.f;
                              });
#pragma unroll
                for (int j = 0; j < JB; j++)
#pragma unroll
                    for (int i = 0; i < 32; i++) {
                        const float x = fabsf(C[j][i]);
                        if (is_finite(x)) largest[(i >> 1) & 1] = fmaxf(largest[(i >> 1) & 1], x);
                        else finite = false;
                    }
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    largest[e] = fmaxf(largest[e], shfl_xor(largest[e], 1));
                    largest[e] = fmaxf(largest[e], shfl_xor(largest[e], 2));
                    if (q == 0) column_max[wg * 64 + c0 + 8 * e] = largest[e];
                }
                if (block_any(!finite)) report |= 1;
                int exponent[2];
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    const float x = fmaxf(column_max[c0 + 8 * e], column_max[64 + c0 + 8 * e]);
                    exponent[e] = x > 0.f ? pow2_exponent(x) : 0;
                }
                {
                    // Two factors: 2^149 is no float. The second is 1 but for subnormal columns.
                    float first[2], second[2];
#pragma unroll
                    for (int e = 0; e < 2; e++) {
                        const int f = -exponent[e] > 127 ? 127 : -exponent[e];
                        first[e] = scale_pow2(1.f, f), second[e] = scale_pow2(1.f, -exponent[e] - f);
                    }
#pragma unroll
                    for (int j = 0; j < JB; j++)
#pragma unroll
                        for (int i = 0; i < 32; i++)
                            C[j][i] = C[j][i] * first[(i >> 1) & 1] * second[(i >> 1) & 1];
                }
                bool split = TERMS == 2;
% if TERMS == 1 then
                // Columns whose weight sits in few entries round badly: ||a||_1 / (sqrt(m) ||a||_2) is 0.80 for normal entries.
                // Such panels take two terms of C and W'.
                {
                    float l1[2] = {0.f, 0.f}, l2[2] = {0.f, 0.f};
#pragma unroll
                    for (int j = 0; j < JB; j++)
#pragma unroll
                        for (int i = 0; i < 32; i++) {
                            l1[(i >> 1) & 1] += fabsf(C[j][i]);
                            l2[(i >> 1) & 1] = fmaf(C[j][i], C[j][i], l2[(i >> 1) & 1]);
                        }
#pragma unroll
                    for (int e = 0; e < 2; e++) {
                        l1[e] += shfl_xor(l1[e], 1), l2[e] += shfl_xor(l2[e], 1);
                        l1[e] += shfl_xor(l1[e], 2), l2[e] += shfl_xor(l2[e], 2);
                        if (q == 0) column_l1[wg * 64 + c0 + 8 * e] = l1[e], column_l2[wg * 64 + c0 + 8 * e] = l2[e];
                    }
                    block_sync();
                    bool dense = false;
                    if (t < 64) {
                        const float s1 = column_l1[t] + column_l1[64 + t], s2 = column_l2[t] + column_l2[64 + t];
                        dense = s1 * s1 >= ${0.36 * M} * s2 && s2 > 0.f; // 0.6^2 m
                    }
                    split = uniform(!block_any(dense));
                }
% end

                // ---- earlier panels' reflectors: C' -= ((C' V) T) V'
                int pairs = 0, first_pair = -1; // panels that are not zero
                const int earlier = panel < KB ? panel : KB;
                for (int p = 0; p < earlier; p++)
                    if (!uniform(flags[1 + p])) {
                        if (first_pair < 0) first_pair = p;
                        pairs++;
                    }
                if (split && TERMS == 1 && pairs) report |= 4;
                if (t == 0 && pairs) {
                    fence_async_shared();
                    fetch(first_pair, loads % STAGES);
                }
#pragma unroll 1
                for (int p = first_pair; pairs > 0; pairs--, loads++) {
                    int next = p + 1;
                    while (next < earlier && uniform(flags[1 + next])) next++;
                    const int stage = loads % STAGES;
                    if (STAGES > 1 && t == 0 && pairs > 1) fetch(next, (loads + 1) % STAGES);
                    const saddr v = v_addr + stage * SLOT + wg * BLOCK, tt = t_addr + stage * T_SLOT;
                    const float tau_own = t < 64 ? tau_scratch[p * 64 + t] : 0.f;
                    if (t < 64) tau_stage[t] = tau_own;
                    mbar_wait(bar_addr + 8 * stage, (loads / STAGES) & 1);
                    float W[32];
#pragma unroll
                    for (int i = 0; i < 32; i++) W[i] = 0.f;
#pragma unroll
                    for (int j = 0; j < JB; j++)
                        if (2 * j + wg >= p && 2 * j + wg < MB) {
                            u32 f[16];
                            fragments<false>(f, C[j]);
                            wgmma_fence();
                            multiply<true>(W, f, v + j * 2 * BLOCK);
% if TERMS == 2 then
                            multiply<true>(W, f, v + MB * BLOCK + j * 2 * BLOCK);
% end
                            wgmma_commit();
                            wgmma_wait<0>(); // one group in flight: fragments of more do not fit the registers
                        }
                    if (split) {
#pragma unroll
                        for (int j = 0; j < JB; j++)
                            if (2 * j + wg >= p && 2 * j + wg < MB) {
                                u32 f[16];
                                fragments<true>(f, C[j]);
                                wgmma_fence();
                                multiply<true>(W, f, v + j * 2 * BLOCK);
                                wgmma_commit();
                                wgmma_wait<0>();
                            }
                    }
                    wgmma_wait<0>();
                    sum_warpgroups(W, exchange, wg);
                    // W' = (W T^) D: the unit upper triangular T^ in fp16, tau in fp32.
                    float Z[32];
#pragma unroll
                    for (int i = 0; i < 32; i++) Z[i] = 0.f;
                    u32 upper[16], lower[16];
                    fragments<false>(upper, W);
                    fragments<true>(lower, W);
                    wgmma_fence();
                    multiply<true>(Z, lower, tt);
% if TERMS == 2 then
                    multiply<true>(Z, upper, tt + BLOCK);
% end
                    multiply<true>(Z, upper, tt);
                    wgmma_commit();
                    wgmma_wait<0>();
#pragma unroll
                    for (int i = 0; i < 32; i++) Z[i] *= -tau_stage[(i >> 2) * 8 + 2 * q + (i & 1)];
                    fragments<false>(upper, Z);
                    if (split) fragments<true>(lower, Z);
#pragma unroll
                    for (int j = 0; j < JB; j++)
                        if (2 * j + wg >= p && 2 * j + wg < MB) {
                            wgmma_fence();
                            multiply<false>(C[j], upper, v + j * 2 * BLOCK);
% if TERMS == 2 then
                            multiply<false>(C[j], upper, v + MB * BLOCK + j * 2 * BLOCK);
% end
                            wgmma_commit();
                        }
                    if (split) {
#pragma unroll
                        for (int j = 0; j < JB; j++)
                            if (2 * j + wg >= p && 2 * j + wg < MB) {
                                wgmma_fence();
                                multiply<false>(C[j], lower, v + j * 2 * BLOCK);
                                wgmma_commit();
                            }
                    }
                    wgmma_wait<0>();
                    block_sync(); // everybody is done with this stage and with tau_stage
                    if (STAGES == 1 && t == 0 && pairs > 1) fetch(next, 0);
                    p = next;
                }

                // ---- factor the panel's rows from 64 * panel on
                bool accepted = true, zero = true;
                if (count > 0) {
                    largest[0] = largest[1] = 0.f;
#pragma unroll
                    for (int j = 0; j < JB; j++)
                        if (2 * j + wg >= panel)
#pragma unroll
                            for (int i = 0; i < 32; i++)
                                largest[(i >> 1) & 1] = fmaxf(largest[(i >> 1) & 1], fabsf(C[j][i]));
                    bool some = false; // NaN counts: it must reach the fall-back
#pragma unroll
                    for (int j = 0; j < JB; j++)
                        if (2 * j + wg >= panel)
#pragma unroll
                            for (int i = 0; i < 32; i++) some = some || C[j][i] != 0.f;
#pragma unroll
                    for (int e = 0; e < 2; e++) {
                        largest[e] = fmaxf(largest[e], shfl_xor(largest[e], 1));
                        largest[e] = fmaxf(largest[e], shfl_xor(largest[e], 2));
                        if (q == 0) column_l1[wg * 64 + c0 + 8 * e] = largest[e];
                    }
                    zero = uniform(!block_any(some));
                }
                if (count > 0 && !zero) {
                    float factor[2];
#pragma unroll
                    for (int e = 0; e < 2; e++) {
                        const float x = fmaxf(column_l1[c0 + 8 * e], column_l1[64 + c0 + 8 * e]);
                        // An update of a column that is left with rounding noise alone may leave any exponent; 2^100 is far enough.
                        int f = x > 0.f && is_finite(x) ? pow2_exponent(x) : 0;
                        f = f < -100 ? -100 : f;
                        exponent[e] += f;
                        factor[e] = scale_pow2(1.f, -f);
                    }
#pragma unroll
                    for (int j = 0; j < JB; j++)
#pragma unroll
                        for (int i = 0; i < 32; i++) C[j][i] *= factor[(i >> 1) & 1];
                    const int rows = MB * 64 - 64 * panel;
                    if (by_rows) {
                        float *tile = reinterpret_cast<float *>(v_tile);
#pragma unroll
                        for (int j = 0; j < JB; j++)
#pragma unroll
                            for (int i = 0; i < 32; i++) {
                                const int row = (2 * j + wg - panel) * 64 + (i >> 2) * 8 + 2 * q + (i & 1);
                                if (row >= 0 && row < rows) tile[row * 64 + c0 + ((i >> 1) & 1) * 8] = C[j][i];
                            }
                        block_sync();
                        factor_rows_64(tile, work, rho_of, column_l1, rows, count);
#pragma unroll
                        for (int j = 0; j < JB; j++)
                            if (2 * j + wg > panel)
#pragma unroll
                                for (int i = 0; i < 32; i++) {
                                    const int row = (2 * j + wg - panel) * 64 + (i >> 2) * 8 + 2 * q + (i & 1);
                                    const int column = c0 + ((i >> 1) & 1) * 8;
                                    C[j][i] = row < rows && column < count ? tile[row * 64 + column] : 0.f;
                                }
                        for (int i = t; i < 4096; i += 256) {
                            p1[(i >> 6) * LD + (i & 63)] = tile[i];
                            xm[(i >> 6) * LD + (i & 63)] = (i & 63) < count ? tile[i] : 0.f;
                        }
                        if (t < 64) diag[t] = t < count && rho_of[t] != 0.f ? 1.f : 0.f; // NaN counts as a reflector
                        block_sync();
                    } else {
                        // P1 in fp32, P2 in two fp16 terms
                        float *p1_ = p1;
#pragma unroll
                        for (int j = 0; j < JB; j++) {
                            const int rb = 2 * j + wg;
                            if (rb == panel) {
#pragma unroll
                                for (int i = 0; i < 32; i++)
                                    p1_[((i >> 2) * 8 + 2 * q + (i & 1)) * LD + c0 + ((i >> 1) & 1) * 8] = C[j][i];
                            } else if (rb > panel && rb < MB) {
#pragma unroll
                                for (int i = 0; i < 32; i++) {
                                    const int at = rb * BLOCK + tile_offset((i >> 2) * 8 + 2 * q + (i & 1), c0 + ((i >> 1) & 1) * 8);
                                    *reinterpret_cast<u16 *>(v_tile + at) = f16_bits(C[j][i]);
                                    *reinterpret_cast<u16 *>(v_tile + MB * BLOCK + at) = f16_bits(lower_term(C[j][i]));
                                }
                            }
                        }
                        fence_async_shared();
                        block_sync();
                        // G = P2' P2 at fp32 level: three of the four products of two terms
                        float G[32];
#pragma unroll
                        for (int i = 0; i < 32; i++) G[i] = 0.f;
#pragma unroll
                        for (int j = 0; j < JB; j++)
                            if (2 * j + wg > panel && 2 * j + wg < MB) {
                                const saddr tile = v_addr + (2 * j + wg) * BLOCK;
                                u32 upper[16], lower[16];
                                fragments<true>(lower, C[j]);
                                fragments<false>(upper, C[j]);
                                wgmma_fence();
                                multiply<true>(G, lower, tile);
                                multiply<true>(G, upper, tile + MB * BLOCK);
                                multiply<true>(G, upper, tile);
                                wgmma_commit();
                                wgmma_wait<0>();
                            }
                        wgmma_wait<0>();
                        // Summed in place: one warpgroup writes, the other adds (exchange is taken by p1).
                        if (wg == 0)
#pragma unroll
                            for (int i = 0; i < 32; i++)
                                gs[(c0 + ((i >> 1) & 1) * 8) * LD + (i >> 2) * 8 + 2 * q + (i & 1)] = G[i];
                        block_sync();
                        if (wg == 1)
#pragma unroll
                            for (int i = 0; i < 32; i++)
                                gs[(c0 + ((i >> 1) & 1) * 8) * LD + (i >> 2) * 8 + 2 * q + (i & 1)] += G[i];
                        block_sync();
                        if (t < 64) {
                            float s = gs[t * LD + t];
                            for (int i = 0; i < 64; i++) s = fmaf(p1[i * LD + t], p1[i * LD + t], s);
                            start_norm[t] = s;
                            diag[t] = 0.f;
                        }
                        block_sync();
                        factor_panel_64(p1, gs, xm, gp, ys, diag, tau_s, work, count);
                        // V2' = M' P2', M's columns scaled so that fp16 holds them
                        u32 upper[16], lower[16];
                        float restore[2];
#pragma unroll
                        for (int e = 0; e < 2; e++) {
                            const int column = c0 + 8 * e;
                            float m[16], top = 0.f;
#pragma unroll
                            for (int i = 0; i < 16; i++) {
                                const int row = (i >> 1) * 8 + 2 * q + (i & 1);
                                m[i] = row <= column ? xm[row * LD + column] : 0.f;
                                top = fmaxf(top, fabsf(m[i]));
                            }
                            top = fmaxf(top, shfl_xor(top, 1));
                            top = fmaxf(top, shfl_xor(top, 2));
                            int f = top > 0.f && is_finite(top) ? pow2_exponent(top) : 0;
                            f = f < -100 ? -100 : f > 100 ? 100 : f;
                            restore[e] = scale_pow2(1.f, f);
                            const float scale = scale_pow2(1.f, -f);
#pragma unroll
                            for (int s = 0; s < 4; s++)
#pragma unroll
                                for (int half = 0; half < 2; half++) {
                                    const float x = m[4 * s + 2 * half] * scale, y = m[4 * s + 2 * half + 1] * scale;
                                    upper[4 * s + e + 2 * half] = pack_f16(x, y);
                                    lower[4 * s + e + 2 * half] = pack_lower(x, y);
                                }
                        }
#pragma unroll
                        for (int j = 0; j < JB; j++)
                            if (2 * j + wg > panel && 2 * j + wg < MB) {
                                const saddr tile = v_addr + (2 * j + wg) * BLOCK;
#pragma unroll
                                for (int i = 0; i < 32; i++) C[j][i] = 0.f;
                                wgmma_fence();
                                multiply<false>(C[j], lower, tile);
                                multiply<false>(C[j], upper, tile + MB * BLOCK);
                                multiply<false>(C[j], upper, tile);
                                wgmma_commit();
                            }
                        wgmma_wait<0>();
#pragma unroll
                        for (int j = 0; j < JB; j++)
                            if (2 * j + wg > panel && 2 * j + wg < MB)
#pragma unroll
                                for (int i = 0; i < 32; i++) C[j][i] *= restore[(i >> 1) & 1];
                    }
                    // The block of P1 becomes V1: unit diagonal, zeros above
#pragma unroll
                    for (int j = 0; j < JB; j++)
                        if (2 * j + wg == panel)
#pragma unroll
                            for (int i = 0; i < 32; i++) {
                                const int row = (i >> 2) * 8 + 2 * q + (i & 1), column = c0 + ((i >> 1) & 1) * 8;
                                C[j][i] = row > column ? xm[row * LD + column] : row == column ? 1.f : 0.f;
                            }
                    // v'v of the V produced: the safety test, and tau = 2 / v'v
                    float square[2] = {0.f, 0.f};
#pragma unroll
                    for (int j = 0; j < JB; j++)
                        if (2 * j + wg >= panel)
#pragma unroll
                            for (int i = 0; i < 32; i++) square[(i >> 1) & 1] = fmaf(C[j][i], C[j][i], square[(i >> 1) & 1]);
#pragma unroll
                    for (int e = 0; e < 2; e++) {
                        square[e] += shfl_xor(square[e], 1);
                        square[e] += shfl_xor(square[e], 2);
                        if (q == 0) norms[wg * 64 + c0 + 8 * e] = square[e];
                    }
                    block_sync();
                    bool bad = false;
                    if (t < 64) {
                        const float vv = norms[t] + norms[64 + t];
                        const bool reflects = t < count && diag[t] != 0.f;
                        if (!by_rows && t < count) {
                            const float s = diag[t], beta = p1[t * LD + t];
                            if (start_norm[t] > 0.f) {
                                const float deviation = fabsf(tau_s[t] * vv * 0.5f - 1.f);
                                bad = !(s >= 0x1p-80f) || !(deviation <= ${LIMIT_DEVIATION}) ||
                                      !(beta * beta > 1e-6f * start_norm[t]);
                            } else {
                                bad = !(start_norm[t] == 0.f) || s != 0.f;
                            }
                        }
                        tau_s[t] = reflects ? div_rn(2.f, vv) : 0.f;
                    }
                    accepted = uniform(!block_any(bad));
                } else if (t < 64) {
                    tau_s[t] = 0.f;
                    diag[t] = 0.f;
                }
                if (!accepted) {
                    by_rows = true;
                    report |= 2;
                    continue;
                }
                done = true;

                // ---- out: R above and in the panel, V below, tau
                const bool reflecting = count > 0 && !zero;
                const i64 ld_out = fresh(ldh);
                float up[2], up_more[2];
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    up[e] = scale_pow2(1.f, exponent[e] / 2);
                    up_more[e] = scale_pow2(1.f, exponent[e] - exponent[e] / 2);
                }
panel_entries(wg, q, c0, 64 * panel, ${strides(shape.layout_out, "ld_out")},
                              [&](int j, int i, int row, int column, i64 offset) {
                                  const int e = (i >> 1) & 1, in_row = row & 63, in_column = c0 + 8 * e, rb = 2 * j + wg;
                                  const bool below = reflecting && rb >= panel;
                                  float x = C[j][i];
                                  if (below && rb == panel && in_row <= in_column) x = p1[in_row * LD + in_column];
                                  if (below && (rb > panel || in_row > in_column)) x = diag[in_column] != 0.f ? x : 0.f;
                                  else x = x * up[e] * up_more[e];
                                  if (row < M && column < N) h[offset] = x;
                              });
                if (t < 64 && 64 * panel + t < ${shape.k}) tau[64 * panel + t] = tau_s[t];

                // ---- V in fp16 and T for the panels to come
                if (t == 0) flags[1 + panel] = !reflecting;
                if (reflecting && panel + 1 < NB) {
#pragma unroll
                    for (int j = 0; j < JB; j++) {
                        const int rb = 2 * j + wg;
                        if (rb >= panel && rb < MB)
#pragma unroll
                            for (int i = 0; i < 32; i++) {
                                const int in_column = c0 + ((i >> 1) & 1) * 8;
                                const int at = rb * BLOCK + tile_offset((i >> 2) * 8 + 2 * q + (i & 1), in_column);
                                *reinterpret_cast<u16 *>(v_tile + at) = f16_bits(C[j][i]);
% if TERMS == 2 then
                                *reinterpret_cast<u16 *>(v_tile + MB * BLOCK + at) = f16_bits(lower_term(C[j][i]));
% end
                            }
                    }
                    fence_async_shared();
                    block_sync();
                    float S[32];
#pragma unroll
                    for (int i = 0; i < 32; i++) S[i] = 0.f;
#pragma unroll
                    for (int j = 0; j < JB; j++)
                        if (2 * j + wg >= panel && 2 * j + wg < MB) {
                            const saddr tile = v_addr + (2 * j + wg) * BLOCK;
                            u32 upper[16], lower[16];
                            fragments<true>(lower, C[j]);
                            fragments<false>(upper, C[j]);
                            wgmma_fence();
                            multiply<true>(S, lower, tile);
% if TERMS == 2 then
                            multiply<true>(S, upper, tile + MB * BLOCK);
% end
                            multiply<true>(S, upper, tile);
                            wgmma_commit();
                            wgmma_wait<0>();
                        }
                    wgmma_wait<0>();
                    if (wg == 0)
#pragma unroll
                        for (int i = 0; i < 32; i++)
                            gs[(c0 + ((i >> 1) & 1) * 8) * LD + (i >> 2) * 8 + 2 * q + (i & 1)] = S[i];
                    if (t == 0) { // the tile's readers are past the barrier below when it is written again
                        for (int i = 0; i < TERMS; i++)
                            bulk_store(v_scratch + (i64)panel * SLOT + i * MB * BLOCK + panel * BLOCK,
                                       v_addr + i * MB * BLOCK + panel * BLOCK, (MB - panel) * BLOCK);
                        bulk_commit();
                    }
                    block_sync();
                    if (wg == 1)
#pragma unroll
                        for (int i = 0; i < 32; i++)
                            gs[(c0 + ((i >> 1) & 1) * 8) * LD + (i >> 2) * 8 + 2 * q + (i & 1)] += S[i];
                    block_sync();
                    // T^ = (I + D striu(V'V))^-1 (the inverse form of larft), by halves: [A B; 0 C]^-1 = [A^ -A^ B C^; 0 C^].
                    // Row r of D striu(S) is scaled by tau_r. Two warps, a column a thread.
                    float *ti = xm; // [64][LD]: V1 and M have been used
                    if (t < 64) {
                        const int half = t & 32, own = t & 31;
                        const float *s = gs + half * LD + half;
                        float column[32];
#pragma unroll
                        for (int i = 31; i >= 0; i--) {
                            float sum = 0.f;
#pragma unroll
                            for (int k = i + 1; k < 32; k++) sum = fmaf(s[i * LD + k], column[k], sum);
                            column[i] = i == own ? 1.f : i < own ? -tau_s[half + i] * sum : 0.f;
                        }
#pragma unroll
                        for (int i = 0; i < 32; i++) ti[(half + i) * LD + half + own] = column[i];
                    }
                    block_sync();
                    const int r = t >> 3, c = (t & 7) * 4;
                    {
                        const f32x4 nothing = {0.f, 0.f, 0.f, 0.f};
                        f32x4 b = product_32<false, true>(gs + 32, ti + 32 * LD + 32, r, c, nothing);
                        const float scale = -tau_s[r];
                        b.x *= scale, b.y *= scale, b.z *= scale, b.w *= scale;
                        *reinterpret_cast<f32x4 *>(p1 + r * LD + c) = b;
                        block_sync();
                        b = product_32<false, false>(ti, p1, r, c, nothing);
                        *reinterpret_cast<f32x4 *>(ti + r * LD + 32 + c) = b;
                        *reinterpret_cast<f32x4 *>(ti + (32 + r) * LD + c) = nothing;
                    }
                    block_sync();
                    for (int i = t; i < 4096; i += 256) {
                        const int row = i >> 6, column = i & 63;
                        const float x = ti[row * LD + column];
                        *reinterpret_cast<u16 *>(t_tile + tile_offset(row, column)) = f16_bits(x);
% if TERMS == 2 then
                        *reinterpret_cast<u16 *>(t_tile + BLOCK + tile_offset(row, column)) = f16_bits(lower_term(x));
% end
                    }
                    if (t < 64) tau_scratch[panel * 64 + t] = tau_s[t];
                    fence_async_shared();
                    block_sync();
                    if (t == 0) {
                        bulk_store(t_scratch + (i64)panel * T_SLOT, t_addr, T_SLOT);
                        bulk_commit();
                        bulk_wait<0>();
                    }
                }
                block_sync();
            }
        }
        if (thread == 0 && info_all) info_all[matrix] = report;
    }
}
QRS_ENTRY(geqrf)
]==]
