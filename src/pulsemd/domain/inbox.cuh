// What the ranks of several GPUs know of each other at a search; pulsemd.domain.gpu has the same layouts. Every rank has
// an inbox in symmetric memory. Rows 0 to `first_ghost` take owned atoms, to which all ranks append; number i of pulse p
// lands in row first_ghost + p * most + i. An empty row has gid -1.
//
// Rows that other GPUs write are read by kernels that come after a barrier of all ranks in their stream.
#pragma once

#include "vector.cuh"

struct Inbox {
  int4* x;       // position; the fourth word is not used
  float4* v;     // of owned atoms
  int4* leader;  // position of the leader, and the home bits of the row
  int* gid;
  int* n_owned;
};

// A pulse of a direct plan to a lower neighbour: groups are sent whose leader is less than `span` above `lower` along
// each dimension; 2^32 where any will do.
struct DirectPulse {
  uint64 lower[3], span[3];
  long long receiver, home;  // rank, and home bits of the rows there
};

// One for each plan-rank of a process.
struct Domain {
  const Inbox* inboxes;   // of every rank
  const uint64* bounds;   // of the cells along each dimension, from 0 to 2^32: shape + 1 numbers each
  const DirectPulse* pulses;
  int* sent;              // (pulses, most): own rows
  int* found;             // owned atoms, bits of the largest squared reach of a group, rows sent by each pulse
  const int4* x;          // of the last search's slots, as all that follows
  const float4* v;
  const int* gid;
  const int* slot_of;     // (n_atoms,)
  const int* leader_of;   // (n_atoms,), global ids
  const long long* owned;  // how many times 64 slots hold owned atoms, from the first one on
  const float* scale;     // `LatticeScale` of the box
  long long rank, shape[3], n_slots, n_pulses, first_ghost, most, n_rows;
};

__device__ __forceinline__ int cell_along(uint32 x, const uint64* bounds, int n) {
  int cell = int(uint64(x) * n >> 32);
  while (x < bounds[cell]) cell--;
  while (x >= bounds[cell + 1]) cell++;
  return cell;
}

__device__ __forceinline__ int rank_of(const int4 x, const Domain& d) {
  const int nx = d.shape[0], ny = d.shape[1], nz = d.shape[2];
  const int cx = cell_along(x.x, d.bounds, nx), cy = cell_along(x.y, d.bounds + nx + 1, ny);
  return (cx * ny + cy) * nz + cell_along(x.z, d.bounds + nx + ny + 2, nz);
}

// Place of this thread among those of its warp with `wanted`, which append to one counter; called by whole warps.
__device__ __forceinline__ int append(int* counter, bool wanted) {
  const uint32 lanes = __ballot_sync(ALL_LANES, wanted);
  int start = 0;
  if ((threadIdx.x & 31) == 0 && lanes) start = atomicAdd_system(counter, __popc(lanes));
  return __shfl_sync(ALL_LANES, start, 0) + __popc(lanes & ((1u << (threadIdx.x & 31)) - 1));
}
