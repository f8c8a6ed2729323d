/* A stand-in for libnvrtc: "compiles" in no time, with a log like the real one's. Each compile adds a byte to
 * the file FAKE_NVRTC_LOG. Kernels are found as QRS_KERNEL(name, ...). A source with BROKEN in it fails, with
 * SPILLS it spills, with EMPTY it gives a cubin of 0 bytes. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))

typedef struct program {
    char *source;
    char *log;
    size_t headers;
} program;

API int nvrtcVersion(int *major, int *minor) {
    const char *text = getenv("FAKE_NVRTC_VERSION");
    *major = text ? atoi(text) : 13;
    *minor = 0;
    return 0;
}
API const char *nvrtcGetErrorString(int result) {
    return result == 6 ? "NVRTC_ERROR_COMPILATION" : "NVRTC_ERROR_FAKE";
}
API int nvrtcGetNumSupportedArchs(int *count) {
    return *count = 3, 0;
}
API int nvrtcGetSupportedArchs(int *archs) {
    return archs[0] = 80, archs[1] = 86, archs[2] = 90, 0;
}

API int nvrtcCreateProgram(void **out, const char *source, const char *name, int count,
                           const char *const *headers, const char *const *names) {
    program *p = calloc(1, sizeof *p);
    (void)name;
    for (int i = 0; i < count; i++)
        p->headers += strlen(headers[i]) + strlen(names[i]);
    p->source = strdup(source);
    p->log = strdup("");
    *out = p;
    return 0;
}
API int nvrtcDestroyProgram(void **out) {
    program *p = *out;
    free(p->source);
    free(p->log);
    free(p);
    *out = NULL;
    return 0;
}

static void note_compile(void) {
    const char *path = getenv("FAKE_NVRTC_LOG"), *pause = getenv("FAKE_NVRTC_MILLISECONDS");
    int fd = path ? open(path, O_WRONLY | O_CREAT | O_APPEND, 0600) : -1;
    if (fd >= 0 && write(fd, "x", 1) != 1) abort();
    if (fd >= 0) close(fd);
    if (pause) nanosleep(&(struct timespec){0, atol(pause) * 1000000L}, NULL);
}

API int nvrtcCompileProgram(void *handle, int count, const char *const *options) {
    program *p = handle;
    char log[8192] =
        "families/toy.lua(3): warning #177-D: something harmless\n\nptxas info    : 0 bytes gmem\n";
    (void)count;
    note_compile();
    if (strstr(p->source, "BROKEN"))
        strcat(log, "families/toy.lua(7): error: identifier \"BROKEN\" is undefined\n");
    for (const char *at = p->source; (at = strstr(at, "QRS_KERNEL("));) {
        char one[512], name[64] = "";
        at += strlen("QRS_KERNEL(");
        sscanf(at, "%63[^,)]", name);
        snprintf(one, sizeof one,
                 "ptxas info    : Compiling entry function '%s' for '%s'\nptxas info    : Function "
                 "properties for %s\n"
                 "ptxas         .     %d bytes stack frame, %d bytes spill stores, 0 bytes spill loads\n"
                 "ptxas info    : Used 40 registers, used 1 barriers, 16 bytes smem\nptxas info    : Compile "
                 "time = 2.065 ms\n",
                 name, options[0], name, strstr(p->source, "SPILLS") ? 32 : 0,
                 strstr(p->source, "SPILLS") ? 8 : 0);
        if (strlen(log) + strlen(one) < sizeof log) strcat(log, one);
    }
    free(p->log);
    p->log = strdup(log);
    return strstr(p->source, "BROKEN") ? 6 : 0;
}
API int nvrtcGetProgramLogSize(void *handle, size_t *size) {
    return *size = strlen(((program *)handle)->log) + 1, 0;
}
API int nvrtcGetProgramLog(void *handle, char *log) {
    return strcpy(log, ((program *)handle)->log), 0;
}
API int nvrtcGetCUBINSize(void *handle, size_t *size) {
    return *size = strstr(((program *)handle)->source, "EMPTY") ? 0 : 64, 0;
}
API int nvrtcGetCUBIN(void *handle, char *cubin) {
    memset(cubin, 0, 64);
    snprintf(cubin, 64, "FAKECUBIN %zu %zu", strlen(((program *)handle)->source),
             ((program *)handle)->headers);
    return 0;
}
