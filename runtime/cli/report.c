#include "runtime/cli/report.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

cli_exit cli_exit_code(qg_status status) {
    static const cli_exit codes[] = {
        [QG_OK] = CLI_DONE,
        [QG_BAD_INPUT] = CLI_USAGE,
        [QG_UNSUPPORTED] = CLI_USAGE,
        [QG_ENVIRONMENT] = CLI_ENVIRONMENT,
        [QG_NO_MEMORY] = CLI_INTERNAL,
        [QG_INTERNAL] = CLI_INTERNAL,
    };
    return (unsigned)status < sizeof codes / sizeof *codes ? codes[status] : CLI_INTERNAL;
}

/* Folds line breaks and their indentation to " | ", and other control bytes to '?': what a file or compiler
 * said must not look like a line of ours or drive the terminal. */
static void put_folded(const char *text, FILE *to) {
    size_t length = strlen(text);
    while (length && strchr(" \n\r\t", text[length - 1]))
        length--;
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '\n') {
            fputs(" | ", to);
            while (i + 1 < length && strchr(" \n\r\t", text[i + 1]))
                i++;
        } else {
            fputc(c == '\t' ? ' ' : c < 32 || c == 127 ? '?' : c, to);
        }
    }
}

void cli_print_error(const qg_error *err, FILE *to) {
    put_folded(err->what, to);
    fputs(": ", to);
    put_folded(err->why, to);
    if (err->fix[0]) {
        fputs(" (", to);
        put_folded(err->fix, to);
        fputc(')', to);
    }
    fputc('\n', to);
}

int cli_report(const qg_error *err) {
    cli_progress_clear();
    fflush(stdout);
    fputs("qrsmith: ", stderr);
    cli_print_error(err, stderr);
    return cli_exit_code(err->status == QG_OK ? QG_INTERNAL : err->status);
}

void cli_note(const char *format, ...) {
    cli_progress_clear();
    va_list args;
    va_start(args, format);
    fputs("qrsmith: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
}

static bool progress_wanted(void) {
    const char *term = getenv("TERM");
    return isatty(STDERR_FILENO) && !(term && !strcmp(term, "dumb"));
}

qg_status cli_open_library(qg_library **out, qg_error *err) {
    const char *text;
    qg_status status = qg_library_open(NULL, out, err);
    for (int i = 0; status == QG_OK && (text = qg_library_complaint(*out, i)); i++)
        cli_note("%s; left out", text);
    return status;
}

void cli_progress(int64_t done, int64_t total, const char *what) {
    if (total <= 0 || !progress_wanted()) return;
    enum { WIDTH = 30 };
    int full = (int)((done < total ? done : total) * WIDTH / total);
    fprintf(stderr, "\r\033[K[%.*s%*s] %lld/%lld %.60s", full, "##############################", WIDTH - full,
            "", (long long)done, (long long)total, what ? what : "");
    fflush(stderr);
}

void cli_progress_clear(void) {
    if (progress_wanted()) fputs("\r\033[K", stderr);
}

bool cli_print_json(json_t *value) {
    bool ok = value && !json_dumpf(value, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(9) | JSON_ENCODE_ANY);
    json_decref(value);
    return ok && putchar('\n') != EOF;
}

int cli_finish(int code) {
    if (!fflush(stdout) && !ferror(stdout)) return code;
    qg_error err;
    qg_fail(&err, QG_ENVIRONMENT, "standard output", errno ? strerror(errno) : "cannot be written", "");
    return cli_report(&err);
}

char *cli_bytes(double bytes, char out[32]) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int i = 0;
    for (; bytes >= 1024 && i < 4; i++)
        bytes /= 1024;
    snprintf(out, 32, i ? "%.1f %s" : "%.0f %s", bytes, units[i]);
    return out;
}

double cli_clock(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
