#include "gen/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void copy(char *out, size_t size, const char *text) {
    snprintf(out, size, "%s", text ? text : "");
}

qg_status qg_fail(qg_error *err, qg_status status, const char *what, const char *why, const char *fix) {
    if (err) {
        qg_error filled = {.status = status}; /* the texts may point into *err itself */
        copy(filled.what, sizeof filled.what, what);
        copy(filled.why, sizeof filled.why, why);
        copy(filled.fix, sizeof filled.fix, fix);
        *err = filled;
    }
    return status;
}

qg_status qg_failf(qg_error *err, qg_status status, const char *what, const char *fix, const char *why_format,
                   ...) {
    char why[sizeof err->why];
    va_list args;
    va_start(args, why_format);
    vsnprintf(why, sizeof why, why_format, args);
    va_end(args);
    return qg_fail(err, status, what, why, fix);
}
