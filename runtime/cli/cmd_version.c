/* qrsmith version. */
#include "gen/program.h"
#include "runtime/cache_key.h"
#include "runtime/cli/commands.h"
#include "runtime/cli/report.h"
#include <stdio.h>

typedef struct values {
    bool json;
} values;

static int run(const void *p) {
    if (((const values *)p)->json)
        return cli_print_json(json_pack("{s:s, s:s, s:i}", "version", QRSMITH_BUILD_VERSION, "program_format",
                                        QG_PROGRAM_FORMAT, "cache_format", QRT_CACHE_FORMAT))
                   ? CLI_DONE
                   : CLI_ENVIRONMENT;
    printf("qrsmith %s\n", QRSMITH_BUILD_VERSION);
    return CLI_DONE;
}

static const cli_option options[] = {
    {"json", 0, CLI_FLAG, offsetof(values, json), NULL, "with the versions of file formats, as JSON", 0, 0},
    {0}};

const cli_command cli_version = {
    "version", "print the version", NULL, "  qrsmith version --json", NULL, options, sizeof(values), NULL,
    run};
