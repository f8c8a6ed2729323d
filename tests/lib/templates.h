/* Libraries made of template texts written for one test, and refusals held against what they must say. */
#ifndef TESTS_TEMPLATES_H
#define TESTS_TEMPLATES_H

#include "gen/plan.h"

typedef struct qt_templates {
    char *folder;
    qg_library *lib;
} qt_templates;

/* files: path, text, path, text, ..., NULL. The library holds nothing else. */
void qt_templates_open(qt_templates *t, const char *const files[]);
void qt_templates_close(qt_templates *t);

/* The text of a family file. Line 1 makes a whole family in the variable f, which does nothing; `chunk` (line
 * 2 on) may change it; then come the line "return f", the marker, `source` and the closing marker. Caller
 * frees. */
char *qt_family_text(const char *name, const char *chunk, const char *source);

/* Fails unless status is `want` and each part (they end with NULL) is in the error's "what: why (fix)". */
void qt_refused(qg_status status, const qg_error *err, qg_status want, ...);

/* Fails the test with the error's text unless status is QG_OK. */
void qt_succeeded(qg_status status, const qg_error *err);

/* Makes this process write 1,5 for 1.5: false when the machine can have no such locale. Undo with
 * setlocale(LC_NUMERIC, "C"). */
bool qt_comma_locale(void);

#endif
