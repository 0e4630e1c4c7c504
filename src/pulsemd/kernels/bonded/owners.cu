// The bonded terms that belong to one rank of several: those with all atoms here whose lowest leaders are at home. Terms
// of owned atoms alone make the first list, which can be computed before ghosts arrive, the others the second. The
// order of a list is not fixed and no result in fixed point depends on it.
#include "vector.cuh"
#include "kinds.cuh"
#include "ownership.cuh"

// slot_of : (n_atoms,) int32, slot of each global id, or -1; leader : (n, 4) int32, see ownership.cuh
// chosen : (2, n_terms) int32, of all kinds, count : (2, n_kinds) int32, cleared before
extern "C" __global__ void __launch_bounds__(THREADS)
    own_terms(const Kind* __restrict__ kinds, int n_kinds, int n_terms, const int* __restrict__ slot_of,
              const int4* __restrict__ leader, int* chosen, int* count) {
    const int k = kind_of_block(kinds, n_kinds);
    const Kind kind = kinds[k];
    const int term = (blockIdx.x - kind.first_block) * THREADS + threadIdx.x;
    if (term >= kind.n_terms) return;
    const int* atoms = kind.atoms + (size_t)kind.n_atoms * term;
    int slot = slot_of[atoms[0]];
    if (slot < 0) return;
    LowestLeaders lowest(leader[slot]);
    int home = lowest.home;
    for (int a = 1; a < kind.n_atoms; a++) {
        slot = slot_of[atoms[a]];
        if (slot < 0) return;
        const int4 other = leader[slot];
        lowest.take(other);
        home &= other.w;
    }
    if (!lowest.ours()) return;
    const int part = home == HOME ? 0 : 1;
    const int place = atomicAdd(count + part * n_kinds + k, 1);
    chosen[part * n_terms + kind.first_term + place] = term;
}
