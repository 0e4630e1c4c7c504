// Reverse exchange: ghost rows are summed into their owners' rows. Macros: SCALAR, LANES (scalars of a unit), UNITS
// (units of a row, 0: an argument), WAY, NETWORK, THREADS.
//
// What a row has to be added to it is listed once, in the order in which it is added: last pulse first. A ghost row that
// was forwarded is complete when the rows it was forwarded to have come back, so its message waits for exactly those.
//   LAND: ghost rows are stored into the owner's landing rows (two halves, for even and odd epochs), the owner adds.
//   PULL: ghost rows are completed in place, the owner reads them from there.
//   PUSH: ghost rows are added to the owner's rows by atomics at the owner. The order is left to chance.
// Peers that stores do not reach take part by LAND alone: rows are gathered into staging rows and put.
#include "exchange.cuh"

#define LAND 0
#define PULL 1
#define PUSH 2

struct alignas(sizeof(SCALAR) * LANES) Unit {
  SCALAR lane[LANES];
};

// A row to send back or to add to, and where what it has to be added lies: `first`, then more[begin:end].
struct Item {
  int slot, target;
  int begin, end;
  uint64 first;  // address, 0: nothing
  uint64 unused;
};

#define ADD(scope, type, kind, value) \
  asm volatile("red.relaxed." scope ".global.add." type " [%0], %1;" ::"l"(target), kind(value) : "memory")

// The sum goes to the owner's memory: `scope` is the owner's GPU, or for a push the machine.
#if WAY == PUSH
#define SCOPE "sys"
#else
#define SCOPE "gpu"
#endif
__device__ __forceinline__ void add(int* target, int value) { ADD(SCOPE, "s32", "r", value); }
__device__ __forceinline__ void add(long long* target, long long value) { ADD(SCOPE, "u64", "l", value); }
__device__ __forceinline__ void add(float* target, float value) { ADD(SCOPE, "f32", "f", value); }
__device__ __forceinline__ void add(double* target, double value) { ADD(SCOPE, "f64", "d", value); }

// Atomic, since the owner's own kernels may be adding to the row at the same time.
__device__ __forceinline__ void add_unit(Unit* target, const Unit& value) {
#if VECTOR_ADD && __CUDA_ARCH__ >= 900
  asm volatile("red.relaxed." SCOPE ".global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(target), "f"(value.lane[0]),
               "f"(value.lane[1]), "f"(value.lane[2]), "f"(value.lane[3]) : "memory");
#else
#pragma unroll
  for (int k = 0; k < LANES; ++k) add(target->lane + k, value.lane[k]);
#endif
}

__device__ __forceinline__ void add_to_sum(Unit& sum, const Unit& value) {
#pragma unroll
  for (int k = 0; k < LANES; ++k) sum.lane[k] += value.lane[k];
}

__device__ __forceinline__ const Unit& unit_at(uint64 address, uint64 offset) {
  return reinterpret_cast<const Unit*>(address)[offset];
}

// Add to `sum` what an item lists; `offset`: units from each address.
__device__ __forceinline__ void add_listed(Unit& sum, const Item& item, const uint64* more, uint64 offset) {
  if (item.first) add_to_sum(sum, unit_at(item.first, offset));
  for (int k = item.begin; k < item.end; ++k) add_to_sum(sum, unit_at(more[k], offset));
}

// Group k of a message, from group_begin - 1 on: first the items that wait for nothing.
__device__ __forceinline__ Group group_of(const Message& message, const Group* groups, int k) {
  if (k < message.group_begin) return {message.begin, message.end, 0, 0};
  return groups[k];
}

struct Exchange {
  const Seat& seat;
  const Message& message;
  const Group* groups;
  const int* waits;
  const Item* items;
  const uint64* more;
  Unit* rows;  // of this local rank
  uint64 epoch, settled, half;  // half: units to the half of the own landing rows that this epoch uses
  int units;

  // The item of a unit, on its way while something else is awaited.
  __device__ __forceinline__ Item item_of(int index, const Group& group) const {
    return index < group.end * units ? items[index / units] : Item{};
  }

  // Whether this block has no units of a group, so that it need not wait for it; `start`: of the calling thread.
  __device__ __forceinline__ bool nothing_of(const Group& group, int start) const {
    return group.begin * units + start - int(threadIdx.x) >= group.end * units;
  }

  // Send back the ghost rows of a group; `item`: of the first unit.
  __device__ __forceinline__ void give_back(const Group& group, Item item, int start, int step) const {
    Unit* target = reinterpret_cast<Unit*>(message.target + (WAY == LAND ? epoch % 2 * message.target_half : 0));
    const bool listed = group.wait_end > group.wait_begin;
    if (WAY == PULL && !listed) return;  // they lie where they are read
    for (int index = group.begin * units + start; index < group.end * units;) {
      const int unit = index % units;
      Unit sum = rows[size_t(item.slot) * units + unit];
      if (WAY != PUSH && listed) add_listed(sum, item, more, half + unit);
      if (WAY == LAND) target[size_t(item.target) * units + unit] = sum;
      if (WAY == PULL) rows[size_t(item.slot) * units + unit] = sum;
      if (WAY == PUSH) add_unit(target + size_t(item.target) * units + unit, sum);
      item = item_of(index += step, group);
    }
  }

