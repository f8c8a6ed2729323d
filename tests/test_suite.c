/* The strict reader of suites (cases for check and bench): what a case's keys mean, and refusals by place. */
#include "tests/lib/support.h"

#include "gen/config.h"
#include "runtime/judge/inputs.h"
#include "tests/lib/templates.h"
#include <stdlib.h>
#include <string.h>

/* The document around these members. */
static qg_status read_members(const char *members, qg_suite **out, qg_error *err) {
    char *folder = qt_tmpdir(), *path = qt_format("%s/suite.json", folder),
         *text = qt_format("{\"format\": \"qrsmith-suite-1\", \"name\": \"toy\"%s%s}", *members ? ", " : "",
                           members);
    qt_write_text(path, text);
    qg_status status = qg_suite_read(path, out, err);
    qt_remove_tree(folder);
    free(text);
    free(path);
    free(folder);
    return status;
}

static qg_suite *accepted(const char *members) {
    qg_suite *s = NULL;
    qg_error err;
    qt_succeeded(read_members(members, &s, &err), &err);
    return s;
}

static void a_case_has_the_documented_defaults(void **state) {
    (void)state;
    qg_suite *s = accepted("\"tests\": [{\"batch\": 2, \"n\": 8, \"kind\": \"dense\"}, {\"batch\": 3, \"n\": "
                           "9, \"kind\": \"band\"}]");
    assert_true(s->test_count == 2 && s->benchmark_count == 0);
    assert_string_equal(s->name, "toy");
    const qg_case *c = &s->tests[1];
    assert_true(c->batch == 3 && c->m == 9 && c->n == 9 && c->cond == 0 && c->kind_value == 0 &&
                !c->has_precision);
    assert_true(c->seed == 1001 && c->layout_in == QG_ROW && c->layout_out == QG_ROW);
    assert_string_equal(c->kind, "band");
    qg_suite_free(s);
}

static void every_key_of_a_case_is_read(void **state) {
    (void)state;
    qg_suite *s = accepted("\"benchmarks\": [{\"batch\": 1, \"m\": 7, \"n\": 5, \"kind\": \"pairs\", "
                           "\"value\": 0.05, \"cond\": 2.5, "
                           "\"seed\": 9223372036854775807, \"precision\": \"fp16\", \"layout\": \"col\", "
                           "\"layout_out\": \"row\"}]");
    const qg_case *c = &s->benchmarks[0];
    assert_true(c->m == 7 && c->n == 5 && c->kind_value == 0.05 && c->cond == 2.5 && c->seed == INT64_MAX);
    assert_true(c->has_precision && c->precision == QG_FP16 && c->layout_in == QG_COL &&
                c->layout_out == QG_ROW);
    qg_suite_free(s);
}

static void the_reader_and_the_judge_know_the_same_kinds(void **state) {
    (void)state;
    for (int i = 0; qj_kind_at(i); i++) {
        const qj_kind *kind = qj_kind_at(i);
        char *members = qt_format("\"tests\": [{\"batch\": 1, \"n\": 8, \"kind\": \"%s\"%s}]", kind->name,
                                  kind->values[0] != 0 ? ", \"value\": 0.1" : "");
        qg_suite_free(accepted(members));
        free(members);
    }
}

static void every_suite_that_comes_with_qrsmith_is_read(void **state) {
    (void)state;
    qg_suite *s = NULL;
    qg_error err;
    qt_succeeded(qg_suite_read("configs/suites/contest.json", &s, &err), &err);
    assert_true(s->test_count == 22 && s->benchmark_count == 12);
    qg_suite_free(s);
    qt_succeeded(qg_suite_read("configs/suites/sizes.json", &s, &err), &err);
    assert_true(s->test_count == 0 && s->benchmark_count == 60);
    qg_suite_free(s);
    qt_succeeded(qg_suite_read("configs/suites/small.json", &s, &err), &err);
    assert_true(s->test_count > 0);
    qg_suite_free(s);
}

