/* qrsmith: the command line. Finds the command, parses its options by its own table, runs it. */
#include "runtime/cli/commands.h"
#include "runtime/cli/report.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const cli_command *const commands[] = {&cli_gen,    &cli_compile, &cli_factor,     &cli_check,
                                              &cli_bench,  &cli_tune,    &cli_families,   &cli_cache,
                                              &cli_doctor, &cli_version, &cli_tune_worker};
enum { COMMANDS = sizeof commands / sizeof *commands };

static void print_overview(FILE *to) {
    fputs(
        "usage: qrsmith COMMAND [arguments] [options]\n\n"
        "qrsmith makes GPU kernels for batched Householder QR: for each shape it generates CUDA source with "
        "everything\nfixed, compiles it on first use, and factors batches of matrices with it (LAPACK's "
        "geqrf, "
        "float32).\n\ncommands:\n",
        to);
    for (int i = 0; i < COMMANDS; i++)
        if (commands[i]->summary) /* others are for ourselves */
            fprintf(to, "  %-10s %s\n", commands[i]->name, commands[i]->summary);
    fputs("\nqrsmith COMMAND --help explains a command, with examples. To begin:\n"
          "  qrsmith doctor                           what is here, and what is missing\n"
          "  qrsmith factor a.npy -o h.npy --tau t.npy --check\n"
          "  qrsmith check --shape 8x64x64            make inputs, factor, judge\n"
          "  qrsmith bench --shape 640x512x512:fp16   time it\n",
          to);
}

static const cli_command *find(const char *name) {
    for (int i = 0; i < COMMANDS; i++)
        if (!strcmp(commands[i]->name, name)) return commands[i];
    return NULL;
}

static int unknown_command(const char *word) {
    const char *names[COMMANDS];
    int count = 0;
    for (int i = 0; i < COMMANDS; i++)
        if (commands[i]->summary) names[count++] = commands[i]->name;
    const char *near = cli_closest(word, names, count);
    char what[64], fix[128];
    snprintf(what, sizeof what, "%.60s", *word ? word : "''");
    snprintf(fix, sizeof fix, near ? "did you mean %s? see qrsmith --help" : "see qrsmith --help", near);
    qg_error err;
    qg_fail(&err, QG_BAD_INPUT, what, "no such command", fix);
    return cli_report(&err);
}

static int run(const cli_command *command, int argc, char **argv) {
    qg_error err = {0};
    bool help = false;
    void *values = calloc(1, command->values_size ? command->values_size : 1);
    if (!values) {
        qg_fail(&err, QG_NO_MEMORY, command->name, "no memory for its options", "");
        return cli_report(&err);
    }
    if (command->defaults) command->defaults(values);
    int code = CLI_DONE;
    if (cli_parse(command, argc, argv, values, &help, &err) != QG_OK)
        code = cli_report(&err);
    else if (help)
        cli_print_help(command, stdout);
    else
        code = command->run(values);
    free(values);
    return cli_finish(code);
}

static int help_for(const char *name) {
    const cli_command *command = find(name);
    if (!command) return unknown_command(name);
    cli_print_help(command, stdout);
    return cli_finish(CLI_DONE);
}

int main(int argc, char **argv) {
    signal(SIGPIPE, SIG_IGN); /* a closed pipe is a write error, reported as any other */
    const char *word = argc > 1 ? argv[1] : NULL;
    if (!word) {
        print_overview(stderr);
        return CLI_USAGE;
    }
    bool help = !strcmp(word, "--help") || !strcmp(word, "-h") || !strcmp(word, "help");
    if (help && argc > 2) return help_for(argv[2]);
    if (help) {
        print_overview(stdout);
        return cli_finish(CLI_DONE);
    }
    if (!strcmp(word, "--version")) word = "version";
    const cli_command *command = find(word);
    return command ? run(command, argc - 2, argv + 2) : unknown_command(word);
}
