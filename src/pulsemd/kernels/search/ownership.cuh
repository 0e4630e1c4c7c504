// Which rank computes a pair or a term: the rule of `pulsemd.domain.ownership` on slots. An atom is given by the
// lattice position of its leader at the search and, in the fourth word, its home bits: bit d is set if the leader's
// cell along dimension d is this rank's. Along a dimension that is not split it always is, so owned atoms have all.
#pragma once

#include "vector.cuh"

constexpr int HOME = 7;

// In each dimension the lower leader must be at home.
__device__ __forceinline__ bool pair_is_ours(const int4 i, const int4 j) {
  const int3 d = lattice_difference(j, i);
  return (((d.x < 0 ? j.w : i.w) & 1) | ((d.y < 0 ? j.w : i.w) & 2) | ((d.z < 0 ? j.w : i.w) & 4)) == HOME;
}

// The same of more atoms: the lowest by the difference to the first one, the first of equals.
struct LowestLeaders {
  int4 first;
  int3 delta;
  int home;

  __device__ __forceinline__ explicit LowestLeaders(const int4 leader)
      : first(leader), delta(make_int3(0, 0, 0)), home(leader.w) {}

  __device__ __forceinline__ void take(const int4 leader) {
    const int3 d = lattice_difference(leader, first);
    if (d.x < delta.x) delta.x = d.x, home = (home & ~1) | (leader.w & 1);
    if (d.y < delta.y) delta.y = d.y, home = (home & ~2) | (leader.w & 2);
    if (d.z < delta.z) delta.z = d.z, home = (home & ~4) | (leader.w & 4);
  }

  __device__ __forceinline__ bool ours() const { return home == HOME; }
};
