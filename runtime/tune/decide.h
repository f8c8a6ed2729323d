/* From timed candidates to a winner that also stands other inputs. */
#ifndef TUNE_DECIDE_H
#define TUNE_DECIDE_H

#include "runtime/tune/session.h"

/* Near ties are timed again in turn, the first in the fixed order that is near the fastest wins, and must
 * pass on other seeds and batches; who doesn't is out and the next is chosen. *winner: -1 when nobody is
 * left.
 */
qg_status tune_decide(tune_session *s, const tune_target *t, tune_candidates *all, int *winner,
                      qg_error *err);

/* What came of a question, into the candidate. */
void tune_take_reply(tune_candidate *c, const json_t *reply);

#endif
