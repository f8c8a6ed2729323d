/* The runtime against a stand-in driver and compiler (tests/fake/): what reaches the driver, what is refused
 * when, what survives threads, forks, captures and missing pieces. Argument rules of qrs_geqrf are in
 * test_geqrf.c. */
#include "tests/lib/support.h"

#include "runtime/qrsmith.h"
#include "runtime/runtime.h"
#include "tests/lib/fake.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char *folder, *cache_dir, *compile_log;
static fake_cuda_record *fake;
static fake_cuda_record pristine;

static int build_fakes(void **state) {
    (void)state;
    folder = qt_tmpdir();
    cache_dir = qt_format("%s/cache", folder);
    compile_log = qt_format("%s/compiles", folder);
    fake = qt_fake_gpu(folder);
    pristine = *fake;
    setenv("FAKE_NVRTC_LOG", compile_log, 1);
    return 0;
}

static int remove_fakes(void **state) {
    (void)state;
    qt_remove_tree(folder);
    free(folder);
    free(cache_dir);
    free(compile_log);
    return 0;
}

static int reset(void **state) {
    (void)state;
    *fake = pristine;
    qt_remove_tree(cache_dir);
    unlink(compile_log);
    return 0;
}

static qrs_context_options usual_options(void) {
    return (qrs_context_options){.struct_size = sizeof(qrs_context_options),
                                 .cache_dir = cache_dir,
                                 .templates = "tests/fake/templates"};
}

static void check(qrs_status status) {
    if (status) fail_msg("%s: %s", qrs_status_name(status), qrs_last_error());
}

static void assert_refused(qrs_status status, qrs_status expected, const char *text) {
    if (status != expected)
        fail_msg("%s instead of %s: %s", qrs_status_name(status), qrs_status_name(expected),
                 qrs_last_error());
    qt_assert_contains(qrs_last_error(), text);
}

static qrs_context *open_context(void) {
    qrs_context_options options = usual_options();
    qrs_context *context;
    check(qrs_context_create(&options, &context));
    return context;
}

static const qrs_shape usual_shape = {
    .m = 10, .n = 6, .layout_in = QRS_ROW, .layout_out = QRS_COL, .max_batch = 100};

static qrs_status make_plan(qrs_context *context, const char *params, uint32_t flags, qrs_plan **out) {
    qrs_plan_options options = {
        .struct_size = sizeof options, .flags = flags, .family = params ? "toy" : NULL, .params = params};
    return qrs_plan_create(context, &usual_shape, &options, out);
}

static int compiles(void) {
    size_t count = 0;
    if (qt_exists(compile_log)) free(qt_read(compile_log, &count));
    return (int)count;
}

/* Memory a call needs, on the stand-in's "device". */
typedef struct arrays {
    qrs_context *context;
    void *A, *H, *tau, *info, *workspace;
    int64_t bytes;
} arrays;

static arrays make_arrays(qrs_context *context, qrs_plan *plan) {
    arrays a = {.context = context};
    check(qrs_workspace_bytes(plan, 100, &a.bytes));
    check(qrs_memory_alloc(context, 100 * 60 * 4, &a.A));
    check(qrs_memory_alloc(context, 100 * 60 * 4, &a.H));
    check(qrs_memory_alloc(context, 100 * 6 * 4, &a.tau));
    check(qrs_memory_alloc(context, 100 * 4, &a.info));
    check(qrs_memory_alloc(context, a.bytes, &a.workspace));
    return a;
}

static void free_arrays(arrays *a) {
    void *all[] = {a->A, a->H, a->tau, a->info, a->workspace};
    for (int i = 0; i < 5; i++)
        qrs_memory_free(a->context, all[i]);
}

static qrs_status factor(qrs_plan *plan, const arrays *a, int64_t batch, void *stream) {
    return qrs_geqrf(plan, stream, batch, a->A, 6, 60, a->H, 10, 60, a->tau, 6, a->info, a->workspace,
                     a->bytes);
}

