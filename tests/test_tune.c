/* qrsmith tune: grids, candidates, the journal, the choice, the table; and whole sweeps whose measuring
 * worker is a script that crashes, hangs and ties as told. No GPU is needed: the compiler is the stand-in. */
#include "tests/lib/support.h"

#include "tests/lib/fake.h"
#include "tests/lib/templates.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char *folder, *templates, *cache; /* of the whole suite */
static char *room;                       /* of one test */

/* Two parameters that make kernels differ and one that doesn't; one combination is not legal. */
static const char toy[] =
    "f.params = { { name = 'a', values = { 1, 2, 3, 4 }, doc = 'a', default = function() return 1 end },"
    " { name = 'b', values = { 'x', 'y' }, doc = 'b', default = function() return 'x' end },"
    " { name = 'idle', values = { 0, 1 }, doc = 'idle', default = function() return 0 end } }\n"
    "f.legal = function(shape, device, p)\n"
    "  if p.a == 3 and p.b == 'y' then return false, 'three has no y' end\n"
    "  return true\nend\n";
static const char toy_source[] = "QRS_KERNEL(toy_${p.a}_${p.b}, 32, 1)() {}\nQRS_ENTRY(toy_${p.a}_${p.b})";

static int open_suite(void **state) {
    (void)state;
    folder = qt_tmpdir();
    templates = qt_format("%s/templates", folder);
    cache = qt_format("%s/cache", folder);
    char *families = qt_format("%s/families", templates), *path = qt_format("%s/toy.lua", families);
    char *text = qt_family_text("toy", toy, toy_source);
    assert_int_equal(mkdir(templates, 0700) | mkdir(families, 0700), 0);
    qt_write_text(path, text);
    qt_fake_gpu(folder);
    setenv("QRSMITH_CACHE_DIR", cache, 1);
    free(text);
    free(path);
    free(families);
    return 0;
}

static int close_suite(void **state) {
    (void)state;
    qt_remove_tree(folder);
    free(folder);
    free(templates);
    free(cache);
    return 0;
}

static int open_room(void **state) {
    (void)state;
    room = qt_tmpdir();
    return 0;
}

static int close_room(void **state) {
    (void)state;
    qt_remove_tree(room);
    free(room);
    return 0;
}

/* ---- a script in the worker's place ---- */

/* `rules`: shell that sees a request in $line and sets $us, or answers and continues, or comes to grief. */
static void write_worker(const char *rules) {
    char *path = qt_format("%s/worker", room);
    char *text = qt_format(
        "#!/bin/sh\ncd %s\necho start >> starts\n"
        "echo '{\"hello\":\"qrsmith-tune-worker-1\",\"title\":\"GPU 0, Fake\",\"driver\":13000,"
        "\"record\":{\"name\":\"Fake GPU\",\"arch\":90,\"sms\":132,\"smem_optin\":232448,\"smem_sm\":233472,"
        "\"regs\":65536,\"l2\":52428800,\"max_cluster\":8,\"memory\":1000000000}}'\n"
        "while IFS= read -r line; do\n"
        "printf '%%s\\n' \"$line\" >> log\n"
        "us=100\n"
        "case \"$line\" in *'\"prepare\"'*) echo '{\"verdict\":\"ready\"}'; continue;; esac\n"
        "%s\n"
        "case \"$line\" in *'\"validate\"'*) echo '{\"verdict\":\"passed\",\"share\":0.1}'; continue;; esac\n"
        "echo "
        "\"{\\\"verdict\\\":\\\"timed\\\",\\\"median_us\\\":$us,\\\"mean_us\\\":$us,\\\"spread\\\":0.001}\"\n"
        "done\n",
        room, rules);
    qt_write_text(path, text);
    assert_int_equal(chmod(path, 0700), 0);
    free(text);
    free(path);
}

static const char grid_text[] = "{\"format\": \"qrsmith-grid-1\", \"sweeps\": [{\"shapes\": [{\"m\": 8, "
                                "\"batch\": 20}], \"family\": \"toy\","
                                " \"params\": {\"a\": [1, 2, 3], \"b\": \"all\"}}]}";

static void write_grid(const char *text) {
    char *path = qt_format("%s/grid.json", room);
    qt_write_text(path, text);
    free(path);
}

