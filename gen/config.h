/* Strict readers of configs (shape sets) and suites (cases to check and bench).
 * Unknown keys, wrong types, out-of-range values and duplicate shapes are refused with file, line or JSON
 * path, what was found and what is allowed. configs/README.md explains every key. */
#ifndef QG_CONFIG_H
#define QG_CONFIG_H

#include "gen/plan.h"

typedef struct qg_config_entry {
    qg_shape shape;
    char *family;    /* NULL: choose */
    json_t *params;  /* NULL: defaults */
    char where[128]; /* "$.shapes[3]" */
} qg_config_entry;

typedef struct qg_config {
    char *path;
    qg_config_entry *entries;
    int count;
} qg_config;

qg_status qg_config_read(const char *path, qg_config **out, qg_error *err);
/* The same from words such as "640x512x512:fp16", each shape once. */
qg_status qg_config_from_shapes(const char *const *texts, int count, qg_config **out, qg_error *err);
void qg_config_free(qg_config *c);

typedef struct qg_case {
    int64_t batch, m, n;
    double cond;
    char kind[24];     /* design's kinds: "dense", "rankdef", ... */
    double kind_value; /* d of pairs/collinear, factor of gram; 0 elsewhere */
    uint64_t seed;
    bool has_precision;
    qg_precision precision;
    qg_layout layout_in, layout_out;
} qg_case;

typedef struct qg_suite {
    char *path, *name;
    qg_case *tests;
    int test_count;
    qg_case *benchmarks;
    int benchmark_count;
} qg_suite;

qg_status qg_suite_read(const char *path, qg_suite **out, qg_error *err);
/* A dense test and benchmark for each word. */
qg_status qg_suite_from_shapes(const char *const *texts, int count, qg_suite **out, qg_error *err);
void qg_suite_free(qg_suite *s);

/* Renders every entry into dir: NAME.cu, NAME.json (program) and manifest.json, through a temporary sibling
 * folder and one rename; a failure leaves dir as it was. */
qg_status qg_generate(const qg_library *lib, const qg_config *config, const qg_device *dev, const char *dir,
                      qg_error *err);

#endif
