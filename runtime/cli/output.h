/* Files that a command leaves behind: each is written beside its final place and renamed into it, several as
 * one step: all of them appear, or none and the old ones stay. */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include "gen/error.h"
#include <stdbool.h>
#include <stdio.h>

#define CLI_OUTPUT_MAX 4

typedef struct cli_output {
    const char *shown;   /* as the user named it */
    char *path;          /* final place, symbolic links followed */
    char *temp, *backup; /* temp is NULL while the file has no name, and once it is published */
    FILE *file;
    bool published;
} cli_output;

typedef struct cli_outputs {
    cli_output entry[CLI_OUTPUT_MAX];
    int count;
} cli_outputs;

/* Adds a file and opens its temporary; refuses folders, devices and one place named twice. Then write to
 * *out. */
qg_status cli_output_add(cli_outputs *set, const char *path, FILE **out, qg_error *err);

/* Flushes, syncs and publishes all; the set is empty afterwards, whatever happened. */
qg_status cli_outputs_commit(cli_outputs *set, qg_error *err);

/* Drops what was not committed. */
void cli_outputs_discard(cli_outputs *set);

#endif
