// Signals between processes, and the one wait of the library.
//
// A signal is a 64-bit word on a cache line of its own. It holds an epoch, never decreases, is stored with release and
// loaded with acquire at system scope, and is compared with >=, so a peer that runs ahead cannot make anybody miss it.
// A wait ends when the epoch has come, when any process has given up, or after the limit; then it makes everybody end.
#pragma once

#include "clock.cuh"
#include "overlap.cuh"
#include "network.cuh"

constexpr int SIGNAL_STRIDE = 16;  // words from one signal to the next: 128 bytes

// Kinds of wait, in the order of pulsemd.halo.faults.WAITS.
enum WaitKind { ARRIVAL, CREDIT, REVERSE_ARRIVAL, REVERSE_CREDIT, FORWARDED, REDUCED };

// Where a process stores that it gave up, and why. In symmetric memory, one for each process.
struct Controls {
  uint64 abort;  // non-zero once any process has given up
  uint64 unused[15];
  uint64 limit;    // ns that a wait may last
  uint64 claimed;  // who writes the report
  uint64 report[7];  // channel, kind, local rank, pulse, epoch awaited, epoch found, 1 when complete
  uint64 n_others;
  uint64 gap[6];
  struct Other {
    uint64 abort;
    long long process;  // -1: `abort` can be stored to; else the number that network.cuh takes
  } others[1];
};

// Where the epochs of a channel are.
struct ChannelState {
  uint64 n_pulses, forward_epoch, forward_settled, reverse_epoch, reverse_settled;
  uint64 landing_half;  // bytes from one half of a landing buffer to the other
  uint64 forward_done, reverse_done;
  uint64 channel;
  uint64 unused[7];
};

__device__ __forceinline__ uint64 load_acquire(const uint64* word) {
  uint64 value;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
  return value;
}

__device__ __forceinline__ uint64 load_relaxed(const uint64* word) {
  uint64 value;
  asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
  return value;
}

__device__ __forceinline__ void store_release(uint64* word, uint64 value) {
  asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
}

// The same for those who wait on this GPU.
__device__ __forceinline__ void store_release_here(uint64* word, uint64 value) {
  asm volatile("st.release.gpu.global.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
}

// Make every wait of every process end.
static __device__ __noinline__ void stop_everybody(Controls* controls) {
  store_release(&controls->abort, 1);
  for (uint64 k = 0; k < controls->n_others; ++k) {
    const Controls::Other other = controls->others[k];
    uint64* word = reinterpret_cast<uint64*>(other.abort);
    if (other.process < 0)
      store_release(word, 1);
#if NETWORK
    else
      pulsemd_signal(word, 1, int(other.process));
#endif
  }
}

// The wait expired: report it unless somebody has reported already, then stop everybody.
static __device__ __noinline__ void give_up(Controls* controls, uint64 channel, int kind, int rank, int pulse,
                                            uint64 epoch, uint64 found) {
  if (atomicCAS(&controls->claimed, 0ull, 1ull) == 0ull) {
    const uint64 report[7] = {channel, uint64(kind), uint64(rank), uint64(pulse), epoch, found, 1};
    for (int k = 0; k < 7; ++k) controls->report[k] = report[k];
  }
  stop_everybody(controls);
}

// Wait until *word >= epoch, by one thread; false if it ended otherwise.
__device__ __forceinline__ bool wait_until(const uint64* word, uint64 epoch, Controls* controls, uint64 channel,
                                           int kind, int rank, int pulse) {
  if (load_acquire(word) >= epoch) return true;
  const uint64 start = nanoseconds();
  for (uint32 turn = 1;; ++turn) {
    const uint64 found = load_acquire(word);
    if (found >= epoch) return true;
    if (turn % 64) continue;
    if (load_relaxed(&controls->abort)) return false;
    if (nanoseconds() - start > controls->limit) {
      give_up(controls, channel, kind, rank, pulse, epoch, found);
      return false;
    }
  }
}
