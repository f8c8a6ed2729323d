#include "gen/number.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *qg_number_text(double v, char out[QG_NUMBER_TEXT]) {
    qg_c_locale locale;
    qg_c_locale_enter(&locale);
    /* Whole numbers in full: 10.0 rather than 1e+01. */
    bool whole = v > -1e15 && v < 1e15 && v == (double)(int64_t)v;
    if (whole) snprintf(out, QG_NUMBER_TEXT, "%.1f", v);
    for (int digits = 1; digits <= 17 && !whole; digits++) {
        snprintf(out, QG_NUMBER_TEXT, "%.*g", digits, v);
        if (strtod(out, NULL) == v) break;
    }
    qg_c_locale_leave(&locale);
    if (!strpbrk(out, ".e")) strcat(out, ".0");
    return out;
}

void qg_c_locale_enter(qg_c_locale *l) {
    l->c = newlocale(LC_NUMERIC_MASK | LC_CTYPE_MASK, "C", (locale_t)0);
    l->before = l->c ? uselocale(l->c) : (locale_t)0;
}

void qg_c_locale_leave(qg_c_locale *l) {
    if (!l->c) return;
    uselocale(l->before);
    freelocale(l->c);
}

uint64_t qg_hash(uint64_t h, const void *data, unsigned long size) {
    const unsigned char *p = data;
    for (unsigned long i = 0; i < size; i++)
        h = (h ^ p[i]) * UINT64_C(0x100000001b3);
    return h;
}