static void what_is_wrong_in_a_case_is_refused_by_place(void **state) {
    (void)state;
    static const struct {
        const char *members, *where, *why;
    } rows[] = {
        {"", "$", "neither tests nor benchmarks"},
        {"\"tests\": [], \"benchmarks\": []", "$", "neither tests nor benchmarks"},
        {"\"cases\": []", "$", "unknown key \"cases\""},
        {"\"tests\": {}", "$.tests", "found an object"},
        {"\"tests\": [7]", "$.tests[0]", "found the integer 7"},
        {"\"tests\": [{\"n\": 8, \"kind\": \"dense\"}]", "$.tests[0]", "\"batch\" is missing"},
        {"\"tests\": [{\"batch\": 1, \"kind\": \"dense\"}]", "$.tests[0]", "\"n\" is missing"},
        {"\"tests\": [{\"batch\": 1, \"n\": 8}]", "$.tests[0]", "\"kind\" is missing"},
        {"\"tests\": [{\"batch\": 0, \"n\": 8, \"kind\": \"dense\"}]", "$.tests[0].batch", "from 1 to"},
        {"\"tests\": [{\"batch\": 1, \"n\": 0, \"kind\": \"dense\"}]", "$.tests[0].n", "from 1 to 1048576"},
        {"\"tests\": [{\"batch\": 1, \"n\": 8, \"m\": 1048577, \"kind\": \"dense\"}]", "$.tests[0].m",
         "from 1 to 1048576"},
        {"\"tests\": [{\"batch\": 1, \"n\": 8, \"kind\": \"sparse\"}]", "$.tests[0].kind: found \"sparse\"",
         "one of dense rankdef"},
        {"\"tests\": [{\"batch\": 1, \"n\": 8, \"kind\": \"dense\", \"value\": 1}]", "$.tests[0]",
         "takes no value"},
        {"\"tests\": [{\"batch\": 1, \"n\": 8, \"kind\": \"gram\"}]", "$.tests[0]", "\"value\" is missing"},
        {"\"tests\": [{\"batch\": 1, \"n\": 8, \"kind\": \"pairs\", \"value\": 0}]", "$.tests[0].value",
         "a number from 1e-06 to 10.0"},
        {"\"tests\": [{\"batch\": 1, \"n\": 8, \"kind\": \"dense\", \"cond\": -1}]", "$.tests[0].cond",
         "a number from 0.0 to 30.0"},
        {"\"tests\": [{\"batch\": 1, \"n\": 8, \"kind\": \"dense\", \"seed\": -1}]", "$.tests[0].seed",
         "found the integer -1"},
        {"\"tests\": [{\"batch\": 1, \"n\": 8, \"kind\": \"dense\", \"precision\": \"tf32\"}]",
         "$.tests[0].precision", "found \"tf32\""},
        {"\"tests\": [{\"batch\": 1, \"n\": 8, \"kind\": \"dense\", \"layout\": \"diagonal\"}]",
         "$.tests[0].layout", "found \"diagonal\""},
        {"\"benchmarks\": [{\"batch\": 1, \"n\": 8, \"kind\": \"dense\"}, {\"batch\": \"1\"}]",
         "$.benchmarks[1].batch", "found the string \"1\""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        qg_suite *s = NULL;
        qg_error err = {0};
        qt_refused(read_members(rows[i].members, &s, &err), &err, QG_BAD_INPUT, "suite.json", rows[i].where,
                   rows[i].why, NULL);
    }
}

static void a_shape_s_word_is_a_suite_of_one_dense_case(void **state) {
    (void)state;
    qg_suite *s = NULL;
    qg_error err;
    qt_succeeded(qg_suite_from_shapes(&(const char *){"4x6x5:fp16"}, 1, &s, &err), &err);
    assert_true(s->test_count == 1 && s->benchmark_count == 1 && s->tests[0].m == 6 &&
                s->tests[0].has_precision);
    qg_suite_free(s);
    qt_succeeded(qg_suite_from_shapes(&(const char *){"4x6x5"}, 1, &s, &err), &err);
    assert_false(s->tests[0].has_precision);
    qg_suite_free(s);
    qt_refused(qg_suite_from_shapes(&(const char *){"0x6x5"}, 1, &s, &err), &err, QG_BAD_INPUT, "--shape",
               "at least one matrix", NULL);
    qt_refused(qg_suite_from_shapes(&(const char *){"1x0x5"}, 1, &s, &err), &err, QG_BAD_INPUT, "--shape",
               "at least one matrix", NULL);
}

static void several_words_are_a_case_each_in_their_order(void **state) {
    (void)state;
    static const char *const words[] = {"4x6x5", "2x3x3:fp16", "4x6x5"};
    qg_suite *s = NULL;
    qg_error err;
    qt_succeeded(qg_suite_from_shapes(words, 3, &s, &err), &err);
    assert_true(s->test_count == 3 && s->benchmark_count == 3);
    assert_true(s->benchmarks[0].batch == 4 && s->benchmarks[1].batch == 2 && s->benchmarks[1].has_precision);
    qg_suite_free(s);
}

static void lists_of_batches_and_sizes_are_a_case_a_pair(void **state) {
    (void)state;
    qg_suite *s =
        accepted("\"tests\": [{\"batch\": [1, 9], \"n\": [4, 5, 6], \"kind\": \"dense\"}, {\"batch\": 2, "
                 "\"n\": 7, \"kind\": \"dense\"}]");
    assert_int_equal(s->test_count, 7);
    assert_true(s->tests[0].batch == 1 && s->tests[0].m == 4 && s->tests[1].batch == 9 && s->tests[1].n == 4);
    assert_true(s->tests[5].batch == 9 && s->tests[5].n == 6 && s->tests[5].seed == 1005);
    assert_true(s->tests[6].batch == 2 && s->tests[6].seed == 1006);
    qg_suite_free(s);
    qg_error err;
    qt_refused(read_members("\"tests\": [{\"batch\": [], \"n\": 4, \"kind\": \"dense\"}]", &s, &err), &err,
               QG_BAD_INPUT, "$.tests[0]", "an empty list", NULL);
    qt_refused(read_members("\"tests\": [{\"batch\": [1, 0], \"n\": 4, \"kind\": \"dense\"}]", &s, &err),
               &err, QG_BAD_INPUT, "$.tests[0].batch", "0", NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(several_words_are_a_case_each_in_their_order),
        cmocka_unit_test(lists_of_batches_and_sizes_are_a_case_a_pair),
        cmocka_unit_test(a_case_has_the_documented_defaults),
        cmocka_unit_test(every_key_of_a_case_is_read),
        cmocka_unit_test(the_reader_and_the_judge_know_the_same_kinds),
        cmocka_unit_test(every_suite_that_comes_with_qrsmith_is_read),
        cmocka_unit_test(what_is_wrong_in_a_case_is_refused_by_place),
        cmocka_unit_test(a_shape_s_word_is_a_suite_of_one_dense_case),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
