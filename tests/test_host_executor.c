/* The host executor as its users meet it: kernels that are right give the same bits in every order; each way
 * of being wrong shows, as a difference between orders or as an error with kernel and template line; nothing
 * hangs; objects are compiled once. */
#include "runtime/host/context.h"
#include "runtime/host/host.h"
#include "tests/lib/support.h"

#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 256, BLOCKS = 8, SIZE = THREADS * BLOCKS };

typedef struct fixture {
    char *folder;
    qhx_executor *executor;
    float a[SIZE], h[SIZE];
} fixture;

/* How a kernel of cases/kernels/host.cu is launched. */
typedef struct launch {
    const char *kernel;
    int grid, cluster, smem;
    bool cooperative;
} launch;

static qhx_executor *open_executor(const char *folder, qhx_options options) {
    qg_error err;
    qhx_executor *ex = NULL;
    options.cache_dir = folder;
    options.poison = true;
    if (qhx_open(&options, &ex, &err) != QG_OK) fail_msg("%s: %s", err.what, err.why);
    return ex;
}

static int set_up(void **state) {
    fixture *f = calloc(1, sizeof *f);
    f->folder = qt_tmpdir();
    f->executor = open_executor(f->folder, (qhx_options){.sanitize = QHX_ASAN});
    for (int i = 0; i < SIZE; i++)
        f->a[i] = (float)((i * 7919) % 1000) / 100.0f - 3.0f;
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    qhx_close(f->executor);
    qt_remove_tree(f->folder);
    free(f->folder);
    free(f);
    return 0;
}

/* --- plans by hand --- */

static json_t *program_of(const launch *l) {
    int grid = l->grid ? l->grid : 1, cluster = l->cluster ? l->cluster : 1, smem = l->smem ? l->smem : 2048;
    return json_pack(
        "{s:s, s:[{s:s, s:i}], s:[{s:s, s:s, s:i, s:i}, {s:s, s:s, s:[i,i,i], s:i, s:i, s:i, s:b, "
        "s:[{s:s}, {s:s}, {s:s}]}]}",
        "format", QG_PROGRAM_FORMAT, "buffers", "name", "flags", "bytes", 2048, "ops", "op", "clear",
        "buffer", "flags", "offset", 0, "bytes", 256, "op", "launch", "kernel", l->kernel, "grid", grid, 1, 1,
        "block", THREADS, "cluster", cluster, "smem", smem, "cooperative", (int)l->cooperative, "args",
        "pointer", "A", "pointer", "H", "workspace", "flags");
}

static qg_plan *plan_of(char *source, json_t *program) {
    qg_plan *p = calloc(1, sizeof *p);
    assert_non_null(program);
    p->shape = (qg_shape){.m = BLOCKS, .n = THREADS, .max_batch = 1};
    p->device = (qg_device){.smem_optin = 232448, .sms = 132, .arch = 90};
    p->name = strdup("host");
    p->source = source;
    p->source_size = strlen(source);
    p->program_json = program;
    return p;
}

static void free_plan(qg_plan *p) {
    json_decref(p->program_json);
    free(p->source);
    free(p->name);
    free(p);
}

static qg_status load(qhx_executor *ex, const launch *l, qhx_module **out, qg_error *err) {
    qg_plan *p = plan_of(qt_read("tests/cases/kernels/host.cu", NULL), program_of(l));
    qg_status status = qhx_load(ex, NULL, p, out, err);
    free_plan(p);
    return status;
}

static qhx_module *loaded(qhx_executor *ex, const launch *l) {
    qg_error err;
    qhx_module *m = NULL;
    if (load(ex, l, &m, &err) != QG_OK) fail_msg("%s: %s (%s)", err.what, err.why, err.fix);
    return m;
}

static qg_call call_of(float *a, float *h) {
    qg_call c = {0};
    c.scalar[QG_BATCH] = 1;
    c.scalar[QG_LDA] = c.scalar[QG_LDH] = THREADS;
    c.scalar[QG_STRIDE_A] = c.scalar[QG_STRIDE_H] = SIZE;
    c.pointer[QG_PTR_A] = a;
    c.pointer[QG_PTR_H] = h;
    return c;
}

