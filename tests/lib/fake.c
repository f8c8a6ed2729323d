#include "tests/lib/support.h"

#include "tests/lib/fake.h"
#include <dlfcn.h>
#include <stdlib.h>

static char *build(const char *folder, const char *name) {
    const char *cc = getenv("CC");
    char *library = qt_format("%s/lib%s.so", folder, name), *source = qt_format("tests/fake/%s.c", name);
    const char *const command[] = {cc && *cc ? cc : "cc",
                                   "-shared",
                                   "-fPIC",
                                   "-O1",
                                   "-D_GNU_SOURCE",
                                   "-I.",
                                   "-o",
                                   library,
                                   source,
                                   NULL};
    qt_output output = qt_run(command, NULL);
    if (output.code) fail_msg("%s doesn't compile: %s", source, output.err);
    qt_output_free(&output);
    free(source);
    return library;
}

fake_cuda_record *qt_fake_gpu(const char *folder) {
    char *cuda = build(folder, "cuda"), *nvrtc = build(folder, "nvrtc");
    setenv("QRSMITH_CUDA", cuda, 1);
    setenv("QRSMITH_NVRTC", nvrtc, 1);
    void *library = dlopen(cuda, RTLD_NOW | RTLD_LOCAL);
    fake_cuda_record *record = library ? dlsym(library, "fake_cuda") : NULL;
    if (!record) fail_msg("%s: %s", cuda, dlerror());
    free(cuda);
    free(nvrtc);
    return record;
}
