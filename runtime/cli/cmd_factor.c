/* qrsmith factor: a user's own array, in and out as .npy. */
#include "runtime/cli/commands.h"
#include "runtime/cli/npy.h"
#include "runtime/cli/output.h"
#include "runtime/cli/problem.h"
#include "runtime/cli/report.h"
#include "runtime/cli/select.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct values {
    const char *in, *out, *tau, *device, *precision, *layout;
    cli_force force;
    bool check;
} values;

typedef struct work {
    const values *v;
    npy_array a, h, tau; /* h and tau are filled by the device */
    json_t *params;
    qg_library *lib;
    cli_device *device;
    cli_problem problem;
    void *memory[4]; /* A, H, tau, info on the device */
    cli_outputs outputs;
    FILE *h_file, *tau_file;
    int64_t failed; /* matrices outside the contract */
} work;

static void close_work(work *w) {
    cli_outputs_discard(&w->outputs);
    cli_problem_close(&w->problem);
    for (int i = 0; i < 4 && w->device; i++)
        cli_release(w->device, w->memory[i]);
    cli_device_close(w->device);
    if (w->lib) qg_library_close(w->lib);
    json_decref(w->params);
    npy_free(&w->a);
    npy_free(&w->h);
    npy_free(&w->tau);
}

static qg_status check_usage(const values *v, qg_error *err) {
    if (!v->out) return qg_fail(err, QG_BAD_INPUT, "--output", "no file is given for H", "-o H.npy");
    if (!v->tau) return qg_fail(err, QG_BAD_INPUT, "--tau", "no file is given for tau", "--tau TAU.npy");
    return QG_OK;
}

/* ---- arrays of three dimensions in Fortran order: the batch index runs fastest, kernels want it slowest
 * ---- */

static bool batch_fastest(const npy_array *a) {
    return a->dims == 3 && a->fortran;
}

/* from[r][c] of rows x columns to to[c][r], in tiles that stay in the cache. */
static void transpose(const float *from, float *to, int64_t rows, int64_t columns) {
    enum { TILE = 32 };
    for (int64_t r0 = 0; r0 < rows; r0 += TILE)
        for (int64_t c0 = 0; c0 < columns; c0 += TILE)
            for (int64_t r = r0; r < rows && r < r0 + TILE; r++)
                for (int64_t c = c0; c < columns && c < c0 + TILE; c++)
                    to[c * rows + r] = from[r * columns + c];
}

static qg_status move_batch(npy_array *a, bool to_front, qg_error *err) {
    int64_t batch = a->shape[0], rest = a->shape[1] * a->shape[2];
    if (!batch_fastest(a) || !a->data) return QG_OK;
    float *moved = malloc(sizeof(float) * (size_t)(batch * rest));
    if (!moved) return qg_fail(err, QG_NO_MEMORY, "array", "no memory to reorder it", "save it in C order");
    transpose(a->data, moved, to_front ? rest : batch, to_front ? batch : rest);
    free(a->data);
    a->data = moved;
    return QG_OK;
}

/* ---- steps ---- */

static qg_status describe(const work *w, qg_shape *shape, qg_error *err) {
    const npy_array *a = &w->a;
    const values *v = w->v;
    bool many = a->dims == 3;
    *shape = (qg_shape){.m = a->shape[many], .n = a->shape[many + 1], .operation = QG_GEQRF};
    shape->max_batch = many ? a->shape[0] : 1;
    shape->layout_in = shape->layout_out = a->fortran ? QG_COL : QG_ROW;
    if (v->layout && strcmp(v->layout, "input")) qg_layout_parse(v->layout, &shape->layout_out);
    if (v->precision) qg_precision_parse(v->precision, &shape->precision);
    if (shape->m > QG_MAX_DIM || shape->n > QG_MAX_DIM)
        return qg_failf(err, QG_BAD_INPUT, v->in, "at most 1048576 rows and columns",
                        "%lld rows, %lld columns", (long long)shape->m, (long long)shape->n);
    return QG_OK;
}

