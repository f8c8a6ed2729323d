/* The commands that compute, on the CPU: factor against LAPACK, check, bench, compile; and that a failure
 * leaves no file behind. */
#include "tests/lib/support.h"
#include "tests/lib/truth.h"

#include "runtime/cli/npy.h"
#include "runtime/judge/contract.h"
#include <dirent.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char *folder, *in_path, *h_path, *tau_path;

static int make_folder(void **state) {
    (void)state;
    folder = qt_tmpdir();
    in_path = qt_format("%s/a.npy", folder);
    h_path = qt_format("%s/h.npy", folder);
    tau_path = qt_format("%s/tau.npy", folder);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    qt_remove_tree(folder);
    free(in_path);
    free(h_path);
    free(tau_path);
    free(folder);
    return 0;
}

static void expect_code(const qt_output *o, int code) {
    if (o->code != code) fail_msg("exit code %d, not %d\n%s%s", o->code, code, o->out, o->err);
}

static const char *last_line(const char *text) {
    const char *line = text;
    for (const char *c = text; *c; c++)
        if (*c == '\n' && c[1]) line = c + 1;
    return line;
}

static json_t *parse(const char *text) {
    json_error_t trouble;
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &trouble);
    if (!root) fail_msg("line %d: %s\n%s", trouble.line, trouble.text, text);
    return root;
}

/* ---- factor ---- */

static void write_npy(const char *path, const npy_array *a) {
    FILE *f = fopen(path, "wb");
    assert_true(f && npy_write(f, a) && !fclose(f));
}

static npy_array read_npy(const char *path) {
    npy_array a;
    qg_error err = {0};
    if (npy_read(path, &a, &err) != QG_OK) fail_msg("%s: %s", err.what, err.why);
    return a;
}

/* Small whole numbers that no matrix repeats exactly. */
static float element(int64_t b, int64_t i, int64_t j) {
    uint32_t x = (uint32_t)(b * 7919 + i * 104729 + j * 1299709 + 12345) * 2654435761u;
    return (float)((int32_t)(x >> 12) % 2001 - 1000) / 64;
}

/* Where element (b, i, j) of a file lies among its elements. */
static size_t place(const npy_array *a, int64_t b, int64_t i, int64_t j) {
    bool many = a->dims == 3;
    int64_t batch = many ? a->shape[0] : 1, m = a->shape[many], n = a->shape[many + 1];
    return (size_t)(a->fortran ? b + batch * (i + m * j) : (b * m + i) * n + j);
}

static npy_array make_array(int dims, int64_t batch, int64_t m, int64_t n, bool fortran) {
    npy_array a = {dims, {dims == 3 ? batch : m, dims == 3 ? m : n, dims == 3 ? n : 0}, fortran, NULL};
    a.data = malloc(sizeof(float) * (size_t)(npy_count(&a) + 1));
    for (int64_t b = 0; b < batch; b++)
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++)
                a.data[place(&a, b, i, j)] = element(b, i, j);
    return a;
}

/* One matrix of a file, by rows. */
static qt_matrix take_matrix(const npy_array *a, int64_t b, float *into) {
    bool many = a->dims == 3;
    qt_matrix out = {into, a->shape[many], a->shape[many + 1], a->shape[many + 1], QG_ROW};
    for (int64_t i = 0; i < out.m; i++)
        for (int64_t j = 0; j < out.n; j++)
            qt_set(&out, i, j, a->data[place(a, b, i, j)]);
    return out;
}

/* tau's files are one-dimensional for one matrix, which npy_read refuses: read it by hand. */
static float *read_tau(int64_t count) {
    size_t size;
    char *bytes = qt_read(tau_path, &size);
    float *tau = malloc(sizeof(float) * (size_t)count + 1);
    assert_true(size >= 4 * (size_t)count + 64);
    memcpy(tau, bytes + size - 4 * (size_t)count, 4 * (size_t)count);
    free(bytes);
    return tau;
}

