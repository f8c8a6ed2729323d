-- The update of family fused on mma: 32 columns of C by one finished panel of 32, one CTA of eight warps. A is [panel | C]; of H, what becomes of
-- C is written.
local W = 8
return {
  name = "update_mma", op = "geqrf", summary = "microbenchmark: fused_apply.cuh",
  params = {}, legal = function(shape) return shape.m <= 512 and shape.m >= 64 and shape.n == 64, "64 columns of 64 to 512 rows" end,
  rank = function() return 0 end,
  resources = function(shape) return { threads = 32 * W, smem = 180 * 1024, registers = 128, l2 = 0 } end,
  vars = function(shape)
    local mt = align(shape.m, 16)
    local v = { M = shape.m, N = 64, K = 32, MT = mt, W = W, THREADS = 32 * W, TILES = ceildiv(mt // 16, W), RS = 4 * W, LAYERS = ceildiv(shape.m, 4 * W),
                IN = "row", OUT = "row", RESIDENT = true, CLUSTER = 1, HALVES = 1, PRODUCTS = shape.precision == "fp16" and 1 or 3,
                KP = 1, PLANE = mt * 64, V_BYTES = mt * 64, O_WS = W * 4096, O_WP = W * 4096 + 32 * 36 * 4 }
    v.O_TILE = 16384 + 2 * v.PLANE
    return v
  end,
  program = function(shape, device, p, v)
    return { products = v.PRODUCTS == 1 and "1" or "3", buffers = {},
             ops = { { op = "launch", kernel = "update_mma", grid = { "batch", 1, 1 }, block = v.THREADS, cluster = 1, smem = 180 * 1024,
                       cooperative = false,
                       args = { { pointer = "A" }, { call = "lda" }, { pointer = "H" }, { call = "ldh" }, { pointer = "tau" }, { pointer = "info" } } } } }
  end,
}
--[==[ source
#include "device/core.cuh"
#include "device/math.cuh"
#include "device/warp.cuh"
#include "device/block.cuh"
#include "device/mma.cuh"
#include "device/copy.cuh"

using namespace qrs;

% include("blocks/pack_reflector.cuh")
% include("blocks/fused_load.cuh")
% include("blocks/fused_out.cuh")
% include("blocks/fused_apply.cuh")
% include("blocks/gram_small.cuh", { NC = 1 })
% include("blocks/t_blocks.cuh", { LDG = 36, LDT = 36 })
% include("blocks/fused_t.cuh")
% include("blocks/fused_rows.cuh")

// A block of 32 columns into c, scaled.
QRS_DEV void load_block(fused_tile &c, float *tile, const float *a, i64 lda, int first, fused_scales *scales)
{
    int found;
    fused_request(fused_all(), tile, a, lda, first);
    cp_async_commit();
    cp_async_wait<0>();
    block_sync();
    fused_take(c, tile, fused_exponents(fused_all(), tile, scales, (fused_largest *)(dynamic_smem() + 512), found));
    block_sync();
}

QRS_KERNEL(update_mma, ${THREADS}, 1)(const float *a, i64 lda, float *h, i64 ldh, float *tau, int *info)
{
    u8 *smem = dynamic_smem(), *v = smem + 16384;
    float *stau = (float *)smem, *tile = (float *)(smem + ${O_TILE});
    fused_scales *scales = (fused_scales *)(smem + 256);
    u8 *t = smem + 2048;
    float *red = tile, *ws = tile + ${O_WS // 4};
    u8 *wp = (u8 *)tile + ${O_WP};
    fused_tile c;
    load_block(c, tile, a, lda, 0, scales);
    fused_give(c, tile, 0);
    block_sync();
    fused_rows(tile, ${M}, 32, (fused_step *)(smem + 8192), stau);
    block_sync();
    fused_reflectors(fused_all(), tile, ${M}, v);
    block_sync();
    if (warp() < 4)
    {
        fused_shares(tile, ${M}, red);
        fused_build_t(stau, red, ws, t);
    }
    block_sync();
    load_block(c, tile, a, lda, 32, scales);
    fused_apply(c, 0, to_saddr(v), red, ws, wp, t);
    block_sync();
    fused_give(c, tile, 0);
    block_sync();
    fused_out(fused_all(), tile, h, ldh, 32, ${MT}, scales->exponent);
    block_sync();
    const u32 begun = clock32();
    #pragma unroll 1
    for (int i = 0; i < 8; i++) {
        fused_apply(c, 0, to_saddr(v), red, ws, wp, t);
        block_sync();
    }
    const u32 cycles = (clock32() - begun) / 8;
    fused_give(c, tile, 0);
    block_sync();
    if (threadIdx.x < 32)
        tau[threadIdx.x] = stau[threadIdx.x];
    if (threadIdx.x == 0) // (the sum keeps the updates timed)
        info[0] = tile[0] == 0x1p-100f ? -1 : (int)cycles;
}
QRS_ENTRY(update_mma)
]==]
