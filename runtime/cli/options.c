#include "runtime/cli/options.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct parser {
    const cli_command *command;
    char *values;
    int positionals;
    qg_error *err;
} parser;

static qg_status usage_error(const parser *p, const char *what, const char *why, const char *fix) {
    char help[160];
    snprintf(help, sizeof help, "see qrsmith %s --help", p->command->name);
    return qg_fail(p->err, QG_BAD_INPUT, what, why, fix ? fix : help);
}

static int option_count(const cli_option *options) {
    int n = 0;
    while (options && options[n].name)
        n++;
    return n;
}

/* ---- values ---- */

static bool choice_listed(const char *choices, const char *word) {
    size_t length = strlen(word);
    for (const char *c = choices; length && c; c = strchr(c, '|') ? strchr(c, '|') + 1 : NULL)
        if (!strncmp(c, word, length) && (c[length] == '|' || c[length] == 0)) return true;
    return false;
}

static qg_status out_of_range(const parser *p, const cli_option *o, const char *what, const char *text) {
    char why[256], fix[128];
    snprintf(why, sizeof why, "found '%.100s'", text);
    snprintf(fix, sizeof fix, "a%s from %.15g to %.15g", o->kind == CLI_INT ? " whole number" : " number",
             o->min, o->max);
    return usage_error(p, what, why, fix);
}

static qg_status store_number(const parser *p, const cli_option *o, const char *what, const char *text) {
    char *end = NULL;
    errno = 0;
    double real = 0;
    long long whole = 0;
    if (o->kind == CLI_INT)
        real = (double)(whole = strtoll(text, &end, 10));
    else
        real = strtod(text, &end);
    bool written =
        *text && (*text == '-' || *text == '.' || (*text >= '0' && *text <= '9')) && !*end && !errno;
    if (!written || !(real >= o->min && real <= o->max)) return out_of_range(p, o, what, text);
    if (o->kind == CLI_INT)
        *(int64_t *)(void *)(p->values + o->offset) = whole;
    else
        *(double *)(void *)(p->values + o->offset) = real;
    return QG_OK;
}

static qg_status store_choice(const parser *p, const cli_option *o, const char *what, const char *text) {
    if (!choice_listed(o->value, text)) {
        char why[256], fix[256];
        snprintf(why, sizeof why, "found '%.100s'", text);
        snprintf(fix, sizeof fix, "one of %s", o->value);
        return usage_error(p, what, why, fix);
    }
    *(const char **)(void *)(p->values + o->offset) = text;
    return QG_OK;
}

static qg_status store_item(const parser *p, const cli_option *o, const char *what, const char *text) {
    cli_list *list = (cli_list *)(void *)(p->values + o->offset);
    if (list->count == CLI_LIST_MAX) return usage_error(p, what, "given too often", "at most 64 times");
    list->items[list->count++] = text;
    return QG_OK;
}

static qg_status store(const parser *p, const cli_option *o, const char *text) {
    char what[80];
    snprintf(what, sizeof what, "--%s", o->name);
    if (o->kind != CLI_FLAG && !*text) return usage_error(p, what, "the value is empty", NULL);
    switch (o->kind) {
    case CLI_FLAG:
        *(bool *)(void *)(p->values + o->offset) = true;
        return QG_OK;
    case CLI_TEXT:
        *(const char **)(void *)(p->values + o->offset) = text;
        return QG_OK;
    case CLI_CHOICE:
        return store_choice(p, o, what, text);
    case CLI_INT:
    case CLI_REAL:
        return store_number(p, o, what, text);
    case CLI_LIST:
        return store_item(p, o, what, text);
    }
    return usage_error(p, what, "an option of no known kind", NULL);
}

/* ---- words ---- */

static const cli_option *find_long(const cli_command *c, const char *name, size_t length) {
    for (const cli_option *o = c->options; o && o->name; o++)
        if (strlen(o->name) == length && !strncmp(o->name, name, length)) return o;
    return NULL;
}

static qg_status unknown_option(const parser *p, const char *word) {
    const cli_option *options = p->command->options;
    int count = option_count(options);
    const char *names[64];
    for (int i = 0; i < count && i < 64; i++)
        names[i] = options[i].name;
    char bare[64], fix[192];
    snprintf(bare, sizeof bare, "%.*s", (int)strcspn(word, "="), word);
    const char *near = cli_closest(bare + strspn(bare, "-"), names, count < 64 ? count : 64);
    if (near) snprintf(fix, sizeof fix, "did you mean --%s? see qrsmith %s --help", near, p->command->name);
    return usage_error(p, bare, "no such option", near ? fix : NULL);
}

/* Takes one option at argv[*i], advancing *i over a separate value. */
static qg_status take_option(parser *p, int argc, char **argv, int *i) {
    char *word = argv[*i];
    bool is_long = word[1] == '-';
    const char *attached = NULL;
    const cli_option *o = NULL;
    if (is_long) {
        size_t length = strcspn(word + 2, "=");
        o = find_long(p->command, word + 2, length);
        attached = word[2 + length] ? word + 2 + length + 1 : NULL;
    } else {
        for (o = p->command->options; o && o->name && o->letter != word[1]; o++)
            ;
        o = o && o->name ? o : NULL;
        attached = word[2] ? word + 2 : NULL;
    }
    if (!o) return unknown_option(p, word);
    char what[80];
    snprintf(what, sizeof what, "--%s", o->name);
    if (o->kind == CLI_FLAG) return attached ? usage_error(p, what, "takes no value", NULL) : store(p, o, "");
    if (attached) return store(p, o, attached);
    if (*i + 1 >= argc) {
        char fix[160];
        snprintf(fix, sizeof fix, "--%s %s", o->name, o->value);
        return usage_error(p, what, "a value must follow", fix);
    }
    return store(p, o, argv[++*i]);
}

