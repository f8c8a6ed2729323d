/* Launch programs: the integer expressions, what the reader accepts and refuses, and workspace sizes. */
#include "tests/lib/support.h"

#include "gen/program.h"
#include "tests/lib/templates.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const qg_call call = {.scalar = {640, 33, 40, 1100, 1300, 35}};
static const qg_device device = {.arch = 90,
                                 .sms = 132,
                                 .smem_optin = 232448,
                                 .smem_sm = 233472,
                                 .regs = 65536,
                                 .l2 = 1 << 26,
                                 .max_cluster = 8};

/* ---- expressions */

static qg_status evaluate(const char *text, int64_t *out, bool *constant, qg_error *err) {
    json_t *value = json_string(text);
    qg_expr *e = NULL;
    qg_status s = qg_expr_compile(value, &e, "here", err);
    json_decref(value);
    if (s) return s;
    int64_t unused;
    *constant = qg_expr_constant(e, &unused);
    s = qg_expr_eval(e, &call, &device, out, err);
    qg_expr_free(e);
    return s;
}

typedef struct expression {
    const char *text;
    int64_t value;
} expression;

static void check_values(const expression *rows, size_t count) {
    for (size_t i = 0; i < count; i++) {
        int64_t got = 0;
        bool constant;
        qg_error err;
        if (evaluate(rows[i].text, &got, &constant, &err)) fail_msg("%s: %s", rows[i].text, err.why);
        if (got != rows[i].value)
            fail_msg("%s is %" PRId64 ", not %" PRId64, rows[i].text, got, rows[i].value);
    }
}
#define CHECK_VALUES(rows) check_values(rows, sizeof rows / sizeof *rows)

static void products_bind_tighter_than_sums_and_both_go_left_to_right(void **state) {
    (void)state;
    static const expression rows[] = {
        {"1 + 2 * 3", 7},
        {"(1 + 2) * 3", 9},
        {"10 - 4 - 3", 3},
        {"100 / 10 / 5", 2},
        {"2 * 3 / 4", 1},
        {"2 * (3 / 4)", 0},
        {"7 - 2 * 3 + 1", 2},
        {"-2 * 3", -6},
        {"--5", 5},
        {"2 - -3", 5},
        {" \t1\n+ 1 ", 2},
        {"((((7))))", 7},
        {"9223372036854775807", INT64_MAX},
        {"-9223372036854775807 - 1", INT64_MIN},
    };
    CHECK_VALUES(rows);
}

static void division_rounds_down_and_ceildiv_up(void **state) {
    (void)state;
    static const expression rows[] = {
        {"7 / 2", 3},
        {"-7 / 2", -4},
        {"7 / -2", -4},
        {"-7 / -2", 3},
        {"ceildiv(7, 2)", 4},
        {"ceildiv(8, 2)", 4},
        {"ceildiv(0, 8)", 0},
        {"ceildiv(-7, 2)", -3},
        {"ceildiv(7, -2)", -3},
        {"min(3, 5)", 3},
        {"max(3, 5)", 5},
        {"min(-1, max(2, 1))", -1},
        {"ceildiv(-9223372036854775807 - 1, 2)", INT64_MIN / 2},
    };
    CHECK_VALUES(rows);
}

static void names_are_the_call_s_and_the_device_s(void **state) {
    (void)state;
    static const expression rows[] = {
        {"batch", 640},
        {"lda", 33},
        {"ldh", 40},
        {"sms", 132},
        {"regs", 65536},
        {"l2", 1 << 26},
        {"max_cluster", 8},
        {"smem_optin", 232448},
        {"smem_sm", 233472},
        {"ceildiv(batch, 8) * 32", 2560},
        {"min(batch, sms * 2)", 264},
    };
    CHECK_VALUES(rows);
}

static void constants_are_known_before_any_call(void **state) {
    (void)state;
    int64_t value;
    bool constant;
    qg_error err;
    qt_succeeded(evaluate("3 * ceildiv(10, 4)", &value, &constant, &err), &err);
    assert_true(constant);
    qt_succeeded(evaluate("0 * sms", &value, &constant, &err), &err);
    assert_false(constant);
}