static qg_status run_in(fixture *f, qhx_module *m, int order, qg_error *err) {
    qg_call c = call_of(f->a, f->h);
    qhx_set_order(f->executor, order < 2 ? order : QHX_SEEDED, (uint64_t)order);
    return qhx_run(m, &c, err);
}

enum { ORDERS = 4 };

/* In how many of the four orders the result differs from forward's. */
static int differences(fixture *f, const launch *l) {
    float *first = malloc(sizeof f->h);
    qhx_module *m = loaded(f->executor, l);
    int count = 0;
    for (int order = 0; order < ORDERS; order++) {
        qg_error err;
        if (run_in(f, m, order, &err) != QG_OK) fail_msg("%s: %s", err.what, err.why);
        if (order == 0) memcpy(first, f->h, sizeof f->h);
        count += memcmp(first, f->h, sizeof f->h) != 0;
    }
    qhx_unload(m);
    free(first);
    return count;
}

/* Every order reports the fault, in these words, and the executor works afterwards. */
static void assert_reported(fixture *f, const launch *l, const char *first, const char *second) {
    qhx_module *m = loaded(f->executor, l);
    char *what = qt_format("kernel %s", l->kernel);
    for (int order = 0; order < ORDERS; order++) {
        qg_error err;
        assert_int_equal(run_in(f, m, order, &err), QG_INTERNAL);
        assert_string_equal(err.what, what);
        qt_assert_contains(err.why, first);
        qt_assert_contains(err.why, second);
    }
    free(what);
    qhx_unload(m);
}

/* --- kernels that are right --- */

static void same_bits_in_every_order(void **state) {
    assert_int_equal(differences(*state, &(launch){.kernel = "reversal", .grid = BLOCKS}), 0);
    fixture *f = *state;
    assert_true(f->h[0] != f->h[1] && isfinite(f->h[SIZE - 1]));
}

static void cooperative_blocks_wait_for_each_other(void **state) {
    fixture *f = *state;
    assert_int_equal(differences(f, &(launch){.kernel = "chain", .grid = BLOCKS, .cooperative = true}), 0);
    assert_true(f->h[SIZE - 1] == f->a[THREADS - 1] + BLOCKS - 1);
}

static void an_empty_grid_is_skipped(void **state) {
    fixture *f = *state;
    launch l = {.kernel = "half_barrier"};
    json_t *program = program_of(&l);
    json_object_set_new(json_array_get(json_object_get(program, "ops"), 1), "grid",
                        json_pack("[s,i,i]", "batch - 1", 1, 1));
    qg_plan *p = plan_of(qt_read("tests/cases/kernels/host.cu", NULL), program);
    qhx_module *m = NULL;
    qg_error err;
    assert_int_equal(qhx_load(f->executor, NULL, p, &m, &err), QG_OK);
    assert_int_equal(run_in(f, m, 0, &err), QG_OK);
    qhx_unload(m);
    free_plan(p);
}

typedef struct worker {
    qhx_module *module;
    float *a, *h;
    qg_status status;
} worker;

static void *work(void *argument) {
    worker *w = argument;
    qg_call c = call_of(w->a, w->h);
    for (int i = 0; i < 5 && w->status == QG_OK; i++)
        w->status = qhx_run(w->module, &c, NULL);
    return NULL;
}

static void one_module_runs_on_many_threads(void **state) {
    fixture *f = *state;
    enum { WORKERS = 3 };
    pthread_t thread[WORKERS];
    worker w[WORKERS];
    qhx_module *m = loaded(f->executor, &(launch){.kernel = "busy", .grid = BLOCKS});
    for (int i = 0; i < WORKERS; i++) {
        w[i] = (worker){m, f->a, malloc(sizeof f->h), QG_OK};
        assert_int_equal(pthread_create(&thread[i], NULL, work, &w[i]), 0);
    }
    for (int i = 0; i < WORKERS; i++) {
        pthread_join(thread[i], NULL);
        assert_int_equal(w[i].status, QG_OK);
        assert_memory_equal(w[i].h, w[0].h, sizeof f->h);
    }
    for (int i = 0; i < WORKERS; i++)
        free(w[i].h);
    qhx_unload(m);
}

/* --- faults that show as a difference --- */

