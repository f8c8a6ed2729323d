/* qrsmith: batched Householder QR on NVIDIA GPUs, by kernels made for each shape.
 *
 *     qrs_context *context;  qrs_plan *plan;  int64_t bytes;
 *     qrs_shape shape = {.m = 512, .n = 512, .layout_in = QRS_ROW, .layout_out = QRS_ROW, .max_batch = 640};
 *     qrs_context_create(NULL, &context);                         // GPU 0, cubins kept in the user's cache
 *     qrs_plan_create(context, &shape, NULL, &plan);              // compiles once; later from the cache
 *     qrs_workspace_bytes(plan, 640, &bytes);                     // allocate that much on the device
 *     qrs_geqrf(plan, stream, 640, A, 512, 512 * 512, H, 512, 512 * 512, tau, 512, NULL, workspace, bytes);
 *
 * The result is LAPACK's geqrf: for each m x n matrix A = QR, H holds R in its upper triangle and below it
 * the Householder vectors v (unit first entry implied), tau the k = min(m, n) factors; Q = H(0) H(1) ...
 * H(k-1), H(i) = I - tau[i] v v'. Signs are LAPACK's: beta = -copysign(norm, alpha); a column with nothing
 * below its diagonal has tau = 0.
 *
 * Units: sizes, leading dimensions and strides count float elements, in int64; bytes where the name says
 * bytes. Pointers given to qrs_geqrf are device pointers.
 *
 * Errors: each call returns a qrs_status, 0 for success. qrs_last_error() gives the text of this thread's
 * last failure: what failed, why, and what to do. The library never prints, exits or aborts, and leaves no
 * sticky CUDA error.
 *
 * Threads: everything may be called from any thread; one context or plan may be used by many threads at once.
 * Destroying an object while another thread still uses it is the caller's mistake. After fork() the child
 * gets QRS_FORKED.
 *
 * CUDA contexts: a context belongs to one CUDA context (by default the primary one of its device, which the
 * CUDA runtime API uses too). Calls leave the thread's current context as it was.
 *
 * Version and ABI: within one major version (from 1.0 on; within one minor version before) programs keep
 * working with newer libraries without being compiled again. Structs start with their size, which the caller
 * sets, and grow at the end only; zero is always the default. Status numbers are never reused. The shared
 * library's soname changes when that promise must be broken. */
#ifndef QRSMITH_H
#define QRSMITH_H

#include <stddef.h>
#include <stdint.h>

#define QRS_VERSION_MAJOR 0
#define QRS_VERSION_MINOR 1
#define QRS_VERSION_PATCH 0
#define QRS_VERSION       (QRS_VERSION_MAJOR * 10000 + QRS_VERSION_MINOR * 100 + QRS_VERSION_PATCH)

#if defined(__GNUC__) || defined(__clang__)
#define QRS_API __attribute__((visibility("default")))
#else
#define QRS_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum qrs_status {
    QRS_OK = 0,
    QRS_BAD_ARGUMENT = 1,          /* null handle or result pointer, wrong struct size, unknown flag */
    QRS_BAD_SHAPE = 2,             /* m or n negative or over 1048576; max_batch not 1 to 2147483647 */
    QRS_BAD_BATCH = 3,             /* batch negative or over the plan's max_batch */
    QRS_BAD_LEADING_DIMENSION = 4, /* lda or ldh under the length of a row or column */
    QRS_BAD_STRIDE = 5,            /* matrices of a batch would overlap each other */
    QRS_NULL_POINTER = 6,          /* A, H, tau or workspace null with work to do */
    QRS_MISALIGNED = 7,            /* a pointer isn't aligned to 4 bytes (workspace: 256) */
    QRS_OVERLAP = 8,               /* A, H, tau, info, workspace overlap in a way that isn't in-place */
    QRS_WORKSPACE_TOO_SMALL = 9,   /* see qrs_workspace_bytes */
    QRS_UNSUPPORTED = 10,          /* no family, or not this device, can serve the request */
    QRS_BAD_OPTION = 11, /* unknown family or parameter, template, tuned table or layout or precision value */
    QRS_NOT_READY = 12,  /* a deferred plan's first use is under stream capture: qrs_plan_prepare first */
    QRS_NO_DEVICE = 13,  /* no driver, no GPU, or a context made for a device profile */
    QRS_NO_COMPILER = 14,    /* NVRTC not found or too old, and the kernel not in the cache */
    QRS_COMPILE_FAILED = 15, /* generated source did not compile: a bug, or QRSMITH_TEMPLATES */
    QRS_CUDA_ERROR = 16,     /* the driver refused something; the text has its words */
    QRS_OUT_OF_MEMORY = 17,  /* of the host or the device */
    QRS_FORKED = 18,         /* CUDA doesn't survive fork() */
    QRS_INTERNAL = 19,       /* a bug of ours */
} qrs_status;

