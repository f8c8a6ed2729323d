#include "runtime/host/stacks.h"

#include "runtime/host/context.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Two mappings a guarded stack; the usual limit of a process is 65530. */
enum { MAX_GUARDED = 12000 };

static bool guard(const qhx_stacks *s, size_t page) {
    if (s->count > MAX_GUARDED) return true;
    for (uint32_t i = 0; i < s->count; i++)
        if (mprotect(s->base + i * s->stride, page, PROT_NONE) != 0) return false;
    return true;
}

qg_status qhx_stacks_need(qhx_stacks *s, uint32_t n, qg_error *err) {
    if (n <= s->count) return QG_OK;
    qhx_stacks_free(s);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    /* frames grow several times under AddressSanitizer */
    s->size = QHX_ASAN ? 512u << 10 : 128u << 10;
    s->stride = s->size + page;
    void *base =
        mmap(NULL, n * s->stride, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return qg_failf(err, QG_NO_MEMORY, "host executor", "", "no memory for the stacks of %u threads: %s",
                        n, strerror(errno));
    s->base = base;
    s->count = n;
    if (!guard(s, page)) {
        qhx_stacks_free(s);
        return qg_failf(err, QG_NO_MEMORY, "host executor", "", "cannot guard the stacks of %u threads: %s",
                        n, strerror(errno));
    }
    return QG_OK;
}

void *qhx_stacks_at(const qhx_stacks *s, uint32_t i) {
    return s->base + i * s->stride + (s->stride - s->size);
}

void qhx_stacks_free(qhx_stacks *s) {
    if (s->base) munmap(s->base, s->count * s->stride);
    memset(s, 0, sizeof *s);
}
