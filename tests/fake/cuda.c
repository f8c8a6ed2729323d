#include "tests/fake/cuda.h"
#include <stdlib.h>
#include <string.h>

#define API __attribute__((visibility("default")))

API fake_cuda_record fake_cuda = {.arch = 90,
                                  .sms = 132,
                                  .smem_optin = 232448,
                                  .devices = 1,
                                  .version = 13000,
                                  .resident = 2,
                                  .max_clusters = 16,
                                  .max_threads = 1024};

static __thread void *current[16];
static __thread int depth;
static __thread int capture_mode;
static char primary, some_stream;

typedef struct function {
    char name[64];
} function;

API int cuDriverGetVersion(int *version) {
    return *version = fake_cuda.version, 0;
}
API int cuInit(unsigned flags) {
    return (void)flags, fake_cuda.init_result;
}
API int cuGetErrorName(int result, const char **text) {
    return *text = result == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_FAKE", 0;
}
API int cuGetErrorString(int result, const char **text) {
    return (void)result, *text = "a fake error", 0;
}
API int cuDeviceGetCount(int *count) {
    return *count = fake_cuda.devices, 0;
}
API int cuDeviceGet(int *device, int ordinal) {
    return *device = ordinal, 0;
}
API int cuDeviceGetName(char *name, int size, int device) {
    (void)device;
    strncpy(name, "Fake GPU", (size_t)size);
    return 0;
}
API int cuDeviceTotalMem_v2(size_t *bytes, int device) {
    return (void)device, *bytes = (size_t)1 << 37, 0;
}
API int cuDeviceGetAttribute(int *value, int attribute, int device) {
    (void)device;
    switch (attribute) {
    case 16:
        *value = fake_cuda.sms;
        return 0;
    case 38:
        *value = 50 << 20;
        return 0;
    case 75:
        *value = fake_cuda.arch / 10;
        return 0;
    case 76:
        *value = fake_cuda.arch % 10;
        return 0;
    case 81:
        *value = 233472;
        return 0;
    case 82:
        *value = 65536;
        return 0;
    case 97:
        *value = fake_cuda.smem_optin;
        return 0;
    case 120:
        *value = fake_cuda.arch >= 90;
        return 0;
    default:
        return 1;
    }
}
API int cuDevicePrimaryCtxRetain(void **context, int device) {
    return (void)device, fake_cuda.retain_count++, *context = &primary, 0;
}
API int cuDevicePrimaryCtxRelease_v2(int device) {
    return (void)device, fake_cuda.release_count++, 0;
}
API int cuCtxGetCurrent(void **context) {
    return *context = depth ? current[depth - 1] : NULL, 0;
}
API int cuCtxGetDevice(int *device) {
    return *device = 0, depth ? 0 : 201;
}
API int cuCtxPushCurrent_v2(void *context) {
    return __sync_fetch_and_add(&fake_cuda.contexts_pushed, 1), current[depth++] = context, 0;
}
API int cuCtxPopCurrent_v2(void **context) {
    return __sync_fetch_and_sub(&fake_cuda.contexts_pushed, 1), *context = current[--depth], 0;
}

static int in_context(void) {
    return depth && current[depth - 1] == &primary;
}

API int cuModuleLoadData(void **module, const void *image) {
    if (!in_context()) return 201;
    if (fake_cuda.load_result) return fake_cuda.load_result;
    if (memcmp(image, "FAKECUBIN", 9)) return 200;
    if (fake_cuda.capturing && capture_mode != 2) fake_cuda.loads_under_strict_capture++;
    fake_cuda.load_count++;
    *module = malloc(1);
    return 0;
}
/* Function objects are kept for ever: one a name would do, but tests are short. */
static function functions[256];
static int function_count;
API int cuModuleUnload(void *module) {
    return free(module), fake_cuda.unload_count++, 0;
}
API int cuModuleGetFunction(void **out, void *module, const char *name) {
    (void)module;
    if (fake_cuda.missing_kernel && !strcmp(name, fake_cuda.missing_kernel)) return 500;
    for (int i = 0; i < function_count; i++)
        if (!strcmp(functions[i].name, name)) return *out = &functions[i], 0;
    strncpy(functions[function_count].name, name, 63);
    *out = &functions[function_count++];
    return 0;
}
API int cuFuncGetAttribute(int *value, int attribute, void *f) {
    return (void)f, *value = attribute == 0 ? fake_cuda.max_threads : attribute == 4 ? 40 : 0, 0;
}
API int cuFuncSetAttribute(void *f, int attribute, int value) {
    (void)f;
    if (attribute == 8) fake_cuda.smem_opted = value;
    return attribute == 8 && value > fake_cuda.smem_optin ? 1 : 0;
}
API int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *f, int block, size_t smem) {
    return (void)f, (void)block, (void)smem, *blocks = fake_cuda.resident, 0;
}

typedef struct attribute {
    int id;
    char pad[4];
    union {
        char bytes[64];
        int cooperative;
        unsigned cluster[3];
    } value;
} attribute;
typedef struct config {
    unsigned grid[3], block[3], smem;
    void *stream;
    attribute *attributes;
    unsigned attribute_count;
} config;

