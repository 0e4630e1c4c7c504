// What every kernel that moves atoms shares: kick, displacement, error word.
#pragma once

#include "geometry.cuh"
#include "control.cuh"
#include "overlap.cuh"

constexpr double MAX_MOVE = 1073741824.0;  // largest displacement of a step in lattice units: a quarter of the box

struct Step {  // constants of a run, see gpu.py
    double box[9];      // rows a, b, c, nm
    double inverse[9];  // its inverse times 2^32
    double dt;          // ps
    double over_dt;
    double weight;      // of the virial of constraints that a move finds: 2 with velocity Verlet, see verlet_rank.py
};

struct State {
    int4* x;
    float4* v;
    const Force* f;
    const int* gid;
    Control* control;
    const Step* step;
    int offset, coupled;
    double scale, push;
    Vec com;
};

__device__ __forceinline__ void take_coupling(State& s) {
    if (!s.coupled) return;
    const Control* c = s.control;
    const Bath* bath = baths_of(c);
    s.scale = bath->scale, s.push = bath->kick, s.com = {c->com[0], c->com[1], c->com[2]};
}

// coupled: apply the factors and the velocity of the centre of mass that kinetic.cu left in `control`, of one bath.
__device__ __forceinline__ State state_of(int4* x, float4* v, const Force* f, const int* gid, const Step* step,
                                          Control* control, int offset, int coupled) {
    return {x, v, f, gid, control, step, offset, coupled, 1.0, 1.0, {0.0, 0.0, 0.0}};
}

// Wait for the forces, and for what a coupled step needs. Positions may be read before, as `current`: the kernels that a
// move can overlap with read them too, and began after the last move.
__device__ __forceinline__ void begin_after_forces(State& s) {
    wait_for_earlier();
    let_later_start();
    take_coupling(s);
}

__device__ __forceinline__ Vec per_dt(const Step& step, Vec d) {
#if FIXED
    return {d.x / step.dt, d.y / step.dt, d.z / step.dt};
#else
    return step.over_dt * d;
#endif
}

__device__ __forceinline__ Sum of_constraints(const Step& step, double virial) {
    return Sum(step.weight) * to_sum(virial);
}

// From a velocity of half a step before to that of a full step, but for constraints.
__device__ __forceinline__ Vec half_kicked(float4 v, double kick, Vec force) {
    return Vec{v.x, v.y, v.z} + kick * force;
}

__device__ __forceinline__ Vec kicked(const State& s, int row, double kick, Vec force) {
    const float4 v = s.v[row];
    return s.scale * (Vec{v.x, v.y, v.z} - s.com) + s.push * kick * force;
}

__device__ __forceinline__ Vec kicked(const State& s, int row, double kick) {
    return kicked(s, row, kick, load_force(s.f, row));
}

__device__ __forceinline__ void store_velocity(const State& s, int row, Vec v) {
    s.v[row] = make_float4(v.x, v.y, v.z, 0.0f);
}

__device__ __forceinline__ void note_error(const State& s, int row) {
    const uint64 since = s.control->step + s.offset - s.control->start;
    atomicMin(&s.control->error, since << 32 | uint32(s.gid[row]));
}

// Add a Cartesian displacement (nm) to a row and return the new one; the sum wraps around. A displacement that is not
// finite or too large is left out and noted in the error word, which the host reads at the next search.
__device__ __forceinline__ int4 move(const State& s, int row, int4 from, Vec d) {
    const double* m = s.step->inverse;
    const double x = d.x * m[0] + d.y * m[3] + d.z * m[6];
    const double y = d.x * m[1] + d.y * m[4] + d.z * m[7];
    const double z = d.x * m[2] + d.y * m[5] + d.z * m[8];
    if (!(fabs(x) < MAX_MOVE && fabs(y) < MAX_MOVE && fabs(z) < MAX_MOVE)) {
        note_error(s, row);
        return from;
    }
    const int4 to = make_int4(int(uint32(from.x) + uint32(__double2int_rn(x))),
                              int(uint32(from.y) + uint32(__double2int_rn(y))),
                              int(uint32(from.z) + uint32(__double2int_rn(z))), from.w);
    s.x[row] = to;
    return to;
}
