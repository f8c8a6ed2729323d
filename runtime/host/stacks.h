/* Stacks of fibres, kept from launch to launch. Each has a page below it that nothing may touch, as long as
 * there are not so many that the kernel's limit of mappings is near; memory is touched only as far as a stack
 * is used. */
#ifndef QHX_STACKS_H
#define QHX_STACKS_H

#include "gen/error.h"

#include <stddef.h>
#include <stdint.h>

typedef struct qhx_stacks {
    char *base;
    uint32_t count;
    size_t size, stride; /* of one stack; from one to the next */
} qhx_stacks;

/* At least n stacks, those of before are gone if it has to grow. */
qg_status qhx_stacks_need(qhx_stacks *s, uint32_t n, qg_error *err);
void *qhx_stacks_at(const qhx_stacks *s, uint32_t i);
void qhx_stacks_free(qhx_stacks *s);

#endif
