/* Each device primitive on a real GPU against what its host version gives. The host's side is a file
 * (tests/cases/primitives.f32, which tests/test_primitives.c holds the host to), so that no compiler is
 * needed here. */
#include "gen/embedded.h"
#include "runtime/qrsmith.h"
#include "tests/lib/primitives.h"
#include "tests/lib/support.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { SIZE = QT_PRIMITIVE_SIZE, BYTES = SIZE * (int)sizeof(float) };

typedef struct fixture {
    char *folder;
    qrs_context *context;
    qrs_plan *plan;
    bool sm90;
    float h[SIZE];
} fixture;

static void check(qrs_status status) {
    if (status) fail_msg("%s: %s", qrs_status_name(status), qrs_last_error());
}

/* The built-in device headers with the test family beside them. */
static char *template_folder(void) {
    char *folder = qt_tmpdir(), *family = qt_read("tests/cases/families/primitives.lua", NULL);
    static const char *const parts[] = {"device", "families"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char *path = qt_format("%s/%s", folder, parts[i]);
        assert_int_equal(mkdir(path, 0700), 0);
        free(path);
    }
    for (const qg_embedded *e = qg_embedded_files; e->path; e++)
        if (strncmp(e->path, "device/", 7) == 0) {
            char *path = qt_format("%s/%s", folder, e->path);
            qt_write(path, e->data, e->size);
            free(path);
        }
    char *path = qt_format("%s/families/primitives.lua", folder);
    qt_write_text(path, family);
    free(path);
    free(family);
    return folder;
}

static void factor(fixture *f) {
    float *a = malloc(BYTES), *A, *H, *tau;
    void *workspace = NULL;
    int64_t bytes;
    assert_non_null(a);
    qt_primitive_fill(a);
    memset(f->h, 0xff, BYTES);
    check(qrs_memory_alloc(f->context, BYTES, (void **)&A));
    check(qrs_memory_alloc(f->context, BYTES, (void **)&H));
    check(qrs_memory_alloc(f->context, BYTES, (void **)&tau));
    check(qrs_workspace_bytes(f->plan, 1, &bytes));
    check(qrs_memory_alloc(f->context, bytes, &workspace));
    check(qrs_copy_to_device(f->context, A, a, BYTES));
    check(qrs_copy_to_device(f->context, H, f->h, BYTES));
    check(qrs_geqrf(f->plan, NULL, 1, A, QT_PRIMITIVE_COLUMNS, SIZE, H, QT_PRIMITIVE_COLUMNS, SIZE, tau,
                    QT_PRIMITIVE_ROWS, NULL, workspace, bytes));
    check(qrs_stream_wait(f->context, NULL));
    check(qrs_copy_to_host(f->context, f->h, H, BYTES));
    qrs_memory_free(f->context, A);
    qrs_memory_free(f->context, H);
    qrs_memory_free(f->context, tau);
    qrs_memory_free(f->context, workspace);
    free(a);
}

static int set_up(void **state) {
    fixture *f = calloc(1, sizeof *f);
    *state = f; /* what there is when something fails is still freed */
    f->folder = template_folder();
    qrs_context_options context = {.struct_size = sizeof context, .templates = f->folder};
    qrs_plan_options plan = {.struct_size = sizeof plan, .family = "primitives"};
    qrs_shape shape = {.m = QT_PRIMITIVE_ROWS, .n = QT_PRIMITIVE_COLUMNS, .max_batch = 1};
    qrs_plan_facts facts = {.struct_size = sizeof facts};
    check(qrs_context_create(&context, &f->context));
    check(qrs_plan_create(f->context, &shape, &plan, &f->plan));
    check(qrs_plan_info(f->plan, &facts));
    f->sm90 = strstr(facts.source, "QRS_KERNEL(warpgroups") != NULL;
    print_message("%s\n%s\n", qrs_context_info(f->context), facts.name);
    factor(f);
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    if (!f) return 0;
    qrs_plan_destroy(f->plan);
    qrs_context_destroy(f->context);
    qt_remove_tree(f->folder);
    free(f->folder);
    free(f);
    return 0;
}

/* Every row is looked at, and all that disagree are named, before the test fails. */
static void gpu_and_host_agree(void **state) {
    const fixture *f = *state;
    size_t size;
    float *host = (float *)(void *)qt_read("tests/cases/primitives.f32", &size);
    int wrong = 0, rows = 0;
    assert_int_equal(size, BYTES);
    for (const qt_primitive *p = qt_primitives; p->rows; p++) {
        char text[256];
        if (p->sm90 && !f->sm90) continue;
        rows += p->rows;
        if (qt_primitive_agree_on(p, f->h, host, text, sizeof text)) continue;
        print_error("GPU and host: %s\n", text);
        wrong++;
    }
    print_message("%d rows compared\n", rows);
    free(host);
    assert_int_equal(wrong, 0);
}

static void the_same_bits_again(void **state) {
    fixture *f = *state;
    float *first = malloc(BYTES);
    memcpy(first, f->h, BYTES);
    factor(f);
    assert_memory_equal(first, f->h, BYTES);
    free(first);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpu_and_host_agree),
        cmocka_unit_test(the_same_bits_again),
    };
    return cmocka_run_group_tests_name("primitives on the GPU", tests, set_up, tear_down);
}
