/* The strict readers of shape sets and shapes on the command line: what is accepted means what the guide
 * says, and every refusal names the file, the place in it, what was found and what is allowed. */
#include "tests/lib/support.h"

#include "gen/config.h"
#include "tests/lib/templates.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static qg_status read_bytes(const char *data, size_t size, qg_config **out, qg_error *err) {
    char *folder = qt_tmpdir(), *path = qt_format("%s/set.json", folder);
    qt_write(path, data, size);
    qg_status status = qg_config_read(path, out, err);
    qt_remove_tree(folder);
    free(path);
    free(folder);
    return status;
}

/* The document around these members. */
static qg_status read_members(const char *members, qg_config **out, qg_error *err) {
    char *text = qt_format("{\"format\": \"qrsmith-config-1\", %s}", members);
    qg_status status = read_bytes(text, strlen(text), out, err);
    free(text);
    return status;
}

static qg_config *accepted(const char *members) {
    qg_config *c = NULL;
    qg_error err;
    qt_succeeded(read_members(members, &c, &err), &err);
    return c;
}

typedef struct refusal {
    const char *text, *where, *why;
} refusal;

static void refuses_members(const refusal *rows, size_t count) {
    for (size_t i = 0; i < count; i++) {
        qg_config *c = NULL;
        qg_error err = {0};
        qg_status status = read_members(rows[i].text, &c, &err);
        if (status == QG_OK) fail_msg("accepted: %s", rows[i].text);
        qt_refused(status, &err, QG_BAD_INPUT, "set.json", rows[i].where, rows[i].why, NULL);
    }
}
#define REFUSES(rows) refuses_members(rows, sizeof rows / sizeof *rows)

static void refuses_text(const char *text, size_t size, const char *where, const char *why) {
    qg_config *c = NULL;
    qg_error err = {0};
    qt_refused(read_bytes(text, size, &c, &err), &err, QG_BAD_INPUT, "set.json", where, why, NULL);
}

/* ---- what is read */

static void a_shape_has_the_documented_defaults(void **state) {
    (void)state;
    qg_config *c = accepted("\"shapes\": [{\"m\": 300}]");
    assert_int_equal(c->count, 1);
    const qg_shape *s = &c->entries[0].shape;
    assert_true(s->m == 300 && s->n == 300 && s->max_batch == 64 && !s->batch_invariant);
    assert_true(s->layout_in == QG_ROW && s->layout_out == QG_ROW && s->precision == QG_FP32);
    assert_int_equal(s->operation, QG_GEQRF);
    assert_null(c->entries[0].family);
    assert_null(c->entries[0].params);
    assert_string_equal(c->entries[0].where, "$.shapes[0]");
    qg_config_free(c);
}

static void defaults_hold_where_a_shape_says_nothing(void **state) {
    (void)state;
    qg_config *c =
        accepted("\"defaults\": {\"layout_out\": \"col\", \"max_batch\": 7, \"batch_invariant\": true, "
                 "\"precision\": \"fp16\"}, "
                 "\"shapes\": [{\"m\": 8}, {\"m\": 8, \"n\": 4, \"layout\": \"row\", \"max_batch\": 9, "
                 "\"batch_invariant\": false, \"precision\": \"fp32\"}]");
    const qg_shape *a = &c->entries[0].shape, *b = &c->entries[1].shape;
    assert_true(a->layout_in == QG_ROW && a->layout_out == QG_COL && a->max_batch == 7 && a->batch_invariant);
    assert_int_equal(a->precision, QG_FP16);
    assert_true(b->layout_in == QG_ROW && b->layout_out == QG_ROW && b->max_batch == 9 &&
                !b->batch_invariant);
    assert_true(b->precision == QG_FP32 && b->m == 8 && b->n == 4);
    qg_config_free(c);
}

static void a_list_of_precisions_is_a_plan_each(void **state) {
    (void)state;
    qg_config *c =
        accepted("\"defaults\": {\"precision\": [\"fp32\", \"fp16\"]}, \"shapes\": [{\"m\": 8}, {\"m\": 9}]");
    assert_int_equal(c->count, 4);
    assert_true(c->entries[0].shape.precision == QG_FP32 && c->entries[1].shape.precision == QG_FP16);
    assert_true(c->entries[1].shape.m == 8 && c->entries[2].shape.m == 9);
    qg_config_free(c);
}