static void judge_files(const npy_array *a, qg_precision precision) {
    npy_array h = read_npy(h_path);
    bool many = a->dims == 3;
    int64_t batch = many ? a->shape[0] : 1, m = a->shape[many], n = a->shape[many + 1], k = m < n ? m : n;
    float *tau = read_tau(batch * k), *ma = malloc(sizeof(float) * (size_t)(m * n)),
          *mh = malloc(sizeof(float) * (size_t)(m * n));
    qj_limits limits = qj_limits_for(m, n, precision);
    assert_int_equal(h.dims, a->dims);
    assert_memory_equal(h.shape, a->shape, sizeof h.shape);
    for (int64_t b = 0; b < batch; b++) {
        double gates[4];
        qt_matrix one = take_matrix(a, b, ma), factored = take_matrix(&h, b, mh);
        qt_gates(&one, &factored, tau + b * k, gates);
        qj_verdict v = qj_judge(&limits, gates, 1);
        char text[256];
        if (!v.pass) fail_msg("matrix %lld: %s", (long long)b, qj_verdict_text(&v, text, sizeof text));
    }
    free(tau);
    free(ma);
    free(mh);
    npy_free(&h);
}

static void factors_every_order(void **state) {
    (void)state;
    for (int dims = 2; dims <= 3; dims++)
        for (int fortran = 0; fortran <= 1; fortran++) {
            npy_array a = make_array(dims, dims == 3 ? 3 : 1, 9, 5, fortran);
            write_npy(in_path, &a);
            qt_output o =
                qt_qrsmith("factor", in_path, "-o", h_path, "--tau", tau_path, "--device", "cpu", "--check");
            expect_code(&o, 0);
            assert_string_equal(o.err, "");
            qt_assert_contains(o.out, "factor residual");
            judge_files(&a, QG_FP32);
            npy_array h = read_npy(h_path);
            assert_int_equal(h.fortran, fortran); /* the input's order */
            npy_free(&h);
            npy_free(&a);
            qt_output_free(&o);
        }
}

static void factors_wide_and_in_fp16(void **state) {
    (void)state;
    npy_array a = make_array(3, 2, 5, 9, false);
    write_npy(in_path, &a);
    qt_output o = qt_qrsmith("factor", in_path, "-o", h_path, "--tau", tau_path, "--device", "cpu",
                             "--precision", "fp16");
    expect_code(&o, 0);
    judge_files(&a, QG_FP16);
    qt_output_free(&o);
    o = qt_qrsmith("factor", in_path, "-o", h_path, "--tau", tau_path, "--device=cpu", "--layout=col");
    expect_code(&o, 0);
    judge_files(&a, QG_FP32);
    npy_array h = read_npy(h_path);
    assert_true(h.fortran);
    npy_free(&h);
    qt_output_free(&o);
    npy_free(&a);
}

static void writes_over_its_own_input(void **state) {
    (void)state;
    npy_array a = make_array(2, 1, 9, 5, false);
    write_npy(h_path, &a);
    qt_output o = qt_qrsmith("factor", h_path, "-o", h_path, "--tau", tau_path, "--device", "cpu");
    expect_code(&o, 0);
    judge_files(&a, QG_FP32);
    qt_output_free(&o);
    npy_free(&a);
}

static void empty_arrays_give_empty_results(void **state) {
    (void)state;
    static const int64_t shapes[][3] = {{1, 0, 4}, {1, 4, 0}, {0, 3, 3}, {5, 0, 0}};
    for (int i = 0; i < 4; i++) {
        npy_array a = make_array(i < 2 ? 2 : 3, shapes[i][0], shapes[i][1], shapes[i][2], false);
        write_npy(in_path, &a);
        qt_output o =
            qt_qrsmith("factor", in_path, "-o", h_path, "--tau", tau_path, "--device", "cpu", "--check");
        expect_code(&o, 0);
        npy_array h = read_npy(h_path);
        assert_memory_equal(h.shape, a.shape, sizeof h.shape);
        npy_free(&h);
        npy_free(&a);
        qt_output_free(&o);
    }
}

static void a_nan_stays_in_its_matrix(void **state) {
    (void)state;
    npy_array a = make_array(3, 3, 9, 5, false);
    a.data[place(&a, 1, 4, 2)] = NAN;
    write_npy(in_path, &a);
    qt_output o =
        qt_qrsmith("factor", in_path, "-o", h_path, "--tau", tau_path, "--device", "cpu", "--check");
    expect_code(&o, 1);
    qt_assert_contains(o.err, "1 of 3 matrices hold NaN or Inf");
    npy_array h = read_npy(h_path);
    assert_true(isfinite(h.data[place(&h, 0, 4, 2)]) && isfinite(h.data[place(&h, 2, 4, 2)]));
    npy_free(&h);
    npy_free(&a);
    qt_output_free(&o);
}

