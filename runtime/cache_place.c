#include "runtime/cache_place.h"
#include "runtime/cache_key.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *set(const char *name) {
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

void qrt_place_choose(char *out, size_t size) {
    const char *own = set("QRSMITH_CACHE_DIR"), *xdg = set("XDG_CACHE_HOME"), *home = set("HOME");
    const char *tmp = set("TMPDIR");
    int written;
    if (own)
        written = snprintf(out, size, "%s", own);
    else if (xdg && *xdg == '/') /* the XDG rules: a relative one is ignored */
        written = snprintf(out, size, "%s/qrsmith", xdg);
    else if (home)
        written = snprintf(out, size, "%s/.cache/qrsmith", home);
    else
        written = snprintf(out, size, "%s/qrsmith-%lu", tmp ? tmp : "/tmp", (unsigned long)geteuid());
    if (written < 0 || (size_t)written >= size) out[0] = 0;
}

/* Makes every missing folder on the way; what is there already is left alone. */
static bool make_folders(const char *dir) {
    char path[PATH_MAX];
    size_t size = strlen(dir);
    if (size >= sizeof path) {
        errno = ENAMETOOLONG;
        return false;
    }
    memcpy(path, dir, size + 1);
    for (size_t i = 1; i <= size; i++) {
        if (path[i] != '/' && path[i] != 0) continue;
        char kept = path[i];
        path[i] = 0;
        if (mkdir(path, 0700) && errno != EEXIST && errno != EISDIR && access(path, F_OK)) return false;
        path[i] = kept;
    }
    return true;
}

/* NULL when the thing may be trusted, else the reason. */
static const char *distrust(const struct stat *info, qrt_trust trust) {
    if (trust == QRT_TRUST_SHARED) return info->st_mode & S_IWOTH ? "is writable by everyone" : NULL;
    if (info->st_uid != geteuid()) return "belongs to another user";
    if (info->st_mode & (S_IWGRP | S_IWOTH)) return "is writable by others (chmod go-w)";
    return NULL;
}

static int open_trusted(int parent, const char *name, const char *shown, qrt_trust trust, char *why,
                        size_t why_size) {
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        int reason = errno;
        bool link = reason == ELOOP || reason == ENOTDIR;
        snprintf(why, why_size, "%s: %s", shown, link ? "is a symlink or no directory" : strerror(reason));
        errno = reason;
        return -1;
    }
    struct stat info;
    const char *reason = fstat(fd, &info) ? strerror(errno) : distrust(&info, trust);
    if (!reason) return fd;
    snprintf(why, why_size, "%s: %s", shown, reason);
    close(fd);
    errno = EPERM;
    return -1;
}

int qrt_place_open(const char *dir, qrt_trust trust, bool make, char *why, size_t why_size) {
    char clean[PATH_MAX], below[32];
    size_t size = strlen(dir);
    if (size >= sizeof clean) size = sizeof clean - 1;
    memcpy(clean, dir, size);
    while (size > 1 && clean[size - 1] == '/')
        size--; /* a trailing slash would follow a symlink */
    clean[size] = 0;
    snprintf(below, sizeof below, "cubin-%d", QRT_CACHE_FORMAT);
    if (make && !make_folders(clean)) {
        snprintf(why, why_size, "%s: can't be made: %s", clean, strerror(errno));
        errno = EACCES;
        return -1;
    }
    int top = open_trusted(AT_FDCWD, clean, clean, trust, why, why_size);
    if (top < 0) return -1;
    if (make && mkdirat(top, below, 0700) && errno != EEXIST && errno != EROFS && errno != EACCES) {
        snprintf(why, why_size, "%s/%s: can't be made: %s", clean, below, strerror(errno));
        close(top);
        errno = EACCES;
        return -1;
    }
    char shown[PATH_MAX + 40];
    snprintf(shown, sizeof shown, "%s/%s", clean, below);
    int place = open_trusted(top, below, shown, trust, why, why_size);
    int reason = errno;
    close(top);
    errno = reason;
    return place;
}

int qrt_place_open_entry(int place, const char *name, qrt_trust trust, char *why, size_t why_size) {
    /* O_NONBLOCK: a FIFO of that name must not hang us. */
    int fd = openat(place, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) {
        if (errno != ELOOP) return -1;
        snprintf(why, why_size, "is a symlink");
        return -2;
    }
    struct stat info;
    const char *reason = fstat(fd, &info)         ? strerror(errno)
                         : !S_ISREG(info.st_mode) ? "is no regular file"
                                                  : distrust(&info, trust);
    if (!reason) return fd;
    snprintf(why, why_size, "%s", reason);
    close(fd);
    return -2;
}
