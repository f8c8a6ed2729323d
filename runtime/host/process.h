/* Child processes: run to the end, their output kept. */
#ifndef QHX_PROCESS_H
#define QHX_PROCESS_H

#include "gen/error.h"

#include <stdbool.h>
#include <stddef.h>

/* Runs argv (looked up in PATH) in folder `dir` (NULL: here), stdin empty. The first size - 1 bytes of stdout
 * and stderr together go to `output`. *exit_code: the exit code, 128 + n when signal n ended it. False, with
 * errno, when it could not be started. */
bool qhx_process_run(char *const *argv, const char *dir, char *output, size_t size, int *exit_code);

#endif
