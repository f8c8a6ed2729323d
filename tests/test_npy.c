/* Reading and writing .npy: what numpy.save writes comes back, everything else is refused with a reason. */
#include "tests/lib/support.h"

#include "runtime/cli/npy.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

/* ---- files by hand ---- */

/* Writes magic, version, a header of this text, and `elements` floats 1, 2, 3, ... Returns the path. */
static char *write_raw(int major, int minor, const char *header, int elements) {
    char *path = qt_format("%s/raw.npy", folder);
    size_t length = strlen(header), start = major > 1 ? 12 : 10;
    unsigned char *bytes = calloc(1, start + length + (size_t)elements * 4 + 1);
    memcpy(bytes, "\x93NUMPY", 6);
    bytes[6] = (unsigned char)major;
    bytes[7] = (unsigned char)minor;
    for (size_t i = 8; i < start; i++)
        bytes[i] = (unsigned char)(length >> 8 * (i - 8));
    memcpy(bytes + start, header, length);
    for (int i = 0; i < elements; i++) {
        float value = (float)(i + 1);
        memcpy(bytes + start + length + 4 * (size_t)i, &value, 4);
    }
    qt_write(path, bytes, start + length + 4 * (size_t)elements);
    free(bytes);
    return path;
}

static void expect_read(int major, const char *header, int elements, npy_array *out) {
    qg_error err = {0};
    char *path = write_raw(major, 0, header, elements);
    qg_status status = npy_read(path, out, &err);
    if (status != QG_OK) print_error("%s: %s (%s)\n", err.what, err.why, err.fix);
    assert_int_equal(status, QG_OK);
    free(path);
}

static void expect_refused(int major, int minor, const char *header, int elements, const char *why,
                           const char *fix) {
    qg_error err = {0};
    npy_array a;
    char *path = write_raw(major, minor, header, elements);
    assert_int_equal(npy_read(path, &a, &err), QG_BAD_INPUT);
    assert_null(a.data);
    assert_string_equal(err.what, path);
    qt_assert_contains(err.why, why);
    qt_assert_contains(err.fix, fix);
    free(path);
}

#define HEADER(descr, order, shape)                                                                          \
    "{'descr': '" descr "', 'fortran_order': " order ", 'shape': " shape ", }  \n"

static void reads_all_versions(void **state) {
    (void)state;
    for (int major = 1; major <= 3; major++) {
        npy_array a;
        expect_read(major, HEADER("<f4", "False", "(2, 3)"), 6, &a);
        assert_int_equal(a.dims, 2);
        assert_int_equal(a.shape[0], 2);
        assert_int_equal(a.shape[1], 3);
        assert_false(a.fortran);
        assert_true(a.data[0] == 1 && a.data[5] == 6);
        npy_free(&a);
    }
}

static void reads_orders_and_dimensions(void **state) {
    (void)state;
    npy_array a;
    expect_read(1, HEADER("<f4", "True", "(2, 3, 4)"), 24, &a);
    assert_int_equal(a.dims, 3);
    assert_int_equal(a.shape[2], 4);
    assert_true(a.fortran);
    npy_free(&a);
    expect_read(1, "{\"shape\":(1L,1L),\"descr\":\"<f4\",\"fortran_order\":False}", 1, &a);
    assert_int_equal(npy_count(&a), 1);
    npy_free(&a);
}

static void reads_empty_arrays(void **state) {
    (void)state;
    npy_array a;
    expect_read(1, HEADER("<f4", "False", "(0, 5)"), 0, &a);
    assert_int_equal(npy_count(&a), 0);
    assert_null(a.data);
    npy_free(&a);
    expect_read(1, HEADER("<f4", "False", "(4611686018427387904, 4611686018427387904, 0)"), 0, &a);
    assert_int_equal(npy_count(&a), 0);
    npy_free(&a);
}

static void refuses_other_types(void **state) {
    (void)state;
    expect_refused(1, 0, HEADER("<f8", "False", "(1, 1)"), 2, "'<f8'", "astype(numpy.float32)");
    expect_refused(1, 0, HEADER(">f4", "False", "(1, 1)"), 1, "'>f4'", "astype('<f4')");
    expect_refused(1, 0, HEADER("<f2", "False", "(2, 1)"), 1, "'<f2'", "astype(numpy.float32)");
    expect_refused(1, 0, HEADER("<c8", "False", "(1, 1)"), 2, "'<c8'", "float32");
    expect_refused(1, 0, HEADER("|O", "False", "(1, 1)"), 2, "'|O'", "float32");
    expect_refused(1, 0, "{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (1, 1), }", 1, "records",
                   "plain float32");
}

