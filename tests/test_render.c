/* The template language: what templates turn into, which file and line errors name, and that no template gets
 * out of its sandbox, hangs or exhausts the process. Each test renders families made for it. */
#include "tests/lib/support.h"

#include "tests/lib/templates.h"
#include <locale.h>
#include <stdlib.h>
#include <string.h>

/* Line of the family file on which the source starts, when the chunk is one line. */
enum { SOURCE_LINE = 5 };

static qg_status plan(const qg_library *lib, const char *family, qg_plan **out, qg_error *err) {
    static const qg_shape shape = {.m = 48, .n = 32, .max_batch = 7};
    qg_device device;
    qt_succeeded(qg_device_profile("h200", &device, err), err);
    qg_request request = {.family = family};
    return qg_plan_make(lib, &shape, &device, &request, out, err);
}

/* Renders a family "toy" of this chunk and source beside a block "blocks/part.cuh"; the text, or NULL and the
 * error. */
static char *try_render(const char *chunk, const char *source, const char *block, qg_status *status,
                        qg_error *err) {
    qt_templates t;
    qg_plan *made = NULL;
    char *family = qt_family_text("toy", chunk, source), *text = NULL;
    qt_templates_open(&t,
                      (const char *const[]){"families/toy.lua", family, "blocks/part.cuh", block ? block : "",
                                            "lib/shared.lua", "return { six = 6 }", NULL});
    *status = plan(t.lib, "toy", &made, err);
    if (*status == QG_OK) text = strdup(made->source);
    qg_plan_free(made);
    qt_templates_close(&t);
    free(family);
    return text;
}

static void renders_with(const char *chunk, const char *source, const char *block, const char *expected) {
    qg_error err;
    qg_status status;
    char *text = try_render(chunk, source, block, &status, &err);
    qt_succeeded(status, &err);
    if (strcmp(text, expected) != 0) fail_msg("rendered:\n%s\nexpected:\n%s", text, expected);
    free(text);
}

/* The one line that a source of one line gives. */
static void line_is(const char *source, const char *expected) {
    char *all = qt_format("#line 5 \"families/toy.lua\"\n%s\n", expected);
    renders_with("", source, NULL, all);
    free(all);
}

static void refused_with(const char *chunk, const char *source, const char *block, const char *where,
                         const char *why) {
    qg_error err = {0};
    qg_status status;
    char *text = try_render(chunk, source, block, &status, &err);
    free(text);
    qt_refused(status, &err, QG_BAD_INPUT, where, why, NULL);
}

/* ---- what comes out */

static void text_without_marks_passes_unchanged(void **state) {
    (void)state;
    line_is("a \"quoted\" \\ back\\n slash $ { } $x 100%d \t tab \x01 \xc3\xa9 \xff #define X(a) a##a",
            "a \"quoted\" \\ back\\n slash $ { } $x 100%d \t tab \x01 \xc3\xa9 \xff #define X(a) a##a");
}

static void integers_are_decimal(void **state) {
    (void)state;
    line_is("${1} ${-7} ${2^53 // 1 | 0} ${math.maxinteger} ${7 // 2}",
            "1 -7 9007199254740992 9223372036854775807 3");
}

static void floats_have_the_shortest_digits_that_read_back_and_a_suffix(void **state) {
    (void)state;
    line_is("${0.1} ${1/3} ${32.0} ${10.0} ${-1e6} ${1e-30} ${-0.0} ${2^-149} ${1e300}",
            "0.1f 0.3333333333333333f 32.0f 10.0f -1000000.0f 1e-30f -0.0f 1.401298464324817e-45f 1e+300f");
}

static void strings_and_booleans_are_verbatim(void **state) {
    (void)state;
    line_is("${\"a}b\"}${'{'} ${true} ${({x = \"}\"}).x} ${'it\\'s'}", "a}b{ true } it's");
}

static void shape_device_and_parameters_are_visible(void **state) {
    (void)state;
    renders_with(
        "f.vars = function(s) return { AREA = s.m * s.n } end "
        "f.params = { { name = \"w\", values = { 4, 8 }, default = function() return 8 end, doc = \"d\" } }",
        "${shape.m} ${shape.n} ${shape.k} ${shape.layout_in} ${shape.precision} ${shape.op} "
        "${shape.max_batch} ${device.arch} ${device.sms} ${p.w} ${AREA}",
        NULL, "#line 5 \"families/toy.lua\"\n48 32 32 row fp32 geqrf 7 90 132 8 1536\n");
}

