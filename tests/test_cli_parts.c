/* Parts of the command line that a process can't show well: publishing files as one step, statistics, floors,
 * and the GPU backend against the stand-in driver. */
#include "tests/lib/fake.h"
#include "tests/lib/support.h"

#include "runtime/cli/earlier.h"
#include "runtime/cli/floors.h"
#include "runtime/cli/output.h"
#include "runtime/cli/select.h"
#include "runtime/cli/standing.h"
#include "runtime/cli/timing.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char *folder;

static int make_folder(void **state) {
    (void)state;
    folder = qt_tmpdir();
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    qt_remove_tree(folder);
    free(folder);
    return 0;
}

/* ---- outputs ---- */

static void assert_text(const char *path, const char *expected) {
    char *text = qt_read(path, NULL);
    assert_string_equal(text, expected);
    free(text);
}

static void outputs_appear_together(void **state) {
    (void)state;
    char *a = qt_format("%s/a", folder), *b = qt_format("%s/b", folder);
    cli_outputs set = {0};
    qg_error err = {0};
    FILE *fa, *fb;
    assert_int_equal(cli_output_add(&set, a, &fa, &err), QG_OK);
    assert_int_equal(cli_output_add(&set, b, &fb, &err), QG_OK);
    fputs("first", fa);
    fputs("second", fb);
    assert_false(qt_exists(a) || qt_exists(b));
    assert_int_equal(cli_outputs_commit(&set, &err), QG_OK);
    assert_text(a, "first");
    assert_text(b, "second");
    free(a);
    free(b);
}

/* The second rename can't work: what the first replaced comes back. */
static void a_failed_publication_is_undone(void **state) {
    (void)state;
    char *old = qt_format("%s/old", folder), *fresh = qt_format("%s/fresh", folder);
    char *blocked = qt_format("%s/blocked", folder);
    cli_outputs set = {0};
    qg_error err = {0};
    FILE *f[3];
    qt_write_text(old, "as it was");
    assert_int_equal(cli_output_add(&set, old, &f[0], &err), QG_OK);
    assert_int_equal(cli_output_add(&set, fresh, &f[1], &err), QG_OK);
    assert_int_equal(cli_output_add(&set, blocked, &f[2], &err), QG_OK);
    for (int i = 0; i < 3; i++)
        fputs("new", f[i]);
    assert_int_equal(mkdir(blocked, 0777), 0);
    assert_int_equal(cli_outputs_commit(&set, &err), QG_BAD_INPUT);
    assert_string_equal(err.what, blocked);
    assert_text(old, "as it was");
    assert_false(qt_exists(fresh));
    assert_int_equal(rmdir(blocked), 0);
    char *pattern = qt_format("ls -A %s | grep -c tmp", folder);
    qt_output o = qt_run((const char *const[]){"sh", "-c", pattern, NULL}, NULL);
    assert_string_equal(o.out, "0\n");
    qt_output_free(&o);
    free(pattern);
    free(old);
    free(fresh);
    free(blocked);
}

