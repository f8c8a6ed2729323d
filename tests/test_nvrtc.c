/* The real NVRTC, no GPU: every default plan of the config sets compiles for sm_90a without a stack frame or
 * spills, and one plan of each family for every other target. `make test` takes the contest set whole, the
 * ends of the others, and one other target a family; QRSMITH_TEST_ALL=1 takes everything. */
#include "tests/lib/support.h"

#include "gen/config.h"
#include "runtime/compile.h"
#include "tests/lib/micro.h"
#include <elf.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static qg_library *lib;
static qrt_compiler *compiler;
static time_t started;

static void fail_with(const char *what, const qg_error *err) {
    fail_msg("%s: %s: %s (%s)", what, err->what, err->why, err->fix);
}

static int set_up(void **state) {
    (void)state;
    qg_error err = {0};
    started = time(NULL);
    if (qg_library_open(NULL, &lib, &err) || qrt_compiler_open(NULL, &compiler, &err)) {
        print_error("%s: %s\n", err.what, err.why);
        return 1;
    }
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    qrt_compiler_close(compiler);
    qg_library_close(lib);
    return 0;
}

/* ---------------------------------------------------------------------------------------------- jobs */

#define JOBS 1024

#define SECONDS 240 /* after which a short run starts no more compiles */

typedef struct job {
    qg_plan *plan;
    char failure[1024];
    bool done;
} job;

static job jobs[JOBS];
static int job_count;
static atomic_int next_job;

/* Takes the plan over; a source already listed for that arch is dropped. */
static void add_job(qg_plan *plan) {
    for (int i = 0; i < job_count; i++)
        if (jobs[i].plan->device.arch == plan->device.arch && !strcmp(jobs[i].plan->source, plan->source)) {
            qg_plan_free(plan);
            return;
        }
    assert_true(job_count < JOBS);
    jobs[job_count++] = (job){.plan = plan};
}

static void judge(job *j, const qrt_cubin *cubin) {
    size_t used = 0;
    for (int i = 0; i < cubin->kernel_count; i++) {
        const qrt_kernel_report *k = &cubin->kernels[i];
        if (!k->stack && !k->spill_stores && !k->spill_loads && !k->static_smem) continue;
        used +=
            (size_t)snprintf(j->failure + used, sizeof j->failure - used,
                             "%s: %d registers, stack %d, spills %d/%d, static shared memory %d; ", k->name,
                             k->registers, k->stack, k->spill_stores, k->spill_loads, k->static_smem);
        if (used >= sizeof j->failure) return;
    }
    if (!cubin->kernel_count) snprintf(j->failure, sizeof j->failure, "no kernel in the report");
}

static void run_job(job *j) {
    qg_error err = {0};
    qrt_cubin *cubin;
    const qg_plan *plan = j->plan;
    j->done = true;
    if (qrt_compile(compiler, lib, plan->source, plan->source_size, plan->device.arch, &cubin, &err)) {
        snprintf(j->failure, sizeof j->failure, "%.900s", err.why);
        return;
    }
    judge(j, cubin);
    if (cubin->origin == QRT_COMPILED)
        print_message("    %s for %s: %.1f s\n", plan->name, qg_compile_target(plan->device.arch),
                      cubin->seconds);
    qrt_cubin_free(cubin);
}

static void *worker(void *unused) {
    (void)unused;
    for (int i; (i = atomic_fetch_add(&next_job, 1)) < job_count;)
        if (qt_test_all() || time(NULL) - started < SECONDS) run_job(&jobs[i]);
    return NULL;
}

