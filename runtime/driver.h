/* The CUDA driver library, found at run time with dlopen, as a table of functions.
 *
 * No CUDA header is needed: the few types and constants that the table uses are declared here, as the
 * driver's stable ABI fixes them. QRSMITH_CUDA names another library file (tests give a stub). */
#ifndef QRT_DRIVER_H
#define QRT_DRIVER_H

#include "gen/error.h"
#include <stddef.h>
#include <stdint.h>

typedef uint64_t qrt_address; /* CUdeviceptr */

enum {
    QRT_CUDA_SUCCESS = 0,
    QRT_CUDA_INVALID_VALUE = 1,
    QRT_CUDA_OUT_OF_MEMORY = 2,
    QRT_CUDA_DEINITIALIZED = 4,
    QRT_CUDA_STUB_LIBRARY = 34,
    QRT_CUDA_NO_DEVICE = 100,
    QRT_CUDA_INVALID_DEVICE = 101,
    QRT_CUDA_INVALID_IMAGE = 200,
    QRT_CUDA_NO_BINARY_FOR_GPU = 209,
    QRT_CUDA_UNSUPPORTED_PTX_VERSION = 222,
    QRT_CUDA_SYSTEM_DRIVER_MISMATCH = 803,
    QRT_CUDA_COMPAT_NOT_SUPPORTED = 804,
};

enum { /* CUdevice_attribute */
       QRT_ATTRIBUTE_SMS = 16,
       QRT_ATTRIBUTE_L2_BYTES = 38,
       QRT_ATTRIBUTE_MAJOR = 75,
       QRT_ATTRIBUTE_MINOR = 76,
       QRT_ATTRIBUTE_SMEM_SM = 81,
       QRT_ATTRIBUTE_REGISTERS_SM = 82,
       QRT_ATTRIBUTE_SMEM_OPTIN = 97,
       QRT_ATTRIBUTE_CLUSTER_LAUNCH = 120,
};

enum { /* CUfunction_attribute */
       QRT_FUNCTION_MAX_THREADS = 0,
       QRT_FUNCTION_STATIC_SMEM = 1,
       QRT_FUNCTION_LOCAL_BYTES = 3,
       QRT_FUNCTION_REGISTERS = 4,
       QRT_FUNCTION_MAX_DYNAMIC_SMEM = 8,
       QRT_FUNCTION_NON_PORTABLE_CLUSTER = 14,
};

/* CUlaunchAttributeID; the third is programmatic stream serialization */
enum { QRT_LAUNCH_COOPERATIVE = 2, QRT_LAUNCH_CLUSTER = 4, QRT_LAUNCH_EARLY = 6, QRT_LAUNCH_ATTRIBUTES = 3 };
enum { QRT_CAPTURE_NONE = 0 };                           /* CUstreamCaptureStatus */
enum { QRT_CAPTURE_MODE_RELAXED = 2 };                   /* CUstreamCaptureMode */
enum { QRT_STREAM_NON_BLOCKING = 1 };                    /* CUstream_flags */
enum { QRT_TENSOR_FLOAT16 = 6, QRT_TENSOR_FLOAT32 = 7 }; /* CUtensorMapDataType */
enum { QRT_TENSOR_L2_128B = 2 };                         /* CUtensorMapL2promotion */

typedef struct qrt_launch_attribute { /* CUlaunchAttribute */
    int id;
    char pad[4];
    union {
        char bytes[64];
        int cooperative, early;
        unsigned cluster[3];
    } value;
} qrt_launch_attribute;

typedef struct qrt_launch_config { /* CUlaunchConfig */
    unsigned grid[3];
    unsigned block[3];
    unsigned smem;
    void *stream;
    qrt_launch_attribute *attributes;
    unsigned attribute_count;
} qrt_launch_config;

typedef struct qrt_tensor_map { /* CUtensorMap */
    _Alignas(128) uint64_t words[16];
} qrt_tensor_map;

