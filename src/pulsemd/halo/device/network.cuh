// Messages to memory that loads and stores do not reach. Whoever makes the symmetric memory defines these functions:
// with NETWORK 1 they are copies by the calling threads (memory of one process), with NETWORK 2 they are linked in.
// `process` is the number of the process whose memory `target` and `signal` name (SymmetricBlock.puts).
#pragma once

#if NETWORK == 2
// Put n_bytes from the own symmetric memory at `source` to `target`, then set `signal` to `value`, in that order.
// Called by all threads of a block with the same arguments after __syncthreads(). Returns at once; `source` may be
// written again after a sign from the receiver that the message came. n_bytes may be 0. The result means nothing.
extern "C" __device__ int pulsemd_put_signal(void* target, const void* source, unsigned long long n_bytes,
                                             unsigned long long* signal, unsigned long long value, int process);

// Set `signal` to `value` after everything that the calling thread saw. Called by one thread.
extern "C" __device__ int pulsemd_signal(unsigned long long* signal, unsigned long long value, int process);
#else
__device__ __forceinline__ int pulsemd_signal(unsigned long long* signal, unsigned long long value, int) {
  asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(signal), "l"(value) : "memory");
  return 0;
}

__device__ __forceinline__ int pulsemd_put_signal(void* target, const void* source, unsigned long long n_bytes,
                                                  unsigned long long* signal, unsigned long long value, int process) {
  for (unsigned long long word = threadIdx.x; word < n_bytes / 4; word += blockDim.x)
    static_cast<unsigned int*>(target)[word] = static_cast<const unsigned int*>(source)[word];
  __syncthreads();
  if (threadIdx.x == 0) pulsemd_signal(signal, value, process);
  return 0;
}
#endif