/* Compiles what is listed on all CPUs, says what failed, and empties the list. */
static void run_jobs(void) {
    enum { MOST = 16 };
    pthread_t threads[MOST];
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    int count = cpus < 1 ? 1 : cpus > MOST ? MOST : (int)cpus, failed = 0, done = 0;
    atomic_store(&next_job, 0);
    for (int i = 0; i < count; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, worker, NULL), 0);
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < job_count; i++) {
        if (jobs[i].failure[0])
            print_error("%s for %s: %s\n", jobs[i].plan->name, qg_compile_target(jobs[i].plan->device.arch),
                        jobs[i].failure);
        failed += jobs[i].failure[0] != 0;
        done += jobs[i].done;
        qg_plan_free(jobs[i].plan);
    }
    print_message("    %d of %d sources compiled, %d failed%s\n", done, job_count, failed,
                  done < job_count ? "; the rest wants QRSMITH_TEST_ALL=1 or another run" : "");
    job_count = 0;
    assert_int_equal(failed, 0);
}

/* ---------------------------------------------------------------------------------------------- config sets
 */

/* `ends`: only the first and last entry, unless everything is asked for. */
static void compile_config(const char *path, bool ends) {
    qg_error err = {0};
    qg_config *config;
    qg_device h200;
    int unplanned = 0;
    if (qg_config_read(path, &config, &err)) fail_with(path, &err);
    if (qg_device_profile("h200", &h200, &err)) fail_with("h200", &err);
    for (int i = 0; i < config->count; i++) {
        if (ends && !qt_test_all() && i && i != config->count - 1) continue;
        const qg_config_entry *entry = &config->entries[i];
        qg_request request = {.family = entry->family, .params = entry->params};
        qg_plan *plan;
        if (!qg_plan_make(lib, &entry->shape, &h200, &request, &plan, &err)) {
            add_job(plan);
        } else {
            print_error("%s: %s: %s: %s\n", path, entry->where, err.what, err.why);
            unplanned++;
        }
    }
    qg_config_free(config);
    run_jobs();
    assert_int_equal(unplanned, 0);
}

static void contest_set_compiles_clean(void **state) {
    (void)state;
    compile_config("configs/contest.json", false);
}

static void small_set_compiles_clean(void **state) {
    (void)state;
    compile_config("configs/small.json", true);
}

static void optimizers_set_compiles_clean(void **state) {
    (void)state;
    compile_config("configs/optimizers.json", true);
}

/* ---------------------------------------------------------------------------------------------- targets */

/* One device a target; the numbers are those of A100, RTX 3090, L40, H200, B200, B300, RTX 5090. */
static const qg_device targets[] = {
    {"sm_80", 80, 108, 166912, 167936, 65536, 40 << 20, 1, INT64_C(80) << 30},
    {"sm_86", 86, 82, 101376, 102400, 65536, 6 << 20, 1, INT64_C(24) << 30},
    {"sm_89", 89, 142, 101376, 102400, 65536, 96 << 20, 1, INT64_C(48) << 30},
    {"sm_100", 100, 148, 232448, 233472, 65536, 126 << 20, 8, INT64_C(180) << 30},
    {"sm_103", 103, 148, 232448, 233472, 65536, 126 << 20, 8, INT64_C(270) << 30},
    {"sm_120", 120, 170, 101376, 102400, 65536, 96 << 20, 8, INT64_C(32) << 30},
};
#define TARGETS (int)(sizeof targets / sizeof *targets)

/* The first of a few shapes that the family takes on that device. */
static qg_plan *any_plan(const char *family, qg_operation operation, const qg_device *device) {
    static const struct {
        int64_t m, n;
        qg_precision precision;
    } shapes[] = {{512, 512, QG_FP16}, {512, 512, QG_FP32}, {176, 176, QG_FP16},
                  {64, 64, QG_FP32},   {32, 32, QG_FP32},   {8, 8, QG_FP32}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        qg_shape shape = {.m = shapes[i].m,
                          .n = shapes[i].n,
                          .precision = shapes[i].precision,
                          .operation = operation,
                          .max_batch = 100};
        qg_request request = {.family = family};
        qg_plan *plan;
        if (!qg_plan_make(lib, &shape, device, &request, &plan, NULL)) return plan;
    }
    return NULL;
}