/* ---- factor: nothing half-written ---- */

/* Files in the folder, hidden and temporary ones too. */
static int count_files(void) {
    int count = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *e; (e = readdir(dir));)
        count += strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
    closedir(dir);
    return count;
}

static void refuse(const char *h, const char *tau, const char *const env[], int code, const char *part) {
    unlink(h_path);
    qt_write_text(tau_path, "old");
    int before = count_files();
    const char *const argv[] = {qt_bin(), "factor", in_path, "-o", h, "--tau", tau, "--device", "cpu", NULL};
    qt_output o = qt_run(argv, env);
    expect_code(&o, code);
    assert_string_equal(o.out, "");
    qt_assert_contains(o.err, part);
    assert_int_equal(count_files(), before);
    char *old = qt_read(tau_path, NULL);
    assert_string_equal(old, "old");
    free(old);
    qt_output_free(&o);
}

static void failures_leave_no_file(void **state) {
    (void)state;
    char *deep = qt_format("%s/no/h.npy", folder), *link_path = qt_format("%s/link.npy", folder);
    char *no_cache = qt_format("QRSMITH_CACHE_DIR=%s/empty", folder);
    const char *const no_compiler[] = {"CXX=/nonexistent/c++", no_cache, NULL};
    const char *const idle_compiler[] = {"CXX=/bin/true", no_cache, NULL};
    npy_array a = make_array(2, 1, 9, 5, false);
    write_npy(in_path, &a);
    assert_int_equal(mkdir(strchr(no_cache, '=') + 1, 0700), 0);
    assert_int_equal(symlink(tau_path, link_path), 0);
    refuse(deep, tau_path, NULL, 2, "No such file");
    refuse(h_path, deep, NULL, 2, "No such file");
    refuse(folder, tau_path, NULL, 2, "not a regular file");
    refuse(h_path, folder, NULL, 2, "not a regular file");
    refuse("/dev/null", tau_path, NULL, 2, "not a regular file");
    refuse(tau_path, tau_path, NULL, 2, "named for two outputs");
    refuse(link_path, tau_path, NULL, 2, "named for two outputs");
    refuse(h_path, tau_path, no_compiler, 3, "/nonexistent/c++");
    refuse(h_path, tau_path, idle_compiler, 3, "/bin/true says it is done, but there is no object.so");
    qt_write_text(in_path, "not an array");
    refuse(h_path, tau_path, NULL, 2, "does not begin as a .npy file");
    unlink(in_path);
    refuse(h_path, tau_path, NULL, 2, "No such file");
    unlink(link_path);
    free(deep);
    free(link_path);
    free(no_cache);
    npy_free(&a);
}

static void a_missing_gpu_is_the_environments_fault(void **state) {
    (void)state;
    const char *const env[] = {"QRSMITH_CUDA=/nonexistent/libcuda.so", NULL};
    npy_array a = make_array(2, 1, 9, 5, false);
    write_npy(in_path, &a);
    qt_output o = qt_run((const char *const[]){qt_bin(), "factor", in_path, "-o", h_path, "--tau", tau_path,
                                               "--device", "0", NULL},
                         env);
    expect_code(&o, 3);
    qt_output_free(&o);
    o = qt_run((const char *const[]){qt_bin(), "factor", in_path, "-o", h_path, "--tau", tau_path, NULL},
               env);
    expect_code(&o, 0);
    qt_assert_contains(o.err, "using CPU");
    qt_output_free(&o);
    o = qt_run((const char *const[]){qt_bin(), "bench", "--shape", "2x9x5", NULL}, env);
    expect_code(&o, 3);
    qt_assert_contains(o.err, "--device cpu");
    qt_output_free(&o);
    npy_free(&a);
}

/* ---- check ---- */

