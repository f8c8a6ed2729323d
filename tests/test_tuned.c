/* Tuned tables: which entry serves which shape and device, in which order tables count, and that a table from
 * another GPU, another time or a damaged disk costs its bad entries only. */
#include "tests/lib/support.h"

#include "tests/lib/templates.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A library of two families with a parameter, "plain" (chosen by default) and "tuned". */
typedef struct fixture {
    qt_templates templates;
    qg_library *lib;
    char *table;
} fixture;

static const char chunk[] =
    "f.params = { { name = 'width', values = { 1, 2, 4, 8 }, doc = '', default = function() return 1 end }, "
    "{ name = 'mode', values = { 'a', 'b' }, doc = '', default = function() return 'a' end } } "
    "f.legal = function(shape, device, p) "
    "  if p.width == 8 and shape.n < 100 then return false, 'too wide' end return true end "
    "f.rank = function() return f.name == 'plain' and 2 or 1 end";

static int open_templates(void **state) {
    fixture *f = calloc(1, sizeof *f);
    char *plain = qt_family_text("plain", chunk, "${p.width}"),
         *tuned = qt_family_text("tuned", chunk, "${p.width}");
    qt_templates_open(&f->templates,
                      (const char *const[]){"families/plain.lua", plain, "families/tuned.lua", tuned, NULL});
    f->table = qt_format("%s/tuned.json", f->templates.folder);
    free(plain);
    free(tuned);
    unsetenv("QRSMITH_TUNED");
    setenv("XDG_CONFIG_HOME", f->templates.folder, 1);
    *state = f;
    return 0;
}

static int close_templates(void **state) {
    fixture *f = *state;
    qg_library_close(f->lib);
    qt_templates_close(&f->templates);
    free(f->table);
    free(f);
    return 0;
}

static void reopen(fixture *f, const char *tuned) {
    qg_error err;
    qg_library_close(f->lib);
    f->lib = NULL;
    qg_library_options options = {.templates = f->templates.folder, .tuned = tuned};
    qt_succeeded(qg_library_open(&options, &f->lib, &err), &err);
}

/* The library with a table of these entries (a JSON list's inside). */
static void use(fixture *f, const char *entries) {
    char *text = qt_format("{\"format\": \"qrsmith-tuned-1\", \"entries\": [%s]}", entries);
    qt_write_text(f->table, text);
    free(text);
    reopen(f, f->table);
}

#define ENTRY(m, n, batch, arch, sms, family, params)                                                        \
    "{\"shape\": {\"m\": " #m ", \"n\": " #n ", \"precision\": \"fp32\", \"layout_in\": \"row\", "           \
    "\"layout_out\": \"row\", \"batch\": " #batch "}, \"device\": {\"arch\": " #arch ", \"sms\": " #sms      \
    "}, \"family\": \"" family "\", \"params\": " params ", \"provenance\": {\"date\": \"2026-11-01\"}}"
#define GOOD ENTRY(64, 64, 10, 90, 132, "tuned", "{\"width\": 4}")

typedef struct asked {
    int64_t m, n, batch;
    qg_precision precision;
    qg_layout layout;
    const char *device; /* NULL: h200 */
    bool invariant;
} asked;

/* "GRADE FAMILY WIDTH" of the plan for a shape. Caller frees. */
static char *chosen(const fixture *f, asked a) {
    qg_device device;
    qg_plan *plan = NULL;
    qg_error err;
    qg_shape shape = {.m = a.m,
                      .n = a.n,
                      .max_batch = a.batch,
                      .precision = a.precision,
                      .layout_in = a.layout,
                      .layout_out = a.layout,
                      .batch_invariant = a.invariant};
    qt_succeeded(qg_device_profile(a.device ? a.device : "h200", &device, &err), &err);
    qt_succeeded(qg_plan_make(f->lib, &shape, &device, NULL, &plan, &err), &err);
    char *text = qt_format("%s %s %d", qg_grade_name(plan->grade), plan->family,
                           (int)json_integer_value(json_object_get(plan->params, "width")));
    qg_plan_free(plan);
    return text;
}

#define chooses(f, text, rows, columns, batches, ...)                                                        \
    do {                                                                                                     \
        char *found = chosen(f, (asked){.m = rows, .n = columns, .batch = batches, __VA_ARGS__});            \
        assert_string_equal(found, text);                                                                    \
        free(found);                                                                                         \
    } while (0)

