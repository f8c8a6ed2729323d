/* The process that measures, seen from the sweep. It may crash, hang or lose its GPU: every wait is bounded,
 * and whoever misbehaves is killed with all that it started. Requests and replies are JSON, one a line. */
#ifndef TUNE_WORKER_H
#define TUNE_WORKER_H

#include "gen/error.h"
#include <jansson.h>

#define TUNE_WORKER_FORMAT "qrsmith-tune-worker-1"

typedef struct tune_worker tune_worker;

typedef struct tune_worker_options {
    const char *program; /* run without arguments; NULL: this program as `tune-worker` */
    const char *device;  /* a GPU's number; NULL: the first */
    double seconds;      /* for the worker to say hello */
} tune_worker_options;

/* Starts it and waits for its hello (new reference in *hello, format above, with the device's facts). A hello
 * that is an error of the worker's becomes *err. */
qg_status tune_worker_start(const tune_worker_options *options, tune_worker **out, json_t **hello,
                            qg_error *err);

typedef enum tune_outcome { TUNE_REPLIED, TUNE_DIED, TUNE_HUNG } tune_outcome;

/* Sends a request and waits for its reply (new reference). When it died or hung, `why` says how and the
 * worker is of no use any more: stop it. */
tune_outcome tune_worker_ask(tune_worker *w, const json_t *request, double seconds, json_t **reply, char *why,
                             size_t size);

/* Ends it, by force if it does not follow its closed input within a second. NULL is fine. */
void tune_worker_stop(tune_worker *w);

#endif
