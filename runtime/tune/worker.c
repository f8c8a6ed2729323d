#include "runtime/tune/worker.h"

#include "gen/text.h"
#include "runtime/cli/report.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { LINE_MAX_BYTES = 1 << 20 };

struct tune_worker {
    pid_t pid;
    int to, from; /* pipes; -1 once closed */
    qg_text read; /* bytes of replies not taken yet */
    bool gone;    /* its status was collected */
    int status;
};

/* ---- starting ---- */

static int spawn(pid_t *pid, char *const *argv, int in, int out) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int error = posix_spawn_file_actions_init(&actions);
    if (error) return error;
    error = posix_spawnattr_init(&attributes);
    if (!error) {
        /* A group of its own, so that a kill reaches what it started. */
        posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
        posix_spawnattr_setpgroup(&attributes, 0);
        error = posix_spawn_file_actions_adddup2(&actions, in, 0);
        if (!error) error = posix_spawn_file_actions_adddup2(&actions, out, 1);
        if (!error) error = posix_spawnp(pid, argv[0], &actions, &attributes, argv, environ);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

static void close_end(int *fd) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

static qg_status launch(tune_worker *w, const tune_worker_options *o, qg_error *err) {
    int in[2] = {-1, -1}, out[2] = {-1, -1};
    const char *program = o->program ? o->program : "/proc/self/exe";
    const char *const argv[] = {program, o->program ? NULL : "tune-worker", o->device ? "--device" : NULL,
                                o->device, NULL};
    int error = pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC) ? errno : 0;
    if (!error) error = spawn(&w->pid, (char *const *)(uintptr_t)argv, in[0], out[1]);
    close_end(&in[0]);
    close_end(&out[1]);
    if (error) {
        close_end(&in[1]);
        close_end(&out[0]);
        return qg_failf(err, QG_ENVIRONMENT, "tuning worker", "", "%s does not start: %s", program,
                        strerror(error));
    }
    w->to = in[1];
    w->from = out[0];
    fcntl(w->to, F_SETFL, O_NONBLOCK);
    fcntl(w->from, F_SETFL, O_NONBLOCK);
    return QG_OK;
}

/* ---- ending ---- */

/* Whether the process is gone within so many seconds. */
static bool collect(tune_worker *w, double seconds) {
    for (double until = cli_clock() + seconds; !w->gone;) {
        pid_t pid = waitpid(w->pid, &w->status, WNOHANG);
        w->gone = pid == w->pid || (pid < 0 && errno == ECHILD);
        if (w->gone || cli_clock() >= until) break;
        nanosleep(&(struct timespec){0, 2000000}, NULL);
    }
    return w->gone;
}

/* A process stuck in its driver may outlive even this; waiting longer would stop the sweep. */
static void end_by_force(tune_worker *w) {
    if (w->pid <= 0) return;
    kill(-w->pid, SIGKILL);
    collect(w, 10);
}

void tune_worker_stop(tune_worker *w) {
    if (!w) return;
    close_end(&w->to);
    if (w->pid > 0 && !collect(w, 1)) end_by_force(w);
    close_end(&w->from);
    qg_text_free(&w->read);
    free(w);
}

static void say_how_it_died(tune_worker *w, char *why, size_t size) {
    /* Its output ended; if the process has not, it is of no use. */
    if (!collect(w, 1)) {
        end_by_force(w);
        snprintf(why, size, "the worker closed its output");
    } else if (WIFSIGNALED(w->status)) {
        snprintf(why, size, "the worker was ended by signal %d (%s)", WTERMSIG(w->status),
                 strsignal(WTERMSIG(w->status)));
    } else {
        snprintf(why, size, "the worker ended with code %d", WEXITSTATUS(w->status));
    }
    kill(-w->pid, SIGKILL); /* what it may have left behind */
}

/* ---- talking ---- */

/* Waits for an event on fd until a time; false when there was none. */
static bool wait_for(int fd, short events, double until) {
    for (;;) {
        double left = until - cli_clock();
        if (left <= 0) return false;
        struct pollfd p = {fd, events, 0};
        int n = poll(&p, 1, left > 60 ? 60000 : (int)(left * 1000) + 1);
        if (n > 0) return true;
        if (n < 0 && errno != EINTR) return true; /* the read or write will tell */
    }
}

static tune_outcome send_line(tune_worker *w, const char *text, size_t size, double until) {
    while (size) {
        if (!wait_for(w->to, POLLOUT, until)) return TUNE_HUNG;
        ssize_t n = write(w->to, text, size);
        if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (n <= 0) return TUNE_DIED;
        text += n;
        size -= (size_t)n;
    }
    return TUNE_REPLIED;
}