static qt_output tune(const char *option, const char *value) {
    char *grid = qt_format("%s/grid.json", room), *table = qt_format("%s/table.json", room);
    char *worker = qt_format("QRSMITH_TUNE_WORKER=%s/worker", room);
    char *files = qt_format("QRSMITH_TEMPLATES=%s", templates);
    const char *const argv[] = {qt_bin(), "tune",          grid,   "-o",   table, "-j",
                                "2",      "--max-seconds", "0.01", option, value, NULL};
    const char *const env[] = {worker, files, NULL};
    qt_output output = qt_run(argv, env);
    free(grid);
    free(table);
    free(worker);
    free(files);
    return output;
}

static void expect(const char *option, const char *value, int code, const char *part) {
    qt_output o = tune(option, value);
    if (o.code != code) fail_msg("exit code %d, not %d\n%s%s", o.code, code, o.out, o.err);
    if (part) qt_assert_contains(code > 1 ? o.err : o.out, part);
    qt_output_free(&o);
}

static char *file(const char *name) {
    char *path = qt_format("%s/%s", room, name);
    char *text = qt_exists(path) ? qt_read(path, NULL) : strdup("");
    free(path);
    return text;
}

static int count_in(const char *name, const char *part) {
    char *text = file(name);
    int count = 0;
    for (const char *at = text; (at = strstr(at, part)); at += strlen(part))
        count++;
    free(text);
    return count;
}

static void forget(const char *name) {
    char *path = qt_format("%s/%s", room, name);
    unlink(path);
    free(path);
}

static json_t *table(void) {
    char *text = file("table.json");
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    if (!root) fail_msg("not JSON: %s", text);
    free(text);
    return root;
}

static void expect_winner(int a, const char *b) {
    json_t *root = table(), *entries = json_object_get(root, "entries");
    json_t *params = json_object_get(json_array_get(entries, json_array_size(entries) - 1), "params");
    assert_int_equal(json_integer_value(json_object_get(params, "a")), a);
    assert_string_equal(json_string_value(json_object_get(params, "b")), b);
    json_decref(root);
}

/* ---- whole sweeps ---- */

static void the_fastest_is_stored_with_its_provenance(void **state) {
    (void)state;
    write_grid(grid_text);
    write_worker("case \"$line\" in *'\"a\":2,\"b\":\"y\"'*) us=50;; esac");
    expect(NULL, NULL, 0, "50.00 us  2.00 x default  toy a=2 b=y");
    json_t *root = table(), *entry = json_array_get(json_object_get(root, "entries"), 0);
    json_t *provenance = json_object_get(entry, "provenance");
    assert_string_equal(json_string_value(json_object_get(provenance, "device")), "Fake GPU");
    assert_int_equal(json_integer_value(json_object_get(provenance, "driver")), 13000);
    assert_true(json_number_value(json_object_get(provenance, "default_us")) == 100);
    assert_int_equal(json_integer_value(json_object_get(provenance, "candidates")), 5);
    assert_int_equal(strlen(json_string_value(json_object_get(provenance, "date"))), 20);
    assert_non_null(json_object_get(provenance, "version"));
    assert_int_equal(json_integer_value(json_object_get(json_object_get(entry, "shape"), "batch")), 20);
    json_decref(root);
    assert_int_equal(count_in("table.json.journal", "\"begin\""), 6); /* five, and the winner's validation */
    assert_int_equal(count_in("table.json.journal", "three has no y"), 1);
    assert_int_equal(count_in("table.json.journal", "\"winner\""), 1);
    assert_int_equal(count_in("log", "\"validate\""), 1);
}

static void the_table_is_one_that_plans_read(void **state) {
    (void)state;
    write_grid(grid_text);
    write_worker("case \"$line\" in *'\"a\":2,\"b\":\"y\"'*) us=50;; esac");
    expect(NULL, NULL, 0, "1 of 1 shapes decided");
    qg_library *lib = NULL;
    qg_plan *plan = NULL;
    qg_device device;
    qg_error err = {0};
    char *path = qt_format("%s/table.json", room);
    qg_shape shape = {.m = 8, .n = 8, .max_batch = 20};
    qt_succeeded(qg_library_open(&(qg_library_options){.templates = templates, .tuned = path}, &lib, &err),
                 &err);
    qt_succeeded(qg_device_profile("h200", &device, &err), &err);
    qt_succeeded(qg_plan_make(lib, &shape, &device, NULL, &plan, &err), &err);
    assert_int_equal(plan->grade, QG_GRADE_TUNED);
    assert_int_equal(json_integer_value(json_object_get(plan->params, "a")), 2);
    qg_plan_free(plan);
    qg_library_close(lib);
    free(path);
}