QRS_API uint32_t qrs_version(void); /* QRS_VERSION of the library in use */
QRS_API const char *qrs_version_text(void);
QRS_API const char *qrs_status_name(qrs_status status); /* "QRS_BAD_STRIDE" */
QRS_API const char *qrs_status_text(qrs_status status); /* one sentence */
/* Text of this thread's last failed call, "" before the first; valid until the thread's next failure. */
QRS_API const char *qrs_last_error(void);

/* ---------------------------------------------------------------------------------------------- contexts */

typedef struct qrs_context qrs_context;

#define QRS_CURRENT_DEVICE (-1) /* the CUDA context that is current on the calling thread */

/* Plans ignore the batch, so that a matrix has the same bits in a batch of any size. */
#define QRS_BATCH_INVARIANT 1u
/* Line numbers in kernels, for profilers. */
#define QRS_LINE_INFO 2u

typedef struct qrs_context_options {
    size_t struct_size; /* sizeof(qrs_context_options) */
    int32_t device;     /* ordinal in the driver's order, or QRS_CURRENT_DEVICE */
    uint32_t flags;     /* QRS_BATCH_INVARIANT | QRS_LINE_INFO */
    const char
        *device_profile; /* "h200" or a .json: plan and compile for it, no GPU touched; NULL: a real device */
    const char *cache_dir; /* NULL: QRSMITH_CACHE_DIR, XDG_CACHE_HOME, HOME/.cache, TMPDIR; "": memory only */
    const char *shared_cache_dir; /* trusted read-only cache looked at second; NULL: QRSMITH_CACHE_SHARED */
    const char *tuned;            /* tuned table; NULL: QRSMITH_TUNED, the user's, the built-in one */
    const char *templates;        /* folder; NULL: QRSMITH_TEMPLATES, else those built in */
    const char *nvrtc;            /* path of libnvrtc; NULL: QRSMITH_NVRTC, else a search */
    int32_t compile_threads;      /* compiles at once; 0: one a CPU, at most 16 */
    void (*warn)(void *user,
                 const char *text); /* hears of trouble that isn't fatal (cache); any thread; NULL: silent */
    void *warn_user;
} qrs_context_options;

/* `options` NULL: all defaults. Strings are copied. */
QRS_API qrs_status qrs_context_create(const qrs_context_options *options, qrs_context **out);
/* NULL is fine. Plans made from it stay usable: the last one frees what they share. */
QRS_API void qrs_context_destroy(qrs_context *context);
/* JSON: device record, driver and NVRTC in use, cache directory. Valid while the context lives. */
QRS_API const char *qrs_context_info(const qrs_context *context);

/* ---------------------------------------------------------------------------------------------- plans */

typedef struct qrs_plan qrs_plan;

typedef enum qrs_layout {
    QRS_ROW = 0,
    QRS_COL = 1
} qrs_layout; /* consecutive entries of a row, or of a column, adjoin */
typedef enum qrs_precision {
    QRS_FP32 = 0, /* backward stable to FP32 */
    QRS_FP16 = 1  /* trailing updates multiply in FP16, accumulate in FP32; panels, R and tau from FP32 */
} qrs_precision;

typedef struct qrs_shape {
    int64_t m, n;                     /* rows, columns of each matrix */
    qrs_layout layout_in, layout_out; /* of A, of H */
    qrs_precision precision;
    int64_t max_batch; /* largest batch the plan will be used with, 1 to 2147483647 */
} qrs_shape;

/* Choose only; compile and load at the first use or qrs_plan_prepare. */
#define QRS_DEFER 1u

typedef struct qrs_plan_options {
    size_t struct_size; /* sizeof(qrs_plan_options) */
    uint32_t flags;     /* QRS_DEFER */
    const char *family; /* NULL: choose */
    const char *params; /* JSON object of forced parameters, may be partial: "{\"panel\": 16}"; wants a
                         * family; NULL: none */
} qrs_plan_options;