/* X(field, exported symbol, parameters) */
#define QRT_DRIVER_REQUIRED(X)                                                                               \
    X(driver_version, "cuDriverGetVersion", (int *version))                                                  \
    X(init, "cuInit", (unsigned flags))                                                                      \
    X(error_name, "cuGetErrorName", (int result, const char **text))                                         \
    X(error_string, "cuGetErrorString", (int result, const char **text))                                     \
    X(device_count, "cuDeviceGetCount", (int *count))                                                        \
    X(device_get, "cuDeviceGet", (int *device, int ordinal))                                                 \
    X(device_name, "cuDeviceGetName", (char *name, int size, int device))                                    \
    X(device_memory, "cuDeviceTotalMem_v2", (size_t * bytes, int device))                                    \
    X(device_attribute, "cuDeviceGetAttribute", (int *value, int attribute, int device))                     \
    X(primary_retain, "cuDevicePrimaryCtxRetain", (void **context, int device))                              \
    X(primary_release, "cuDevicePrimaryCtxRelease_v2", (int device))                                         \
    X(context_current, "cuCtxGetCurrent", (void **context))                                                  \
    X(context_device, "cuCtxGetDevice", (int *device))                                                       \
    X(context_push, "cuCtxPushCurrent_v2", (void *context))                                                  \
    X(context_pop, "cuCtxPopCurrent_v2", (void **context))                                                   \
    X(module_load, "cuModuleLoadData", (void **module, const void *image))                                   \
    X(module_unload, "cuModuleUnload", (void *module))                                                       \
    X(module_function, "cuModuleGetFunction", (void **function, void *module, const char *name))             \
    X(function_get, "cuFuncGetAttribute", (int *value, int attribute, void *function))                       \
    X(function_set, "cuFuncSetAttribute", (void *function, int attribute, int value))                        \
    X(occupancy, "cuOccupancyMaxActiveBlocksPerMultiprocessor",                                              \
      (int *blocks, void *function, int block, size_t smem))                                                 \
    X(launch, "cuLaunchKernelEx",                                                                            \
      (const qrt_launch_config *config, void *function, void **parameters, void **extra))                    \
    X(memory_alloc, "cuMemAlloc_v2", (qrt_address * address, size_t bytes))                                  \
    X(memory_free, "cuMemFree_v2", (qrt_address address))                                                    \
    X(memory_info, "cuMemGetInfo_v2", (size_t * free_bytes, size_t * total))                                 \
    X(memory_set8, "cuMemsetD8Async",                                                                        \
      (qrt_address address, unsigned char value, size_t bytes, void *stream))                                \
    X(copy_to_device, "cuMemcpyHtoD_v2", (qrt_address target, const void *source, size_t bytes))             \
    X(copy_to_host, "cuMemcpyDtoH_v2", (void *target, qrt_address source, size_t bytes))                     \
    X(copy_on_device, "cuMemcpyDtoDAsync_v2",                                                                \
      (qrt_address target, qrt_address source, size_t bytes, void *stream))                                  \
    X(stream_create, "cuStreamCreate", (void **stream, unsigned flags))                                      \
    X(stream_destroy, "cuStreamDestroy_v2", (void *stream))                                                  \
    X(stream_sync, "cuStreamSynchronize", (void *stream))                                                    \
    X(stream_capturing, "cuStreamIsCapturing", (void *stream, int *status))                                  \
    X(capture_mode, "cuThreadExchangeStreamCaptureMode", (int *mode))                                        \
    X(event_create, "cuEventCreate", (void **event, unsigned flags))                                         \
    X(event_destroy, "cuEventDestroy_v2", (void *event))                                                     \
    X(event_record, "cuEventRecord", (void *event, void *stream))                                            \
    X(event_sync, "cuEventSynchronize", (void *event))                                                       \
    X(event_elapsed, "cuEventElapsedTime", (float *milliseconds, void *start, void *stop))

/* NULL where the driver has none; callers check. */
#define QRT_DRIVER_OPTIONAL(X)                                                                               \
    X(max_clusters, "cuOccupancyMaxActiveClusters",                                                          \
      (int *clusters, void *function, const qrt_launch_config *config))                                      \
    X(encode_tiled, "cuTensorMapEncodeTiled",                                                                \
      (qrt_tensor_map * map, int type, uint32_t rank, void *address, const uint64_t *dims,                   \
       const uint64_t *strides, const uint32_t *box, const uint32_t *element_strides, int interleave,        \
       int swizzle, int promotion, int fill))

typedef struct qrt_driver {
    void *handle;
    char path[512]; /* what was loaded */
    int version;    /* 13000 for 13.0; 0 when the library would not say */
#define QRT_FIELD(field, symbol, parameters) int(*field) parameters;
    QRT_DRIVER_REQUIRED(QRT_FIELD)
    QRT_DRIVER_OPTIONAL(QRT_FIELD)
#undef QRT_FIELD
} qrt_driver;

/* Loads the library and initialises the driver. On failure QG_ENVIRONMENT with what was tried, the versions
 * seen and what to do; *out is then zero except for path and version as far as they became known. */
qg_status qrt_driver_open(qrt_driver *out, qg_error *err);
void qrt_driver_close(qrt_driver *driver);

/* Turns a driver result into an error: QG_OK for 0, QG_NO_MEMORY when device memory ran out, else
 * QG_ENVIRONMENT. */
qg_status qrt_driver_check(const qrt_driver *driver, int result, const char *what, qg_error *err);

#endif
