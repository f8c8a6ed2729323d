/* JIT of many shapes: a program that meets shapes as it runs keeps one plan a shape, made at its first
 * appearance. The first run of this program compiles, the next ones find every kernel in the cache.
 *
 *     build/examples/jit_many_shapes [count]
 *
 * Without a GPU the plans are made and compiled for an H200, and nothing is launched. */
#include "runtime/qrsmith.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PLANS 16

typedef struct cache {
    qrs_context *context;
    struct {
        int64_t m, n;
        qrs_plan *plan;
    } known[PLANS];
    int count;
} cache;

static void check(qrs_status status) {
    if (!status) return;
    fprintf(stderr, "%s: %s\n", qrs_status_name(status), qrs_last_error());
    exit(1);
}

static double seconds(void) {
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void announce(qrs_plan *plan, double took) {
    qrs_plan_facts facts = {.struct_size = sizeof facts};
    check(qrs_plan_info(plan, &facts));
    printf("%-40s %-8s %-9s %8.1f ms  %3d registers\n", facts.name, facts.family, facts.origin, 1e3 * took,
           (int)facts.registers);
}

static qrs_plan *plan_for(cache *c, int64_t m, int64_t n) {
    for (int i = 0; i < c->count; i++)
        if (c->known[i].m == m && c->known[i].n == n) return c->known[i].plan;
    if (c->count == PLANS) {
        fprintf(stderr, "more than %d shapes\n", PLANS);
        exit(1);
    }
    double started = seconds();
    qrs_shape shape = {.m = m, .n = n, .layout_in = QRS_COL, .layout_out = QRS_COL, .max_batch = 1000};
    qrs_plan *plan;
    check(qrs_plan_create(c->context, &shape, NULL, &plan));
    announce(plan, seconds() - started);
    c->known[c->count].m = m;
    c->known[c->count].n = n;
    c->known[c->count++].plan = plan;
    return plan;
}

/* Factors `batch` identity matrices in place, on memory that is used again and again: R is -1 on the diagonal
 * for LAPACK's signs only where there is something below it, so an identity comes back as it was. */
static void factor_identities(cache *c, qrs_plan *plan, int64_t batch, int64_t m, int64_t n) {
    int64_t k = m < n ? m : n, bytes = batch * m * n * 4, workspace_bytes;
    float *host = calloc((size_t)(batch * m * n), sizeof *host);
    void *A, *tau, *workspace;
    check(qrs_workspace_bytes(plan, batch, &workspace_bytes));
    check(qrs_memory_alloc(c->context, bytes, &A));
    check(qrs_memory_alloc(c->context, batch * k * 4, &tau));
    check(qrs_memory_alloc(c->context, workspace_bytes, &workspace));
    if (!host) exit(1);
    for (int64_t b = 0; b < batch; b++)
        for (int64_t i = 0; i < k; i++)
            host[b * m * n + i * (m + 1)] = 1;
    check(qrs_copy_to_device(c->context, A, host, bytes));
    check(qrs_geqrf(plan, NULL, batch, A, m, m * n, A, m, m * n, tau, k, NULL, workspace, workspace_bytes));
    check(qrs_stream_wait(c->context, NULL));
    check(qrs_copy_to_host(c->context, host, A, bytes));
    for (int64_t b = 0; b < batch; b++)
        for (int64_t i = 0; i < m * n; i++)
            if (host[b * m * n + i] != (i % (m + 1) == 0 && i / (m + 1) < k ? 1.0f : 0.0f)) {
                fprintf(stderr, "%lld x %lld: matrix %lld differs\n", (long long)m, (long long)n,
                        (long long)b);
                exit(1);
            }
    qrs_memory_free(c->context, A);
    qrs_memory_free(c->context, tau);
    qrs_memory_free(c->context, workspace);
    free(host);
}

int main(int argc, char **argv) {
    static const int64_t shapes[][2] = {{8, 8},   {17, 5},  {32, 32},  {5, 17},
                                        {48, 24}, {64, 64}, {100, 30}, {96, 96}};
    int count = argc > 1 ? atoi(argv[1]) : 8;
    if (argc > 2 || count < 1 || count > 8) {
        fprintf(stderr, "usage: jit_many_shapes [count, 1 to 8]\n");
        return 2;
    }
    cache c = {0};
    int gpu = !qrs_context_create(NULL, &c.context);
    if (!gpu) {
        printf("no GPU here: %s\n", qrs_last_error());
        printf("making and compiling plans for an H200 instead\n");
        qrs_context_options options = {.struct_size = sizeof options, .device_profile = "h200"};
        check(qrs_context_create(&options, &c.context));
    }
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < count; i++) {
            qrs_plan *plan = plan_for(&c, shapes[i][0], shapes[i][1]);
            if (gpu) factor_identities(&c, plan, 10 + 7 * i, shapes[i][0], shapes[i][1]);
        }
    printf("%d shapes planned%s\n", c.count, gpu ? ", each factored twice" : ", none launched");
    for (int i = 0; i < c.count; i++)
        qrs_plan_destroy(c.known[i].plan);
    qrs_context_destroy(c.context);
    return 0;
}