/* Takes one line out of what was read; NULL when there is none that is JSON. *whole: there was a line. */
static json_t *take_line(tune_worker *w, bool *whole) {
    char *end = w->read.size ? memchr(w->read.data, '\n', w->read.size) : NULL;
    *whole = end != NULL;
    if (!end) return NULL;
    size_t length = (size_t)(end - w->read.data);
    json_t *value = json_loadb(w->read.data, length, 0, NULL);
    w->read.size -= length + 1;
    memmove(w->read.data, end + 1, w->read.size);
    return value;
}

static tune_outcome receive_line(tune_worker *w, double until, json_t **out) {
    char some[4096];
    bool whole = false;
    while (!(*out = take_line(w, &whole)) && !whole) {
        if (!wait_for(w->from, POLLIN, until)) return TUNE_HUNG;
        ssize_t n = read(w->from, some, sizeof some);
        if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (n <= 0 || w->read.size > LINE_MAX_BYTES || !qg_text_put(&w->read, some, (size_t)n))
            return TUNE_DIED;
    }
    return json_is_object(*out) ? TUNE_REPLIED : TUNE_DIED;
}

/* Turns an outcome that is no reply into words, and ends the worker. */
static tune_outcome end_with(tune_worker *w, tune_outcome outcome, double seconds, char *why, size_t size) {
    if (outcome == TUNE_DIED) say_how_it_died(w, why, size);
    if (outcome == TUNE_HUNG) {
        end_by_force(w);
        snprintf(why, size, "no answer within %.1f s", seconds);
    }
    return outcome;
}

tune_outcome tune_worker_ask(tune_worker *w, const json_t *request, double seconds, json_t **reply, char *why,
                             size_t size) {
    double until = cli_clock() + seconds;
    char *text = json_dumps(request, JSON_COMPACT | JSON_REAL_PRECISION(9));
    size_t length = text ? strlen(text) : 0;
    *reply = NULL;
    if (text) text[length] = '\n';
    tune_outcome outcome = text ? send_line(w, text, length + 1, until) : TUNE_DIED;
    free(text);
    if (outcome == TUNE_REPLIED) outcome = receive_line(w, until, reply);
    if (outcome != TUNE_REPLIED) {
        json_decref(*reply);
        *reply = NULL;
    }
    return end_with(w, outcome, seconds, why, size);
}

/* ---- hello ---- */

static const char *text_of(const json_t *o, const char *key) {
    const char *text = json_string_value(json_object_get(o, key));
    return text ? text : "";
}

static qg_status error_of(const json_t *hello, qg_error *err) {
    const json_t *e = json_object_get(hello, "error");
    json_int_t status = json_integer_value(json_object_get(e, "status"));
    if (status <= QG_OK || status > QG_INTERNAL) status = QG_INTERNAL;
    return qg_fail(err, (qg_status)status, text_of(e, "what"), text_of(e, "why"), text_of(e, "fix"));
}

static qg_status expect_hello(tune_worker *w, double seconds, json_t **hello, qg_error *err) {
    char why[200] = "";
    tune_outcome outcome = receive_line(w, cli_clock() + seconds, hello);
    if (outcome != TUNE_REPLIED) {
        end_with(w, outcome, seconds, why, sizeof why);
        return qg_fail(err, QG_ENVIRONMENT, "tuning worker", why, "qrsmith doctor tells more");
    }
    if (json_object_get(*hello, "error")) return error_of(*hello, err);
    if (strcmp(text_of(*hello, "hello"), TUNE_WORKER_FORMAT))
        return qg_fail(err, QG_INTERNAL, "tuning worker", "it does not say hello as " TUNE_WORKER_FORMAT, "");
    return QG_OK;
}

qg_status tune_worker_start(const tune_worker_options *options, tune_worker **out, json_t **hello,
                            qg_error *err) {
    tune_worker *w = calloc(1, sizeof *w);
    *out = NULL;
    *hello = NULL;
    if (!w) return qg_fail(err, QG_NO_MEMORY, "tuning worker", "out of memory", "");
    *w = (tune_worker){.to = -1, .from = -1};
    qg_status s = launch(w, options, err);
    if (!s) s = expect_hello(w, options->seconds, hello, err);
    if (s) {
        json_decref(*hello);
        *hello = NULL;
        tune_worker_stop(w);
        return s;
    }
    *out = w;
    return QG_OK;
}