static void overflow_and_division_by_zero_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *why;
    } rows[] = {
        {"9223372036854775807 + 1", "overflow"},
        {"-9223372036854775807 - 2", "overflow"},
        {"4294967296 * 4294967296", "overflow"},
        {"batch * 9223372036854775807", "overflow"},
        {"-(-9223372036854775807 - 1)", "overflow"},
        {"(-9223372036854775807 - 1) / -1", "overflow"},
        {"ceildiv(-9223372036854775807 - 1, -1)", "overflow"},
        {"9223372036854775808", "does not fit 64 bits"},
        {"1 / 0", "division by zero"},
        {"ceildiv(1, 0)", "division by zero"},
        {"1 / (batch - 640)", "division by zero"},
        {"ceildiv(1, lda - 33)", "division by zero"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t value;
        bool constant;
        qg_error err = {0};
        qt_refused(evaluate(rows[i].text, &value, &constant, &err), &err, QG_BAD_INPUT, "here", rows[i].why,
                   NULL);
    }
}

static void what_is_no_expression_is_refused_where_it_goes_wrong(void **state) {
    (void)state;
    static const struct {
        const char *text, *why;
    } rows[] = {
        {"", "character 1: it ends too early"},
        {"1 +", "character 4: it ends too early"},
        {"1 2", "character 3: unexpected character"},
        {"(1", "expected ')'"},
        {"1)", "character 2: unexpected character"},
        {"rows", "character 1: unknown name"},
        {"batches", "unknown name"},
        {"stride_a", "unknown name"},
        {"memory", "unknown name"},
        {"min(1)", "expected ','"},
        {"min 1, 2", "expected '('"},
        {"max(1, 2, 3)", "expected ')'"},
        {"1.5", "character 2: unexpected character"},
        {"0x10", "unexpected character"},
        {"1e3", "unexpected character"},
        {"2 ** 3", "unexpected character"},
        {"7 % 2", "unexpected character"},
        {"batch; 1", "unexpected character"},
        {"\xc3\xa9", "unexpected character"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t value;
        bool constant;
        qg_error err = {0};
        qt_refused(evaluate(rows[i].text, &value, &constant, &err), &err, QG_BAD_INPUT, "here", rows[i].why,
                   NULL);
    }
}

static void long_and_deep_expressions_are_refused(void **state) {
    (void)state;
    static char text[100000];
    int64_t value;
    bool constant;
    qg_error err = {0};
    memset(text, '(', sizeof text - 1);
    qt_refused(evaluate(text, &value, &constant, &err), &err, QG_BAD_INPUT, "nested too deeply", NULL);
    memset(text, '-', sizeof text - 1);
    qt_refused(evaluate(text, &value, &constant, &err), &err, QG_BAD_INPUT, "nested too deeply", NULL);
    for (size_t i = 0; i < 1000; i++)
        memcpy(text + 2 * i, "1+", 2);
    memcpy(text + 2000, "1", 2);
    qt_refused(evaluate(text, &value, &constant, &err), &err, QG_BAD_INPUT, "too long", NULL);
}

static void numbers_may_stand_for_expressions_but_not_below_zero(void **state) {
    (void)state;
    qg_expr *e = NULL;
    qg_error err = {0};
    json_t *bad[] = {json_integer(-1), json_real(2.5), json_true(), json_null(), json_array()};
    json_t *good = json_integer(7);
    int64_t value = 0;
    qt_succeeded(qg_expr_compile(good, &e, "here", &err), &err);
    assert_true(qg_expr_constant(e, &value));
    assert_int_equal(value, 7);
    qg_expr_free(e);
    json_decref(good);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(qg_expr_compile(bad[i], &e, "here", &err), QG_BAD_INPUT);
        json_decref(bad[i]);
    }
    assert_int_equal(qg_expr_compile(NULL, &e, "here", &err), QG_BAD_INPUT);
}

