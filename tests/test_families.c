/* A kernel family is one file: a toy family in a test's folder (tests/cases/families/toy.lua) is listed,
 * chosen, parametrized, refused with its own words, run and judged, with nothing in C that knows of it. */
#include "tests/lib/support.h"

#include "tests/lib/hostrun.h"
#include "tests/lib/templates.h"
#include <stdlib.h>
#include <string.h>

#define FOLDER "tests/cases/families"

static qt_host host; /* its library sees the folder */

static int open_host(void **state) {
    qg_error err;
    (void)state;
    qt_host_open(&host);
    qg_library_close(host.lib);
    return qg_library_open(&(qg_library_options){.extra_families = FOLDER}, &host.lib, &err);
}

static int close_host(void **state) {
    (void)state;
    qt_host_close(&host);
    return 0;
}

static qg_status make(int64_t m, int64_t n, const char *family, const char *params, qg_plan **out,
                      qg_error *err) {
    qg_shape shape = {.m = m, .n = n, .max_batch = 4};
    json_t *forced = params ? json_loads(params, 0, NULL) : NULL;
    qg_request request = {family, forced};
    qg_status status = qg_plan_make(host.lib, &shape, &host.device, &request, out, err);
    json_decref(forced);
    return status;
}

static qg_plan *made(int64_t m, int64_t n, const char *family, const char *params) {
    qg_plan *plan = NULL;
    qg_error err;
    qt_succeeded(make(m, n, family, params, &plan, &err), &err);
    return plan;
}

/* The refusal says each of the texts, which end with NULL. */
#define refuses(want, m, n, family, params, ...)                                                             \
    do {                                                                                                     \
        qg_error err = {0};                                                                                  \
        qg_plan *plan = NULL;                                                                                \
        qg_status status = make(m, n, family, params, &plan, &err);                                          \
        qg_plan_free(plan);                                                                                  \
        qt_refused(status, &err, want, __VA_ARGS__, NULL);                                                   \
    } while (0)

static json_t *listed(const char *name) {
    json_t *families = qg_library_families(host.lib), *family, *found = NULL;
    size_t i;
    json_array_foreach(families, i, family) if (strcmp(json_string_value(json_object_get(family, "name")),
                                                       name) == 0) found = json_incref(family);
    json_decref(families);
    return found;
}

/* ---- a file in a folder */

static void a_family_is_listed_with_its_parameters(void **state) {
    (void)state;
    json_t *family = listed("toy");
    json_t *expected = json_loads(
        "{\"name\": \"toy\", \"op\": \"geqrf\", \"summary\": \"a test's family: one block a matrix, column "
        "by "
        "column\", \"params\": [{\"name\": \"threads\", \"values\": [32, 64], \"doc\": \"threads a block\"}, "
        "{\"name\": \"note\", \"values\": [\"plain\", \"shouted\"], \"doc\": \"a comment in the source\"}]}",
        0, NULL);
    assert_true(json_equal(family, expected));
    json_decref(expected);
    json_decref(family);
}

static void without_the_folder_there_is_no_such_family(void **state) {
    (void)state;
    qg_library *lib;
    qg_error err;
    qg_plan *plan = NULL;
    qg_shape shape = {.m = 8, .n = 8, .max_batch = 1};
    qt_succeeded(qg_library_open(NULL, &lib, &err), &err);
    qg_status status = qg_plan_make(lib, &shape, &host.device, &(qg_request){.family = "toy"}, &plan, &err);
    qt_refused(status, &err, QG_BAD_INPUT, "no family \"toy\"", "qrsmith families", NULL);
    qg_library_close(lib);
}

static void a_forced_family_factors_every_layout(void **state) {
    (void)state;
    for (int layouts = 0; layouts < 4; layouts++) {
        qg_shape shape = {
            .m = 20, .n = 13, .layout_in = layouts & 1, .layout_out = layouts >> 1, .max_batch = 3};
        qg_plan *plan = qt_plan(&host, &shape, "toy", NULL, NULL);
        assert_non_null(plan);
        qhx_module *module = qt_load(&host, plan);
        qt_batch *b = qt_batch_new(3, 20, 13, shape.layout_in, shape.layout_out, 2);
        for (int64_t i = 0; i < 3; i++) {
            qt_matrix a = qt_batch_a(b, i);
            for (int64_t r = 0; r < 20; r++)
                for (int64_t c = 0; c < 13; c++)
                    qt_set(&a, r, c, (float)((r * 31 + c * 17 + i * 5 + r * r * c) % 101) - 50.0f);
        }
        qt_run_orders(&host, module, b, "toy");
        qt_batch_padding_kept(b, "toy");
        for (int64_t i = 0; i < 3; i++) {
            qt_matrix a = qt_batch_a(b, i), h = qt_batch_h(b, i);
            double gates[4];
            qt_gates(&a, &h, qt_batch_tau(b, i), gates);
            assert_true(gates[0] < 8 && gates[1] < 16 && gates[3] == 1);
        }
        qt_batch_free(b);
        qhx_unload(module);
        qg_plan_free(plan);
    }
}