static qg_status make_results(work *w, const qg_shape *s, qg_error *err) {
    int64_t k = s->m < s->n ? s->m : s->n;
    bool many = w->a.dims == 3;
    w->h = w->a;
    w->h.data = NULL;
    w->h.fortran = s->layout_out == QG_COL;
    w->tau = (npy_array){.dims = w->a.dims - 1, .shape = {many ? s->max_batch : k, many ? k : 0, 0}};
    if (!npy_count(&w->h)) return QG_OK;
    w->h.data = malloc(sizeof(float) * (size_t)npy_count(&w->h));
    w->tau.data = malloc(sizeof(float) * (size_t)npy_count(&w->tau));
    return w->h.data && w->tau.data ? QG_OK
                                    : qg_fail(err, QG_NO_MEMORY, w->v->in, "no memory for H and tau", "");
}

static qg_status open_outputs(work *w, qg_error *err) {
    qg_status status = cli_output_add(&w->outputs, w->v->out, &w->h_file, err);
    return status != QG_OK ? status : cli_output_add(&w->outputs, w->v->tau, &w->tau_file, err);
}

static qg_status open_device(work *w, const qg_shape *shape, qg_error *err) {
    cli_device_options options = {.choice = w->v->device};
    qg_status status = cli_forced_params(&w->v->force.set, &w->params, err);
    if (status == QG_OK) status = cli_open_library(&w->lib, err);
    if (status == QG_OK) status = cli_device_open(&options, w->lib, &w->device, err);
    qg_request request = {w->v->force.family, w->params};
    if (status == QG_OK) status = cli_problem_open(w->device, shape, &request, &w->problem, err);
    return status;
}

static qg_status upload(work *w, qg_error *err) {
    const cli_problem *p = &w->problem;
    int64_t bytes[] = {p->a_bytes, p->h_bytes, p->tau_bytes, p->info_bytes};
    qg_status status = move_batch(&w->a, true, err);
    for (int i = 0; i < 4 && status == QG_OK; i++)
        status = cli_alloc(w->device, bytes[i], &w->memory[i], err);
    if (status == QG_OK) status = cli_upload(w->device, w->memory[0], w->a.data, bytes[0], err);
    if (status == QG_OK) /* a plan that says nothing about a matrix found nothing */
        status = cli_fill(w->device, w->memory[3], 0, bytes[3], err);
    return status;
}

static qg_status compute(work *w, qg_error *err) {
    cli_problem *p = &w->problem;
    qg_status status = upload(w, err);
    if (status == QG_OK)
        status = cli_problem_factor(p, w->memory[0], w->memory[1], w->memory[2], w->memory[3], err);
    if (status == QG_OK) status = cli_download(w->device, w->h.data, w->memory[1], p->h_bytes, err);
    if (status == QG_OK) status = cli_download(w->device, w->tau.data, w->memory[2], p->tau_bytes, err);
    return status == QG_OK ? move_batch(&w->h, false, err) : status;
}

static qg_status note_info(work *w, qg_error *err) {
    cli_info_count info;
    qg_status status = cli_problem_info(&w->problem, w->memory[3], &info, err);
    if (status != QG_OK) return status;
    if (info.bit[CLI_NONFINITE])
        cli_note("%lld of %lld matrices hold NaN or Inf; the others are not touched by it",
                 (long long)info.bit[CLI_NONFINITE], (long long)w->problem.batch);
    if (info.bit[CLI_TIMED_OUT])
        return qg_failf(err, QG_INTERNAL, w->problem.plan->name, "please report it",
                        "a wait between blocks timed out in %lld matrices",
                        (long long)info.bit[CLI_TIMED_OUT]);
    return QG_OK;
}

static qg_status judge(work *w, qg_error *err) {
    const cli_problem *p = &w->problem;
    const qg_shape *s = &p->plan->shape;
    qj_limits limits = qj_limits_for(s->m, s->n, s->precision);
    double *gates = calloc((size_t)p->batch, QJ_GATES * sizeof *gates);
    if (!gates) return qg_fail(err, QG_NO_MEMORY, "--check", "no memory for the gates", "");
    qg_status status = cli_problem_gates(&w->problem, w->memory[0], w->memory[1], w->memory[2], gates, err);
    if (status == QG_OK) {
        char text[256];
        qj_verdict verdict = qj_judge(&limits, gates, p->batch);
        printf("%s\n", qj_verdict_text(&verdict, text, sizeof text));
        printf("factor residual %.3g eps (limit %.4g), orthogonality %.3g eps (limit %.4g), eps = 2^-23\n",
               verdict.worst[QJ_FACTOR], limits.factor, verdict.worst[QJ_ORTH], limits.orth);
        w->failed = verdict.failed;
    }
    free(gates);
    return status;
}

