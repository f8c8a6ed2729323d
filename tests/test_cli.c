/* The command line as a user meets it: help, wrong usage, exit codes, the error line, and the commands that
 * compute nothing. tests/test_cli_run.c has those that do. */
#include "tests/lib/support.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const commands[] = {"gen",  "compile",  "factor", "check",  "bench",
                                       "tune", "families", "cache",  "doctor", "version"};
enum { COMMANDS = sizeof commands / sizeof *commands };

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

/* "qrsmith: WHAT: WHY", one line. */
static void assert_one_error_line(const char *err) {
    size_t length = strlen(err);
    const char *what = strstr(err, "qrsmith: ");
    bool good = what == err && length && strchr(err, '\n') == err + length - 1 && strstr(err + 9, ": ");
    if (!good) fail_msg("not one error line:\n%s", err);
}

static void expect_error(const qt_output *o, int code, const char *part) {
    if (o->code != code) print_error("%s%s", o->out, o->err);
    assert_int_equal(o->code, code);
    assert_string_equal(o->out, "");
    assert_one_error_line(o->err);
    qt_assert_contains(o->err, part);
}

static json_t *parse(const char *text) {
    json_error_t trouble;
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &trouble);
    if (!root) fail_msg("line %d: %s\n%s", trouble.line, trouble.text, text);
    return root;
}

/* ---- help ---- */

static void help_lists_every_command(void **state) {
    (void)state;
    static const char *const words[] = {"--help", "-h", "help"};
    for (size_t w = 0; w < sizeof words / sizeof *words; w++) {
        qt_output o = qt_qrsmith(words[w]);
        assert_int_equal(o.code, 0);
        assert_string_equal(o.err, "");
        for (int i = 0; i < COMMANDS; i++)
            qt_assert_contains(o.out, commands[i]);
        qt_output_free(&o);
    }
}

static void help_of_each_command_teaches(void **state) {
    (void)state;
    static const char *const parts[] = {"usage: qrsmith ", "options:", "--help",
                                        "examples:", "exit codes: 0 done"};
    for (int i = 0; i < COMMANDS; i++) {
        qt_output o = qt_qrsmith(commands[i], "--help"), other = qt_qrsmith("help", commands[i]);
        assert_int_equal(o.code, 0);
        for (size_t p = 0; p < sizeof parts / sizeof *parts; p++)
            qt_assert_contains(o.out, parts[p]);
        qt_assert_contains(o.out, commands[i]);
        assert_string_equal(o.out, other.out);
        qt_output_free(&o);
        qt_output_free(&other);
    }
}

static void help_wins_over_wrong_values(void **state) {
    (void)state;
    qt_output o = qt_qrsmith("bench", "some.json", "--help", "--no-such-option");
    assert_int_equal(o.code, 0);
    qt_output_free(&o);
}

static void no_command_shows_help_and_fails(void **state) {
    (void)state;
    qt_output o = qt_run((const char *const[]){qt_bin(), NULL}, NULL);
    assert_int_equal(o.code, 2);
    assert_string_equal(o.out, "");
    qt_assert_contains(o.err, "usage: qrsmith COMMAND");
    qt_output_free(&o);
}

static void version_is_told(void **state) {
    (void)state;
    qt_output o = qt_qrsmith("version"), dashes = qt_qrsmith("--version"),
              json = qt_qrsmith("version", "--json");
    qt_assert_contains(o.out, "qrsmith 0.");
    assert_string_equal(o.out, dashes.out);
    json_t *root = parse(json.out);
    assert_non_null(json_object_get(root, "version"));
    json_decref(root);
    qt_output_free(&o);
    qt_output_free(&dashes);
    qt_output_free(&json);
}

/* ---- wrong usage ---- */

typedef struct wrong {
    const char *argv[8], *part;
} wrong;

