// Leap-frog on lattice coordinates: one thread moves one rigid water or one free atom.
//
// x(t), v(t - dt/2), f(t) become x(t + dt), v(t + dt/2) (Hockney & Eastwood 1988):
//     v <- scale (v - v_com) + dt f / m;   x <- x + dt v;   constraints move x, and v by the same over dt.
// Arithmetic is float64; velocities are stored as float32, positions as int32 lattice units. The operations and their
// order are those of leapfrog.py, so that without contraction both give the same bits.
//
// A water whose only excluded pairs are its own has all that exclusions.cu needs at hand: its forces are read for the
// last time here, and become those of the next step's excluded pairs, which saves that kernel and a clearing.
//
// SITES: virtual sites of each water. Their forces go to O and the hydrogens first, and they are put in place last.
// STARS, 1: the first blocks move stars of constraints, which take longest.
// HALO: exchange waters with other ranks, see step.cuh. There are no other atoms then.

#include "settle.cuh"
#include "water_sites.cuh"
#if STARS
#include "pair_list.cuh"
#include "stars.cuh"
#endif
#if HALO
#include "step.cuh"
#else
struct StepRank;
#endif

constexpr int N = 3 + SITES;  // atoms of a water

__device__ __forceinline__ void start_forces(const int* slot, const int4* at, const LongRange& field, Force* f) {
    Sums none;
    StoredForce on[N] = {};
#pragma unroll
    for (int i = 0; i < N; i++)
#pragma unroll
        for (int j = i + 1; j < N; j++) {
            const StoredForce force = exclusion_force(at[i], at[j], field, false, none);
            on[i] += force, on[j] += -force;
        }
#pragma unroll
    for (int i = 0; i < N; i++) store_force(f, slot[i], on[i]);
}

#if HALO
// Forces on the ghosts of a water; leaves 0 there. They are complete before those of this rank are, see pair_forces.cu.
// `sent`: bits of the pulses that send it.
__device__ __forceinline__ void take_forces_back(const StepRank& halo, uint32 sent, const int* slot, StoredForce* back) {
    for (uint32 rest = sent; rest; rest &= rest - 1) {
        const int p = __ffs(rest) - 1;
        Force* there = static_cast<Force*>(halo.pulses[p].f);
        int place[N];
#pragma unroll
        for (int i = 0; i < N; i++) place[i] = halo.place[slot[i] * halo.n_pulses + p];
        if (!wait_for_forces(halo, p)) return;
        StoredForce found[N];
#pragma unroll
        for (int i = 0; i < N; i++) found[i] = stored_force(there, place[i]);
#pragma unroll
        for (int i = 0; i < N; i++) back[i] += found[i], store_force(there, place[i], {0, 0, 0});
    }
}

__device__ __forceinline__ void send_positions(const StepRank& halo, uint32 sent, const int* slot, const int4* at) {
    for (uint32 rest = sent; rest; rest &= rest - 1) {
        const int p = __ffs(rest) - 1;
        int4* there = halo.pulses[p].x;
#pragma unroll
        for (int i = 0; i < N; i++) there[halo.place[slot[i] * halo.n_pulses + p]] = at[i];
    }
}
#endif

// Slots of O, H, H and the sites; gives their new positions.
__device__ __forceinline__ void move_water(State& s, const int* slot, const WaterGeometry& g,
                                           const WaterSite* sites, const Force* f, Sums& sums, const StepRank* halo,
                                           int4* at) {
    const double dt = s.step->dt, kick_o = dt / g.mass_o, kick_h = dt / g.mass_h;
    StoredForce on[N];
#pragma unroll
    for (int i = 0; i < 3; i++) at[i] = current(s.x + slot[i]);
#if HALO
    const uint32 sent = halo->sent[slot[0]];  // groups are sent as a whole
    StoredForce back[N] = {};
    take_forces_back(*halo, sent, slot, back);
#endif
    begin_after_forces(s);
#pragma unroll
    for (int i = 0; i < N; i++) on[i] = stored_force(f, slot[i]);
#if HALO
#pragma unroll
    for (int i = 0; i < N; i++) on[i] += back[i];
#endif
    const Vec b0 = difference(at[1], at[0], s.step->box), c0 = difference(at[2], at[0], s.step->box);
#pragma unroll
    for (int i = 3; i < N; i++) {
        at[i] = s.x[slot[i]];
        spread_site(sites[i - 3], b0, c0, on[i], on, at, at[i], s.step->box, sums);
    }
    const Water free = {dt * kicked(s, slot[0], kick_o, to_vector(on[0])),
                        b0 + dt * kicked(s, slot[1], kick_h, to_vector(on[1])),
                        c0 + dt * kicked(s, slot[2], kick_h, to_vector(on[2]))};
    const Water now = settle_positions(g, b0, c0, free);
    if (ENERGIES) {  // of the constraint forces: only the hydrogens count, relative to the old O
        const double k = g.mass_h / (dt * dt);
        const Vec gb = now.h1 - free.h1, gc = now.h2 - free.h2;
        const double rb[3] = {b0.x, b0.y, b0.z}, rc[3] = {c0.x, c0.y, c0.z};
        const double fb[3] = {gb.x, gb.y, gb.z}, fc[3] = {gc.x, gc.y, gc.z};
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 3; j++) 
                sums.of[2 + 3 * i + j] += of_constraints(*s.step, (rb[i] * fb[j] + rc[i] * fc[j]) * k);
    }
    const Vec db = now.h1 - b0, dc = now.h2 - c0;
    at[0] = move(s, slot[0], at[0], now.o), at[1] = move(s, slot[1], at[1], db), at[2] = move(s, slot[2], at[2], dc);
