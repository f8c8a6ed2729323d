/* From a plan's source to a cubin: the cache first, NVRTC otherwise. Needs no GPU.
 *
 * Headers come from the library's templates, in memory; nothing is written outside the cache, no process is
 * started. NVRTC is loaded at the first use of the compiler. Compiles running at once are bounded. Safe to
 * share between threads. */
#ifndef QRT_COMPILE_H
#define QRT_COMPILE_H

#include "gen/plan.h"
#include "runtime/cache.h"
#include "runtime/nvrtc.h"

typedef struct qrt_compiler qrt_compiler;

typedef struct qrt_compiler_options {
    const char *nvrtc; /* path of the library; NULL: search (runtime/nvrtc.h) */
    qrt_cache_options cache;
    bool no_cache; /* compile every time, keep nothing */
    bool lineinfo; /* for profilers; part of the key */
    int threads;   /* compiles at once; 0: one a CPU, at most 16 */
} qrt_compiler_options;

/* What ptxas said about one kernel. */
typedef struct qrt_kernel_report {
    char name[64];
    int registers, stack, spill_stores, spill_loads, static_smem, barriers; /* bytes, a thread or a block */
} qrt_kernel_report;

typedef struct qrt_cubin {
    unsigned char *data;
    size_t size;
    qrt_key key;
    qrt_origin origin;
    qrt_kernel_report *kernels; /* in the order of the compiler's log */
    int kernel_count;
    double seconds; /* what this call took */
} qrt_cubin;

/* `options` may be NULL. Only QG_NO_MEMORY fails: NVRTC is looked for later. */
qg_status qrt_compiler_open(const qrt_compiler_options *options, qrt_compiler **out, qg_error *err);
void qrt_compiler_close(qrt_compiler *compiler);

/* The cache in use, NULL with no_cache. */
qrt_cache *qrt_compiler_cache(qrt_compiler *compiler);
/* NVRTC, loaded now if it wasn't. QG_ENVIRONMENT when there is none. */
qg_status qrt_compiler_nvrtc(qrt_compiler *compiler, const qrt_nvrtc **out, qg_error *err);

/* `arch` as in qg_device (90). Errors: QG_ENVIRONMENT (no NVRTC), QG_UNSUPPORTED (unknown arch, or one this
 * NVRTC doesn't know), QG_INTERNAL (the source doesn't compile; why holds the log's errors with template file
 * and line). */
qg_status qrt_compile(qrt_compiler *compiler, const qg_library *lib, const char *source, size_t source_size,
                      int arch, qrt_cubin **out, qg_error *err);
void qrt_cubin_free(qrt_cubin *cubin);

/* Parts, apart for tests. Reports are read from a ptxas log; the array is the caller's to free. */
qg_status qrt_report_parse(const char *log, qrt_kernel_report **out, int *count, qg_error *err);
char *qrt_report_json(const qrt_kernel_report *kernels, int count, const char *target, int nvrtc_major,
                      int nvrtc_minor);
bool qrt_report_read(const char *json, qrt_kernel_report **out, int *count);

#endif
