/* Kernels on the host executor under ThreadSanitizer, which knows what orders CUDA threads
 * (runtime/host/race.h): no two accesses to one address, one of them a write, that no barrier, mbarrier,
 * warp_sync() or copy orders; whatever order they happened to run in. */
#include "tests/lib/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_WORDS = 24 };

typedef struct fixture {
    char *folder, *cache, *templates, *binary;
} fixture;

/* With little luck the kernel lays memory out in a way that ThreadSanitizer refuses; then it is asked not to.
 */
static qt_output run_under(const fixture *f, const char *templates, const char *arguments,
                           bool fixed_layout) {
    char *text =
        qt_format("%s%s check --device cpu %s", fixed_layout ? "setarch -R " : "", f->binary, arguments);
    char *cache = qt_format("QRSMITH_CACHE_DIR=%s", f->cache),
         *from = qt_format("QRSMITH_TEMPLATES=%s", templates);
    const char *argv[MAX_WORDS + 1] = {NULL}, *env[] = {cache, from, "TSAN_OPTIONS=history_size=4", NULL};
    int n = 0;
    char *rest = NULL;
    for (char *w = strtok_r(text, " ", &rest); w && n < MAX_WORDS; w = strtok_r(NULL, " ", &rest))
        argv[n++] = w;
    qt_output o = qt_run(argv, env);
    free(text);
    free(cache);
    free(from);
    return o;
}

static qt_output check(const fixture *f, const char *templates, const char *arguments) {
    qt_output o = run_under(f, templates, arguments, false);
    if (!strstr(o.err, "unexpected memory mapping")) return o;
    qt_output_free(&o);
    return run_under(f, templates, arguments, true);
}

static void race_free(void **state, const char *arguments) {
    qt_output o = check(*state, "templates", arguments);
    if (o.code != 0 || strstr(o.err, "WARNING: ThreadSanitizer") || !strstr(o.out, ", 0 failed"))
        fail_msg("check %s: exit code %d\n%.6000s%.6000s", arguments, o.code, o.out, o.err);
    qt_output_free(&o);
}

static void pack_and_blocked(void **state) {
    race_free(state, "--shape 5x3x3 --shape 5x16x16 --shape 4x32x32 --shape 4x64x64");
    race_free(state, "--shape 2x130x130 --family blocked");
}

static void fused_one_cta(void **state) {
    race_free(state, "configs/suites/rare.json --family fused --set update=mma --set ctas=1 --set overlap=0");
    race_free(state, "configs/suites/rare.json --family fused --set update=mma --set ctas=1 --set "
                     "keep=shared --set overlap=1");
}

static void fused_clusters_with_v_in_shared_memory(void **state) {
    race_free(state, "--shape 2x176x176 --shape 2x200x130:fp16");
    race_free(state,
              "configs/suites/rare.json --family fused --set update=mma --set ctas=2 --set keep=shared");
}

static void fused_clusters_with_v_in_scratch(void **state) {
    race_free(state, "--shape 1x352x352");
    race_free(state, "configs/suites/rare.json --family fused --set update=mma --set ctas=2 --set "
                     "keep=scratch --set overlap=0");
}

static void fused_by_rows(void **state) {
    race_free(
        state,
        "--shape 2x100x100 --family fused --set update=mma --set ctas=2 --set keep=shared --set method=rows");
    race_free(state, "--shape 2x70x100 --family fused --set update=mma --set ctas=1 --set method=rows");
}

static void every_suite(void **state) {
    if (!qt_test_all()) qt_skip("two minutes: make test-all");
    race_free(state, "configs/suites/small.json");
    race_free(state, "configs/suites/small.json --family blocked");
    race_free(state, "configs/suites/rare.json --precision both");
    race_free(state, "configs/suites/rare.json --family blocked");
    race_free(state, "configs/suites/rare.json --family fused --set update=mma --set method=rows");
    race_free(state, "configs/suites/rare.json --family fused --set update=mma --set ctas=4");
}

static void fused_by_warpgroups(void **state) {
    race_free(state, "configs/suites/rare.json --family fused --set update=wgmma");
    race_free(state, "--shape 1x192x192:fp16 --family fused --set update=wgmma");
}

/* The kernels' own barriers, mbarriers and arrivals, left out one by one: each is missed. */
static void what_is_left_out_is_missed(void **state) {
    const fixture *f = *state;
    static const char by_warps[] = "--shape 1x176x176 --family fused --set update=mma --set ctas=2",
                      by_warpgroups[] = "--shape 1x192x192:fp16 --family fused --set update=wgmma";
    static const struct {
        const char *file, *barrier, *arguments;
    } left_out[] = {
        {"blocks/gram_narrow.cuh", "bar_sync(12, 64);", by_warps},
        {"blocks/gram_panel.cuh", "bar_sync(1, 128); // R takes the place of what was looked at", by_warps},
        {"blocks/fused_apply.cuh", "mbar_wait(t_ready, parity);", by_warps},
        {"blocks/fused_narrow_kernel.cuh", "bar_sync(14, ${THREADS}); // the others have given their rows",
         by_warps},
        {"blocks/gram_whole.cuh", "bar_wait(14, 192);", by_warpgroups},
        {"blocks/gram_whole.cuh", "bar_sync(2, 128); // R^-T is there", by_warpgroups},
    };
    for (size_t i = 0; i < sizeof left_out / sizeof *left_out; i++) {
        char *path = qt_format("%s/%s", f->templates, left_out[i].file),
             *own = qt_format("templates/%s", left_out[i].file);
        char *text = qt_read(own, NULL), *at = strstr(text, left_out[i].barrier);
        if (!at) fail_msg("%s has no %s", own, left_out[i].barrier);
        memset(at, ' ', strcspn(left_out[i].barrier, ";"));
        qt_write_text(path, text);
        qt_output o = check(f, f->templates, left_out[i].arguments);
        if (!strstr(o.err, "data race"))
            fail_msg("%s without %s: exit code %d\n%s%.2000s", own, left_out[i].barrier, o.code, o.out,
                     o.err);
        qt_output_free(&o);
        free(text);
        text = qt_read(own, NULL);
        qt_write_text(path, text);
        free(text);
        free(path);
        free(own);
    }
}

static int set_up(void **state) {
    fixture *f = calloc(1, sizeof *f);
    *state = f;
    f->folder = qt_tmpdir();
    f->cache = qt_format("%s/cache", f->folder);
    f->templates = qt_format("%s/templates", f->folder);
    f->binary = qt_format("%s/race/qrsmith", qt_build());
    qt_output o = qt_run((const char *const[]){"cp", "-r", "templates", f->templates, NULL}, NULL);
    int code = o.code;
    qt_output_free(&o);
    return code;
}

static int tear_down(void **state) {
    fixture *f = *state;
    qt_remove_tree(f->folder);
    free(f->folder);
    free(f->cache);
    free(f->templates);
    free(f->binary);
    free(f);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pack_and_blocked),
        cmocka_unit_test(fused_one_cta),
        cmocka_unit_test(fused_clusters_with_v_in_shared_memory),
        cmocka_unit_test(fused_clusters_with_v_in_scratch),
        cmocka_unit_test(fused_by_rows),
        cmocka_unit_test(fused_by_warpgroups),
        cmocka_unit_test(every_suite),
        cmocka_unit_test(what_is_left_out_is_missed),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
