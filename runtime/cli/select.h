/* Options that several commands share: which shapes, which plan, which device. Each group is a struct inside
 * the command's own, and a macro that gives its rows in the option table. */
#ifndef CLI_SELECT_H
#define CLI_SELECT_H

#include "gen/config.h"
#include "runtime/cli/device.h"
#include "runtime/cli/options.h"

/* Shapes: a file, or --shape, as often as wanted. */
typedef struct cli_source {
    const char *file;
    cli_list shapes;
} cli_source;

#define CLI_SOURCE_OPTION(type, field)                                                                       \
    {                                                                                                        \
        "shape", 0, CLI_LIST, offsetof(type, field.shapes), "BxMxN[:PREC]",                                  \
            "a shape instead of a file: batch x rows x columns, then :fp32 or :fp16; may be repeated", 0, 0  \
    }

#define CLI_LINEINFO_OPTION(type, field)                                                                     \
    {                                                                                                        \
        "lineinfo", 0, CLI_FLAG, offsetof(type, field), NULL,                                                \
            "keep template lines in the kernels, for profilers and sanitizers", 0, 0                         \
    }

/* A plan forced by hand. */
typedef struct cli_force {
    const char *family;
    cli_list set;
} cli_force;

#define CLI_FORCE_OPTIONS(type, field)                                                                       \
    {                                                                                                        \
        "family", 0,                                                                                         \
        CLI_TEXT, offsetof(type, field.family),                                                              \
        "F",      "force this kernel family (qrsmith families)",                                             \
        0,        0},                                                                                        \
    {                                                                                                        \
        "set", 0, CLI_LIST, offsetof(type, field.set), "K=V", "force a family's parameter; may be repeated", \
            0, 0                                                                                             \
    }

#define CLI_DEVICE_OPTION(type, field)                                                                       \
    {                                                                                                        \
        "device", 0, CLI_TEXT, offsetof(type, field), "cpu|N",                                               \
            "where to compute: a GPU's number, or cpu. Default: GPU 0 if there is one, else cpu", 0, 0       \
    }

/* Exactly one of file and --shape must be given. */
qg_status cli_open_config(const cli_source *source, qg_config **out, qg_error *err);
qg_status cli_open_suite(const cli_source *source, qg_suite **out, qg_error *err);

/* The parameters of --set as a JSON object, NULL when there are none. Numbers and true/false are read as
 * such. */
qg_status cli_forced_params(const cli_list *set, json_t **out, qg_error *err);

/* Whole words of "a,b,c", without empty ones; at most `max`, each at most 63 characters. Returns their
 * number, or -1. */
int cli_split_list(const char *text, char words[][64], int max);

#endif
