/* An earlier run of bench, read from its --json file, to compare with. */
#ifndef CLI_EARLIER_H
#define CLI_EARLIER_H

#include "gen/error.h"
#include <jansson.h>

#define CLI_BENCH_FORMAT "qrsmith-bench-1"

/* The results of a bench file. New reference. */
qg_status cli_earlier_read(const char *path, json_t **out, qg_error *err);

/* Mean us of the same case (precision, sizes, kind, layouts) in an earlier run; 0 when it has none. */
double cli_earlier_mean(const json_t *earlier, const json_t *result);

#endif
