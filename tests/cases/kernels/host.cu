// Kernels of tests/test_host_executor.c: some right, most with one deliberate fault. All take (A, H, flags) and run with 256
// threads unless their test says otherwise. #line gives each a file of its own, so that reports can be checked.
#include "device/block.cuh"
#include "device/cluster.cuh"
#include "device/copy.cuh"
#include "device/core.cuh"
#include "device/flag.cuh"
#include "device/math.cuh"
#include "device/mma.cuh"
#include "device/warp.cuh"
#include "device/wgmma.cuh"
using namespace qrs;
#define KERNEL(name) QRS_KERNEL(name, 256, 1)(const float *A, float *H, i32 *flag)

#line 1 "kernels/reversal.cu"
KERNEL(reversal) {
    float *s = reinterpret_cast<float *>(dynamic_smem());
    const int t = threadIdx.x;
    s[t] = A[t] + warp_sum(A[t]);
    block_sync();
    H[blockIdx.x * 256 + t] = s[255 - t];
}
QRS_ENTRY(reversal)

#line 1 "kernels/no_barrier.cu"
KERNEL(no_barrier) {
    float *s = reinterpret_cast<float *>(dynamic_smem());
    s[threadIdx.x] = A[threadIdx.x];
    H[threadIdx.x] = s[threadIdx.x ^ 1];
}
QRS_ENTRY(no_barrier)

#line 1 "kernels/unwritten.cu"
KERNEL(unwritten) {
    const saddr s = to_saddr(dynamic_smem());
    H[threadIdx.x] = threadIdx.x < 128 ? lds<float>(s + threadIdx.x * 4) : as_f32(static_cast<u32>(flag[threadIdx.x]));
}
QRS_ENTRY(unwritten)

#line 1 "kernels/half_barrier.cu"
KERNEL(half_barrier) {
    if (threadIdx.x != 77)
        block_sync();
    H[threadIdx.x] = 1.0f;
}
QRS_ENTRY(half_barrier)

#line 1 "kernels/divergent.cu"
KERNEL(divergent) {
    float x = A[threadIdx.x];
    if (threadIdx.x == 40)
        x = shfl(x, 3);
    else
        warp_sync();
    H[threadIdx.x] = x;
}
QRS_ENTRY(divergent)

#line 1 "kernels/missing_lane.cu"
KERNEL(missing_lane) {
    if (threadIdx.x == 9)
        return;
    H[threadIdx.x] = warp_sum(A[threadIdx.x]);
}
QRS_ENTRY(missing_lane)

#line 1 "kernels/barrier_count.cu"
KERNEL(barrier_count) {
    bar_sync(3, threadIdx.x < 128 ? 256 : 224);
    H[threadIdx.x] = 1.0f;
}
QRS_ENTRY(barrier_count)

#line 1 "kernels/barrier_missed.cu"
KERNEL(barrier_missed) {
    if (threadIdx.x < 128)
        bar_sync(5, 160);
    H[threadIdx.x] = 1.0f;
}
QRS_ENTRY(barrier_missed)

#line 1 "kernels/flag_never_set.cu"
KERNEL(flag_never_set) {
    bool came = true;
    if (threadIdx.x == 0)
        came = wait_at_least(flag + blockIdx.x, 1, 1000);
    block_sync();
    H[blockIdx.x * 256 + threadIdx.x] = came ? 1.0f : 2.0f;
}
QRS_ENTRY(flag_never_set)

#line 1 "kernels/chain.cu"
KERNEL(chain) {
    const int b = blockIdx.x, t = threadIdx.x;
    if (t == 0)
        wait_at_least(flag + b, b > 0 ? 1 : 0, 1000);
    block_sync();
    H[b * 256 + t] = b > 0 ? H[b * 256 - 256 + t] + 1.0f : A[t];
    block_sync();
    if (t == 0)
        st_release(flag + b + 1, 1);
}
QRS_ENTRY(chain)

#line 1 "kernels/polling.cu"
KERNEL(polling) {
    if (threadIdx.x == 0)
        while (ld_acquire(flag + 1) == 0)
            nanosleep(100);
    block_sync();
}
QRS_ENTRY(polling)

#line 1 "kernels/mbar_never.cu"
KERNEL(mbar_never) {
    const saddr bar = to_saddr(dynamic_smem());
    if (threadIdx.x == 0)
        mbar_init(bar, 2);
    block_sync();
    if (threadIdx.x == 0)
        mbar_arrive(bar);
    mbar_wait(bar, 0);
}
QRS_ENTRY(mbar_never)

#line 1 "kernels/mbar_raw.cu"
KERNEL(mbar_raw) {
    mbar_arrive(to_saddr(dynamic_smem()) + 64);
}
QRS_ENTRY(mbar_raw)

#line 1 "kernels/mbar_crowd.cu"
KERNEL(mbar_crowd) {
    const saddr bar = to_saddr(dynamic_smem());
    if (threadIdx.x == 0) {
        mbar_init(bar, 1);
        mbar_expect(bar, 16);
        mbar_arrive(bar);
    }
}
QRS_ENTRY(mbar_crowd)

#line 1 "kernels/smem_read.cu"
KERNEL(smem_read) {
    H[threadIdx.x] = lds<float>(to_saddr(dynamic_smem()) + 1020 + threadIdx.x * 4);
}
QRS_ENTRY(smem_read)

#line 1 "kernels/smem_align.cu"
KERNEL(smem_align) {
    sts(to_saddr(dynamic_smem()) + 8, f32x4{1, 2, 3, 4});
}
QRS_ENTRY(smem_align)

#line 1 "kernels/smem_null.cu"
KERNEL(smem_null) {
    sts(0u, 1.0f);
}
QRS_ENTRY(smem_null)

