-- Every device primitive once, on data from A, results in rows of H (256 values each; integers as bit patterns). The host
-- executor and a GPU must agree on each row: tests/lib/primitives.h names the rows and how closely.
local ROWS = 96

return {
  name = "primitives", op = "geqrf", summary = "test kernels: each device primitive, results in rows of H",
  params = {},
  legal = function(shape, device, p)
    if shape.m ~= ROWS or shape.n ~= 256 or shape.layout_in ~= "row" or shape.layout_out ~= "row" then
      return false, "takes 96 x 256 row-major only"
    end
    return true
  end,
  rank = function(shape, device) return -1000 end,
  resources = function(shape, device, p) return { threads = 256, smem = 65536, registers = 128, l2 = 0 } end,
  vars = function(shape, device, p) return { SM90 = device.arch == 90 and 1 or 0 } end,
  program = function(shape, device, p, v)
    local ops = {}
    local function launch(kernel, grid, more, args)
      local op = { op = "launch", kernel = kernel, grid = { grid, 1, 1 }, block = 256, cluster = 1, smem = 65536,
                   cooperative = false, args = { { pointer = "A" }, { pointer = "H" } } }
      for k, x in pairs(more or {}) do op[k] = x end
      for _, a in ipairs(args or {}) do op.args[#op.args + 1] = a end
      ops[#ops + 1] = op
    end
    launch("scalars", 1)
    launch("memory", 1)
    launch("warps", 1)
    launch("blocks", 1)
    launch("tensor", 1)
    launch("copies", 1)
    ops[#ops + 1] = { op = "clear", buffer = "flags", offset = 0, bytes = 256 }
    launch("flags", 4, { cooperative = true }, { { workspace = "flags" } })
    launch("tickets", 4, nil, { { workspace = "flags", offset = 128 } })
    if v.SM90 == 1 then
      local map = { pointer = "A", type = "f32", dims = { 256, ROWS }, strides = { 1024 }, box = { 32, 8 } }
      local out = { pointer = "H", type = "f32", dims = { 256, ROWS }, strides = { 1024 }, box = { 32, 8 }, swizzle = 0 }
      local swizzled = {}
      for k, x in pairs(map) do swizzled[k] = x end
      map.swizzle = 0
      swizzled.swizzle = 128
      local deep = { pointer = "A", type = "f32", dims = { 256, 8, ROWS / 8 }, strides = { 1024, 8192 }, box = { 32, 4, 2 }, swizzle = 0 }
      launch("bulk", 1)
      launch("maps", 1, nil, { { tensor_map = map }, { tensor_map = swizzled }, { tensor_map = deep }, { tensor_map = out } })
      launch("clusters", 4, { cluster = 4 })
      launch("warpgroups", 1)
    end
    launch("rest", 1)
    return { products = "fp32", buffers = { { name = "flags", bytes = 256 } }, ops = ops }
  end,
}
--[==[ source
#include "device/core.cuh"
#include "device/math.cuh"
#include "device/warp.cuh"
#include "device/block.cuh"
#include "device/mma.cuh"
#include "device/copy.cuh"
#include "device/flag.cuh"
% if SM90 == 1 then
#include "device/cluster.cuh"
#include "device/wgmma.cuh"
% end
using namespace qrs;

QRS_DEV float bits(u32 x) { return as_f32(x); }
QRS_DEV float bits(int x) { return as_f32(static_cast<u32>(x)); }
QRS_DEV float bits(bool x) { return as_f32(x ? 1u : 0u); }
QRS_DEV float fold(u64 x) { return as_f32(static_cast<u32>(x) ^ static_cast<u32>(x >> 32)); }
QRS_DEV float fold(double x) {
    union {
        double d;
        u64 u;
    } v;
    v.d = x;
    return fold(v.u);
}
// Values of every size and sign, subnormals, zeros and infinities among them, from the row's numbers.
QRS_DEV float odd(const float *A, int row, int t) {
    float x = A[row * 256 + t];
    int e = static_cast<int>(as_u32(x) & 511u) - 256;
    if (t == 0) return 0.0f;
    if (t == 1) return -0.0f;
    if (t == 2) return as_f32(0x7f800000u);
    if (t == 3) return as_f32(0xff800000u);
    if (t == 4) return as_f32(1u);
    if (t == 5) return as_f32(0x807fffffu);
    if (t == 6) return as_f32(0x7f7fffffu);
    return t & 1 ? x : scale_pow2(x, e / 2);
}

QRS_KERNEL(scalars, 256, 1)(const float *A, float *H) {
    const int t = threadIdx.x;
    const float x = odd(A, 0, t), y = A[256 + t], ax = fabsf(x);
    float *h = H + t;
    h[0 * 256] = add_rn(x, y);
    h[1 * 256] = mul_rn(x, y);
    h[2 * 256] = div_rn(x, y);
    h[3 * 256] = sqrt_rn(ax);
    h[4 * 256] = rcp_rn(t < 2 ? 3.0f : x);
    h[5 * 256] = rsqrt_approx(fabsf(y));
    h[6 * 256] = rcp_approx(y);
    float first, second;
    rcp_normal_pair(1.0f + t, 300.0f - t, first, second); // normal numbers only
    h[39 * 256] = first + second;
    h[55 * 256] = max_nan(t % 9 == 8 ? bits(0x7fc00000u) : ax, t % 9 == 7 ? bits(0xffc00001u) : fabsf(y));
    h[7 * 256] = fmaf(y, A[512 + t], A[768 + t]);
    h[8 * 256] = bits(is_finite(x));
    h[9 * 256] = bits(pow2_exponent(x) + 1000);
    h[10 * 256] = scale_pow2(x, (t & 63) * 5 - 160);
    h[11 * 256] = bits(static_cast<u32>(f16_bits(x)));
    h[12 * 256] = f16_value(static_cast<u16>(as_u32(y) >> 8));
    float lo, hi;
    const u32 pair = pack_f16(x, y);
    unpack_f16(pair, lo, hi);
    h[13 * 256] = bits(pair);
    h[14 * 256] = lo;
    h[15 * 256] = hi;
    h[16 * 256] = bits(tf32_bits(x));
    const double d = static_cast<double>(y) / 3.0 + 1e-3;
    h[17 * 256] = fold(sqrt_rn(d > 0 ? d : -d));
    h[18 * 256] = fold(fma(d, d, static_cast<double>(x == x && ax < 1e30f ? x : 1.0f)));
    h[19 * 256] = fmaxf(x, y) + fminf(y, 1.0f) + copysignf(0.25f, x);
}
QRS_ENTRY(scalars)

QRS_KERNEL(memory, 256, 1)(const float *A, float *H) {
    const int t = threadIdx.x;
    const saddr s = to_saddr(dynamic_smem());
    float *h = H + 20 * 256 + t;
    sts(s + t * 16, f32x4{A[t], A[256 + t], A[512 + t], A[768 + t]});
    sts_if(t % 3 == 1, s + t * 16, f32x4{0.0f, 0.0f, A[768 + t], -A[t]});
    sts(s + 8192 + t * 8, f32x2{A[t], -A[t]});
    sts(s + 16384 + t * 2, static_cast<u16>(t * 3));
    sts(s + 20480 + t * 8, static_cast<double>(A[t]) * 3.0);
    sts(s + 24576 + t * 4, static_cast<u32>(t) * 0x01010100u);
    block_sync();
    const int u = 255 - t;
    h[0] = lds<float>(s + u * 16 + 8) + lds<f32x4>(s + u * 16).w;
    h[256] = lds<f32x2>(s + 8192 + u * 8).y;
    h[512] = bits(static_cast<u32>(lds<u16>(s + 16384 + u * 2)));
    h[768] = fold(lds<double>(s + 20480 + u * 8));
    h[1024] = bits(lds<u32>(s + 24576 + u * 4));
    prefetch_l2(A + 4096);
    const f32x4 v = load_stream(reinterpret_cast<const f32x4 *>(A) + t);
    store_stream(h + 1280, load_cg(A + u) + v.x - v.w);
    const u32 c = clock32();
    nanosleep(20);
    h[1536] = bits(static_cast<u32>(clock32() - c != 0) + lane() * 256u + warp());
}
QRS_ENTRY(memory)

QRS_KERNEL(warps, 256, 1)(const float *A, float *H) {
    const int t = threadIdx.x;
    const float x = A[t];
    float *h = H + 28 * 256 + t;
    h[0] = shfl(x, (t * 7) & 31);
    h[256] = shfl_xor(x, 5);
    h[512] = shfl_down(x, 3);
    h[768] = bits(shfl(t * 11, 9));
    h[1024] = fold(shfl_xor(static_cast<u64>(t) * 0x9e3779b97f4a7c15ull, 17));
    h[1280] = fold(shfl_down(static_cast<double>(x) * 1.1, 8));
    h[1536] = bits(warp_ballot(x > 0.0f));
    h[1792] = bits((warp_any(x > 1.5f) ? 1u : 0u) + (warp_all(x > -1.5f) ? 2u : 0u));
    warp_sync();
    h[2048] = warp_sum(x);
    h[2304] = warp_max(x);
    h[2560] = bits(redux_or(1u << (t * 5 & 15)));
}
QRS_ENTRY(warps)

// Warps 0-3 produce, warps 4-7 consume: full and empty barriers by id, two rounds.
QRS_KERNEL(blocks, 256, 1)(const float *A, float *H) {
    const int t = threadIdx.x;
    float *s = reinterpret_cast<float *>(dynamic_smem());
    float *h = H + 40 * 256 + t;
    s[t] = A[t];
    block_sync();
    h[0] = s[(t + 77) & 255];
    h[256] = bits((block_any(s[t] > 100.0f) ? 1u : 0u) + (block_any(t == 200) ? 2u : 0u));
    float got = 0.0f;
    for (int round = 0; round < 2; round++) {
        if (t < 128) {
            if (round > 0)
                bar_sync(2, 256);
            s[t] = A[256 * round + t] + 1.0f;
            threadfence_block();
            bar_arrive(1, 256);
        } else {
            bar_wait(1, 256);
            got += s[255 - t] * (round + 1);
            if (round == 0)
                bar_arrive(2, 256);
        }
    }
    h[512] = got;
}
QRS_ENTRY(blocks)

QRS_KERNEL(tensor, 256, 1)(const float *A, float *H) {
    const int t = threadIdx.x;
    const saddr s = to_saddr(dynamic_smem()), mine = s + warp() * 1024;
    float *h = H + 44 * 256 + t;
    sts(s + t * 16, u32x4{pack_f16(A[t], A[256 + t]), pack_f16(A[512 + t], A[768 + t]), pack_f16(A[1024 + t], A[1280 + t]),
                          pack_f16(A[1536 + t], A[1792 + t])});
    sts(s + 4096 + t * 16, u32x4{pack_f16(A[t] * 3.0f, A[256 + t]), pack_f16(A[512 + t], A[768 + t]),
                                 pack_f16(A[1024 + t], A[1280 + t]), pack_f16(A[1536 + t], A[1792 + t])});
    block_sync();
    u32 a[4], b[4], c[2], e[2];
    ldmatrix_x4(a, mine + lane() * 16);
    ldmatrix_x4_trans(b, mine + (lane() ^ 3) * 16);
    ldmatrix_x2(c, mine + (lane() & 15) * 16);
    ldmatrix_x2_trans(e, mine + (lane() & 15) * 16);
    h[0] = bits(a[0] ^ a[1] * 3u ^ a[2] * 5u ^ a[3] * 7u);
    h[256] = bits(b[0] ^ b[1] * 3u ^ b[2] * 5u ^ b[3] * 7u);
    h[512] = bits(c[0] ^ c[1] * 3u ^ e[0] * 5u ^ e[1] * 7u);
    float d[4] = {A[t], A[256 + t], A[512 + t], A[768 + t]};
    mma_f16(d, a, b[0], b[1]);
    mma_f16(d, a, c[0], e[1]);
    for (int i = 0; i < 4; i++)
        h[(3 + i) * 256] = d[i];
    u32 f[4];
    for (int i = 0; i < 4; i++) {
        f[i] = tf32_bits(A[i * 256 + t]);
        d[i] = 0.5f * i;
    }
    mma_tf32(d, f, tf32_bits(A[1024 + t]), tf32_bits(A[1280 + t]));
    for (int i = 0; i < 4; i++)
        h[(7 + i) * 256] = d[i];
}
QRS_ENTRY(tensor)

QRS_KERNEL(copies, 256, 1)(const float *A, float *H) {
    const int t = threadIdx.x;
    const saddr s = to_saddr(dynamic_smem()), bar = s + 32768;
    float *h = H + 56 * 256 + t;
    cp_async16(s + t * 16, A + t * 4);
    cp_async_commit();
    cp_async4(s + 4096 + t * 4, A + 255 - t);
    cp_async_commit();
    cp_async_wait<1>();
    block_sync();
    h[0] = lds<float>(s + ((t * 37) & 1023) * 4);
    cp_async_wait<0>();
    block_sync();
    h[256] = lds<float>(s + 4096 + (t ^ 1) * 4);
    sts(s + 16384 + t * 16, f32x4{1.0f, 1.0f, 1.0f, 1.0f});
    sts(s + 20480 + t * 4, 1.0f);
    cp_async16_or_zero(s + 16384 + t * 16, A + t * 4, t & 1);
    cp_async4_or_zero(s + 20480 + t * 4, A + t, t % 3 == 0);
    cp_async_commit();
    cp_async_wait<0>();
    block_sync();
    h[3 * 256] = lds<float>(s + 16384 + ((t * 37) & 1023) * 4) + 2.0f * lds<float>(s + 20480 + (t ^ 1) * 4);
    if (t == 0)
        mbar_init(bar, 128);
    block_sync();
    float got = 0.0f;
    for (int round = 0; round < 3; round++) {
        if (t < 128) {
            sts(s + 8192 + round * 1024 + t * 4, A[t] * (round + 1));
            mbar_arrive(bar);
        }
        mbar_wait(bar, round & 1);
        got += lds<float>(s + 8192 + round * 1024 + (t & 127) * 4);
        block_sync(); // a waiter two phases late would mistake the parity
    }
    h[512] = got;
}
QRS_ENTRY(copies)

// A chain over the blocks of a cooperative grid, and a counter that all add to.
QRS_KERNEL(flags, 256, 1)(const float *A, float *H, i32 *flag) {
    const int t = threadIdx.x, b = blockIdx.x;
    float *h = H + (60 + b) * 256 + t;
    bool came = true;
    if (t == 0) {
        came = wait_at_least(flag + b, b > 0 ? 1 : 0, 1u << 22);
        came = came && ld_acquire(flag + b) >= (b > 0 ? 1 : 0);
    }
    block_sync();
    *h = b > 0 ? fmaf(load_cg(h - 256), 0.5f, A[b * 256 + t]) : A[t];
    fence_gpu();
    block_sync();
    if (t == 0) {
        st_release(flag + b + 1, came ? 1 : 100);
        atomic_or(flag + 8, 1 << b);
        atomic_add(flag + 9, b + 1);
        add_release(flag + 10, 1);
        wait_at_least(flag + 10, 4, 1u << 22);
        if (b == 0)
            H[64 * 256] = bits(ld_acquire(flag + 8) + 16 * ld_acquire(flag + 9));
    }
    if (b == 0 && t > 0)
        H[64 * 256 + t] = 0.0f;
}
QRS_ENTRY(flags)

// The same chain in an ordinary grid: work is taken by a ticket, and only lower tickets are waited for.
QRS_KERNEL(tickets, 256, 1)(const float *A, float *H, i32 *flag) {
    const int t = threadIdx.x;
    saddr s = to_saddr(dynamic_smem());
    if (t == 0) {
        const i32 mine = atomic_add(flag, 1);
        sts(s, mine);
        wait_at_least(flag + 1, mine, 1u << 22);
    }
    block_sync();
    const i32 b = lds<i32>(s);
    float *h = H + (65 + b) * 256 + t;
    *h = b > 0 ? fmaf(load_cg(h - 256), 0.5f, A[b * 256 + t]) : A[t];
    fence_gpu();
    block_sync();
    if (t == 0)
        st_release(flag + 1, b + 1);
}
QRS_ENTRY(tickets)

% if SM90 == 1 then
QRS_KERNEL(bulk, 256, 1)(const float *A, float *H) {
    const int t = threadIdx.x;
    const saddr s = to_saddr(dynamic_smem()), bar = s + 32768;
    if (t == 0) {
        mbar_init(bar, 1);
        fence_mbar_init();
    }
    block_sync();
    if (t == 0) {
        mbar_expect(bar, 3072);
        bulk_load(s, A, 2048, bar);
        bulk_load(s + 2048, A + 1024, 1024, bar);
    }
    mbar_wait(bar, 0);
    H[70 * 256 + t] = lds<float>(s + t * 12);
    sts(s + 4096 + t * 4, lds<float>(s + (255 - t) * 4) * 2.0f);
    fence_async_shared();
    block_sync();
    if (t == 0) {
        bulk_store(H + 71 * 256, s + 4096, 1024);
        bulk_commit();
        bulk_wait_read<0>();
        bulk_wait<0>();
    }
}
QRS_ENTRY(bulk)

QRS_KERNEL(maps, 256, 1)(const float *A, float *H, const QRS_GRID_CONSTANT tensor_map plain,
                         const QRS_GRID_CONSTANT tensor_map swizzled, const QRS_GRID_CONSTANT tensor_map deep,
                         const QRS_GRID_CONSTANT tensor_map out) {
    const int t = threadIdx.x;
    const saddr s = to_saddr(dynamic_smem()), bar = s + 32768;
    if (t == 0) {
        mbar_init(bar, 1);
        fence_mbar_init();
    }
    block_sync();
    if (t == 0) {
        mbar_expect(bar, 4 * 1024);
        tma_load_2d(s, plain, 64, 3, bar);
        tma_load_2d(s + 1024, swizzled, 240, 4, bar);
        tma_load_2d(s + 2048, swizzled, 32, 92, bar);
        tma_load_3d(s + 3072, deep, 96, 2, 1, bar);
    }
    mbar_wait(bar, 0);
    for (int i = 0; i < 4; i++)
        H[(72 + i) * 256 + t] = lds<float>(s + i * 1024 + t * 4);
    sts(s + 4096 + t * 4, A[t] + 1.0f);
    fence_async_shared();
    block_sync();
    if (t == 0) {
        // rows 76..83, columns 32..63; the rest of these rows is written by `rest`
        tma_store_2d(out, s + 4096, 32, 76);
        bulk_commit();
        bulk_wait<0>();
    }
}
QRS_ENTRY(maps)

QRS_KERNEL(clusters, 256, 1)(const float *A, float *H) {
    const int t = threadIdx.x, r = cluster_rank(), n = cluster_size(), next = (r + 1) % n;
    const saddr s = to_saddr(dynamic_smem()), bar = s + 32768;
    if (t == 0) {
        mbar_init(bar, 1);
        mbar_init(bar + 8, 256);
        mbar_init(bar + 16, 1);
        fence_mbar_init();
    }
    cluster_sync();
    if (t == 0) {
        mbar_expect(bar, 4096);
        mbar_expect(bar + 16, 1024);
    }
    st_async(cluster_map(s + t * 16, next), f32x4{A[t], r + 0.5f, A[256 + t], 1.0f * t}, cluster_map(bar, next));
    mbar_wait(bar, 0);
    const f32x4 v = lds<f32x4>(s + t * 16);
    sts_remote(cluster_map(s + 8192 + t * 4, next), v.x + v.y);
    mbar_arrive_remote(cluster_map(bar + 8, next));
    cluster_arrive();
    cluster_wait();
    mbar_wait_cluster(bar + 8, 0);
    const float w = lds<float>(s + 8192 + (255 - t) * 4) + lds_remote<float>(cluster_map(s + 8192 + t * 4, (r + 2) % n));
    H[(84 + r) * 256 + t] = add_rn(w, mul_rn(v.z, v.w));
    sts(s + 16384 + t * 4, A[512 + t] * (r + 1));
    fence_async_shared();
    block_sync();
    if (t == 0)
        bulk_send(cluster_map(s + 20480, next), s + 16384, 1024, cluster_map(bar + 16, next));
    mbar_wait(bar + 16, 0);
    if (t >> 6 == r)
        H[95 * 256 + t] = lds<float>(s + 20480 + (255 - t) * 4);
    cluster_sync();
}
QRS_ENTRY(clusters)

// One product of 64 x N x 16 (twice, the second added) from a B tile of random fp16 laid out by the descriptor's rules.
template <int N, bool TRANS> QRS_DEV float product(const float *A, saddr s, int swizzle, u32 lbo, u32 sbo) {
    const int t = threadIdx.x;
    float d[N / 2], sum = 0.0f;
    for (int i = 0; i < N / 2; i++)
        d[i] = 0.0f;
    const u32 a0 = pack_f16(A[t], A[256 + t]), a1 = pack_f16(A[512 + t], A[768 + t]);
    const u32 a2 = pack_f16(A[1024 + t], A[1280 + t]), a3 = pack_f16(A[1536 + t], A[1792 + t]);
    const u64 desc = smem_desc(s, swizzle, lbo, sbo);
    wgmma_hold(d);
    wgmma_fence();
    wgmma_f16_rs<N, TRANS>(d, a0, a1, a2, a3, desc, false);
    wgmma_f16_rs<N, TRANS>(d, a3, a2, a1, a0, desc, true);
    wgmma_commit();
    wgmma_wait<0>(d);
    for (int i = 0; i < N / 2; i++)
        sum = fmaf(d[i], 1.0f + 0.25f * (i & 7), sum);
    return sum;
}

QRS_KERNEL(warpgroups, 256, 1)(const float *A, float *H) {
    const int t = threadIdx.x;
    const saddr s = to_saddr(dynamic_smem());
    for (int i = t; i < 8192; i += 256)
        sts(s + i * 4, pack_f16(A[i & 4095], A[(i * 5 + 1) & 4095]));
    fence_async_shared();
    block_sync();
    float *h = H + 88 * 256 + t;
    // K-major: rows of n, 8 rows sbo apart
    h[0] = product<64, false>(A, s, 128, 16, 1024) + product<256, false>(A, s + 64, 128, 16, 1024);
    h[256] = product<32, false>(A, s, 64, 16, 512) + product<8, false>(A, s, 32, 16, 256);
    h[512] = product<16, false>(A, s, 0, 128, 256) + product<96, false>(A, s, 0, 2048, 128);
    // N-major: rows of k
    h[768] = product<64, true>(A, s, 128, 1024, 1024) + product<128, true>(A, s, 128, 4096, 1024);
    h[1024] = product<32, true>(A, s, 64, 16, 512) + product<96, true>(A, s, 64, 1024, 512);
    h[1280] = product<16, true>(A, s, 32, 16, 256) + product<64, true>(A, s, 32, 512, 256);
    h[1536] = product<8, true>(A, s, 0, 128, 512) + product<64, true>(A, s, 0, 1024, 128);
}
QRS_ENTRY(warpgroups)
% end

// Zeros in the rows and columns that nobody else writes.
QRS_KERNEL(rest, 256, 1)(const float *A, float *H) {
    const int t = threadIdx.x;
    for (int row = 0; row < 96; row++) {
        const bool gap = row == 27 || row == 43 || row == 69;
% if SM90 == 1 then
        const bool strip = row >= 76 && row < 84 && (t < 32 || t >= 64);
% else
        const bool strip = row >= 70;
% end
        if (gap || strip)
            H[row * 256 + t] = 0.0f;
    }
}
QRS_ENTRY(rest)
]==]
