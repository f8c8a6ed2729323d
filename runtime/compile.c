#include "runtime/compile.h"
#include "gen/text.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct qrt_compiler {
    qrt_cache *cache; /* NULL: none */
    char *nvrtc_path; /* NULL: search */
    bool lineinfo;
    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t freed;
    qrt_nvrtc nvrtc; /* handle NULL until the first use; constant afterwards */
    int running, limit;
};

static const char what_compile[] = "compiling a kernel";

static qg_status no_memory(qg_error *err) {
    return qg_fail(err, QG_NO_MEMORY, what_compile, "out of memory", "");
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ------------------------------------------------------------------------------------------ the compiler */

qg_status qrt_compiler_open(const qrt_compiler_options *options, qrt_compiler **out, qg_error *err) {
    static const qrt_compiler_options none = {0};
    if (!options) options = &none;
    qrt_compiler *c = calloc(1, sizeof *c);
    if (!c) return no_memory(err);
    pthread_mutex_init(&c->mutex, NULL);
    pthread_cond_init(&c->freed, NULL);
    c->lineinfo = options->lineinfo;
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    c->limit = options->threads > 0 ? options->threads : cpus < 1 ? 1 : cpus > 16 ? 16 : (int)cpus;
    if (options->nvrtc && *options->nvrtc && !(c->nvrtc_path = strdup(options->nvrtc))) {
        qrt_compiler_close(c);
        return no_memory(err);
    }
    qg_status status = options->no_cache ? QG_OK : qrt_cache_open(&options->cache, &c->cache, err);
    if (status) {
        qrt_compiler_close(c);
        return status;
    }
    *out = c;
    return QG_OK;
}

void qrt_compiler_close(qrt_compiler *c) {
    if (!c) return;
    qrt_cache_close(c->cache);
    if (c->nvrtc.handle) qrt_nvrtc_close(&c->nvrtc);
    pthread_cond_destroy(&c->freed);
    pthread_mutex_destroy(&c->mutex);
    free(c->nvrtc_path);
    free(c);
}

qrt_cache *qrt_compiler_cache(qrt_compiler *c) {
    return c->cache;
}

qg_status qrt_compiler_nvrtc(qrt_compiler *c, const qrt_nvrtc **out, qg_error *err) {
    pthread_mutex_lock(&c->mutex);
    qg_status status = c->nvrtc.handle ? QG_OK : qrt_nvrtc_open(c->nvrtc_path, &c->nvrtc, err);
    pthread_mutex_unlock(&c->mutex);
    if (!status) *out = &c->nvrtc;
    return status;
}

static void take_turn(qrt_compiler *c) {
    pthread_mutex_lock(&c->mutex);
    while (c->running >= c->limit)
        pthread_cond_wait(&c->freed, &c->mutex);
    c->running++;
    pthread_mutex_unlock(&c->mutex);
}

static void give_turn(qrt_compiler *c) {
    pthread_mutex_lock(&c->mutex);
    c->running--;
    pthread_cond_signal(&c->freed);
    pthread_mutex_unlock(&c->mutex);
}

/* ------------------------------------------------------------------------------------------ one job */

#define OPTIONS 10

typedef struct job {
    const qrt_nvrtc *nvrtc;
    const qg_library *lib;
    const char *source, *target;
    size_t source_size;
    char arch_option[48];
    const char *options[OPTIONS];
    int option_count;
    char **names; /* headers in use that the library has, owned */
    const char **headers;
    int header_count;
    char *log; /* of the compile */
} job;

static const char *library_header(void *lib, const char *name, size_t *size) {
    return qg_library_header(lib, name, size);
}

static qrt_key_inputs key_inputs(const job *j) {
    return (qrt_key_inputs){.source = j->source,
                            .source_size = j->source_size,
                            .options = j->options,
                            .option_count = j->option_count,
                            .nvrtc_major = j->nvrtc->major,
                            .nvrtc_minor = j->nvrtc->minor,
                            .target = j->target,
                            .header = library_header,
                            .user = (void *)(uintptr_t)j->lib};
}

static void add_option(job *j, const char *option) {
    j->options[j->option_count++] = option;
}

/* Contraction is off because sources say fmaf() where they mean it, and so give the host's bits. */
static void choose_options(job *j, bool lineinfo) {
    snprintf(j->arch_option, sizeof j->arch_option, "--gpu-architecture=%s", j->target);
    add_option(j, j->arch_option);
    add_option(j, "--std=c++17");
    add_option(j, "--fmad=false");
    add_option(j, "--ftz=false");
    add_option(j, "--prec-div=true");
    add_option(j, "--prec-sqrt=true");
    add_option(j, "--ptxas-options=-v");
    if (lineinfo) add_option(j, "-lineinfo");
    if (j->nvrtc->major > 12 || (j->nvrtc->major == 12 && j->nvrtc->minor >= 9))
        add_option(j, "--no-cache"); /* the driver's, which the log is not in: there would be no report */
}

static qg_status gather_headers(job *j, qg_error *err) {
    qrt_key_inputs inputs = key_inputs(j);
    qg_status status = qrt_key_headers(&inputs, &j->names, &j->header_count, err);
    if (status) return status;
    j->headers = calloc((size_t)j->header_count + 1, sizeof *j->headers);
    if (!j->headers) return no_memory(err);
    int kept = 0;
    for (int i = 0; i < j->header_count; i++) {
        size_t size;
        const char *text = qg_library_header(j->lib, j->names[i], &size);
        if (text) { /* else a system header under a host-only condition */
            char *name = j->names[i];
            j->names[i] = j->names[kept];
            j->names[kept] = name;
            j->headers[kept++] = text;
        } else {
            free(j->names[i]);
            j->names[i] = NULL;
        }
    }
    j->header_count = kept;
    return QG_OK;
}

static void job_free(job *j) {
    qrt_key_headers_free(j->names, j->header_count);
    free(j->headers);
    free(j->log);
}

/* An error's log in what fits: errors first, since warnings may fill pages. */
static void summarise(const char *log, char *out, size_t size) {
    size_t used = 0;
    out[0] = 0;
    for (const char *at = log; *at && used + 1 < size;) {
        size_t line = strcspn(at, "\n");
        bool error = memmem(at, line, "error", 5) || memmem(at, line, "fatal", 5);
        if (error) {
            int put = snprintf(out + used, size - used, "%s%.*s", used ? "; " : "", (int)line, at);
            used += put > 0 ? (size_t)put : 0;
        }
        at += line + (at[line] == '\n');
    }
    if (!used) snprintf(out, size, "%s", *log ? log : "the compiler gave no reason");
}

static qg_status check_target(const job *j, qg_error *err) {
    int count = 0, known[64];
    int number = atoi(j->target + 3); /* "sm_90a" */
    if (j->nvrtc->arch_count(&count) || count <= 0 || count > 64 || j->nvrtc->archs(known)) return QG_OK;
    for (int i = 0; i < count; i++)
        if (known[i] == number) return QG_OK;
    return qg_failf(err, QG_UNSUPPORTED, what_compile, "use a newer CUDA toolkit's NVRTC: QRSMITH_NVRTC",
                    "%s is NVRTC %d.%d, which doesn't know %s", j->nvrtc->path, j->nvrtc->major,
                    j->nvrtc->minor, j->target);
}

static qg_status get_log(job *j, void *program, qg_error *err) {
    size_t size = 0;
    j->nvrtc->log_size(program, &size);
    free(j->log);
    j->log = calloc(1, size + 1);
    if (!j->log) return no_memory(err);
    if (size) j->nvrtc->log(program, j->log);
    return QG_OK;
}

static qg_status get_cubin(const job *j, void *program, qrt_cubin *cubin, qg_error *err) {
    size_t size = 0;
    int result = j->nvrtc->cubin_size(program, &size);
    if (result || !size)
        return qg_failf(err, QG_INTERNAL, what_compile, "", "NVRTC gave no cubin for %s: %s", j->target,
                        j->nvrtc->error_text(result));
    cubin->data = malloc(size);
    if (!cubin->data) return no_memory(err);
    cubin->size = size;
    result = j->nvrtc->cubin(program, (char *)cubin->data);
    if (!result) return QG_OK;
    return qg_fail(err, QG_INTERNAL, what_compile, j->nvrtc->error_text(result), "");
}

static qg_status build_program(job *j, void *program, qrt_cubin *cubin, qg_error *err) {
    int result = j->nvrtc->compile(program, j->option_count, j->options);
    qg_status status = get_log(j, program, err);
    if (status) return status;
    if (result) {
        char why[sizeof err->why];
        summarise(j->log, why, sizeof why);
        return qg_failf(err, QG_INTERNAL, what_compile, "", "%s for %s by NVRTC %d.%d: %s",
                        j->nvrtc->error_text(result), j->target, j->nvrtc->major, j->nvrtc->minor, why);
    }
    status = get_cubin(j, program, cubin, err);
    if (status) return status;
    return qrt_report_parse(j->log, &cubin->kernels, &cubin->kernel_count, err);
}

static qg_status build(job *j, qrt_cubin *cubin, qg_error *err) {
    qg_status status = check_target(j, err);
    if (!status) status = gather_headers(j, err);
    if (status) return status;
    void *program = NULL;
    int result = j->nvrtc->create(&program, j->source, "qrsmith.cu", j->header_count, j->headers,
                                  (const char *const *)j->names);
    if (result) return qg_fail(err, QG_INTERNAL, what_compile, j->nvrtc->error_text(result), "");
    status = build_program(j, program, cubin, err);
    j->nvrtc->destroy(&program);
    cubin->origin = QRT_COMPILED;
    return status;
}

/* ------------------------------------------------------------------------------------------ with the cache
 */

static bool load_cached(qrt_compiler *c, qrt_cubin *cubin) {
    qrt_entry entry;
    if (!c->cache || !qrt_cache_load(c->cache, &cubin->key, &entry, &cubin->origin)) return false;
    bool fine = qrt_report_read(entry.metadata, &cubin->kernels, &cubin->kernel_count);
    if (fine) {
        cubin->data = entry.data;
        cubin->size = entry.size;
        entry.data = NULL;
    }
    qrt_entry_free(&entry);
    return fine;
}

static qg_status build_in_turn(qrt_compiler *c, job *j, qrt_cubin *cubin, qg_error *err) {
    take_turn(c);
    qg_status status = build(j, cubin, err);
    give_turn(c);
    if (status || !c->cache) return status;
    char *metadata =
        qrt_report_json(cubin->kernels, cubin->kernel_count, j->target, j->nvrtc->major, j->nvrtc->minor);
    if (metadata) qrt_cache_store(c->cache, &cubin->key, metadata, cubin->data, cubin->size);
    free(metadata);
    return QG_OK;
}

static qg_status obtain(qrt_compiler *c, job *j, qrt_cubin *cubin, qg_error *err) {
    if (load_cached(c, cubin)) return QG_OK;
    if (!c->cache) return build_in_turn(c, j, cubin, err);
    qrt_cache_claim claim;
    qrt_cache_begin(c->cache, &cubin->key, &claim);
    qg_status status = load_cached(c, cubin) ? QG_OK : build_in_turn(c, j, cubin, err);
    qrt_cache_end(c->cache, &claim);
    return status;
}

qg_status qrt_compile(qrt_compiler *c, const qg_library *lib, const char *source, size_t source_size,
                      int arch, qrt_cubin **out, qg_error *err) {
    double started = now();
    job j = {.lib = lib, .source = source, .source_size = source_size, .target = qg_compile_target(arch)};
    if (!j.target)
        return qg_failf(err, QG_UNSUPPORTED, what_compile, qg_compile_targets(),
                        "there is no compile target for arch %d", arch);
    qg_status status = qrt_compiler_nvrtc(c, &j.nvrtc, err);
    if (status) return status;
    choose_options(&j, c->lineinfo);
    qrt_cubin *cubin = calloc(1, sizeof *cubin);
    if (!cubin) return no_memory(err);
    qrt_key_inputs inputs = key_inputs(&j);
    status = qrt_key_make(&inputs, &cubin->key, err);
    if (!status) status = obtain(c, &j, cubin, err);
    job_free(&j);
    if (status) {
        qrt_cubin_free(cubin);
        return status;
    }
    cubin->seconds = now() - started;
    *out = cubin;
    return QG_OK;
}

void qrt_cubin_free(qrt_cubin *cubin) {
    if (!cubin) return;
    free(cubin->data);
    free(cubin->kernels);
    free(cubin);
}