/* ---- programs */

static qg_status parse(const char *text, qg_program **out, qg_error *err) {
    json_error_t e;
    json_t *root = json_loads(text, JSON_DECODE_ANY, &e);
    if (!root) fail_msg("the test's own JSON: %s in %s", e.text, text);
    qg_status s = qg_program_parse(root, "toy", out, err);
    json_decref(root);
    return s;
}

/* A whole program around one list of operations, with buffers V (batch * 100 bytes) and flags (256). */
static char *around(const char *ops) {
    return qt_format(
        "{\"format\": \"qrsmith-program-1\", \"buffers\": [{\"name\": \"V\", \"bytes\": \"batch * 100\"}, "
        "{\"name\": \"flags\", \"bytes\": 256}], \"ops\": [%s]}",
        ops);
}

/* A launch whose arguments are these. */
static char *launch(const char *args) {
    char *op =
             qt_format("{\"op\": \"launch\", \"kernel\": \"k\", \"grid\": [\"batch\", 2, 1], \"block\": 128, "
                       "\"cluster\": 1, \"smem\": \"16 * 4\", \"cooperative\": false, \"args\": [%s]}",
                       args),
         *all = around(op);
    free(op);
    return all;
}

static void every_kind_of_argument_is_read(void **state) {
    (void)state;
    char *text = launch("{\"i32\": \"sms + 1\"}, {\"i64\": 7}, {\"f32\": 0.5}, {\"call\": \"stride_tau\"}, "
                        "{\"pointer\": \"H\"}, "
                        "{\"workspace\": \"flags\"}, {\"workspace\": \"V\", \"offset\": \"batch * 4\"}, "
                        "{\"tensor_map\": {\"pointer\": \"A\", \"type\": \"f16\", \"dims\": [64, \"batch\"], "
                        "\"strides\": [128], "
                        "\"box\": [32, 8], \"swizzle\": 64}}");
    qg_program *p = NULL;
    qg_error err;
    qt_succeeded(parse(text, &p, &err), &err);
    free(text);
    const qg_op *op = &p->ops[0];
    int64_t value;
    assert_int_equal(op->kind, QG_OP_LAUNCH);
    assert_string_equal(op->kernel, "k");
    assert_int_equal(op->block, 128);
    assert_int_equal(op->arg_count, 8);
    qt_succeeded(qg_expr_eval(op->grid[0], &call, &device, &value, &err), &err);
    assert_int_equal(value, 640);
    qt_succeeded(qg_expr_eval(op->smem, &call, &device, &value, &err), &err);
    assert_int_equal(value, 64);
    assert_int_equal(op->args[0].kind, QG_ARG_I32);
    qt_succeeded(qg_expr_eval(op->args[0].expr, &call, &device, &value, &err), &err);
    assert_int_equal(value, 133);
    assert_int_equal(op->args[1].kind, QG_ARG_I64);
    assert_true(op->args[2].kind == QG_ARG_F32 && op->args[2].f32 == 0.5f);
    assert_true(op->args[3].kind == QG_ARG_CALL && op->args[3].scalar == QG_STRIDE_TAU);
    assert_true(op->args[4].kind == QG_ARG_POINTER && op->args[4].pointer == QG_PTR_H);
    assert_true(op->args[5].kind == QG_ARG_WORKSPACE && op->args[5].buffer == 1);
    assert_true(op->args[6].kind == QG_ARG_WORKSPACE && op->args[6].buffer == 0);
    qt_succeeded(qg_expr_eval(op->args[6].expr, &call, &device, &value, &err), &err);
    assert_int_equal(value, 2560);
    const qg_tensor_map *map = op->args[7].map;
    assert_true(map->rank == 2 && map->element_bytes == 2 && map->box[0] == 32 && map->box[1] == 8 &&
                map->swizzle == 64);
    qg_program_free(p);
}

