/* Plan, call, check: factors a batch of random matrices on the GPU and looks at the residual ||A - QR|| of
 * each.
 *
 *     build/examples/plan_call_check [batch] [m] [n]
 *
 * Without a GPU it makes and compiles the plan for an H200 and says so. */
#include "runtime/qrsmith.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct problem {
    qrs_context *context;
    qrs_plan *plan;
    int64_t batch, m, n, k;
    float *A, *H, *tau; /* on the host */
    void *device_A, *device_H, *device_tau, *workspace;
    int64_t workspace_bytes;
} problem;

/* Prints and ends the program when a call failed. */
static void check(qrs_status status) {
    if (!status) return;
    fprintf(stderr, "%s: %s\n", qrs_status_name(status), qrs_last_error());
    exit(1);
}

static void *allocate(size_t bytes) {
    void *memory = malloc(bytes ? bytes : 1);
    if (memory) return memory;
    fprintf(stderr, "out of memory\n");
    exit(1);
}

/* A context on the GPU, or one that only compiles when there is none. True when on a GPU. */
static int open_context(qrs_context **context) {
    if (!qrs_context_create(NULL, context)) return 1;
    printf("no GPU here: %s\n", qrs_last_error());
    printf("making and compiling the plan for an H200 instead\n");
    qrs_context_options options = {.struct_size = sizeof options, .device_profile = "h200"};
    check(qrs_context_create(&options, context));
    return 0;
}

static void show_plan(const problem *p) {
    qrs_plan_facts facts = {.struct_size = sizeof facts};
    check(qrs_plan_info(p->plan, &facts));
    printf("plan %s: family %s (%s), parameters %s\n", facts.name, facts.family, facts.grade, facts.params);
    printf("kernels from %s: at most %d registers a thread, %d bytes of stack and spills\n", facts.origin,
           (int)facts.registers, (int)facts.spill_bytes);
}

static void make_input(problem *p) {
    int64_t count = p->batch * p->m * p->n;
    p->A = allocate((size_t)count * sizeof(float));
    p->H = allocate((size_t)count * sizeof(float));
    p->tau = allocate((size_t)(p->batch * p->k) * sizeof(float));
    uint32_t random = 1;
    for (int64_t i = 0; i < count; i++) {
        random = random * 1664525u + 1013904223u;
        p->A[i] = (float)(random >> 8) / 8388608.0f - 1.0f;
    }
}

static void factor(problem *p) {
    int64_t bytes = p->batch * p->m * p->n * (int64_t)sizeof(float);
    int64_t tau_bytes = p->batch * p->k * (int64_t)sizeof(float);
    check(qrs_memory_alloc(p->context, bytes, &p->device_A));
    check(qrs_memory_alloc(p->context, bytes, &p->device_H));
    check(qrs_memory_alloc(p->context, tau_bytes, &p->device_tau));
    check(qrs_memory_alloc(p->context, p->workspace_bytes, &p->workspace));
    check(qrs_copy_to_device(p->context, p->device_A, p->A, bytes));
    check(qrs_geqrf(p->plan, NULL, p->batch, p->device_A, p->n, p->m * p->n, p->device_H, p->n, p->m * p->n,
                    p->device_tau, p->k, NULL, p->workspace, p->workspace_bytes));
    check(qrs_stream_wait(p->context, NULL));
    check(qrs_copy_to_host(p->context, p->H, p->device_H, bytes));
    check(qrs_copy_to_host(p->context, p->tau, p->device_tau, tau_bytes));
}

/* ||A - QR||_F / ||A||_F of one matrix: R column by column through H(k-1) first ... H(0) last. */
static double residual(const problem *p, int64_t b) {
    const float *A = p->A + b * p->m * p->n, *H = p->H + b * p->m * p->n, *tau = p->tau + b * p->k;
    double *x = allocate((size_t)p->m * sizeof(double)), off = 0, all = 0;
    for (int64_t j = 0; j < p->n; j++) {
        for (int64_t i = 0; i < p->m; i++)
            x[i] = i <= j ? (double)H[i * p->n + j] : 0.0;
        for (int64_t c = p->k - 1; c >= 0; c--) {
            double dot = x[c];
            for (int64_t i = c + 1; i < p->m; i++)
                dot += (double)H[i * p->n + c] * x[i];
            x[c] -= (double)tau[c] * dot;
            for (int64_t i = c + 1; i < p->m; i++)
                x[i] -= (double)tau[c] * dot * (double)H[i * p->n + c];
        }
        for (int64_t i = 0; i < p->m; i++) {
            double a = (double)A[i * p->n + j];
            off += (a - x[i]) * (a - x[i]);
            all += a * a;
        }
    }
    free(x);
    return sqrt(off / all);
}

static int judge(const problem *p) {
    double worst = 0, limit = 1.2e-7 * (8 + 0.2 * (double)p->k);
    int64_t step = p->batch / 8 ? p->batch / 8 : 1, seen = 0;
    for (int64_t b = 0; b < p->batch; b += step, seen++) {
        double r = residual(p, b);
        if (!(r <= worst)) worst = r; /* NaN counts */
    }
    printf("largest residual of %d matrices looked at: %.2e (limit %.2e): %s\n", (int)seen, worst, limit,
           worst <= limit ? "fine" : "WRONG");
    return worst <= limit ? 0 : 1;
}

static void clean_up(problem *p) {
    qrs_memory_free(p->context, p->device_A);
    qrs_memory_free(p->context, p->device_H);
    qrs_memory_free(p->context, p->device_tau);
    qrs_memory_free(p->context, p->workspace);
    qrs_plan_destroy(p->plan);
    qrs_context_destroy(p->context);
    free(p->A);
    free(p->H);
    free(p->tau);
}

int main(int argc, char **argv) {
    problem p = {.batch = argc > 1 ? atoll(argv[1]) : 64,
                 .m = argc > 2 ? atoll(argv[2]) : 96,
                 .n = argc > 3 ? atoll(argv[3]) : 64};
    if (argc > 4 || p.batch < 1 || p.m < 1 || p.n < 1) {
        fprintf(stderr, "usage: plan_call_check [batch] [m] [n], each at least 1\n");
        return 2;
    }
    p.k = p.m < p.n ? p.m : p.n;
    int gpu = open_context(&p.context), failed = 0;
    qrs_shape shape = {.m = p.m, .n = p.n, .layout_in = QRS_ROW, .layout_out = QRS_ROW, .max_batch = p.batch};
    check(qrs_plan_create(p.context, &shape, NULL, &p.plan));
    check(qrs_workspace_bytes(p.plan, p.batch, &p.workspace_bytes));
    show_plan(&p);
    printf("workspace for %lld matrices of %lld x %lld: %lld bytes\n", (long long)p.batch, (long long)p.m,
           (long long)p.n, (long long)p.workspace_bytes);
    if (gpu) {
        make_input(&p);
        factor(&p);
        failed = judge(&p);
    }
    clean_up(&p);
    return failed;
}
