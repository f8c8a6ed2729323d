#include "runtime/cli/baseline.h"
#include "runtime/device.h"
#include "runtime/judge/inputs.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A case in work: the column-major input, the copy that is factored, and what the call needs besides. */
typedef struct rival_case {
    cli_baseline *library;
    int64_t m, n, k, batch; /* of it, `batch` matrices are timed */
    char *input, *matrix, *tau, *work, *pointers;
    int work_size;
} rival_case;

typedef struct library {
    const char *name, *shown;
    const char *files[5], *symbols[6]; /* create, set stream, geqrf, destroy[, workspace query] */
    bool batched;                      /* one call for the whole batch, by arrays of pointers */
    int (*factor)(const rival_case *c);
} library;

typedef void (*any_function)(void);

struct cli_baseline {
    const library *library;
    cli_device *device;
    void *handle, *context;
    any_function call[6];
};

enum { CREATE, SET_STREAM, GEQRF, DESTROY, QUERY };

typedef int (*create_fn)(void **);
typedef int (*stream_fn)(void *, void *);
typedef int (*destroy_fn)(void *);
typedef int (*query_fn)(void *, int, int, float *, int, int *);
typedef int (*geqrf_fn)(void *, int, int, float *, int, float *, float *, int, int *);
typedef int (*batched_fn)(void *, int, int, float *const *, int, float *const *, int *, int);

static int factor_looped(const rival_case *c) {
    const cli_baseline *b = c->library;
    geqrf_fn geqrf = (geqrf_fn)b->call[GEQRF];
    float *matrix = (float *)(void *)c->matrix, *tau = (float *)(void *)c->tau,
          *work = (float *)(void *)c->work;
    int *info = (int *)(void *)c->pointers, result = 0;
    for (int64_t i = 0; i < c->batch && !result; i++)
        result = geqrf(b->context, (int)c->m, (int)c->n, matrix + i * c->m * c->n, (int)c->m, tau + i * c->k,
                       work, c->work_size, info);
    return result;
}

static int factor_batched(const rival_case *c) {
    const cli_baseline *b = c->library;
    int info = 0;
    float *const *matrices = (float *const *)(void *)c->pointers, *const *taus = matrices + c->batch;
    return ((batched_fn)b->call[GEQRF])(b->context, (int)c->m, (int)c->n, matrices, (int)c->m, taus, &info,
                                        (int)c->batch);
}

static const library libraries[] = {
    {"cusolver",
     "cuSOLVER Sgeqrf, looped",
     {"libcusolver.so.12", "libcusolver.so.11", "libcusolver.so", NULL},
     {"cusolverDnCreate", "cusolverDnSetStream", "cusolverDnSgeqrf", "cusolverDnDestroy",
      "cusolverDnSgeqrf_bufferSize"},
     false,
     factor_looped},
    {"cublas",
     "cuBLAS SgeqrfBatched",
     {"libcublas.so.13", "libcublas.so.12", "libcublas.so", NULL},
     {"cublasCreate_v2", "cublasSetStream_v2", "cublasSgeqrfBatched", "cublasDestroy_v2"},
     true,
     factor_batched},
};

/* ---- opening ---- */

static void *open_file(const library *l) {
    const char *home = getenv("CUDA_HOME");
    const char *folders[] = {NULL, home && *home ? home : NULL, "/usr/local/cuda"};
    for (size_t f = 0; f < sizeof folders / sizeof *folders; f++)
        for (int i = 0; l->files[i]; i++) {
            char path[1024];
            if (f && !folders[f]) break;
            snprintf(path, sizeof path, f ? "%s/lib64/%s" : "%s%s", f ? folders[f] : "", l->files[i]);
            void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
            if (handle) return handle;
        }
    return NULL;
}