static void check_counts_its_cases(void **state) {
    (void)state;
    qt_output o = qt_qrsmith("check", "--shape", "3x9x5", "--device", "cpu");
    expect_code(&o, 0);
    assert_string_equal(last_line(o.out), "1 passed, 0 failed\n");
    qt_assert_contains(o.out, "fp32 3 x 9 x 5 dense");
    qt_assert_contains(o.out, "products fp32");
    qt_output_free(&o);
    o = qt_qrsmith("check", "--shape", "3x9x5", "--device", "cpu", "--precision", "both", "--json");
    expect_code(&o, 0);
    json_t *root = parse(o.out);
    assert_int_equal(json_integer_value(json_object_get(root, "passed")), 2);
    assert_int_equal(json_array_size(json_object_get(root, "cases")), 2);
    json_decref(root);
    qt_output_free(&o);
}

/* Three rows leave nothing to average over: what products of split halves lose is more than these matrices
 * are allowed, so the default plan forms none (1.19, 1.01 and 1.20 of the limit by --family fused). */
static void collinear_columns_of_few_rows_keep_the_contract(void **state) {
    (void)state;
    char *path = qt_format("%s/few.json", folder);
    qt_write_text(path, "{\"format\": \"qrsmith-suite-1\", \"name\": \"few\", \"about\": \"-\", \"tests\": ["
                        "{\"batch\": 4, \"m\": 3, \"n\": 129, \"kind\": \"collinear\", \"cond\": 4, "
                        "\"seed\": 538913, \"value\": 0.0043},"
                        "{\"batch\": 4, \"m\": 3, \"n\": 160, \"kind\": \"collinear\", \"cond\": 0, "
                        "\"seed\": 637365, \"value\": 0.0054},"
                        "{\"batch\": 200, \"m\": 3, \"n\": 200, \"kind\": \"collinear\", \"cond\": 0, "
                        "\"seed\": 1, \"value\": 0.005}]}");
    qt_output o = qt_qrsmith("check", path, "--device", "cpu");
    expect_code(&o, 0);
    assert_string_equal(last_line(o.out), "3 passed, 0 failed\n");
    qt_output_free(&o);
    free(path);
}

static void a_plan_that_is_not_legal_is_told(void **state) {
    (void)state;
    qt_output o =
        qt_qrsmith("check", "--shape", "3x9x5", "--device", "cpu", "--family", "pack", "--set", "lanes=7");
    expect_code(&o, 2);
    qt_assert_contains(o.out, "none  fp32 3 x 9 x 5");
    qt_output_free(&o);
}

/* A family that leaves H as it was: check must say so, bench must show no time. */
static const char idle_family[] =
    "return {\n"
    "  name = 'idle', op = 'geqrf', summary = 'does nothing', params = {},\n"
    "  legal = function(shape, device, p) return true end,\n"
    "  rank = function(shape, device) return 99 end,\n"
    "  resources = function(shape, device, p)\n"
    "    return { threads = 32, smem = 0, registers = 16, l2 = 0 }\n"
    "  end,\n"
    "  vars = function(shape, device, p) return {} end,\n"
    "  program = function(shape, device, p, v)\n"
    "    return { products = 'fp32', buffers = {}, ops = {\n"
    "      { op = 'launch', kernel = 'idle', grid = { 1, 1, 1 }, block = 32, cluster = 1,\n"
    "        smem = 0, cooperative = false, args = { { pointer = 'H' } } } } }\n"
    "  end,\n"
    "}\n"
    "--[==[ source\n"
    "#include \"device/core.cuh\"\n"
    "using namespace qrs;\n"
    "QRS_KERNEL(idle, 32, 1)(float *H) { (void)H; }\n"
    "QRS_ENTRY(idle)\n"
    "]==]\n";

