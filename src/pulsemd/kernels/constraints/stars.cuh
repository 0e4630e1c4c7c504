// Leap-frog of stars: one atom with constraints to up to MAX_STAR_ATOMS - 1 others, such as a carbon with its hydrogens, by
// SHAKE as in shake.cu, all in registers. One thread a star; fast mode alone, which need not have the CPU's bits.

#pragma once

#include "exclusions.cuh"
#include "move.cuh"

constexpr double TOLERANCE = 1e-10;  // relative deviation of a squared length at which the iteration ends
constexpr int MAX_ITERATIONS = 500;

// About a / b: the next iteration makes good what is missing.
__device__ __forceinline__ double about_ratio(double a, double b) { return a * (double)__fdividef(1.0f, (float)b); }

struct Star {
    int n_atoms, slot[MAX_STAR_ATOMS];
    double weight[MAX_STAR_ATOMS], square[MAX_STAR_ATOMS];  // 1/mass; squared length of the constraint to the centre
    Vec old[MAX_STAR_ATOMS], now[MAX_STAR_ATOMS];           // relative to the old position of the centre, nm
};

// Move `now` along the old bonds until the constraints hold; false if they never do.
__device__ __forceinline__ bool iterate(Star& g) {
    for (int iteration = 0; iteration < MAX_ITERATIONS; iteration++) {
        bool holds = true;
#pragma unroll
        for (int a = 1; a < MAX_STAR_ATOMS; a++) {
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

struct Stars {  // what does not change in a run, but for the slots
    int n;
    const int *offset, *atoms;  // (n + 1,) and global ids, the centre of each star first
    const int* pair_offset;     // (n + 1,): its constraints, in the order of its atoms
    const double* lengths;      // nm
    const int* slot_of;
    const double* mass;
};

// Move star number t if its centre is in a slot before `end`.
__device__ __forceinline__ void move_star(State& s, const Stars& stars, int t, int end, Force* f, bool clear) {
    const double dt = s.step->dt;
    Star g;
    const int first = stars.offset[t], of_pairs = stars.pair_offset[t] - 1;
    g.n_atoms = stars.offset[t + 1] - first;
#pragma unroll
    for (int a = 0; a < MAX_STAR_ATOMS; a++) {
        g.slot[a] = stars.slot_of[stars.atoms[first + (a < g.n_atoms ? a : 0)]];
        g.square[a] = a > 0 && a < g.n_atoms ? stars.lengths[of_pairs + a] : 0.0;
    }
    if (g.slot[0] < 0 || g.slot[0] >= end) return;
    int4 at[MAX_STAR_ATOMS];
#pragma unroll
    for (int a = 0; a < MAX_STAR_ATOMS; a++) {
        at[a] = current(s.x + g.slot[a]);
        g.weight[a] = 1.0 / stars.mass[g.slot[a]];
        g.square[a] *= g.square[a];
    }
#pragma unroll
    for (int a = 0; a < MAX_STAR_ATOMS; a++) g.old[a] = difference(at[a], at[0], s.step->box);
    begin_after_forces(s);
#pragma unroll
    for (int a = 0; a < MAX_STAR_ATOMS; a++) g.now[a] = g.old[a] + dt * kicked(s, g.slot[a], dt * g.weight[a]);
    const bool holds = iterate(g);
    if (!holds) note_error(s, g.slot[0]);
#pragma unroll
    for (int a = 0; a < MAX_STAR_ATOMS; a++) {
        if (a >= g.n_atoms) break;
        if (holds) {
            const Vec d = g.now[a] - g.old[a];
            move(s, g.slot[a], at[a], d);
            store_velocity(s, g.slot[a], per_dt(*s.step, d));
        }
        if (clear) store_force(f, g.slot[a], {0, 0, 0});
    }
}