#line 1 "kernels/matrix_row.cu"
KERNEL(matrix_row) {
    u32 r[4];
    ldmatrix_x4(r, to_saddr(dynamic_smem()) + 1024 - 256 + (threadIdx.x & 31) * 16);
    H[threadIdx.x] = as_f32(r[0]);
}
QRS_ENTRY(matrix_row)

#line 1 "kernels/smem_behind.cu"
KERNEL(smem_behind) {
    reinterpret_cast<float *>(dynamic_smem())[threadIdx.x + 1] = 1.0f;
}
QRS_ENTRY(smem_behind)

#line 1 "kernels/copy_unwaited.cu"
KERNEL(copy_unwaited) {
    const saddr s = to_saddr(dynamic_smem());
    cp_async4(s + threadIdx.x * 4, A + threadIdx.x);
    cp_async_commit();
    H[threadIdx.x] = lds<float>(s + threadIdx.x * 4);
    cp_async_wait<0>();
}
QRS_ENTRY(copy_unwaited)

#line 1 "kernels/bulk_unwaited.cu"
KERNEL(bulk_unwaited) {
    const saddr s = to_saddr(dynamic_smem()), bar = s + 1024;
    if (threadIdx.x == 0) {
        mbar_init(bar, 1);
        mbar_expect(bar, 1024);
        bulk_load(s, A, 1024, bar);
    }
    block_sync();
    H[threadIdx.x] = lds<float>(s + threadIdx.x * 4);
    mbar_wait(bar, 0);
}
QRS_ENTRY(bulk_unwaited)

#line 1 "kernels/bulk_orphan.cu"
KERNEL(bulk_orphan) {
    const saddr s = to_saddr(dynamic_smem()), bar = s + 1024;
    if (threadIdx.x == 0) {
        mbar_init(bar, 1);
        mbar_expect(bar, 1024);
        bulk_load(s, A, 1024, bar);
    }
}
QRS_ENTRY(bulk_orphan)

#line 1 "kernels/store_unread.cu"
KERNEL(store_unread) {
    const saddr s = to_saddr(dynamic_smem());
    sts(s + threadIdx.x * 4, A[threadIdx.x]);
    block_sync();
    if (threadIdx.x == 0) {
        bulk_store(H, s, 1024);
        bulk_commit();
        bulk_wait_read<1>();
    }
    block_sync();
    sts(s + threadIdx.x * 4, -1.0f);
    block_sync();
    if (threadIdx.x == 0)
        bulk_wait<0>();
}
QRS_ENTRY(store_unread)

#line 1 "kernels/store_orphan.cu"
KERNEL(store_orphan) {
    const saddr s = to_saddr(dynamic_smem());
    sts(s + threadIdx.x * 4, A[threadIdx.x]);
    block_sync();
    if (threadIdx.x == 0) {
        bulk_store(H, s, 1024);
        bulk_commit();
    }
}
QRS_ENTRY(store_orphan)

#line 1 "kernels/product_unwaited.cu"
KERNEL(product_unwaited) {
    const saddr s = to_saddr(dynamic_smem());
    sts(s + threadIdx.x * 4, 0x3c003c00u);
    block_sync();
    float d[4] = {0, 0, 0, 0};
    wgmma_fence();
    wgmma_f16_rs<8, false>(d, 0x3c003c00u, 0x3c003c00u, 0x3c003c00u, 0x3c003c00u, smem_desc(s, 0, 128, 256), true);
    wgmma_commit();
    H[threadIdx.x] = d[0];
    wgmma_wait<0>();
}
QRS_ENTRY(product_unwaited)

#line 1 "kernels/product_unfenced.cu"
KERNEL(product_unfenced) {
    float d[4] = {0, 0, 0, 0};
    wgmma_f16_rs<8, false>(d, 0, 0, 0, 0, smem_desc(to_saddr(dynamic_smem()), 0, 128, 256), true);
}
QRS_ENTRY(product_unfenced)

#line 1 "kernels/product_one_warp.cu"
KERNEL(product_one_warp) {
    const saddr s = to_saddr(dynamic_smem());
    sts(s + threadIdx.x * 4, 0x3c003c00u);
    block_sync();
    float d[4] = {0, 0, 0, 0};
    wgmma_fence();
    if (warp() == 2)
        wgmma_f16_rs<8, false>(d, 0, 0, 0, 0, smem_desc(s, 0, 128, 256), true);
    wgmma_commit();
    wgmma_wait<0>(d);
}
QRS_ENTRY(product_one_warp)

#line 1 "kernels/cluster_gone.cu"
KERNEL(cluster_gone) {
    const saddr s = to_saddr(dynamic_smem());
    sts(s + threadIdx.x * 4, A[threadIdx.x]);
    cluster_sync();
    H[blockIdx.x * 256 + threadIdx.x] = lds_remote<float>(cluster_map(s + threadIdx.x * 4, cluster_rank() ^ 1));
}
QRS_ENTRY(cluster_gone)

#line 1 "kernels/cluster_rank.cu"
KERNEL(cluster_rank_4) {
    sts_remote(cluster_map(to_saddr(dynamic_smem()), 4), 1.0f);
}
QRS_ENTRY(cluster_rank_4)

#line 1 "kernels/stop.cu"
KERNEL(stop) {
    if (threadIdx.x == 5 && blockIdx.x == 2)
        trap();
}
QRS_ENTRY(stop)

#line 1 "kernels/busy.cu"
KERNEL(busy) {
    float x = A[threadIdx.x];
    for (int i = 0; i < 200; i++)
        x = x * 0.5f + shfl_xor(x, 1 << (i % 5));
    H[blockIdx.x * 256 + threadIdx.x] = x;
}
QRS_ENTRY(busy)
