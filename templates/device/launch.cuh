// A launch that starts while the one ahead of it in the stream still runs ("early" in the launch program): its start-up is over
// when the other ends. For grids that leave room on the device; a larger one's waiting blocks take the places of working ones.
#pragma once
#include "device/core.cuh"

namespace qrs {

// Returns once everything ahead in the stream has finished and its memory is visible. The first thing an early kernel does, in every thread.
QRS_DEV void wait_for_earlier() {
#if !defined(QRS_HOST) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
// Lets the next launch start, if it is an early one.
QRS_DEV void release_next() {
#if !defined(QRS_HOST) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}

} // namespace qrs