/* ---------------------------------------------------------------------------------------------- launching */

static void launches_reach_the_driver_as_the_program_says(void **state) {
    (void)state;
    qrs_context *context = open_context();
    qrs_plan *plan;
    check(make_plan(context, "{\"width\": 4}", 0, &plan));
    arrays a = make_arrays(context, plan);
    fake->arg_count = 1; /* reads no argument that isn't there */
    void *stream = (void *)0x1234;
    memset(a.workspace, 0xff, (size_t)a.bytes);
    check(factor(plan, &a, 90, stream));
    assert_int_equal(fake->launch_count, 2); /* the one with an empty grid is skipped */
    assert_int_equal(fake->set_count, 1);
    assert_int_equal(fake->set_bytes, 360);
    assert_ptr_equal((void *)(uintptr_t)fake->set_address, a.workspace);

    const fake_launch *first = &fake->launches[0], *second = &fake->launches[1];
    assert_string_equal(first->kernel, "first");
    assert_int_equal(first->grid[0], 23);
    assert_int_equal(first->grid[1], 1);
    assert_int_equal(first->block[0], 128);
    assert_int_equal(first->smem, 1024);
    assert_ptr_equal(first->stream, stream);
    assert_int_equal(first->cluster, 0);
    assert_int_equal(first->cooperative, 0);
    assert_int_equal(first->args[0], (uint64_t)(uintptr_t)a.A);
    assert_string_equal(second->kernel, "second");
    assert_int_equal(second->grid[0], 3);
    assert_int_equal(second->grid[1], 5);
    assert_int_equal(second->grid[2], 2);
    assert_int_equal(fake->encode_count, 1);
    assert_int_equal(second->args[0],
                     (uint64_t)(uintptr_t)a.workspace + 512); /* the map starts with its base here */
    assert_int_equal(fake->contexts_pushed, 0);
    free_arrays(&a);
    qrs_plan_destroy(plan);
    qrs_context_destroy(context);
}

static void every_kind_of_argument_arrives(void **state) {
    (void)state;
    qrs_context *context = open_context();
    qrs_plan *plan;
    check(make_plan(context, "{\"width\": 4}", 0, &plan));
    arrays a = make_arrays(context, plan);
    fake->arg_count = 15;
    fake->args_of = "first"; /* the second one has fewer */
    check(factor(plan, &a, 90, NULL));
    const uint64_t *args = fake->launches[0].args;
    assert_int_equal(args[0], (uint64_t)(uintptr_t)a.A);
    assert_int_equal(args[1], (uint64_t)(uintptr_t)a.H);
    assert_int_equal(args[2], (uint64_t)(uintptr_t)a.tau);
    assert_int_equal(args[3], (uint64_t)(uintptr_t)a.info);
    assert_int_equal(args[4], 90);
    assert_int_equal(args[5], 6);
    assert_int_equal(args[6], 60);
    assert_int_equal(args[7], 10);
    assert_int_equal(args[8], 60);
    assert_int_equal(args[9], 6);
    assert_int_equal((uint32_t)args[10], 83);
    assert_int_equal(args[11], 132000000000);
    float quarter;
    memcpy(&quarter, &args[12], 4);
    assert_true(quarter == 0.25f);
    assert_int_equal(args[13], (uint64_t)(uintptr_t)a.workspace);
    assert_int_equal(args[14],
                     (uint64_t)(uintptr_t)a.workspace + 512 + 16); /* buffers start at multiples of 256 */
    free_arrays(&a);
    qrs_plan_destroy(plan);
    qrs_context_destroy(context);
}

static void early_launches_carry_their_attribute(void **state) {
    (void)state;
    qrs_context *context = open_context();
    qrs_plan *plan;
    check(make_plan(context, "{\"early\": 1, \"cluster\": 2, \"cooperative\": 1}", 0, &plan));
    arrays a = make_arrays(context, plan);
    check(factor(plan, &a, 3, NULL));
    assert_int_equal(fake->launches[0].early, 1);
    assert_int_equal(fake->launches[0].cluster, 2);
    assert_int_equal(fake->launches[1].early, 0);
    free_arrays(&a);
    qrs_plan_destroy(plan);
    qrs_context_destroy(context);
}