static qg_status take_argument(parser *p, const char *word) {
    const cli_argument *a = p->command->arguments;
    for (int i = 0; a && a->name && i < p->positionals; i++)
        a++;
    if (!a || !a->name) return usage_error(p, word, "an argument too many", NULL);
    if (!*word) return usage_error(p, a->name, "the argument is empty", NULL);
    *(const char **)(void *)(p->values + a->offset) = word;
    p->positionals++;
    return QG_OK;
}

static qg_status check_required(const parser *p) {
    int i = 0;
    for (const cli_argument *a = p->command->arguments; a && a->name; a++, i++)
        if (a->required && i >= p->positionals)
            return usage_error(p, a->name, "the argument is missing", NULL);
    return QG_OK;
}

qg_status cli_parse(const cli_command *command, int argc, char **argv, void *values, bool *help,
                    qg_error *err) {
    parser p = {command, values, 0, err};
    bool only_arguments = false;
    *help = false;
    for (int i = 0; i < argc; i++) {
        const char *word = argv[i];
        if (!only_arguments && (!strcmp(word, "--help") || !strcmp(word, "-h"))) {
            *help = true;
            return QG_OK;
        }
        if (!only_arguments && !strcmp(word, "--")) {
            only_arguments = true;
            continue;
        }
        bool option = !only_arguments && word[0] == '-' && word[1];
        qg_status status = option ? take_option(&p, argc, argv, &i) : take_argument(&p, word);
        if (status != QG_OK) return status;
    }
    return check_required(&p);
}

/* ---- help ---- */

enum { HELP_COLUMN = 30, HELP_WIDTH = 100 };

/* Prints text from column `at` on, breaking lines at HELP_WIDTH and indenting the rest to `indent`. */
static void print_wrapped(FILE *to, const char *text, int at, int indent) {
    int column = at;
    while (*text) {
        size_t length = strcspn(text, " ");
        if (column > indent && column + 1 + (int)length > HELP_WIDTH) {
            fprintf(to, "\n%*s", indent, "");
            column = indent;
        } else if (column > indent) {
            fputc(' ', to);
            column++;
        }
        fwrite(text, 1, length, to);
        column += (int)length;
        text += length;
        text += *text == ' ';
    }
    fputc('\n', to);
}

static void print_row(FILE *to, const char *left, const char *text) {
    int used = fprintf(to, "  %s", left);
    if (used >= HELP_COLUMN - 1) {
        fputc('\n', to);
        used = 0;
    }
    fprintf(to, "%*s", HELP_COLUMN - used, "");
    print_wrapped(to, text, HELP_COLUMN, HELP_COLUMN);
}

static void print_option(FILE *to, const cli_option *o) {
    char left[128], letter[8] = "";
    if (o->letter) snprintf(letter, sizeof letter, "-%c, ", o->letter);
    snprintf(left, sizeof left, "%s--%s%s%s", letter, o->name, o->kind == CLI_FLAG ? "" : " ",
             o->kind == CLI_FLAG ? "" : o->value);
    print_row(to, left, o->help);
}

void cli_print_help(const cli_command *c, FILE *to) {
    fprintf(to, "usage: qrsmith %s", c->name);
    for (const cli_argument *a = c->arguments; a && a->name; a++)
        fprintf(to, a->required ? " %s" : " [%s]", a->name);
    fprintf(to, " [options]\n\n%s\n", c->summary ? c->summary : "");
    if (c->about) fprintf(to, "\n%s\n", c->about);
    if (c->arguments && c->arguments->name) fprintf(to, "\narguments:\n");
    for (const cli_argument *a = c->arguments; a && a->name; a++)
        print_row(to, a->name, a->help);
    fprintf(to, "\noptions:\n");
    for (const cli_option *o = c->options; o && o->name; o++)
        print_option(to, o);
    print_row(to, "-h, --help", "this text");
    if (c->examples) fprintf(to, "\nexamples:\n%s\n", c->examples);
    fprintf(to, "\nexit codes: 0 done, 1 a check failed, 2 wrong usage or config, 3 environment (no GPU, no "
                "NVRTC, no "
                "host\ncompiler, full disk), 4 internal error. Errors are one line on stderr.\n");
}

/* ---- nearest name ---- */

static int least(int a, int b) {
    return a < b ? a : b;
}

/* Edit distance, for words of up to 31 characters. */
static int distance(const char *a, const char *b) {
    int row[32], n = (int)strlen(b);
    if (n > 31 || strlen(a) > 31) return 99;
    for (int j = 0; j <= n; j++)
        row[j] = j;
    for (int i = 1; a[i - 1]; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= n; j++) {
            int old = row[j];
            row[j] = least(diagonal + (a[i - 1] != b[j - 1]), least(row[j], row[j - 1]) + 1);
            diagonal = old;
        }
    }
    return row[n];
}

const char *cli_closest(const char *word, const char *const *names, int count) {
    const char *best = NULL;
    int best_distance = 3;
    for (int i = 0; i < count; i++) {
        int d = distance(word, names[i]);
        if (d < best_distance && d < (int)strlen(names[i])) {
            best = names[i];
            best_distance = d;
        }
    }
    return best;
}
