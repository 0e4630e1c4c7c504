// The few NVSHMEM device calls that a kernel compiled at run time needs, without C++ names; see ../device/network.cuh.
//
// NVRTC and nvcc spell uint64_t differently, so a kernel from NVRTC cannot link against libnvshmem_device.a itself.
// nvcc compiles this file once for each NVSHMEM version (pulsemd.halo.network.build); the linker joins kernel, shim and
// library at run time. The calls are not inlined: peers that can be stored to directly never take this way.

#include <nvshmem.h>
#include <nvshmemx.h>

// All threads of the block copy n_bytes to the same address of another process, then set its signal to value.
extern "C" __device__ int pulsemd_put_signal(void* target, const void* source, unsigned long long n_bytes,
                                             unsigned long long* signal, unsigned long long value, int process) {
    nvshmemx_putmem_signal_nbi_block(target, source, n_bytes, reinterpret_cast<uint64_t*>(signal), value,
                                     NVSHMEM_SIGNAL_SET, process);
    return 0;
}

// One thread sets a signal of another process; puts of this process to it that came before are delivered before.
extern "C" __device__ int pulsemd_signal(unsigned long long* signal, unsigned long long value, int process) {
    nvshmem_fence();
    nvshmemx_signal_op(reinterpret_cast<uint64_t*>(signal), value, NVSHMEM_SIGNAL_SET, process);
    return 0;
}
