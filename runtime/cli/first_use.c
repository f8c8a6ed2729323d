#include "runtime/cli/first_use.h"
#include "runtime/cli/report.h"

static qg_status use(cli_device *device, const qg_case *test, qg_precision precision,
                     const qg_request *request, double *ms, qg_error *err) {
    cli_case c;
    double begun = cli_clock();
    qg_status status = cli_case_open(device, test, precision, request, &c, err);
    if (status == QG_OK) status = cli_problem_load(&c.problem, err);
    *ms = 1e3 * (cli_clock() - begun);
    cli_case_close(&c);
    return status;
}

qg_status cli_first_use_of(cli_device *fresh, cli_device *device, const qg_case *test, qg_precision precision,
                           const qg_request *request, cli_first_use *out, qg_error *err) {
    double unused;
    qg_status status = use(fresh, test, precision, request, &out->cold_ms, err);
    if (status == QG_OK) status = use(device, test, precision, request, &unused, err); /* fills the cache */
    if (status == QG_OK) status = use(device, test, precision, request, &out->warm_ms, err);
    return status;
}
