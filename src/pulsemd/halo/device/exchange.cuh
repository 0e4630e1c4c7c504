// What forward and reverse exchanges share: their tables, their waits, and who announces that a message is complete.
//
// A grid has one row of blocks for each local plan-rank (blockIdx.y) and pulse (blockIdx.z). Blocks are scheduled in the
// order of their number, pulse by pulse for all local ranks, so what is awaited never comes after who waits for it, and
// the host sizes the grid so that all of its blocks find a place at once.
//
// A message that is stored comes in parts: each block of the sender stores its share and signals it by a word of its
// own, so that no block waits for another, and the receiver waits for as many words. All processes launch an exchange
// with the same number of blocks. A message that is put is one part.
//
// Rows that a peer writes are read by plain loads after an acquire, never through the non-coherent cache: no pointer
// here is __restrict__.
#pragma once

#include "arrival.cuh"

// Kinds of signal words: the first four kinds of wait; rows that came by a put lie in their slots (awaited as FORWARDED),
// or have come back by one (awaited as REVERSE_ARRIVAL).
constexpr int SCATTERED = 4, REVERSE_PUT = 5, WORD_KINDS = 6;
constexpr int MOST_PARTS = 64;  // words of a signal, and blocks of a message
constexpr int SAME_GPU = -2;    // stored to directly by ranks of the same process

// A message of one local plan-rank and pulse, in one direction; written by pulsemd.halo.device.tables.
struct Message {
  uint64 target;      // rows at the peer that take ours; for a put the own staging rows
  uint64 put_target;  // where a put goes; 0: `target` is stored to directly
  uint64 put_bytes;
  uint64 signal;   // the peer's words that announce our rows
  uint64 credit;   // the word at the peer that sends to us, by which we let it send again
  uint64 landing;  // own rows that the peer puts to and that are scattered from here; 0: it stores into their slots
  uint64 target_half;  // bytes between the halves of `target` and `put_target` that even and odd epochs use
  int signal_process, credit_process;  // as network.cuh takes them; -1: stored to directly; SAME_GPU
  int begin, end;                      // items that wait for no other message
  int group_begin, group_end;          // groups of items that do
  int add_begin, add_end;              // groups of items to add to, of a reverse exchange
  int scatter_begin, scatter_end;      // ghost slots of what comes by the network
  int delay;                           // ns before the rows go, for tests
  int skip;                            // waits left out, for tests: bit of WaitKind
  int unused[6];
};
static_assert(sizeof(Message) == 128, "tables.py has the same layout");

// Items that wait for the same signals.
struct Group {
  int begin, end, wait_begin, wait_end;
};

// The place of a block in an exchange.
struct Seat {
  ChannelState* state;
  Controls* controls;
  uint64* signals;  // own words: local rank, kind, pulse
  int slots;        // pulses that there are words for
  int rank, pulse;

  __device__ int index() const { return rank * slots + pulse; }
  __device__ uint64* word(int kind, int of_pulse) const {
    return signals + (size_t(rank * WORD_KINDS + kind) * slots + of_pulse) * MOST_PARTS;
  }
  __device__ bool wait(const uint64* word, int of_pulse, int kind, uint64 epoch, const Message& message) const {
    if (message.skip >> kind & 1) return true;
    return wait_until(word, epoch, controls, state->channel, kind, rank, of_pulse);
  }
  // Wait for all parts of a message that is stored, one thread for each.
  __device__ bool wait_for_parts(int kind, uint64 epoch, const Message& message) const {
    bool here = true;
    if (threadIdx.x < gridDim.x) here = wait(word(kind, pulse) + threadIdx.x, pulse, kind, epoch, message);
    return here;
  }
};

// Let a peer overwrite or add to rows of ours, or store to our landing rows, when a kernel begins. Without a fence:
// whatever read or wrote those rows has ended with the kernels before this one, so nothing is on its way.
__device__ __forceinline__ void allow(uint64 word, uint64 epoch, int process) {
#if NETWORK
  if (process >= 0) {
    pulsemd_signal(reinterpret_cast<uint64*>(word), epoch, process);
    return;
  }
#endif
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(word), "l"(epoch) : "memory");
}