#pragma unroll
    for (int i = 3; i < N; i++) {
        const Vec r1 = difference(at[1], at[0], s.step->box), r2 = difference(at[2], at[0], s.step->box);
        at[i] = place_site(s, slot[i], at[0], away(sites[i - 3], r1, r2));
    }
#if HALO
    send_positions(*halo, sent, slot, at);
#endif
    store_velocity(s, slot[0], per_dt(*s.step, now.o));
    store_velocity(s, slot[1], per_dt(*s.step, db));
    store_velocity(s, slot[2], per_dt(*s.step, dc));
}

__device__ __forceinline__ void move_free(State& s, int row, double mass) {
    begin_after_forces(s);
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
// field : null, or: write the forces of the excluded pairs of each water at its new positions into f, and 0 for free atoms
// site_slots : (n_waters, SITES) int32; sites : (kinds, SITES)
// star_blocks, n_stars, star_offset, star_atoms, star_pairs, lengths, slot_of : of stars.cuh, with STARS
// n : slots; counters : of the search of one rank of several, which moves the stars that it owns, else null
// clear_stars : 1: leave 0 as the forces of stars; halo : of this rank, with HALO
extern "C" __global__ void __launch_bounds__(THREADS)
    leapfrog(int4* x, float4* v, Force* f, const int4* __restrict__ waters, int n_waters,
             const WaterGeometry* __restrict__ geometry, const int* __restrict__ free_rows, int n_free,
             const double* __restrict__ mass, const int* __restrict__ gid, const Step* __restrict__ step,
             Control* control, int offset, int coupled, Sum* virial, const LongRange* __restrict__ field,
             const int* __restrict__ counts, const int* __restrict__ site_slots, const WaterSite* __restrict__ sites,
             int star_blocks, int n_stars, const int* __restrict__ star_offset, const int* __restrict__ star_atoms,
             const int* __restrict__ star_pairs, const double* __restrict__ lengths, const int* __restrict__ slot_of,
             int n, const long long* __restrict__ counters, int clear_stars, const StepRank* halo) {
    int t = blockIdx.x * THREADS + threadIdx.x;
    State s = state_of(x, v, f, gid, step, control, offset, coupled);
#if STARS
    if (blockIdx.x < star_blocks) {
        const Stars stars = {n_stars, star_offset, star_atoms, star_pairs, lengths, slot_of, mass};
        if (t < n_stars) move_star(s, stars, t, end_of_owned(counters, n), f, clear_stars);
        return;
    }
    t -= star_blocks * THREADS;
#endif
    Sums sums;
    if (counts) n_waters = counts[0], n_free = counts[1];
    int slot[N];
    int4 at[N];
    if (t < n_waters) {
        const int4 rows = waters[t];
        slot[0] = rows.x, slot[1] = rows.y, slot[2] = rows.z;
#pragma unroll
        for (int i = 3; i < N; i++) slot[i] = site_slots[t * SITES + i - 3];
        move_water(s, slot, geometry[rows.w], sites + rows.w * SITES, f, sums, halo, at);
    } else if (t < n_waters + n_free) {
        const int row = free_rows[t - n_waters];
        move_free(s, row, mass[row]);
        if (field) store_force(f, row, {0, 0, 0});
    }
#if HALO
    begin_after_forces(s);  // of blocks without an atom, too
    announce_rows(*halo);
#endif
    if (field && t < n_waters) start_forces(slot, at, *field, f);
    if (ENERGIES)
        for (int k = 0; k < 9; k++) add_of_warp(virial + k, sums.of[2 + k]);
}
