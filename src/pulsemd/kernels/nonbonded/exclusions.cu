// Reaction field of all excluded pairs, as the start of the forces of a step.
//
// One thread an atom, which adds up its own partners: no atomics, and the forces can be written rather than added, so
// that this kernel also clears the force array. Both atoms of a pair compute it, with exactly opposite results.

#include "exclusions.cuh"

// x : (n, 4) int32; gid : (n,) int32, -1 in empty slots; slot_of : (n_atoms,) int32, slot of each global id
// offset : (n_atoms + 1,) int64, partner : (k,) int32, global ids
// started : (n_atoms,) uint8 or null, 1: the forces of this atom are started already (see leapfrog.cu) and left alone
// f : (n, 4), written; sums : [lj, coulomb, W(9)], added to with ENERGIES
extern "C" __global__ void __launch_bounds__(THREADS)
    exclusion_forces(const int4* __restrict__ x, const int* __restrict__ gid, int n, const int* __restrict__ slot_of,
                     const long long* __restrict__ offset, const int* __restrict__ partner,
                     const unsigned char* __restrict__ started, const ReactionField* __restrict__ field, Force* f,
                     Sum* sums) {
    const int slot = blockIdx.x * THREADS + threadIdx.x;
    const int g = slot < n ? gid[slot] : -1;
    const bool leave = slot >= n || (g >= 0 && started && started[g]);
    Sums mine;
    if (!leave) {
        StoredForce total = {0, 0, 0};
        if (g >= 0) {
            const int4 here = x[slot];
            for (long long k = offset[g]; k < offset[g + 1]; k++)
                total += exclusion_force(here, x[slot_of[partner[k]]], *field, g < partner[k], mine);
        }
        store_force(f, slot, total);
    }
    if (ENERGIES)
        for (int k = 1; k < 11; k++) add_of_warp(sums + k, mine.of[k]);
}
