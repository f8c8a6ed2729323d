/* What ThreadSanitizer is told in a build with -DQHX_TSAN=1 -fsanitize=thread (make race): kernels are
 * compiled with it, this library is not. A fibre is a thread of its own to it, and only what orders CUDA
 * threads orders them: barriers, warp_sync(), mbarriers, clusters, flags, a copy's way. Shuffles and products
 * of a warp don't. So two accesses to one address that nothing orders are reported with their lines, in
 * whatever order they ran. Not seen: proxies (what a fence of them would order), and what wgmma and tensor
 * maps read. */
#ifndef QHX_RACE_H
#define QHX_RACE_H

#include <stddef.h>

#ifndef QHX_TSAN
#define QHX_TSAN 0
#endif

#if QHX_TSAN
void *__tsan_get_current_fiber(void);
void *__tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void *fiber);
void __tsan_switch_to_fiber(void *fiber, unsigned flags);
void __tsan_acquire(void *at);
void __tsan_release(void *at);
void __tsan_read_range(void *at, unsigned long bytes);

enum { QHX_RACE_NO_ORDER = 1 }; /* switching orders nothing */

static inline void *qhx_race_thread(void) {
    return __tsan_create_fiber(0);
}
static inline void *qhx_race_self(void) {
    return __tsan_get_current_fiber();
}
static inline void qhx_race_end(void *thread) {
    if (thread) __tsan_destroy_fiber(thread);
}
static inline void qhx_race_switch(void *thread) {
    __tsan_switch_to_fiber(thread, QHX_RACE_NO_ORDER);
}
/* All that this thread did comes before what others do after qhx_race_after() of the same address. */
static inline void qhx_race_before(void *at) {
    __tsan_release(at);
}
static inline void qhx_race_after(void *at) {
    __tsan_acquire(at);
}
/* A read that a primitive does for the thread. */
static inline void qhx_race_read(const void *at, size_t bytes) {
    __tsan_read_range((void *)at, bytes);
}
#else
static inline void *qhx_race_thread(void) {
    return NULL;
}
static inline void *qhx_race_self(void) {
    return NULL;
}
static inline void qhx_race_end(void *thread) {
    (void)thread;
}
static inline void qhx_race_switch(void *thread) {
    (void)thread;
}
static inline void qhx_race_before(void *at) {
    (void)at;
}
static inline void qhx_race_after(void *at) {
    (void)at;
}
static inline void qhx_race_read(const void *at, size_t bytes) {
    (void)at, (void)bytes;
}
#endif

#endif
