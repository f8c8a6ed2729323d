/* qrsmith compile: cubins without a GPU. */
#include "runtime/cli/commands.h"
#include "runtime/cli/jobs.h"
#include "runtime/cli/output.h"
#include "runtime/cli/report.h"
#include "runtime/cli/select.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ARCHS_MAX = 16 };

typedef struct values {
    cli_source source;
    const char *archs, *profile, *folder;
    int64_t threads;
    bool report, strict, json, lineinfo, no_cache;
} values;

typedef struct work {
    const values *v;
    qg_device devices[ARCHS_MAX];
    int device_count;
    qg_config *config;
    qg_library *lib;
    qrt_compiler *compiler;
    cli_job *jobs;
    int job_count;
    bool unclean; /* a kernel has a stack frame or spills, or the compiler said nothing of any */
} work;

static void defaults(void *p) {
    values *v = p;
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    v->threads = cpus > 0 && cpus <= 64 ? cpus : cpus > 64 ? 64 : 1;
}

static void warn(void *user, const char *text) {
    (void)user;
    cli_note("%s", text);
}

/* ---- targets ---- */

/* Shared memory and SM count of a typical device of each arch. */
static const struct typical {
    int arch;
    const char *profile;
} typical[] = {{80, "a100"},  {86, "rtx3090"}, {89, "rtx4090"}, {90, "h200"},
               {100, "b200"}, {103, "b300"},   {120, "rtx5090"}};

static qg_status unknown_arch(const char *text, qg_error *err) {
    return qg_failf(err, QG_UNSUPPORTED, "--arch", qg_compile_targets(), "found '%.40s'", text);
}

/* "sm_90", "sm_90a" or "90" to 90. */
static qg_status parse_arch(const char *text, int *arch, qg_error *err) {
    const char *digits = !strncmp(text, "sm_", 3) ? text + 3 : text;
    char *end = NULL;
    long value = strtol(digits, &end, 10);
    if (digits[0] < '1' || digits[0] > '9' || (*end && strcmp(end, "a")) || value > 999)
        return unknown_arch(text, err);
    *arch = (int)value;
    const char *target = qg_compile_target(*arch);
    bool exact = target && (!*end || target[strlen(target) - 1] == 'a');
    return exact ? QG_OK : unknown_arch(text, err);
}

static qg_status add_device(work *w, const char *text, qg_error *err) {
    int arch = 0;
    qg_device *d = &w->devices[w->device_count];
    qg_status status = parse_arch(text, &arch, err);
    if (status != QG_OK) return status;
    const char *profile = w->v->profile;
    for (size_t i = 0; i < sizeof typical / sizeof *typical && !profile; i++)
        profile = typical[i].arch == arch ? typical[i].profile : NULL;
    if (!profile) return unknown_arch(text, err);
    status = qg_device_profile(profile, d, err);
    if (status == QG_OK && d->arch != arch)
        return qg_failf(err, QG_BAD_INPUT, "--device-profile", "leave --arch or the profile away",
                        "%s is an sm_%d, not an sm_%d", profile, d->arch, arch);
    w->device_count += status == QG_OK;
    return status;
}

static qg_status add_devices(work *w, qg_error *err) {
    char words[ARCHS_MAX][64];
    qg_status status = QG_OK;
    if (!w->v->archs && w->v->profile) { /* the profile says which */
        status = qg_device_profile(w->v->profile, &w->devices[0], err);
        w->device_count = status == QG_OK;
        return status;
    }
    const char *archs = w->v->archs ? w->v->archs : "sm_90";
    int count = cli_split_list(archs, words, ARCHS_MAX);
    if (count < 0) return unknown_arch(archs, err);
    for (int i = 0; i < count && status == QG_OK; i++)
        status = add_device(w, words[i], err);
    return status;
}

/* ---- reports ---- */

static int registers_of(const qrt_cubin *c) {
    int most = 0;
    for (int i = 0; i < c->kernel_count; i++)
        most = c->kernels[i].registers > most ? c->kernels[i].registers : most;
    return most;
}

static bool unclean(const qrt_kernel_report *k) {
    return k->stack || k->spill_stores || k->spill_loads;
}

