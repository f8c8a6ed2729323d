/* A stand-in for libcusolver and libcublas: every call succeeds, and reads and writes what the real one
 * would, so that a sanitizer sees a wrong size. Needs the stand-in driver, whose device memory is host
 * memory. */
#include <stdint.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

static int context;

static int create(void **out) {
    *out = &context;
    return 0;
}

EXPORT int cusolverDnCreate(void **out) {
    return create(out);
}
EXPORT int cublasCreate_v2(void **out) {
    return create(out);
}
EXPORT int cusolverDnDestroy(void *c) {
    return c != &context;
}
EXPORT int cublasDestroy_v2(void *c) {
    return c != &context;
}
EXPORT int cusolverDnSetStream(void *c, void *stream) {
    return c != &context || !stream;
}
EXPORT int cublasSetStream_v2(void *c, void *stream) {
    return c != &context || !stream;
}

EXPORT int cusolverDnSgeqrf_bufferSize(void *c, int m, int n, float *a, int lda, int *size) {
    *size = 7 * n;
    return c != &context || lda < m || !a;
}

static void touch(float *a, int m, int n, int lda, float *tau) {
    for (int j = 0; j < n; j++)
        for (int i = 0; i < m; i++)
            a[i + (int64_t)j * lda] += 1;
    memset(tau, 0, sizeof(float) * (size_t)(m < n ? m : n));
}

EXPORT int cusolverDnSgeqrf(void *c, int m, int n, float *a, int lda, float *tau, float *work, int size,
                            int *info) {
    memset(work, 0, sizeof(float) * (size_t)size);
    touch(a, m, n, lda, tau);
    *info = 0;
    return c != &context || size != 7 * n;
}

EXPORT int cublasSgeqrfBatched(void *c, int m, int n, float *const *a, int lda, float *const *tau, int *info,
                               int batch) {
    for (int i = 0; i < batch; i++)
        touch(a[i], m, n, lda, tau[i]);
    *info = 0;
    return c != &context;
}
