/* Putting winners into a tuned table ("qrsmith-tuned-1", gen/tuned.h) that others may be writing too. */
#ifndef TUNE_TABLE_H
#define TUNE_TABLE_H

#include "gen/error.h"
#include <jansson.h>

/* Whether the file, if there is one, can be merged into: a table of this format. Its entries may be anything:
 * they are kept as they are. */
qg_status tune_table_check(const char *path, qg_error *err);

/* Replaces the entry of the same shape and device, or adds one. The file is read anew, changed and replaced
 * in one step under the lock of ".NAME.lock" beside it, which waits at most `seconds`. */
qg_status tune_table_merge(const char *path, const json_t *entry, double seconds, qg_error *err);

#endif