static void every_family_compiles_for_the_other_targets(void **state) {
    (void)state;
    json_t *families = qg_library_families(lib), *one;
    size_t i;
    int taken[TARGETS] = {0};
    json_array_foreach(families, i, one) {
        const char *name = json_string_value(json_object_get(one, "name"));
        bool verify = !strcmp(json_string_value(json_object_get(one, "op")), "verify");
        for (int t = 0; t < TARGETS; t++) {
            if (!qt_test_all() && (int)(i % TARGETS) != t) continue;
            qg_plan *plan = any_plan(name, verify ? QG_VERIFY : QG_GEQRF, &targets[t]);
            if (plan) add_job(plan);
            taken[t] += plan && !verify;
        }
    }
    json_decref(families);
    run_jobs();
    for (int t = 0; t < TARGETS && qt_test_all(); t++)
        if (!taken[t]) fail_msg("no family takes anything on %s", targets[t].name);
}

static void the_microbenchmarks_compile_clean(void **state) {
    (void)state;
    qg_error err = {0};
    qg_library *micro;
    qg_device h200;
    if (qg_library_open(&(qg_library_options){.extra_families = QT_MICRO_FOLDER}, &micro, &err))
        fail_with(QT_MICRO_FOLDER, &err);
    if (qg_device_profile("h200", &h200, &err)) fail_with("h200", &err);
    for (const qt_micro *m = qt_micros; m->family; m++) {
        qg_shape shape = qt_micro_shape(m);
        qg_plan *plan;
        if (qg_plan_make(micro, &shape, &h200, &(qg_request){.family = m->family}, &plan, &err))
            fail_with(m->family, &err);
        add_job(plan);
    }
    run_jobs();
    qg_library_close(micro);
}

/* ---------------------------------------------------------------------------------------------- where code
 * lies */

/* Of the functions that a cubin's kernel calls: where the last of the usual ones lies, and where the first of
 * those that only rare panels call. */
static void where_functions_lie(const qrt_cubin *cubin, uint64_t *last_usual, uint64_t *first_rare) {
    const unsigned char *elf = cubin->data;
    const Elf64_Ehdr *head = (const void *)elf;
    const Elf64_Shdr *section = (const void *)(elf + head->e_shoff);
    *last_usual = 0;
    *first_rare = UINT64_MAX;
    for (int i = 0; i < head->e_shnum; i++) {
        if (section[i].sh_type != SHT_SYMTAB) continue;
        const Elf64_Sym *symbols = (const void *)(elf + section[i].sh_offset);
        const char *names = (const char *)elf + section[section[i].sh_link].sh_offset;
        for (size_t s = 0; s < section[i].sh_size / sizeof *symbols; s++) {
            const char *name = names + symbols[s].st_name;
            uint64_t place = symbols[s].st_value;
            if (strncmp(name, "$fused$", 7) != 0) continue;
            if (strstr(name, "wide_rows") || strstr(name, "gram_pair"))
                *first_rare = place < *first_rare ? place : *first_rare;
            else
                *last_usual = place > *last_usual ? place : *last_usual;
        }
    }
}

/* What panels walk adjoins in memory (blocks/fused_wide.cuh): a function behind those that only rare panels
 * call costs 8 % of the time. */
static void what_every_panel_calls_lies_ahead_of_what_few_do(void **state) {
    (void)state;
    qg_error err = {0};
    qg_device h200;
    if (qg_device_profile("h200", &h200, &err)) fail_with("h200", &err);
    for (int fp16 = 0; fp16 < 2; fp16++) {
        qg_shape shape = {.m = 512,
                          .n = 512,
                          .precision = fp16 ? QG_FP16 : QG_FP32,
                          .operation = QG_GEQRF,
                          .max_batch = 640};
        qg_plan *plan;
        qrt_cubin *cubin;
        uint64_t usual, rare;
        if (qg_plan_make(lib, &shape, &h200, &(qg_request){.family = "fused"}, &plan, &err))
            fail_with("512 x 512", &err);
        if (qrt_compile(compiler, lib, plan->source, plan->source_size, plan->device.arch, &cubin, &err))
            fail_with(plan->name, &err);
        where_functions_lie(cubin, &usual, &rare);
        assert_true(usual > 0 && rare < UINT64_MAX);
        if (usual > rare)
            fail_msg(
                "%s: what every panel calls ends at %llu, behind what few do, at %llu: names of ten letters "
                "and more come first",
                plan->name, (unsigned long long)usual, (unsigned long long)rare);
        qrt_cubin_free(cubin);
        qg_plan_free(plan);
    }
}