static void lua_lines_repeat_and_choose_text(void **state) {
    (void)state;
    renders_with("", "% for i = 1, 2 do\nx${i};\n  % if i == 2 then\nlast\n%end\n% end\nend", NULL,
                 "#line 6 \"families/toy.lua\"\nx1;\n#line 6 \"families/toy.lua\"\nx2;\n"
                 "#line 8 \"families/toy.lua\"\nlast\n#line 11 \"families/toy.lua\"\nend\n");
}

static void lines_in_step_have_one_directive(void **state) {
    (void)state;
    renders_with("", "one\ntwo\nthree", NULL, "#line 5 \"families/toy.lua\"\none\ntwo\nthree\n");
}

static void an_included_block_sees_the_names_given_and_the_includer_s(void **state) {
    (void)state;
    renders_with("f.vars = function() return { A = 1, B = 2 } end",
                 "% local hidden = 9\n% include(\"blocks/part.cuh\", { B = 20 })\n${B} after",
                 "${A} ${B} ${hidden == nil}\n",
                 "#line 1 \"blocks/part.cuh\"\n1 20 true\n#line 7 \"families/toy.lua\"\n2 after\n");
}

static void shared_lua_is_loaded_with_use(void **state) {
    (void)state;
    renders_with("local shared = use(\"lib/shared.lua\") f.vars = function() return { SIX = shared.six } end",
                 "${SIX}", NULL, "#line 5 \"families/toy.lua\"\n6\n");
    refused_with("use(\"blocks/part.cuh\")", "", NULL, "families/toy.lua:2:", "no file \"blocks/part.cuh\"");
    refused_with("use(\"../lib/shared.lua\")", "", NULL, "families/toy.lua:2:", "no file");
}

static void ceildiv_and_align_round_up(void **state) {
    (void)state;
    line_is("${ceildiv(7, 2)} ${ceildiv(8, 2)} ${ceildiv(0, 5)} ${ceildiv(-7, 2)} ${align(33, 32)} "
            "${align(32, 32)}",
            "4 4 0 -3 64 32");
    refused_with("", "${ceildiv(1, 0)}", NULL, "families/toy.lua:5:", "positive divisor");
}

/* ---- what errors name */

static void nil_is_refused_on_its_line(void **state) {
    (void)state;
    refused_with("", "fine\n${shape.rows}", NULL, "families/toy.lua:6:", "${shape.rows} is nil");
    refused_with("", "${}", NULL, "families/toy.lua:5:", "unexpected symbol");
}

static void numbers_that_c_cannot_write_are_refused(void **state) {
    (void)state;
    refused_with("", "${math.huge}", NULL, "families/toy.lua:5:", "infinite");
    refused_with("", "${0/0}", NULL, "families/toy.lua:5:", "NaN");
    refused_with("", "${{}}", NULL, "families/toy.lua:5:", "table");
    refused_with("", "${function() end}", NULL, "families/toy.lua:5:", "function");
}

static void errors_name_template_and_line(void **state) {
    (void)state;
    refused_with("", "a\nb\n% local x = nil + 1\nc", NULL,
                 "families/toy.lua:7:", "arithmetic on a nil value");
    refused_with("", "a\n% error(\"of our own\")", NULL, "families/toy.lua:6:", "of our own");
    refused_with("", "a\n${1 +}", NULL, "families/toy.lua:6:", "unexpected symbol");
    refused_with("", "a\n% for i = 1 do", NULL, "families/toy.lua:6:", "expected");
    refused_with("", "a\n% if true then\nb", NULL, "families/toy.lua", "'end' expected");
    refused_with("", "a\nb ${x", NULL, "families/toy.lua:6", "without its closing }");
    refused_with("f.vars = nil + 1", "", NULL, "families/toy.lua:2:", "arithmetic on a nil value");
    refused_with("f.program = function(shape)\n  return shape.x.y\nend", "", NULL,
                 "families/toy.lua:3:", "index a nil");
    refused_with("error({})", "", NULL, "families/toy.lua", "an error that is no text");
}

static void errors_in_a_block_name_the_block_and_its_line(void **state) {
    (void)state;
    refused_with("", "% include(\"blocks/part.cuh\")", "one\ntwo ${nothing.at.all}",
                 "blocks/part.cuh:2:", "index a nil value");
    refused_with("", "a\n% include(\"blocks/part.cuh\")", "one\n${", "blocks/part.cuh:2", "closing }");
    refused_with("", "a\n% include(\"blocks/none.cuh\")", NULL,
                 "families/toy.lua:6:", "no template \"blocks/none.cuh\"");
    refused_with("", "% include(7, 8)", NULL, "families/toy.lua:5:", "table expected");
}

