/* The example programs: with a GPU or without one they end well, say which, and refuse wrong arguments. */
#include "tests/lib/support.h"

#include <stdlib.h>
#include <string.h>

static char *folder;

static int set_up(void **state) {
    (void)state;
    folder = qt_tmpdir();
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    qt_remove_tree(folder);
    free(folder);
    return 0;
}

static qt_output run_example(const char *name, const char *const args[], const char *const environment[]) {
    char *path = qt_format("%s/examples/%s", qt_build(), name);
    const char *command[8] = {path};
    for (int i = 0; i < 6 && args && args[i]; i++)
        command[i + 1] = args[i];
    qt_output output = qt_run(command, environment);
    free(path);
    return output;
}

static void assert_fine(const qt_output *output) {
    if (output->code) fail_msg("exit code %d\n%s%s", output->code, output->out, output->err);
}

static void plan_call_check_runs(void **state) {
    (void)state;
    qt_output output = run_example("plan_call_check", (const char *[]){"10", "24", "16", NULL}, NULL);
    assert_fine(&output);
    if (strstr(output.out, "no GPU here"))
        qt_assert_contains(output.out, "for an H200");
    else
        qt_assert_contains(output.out, "fine");
    qt_assert_contains(output.out, "registers a thread, 0 bytes of stack and spills");
    qt_output_free(&output);
}

static void jit_many_shapes_compiles_once_and_then_reads_the_cache(void **state) {
    (void)state;
    char *cache = qt_format("QRSMITH_CACHE_DIR=%s/cache", folder);
    const char *const environment[] = {cache, NULL}, *const args[] = {"2", NULL};
    qt_output first = run_example("jit_many_shapes", args, environment);
    assert_fine(&first);
    qt_assert_contains(first.out, "compiled");
    qt_assert_contains(first.out, "2 shapes planned");
    qt_output second = run_example("jit_many_shapes", args, environment);
    assert_fine(&second);
    assert_null(strstr(second.out, "compiled "));
    qt_assert_contains(second.out, "disk");
    qt_output_free(&first);
    qt_output_free(&second);
    free(cache);
}

static void without_a_compiler_the_reason_is_said(void **state) {
    (void)state;
    char *cache = qt_format("QRSMITH_CACHE_DIR=%s/empty", folder);
    const char *const environment[] = {cache, "QRSMITH_NVRTC=/nowhere/libnvrtc.so", NULL};
    qt_output output = run_example("plan_call_check", (const char *[]){"1", "5", "5", NULL}, environment);
    assert_int_equal(output.code, 1);
    qt_assert_contains(output.err, "QRS_NO_COMPILER");
    qt_assert_contains(output.err, "/nowhere/libnvrtc.so");
    qt_output_free(&output);
    free(cache);
}

static void wrong_arguments_show_the_usage(void **state) {
    (void)state;
    static const char *const names[] = {"plan_call_check", "jit_many_shapes"};
    for (int i = 0; i < 2; i++) {
        qt_output output = run_example(names[i], (const char *[]){"0", NULL}, NULL);
        assert_int_equal(output.code, 2);
        qt_assert_contains(output.err, "usage");
        qt_output_free(&output);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plan_call_check_runs),
        cmocka_unit_test(jit_many_shapes_compiles_once_and_then_reads_the_cache),
        cmocka_unit_test(without_a_compiler_the_reason_is_said),
        cmocka_unit_test(wrong_arguments_show_the_usage),
    };
    return cmocka_run_group_tests_name("examples", tests, set_up, tear_down);
}
