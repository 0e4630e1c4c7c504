// The exchange inside the kernels of a step, of direct plans between ranks that stores reach. The kernel that needs ghosts
// waits until their rows have come, and when it ends tells the owners that the forces on them are complete. The kernel
// that moves atoms takes those forces from there, leaves 0, and stores the new positions into the ghost rows.
//
// One epoch covers both ways: with epoch e of a rank, rows of e are here or on their way, and forces of e are given
// back. Nobody overwrites rows or clears forces of a rank before it has given back the forces of that epoch. The first
// epoch is 1, whose rows a search brings.
#pragma once

#include "arrival.cuh"

struct StepPulse {
  int4* x;           // rows of the rank that this pulse goes to
  void* f;           // forces there
  uint64* arrival;   // its word that announces our rows
  uint64* returned;  // the word at the rank that this pulse comes from which announces the forces on its rows here
};

struct StepState {
  uint64 epoch;
  uint32 moved, returned;  // blocks that are done
};

// One for each local plan-rank; pulsemd.halo.device.step has the same layout.
struct StepRank {
  StepState* state;
  Controls* controls;
  const uint64* words;      // own: arrival of each pulse, then returned of each pulse
  const StepPulse* pulses;
  uint32* sent;             // (slots,): bit p where pulse p sends the row
  int* place;               // (slots, pulses): slot at the receiver, of rows that are sent
  long long n_pulses, rank, channel;
};

// Wait until the rows of all pulses have come; called by all threads of a block with a copy of their rank's record,
// which is older than any step.
__device__ __forceinline__ bool wait_for_rows(const StepRank& halo) {
  const uint64 epoch = load_relaxed(&halo.state->epoch);  // on its way together with the words
  bool here = true;
  for (int p = threadIdx.x; p < halo.n_pulses; p += blockDim.x)
    here = wait_until(halo.words + p * SIGNAL_STRIDE, epoch, halo.controls, halo.channel, ARRIVAL, halo.rank, p) && here;
  return __syncthreads_and(here);
}

// Wait until the forces on the rows of a pulse are complete at its receiver; called by each thread that takes some.
__device__ __forceinline__ bool wait_for_forces(const StepRank& halo, int p) {
  const uint64* word = halo.words + (halo.n_pulses + p) * SIGNAL_STRIDE;
  return wait_until(word, load_relaxed(&halo.state->epoch), halo.controls, halo.channel, REVERSE_ARRIVAL, halo.rank, p);
}

__device__ __forceinline__ bool is_last_of(uint32* counter, int n_blocks) {
  uint32 before;
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
  const bool last = before == n_blocks - 1;
  if (last) *counter = 0;
  return last;
}

// Called by all threads of the blocks that add forces to ghosts, at their end.
__device__ __forceinline__ void give_forces_back(const StepRank& halo, int n_blocks) {
  __syncthreads();
  if (threadIdx.x > 0 || !is_last_of(&halo.state->returned, n_blocks)) return;
  const uint64 epoch = load_relaxed(&halo.state->epoch);
  for (int p = 0; p < halo.n_pulses; p++) store_release(halo.pulses[p].returned, epoch);
}

// Called by all threads of all blocks of the kernel that moves atoms, at its end: their rows are those of a new epoch.
__device__ __forceinline__ void announce_rows(const StepRank& halo) {
  __syncthreads();
  if (threadIdx.x > 0 || !is_last_of(&halo.state->moved, gridDim.x)) return;
  const uint64 epoch = load_relaxed(&halo.state->epoch) + 1;
  for (int p = 0; p < halo.n_pulses; p++) store_release(halo.pulses[p].arrival, epoch);
  halo.state->epoch = epoch;
}