static void a_missing_barrier_shows_between_orders(void **state) {
    assert_true(differences(*state, &(launch){.kernel = "no_barrier"}) > 0);
}

static void a_missing_wait_shows_between_orders(void **state) {
    static const char *const kernels[] = {"copy_unwaited", "bulk_unwaited", "store_unread",
                                          "product_unwaited"};
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if (differences(*state, &(launch){.kernel = kernels[i]}) == 0)
            fail_msg("%s shows nothing", kernels[i]);
}

static void poison_is_visible(void **state) {
    fixture *f = *state;
    assert_int_equal(differences(f, &(launch){.kernel = "unwritten"}), 0);
    uint32_t bits[SIZE];
    memcpy(bits, f->h, sizeof bits);
    for (int i = 0; i < SIZE;
         i++) /* shared memory, workspace behind the 64 cleared words, untouched output */
        if (bits[i] != 0xffffffff) fail_msg("element %d is %08x", i, bits[i]);
}

/* --- faults that are reported --- */

static void a_barrier_some_thread_never_reaches(void **state) {
    assert_reported(
        *state, &(launch){.kernel = "half_barrier"},
        "255 threads (0, ...) in block_sync at kernels/half_barrier.cu:3 with 255 of 256 threads there",
        "1 thread (77) ended");
}

static void a_named_barrier_that_too_few_reach(void **state) {
    assert_reported(*state, &(launch){.kernel = "barrier_missed"}, "bar_sync at kernels/barrier_missed.cu:3",
                    "128 of 160");
}

static void a_named_barrier_with_two_counts(void **state) {
    assert_reported(*state, &(launch){.kernel = "barrier_count"}, "kernels/barrier_count.cu:2",
                    "barrier 3 for");
}

static void a_divergent_warp(void **state) {
    assert_reported(*state, &(launch){.kernel = "divergent"}, "the warp is divergent",
                    "kernels/divergent.cu:");
}

static void a_lane_that_has_returned(void **state) {
    fixture *f = *state;
    qg_error err;
    qhx_module *m = loaded(f->executor, &(launch){.kernel = "missing_lane"});
    for (int order = 0; order < ORDERS; order++) {
        assert_int_equal(run_in(f, m, order, &err), QG_INTERNAL);
        qt_assert_contains(err.why, "warp_sum at kernels/missing_lane.cu:4");
    }
    qhx_unload(m);
}

static void a_flag_nobody_sets(void **state) {
    assert_reported(*state, &(launch){.kernel = "flag_never_set", .grid = 3, .cooperative = true},
                    "wait_at_least at kernels/flag_never_set.cu:4 for 1 where there is 0", "block (2,0,0)");
}

static void a_flag_wait_can_expire_instead(void **state) {
    fixture *f = *state;
    qhx_executor *ex = open_executor(f->folder, (qhx_options){.sanitize = QHX_ASAN, .waits_expire = true});
    qhx_module *m = loaded(ex, &(launch){.kernel = "flag_never_set"});
    qg_error err;
    assert_int_equal(run_in(f, m, 0, &err), QG_OK);
    assert_true(f->h[0] == 2.0f && f->h[1] == 1.0f);
    qhx_unload(m);
    qhx_close(ex);
}

/* An ordinary grid promises nothing about which blocks are there together. */
static void a_chain_in_an_ordinary_grid(void **state) {
    fixture *f = *state;
    qhx_module *m = loaded(f->executor, &(launch){.kernel = "chain", .grid = BLOCKS});
    qg_error err;
    assert_int_equal(run_in(f, m, QHX_REVERSE, &err), QG_INTERNAL);
    qt_assert_contains(err.why, "wait_at_least at kernels/chain.cu:4");
    qt_assert_contains(err.fix, "cooperative");
    qhx_unload(m);
}

static void polling_for_ever(void **state) {
    assert_reported(*state, &(launch){.kernel = "polling"},
                    "ld_acquire or nanosleep at kernels/polling.cu:", "block_sync at kernels/polling.cu:5");
}

static void an_mbarrier_that_never_completes(void **state) {
    assert_reported(*state, &(launch){.kernel = "mbar_never"}, "256 threads (0, ...) in mbar_wait",
                    "kernels/mbar_never.cu:8");
}

