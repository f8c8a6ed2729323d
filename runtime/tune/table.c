#include "runtime/tune/table.h"

#include "gen/json_read.h"
#include "gen/number.h"
#include "runtime/cli/output.h"
#include "runtime/cli/report.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FORMAT "qrsmith-tuned-1"

/* ---- the lock ---- */

/* "folder/.name.lock": hidden, so that nothing takes it for a table. Caller frees. */
static char *lock_path(const char *path) {
    const char *slash = strrchr(path, '/');
    int folder = slash ? (int)(slash - path + 1) : 0;
    size_t size = strlen(path) + 8;
    char *out = malloc(size);
    if (out) snprintf(out, size, "%.*s.%s.lock", folder, path, path + folder);
    return out;
}

/* Whether the path still names the open file: the holder before may have removed it. */
static bool still_named(int fd, const char *path) {
    struct stat a, b;
    return !fstat(fd, &a) && !stat(path, &b) && a.st_ino == b.st_ino && a.st_dev == b.st_dev;
}

static qg_status take_lock(const char *path, double seconds, int *out, qg_error *err) {
    for (double until = cli_clock() + seconds;;) {
        int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (fd < 0) break;
        if (!flock(fd, LOCK_EX | LOCK_NB) && still_named(fd, path)) {
            *out = fd;
            return QG_OK;
        }
        close(fd);
        if (cli_clock() >= until)
            return qg_failf(err, QG_ENVIRONMENT, path, "end it, then tune again with --resume",
                            "another process has held the lock for %.0f s", seconds);
        nanosleep(&(struct timespec){0, 20000000}, NULL);
    }
    return qg_fail(err, errno == ENOENT || errno == ENOTDIR ? QG_BAD_INPUT : QG_ENVIRONMENT, path,
                   strerror(errno), "a folder that exists and can be written");
}

static void give_lock(const char *path, int fd) {
    unlink(path); /* while it is held: who waits sees that the name is gone and starts over */
    close(fd);
}

/* ---- the table ---- */

static qg_status read_table(const char *path, json_t **out, qg_error *err) {
    const json_t *entries;
    qg_where where = qg_where_root(path);
    if (access(path, F_OK)) {
        *out = json_pack("{s:s, s:[]}", "format", FORMAT, "entries");
        return *out ? QG_OK : qg_fail(err, QG_NO_MEMORY, path, "out of memory", "");
    }
    qg_status s = qg_json_file(path, out, err);
    if (!s) s = qg_json_format(*out, FORMAT, &where, err);
    if (!s) s = qg_json_array(*out, "entries", &entries, &where, err);
    if (s) {
        json_decref(*out);
        *out = NULL;
    }
    return s;
}

qg_status tune_table_check(const char *path, qg_error *err) {
    json_t *root = NULL;
    qg_status s = read_table(path, &root, err);
    json_decref(root);
    return s;
}

static void put_entry(json_t *root, const json_t *entry) {
    json_t *entries = json_object_get(root, "entries"), *old;
    size_t i;
    json_array_foreach(entries, i, old) {
        if (json_equal(json_object_get(old, "shape"), json_object_get(entry, "shape")) &&
            json_equal(json_object_get(old, "device"), json_object_get(entry, "device"))) {
            json_array_set(entries, i, (json_t *)(uintptr_t)entry);
            return;
        }
    }
    json_array_append(entries, (json_t *)(uintptr_t)entry);
}

/* An entry a line: a new winner is one changed line to a reviewer. */
static bool write_table(const json_t *root, FILE *to) {
    const char *key;
    json_t *value, *entry;
    size_t i;
    bool ok = fputs("{", to) >= 0, first = true;
    json_object_foreach((json_t *)(uintptr_t)root, key, value) {
        if (!strcmp(key, "entries")) continue;
        ok &= fprintf(to, "%s\n  \"%s\": ", first ? "" : ",", key) > 0 &&
              !json_dumpf(value, to, JSON_ENCODE_ANY);
        first = false;
    }
    ok &= fprintf(to, "%s\n  \"entries\": [", first ? "" : ",") > 0;
    json_array_foreach(json_object_get(root, "entries"), i, entry) {
        ok &= fprintf(to, "%s\n    ", i ? "," : "") > 0 &&
              !json_dumpf(entry, to, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
    }
    return fputs(i ? "\n  ]\n}\n" : "]\n}\n", to) >= 0 && ok;
}

static qg_status replace(const char *path, const json_t *root, qg_error *err) {
    cli_outputs outputs = {.count = 0};
    FILE *to;
    qg_status s = cli_output_add(&outputs, path, &to, err);
    if (!s && !write_table(root, to))
        s = qg_fail(err, QG_ENVIRONMENT, path, "cannot be written", "is the disk full?");
    if (!s) return cli_outputs_commit(&outputs, err);
    cli_outputs_discard(&outputs);
    return s;
}

qg_status tune_table_merge(const char *path, const json_t *entry, double seconds, qg_error *err) {
    json_t *root = NULL;
    char *lock = lock_path(path);
    int fd = -1;
    qg_c_locale locale;
    if (!lock) return qg_fail(err, QG_NO_MEMORY, path, "out of memory", "");
    qg_c_locale_enter(&locale);
    qg_status s = take_lock(lock, seconds, &fd, err);
    if (!s) s = read_table(path, &root, err);
    if (!s) put_entry(root, entry);
    if (!s) s = replace(path, root, err);
    if (fd >= 0) give_lock(lock, fd);
    qg_c_locale_leave(&locale);
    json_decref(root);
    free(lock);
    return s;
}
