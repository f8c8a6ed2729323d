/* Tuned tables: which family and parameters won for which shape on which device ("qrsmith-tuned-1").
 *
 *   { "format": "qrsmith-tuned-1", "about": TEXT,
 *     "entries": [ { "shape": {"m", "n", "precision", "layout_in", "layout_out", "batch"},
 *                    "device": {"arch", "sms"}, "family": NAME, "params": {...}, "provenance": ANYTHING } ] }
 *
 * A table from elsewhere may be damaged or older than the families: entries that cannot be used are left out
 * and named once, the rest is used. */
#ifndef QG_TUNED_H
#define QG_TUNED_H

#include "gen/library.h"

/* Loads `path`, or else the user's own table ($XDG_CONFIG_HOME/qrsmith/tuned.json), and behind it the
 * built-in ones of configs/tuned/: of entries that serve a shape equally well the first counts. Only a `path`
 * that cannot be opened at all is an error. */
qg_status qg_tuned_open(qg_library *lib, const char *path, qg_error *err);

/* The i-th best entry for the shape on the device (i = 0, 1, ...): the same size, layouts and device first,
 * then near ones (a size within a factor of about 2, another layout, another device). NULL past the end.
 * Borrowed. *exact tells which. */
const json_t *qg_tuned_find(const qg_library *lib, const qg_shape *shape, const qg_device *dev, int i,
                            bool *exact);

#endif
