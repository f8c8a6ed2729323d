/* The commands, one file each. A new command is a file and a row in main.c's table. */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

#include "runtime/cli/options.h"

#ifndef QRSMITH_BUILD_VERSION
#define QRSMITH_BUILD_VERSION "0.0.0-unknown"
#endif

extern const cli_command cli_gen;
extern const cli_command cli_compile;
extern const cli_command cli_factor;
extern const cli_command cli_check;
extern const cli_command cli_bench;
extern const cli_command cli_tune;
extern const cli_command cli_tune_worker;
extern const cli_command cli_families;
extern const cli_command cli_cache;
extern const cli_command cli_doctor;
extern const cli_command cli_version;

#endif