static void a_clear_is_read(void **state) {
    (void)state;
    char *text = around("{\"op\": \"clear\", \"buffer\": \"flags\", \"bytes\": \"batch\"}");
    qg_program *p = NULL;
    qg_error err;
    int64_t value;
    qt_succeeded(parse(text, &p, &err), &err);
    free(text);
    assert_true(p->ops[0].kind == QG_OP_CLEAR && p->ops[0].buffer == 1);
    qt_succeeded(qg_expr_eval(p->ops[0].offset, &call, &device, &value, &err), &err);
    assert_int_equal(value, 0);
    qg_program_free(p);
}

static void refuse(char *text, const char *where, const char *why) {
    qg_program *p = NULL;
    qg_error err = {0};
    qt_refused(parse(text, &p, &err), &err, QG_BAD_INPUT, where, why, NULL);
    free(text);
}

static void arguments_of_two_kinds_none_or_another_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *arg, *why;
    } rows[] = {
        {"{\"i32\": 1, \"i64\": 1}", "not one kind of argument"},
        {"{\"pointer\": \"A\", \"workspace\": \"V\"}", "not one kind of argument"},
        {"{\"pointer\": \"A\", \"offset\": 4}", "not one kind of argument"},
        {"{}", "not one kind of argument"},
        {"{\"offset\": 4}", "not one kind of argument"},
        {"{\"u32\": 1}", "unknown key \"u32\""},
        {"7", "found the integer 7"},
        {"{\"i32\": \"rows\"}", "unknown name"},
        {"{\"i32\": 1.5}", "neither an integer nor an expression"},
        {"{\"f32\": \"1\"}", "found the string \"1\""},
        {"{\"f32\": 1e39}", "found the number 1e+39"},
        {"{\"call\": \"sms\"}", "found \"sms\""},
        {"{\"pointer\": \"B\"}", "found \"B\""},
        {"{\"pointer\": 5}", "found the integer 5"},
        {"{\"workspace\": \"W\"}", "found \"W\""},
        {"{\"workspace\": \"V\", \"offset\": \"1 /\"}", "ends too early"},
        {"{\"tensor_map\": 5}", "found the integer 5"},
        {"{\"tensor_map\": {\"pointer\": \"A\", \"type\": \"f64\", \"dims\": [1], \"strides\": [], \"box\": "
         "[1], \"swizzle\": 0}}",
         "found \"f64\""},
        {"{\"tensor_map\": {\"pointer\": \"A\", \"type\": \"f32\", \"dims\": [], \"strides\": [], \"box\": "
         "[], \"swizzle\": 0}}",
         "found 0 values"},
        {"{\"tensor_map\": {\"pointer\": \"A\", \"type\": \"f32\", \"dims\": [1, 2], \"strides\": [], "
         "\"box\": [1, 1], \"swizzle\": 0}}",
         "found 0 values"},
        {"{\"tensor_map\": {\"pointer\": \"A\", \"type\": \"f32\", \"dims\": [1], \"strides\": [], \"box\": "
         "[257], \"swizzle\": 0}}",
         "1 to 256"},
        {"{\"tensor_map\": {\"pointer\": \"A\", \"type\": \"f32\", \"dims\": [1], \"strides\": [], \"box\": "
         "[1, 1], \"swizzle\": 0}}",
         "differ in length"},
        {"{\"tensor_map\": {\"pointer\": \"A\", \"type\": \"f32\", \"dims\": [1], \"strides\": [], \"box\": "
         "[1], \"swizzle\": 16}}",
         "swizzle"},
        {"{\"tensor_map\": {\"pointer\": \"A\", \"workspace\": \"V\", \"type\": \"f32\", \"dims\": [1], "
         "\"strides\": [], \"box\": [1], "
         "\"swizzle\": 0}}",
         "both \"pointer\" and \"workspace\""},
        {"{\"tensor_map\": {\"pointer\": \"A\", \"offset\": 4, \"type\": \"f32\", \"dims\": [1], "
         "\"strides\": [], \"box\": [1], "
         "\"swizzle\": 0}}",
         "without \"workspace\""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        refuse(launch(rows[i].arg), "$.ops[0].args[0]", rows[i].why);
}

static void operations_that_are_not_as_described_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *op, *why;
    } rows[] = {
        {"{\"op\": \"copy\"}", "found \"copy\""},
        {"{}", "\"op\" is missing"},
        {"[]", "\"op\" is missing"},
        {"{\"op\": \"clear\", \"buffer\": \"W\", \"bytes\": 1}", "found \"W\""},
        {"{\"op\": \"clear\", \"buffer\": \"V\"}", "neither an integer nor an expression"},
        {"{\"op\": \"clear\", \"buffer\": \"V\", \"bytes\": 1, \"value\": 0}", "unknown key \"value\""},
        {"{\"op\": \"launch\", \"kernel\": \"k\"}", "\"grid\" is missing"},
        {"{\"op\": \"launch\", \"kernel\": \"k\", \"grid\": [1, 1]}", "found 2 values where 3 to 3"},
        {"{\"op\": \"launch\", \"kernel\": 3, \"grid\": [1, 1, 1]}", "found the integer 3"},
        {"{\"op\": \"launch\", \"kernel\": \"k\", \"grid\": [1, 1, 1], \"block\": 2000}",
         "an integer from 1 to 1024"},
        {"{\"op\": \"launch\", \"kernel\": \"k\", \"grid\": [1, 1, 1], \"block\": 32, \"cluster\": 17}",
         "an integer from 1 to 16"},
        {"{\"op\": \"launch\", \"kernel\": \"k\", \"grid\": [1, 1, 1], \"block\": 32, \"cluster\": 1, "
         "\"smem\": 0, \"cooperative\": 1}",
         "true or false"},
        {"{\"op\": \"launch\", \"kernel\": \"k\", \"grid\": [1, 1, 1], \"block\": 32, \"cluster\": 1, "
         "\"smem\": 0, "
         "\"cooperative\": true, \"args\": {}}",
         "a list"},
        {"{\"op\": \"launch\", \"kernel\": \"k\", \"grid\": [1, 1, 1], \"block\": 32, \"cluster\": 1, "
         "\"smem\": 0, \"cooperative\": false, \"early\": 1}",
         "true or false"},
        {"{\"op\": \"launch\", \"kernel\": \"k\", \"stream\": 1}", "unknown key \"stream\""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        refuse(around(rows[i].op), "$.ops[0]", rows[i].why);
}

static void programs_of_another_make_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *where, *why;
    } rows[] = {
        {"[]", "toy: $", "found a list of 0"},
        {"{}", "toy: $", "\"format\" is missing"},
        {"{\"format\": \"qrsmith-program-2\", \"buffers\": [], \"ops\": []}", "$.format",
         "found \"qrsmith-program-2\""},
        {"{\"format\": 1, \"buffers\": [], \"ops\": []}", "$.format", "found the integer 1"},
        {"{\"format\": \"qrsmith-program-1\", \"buffers\": [], \"ops\": [], \"name\": 1}", "$",
         "unknown key \"name\""},
        {"{\"format\": \"qrsmith-program-1\", \"ops\": []}", "$", "\"buffers\" is missing"},
        {"{\"format\": \"qrsmith-program-1\", \"buffers\": []}", "$", "\"ops\" is missing"},
        {"{\"format\": \"qrsmith-program-1\", \"buffers\": [{\"name\": \"a\"}], \"ops\": []}",
         "$.buffers[0].bytes", "neither an integer"},
        {"{\"format\": \"qrsmith-program-1\", \"buffers\": [{\"name\": \"a\", \"bytes\": 1, \"align\": 1}], "
         "\"ops\": []}",
         "$.buffers[0]", "unknown key \"align\""},
        {"{\"format\": \"qrsmith-program-1\", \"buffers\": [{\"name\": \"a\", \"bytes\": 1}, {\"name\": "
         "\"a\", \"bytes\": 1}], "
         "\"ops\": []}",
         "$.buffers[1]", "a second buffer \"a\""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        refuse(strdup(rows[i].text), rows[i].where, rows[i].why);
}

static void too_many_arguments_or_buffers_are_refused(void **state) {
    (void)state;
    static char list[8000];
    list[0] = 0;
    for (int i = 0; i < 65; i++)
        strcat(list, i ? ", {\"i32\": 1}" : "{\"i32\": 1}");
    refuse(launch(list), "$.ops[0]", "more than 64 arguments");
    list[0] = 0;
    for (int i = 0; i < 65; i++)
        sprintf(list + strlen(list), "%s{\"name\": \"b%d\", \"bytes\": 1}", i ? ", " : "", i);
    refuse(qt_format("{\"format\": \"qrsmith-program-1\", \"buffers\": [%s], \"ops\": []}", list),
           "$.buffers", "more than 64 buffers");
}

/* ---- workspace */

static qg_status workspace_of(const char *bytes, int64_t batch, int64_t *total, int64_t offsets[3],
                              qg_error *err) {
    char *text = qt_format(
        "{\"format\": \"qrsmith-program-1\", \"buffers\": [{\"name\": \"a\", \"bytes\": \"batch * 3\"}, "
        "{\"name\": \"b\", \"bytes\": %s}, {\"name\": \"c\", \"bytes\": 1}], \"ops\": []}",
        bytes);
    qg_program *p = NULL;
    qt_succeeded(parse(text, &p, err), err);
    free(text);
    qg_call c = {.scalar = {batch}};
    qg_status s = qg_program_workspace(p, &c, &device, total, offsets, err);
    qg_program_free(p);
    return s;
}

static void buffers_lie_in_order_at_multiples_of_256(void **state) {
    (void)state;
    int64_t total, at[3];
    qg_error err;
    qt_succeeded(workspace_of("512", 100, &total, at, &err), &err);
    assert_true(at[0] == 0 && at[1] == 512 && at[2] == 1024 && total == 1280);
    qt_succeeded(workspace_of("0", 0, &total, at, &err), &err);
    assert_true(at[0] == 0 && at[1] == 0 && at[2] == 0 && total == 256);
}

static void workspace_past_64_bits_or_below_zero_is_refused(void **state) {
    (void)state;
    int64_t total, at[3];
    qg_error err = {0};
    qt_refused(workspace_of("\"batch - 5\"", 4, &total, at, &err), &err, QG_BAD_INPUT, "b", "-1 bytes", NULL);
    qt_refused(workspace_of("\"batch * 9223372036854775807\"", 2, &total, at, &err), &err, QG_BAD_INPUT,
               "overflow", NULL);
    qt_refused(workspace_of("9223372036854775807", 1, &total, at, &err), &err, QG_BAD_INPUT, "b", NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_bind_tighter_than_sums_and_both_go_left_to_right),
        cmocka_unit_test(division_rounds_down_and_ceildiv_up),
        cmocka_unit_test(names_are_the_call_s_and_the_device_s),
        cmocka_unit_test(constants_are_known_before_any_call),
        cmocka_unit_test(overflow_and_division_by_zero_are_refused),
        cmocka_unit_test(what_is_no_expression_is_refused_where_it_goes_wrong),
        cmocka_unit_test(long_and_deep_expressions_are_refused),
        cmocka_unit_test(numbers_may_stand_for_expressions_but_not_below_zero),
        cmocka_unit_test(every_kind_of_argument_is_read),
        cmocka_unit_test(a_clear_is_read),
        cmocka_unit_test(arguments_of_two_kinds_none_or_another_are_refused),
        cmocka_unit_test(operations_that_are_not_as_described_are_refused),
        cmocka_unit_test(programs_of_another_make_are_refused),
        cmocka_unit_test(too_many_arguments_or_buffers_are_refused),
        cmocka_unit_test(buffers_lie_in_order_at_multiples_of_256),
        cmocka_unit_test(workspace_past_64_bits_or_below_zero_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
