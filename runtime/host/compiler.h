/* The host's C++ compiler: who it is, and how it is called. */
#ifndef QHX_COMPILER_H
#define QHX_COMPILER_H

#include "gen/error.h"

#include <stdbool.h>

/* What helps where no compiler works. */
#define QHX_COMPILER_HINT "install the package g++ (apt-get install g++), or set CXX to a C++17 compiler"

enum { QHX_COMPILER_WORDS = 8, QHX_COMPILER_FLAGS = 24 };

typedef struct qhx_compiler {
    char text[512]; /* the words, cut by NULs */
    char *word[QHX_COMPILER_WORDS + 1];
    int words;
    char version[512]; /* first line of --version */
    char path[512];    /* where word[0] was found */
} qhx_compiler;

/* `cxx`: command and arguments; NULL: $CXX, else c++. */
qg_status qhx_compiler_find(const char *cxx, qhx_compiler *out, qg_error *err);
/* The flags of every compile; returns their number. */
int qhx_compiler_flags(bool sanitize, const char *flags[QHX_COMPILER_FLAGS]);
/* Compiles `source` in folder `dir` to `object` there; that `object` is there is for the caller to see. */
qg_status qhx_compiler_run(const qhx_compiler *c, bool sanitize, const char *dir, const char *source,
                           const char *object, qg_error *err);

#endif