/* ---- choice */

static void a_family_of_low_rank_is_not_chosen_unasked(void **state) {
    (void)state;
    qg_plan *plan = made(16, 6, NULL, NULL); /* which the built-in tuned table is silent about */
    assert_string_not_equal(plan->family, "toy");
    assert_int_equal(plan->grade, QG_GRADE_DEFAULT);
    qg_plan_free(plan);
}

static void a_forced_family_is_graded_requested(void **state) {
    (void)state;
    qg_plan *plan = made(16, 16, "toy", NULL);
    assert_string_equal(plan->family, "toy");
    assert_int_equal(plan->grade, QG_GRADE_REQUESTED);
    assert_string_equal(plan->products, "fp32");
    assert_int_equal(json_integer_value(json_object_get(plan->resources, "smem")), 1024);
    qg_plan_free(plan);
}

static void highest_legal_rank_wins_and_ties_go_by_name(void **state) {
    (void)state;
    static const struct {
        const char *ranks[3]; /* of a, b, c */
        const char *b_legal, *chosen;
    } cases[] = {{{"1", "2", "1.5"}, "true", "b"},
                 {{"1", "2", "1.5"}, "false, 'not today'", "c"},
                 {{"3", "3", "3"}, "true", "a"},
                 {{"-5", "-4.5", "-6"}, "true", "b"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *texts[3];
        for (int k = 0; k < 3; k++) {
            char name[2] = {(char)('a' + k), 0};
            char *chunk = qt_format("f.rank = function() return %s end f.legal = function() return %s end",
                                    cases[i].ranks[k], k == 1 ? cases[i].b_legal : "true");
            texts[k] = qt_family_text(name, chunk, "");
            free(chunk);
        }
        qt_templates t;
        qt_templates_open(&t, (const char *const[]){"families/c.lua", texts[2], "families/a.lua", texts[0],
                                                    "families/b.lua", texts[1], NULL});
        qg_shape shape = {.m = 4, .n = 4, .max_batch = 1};
        qg_plan *plan = NULL;
        qg_error err;
        qt_succeeded(qg_plan_make(t.lib, &shape, &host.device, NULL, &plan, &err), &err);
        assert_string_equal(plan->family, cases[i].chosen);
        qg_plan_free(plan);
        qt_templates_close(&t);
        for (int k = 0; k < 3; k++)
            free(texts[k]);
    }
}

/* ---- parameters */

static void defaults_are_functions_of_the_shape(void **state) {
    (void)state;
    qg_plan *narrow = made(40, 32, "toy", NULL), *wide = made(40, 33, "toy", NULL);
    assert_int_equal(json_integer_value(json_object_get(narrow->params, "threads")), 32);
    assert_int_equal(json_integer_value(json_object_get(wide->params, "threads")), 64);
    assert_string_equal(json_string_value(json_object_get(wide->params, "note")), "plain");
    qg_plan_free(narrow);
    qg_plan_free(wide);
}

static void forced_parameters_may_be_partial(void **state) {
    (void)state;
    qg_plan *plan = made(8, 8, "toy", "{\"threads\": 64}");
    assert_int_equal(json_integer_value(json_object_get(plan->params, "threads")), 64);
    assert_string_equal(json_string_value(json_object_get(plan->params, "note")), "plain");
    qt_assert_contains(plan->source, "QRS_KERNEL(toy, 64, 1)");
    qg_plan_free(plan);
}

static void a_value_not_in_the_list_is_refused_with_the_list(void **state) {
    (void)state;
    refuses(QG_BAD_INPUT, 8, 8, "toy", "{\"threads\": 48}", "threads", "48", "[32, 64]");
    refuses(QG_BAD_INPUT, 8, 8, "toy", "{\"threads\": \"32\"}", "threads", "\"32\"", "[32, 64]");
    refuses(QG_BAD_INPUT, 8, 8, "toy", "{\"note\": null}", "note", "plain");
}

static void an_unknown_parameter_is_refused_by_name(void **state) {
    (void)state;
    refuses(QG_BAD_INPUT, 8, 8, "toy", "{\"warps\": 4}", "no parameter \"warps\"", "qrsmith families");
}

static void a_shape_it_cannot_take_is_refused_in_the_family_s_words(void **state) {
    (void)state;
    refuses(QG_UNSUPPORTED, 65, 8, "toy", NULL, "geqrf_65x8", "at most 64 rows and columns, not 65 x 8");
    refuses(QG_UNSUPPORTED, 8, 40, "toy", "{\"note\": \"shouted\"}", "shouts with 32 threads only");
}

static void more_shared_memory_than_the_device_has_is_refused_with_both_sizes(void **state) {
    (void)state;
    char *text = qt_family_text("greedy", "f.resources = function() return { smem = 300000 } end", "");
    qt_templates t;
    qt_templates_open(&t, (const char *const[]){"families/greedy.lua", text, NULL});
    qg_shape shape = {.m = 4, .n = 4, .max_batch = 1};
    for (int forced = 0; forced < 2; forced++) {
        qg_plan *plan = NULL;
        qg_error err = {0};
        qg_request request = {.family = forced ? "greedy" : NULL};
        qg_status status = qg_plan_make(t.lib, &shape, &host.device, &request, &plan, &err);
        qt_refused(status, &err, QG_UNSUPPORTED, "300000", "232448", NULL);
    }
    qt_templates_close(&t);
    free(text);
}

/* A family "launcher" whose one launch has these members, on a device. */
static void launch_refused(const char *device, const char *members, const char *a, const char *b) {
    char *chunk =
        qt_format("f.program = function() return { products = 'fp32', buffers = {}, ops = { { op = "
                  "'launch', kernel = 'k', grid = { 'batch', 1, 1 }, block = 32, cooperative = false, "
                  "args = {}, %s } } } end",
                  members);
    char *text = qt_family_text("launcher", chunk, "");
    qg_shape shape = {.m = 4, .n = 4, .max_batch = 1000};
    qg_plan *plan = NULL;
    qg_device dev;
    qg_error err = {0};
    qt_templates t;
    qt_templates_open(&t, (const char *const[]){"families/launcher.lua", text, NULL});
    qt_succeeded(qg_device_profile(device, &dev, &err), &err);
    qg_status status = qg_plan_make(t.lib, &shape, &dev, &(qg_request){.family = "launcher"}, &plan, &err);
    qt_refused(status, &err, QG_UNSUPPORTED, "kernel k", a, b, NULL);
    qt_templates_close(&t);
    free(text);
    free(chunk);
}

static void a_launch_that_the_device_cannot_hold_is_refused(void **state) {
    (void)state;
    launch_refused("a100", "cluster = 1, smem = 200000", "200000", "166912");
    launch_refused("h200", "cluster = 1, smem = 'batch * 1024'", "1024000", "232448");
    launch_refused("a100", "cluster = 2, smem = 0", "clusters of 2", "A100");
}

/* ---- names of plans */

static void plans_that_render_differently_have_different_names(void **state) {
    (void)state;
    qg_plan *a = made(16, 16, "toy", "{\"threads\": 32}"), *b = made(16, 16, "toy", "{\"threads\": 64}"),
            *c = made(16, 16, "toy", NULL);
    assert_string_not_equal(a->name, b->name);
    assert_string_equal(a->name, c->name);
    assert_null(strpbrk(a->name, "/\\ :*?\"<>|"));
    qg_plan_free(a);
    qg_plan_free(b);
    qg_plan_free(c);
}

/* ---- files that are no family */

static void broken(const char *file, const char *text, const char *where, const char *why) {
    char *good = qt_family_text("good", "", "");
    qt_templates t;
    qt_templates_open(&t, (const char *const[]){file, text, "families/good.lua", good, NULL});
    qg_shape shape = {.m = 4, .n = 4, .max_batch = 1};
    qg_plan *plan = NULL;
    qg_error err = {0};
    qt_refused(qg_library_check(t.lib, &err), &err, QG_BAD_INPUT, where, why, NULL);
    /* The others still serve. */
    qt_succeeded(qg_plan_make(t.lib, &shape, &host.device, NULL, &plan, &err), &err);
    assert_string_equal(plan->family, "good");
    json_t *families = qg_library_families(t.lib);
    assert_int_equal(json_array_size(families), 1);
    json_decref(families);
    qg_plan_free(plan);
    qt_templates_close(&t);
    free(good);
}

static void a_broken_family_is_named_and_the_others_serve(void **state) {
    (void)state;
    broken("families/x.lua", "return {", "families/x.lua", "--[==[ source");
    broken("families/x.lua", "return {\n--[==[ source\n]==]\n", "families/x.lua:2", "<eof>");
    broken("families/x.lua", "return 3\n--[==[ source\n]==]\n", "families/x.lua", "does not return a table");
    broken("families/x.lua", "return {}\n--[==[ source\n", "families/x.lua", "does not end");
    broken("families/x.lua", "return {}\n--[==[ source\n]==]\n", "families/x.lua", "no string \"name\"");
    broken("families/x.lua", "error('boom')\n--[==[ source\n]==]\n", "families/x.lua:1", "boom");
}

static void a_family_is_named_as_its_file(void **state) {
    (void)state;
    char *text = qt_family_text("other", "", "");
    broken("families/x.lua", text, "families/x.lua", "calls itself \"other\"");
    free(text);
}

static void parameters_without_values_or_default_are_refused(void **state) {
    (void)state;
    static const char *const chunks[][2] = {
        {"f.params = { { name = 'a', values = {}, doc = '', default = function() end } }", "empty"},
        {"f.params = { { name = 'a', values = { 1 }, doc = '' } }", "no function \"default\""},
        {"f.params = { { values = { 1 }, doc = '', default = function() end } }", "no string \"name\""},
        {"f.params = { 1 }", "params[1] is no table"}};
    for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++) {
        char *text = qt_family_text("x", chunks[i][0], "");
        broken("families/x.lua", text, "families/x.lua", chunks[i][1]);
        free(text);
    }
}

