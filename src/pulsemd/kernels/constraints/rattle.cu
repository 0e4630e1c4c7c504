// Velocities of small groups of atoms without what changes the length of a constraint, after half of a step's kick: one
// thread a group.
//
// H. C. Andersen, J. Comput. Phys. 52, 24 (1983). The operations and their order are those of project.py, so that without
// contraction both give the same bits.

#include "move.cuh"
#include "pair_list.cuh"

constexpr double TOLERANCE = 1e-10;  // component along a constraint, relative to the largest velocity, at which it ends
constexpr int MAX_ITERATIONS = 1000;

struct Group {
    int n_atoms;
    int slot[MAX_ATOMS];
    int4 at[MAX_ATOMS];
    double inverse_mass[MAX_ATOMS];
    Vec v[MAX_ATOMS];
};

__device__ __forceinline__ double largest_of(Vec a) { return fmax(fmax(fabs(a.x), fabs(a.y)), fabs(a.z)); }

// Take out the components along the constraints [first, last); `virial`: of what is taken, added to, amu nm^2/ps.
__device__ void project(Group& g, const int2* pairs, int first, int last, const double* box, double* virial) {
    double largest = 0.0;
    for (int c = first; c < last; c++)
        largest = fmax(largest, fmax(largest_of(g.v[pairs[c].x]), largest_of(g.v[pairs[c].y])));
    for (int iteration = 0; iteration < MAX_ITERATIONS; iteration++) {
        double worst = 0.0;
        for (int c = first; c < last; c++) {
            const int i = pairs[c].x, j = pairs[c].y;
            const Vec r = difference(g.at[i], g.at[j], box);
            const double r2 = dot(r, r), along = dot(r, g.v[i] - g.v[j]);
            const double wi = g.inverse_mass[i], wj = g.inverse_mass[j], k = along / (r2 * (wi + wj));
            g.v[i] = g.v[i] - (wi * k) * r;
            g.v[j] = g.v[j] + (wj * k) * r;
            const double of[3] = {r.x, r.y, r.z};
            if (ENERGIES)
                for (int a = 0; a < 3; a++)
                    for (int b = 0; b < 3; b++) virial[3 * a + b] += k * of[a] * of[b];
            worst = fmax(worst, fabs(along) / sqrt(r2));
        }
        if (!(worst > TOLERANCE * largest)) return;
    }
}

// The arguments of full_steps.cu and, of groups, of shake.cu.
extern "C" __global__ void __launch_bounds__(THREADS)
    complete_groups(const int4* __restrict__ x, float4* v, const Force* __restrict__ f,
                    const int* __restrict__ group_offset, int n_groups, const int* __restrict__ atoms,
                    const int* __restrict__ pair_offset, const int2* __restrict__ pairs,
                    const int* __restrict__ slot_of, const double* __restrict__ mass, const Step* __restrict__ step,
                    Sum* virial, int n, const long long* __restrict__ counters) {
    const int t = blockIdx.x * THREADS + threadIdx.x;
    const double half = 0.5 * step->dt;
    Sums taken;
    const int leader = t < n_groups ? slot_of[atoms[group_offset[t]]] : -1;
    if (leader >= 0 && leader < end_of_owned(counters, n)) {
        Group g;
        g.n_atoms = group_offset[t + 1] - group_offset[t];
        for (int a = 0; a < g.n_atoms; a++) {
            const int slot = g.slot[a] = slot_of[atoms[group_offset[t] + a]];
            g.at[a] = x[slot], g.inverse_mass[a] = 1.0 / mass[slot];
            g.v[a] = half_kicked(v[slot], half / mass[slot], load_force(f, slot));
        }
        double found[9] = {};
        project(g, pairs, pair_offset[t], pair_offset[t + 1], step->box, found);
        for (int a = 0; a < g.n_atoms; a++) v[g.slot[a]] = make_float4(g.v[a].x, g.v[a].y, g.v[a].z, 0.0f);
        if (ENERGIES)
            for (int k = 0; k < 9; k++) taken.of[2 + k] += to_sum(found[k] / half);
    }
    if (ENERGIES)
        for (int k = 0; k < 9; k++) add_of_warp(virial + k, taken.of[2 + k]);
}
