#include "runtime/api.h"
#include <stdarg.h>
#include <stdio.h>

static const struct {
    const char *name, *text;
} statuses[] = {
    [QRS_OK] = {"QRS_OK", "success"},
    [QRS_BAD_ARGUMENT] = {"QRS_BAD_ARGUMENT",
                          "a null handle or result pointer, a wrong struct size or an unknown flag"},
    [QRS_BAD_SHAPE] = {"QRS_BAD_SHAPE", "rows, columns or max_batch out of range"},
    [QRS_BAD_BATCH] = {"QRS_BAD_BATCH", "batch negative or over the plan's max_batch"},
    [QRS_BAD_LEADING_DIMENSION] = {"QRS_BAD_LEADING_DIMENSION",
                                   "a leading dimension shorter than a row or column"},
    [QRS_BAD_STRIDE] = {"QRS_BAD_STRIDE", "a stride that makes the matrices of a batch overlap"},
    [QRS_NULL_POINTER] = {"QRS_NULL_POINTER", "a null pointer with work to do"},
    [QRS_MISALIGNED] = {"QRS_MISALIGNED", "a pointer that isn't aligned enough"},
    [QRS_OVERLAP] = {"QRS_OVERLAP", "arrays that overlap and are not one array used in place"},
    [QRS_WORKSPACE_TOO_SMALL] = {"QRS_WORKSPACE_TOO_SMALL",
                                 "the workspace is smaller than qrs_workspace_bytes says"},
    [QRS_UNSUPPORTED] = {"QRS_UNSUPPORTED", "no kernel family, or not this device, can serve the request"},
    [QRS_BAD_OPTION] = {"QRS_BAD_OPTION", "an option, family, parameter, template or tuned table is wrong"},
    [QRS_NOT_READY] = {"QRS_NOT_READY", "the plan must be prepared before it is used under stream capture"},
    [QRS_NO_DEVICE] = {"QRS_NO_DEVICE", "no usable NVIDIA driver or GPU"},
    [QRS_NO_COMPILER] = {"QRS_NO_COMPILER", "NVRTC was not found or is too old"},
    [QRS_COMPILE_FAILED] = {"QRS_COMPILE_FAILED", "generated source did not compile"},
    [QRS_CUDA_ERROR] = {"QRS_CUDA_ERROR", "the CUDA driver reported an error"},
    [QRS_OUT_OF_MEMORY] = {"QRS_OUT_OF_MEMORY", "out of host or device memory"},
    [QRS_FORKED] = {"QRS_FORKED", "the process was forked after CUDA was started"},
    [QRS_INTERNAL] = {"QRS_INTERNAL", "an error inside qrsmith"},
};
#define STATUSES ((int)(sizeof statuses / sizeof *statuses))

/* Per thread, and touched by failures only. */
static _Thread_local char last_error[4608];

uint32_t qrs_version(void) {
    return QRS_VERSION;
}

#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)
const char *qrs_version_text(void) {
    return TEXT(QRS_VERSION_MAJOR) "." TEXT(QRS_VERSION_MINOR) "." TEXT(QRS_VERSION_PATCH);
}

const char *qrs_status_name(qrs_status status) {
    return (int)status >= 0 && (int)status < STATUSES ? statuses[status].name : "QRS_UNKNOWN";
}

const char *qrs_status_text(qrs_status status) {
    return (int)status >= 0 && (int)status < STATUSES ? statuses[status].text
                                                      : "a status this library doesn't know";
}

const char *qrs_last_error(void) {
    return last_error;
}

qrs_status qrt_report(qg_status status, qrt_stage stage, const qg_error *err) {
    static const qrs_status environment[] = {
        [QRT_STAGE_PLAN] = QRS_BAD_OPTION, /* a file that the options name */
        [QRT_STAGE_DEVICE] = QRS_NO_DEVICE,
        [QRT_STAGE_COMPILE] = QRS_NO_COMPILER,
        [QRT_STAGE_LAUNCH] = QRS_CUDA_ERROR,
    };
    if (status == QG_OK) return QRS_OK;
    const char *fix = err->fix;
    snprintf(last_error, sizeof last_error, "%s: %s%s%s%s", err->what, err->why, *fix ? " (" : "", fix,
             *fix ? ")" : "");
    switch (status) {
    case QG_BAD_INPUT:
        return QRS_BAD_OPTION;
    case QG_UNSUPPORTED:
        return QRS_UNSUPPORTED;
    case QG_ENVIRONMENT:
        return environment[stage];
    case QG_NO_MEMORY:
        return QRS_OUT_OF_MEMORY;
    default:
        return stage == QRT_STAGE_COMPILE ? QRS_COMPILE_FAILED : QRS_INTERNAL;
    }
}

qrs_status qrt_refuse(qrs_status status, const char *fix, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int used = vsnprintf(last_error, sizeof last_error, format, args);
    va_end(args);
    if (*fix && used >= 0 && used < (int)sizeof last_error)
        snprintf(last_error + used, sizeof last_error - (size_t)used, " (%s)", fix);
    return status;
}