static void a_symbolic_link_is_written_through(void **state) {
    (void)state;
    char *target = qt_format("%s/target", folder), *name = qt_format("%s/name", folder);
    cli_outputs set = {0};
    qg_error err = {0};
    FILE *f;
    struct stat st;
    qt_write_text(target, "old");
    assert_int_equal(symlink(target, name), 0);
    assert_int_equal(cli_output_add(&set, name, &f, &err), QG_OK);
    fputs("new", f);
    assert_int_equal(cli_outputs_commit(&set, &err), QG_OK);
    assert_int_equal(lstat(name, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_text(target, "new");
    free(target);
    free(name);
}

/* ---- numbers ---- */

static void statistics_are_right(void **state) {
    (void)state;
    double odd[] = {5, 1, 3}, even[] = {4, 1, 2, 3}, one[] = {7};
    cli_timing t = cli_statistics(odd, 3);
    assert_true(t.mean == 3 && t.median == 3 && t.least == 1 && t.repetitions == 3);
    assert_true(fabs(t.error - sqrt(4.0 / 3) / 3) < 1e-12);
    t = cli_statistics(even, 4);
    assert_true(t.mean == 2.5 && t.median == 2.5);
    t = cli_statistics(one, 1);
    assert_true(t.mean == 7 && t.median == 7 && t.error == 0);
}

static void arrays_fill_256_mib(void **state) {
    (void)state;
    assert_int_equal(cli_array_count(0), 50);
    assert_int_equal(cli_array_count(20 * 32 * 32 * 4), 50);
    assert_int_equal(cli_array_count(40 * 352 * 352 * 4), 13);
    assert_int_equal(cli_array_count(INT64_C(640) * 512 * 512 * 4), 1);
}

static void floors_follow_products(void **state) {
    (void)state;
    qg_device h200 = {.name = "NVIDIA H200", .sms = 132}, other = {.name = "Toaster"};
    cli_floors f;
    assert_false(cli_floors_of(&other, 1, 8, 8, "1", &f));
    assert_true(cli_floors_of(&h200, 640, 512, 512, "1", &f));
    assert_true(fabs(f.us[CLI_BANDWIDTH] - 335.5) < 1);
    assert_true(f.us[CLI_TENSOR] > 140 && f.us[CLI_TENSOR] < 160 && f.us[CLI_SCALAR] == 0);
    assert_int_equal(f.nearest, CLI_BANDWIDTH);
    assert_true(cli_floors_of(&h200, 640, 512, 512, "3", &f));
    assert_int_equal(f.nearest, CLI_TENSOR);
    assert_true(cli_floors_of(&h200, 640, 512, 512, "fp32", &f));
    assert_int_equal(f.nearest, CLI_SCALAR);
    assert_true(cli_floors_of(&h200, 2, 4096, 4096, "1", &f));
    assert_int_equal(f.nearest, CLI_CHAIN);
}

static void lists_are_split(void **state) {
    (void)state;
    char words[3][64];
    assert_int_equal(cli_split_list("a,bc,d", words, 3), 3);
    assert_string_equal(words[1], "bc");
    assert_int_equal(cli_split_list("a,b,c,d", words, 3), -1);
    assert_int_equal(cli_split_list("a,,b", words, 3), -1);
    assert_int_equal(cli_split_list(",", words, 3), -1);
    assert_int_equal(cli_split_list("", words, 3), -1);
}

static void forced_values_keep_their_type(void **state) {
    (void)state;
    cli_list set = {{"panel=32", "mma=wgmma", "deep=true", "share=0.5", "odd=1e", "text=\"q\""}, 6};
    qg_error err = {0};
    json_t *params = NULL;
    assert_int_equal(cli_forced_params(&set, &params, &err), QG_OK);
    assert_int_equal(json_integer_value(json_object_get(params, "panel")), 32);
    assert_string_equal(json_string_value(json_object_get(params, "mma")), "wgmma");
    assert_true(json_is_true(json_object_get(params, "deep")));
    assert_true(json_real_value(json_object_get(params, "share")) == 0.5);
    assert_string_equal(json_string_value(json_object_get(params, "odd")), "1e");
    json_decref(params);
}

static void an_earlier_run_is_matched_by_case(void **state) {
    (void)state;
    static const char text[] =
        "[{\"precision\": \"fp16\", \"batch\": 2, \"m\": 3, \"n\": 4, \"kind\": \"dense\", \"value\": 0.0,"
        " \"cond\": %s, \"layout_in\": \"row\", \"layout_out\": \"row\", \"mean_us\": 5.5}]";
    char *one = qt_format(text, "1"), *same = qt_format(text, "1.0"), *other = qt_format(text, "2");
    json_t *earlier = json_loads(one, 0, NULL), *a = json_loads(same, 0, NULL),
           *b = json_loads(other, 0, NULL);
    assert_true(cli_earlier_mean(earlier, json_array_get(a, 0)) == 5.5);
    assert_true(cli_earlier_mean(earlier, json_array_get(b, 0)) == 0);
    json_decref(earlier);
    json_decref(a);
    json_decref(b);
    free(one);
    free(same);
    free(other);
}

/* ---- standing ---- */

static void a_standing_names_what_a_baseline_does_faster(void **state) {
    (void)state;
    json_t *results = json_loads(
        "[{\"name\": \"a\", \"mean_us\": 2, \"baseline\": {\"cublas\": {\"mean_us\": 8}, \"cusolver\": "
        "{\"error\": \"no\"}}},"
        " {\"name\": \"b\", \"mean_us\": 4, \"baseline\": {\"cublas\": {\"mean_us\": 2}}},"
        " {\"name\": \"c\", \"verdict\": \"failed\", \"baseline\": {\"cublas\": {\"mean_us\": 1}}}]",
        0, NULL);
    json_t *standing = cli_standing_of(results);
    const json_t *one = json_object_get(standing, "cublas"), *slower = json_object_get(one, "slower");
    assert_int_equal(json_object_size(standing), 1);
    assert_int_equal(json_integer_value(json_object_get(one, "cases")), 2);
    assert_true(fabs(json_real_value(json_object_get(one, "geometric_mean_ratio")) - sqrt(2)) < 1e-12);
    assert_int_equal(json_array_size(slower), 1);
    assert_string_equal(json_string_value(json_array_get(slower, 0)), "b");
    json_decref(standing);
    json_decref(results);
}

/* ---- the GPU backend; the stand-in's kernels do nothing ---- */

static void the_first_gpu_is_taken_and_judged(void **state) {
    (void)state;
    char *cache = qt_format("QRSMITH_CACHE_DIR=%s/cache", folder);
    const char *const env[] = {cache, NULL};
    qt_fake_gpu(folder);
    qt_output o = qt_run((const char *const[]){qt_bin(), "check", "--shape", "3x9x5", NULL}, env);
    if (o.code != 1) print_error("%s%s", o.out, o.err);
    assert_int_equal(o.code, 1);
    qt_assert_contains(o.err, "using GPU 0");
    qt_assert_contains(o.out, "0 passed, 1 failed");
    qt_output_free(&o);
    o = qt_run((const char *const[]){qt_bin(), "bench", "--shape", "3x9x5", "--max-seconds", "0.01", NULL},
               env);
    if (o.code != 1) print_error("%s%s", o.out, o.err);
    assert_int_equal(o.code, 1);
    assert_null(strstr(o.out, "mean "));
    qt_output_free(&o);
    o = qt_run((const char *const[]){qt_bin(), "check", "--shape", "3x9x5", "--device", "77", NULL}, env);
    assert_int_equal(o.code, 3);
    qt_output_free(&o);
    free(cache);
}

/* Folder with stand-ins of both libraries, to be found by the loader. */
static char *build_rivals(void) {
    static const char *const names[] = {"libcusolver.so.12", "libcublas.so.13"};
    const char *cc = getenv("CC");
    for (int i = 0; i < 2; i++) {
        char *library = qt_format("%s/%s", folder, names[i]);
        qt_output o = qt_run((const char *const[]){cc && *cc ? cc : "cc", "-shared", "-fPIC", "-O1", "-o",
                                                   library, "tests/fake/solver.c", NULL},
                             NULL);
        if (o.code) fail_msg("%s", o.err);
        qt_output_free(&o);
        free(library);
    }
    return qt_format("LD_LIBRARY_PATH=%s", folder);
}

static void a_first_use_is_timed_cold_and_warm(void **state) {
    (void)state;
    char *cache = qt_format("QRSMITH_CACHE_DIR=%s/cache", folder);
    const char *const env[] = {cache, NULL};
    qt_fake_gpu(folder);
    qt_output o = qt_run((const char *const[]){qt_bin(), "bench", "--shape", "3x9x5", "--shape", "2x9x5",
                                               "--max-seconds", "0.01", "--first-use", "--json", "-", NULL},
                         env);
    assert_int_equal(o.code, 1); /* the stand-in's kernels do nothing, so ours fails */
    json_t *root = json_loads(o.out, 0, NULL), *result;
    const json_t *results = json_object_get(root, "results");
    size_t i;
    assert_int_equal(json_array_size(results), 2);
    json_array_foreach(results, i, result) {
        assert_true(json_real_value(json_object_get(result, "first_use_cold_ms")) > 0);
        assert_true(json_real_value(json_object_get(result, "first_use_warm_ms")) > 0);
    }
    json_decref(root);
    qt_output_free(&o);
    free(cache);
}

static void rivals_are_timed_in_the_same_run(void **state) {
    (void)state;
    char *cache = qt_format("QRSMITH_CACHE_DIR=%s/cache", folder), *path = build_rivals();
    const char *const env[] = {cache, path, NULL};
    qt_fake_gpu(folder);
    qt_output o = qt_run((const char *const[]){qt_bin(), "bench", "--shape", "3x9x5", "--max-seconds", "0.01",
                                               "--baseline", "cusolver,cublas", "--json", "-", NULL},
                         env);
    if (o.code != 1) print_error("%s%s", o.out, o.err);
    assert_int_equal(o.code, 1); /* the stand-in's kernels do nothing, so ours fails */
    json_t *root = json_loads(o.out, 0, NULL);
    const json_t *rivals = json_object_get(json_array_get(json_object_get(root, "results"), 0), "baseline");
    static const char *const names[] = {"cusolver", "cublas"};
    for (int i = 0; i < 2; i++) {
        const json_t *one = json_object_get(rivals, names[i]);
        if (!json_object_get(one, "mean_us")) fail_msg("%s", o.out);
        assert_true(json_integer_value(json_object_get(one, "matrices_timed")) == 3);
    }
    json_decref(root);
    qt_output_free(&o);
    free(cache);
    free(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outputs_appear_together),
        cmocka_unit_test(a_failed_publication_is_undone),
        cmocka_unit_test(a_symbolic_link_is_written_through),
        cmocka_unit_test(a_standing_names_what_a_baseline_does_faster),
        cmocka_unit_test(statistics_are_right),
        cmocka_unit_test(arrays_fill_256_mib),
        cmocka_unit_test(floors_follow_products),
        cmocka_unit_test(lists_are_split),
        cmocka_unit_test(forced_values_keep_their_type),
        cmocka_unit_test(an_earlier_run_is_matched_by_case),
        cmocka_unit_test(the_first_gpu_is_taken_and_judged),
        cmocka_unit_test(a_first_use_is_timed_cold_and_warm),
        cmocka_unit_test(rivals_are_timed_in_the_same_run),
    };
    return cmocka_run_group_tests_name("cli parts", tests, make_folder, remove_folder);
}
