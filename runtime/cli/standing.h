/* How our times stand against each baseline's, over all cases of a bench that both finished. */
#ifndef CLI_STANDING_H
#define CLI_STANDING_H

#include <jansson.h>

/* From bench's results: {"cusolver": {"cases": N, "geometric_mean_ratio": R, "slower": ["fp32 1 x 4 x 4
 * dense", ...]}, ...}. A ratio is the baseline's mean over ours: above 1 we are faster; "slower" names every
 * case below 1. Empty when no case has both. New reference. */
json_t *cli_standing_of(const json_t *results);

/* Two lines or more a baseline. */
void cli_standing_print(json_t *standing);

#endif
