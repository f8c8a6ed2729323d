/* Microbenchmarks: what a column step and an update cost inside a kernel, by the SM's own clock, from the
 * blocks that the families are made of. One block on an otherwise idle GPU; each result is checked against
 * float64. `./run micro` in the bundle, or
 *
 *   make gpu-tests && build/tests/gpu/test_micro
 *
 * A step's figure is cycles a column. An update's is floating-point operations a cycle of one SM, where fp16
 * tensor cores can do 4,096 on Hopper; three products count once. */
#include "runtime/runtime.h"
#include "tests/lib/micro.h"
#include "tests/lib/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RUNS = 20 };

typedef struct fixture {
    qg_library *lib;
    qrt_device *dev;
    qrt_compiler *compiler;
} fixture;

static void require(qg_status status, const qg_error *err) {
    if (status != QG_OK) fail_msg("%s: %s (%s)", err->what, err->why, err->fix);
}

static int set_up(void **state) {
    fixture *f = calloc(1, sizeof *f);
    qg_error err = {0};
    *state = f;
    require(qg_library_open(&(qg_library_options){.extra_families = QT_MICRO_FOLDER}, &f->lib, &err), &err);
    require(qrt_compiler_open(NULL, &f->compiler, &err), &err);
    if (qrt_device_open(0, &f->dev, &err) != QG_OK) print_message("no GPU: %s\n", err.why);
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    qrt_device_close(f->dev);
    qrt_compiler_close(f->compiler);
    qg_library_close(f->lib);
    free(f);
    return 0;
}

/* Runs the kernel RUNS times; h: of the last run. Returns the fewest cycles. */
static int run(const fixture *f, const qt_micro *m, const qg_plan *plan, const float *a, float *h) {
    int64_t bytes = (int64_t)m->rows * m->columns * (int64_t)sizeof(float);
    qg_error err = {0};
    qrt_module *module;
    qg_call c = {.scalar = {[QG_BATCH] = 1, [QG_LDA] = m->columns, [QG_LDH] = m->columns}};
    const int64_t sizes[QG_PTR_COUNT] = {
        [QG_PTR_A] = bytes, [QG_PTR_H] = bytes, [QG_PTR_TAU] = 4096, [QG_PTR_INFO] = 256};
    int best = 0;
    for (int i = 0; i < QG_PTR_COUNT; i++)
        require(qrt_memory_alloc(f->dev, sizes[i], &c.pointer[i], &err), &err);
    require(qrt_copy_to_device(f->dev, c.pointer[QG_PTR_A], a, bytes, &err), &err);
    require(qrt_module_load(f->dev, f->compiler, f->lib, plan, &module, &err), &err);
    for (int i = 0; i < RUNS; i++) {
        int32_t cycles;
        require(qrt_memory_set(f->dev, c.pointer[QG_PTR_H], 0xff, bytes, NULL, &err), &err);
        require(qrt_module_launch(module, &c, NULL, &err), &err);
        require(qrt_stream_sync(f->dev, NULL, &err), &err);
        require(qrt_copy_to_host(f->dev, &cycles, c.pointer[QG_PTR_INFO], sizeof cycles, &err), &err);
        best = i == 0 || cycles < best ? cycles : best;
    }
    require(qrt_copy_to_host(f->dev, h, c.pointer[QG_PTR_H], bytes, &err), &err);
    qrt_module_unload(module);
    for (int i = 0; i < QG_PTR_COUNT; i++)
        qrt_memory_free(f->dev, c.pointer[i]);
    return best;
}

static bool time_one(const fixture *f, const qt_micro *m) {
    size_t bytes = (size_t)(m->rows * m->columns) * sizeof(float);
    float *a = malloc(bytes), *h = malloc(bytes);
    qg_shape shape = qt_micro_shape(m);
    qg_plan *plan;
    qg_error err;
    if (qg_plan_make(f->lib, &shape, qrt_device_record(f->dev), &(qg_request){.family = m->family}, &plan,
                     &err)) {
        print_message("%-13s %4d rows  %s  not on this GPU: %s\n", m->family, m->rows,
                      qg_precision_name(m->precision), err.why);
        free(a);
        free(h);
        return true;
    }
    qt_micro_fill(m, a);
    int cycles = run(f, m, plan, a, h);
    double error = qt_micro_error(m, a, h);
    bool right = error <= m->tolerance;
    print_message("%-13s %4d rows  %s  %8d cycles  %7.1f %-20s  error %.1e %s\n", m->family, m->rows,
                  qg_precision_name(m->precision), cycles,
                  m->flops > 0 ? m->flops / cycles : (double)cycles / m->steps,
                  m->flops > 0 ? "operations a cycle" : "cycles a column", error, right ? "" : "WRONG");
    qg_plan_free(plan);
    free(a);
    free(h);
    return right;
}

static void results_are_right_and_timed(void **state) {
    const fixture *f = *state;
    int wrong = 0;
    if (!f->dev) qt_skip("no GPU");
    for (const qt_micro *m = qt_micros; m->family; m++)
        wrong += !time_one(f, m);
    assert_int_equal(wrong, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(results_are_right_and_timed)};
    return cmocka_run_group_tests_name("microbenchmarks on the GPU", tests, set_up, tear_down);
}