/* ---------------------------------------------------------------------------------------------- the compiler
 * itself */

static qg_status compile_text(const char *source, int arch, qrt_cubin **out, qg_error *err) {
    return qrt_compile(compiler, lib, source, strlen(source), arch, out, err);
}

static void reports_are_read_from_the_compilers_log(void **state) {
    (void)state;
    qg_error err = {0};
    qrt_cubin *cubin;
    static const char source[] = "extern \"C\" __global__ void clean(float *a) { a[threadIdx.x] *= 2.0f; }\n"
                                 "extern \"C\" __global__ void framed(float *a, int n) {\n"
                                 "    float z[200];\n"
                                 "    for (int i = 0; i < n; i++) z[(i * n) % 200] = a[i];\n"
                                 "    a[0] = z[n];\n}\n";
    if (compile_text(source, 90, &cubin, &err)) fail_with("compile", &err);
    assert_int_equal(cubin->kernel_count, 2);
    for (int i = 0; i < 2; i++) {
        const qrt_kernel_report *k = &cubin->kernels[i];
        assert_true(k->registers > 0 && k->registers < 256);
        if (!strcmp(k->name, "clean"))
            assert_int_equal(k->stack, 0);
        else
            assert_int_equal(k->stack, 800);
    }
    assert_memory_equal(cubin->data, "\177ELF", 4);
    qrt_cubin_free(cubin);
}

/* NVRTC from 12.9 on keeps cubins by itself where there is a driver, without their logs. */
static void what_is_compiled_again_is_reported_again(void **state) {
    (void)state;
    qg_error err = {0};
    qrt_compiler *forgetful;
    static const char source[] = "extern \"C\" __global__ void again(float *a) { a[threadIdx.x] *= 3.0f; }\n";
    if (qrt_compiler_open(&(qrt_compiler_options){.no_cache = true}, &forgetful, &err))
        fail_with("compiler", &err);
    for (int i = 0; i < 2; i++) {
        qrt_cubin *cubin;
        if (qrt_compile(forgetful, lib, source, strlen(source), 90, &cubin, &err)) fail_with("compile", &err);
        assert_int_equal(cubin->origin, QRT_COMPILED);
        assert_int_equal(cubin->kernel_count, 1);
        assert_true(cubin->kernels[0].registers > 0);
        qrt_cubin_free(cubin);
    }
    qrt_compiler_close(forgetful);
}

static void errors_name_the_templates_file_and_line(void **state) {
    (void)state;
    qg_error err = {0};
    qrt_cubin *cubin;
    assert_int_equal(compile_text("#line 41 \"blocks/panel.cuh\"\n\nint x = nonsense;\n", 90, &cubin, &err),
                     QG_INTERNAL);
    qt_assert_contains(err.why, "blocks/panel.cuh(42): error");
    qt_assert_contains(err.why, "nonsense");
    assert_int_equal(compile_text("int x;", 75, &cubin, &err), QG_UNSUPPORTED);
    qt_assert_contains(err.fix, "sm_90");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reports_are_read_from_the_compilers_log),
        cmocka_unit_test(what_is_compiled_again_is_reported_again),
        cmocka_unit_test(errors_name_the_templates_file_and_line),
        cmocka_unit_test(contest_set_compiles_clean),
        cmocka_unit_test(what_every_panel_calls_lies_ahead_of_what_few_do),
        cmocka_unit_test(small_set_compiles_clean),
        cmocka_unit_test(optimizers_set_compiles_clean),
        cmocka_unit_test(every_family_compiles_for_the_other_targets),
        cmocka_unit_test(the_microbenchmarks_compile_clean),
    };
    return cmocka_run_group_tests_name("nvrtc", tests, set_up, tear_down);
}