static void kernels_that_are_the_same_are_timed_once(void **state) {
    (void)state;
    write_grid("{\"format\": \"qrsmith-grid-1\", \"sweeps\": [{\"shapes\": [{\"m\": 8, \"batch\": 20}], "
               "\"family\": \"toy\", \"params\": {\"a\": [1, 2], \"idle\": [1, 0]}}]}");
    write_worker("case \"$line\" in *'\"a\":2'*) us=50;; esac");
    expect(NULL, NULL, 0, "[2 candidates: 2 timed; 2 the same kernels as another]");
}

static void resume_times_only_what_is_new(void **state) {
    (void)state;
    write_grid(grid_text);
    write_worker("case \"$line\" in *'\"a\":2,\"b\":\"y\"'*) us=50;; *'\"a\":4'*) us=40;; esac");
    expect(NULL, NULL, 0, NULL);
    forget("log");
    forget("table.json");
    expect("--resume", NULL, 0, "5 known from before");
    assert_int_equal(count_in("log", "\"job\""), 0);
    expect_winner(2, "y"); /* the table that was lost is there again */
    write_grid("{\"format\": \"qrsmith-grid-1\", \"sweeps\": [{\"shapes\": [{\"m\": 8, \"batch\": 20}], "
               "\"family\": \"toy\", \"params\": {\"a\": [4, 1, 2, 3], \"b\": [\"x\", \"y\"]}}]}");
    expect("--resume", NULL, 0, NULL);
    assert_int_equal(count_in("log", "\"measure\""), 2);
    expect_winner(4, "x");
    forget("log");
    expect(NULL, NULL, 0, NULL); /* without --resume everything is measured */
    assert_int_equal(count_in("log", "\"measure\""), 7);
}

static void a_crash_is_a_candidates_own(void **state) {
    (void)state;
    write_grid(grid_text);
    write_worker("case \"$line\" in *'\"a\":2,\"b\":\"x\"'*) kill -9 $$;; *'\"a\":3'*) us=70;; esac");
    expect(NULL, NULL, 0, "4 timed, 1 crashed");
    assert_int_equal(count_in("starts", "start"), 3); /* tried once more */
    assert_int_equal(count_in("table.json.journal", "signal 9"), 2);
    expect_winner(3, "x");
    forget("log");
    expect("--resume", NULL, 0, "5 known from before");
    assert_int_equal(count_in("log", "\"measure\""), 0); /* two crashes are final */
}

static void who_crashed_once_may_still_win(void **state) {
    (void)state;
    write_grid(grid_text);
    write_worker("case \"$line\" in *'\"a\":2,\"b\":\"x\"'*) us=10; "
                 "if [ ! -e crashed ]; then echo > crashed; exit 7; fi;; esac");
    expect(NULL, NULL, 0, "5 timed");
    assert_int_equal(count_in("table.json.journal", "ended with code 7"), 1);
    expect_winner(2, "x");
}

static void a_device_error_ends_the_worker(void **state) {
    (void)state;
    write_grid(grid_text);
    write_worker("case \"$line\" in *'\"a\":2,\"b\":\"x\"'*) "
                 "echo '{\"verdict\":\"crashed\",\"why\":\"an illegal access\"}'; continue;; esac");
    expect(NULL, NULL, 0, "4 timed, 1 crashed");
    assert_int_equal(count_in("starts", "start"), 3);
}

static void nonsense_from_the_worker_is_a_crash(void **state) {
    (void)state;
    write_grid(grid_text);
    write_worker("case \"$line\" in *'\"a\":2,\"b\":\"x\"'*) echo 'Segmentation fault'; continue;; esac");
    expect(NULL, NULL, 0, "4 timed, 1 crashed");
}

