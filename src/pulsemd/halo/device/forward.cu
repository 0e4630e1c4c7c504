// Forward exchange: owned rows are copied into the ghost rows of other ranks. Macros: UNIT_BYTES (4, 8, 16) and UNITS
// (units of a row, 0: an argument), NETWORK, THREADS.
//
// A block stores its share of the rows that depend on nothing, then of those that are forwarded, group by group, each
// after the signals of the pulse that brings them, and signals the receiver. Rows for a peer that stores do not reach are
// gathered into staging rows and put; there they land, and the receiver scatters them.
#include "exchange.cuh"

#if UNIT_BYTES == 16
typedef uint4 Unit;
#elif UNIT_BYTES == 8
typedef uint2 Unit;
#else
typedef unsigned int Unit;
#endif

#if UNITS
typedef uint32 Index;  // of a unit: rows are int32, and of two units at most
#else
typedef size_t Index;
#endif

constexpr int BATCH = 4;  // rows of a thread in flight

// Rows of one block's share, loaded before they are stored.
struct Batch {
  Unit value[BATCH];
  Index source[BATCH], place[BATCH];

  __device__ __forceinline__ void find(const int2* items, int first, int step, int end, int units) {
#pragma unroll
    for (int k = 0; k < BATCH; ++k) {
      const int index = first + k * step;
      if (index >= end) continue;
      const int2 item = items[index / units];
      source[k] = Index(item.x) * units + index % units;
      place[k] = Index(item.y) * units + index % units;
    }
  }

  __device__ __forceinline__ void load(const Unit* rows, int first, int step, int end) {
#pragma unroll
    for (int k = 0; k < BATCH; ++k)
      if (first + k * step < end) value[k] = rows[source[k]];
  }

  __device__ __forceinline__ void store(Unit* target, int first, int step, int end) const {
#pragma unroll
    for (int k = 0; k < BATCH; ++k)
      if (first + k * step < end) target[place[k]] = value[k];
  }

  // What remains of a share behind the first rows, which are loaded.
  __device__ __forceinline__ void copy_rest(const int2* items, const Unit* rows, Unit* target, int first, int step,
                                            int end, int units) {
    store(target, first, step, end);
    for (int index = first + BATCH * step; index < end; index += BATCH * step) {
      find(items, index, step, end, units);
      load(rows, index, step, end);
      store(target, index, step, end);
    }
  }
};

// Put rows that came by the network into their slots. Ghost rows are written only here, after their arrival; the sender
// waits for our credit of this epoch before it writes the landing rows again.
__device__ __forceinline__ bool scatter(const Seat& seat, const Message& message, Unit* rows, const int* ghosts,
                                        uint32* counter, uint64 epoch, int units) {
  bool here = true;
  if (threadIdx.x == 0) here = seat.wait(seat.word(ARRIVAL, seat.pulse), seat.pulse, ARRIVAL, epoch, message);
  if (!__syncthreads_and(here)) return false;
  const Unit* landing = reinterpret_cast<const Unit*>(message.landing);
  const int n = (message.scatter_end - message.scatter_begin) * units;
  for (int index = blockIdx.x * THREADS + threadIdx.x; index < n; index += gridDim.x * THREADS)
    rows[size_t(ghosts[message.scatter_begin + index / units]) * units + index % units] = landing[index];
  // Awaited by our own blocks that forward these rows.
  if (is_last(counter, gridDim.x) && threadIdx.x == 0) store_release(seat.word(SCATTERED, seat.pulse), epoch);
  return true;
}

// Arguments: `rows` of local rank 0, `rank_units` from one local rank to the next; `released`: messages of a channel
// whose ghost rows have been read when this kernel begins, with `released_state`, or null; `first`: pulse of the first
// row of blocks; `made_here`: whether kernels make the tables.
extern "C" __global__ void __launch_bounds__(THREADS)
    halo_forward(ChannelState* state, const Message* messages, const Group* groups, const int* waits, const int2* items,
                 const int* ghosts, uint32* counters, uint64* signals, Controls* controls, Unit* rows, uint64 rank_units,
                 int row_units, int slots, int first, int made_here, const Message* released,
                 const ChannelState* released_state) {
  if (made_here) wait_for_earlier();
  const Seat seat = {state, controls, signals, slots, int(blockIdx.y), first + int(blockIdx.z)};
  const Message message = messages[seat.index()];  // a copy: nothing of it is loaded again after a wait
  const uint64 settled = state->forward_settled, n_pulses = state->n_pulses;
  const int units = UNITS ? UNITS : row_units;
  const int start = blockIdx.x * THREADS + threadIdx.x, step = gridDim.x * THREADS;
  int index = message.begin * units + start, end = message.end * units;  // a pulse that the plan lacks has no rows
  Batch batch;
  batch.find(items, index, step, end, units);
  // Up to here nothing that a kernel has written lately: tables that the host makes are older than any of these.
  wait_for_earlier();
  let_later_start();
  Unit* own = rows + seat.rank * rank_units;
  batch.load(own, index, step, end);  // on its way while the epoch and the credit are
  const uint64 epoch = load_relaxed(&state->forward_epoch) + 1;
  if (seat.pulse >= n_pulses || load_relaxed(&controls->abort)) return;
  // Whatever reads our ghost rows came before this kernel in its stream: the senders may overwrite them.
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    allow(message.credit, epoch - 1, message.credit_process);
    if (released)
      allow(released[seat.index()].credit, released_state->forward_epoch, released[seat.index()].credit_process);
  }
  Unit* target = reinterpret_cast<Unit*>(message.target);
  const uint64 credit = epoch - 1 > settled ? epoch - 1 : 0;
  if (!wait_for_group(seat, message, waits, {}, FORWARDED, epoch, CREDIT, credit)) return;
  if (message.delay) dawdle(message.delay);
  batch.copy_rest(items, own, target, index, step, end, units);
  for (int k = message.group_begin; k < message.group_end; ++k) {
    const Group group = groups[k];
    index = group.begin * units + start, end = group.end * units;
    if (index - int(threadIdx.x) >= end) continue;  // no rows of this block: it need not wait
    batch.find(items, index, step, end, units);
    if (!wait_for_group(seat, message, waits, group, FORWARDED, epoch, CREDIT, 0)) return;
    if (message.delay) dawdle(message.delay);
    batch.load(own, index, step, end);
    batch.copy_rest(items, own, target, index, step, end, units);
  }
  // Awaited as ARRIVAL by the peer, or as FORWARDED by its later pulses.
  uint32* counter = counters + 2 * seat.index();
  complete(message, counter, epoch);
  advance(&state->forward_done, n_pulses * gridDim.y * gridDim.x, &state->forward_epoch, epoch);
#if NETWORK
  if (message.landing) {
    scatter(seat, message, own, ghosts, counter + 1, epoch, units);
    return;
  }
#endif
  if (blockIdx.x == 0) seat.wait_for_parts(ARRIVAL, epoch, message);
}

// The ghost rows of the last exchange have been read: one block of one thread for each local rank and pulse.
extern "C" __global__ void halo_release(const ChannelState* state, const Message* messages, int slots) {
  const int pulse = blockIdx.z;
  if (pulse >= state->n_pulses) return;
  const Message& message = messages[blockIdx.y * slots + pulse];
  allow(message.credit, state->forward_epoch, message.credit_process);
}