// Tell a peer that rows have been used by this kernel's blocks.
__device__ __forceinline__ void announce(uint64 word, uint64 epoch, int process) {
#if NETWORK
  if (process >= 0) {
    pulsemd_signal(reinterpret_cast<uint64*>(word), epoch, process);
    return;
  }
#endif
  store_release(reinterpret_cast<uint64*>(word), epoch);
}

// Wait for a group's signals, one thread for each word, and for the credit if it is owed; all threads of the block learn
// whether all came. `waits` holds word kind * slots + pulse.
__device__ __forceinline__ bool wait_for_group(const Seat& seat, const Message& message, const int* waits,
                                               const Group& group, int kind, uint64 epoch, int credit_kind,
                                               uint64 credit) {
  const int n = (group.wait_end - group.wait_begin) * gridDim.x;
  bool here = true;
  for (int k = threadIdx.x; k < n; k += THREADS) {
    const int word = waits[group.wait_begin + k / gridDim.x], part = k % gridDim.x;
    const int word_kind = word / seat.slots, pulse = word % seat.slots;
    if (part == 0 || word_kind < SCATTERED)
      here = seat.wait(seat.word(word_kind, pulse) + part, pulse, kind, epoch, message) && here;
  }
  if (credit && threadIdx.x == THREADS - 1)
    here = seat.wait(seat.word(credit_kind, seat.pulse), seat.pulse, credit_kind, credit, message) && here;
  return __syncthreads_and(here);
}

__device__ __forceinline__ uint32 count(uint32* counter) {
  uint32 before;
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
  return before;
}

__device__ __forceinline__ uint64 count(uint64* counter) {
  uint64 before;
  asm volatile("atom.acq_rel.gpu.global.add.u64 %0, [%1], 1;" : "=l"(before) : "l"(counter) : "memory");
  return before;
}

// Whether this block is the last of `total` to come here; all threads learn it. What every thread of those blocks wrote
// before is visible to the last one. Resets the counter.
template <typename Counter>
__device__ __forceinline__ bool is_last(Counter* counter, uint64 total) {
  if (total == 1) {
    __syncthreads();
    return true;
  }
  __syncthreads();
  bool last = false;
  if (threadIdx.x == 0) {
    last = count(counter) == total - 1;
    if (last) *counter = 0;
  }
  return __syncthreads_or(last);
}

// Announce this block's part of a message, all rows of which its threads have stored: the release at system scope comes
// after what they did before they met. The last block puts what goes by a put. Called by all threads.
__device__ __forceinline__ void complete(const Message& message, uint32* counter, uint64 epoch) {
#if NETWORK
  if (message.put_target) {
    const uint64 half = epoch % 2 * message.target_half;
    if (is_last(counter, gridDim.x))
      pulsemd_put_signal(reinterpret_cast<void*>(message.put_target + half),
                         reinterpret_cast<const void*>(message.target + half), message.put_bytes,
                         reinterpret_cast<uint64*>(message.signal), epoch, message.signal_process);
    return;
  }
#endif
  __syncthreads();
  if (threadIdx.x > 0) return;
  uint64* word = reinterpret_cast<uint64*>(message.signal) + blockIdx.x;
  if (message.signal_process == SAME_GPU)
    store_release_here(word, epoch);
  else
    store_release(word, epoch);
}

// The last of all blocks to come here ends the epoch; called by all threads, which have met since they read it. By a
// thread of a warp that waits for nothing afterwards.
__device__ __forceinline__ void advance(uint64* done, uint64 total, uint64* epochs, uint64 epoch) {
  if (threadIdx.x == THREADS - 1 && count(done) == total - 1) {
    *done = 0;
    *epochs = epoch;
  }
}

__device__ __forceinline__ void dawdle(int ns) {
  const uint64 start = nanoseconds();
  while (nanoseconds() - start < ns) {
  }
}
