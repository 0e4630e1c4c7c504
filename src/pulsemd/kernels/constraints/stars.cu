// Leap-frog of stars: one atom with constraints to up to MAX_ATOMS - 1 others, such as a carbon with its hydrogens, by
// SHAKE as in shake.cu, all in registers. One thread a star; fast mode alone, which need not have the CPU's bits.

#include "exclusions.cuh"
#include "move.cuh"
#include "pair_list.cuh"

constexpr double TOLERANCE = 1e-10;  // relative deviation of a squared length at which the iteration ends
constexpr int MAX_ITERATIONS = 500;

// About a / b: the next iteration makes good what is missing.
__device__ __forceinline__ double about_ratio(double a, double b) { return a * (double)__fdividef(1.0f, (float)b); }

struct Star {
    int n_atoms, slot[MAX_ATOMS];
    double weight[MAX_ATOMS], square[MAX_ATOMS];  // 1/mass; squared length of the constraint to the centre
    Vec old[MAX_ATOMS], now[MAX_ATOMS];           // relative to the old position of the centre, nm
};

// Move `now` along the old bonds until the constraints hold; false if they never do.
__device__ __forceinline__ bool iterate(Star& g) {
    for (int iteration = 0; iteration < MAX_ITERATIONS; iteration++) {
        bool holds = true;
#pragma unroll
        for (int a = 1; a < MAX_ATOMS; a++) {
            if (a >= g.n_atoms) break;
            const Vec s = g.now[a] - g.now[0], r = g.old[a];
            const double gap = dot(s, s) - g.square[a], along = dot(s, r);
            if (!(along > 1e-3 * g.square[a] && fabs(gap) < 1e3 * g.square[a])) return false;
            holds &= fabs(gap) < TOLERANCE * g.square[a];
            const double k = about_ratio(gap, 2.0 * along * (g.weight[0] + g.weight[a]));
            g.now[0] = g.now[0] + (k * g.weight[0]) * r;
            g.now[a] = g.now[a] - (k * g.weight[a]) * r;
        }
        if (holds) return true;
    }
    return false;
}

// The arguments of shake.cu; the constraints of a group are in the order of its atoms, and `pairs` is not read.
extern "C" __global__ void __launch_bounds__(THREADS)
    leapfrog_stars(int4* x, float4* v, Force* f, const int* __restrict__ group_offset, int n_groups,
                   const int* __restrict__ atoms, const int* __restrict__ pair_offset, const int2* __restrict__ pairs,
                   const double* __restrict__ lengths, const int* __restrict__ slot_of,
                   const double* __restrict__ mass, const int* __restrict__ gid, const Step* __restrict__ step,
                   Control* control, int offset, int coupled, Sum* virial, int n,
                   const long long* __restrict__ counters, int clear) {
    const int t = blockIdx.x * THREADS + threadIdx.x;
    if (t >= n_groups) return;
    const State s = state_of(x, v, f, gid, step, control, offset, coupled);
    const double dt = step->dt;
    Star g;
    const int first = group_offset[t], of_pairs = pair_offset[t] - 1;
    g.n_atoms = group_offset[t + 1] - first;
#pragma unroll
    for (int a = 0; a < MAX_ATOMS; a++) {
        g.slot[a] = slot_of[atoms[first + (a < g.n_atoms ? a : 0)]];
        g.square[a] = a > 0 && a < g.n_atoms ? lengths[of_pairs + a] : 0.0;
    }
    if (g.slot[0] < 0 || g.slot[0] >= end_of_owned(counters, n)) return;
    int4 at[MAX_ATOMS];
#pragma unroll
    for (int a = 0; a < MAX_ATOMS; a++) {
        at[a] = x[g.slot[a]];
        g.weight[a] = mass[g.slot[a]];
    }
#pragma unroll
    for (int a = 0; a < MAX_ATOMS; a++) {
        g.square[a] *= g.square[a];
        g.weight[a] = 1.0 / g.weight[a];
        g.old[a] = difference(at[a], at[0], step->box);
        g.now[a] = g.old[a] + dt * kicked(s, g.slot[a], dt * g.weight[a]);
    }
    const bool holds = iterate(g);
    if (!holds) note_error(s, g.slot[0]);
#pragma unroll
    for (int a = 0; a < MAX_ATOMS; a++) {
        if (a >= g.n_atoms) break;
        if (holds) {
            const Vec d = g.now[a] - g.old[a];
            move(s, g.slot[a], at[a], d);
            store_velocity(s, g.slot[a], per_dt(*step, d));
        }
        if (clear) store_force(f, g.slot[a], {0, 0, 0});
    }
}