static void a_forced_family_keeps_its_parameters(void **state) {
    (void)state;
    qg_config *c = accepted("\"shapes\": [{\"m\": 8, \"family\": \"blocked\", \"params\": {\"panel\": 16}}]");
    assert_string_equal(c->entries[0].family, "blocked");
    assert_int_equal(json_integer_value(json_object_get(c->entries[0].params, "panel")), 16);
    qg_config_free(c);
}

static void shapes_that_differ_in_one_thing_are_different(void **state) {
    (void)state;
    qg_config *c =
        accepted("\"shapes\": [{\"m\": 8}, {\"m\": 8, \"n\": 9}, {\"m\": 8, \"layout_in\": \"col\"}, "
                 "{\"m\": 8, \"layout_out\": \"col\"}, {\"m\": 8, \"max_batch\": 5}, {\"m\": 8, "
                 "\"precision\": \"fp16\"}, "
                 "{\"m\": 8, \"batch_invariant\": true}, {\"m\": 8, \"family\": \"pack\"}, "
                 "{\"m\": 8, \"family\": \"pack\", \"params\": {\"lanes\": 8}}, "
                 "{\"m\": 8, \"family\": \"pack\", \"params\": {\"lanes\": 16}}]");
    assert_int_equal(c->count, 10);
    qg_config_free(c);
}

static void every_config_that_comes_with_qrsmith_is_read(void **state) {
    (void)state;
    static const char *const paths[] = {"configs/contest.json", "configs/example.json",
                                        "configs/optimizers.json", "configs/small.json"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        qg_config *c = NULL;
        qg_error err;
        qt_succeeded(qg_config_read(paths[i], &c, &err), &err);
        assert_true(c->count > 0);
        qg_config_free(c);
    }
}

static void the_extremes_of_every_range_are_accepted(void **state) {
    (void)state;
    qg_config *c = accepted("\"about\": \"\", \"shapes\": [{\"m\": 1, \"n\": 1048576, \"max_batch\": 1}, "
                            "{\"m\": 1048576, \"n\": 1, \"max_batch\": 2147483647}]");
    assert_true(c->entries[0].shape.n == QG_MAX_DIM && c->entries[1].shape.max_batch == INT32_MAX);
    qg_config_free(c);
}

/* ---- what is refused */

static void unknown_keys_are_refused_with_those_allowed(void **state) {
    (void)state;
    static const refusal rows[] = {
        {"\"shape\": []", "$: unknown key \"shape\"", "allowed keys: format, about, defaults, shapes"},
        {"\"defaults\": {\"m\": 3}, \"shapes\": [{\"m\": 8}]", "$.defaults: unknown key \"m\"",
         "precision, layout"},
        {"\"shapes\": [{\"m\": 8}, {\"rows\": 8}]", "$.shapes[1]: unknown key \"rows\"",
         "allowed keys: m, n,"},
        {"\"shapes\": [{\"m\": 8, \"M\": 8}]", "$.shapes[0]", "unknown key \"M\""},
        {"\"shapes\": [{\"m\": 8, \"\": 8}]", "$.shapes[0]", "unknown key \"\""},
    };
    REFUSES(rows);
}

static void wrong_types_say_what_was_found(void **state) {
    (void)state;
    static const refusal rows[] = {
        {"\"shapes\": {}", "$.shapes", "found an object (a list)"},
        {"\"shapes\": \"all\"", "$.shapes", "found the string \"all\""},
        {"\"shapes\": [8]", "$.shapes[0]", "found the integer 8"},
        {"\"shapes\": [null]", "$.shapes[0]", "found null"},
        {"\"shapes\": [[]]", "$.shapes[0]", "found a list of 0"},
        {"\"shapes\": [{\"m\": \"8\"}]", "$.shapes[0].m", "found the string \"8\""},
        {"\"shapes\": [{\"m\": 8.0}]", "$.shapes[0].m", "found the number 8.0"},
        {"\"shapes\": [{\"m\": true}]", "$.shapes[0].m", "found true"},
        {"\"shapes\": [{\"m\": null}]", "$.shapes[0].m", "found null"},
        {"\"shapes\": [{\"m\": 8, \"batch_invariant\": 1}]", "$.shapes[0].batch_invariant", "true or false"},
        {"\"shapes\": [{\"m\": 8, \"layout\": 0}]", "$.shapes[0].layout", "found the integer 0"},
        {"\"shapes\": [{\"m\": 8, \"family\": 0}]", "$.shapes[0].family", "found the integer 0"},
        {"\"shapes\": [{\"m\": 8, \"family\": \"pack\", \"params\": []}]", "$.shapes[0].params",
         "not an object"},
        {"\"shapes\": [{\"m\": 8, \"precision\": 32}]", "$.shapes[0].precision", "found the integer 32"},
        {"\"shapes\": [{\"m\": 8, \"precision\": [32]}]", "$.shapes[0].precision", "found the integer 32"},
        {"\"defaults\": [], \"shapes\": [{\"m\": 8}]", "$.defaults", "found a list of 0"},
        {"\"defaults\": {\"precision\": true}, \"shapes\": [{\"m\": 8, \"precision\": \"fp32\"}]",
         "$.defaults.precision", "found true"},
    };
    REFUSES(rows);
}