static void an_mbarrier_misused(void **state) {
    assert_reported(*state, &(launch){.kernel = "mbar_raw"}, "no mbarrier at", "kernels/mbar_raw.cu:2");
    assert_reported(*state, &(launch){.kernel = "mbar_crowd"}, "more arrivals than",
                    "kernels/mbar_crowd.cu:6");
}

static void shared_memory_out_of_bounds(void **state) {
    launch l = {.kernel = "smem_read", .smem = 1024};
    assert_reported(*state, &l, "kernels/smem_read.cu:2", "lie outside the block's 1024 bytes");
    l.kernel = "matrix_row";
    assert_reported(*state, &l, "ldmatrix at kernels/matrix_row.cu:3", "16 bytes at shared offset");
    l.kernel = "smem_null";
    assert_reported(*state, &l, "sts at kernels/smem_null.cu:2", "outside");
    l.kernel = "smem_align";
    assert_reported(*state, &l, "sts at kernels/smem_align.cu:2", "shared offset 8 is not a multiple of 16");
}

/* Through a plain pointer: AddressSanitizer's business where it is on, a check at the block's end where it is
 * not. */
static void a_write_behind_shared_memory(void **state) {
    if (QHX_ASAN) qt_skip("AddressSanitizer stops such a write itself");
    assert_reported(*state, &(launch){.kernel = "smem_behind", .smem = 1024}, "wrote behind its 1024 bytes",
                    "block (0,0,0)");
}

static void copies_that_outlive_their_block(void **state) {
    fixture *f = *state;
    static const struct {
        const char *kernel, *text;
    } cases[] = {{"bulk_orphan", "bulk_load at kernels/bulk_orphan.cu:6"},
                 {"store_orphan", "a bulk store may not have read"}};
    for (int i = 0; i < 2; i++) {
        qhx_module *m = loaded(f->executor, &(launch){.kernel = cases[i].kernel});
        qg_error err;
        assert_int_equal(run_in(f, m, QHX_FORWARD, &err), QG_INTERNAL);
        qt_assert_contains(err.why, cases[i].text);
        qhx_unload(m);
    }
}

static void warpgroup_products_misused(void **state) {
    assert_reported(*state, &(launch){.kernel = "product_unfenced"}, "no wgmma_fence()",
                    "kernels/product_unfenced.cu:3");
    assert_reported(*state, &(launch){.kernel = "product_one_warp"}, "issued more wgmma products in one warp",
                    "block (0,0,0)");
}

static void a_cluster_block_that_is_gone(void **state) {
    assert_reported(*state, &(launch){.kernel = "cluster_gone", .grid = 2, .cluster = 2},
                    "of the cluster has ended", "kernels/cluster_gone.cu:5");
    assert_reported(*state, &(launch){.kernel = "cluster_rank_4", .grid = 4, .cluster = 4}, "no rank 4",
                    "kernels/cluster_rank.cu:2");
}

static void a_trap_names_its_thread(void **state) {
    assert_reported(*state, &(launch){.kernel = "stop", .grid = 4}, "thread 5 of block (2,0,0)",
                    "kernels/stop.cu:3");
}

static void the_executor_works_after_an_error(void **state) {
    a_barrier_some_thread_never_reaches(state);
    same_bits_in_every_order(state);
}

/* --- programs that don't fit their kernels --- */

static void assert_refused(fixture *f, json_t *program, const char *text) {
    qg_plan *p = plan_of(qt_read("tests/cases/kernels/host.cu", NULL), program);
    qhx_module *m = NULL;
    qg_error err = {0};
    qg_status status = qhx_load(f->executor, NULL, p, &m, &err);
    if (status == QG_OK) status = run_in(f, m, 0, &err);
    assert_int_not_equal(status, QG_OK);
    qt_assert_contains(err.why, text);
    qhx_unload(m);
    free_plan(p);
}

static json_t *changed(const char *kernel, const char *key, json_t *value) {
    json_t *program = program_of(&(launch){.kernel = kernel});
    json_object_set_new(json_array_get(json_object_get(program, "ops"), 1), key, value);
    return program;
}

