// Virtual sites that no rigid water carries along: one thread for all sites that hang together, in the order in which they
// can be constructed, so that nothing is added by atomics.

#include "sites.cuh"
#include "pair_list.cuh"

// Site k of the table.
__device__ __forceinline__ Site site_at(int k, const int* kind, const int* offset, const int* atoms,
                                        const double* values, const int* slot_of) {
    return {kind[k], offset[k + 1] - offset[k] - 1, atoms + offset[k], values + offset[k], slot_of};
}

// Whether the set of sites that begins with site k is on this rank and owned.
__device__ __forceinline__ bool is_owned(int k, const int* offset, const int* atoms, const int* slot_of, int n,
                                         const long long* counters) {
    const int slot = slot_of[atoms[offset[k]]];
    return slot >= 0 && slot < end_of_owned(counters, n);
}

// first : (n_sets + 1,) int32, the first site of each set
// kind, offset, atoms, values : the sites of all sets, see `VirtualSites`; atoms are global ids
// n, counters : slots, and of one rank of several the counters of its search, else null
// f : (n, 4), updated; virial : (9,) added to with ENERGIES
extern "C" __global__ void __launch_bounds__(THREADS)
    spread_sites(const int4* __restrict__ x, Force* f, const int* __restrict__ first, int n_sets,
                 const int* __restrict__ kind, const int* __restrict__ offset, const int* __restrict__ atoms,
                 const double* __restrict__ values, const int* __restrict__ slot_of, const Step* __restrict__ step,
                 Sum* virial, int n, const long long* __restrict__ counters) {
    const int t = blockIdx.x * THREADS + threadIdx.x;
    Sums sums;
    if (t < n_sets && is_owned(first[t], offset, atoms, slot_of, n, counters)) {
        const Places at = {x, step->box};
        for (int k = first[t + 1] - 1; k >= first[t]; k--)  // a site that is a parent hands on what it was given
            spread_site(site_at(k, kind, offset, atoms, values, slot_of), at, f, sums);
    }
    if (ENERGIES)
        for (int k = 0; k < 9; k++) add_of_warp(virial + k, sums.of[2 + k]);
}

// The same arguments; x : updated; control, offset_of_step : for the error word, see move.cuh
extern "C" __global__ void __launch_bounds__(THREADS)
    construct_sites(int4* x, const int* __restrict__ first, int n_sets, const int* __restrict__ kind,
                    const int* __restrict__ offset, const int* __restrict__ atoms, const double* __restrict__ values,
                    const int* __restrict__ slot_of, const int* __restrict__ gid, const Step* __restrict__ step,
                    Control* control, int offset_of_step, int n, const long long* __restrict__ counters) {
    const int t = blockIdx.x * THREADS + threadIdx.x;
    if (t >= n_sets || !is_owned(first[t], offset, atoms, slot_of, n, counters)) return;
    const State s = state_of(x, nullptr, nullptr, gid, step, control, offset_of_step, 0);
    for (int k = first[t]; k < first[t + 1]; k++) {
        const Site site = site_at(k, kind, offset, atoms, values, slot_of);
        place_site(s, site.slot(), x[site.parent(0)], away(site, {x, step->box}));
    }
}
