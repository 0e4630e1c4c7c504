// Counters of a search, in memory of the device as 64-bit integers; kernels of every step read them too, so that
// nothing of a list's size is baked into a launch.
#pragma once

constexpr int SIZES = 8;  // classes of entries by their number of groups

enum Counter {
  SUPERCLUSTERS,            // in use; minus those that would be, if there are not so many, and then no atom is
  GROUPS,                   // groups of four j-clusters
  WORDS,                    // bitmasks of 32 lanes, one for half a group; number 0 lets every pair act
  PAIRS,                    // interacting pairs within the list radius
  EXCLUDED,                 // excluded pairs within the list radius
  OCCUPIED_BINS,            // bins that hold atoms
  SUPER_RADIUS,             // bits of the largest float32 distance of an atom from its supercluster's centre, nm
  OWNED_SUPERCLUSTERS,      // those of owned atoms, which come first
  SUPER_EXTENT,             // the same along one Cartesian axis
  ENTRIES,                  // entries of each class, smallest first
  N_COUNTERS = ENTRIES + SIZES
};

// End of the slots of owned atoms of one rank of several, of which `counters` are; all `n` slots of an only rank.
__device__ __forceinline__ int end_of_owned(const long long* counters, int n) {
  return counters ? 64 * int(counters[OWNED_SUPERCLUSTERS]) : n;
}

// Entries are run largest first, so that little is left to do when the last blocks end. The largest class begins at 0;
// each of the others, of which a supercluster has one at most, has room for every supercluster.
__device__ __forceinline__ int first_of_class(int size, int entry_capacity, int super_capacity) {
  return size == SIZES - 1 ? 0 : entry_capacity + size * super_capacity;
}

__device__ __forceinline__ int entries_in_all(const long long* counters) {
  int n = 0;
  for (int size = 0; size < SIZES; size++) n += int(counters[ENTRIES + size]);
  return n;
}

// Where entry number e is, counted from the first of the largest class on.
__device__ __forceinline__ int place_of_entry(int e, const long long* counters, int entry_capacity, int super_capacity) {
  int size = SIZES - 1, rank = e;
  while (rank >= int(counters[ENTRIES + size])) rank -= int(counters[ENTRIES + size--]);
  return first_of_class(size, entry_capacity, super_capacity) + rank;
}
