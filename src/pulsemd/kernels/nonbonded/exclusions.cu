// Reaction field of excluded pairs: energy qq (k_rf r^2 - c_rf) within the cut-off (see exclusions.py).
//
// One thread an atom, which adds up its own partners: no atomics, and the forces can be written rather than added, so
// that this kernel also clears the force array. Both atoms of a pair compute it, with exactly opposite results.

#include "bonded/geometry.cuh"

struct ReactionField {  // see exclusions_gpu.py
    double box[9];      // rows a, b, c, nm
    double factor;      // 1/(4 pi eps0 eps_r), kJ mol^-1 nm e^-2
    double k_rf, c_rf;  // nm^-3, nm^-1
    double cutoff2;     // nm^2
};

// x : (n, X_WORDS) int32; gid : (n,) int32, -1 in empty rows; row_of : (n_atoms,) int32, row of each global id
// offset : (n_atoms + 1,) int64, partner : (k,) int32, global ids; charge : (n_atoms,) double, e
// f : (n, F_WORDS), written; sums : [lj, coulomb, W(9)], added to with ENERGIES
extern "C" __global__ void __launch_bounds__(THREADS)
    exclusion_forces(const int* __restrict__ x, const int* __restrict__ gid, int n, const int* __restrict__ row_of,
                     const long long* __restrict__ offset, const int* __restrict__ partner,
                     const double* __restrict__ charge, const ReactionField* __restrict__ field, Force* f, Sum* sums) {
    const int row = blockIdx.x * THREADS + threadIdx.x;
    const int g = row < n ? gid[row] : -1;
    Force total[3] = {0, 0, 0};
    Sums mine;
    if (g >= 0) {
        const int3 here = load_position(x, row);
        const double q = charge[g];
        for (long long k = offset[g]; k < offset[g + 1]; k++) {
            const int other = partner[k];
            const Vec d = difference(here, load_position(x, row_of[other]), field->box);
            const double r2 = dot(d, d);
            if (r2 >= field->cutoff2) continue;
            const double qq = field->factor * (q * charge[other]);
            const Vec force = (-2.0 * field->k_rf * qq) * d;
#if FIXED
            total[0] += to_fixed(force.x, FORCE_SCALE);
            total[1] += to_fixed(force.y, FORCE_SCALE);
            total[2] += to_fixed(force.z, FORCE_SCALE);
#else
            total[0] += (float)force.x, total[1] += (float)force.y, total[2] += (float)force.z;
#endif
            if (ENERGIES && g < other) {
                mine.energy(1, qq * (field->k_rf * r2 - field->c_rf));
                mine.virial(d, force);
            }
        }
    }
    if (row < n) {
        Force* at = f + (size_t)F_WORDS * row;
        at[0] = total[0], at[1] = total[1], at[2] = total[2];
    }
    if (ENERGIES)
        for (int k = 1; k < 11; k++) add_of_warp(sums + k, mine.of[k]);
}
