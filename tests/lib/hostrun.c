#include "tests/lib/hostrun.h"
#include "tests/lib/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TAU_PAD = 3, STRIDE_PAD = 5 };

static void require(qg_status status, const qg_error *err) {
    if (status != QG_OK) fail_msg("%s: %s (%s)", err->what, err->why, err->fix);
}

void qt_host_open(qt_host *host) {
    qg_error err;
    memset(host, 0, sizeof *host);
    require(qg_library_open(&(qg_library_options){0}, &host->lib, &err), &err);
    require(qg_device_profile("h200", &host->device, &err), &err);
    require(qhx_open(&(qhx_options){.sanitize = true, .poison = true}, &host->executor, &err), &err);
}

void qt_host_close(qt_host *host) {
    qhx_close(host->executor);
    qg_library_close(host->lib);
    memset(host, 0, sizeof *host);
}

qg_plan *qt_plan(const qt_host *host, const qg_shape *shape, const char *family, const json_t *params,
                 qg_error *why) {
    qg_error own, *err = why ? why : &own;
    qg_plan *plan = NULL;
    qg_request request = {family, params};
    qg_status status = qg_plan_make(host->lib, shape, &host->device, &request, &plan, err);
    if (status == QG_UNSUPPORTED || status == QG_BAD_INPUT) return NULL;
    require(status, err);
    return plan;
}

qhx_module *qt_load(const qt_host *host, const qg_plan *plan) {
    qhx_module *module = NULL;
    qg_error err;
    require(qhx_load(host->executor, host->lib, plan, &module, &err), &err);
    return module;
}

char **qt_family_names(const qt_host *host, const char *op) {
    json_t *families = qg_library_families(host->lib), *family;
    size_t count = json_array_size(families), kept = 0, i;
    char **names = calloc(count + 1, sizeof *names);
    assert_non_null(names);
    json_array_foreach(families, i, family) {
        if (strcmp(json_string_value(json_object_get(family, "op")), op) == 0)
            names[kept++] = strdup(json_string_value(json_object_get(family, "name")));
    }
    json_decref(families);
    return names;
}

void qt_names_free(char **names) {
    for (char **name = names; *name; name++)
        free(*name);
    free(names);
}

static void *bytes(size_t size) {
    void *p = malloc(size + 1);
    assert_non_null(p);
    memset(p, 0xff, size + 1);
    return p;
}

qt_batch *qt_batch_new(int64_t batch, int64_t m, int64_t n, qg_layout in, qg_layout out, int64_t pad) {
    qt_batch *b = bytes(sizeof *b);
    *b = (qt_batch){.batch = batch, .m = m, .n = n, .k = m < n ? m : n, .in = in, .out = out};
    b->lda = (in == QG_ROW ? n : m) + pad;
    b->ldh = (out == QG_ROW ? n : m) + pad;
    b->stride_a = (in == QG_ROW ? m : n) * b->lda + (pad ? STRIDE_PAD : 0);
    b->stride_h = (out == QG_ROW ? m : n) * b->ldh + (pad ? STRIDE_PAD : 0);
    b->stride_tau = b->k + (pad ? TAU_PAD : 0);
    b->a_size = batch * b->stride_a;
    b->h_size = batch * b->stride_h;
    b->tau_size = batch * b->stride_tau;
    b->a = bytes((size_t)b->a_size * sizeof *b->a);
    b->h = bytes((size_t)b->h_size * sizeof *b->h);
    b->tau = bytes((size_t)b->tau_size * sizeof *b->tau);
    b->info = bytes((size_t)batch * sizeof *b->info);
    return b;
}

void qt_batch_free(qt_batch *b) {
    if (!b) return;
    free(b->a);
    free(b->h);
    free(b->tau);
    free(b->info);
    free(b);
}

qt_matrix qt_batch_a(const qt_batch *b, int64_t matrix) {
    return (qt_matrix){b->a + matrix * b->stride_a, b->m, b->n, b->lda, b->in};
}

qt_matrix qt_batch_h(const qt_batch *b, int64_t matrix) {
    return (qt_matrix){b->h + matrix * b->stride_h, b->m, b->n, b->ldh, b->out};
}

const float *qt_batch_tau(const qt_batch *b, int64_t matrix) {
    return b->tau + matrix * b->stride_tau;
}

void qt_batch_poison(qt_batch *b) {
    memset(b->h, 0xff, (size_t)b->h_size * sizeof *b->h);
    memset(b->tau, 0xff, (size_t)b->tau_size * sizeof *b->tau);
    memset(b->info, 0xff, (size_t)b->batch * sizeof *b->info);
}

void qt_batch_copy_a(qt_batch *to, const qt_batch *from) {
    assert_int_equal(to->a_size, from->a_size);
    memcpy(to->a, from->a, (size_t)from->a_size * sizeof *from->a);
}

static uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