  // Send back all of this block's share; false if a wait ended otherwise.
  __device__ __forceinline__ bool give_back_all(int start, int step) const {
    for (int k = message.group_begin - 1; k < message.group_end; ++k) {
      const Group group = group_of(message, groups, k);
      if (nothing_of(group, start)) continue;
      const Item item = item_of(group.begin * units + start, group);
      // LAND: the half is free again. PUSH: the owner's rows may be added to. PULL owes nothing: the owner has read the
      // rows of an exchange before that exchange ended here.
      const bool owed = k < message.group_begin && (WAY == PUSH || (WAY == LAND && epoch > settled + 2));
      const uint64 credit = owed ? WAY == PUSH ? epoch : epoch - 2 : 0;
      if (!wait_for_group(seat, message, waits, group, REVERSE_ARRIVAL, epoch, REVERSE_CREDIT, credit)) return false;
      if (message.delay) dawdle(message.delay);
      give_back(group, item, start, step);
    }
    return true;
  }

  // Add to the owned rows of this block's share what has come back for them.
  __device__ __forceinline__ bool add_all(int start, int step) const {
    for (int k = message.add_begin; k < message.add_end; ++k) {
      const Group group = groups[k];
      if (nothing_of(group, start)) continue;
      int index = group.begin * units + start;
      Item item = item_of(index, group);
      if (!wait_for_group(seat, message, waits, group, REVERSE_ARRIVAL, epoch, 0, 0)) return false;
      while (index < group.end * units) {
        const int unit = index % units;
        Unit sum = unit_at(item.first, half + unit);
        for (int n = item.begin; n < item.end; ++n) add_to_sum(sum, unit_at(more[n], half + unit));
        add_unit(rows + size_t(item.slot) * units + unit, sum);
        item = item_of(index += step, group);
      }
    }
    return true;
  }
};

// PULL: tell every rank that sends rows back to a rank of this process that they have been read, and wait until the own
// ghost rows have been. By all threads of the grid's last block.
__device__ __forceinline__ void settle(const Seat& seat, const Message* messages, uint64 epoch, int n_pulses) {
  const int n = gridDim.y * n_pulses;
  for (int k = threadIdx.x; k < n; k += THREADS) {
    const Message& message = messages[k / n_pulses * seat.slots + k % n_pulses];
    announce(message.credit, epoch, message.credit_process);
  }
  for (int k = threadIdx.x; k < n; k += THREADS) {
    const Seat other = {seat.state, seat.controls, seat.signals, seat.slots, k / n_pulses, k % n_pulses};
    other.wait(other.word(REVERSE_CREDIT, other.pulse), other.pulse, REVERSE_CREDIT, epoch, messages[other.index()]);
  }
}

// Arguments as of halo_forward; `first`: place of the first row of blocks among the pulses from the last one on.
extern "C" __global__ void __launch_bounds__(THREADS)
    halo_reverse(ChannelState* state, const Message* messages, const Group* groups, const int* waits, const Item* items,
                 const uint64* more, uint32* counters, uint64* signals, Controls* controls, Unit* rows,
                 uint64 rank_units, int row_units, int slots, int first, int made_here, const Message* released,
                 const ChannelState* released_state) {
  if (made_here) wait_for_earlier();
  const int n_pulses = state->n_pulses;
  const Seat seat = {state, controls, signals, slots, int(blockIdx.y), n_pulses - 1 - first - int(blockIdx.z)};
  Message message = {};
  if (seat.pulse >= 0) message = messages[seat.index()];
  const uint64 settled = state->reverse_settled;
  const int units = UNITS ? UNITS : row_units;
  // Up to here nothing that a kernel has written lately: tables that the host makes are older than any of these.
  wait_for_earlier();
  let_later_start();
  const uint64 epoch = load_relaxed(&state->reverse_epoch) + 1;
  if (seat.pulse < 0 || load_relaxed(&controls->abort)) return;
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    // PUSH: what wrote the owned rows has ended. LAND: the rows of the last exchange have been added.
    if (WAY != PULL) allow(message.credit, WAY == PUSH ? epoch : epoch - 1, message.credit_process);
    if (released)  // their readers came before this kernel in its stream
      allow(released[seat.index()].credit, released_state->forward_epoch, released[seat.index()].credit_process);
  }
  const uint64 half = WAY == LAND ? epoch % 2 * (state->landing_half / sizeof(Unit)) : 0;
  const Exchange exchange = {seat, message, groups, waits, items, more, rows + seat.rank * rank_units,
                             epoch, settled, half, units};
  const int start = blockIdx.x * THREADS + threadIdx.x, step = gridDim.x * THREADS;
  if (!exchange.give_back_all(start, step)) return;
  complete(message, counters + seat.index(), epoch);  // awaited as REVERSE_ARRIVAL by the owner's blocks
  const uint64 blocks = uint64(n_pulses) * gridDim.y * gridDim.x;
  if (WAY != PULL) advance(&state->reverse_done, blocks, &state->reverse_epoch, epoch);
  if (!exchange.add_all(start, step)) return;
  if (WAY == PUSH && blockIdx.x == 0 && !__syncthreads_and(seat.wait_for_parts(REVERSE_ARRIVAL, epoch, message))) return;
  if (WAY == PULL && is_last(&state->reverse_done, blocks)) {
    settle(seat, messages, epoch, n_pulses);
    if (threadIdx.x == 0) state->reverse_epoch = epoch;
  }
}