static void clusters_and_cooperative_launches_carry_their_attributes(void **state) {
    (void)state;
    qrs_context *context = open_context();
    qrs_plan *plan;
    check(make_plan(context, "{\"cluster\": 2, \"cooperative\": 1, \"smem\": 65536}", 0, &plan));
    arrays a = make_arrays(context, plan);
    check(factor(plan, &a, 3, NULL));
    assert_int_equal(fake->launches[0].cluster, 2);
    assert_int_equal(fake->launches[0].cooperative, 1);
    assert_int_equal(fake->launches[0].grid[0], 4);
    assert_int_equal(fake->launches[0].smem, 65536);
    free_arrays(&a);
    qrs_plan_destroy(plan);
    qrs_context_destroy(context);
}

static void what_the_device_cannot_hold_is_refused_when_the_plan_is_made(void **state) {
    (void)state;
    qrs_context *context = open_context();
    qrs_plan *plan;
    assert_refused(make_plan(context, "{\"smem\": 1048576}", 0, &plan), QRS_UNSUPPORTED,
                   "asks for 1048576 bytes of shared memory");
    qt_assert_contains(qrs_last_error(), "has 232448");
    fake->max_clusters = 0;
    assert_refused(make_plan(context, "{\"cluster\": 8}", 0, &plan), QRS_UNSUPPORTED, "resident clusters");
    fake->resident = 0;
    assert_refused(make_plan(context, "{\"cooperative\": 1}", 0, &plan), QRS_UNSUPPORTED,
                   "blocks resident at once");
    fake->max_threads = 64;
    assert_refused(make_plan(context, NULL, 0, &plan), QRS_UNSUPPORTED, "asks for 128 threads a block");
    assert_null(plan);
    assert_int_equal(fake->load_count, fake->unload_count);
    assert_int_equal(fake->launch_count, 0);
    qrs_context_destroy(context);
}

static void driver_errors_come_back_with_the_drivers_words(void **state) {
    (void)state;
    qrs_context *context = open_context();
    qrs_plan *plan;
    check(make_plan(context, NULL, 0, &plan));
    arrays a = make_arrays(context, plan);
    fake->launch_result = 719;
    assert_refused(factor(plan, &a, 3, NULL), QRS_CUDA_ERROR, "CUDA_ERROR_FAKE: a fake error (result 719");
    fake->launch_result = 2;
    assert_refused(factor(plan, &a, 3, NULL), QRS_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY");
    fake->launch_result = 0;
    check(factor(plan, &a, 3, NULL));
    free_arrays(&a);
    qrs_plan_destroy(plan);
    fake->load_result = 222;
    assert_refused(make_plan(context, "{\"width\": 1}", 0, &plan), QRS_CUDA_ERROR, "older than the NVRTC");
    fake->load_result = 0;
    fake->missing_kernel = "second";
    assert_refused(make_plan(context, "{\"width\": 1}", 0, &plan), QRS_CUDA_ERROR, "kernel second");
    qrs_context_destroy(context);
}

/* ---------------------------------------------------------------------------------------------- the hot path
 */

void __sanitizer_install_malloc_and_free_hooks(void (*)(const volatile void *, size_t),
                                               void (*)(const volatile void *));
static __thread int counting, allocations;
static void count_allocation(const volatile void *memory, size_t size) {
    (void)memory, (void)size;
    allocations += counting;
}
static void ignore_free(const volatile void *memory) {
    (void)memory;
}

static void calls_allocate_nothing(void **state) {
    (void)state;
    qrs_context *context = open_context();
    qrs_plan *plan;
    check(make_plan(context, "{\"cluster\": 2}", 0, &plan));
    arrays a = make_arrays(context, plan);
    check(factor(plan, &a, 50, NULL));
    __sanitizer_install_malloc_and_free_hooks(count_allocation, ignore_free);
    counting = 1;
    void *volatile one = malloc(1); /* the hook counts */
    free(one);
    for (int i = 0; i < 10; i++)
        check(factor(plan, &a, 50 + i, NULL));
    counting = 0;
    assert_int_equal(allocations, 1);
    free_arrays(&a);
    qrs_plan_destroy(plan);
    qrs_context_destroy(context);
}

typedef struct work {
    qrs_context *context;
    qrs_plan *plan;
    int failures;
} work;

static void *thread_factor(void *user) {
    work *w = user;
    arrays a = make_arrays(w->context, w->plan);
    for (int i = 0; i < 50; i++)
        w->failures += factor(w->plan, &a, 20, NULL) != QRS_OK;
    free_arrays(&a);
    return NULL;
}

static void many_threads_share_a_plan(void **state) {
    (void)state;
    qrs_context *context = open_context();
    qrs_plan *plan;
    check(make_plan(context, NULL, QRS_DEFER, &plan)); /* the first of them compiles */
    pthread_t threads[8];
    work works[8];
    for (int i = 0; i < 8; i++) {
        works[i] = (work){context, plan, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, thread_factor, &works[i]), 0);
    }
    for (int i = 0; i < 8; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(works[i].failures, 0);
    }
    assert_int_equal(compiles(), 1);
    assert_int_equal(fake->load_count, 1);
    assert_int_equal(fake->launch_count, 8 * 50 * 2);
    qrs_plan_destroy(plan);
    qrs_context_destroy(context);
}

