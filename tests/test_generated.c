/* Writing rendered plans: generated/ holds what the templates make of configs/contest.json, byte for byte and
 * in any locale, and an output folder is replaced whole or not at all. */
#include "tests/lib/support.h"

#include "gen/config.h"
#include "gen/json_read.h"
#include "tests/lib/templates.h"
#include <dirent.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define CONTEST   "configs/contest.json"
#define GENERATED "generated"

static char *folder; /* scratch, and the user's config folder: no tuned table of this machine counts */
static qg_library *lib;
static qg_device device;

static int open_library(void **state) {
    qg_error err;
    (void)state;
    folder = qt_tmpdir();
    unsetenv("QRSMITH_TEMPLATES");
    unsetenv("QRSMITH_TUNED");
    setenv("XDG_CONFIG_HOME", folder, 1);
    qt_succeeded(qg_library_open(NULL, &lib, &err), &err);
    qt_succeeded(qg_device_profile("h200", &device, &err), &err);
    return 0;
}

static int close_library(void **state) {
    (void)state;
    qg_library_close(lib);
    qt_remove_tree(folder);
    free(folder);
    return 0;
}

static qg_config *read_config(const char *path) {
    qg_config *config = NULL;
    qg_error err;
    qt_succeeded(qg_config_read(path, &config, &err), &err);
    return config;
}

/* A config of one shape, by the text of its entry. */
static qg_config *config_of(const char *shape) {
    char *path = qt_format("%s/config.json", folder),
         *text = qt_format("{\"format\": \"qrsmith-config-1\", \"shapes\": [%s]}", shape);
    qt_write_text(path, text);
    qg_config *config = read_config(path);
    free(path);
    free(text);
    return config;
}

static char *generate(const char *config_path, const char *name) {
    qg_config *config = read_config(config_path);
    char *to = qt_format("%s/%s", folder, name);
    qg_error err;
    qt_succeeded(qg_generate(lib, config, &device, to, &err), &err);
    qg_config_free(config);
    return to;
}

static int visible(const struct dirent *e) {
    return e->d_name[0] != '.';
}

static void same_folder(const char *a, const char *b, const char *hint) {
    struct dirent **in_a, **in_b;
    int count_a = scandir(a, &in_a, visible, alphasort), count_b = scandir(b, &in_b, visible, alphasort);
    if (count_a < 0 || count_b < 0) fail_msg("%s or %s is not there; %s", a, b, hint);
    for (int i = 0; i < count_a && i < count_b; i++) {
        const char *name = in_a[i]->d_name;
        if (strcmp(name, in_b[i]->d_name) != 0)
            fail_msg("%s is in one of %s and %s only; %s", name, a, b, hint);
        size_t size_a, size_b;
        char *path_a = qt_format("%s/%s", a, name), *path_b = qt_format("%s/%s", b, name);
        char *text_a = qt_read(path_a, &size_a), *text_b = qt_read(path_b, &size_b);
        if (size_a != size_b || memcmp(text_a, text_b, size_a) != 0)
            fail_msg("%s differs between %s and %s; %s", name, a, b, hint);
        free(text_a);
        free(text_b);
        free(path_a);
        free(path_b);
        free(in_a[i]);
        free(in_b[i]);
    }
    if (count_a != count_b) fail_msg("%d files in %s, %d in %s; %s", count_a, a, count_b, b, hint);
    free(in_a);
    free(in_b);
}

static int files_in(const char *path) {
    struct dirent **names;
    int count = scandir(path, &names, visible, alphasort);
    for (int i = 0; i < count; i++)
        free(names[i]);
    if (count >= 0) free(names);
    return count;
}

/* ---- generated/ */

static void generated_is_what_the_templates_make(void **state) {
    (void)state;
    char *now = generate(CONTEST, "now");
    same_folder(GENERATED, now,
                "after a change to templates, run `make generated` and commit what it changes");
    free(now);
}

static void a_comma_locale_changes_no_byte(void **state) {
    (void)state;
    char *plain = generate(CONTEST, "plain");
    if (!qt_comma_locale()) {
        free(plain);
        qt_skip("no locale with a decimal comma can be made here");
    }
    char *comma = generate(CONTEST, "comma");
    setlocale(LC_NUMERIC, "C");
    same_folder(plain, comma, "numbers are printed by one function");
    free(plain);
    free(comma);
}

static void the_manifest_names_every_file(void **state) {
    (void)state;
    char *now = generate(CONTEST, "manifest"), *path = qt_format("%s/manifest.json", now);
    json_t *manifest = NULL, *plan;
    qg_error err;
    size_t i, files = 1;
    qt_succeeded(qg_json_file(path, &manifest, &err), &err);
    json_array_foreach(json_object_get(manifest, "plans"), i, plan) {
        const char *name = json_string_value(json_object_get(plan, "name"));
        char *source = qt_format("%s/%s.cu", now, name), *program = qt_format("%s/%s.json", now, name);
        assert_true(qt_exists(source) && qt_exists(program));
        assert_string_equal(json_string_value(json_object_get(plan, "target")), "sm_90a");
        files += 2;
        free(source);
        free(program);
    }
    assert_int_equal(i, 14); /* seven sizes in two precisions */
    assert_int_equal(files_in(now), files);
    json_decref(manifest);
    free(path);
    free(now);
}