/* ---- which entry */

static void without_a_table_the_default_is_taken(void **state) {
    fixture *f = *state;
    use(f, "");
    chooses(f, "default plain 1", 64, 64, 10);
    assert_null(qg_library_complaint(f->lib, 0));
}

static void the_same_shape_on_the_same_device_is_tuned(void **state) {
    fixture *f = *state;
    use(f, GOOD);
    chooses(f, "tuned tuned 4", 64, 64, 10);
}

static void parameters_that_an_entry_leaves_out_have_their_defaults(void **state) {
    fixture *f = *state;
    use(f, ENTRY(64, 64, 10, 90, 132, "tuned", "{\"mode\": \"b\"}"));
    chooses(f, "tuned tuned 1", 64, 64, 10);
}

static void a_near_size_is_served_and_says_so(void **state) {
    fixture *f = *state;
    use(f, GOOD);
    chooses(f, "nearest tuned 4", 70, 60, 10);
    chooses(f, "nearest tuned 4", 64, 65, 10);
}

static void a_far_size_is_not_served(void **state) {
    fixture *f = *state;
    use(f, GOOD);
    chooses(f, "default plain 1", 512, 512, 10);
    chooses(f, "default plain 1", 64, 3, 10);
}

static void the_nearest_of_several_counts(void **state) {
    fixture *f = *state;
    use(f, ENTRY(40, 40, 10, 90, 132, "tuned", "{\"width\": 1}") "," ENTRY(60, 60, 10, 90, 132, "tuned",
                                                                           "{\"width\": 2}") "," GOOD);
    chooses(f, "nearest tuned 2", 61, 60, 10);
    chooses(f, "tuned tuned 4", 64, 64, 10);
    chooses(f, "nearest tuned 1", 41, 41, 10);
}

static void the_batch_separates_entries_of_one_shape(void **state) {
    fixture *f = *state;
    use(f, ENTRY(64, 64, 1, 90, 132, "tuned", "{\"width\": 1}") "," ENTRY(64, 64, 1000, 90, 132, "tuned",
                                                                          "{\"width\": 2}"));
    chooses(f, "tuned tuned 1", 64, 64, 2);
    chooses(f, "tuned tuned 2", 64, 64, 640);
}

static void a_near_size_tuned_for_a_far_batch_is_no_guide(void **state) {
    fixture *f = *state;
    use(f, ENTRY(352, 352, 40, 90, 132, "tuned", "{\"width\": 2}"));
    chooses(f, "nearest tuned 2", 400, 400, 60);
    chooses(f, "default plain 1", 400, 400, 640);
}

static void a_far_batch_of_the_same_size_is_no_guide(void **state) {
    fixture *f = *state;
    use(f, ENTRY(32, 32, 20, 90, 132, "tuned", "{\"width\": 2}"));
    chooses(f, "tuned tuned 2", 32, 32, 20);
    chooses(f, "tuned tuned 2", 32, 32, 60);
    chooses(f, "default plain 1", 32, 32, 5000);
}

static void a_batch_invariant_plan_ignores_the_batch(void **state) {
    fixture *f = *state;
    use(f, ENTRY(64, 64, 1, 90, 132, "tuned", "{\"width\": 1}") "," ENTRY(64, 64, 1000, 90, 132, "tuned",
                                                                          "{\"width\": 2}"));
    chooses(f, "tuned tuned 1", 64, 64, 2, .invariant = true);
    chooses(f, "tuned tuned 1", 64, 64, 640, .invariant = true);
}

static void another_layout_is_near(void **state) {
    fixture *f = *state;
    use(f, GOOD);
    chooses(f, "nearest tuned 4", 64, 64, 10, .layout = QG_COL);
}

static void another_precision_is_not(void **state) {
    fixture *f = *state;
    use(f, GOOD);
    chooses(f, "default plain 1", 64, 64, 10, .precision = QG_FP16);
}

