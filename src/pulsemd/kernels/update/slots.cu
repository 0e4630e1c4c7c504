// What the update keeps per slot, after a search has put the atoms into another order.

#include "vector.cuh"
#include "pair_list.cuh"

// Velocities and masses into the new order; empty slots and ghosts get zeros.
// gid, source : (n,) int32, see gpu_layout.py; mass_of : (n_atoms,) double, amu
// counters : of the search of one rank of several, else null
extern "C" __global__ void reorder(const int* __restrict__ gid, const int* __restrict__ source, int n,
                                   const float4* __restrict__ v_old, const double* __restrict__ mass_of, float4* v,
                                   double* mass, const long long* __restrict__ counters) {
    const int slot = blockIdx.x * blockDim.x + threadIdx.x;
    if (slot >= n) return;
    const int g = slot < end_of_owned(counters, n) ? gid[slot] : -1;
    mass[slot] = g >= 0 ? mass_of[g] : 0.0;
    v[slot] = g >= 0 ? v_old[source[slot]] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
}

// Place of this thread among all threads of the grid with `wanted`, in order within a warp.
__device__ __forceinline__ int next_place(bool wanted, int* count) {
    const unsigned mask = __ballot_sync(ALL_LANES, wanted);
    const int lane = threadIdx.x % 32;
    int start = 0;
    if (lane == 0 && mask) start = atomicAdd(count, __popc(mask));
    return __shfl_sync(ALL_LANES, start, 0) + __popc(mask & ((1u << lane) - 1));
}

// List the waters and the free atoms by slots, nearly in the order of slots, so that neighbours in the list are near each
// other in memory. The order of the list is not fixed and no result depends on it.
// role : (n_atoms,) int32, number of the water whose O the atom is, -1: a free atom, -2: moved with others
// water_atoms : (m, 4) int32, global ids of O, H, H and the kind; counts : (2,) int32, cleared before
// site_atoms, site_slots : (m, n_sites) int32, the virtual sites of each water
extern "C" __global__ void list_groups(const int* __restrict__ gid, int n, const int* __restrict__ role,
                                       const int4* __restrict__ water_atoms, const int* __restrict__ slot_of,
                                       int4* waters, int* free_slots, int* counts,
                                       const long long* __restrict__ counters,
                                       const int* __restrict__ site_atoms, int n_sites, int* site_slots) {
    const int slot = blockIdx.x * blockDim.x + threadIdx.x;
    const int g = slot < end_of_owned(counters, n) ? gid[slot] : -1;
    const int kind = g >= 0 ? role[g] : -2;
    const int water = next_place(kind >= 0, counts);
    if (kind >= 0) {
        const int4 atoms = water_atoms[kind];
        waters[water] = make_int4(slot, slot_of[atoms.y], slot_of[atoms.z], atoms.w);
        for (int k = 0; k < n_sites; k++) site_slots[water * n_sites + k] = slot_of[site_atoms[kind * n_sites + k]];
    }
    const int free = next_place(kind == -1, counts + 1);
    if (kind == -1) free_slots[free] = slot;
}
