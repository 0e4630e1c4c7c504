// Long-range electrostatics of all excluded pairs, as the start of the forces of a step.
//
// One thread an atom, which adds up its own partners: no atomics, and the forces can be written rather than added, so
// that this kernel also clears the force array. Both atoms of a pair compute it, with exactly opposite results.
//
// PART  0: of a rank that has all atoms
//       1: of one rank of several, the owned atoms and pairs of two of them
//       2: its ghosts and the pairs with a ghost that belong to it; what acts on owned atoms is added by atomics

#include "exclusions.cuh"
#include "ownership.cuh"
#include "pair_list.cuh"

__device__ __forceinline__ void add_force(Force* f, int slot, const StoredForce& force) {
    add_vector(f + 4 * (size_t)slot, force.x, force.y, force.z);
}

// Whether this part has a pair; `other`: slot of the partner.
__device__ __forceinline__ bool has_pair(int slot, int other, int end, const int4* leader) {
    if (PART == 0) return true;
    if (PART == 1) return other >= 0 && other < end;
    return other >= 0 && pair_is_ours(leader[slot], leader[other]);
}

// x : (n, 4) int32; gid : (n,) int32, -1 in empty slots; slot_of : (n_atoms,) int32, slot of each global id, or -1
// offset : (n_atoms + 1,) int64, partner : (k,) int32, global ids
// started : (n_atoms,) uint8 or null, 1: moves start the forces of this atom (see leapfrog.cu)
// others : 1: leave alone what moves start; 0: write it, and 0 for atoms of which moves do not
// f : (n, 4), written; sums : [lj, coulomb, W(9)], added to with ENERGIES
// leader : (n, 4) int32, counters : of the search, null in part 0
extern "C" __global__ void __launch_bounds__(THREADS)
    exclusion_forces(const int4* __restrict__ x, const int* __restrict__ gid, int n, const int* __restrict__ slot_of,
                     const long long* __restrict__ offset, const int* __restrict__ partner,
                     const unsigned char* __restrict__ started, int others, const LongRange* __restrict__ field,
                     Force* f, Sum* sums, const int4* __restrict__ leader, const long long* __restrict__ counters) {
    const int slot = blockIdx.x * THREADS + threadIdx.x, end = PART ? end_of_owned(counters, n) : n;
    const bool here = PART == 2 ? slot >= end && slot < n : slot < end;
    const int g = here ? gid[slot] : -1;
    const bool by_moves = PART < 2 && g >= 0 && started && started[g], leave = !here || (by_moves && others);
    Sums mine;
    if (!leave) {
        StoredForce total = {0, 0, 0};
        if (g >= 0 && (!started || others || by_moves)) {
            const int4 at = x[slot];
#pragma unroll 4  // several waits for memory become one
            for (long long k = offset[g]; k < offset[g + 1]; k++) {
                const int other = slot_of[partner[k]];
                if (!has_pair(slot, other, end, leader)) continue;
                const bool across = PART == 2 && other < end;  // nobody else computes this pair
                const StoredForce force = exclusion_force(at, x[other], *field, across || g < partner[k], mine);
                if (across) add_force(f, other, -force);
                total += force;
            }
        }
        store_force(f, slot, total);
    }
    if (ENERGIES)
        for (int k = 1; k < 11; k++) add_of_warp(sums + k, mine.of[k]);
}

// How many excluded pairs belong to this rank, added to `count`; of PART 2 alone.
extern "C" __global__ void __launch_bounds__(THREADS)
    count_exclusions(const int* __restrict__ gid, int n, const int* __restrict__ slot_of,
                     const long long* __restrict__ offset, const int* __restrict__ partner,
                     const int4* __restrict__ leader, long long* count) {
    const int slot = blockIdx.x * THREADS + threadIdx.x, g = slot < n ? gid[slot] : -1;
    int found = 0;
    if (g >= 0)
        for (long long k = offset[g]; k < offset[g + 1]; k++) {
            const int other = slot_of[partner[k]];
            found += g < partner[k] && other >= 0 && pair_is_ours(leader[slot], leader[other]);
        }
    add_of_warp(count, (long long)(found));
}
