// Leap-frog of small groups of atoms with distance constraints solved by SHAKE: one thread a group.
//
// J. P. Ryckaert, G. Ciccotti, H. J. C. Berendsen, J. Comput. Phys. 23, 327 (1977). The operations and their order are
// those of shake.py, so that without contraction both give the same bits.

#include "exclusions.cuh"
#include "move.cuh"
#include "pair_list.cuh"

constexpr double TOLERANCE = 1e-10;  // relative deviation of a squared length at which the iteration ends
constexpr int MAX_ITERATIONS = 500;

struct Group {
    int n_atoms;
    int slot[MAX_ATOMS];
    double mass[MAX_ATOMS], inverse_mass[MAX_ATOMS];
    Vec old[MAX_ATOMS], now[MAX_ATOMS];  // relative to the old position of the leader, nm
};

// a / b for a correction or a test, which the next iteration makes good.
__device__ __forceinline__ double ratio(double a, double b) {
#if FIXED
    return a / b;
#else
    return a * __frcp_rn(float(b));
#endif
}

// Move `now` along the old bonds until the constraints [first, last) hold; false if they never do.
__device__ bool iterate(Group& g, const int2* pairs, const double* lengths, int first, int last) {
    for (int iteration = 0; iteration < MAX_ITERATIONS; iteration++) {
        double worst = 0.0;
        for (int c = first; c < last; c++) {
            const int i = pairs[c].x, j = pairs[c].y;
            const Vec s = g.now[j] - g.now[i], r = g.old[j] - g.old[i];
            const double d2 = lengths[c] * lengths[c];
            const double gap = dot(s, s) - d2, along = dot(s, r);
            if (!(along > 1e-3 * d2 && fabs(gap) < 1e3 * d2)) return false;  // turned by a right angle, or not a number
            worst = fmax(worst, ratio(fabs(gap), d2));
            const double wi = g.inverse_mass[i], wj = g.inverse_mass[j];
            const double k = ratio(gap, 2.0 * along * (wi + wj));
            g.now[i] = g.now[i] + (k * wi) * r;
            g.now[j] = g.now[j] - (k * wj) * r;
        }
        if (worst < TOLERANCE) return true;
    }
    return false;
}

__device__ void load_group(Group& g, const State& s, const int* atoms, const int* slot_of, const double* mass) {
    const double dt = s.step->dt;
#pragma unroll 4
    for (int a = 0; a < g.n_atoms; a++) g.slot[a] = slot_of[atoms[a]];
    const int4 leader = s.x[g.slot[0]];
#pragma unroll 4
    for (int a = 0; a < g.n_atoms; a++) {
        const int slot = g.slot[a];
        g.mass[a] = mass[slot];
        g.inverse_mass[a] = 1.0 / g.mass[a];
        g.old[a] = difference(s.x[slot], leader, s.step->box);
        g.now[a] = g.old[a] + dt * kicked(s, slot, dt / g.mass[a]);
    }
}

// Of the constraint forces, positions relative to the leader.
__device__ void add_virial(const Group& g, const Vec* free, const Step& step, Sums& sums) {
    double w[9] = {};
    for (int a = 1; a < g.n_atoms; a++) {
        const Vec d = g.now[a] - free[a];
        const double r[3] = {g.old[a].x, g.old[a].y, g.old[a].z}, p[3] = {d.x, d.y, d.z};
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 3; j++) w[3 * i + j] += r[i] * g.mass[a] * p[j];
    }
    for (int k = 0; k < 9; k++) sums.of[2 + k] += of_constraints(step, w[k] / (step.dt * step.dt));
}

__device__ void move_group(Group& g, const State& s, const int2* pairs, const double* lengths, int first, int last,
                           Sums& sums) {
    Vec free[MAX_ATOMS];
    if (ENERGIES)
        for (int a = 0; a < g.n_atoms; a++) free[a] = g.now[a];
    if (!iterate(g, pairs, lengths, first, last)) return note_error(s, g.slot[0]);
    if (ENERGIES) add_virial(g, free, *s.step, sums);
    for (int a = 0; a < g.n_atoms; a++) {
        const Vec d = g.now[a] - g.old[a];
        move(s, g.slot[a], s.x[g.slot[a]], d);
        store_velocity(s, g.slot[a], per_dt(*s.step, d));
    }
}

// group_offset, atoms : (n_groups + 1,), (k,) int32, global ids, the leader of each group first
// pair_offset, pairs, lengths : (n_groups + 1,) int32, (c, 2) int32 counted within the group, (c,) double, nm
// n : slots; counters : of the search of one rank of several, which moves the groups that it owns, else null
// clear : 1: leave 0 as the forces
// the other arguments as in leapfrog.cu
extern "C" __global__ void __launch_bounds__(THREADS)
    leapfrog_shake(int4* x, float4* v, Force* f, const int* __restrict__ group_offset, int n_groups,
                   const int* __restrict__ atoms, const int* __restrict__ pair_offset, const int2* __restrict__ pairs,
                   const double* __restrict__ lengths, const int* __restrict__ slot_of,
                   const double* __restrict__ mass, const int* __restrict__ gid, const Step* __restrict__ step,
                   Control* control, int offset, int coupled, Sum* virial, int n,
                   const long long* __restrict__ counters, int clear) {
    const int t = blockIdx.x * THREADS + threadIdx.x;
    State s = state_of(x, v, f, gid, step, control, offset, coupled);
    take_coupling(s);
    Sums sums;
    const int leader = t < n_groups ? slot_of[atoms[group_offset[t]]] : -1;
    if (leader >= 0 && leader < end_of_owned(counters, n)) {
        Group g;
        g.n_atoms = group_offset[t + 1] - group_offset[t];
        load_group(g, s, atoms + group_offset[t], slot_of, mass);
        move_group(g, s, pairs, lengths, pair_offset[t], pair_offset[t + 1], sums);
        if (clear)
            for (int a = 0; a < g.n_atoms; a++) store_force(f, g.slot[a], {0, 0, 0});
    }
    if (ENERGIES)
        for (int k = 0; k < 9; k++) add_of_warp(virial + k, sums.of[2 + k]);
}
