#include "runtime/host/context.h"

#include "runtime/host/race.h"

#include <pthread.h>
#include <stdint.h>
#include <string.h>

#if QHX_ASAN
void __sanitizer_start_switch_fiber(void **fake_stack_save, const void *bottom, size_t size);
void __sanitizer_finish_switch_fiber(void *fake_stack_save, const void **bottom_old, size_t *size_old);
void __asan_unpoison_memory_region(void const volatile *addr, size_t size);
#endif

#if QHX_OWN_SWITCH

/* Saves the registers a call must keep on the old stack, its pointer in *save, and takes them from the new
 * one. A new context's first return goes to qhx_swap_first, which finds argument and entry in two of those
 * registers. */
void qhx_swap(void **save, void *to);
void qhx_swap_first(void);

#if defined(__x86_64__)
__asm__(".text\n"
        ".p2align 4\n"
        ".globl qhx_swap\n"
        ".hidden qhx_swap\n"
        ".type qhx_swap, @function\n"
        "qhx_swap:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size qhx_swap, . - qhx_swap\n"
        ".globl qhx_swap_first\n"
        ".hidden qhx_swap_first\n"
        ".type qhx_swap_first, @function\n"
        "qhx_swap_first:\n"
        "    movq %r12, %rdi\n"
        "    call *%r13\n"
        "    ud2\n"
        ".size qhx_swap_first, . - qhx_swap_first\n");

/* nine, so that the stack is aligned to 16 bytes where qhx_swap_first makes its call */
enum { SAVED_WORDS = 9, SAVED_ENTRY = 2, SAVED_ARGUMENT = 3, SAVED_RETURN = 6 };
#else
__asm__(".text\n"
        ".p2align 4\n"
        ".globl qhx_swap\n"
        ".hidden qhx_swap\n"
        ".type qhx_swap, %function\n"
        "qhx_swap:\n"
        "    sub sp, sp, #160\n"
        "    stp x19, x20, [sp, #0]\n"
        "    stp x21, x22, [sp, #16]\n"
        "    stp x23, x24, [sp, #32]\n"
        "    stp x25, x26, [sp, #48]\n"
        "    stp x27, x28, [sp, #64]\n"
        "    stp x29, x30, [sp, #80]\n"
        "    stp d8, d9, [sp, #96]\n"
        "    stp d10, d11, [sp, #112]\n"
        "    stp d12, d13, [sp, #128]\n"
        "    stp d14, d15, [sp, #144]\n"
        "    mov x9, sp\n"
        "    str x9, [x0]\n"
        "    mov sp, x1\n"
        "    ldp x19, x20, [sp, #0]\n"
        "    ldp x21, x22, [sp, #16]\n"
        "    ldp x23, x24, [sp, #32]\n"
        "    ldp x25, x26, [sp, #48]\n"
        "    ldp x27, x28, [sp, #64]\n"
        "    ldp x29, x30, [sp, #80]\n"
        "    ldp d8, d9, [sp, #96]\n"
        "    ldp d10, d11, [sp, #112]\n"
        "    ldp d12, d13, [sp, #128]\n"
        "    ldp d14, d15, [sp, #144]\n"
        "    add sp, sp, #160\n"
        "    ret\n"
        ".size qhx_swap, . - qhx_swap\n"
        ".globl qhx_swap_first\n"
        ".hidden qhx_swap_first\n"
        ".type qhx_swap_first, %function\n"
        "qhx_swap_first:\n"
        "    mov x0, x19\n"
        "    blr x20\n"
        "    brk #0\n"
        ".size qhx_swap_first, . - qhx_swap_first\n");

enum { SAVED_WORDS = 20, SAVED_ARGUMENT = 0, SAVED_ENTRY = 1, SAVED_RETURN = 11 };
#endif

static void prepare(qhx_context *c, char *top, void (*entry)(void *), void *argument) {
    void **frame = (void **)(void *)top - SAVED_WORDS;
    memset(frame, 0, SAVED_WORDS * sizeof *frame);
    frame[SAVED_ENTRY] = (void *)(uintptr_t)entry;
    frame[SAVED_ARGUMENT] = argument;
    frame[SAVED_RETURN] = (void *)(uintptr_t)qhx_swap_first;
    c->sp = frame;
}

static void swap(qhx_context *from, qhx_context *to) {
    qhx_swap(&from->sp, to->sp);
}

#else

static void first(unsigned f_low, unsigned f_high, unsigned a_low, unsigned a_high) {
    uintptr_t f = (uintptr_t)((uint64_t)f_high << 32 | f_low),
              a = (uintptr_t)((uint64_t)a_high << 32 | a_low);
    ((void (*)(void *))f)((void *)a);
}

static void prepare(qhx_context *c, char *top, void (*entry)(void *), void *argument) {
    uint64_t f = (uintptr_t)entry, a = (uintptr_t)argument;
    getcontext(&c->uc);
    c->uc.uc_stack.ss_sp = (void *)c->low;
    c->uc.uc_stack.ss_size = (size_t)(top - (const char *)c->low);
    c->uc.uc_link = NULL;
    makecontext(&c->uc, (void (*)(void))first, 4, (unsigned)f, (unsigned)(f >> 32), (unsigned)a,
                (unsigned)(a >> 32));
}

static void swap(qhx_context *from, qhx_context *to) {
    swapcontext(&from->uc, &to->uc);
}

#endif

void qhx_context_own(qhx_context *c) {
    memset(c, 0, sizeof *c);
    c->race = qhx_race_self();
#if QHX_ASAN
    pthread_attr_t attr;
    if (pthread_getattr_np(pthread_self(), &attr) == 0) {
        void *low = NULL;
        pthread_attr_getstack(&attr, &low, &c->size);
        c->low = low;
        pthread_attr_destroy(&attr);
    }
#endif
}

void qhx_context_make(qhx_context *c, void *low, size_t size, size_t skip, void (*entry)(void *),
                      void *argument) {
    if (!c->race) c->race = qhx_race_thread();
    c->fake_stack = NULL;
    c->low = low;
    c->size = size;
    prepare(c, (char *)low + size - (skip & ~(size_t)15), entry, argument);
}

void qhx_context_started(void) {
#if QHX_ASAN
    __sanitizer_finish_switch_fiber(NULL, NULL, NULL);
#endif
}

void qhx_context_switch(qhx_context *from, qhx_context *to) {
    qhx_race_switch(to->race);
#if QHX_ASAN
    __sanitizer_start_switch_fiber(&from->fake_stack, to->low, to->size);
    swap(from, to);
    __sanitizer_finish_switch_fiber(from->fake_stack, NULL, NULL);
#else
    swap(from, to);
#endif
}

void qhx_context_leave(qhx_context *from, qhx_context *to) {
    qhx_race_switch(to->race);
#if QHX_ASAN
    __sanitizer_start_switch_fiber(NULL, to->low, to->size);
#endif
    swap(from, to);
}

void qhx_context_forget(qhx_context *c) {
    qhx_race_end(c->race);
    c->race = NULL;
#if QHX_ASAN
    if (c->low) __asan_unpoison_memory_region(c->low, c->size);
#endif
}