static void refuses_other_dimensions(void **state) {
    (void)state;
    expect_refused(1, 0, HEADER("<f4", "False", "(3,)"), 3, "1 dimension", "reshape(-1, 1)");
    expect_refused(1, 0, HEADER("<f4", "False", "()"), 1, "0 dimensions", "rows x columns");
    expect_refused(1, 0, HEADER("<f4", "False", "(1, 1, 1, 1)"), 1, "4 dimensions", "batch x rows x columns");
}

static void refuses_wrong_sizes(void **state) {
    (void)state;
    expect_refused(1, 0, HEADER("<f4", "False", "(2, 3)"), 5, "24 bytes of elements, the file holds 20",
                   "cut short");
    expect_refused(1, 0, HEADER("<f4", "False", "(2, 3)"), 7, "the file holds 28", "one array a file");
    expect_refused(1, 0, HEADER("<f4", "False", "(4611686018427387904, 8)"), 1, "than any file holds",
                   "damaged");
    expect_refused(1, 0, HEADER("<f4", "False", "(1000000000, 1000000000)"), 1, "bytes of elements",
                   "cut short");
    expect_refused(1, 0, HEADER("<f4", "False", "(99999999999999999999, 1)"), 1, "number of the shape",
                   "numpy.save");
    expect_refused(1, 0, HEADER("<f4", "False", "(-1, 1)"), 1, "number of the shape", "numpy.save");
}

static void refuses_broken_headers(void **state) {
    (void)state;
    static const char *const headers[] = {
        "",
        "{",
        "}",
        "{}",
        "[]",
        "{'descr': '<f4'}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1)",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1",
        "{'descr': '<f4', 'fortran_order': False, 'shape': [1, 1]}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1 1)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1)} x",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (1, 1)}",
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1, 1)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1), 'more': 1}",
        "{'descr': '<f4 'fortran_order': False, 'shape': (1, 1)}",
        "{'descr: '<f4', 'fortran_order': False, 'shape': (1, 1)}",
        "{'descr': '<f444444444444444444444444444444444444444444', 'fortran_order': False, 'shape': (1, 1)}",
        "{'descr': '<f4\\n', 'fortran_order': False, 'shape': (1, 1)}",
        "{'descr': __import__('os'), 'fortran_order': False, 'shape': (1, 1)}",
    };
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++)
        expect_refused(1, 0, headers[i], 1, "", "numpy.save");
}

static void refuses_other_versions(void **state) {
    (void)state;
    expect_refused(4, 0, HEADER("<f4", "False", "(1, 1)"), 1, "version 4.0", "1.0, 2.0 and 3.0");
    expect_refused(1, 1, HEADER("<f4", "False", "(1, 1)"), 1, "version 1.1", "1.0, 2.0 and 3.0");
    expect_refused(0, 0, HEADER("<f4", "False", "(1, 1)"), 1, "version 0.0", "1.0, 2.0 and 3.0");
}

/* Every prefix of a good file is refused, never read past its end. */
static void refuses_every_truncation(void **state) {
    (void)state;
    for (int major = 1; major <= 2; major++) {
        char *path = write_raw(major, 0, HEADER("<f4", "False", "(2, 2)"), 4);
        size_t size;
        char *bytes = qt_read(path, &size);
        for (size_t length = 0; length < size; length++) {
            qg_error err = {0};
            npy_array a;
            qt_write(path, bytes, length);
            assert_int_equal(npy_read(path, &a, &err), QG_BAD_INPUT);
            assert_true(err.why[0] && err.fix[0]);
        }
        free(bytes);
        free(path);
    }
}

/* A flipped bit may leave a legal file; it may never crash. */
static void survives_every_flipped_bit(void **state) {
    (void)state;
    char *path = write_raw(1, 0, HEADER("<f4", "False", "(2, 2)"), 4);
    size_t size;
    char *bytes = qt_read(path, &size);
    for (size_t bit = 0; bit < 8 * (size - 16); bit++) {
        qg_error err = {0};
        npy_array a;
        bytes[bit / 8] ^= (char)(1 << bit % 8);
        qt_write(path, bytes, size);
        if (npy_read(path, &a, &err) == QG_OK) npy_free(&a);
        bytes[bit / 8] ^= (char)(1 << bit % 8);
    }
    free(bytes);
    free(path);
}

