/* The one way an error travels through qrsmith's own code: what was attempted, why it failed, what would be
 * right. Callers own the struct; nothing here prints or allocates. */
#ifndef QG_ERROR_H
#define QG_ERROR_H

typedef enum qg_status {
    QG_OK = 0,
    QG_BAD_INPUT,   /* a config, suite, shape, template or argument is wrong: exit code 2 */
    QG_UNSUPPORTED, /* legal input that no family or device can serve: exit code 2 */
    QG_ENVIRONMENT, /* something of the machine is missing or failed (file, compiler, GPU): exit code 3 */
    QG_NO_MEMORY,   /* exit code 4 */
    QG_INTERNAL,    /* a bug of ours: exit code 4 */
} qg_status;

typedef struct qg_error {
    qg_status status;
    char what[512]; /* what failed and where: "configs/a.json: $.shapes[3].m" */
    char why[3072]; /* what was found */
    char fix[512];  /* what is allowed or what to do; may be empty */
} qg_error;

/* Fills *err (which may be NULL) and returns status, so that `return qg_fail(...)` reads well. The three
 * texts are already formatted; use the macros' snprintf variants below for formatted ones. */
qg_status qg_fail(qg_error *err, qg_status status, const char *what, const char *why, const char *fix);

/* As qg_fail; `why_format` is printf-like. */
qg_status qg_failf(qg_error *err, qg_status status, const char *what, const char *fix, const char *why_format,
                   ...) __attribute__((format(printf, 5, 6)));

#endif
