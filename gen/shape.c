#include "gen/shape.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const char *const layouts[] = {"row", "col"};
static const char *const precisions[] = {"fp32", "fp16"};
static const char *const operations[] = {"geqrf", "verify"};

const char *qg_layout_name(qg_layout l) {
    return layouts[l];
}
const char *qg_precision_name(qg_precision p) {
    return precisions[p];
}
const char *qg_operation_name(qg_operation o) {
    return operations[o];
}

bool qg_layout_parse(const char *s, qg_layout *out) {
    for (int i = 0; i < 2; i++)
        if (strcmp(s, layouts[i]) == 0) return *out = (qg_layout)i, true;
    return false;
}

bool qg_precision_parse(const char *s, qg_precision *out) {
    for (int i = 0; i < 2; i++)
        if (strcmp(s, precisions[i]) == 0) return *out = (qg_precision)i, true;
    return false;
}

/* One decimal number of at most 15 digits; NULL when there is none. */
static const char *read_number(const char *s, int64_t *out) {
    int digits = 0;
    for (*out = 0; isdigit((unsigned char)*s); s++) {
        if (++digits > 15) return NULL;
        *out = *out * 10 + (*s - '0');
    }
    return digits ? s : NULL;
}

static const char form[] =
    "write BATCHxROWSxCOLUMNS[:PRECISION], such as 640x512x512:fp16; precision is fp32 or fp16";

qg_status qg_shape_parse(const char *text, qg_shape *shape, int64_t *batch, qg_error *err) {
    char what[160];
    snprintf(what, sizeof what, "shape '%.100s'", text);
    int64_t value[3];
    const char *s = text;
    for (int i = 0; i < 3; i++) {
        static const char *const names[] = {"batch", "rows", "columns"};
        const char *end = read_number(s, &value[i]);
        if (!end)
            return qg_failf(err, QG_BAD_INPUT, what, form, "%s: expected a number, found '%.40s'", names[i],
                            s);
        if (i < 2 && *end != 'x')
            return qg_failf(err, QG_BAD_INPUT, what, form, "after %s: expected 'x', found '%.40s'", names[i],
                            end);
        s = i < 2 ? end + 1 : end;
    }
    qg_shape parsed = {.m = value[1], .n = value[2], .max_batch = value[0] > 0 ? value[0] : 1};
    if (*s == ':') {
        if (!qg_precision_parse(s + 1, &parsed.precision))
            return qg_failf(err, QG_BAD_INPUT, what, form, "precision '%.40s' is not known", s + 1);
    } else if (*s) {
        return qg_failf(err, QG_BAD_INPUT, what, form, "after columns: unexpected '%.40s'", s);
    }
    if (value[0] > QG_MAX_BATCH)
        return qg_failf(err, QG_BAD_INPUT, what, "batches go up to 2147483647", "%lld is too large",
                        (long long)value[0]);
    for (int i = 1; i < 3; i++)
        if (value[i] > QG_MAX_DIM)
            return qg_failf(err, QG_BAD_INPUT, what, "rows and columns go up to 1048576", "%lld is too large",
                            (long long)value[i]);
    *shape = parsed;
    *batch = value[0];
    return QG_OK;
}

char *qg_shape_name(const qg_shape *s, char *out, size_t size) {
    snprintf(out, size, "%s_%lldx%lld_%s_%s_%s", qg_operation_name(s->operation), (long long)s->m,
             (long long)s->n, qg_layout_name(s->layout_in), qg_layout_name(s->layout_out),
             qg_precision_name(s->precision));
    return out;
}
