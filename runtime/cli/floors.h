/* The least time a device could take, by each of its limits. What is nearest to a measured time is what to
 * work on. */
#ifndef CLI_FLOORS_H
#define CLI_FLOORS_H

#include "gen/device.h"
#include <stdbool.h>

typedef enum cli_limit { CLI_BANDWIDTH, CLI_TENSOR, CLI_SCALAR, CLI_CHAIN, CLI_LIMITS } cli_limit;
const char *cli_limit_name(cli_limit l); /* "bandwidth" | "tensor" | "fp32" | "chain" */

typedef struct cli_floors {
    double us[CLI_LIMITS]; /* 0: not a limit of this plan */
    cli_limit nearest;     /* the largest */
} cli_floors;

/* `products` as in qg_plan. False when nothing is known of the device. */
bool cli_floors_of(const qg_device *dev, int64_t batch, int64_t m, int64_t n, const char *products,
                   cli_floors *out);

#endif
