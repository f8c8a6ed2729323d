/* Internal to the sweep: what it holds open, and one question put to one candidate. */
#ifndef TUNE_SESSION_H
#define TUNE_SESSION_H

#include "runtime/tune/candidates.h"
#include "runtime/tune/journal.h"
#include "runtime/tune/sweep.h"
#include "runtime/tune/worker.h"

typedef struct tune_session {
    const tune_grid *grid;
    const tune_options *options;
    tune_bench bench;
    tune_journal *journal;
    tune_worker *worker;         /* NULL until needed, and after it came to grief */
    const tune_target *prepared; /* whose inputs it has */
    json_t *hello;
} tune_session;

/* On failure too, close it. */
qg_status tune_session_open(tune_session *s, const tune_grid *grid, const tune_options *options,
                            qg_error *err);
void tune_session_close(tune_session *s);

/* Has the worker do `job` with a candidate, the journal knowing before and after. *reply (new reference) is
 * the verdict, one of the worker's or {"verdict": "crashed" | "timeout", "why"}. A question that is only
 * asked again of who had passed (retiming, validation) leaves its own verdict out of the journal unless it is
 * a bad one. Only what ends the sweep is an error: no journal, no GPU any more. */
qg_status tune_ask(tune_session *s, const tune_target *t, const tune_candidate *c, const char *job,
                   json_t **reply, qg_error *err);

const char *tune_text(const json_t *object, const char *key); /* "" when there is none */
char *tune_date(char out[32]);

#endif
