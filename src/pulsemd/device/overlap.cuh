// A kernel launched with `overlap` may begin while the one before it in the stream still runs (programmatic dependent
// launch, from compute capability 9.0 on; elsewhere these do nothing and kernels run one after the other).
//
// Such a kernel calls `wait_for_earlier` before it touches anything that the kernel before it, or one that this one
// could overlap with, writes; what it does before is hidden behind the end of that kernel. A kernel that calls
// `let_later_start` in all its blocks lets the next one take the places that its last blocks leave free.
//
// A kernel that waits before it calls `let_later_start` vouches for all that came before it: the next one may run beside
// it from begin to end, as long as it waits before it ends itself, so that whatever follows can rely on both. Only a
// wait makes a multiprocessor forget what its first-level cache has, so until then `current` reads what steps change.
#pragma once

enum Wait { WAIT_FIRST, WAIT_LATER, WAIT_LAST };  // where a kernel waits that can be launched in several places

__device__ __forceinline__ void wait_for_earlier() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// The wait of a kernel at one of its places.
__device__ __forceinline__ void wait_here(Wait here, int wanted) {
    if (here == wanted) wait_for_earlier();
}

// A value as the second-level cache has it.
__device__ __forceinline__ int4 current(const int4* at) {
#if __CUDA_ARCH__ >= 900
    return __ldcg(at);
#else
    return *at;
#endif
}

__device__ __forceinline__ float4 current(const float4* at) {
#if __CUDA_ARCH__ >= 900
    return __ldcg(at);
#else
    return *at;
#endif
}

__device__ __forceinline__ void let_later_start() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