static qg_status find_calls(cli_baseline *b, qg_error *err) {
    const library *l = b->library;
    b->handle = open_file(l);
    if (!b->handle)
        return qg_failf(err, QG_ENVIRONMENT, l->name, "install the CUDA toolkit, or set CUDA_HOME",
                        "none of %s, %s is found", l->files[0], l->files[1]);
    for (int i = 0; l->symbols[i]; i++) {
        void *symbol = dlsym(b->handle, l->symbols[i]);
        if (!symbol)
            return qg_failf(err, QG_ENVIRONMENT, l->name, "another version of the library", "it lacks %s",
                            l->symbols[i]);
        memcpy(&b->call[i], &symbol, sizeof symbol);
    }
    return QG_OK;
}

/* The libraries work in the calling thread's current context. */
static qg_status enter(cli_device *d, bool *entered, qg_error *err) {
    return qrt_device_enter(cli_device_gpu(d), entered, err);
}

static qg_status refused(const cli_baseline *b, const char *call, int result, qg_error *err) {
    return qg_failf(err, QG_ENVIRONMENT, b->library->name, "", "%s returned %d", call, result);
}

static qg_status create(cli_baseline *b, qg_error *err) {
    bool entered = false;
    qg_status status = enter(b->device, &entered, err);
    if (status != QG_OK) return status;
    int result = ((create_fn)b->call[CREATE])(&b->context);
    if (!result) result = ((stream_fn)b->call[SET_STREAM])(b->context, cli_device_stream(b->device));
    qrt_device_leave(cli_device_gpu(b->device), entered);
    return result ? refused(b, b->library->symbols[CREATE], result, err) : QG_OK;
}

qg_status cli_baseline_open(const char *name, cli_device *device, cli_baseline **out, qg_error *err) {
    const library *l = NULL;
    *out = NULL;
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++)
        l = strcmp(libraries[i].name, name) ? l : &libraries[i];
    if (!l) return qg_failf(err, QG_BAD_INPUT, "--baseline", "cusolver, cublas", "found '%.40s'", name);
    if (!device) /* only the name was to be checked */
        return QG_OK;
    cli_baseline *b = calloc(1, sizeof *b);
    if (!b) return qg_fail(err, QG_NO_MEMORY, name, "no memory for it", "");
    b->library = l;
    b->device = device;
    qg_status status = find_calls(b, err);
    if (status == QG_OK) status = create(b, err);
    if (status != QG_OK) {
        cli_baseline_close(b);
        return status;
    }
    *out = b;
    return QG_OK;
}

void cli_baseline_close(cli_baseline *b) {
    bool entered = false;
    if (b && b->context && enter(b->device, &entered, NULL) == QG_OK) {
        ((destroy_fn)b->call[DESTROY])(b->context);
        qrt_device_leave(cli_device_gpu(b->device), entered);
    }
    if (b && b->handle) dlclose(b->handle);
    free(b);
}

const char *cli_baseline_name(const cli_baseline *b) {
    return b->library->name;
}

/* ---- a case ---- */

static void release_case(rival_case *c) {
    cli_device *d = c->library->device;
    char *all[] = {c->input, c->matrix, c->tau, c->work, c->pointers};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        cli_release(d, all[i]);
}

static qg_status get(cli_device *d, int64_t bytes, char **out, qg_error *err) {
    void *memory = NULL;
    qg_status status = cli_alloc(d, bytes, &memory, err);
    *out = memory;
    return status;
}

static qg_status load_input(rival_case *c, const qg_case *test, int64_t bytes, qg_error *err) {
    qg_case by_columns = *test;
    by_columns.layout_in = QG_COL;
    float *a = malloc((size_t)bytes);
    if (!a) return qg_fail(err, QG_NO_MEMORY, c->library->library->name, "no memory for its input", "");
    qg_status status = qj_fill(a, &by_columns, c->m, c->m * c->n, err);
    if (status == QG_OK) status = cli_upload(c->library->device, c->input, a, bytes, err);
    free(a);
    return status;
}

static qg_status load_pointers(rival_case *c, qg_error *err) {
    int64_t bytes = 2 * c->batch * (int64_t)sizeof(void *);
    char **table = malloc((size_t)bytes);
    if (!table)
        return qg_fail(err, QG_NO_MEMORY, c->library->library->name, "no memory for its pointers", "");
    for (int64_t i = 0; i < c->batch; i++) {
        table[i] = c->matrix + 4 * i * c->m * c->n;
        table[c->batch + i] = c->tau + 4 * i * c->k;
    }
    qg_status status = get(c->library->device, bytes, &c->pointers, err);
    if (status == QG_OK) status = cli_upload(c->library->device, c->pointers, table, bytes, err);
    free(table);
    return status;
}

