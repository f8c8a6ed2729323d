/* Device records, and the choice of a plan: whose word counts, what a plan promises of itself, and refusals.
 * What tuned tables add is in test_tuned.c, what families may say of themselves in test_families.c. */
#include "tests/lib/support.h"

#include "gen/embedded.h"
#include "gen/plan.h"
#include "tests/lib/templates.h"
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static qg_library *lib;
static qg_device h200;

static int open_library(void **state) {
    qg_error err;
    (void)state;
    return qg_library_open(&(qg_library_options){0}, &lib, &err) || qg_device_profile("h200", &h200, &err);
}

static int close_library(void **state) {
    (void)state;
    qg_library_close(lib);
    return 0;
}

static qg_status make(const qg_library *from, const qg_shape *shape, const char *family, const char *params,
                      qg_plan **out, qg_error *err) {
    json_t *forced = params ? json_loads(params, 0, NULL) : NULL;
    qg_request request = {family, forced};
    qg_status status = qg_plan_make(from, shape, &h200, &request, out, err);
    json_decref(forced);
    return status;
}

static qg_plan *made(const qg_shape *shape, const char *family, const char *params) {
    qg_plan *plan = NULL;
    qg_error err;
    qt_succeeded(make(lib, shape, family, params, &plan, &err), &err);
    return plan;
}

static const qg_shape square = {.m = 48, .n = 48, .max_batch = 100};

#define refuses(want, shape, family, params, ...)                                                            \
    do {                                                                                                     \
        qg_error err = {0};                                                                                  \
        qg_plan *plan = NULL;                                                                                \
        qt_refused(make(lib, shape, family, params, &plan, &err), &err, want, __VA_ARGS__, NULL);            \
    } while (0)

/* ---- devices */

static void every_built_in_profile_is_read_and_has_a_target(void **state) {
    (void)state;
    int count = 0;
    for (const qg_embedded *f = qg_embedded_files; f->path; f++) {
        if (strncmp(f->path, "configs/devices/", 16) != 0) continue;
        char *name = strndup(f->path + 16, strlen(f->path) - 16 - 5);
        qg_device d;
        qg_error err;
        qt_succeeded(qg_device_profile(name, &d, &err), &err);
        assert_non_null(qg_compile_target(d.arch));
        assert_true(d.smem_optin <= d.smem_sm && d.sms > 0 && *d.name);
        free(name);
        count++;
    }
    assert_true(count >= 9);
}

