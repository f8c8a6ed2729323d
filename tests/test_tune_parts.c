/* The tuner's parts: grids, the choice of a winner, the table and its lock, the journal. */
#include "tests/lib/support.h"

#include "runtime/tune/choice.h"
#include "runtime/tune/grid.h"
#include "runtime/tune/journal.h"
#include "runtime/tune/table.h"
#include "tests/lib/templates.h"

#include <fcntl.h>
#include <jansson.h>
#include <locale.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

static qt_templates toys;
static char *room;

static int open_room(void **state) {
    (void)state;
    char *text = qt_family_text("toy",
                                "f.params = { { name = 'a', values = { 1, 2, 3, 4 }, doc = 'a', default = "
                                "function() return 1 end } }",
                                "");
    qt_templates_open(&toys, (const char *const[]){"families/toy.lua", text, NULL});
    room = qt_tmpdir();
    free(text);
    return 0;
}

static int close_room(void **state) {
    (void)state;
    qt_templates_close(&toys);
    qt_remove_tree(room);
    free(room);
    return 0;
}

static void refused_grid(const char *sweep, const char *part) {
    tune_grid *grid = NULL;
    qg_error err = {0};
    char *path = qt_format("%s/grid.json", room);
    char *text = qt_format("{\"format\": \"qrsmith-grid-1\", \"sweeps\": [%s]}", sweep);
    qt_write_text(path, text);
    qt_refused(tune_grid_read(toys.lib, path, &grid, &err), &err, QG_BAD_INPUT, part, NULL);
    free(path);
    free(text);
}

static void grids_are_read_strictly(void **state) {
    (void)state;
#define SHAPES "\"shapes\": [{\"m\": 8, \"batch\": 1}]"
    refused_grid("", "0 sweeps");
    refused_grid("{" SHAPES ", \"family\": \"tyo\"}", "there is no family \"tyo\"");
    refused_grid("{" SHAPES ", \"family\": \"toy\", \"extra\": 1}", "extra");
    refused_grid("{" SHAPES ", \"family\": \"toy\", \"params\": {\"c\": [1]}}", "no such parameter");
    refused_grid("{" SHAPES ", \"family\": \"toy\", \"params\": {\"a\": [5]}}", "$.sweeps[0].params.a[0]");
    refused_grid("{" SHAPES ", \"family\": \"toy\", \"params\": {\"a\": [1, 2, 1]}}", "the integer 1 again");
    refused_grid("{" SHAPES ", \"family\": \"toy\", \"params\": {\"a\": []}}", "a list of 0");
    refused_grid("{" SHAPES ", \"family\": \"toy\", \"params\": {\"a\": 1}}", "the integer 1");
    refused_grid("{" SHAPES ", \"family\": \"toy\", \"params\": []}", "an object: parameter -> list");
    refused_grid("{\"shapes\": [], \"family\": \"toy\"}", "at least one shape");
    refused_grid("{\"shapes\": [{\"m\": 8}], \"family\": \"toy\"}", "batch");
    refused_grid("{\"shapes\": [{\"m\": 0, \"batch\": 1}], \"family\": \"toy\"}", "$.sweeps[0].shapes[0].m");
    refused_grid("{\"shapes\": [{\"m\": 8, \"batch\": 1, \"precision\": \"fp64\"}], \"family\": \"toy\"}",
                 "\"fp32\", \"fp16\" or a list of both");
    refused_grid("{\"shapes\": [{\"m\": 8, \"batch\": 1}, {\"m\": 8, \"n\": 8, \"batch\": 1}], \"family\": "
                 "\"toy\"}",
                 "the same shape again");
}

static void built_in_grids_are_legal(void **state) {
    (void)state;
    static const char *const paths[] = {"configs/grids/small.json", "configs/grids/contest.json"};
    qg_library *lib = NULL;
    qg_error err = {0};
    qt_succeeded(qg_library_open(&(qg_library_options){.untuned = true}, &lib, &err), &err);
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        tune_grid *grid = NULL;
        qt_succeeded(tune_grid_read(lib, paths[i], &grid, &err), &err);
        for (int t = 0; t < grid->target_count; t++) {
            json_t *all = tune_grid_expand(grid, &grid->targets[t]);
            assert_in_range(json_array_size(all), 1, 2000);
            json_decref(all);
        }
        tune_grid_free(grid);
    }
    qg_library_close(lib);
}

static void choices_are_repeatable(void **state) {
    (void)state;
    tune_time times[] = {
        {103, 0, false}, {100.9, 0, false}, {100, 0, false}, {50, 0, true}, {100.5, 0, false}};
    int which[4];
    assert_int_equal(tune_fastest(times, 5), 2);
    assert_int_equal(tune_pick(times, 5), 1);
    assert_int_equal(tune_contenders(times, 5, which, 4), 3);
    assert_int_equal(which[0], 1);
    assert_int_equal(tune_contenders(times, 5, which, 2), 2);
    assert_int_equal(which[1], 2); /* the fastest always */
    times[0].spread = 0.04;        /* a noisy time is near more */
    assert_int_equal(tune_pick(times, 5), 0);
    for (int i = 0; i < 5; i++)
        times[i].out = true;
    assert_int_equal(tune_pick(times, 5), -1);
    double rounds[] = {10, 12, 11, 10, 10};
    tune_time t = tune_rounds(rounds, 5);
    assert_true(t.median == 10 && t.spread == 0.1);
}

static void tables_wait_for_their_lock(void **state) {
    (void)state;
    char *path = qt_format("%s/t.json", room), *lock = qt_format("%s/.t.json.lock", room);
    json_t *entry = json_pack("{s:{s:i}, s:{s:i}, s:f}", "shape", "m", 1, "device", "arch", 90, "x", 0.1);
    qg_error err = {0};
    int fd = open(lock, O_RDWR | O_CREAT, 0600);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    qt_refused(tune_table_merge(path, entry, 0.05, &err), &err, QG_ENVIRONMENT, "lock", NULL);
    assert_false(qt_exists(path));
    close(fd);
    bool comma = qt_comma_locale();
    qt_succeeded(tune_table_merge(path, entry, 1, &err), &err);
    qt_succeeded(tune_table_merge(path, entry, 1, &err), &err);
    if (comma) setlocale(LC_NUMERIC, "C");
    assert_false(qt_exists(lock));
    char *text = qt_read(path, NULL);
    assert_string_equal(text, "{\n  \"format\": \"qrsmith-tuned-1\",\n  \"entries\": [\n    "
                              "{\"shape\": {\"m\": 1}, \"device\": {\"arch\": 90}, \"x\": 0.1}\n  ]\n}\n");
    free(text);
    free(path);
    free(lock);
    json_decref(entry);
}

static void a_journal_has_one_writer(void **state) {
    (void)state;
    char *path = qt_format("%s/j", room);
    tune_journal *first = NULL, *second = NULL;
    qg_error err = {0};
    qt_succeeded(tune_journal_open(path, false, &first, &err), &err);
    qt_refused(tune_journal_open(path, true, &second, &err), &err, QG_ENVIRONMENT, "another sweep", NULL);
    tune_journal_close(first);
    assert_false(qt_exists(path)); /* nothing was written */
    free(path);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_room, close_room)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(grids_are_read_strictly),    TEST(built_in_grids_are_legal), TEST(choices_are_repeatable),
        TEST(tables_wait_for_their_lock), TEST(a_journal_has_one_writer),
    };
    return cmocka_run_group_tests_name("tune_parts", tests, NULL, NULL);
}
