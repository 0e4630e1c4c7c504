// The grid to which reproducible mode rounds positions before it takes differences; its step is 2^-23 nm, in boxes
// beyond 256 nm a larger power of two. Box vectors count as whole numbers of steps (half a step at most is lost over
// the whole length), so every periodic image of an atom has the same place on it, and float differences of places
// within 2^24 steps of a common centre are exact.
//
// Macro: ORTHORHOMBIC.
#pragma once
#include "vector.cuh"

// Box vectors in steps, as the rows of `LatticeScale`.
struct PositionGrid {
  int step[9];
  float width;  // of a step, nm
};

__device__ __forceinline__ PositionGrid load_position_grid(const float* box) {
  PositionGrid grid;
#pragma unroll
  for (int k = 0; k < 9; k++) grid.step[k] = __float_as_int(box[k]);
  grid.width = box[9];
  return grid;
}

// Place of a lattice position, which may be of an image beyond the box; modulo 2^32, as differences are taken.
__device__ __forceinline__ int3 on_grid(long long x, long long y, long long z, const PositionGrid& grid) {
  const int* step = grid.step;
  uint64 px = uint64(x) * step[0], py = uint64(y) * step[4], pz = uint64(z) * step[8];
  if (!ORTHORHOMBIC) {
    px += uint64(y) * step[3] + uint64(z) * step[6];
    py += uint64(x) * step[1] + uint64(z) * step[7];
    pz += uint64(x) * step[2] + uint64(y) * step[5];
  }
  constexpr uint64 half = 1ull << 31;
  return make_int3(int(px + half >> 32), int(py + half >> 32), int(pz + half >> 32));
}

// Vector from a centre to the nearest image of a position, nm; exact within 2^24 steps.
__device__ __forceinline__ float3 position_from(const int4 x, const int4 center, const PositionGrid& grid) {
  const int3 d = lattice_difference(x, center), there = on_grid(center.x, center.y, center.z, grid);
  const int3 here = on_grid((long long)(center.x) + d.x, (long long)(center.y) + d.y, (long long)(center.z) + d.z, grid);
  return make_float3(grid.width * float(int(uint32(here.x) - uint32(there.x))),
                     grid.width * float(int(uint32(here.y) - uint32(there.y))),
                     grid.width * float(int(uint32(here.z) - uint32(there.z))));
}
