/* The build itself: embedded files, installation as a stranger uses it, and what a bare machine is told. */
#include "gen/embedded.h"
#include "runtime/nvrtc.h"
#include "tests/lib/support.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RUN(...) qt_run((const char *const[]){__VA_ARGS__, NULL}, NULL)

static void assert_ran(qt_output *output) {
    if (output->code != 0) fail_msg("exit code %d\n%s%s", output->code, output->out, output->err);
}

static void embedded_files_are_sorted_and_whole(void **state) {
    (void)state;
    size_t count = 0;
    for (const qg_embedded *file = qg_embedded_files; file->path; file++, count++) {
        assert_true(count == 0 || strcmp(file[-1].path, file->path) < 0);
        bool config = strncmp(file->path, "configs/", 8) == 0;
        char *path = qt_format("%s%s", config ? "" : "templates/", file->path);
        size_t size;
        char *text = qt_read(path, &size);
        assert_int_equal(size, file->size);
        assert_memory_equal(text, file->data, size + 1); /* the NUL too */
        free(text);
        free(path);
    }
    assert_true(count > 0);
}

static void shared_library_exports_only_its_api(void **state) {
    (void)state;
    char *library = qt_format("%s/libqrsmith.so", qt_build());
    qt_output symbols = RUN("nm", "-D", "--defined-only", library);
    assert_ran(&symbols);
    int count = 0;
    for (char *line = strtok(symbols.out, "\n"); line; line = strtok(NULL, "\n")) {
        const char *name = strrchr(line, ' ') + 1;
        assert_true(strncmp(name, "qrs_", 4) == 0 || strncmp(name, "QRSMITH_", 8) == 0);
        count++;
    }
    assert_true(count > 1);
    qt_output_free(&symbols);
    qt_output dynamic = RUN("readelf", "-d", library);
    assert_ran(&dynamic);
    qt_assert_contains(dynamic.out, "Library soname: [libqrsmith.so.0]");
    qt_output_free(&dynamic);
    free(library);
}

/* The C block of README.md. Caller frees. */
static char *readme_example(void) {
    char *readme = qt_read("README.md", NULL);
    char *start = strstr(readme, "```c\n");
    assert_non_null(start);
    start += strlen("```c\n");
    char *end = strstr(start, "```");
    assert_non_null(end);
    char *example = qt_format("%.*s", (int)(end - start), start);
    free(readme);
    return example;
}

/* Into a prefix of its own, then through pkg-config, in C and in C++. */
static void installed_header_and_library_serve_c_and_cpp(void **state) {
    (void)state;
    char *root = qt_tmpdir();
    char *build = qt_format("BUILD=%s", qt_build());
    char *prefix = qt_format("PREFIX=%s", root);
    qt_output install = RUN("make", "-s", "install", build, prefix);
    assert_ran(&install);
    qt_output_free(&install);

    char *source = qt_format("%s/example.c", root);
    char *example = readme_example();
    qt_write_text(source, example);
    char *flags = qt_format("PKG_CONFIG_PATH=%s/lib/pkgconfig", root);
    static const char *const commands[] = {
        "${CC:-cc} -std=c99 -pedantic -Wall -Wextra -Werror -fPIC -c -o $0.o $0 $(pkg-config --cflags "
        "qrsmith)",
        "${CC:-cc} -shared -o $0.so $0.o $(pkg-config --libs qrsmith) -Wl,-rpath,${0%/*}/lib",
        "echo '#include <qrsmith.h>' | ${CXX:-c++} -std=c++11 -pedantic -Wall -Wextra -Werror -x c++ -c -o "
        "/dev/null "
        "$(pkg-config --cflags qrsmith) -",
        "test \"$(pkg-config --modversion qrsmith)\" = \"$(${0%/*}/bin/qrsmith version | sed -n "
        "'1s/^qrsmith \\([0-9.]*\\).*/\\1/p')\"",
    };
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        qt_output output = qt_run((const char *const[]){"sh", "-c", commands[i], source, NULL},
                                  (const char *const[]){flags, NULL});
        assert_ran(&output);
        qt_output_free(&output);
    }
    free(flags);
    free(example);
    free(source);
    qt_remove_tree(root);
    free(prefix);
    free(build);
    free(root);
}