static void wrong_usage_is_refused(void **state) {
    (void)state;
    static const wrong cases[] = {
        {{"chekc"}, "did you mean check?"},
        {{"frobnicate"}, "no such command"},
        {{""}, "no such command"},
        {{"help", "nothing"}, "no such command"},
        {{"gen"}, "--output: no folder is given (-o DIR)"},
        {{"gen", "-o", "x"}, "config: none is given"},
        {{"gen", "-o"}, "--output: a value must follow"},
        {{"gen", "-o", ""}, "the value is empty"},
        {{"gen", "--outptu", "x"}, "did you mean --output?"},
        {{"gen", "--frobnicate"}, "--frobnicate: no such option (see qrsmith gen --help)"},
        {{"gen", "-z"}, "no such option"},
        {{"gen", "a.json", "b.json"}, "b.json: an argument too many"},
        {{"gen", "a.json", "--shape", "1x2x3", "-o", "x"}, "given as well as a file"},
        {{"gen", "--shape", "banana", "-o", "x"}, "banana"},
        {{"gen", "--shape", "1x2", "-o", "x"}, "1x2"},
        {{"gen", "--shape", "-1x2x3", "-o", "x"}, "qrsmith: "},
        {{"gen", "--shape", "1x2x3:fp8", "-o", "x"}, "fp8"},
        {{"gen", "--shape", "1x99999999999999999999x3", "-o", "x"}, "qrsmith: "},
        {{"gen", "--shape", "1x2x3", "-o", "x", "--device-profile", "toaster"}, "toaster"},
        {{"compile", "--shape", "1x2x3", "--arch", "sm_20"}, "--arch: found 'sm_20' (sm_80"},
        {{"compile", "--shape", "1x2x3", "--arch", "sm_90,"}, "--arch: found"},
        {{"compile", "--shape", "1x2x3", "--arch", "sm_90x"}, "--arch: found"},
        {{"compile", "--shape", "1x2x3", "-j", "0"}, "--jobs: found '0' (a whole number from 1 to 64)"},
        {{"compile", "--shape", "1x2x3", "-j", "2.5"}, "--jobs: found '2.5'"},
        {{"compile", "--report=yes"}, "--report: takes no value"},
        {{"compile", "--shape", "1x2x3", "--arch", "sm_80", "--device-profile", "h200"}, "not an sm_80"},
        {{"factor"}, "IN.npy: the argument is missing"},
        {{"factor", ""}, "IN.npy: the argument is empty"},
        {{"factor", "a.npy"}, "--output: no file is given for H (-o H.npy)"},
        {{"factor", "a.npy", "-o", "h.npy"}, "--tau: no file is given for tau"},
        {{"factor", "a.npy", "--precision", "fp64"}, "--precision: found 'fp64' (one of fp32|fp16)"},
        {{"factor", "a.npy", "--precision", "fp"}, "--precision: found 'fp'"},
        {{"factor", "a.npy", "--layout", "diagonal"}, "one of input|row|col"},
        {{"check"}, "suite: none is given"},
        {{"check", "--shape", "2x4x4", "--device", "gpu"}, "--device: found 'gpu' (cpu, or the number"},
        {{"check", "--shape", "2x4x4", "--device", "-1"}, "--device: found '-1'"},
        {{"check", "--shape", "2x4x4", "--set", "panel"}, "--set: found 'panel' (NAME=VALUE"},
        {{"check", "--shape", "2x4x4", "--set", "=3"}, "NAME=VALUE"},
        {{"check", "--shape", "2x4x4", "--set", "a=1", "--set", "a=2"}, "'a' is given twice"},
        {{"check", "--shape", "2x4x4", "--family", "nonsense"}, "there is no family 'nonsense' ("},
        {{"bench", "--shape", "2x4x4", "--max-seconds", "nan"}, "--max-seconds: found 'nan'"},
        {{"bench", "--shape", "2x4x4", "--max-seconds", "1e99"}, "--max-seconds: found"},
        {{"bench", "--shape", "2x4x4", "--baseline", "mkl"}, "--baseline: found 'mkl' (cusolver, cublas)"},
        {{"bench", "--shape", "2x4x4", "--baseline", "cublas", "--device", "cpu"}, "need a GPU"},
        {{"bench", "--shape", "2x4x4", "--first-use", "--device", "cpu"},
         "--first-use: it is a GPU's kernels"},
        {{"gen", "--shape", "1x2x3", "--shape", "1x2x3", "-o", "x"}, "--shape 1x2x3: given twice"},
        {{"families", "verfiy"}, "did you mean verify?"},
        {{"cache"}, "the argument is missing"},
        {{"cache", "burn"}, "found 'burn' (ls, verify, prune or clear)"},
        {{"cache", "prune"}, "nothing says what may go"},
        {{"cache", "clear", "--days", "30"}, "do not go with 'clear' (cache prune)"},
        {{"cache", "ls", "--bytes", "1"}, "do not go with 'ls'"},
        {{"version", "now"}, "an argument too many"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *argv[10] = {qt_bin()};
        for (int a = 0; cases[i].argv[a]; a++)
            argv[a + 1] = cases[i].argv[a];
        qt_output o = qt_run(argv, NULL);
        if (o.code != 2) print_error("case %zu: %s %s\n", i, argv[1], argv[2] ? argv[2] : "");
        expect_error(&o, 2, cases[i].part);
        qt_output_free(&o);
    }
    assert_false(qt_exists("x"));
}

static void hostile_words_stay_on_one_line(void **state) {
    (void)state;
    qt_output o = qt_qrsmith("gen", "new\nline\033[2J.json", "-o", "x");
    assert_int_not_equal(o.code, 0);
    assert_one_error_line(o.err);
    assert_null(strchr(o.err, '\033'));
    qt_output_free(&o);
    char *longest = malloc(100001);
    memset(longest, 'a', 100000);
    longest[100000] = 0;
    for (int i = 0; i < COMMANDS; i++) {
        o = qt_qrsmith(commands[i], longest, longest, "-o", longest);
        assert_int_not_equal(o.code, 0);
        assert_one_error_line(o.err);
        qt_output_free(&o);
    }
    free(longest);
}

static void two_dashes_end_the_options(void **state) {
    (void)state;
    qt_output o = qt_qrsmith("gen", "-o", "x", "--", "--strange.json");
    assert_int_not_equal(o.code, 0);
    qt_assert_contains(o.err, "--strange.json");
    qt_output_free(&o);
}

static void a_full_disk_behind_stdout_is_an_error(void **state) {
    (void)state;
    if (access("/dev/full", W_OK)) qt_skip("no /dev/full here");
    char *line = qt_format("%s families > /dev/full", qt_bin());
    qt_output o = qt_run((const char *const[]){"sh", "-c", line, NULL}, NULL);
    expect_error(&o, 3, "standard output: No space left");
    qt_output_free(&o);
    free(line);
}

/* ---- gen ---- */

static void gen_writes_a_manifest(void **state) {
    (void)state;
    char *out = qt_format("%s/gen", folder), *manifest = qt_format("%s/manifest.json", out);
    qt_output o = qt_qrsmith("gen", "--shape", "8x20x12:fp16", "-o", out);
    if (o.code) print_error("%s", o.err);
    assert_int_equal(o.code, 0);
    qt_assert_contains(o.out, "1 plan, manifest.json");
    char *text = qt_read(manifest, NULL);
    json_decref(parse(text));
    free(text);
    qt_output_free(&o);
    free(out);
    free(manifest);
}

static void a_failed_gen_leaves_the_folder(void **state) {
    (void)state;
    char *out = qt_format("%s/keep", folder), *config = qt_format("%s/bad.json", folder);
    char *manifest = qt_format("%s/manifest.json", out);
    qt_output o = qt_qrsmith("gen", "--shape", "2x3x3", "-o", out);
    assert_int_equal(o.code, 0);
    qt_output_free(&o);
    char *before = qt_read(manifest, NULL);
    static const char *const bad[] = {"",
                                      "{",
                                      "[]",
                                      "{\"shapes\": 3}",
                                      "{\"shapes\": [{\"m\": -1, \"n\": 2}]}",
                                      "{\"shapes\": [{\"mm\": 1}]}",
                                      "\xff\xfe"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        qt_write_text(config, bad[i]);
        o = qt_qrsmith("gen", config, "-o", out);
        expect_error(&o, 2, "bad.json");
        char *after = qt_read(manifest, NULL);
        assert_string_equal(before, after);
        free(after);
        qt_output_free(&o);
    }
    free(before);
    free(out);
    free(config);
    free(manifest);
}

static void a_missing_file_is_named(void **state) {
    (void)state;
    static const char *const readers[] = {"gen", "compile", "check", "bench"};
    for (int i = 0; i < 4; i++) {
        qt_output o = i ? qt_qrsmith(readers[i], "no/such/file.json")
                        : qt_qrsmith("gen", "no/such/file.json", "-o", "x");
        expect_error(&o, 2, "no/such/file.json");
        qt_output_free(&o);
    }
}

/* ---- families, doctor, cache ---- */

static void families_are_listed(void **state) {
    (void)state;
    qt_output o = qt_qrsmith("families"), json = qt_qrsmith("families", "--json"),
              one = qt_qrsmith("families", "verify");
    assert_int_equal(o.code, 0);
    json_t *root = parse(json.out), *family;
    size_t i;
    assert_true(json_array_size(root) >= 2);
    json_array_foreach(root, i, family) {
        const char *name = json_string_value(json_object_get(family, "name"));
        assert_non_null(name);
        qt_assert_contains(o.out, name);
        assert_true(*json_string_value(json_object_get(family, "summary")) != 0);
        assert_true(json_is_array(json_object_get(family, "params")));
    }
    json_decref(root);
    qt_assert_contains(one.out, "verify (verify)");
    assert_null(strstr(one.out, "(geqrf)"));
    qt_output_free(&o);
    qt_output_free(&json);
    qt_output_free(&one);
}

static void doctor_tells_what_is_missing(void **state) {
    (void)state;
    char *no_templates = qt_format("QRSMITH_TEMPLATES=%s", folder);
    const char *const none[] = {"QRSMITH_NVRTC=/nonexistent/libnvrtc.so",
                                "QRSMITH_CUDA=/nonexistent/libcuda.so", "CXX=/nonexistent/c++", NULL};
    const char *const empty_folder[] = {no_templates, NULL};
    qt_output o = qt_run((const char *const[]){qt_bin(), "doctor", NULL}, none);
    assert_int_equal(o.code, 3);
    qt_assert_contains(o.out, "!!  nvrtc");
    qt_assert_contains(o.out, "--  driver");
    qt_assert_contains(o.out, "--  host compiler");
    qt_assert_contains(o.out, "ok  templates");
    qt_assert_contains(o.out, "-> ");
    qt_output_free(&o);
    o = qt_run((const char *const[]){qt_bin(), "doctor", "--json", NULL}, none);
    json_t *root = parse(o.out);
    assert_true(json_array_size(json_object_get(root, "findings")) >= 7);
    json_decref(root);
    qt_output_free(&o);
    o = qt_run((const char *const[]){qt_bin(), "doctor", NULL}, empty_folder);
    qt_assert_contains(o.out, "!!  templates");
    qt_output_free(&o);
    free(no_templates);
}

static void an_empty_cache_is_listed_and_cleared(void **state) {
    (void)state;
    char *dir = qt_format("QRSMITH_CACHE_DIR=%s/cache", folder);
    const char *const env[] = {dir, NULL};
    static const char *const actions[] = {"ls", "verify", "clear"};
    for (int i = 0; i < 3; i++) {
        qt_output o = qt_run((const char *const[]){qt_bin(), "cache", actions[i], NULL}, env);
        if (o.code) print_error("%s", o.err);
        assert_int_equal(o.code, 0);
        qt_assert_contains(o.out, "0 ");
        qt_output_free(&o);
    }
    qt_output o = qt_run((const char *const[]){qt_bin(), "cache", "ls", "--json", NULL}, env);
    json_t *root = parse(o.out);
    assert_int_equal(json_array_size(json_object_get(root, "entries")), 0);
    json_decref(root);
    qt_output_free(&o);
    free(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(help_lists_every_command),
        cmocka_unit_test(help_of_each_command_teaches),
        cmocka_unit_test(help_wins_over_wrong_values),
        cmocka_unit_test(no_command_shows_help_and_fails),
        cmocka_unit_test(version_is_told),
        cmocka_unit_test(wrong_usage_is_refused),
        cmocka_unit_test(hostile_words_stay_on_one_line),
        cmocka_unit_test(two_dashes_end_the_options),
        cmocka_unit_test(a_full_disk_behind_stdout_is_an_error),
        cmocka_unit_test(gen_writes_a_manifest),
        cmocka_unit_test(a_failed_gen_leaves_the_folder),
        cmocka_unit_test(a_missing_file_is_named),
        cmocka_unit_test(families_are_listed),
        cmocka_unit_test(doctor_tells_what_is_missing),
        cmocka_unit_test(an_empty_cache_is_listed_and_cleared),
    };
    return cmocka_run_group_tests_name("cli", tests, make_folder, remove_folder);
}
