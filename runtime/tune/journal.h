/* The journal of tuning sweeps: an append-only file of JSON lines, each on disk before the work goes on.
 *
 *   {"event": "session", "format": "qrsmith-tune-journal-1", "device", "driver", "version", "date", ...}
 *   {"event": "begin", "key", "job", "shape", "family", "params", ...}    before a candidate is launched
 *   {"event": "verdict", "key", "verdict", ...}                           what came of it
 *   {"event": "winner", "target", "set", "entry"}                         what was stored in the table
 *
 * A verdict of one key replaces earlier ones. Lines that cannot be read (a torn last one above all) are
 * counted and passed over. One process writes a journal at a time. */
#ifndef TUNE_JOURNAL_H
#define TUNE_JOURNAL_H

#include "gen/error.h"
#include <jansson.h>
#include <stdbool.h>

#define TUNE_JOURNAL_FORMAT "qrsmith-tune-journal-1"

typedef struct tune_journal tune_journal;

/* Opens or makes the file and takes its lock; reads what it holds when `resume`. */
qg_status tune_journal_open(const char *path, bool resume, tune_journal **out, qg_error *err);
void tune_journal_close(tune_journal *j); /* NULL is fine */

/* Lines passed over while reading. */
int tune_journal_torn(const tune_journal *j);

/* Adds one line and waits until the disk has it. Takes the reference. */
qg_status tune_journal_add(tune_journal *j, json_t *event, qg_error *err);

/* The last verdict on a key that is not to be tried again, or NULL: a timeout never is final, a crash is
 * once it has happened twice. Borrowed. */
const json_t *tune_journal_final(const tune_journal *j, const char *key);
/* Whether work on the key was begun and did not end well: such candidates go last. */
bool tune_journal_suspect(const tune_journal *j, const char *key);
/* The last winner stored for a target, or NULL. Borrowed. */
const json_t *tune_journal_winner(const tune_journal *j, const char *target);

#endif
