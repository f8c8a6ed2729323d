/* Switching between stacks on one OS thread, with AddressSanitizer told of each switch.
 *
 * Own code, not a library: glibc's swapcontext enters the kernel twice a switch (signal masks), which is most
 * of a shuffle's cost; Debian's one kept alternative, Boost.Context, keeps the C entry points private to its
 * C++ headers and is a large dependency for twenty instructions. Machines without such instructions here use
 * ucontext. */
#ifndef QHX_CONTEXT_H
#define QHX_CONTEXT_H

#include <stddef.h>

#if defined(__SANITIZE_ADDRESS__)
#define QHX_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define QHX_ASAN 1
#endif
#endif
#ifndef QHX_ASAN
#define QHX_ASAN 0
#endif

#ifndef QHX_OWN_SWITCH /* 0 on the command line tries the other way */
#if (defined(__x86_64__) && !defined(__ILP32__)) || (defined(__aarch64__) && defined(__ELF__))
#define QHX_OWN_SWITCH 1
#else
#define QHX_OWN_SWITCH 0
#endif
#endif
#if !QHX_OWN_SWITCH
#include <ucontext.h>
#endif

typedef struct qhx_context {
#if QHX_OWN_SWITCH
    void *sp;
#else
    ucontext_t uc;
#endif
    void *fake_stack; /* AddressSanitizer's */
    const void *low;  /* of the stack */
    size_t size;
    void *race; /* ThreadSanitizer's thread */
} qhx_context;

/* The calling OS thread's own stack. */
void qhx_context_own(qhx_context *c);
/* Ready to call entry(argument) on [low, low + size), the first `skip` bytes from the top left alone. entry
 * never returns and calls qhx_context_started() first. */
void qhx_context_make(qhx_context *c, void *low, size_t size, size_t skip, void (*entry)(void *),
                      void *argument);
void qhx_context_started(void);
void qhx_context_switch(qhx_context *from, qhx_context *to);
/* As switch, for the last time. */
void qhx_context_leave(qhx_context *from, qhx_context *to);
/* The end of a context's use. One that was abandoned in the middle leaves things behind for the next user of
 * its stack. */
void qhx_context_forget(qhx_context *c);

#endif
