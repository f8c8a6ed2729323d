/* What every suite needs and CMocka lacks: scratch folders, whole files, child processes. Failures of these
 * helpers fail the running test, so callers check nothing.
 *
 * Tests run with the repository root as working folder; tests/run sets QRSMITH_BIN (the command line built
 * with the sanitizers) and QRSMITH_BUILD (the build folder). */
#ifndef TESTS_SUPPORT_H
#define TESTS_SUPPORT_H

/* CMocka wants these first, in this order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdbool.h>

/* "build" unless QRSMITH_BUILD says otherwise. */
const char *qt_build(void);
/* The qrsmith command to test. */
const char *qt_bin(void);

/* A new empty folder; qt_remove_tree() deletes it with all that is in it. Caller frees. */
char *qt_tmpdir(void);
void qt_remove_tree(const char *path);

/* "folder/name", or any printf-like text. Caller frees. */
char *qt_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

bool qt_exists(const char *path);
/* The whole file, NUL-terminated; *size (may be NULL) without the NUL. Caller frees. */
char *qt_read(const char *path, size_t *size);
void qt_write(const char *path, const void *data, size_t size);
void qt_write_text(const char *path, const char *text);

typedef struct qt_output {
    int code;        /* exit code; 128 + signal when killed */
    char *out, *err; /* NUL-terminated */
} qt_output;

/* Runs argv[0] (found on PATH when it has no slash) with standard input empty; argv ends with NULL.
 * extra_env, may be NULL, is a NULL-terminated list of "NAME=value" ("NAME" alone unsets). Killed, and the
 * test failed, after ten minutes. */
qt_output qt_run(const char *const argv[], const char *const extra_env[]);
void qt_output_free(qt_output *output);

/* qt_bin() with these arguments, which end with NULL. */
#define qt_qrsmith(...) qt_run((const char *const[]){qt_bin(), __VA_ARGS__, NULL}, NULL)

/* Fails the test with both texts when `text` does not contain `part`. */
void qt_assert_contains(const char *text, const char *part);

/* Skips the running test; tests/run repeats the reason. */
#define qt_skip(reason)                                                                                      \
    do {                                                                                                     \
        print_message("SKIP %s: %s\n", __func__, reason);                                                    \
        skip();                                                                                              \
    } while (0)

/* True under `make test-all`. */
bool qt_test_all(void);

#endif
