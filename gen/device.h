/* Device records: the facts about a GPU that plans may depend on. Read from a driver (runtime/) or from a
 * profile in configs/devices/, so that plans can be made with no GPU present. */
#ifndef QG_DEVICE_H
#define QG_DEVICE_H

#include "gen/error.h"
#include <stdint.h>

typedef struct qg_device {
    char name[96];
    int arch;            /* compute capability * 10: 80, 86, 89, 90, 100, 103, 120 */
    int64_t sms;         /* streaming multiprocessors */
    int64_t smem_optin;  /* shared memory one block may opt in to, bytes */
    int64_t smem_sm;     /* shared memory of one SM, bytes */
    int64_t regs;        /* 32-bit registers of one SM */
    int64_t l2;          /* bytes */
    int64_t max_cluster; /* largest portable cluster size; 1 where there are none */
    int64_t memory;      /* device memory, bytes */
} qg_device;

/* `name_or_path`: a built-in profile ("h200", "a100", ...) or a path that ends in .json. */
qg_status qg_device_profile(const char *name_or_path, qg_device *out, qg_error *err);

/* The compile target of an arch ("sm_90a" for 90). NULL when unknown: callers report QG_UNSUPPORTED and list
 * qg_compile_targets(). */
const char *qg_compile_target(int arch);
const char *qg_compile_targets(void); /* "sm_80, sm_86, sm_89, sm_90, ..." */

#endif
