// Tables of a forward and a reverse exchange for direct plans that kernels have made: no host knows who sends what.
// Pulse p of a rank sends `n_sent[p]` rows, listed in `sent`; number i of them becomes row first_ghost + p * most + i of
// the receiver. Macros: THREADS, NETWORK.
//
// What is listed for the reverse exchange: every ghost row goes to place p * most + i of its owner's landing rows, and
// is added from there, one pulse after the other.
#include "exchange.cuh"

struct BackItem {  // `Item` of reverse.cu
  int slot, target, begin, end;
  uint64 first, unused;
};

// One for each local plan-rank; pulsemd.halo.device.direct has the same layout.
struct DirectRank {
  Message* forward;  // of this rank
  Message* reverse;
  int2* items;  // of this rank: (pulses, most)
  BackItem* back_items;
  BackItem* add_items;
  Group* groups;  // of this rank: one for each pulse
  int* waits;     // (pulses,), of all local ranks: what a group waits for
  uint64 landing;     // address of the own landing rows
  const int* sent;    // (pulses, most): own rows
  const int* n_sent;  // (pulses,)
  int* n_received;    // (pulses,), written by the senders
  int* there;         // (pulses, most): slot of each sent row at its receiver, written by the receivers
  int* slot_of_row;   // (rows,)
  const int* source;  // (slots,): row of each slot, -1: none
  const uint64* peer_there;     // (pulses,): `there` of the rank that a pulse comes from
  const uint64* peer_received;  // (pulses,): `n_received` of the rank that a pulse goes to
  const uint64* back_targets;   // (pulses,): landing rows for pulse p at the rank it comes from
  long long n_slots, first_ghost, n_pulses, most, row_bytes;
  long long first_item, first_back, first_add, first_group;  // of this rank in the tables of the channel
  long long first_word;  // of the words that announce what comes back
};

// Every rank learns the slots of its rows, senders those of the ghosts they brought. blockIdx.y: local rank.
extern "C" __global__ void __launch_bounds__(THREADS)
    tell_slots(const DirectRank* ranks) {
  const DirectRank own = ranks[blockIdx.y];
  const int slot = blockIdx.x * THREADS + threadIdx.x;
  if (slot < own.n_pulses) *(reinterpret_cast<int*>(own.peer_received[slot]) + slot) = own.n_sent[slot];
  const int row = slot < own.n_slots ? own.source[slot] : -1;
  if (row < 0) return;
  own.slot_of_row[row] = slot;
  const int ghost = row - int(own.first_ghost);
  if (ghost < 0) return;
  reinterpret_cast<int*>(own.peer_there[ghost / own.most])[ghost] = slot;
  own.back_items[ghost] = {slot, int(ghost % own.most), 0, 0, 0, 0};
}

// The rest, once all have told. blockIdx.y: local rank, blockIdx.z: pulse.
extern "C" __global__ void __launch_bounds__(THREADS)
    fill_tables(const DirectRank* ranks, ChannelState* forward_state, ChannelState* reverse_state) {
  const DirectRank own = ranks[blockIdx.y];
  const int p = blockIdx.z, i = blockIdx.x * THREADS + threadIdx.x, most = own.most, n = min(own.n_sent[p], most);
  if (p >= own.n_pulses) return;
  const int place = p * most + i;
  if (i < n) {
    const int slot = own.slot_of_row[own.sent[place]];
    own.items[place] = make_int2(slot, own.there[place]);
    own.add_items[place] = {slot, 0, 0, 0, own.landing + uint64(place) * own.row_bytes, 0};
  }
  if (i > 0) return;
  Message& forward = own.forward[p];
  forward.begin = own.first_item + p * most;
  forward.end = forward.begin + n;
  forward.group_begin = forward.group_end = 0;
  Message& reverse = own.reverse[p];
  reverse.begin = own.first_back + p * most;
  reverse.end = reverse.begin + min(own.n_received[p], most);
  reverse.group_begin = reverse.group_end = 0;
  reverse.target = own.back_targets[p];
  reverse.add_begin = own.first_group + p;
  reverse.add_end = reverse.add_begin + 1;
  const int first = own.first_add + p * most;
  own.groups[p] = {first, first + n, p, p + 1};
  own.waits[p] = own.first_word + p;
  // All ranks have met since the last exchange: nothing is owed.
  if (p == 0 && blockIdx.y == 0) {
    forward_state->forward_settled = forward_state->forward_epoch;
    reverse_state->reverse_settled = reverse_state->reverse_epoch;
  }
}
