// A kernel launched with `overlap` may begin while the one before it in the stream still runs (programmatic dependent
// launch, from compute capability 9.0 on; elsewhere these do nothing and kernels run one after the other).
//
// Every thread of such a kernel calls `wait_for_earlier` before it touches anything that the kernel before it, or one
// that this one could overlap with, writes; what it does before is hidden behind the end of that kernel. A kernel
// that calls `let_later_start` in all its blocks lets the next one take the places that its last blocks leave free.
#pragma once

__device__ __forceinline__ void wait_for_earlier() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

__device__ __forceinline__ void let_later_start() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
