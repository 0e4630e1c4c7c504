// Counters of a search, in memory of the device as 64-bit integers; kernels of every step read them too, so that
// nothing of a list's size is baked into a launch.
#pragma once

enum Counter {
  SUPERCLUSTERS,     // in use
  FULL_ENTRIES,      // entries of exactly the chunk's number of groups, stored from the front
  PARTIAL_ENTRIES,   // shorter ones, stored from the back
  GROUPS,            // groups of four j-clusters
  WORDS,             // bitmasks of 32 lanes, one for half a group; number 0 lets every pair act
  PAIRS,             // interacting pairs within the list radius
  EXCLUDED,          // excluded pairs within the list radius
  OCCUPIED_BINS,     // bins that hold atoms
  SUPER_RADIUS,      // bits of the largest float32 distance of an atom from its supercluster's centre, nm
  N_COUNTERS
};