/* `options` NULL: all defaults. Safe while a stream is being captured, which it leaves alone. */
QRS_API qrs_status qrs_plan_create(qrs_context *context, const qrs_shape *shape,
                                   const qrs_plan_options *options, qrs_plan **out);
QRS_API void qrs_plan_destroy(qrs_plan *plan); /* NULL is fine; its launches must have finished */
/* Compiles and loads a deferred plan now. Nothing to do on others. */
QRS_API qrs_status qrs_plan_prepare(qrs_plan *plan);

typedef struct qrs_plan_facts {
    size_t struct_size; /* sizeof(qrs_plan_facts), set by the caller */
    const char *name;   /* of shape, family and parameters */
    const char *family;
    const char *grade; /* how it was chosen: "requested" | "tuned" | "nearest" | "default" */
    const char *
        products; /* how trailing updates multiply: "fp32", or the number of FP16 products: "1" | "2" | "3" */
    const char *params;  /* JSON: every parameter with its value */
    const char *program; /* JSON: the launch program */
    const char *source;  /* generated CUDA source */
    const char *origin;  /* of the kernels: "compiled" | "disk" | "shared" | "memory"; "" while not ready */
    int32_t registers;   /* most of any kernel, a thread; 0 while not ready */
    int32_t spill_bytes; /* stack and spills of all kernels */
} qrs_plan_facts;

/* Strings are valid while the plan lives. */
QRS_API qrs_status qrs_plan_info(const qrs_plan *plan, qrs_plan_facts *out);

/* ---------------------------------------------------------------------------------------------- the
 * factorisation */

/* Bytes that qrs_geqrf needs for that batch; 0 when none. One workspace a stream: two calls that may run at
 * the same time need two. */
QRS_API qrs_status qrs_workspace_bytes(const qrs_plan *plan, int64_t batch, int64_t *bytes);

/* Factors `batch` matrices on `stream` (a CUstream or cudaStream_t; NULL: the legacy default stream).
 * Asynchronous: returns when the work is queued. Never allocates or synchronises, takes no lock; may be
 * captured into a CUDA graph. Same input, same plan: same bits.
 *
 *   A, lda, stride_a   input, m x n each; entry (i, j) of matrix b is at A[b*stride_a + i*lda + j] in
 * QRS_ROW, A[b*stride_a + i + j*lda] in QRS_COL. lda at least the length of a row (QRS_ROW) or column
 * (QRS_COL). H, ldh, stride_h   output, the same in layout_out. H == A with equal layout, ld and stride works
 * in place. tau, stride_tau    output, k = min(m, n) entries a matrix; stride at least k. info int32 a
 * matrix, or NULL: 0, or bits 1 non-finite input, 2 a panel fell back, 4 split path taken, 8 a wait timed out
 * (then that H is NaN). workspace, bytes   qrs_workspace_bytes, aligned to 256; contents don't matter. NULL
 * when 0 bytes are needed.
 *
 * Strides must keep the matrices of a batch apart: at least the whole extent of one matrix, or (side by side)
 * at least one row or column with batch * stride within the leading dimension. They don't matter when batch
 * is 1. Padding is neither read as data nor written. Pointers need 4-byte alignment; 16 is the fast path.
 * Nothing to do (batch, m or n zero) is a success that looks at no pointer.
 * A refused call has queued nothing. */
QRS_API qrs_status qrs_geqrf(qrs_plan *plan, void *stream, int64_t batch, const float *A, int64_t lda,
                             int64_t stride_a, float *H, int64_t ldh, int64_t stride_h, float *tau,
                             int64_t stride_tau, int32_t *info, void *workspace, int64_t bytes);

/* ---------------------------------------------------------------------------------------------- conveniences
 * For programs without the CUDA headers (the examples, bindings): device memory, copies that wait, streams.
 */

QRS_API qrs_status qrs_memory_alloc(qrs_context *context, int64_t bytes, void **out); /* aligned to 256 */
QRS_API void qrs_memory_free(qrs_context *context, void *memory);
QRS_API qrs_status qrs_copy_to_device(qrs_context *context, void *target, const void *source, int64_t bytes);
QRS_API qrs_status qrs_copy_to_host(qrs_context *context, void *target, const void *source, int64_t bytes);
QRS_API qrs_status qrs_stream_create(qrs_context *context, void **out);
QRS_API void qrs_stream_destroy(qrs_context *context, void *stream);
QRS_API qrs_status qrs_stream_wait(qrs_context *context, void *stream); /* until all queued work is done */

#ifdef __cplusplus
}
#endif

#endif