static qg_status write_results(work *w, qg_error *err) {
    if (!npy_write(w->h_file, &w->h))
        return qg_fail(err, QG_ENVIRONMENT, w->v->out, "cannot be written", "is the disk full?");
    if (!npy_write(w->tau_file, &w->tau))
        return qg_fail(err, QG_ENVIRONMENT, w->v->tau, "cannot be written", "is the disk full?");
    return cli_outputs_commit(&w->outputs, err);
}

static void print_summary(const work *w, const qg_shape *s) {
    const qg_plan *plan = w->problem.plan;
    printf("%s, %s: %lld of %lld x %lld, %s", w->v->out, w->v->tau, (long long)s->max_batch, (long long)s->m,
           (long long)s->n, qg_precision_name(s->precision));
    if (plan) printf(", %s (%s), products %s", plan->family, qg_grade_name(plan->grade), plan->products);
    putchar('\n');
}

static qg_status factor(work *w, qg_error *err) {
    qg_shape shape;
    qg_status status = check_usage(w->v, err);
    if (status == QG_OK) status = npy_read(w->v->in, &w->a, err);
    if (status == QG_OK) status = describe(w, &shape, err);
    if (status == QG_OK) status = make_results(w, &shape, err);
    if (status == QG_OK) status = open_outputs(w, err);
    bool work_to_do = status == QG_OK && npy_count(&w->a);
    if (work_to_do) status = open_device(w, &shape, err);
    if (work_to_do && status == QG_OK) status = compute(w, err);
    if (work_to_do && status == QG_OK) status = note_info(w, err);
    if (work_to_do && status == QG_OK && w->v->check) status = judge(w, err);
    if (status == QG_OK) status = write_results(w, err);
    if (status == QG_OK) print_summary(w, &shape);
    return status;
}

static int run(const void *p) {
    qg_error err = {0};
    work w = {.v = p};
    qg_status status = factor(&w, &err);
    int code = w.failed ? CLI_FAILED : CLI_DONE;
    close_work(&w);
    return status == QG_OK ? code : cli_report(&err);
}

static const cli_argument arguments[] = {
    {"IN.npy", offsetof(values, in), true, "float32, m x n or batch x m x n, C or Fortran order"}, {0}};
static const cli_option options[] = {
    {"output", 'o', CLI_TEXT, offsetof(values, out), "H.npy",
     "R in the upper triangle, Householder vectors below it (their leading 1 is not stored)", 0, 0},
    {"tau", 0, CLI_TEXT, offsetof(values, tau), "TAU.npy", "min(m, n) scalars a matrix", 0, 0},
    {"check", 0, CLI_FLAG, offsetof(values, check), NULL,
     "print the residuals of the worst matrix; exit 1 when one is outside the contract", 0, 0},
    {"precision", 0, CLI_CHOICE, offsetof(values, precision), "fp32|fp16",
     "of the trailing update; the files hold float32 either way. Default: fp32", 0, 0},
    {"layout", 0, CLI_CHOICE, offsetof(values, layout), "input|row|col",
     "memory order of H.npy: the input's, C order, or Fortran order. Default: input", 0, 0},
    CLI_DEVICE_OPTION(values, device),
    CLI_FORCE_OPTIONS(values, force),
    {0}};

const cli_command cli_factor = {
    "factor",
    "factor the matrices of a .npy file: A = QR as LAPACK's geqrf gives it",
    "Q = H_1 H_2 ... with H_i = I - tau_i v_i v_i'. The two results are written as one step: both or "
    "neither. In Python:\n"
    "  numpy.save('a.npy', a.astype(numpy.float32)); ...; r = numpy.triu(numpy.load('h.npy'))",
    "  qrsmith factor a.npy -o h.npy --tau tau.npy\n"
    "  qrsmith factor a.npy -o h.npy --tau tau.npy --device cpu --precision fp16 --check",
    arguments,
    options,
    sizeof(values),
    NULL,
    run};
