// A small all-reduce: every process stores its values into the slots of every other; each sums them in rank order, so
// all get the same bits. Macros: SCALAR (long long, double), NETWORK, THREADS.
//
// A value and its epoch travel as one 128-bit word, which is stored and loaded as a whole: no fence and no signal. The
// slots are double-buffered: a process stores epoch e + 2 only after everybody's e + 1, which each sent after reading e.
#include "arrival.cuh"

struct Word {
  uint64 value, epoch;
};

// One for each process; `slots` and `signals` in symmetric memory.
struct ReduceState {
  uint64 epoch;
  long long width, ranks_per_process, n_processes, process;
  uint64 channel;
  uint64 slots;    // own: half, rank, column
  uint64 signals;  // own: one word for each process, for values that come by the network
  struct Process {
    uint64 slots;  // address of its slots
    uint64 signal;  // address of our word at that process, where values go by the network; else 0
  } processes[1];
};

__device__ __forceinline__ void store_word(Word* place, uint64 value, uint64 epoch) {
  asm volatile(
      "{ .reg .b128 word; mov.b128 word, {%1, %2}; st.relaxed.sys.global.b128 [%0], word; }" ::"l"(place), "l"(value),
      "l"(epoch) : "memory");
}

__device__ __forceinline__ Word load_word(const Word* place) {
  Word word;
  asm volatile("{ .reg .b128 word; ld.relaxed.sys.global.b128 word, [%2]; mov.b128 {%0, %1}, word; }"
               : "=l"(word.value), "=l"(word.epoch)
               : "l"(place)
               : "memory");
  return word;
}

constexpr int TILE = 1024;  // values in shared memory; the host refuses more ranks than that

// Wait for the value of a rank, by one thread.
__device__ __forceinline__ bool wait_for_value(const ReduceState* state, Controls* controls, uint64 epoch, int rank,
                                               int column, uint64& value) {
  const long long size = state->ranks_per_process * state->n_processes;
  const Word* place =
      reinterpret_cast<const Word*>(state->slots) + (epoch % 2 * size + rank) * state->width + column;
#if NETWORK
  const int process = rank / state->ranks_per_process;
  if (state->processes[process].signal) {
    const uint64* signal = reinterpret_cast<const uint64*>(state->signals) + process * SIGNAL_STRIDE;
    if (!wait_until(signal, epoch, controls, state->channel, REDUCED, 0, rank)) return false;
  }
#endif
  Word word = load_word(place);
  if (word.epoch != epoch) {
    const uint64 start = nanoseconds();
    for (uint32 turn = 1; (word = load_word(place)).epoch != epoch; ++turn) {
      if (turn % 64) continue;
      if (load_relaxed(&controls->abort)) return false;
      if (nanoseconds() - start > controls->limit) {
        give_up(controls, state->channel, REDUCED, 0, rank, epoch, word.epoch);
        return false;
      }
    }
  }
  value = word.value;
  return true;
}

__device__ __forceinline__ void send(const ReduceState* state, const uint64* values, uint64 epoch) {
  const long long width = state->width, own = state->ranks_per_process * width;
  const long long first = (epoch % 2 * state->ranks_per_process * state->n_processes) * width + state->process * own;
  for (long long k = threadIdx.x; k < own * state->n_processes; k += THREADS) {
    const ReduceState::Process& process = state->processes[k / own];
    if (!process.signal) store_word(reinterpret_cast<Word*>(process.slots) + first + k % own, values[k % own], epoch);
  }
#if NETWORK
  for (int k = 0; k < state->n_processes; ++k) {
    const ReduceState::Process& process = state->processes[k];
    if (!process.signal) continue;
    // From the own slots, which this process has just filled for itself. Written again two epochs later, when the
    // receiver's next values have shown that these came.
    __syncthreads();
    pulsemd_put_signal(reinterpret_cast<Word*>(process.slots) + first, reinterpret_cast<Word*>(state->slots) + first,
                       own * sizeof(Word), reinterpret_cast<uint64*>(process.signal), epoch, k);
  }
#endif
}

// One block. `values` and `totals`: (ranks_per_process, width).
extern "C" __global__ void __launch_bounds__(THREADS)
    halo_reduce(ReduceState* state, Controls* controls, const uint64* values, SCALAR* totals) {
  __shared__ SCALAR tile[TILE];
  wait_for_earlier();
  let_later_start();
  const uint64 epoch = state->epoch + 1;
  if (load_relaxed(&controls->abort)) return;
  send(state, values, epoch);
  const int width = state->width, local = state->ranks_per_process, size = local * state->n_processes;
  const int columns = min(width, TILE / size);
  bool here = true;
  for (int first = 0; first < width; first += columns) {
    const int n = min(columns, width - first);
    for (int k = threadIdx.x; k < n * size; k += THREADS) {
      uint64 value = 0;
      here = here && wait_for_value(state, controls, epoch, k / n, first + k % n, value);
      tile[k] = *reinterpret_cast<SCALAR*>(&value);
    }
    if (!__syncthreads_and(here)) return;
    for (int column = threadIdx.x; column < n; column += THREADS) {
      SCALAR sum = 0;
      for (int rank = 0; rank < size; ++rank) sum += tile[rank * n + column];
      for (int rank = 0; rank < local; ++rank) totals[rank * width + first + column] = sum;
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) state->epoch = epoch;
}
