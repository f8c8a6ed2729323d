#include "runtime/cli/floors.h"
#include "runtime/cli/problem.h"
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* What a device sustains. H200: measured (copy; fp16 product; fp32 fma; a panel column alone, and columns
 * that share an SM). The others: data sheets, bandwidth at 85 %, with the H200's cycles a column. */
static const struct ceiling {
    const char *name;             /* part of the driver's name for it */
    double bytes, tensor, scalar; /* a second */
    double column_alone,
        column_shared; /* us: latency of a column, and per column and SM with several in flight */
} ceilings[] = {
    {"H200", 4.0e12, 760e12, 51e12, 0.130, 0.064},      {"H100", 2.85e12, 760e12, 51e12, 0.130, 0.064},
    {"B200", 6.8e12, 1800e12, 75e12, 0.135, 0.066},     {"B300", 6.8e12, 1800e12, 75e12, 0.135, 0.066},
    {"A100", 1.6e12, 280e12, 19.5e12, 0.183, 0.090},    {"L40S", 0.73e12, 330e12, 80e12, 0.105, 0.050},
    {"RTX 4090", 0.86e12, 160e12, 80e12, 0.103, 0.050}, {"RTX 3090", 0.80e12, 70e12, 35e12, 0.150, 0.075},
};

const char *cli_limit_name(cli_limit l) {
    static const char *const names[] = {
        [CLI_BANDWIDTH] = "bandwidth", [CLI_TENSOR] = "tensor", [CLI_SCALAR] = "fp32", [CLI_CHAIN] = "chain"};
    return (unsigned)l < CLI_LIMITS ? names[l] : "?";
}

static double chain(const struct ceiling *c, const qg_device *dev, double batch, double k) {
    double shared = dev->sms ? batch * k / (double)dev->sms * c->column_shared : 0,
           alone = k * c->column_alone;
    return shared > alone ? shared : alone;
}

bool cli_floors_of(const qg_device *dev, int64_t batch, int64_t m, int64_t n, const char *products,
                   cli_floors *out) {
    const struct ceiling *c = NULL;
    for (size_t i = 0; i < sizeof ceilings / sizeof *ceilings && !c; i++)
        c = strstr(dev->name, ceilings[i].name) ? &ceilings[i] : NULL;
    if (!c) return false;
    double flops = cli_flops(m, n) * (double)batch, k = (double)(m < n ? m : n);
    int terms = products ? atoi(products) : 0; /* 0 for "fp32" */
    *out = (cli_floors){0};
    out->us[CLI_BANDWIDTH] = 1e6 * 8 * (double)m * (double)n * (double)batch / c->bytes;
    out->us[CLI_TENSOR] = 1e6 * flops * terms / c->tensor;
    out->us[CLI_SCALAR] = terms ? 0 : 1e6 * flops / c->scalar;
    out->us[CLI_CHAIN] = chain(c, dev, (double)batch, k);
    for (int i = 1; i < CLI_LIMITS; i++)
        if (out->us[i] > out->us[out->nearest]) out->nearest = (cli_limit)i;
    return true;
}
