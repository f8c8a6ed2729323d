/* The line between a generated kernel compiled for the CPU and the host executor that runs it. Valid C and
 * C++: the device headers (host version) include it in the loaded object, runtime/host/ in the library. No
 * symbols cross the line but the ones of QRS_ENTRY; everything else goes through the table that each thread
 * record points at. Change QHX_ABI when anything here changes: it is part of the key of cached objects. */
#ifndef QHX_HOST_ABI_H
#define QHX_HOST_ABI_H

#include <stdint.h>

#define QHX_ABI 2

/* Shared addresses start here as they do on a GPU, so that 0 is never valid and 1024-byte swizzles keep their
 * phase. */
#define QHX_SHARED_BASE 1024u
/* A remote address carries rank + 1 of its CTA from this bit upwards; 0 there means "my own". */
#define QHX_RANK_SHIFT 24

typedef struct qhx_dim {
    uint32_t x, y, z;
} qhx_dim;

typedef enum qhx_warp_op {
    QHX_WARP_SYNC,
    QHX_WARP_SHFL,
    QHX_WARP_SHFL_XOR,
    QHX_WARP_SHFL_DOWN,
    QHX_WARP_BALLOT,
    QHX_WARP_SUM, /* the butterfly 16, 8, 4, 2, 1 of float additions */
    QHX_WARP_MAX,
    QHX_WARP_OR,
    /* not called through warp(): the executor's own rendezvous */
    QHX_WARP_MMA,
    QHX_WARP_LDMATRIX,
    QHX_WARP_WGMMA,
    QHX_WARP_WGMMA_FENCE,
    QHX_WARP_WGMMA_COMMIT,
    QHX_WARP_WGMMA_WAIT,
    QHX_WARP_OP_COUNT
} qhx_warp_op;

typedef enum qhx_mma_kind { QHX_MMA_F16, QHX_MMA_TF32 } qhx_mma_kind;
typedef enum qhx_mbar_op { QHX_MBAR_INIT, QHX_MBAR_EXPECT, QHX_MBAR_ARRIVE, QHX_MBAR_WAIT } qhx_mbar_op;
typedef enum qhx_cluster_op { QHX_CLUSTER_ARRIVE, QHX_CLUSTER_WAIT } qhx_cluster_op;

/* What a tensor_map holds on the host (128 bytes, as CUtensorMap). Coordinates count elements, x fastest. */
typedef struct qhx_tensor_map {
    uint64_t magic; /* QHX_TENSOR_MAGIC */
    uint64_t base;
    uint64_t dims[5];
    uint64_t strides[4]; /* bytes, of dimensions 1.. */
    uint16_t box[5];
    uint8_t rank, element_bytes, swizzle, pad[27];
} qhx_tensor_map;
#define QHX_TENSOR_MAGIC 0x71687874656e736full

typedef struct qhx_thread qhx_thread;

/* Where a primitive was called, for reports. */
#define QHX_AT const char *file, int line

typedef struct qhx_services {
    uint64_t (*warp)(qhx_thread *, int op, uint64_t value, int arg, QHX_AT);
    /* id 0 is the block's barrier; arrive: does not wait. Returns the OR of pred over the participants. */
    int (*barrier)(qhx_thread *, int id, int threads, int arrive, int pred, QHX_AT);
    void (*cluster)(qhx_thread *, int op, QHX_AT);
    /* Checked address -> pointer; `what` names the access. Never returns on a bad address. */
    void *(*shared)(qhx_thread *, uint32_t addr, uint32_t bytes, const char *what, QHX_AT);
    uint32_t (*shared_address)(qhx_thread *, const void *p, QHX_AT);
    uint32_t (*cluster_map)(qhx_thread *, uint32_t addr, int rank, QHX_AT);
    void (*fail)(qhx_thread *, const char *text, QHX_AT); /* never returns */
    void (*poll)(qhx_thread *, QHX_AT);                   /* let the others run */
    void (*flag_set)(qhx_thread *, const void *p);        /* *p has just changed */
    int (*flag_wait)(qhx_thread *, const int32_t *p, int32_t value, uint32_t spins, QHX_AT);
    void (*mma)(qhx_thread *, int kind, float *d, const uint32_t *a, uint32_t b0, uint32_t b1, QHX_AT);
    void (*ldmatrix)(qhx_thread *, uint32_t *r, int count, int transposed, uint32_t addr, QHX_AT);
    void (*cp_async)(qhx_thread *, uint32_t dst, const void *src, uint32_t bytes, QHX_AT);
    void (*cp_async_commit)(qhx_thread *, QHX_AT);
    void (*cp_async_wait)(qhx_thread *, int keep, QHX_AT);
    void (*mbar)(qhx_thread *, int op, uint32_t addr, uint32_t value, QHX_AT);
    void (*bulk_load)(qhx_thread *, uint32_t dst, const void *src, uint32_t bytes, uint32_t mbar, QHX_AT);
    void (*bulk_store)(qhx_thread *, void *dst, uint32_t src, uint32_t bytes, QHX_AT);
    void (*bulk_commit)(qhx_thread *, QHX_AT);
    void (*bulk_wait)(qhx_thread *, int keep, int only_read, QHX_AT);
    void (*tma_load)(qhx_thread *, uint32_t dst, const void *map, const int *at, int rank, uint32_t mbar,
                     QHX_AT);
    void (*tma_store)(qhx_thread *, const void *map, uint32_t src, const int *at, int rank, QHX_AT);
    void (*st_async)(qhx_thread *, uint32_t dst, const void *value, uint32_t bytes, uint32_t mbar, QHX_AT);
    void (*wgmma)(qhx_thread *, float *d, int n, const uint32_t *a, uint64_t desc, int accumulate,
                  int trans_b, QHX_AT);
    /* A in shared memory too, by a descriptor. */
    void (*wgmma_shared)(qhx_thread *, float *d, int n, uint64_t desc_a, uint64_t desc, int accumulate,
                         int trans_a, int trans_b, QHX_AT);
    void (*wgmma_order)(qhx_thread *, int op, int keep, QHX_AT); /* QHX_WARP_WGMMA_FENCE, _COMMIT, _WAIT */
    uint32_t (*clock)(qhx_thread *);
} qhx_services;

/* One CUDA thread. The executor's own record of the thread starts with this one. */
struct qhx_thread {
    const qhx_services *services;
    unsigned char *smem; /* of this thread's CTA */
    uint32_t smem_size;
    qhx_dim thread, block, grid, block_size;
    int32_t cluster_rank, cluster_size;
};

/* What QRS_ENTRY leaves behind for each kernel, as symbol "qrs_kernel_NAME". */
typedef struct qhx_kernel {
    uint32_t abi;               /* QHX_ABI */
    uint32_t threads;           /* launch bound */
    const char *args;           /* one letter an argument: i i32, l i64, f f32, p pointer, m tensor map */
    void (*run)(void **args);   /* args[k] points at the k-th argument's value */
    qhx_thread **(*self)(void); /* this OS thread's slot for the running CUDA thread */
} qhx_kernel;

#endif
