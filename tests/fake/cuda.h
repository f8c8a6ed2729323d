/* A stand-in for libcuda.so.1 that records what it is asked: tests of the runtime on machines without a GPU.
 * Device memory is host memory, kernels do nothing, every stream is the null stream's equal. A test finds the
 * record with dlsym(dlopen(path), "fake_cuda") and may change the settings at any time. */
#ifndef TESTS_FAKE_CUDA_H
#define TESTS_FAKE_CUDA_H

#include <stdint.h>

#define FAKE_LAUNCHES 256
#define FAKE_ARGS     16

typedef struct fake_launch {
    char kernel[64];
    unsigned grid[3], block[3], smem;
    void *stream;
    int cluster, cooperative, early;
    uint64_t args[FAKE_ARGS]; /* the first 8 bytes of each of fake_cuda.arg_count arguments */
} fake_launch;

typedef struct fake_cuda_record {
    /* settings */
    int arch, sms, smem_optin, devices, version;
    int init_result, load_result, launch_result;
    int resident;        /* blocks an SM in occupancy answers */
    int max_clusters;    /* in occupancy answers */
    int max_threads;     /* of every function */
    int capturing;       /* what cuStreamIsCapturing says */
    int arg_count;       /* arguments that a launch may read */
    const char *args_of; /* only of this kernel, where the count differs; NULL: of every one */
    const char *missing_kernel;
    /* record */
    int launch_count, set_count, load_count, unload_count, encode_count, retain_count, release_count;
    int contexts_pushed; /* minus popped */
    int loads_under_strict_capture;
    int smem_opted;
    uint64_t set_address, set_bytes;
    fake_launch launches[FAKE_LAUNCHES]; /* a ring */
} fake_cuda_record;

#endif