static void a_bare_machine_is_told_the_packages(void **state) {
    (void)state;
    const char *const bare[] = {"PKG_CONFIG=false", "CC=no-such-compiler", "CXX=no-such-compiler", NULL};
    qt_output output = qt_run((const char *const[]){".ci/setup", "check", "test", NULL}, bare);
    assert_int_equal(output.code, 3);
    static const char *const packages[] = {"g++",           "liblua5.4-dev",   "libjansson-dev",
                                           "libcmocka-dev", "libopenblas-dev", "apt-get install"};
    for (size_t i = 0; i < sizeof packages / sizeof *packages; i++)
        qt_assert_contains(output.err, packages[i]);
    qt_output_free(&output);
}

static void cuda_home_is_the_only_toolkit_when_given(void **state) {
    (void)state;
    qt_output output = qt_run((const char *const[]){".ci/nvrtc", "find", NULL},
                              (const char *const[]){"CUDA_HOME=/nonexistent", NULL});
    assert_int_equal(output.code, 1);
    assert_string_equal(output.out, "");
    qt_output_free(&output);
}

/* Else NVRTC works only where the loader knows its folder: not from a wheel, nor from many toolkits. */
static void nvrtcs_builtins_come_from_its_own_folder(void **state) {
    (void)state;
    qrt_nvrtc nvrtc;
    qg_error err;
    if (qrt_nvrtc_open(NULL, &nvrtc, &err) != QG_OK) fail_msg("%s", err.why);
    assert_non_null(nvrtc.builtins);
    Dl_info compiler;
    struct link_map *builtins;
    assert_int_not_equal(dladdr((const void *)(uintptr_t)nvrtc.version, &compiler), 0);
    assert_int_equal(dlinfo(nvrtc.builtins, RTLD_DI_LINKMAP, &builtins), 0);
    size_t folder = (size_t)(strrchr(compiler.dli_fname, '/') - compiler.dli_fname);
    assert_memory_equal(compiler.dli_fname, builtins->l_name, folder + 1);
    qrt_nvrtc_close(&nvrtc);
}

/* Failing, crashing and empty programs each count, and the last line adds up. */
static void runner_counts_what_went_wrong(void **state) {
    (void)state;
    char *root = qt_tmpdir();
    static const char *const scripts[][2] = {
        {"good", "#!/bin/sh\necho '[==========] 3 test(s) run.'\necho '[  PASSED  ] 3 test(s).'\n"},
        {"bad",
         "#!/bin/sh\necho '[  PASSED  ] 1 test(s).'\necho '[  FAILED  ] 2 test(s), listed below:'\nexit 2\n"},
        {"crash", "#!/bin/sh\necho '[  PASSED  ] 1 test(s).'\nkill -SEGV $$\n"},
        {"empty", "#!/bin/sh\n"},
    };
    char *paths[4];
    for (int i = 0; i < 4; i++) {
        paths[i] = qt_format("%s/%s", root, scripts[i][0]);
        qt_write_text(paths[i], scripts[i][1]);
        qt_output mode = RUN("chmod", "+x", paths[i]);
        assert_ran(&mode);
        qt_output_free(&mode);
    }
    char *build = qt_format("QRSMITH_BUILD=%s", root);
    const char *const env[] = {build, NULL};
    qt_output all = qt_run(
        (const char *const[]){"tests/run", "-j", "2", paths[0], paths[1], paths[2], paths[3], NULL}, env);
    assert_int_equal(all.code, 1);
    qt_assert_contains(all.out, "\n5 passed, 4 failed\n");
    qt_assert_contains(all.out, "killed by signal 11");
    qt_assert_contains(all.out, "ran no test");
    qt_output_free(&all);
    qt_output good = qt_run((const char *const[]){"tests/run", paths[0], NULL}, env);
    assert_int_equal(good.code, 0);
    qt_assert_contains(good.out, "\n3 passed, 0 failed\n");
    qt_output_free(&good);
    for (int i = 0; i < 4; i++)
        free(paths[i]);
    free(build);
    qt_remove_tree(root);
    free(root);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(embedded_files_are_sorted_and_whole),
        cmocka_unit_test(shared_library_exports_only_its_api),
        cmocka_unit_test(installed_header_and_library_serve_c_and_cpp),
        cmocka_unit_test(a_bare_machine_is_told_the_packages),
        cmocka_unit_test(cuda_home_is_the_only_toolkit_when_given),
        cmocka_unit_test(nvrtcs_builtins_come_from_its_own_folder),
        cmocka_unit_test(runner_counts_what_went_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