static void wrong_results_fail(void **state) {
    (void)state;
    char *templates = qt_format("%s/templates", folder),
         *family = qt_format("%s/families/idle.lua", templates);
    char *env_text = qt_format("QRSMITH_TEMPLATES=%s", templates), *json = qt_format("%s/bench.json", folder);
    const char *const env[] = {env_text, NULL};
    qt_output o = qt_run((const char *const[]){"cp", "-r", "templates", templates, NULL}, NULL);
    expect_code(&o, 0);
    qt_output_free(&o);
    qt_write_text(family, idle_family);
    o = qt_run((const char *const[]){qt_bin(), "check", "--shape", "3x9x5", "--device", "cpu", NULL}, env);
    expect_code(&o, 1);
    assert_string_equal(last_line(o.out), "0 passed, 1 failed\n");
    qt_assert_contains(o.out, "FAIL: 3 of 3 matrices");
    qt_output_free(&o);
    o = qt_run((const char *const[]){qt_bin(), "bench", "--shape", "3x9x5", "--device", "cpu",
                                     "--max-seconds", "0.01", "--json", json, NULL},
               env);
    expect_code(&o, 1);
    assert_null(strstr(o.out, "mean "));
    qt_assert_contains(o.out, "1 failed, in no mean");
    char *text = qt_read(json, NULL);
    json_t *root = parse(text);
    assert_null(json_object_get(json_array_get(json_object_get(root, "results"), 0), "mean_us"));
    json_decref(root);
    free(text);
    qt_output_free(&o);
    free(templates);
    free(family);
    free(env_text);
    free(json);
}

/* ---- bench ---- */

static void bench_of_an_illegal_plan_is_wrong_usage(void **state) {
    (void)state;
    qt_output o = qt_qrsmith("bench", "--shape", "1x30x6", "--device", "cpu", "--family", "blocked", "--set",
                             "panel=33");
    expect_code(&o, 2);
    qt_assert_contains(o.err, "parameter panel: found 33 (one of [16, 32])");
    qt_output_free(&o);
    o = qt_qrsmith("bench", "--shape", "2x9x5", "--device", "cpu", "--set", "panel=32");
    expect_code(&o, 2);
    qt_assert_contains(o.err, "name the family too");
    qt_output_free(&o);
}

static void what_does_not_fit_the_machine_is_refused(void **state) {
    (void)state;
    qt_output o = qt_qrsmith("check", "--device", "cpu", "--shape", "2147483647x40x40");
    expect_code(&o, 3);
    qt_assert_contains(o.err, "MiB are needed, this machine has");
    qt_output_free(&o);
}

static void bench_on_the_cpu_is_labelled(void **state) {
    (void)state;
    qt_output several = qt_qrsmith("bench", "--shape", "3x9x5", "--shape", "2x4x4", "--device", "cpu",
                                   "--max-seconds", "0.01");
    expect_code(&several, 0);
    qt_assert_contains(several.out, "3 x 9 x 5");
    qt_assert_contains(several.out, "2 x 4 x 4");
    qt_assert_contains(several.out, "over 2 cases");
    qt_output_free(&several);
    char *json = qt_format("%s/now.json", folder), *torn = qt_format("%s/torn.json", folder);
    qt_output o =
        qt_qrsmith("bench", "--shape", "3x9x5", "--device", "cpu", "--max-seconds", "0.05", "--json", json);
    expect_code(&o, 0);
    qt_assert_contains(o.out, "tell nothing of a GPU");
    qt_assert_contains(o.out, "geometric mean fp32:");
    qt_output_free(&o);
    o = qt_qrsmith("bench", "--shape", "3x9x5", "--device", "cpu", "--max-seconds", "0.05", "--vs", json,
                   "--json", "-");
    expect_code(&o, 0);
    json_t *root = parse(o.out);
    const json_t *result = json_array_get(json_object_get(root, "results"), 0);
    assert_true(json_number_value(json_object_get(result, "mean_us")) > 0);
    assert_true(json_number_value(json_object_get(result, "earlier_ratio")) > 0);
    assert_string_equal(json_string_value(json_object_get(json_object_get(root, "device"), "kind")),
                        "host executor");
    json_decref(root);
    qt_output_free(&o);
    static const char *const bad[] = {"", "{", "[]", "{\"format\": \"qrsmith-bench-1\"}"};
    for (int i = 0; i < 4; i++) {
        qt_write_text(torn, bad[i]);
        o = qt_qrsmith("bench", "--shape", "3x9x5", "--device", "cpu", "--vs", torn);
        expect_code(&o, 2);
        qt_assert_contains(o.err, "torn.json");
        qt_output_free(&o);
    }
    free(json);
    free(torn);
}

/* ---- compile ---- */

