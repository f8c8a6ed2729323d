#include "runtime/host/process.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void drain(int fd, char *output, size_t size) {
    char rest[4096];
    size_t used = 0;
    for (;;) {
        bool room = used + 1 < size;
        ssize_t n = read(fd, room ? output + used : rest, room ? size - 1 - used : sizeof rest);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        used += room ? (size_t)n : 0;
    }
    output[used] = 0;
}

static int spawn(pid_t *pid, char *const *argv, const char *dir, int out) {
    posix_spawn_file_actions_t actions;
    int error = posix_spawn_file_actions_init(&actions);
    if (error) return error;
    if (dir) error = posix_spawn_file_actions_addchdir_np(&actions, dir);
    if (!error) error = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    if (!error) error = posix_spawn_file_actions_adddup2(&actions, out, 1);
    if (!error) error = posix_spawn_file_actions_adddup2(&actions, out, 2);
    if (!error) error = posix_spawnp(pid, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

bool qhx_process_run(char *const *argv, const char *dir, char *output, size_t size, int *exit_code) {
    int ends[2], status = 0;
    pid_t pid;
    if (pipe2(ends, O_CLOEXEC) != 0) return false;
    int error = spawn(&pid, argv, dir, ends[1]);
    close(ends[1]);
    if (error == 0) drain(ends[0], output, size);
    close(ends[0]);
    if (error) {
        errno = error;
        return false;
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    *exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return true;
}