static void another_gpu_s_entries_serve_as_near_ones(void **state) {
    fixture *f = *state;
    use(f, GOOD);
    chooses(f, "nearest tuned 4", 64, 64, 10, .device = "a100");
    chooses(f, "nearest tuned 4", 64, 64, 10, .device = "b200");
    use(f, ENTRY(64, 64, 10, 90, 114, "tuned", "{\"width\": 2}"));
    chooses(f, "nearest tuned 2", 64, 64, 10);
    use(f, ENTRY(64, 64, 10, 80, 108, "tuned", "{\"width\": 1}") "," ENTRY(64, 64, 10, 90, 132, "tuned",
                                                                           "{\"width\": 2}"));
    chooses(f, "tuned tuned 2", 64, 64, 10);
    chooses(f, "tuned tuned 1", 64, 64, 10, .device = "a100");
}

static void an_entry_that_is_not_legal_here_is_passed_over(void **state) {
    fixture *f = *state;
    use(f, ENTRY(101, 101, 10, 90, 132, "tuned", "{\"width\": 8}") "," ENTRY(80, 80, 10, 90, 132, "tuned",
                                                                             "{\"width\": 2}"));
    chooses(f, "tuned tuned 8", 101, 101, 10);
    chooses(f, "nearest tuned 2", 99, 99, 10); /* 101 is nearer but too wide below 100 */
}

static void equal_entries_go_by_their_order(void **state) {
    fixture *f = *state;
    use(f, ENTRY(64, 64, 10, 90, 132, "tuned", "{\"width\": 2}") "," GOOD);
    chooses(f, "tuned tuned 2", 64, 64, 10);
}

/* ---- which table */

static void the_option_goes_before_the_variable_before_the_user_s_file(void **state) {
    fixture *f = *state;
    char *option = qt_format("%s/option.json", f->templates.folder),
         *variable = qt_format("%s/variable.json", f->templates.folder);
    static const char *const entries[] = {ENTRY(64, 64, 10, 90, 132, "tuned", "{\"width\": 1}"),
                                          ENTRY(64, 64, 10, 90, 132, "tuned", "{\"width\": 2}"), GOOD};
    char *user = qt_format("%s/qrsmith/tuned.json", f->templates.folder);
    char *folder = qt_format("%s/qrsmith", f->templates.folder);
    assert_int_equal(mkdir(folder, 0755), 0);
    const char *const paths[] = {option, variable, user};
    for (int i = 0; i < 3; i++) {
        char *text = qt_format("{\"format\": \"qrsmith-tuned-1\", \"entries\": [%s]}", entries[i]);
        qt_write_text(paths[i], text);
        free(text);
    }
    setenv("QRSMITH_TUNED", variable, 1);
    reopen(f, option);
    chooses(f, "tuned tuned 1", 64, 64, 10);
    reopen(f, NULL);
    chooses(f, "tuned tuned 2", 64, 64, 10);
    setenv("QRSMITH_TUNED", "", 1); /* empty counts as unset */
    reopen(f, NULL);
    chooses(f, "tuned tuned 4", 64, 64, 10);
    unsetenv("QRSMITH_TUNED");
    free(option);
    free(variable);
    free(user);
    free(folder);
}

static void a_named_table_that_is_not_there_is_refused(void **state) {
    fixture *f = *state;
    qg_error err;
    qg_library *lib = NULL;
    qg_library_options options = {.templates = f->templates.folder, .tuned = "/no/table.json"};
    qt_refused(qg_library_open(&options, &lib, &err), &err, QG_BAD_INPUT, "/no/table.json", "qrsmith-tuned-1",
               NULL);
}

/* ---- damage */

/* Of a table with this entry between two good ones, the good ones serve and one complaint names the other. */
static void costs_one_entry(fixture *f, const char *bad, const char *where, const char *why) {
    char *entries =
        qt_format("%s, %s, %s", GOOD, bad, ENTRY(100, 100, 10, 90, 132, "tuned", "{\"width\": 2}"));
    use(f, entries);
    free(entries);
    const char *complaint = qg_library_complaint(f->lib, 0);
    assert_non_null(complaint);
    qt_assert_contains(complaint, f->table);
    qt_assert_contains(complaint, where);
    qt_assert_contains(complaint, why);
    assert_null(qg_library_complaint(f->lib, 1));
    chooses(f, "tuned tuned 4", 64, 64, 10);
    chooses(f, "tuned tuned 2", 100, 100, 10);
}