void qt_batch_same(const qt_batch *a, const qt_batch *b, const char *what) {
    for (int64_t matrix = 0; matrix < a->batch; matrix++) {
        qt_matrix x = qt_batch_h(a, matrix), y = qt_batch_h(b, matrix);
        for (int64_t i = 0; i < a->m; i++)
            for (int64_t j = 0; j < a->n; j++)
                if (bits_of(qt_get(&x, i, j)) != bits_of(qt_get(&y, i, j)))
                    fail_msg("%s: H[%lld][%lld] of matrix %lld is %.9g, was %.9g", what, (long long)i,
                             (long long)j, (long long)matrix, qt_get(&y, i, j), qt_get(&x, i, j));
        for (int64_t j = 0; j < a->k; j++)
            if (bits_of(qt_batch_tau(a, matrix)[j]) != bits_of(qt_batch_tau(b, matrix)[j]))
                fail_msg("%s: tau[%lld] of matrix %lld is %.9g, was %.9g", what, (long long)j,
                         (long long)matrix, qt_batch_tau(b, matrix)[j], qt_batch_tau(a, matrix)[j]);
        if (a->info[matrix] != b->info[matrix])
            fail_msg("%s: info of matrix %lld is %d, was %d", what, (long long)matrix, b->info[matrix],
                     a->info[matrix]);
    }
}

void qt_batch_padding_kept(const qt_batch *b, const char *what) {
    int64_t inner = b->out == QG_ROW ? b->n : b->m, outer = b->out == QG_ROW ? b->m : b->n;
    for (int64_t at = 0; at < b->h_size; at++) {
        int64_t in_matrix = at % b->stride_h, line = in_matrix / b->ldh;
        bool data = line < outer && in_matrix % b->ldh < inner;
        if (!data && bits_of(b->h[at]) != UINT32_MAX)
            fail_msg("%s: padding of H written at element %lld", what, (long long)at);
    }
    for (int64_t at = 0; at < b->tau_size; at++)
        if (at % b->stride_tau >= b->k && bits_of(b->tau[at]) != UINT32_MAX)
            fail_msg("%s: padding of tau written at element %lld", what, (long long)at);
}

static void run(qhx_module *module, const qt_batch *b, float *h, double *gates) {
    qg_call call = {0};
    call.scalar[QG_BATCH] = b->batch;
    call.scalar[QG_LDA] = b->lda;
    call.scalar[QG_LDH] = b->ldh;
    call.scalar[QG_STRIDE_A] = b->stride_a;
    call.scalar[QG_STRIDE_H] = b->stride_h;
    call.scalar[QG_STRIDE_TAU] = b->stride_tau;
    call.pointer[QG_PTR_A] = b->a;
    call.pointer[QG_PTR_H] = h;
    call.pointer[QG_PTR_TAU] = b->tau;
    call.pointer[QG_PTR_INFO] = b->info;
    call.pointer[QG_PTR_GATES] = gates;
    qg_error err;
    require(qhx_run(module, &call, &err), &err);
}

static const struct {
    int order;
    uint64_t seed;
    const char *name;
} orders[QT_ORDERS] = {
    {QHX_FORWARD, 0, "forward order"},
    {QHX_REVERSE, 0, "reverse order"},
    {QHX_SEEDED, 1, "seeded order 1"},
    {QHX_SEEDED, 20240229, "seeded order 2"},
};

static void set_order(const qt_host *host, int i) {
    assert_int_equal(qhx_set_order(host->executor, orders[i].order, orders[i].seed), QG_OK);
}

void qt_run_once(const qt_host *host, qhx_module *module, qt_batch *b, int order, bool in_place) {
    set_order(host, order);
    run(module, b, in_place ? b->a : b->h, NULL);
    set_order(host, 0);
    if (in_place) memcpy(b->h, b->a, (size_t)b->h_size * sizeof *b->h);
}

void qt_run_orders(const qt_host *host, qhx_module *module, qt_batch *b, const char *what) {
    qt_batch *again =
        qt_batch_new(b->batch, b->m, b->n, b->in, b->out, b->lda - (b->in == QG_ROW ? b->n : b->m));
    qt_batch_copy_a(again, b);
    for (int i = 0; i < QT_ORDERS; i++) {
        qt_batch *target = i ? again : b;
        qt_batch_poison(target);
        qt_run_once(host, module, target, i, false);
        char *text = qt_format("%s, %s", what, orders[i].name);
        qt_batch_padding_kept(target, text);
        if (i) qt_batch_same(b, again, text);
        free(text);
    }
    qt_batch_free(again);
}

double *qt_verify(const qt_host *host, qhx_module *module, const qt_batch *b) {
    size_t size = (size_t)b->batch * 4 * sizeof(double);
    double *first = bytes(size), *again = bytes(size);
    qhx_module *own = NULL;
    if (!module) {
        qg_shape shape = {.m = b->m,
                          .n = b->n,
                          .layout_in = b->in,
                          .layout_out = b->out,
                          .operation = QG_VERIFY,
                          .max_batch = b->batch};
        qg_plan *plan = qt_plan(host, &shape, NULL, NULL, NULL);
        assert_non_null(plan);
        module = own = qt_load(host, plan);
        qg_plan_free(plan);
    }
    for (int i = 0; i < QT_ORDERS; i++) {
        set_order(host, i);
        run(module, b, b->h, i ? again : first);
        if (i && memcmp(first, again, size) != 0) fail_msg("verify: gates differ in %s", orders[i].name);
    }
    set_order(host, 0);
    qhx_unload(own);
    free(again);
    return first;
}
