/* What the first use of a shape costs: choosing and rendering its plan, compiling, loading. */
#ifndef CLI_FIRST_USE_H
#define CLI_FIRST_USE_H

#include "runtime/cli/case.h"

typedef struct cli_first_use {
    double cold_ms; /* nothing in the cache */
    double warm_ms; /* the kernels are in the cache */
} cli_first_use;

/* `fresh` is the same GPU opened without a cache. Leaves the kernels in `device`'s cache. */
qg_status cli_first_use_of(cli_device *fresh, cli_device *device, const qg_case *test, qg_precision precision,
                           const qg_request *request, cli_first_use *out, qg_error *err);

#endif
