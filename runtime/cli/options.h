/* Command-line options as tables: a command lists its options and arguments once, and parsing, range checks,
 * error texts and --help all read that list. Values land in the command's own struct, at the offsets the
 * table gives. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include "gen/error.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define CLI_LIST_MAX 64

typedef struct cli_list {
    const char *items[CLI_LIST_MAX];
    int count;
} cli_list;

typedef enum cli_option_kind {
    CLI_FLAG,   /* bool: present or not */
    CLI_TEXT,   /* const char *: any text but the empty one */
    CLI_CHOICE, /* const char *: one of `choices`, "a|b|c" */
    CLI_INT,    /* int64_t within [min, max] */
    CLI_REAL,   /* double within [min, max] */
    CLI_LIST,   /* cli_list: may be repeated */
} cli_option_kind;

typedef struct cli_option {
    const char *name; /* long name without dashes; NULL ends a table */
    char letter;      /* short name, or 0 */
    cli_option_kind kind;
    size_t offset;     /* of the value in the command's struct */
    const char *value; /* what --help calls the value; the choices of CLI_CHOICE */
    const char *help;
    double min, max; /* CLI_INT, CLI_REAL */
} cli_option;

typedef struct cli_argument {
    const char *name; /* "IN.npy"; NULL ends a table */
    size_t offset;    /* of a const char * */
    bool required;
    const char *help;
} cli_argument;

typedef struct cli_command {
    const char *name, *summary; /* one word, one line; without a summary it is not in the list of commands */
    const char *about;          /* paragraphs of --help */
    const char *examples;       /* lines of --help */
    const cli_argument *arguments;
    const cli_option *options;
    size_t values_size;             /* of the command's struct */
    void (*defaults)(void *values); /* may be NULL: all zero */
    int (*run)(const void *values); /* returns an exit code and has printed its own errors */
} cli_command;

/* Fills `values` (values_size bytes, already holding the defaults) from argv, which starts after the
 * command's name. *help is set, and parsing ends, at --help or -h. Texts point into argv. */
qg_status cli_parse(const cli_command *command, int argc, char **argv, void *values, bool *help,
                    qg_error *err);

/* The whole page of `qrsmith NAME --help`. */
void cli_print_help(const cli_command *command, FILE *to);

/* The entry of `names` closest to `word` (for "did you mean"), or NULL when none is close. */
const char *cli_closest(const char *word, const char *const *names, int count);

#endif
