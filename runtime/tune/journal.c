#include "runtime/tune/journal.h"

#include "gen/number.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

struct tune_journal {
    char *path;
    int fd, torn;
    bool ours;       /* the lock */
    json_t *keys;    /* key -> {"verdict": last one, "crashes", "open": begun without a verdict} */
    json_t *winners; /* target -> event */
};

static qg_status trouble(const char *path, qg_error *err) {
    bool slip = errno == ENOENT || errno == ENOTDIR || errno == EISDIR;
    return qg_fail(err, slip ? QG_BAD_INPUT : QG_ENVIRONMENT, path, strerror(errno),
                   "a journal in a folder that exists and can be written (--journal FILE)");
}

static const char *text_of(const json_t *o, const char *key) {
    const char *text = json_string_value(json_object_get(o, key));
    return text ? text : "";
}

static json_t *record_of(tune_journal *j, const char *key) {
    json_t *record = json_object_get(j->keys, key);
    if (record) return record;
    json_object_set_new(j->keys, key, json_object());
    return json_object_get(j->keys, key);
}

/* What a line changes in memory. */
static void note(tune_journal *j, json_t *event) {
    const char *name = text_of(event, "event"), *key = text_of(event, "key");
    if (!strcmp(name, "winner")) {
        json_object_set(j->winners, text_of(event, "target"), event);
    } else if (!strcmp(name, "begin")) {
        json_object_set_new(record_of(j, key), "open", json_true());
    } else if (!strcmp(name, "verdict")) {
        json_t *record = record_of(j, key);
        json_int_t crashes = json_integer_value(json_object_get(record, "crashes"));
        crashes += !strcmp(text_of(event, "verdict"), "crashed");
        json_object_set_new(record, "crashes", json_integer(crashes));
        json_object_set_new(record, "open", json_false());
        json_object_set(record, "verdict", event);
    }
}

static void take_line(tune_journal *j, const char *line, size_t length) {
    json_t *event = json_loadb(line, length, JSON_REJECT_DUPLICATES, NULL);
    if (json_is_object(event))
        note(j, event);
    else
        j->torn++;
    json_decref(event);
}

static qg_status read_lines(tune_journal *j, qg_error *err) {
    FILE *f = fopen(j->path, "rbe");
    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    qg_c_locale locale;
    if (!f) return trouble(j->path, err);
    qg_c_locale_enter(&locale);
    while ((length = getline(&line, &room, f)) > 0)
        if (length > 1) take_line(j, line, (size_t)length);
    qg_c_locale_leave(&locale);
    bool failed = ferror(f) != 0;
    qg_status s = failed ? trouble(j->path, err) : QG_OK;
    free(line);
    fclose(f);
    return s;
}

/* A line that a crash left without its end must not swallow the next one. */
static bool end_last_line(int fd) {
    char last = '\n';
    off_t size = lseek(fd, 0, SEEK_END);
    if (size > 0 && pread(fd, &last, 1, size - 1) != 1) return false;
    return last == '\n' || write(fd, "\n", 1) == 1;
}

qg_status tune_journal_open(const char *path, bool resume, tune_journal **out, qg_error *err) {
    tune_journal *j = calloc(1, sizeof *j);
    *out = NULL;
    if (!j) return qg_fail(err, QG_NO_MEMORY, path, "out of memory", "");
    *j = (tune_journal){.path = strdup(path), .fd = -1, .keys = json_object(), .winners = json_object()};
    qg_status s =
        j->path && j->keys && j->winners ? QG_OK : qg_fail(err, QG_NO_MEMORY, path, "out of memory", "");
    if (!s) j->fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (!s && j->fd < 0) s = trouble(path, err);
    if (!s && flock(j->fd, LOCK_EX | LOCK_NB))
        s = errno == EWOULDBLOCK ? qg_fail(err, QG_ENVIRONMENT, path, "another sweep is writing it",
                                           "wait for it, or --journal FILE")
                                 : trouble(path, err);
    j->ours = !s;
    if (!s && resume) s = read_lines(j, err);
    if (!s && !end_last_line(j->fd)) s = trouble(path, err);
    if (s)
        tune_journal_close(j);
    else
        *out = j;
    return s;
}

void tune_journal_close(tune_journal *j) {
    if (!j) return;
    if (j->ours && lseek(j->fd, 0, SEEK_END) == 0) unlink(j->path); /* a sweep that never began */
    if (j->fd >= 0) close(j->fd);
    json_decref(j->keys);
    json_decref(j->winners);
    free(j->path);
    free(j);
}

int tune_journal_torn(const tune_journal *j) {
    return j->torn;
}

static bool write_all(int fd, const char *data, size_t size) {
    while (size) {
        ssize_t n = write(fd, data, size);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        data += n;
        size -= (size_t)n;
    }
    return true;
}

qg_status tune_journal_add(tune_journal *j, json_t *event, qg_error *err) {
    qg_c_locale locale;
    qg_c_locale_enter(&locale);
    char *text = event ? json_dumps(event, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    qg_c_locale_leave(&locale);
    size_t length = text ? strlen(text) : 0;
    qg_status s = text ? QG_OK : qg_fail(err, QG_NO_MEMORY, j->path, "out of memory", "");
    if (!s) {
        text[length] = '\n'; /* in place of the NUL: one write a line */
        if (!write_all(j->fd, text, length + 1) || (fsync(j->fd) && errno != EINVAL && errno != EROFS))
            s = trouble(j->path, err);
    }
    if (!s) note(j, event);
    free(text);
    json_decref(event);
    return s;
}

const json_t *tune_journal_final(const tune_journal *j, const char *key) {
    const json_t *record = json_object_get(j->keys, key), *verdict = json_object_get(record, "verdict");
    if (!verdict || !strcmp(text_of(verdict, "verdict"), "timeout")) return NULL;
    bool crashed = !strcmp(text_of(verdict, "verdict"), "crashed");
    return crashed && json_integer_value(json_object_get(record, "crashes")) < 2 ? NULL : verdict;
}

bool tune_journal_suspect(const tune_journal *j, const char *key) {
    const json_t *record = json_object_get(j->keys, key);
    return record && (json_is_true(json_object_get(record, "open")) || !tune_journal_final(j, key));
}

const json_t *tune_journal_winner(const tune_journal *j, const char *target) {
    return json_object_get(j->winners, target);
}