static void a_hang_is_ended_and_stays_open(void **state) {
    (void)state;
    write_grid(grid_text);
    write_worker("case \"$line\" in *'\"a\":2,\"b\":\"x\"'*) sleep 1000;; esac");
    expect("--timeout", "0.5", 0, "4 timed, 1 timeout");
    assert_int_equal(count_in("table.json.journal", "no answer within 0.5 s"), 2);
    write_worker("case \"$line\" in *'\"a\":2,\"b\":\"x\"'*) us=10;; esac");
    forget("log");
    expect("--resume", NULL, 0, "4 known from before"); /* a timeout is no verdict */
    assert_int_equal(count_in("log", "\"measure\""), 1);
    expect_winner(2, "x");
}

static void a_torn_journal_serves(void **state) {
    (void)state;
    write_grid(grid_text);
    write_worker("case \"$line\" in *'\"a\":2,\"b\":\"y\"'*) us=50;; esac");
    expect(NULL, NULL, 0, NULL);
    char *text = file("table.json.journal"), *path = qt_format("%s/table.json.journal", room);
    char *last = strstr(text, "\"verdict\",\"key\"");
    for (char *next; (next = strstr(last + 1, "\"verdict\",\"key\""));)
        last = next; /* the last verdict; everything from its middle on is lost */
    qt_write(path, text, (size_t)(last + 40 - text));
    forget("log");
    qt_output o = tune("--resume", NULL);
    assert_int_equal(o.code, 0);
    qt_assert_contains(o.err, "1 line");
    qt_assert_contains(o.out, "4 known from before");
    assert_int_equal(count_in("log", "\"measure\""), 1);
    qt_output_free(&o);
    expect("--resume", NULL, 0, "5 known from before");
    free(text);
    free(path);
}

static void near_ties_go_by_the_fixed_order(void **state) {
    (void)state;
    write_grid(grid_text);
    /* All within 1 %, each time a little different: the default wins. */
    write_worker("n=$(wc -l < log); us=$((1000 + n * 7 % 5))");
    for (int i = 0; i < 3; i++) {
        expect(NULL, NULL, 0, "1.0");
        expect_winner(1, "x");
    }
    assert_true(count_in("log", "\"time\"") >= 3 * 5 * 5);
    /* The default is slower; of the others the first by parameters, although a later one is faster. */
    write_worker("us=1000; case \"$line\" in *'\"a\":1,\"b\":\"x\"'*) us=2000;; *'\"a\":3'*) us=995;; "
                 "*'\"a\":1,\"b\":\"y\"'*) us=1500;; esac");
    expect(NULL, NULL, 0, "1000.00 us  2.00 x default");
    expect_winner(2, "x");
}

static void a_winner_must_stand_other_inputs(void **state) {
    (void)state;
    write_grid(grid_text);
    write_worker(
        "case \"$line\" in *'\"validate\"'*'\"a\":3'*) echo '{\"verdict\":\"wrong\",\"why\":\"8 of 9\"}'; "
        "continue;; *'\"a\":3'*) us=50;; *'\"a\":2,\"b\":\"x\"'*) us=60;; esac");
    expect(NULL, NULL, 0, "4 timed, 1 wrong");
    expect_winner(2, "x");
}

static void a_shape_without_a_winner_fails_the_sweep(void **state) {
    (void)state;
    write_grid(grid_text);
    write_worker("echo '{\"verdict\":\"wrong\",\"why\":\"off by one\"}'; continue");
    expect(NULL, NULL, 1, "no winner: off by one");
    char *path = qt_format("%s/table.json", room);
    assert_false(qt_exists(path));
    free(path);
}

static void other_entries_stay_in_the_table(void **state) {
    (void)state;
    char *path = qt_format("%s/table.json", room);
    qt_write_text(path,
                  "{\"format\": \"qrsmith-tuned-1\", \"about\": \"ours\", \"entries\": [{\"odd\": [1.5]}, "
                  "{\"shape\": {\"m\": 8, \"n\": 8, \"precision\": \"fp32\", \"layout_in\": \"row\", "
                  "\"layout_out\": \"row\", \"batch\": 20}, \"device\": {\"arch\": 90, \"sms\": 132}, "
                  "\"family\": \"toy\", \"params\": {\"a\": 4}}]}");
    write_grid(grid_text);
    write_worker("case \"$line\" in *'\"a\":2,\"b\":\"y\"'*) us=50;; esac");
    expect(NULL, NULL, 0, NULL);
    expect_winner(2, "y");
    json_t *root = table(), *entries = json_object_get(root, "entries");
    assert_int_equal(json_array_size(entries), 2);
    assert_non_null(json_object_get(json_array_get(entries, 0), "odd"));
    assert_string_equal(json_string_value(json_object_get(root, "about")), "ours");
    json_decref(root);
    qt_write_text(path, "{\"format\": \"qrsmith-tu");
    expect(NULL, NULL, 2, "table.json");
    assert_int_equal(count_in("table.json", "qrsmith-tu"), 1); /* left alone */
    free(path);
}