static void *thread_plan(void *user) {
    work *w = user;
    w->failures = make_plan(w->context, NULL, 0, &w->plan) != QRS_OK;
    return NULL;
}

static void many_threads_make_the_same_plan_with_one_compile(void **state) {
    (void)state;
    setenv("FAKE_NVRTC_MILLISECONDS", "50", 1);
    qrs_context *context = open_context();
    pthread_t threads[8];
    work works[8];
    for (int i = 0; i < 8; i++) {
        works[i] = (work){context, NULL, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, thread_plan, &works[i]), 0);
    }
    for (int i = 0; i < 8; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(works[i].failures, 0);
        qrs_plan_destroy(works[i].plan);
    }
    unsetenv("FAKE_NVRTC_MILLISECONDS");
    assert_int_equal(compiles(), 1);
    qrs_context_destroy(context);
}

/* ---------------------------------------------------------------------------------------------- capture */

static void first_use_under_capture_is_not_ready_and_harmless(void **state) {
    (void)state;
    qrs_context *context = open_context();
    qrs_plan *plan;
    check(make_plan(context, NULL, QRS_DEFER, &plan));
    assert_int_equal(compiles(), 0);
    arrays a = make_arrays(context, plan);
    fake->capturing = 1;
    assert_refused(factor(plan, &a, 3, NULL), QRS_NOT_READY, "qrs_plan_prepare");
    assert_int_equal(fake->load_count, 0);
    assert_int_equal(fake->launch_count, 0);
    check(qrs_plan_prepare(plan)); /* allowed meanwhile: it loads in relaxed mode */
    assert_int_equal(fake->loads_under_strict_capture, 0);
    check(factor(plan, &a, 3, NULL));
    assert_int_equal(fake->launch_count, 2);
    free_arrays(&a);
    qrs_plan_destroy(plan);
    qrs_context_destroy(context);
}

static void first_use_without_capture_prepares_the_plan(void **state) {
    (void)state;
    qrs_context *context = open_context();
    qrs_plan *plan;
    check(make_plan(context, NULL, QRS_DEFER, &plan));
    arrays a = make_arrays(context, plan);
    check(factor(plan, &a, 3, NULL));
    assert_int_equal(compiles(), 1);
    free_arrays(&a);
    qrs_plan_destroy(plan);
    qrs_context_destroy(context);
}

/* ---------------------------------------------------------------------------------------------- compiling */

