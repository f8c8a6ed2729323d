#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* sched_getaffinity: cores this process may use, not cores there are */
#endif
#include "runtime/judge/workers.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { MAX_THREADS = 64 };

typedef struct loop {
    atomic_int_fast64_t next;
    int64_t pieces;
    void (*work)(void *, int64_t);
    void *context;
} loop;

static void *run(void *argument) {
    loop *l = argument;
    for (;;) {
        int64_t piece = atomic_fetch_add(&l->next, 1);
        if (piece >= l->pieces) return NULL;
        l->work(l->context, piece);
    }
}

static int cores(void) {
    cpu_set_t set;
    int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return count < 1 ? 1 : count > MAX_THREADS ? MAX_THREADS : count;
}

void qj_parallel(int64_t pieces, void (*work)(void *context, int64_t piece), void *context) {
    loop l = {.pieces = pieces, .work = work, .context = context};
    atomic_init(&l.next, 0);
    pthread_t helpers[MAX_THREADS];
    int started = 0, wanted = pieces < 2 ? 0 : cores() - 1;
    while (started < wanted && started + 1 < pieces && pthread_create(&helpers[started], NULL, run, &l) == 0)
        started++;
    run(&l);
    for (int i = 0; i < started; i++)
        pthread_join(helpers[i], NULL);
}
