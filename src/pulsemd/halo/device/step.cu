// Routes of exchanges inside steps. Macros: THREADS, NETWORK.
#include "exchange.cuh"
#include "step.cuh"

// List where the rows of each slot go, from the tables of the forward exchange, whose plans are direct; `sent` was
// cleared. blockIdx.y: local rank, blockIdx.z: pulse.
extern "C" __global__ void __launch_bounds__(THREADS)
    list_routes(const StepRank* ranks, const Message* messages, const int2* items, int slots) {
  const StepRank own = ranks[blockIdx.y];
  const int p = blockIdx.z;
  const Message& message = messages[blockIdx.y * slots + p];
  for (int k = message.begin + blockIdx.x * THREADS + threadIdx.x; k < message.end; k += gridDim.x * THREADS) {
    const int2 item = items[k];
    atomicOr(own.sent + item.x, 1u << p);
    own.place[item.x * own.n_pulses + p] = item.y;
  }
}
