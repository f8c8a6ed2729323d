/* NVRTC, NVIDIA's run-time compiler, found at run time with dlopen.
 *
 * Looked for in this order; the first file that loads and has what is needed wins:
 *   an explicit path (context option), QRSMITH_NVRTC (these two are final: nothing else is tried after them),
 *   CUDA_HOME/lib64, the NVRTC that the build or the installation brought along (nvrtc/ or lib/qrsmith/nvrtc/
 *   beside this library or executable or one folder above it), libnvrtc.so.13, .12, .so by soname, and, when
 *   CUDA_HOME is not given, /usr/local/cuda/lib64. */
#ifndef QRT_NVRTC_H
#define QRT_NVRTC_H

#include "gen/error.h"
#include <stddef.h>

/* X(field, exported symbol, parameters) */
#define QRT_NVRTC_SYMBOLS(X)                                                                                 \
    X(version, "nvrtcVersion", (int *major, int *minor))                                                     \
    X(create, "nvrtcCreateProgram",                                                                          \
      (void **program, const char *source, const char *name, int header_count, const char *const *headers,   \
       const char *const *include_names))                                                                    \
    X(destroy, "nvrtcDestroyProgram", (void **program))                                                      \
    X(compile, "nvrtcCompileProgram", (void *program, int option_count, const char *const *options))         \
    X(cubin_size, "nvrtcGetCUBINSize", (void *program, size_t *size))                                        \
    X(cubin, "nvrtcGetCUBIN", (void *program, char *cubin))                                                  \
    X(log_size, "nvrtcGetProgramLogSize", (void *program, size_t *size))                                     \
    X(log, "nvrtcGetProgramLog", (void *program, char *log))                                                 \
    X(arch_count, "nvrtcGetNumSupportedArchs", (int *count))                                                 \
    X(archs, "nvrtcGetSupportedArchs", (int *archs))

typedef struct qrt_nvrtc {
    void *handle, *builtins;
    char path[512];
    int major, minor; /* of the compiler: 13.0 */
    const char *(*error_text)(int result);
#define QRT_FIELD(field, symbol, parameters) int(*field) parameters;
    QRT_NVRTC_SYMBOLS(QRT_FIELD)
#undef QRT_FIELD
} qrt_nvrtc;

/* `path` NULL: search. On failure QG_ENVIRONMENT: everything tried with the loader's reason, and what to do.
 */
qg_status qrt_nvrtc_open(const char *path, qrt_nvrtc *out, qg_error *err);
void qrt_nvrtc_close(qrt_nvrtc *nvrtc);

#endif
