/* The microbenchmarks of tests/gpu/micro on the host executor: that they compute what they say they time.
 * tests/test_nvrtc.c compiles them, tests/gpu/test_micro.c times them. */
#include "runtime/host/context.h"
#include "runtime/host/host.h"
#include "tests/lib/micro.h"
#include "tests/lib/support.h"

#include <stdlib.h>
#include <string.h>

static qg_library *lib;
static qg_device device;
static qhx_executor *executor;

static void require(qg_status status, const qg_error *err) {
    if (status != QG_OK) fail_msg("%s: %s (%s)", err->what, err->why, err->fix);
}

static int set_up(void **state) {
    (void)state;
    qg_error err;
    require(qg_library_open(&(qg_library_options){.extra_families = QT_MICRO_FOLDER}, &lib, &err), &err);
    require(qg_device_profile("h200", &device, &err), &err);
    require(qhx_open(&(qhx_options){.sanitize = QHX_ASAN, .poison = true}, &executor, &err), &err);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    qhx_close(executor);
    qg_library_close(lib);
    return 0;
}

static void run(qhx_module *module, const qt_micro *m, float *a, float *h) {
    float tau[512];
    int32_t info = -1;
    qg_error err;
    qg_call c = {.scalar = {[QG_BATCH] = 1, [QG_LDA] = m->columns, [QG_LDH] = m->columns}};
    c.pointer[QG_PTR_A] = a;
    c.pointer[QG_PTR_H] = h;
    c.pointer[QG_PTR_TAU] = tau;
    c.pointer[QG_PTR_INFO] = &info;
    require(qhx_run(module, &c, &err), &err);
    assert_true(info >= 0);
}

static void what_is_timed_is_right(void **state) {
    (void)state;
    for (const qt_micro *m = qt_micros; m->family; m++) {
        qg_shape shape = qt_micro_shape(m);
        size_t bytes = (size_t)(m->rows * m->columns) * sizeof(float);
        float *a = aligned_alloc(64, bytes), *h = aligned_alloc(64, bytes);
        qg_plan *plan;
        qhx_module *module;
        qg_error err;
        require(qg_plan_make(lib, &shape, &device, &(qg_request){.family = m->family}, &plan, &err), &err);
        require(qhx_load(executor, lib, plan, &module, &err), &err);
        qt_micro_fill(m, a);
        for (int order = QHX_FORWARD; order <= QHX_SEEDED; order++) {
            memset(h, 0xff, bytes);
            qhx_set_order(executor, order, 7);
            run(module, m, a, h);
            double error = qt_micro_error(m, a, h);
            if (!(error <= m->tolerance)) fail_msg("%s, %d rows: error %g", m->family, m->rows, error);
        }
        qhx_unload(module);
        qg_plan_free(plan);
        free(a);
        free(h);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_timed_is_right)};
    return cmocka_run_group_tests_name("microbenchmarks", tests, set_up, tear_down);
}