static void blocks_that_include_each_other_end(void **state) {
    (void)state;
    refused_with("", "% include(\"blocks/part.cuh\")", "% include(\"blocks/part.cuh\")",
                 "blocks/part.cuh:1:", "16 deep");
}

static void a_caught_error_of_a_block_leaves_lines_right(void **state) {
    (void)state;
    renders_with("",
                 "% for i = 1, 40 do pcall(include, \"blocks/part.cuh\") end\n"
                 "% pcall(include, \"blocks/none.cuh\")\nafter",
                 "% error(\"no\")\n", "#line 7 \"families/toy.lua\"\nafter\n");
    renders_with("", "% for i = 1, 40 do pcall(include, \"blocks/part.cuh\") end\nafter", "${",
                 "#line 6 \"families/toy.lua\"\nafter\n");
}

static void names_made_while_rendering_serve_as_paths(void **state) {
    (void)state;
    /* The name and much garbage go before the next line is placed. */
    renders_with("",
                 "% for i = 1, 2 do\n% include(table.concat({ \"blocks/\", \"part\", \".cuh\" }))\n"
                 "% for k = 1, 20000 do local t = { {}, tostring(k) } end\n% end\nend",
                 "x\n",
                 "#line 1 \"blocks/part.cuh\"\nx\n#line 1 \"blocks/part.cuh\"\nx\n#line 9 "
                 "\"families/toy.lua\"\nend\n");
}

/* Compiles rendered text as C++ and hands back the compiler's messages. */
static char *compile(const char *source) {
    const char *cxx = getenv("CXX");
    char *folder = qt_tmpdir(), *path = qt_format("%s/rendered.cpp", folder);
    qt_write_text(path, source);
    const char *const command[] = {cxx && *cxx ? cxx : "c++", "-std=c++17", "-fsyntax-only", path, NULL};
    qt_output output = qt_run(command, (const char *const[]){"LC_ALL=C", NULL});
    assert_int_not_equal(output.code, 0);
    char *messages = strdup(output.err);
    qt_output_free(&output);
    qt_remove_tree(folder);
    free(folder);
    free(path);
    return messages;
}

static void a_compiler_names_the_template_s_line(void **state) {
    (void)state;
    qg_error err;
    qg_status status;
    char *text =
        try_render("",
                   "int fine;\n% for i = 1, 3 do\nint a${i} = ${i == 2 and \"wrong_name\" or 1};\n% end\n"
                   "% include(\"blocks/part.cuh\")\nint also = other_wrong_name;",
                   "// a block\nint b;\nint c = third_wrong_name;\n", &status, &err);
    qt_succeeded(status, &err);
    char *messages = compile(text);
    qt_assert_contains(messages, "families/toy.lua:7:");
    qt_assert_contains(messages, "blocks/part.cuh:3:");
    qt_assert_contains(messages, "families/toy.lua:10:");
    free(messages);
    free(text);
}

/* ---- the sandbox */

static void nothing_of_the_machine_is_within_reach(void **state) {
    (void)state;
    static const char *const names[] = {
        "os",           "io",           "require",     "package",       "debug",       "load",
        "loadstring",   "loadfile",     "dofile",      "coroutine",     "utf8",        "collectgarbage",
        "getmetatable", "setmetatable", "rawget",      "rawset",        "rawequal",    "next",
        "print",        "warn",         "_G",          "string.dump",   "math.random", "math.randomseed",
        "math.pow",     "xpcall",       "(\"\").dump", "table.foreach", "table.move"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *source = qt_format("${tostring(%s)}", names[i]);
        line_is(source, "nil");
        free(source);
    }
    refused_with("local os = require(\"os\")", "", NULL, "families/toy.lua:2:", "'require'");
}

static void bytecode_is_not_loaded(void **state) {
    (void)state;
    qg_error err;
    qt_templates t;
    qg_plan *made = NULL;
    /* A chunk of Lua 5.4 bytecode begins with ESC "Lua" 0x54. */
    qt_templates_open(&t,
                      (const char *const[]){"families/toy.lua", "\x1bLua\x54\n--[==[ source\n]==]\n", NULL});
    qt_refused(plan(t.lib, "toy", &made, &err), &err, QG_BAD_INPUT, "families/toy.lua", "binary chunk", NULL);
    qt_templates_close(&t);
}

