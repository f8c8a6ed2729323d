#include "tests/lib/support.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { RUN_LIMIT_SECONDS = 600 };

static const char *env_or(const char *name, const char *fallback) {
    const char *value = getenv(name);
    return value && *value ? value : fallback;
}

const char *qt_build(void) {
    return env_or("QRSMITH_BUILD", "build");
}

const char *qt_bin(void) {
    return env_or("QRSMITH_BIN", "build/san/qrsmith");
}

bool qt_test_all(void) {
    return strcmp(env_or("QRSMITH_TEST_ALL", "0"), "1") == 0;
}

char *qt_format(const char *format, ...) {
    char *text = NULL;
    va_list args;
    va_start(args, format);
    int length = vasprintf(&text, format, args);
    va_end(args);
    assert_true(length >= 0);
    return text;
}

char *qt_tmpdir(void) {
    char *path = qt_format("%s/qrsmith-test-XXXXXX", env_or("TMPDIR", "/tmp"));
    if (!mkdtemp(path)) {
        fail_msg("mkdtemp %s: %s", path, strerror(errno));
    }
    return path;
}

void qt_remove_tree(const char *path) {
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) {
            continue;
        }
        char *child = qt_format("%s/%s", path, entry->d_name);
        struct stat info;
        if (lstat(child, &info) == 0 && S_ISDIR(info.st_mode)) {
            qt_remove_tree(child);
        } else {
            unlink(child);
        }
        free(child);
    }
    if (dir) {
        closedir(dir);
    }
    rmdir(path);
}

bool qt_exists(const char *path) {
    return access(path, F_OK) == 0;
}

/* Appends what fd has; false at its end. */
static bool drain(int fd, char **text, size_t *size) {
    char chunk[65536];
    ssize_t got = read(fd, chunk, sizeof chunk);
    if (got < 0 && errno == EINTR) {
        return true;
    }
    if (got <= 0) {
        return false;
    }
    *text = realloc(*text, *size + (size_t)got + 1);
    assert_non_null(*text);
    memcpy(*text + *size, chunk, (size_t)got);
    *size += (size_t)got;
    (*text)[*size] = '\0';
    return true;
}

char *qt_read(const char *path, size_t *size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        fail_msg("open %s: %s", path, strerror(errno));
    }
    char *text = calloc(1, 1);
    size_t length = 0;
    while (drain(fd, &text, &length)) {
    }
    close(fd);
    if (size) {
        *size = length;
    }
    return text;
}

void qt_write(const char *path, const void *data, size_t size) {
    FILE *file = fopen(path, "wb");
    if (!file) {
        fail_msg("create %s: %s", path, strerror(errno));
    }
    size_t written = size ? fwrite(data, 1, size, file) : 0;
    assert_int_equal(fclose(file), 0);
    assert_int_equal(written, size);
}

void qt_write_text(const char *path, const char *text) {
    qt_write(path, text, strlen(text));
}

static bool names(const char *assignment, const char *change) {
    size_t length = strcspn(change, "=");
    return strncmp(assignment, change, length) == 0 && assignment[length] == '=';
}

static bool overridden(const char *assignment, const char *const changes[]) {
    for (size_t i = 0; changes && changes[i]; i++) {
        if (names(assignment, changes[i])) {
            return true;
        }
    }
    return false;
}

/* environ with the changes made; the strings are borrowed. */
static char **child_env(const char *const changes[]) {
    size_t total = 1, used = 0;
    for (size_t i = 0; environ[i]; i++, total++) {
    }
    for (size_t i = 0; changes && changes[i]; i++, total++) {
    }
    char **env = calloc(total, sizeof *env);
    assert_non_null(env);
    for (size_t i = 0; environ[i]; i++) {
        if (!overridden(environ[i], changes)) {
            env[used++] = environ[i];
        }
    }
    for (size_t i = 0; changes && changes[i]; i++) {
        if (strchr(changes[i], '=')) {
            env[used++] = (char *)(uintptr_t)changes[i];
        }
    }
    return env;
}

static pid_t spawn(const char *const argv[], const char *const changes[], int out, int err) {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, out, 1);
    posix_spawn_file_actions_adddup2(&actions, err, 2);
    char **env = child_env(changes);
    pid_t pid = -1;
    int failure = posix_spawnp(&pid, argv[0], &actions, NULL, (char *const *)(uintptr_t)argv, env);
    free(env);
    posix_spawn_file_actions_destroy(&actions);
    if (failure) {
        fail_msg("cannot run %s: %s", argv[0], strerror(failure));
    }
    return pid;
}

/* Reads both pipes until both are closed; false when the limit passed first. */
static bool collect(int out, int err, qt_output *output) {
    struct pollfd fds[2] = {{.fd = out, .events = POLLIN}, {.fd = err, .events = POLLIN}};
    char **texts[2] = {&output->out, &output->err};
    size_t sizes[2] = {0, 0};
    time_t deadline = time(NULL) + RUN_LIMIT_SECONDS;
    while (fds[0].fd >= 0 || fds[1].fd >= 0) {
        poll(fds, 2, 1000);
        for (int i = 0; i < 2; i++) {
            if (fds[i].fd >= 0 && fds[i].revents && !drain(fds[i].fd, texts[i], &sizes[i])) {
                fds[i].fd = -1;
            }
        }
        if (time(NULL) > deadline) {
            return false;
        }
    }
    return true;
}

qt_output qt_run(const char *const argv[], const char *const extra_env[]) {
    qt_output output = {.code = -1, .out = calloc(1, 1), .err = calloc(1, 1)};
    int out[2], err[2];
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    assert_int_equal(pipe2(err, O_CLOEXEC), 0);
    pid_t pid = spawn(argv, extra_env, out[1], err[1]);
    close(out[1]);
    close(err[1]);
    bool finished = collect(out[0], err[0], &output);
    if (!finished) {
        kill(pid, SIGKILL);
    }
    close(out[0]);
    close(err[0]);
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (!finished) {
        fail_msg("%s ran past %d seconds", argv[0], RUN_LIMIT_SECONDS);
    }
    output.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return output;
}

void qt_output_free(qt_output *output) {
    free(output->out);
    free(output->err);
    *output = (qt_output){.code = -1};
}

void qt_assert_contains(const char *text, const char *part) {
    if (!strstr(text, part)) {
        fail_msg("\"%s\" is not in:\n%s", part, text);
    }
}
