#include "runtime/cli/room.h"
#include "runtime/cli/report.h"
#include <stdlib.h>
#include <string.h>

/* A misspelt family should be told once, not once a case. */
static qg_status check_family(const qg_library *lib, const char *name, qg_error *err) {
    json_t *families = qg_library_families(lib), *family;
    char known[256] = "";
    bool found = false;
    size_t i;
    json_array_foreach(families, i, family) {
        const char *each = json_string_value(json_object_get(family, "name"));
        found |= each && !strcmp(each, name);
        if (each && strlen(known) + strlen(each) + 3 < sizeof known)
            strcat(strcat(known, i ? ", " : ""), each);
    }
    json_decref(families);
    return found ? QG_OK : qg_failf(err, QG_BAD_INPUT, "--family", known, "there is no family '%.64s'", name);
}

qg_status cli_room_open(cli_room *room, const cli_source *source, const cli_force *force,
                        const cli_device_options *device, qg_error *err) {
    *room = (cli_room){0};
    qg_status status = cli_open_suite(source, &room->suite, err);
    if (status == QG_OK) status = cli_forced_params(&force->set, &room->params, err);
    if (status == QG_OK) status = cli_open_library(&room->lib, err);
    if (status == QG_OK && force->family) status = check_family(room->lib, force->family, err);
    if (status == QG_OK) status = cli_device_open(device, room->lib, &room->device, err);
    room->request = (qg_request){force->family, room->params};
    return status;
}

void cli_room_close(cli_room *room) {
    cli_device_close(room->device);
    if (room->lib) qg_library_close(room->lib);
    if (room->suite) qg_suite_free(room->suite);
    json_decref(room->params);
    *room = (cli_room){0};
}

bool cli_wants_precision(const char *choice, const qg_case *test, qg_precision precision) {
    if (!choice) return precision == (test->has_precision ? test->precision : QG_FP32);
    return !strcmp(choice, "both") || !strcmp(choice, qg_precision_name(precision));
}
