/* The stand-in driver and compiler of tests/fake/, built with the machine's C compiler into a scratch folder
 * and chosen by QRSMITH_CUDA and QRSMITH_NVRTC. */
#ifndef TESTS_FAKE_H
#define TESTS_FAKE_H

#include "tests/fake/cuda.h"

/* Builds both into `folder` and sets the two variables. The record belongs to the loaded library and is
 * reset. */
fake_cuda_record *qt_fake_gpu(const char *folder);

#endif
