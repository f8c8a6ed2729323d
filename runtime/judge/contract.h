/* The precision contract: limits for a shape and a precision, and the verdict on the gates that the verify
 * family computed. NOTES.md tells where the limits come from. */
#ifndef QJ_CONTRACT_H
#define QJ_CONTRACT_H

#include "gen/shape.h"

#define QJ_EPS 0x1p-23

/* Doubles a matrix in the gates array of the verify family, in this order. All in units of eps = 2^-23, norms
 * are matrix 1-norms, k = min(m, n). A gate may be NaN or infinite: it fails then. */
typedef enum qj_gate {
    QJ_FACTOR, /* ||R - Q'A|| / (eps ||A||); 0 when both are 0, infinite when only ||A|| is */
    QJ_ORTH,   /* ||Q'Q - I|| / eps over the k columns of Q */
    QJ_TAU, /* max over reflectors |tau - 2/(v'v)| / (eps |tau|) of the stored v; tau = 0 with v = 0 below the
               diagonal counts 0, with any other v it is infinite */
    QJ_FINITE, /* 1 when A, H and tau hold neither NaN nor Inf, else 0 */
    QJ_GATES,
} qj_gate;

const char *qj_gate_name(qj_gate g); /* "factor" | "orthogonality" | "tau" | "finite" */

typedef struct qj_limits {
    double factor, orth, tau; /* units of eps; a gate passes when it is <= its limit */
} qj_limits;

qj_limits qj_limits_for(int64_t m, int64_t n, qg_precision precision);

typedef struct qj_verdict {
    bool pass;
    int64_t matrices, failed; /* how many were judged, how many failed */
    int64_t matrix;           /* the worst: largest share of a limit, the first of equals; -1: none */
    qj_gate gate;             /* of it, the gate with the largest share; QJ_FINITE when that failed */
    double value, limit;      /* that gate's value and limit, units of eps */
    double share;             /* value / limit; infinite when not a number or not finite */
    double worst[QJ_GATES]; /* over all matrices: largest factor, orth and tau (NaN wins), smallest finite */
} qj_verdict;

/* gates: batch x QJ_GATES. An empty batch passes. */
qj_verdict qj_judge(const qj_limits *limits, const double *gates, int64_t batch);

/* "pass: orthogonality 0.31 of its limit (12.3 of 40 eps, matrix 3)" or
 * "FAIL: 2 of 16 matrices; worst matrix 3: factor 512.1 eps, limit 110.4". Returns out. */
char *qj_verdict_text(const qj_verdict *v, char *out, size_t size);

#endif