static void a_bad_entry_is_named_once_and_the_rest_serves(void **state) {
    fixture *f = *state;
    costs_one_entry(f, "7", "$.entries[1]", "the integer 7");
    costs_one_entry(f, "{}", "$.entries[1]", "shape");
    costs_one_entry(f, ENTRY(-1, 64, 10, 90, 132, "tuned", "{}"), "$.entries[1].shape.m", "-1");
    costs_one_entry(f, ENTRY(64, 64, 0, 90, 132, "tuned", "{}"), "$.entries[1].shape.batch", "0");
    costs_one_entry(f, ENTRY(64, 64, 10, 90, "many", "tuned", "{}"), "$.entries[1].device.sms", "many");
    costs_one_entry(f, ENTRY(64, 64, 10, 90, 132, "tuned", "[]"), "$.entries[1]", "params");
    costs_one_entry(f, "{\"colour\": \"red\"}", "$.entries[1]", "colour");
}

static void an_entry_for_a_family_that_is_gone_is_named(void **state) {
    costs_one_entry(*state, ENTRY(64, 64, 10, 90, 132, "retired", "{}"), "$.entries[1]",
                    "no family \"retired\"");
}

static void an_entry_of_older_parameters_is_named(void **state) {
    costs_one_entry(*state, ENTRY(64, 64, 10, 90, 132, "tuned", "{\"width\": 3}"), "$.entries[1]", "width");
    costs_one_entry(*state, ENTRY(64, 64, 10, 90, 132, "tuned", "{\"speed\": 1}"), "$.entries[1]", "speed");
}

/* A table that is wrong as a whole: one complaint, and default plans. */
static void costs_the_table(fixture *f, const char *text, const char *why) {
    qt_write_text(f->table, text);
    reopen(f, f->table);
    assert_non_null(qg_library_complaint(f->lib, 0));
    qt_assert_contains(qg_library_complaint(f->lib, 0), why);
    assert_null(qg_library_complaint(f->lib, 1));
    chooses(f, "default plain 1", 64, 64, 10);
}

static void a_table_of_another_format_is_named_and_not_used(void **state) {
    costs_the_table(*state, "{\"format\": \"qrsmith-tuned-0\", \"entries\": [" GOOD "]}", "qrsmith-tuned-0");
    costs_the_table(*state, "[" GOOD "]", "a list of 1");
    costs_the_table(*state, "{\"format\": \"qrsmith-tuned-1\"}", "entries");
}

static void a_truncated_table_is_named_by_line_and_not_used(void **state) {
    costs_the_table(*state, "{\"format\": \"qrsmith-tuned-1\",\n \"entries\": [" GOOD, "tuned.json:2");
    costs_the_table(*state, "", "tuned.json:1");
    costs_the_table(*state, "\xff\xfe\x00", "tuned.json:1");
}

int main(void) {
#define t(name) cmocka_unit_test_setup_teardown(name, open_templates, close_templates)
    const struct CMUnitTest tests[] = {
        t(without_a_table_the_default_is_taken),
        t(the_same_shape_on_the_same_device_is_tuned),
        t(parameters_that_an_entry_leaves_out_have_their_defaults),
        t(a_near_size_is_served_and_says_so),
        t(a_far_size_is_not_served),
        t(the_nearest_of_several_counts),
        t(the_batch_separates_entries_of_one_shape),
        t(a_near_size_tuned_for_a_far_batch_is_no_guide),
        t(a_far_batch_of_the_same_size_is_no_guide),
        t(a_batch_invariant_plan_ignores_the_batch),
        t(another_layout_is_near),
        t(another_precision_is_not),
        t(another_gpu_s_entries_serve_as_near_ones),
        t(an_entry_that_is_not_legal_here_is_passed_over),
        t(equal_entries_go_by_their_order),
        t(the_option_goes_before_the_variable_before_the_user_s_file),
        t(a_named_table_that_is_not_there_is_refused),
        t(a_bad_entry_is_named_once_and_the_rest_serves),
        t(an_entry_for_a_family_that_is_gone_is_named),
        t(an_entry_of_older_parameters_is_named),
        t(a_table_of_another_format_is_named_and_not_used),
        t(a_truncated_table_is_named_by_line_and_not_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