static void json_says_all(void **state) {
    (void)state;
    write_grid(grid_text);
    write_worker("");
    qt_output o = tune("--json", NULL);
    json_t *root = json_loads(o.out, 0, NULL), *one = json_array_get(json_object_get(root, "shapes"), 0);
    assert_int_equal(o.code, 0);
    assert_int_equal(json_integer_value(json_object_get(root, "decided")), 1);
    assert_int_equal(json_integer_value(json_object_get(one, "illegal")), 1);
    assert_int_equal(json_integer_value(json_object_get(one, "timed")), 5);
    assert_true(json_is_object(json_object_get(one, "winner")));
    json_decref(root);
    qt_output_free(&o);
}

static void a_killed_sweep_goes_on(void **state) {
    (void)state;
    write_grid(grid_text);
    write_worker("case \"$line\" in *'\"a\":2,\"b\":\"x\"'*) kill -9 $PPID; exit;; esac");
    expect(NULL, NULL, 137, NULL);
    write_worker("case \"$line\" in *'\"a\":2,\"b\":\"y\"'*) us=50;; esac");
    forget("log");
    expect("--resume", NULL, 0, "2 known from before");
    char *text = file("log"), *last = strstr(text, "\"measure\"");
    for (char *next; (next = strstr(last + 1, "\"measure\""));)
        last = next;
    qt_assert_contains(last, "\"a\":2,\"b\":\"x\""); /* the suspect comes last */
    expect_winner(2, "y");
    free(text);
}

static void templates_must_not_change_meanwhile(void **state) {
    (void)state;
    write_grid(grid_text);
    write_worker("echo '{\"verdict\":\"timed\",\"median_us\":1,\"plan\":\"another\"}'; continue");
    expect(NULL, NULL, 3, "the templates changed");
    assert_int_equal(count_in("table.json.journal", "\"verdict\""), 0);
}

static void two_sweeps_share_a_table(void **state) {
    (void)state;
    char *script = qt_format(
        "cd %s && for m in 8 9 10 11; do "
        "echo '{\"format\": \"qrsmith-grid-1\", \"sweeps\": [{\"shapes\": [{\"m\": '$m', \"batch\": 2}], "
        "\"family\": \"toy\"}]}' > g$m.json; "
        "\"$0\" tune g$m.json -o table.json --journal j$m --max-seconds 0.01 || echo bad & done; wait",
        room);
    char *worker = qt_format("QRSMITH_TUNE_WORKER=%s/worker", room), *bin = realpath(qt_bin(), NULL);
    char *files = qt_format("QRSMITH_TEMPLATES=%s", templates);
    write_worker("");
    qt_output o = qt_run((const char *const[]){"sh", "-c", script, bin, NULL},
                         (const char *const[]){worker, files, NULL});
    if (strstr(o.out, "bad")) fail_msg("%s%s", o.out, o.err);
    json_t *root = table();
    assert_int_equal(json_array_size(json_object_get(root, "entries")), 4);
    json_decref(root);
    qt_output_free(&o);
    free(script);
    free(worker);
    free(bin);
    free(files);
}

/* ---- without or with another GPU ---- */

static void without_a_gpu_it_says_so(void **state) {
    (void)state;
    write_grid(grid_text);
    char *grid = qt_format("%s/grid.json", room), *path = qt_format("%s/t.json", room);
    char *files = qt_format("QRSMITH_TEMPLATES=%s", templates), *journal = qt_format("%s.journal", path);
    const char *const env[] = {files, "QRSMITH_CUDA=/nonexistent/libcuda.so.1", NULL};
    qt_output o = qt_run((const char *const[]){qt_bin(), "tune", grid, "-o", path, NULL}, env);
    assert_int_equal(o.code, 3);
    qt_assert_contains(o.err, "qrsmith: GPU: there is none");
    assert_false(qt_exists(path) || qt_exists(journal));
    qt_output_free(&o);
    o = qt_run((const char *const[]){qt_bin(), "tune", grid, "-o", "/nonexistent/t.json", NULL}, env);
    assert_int_equal(o.code, 2);
    qt_output_free(&o);
    o = qt_run((const char *const[]){qt_bin(), "tune", grid, "-o", path, "--device", "cpu", NULL}, env);
    assert_int_equal(o.code, 2);
    qt_output_free(&o);
    free(grid);
    free(path);
    free(files);
    free(journal);
}