static const char *origin_of(qrs_plan *plan) {
    qrs_plan_facts facts = {.struct_size = sizeof facts};
    check(qrs_plan_info(plan, &facts));
    return facts.origin;
}

static const char *make_and_see_origin(const char *params) {
    qrs_context *context = open_context();
    qrs_plan *plan;
    check(make_plan(context, params, 0, &plan));
    const char *origin = origin_of(plan); /* a literal */
    qrs_plan_destroy(plan);
    qrs_context_destroy(context);
    return origin;
}

static void the_second_process_finds_the_cubin(void **state) {
    (void)state;
    assert_string_equal(make_and_see_origin(NULL), "compiled");
    assert_string_equal(make_and_see_origin(NULL), "disk");
    assert_string_equal(make_and_see_origin("{\"defect\": \"SPILLS\"}"), "compiled");
    setenv("FAKE_NVRTC_VERSION", "14", 1); /* a toolkit upgrade */
    assert_string_equal(make_and_see_origin(NULL), "compiled");
    unsetenv("FAKE_NVRTC_VERSION");
    assert_string_equal(make_and_see_origin(NULL), "disk");
    fake->arch = 80; /* another device of the machine */
    assert_string_equal(make_and_see_origin(NULL), "compiled");
    assert_int_equal(compiles(), 4);
}

