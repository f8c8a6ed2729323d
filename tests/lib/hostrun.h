/* Plans run on the host executor: one library, one device profile and one sanitized executor a suite, batches
 * with padding and poisoned outputs, and four thread orders whose bits must agree. Failures fail the running
 * test. */
#ifndef TESTS_HOSTRUN_H
#define TESTS_HOSTRUN_H

#include "gen/plan.h"
#include "runtime/host/host.h"
#include "tests/lib/truth.h"

typedef struct qt_host {
    qg_library *lib;
    qg_device device; /* h200 */
    qhx_executor *executor;
} qt_host;

void qt_host_open(qt_host *host);
void qt_host_close(qt_host *host);

/* A plan of a forced family (NULL: the library's choice) with forced parameters (may be NULL). NULL when the
 * family refuses the shape, with its reason in *why (may be NULL). */
qg_plan *qt_plan(const qt_host *host, const qg_shape *shape, const char *family, const json_t *params,
                 qg_error *why);
qhx_module *qt_load(const qt_host *host, const qg_plan *plan);

/* Names of the families with this op, NULL-terminated. Caller frees array and names with qt_names_free(). */
char **qt_family_names(const qt_host *host, const char *op);
void qt_names_free(char **names);

/* A batch of factorizations in memory. Leading dimensions, strides and ends are padded; padding is NaN. */
typedef struct qt_batch {
    int64_t batch, m, n, k, lda, ldh, stride_a, stride_h, stride_tau;
    qg_layout in, out;
    float *a, *h, *tau;
    int32_t *info;
    int64_t a_size, h_size, tau_size; /* floats */
} qt_batch;

/* A is NaN everywhere, for the caller to fill; H, tau and info hold 0xFF bytes. pad: extra leading dimension.
 */
qt_batch *qt_batch_new(int64_t batch, int64_t m, int64_t n, qg_layout in, qg_layout out, int64_t pad);
void qt_batch_free(qt_batch *b);
qt_matrix qt_batch_a(const qt_batch *b, int64_t matrix);
qt_matrix qt_batch_h(const qt_batch *b, int64_t matrix);
const float *qt_batch_tau(const qt_batch *b, int64_t matrix);
/* 0xFF again in H, tau and info. */
void qt_batch_poison(qt_batch *b);
/* H, tau and info of both hold the same bits; `what` names the run in the failure. */
void qt_batch_same(const qt_batch *a, const qt_batch *b, const char *what);
void qt_batch_copy_a(qt_batch *to, const qt_batch *from); /* same shape and padding */
/* Fails when a byte of padding in H or tau is not as qt_batch_poison() left it. */
void qt_batch_padding_kept(const qt_batch *b, const char *what);

/* Thread orders: forward, reverse and two seeded ones. */
enum { QT_ORDERS = 4 };

/* One run in one of the orders. in_place: A is overwritten, then copied to H. */
void qt_run_once(const qt_host *host, qhx_module *module, qt_batch *b, int order, bool in_place);
/* All orders; fails unless all bits agree. Leaves the forward run's results in b.
 */
void qt_run_orders(const qt_host *host, qhx_module *module, qt_batch *b, const char *what);

/* Runs the verify family (or module, when not NULL) over the batch's A, H and tau: batch x 4 doubles, caller
 * frees. */
double *qt_verify(const qt_host *host, qhx_module *module, const qt_batch *b);

#endif