static void two_files_of_one_name_are_refused(void **state) {
    (void)state;
    qg_error err;
    qg_library *lib = NULL;
    char *folder = qt_tmpdir(), *path = qt_format("%s/blocked.lua", folder);
    qt_write_text(path, "return {}");
    qg_status status = qg_library_open(&(qg_library_options){.extra_families = folder}, &lib, &err);
    qt_refused(status, &err, QG_BAD_INPUT, "families/blocked.lua", NULL);
    free(path);
    qt_remove_tree(folder);
    free(folder);
}

static void a_folder_that_is_not_there_is_refused(void **state) {
    (void)state;
    qg_error err;
    qg_library *lib = NULL;
    qg_status status = qg_library_open(&(qg_library_options){.extra_families = "/no/such"}, &lib, &err);
    qt_refused(status, &err, QG_BAD_INPUT, "/no/such", NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_family_is_listed_with_its_parameters),
        cmocka_unit_test(without_the_folder_there_is_no_such_family),
        cmocka_unit_test(a_forced_family_factors_every_layout),
        cmocka_unit_test(a_family_of_low_rank_is_not_chosen_unasked),
        cmocka_unit_test(a_forced_family_is_graded_requested),
        cmocka_unit_test(highest_legal_rank_wins_and_ties_go_by_name),
        cmocka_unit_test(defaults_are_functions_of_the_shape),
        cmocka_unit_test(forced_parameters_may_be_partial),
        cmocka_unit_test(a_value_not_in_the_list_is_refused_with_the_list),
        cmocka_unit_test(an_unknown_parameter_is_refused_by_name),
        cmocka_unit_test(a_shape_it_cannot_take_is_refused_in_the_family_s_words),
        cmocka_unit_test(more_shared_memory_than_the_device_has_is_refused_with_both_sizes),
        cmocka_unit_test(a_launch_that_the_device_cannot_hold_is_refused),
        cmocka_unit_test(plans_that_render_differently_have_different_names),
        cmocka_unit_test(a_broken_family_is_named_and_the_others_serve),
        cmocka_unit_test(a_family_is_named_as_its_file),
        cmocka_unit_test(parameters_without_values_or_default_are_refused),
        cmocka_unit_test(two_files_of_one_name_are_refused),
        cmocka_unit_test(a_folder_that_is_not_there_is_refused),
    };
    return cmocka_run_group_tests(tests, open_host, close_host);
}