static void refuses_what_is_no_file(void **state) {
    (void)state;
    qg_error err = {0};
    npy_array a;
    char *missing = qt_format("%s/missing.npy", folder), *fifo = qt_format("%s/fifo", folder);
    assert_int_equal(npy_read(missing, &a, &err), QG_BAD_INPUT);
    qt_assert_contains(err.why, "No such file");
    assert_int_equal(npy_read(folder, &a, &err), QG_BAD_INPUT);
    qt_assert_contains(err.why, "not a regular file");
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_int_equal(npy_read(fifo, &a, &err), QG_BAD_INPUT); /* and does not wait for a writer */
    assert_int_equal(npy_read("/dev/zero", &a, &err), QG_BAD_INPUT);
    free(missing);
    free(fifo);
}

/* ---- writing ---- */

static void writes_what_it_reads(void **state) {
    (void)state;
    static const npy_array shapes[] = {{2, {3, 5, 0}, false, NULL}, {2, {3, 5, 0}, true, NULL},
                                       {3, {2, 3, 4}, false, NULL}, {3, {2, 3, 4}, true, NULL},
                                       {2, {0, 7, 0}, true, NULL},  {3, {100000, 1, 1}, false, NULL}};
    char *path = qt_format("%s/written.npy", folder);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        npy_array a = shapes[i], b;
        qg_error err = {0};
        size_t count = (size_t)npy_count(&a), size;
        a.data = calloc(count ? count : 1, sizeof(float));
        for (size_t e = 0; e < count; e++)
            a.data[e] = (float)e * 0.37f - 1;
        FILE *f = fopen(path, "wb");
        assert_true(npy_write(f, &a));
        fclose(f);
        char *bytes = qt_read(path, &size);
        assert_int_equal((size - 4 * count) % 64, 0); /* as numpy aligns the elements */
        free(bytes);
        assert_int_equal(npy_read(path, &b, &err), QG_OK);
        assert_int_equal(a.dims, b.dims);
        assert_int_equal(a.fortran, b.fortran);
        assert_memory_equal(a.shape, b.shape, sizeof a.shape);
        if (count) assert_memory_equal(a.data, b.data, 4 * count);
        npy_free(&a);
        npy_free(&b);
    }
    free(path);
}

static void writes_one_dimension(void **state) {
    (void)state;
    char *path = qt_format("%s/tau.npy", folder);
    float values[3] = {1, 2, 3};
    npy_array a = {1, {3, 0, 0}, false, values};
    FILE *f = fopen(path, "wb");
    assert_true(npy_write(f, &a));
    fclose(f);
    size_t size;
    char *bytes = qt_read(path, &size);
    qt_assert_contains(bytes + 10, "'shape': (3,), }");
    assert_int_equal(size, 128 + 12);
    free(bytes);
    free(path);
}

static void says_when_the_disk_is_full(void **state) {
    (void)state;
    FILE *f = fopen("/dev/full", "wb");
    if (!f) qt_skip("no /dev/full here");
    npy_array a = {1, {100000, 0, 0}, false, calloc(100000, 4)};
    assert_false(npy_write(f, &a) && !fflush(f));
    fclose(f);
    npy_free(&a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_all_versions),       cmocka_unit_test(reads_orders_and_dimensions),
        cmocka_unit_test(reads_empty_arrays),       cmocka_unit_test(refuses_other_types),
        cmocka_unit_test(refuses_other_dimensions), cmocka_unit_test(refuses_wrong_sizes),
        cmocka_unit_test(refuses_broken_headers),   cmocka_unit_test(refuses_other_versions),
        cmocka_unit_test(refuses_every_truncation), cmocka_unit_test(survives_every_flipped_bit),
        cmocka_unit_test(refuses_what_is_no_file),  cmocka_unit_test(writes_what_it_reads),
        cmocka_unit_test(writes_one_dimension),     cmocka_unit_test(says_when_the_disk_is_full),
    };
    return cmocka_run_group_tests_name("npy", tests, make_folder, remove_folder);
}
