/* Tuned tables: which family and parameters won for which shape on which device ("qrsmith-tuned-1").
 *
 *   { "format": "qrsmith-tuned-1", "entries": [ { "shape": {"m", "n", "precision", "layout_in", "layout_out",
 * "batch"}, "device": {"arch", "sms"}, "family": NAME, "params": {...}, "provenance": {...} } ] }
 *
 * A table from elsewhere may be damaged: entries that cannot be read are left out and named once, the rest is
 * used. */
#ifndef QG_TUNED_H
#define QG_TUNED_H

#include "gen/library.h"

/* Loads the table: `path`, or the user's config folder, or the embedded one of configs/tuned/. Only a `path`
 * that cannot be opened at all is an error. */
qg_status qg_tuned_open(qg_library *lib, const char *path, qg_error *err);

/* The i-th best entry for the shape on the device (i = 0, 1, ...): exact shapes first, then near ones. NULL
 * past the end. Borrowed. *exact tells which. */
const json_t *qg_tuned_find(const qg_library *lib, const qg_shape *shape, const qg_device *dev, int i,
                            bool *exact);

#endif
