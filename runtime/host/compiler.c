#include "runtime/host/compiler.h"

#include "runtime/host/process.h"
#include "runtime/host/race.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Contraction would change rounding; kernels pun types as nvcc allows; shared memory is read before it is
 * written only by mistake, which poison shows, not the compiler. */
static const char *const common_flags[] = {"-x",
                                           "c++",
                                           "-std=c++17",
                                           "-O1",
                                           "-fPIC",
                                           "-shared",
                                           "-DQRS_HOST",
                                           "-ffp-contract=off",
                                           "-fno-strict-aliasing",
                                           "-fno-math-errno",
                                           "-fno-exceptions",
                                           "-fno-rtti",
                                           "-fvisibility=hidden",
                                           "-w",
                                           "-I."};
static const char *const sanitize_flags[] = {"-g1", "-fno-omit-frame-pointer", "-fsanitize=address,undefined",
                                             "-fno-sanitize-recover=undefined"};
static const char *const race_flags[] = {"-g1", "-fno-omit-frame-pointer", "-fsanitize=thread"};

#define COUNT(a) (int)(sizeof(a) / sizeof *(a))

int qhx_compiler_flags(bool sanitize, const char *flags[QHX_COMPILER_FLAGS]) {
    int n = 0;
    for (int i = 0; i < COUNT(common_flags); i++)
        flags[n++] = common_flags[i];
    for (int i = 0; sanitize && i < COUNT(sanitize_flags); i++)
        flags[n++] = sanitize_flags[i];
    for (int i = 0; QHX_TSAN && i < COUNT(race_flags); i++)
        flags[n++] = race_flags[i];
    return n;
}

static qg_status split(const char *cxx, qhx_compiler *c, qg_error *err) {
    if (strlen(cxx) >= sizeof c->text)
        return qg_fail(err, QG_ENVIRONMENT, "host compiler", "the command in CXX is too long",
                       QHX_COMPILER_HINT);
    strcpy(c->text, cxx);
    char *rest = NULL;
    for (char *w = strtok_r(c->text, " \t", &rest); w; w = strtok_r(NULL, " \t", &rest)) {
        if (c->words == QHX_COMPILER_WORDS)
            return qg_fail(err, QG_ENVIRONMENT, "host compiler", "the command in CXX has more than 8 words",
                           QHX_COMPILER_HINT);
        c->word[c->words++] = w;
    }
    if (c->words == 0)
        return qg_fail(err, QG_ENVIRONMENT, "host compiler", "CXX is blank", QHX_COMPILER_HINT);
    return QG_OK;
}

/* Only to name the compiler in keys: posix_spawnp does its own search. */
static void locate(qhx_compiler *c) {
    const char *path = getenv("PATH");
    snprintf(c->path, sizeof c->path, "%s", c->word[0]);
    if (strchr(c->word[0], '/') || !path) return;
    while (*path) {
        size_t n = strcspn(path, ":");
        char candidate[sizeof c->path];
        int written = snprintf(candidate, sizeof candidate, "%.*s/%s", (int)n, path, c->word[0]);
        if (written > 0 && (size_t)written < sizeof candidate && access(candidate, X_OK) == 0) {
            strcpy(c->path, candidate);
            return;
        }
        path += n + (path[n] == ':');
    }
}

qg_status qhx_compiler_find(const char *cxx, qhx_compiler *c, qg_error *err) {
    memset(c, 0, sizeof *c);
    const char *env = getenv("CXX");
    qg_status status = split(cxx ? cxx : env && *env ? env : "c++", c, err);
    if (status != QG_OK) return status;
    char *argv[QHX_COMPILER_WORDS + 2] = {0};
    memcpy(argv, c->word, (size_t)c->words * sizeof *argv);
    argv[c->words] = (char[]){"--version"};
    int code = 0;
    if (!qhx_process_run(argv, NULL, c->version, sizeof c->version, &code))
        return qg_failf(err, QG_ENVIRONMENT, "host compiler", QHX_COMPILER_HINT,
                        "cannot run the C++ compiler '%s': %s", c->word[0], strerror(errno));
    if (code != 0)
        return qg_failf(err, QG_ENVIRONMENT, "host compiler", QHX_COMPILER_HINT,
                        "'%s --version' exits with %d", c->word[0], code);
    c->version[strcspn(c->version, "\n")] = 0;
    locate(c);
    return QG_OK;
}

qg_status qhx_compiler_run(const qhx_compiler *c, bool sanitize, const char *dir, const char *source,
                           const char *object, qg_error *err) {
    const char *argv[QHX_COMPILER_WORDS + QHX_COMPILER_FLAGS + 8];
    char output[2560];
    int n = 0, code = 0;
    for (int i = 0; i < c->words; i++)
        argv[n++] = c->word[i];
    n += qhx_compiler_flags(sanitize, argv + n);
    argv[n++] = "-o";
    argv[n++] = object;
    argv[n++] = source;
    argv[n++] = "-lm";
    argv[n] = NULL;
    char what[256];
    snprintf(what, sizeof what, "host compile of %s", source);
    if (!qhx_process_run((char *const *)argv, dir, output, sizeof output, &code))
        return qg_failf(err, QG_ENVIRONMENT, what, QHX_COMPILER_HINT, "cannot run '%s': %s", c->word[0],
                        strerror(errno));
    if (code != 0)
        return qg_failf(err, QG_INTERNAL, what, "", "%s exits with %d:\n%s", c->word[0], code, output);
    return QG_OK;
}