static void a_program_that_does_not_fit(void **state) {
    assert_refused(*state, program_of(&(launch){.kernel = "nowhere"}), "no kernel of that name");
    assert_refused(*state, changed("reversal", "args", json_pack("[{s:s}]", "pointer", "A")),
                   "takes 3 arguments, the program gives 1");
    assert_refused(*state,
                   changed("reversal", "args",
                           json_pack("[{s:s},{s:i},{s:s}]", "pointer", "A", "i64", 3, "workspace", "flags")),
                   "argument 1 is of type 'p' in the kernel, 'l' in the program");
    assert_refused(*state, changed("reversal", "block", json_integer(512)), "launch bound");
    assert_refused(*state, changed("reversal", "block", json_integer(40)), "whole warps");
    assert_refused(*state, changed("reversal", "smem", json_integer(300000)), "more than the device has");
    assert_refused(*state, changed("reversal", "cluster", json_integer(2)), "multiple of it");
}

/* --- compiling --- */

static bool compiles(qhx_executor *ex, const char *source) {
    launch l = {.kernel = "k"};
    qg_plan *p = plan_of(strdup(source), program_of(&l));
    qhx_module *m = NULL;
    qg_error err;
    if (qhx_load(ex, NULL, p, &m, &err) != QG_OK) fail_msg("%s: %s", err.what, err.why);
    bool compiled = qhx_compiled(m);
    qhx_unload(m);
    free_plan(p);
    return compiled;
}

#define TINY(value)                                                                                          \
    "#include \"device/core.cuh\"\nusing namespace qrs;\nQRS_KERNEL(k, 256, 1)(const float *A, float *H, "   \
    "i32 *f) { H[0] = " value "; }\nQRS_ENTRY(k)\n"

static void objects_are_compiled_once(void **state) {
    fixture *f = *state;
    assert_true(compiles(f->executor, TINY("1")));
    assert_false(compiles(f->executor, TINY("1")));
    qhx_executor *other = open_executor(f->folder, (qhx_options){.sanitize = QHX_ASAN});
    assert_false(compiles(other, TINY("1")));
    qhx_close(other);
}

static void another_source_or_flag_is_compiled_again(void **state) {
    fixture *f = *state;
    assert_true(compiles(f->executor, TINY("2")));
    assert_true(compiles(f->executor, TINY("3")));
    qhx_executor *other =
        open_executor(f->folder, (qhx_options){.cxx = "c++ -DQRS_OTHER", .sanitize = QHX_ASAN});
    assert_true(compiles(other, TINY("3")));
    assert_false(compiles(other, TINY("3")));
    qhx_close(other);
    if (!QHX_ASAN) return;
    other = open_executor(f->folder, (qhx_options){.sanitize = false});
    assert_true(compiles(other, TINY("3")));
    qhx_close(other);
}

static void a_damaged_object_is_compiled_again(void **state) {
    fixture *f = *state;
    assert_true(compiles(f->executor, TINY("4")));
    char *list = qt_format("%s/host-1", f->folder);
    qt_output files = qt_run((const char *const[]){"ls", "-t", list, NULL}, NULL);
    char *path = qt_format("%s/%.*s", list, (int)strcspn(files.out, "\n"), files.out);
    size_t size;
    char *data = qt_read(path, &size);
    data[size / 2] ^= 1;
    qt_write(path, data, size);
    assert_true(compiles(f->executor, TINY("4")));
    qt_write(path, data, size / 3);
    assert_true(compiles(f->executor, TINY("4")));
    assert_false(compiles(f->executor, TINY("4")));
    free(data);
    free(path);
    free(list);
    qt_output_free(&files);
}

static void what_an_ended_compile_left_goes_with_the_next(void **state) {
    fixture *f = *state;
    char *old = qt_format("%s/host-1/build-old", f->folder),
         *new = qt_format("%s/host-1/build-new", f->folder);
    char *file = qt_format("%s/kernel.cu", old);
    assert_int_equal(mkdir(old, 0700), 0);
    assert_int_equal(mkdir(new, 0700), 0);
    qt_write_text(file, "half");
    struct timespec then[2] = {{.tv_sec = time(NULL) - 4000}, {.tv_sec = time(NULL) - 4000}};
    assert_int_equal(utimensat(AT_FDCWD, old, then, 0), 0);
    assert_true(compiles(f->executor, TINY("5")));
    assert_false(qt_exists(old));
    assert_true(qt_exists(new)); /* somebody may be at work there */
    assert_int_equal(rmdir(new), 0);
    free(old);
    free(new);
    free(file);
}

