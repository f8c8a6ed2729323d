/* Device records as JSON, between worker and sweep. */
#ifndef TUNE_FACTS_H
#define TUNE_FACTS_H

#include "gen/device.h"
#include <jansson.h>
#include <stdbool.h>

json_t *tune_record_json(const qg_device *d);
bool tune_record_read(const json_t *object, qg_device *out);

#endif