static bool nvrtc_missing(void) {
    qt_output o = qt_qrsmith("doctor");
    bool missing = strstr(o.out, "!!  nvrtc");
    qt_output_free(&o);
    return missing;
}

static void compile_writes_cubins_and_fills_the_cache(void **state) {
    (void)state;
    if (nvrtc_missing()) qt_skip("no NVRTC here");
    char *cache = qt_format("QRSMITH_CACHE_DIR=%s/cubins", folder), *out = qt_format("%s/out", folder);
    const char *const env[] = {cache, NULL};
    const char *const argv[] = {qt_bin(), "compile", "--shape",  "3x9x5",    "--arch", "sm_80,sm_90",
                                "-o",     out,       "--report", "--strict", NULL};
    qt_output o = qt_run(argv, env);
    expect_code(&o, 0);
    qt_assert_contains(o.out, "2 cubins, no stack frames, no spills");
    qt_assert_contains(o.out, "sm_90a");
    qt_assert_contains(o.out, "compiled");
    qt_output_free(&o);
    o = qt_run(argv, env);
    expect_code(&o, 0);
    qt_assert_contains(o.out, "disk");
    qt_output_free(&o);
    o = qt_run((const char *const[]){qt_bin(), "cache", "ls", NULL}, env);
    expect_code(&o, 0);
    qt_assert_contains(last_line(o.out), "2 entries");
    qt_output_free(&o);
    o = qt_run((const char *const[]){qt_bin(), "cache", "verify", NULL}, env);
    expect_code(&o, 0);
    assert_string_equal(o.out, "2 whole, 0 damaged\n");
    qt_output_free(&o);
    o = qt_run((const char *const[]){qt_bin(), "cache", "prune", "--bytes", "0", NULL}, env);
    expect_code(&o, 0);
    qt_assert_contains(o.out, "2 removed");
    qt_output_free(&o);
    free(cache);
    free(out);
}

static void compile_takes_the_target_of_a_device_profile(void **state) {
    (void)state;
    if (nvrtc_missing()) qt_skip("no NVRTC here");
    qt_output o = qt_qrsmith("compile", "--shape", "3x9x5", "--device-profile", "a100", "--report");
    expect_code(&o, 0);
    qt_assert_contains(o.out, "sm_80");
    qt_output_free(&o);
}

static void compile_without_nvrtc_writes_nothing(void **state) {
    (void)state;
    char *out = qt_format("%s/none", folder), *cache = qt_format("QRSMITH_CACHE_DIR=%s/none-cache", folder);
    const char *const env[] = {"QRSMITH_NVRTC=/nonexistent/libnvrtc.so", cache, NULL};
    qt_output o = qt_run(
        (const char *const[]){qt_bin(), "compile", "--shape", "3x9x5", "--arch", "sm_90", "-o", out, NULL},
        env);
    expect_code(&o, 3);
    qt_assert_contains(o.err, "/nonexistent/libnvrtc.so");
    assert_false(qt_exists(out));
    qt_output_free(&o);
    free(out);
    free(cache);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(factors_every_order),
        cmocka_unit_test(factors_wide_and_in_fp16),
        cmocka_unit_test(writes_over_its_own_input),
        cmocka_unit_test(empty_arrays_give_empty_results),
        cmocka_unit_test(a_nan_stays_in_its_matrix),
        cmocka_unit_test(failures_leave_no_file),
        cmocka_unit_test(a_missing_gpu_is_the_environments_fault),
        cmocka_unit_test(check_counts_its_cases),
        cmocka_unit_test(collinear_columns_of_few_rows_keep_the_contract),
        cmocka_unit_test(a_plan_that_is_not_legal_is_told),
        cmocka_unit_test(wrong_results_fail),
        cmocka_unit_test(bench_of_an_illegal_plan_is_wrong_usage),
        cmocka_unit_test(what_does_not_fit_the_machine_is_refused),
        cmocka_unit_test(bench_on_the_cpu_is_labelled),
        cmocka_unit_test(compile_writes_cubins_and_fills_the_cache),
        cmocka_unit_test(compile_takes_the_target_of_a_device_profile),
        cmocka_unit_test(compile_without_nvrtc_writes_nothing),
    };
    return cmocka_run_group_tests_name("cli run", tests, make_folder, remove_folder);
}
