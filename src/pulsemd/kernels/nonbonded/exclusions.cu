// Reaction field of excluded pairs: energy qq (k_rf r^2 - c_rf) within the cut-off (see exclusions.py).
//
// One thread an atom, which adds up its own partners: no atomics, and the forces can be written rather than added, so
// that this kernel also clears the force array. Both atoms of a pair compute it, with exactly opposite results.

#include "geometry.cuh"

struct ReactionField {  // see exclusions_gpu.py
    double box[9];      // rows a, b, c, nm
    double factor;      // 1/(4 pi eps0 eps_r), kJ mol^-1 nm e^-2
    double k_rf, c_rf;  // nm^-3, nm^-1
    double cutoff2;     // nm^2
};

// x : (n, 4) int32; gid : (n,) int32, -1 in empty slots; slot_of : (n_atoms,) int32, slot of each global id
// offset : (n_atoms + 1,) int64, partner : (k,) int32, global ids; charge : (n_atoms,) double, e
// f : (n, 4), written; sums : [lj, coulomb, W(9)], added to with ENERGIES
extern "C" __global__ void __launch_bounds__(THREADS)
    exclusion_forces(const int4* __restrict__ x, const int* __restrict__ gid, int n, const int* __restrict__ slot_of,
                     const long long* __restrict__ offset, const int* __restrict__ partner,
                     const double* __restrict__ charge, const ReactionField* __restrict__ field, Force* f, Sum* sums) {
    const int slot = blockIdx.x * THREADS + threadIdx.x;
    const int g = slot < n ? gid[slot] : -1;
    Force fx = 0, fy = 0, fz = 0;
    Sums mine;
    if (g >= 0) {
        const int4 here = x[slot];
        const double q = charge[g];
        for (long long k = offset[g]; k < offset[g + 1]; k++) {
            const int other = partner[k];
            const Vec d = difference(here, x[slot_of[other]], field->box);
            const double r2 = dot(d, d);
            if (r2 >= field->cutoff2) continue;
            const double qq = field->factor * (q * charge[other]);
            const Vec force = (-2.0 * field->k_rf * qq) * d;
            fx += to_force(force.x), fy += to_force(force.y), fz += to_force(force.z);
            if (ENERGIES && g < other) {
                mine.energy(1, qq * (field->k_rf * r2 - field->c_rf));
                mine.virial(d, force);
            }
        }
    }
    if (slot < n) {
        Force* at = f + 4 * (size_t)slot;
        at[0] = fx, at[1] = fy, at[2] = fz, at[3] = 0;
    }
    if (ENERGIES)
        for (int k = 1; k < 11; k++) add_of_warp(sums + k, mine.of[k]);
}