static void print_job(const cli_job *job, bool report) {
    const qrt_cubin *c = job->cubin;
    char size[32];
    printf("%-56s %-8s %3d registers  %9s  %s %.2f s\n", job->plan->name,
           qg_compile_target(job->device->arch), registers_of(c), cli_bytes((double)c->size, size),
           qrt_origin_name(c->origin), c->seconds);
    for (int i = 0; i < c->kernel_count && report; i++) {
        const qrt_kernel_report *k = &c->kernels[i];
        printf("  %-54s %-8s %3d registers  %9d B static  stack %d B  spills %d B stored, %d B loaded\n",
               k->name, "", k->registers, k->static_smem, k->stack, k->spill_stores, k->spill_loads);
    }
}

static json_t *kernel_json(const qrt_kernel_report *k) {
    return json_pack("{s:s, s:i, s:i, s:i, s:i, s:i}", "name", k->name, "registers", k->registers, "stack",
                     k->stack, "spill_stores", k->spill_stores, "spill_loads", k->spill_loads, "static_smem",
                     k->static_smem);
}

static json_t *job_json(const cli_job *job) {
    json_t *kernels = json_array();
    for (int i = 0; i < job->cubin->kernel_count; i++)
        json_array_append_new(kernels, kernel_json(&job->cubin->kernels[i]));
    char key[QRT_KEY_TEXT];
    return json_pack("{s:s, s:s, s:s, s:O, s:O, s:I, s:s, s:s, s:o}", "plan", job->plan->name, "target",
                     qg_compile_target(job->device->arch), "family", job->plan->family, "params",
                     job->plan->params, "resources", job->plan->resources, "bytes",
                     (json_int_t)job->cubin->size, "key", qrt_key_text(&job->cubin->key, key), "origin",
                     qrt_origin_name(job->cubin->origin), "kernels", kernels);
}

/* ---- files ---- */

static qg_status write_cubin(const cli_job *job, const char *folder, qg_error *err) {
    char path[4096];
    cli_outputs set = {0};
    FILE *f = NULL;
    snprintf(path, sizeof path, "%s/%s.%s.cubin", folder, job->plan->name,
             qg_compile_target(job->device->arch));
    qg_status status = cli_output_add(&set, path, &f, err);
    if (status != QG_OK) return status;
    fwrite(job->cubin->data, 1, job->cubin->size, f);
    return cli_outputs_commit(&set, err);
}

static qg_status write_cubins(const work *w, qg_error *err) {
    const char *folder = w->v->folder;
    if (mkdir(folder, 0777) && errno != EEXIST)
        return qg_fail(err, QG_ENVIRONMENT, folder, strerror(errno), "a folder that can be made or written");
    qg_status status = QG_OK;
    for (int i = 0; i < w->job_count && status == QG_OK; i++)
        status = write_cubin(&w->jobs[i], folder, err);
    return status;
}

/* ---- the command ---- */

static qg_status make_jobs(work *w, qg_error *err) {
    w->jobs = calloc((size_t)w->config->count * (size_t)w->device_count + 1, sizeof *w->jobs);
    if (!w->jobs) return qg_fail(err, QG_NO_MEMORY, "compile", "no memory for its list", "");
    for (int d = 0; d < w->device_count; d++)
        for (int i = 0; i < w->config->count; i++)
            w->jobs[w->job_count++] = (cli_job){.entry = &w->config->entries[i], .device = &w->devices[d]};
    return QG_OK;
}

static void progress(int done, int total) {
    cli_progress(done, total, "compiled");
}

/* Every failure is told; the first one decides the exit code. */
static qg_status tell_failures(const work *w, qg_error *err) {
    const cli_job *first = NULL;
    for (int i = 0; i < w->job_count; i++) {
        const cli_job *job = &w->jobs[i];
        if (job->status == QG_OK) continue;
        if (!first)
            *err = job->err;
        else if (strcmp(first->err.what, job->err.what) || strcmp(first->err.why, job->err.why))
            cli_report(&job->err);
        first = first ? first : job;
    }
    return first ? first->status : QG_OK;
}

