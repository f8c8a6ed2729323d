/* What cache.c and cache_claim.c share. Not for others. */
#ifndef QRT_CACHE_INSIDE_H
#define QRT_CACHE_INSIDE_H

#include "runtime/cache.h"
#include <limits.h>
#include <pthread.h>

typedef struct qrt_kept { /* an entry of the memory tier */
    qrt_key key;
    qrt_entry entry;
    struct qrt_kept *next;
} qrt_kept;

struct qrt_cache {
    char dir[PATH_MAX]; /* "" when memory only */
    char trouble[PATH_MAX + 128];
    int place;  /* directory handle; -1 while missing or unusable */
    int shared; /* handle of the shared directory, -1: none */
    bool unusable;
    int lock_seconds;
    void (*warn)(void *user, const char *text);
    void *warn_user;
    unsigned warned;       /* bit a kind of trouble */
    pthread_mutex_t mutex; /* everything that changes: place, trouble, warned, kept, claims */
    pthread_cond_t freed;  /* a claim ended */
    qrt_kept *kept;
    size_t kept_bytes;
    qrt_cache_claim *claims; /* of this process */
};

/* The directory's handle, opened or made on first need; -1 when there is none. */
int qrt_cache_place(qrt_cache *cache, bool make);

#endif