static void many_cold_processes_compile_once(void **state) {
    (void)state;
    setenv("FAKE_NVRTC_MILLISECONDS", "100", 1);
    pid_t children[8];
    for (int i = 0; i < 8; i++)
        if (!(children[i] = fork())) {
            qrs_context_options options = usual_options();
            qrs_context *context;
            qrs_plan *plan;
            _exit(qrs_context_create(&options, &context) || make_plan(context, NULL, 0, &plan));
        }
    for (int i = 0; i < 8; i++) {
        int status;
        waitpid(children[i], &status, 0);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
    unsetenv("FAKE_NVRTC_MILLISECONDS");
    assert_int_equal(compiles(), 1);
}

static void facts_tell_what_the_plan_is(void **state) {
    (void)state;
    qrs_context *context = open_context();
    qrs_plan *plan;
    check(make_plan(context, "{\"defect\": \"SPILLS\"}", 0, &plan));
    qrs_plan_facts facts = {.struct_size = sizeof facts};
    check(qrs_plan_info(plan, &facts));
    assert_string_equal(facts.family, "toy");
    assert_string_equal(facts.products, "fp32");
    assert_int_equal(facts.registers, 40);
    assert_int_equal(facts.spill_bytes, 3 * 40);
    qt_assert_contains(facts.params, "\"defect\":\"SPILLS\"");
    qt_assert_contains(facts.source, "QRS_KERNEL(first");
    qt_assert_contains(facts.program, "qrsmith-program-1");
    /* A caller of an older version has a shorter struct, and nothing past it is written. */
    qrs_plan_facts older = {.struct_size = offsetof(qrs_plan_facts, grade), .grade = "untouched"};
    check(qrs_plan_info(plan, &older));
    assert_string_equal(older.family, "toy");
    assert_string_equal(older.grade, "untouched");
    qrs_plan_destroy(plan);
    qrs_context_destroy(context);
}

static void failed_compiles_name_the_templates_line_and_are_not_stored(void **state) {
    (void)state;
    qrs_context *context = open_context();
    qrs_plan *plan;
    assert_refused(make_plan(context, "{\"defect\": \"BROKEN\"}", 0, &plan), QRS_COMPILE_FAILED,
                   "families/toy.lua(7): error");
    assert_refused(make_plan(context, "{\"defect\": \"BROKEN\"}", 0, &plan), QRS_COMPILE_FAILED,
                   "families/toy.lua(7): error");
    assert_refused(make_plan(context, "{\"defect\": \"EMPTY\"}", 0, &plan), QRS_COMPILE_FAILED, "no cubin");
    assert_refused(make_plan(context, "{\"defect\": \"EMPTY\"}", 0, &plan), QRS_COMPILE_FAILED, "no cubin");
    assert_int_equal(compiles(), 4);
    qrs_context_destroy(context);
}

static void bad_requests_have_codes_of_their_own(void **state) {
    (void)state;
    qrs_context *context = open_context();
    qrs_plan *plan;
    qrs_shape shape = usual_shape;
    shape.m = -1;
    assert_refused(qrs_plan_create(context, &shape, NULL, &plan), QRS_BAD_SHAPE, "-1 x 6");
    shape = usual_shape, shape.n = -5;
    assert_refused(qrs_plan_create(context, &shape, NULL, &plan), QRS_BAD_SHAPE, "10 x -5");
    shape = usual_shape, shape.max_batch = 0;
    assert_refused(qrs_plan_create(context, &shape, NULL, &plan), QRS_BAD_SHAPE, "max_batch 0");
    shape = usual_shape, shape.max_batch = INT64_MAX;
    assert_refused(qrs_plan_create(context, &shape, NULL, &plan), QRS_BAD_SHAPE,
                   "max_batch 9223372036854775807");
    shape = usual_shape, shape.precision = (qrs_precision)7;
    assert_refused(qrs_plan_create(context, &shape, NULL, &plan), QRS_BAD_OPTION, "precision 7");
    shape = usual_shape, shape.layout_out = (qrs_layout)2;
    assert_refused(qrs_plan_create(context, &shape, NULL, &plan), QRS_BAD_OPTION, "layouts");
    shape = usual_shape, shape.n = 2000; /* the family's own refusal */
    assert_int_not_equal(qrs_plan_create(context, &shape, NULL, &plan), QRS_OK);
    assert_refused(make_plan(context, "{\"width\": 3}", 0, &plan), QRS_BAD_OPTION, "width");
    assert_refused(make_plan(context, "{width}", 0, &plan), QRS_BAD_OPTION, "column");
    assert_refused(make_plan(context, "[1]", 0, &plan), QRS_BAD_OPTION, "[1]");
    assert_refused(make_plan(context, NULL, 8, &plan), QRS_BAD_ARGUMENT, "flags");
    qrs_plan_options options = {.struct_size = sizeof options, .family = "no_such"};
    assert_refused(qrs_plan_create(context, &usual_shape, &options, &plan), QRS_BAD_OPTION, "no_such");
    assert_refused(qrs_plan_create(NULL, &usual_shape, NULL, &plan), QRS_BAD_ARGUMENT, "null");
    qrs_context_options wrong = {0};
    qrs_context *none;
    assert_refused(qrs_context_create(&wrong, &none), QRS_BAD_ARGUMENT, "struct_size");
    assert_null(none);
    assert_int_equal(compiles(), 0);
    qrs_context_destroy(context);
}

/* ---------------------------------------------------------------------------------------------- missing
 * pieces */

static void a_missing_driver_is_named_with_what_was_tried(void **state) {
    (void)state;
    char *before = strdup(getenv("QRSMITH_CUDA"));
    setenv("QRSMITH_CUDA", "/nowhere/libcuda.so.1", 1);
    qrs_context *context;
    qrs_context_options options = usual_options();
    assert_refused(qrs_context_create(&options, &context), QRS_NO_DEVICE, "/nowhere/libcuda.so.1");
    qt_assert_contains(qrs_last_error(), "install the NVIDIA driver");
    setenv("QRSMITH_CUDA", "libm.so.6", 1); /* a library, but not the driver */
    assert_refused(qrs_context_create(&options, &context), QRS_NO_DEVICE, "lacks cu");
    setenv("QRSMITH_CUDA", before, 1);
    free(before);
    fake->init_result = 100;
    assert_refused(qrs_context_create(&options, &context), QRS_NO_DEVICE, "CUDA 13.0");
    fake->init_result = 0;
    options.device = 3;
    assert_refused(qrs_context_create(&options, &context), QRS_NO_DEVICE, "the driver shows 1 device");
    options.device = QRS_CURRENT_DEVICE;
    assert_refused(qrs_context_create(&options, &context), QRS_NO_DEVICE, "none is current");
    options.device = 0;
    fake->arch = 75;
    assert_refused(qrs_context_create(&options, &context), QRS_UNSUPPORTED, "7.5");
}

static void a_missing_compiler_is_named_with_what_was_tried(void **state) {
    (void)state;
    qrs_context_options options = usual_options();
    options.nvrtc = "/nowhere/libnvrtc.so.13";
    qrs_context *context;
    qrs_plan *plan;
    check(qrs_context_create(&options, &context));
    assert_refused(make_plan(context, NULL, 0, &plan), QRS_NO_COMPILER, "/nowhere/libnvrtc.so.13");
    qt_assert_contains(qrs_last_error(), "nvidia-cuda-nvrtc");
    qrs_context_destroy(context);
}

static void a_compiler_that_does_not_know_the_device_says_so(void **state) {
    (void)state;
    fake->arch = 120;
    qrs_context *context = open_context();
    qrs_plan *plan;
    assert_refused(make_plan(context, NULL, 0, &plan), QRS_UNSUPPORTED, "doesn't know sm_120");
    qrs_context_destroy(context);
}

static void a_profile_plans_and_compiles_without_a_gpu(void **state) {
    (void)state;
    qrs_context_options options = usual_options();
    options.device_profile = "h200";
    fake->init_result = 100;
    qrs_context *context;
    qrs_plan *plan;
    check(qrs_context_create(&options, &context));
    check(make_plan(context, NULL, 0, &plan));
    assert_string_equal(origin_of(plan), "compiled");
    int64_t bytes;
    check(qrs_workspace_bytes(plan, 10, &bytes));
    assert_int_equal(bytes, 256 + 10000 / 256 * 256 + 256);
    float a[64] __attribute__((aligned(256))) = {0};
    static char workspace[20000] __attribute__((aligned(256)));
    float h[64], tau[8];
    assert_refused(qrs_geqrf(plan, NULL, 1, a, 6, 60, h, 10, 60, tau, 6, NULL, workspace, sizeof workspace),
                   QRS_NO_DEVICE, "device profile");
    qrs_plan_destroy(plan);
    qrs_context_destroy(context);
}

/* ---------------------------------------------------------------------------------------------- lifetimes */

static void contexts_may_be_destroyed_before_their_plans(void **state) {
    (void)state;
    qrs_context *context = open_context();
    qrs_plan *plan;
    check(make_plan(context, NULL, 0, &plan));
    arrays a = make_arrays(context, plan);
    qrs_context_destroy(context);
    check(factor(plan, &a, 3, NULL));
    free_arrays(&a); /* the plan keeps the context alive */
    qrs_plan_destroy(plan);
    assert_int_equal(fake->unload_count, fake->load_count);
    assert_int_equal(fake->release_count, fake->retain_count);
    assert_int_equal(fake->contexts_pushed, 0);
    qrs_plan_destroy(NULL);
    qrs_context_destroy(NULL);
}

static void a_forked_child_gets_a_clear_error(void **state) {
    (void)state;
    qrs_context *context = open_context();
    qrs_plan *plan, *other;
    check(make_plan(context, NULL, 0, &plan));
    arrays a = make_arrays(context, plan);
    pid_t child = fork();
    if (!child) {
        int failed = factor(plan, &a, 3, NULL) != QRS_FORKED || !strstr(qrs_last_error(), "fork") ||
                     make_plan(context, "{\"width\": 1}", 0, &other) != QRS_FORKED || fake->launch_count;
        qrs_plan_destroy(plan);
        qrs_context_destroy(context);
        _exit(failed || fake->unload_count || fake->release_count);
    }
    int status;
    waitpid(child, &status, 0);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    check(factor(plan, &a, 3, NULL));
    free_arrays(&a);
    qrs_plan_destroy(plan);
    qrs_context_destroy(context);
}

static void the_threads_current_context_is_left_alone(void **state) {
    (void)state;
    void *library = dlopen(getenv("QRSMITH_CUDA"), RTLD_NOW);
    int (*push)(void *) = (int (*)(void *))(uintptr_t)dlsym(library, "cuCtxPushCurrent_v2");
    int (*pop)(void **) = (int (*)(void **))(uintptr_t)dlsym(library, "cuCtxPopCurrent_v2");
    int (*get)(void **) = (int (*)(void **))(uintptr_t)dlsym(library, "cuCtxGetCurrent");
    char theirs;
    void *current;
    push(&theirs);
    qrs_context *context = open_context();
    qrs_plan *plan;
    check(make_plan(context, NULL, 0, &plan));
    arrays a = make_arrays(context, plan);
    check(factor(plan, &a, 3, NULL));
    get(&current);
    assert_ptr_equal(current, &theirs);
    free_arrays(&a);
    qrs_plan_destroy(plan);
    qrs_context_destroy(context);
    get(&current);
    assert_ptr_equal(current, &theirs);
    pop(&current);
    assert_int_equal(fake->contexts_pushed, 0);
    dlclose(library);
}

static void a_copy_to_the_device_is_there_when_it_returns(void **state) {
    (void)state;
    qrs_context *context = open_context();
    const float given[] = {1, -2, 3};
    void *memory;
    check(qrs_memory_alloc(context, sizeof given, &memory));
    check(qrs_copy_to_device(context, memory, given, sizeof given));
    assert_memory_equal(memory, given, sizeof given); /* the stand-in's memory is the process's own */
    qrs_memory_free(context, memory);
    qrs_context_destroy(context);
}

static void version_and_status_texts_are_complete(void **state) {
    (void)state;
    assert_int_equal(qrs_version(), QRS_VERSION);
    for (int i = QRS_OK; i <= QRS_INTERNAL; i++) {
        assert_non_null(qrs_status_text((qrs_status)i));
        assert_memory_equal(qrs_status_name((qrs_status)i), "QRS_", 4);
    }
    assert_string_equal(qrs_status_name((qrs_status)12345), "QRS_UNKNOWN");
    qrs_context *context = open_context();
    qt_assert_contains(qrs_context_info(context), "\"name\":\"Fake GPU\"");
    qt_assert_contains(qrs_context_info(context), cache_dir);
    qrs_context_destroy(context);
}

#define TEST(f) cmocka_unit_test_setup(f, reset)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(launches_reach_the_driver_as_the_program_says),
        TEST(every_kind_of_argument_arrives),
        TEST(early_launches_carry_their_attribute),
        TEST(clusters_and_cooperative_launches_carry_their_attributes),
        TEST(what_the_device_cannot_hold_is_refused_when_the_plan_is_made),
        TEST(driver_errors_come_back_with_the_drivers_words),
        TEST(calls_allocate_nothing),
        TEST(many_threads_share_a_plan),
        TEST(many_threads_make_the_same_plan_with_one_compile),
        TEST(first_use_under_capture_is_not_ready_and_harmless),
        TEST(first_use_without_capture_prepares_the_plan),
        TEST(the_second_process_finds_the_cubin),
        TEST(many_cold_processes_compile_once),
        TEST(facts_tell_what_the_plan_is),
        TEST(failed_compiles_name_the_templates_line_and_are_not_stored),
        TEST(bad_requests_have_codes_of_their_own),
        TEST(a_missing_driver_is_named_with_what_was_tried),
        TEST(a_missing_compiler_is_named_with_what_was_tried),
        TEST(a_compiler_that_does_not_know_the_device_says_so),
        TEST(a_profile_plans_and_compiles_without_a_gpu),
        TEST(contexts_may_be_destroyed_before_their_plans),
        TEST(a_forked_child_gets_a_clear_error),
        TEST(the_threads_current_context_is_left_alone),
        TEST(a_copy_to_the_device_is_there_when_it_returns),
        TEST(version_and_status_texts_are_complete),
    };
    return cmocka_run_group_tests_name("runtime", tests, build_fakes, remove_fakes);
}
