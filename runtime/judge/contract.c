#include "runtime/judge/contract.h"

#include <math.h>
#include <stdio.h>

/* NOTES.md says where the numbers come from. limit = share * (base + slope * size) */
typedef struct line {
    double share, base, slope;
    bool by_long_side; /* size is max(m, n), else min(m, n) */
} line;

static const struct {
    line factor, orth, tau;
} table[] = {
    [QG_FP32] = {{1.0, 8, 0.15, false}, {1.0, 10, 0.5, false}, {1.0, 6, 0.0, false}},
    [QG_FP16] = {{0.7, 0, 20, true}, {0.7, 0, 100, true}, {1.0, 6, 0.0, false}},
};

static double at(const line *l, int64_t m, int64_t n) {
    bool use_m = l->by_long_side == (m > n);
    return l->share * (l->base + l->slope * (double)(use_m ? m : n));
}

qj_limits qj_limits_for(int64_t m, int64_t n, qg_precision precision) {
    return (qj_limits){.factor = at(&table[precision].factor, m, n),
                       .orth = at(&table[precision].orth, m, n),
                       .tau = at(&table[precision].tau, m, n)};
}

const char *qj_gate_name(qj_gate g) {
    static const char *const names[QJ_GATES] = {"factor", "orthogonality", "tau", "finite"};
    return names[g];
}

/* NaN, and anything a comparison could let slip, is an infinite share. */
static double share_of(double value, double limit) {
    if (!(value >= 0) || !(value < INFINITY)) return INFINITY;
    return value / limit;
}

static double worse(double a, double b) {
    return isnan(a) || a > b ? a : b;
}

/* Judges one matrix; true when it passes. */
static bool judge_one(const qj_limits *l, const double *gates, int64_t matrix, qj_verdict *v) {
    const double limit[QJ_GATES] = {l->factor, l->orth, l->tau, 1};
    bool pass = true;
    for (int g = 0; g < QJ_GATES; g++) {
        bool is_flag = g == QJ_FINITE;
        double share = is_flag ? (gates[g] == 1 ? 0 : INFINITY) : share_of(gates[g], limit[g]);
        if (!(share <= 1)) pass = false;
        /* "finite" explains a NaN in another gate, so it wins a tie. */
        if (v->matrix < 0 || share > v->share || (is_flag && share == INFINITY && v->matrix == matrix)) {
            v->share = share;
            v->matrix = matrix;
            v->gate = (qj_gate)g;
            v->value = gates[g];
            v->limit = limit[g];
        }
        v->worst[g] = is_flag ? fmin(v->worst[g], gates[g] == 1) : worse(gates[g], v->worst[g]);
    }
    return pass;
}

qj_verdict qj_judge(const qj_limits *limits, const double *gates, int64_t batch) {
    qj_verdict v = {.matrices = batch, .matrix = -1, .worst = {0, 0, 0, 1}};
    for (int64_t b = 0; b < batch; b++)
        if (!judge_one(limits, gates + b * QJ_GATES, b, &v)) v.failed++;
    v.pass = v.failed == 0;
    return v;
}

char *qj_verdict_text(const qj_verdict *v, char *out, size_t size) {
    const char *name = qj_gate_name(v->gate);
    if (v->matrix < 0)
        snprintf(out, size, "pass: nothing to judge");
    else if (v->pass)
        snprintf(out, size, "pass: %s %.2f of its limit (%.1f of %.1f eps, matrix %lld)", name, v->share,
                 v->value, v->limit, (long long)v->matrix);
    else if (v->gate == QJ_FINITE)
        snprintf(out, size, "FAIL: %lld of %lld matrices; worst matrix %lld: a NaN or Inf in A, H or tau",
                 (long long)v->failed, (long long)v->matrices, (long long)v->matrix);
    else
        snprintf(out, size, "FAIL: %lld of %lld matrices; worst matrix %lld: %s %.1f eps, limit %.1f",
                 (long long)v->failed, (long long)v->matrices, (long long)v->matrix, name, v->value,
                 v->limit);
    return out;
}