/* The stand-in's kernels do nothing: the real worker must find every candidate wrong, on the first kind. */
static void the_real_worker_judges(void **state) {
    (void)state;
    write_grid("{\"format\": \"qrsmith-grid-1\", \"sweeps\": [{\"shapes\": [{\"m\": 9, \"batch\": 3}], "
               "\"family\": \"blocked\", \"params\": {\"panel\": [16, 32]}}]}");
    char *grid = qt_format("%s/grid.json", room), *path = qt_format("%s/t.json", room);
    qt_output o = qt_qrsmith("tune", grid, "-o", path, "--device", "0", "--max-seconds", "0.01");
    if (o.code != 1) fail_msg("exit code %d\n%s%s", o.code, o.out, o.err);
    qt_assert_contains(o.out, "GPU 0, Fake GPU");
    qt_assert_contains(o.out, "no winner: fp32 3 x 9 x 9 dense");
    qt_assert_contains(o.out, " wrong]");
    qt_output_free(&o);
    free(grid);
    free(path);
}

/* On the host executor kernels compute: a whole sweep with the real worker. */
static void the_real_worker_times(void **state) {
    (void)state;
    write_grid(
        "{\"format\": \"qrsmith-grid-1\", \"sweeps\": [{\"shapes\": [{\"m\": 4, \"n\": 3, \"batch\": 9, "
        "\"layout_out\": \"col\"}], \"family\": \"pack\", \"params\": {\"lanes\": \"all\"}}]}");
    char *worker = qt_format("%s/worker", room), *bin = realpath(qt_bin(), NULL);
    char *text = qt_format("#!/bin/sh\nexec %s tune-worker --device cpu\n", bin);
    char *setting = qt_format("QRSMITH_TUNE_WORKER=%s", worker);
    char *grid = qt_format("%s/grid.json", room), *path = qt_format("%s/table.json", room);
    qt_write_text(worker, text);
    chmod(worker, 0700);
    const char *const argv[] = {qt_bin(),        "tune", grid,        "-o",  path,
                                "--max-seconds", "0.05", "--timeout", "300", NULL};
    const char *const env[] = {setting, NULL};
    qt_output o = qt_run(argv, env);
    if (o.code) fail_msg("exit code %d\n%s%s", o.code, o.out, o.err);
    qt_assert_contains(o.out, "1 of 1 shapes decided");
    json_t *root = table(), *entry = json_array_get(json_object_get(root, "entries"), 0);
    assert_string_equal(json_string_value(json_object_get(entry, "family")), "pack");
    json_decref(root);
    qt_output_free(&o);
    free(worker);
    free(bin);
    free(text);
    free(setting);
    free(grid);
    free(path);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_room, close_room)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(the_fastest_is_stored_with_its_provenance),
        TEST(the_table_is_one_that_plans_read),
        TEST(kernels_that_are_the_same_are_timed_once),
        TEST(resume_times_only_what_is_new),
        TEST(a_crash_is_a_candidates_own),
        TEST(who_crashed_once_may_still_win),
        TEST(a_device_error_ends_the_worker),
        TEST(nonsense_from_the_worker_is_a_crash),
        TEST(a_hang_is_ended_and_stays_open),
        TEST(a_torn_journal_serves),
        TEST(near_ties_go_by_the_fixed_order),
        TEST(a_winner_must_stand_other_inputs),
        TEST(a_shape_without_a_winner_fails_the_sweep),
        TEST(other_entries_stay_in_the_table),
        TEST(json_says_all),
        TEST(a_killed_sweep_goes_on),
        TEST(templates_must_not_change_meanwhile),
        TEST(two_sweeps_share_a_table),
        TEST(without_a_gpu_it_says_so),
        TEST(the_real_worker_judges),
        TEST(the_real_worker_times),
    };
    return cmocka_run_group_tests_name("tune", tests, open_suite, close_suite);
}