static void addresses_do_not_become_text(void **state) {
    (void)state;
    refused_with("", "${tostring({})}", NULL, "families/toy.lua:5:", "a table has no text");
    refused_with("", "${tostring(pairs)}", NULL, "families/toy.lua:5:", "a function has no text");
    refused_with("", "${string.format(\"%s\", {})}", NULL, "families/toy.lua:5:", "has no text");
    refused_with("", "${string.format(\"%p\", \"x\")}", NULL, "families/toy.lua:5:", "%p is not allowed");
    refused_with("", "${string.format(\"%-20p\", \"x\")}", NULL, "families/toy.lua:5:", "%p is not allowed");
    refused_with("", "${(\"%d %9p\"):format(1, \"x\")}", NULL, "families/toy.lua:5:", "%p is not allowed");
    line_is("${string.format(\"%5.2f|%-3d|%%p|%s\", 1.5, 7, \"s\")}", " 1.50|7  |%p|s");
}

static void pairs_goes_in_a_fixed_order(void **state) {
    (void)state;
    line_is("${(function() local s = \"\" for k in pairs({ z = 1, [3] = 1, a = 1, [-1] = 1, [2.5] = 1, m = 1 "
            "}) do "
            "s = s .. k .. \" \" end return s end)()}",
            "-1 2.5 3 a m z ");
    refused_with("", "% for k in pairs({ [{}] = 1 }) do end", NULL, "families/toy.lua:5:", "no fixed order");
}

static void an_endless_loop_is_stopped(void **state) {
    (void)state;
    refused_with("", "% while true do end", NULL, "families/toy.lua:5:", "an endless loop?");
    refused_with("while true do end", "", NULL, "families/toy.lua:2:", "an endless loop?");
}

static void an_endless_loop_that_catches_errors_is_stopped(void **state) {
    (void)state;
    refused_with("", "% while true do pcall(function() while true do end end) end", NULL,
                 "families/toy.lua:5:", "an endless loop?");
}

static void too_much_memory_is_refused(void **state) {
    (void)state;
    refused_with("", "% local s = \"x\" while true do s = s .. s end", NULL, "families/toy.lua", "MiB");
    refused_with("local t = {} for i = 1, 1e9 do t[i] = { i } end", "", NULL, "families/toy.lua", "MiB");
    refused_with("", "${(\"x\"):rep(1 << 40)}", NULL, "families/toy.lua", "");
    refused_with("", "% include(\"blocks/part.cuh\")", "${(\"x\"):rep(190 << 20)}${(\"y\"):rep(190 << 20)}",
                 "families/toy.lua", "");
}

static void a_bomb_that_catches_its_own_failure_is_stopped(void **state) {
    (void)state;
    refused_with("", "% while true do pcall(string.rep, \"x\", 300 << 20) end", NULL, "families/toy.lua",
                 "192 MiB");
    /* Each within the limit: it is the time that adds up. */
    refused_with("", "% while true do pcall(string.rep, \"x\", 40 << 20) end", NULL, "families/toy.lua",
                 "endless loop");
}

static void memory_nearly_used_up_does_not_end_the_process(void **state) {
    (void)state;
    /* What the family leaves is too little for the tables of shape and device, were they refused. */
    char *text = NULL;
    qg_error err = {0};
    qg_status status;
    text = try_render(
        "KEEP = {} for e = 27, 3, -1 do while pcall(function() KEEP[#KEEP + 1] = (\"x\"):rep(1 << e) end) "
        "and #KEEP < 4000 do end end",
        "x", NULL, &status, &err);
    free(text);
    if (status) qt_refused(status, &err, QG_BAD_INPUT, "families/toy.lua", NULL);
}

static void patterns_that_take_for_ever_are_refused(void **state) {
    (void)state;
    refused_with("", "${(\"a\"):rep(40):find((\"a-\"):rep(30) .. \"b\") or 0}", NULL,
                 "families/toy.lua:5:", "takes too long");
    line_is("${(\"panel_16\"):match(\"^(%a+)_(%d+)$\")} ${(\"a,b\"):gsub(\",\", \";\")}", "panel a;b");
}

static void sort_keeps_the_order_of_equals(void **state) {
    (void)state;
    line_is("${(function() local t = {} for i = 1, 300 do t[i] = { i % 3, i } end "
            "table.sort(t, function(a, b) return a[1] < b[1] end) "
            "for i = 2, 300 do assert(t[i - 1][1] < t[i][1] or t[i - 1][1] == t[i][1] and t[i - 1][2] < "
            "t[i][2]) end "
            "return #t end)()}",
            "300");
}