static qg_status compile_all(work *w, qg_error *err) {
    const values *v = w->v;
    qrt_compiler_options options = {.cache = {.warn = warn},
                                    .no_cache = v->no_cache,
                                    .lineinfo = v->lineinfo,
                                    .threads = (int)v->threads};
    const qrt_nvrtc *nvrtc = NULL;
    qg_status status = add_devices(w, err);
    if (status == QG_OK) status = cli_open_config(&v->source, &w->config, err);
    if (status == QG_OK) status = cli_open_library(&w->lib, err);
    if (status == QG_OK) status = qrt_compiler_open(&options, &w->compiler, err);
    if (status == QG_OK) status = qrt_compiler_nvrtc(w->compiler, &nvrtc, err);
    if (status == QG_OK) status = make_jobs(w, err);
    if (status != QG_OK) return status;
    cli_jobs_run(w->jobs, w->job_count, (int)v->threads, w->lib, w->compiler, progress);
    cli_progress_clear();
    status = tell_failures(w, err);
    return status == QG_OK && v->folder ? write_cubins(w, err) : status;
}

/* What compiled, also beside failures: it is in the cache. */
static int print_results(work *w) {
    json_t *list = w->v->json ? json_array() : NULL;
    int compiled = 0;
    for (int i = 0; i < w->job_count; i++) {
        const cli_job *job = &w->jobs[i];
        if (!job->cubin) continue;
        compiled++;
        w->unclean |= !job->cubin->kernel_count;
        for (int k = 0; k < job->cubin->kernel_count; k++)
            w->unclean |= unclean(&job->cubin->kernels[k]);
        if (list)
            json_array_append_new(list, job_json(job));
        else
            print_job(job, w->v->report);
    }
    if (list && !cli_print_json(list)) return CLI_ENVIRONMENT;
    if (!list && compiled)
        printf("%d cubin%s, %s\n", compiled, compiled == 1 ? "" : "s",
               w->unclean ? "some with a stack frame, spills or nothing reported (--report)"
                          : "no stack frames, no spills");
    return w->unclean && w->v->strict ? CLI_FAILED : CLI_DONE;
}

static int run(const void *p) {
    qg_error err = {0};
    work w = {.v = p};
    qg_status status = compile_all(&w, &err);
    int code = w.jobs ? print_results(&w) : CLI_DONE;
    if (status != QG_OK) code = cli_report(&err);
    cli_jobs_free(w.jobs, w.job_count);
    free(w.jobs);
    if (w.compiler) qrt_compiler_close(w.compiler);
    if (w.lib) qg_library_close(w.lib);
    if (w.config) qg_config_free(w.config);
    return code;
}

static const cli_argument arguments[] = {
    {"CONFIG", offsetof(values, source.file), false, "shapes, as configs/example.json explains"}, {0}};
static const cli_option options[] = {
    {"arch", 0, CLI_TEXT, offsetof(values, archs), "A,B",
     "targets: sm_80, sm_86, sm_89, sm_90, ... Default: the profile's, else sm_90", 0, 0},
    {"output", 'o', CLI_TEXT, offsetof(values, folder), "DIR", "also write NAME.TARGET.cubin files here", 0,
     0},
    {"jobs", 'j', CLI_INT, offsetof(values, threads), "N", "compiles at once. Default: one a CPU", 1, 64},
    {"report", 0, CLI_FLAG, offsetof(values, report), NULL,
     "registers, memory, stack and spills of each kernel", 0, 0},
    {"strict", 0, CLI_FLAG, offsetof(values, strict), NULL,
     "exit 1 when a kernel has a stack frame or spills, or nothing was reported of it", 0, 0},
    {"json", 0, CLI_FLAG, offsetof(values, json), NULL, "the report as JSON", 0, 0},
    {"device-profile", 0, CLI_TEXT, offsetof(values, profile), "P",
     "plan for this GPU instead of a typical one of the target", 0, 0},
    CLI_LINEINFO_OPTION(values, lineinfo),
    {"no-cache", 0, CLI_FLAG, offsetof(values, no_cache), NULL,
     "compile even what is in the cache, and keep nothing", 0, 0},
    CLI_SOURCE_OPTION(values, source),
    {0}};

const cli_command cli_compile = {
    "compile",
    "compile shapes to cubins with NVRTC; needs no GPU",
    "Cubins go to the cache (qrsmith cache ls), where a later run on the GPU finds them, and to DIR if one "
    "is given.",
    "  qrsmith compile configs/contest.json --arch sm_90 --report --strict\n"
    "  qrsmith compile --shape 640x512x512:fp16 --arch sm_80,sm_90,sm_100 -o cubins -j 4",
    arguments,
    options,
    sizeof(values),
    defaults,
    run};
