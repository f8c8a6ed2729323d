#include "runtime/cli/output.h"
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char *join(const char *a, const char *b) {
    char *s = malloc(strlen(a) + strlen(b) + 1);
    if (s) strcat(strcpy(s, a), b);
    return s;
}

static void forget(cli_output *o) {
    if (o->file) fclose(o->file);
    if (o->temp) unlink(o->temp);
    if (o->backup) unlink(o->backup);
    free(o->path);
    free(o->temp);
    free(o->backup);
    *o = (cli_output){0};
}

/* A path that can't be is the user's slip; a full or read-only disk is the machine's state. */
static qg_status refused(const cli_output *o, qg_error *err) {
    bool slip =
        errno == ENOENT || errno == ENOTDIR || errno == EISDIR || errno == ENAMETOOLONG || errno == ELOOP;
    return qg_fail(err, slip ? QG_BAD_INPUT : QG_ENVIRONMENT, o->shown, strerror(errno),
                   "a file in a folder that exists and can be written");
}

/* Two names of one file would each be written whole, and the later one win. */
static bool named_before(const cli_outputs *set, const char *path) {
    for (int i = 0; i < set->count; i++)
        if (!strcmp(set->entry[i].path, path)) return true;
    return false;
}

/* The place that `path` names: of an existing file itself, else its folder's place plus the last name. */
static char *resolve(const char *path) {
    char *real = realpath(path, NULL);
    if (real || errno != ENOENT) return real;
    const char *slash = strrchr(path, '/');
    char *folder = slash ? strndup(path, (size_t)(slash - path + 1)) : strdup(".");
    char *real_folder = folder ? realpath(folder, NULL) : NULL;
    char *with_slash = real_folder ? join(real_folder, "/") : NULL;
    real = with_slash ? join(with_slash, slash ? slash + 1 : path) : NULL;
    int kept = errno;
    free(folder);
    free(real_folder);
    free(with_slash);
    errno = kept;
    return real;
}

/* A file without a name: nothing is left of it even when the process is killed. -1 where the file system has
 * none. */
static int open_nameless(const char *path) {
    char *folder = strndup(path, (size_t)(strrchr(path, '/') - path + 1));
    int fd = folder ? open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0666) : -1;
    free(folder);
    return fd;
}

static int open_named(cli_output *o) {
    o->temp = join(o->path, ".tmp-XXXXXX");
    int fd = o->temp ? mkstemp(o->temp) : -1;
    if (fd < 0) {
        free(o->temp);
        o->temp = NULL;
        return -1;
    }
    mode_t mask = umask(0); /* mkstemp's files are private; an output is an ordinary file */
    umask(mask);
    fchmod(fd, 0666 & ~mask);
    return fd;
}

static qg_status open_temp(cli_output *o, qg_error *err) {
    int fd = open_nameless(o->path);
    if (fd < 0) fd = open_named(o);
    o->file = fd < 0 ? NULL : fdopen(fd, "wb");
    if (o->file) return QG_OK;
    qg_status status = refused(o, err);
    if (fd >= 0) close(fd);
    return status;
}

/* Gives a nameless file a temporary name, from which it can be renamed. */
static bool name_temp(cli_output *o) {
    char place[64], suffix[64];
    if (o->temp) return true;
    snprintf(place, sizeof place, "/proc/self/fd/%d", fileno(o->file));
    for (int attempt = 0; attempt < 100; attempt++) {
        snprintf(suffix, sizeof suffix, ".tmp-%ld-%d", (long)getpid(), attempt);
        char *name = join(o->path, suffix);
        if (name && !linkat(AT_FDCWD, place, AT_FDCWD, name, AT_SYMLINK_FOLLOW)) {
            o->temp = name;
            return true;
        }
        free(name);
        if (errno != EEXIST) return false;
    }
    return false;
}

qg_status cli_output_add(cli_outputs *set, const char *path, FILE **out, qg_error *err) {
    struct stat st;
    if (set->count == CLI_OUTPUT_MAX) return qg_fail(err, QG_INTERNAL, path, "too many output files", "");
    cli_output *o = &set->entry[set->count];
    *o = (cli_output){.shown = path, .path = resolve(path)};
    if (!o->path) return refused(o, err);
    qg_status status = QG_OK;
    size_t length = strlen(path);
    if ((length && path[length - 1] == '/') || (!stat(o->path, &st) && !S_ISREG(st.st_mode)))
        status =
            qg_fail(err, QG_BAD_INPUT, path, "is not a regular file", "the name of a new or existing file");
    else if (named_before(set, o->path))
        status = qg_fail(err, QG_BAD_INPUT, path, "is named for two outputs", "a file for each");
    else
        status = open_temp(o, err);
    if (status != QG_OK) {
        forget(o);
        return status;
    }
    set->count++;
    *out = o->file;
    return QG_OK;
}

static qg_status flush(cli_output *o, qg_error *err) {
    bool ok = !ferror(o->file) && !fflush(o->file) && !fsync(fileno(o->file)) && name_temp(o);
    int kept = errno;
    ok &= !fclose(o->file);
    o->file = NULL;
    errno = kept ? kept : EIO;
    return ok ? QG_OK : refused(o, err);
}

/* Keeps the old file reachable under a second name until every rename has worked. */
static qg_status keep_old(cli_output *o, qg_error *err) {
    char *name = join(o->temp, ".old");
    if (!name) return qg_fail(err, QG_NO_MEMORY, o->shown, "no memory for a file name", "");
    if (!link(o->path, name)) {
        o->backup = name;
        return QG_OK;
    }
    int kept = errno;
    free(name);
    errno = kept;
    return errno == ENOENT || errno == EPERM || errno == ENOTSUP ? QG_OK : refused(o, err);
}

static qg_status publish(cli_output *o, qg_error *err) {
    if (rename(o->temp, o->path)) return refused(o, err);
    free(o->temp);
    o->temp = NULL;
    o->published = true;
    return QG_OK;
}

static void restore(cli_output *o) {
    if (!o->published) return;
    if (o->backup && !rename(o->backup, o->path)) {
        free(o->backup);
        o->backup = NULL;
    } else {
        unlink(o->path);
    }
}

qg_status cli_outputs_commit(cli_outputs *set, qg_error *err) {
    qg_status status = QG_OK;
    for (int i = 0; i < set->count && status == QG_OK; i++)
        status = flush(&set->entry[i], err);
    for (int i = 0; i < set->count && status == QG_OK; i++)
        status = keep_old(&set->entry[i], err);
    for (int i = 0; i < set->count && status == QG_OK; i++)
        status = publish(&set->entry[i], err);
    for (int i = 0; i < set->count && status != QG_OK; i++)
        restore(&set->entry[i]);
    cli_outputs_discard(set);
    return status;
}

void cli_outputs_discard(cli_outputs *set) {
    for (int i = 0; i < set->count; i++)
        forget(&set->entry[i]);
    set->count = 0;
}