static void no_compiler_names_the_package(void **state) {
    fixture *f = *state;
    qhx_executor *ex = open_executor(f->folder, (qhx_options){.cxx = "no-such-compiler"});
    qhx_module *m = NULL;
    qg_error err;
    assert_int_equal(load(ex, &(launch){.kernel = "reversal"}, &m, &err), QG_ENVIRONMENT);
    assert_null(m);
    qt_assert_contains(err.why, "no-such-compiler");
    qt_assert_contains(err.fix, "install the package g++");
    qhx_close(ex);
}

static void a_compile_error_names_the_template_line(void **state) {
    fixture *f = *state;
    qg_plan *p =
        plan_of(strdup("#line 12 \"blocks/broken.cuh\"\nint x = y;\n"), program_of(&(launch){.kernel = "k"}));
    qhx_module *m = NULL;
    qg_error err;
    assert_int_equal(qhx_load(f->executor, NULL, p, &m, &err), QG_INTERNAL);
    qt_assert_contains(err.why, "blocks/broken.cuh:12");
    free_plan(p);
}

static void a_cache_that_cannot_be_written_is_replaced(void **state) {
    (void)state;
    qhx_executor *ex = open_executor("/proc/nowhere", (qhx_options){.sanitize = QHX_ASAN});
    assert_true(compiles(ex, TINY("5")));
    assert_false(compiles(ex, TINY("5")));
    qhx_close(ex);
}

static void options_are_checked(void **state) {
    (void)state;
    qhx_executor *ex = NULL;
    qg_error err;
    assert_int_equal(qhx_open(&(qhx_options){.order = 3}, &ex, &err), QG_BAD_INPUT);
    qt_assert_contains(err.fix, "seeded");
    assert_null(ex);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits_in_every_order),
        cmocka_unit_test(cooperative_blocks_wait_for_each_other),
        cmocka_unit_test(an_empty_grid_is_skipped),
        cmocka_unit_test(one_module_runs_on_many_threads),
        cmocka_unit_test(a_missing_barrier_shows_between_orders),
        cmocka_unit_test(a_missing_wait_shows_between_orders),
        cmocka_unit_test(poison_is_visible),
        cmocka_unit_test(a_barrier_some_thread_never_reaches),
        cmocka_unit_test(a_named_barrier_that_too_few_reach),
        cmocka_unit_test(a_named_barrier_with_two_counts),
        cmocka_unit_test(a_divergent_warp),
        cmocka_unit_test(a_lane_that_has_returned),
        cmocka_unit_test(a_flag_nobody_sets),
        cmocka_unit_test(a_flag_wait_can_expire_instead),
        cmocka_unit_test(a_chain_in_an_ordinary_grid),
        cmocka_unit_test(polling_for_ever),
        cmocka_unit_test(an_mbarrier_that_never_completes),
        cmocka_unit_test(an_mbarrier_misused),
        cmocka_unit_test(shared_memory_out_of_bounds),
        cmocka_unit_test(a_write_behind_shared_memory),
        cmocka_unit_test(copies_that_outlive_their_block),
        cmocka_unit_test(warpgroup_products_misused),
        cmocka_unit_test(a_cluster_block_that_is_gone),
        cmocka_unit_test(a_trap_names_its_thread),
        cmocka_unit_test(the_executor_works_after_an_error),
        cmocka_unit_test(a_program_that_does_not_fit),
        cmocka_unit_test(objects_are_compiled_once),
        cmocka_unit_test(another_source_or_flag_is_compiled_again),
        cmocka_unit_test(a_damaged_object_is_compiled_again),
        cmocka_unit_test(what_an_ended_compile_left_goes_with_the_next),
        cmocka_unit_test(no_compiler_names_the_package),
        cmocka_unit_test(a_compile_error_names_the_template_line),
        cmocka_unit_test(a_cache_that_cannot_be_written_is_replaced),
        cmocka_unit_test(options_are_checked),
    };
    return cmocka_run_group_tests_name("host executor", tests, set_up, tear_down);
}
