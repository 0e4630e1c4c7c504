// All processes meet in the order of their streams: what any of them launched before is done, and seen by whatever any
// of them launches behind. Macros: NETWORK, THREADS.
#include "arrival.cuh"

struct BarrierState {
  uint64 epoch, n_processes, channel;
  uint64 signals;   // own: one word for each process
  uint64 words[1];  // the own word at each process
};

// One block.
extern "C" __global__ void __launch_bounds__(THREADS)
    halo_barrier(BarrierState* state, Controls* controls) {
  const uint64 epoch = state->epoch + 1;
  const int n = state->n_processes;
  const uint64* own = reinterpret_cast<const uint64*>(state->signals);
  if (load_relaxed(&controls->abort)) return;
  for (int k = threadIdx.x; k < n; k += THREADS) store_release(reinterpret_cast<uint64*>(state->words[k]), epoch);
  for (int k = threadIdx.x; k < n; k += THREADS)
    wait_until(own + k * SIGNAL_STRIDE, epoch, controls, state->channel, REDUCED, 0, k);
  __syncthreads();
  if (threadIdx.x == 0) state->epoch = epoch;
}