static void programs_read_back_and_launch_kernels_of_their_source(void **state) {
    (void)state;
    char *now = generate(CONTEST, "programs");
    struct dirent **names;
    int count = scandir(now, &names, visible, alphasort);
    for (int i = 0; i < count; i++) {
        char *dot = strrchr(names[i]->d_name, '.');
        if (strcmp(dot, ".cu") == 0) {
            *dot = 0;
            char *source_path = qt_format("%s/%s.cu", now, names[i]->d_name),
                 *path = qt_format("%s/%s.json", now, names[i]->d_name), *source = qt_read(source_path, NULL);
            qg_program *program = NULL;
            json_t *json = NULL;
            qg_error err;
            qt_succeeded(qg_json_file(path, &json, &err), &err);
            qt_succeeded(qg_program_parse(json, path, &program, &err), &err);
            for (int k = 0; k < program->op_count; k++)
                if (program->ops[k].kind == QG_OP_LAUNCH) qt_assert_contains(source, program->ops[k].kernel);
            qg_program_free(program);
            json_decref(json);
            free(source);
            free(source_path);
            free(path);
        }
        free(names[i]);
    }
    free(names);
    free(now);
}

static double child_seconds(void) {
    struct rusage r;
    getrusage(RUSAGE_CHILDREN, &r);
    return (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) +
           1e-6 * (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec);
}

static void rendering_the_contest_takes_under_half_a_second(void **state) {
    (void)state;
    char *bin = qt_format("%s/qrsmith", qt_build()), *to = qt_format("%s/timed", folder);
    if (!qt_exists(bin))
        qt_skip("the product is not built, and the sanitized one is slower"); /* `make` first */
    double before = child_seconds();
    qt_output output = qt_run((const char *const[]){bin, "gen", CONTEST, "-o", to, NULL}, NULL);
    assert_int_equal(output.code, 0);
    assert_true(child_seconds() - before < 0.5);
    qt_output_free(&output);
    free(bin);
    free(to);
}

/* ---- whole or not at all */

static void refused(const qg_config *config, const char *to, qg_status want, const char *a, const char *b) {
    qg_error err = {0};
    qt_refused(qg_generate(lib, config, &device, to, &err), &err, want, a, b, NULL);
}

static void output_replaces_earlier_output(void **state) {
    (void)state;
    char *to = generate("configs/small.json", "replaced");
    qg_config *one = config_of("{\"m\": 8}");
    qg_error err;
    qt_succeeded(qg_generate(lib, one, &device, to, &err), &err);
    assert_int_equal(files_in(to), 3);
    qg_config_free(one);
    free(to);
}

static void a_failure_leaves_the_old_output_whole(void **state) {
    (void)state;
    char *to = generate("configs/small.json", "kept"), *copy = generate("configs/small.json", "copy");
    /* The first shape is rendered before the second one is refused. */
    qg_config *bad = config_of("{\"m\": 8}, {\"m\": 8, \"max_batch\": 2, \"family\": \"blocked\", "
                               "\"params\": {\"panel\": 7}}");
    refused(bad, to, QG_BAD_INPUT, "$.shapes[1]", "panel");
    same_folder(to, copy, "nothing was to change");
    qg_config_free(bad);
    free(to);
    free(copy);
}

static void nothing_stays_beside_the_output(void **state) {
    (void)state;
    char *parent = qt_format("%s/parent", folder), *to = qt_format("%s/out", parent);
    assert_int_equal(mkdir(parent, 0755), 0);
    qg_config *good = config_of("{\"m\": 8}");
    qg_config *bad = config_of("{\"m\": 8, \"family\": \"none\"}");
    qg_error err;
    for (int i = 0; i < 2; i++) {
        qt_succeeded(qg_generate(lib, good, &device, to, &err), &err);
        refused(bad, to, QG_BAD_INPUT, "$.shapes[0]", "none");
        assert_int_equal(files_in(parent), 1);
    }
    qg_config_free(good);
    qg_config_free(bad);
    free(parent);
    free(to);
}

static void a_folder_with_other_files_is_not_replaced(void **state) {
    (void)state;
    char *to = generate("configs/small.json", "mine"), *letter = qt_format("%s/letter.cu", to);
    qg_config *one = config_of("{\"m\": 8}");
    qt_write_text(letter, "dear");
    refused(one, to, QG_BAD_INPUT, to, "letter.cu");
    char *text = qt_read(letter, NULL);
    assert_string_equal(text, "dear");
    free(text);
    refused(one, letter, QG_BAD_INPUT, letter, "folder");
    qg_config_free(one);
    free(letter);
    free(to);
}

static void a_place_that_cannot_be_written_is_an_environment_error(void **state) {
    (void)state;
    qg_config *one = config_of("{\"m\": 8}");
    refused(one, "/no/such/place", QG_ENVIRONMENT, "/no/such/place", "cannot");
    qg_config_free(one);
}

static void entries_that_share_a_plan_share_its_files(void **state) {
    (void)state;
    qg_config *two = config_of("{\"m\": 8, \"max_batch\": 64}, {\"m\": 8, \"max_batch\": 65}");
    char *to = qt_format("%s/shared", folder);
    qg_error err;
    qt_succeeded(qg_generate(lib, two, &device, to, &err), &err);
    assert_true(files_in(to) == 3 || files_in(to) == 5);
    qg_config_free(two);
    free(to);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(generated_is_what_the_templates_make),
        cmocka_unit_test(a_comma_locale_changes_no_byte),
        cmocka_unit_test(the_manifest_names_every_file),
        cmocka_unit_test(programs_read_back_and_launch_kernels_of_their_source),
        cmocka_unit_test(rendering_the_contest_takes_under_half_a_second),
        cmocka_unit_test(output_replaces_earlier_output),
        cmocka_unit_test(a_failure_leaves_the_old_output_whole),
        cmocka_unit_test(nothing_stays_beside_the_output),
        cmocka_unit_test(a_folder_with_other_files_is_not_replaced),
        cmocka_unit_test(a_place_that_cannot_be_written_is_an_environment_error),
        cmocka_unit_test(entries_that_share_a_plan_share_its_files),
    };
    return cmocka_run_group_tests(tests, open_library, close_library);
}
