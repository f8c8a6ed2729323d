/* What every command says in the same way: exit codes, the one error line, notes, progress, JSON on standard
 * output. */
#ifndef CLI_REPORT_H
#define CLI_REPORT_H

#include "gen/plan.h"
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef enum cli_exit {
    CLI_DONE = 0,
    CLI_FAILED = 1,
    CLI_USAGE = 2,
    CLI_ENVIRONMENT = 3,
    CLI_INTERNAL = 4
} cli_exit;

cli_exit cli_exit_code(qg_status status);

/* Prints "qrsmith: WHAT: WHY (FIX)" on stderr, line breaks folded, and returns the exit code that belongs to
 * it. */
int cli_report(const qg_error *err);

/* "WHAT: WHY (FIX)" and a line break, as cli_report, for places within results. */
void cli_print_error(const qg_error *err, FILE *to);

/* "qrsmith: text" on stderr: what was chosen on the user's behalf. */
void cli_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Opens the library as the environment says, with a note for each entry left out of a tuned table. */
qg_status cli_open_library(qg_library **out, qg_error *err);

/* A progress bar on stderr, where that is a terminal; nothing elsewhere. `what` may be NULL. */
void cli_progress(int64_t done, int64_t total, const char *what);
void cli_progress_clear(void);

/* Pretty-prints and releases `value`; false (and an error line) when standard output refuses it. */
bool cli_print_json(json_t *value);

/* Flushes standard output: `code`, or an error line and CLI_ENVIRONMENT when what was printed did not arrive.
 */
int cli_finish(int code);

/* "12.3 MiB" and the like. Returns out. */
char *cli_bytes(double bytes, char out[32]);

/* Seconds of a clock that only goes forward. */
double cli_clock(void);

#endif