static void values_out_of_range_say_the_range(void **state) {
    (void)state;
    static const refusal rows[] = {
        {"\"shapes\": [{\"m\": 0}]", "$.shapes[0].m: found the integer 0", "from 1 to 1048576"},
        {"\"shapes\": [{\"m\": -5}]", "$.shapes[0].m", "found the integer -5"},
        {"\"shapes\": [{\"m\": 1048577}]", "$.shapes[0].m", "from 1 to 1048576"},
        {"\"shapes\": [{\"m\": 8, \"n\": 0}]", "$.shapes[0].n", "from 1 to 1048576"},
        {"\"shapes\": [{\"m\": 8, \"max_batch\": 0}]", "$.shapes[0].max_batch", "from 1 to 2147483647"},
        {"\"shapes\": [{\"m\": 8, \"max_batch\": 2147483648}]", "$.shapes[0].max_batch",
         "from 1 to 2147483647"},
        {"\"shapes\": [{\"m\": 9223372036854775808}]", "set.json:1", "too big"},
        {"\"shapes\": [{\"m\": 8, \"layout\": \"rows\"}]", "$.shapes[0].layout: found \"rows\"",
         "\"row\" or \"col\""},
        {"\"shapes\": [{\"m\": 8, \"precision\": \"fp64\"}]",
         "$.shapes[0].precision: found the string \"fp64\"", "\"fp32\", \"fp16\" or a list of both"},
        {"\"shapes\": [{\"m\": 8, \"layout_out\": \"Row\"}]", "$.shapes[0].layout_out", "found \"Row\""},
    };
    REFUSES(rows);
}

static void what_is_missing_or_empty_is_named(void **state) {
    (void)state;
    static const refusal rows[] = {
        {"\"about\": \"\"", "$", "the key \"shapes\" is missing"},
        {"\"shapes\": []", "$.shapes", "an empty list"},
        {"\"shapes\": [{}]", "$.shapes[0]", "the key \"m\" is missing"},
        {"\"shapes\": [{\"n\": 8}]", "$.shapes[0]", "the key \"m\" is missing"},
        {"\"shapes\": [{\"m\": 8, \"precision\": []}]", "$.shapes[0].precision", "an empty list"},
        {"\"defaults\": {\"precision\": []}, \"shapes\": [{\"m\": 8}]", "$.defaults.precision",
         "an empty list"},
        {"\"shapes\": [{\"m\": 8, \"params\": {}}]", "$.shapes[0].params", "parameters without a family"},
    };
    REFUSES(rows);
}

static void the_same_shape_twice_is_refused_with_both_places(void **state) {
    (void)state;
    static const refusal rows[] = {
        {"\"shapes\": [{\"m\": 8}, {\"m\": 9}, {\"m\": 8, \"n\": 8}]", "$.shapes[2]",
         "the same shape as $.shapes[0]"},
        {"\"shapes\": [{\"m\": 8, \"precision\": [\"fp32\", \"fp32\"]}]", "$.shapes[0]",
         "the same shape as $.shapes[0]"},
        {"\"shapes\": [{\"m\": 8, \"precision\": [\"fp16\", \"fp32\"]}, {\"m\": 8}]", "$.shapes[1]",
         "the same shape as $.shapes[0]"},
        {"\"shapes\": [{\"m\": 8, \"family\": \"pack\", \"params\": {\"lanes\": 8, \"matrices\": 4}}, "
         "{\"m\": 8, \"family\": \"pack\", \"params\": {\"matrices\": 4, \"lanes\": 8}}]",
         "$.shapes[1]", "the same shape as $.shapes[0]"},
    };
    REFUSES(rows);
}

static void a_document_of_another_format_is_refused(void **state) {
    (void)state;
    refuses_text("{\"format\": \"qrsmith-config-2\", \"shapes\": [{\"m\": 8}]}", 52,
                 "$.format: found \"qrsmith-config-2\"", "qrsmith-config-1");
    refuses_text("{\"format\": \"qrsmith-suite-1\"}", 29, "$.format", "qrsmith-suite-1");
    refuses_text("{\"shapes\": [{\"m\": 8}]}", 22, "$", "\"format\" is missing");
    refuses_text("[]", 2, "$", "found a list of 0");
    refuses_text("7", 1, "set.json:1", "'[' or '{' expected");
}