API int cuOccupancyMaxActiveClusters(int *clusters, void *f, const config *c) {
    return (void)f, (void)c, *clusters = fake_cuda.max_clusters, 0;
}
API int cuLaunchKernelEx(const config *c, void *f, void **parameters, void **extra) {
    (void)extra;
    if (!in_context()) return 201;
    if (fake_cuda.launch_result) return fake_cuda.launch_result;
    fake_launch *l = &fake_cuda.launches[__sync_fetch_and_add(&fake_cuda.launch_count, 1) % FAKE_LAUNCHES];
    memset(l, 0, sizeof *l);
    strncpy(l->kernel, ((function *)f)->name, sizeof l->kernel - 1);
    memcpy(l->grid, c->grid, sizeof l->grid);
    memcpy(l->block, c->block, sizeof l->block);
    l->smem = c->smem;
    l->stream = c->stream;
    for (unsigned i = 0; i < c->attribute_count; i++) {
        if (c->attributes[i].id == 6) l->early = c->attributes[i].value.cooperative;
        if (c->attributes[i].id == 2) l->cooperative = c->attributes[i].value.cooperative;
        if (c->attributes[i].id == 4) l->cluster = (int)c->attributes[i].value.cluster[0];
    }
    if (fake_cuda.args_of && strcmp(fake_cuda.args_of, l->kernel)) return 0;
    for (int i = 0; i < fake_cuda.arg_count && i < FAKE_ARGS; i++)
        memcpy(&l->args[i], parameters[i], 8);
    return 0;
}
API int cuMemAlloc_v2(uint64_t *address, size_t bytes) {
    void *memory = in_context() ? aligned_alloc(256, (bytes + 255) / 256 * 256) : NULL;
    *address = (uint64_t)(uintptr_t)memory;
    return memory ? 0 : 2;
}
API int cuMemFree_v2(uint64_t address) {
    return free((void *)(uintptr_t)address), 0;
}
API int cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
    return *free_bytes = *total = (size_t)1 << 37, 0;
}
API int cuMemsetD8Async(uint64_t address, unsigned char value, size_t bytes, void *stream) {
    (void)stream;
    if (!in_context()) return 201;
    __sync_fetch_and_add(&fake_cuda.set_count, 1);
    fake_cuda.set_address = address;
    fake_cuda.set_bytes = bytes;
    memset((void *)(uintptr_t)address, value, bytes);
    return 0;
}
/* As the driver may: the data is staged, and lands with whatever the default stream does next. */
static __thread struct {
    void *target, *staged;
    size_t bytes;
} on_its_way;
static void land(void) {
    if (!on_its_way.staged) return;
    memcpy(on_its_way.target, on_its_way.staged, on_its_way.bytes);
    free(on_its_way.staged);
    on_its_way.staged = NULL;
}
API int cuMemcpyHtoD_v2(uint64_t target, const void *source, size_t bytes) {
    land();
    on_its_way.staged = malloc(bytes);
    if (!on_its_way.staged) return 2;
    on_its_way.target = (void *)(uintptr_t)target;
    on_its_way.bytes = bytes;
    return memcpy(on_its_way.staged, source, bytes), 0;
}
API int cuMemcpyDtoH_v2(void *target, uint64_t source, size_t bytes) {
    land();
    return memcpy(target, (void *)(uintptr_t)source, bytes), 0;
}
API int cuMemcpyDtoDAsync_v2(uint64_t target, uint64_t source, size_t bytes, void *stream) {
    return (void)stream, memmove((void *)(uintptr_t)target, (void *)(uintptr_t)source, bytes), 0;
}
API int cuStreamCreate(void **stream, unsigned flags) {
    return (void)flags, *stream = &some_stream, 0;
}
API int cuStreamDestroy_v2(void *stream) {
    return (void)stream, 0;
}
API int cuStreamSynchronize(void *stream) {
    if (!stream) land();
    return 0;
}
API int cuStreamIsCapturing(void *stream, int *status) {
    return (void)stream, *status = fake_cuda.capturing, 0;
}
API int cuThreadExchangeStreamCaptureMode(int *mode) {
    int before = capture_mode;
    capture_mode = *mode;
    *mode = before;
    return 0;
}
API int cuEventCreate(void **event, unsigned flags) {
    return (void)flags, *event = &some_stream, 0;
}
API int cuEventDestroy_v2(void *event) {
    return (void)event, 0;
}
API int cuEventRecord(void *event, void *stream) {
    return (void)event, (void)stream, 0;
}
API int cuEventSynchronize(void *event) {
    return (void)event, 0;
}
API int cuEventElapsedTime(float *milliseconds, void *start, void *stop) {
    return (void)start, (void)stop, *milliseconds = 1.5f, 0;
}
API int cuTensorMapEncodeTiled(uint64_t *map, int type, uint32_t rank, void *address, const uint64_t *dims,
                               const uint64_t *strides, const uint32_t *box, const uint32_t *steps,
                               int interleave, int swizzle, int promotion, int fill) {
    (void)interleave, (void)promotion, (void)fill;
    if ((uintptr_t)map % 64 || rank < 1 || rank > 5 || steps[0] != 1) return 1;
    __sync_fetch_and_add(&fake_cuda.encode_count, 1);
    map[0] = (uint64_t)(uintptr_t)address;
    map[1] = dims[0];
    map[2] = rank > 1 ? strides[0] : 0;
    map[3] = box[0];
    map[4] = (uint64_t)type << 8 | (uint64_t)swizzle;
    return 0;
}
