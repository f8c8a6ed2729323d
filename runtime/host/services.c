#include "runtime/host/services.h"

#include "runtime/host/async.h"
#include "runtime/host/barrier.h"
#include "runtime/host/flag.h"
#include "runtime/host/mma.h"
#include "runtime/host/shared.h"
#include "runtime/host/team.h"
#include "runtime/host/transfer.h"
#include "runtime/host/warp.h"
#include "runtime/host/wgmma.h"

static void fail(qhx_thread *t, const char *text, QHX_AT) {
    qhx_fibre *f = qhx_fibre_of(t);
    qhx_enter(f, text, file, line);
    qhx_stop(f, QG_INTERNAL, "", "the kernel stopped itself");
}

/* A clock that only ever moves forward, a little at each look. */
static uint32_t clock_of(qhx_thread *t) {
    return qhx_fibre_of(t)->team->clock += 16;
}

const qhx_services qhx_service_table = {
    .warp = qhx_warp_call,
    .barrier = qhx_barrier,
    .cluster = qhx_cluster_barrier,
    .shared = qhx_shared,
    .shared_address = qhx_shared_address,
    .cluster_map = qhx_cluster_map,
    .fail = fail,
    .poll = qhx_flag_poll,
    .flag_set = qhx_flag_set,
    .flag_wait = qhx_flag_wait,
    .mma = qhx_mma,
    .ldmatrix = qhx_ldmatrix,
    .cp_async = qhx_cp_async,
    .cp_async_commit = qhx_cp_async_commit,
    .cp_async_wait = qhx_cp_async_wait,
    .mbar = qhx_mbar,
    .bulk_load = qhx_bulk_load,
    .bulk_store = qhx_bulk_store,
    .bulk_commit = qhx_bulk_commit,
    .bulk_wait = qhx_bulk_wait,
    .tma_load = qhx_tma_load,
    .tma_store = qhx_tma_store,
    .st_async = qhx_st_async,
    .wgmma = qhx_wgmma,
    .wgmma_shared = qhx_wgmma_shared,
    .wgmma_order = qhx_wgmma_order,
    .clock = clock_of,
};
