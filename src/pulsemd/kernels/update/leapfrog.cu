// Leap-frog on lattice coordinates: one thread moves one rigid water or one free atom.
//
// x(t), v(t - dt/2), f(t) become x(t + dt), v(t + dt/2) (Hockney & Eastwood 1988):
//     v <- scale (v - v_com) + dt f / m;   x <- x + dt v;   constraints move x, and v by the same over dt.
// Arithmetic is float64; velocities are stored as float32, positions as int32 lattice units. The operations and their
// order are those of leapfrog.py, so that without contraction both give the same bits.
//
// A water whose only excluded pairs are its own has all that exclusions.cu needs at hand: its forces are read for the
// last time here, and become those of the next step's excluded pairs, which saves that kernel and a clearing.

#include "settle.cuh"
#include "move.cuh"
#include "exclusions.cuh"

__device__ __forceinline__ void start_forces(int4 rows, int4 o, int4 b, int4 c, const ReactionField& field, Force* f) {
    Sums none;
    const StoredForce ob = exclusion_force(o, b, field, false, none), oc = exclusion_force(o, c, field, false, none),
                      bc = exclusion_force(b, c, field, false, none);
    StoredForce on_o = ob, on_b = -ob, on_c = -oc;
    on_o += oc, on_b += bc, on_c += -bc;
    store_force(f, rows.x, on_o);
    store_force(f, rows.y, on_b);
    store_force(f, rows.z, on_c);
}

__device__ __forceinline__ void move_water(const State& s, int4 rows, const WaterGeometry& g,
                                           const ReactionField* field, Force* f, Sums& sums) {
    const double dt = s.step->dt, kick_o = dt / g.mass_o, kick_h = dt / g.mass_h;
    const int4 xo = s.x[rows.x], xb = s.x[rows.y], xc = s.x[rows.z];
    const Vec b0 = difference(xb, xo, s.step->box), c0 = difference(xc, xo, s.step->box);
    const Water free = {dt * kicked(s, rows.x, kick_o), b0 + dt * kicked(s, rows.y, kick_h),
                        c0 + dt * kicked(s, rows.z, kick_h)};
    const Water now = settle_positions(g, b0, c0, free);
    if (ENERGIES) {  // of the constraint forces: only the hydrogens count, relative to the old O
        const double k = g.mass_h / (dt * dt);
        const Vec gb = now.h1 - free.h1, gc = now.h2 - free.h2;
        const double rb[3] = {b0.x, b0.y, b0.z}, rc[3] = {c0.x, c0.y, c0.z};
        const double fb[3] = {gb.x, gb.y, gb.z}, fc[3] = {gc.x, gc.y, gc.z};
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 3; j++) sums.of[2 + 3 * i + j] += to_sum((rb[i] * fb[j] + rc[i] * fc[j]) * k);
    }
    const Vec db = now.h1 - b0, dc = now.h2 - c0;
    const int4 o = move(s, rows.x, xo, now.o), b = move(s, rows.y, xb, db), c = move(s, rows.z, xc, dc);
    store_velocity(s, rows.x, per_dt(*s.step, now.o));
    store_velocity(s, rows.y, per_dt(*s.step, db));
    store_velocity(s, rows.z, per_dt(*s.step, dc));
    if (field) start_forces(rows, o, b, c, *field, f);
}

__device__ __forceinline__ void move_free(const State& s, int row, double mass) {
    if (mass == 0.0) {  // frozen
        store_velocity(s, row, {0.0, 0.0, 0.0});
        return;
    }
    const double dt = s.step->dt;
    const Vec v = kicked(s, row, dt / mass);
    const Vec u = {(float)v.x, (float)v.y, (float)v.z};
    store_velocity(s, row, u);
    move(s, row, s.x[row], dt * u);
}

// x : (n, 4) int32, updated; v : (n, 4) float32 nm/ps, updated; f : (n, 4)
// waters : (n_waters, 4) int32, rows of O, H, H and the kind; geometry : one row of each kind
// free_rows : (n_free,) int32; mass : (n,) double, amu, 0 = frozen
// coupled : 1: apply the factor and the velocity that kinetic.cu left in `control`
// virial : (9,) added to with ENERGIES: sum of r (x) f of the constraint forces
// counts : null, or: what n_waters and n_free are in truth, which are then the most they can be
// field : null, or: write the forces of the excluded pairs of each water at its new positions into f
extern "C" __global__ void __launch_bounds__(THREADS)
    leapfrog(int4* x, float4* v, Force* f, const int4* __restrict__ waters, int n_waters,
             const WaterGeometry* __restrict__ geometry, const int* __restrict__ free_rows, int n_free,
             const double* __restrict__ mass, const int* __restrict__ gid, const Step* __restrict__ step,
             Control* control, int offset, int coupled, Sum* virial, const ReactionField* __restrict__ field,
             const int* __restrict__ counts) {
    const int t = blockIdx.x * THREADS + threadIdx.x;
    const State s = state_of(x, v, f, gid, step, control, offset, coupled);
    Sums sums;
    if (counts) n_waters = counts[0], n_free = counts[1];
    if (t < n_waters) {
        const int4 rows = waters[t];
        move_water(s, rows, geometry[rows.w], field, f, sums);
    } else if (t < n_waters + n_free) {
        const int row = free_rows[t - n_waters];
        move_free(s, row, mass[row]);
    }
    if (ENERGIES)
        for (int k = 0; k < 9; k++) add_of_warp(virial + k, sums.of[2 + k]);
}
