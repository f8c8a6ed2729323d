/* What check and bench hold open from first case to last: templates, suite, device, forced plan. */
#ifndef CLI_ROOM_H
#define CLI_ROOM_H

#include "runtime/cli/select.h"

typedef struct cli_room {
    qg_library *lib;
    qg_suite *suite;
    cli_device *device;
    json_t *params;
    qg_request request; /* what --family and --set ask for */
} cli_room;

/* On failure too, close it. Everything the user named is checked before the device is opened. */
qg_status cli_room_open(cli_room *room, const cli_source *source, const cli_force *force,
                        const cli_device_options *device, qg_error *err);
void cli_room_close(cli_room *room);

/* Whether a case is to be run in this precision: `choice` is "fp32", "fp16", "both", or NULL for what the
 * case says. */
bool cli_wants_precision(const char *choice, const qg_case *test, qg_precision precision);

#endif