static void text_that_is_no_json_is_refused_by_line(void **state) {
    (void)state;
    static const struct {
        const char *text, *where, *why;
    } rows[] = {
        {"", "set.json:1", "'[' or '{' expected near end of file"},
        {"{\n\"format\": \"qrsmith-config-1\",\n\"shapes\": [{\"m\": 8},]\n}", "set.json:3",
         "unexpected token"},
        {"{\"format\": \"a\"\n\"shapes\": []}", "set.json:2", "'}' expected"},
        {"{\"format\": \"a", "set.json:1", "premature end of input"},
        {"{} {}", "set.json:1", "end of file expected"},
        {"{\"m\": 1,\n \"m\": 2}", "set.json:2", "duplicate object key"},
        {"{\"m\": 08}", "set.json:1", "invalid token"},
        {"{\"m\": NaN}", "set.json:1", "invalid token"},
        {"{\"m\": 1e999}", "set.json:1", "overflow"},
        {"// comment\n{}", "set.json:1", "expected near '/'"},
        {"{\"m\": \"a\tb\"}", "set.json:1", "control character"},
        {"{\"m\": \"\\u0000\"}", "set.json:1", "\\u0000 is not allowed"},
        {"{\"m\": \"\\ud800\"}", "set.json:1", "invalid Unicode"},
        {"{\"m\": \"\xff\"}", "set.json:1", "unable to decode byte 0xff"},
        {"{\"m\": \"\xc0\xaf\"}", "set.json:1", "unable to decode byte 0xc0"},
        {"{\"m\": \"\xed\xa0\x80\"}", "set.json:1", "unable to decode byte 0xed"},
        {"\xef\xbb\xbf{}", "set.json:1", "'[' or '{' expected"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        refuses_text(rows[i].text, strlen(rows[i].text), rows[i].where, rows[i].why);
    refuses_text("{\"m\": \"a\0b\"}", 12, "set.json:1", "control character");
}

static void deep_nesting_is_refused(void **state) {
    (void)state;
    enum { DEEP = 1 << 20 };
    char *text = malloc(DEEP);
    assert_non_null(text);
    memset(text, '[', DEEP);
    refuses_text(text, DEEP, "set.json:1", "maximum parsing depth");
    free(text);
}

static void too_many_shapes_are_refused(void **state) {
    (void)state;
    char *text = malloc(200000), *at = text;
    assert_non_null(text);
    at += sprintf(at, "\"shapes\": [");
    for (int i = 0; i < 4097; i++)
        at += sprintf(at, "%s{\"m\": %d}", i ? "," : "", i + 1);
    strcpy(at, "]");
    const refusal rows[] = {{text, "$.shapes[4096]", "more than 4096 shapes"}};
    REFUSES(rows);
    free(text);
}

static void files_that_cannot_be_read_are_named(void **state) {
    (void)state;
    qg_config *c = NULL;
    qg_error err = {0};
    qt_refused(qg_config_read("/nowhere/set.json", &c, &err), &err, QG_BAD_INPUT, "/nowhere/set.json",
               "No such file", NULL);
    qt_refused(qg_config_read("configs", &c, &err), &err, QG_BAD_INPUT, "configs", "it is a folder", NULL);
    qt_refused(qg_config_read("/dev/zero", &c, &err), &err, QG_BAD_INPUT, "/dev/zero", "larger than", NULL);
}

static void an_error_of_a_huge_name_is_cut_not_overrun(void **state) {
    (void)state;
    char *name = malloc(100001), *text;
    memset(name, 'k', 100000);
    name[100000] = 0;
    text = qt_format("\"shapes\": [{\"m\": 8, \"%s\": 1}]", name);
    const refusal unknown[] = {{text, "$.shapes[0]", "unknown key \"kkkk"}};
    REFUSES(unknown);
    free(text);
    text = qt_format("\"shapes\": [{\"m\": 8, \"layout\": \"%s\"}]", name);
    const refusal layout[] = {{text, "$.shapes[0].layout", "found \"kkkk"}};
    REFUSES(layout);
    free(text);
    free(name);
}

/* ---- a shape in one word */

static void a_shape_s_word_gives_batch_rows_columns_and_precision(void **state) {
    (void)state;
    qg_shape s;
    int64_t batch;
    qg_error err;
    qt_succeeded(qg_shape_parse("640x512x256:fp16", &s, &batch, &err), &err);
    assert_true(batch == 640 && s.max_batch == 640 && s.m == 512 && s.n == 256 && s.precision == QG_FP16);
    qt_succeeded(qg_shape_parse("0x0x1048576", &s, &batch, &err), &err);
    assert_true(batch == 0 && s.max_batch == 1 && s.m == 0 && s.n == QG_MAX_DIM && s.precision == QG_FP32);
    qg_config *c = NULL;
    qt_succeeded(qg_config_from_shapes(&(const char *){"3x5x7:fp32"}, 1, &c, &err), &err);
    assert_true(c->count == 1 && c->entries[0].shape.max_batch == 3 && c->entries[0].shape.n == 7);
    qg_config_free(c);
}

static void words_that_are_no_shape_are_refused_with_the_form(void **state) {
    (void)state;
    static const struct {
        const char *text, *why;
    } rows[] = {
        {"", "batch: expected a number"},
        {"512", "after batch: expected 'x'"},
        {"512x512", "after rows: expected 'x'"},
        {"1x2x", "columns: expected a number"},
        {"1x2x3x4", "after columns: unexpected 'x4'"},
        {"1x2x3:", "precision '' is not known"},
        {"1x2x3:fp64", "precision 'fp64' is not known"},
        {"1x2x3:fp32 ", "precision 'fp32 ' is not known"},
        {" 1x2x3", "batch: expected a number"},
        {"-1x2x3", "batch: expected a number"},
        {"1x+2x3", "rows: expected a number"},
        {"1x2.5x3", "after rows: expected 'x'"},
        {"0x1x2", NULL},
        {"2147483647x1x2", NULL},
        {"2147483648x1x2", "2147483648 is too large"},
        {"1x1048577x1", "1048577 is too large"},
        {"1x1x1048577", "1048577 is too large"},
        {"9999999999999999x1x1", "batch: expected a number"},
        {"1X2X3", "after batch: expected 'x'"},
        {"1x2x3\n", "after columns: unexpected"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        qg_shape s;
        int64_t batch;
        qg_error err = {0};
        qg_status status = qg_shape_parse(rows[i].text, &s, &batch, &err);
        if (rows[i].why)
            qt_refused(status, &err, QG_BAD_INPUT, "shape '", rows[i].why, NULL);
        else
            qt_succeeded(status, &err);
    }
}

static void a_shape_s_name_says_all_that_is_baked_in(void **state) {
    (void)state;
    char name[96];
    qg_shape s = {.m = 512, .n = 256, .layout_out = QG_COL, .precision = QG_FP16, .max_batch = 640};
    assert_string_equal(qg_shape_name(&s, name, sizeof name), "geqrf_512x256_row_col_fp16");
    s.operation = QG_VERIFY;
    assert_string_equal(qg_shape_name(&s, name, sizeof name), "verify_512x256_row_col_fp16");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_shape_has_the_documented_defaults),
        cmocka_unit_test(defaults_hold_where_a_shape_says_nothing),
        cmocka_unit_test(a_list_of_precisions_is_a_plan_each),
        cmocka_unit_test(a_forced_family_keeps_its_parameters),
        cmocka_unit_test(shapes_that_differ_in_one_thing_are_different),
        cmocka_unit_test(every_config_that_comes_with_qrsmith_is_read),
        cmocka_unit_test(the_extremes_of_every_range_are_accepted),
        cmocka_unit_test(unknown_keys_are_refused_with_those_allowed),
        cmocka_unit_test(wrong_types_say_what_was_found),
        cmocka_unit_test(values_out_of_range_say_the_range),
        cmocka_unit_test(what_is_missing_or_empty_is_named),
        cmocka_unit_test(the_same_shape_twice_is_refused_with_both_places),
        cmocka_unit_test(a_document_of_another_format_is_refused),
        cmocka_unit_test(text_that_is_no_json_is_refused_by_line),
        cmocka_unit_test(deep_nesting_is_refused),
        cmocka_unit_test(too_many_shapes_are_refused),
        cmocka_unit_test(files_that_cannot_be_read_are_named),
        cmocka_unit_test(an_error_of_a_huge_name_is_cut_not_overrun),
        cmocka_unit_test(a_shape_s_word_gives_batch_rows_columns_and_precision),
        cmocka_unit_test(words_that_are_no_shape_are_refused_with_the_form),
        cmocka_unit_test(a_shape_s_name_says_all_that_is_baked_in),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