static void too_much_text_is_refused(void **state) {
    (void)state;
    refused_with("", "% for i = 1, 100 do\n${(\"x\"):rep(1 << 20)}\n% end", NULL,
                 "families/toy.lua:6:", "larger than 32 MiB");
}

static void endless_recursion_is_refused(void **state) {
    (void)state;
    refused_with("", "% local function r() return 1 + r() end r()", NULL,
                 "families/toy.lua:5:", "stack overflow");
}

/* ---- the same bytes */

static void the_same_input_gives_the_same_bytes(void **state) {
    (void)state;
    qg_error err;
    qg_device device;
    qt_succeeded(qg_device_profile("h200", &device, &err), &err);
    static const qg_shape shape = {.m = 352, .n = 352, .max_batch = 40};
    qg_plan *plans[2] = {0};
    for (int i = 0; i < 2; i++) {
        qg_library *lib = NULL;
        qt_succeeded(qg_library_open(&(qg_library_options){0}, &lib, &err), &err);
        qt_succeeded(qg_plan_make(lib, &shape, &device, NULL, &plans[i], &err), &err);
        qg_library_close(lib);
    }
    assert_string_equal(plans[0]->source, plans[1]->source);
    assert_string_equal(plans[0]->name, plans[1]->name);
    assert_true(json_equal(plans[0]->program_json, plans[1]->program_json));
    qg_plan_free(plans[0]);
    qg_plan_free(plans[1]);
}

static void a_comma_locale_changes_no_byte(void **state) {
    (void)state;
    if (!qt_comma_locale()) qt_skip("no locale with a decimal comma, and localedef cannot make one");
    line_is("${0.5} ${tostring(1.25)} ${string.format(\"%.3f\", 2.5)} ${tonumber(\"0.75\")} ${3.5 .. \"\"}",
            "0.5f 1.25 2.500 0.75f 3.5");
    assert_string_equal(setlocale(LC_NUMERIC, NULL) ? "kept" : "", "kept");
    char after[16];
    snprintf(after, sizeof after, "%.1f", 1.5);
    assert_string_equal(after, "1,5"); /* the program's own locale is as it was */
    setlocale(LC_NUMERIC, "C");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_without_marks_passes_unchanged),
        cmocka_unit_test(integers_are_decimal),
        cmocka_unit_test(floats_have_the_shortest_digits_that_read_back_and_a_suffix),
        cmocka_unit_test(strings_and_booleans_are_verbatim),
        cmocka_unit_test(shape_device_and_parameters_are_visible),
        cmocka_unit_test(lua_lines_repeat_and_choose_text),
        cmocka_unit_test(lines_in_step_have_one_directive),
        cmocka_unit_test(an_included_block_sees_the_names_given_and_the_includer_s),
        cmocka_unit_test(shared_lua_is_loaded_with_use),
        cmocka_unit_test(ceildiv_and_align_round_up),
        cmocka_unit_test(nil_is_refused_on_its_line),
        cmocka_unit_test(numbers_that_c_cannot_write_are_refused),
        cmocka_unit_test(errors_name_template_and_line),
        cmocka_unit_test(errors_in_a_block_name_the_block_and_its_line),
        cmocka_unit_test(blocks_that_include_each_other_end),
        cmocka_unit_test(a_caught_error_of_a_block_leaves_lines_right),
        cmocka_unit_test(names_made_while_rendering_serve_as_paths),
        cmocka_unit_test(a_compiler_names_the_template_s_line),
        cmocka_unit_test(nothing_of_the_machine_is_within_reach),
        cmocka_unit_test(bytecode_is_not_loaded),
        cmocka_unit_test(addresses_do_not_become_text),
        cmocka_unit_test(pairs_goes_in_a_fixed_order),
        cmocka_unit_test(an_endless_loop_is_stopped),
        cmocka_unit_test(an_endless_loop_that_catches_errors_is_stopped),
        cmocka_unit_test(too_much_memory_is_refused),
        cmocka_unit_test(a_bomb_that_catches_its_own_failure_is_stopped),
        cmocka_unit_test(memory_nearly_used_up_does_not_end_the_process),
        cmocka_unit_test(patterns_that_take_for_ever_are_refused),
        cmocka_unit_test(sort_keeps_the_order_of_equals),
        cmocka_unit_test(too_much_text_is_refused),
        cmocka_unit_test(endless_recursion_is_refused),
        cmocka_unit_test(the_same_input_gives_the_same_bytes),
        cmocka_unit_test(a_comma_locale_changes_no_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