static qg_status load_workspace(rival_case *c, qg_error *err) {
    const cli_baseline *b = c->library;
    bool entered = false;
    qg_status status = enter(b->device, &entered, err);
    if (status != QG_OK) return status;
    int result = ((query_fn)b->call[QUERY])(b->context, (int)c->m, (int)c->n, (float *)(void *)c->matrix,
                                            (int)c->m, &c->work_size);
    qrt_device_leave(cli_device_gpu(b->device), entered);
    if (result) return refused(b, b->library->symbols[QUERY], result, err);
    status = get(b->device, 4 * (int64_t)c->work_size + 4, &c->work, err);
    return status == QG_OK ? get(b->device, 256, &c->pointers, err) : status;
}

static qg_status load_case(rival_case *c, const qg_case *test, qg_error *err) {
    cli_device *d = c->library->device;
    int64_t bytes = 4 * c->batch * c->m * c->n;
    qg_status status = get(d, bytes, &c->input, err);
    if (status == QG_OK) status = get(d, bytes, &c->matrix, err);
    if (status == QG_OK) status = get(d, 4 * c->batch * c->k, &c->tau, err);
    if (status == QG_OK) status = load_input(c, test, bytes, err);
    if (status == QG_OK)
        status = c->library->library->batched ? load_pointers(c, err) : load_workspace(c, err);
    return status;
}

/* The factorisation is in place: what the last pass left is replaced before the next. */
static qg_status restore(void *context, qg_error *err) {
    rival_case *c = context;
    return cli_copy(c->library->device, c->matrix, c->input, 4 * c->batch * c->m * c->n, err);
}

static qg_status pass(void *context, qg_error *err) {
    rival_case *c = context;
    const cli_baseline *b = c->library;
    bool entered = false;
    qg_status status = enter(b->device, &entered, err);
    if (status != QG_OK) return status;
    int result = b->library->factor(c);
    qrt_device_leave(cli_device_gpu(b->device), entered);
    return result ? refused(b, b->library->symbols[GEQRF], result, err) : QG_OK;
}

/* A looped library may need minutes for a large batch: one matrix is timed first. */
static qg_status bound_batch(rival_case *c, const cli_timer *timer, qg_error *err) {
    cli_timer quick = *timer;
    cli_timing one;
    int64_t all = c->batch;
    quick.max_seconds = 0;
    if (c->library->library->batched || all < 2) return QG_OK;
    c->batch = 1;
    qg_status status = cli_time(&quick, &(cli_timed){restore, pass, c, 1}, &one, err);
    double fit = one.mean > 0 ? 1e6 * timer->max_seconds / one.mean : (double)all;
    c->batch = fit >= (double)all ? all : fit < 1 ? 1 : (int64_t)fit;
    return status;
}

qg_status cli_baseline_time(cli_baseline *b, cli_timer *timer, const qg_case *test, cli_timing *out,
                            int64_t *timed, qg_error *err) {
    rival_case c = {.library = b, .m = test->m, .n = test->n, .batch = test->batch};
    c.k = c.m < c.n ? c.m : c.n;
    if (!c.k || !c.batch || c.batch > INT32_MAX)
        return qg_fail(err, QG_UNSUPPORTED, b->library->name, "takes no such sizes", "");
    qg_status status = load_case(&c, test, err);
    if (status == QG_OK) status = bound_batch(&c, timer, err);
    if (status == QG_OK) status = cli_time(timer, &(cli_timed){restore, pass, &c, 1}, out, err);
    double scale = (double)test->batch / (double)c.batch;
    if (status == QG_OK) {
        out->mean *= scale;
        out->median *= scale;
        out->least *= scale;
    }
    *timed = c.batch;
    release_case(&c);
    return status;
}
