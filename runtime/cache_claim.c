/* One compile a key: a list inside the process, a lock file between processes. */
#include "runtime/cache_inside.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static struct timespec after(int seconds) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_sec += seconds;
    return t;
}

static bool passed(const struct timespec *deadline) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec > deadline->tv_sec ||
           (now.tv_sec == deadline->tv_sec && now.tv_nsec >= deadline->tv_nsec);
}

static bool claimed(const qrt_cache *cache, const qrt_key *key) {
    for (const qrt_cache_claim *c = cache->claims; c; c = c->next)
        if (!memcmp(&c->key, key, sizeof *key)) return true;
    return false;
}

static void claim_in_process(qrt_cache *cache, qrt_cache_claim *claim, const struct timespec *deadline) {
    pthread_mutex_lock(&cache->mutex);
    int waited = 0;
    while (claimed(cache, &claim->key) && waited != ETIMEDOUT)
        waited = pthread_cond_timedwait(&cache->freed, &cache->mutex, deadline);
    claim->next = cache->claims;
    cache->claims = claim;
    pthread_mutex_unlock(&cache->mutex);
}

/* Whether the locked file still is the one of that name: the holder before may have removed it. */
static bool current(int place, const char *name, int fd) {
    struct stat mine, named;
    return !fstat(fd, &mine) && !fstatat(place, name, &named, AT_SYMLINK_NOFOLLOW) &&
           mine.st_ino == named.st_ino && mine.st_dev == named.st_dev;
}

typedef enum outcome { HELD, AGAIN, GIVEN_UP } outcome;

/* Polls, because a blocking flock() can't be bounded without signals. The kernel frees a dead holder's lock.
 */
static outcome wait_for(int place, const char *name, const char *entry, int fd,
                        const struct timespec *deadline) {
    struct timespec pause = {0, 2000000};
    while (flock(fd, LOCK_EX | LOCK_NB)) {
        if (errno == EINTR) continue;
        if (errno != EWOULDBLOCK) return GIVEN_UP; /* no locks on this file system */
        if (!faccessat(place, entry, F_OK, AT_SYMLINK_NOFOLLOW)) return GIVEN_UP; /* the other one is done */
        if (!current(place, name, fd)) return AGAIN;
        if (passed(deadline)) return GIVEN_UP;
        nanosleep(&pause, NULL);
        if (pause.tv_nsec < 32000000) pause.tv_nsec *= 2;
    }
    return current(place, name, fd) ? HELD : AGAIN;
}

static int lock_file(int place, const char *name, const char *entry, const struct timespec *deadline) {
    for (;;) {
        int fd = openat(place, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0) return -1;
        outcome result = wait_for(place, name, entry, fd, deadline);
        if (result == HELD) return fd;
        close(fd);
        if (result == GIVEN_UP) return -1;
    }
}

void qrt_cache_begin(qrt_cache *cache, const qrt_key *key, qrt_cache_claim *claim) {
    struct timespec deadline = after(cache->lock_seconds);
    *claim = (qrt_cache_claim){.key = *key, .fd = -1};
    claim_in_process(cache, claim, &deadline);
    int place = qrt_cache_place(cache, true);
    if (place < 0) return;
    char text[QRT_KEY_TEXT], name[QRT_KEY_TEXT + 8], entry[QRT_KEY_TEXT + 8];
    snprintf(name, sizeof name, "%s.lock", qrt_key_text(key, text));
    snprintf(entry, sizeof entry, "%s.cubin", text);
    claim->fd = lock_file(place, name, entry, &deadline);
}

void qrt_cache_end(qrt_cache *cache, qrt_cache_claim *claim) {
    if (claim->fd >= 0) {
        /* Removed while held: a waiter that gets the old file sees that its name is gone and starts over. */
        char text[QRT_KEY_TEXT], name[QRT_KEY_TEXT + 8];
        snprintf(name, sizeof name, "%s.lock", qrt_key_text(&claim->key, text));
        unlinkat(cache->place, name, 0);
        close(claim->fd);
        claim->fd = -1;
    }
    pthread_mutex_lock(&cache->mutex);
    qrt_cache_claim **at = &cache->claims;
    while (*at && *at != claim)
        at = &(*at)->next;
    if (*at) *at = claim->next;
    pthread_cond_broadcast(&cache->freed);
    pthread_mutex_unlock(&cache->mutex);
}