static void architectures_have_their_compile_targets(void **state) {
    (void)state;
    static const struct {
        int arch;
        const char *target;
    } rows[] = {{80, "sm_80"},    {86, "sm_86"},    {89, "sm_89"},  {90, "sm_90a"},
                {100, "sm_100a"}, {103, "sm_103a"}, {120, "sm_120"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_string_equal(qg_compile_target(rows[i].arch), rows[i].target);
    assert_null(qg_compile_target(75));
    assert_null(qg_compile_target(0));
    assert_null(qg_compile_target(130));
}

static void an_unknown_profile_lists_those_there_are(void **state) {
    (void)state;
    qg_device d;
    qg_error err = {0};
    qt_refused(qg_device_profile("h300", &d, &err), &err, QG_BAD_INPUT, "no profile \"h300\"", "a100", "h200",
               "rtx5090", NULL);
    qt_refused(qg_device_profile("", &d, &err), &err, QG_BAD_INPUT, "no profile \"\"", NULL);
    qt_refused(qg_device_profile("../devices/h200", &d, &err), &err, QG_BAD_INPUT, "no profile", NULL);
    qt_refused(qg_device_profile("nowhere.json", &d, &err), &err, QG_BAD_INPUT, "nowhere.json",
               "No such file", NULL);
}

static void a_profile_of_ones_own_is_read_strictly(void **state) {
    (void)state;
    static const char whole[] =
        "{\"format\": \"qrsmith-device-1\", \"name\": \"mine\", \"arch\": 90, \"sms\": 10, \"smem_optin\": "
        "65536, "
        "\"smem_sm\": 65536, \"regs\": 65536, \"l2\": 1048576, \"max_cluster\": 8, \"memory\": 1073741824}";
    static const struct {
        const char *from, *to, *why;
        qg_status status;
    } rows[] = {
        {"\"arch\": 90", "\"arch\": 90, \"clock\": 1", "unknown key \"clock\"", QG_BAD_INPUT},
        {"\"sms\": 10, ", "", "\"sms\" is missing", QG_BAD_INPUT},
        {"\"sms\": 10", "\"sms\": 0", "$.sms: found the integer 0", QG_BAD_INPUT},
        {"\"sms\": 10", "\"sms\": \"10\"", "$.sms: found the string", QG_BAD_INPUT},
        {"\"l2\": 1048576", "\"l2\": 1e6", "$.l2: found the number", QG_BAD_INPUT},
        {"-device-1", "-device-2", "$.format", QG_BAD_INPUT},
        {"\"arch\": 90", "\"arch\": 91", "no compile target for arch 91", QG_UNSUPPORTED},
    };
    char *folder = qt_tmpdir(), *path = qt_format("%s/mine.json", folder);
    qg_device d;
    qg_error err = {0};
    qt_write_text(path, whole);
    qt_succeeded(qg_device_profile(path, &d, &err), &err);
    assert_true(d.arch == 90 && d.sms == 10 && d.memory == 1 << 30);
    assert_string_equal(d.name, "mine");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *at = strstr(whole, rows[i].from);
        char *text = qt_format("%.*s%s%s", (int)(at - whole), whole, rows[i].to, at + strlen(rows[i].from));
        qt_write_text(path, text);
        qt_refused(qg_device_profile(path, &d, &err), &err, rows[i].status, "mine.json", rows[i].why, NULL);
        free(text);
    }
    qt_remove_tree(folder);
    free(path);
    free(folder);
}

/* ---- whose word counts */

static void nothing_asked_takes_the_default_and_says_so(void **state) {
    (void)state;
    qg_plan *plan = made(&square, NULL, NULL);
    assert_int_equal(plan->grade, QG_GRADE_DEFAULT);
    assert_string_equal(qg_grade_name(plan->grade), "default");
    qg_plan_free(plan);
}

/* Many columns of a few rows: fused would miss the fp32 contract in some (see its rank). */
static void few_rows_of_many_columns_are_blocked_in_fp32(void **state) {
    (void)state;
    const struct {
        qg_shape shape;
        const char *family;
    } cases[] = {
        {{.m = 3, .n = 129, .max_batch = 4}, "blocked"},
        {{.m = 15, .n = 200, .max_batch = 4}, "blocked"},
        {{.m = 16, .n = 200, .max_batch = 4}, "fused"},
        {{.m = 3, .n = 129, .max_batch = 4, .precision = QG_FP16}, "fused"},
        {{.m = 3, .n = 32, .max_batch = 4}, "pack"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        qg_plan *plan = made(&cases[i].shape, NULL, NULL);
        assert_string_equal(plan->family, cases[i].family);
        qg_plan_free(plan);
    }
}

static void a_forced_family_is_taken_and_says_so(void **state) {
    (void)state;
    qg_plan *plan = made(&square, "blocked", "{\"panel\": 16}");
    assert_string_equal(plan->family, "blocked");
    assert_int_equal(plan->grade, QG_GRADE_REQUESTED);
    assert_int_equal(json_integer_value(json_object_get(plan->params, "panel")), 16);
    assert_non_null(json_object_get(plan->params, "products")); /* not forced: its default */
    qg_plan_free(plan);
}

static void a_default_fits_what_is_asked_for_beside_it(void **state) {
    (void)state;
    const qg_shape shape = {.m = 176, .n = 176, .max_batch = 40};
    const struct {
        const char *asked;
        int overlap; /* nobody is idle beside a panel by rows, and four warps alone are busy */
    } cases[] = {
        {NULL, 1}, {"{\"method\": \"rows\"}", 0}, {"{\"threads\": 128}", 0}, {"{\"update\": \"wgmma\"}", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        qg_plan *plan = made(&shape, "fused", cases[i].asked);
        assert_int_equal(json_integer_value(json_object_get(plan->params, "overlap")), cases[i].overlap);
        qg_plan_free(plan);
    }
}

static void a_whole_float_is_the_list_s_integer(void **state) {
    (void)state;
    qg_plan *integer = made(&square, "blocked", "{\"panel\": 16}"),
            *real = made(&square, "blocked", "{\"panel\": 16.0}");
    assert_string_equal(integer->source, real->source);
    assert_string_equal(integer->name, real->name);
    qg_plan_free(integer);
    qg_plan_free(real);
}

static void a_forced_family_that_cannot_refuses_in_its_own_words(void **state) {
    (void)state;
    static const qg_shape large = {.m = 100, .n = 100, .max_batch = 1};
    refuses(QG_UNSUPPORTED, &large, "pack", NULL, "geqrf_100x100_row_row_fp32",
            "families/pack.lua refuses: ", "at most 64 rows and 64 columns");
    refuses(QG_UNSUPPORTED, &square, "blocked", "{\"products\": 1}",
            "blocked.lua refuses: ", "products = 1 breaks the precision contract");
}

static void requests_that_make_no_sense_are_refused(void **state) {
    (void)state;
    refuses(QG_BAD_INPUT, &square, "block", NULL, "no family \"block\"", "qrsmith families");
    refuses(QG_BAD_INPUT, &square, "../families/blocked", NULL, "no family");
    refuses(QG_BAD_INPUT, &square, "", NULL, "no family \"\"");
    refuses(QG_BAD_INPUT, &square, "verify", NULL, "does not serve the operation geqrf");
    refuses(QG_BAD_INPUT, &square, NULL, "{\"panel\": 16}", "parameters are given but no family");
    refuses(QG_BAD_INPUT, &square, "blocked", "{\"panel\": 17}", "parameter panel", "found 17", "one of [16");
    refuses(QG_BAD_INPUT, &square, "blocked", "{\"panel\": \"16\"}", "found \"16\"");
    refuses(QG_BAD_INPUT, &square, "blocked", "{\"panel\": null}", "parameter panel");
    refuses(QG_BAD_INPUT, &square, "blocked", "{\"panel\": {\"a\": [16]}}", "parameter panel");
    refuses(QG_BAD_INPUT, &square, "blocked", "{\"pannel\": 16}", "no parameter \"pannel\"");
}

static void shapes_out_of_range_are_refused(void **state) {
    (void)state;
    refuses(QG_BAD_INPUT, (&(qg_shape){.m = -1, .n = 4, .max_batch = 1}), NULL, NULL, "-1 x 4");
    refuses(QG_BAD_INPUT, (&(qg_shape){.m = 4, .n = QG_MAX_DIM + 1, .max_batch = 1}), NULL, NULL,
            "4 x 1048577");
    refuses(QG_BAD_INPUT, (&(qg_shape){.m = 4, .n = 4}), NULL, NULL, "max_batch 0");
}

static void families_in_trouble_leave_the_others_alone(void **state) {
    (void)state;
    char *endless = qt_family_text("a_endless", "while true do end", ""),
         *greedy = qt_family_text("b_greedy", "local s = \"x\" while true do s = s .. s end", ""),
         *vandal = qt_family_text(
             "c_vandal", "math.max = nil string.format = nil ceildiv = nil SECRET = 1 f.rank = nil", ""),
         *good = qt_family_text("d_good",
                                "assert(SECRET == nil) local x = math.max(1, ceildiv(3, 2)) pcall(error)",
                                "${string.format('%d', 7)}");
    qt_templates t;
    qg_plan *plan = NULL;
    qg_error err = {0};
    qt_templates_open(&t, (const char *const[]){"families/a_endless.lua", endless, "families/b_greedy.lua",
                                                greedy, "families/c_vandal.lua", vandal,
                                                "families/d_good.lua", good, NULL});
    qt_succeeded(make(t.lib, &square, NULL, NULL, &plan, &err), &err);
    assert_string_equal(plan->family, "d_good");
    qg_plan_free(plan);
    qt_refused(qg_library_check(t.lib, &err), &err, QG_BAD_INPUT, "families/a_endless.lua",
               "an endless loop?", NULL);
    qt_templates_close(&t);
    free(endless);
    free(greedy);
    free(vandal);
    free(good);
}

static void every_family_of_ours_can_be_read(void **state) {
    (void)state;
    qg_error err;
    qt_succeeded(qg_library_check(lib, &err), &err);
}

/* ---- what a plan promises */

static void a_batch_invariant_plan_is_the_same_for_every_batch(void **state) {
    (void)state;
    static const int64_t sizes[] = {3, 16, 32, 48, 64, 100, 352, 512};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        qg_shape one = {.m = sizes[i], .n = sizes[i], .max_batch = 1, .batch_invariant = true}, many = one;
        many.max_batch = 1000000;
        qg_plan *a = made(&one, NULL, NULL), *b = made(&many, NULL, NULL);
        assert_string_equal(a->name, b->name);
        assert_string_equal(a->source, b->source);
        assert_true(json_equal(a->program_json, b->program_json));
        qg_plan_free(a);
        qg_plan_free(b);
    }
}

static void a_plan_s_name_is_safe_as_a_file_s_and_its_content_s_own(void **state) {
    (void)state;
    qg_plan *a = made(&square, "blocked", "{\"panel\": 16}"),
            *again = made(&square, "blocked", "{\"panel\": 16}"),
            *b = made(&square, "blocked", "{\"panel\": 32}");
    for (const char *c = a->name; *c; c++)
        assert_true(isalnum((unsigned char)*c) || *c == '_');
    assert_int_equal(strncmp(a->name, "geqrf_48x48_row_row_fp32_blocked_", 33), 0);
    assert_string_equal(a->name, again->name);
    assert_string_not_equal(a->name, b->name);
    qg_plan_free(a);
    qg_plan_free(again);
    qg_plan_free(b);
}

/* Launches that any default plan makes on its device, at batches from none to the largest. */
static void launches_fit(const qg_plan *plan, const qg_device *dev) {
    static const int64_t batches[] = {0, 1, 2, 640, 65537};
    for (size_t k = 0; k < sizeof batches / sizeof *batches; k++) {
        qg_call call = {.scalar = {batches[k], plan->shape.n, plan->shape.n}};
        int64_t total, smem, grid[3];
        qg_error err;
        qt_succeeded(qg_program_workspace(plan->program, &call, dev, &total, NULL, &err), &err);
        for (int i = 0; i < plan->program->op_count; i++) {
            const qg_op *op = &plan->program->ops[i];
            if (op->kind != QG_OP_LAUNCH) continue;
            qt_succeeded(qg_expr_eval(op->smem, &call, dev, &smem, &err), &err);
            for (int d = 0; d < 3; d++)
                qt_succeeded(qg_expr_eval(op->grid[d], &call, dev, &grid[d], &err), &err);
            bool fits = smem <= dev->smem_optin && op->cluster <= dev->max_cluster && op->block % 32 == 0 &&
                        grid[0] >= 0 && grid[0] <= INT32_MAX && grid[1] <= 65535 && grid[2] <= 65535 &&
                        grid[0] % op->cluster == 0;
            if (!fits)
                fail_msg("%s on %s: kernel %s, batch %" PRId64 ": %" PRId64
                         " bytes, cluster %d, block %d, grid %" PRId64,
                         plan->name, dev->name, op->kernel, batches[k], smem, op->cluster, op->block,
                         grid[0]);
        }
    }
}

static void default_plans_fit_every_device_at_every_batch(void **state) {
    (void)state;
    static const char *const profiles[] = {"a100", "rtx3090", "l40s", "h200", "b200", "rtx5090"};
    static const int64_t sizes[][2] = {{1, 1},     {3, 3},     {64, 64},     {200, 70}, {70, 200},
                                       {352, 352}, {512, 512}, {1024, 1024}, {5000, 40}};
    for (size_t p = 0; p < sizeof profiles / sizeof *profiles; p++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (int precision = 0; precision < 2; precision++) {
                qg_device dev;
                qg_plan *plan = NULL;
                qg_error err;
                qg_shape s = {.m = sizes[i][0],
                              .n = sizes[i][1],
                              .precision = (qg_precision)precision,
                              .max_batch = 640};
                qt_succeeded(qg_device_profile(profiles[p], &dev, &err), &err);
                qt_succeeded(qg_plan_make(lib, &s, &dev, NULL, &plan, &err), &err);
                launches_fit(plan, &dev);
                qg_plan_free(plan);
            }
}

static void products_say_how_trailing_updates_are_formed(void **state) {
    (void)state;
    static const qg_shape fp16 = {.m = 512, .n = 512, .precision = QG_FP16, .max_batch = 640};
    qg_plan *plan = made(&fp16, NULL, NULL);
    assert_string_equal(plan->products, "1");
    qg_plan_free(plan);
    plan = made(&square, "blocked", "{\"products\": \"fp32\"}");
    assert_string_equal(plan->products, "fp32");
    qg_plan_free(plan);
}

static void the_headers_that_sources_include_are_in_the_library(void **state) {
    (void)state;
    int count = 0;
    for (const char *name; (name = qg_library_header_name(lib, count)); count++) {
        size_t size = 0;
        const char *text = qg_library_header(lib, name, &size);
        assert_non_null(text);
        assert_int_equal(strlen(text), size);
    }
    assert_true(count > 5);
    assert_null(qg_library_header(lib, "device/none.cuh", NULL));
    assert_null(qg_library_header(lib, "families/blocked.lua", NULL));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_built_in_profile_is_read_and_has_a_target),
        cmocka_unit_test(architectures_have_their_compile_targets),
        cmocka_unit_test(an_unknown_profile_lists_those_there_are),
        cmocka_unit_test(a_profile_of_ones_own_is_read_strictly),
        cmocka_unit_test(nothing_asked_takes_the_default_and_says_so),
        cmocka_unit_test(few_rows_of_many_columns_are_blocked_in_fp32),
        cmocka_unit_test(a_forced_family_is_taken_and_says_so),
        cmocka_unit_test(a_default_fits_what_is_asked_for_beside_it),
        cmocka_unit_test(a_whole_float_is_the_list_s_integer),
        cmocka_unit_test(a_forced_family_that_cannot_refuses_in_its_own_words),
        cmocka_unit_test(requests_that_make_no_sense_are_refused),
        cmocka_unit_test(shapes_out_of_range_are_refused),
        cmocka_unit_test(families_in_trouble_leave_the_others_alone),
        cmocka_unit_test(every_family_of_ours_can_be_read),
        cmocka_unit_test(a_batch_invariant_plan_is_the_same_for_every_batch),
        cmocka_unit_test(a_plan_s_name_is_safe_as_a_file_s_and_its_content_s_own),
        cmocka_unit_test(default_plans_fit_every_device_at_every_batch),
        cmocka_unit_test(products_say_how_trailing_updates_are_formed),
        cmocka_unit_test(the_headers_that_sources_include_are_in_the_library),
    };
    return cmocka_run_group_tests(tests, open_library, close_library);
}
