// Leap-frog of networks of constraints solved by LINCS: one block a network. Of several ranks each solves the networks it
// has atoms of as a whole, from places and free moves of all their atoms, and moves its own.
//
// B. Hess, H. Bekker, H. J. C. Berendsen, J. G. E. M. Fraaije, J. Comput. Chem. 18, 1463 (1997). The operations and their
// order are those of lincs.py, so that without contraction both give the same bits.

#include "exclusions.cuh"
#include "move.cuh"
#include "pair_list.cuh"

constexpr double BROKEN = 0.05;  // cosine of the angle by which a constraint turns in a step at which it is broken

struct Network {
    const int2* pairs;      // atoms of each constraint
    const double *lengths, *weights;
    const int* start;       // of each constraint's neighbors
    const int* neighbors;
    const double* factors;  // of the coupling with each neighbor, without the cosine
    const int* of_atom;     // start of each atom's constraints
    const int* constraints;  // twice the constraint, plus 1 for its second atom
    const double* inverse_mass;
};

struct alignas(16) SharedMove {  // of an atom: where it is, and how far it would go without constraints, nm, or how fast
    int4 at;
    Vec move;
    double unused;
};

struct Work {  // of a move or of velocities, which are in the place of moves then, in global memory
    int* slot;  // -1: the atom is another rank's
    Vec *moves, *r, *direction;
    double *matrix, *rhs, *term, *solution, *multiplier;

    __device__ Work(int* slots, Vec* vectors, double* numbers, int n_atoms, int n_bonds)
        : slot(slots), moves(vectors), r(vectors + n_atoms), direction(vectors + n_atoms + n_bonds),
          matrix(numbers + 4 * n_bonds), rhs(numbers), term(numbers + n_bonds), solution(numbers + 2 * n_bonds),
          multiplier(numbers + 3 * n_bonds) {}
};

__device__ __forceinline__ Vec moved(const Network& n, const Work& w, int c) {
    const int2 p = n.pairs[c];
    return w.r[c] + (w.moves[p.x] - w.moves[p.y]);
}

// Once for each number from `first` to `last`, shared out among the threads of the block, which meet afterwards.
template <typename Do>
__device__ __forceinline__ void each(int first, int last, Do work) {
    for (int k = first + threadIdx.x; k < last; k += THREADS) work(k);
    __syncthreads();
}

__device__ void correct_atom(const Network& n, const Work& w, int a) {
    Vec d = w.moves[a];
    for (int k = n.of_atom[a]; k < n.of_atom[a + 1]; k++) {
        const int c = n.constraints[k] >> 1;
        const double push = n.inverse_mass[a] * (n.weights[c] * w.solution[c]);
        d = n.constraints[k] & 1 ? d + push * w.direction[c] : d - push * w.direction[c];
    }
    w.moves[a] = d;
}

// What is to be taken out along a constraint.
template <bool VELOCITIES>
__device__ __forceinline__ double excess(const Network& n, const Work& w, int c, int iteration) {
    const int2 p = n.pairs[c];
    if (VELOCITIES) return dot(w.direction[c], w.moves[p.x] - w.moves[p.y]);
    const Vec now = moved(n, w, c);
    if (iteration == 0) return dot(w.direction[c], now) - n.lengths[c];
    const double left = 2.0 * n.lengths[c] * n.lengths[c] - dot(now, now);
    return n.lengths[c] - (left > 0.0 ? sqrt(left) : 0.0);
}

template <bool VELOCITIES>
__device__ void solve(const Network& n, Work& w, int2 atoms, int2 bonds, int order, int iterations) {
    each(bonds.x, bonds.y, [&](int c) {
        for (int k = n.start[c]; k < n.start[c + 1]; k++)
            w.matrix[k] = n.factors[k] * dot(w.direction[c], w.direction[n.neighbors[k]]);
        w.multiplier[c] = 0.0;
    });
    for (int iteration = 0; iteration <= iterations; iteration++) {
        each(bonds.x, bonds.y, [&](int c) {
            w.rhs[c] = w.solution[c] = n.weights[c] * excess<VELOCITIES>(n, w, c, iteration);
        });
        for (int k = 0; k < order; k++) {
            each(bonds.x, bonds.y, [&](int c) {
                double value = 0.0;
                for (int k = n.start[c]; k < n.start[c + 1]; k++) value += w.matrix[k] * w.rhs[n.neighbors[k]];
                w.term[c] = value;
                w.solution[c] += value;
            });
            double* const last = w.rhs;
            w.rhs = w.term, w.term = last;
        }
        each(bonds.x, bonds.y, [&](int c) { w.multiplier[c] += n.weights[c] * w.solution[c]; });
        each(atoms.x, atoms.y, [&](int a) { correct_atom(n, w, a); });
    }
}

// shared : null, or: of all ranks
__device__ void find_directions(const Network& n, const Work& w, int2 bonds, const int4* x, const SharedMove* shared,
                                const double* box) {
    each(bonds.x, bonds.y, [&](int c) {
        const int2 p = n.pairs[c];
        const Vec r = shared ? difference(shared[p.x].at, shared[p.y].at, box)
                             : difference(x[w.slot[p.x]], x[w.slot[p.y]], box);
        const double length = sqrt(dot(r, r));
        w.r[c] = r;
        w.direction[c] = {r.x / length, r.y / length, r.z / length};
    });
}

// Slot of an atom that this rank owns, else -1.
__device__ __forceinline__ int owned_slot(const int* slot_of, int atom, int end) {
    const int slot = slot_of[atom];
    return slot < end ? slot : -1;
}

__device__ __forceinline__ void note_turn(Control* control, double cosine, int constraint) {
    atomicMin(&control->turned, uint64((1.0 + cosine) * 1073741824.0) << 32 | uint32(constraint));
}

// Of several ranks: what others have to know of this rank's atoms. n : slots; counters : of the search of this rank
extern "C" __global__ void __launch_bounds__(THREADS)
    share_moves(int4* x, float4* v, Force* f, const int* __restrict__ atoms, const double* __restrict__ inverse_mass,
                int n_atoms, const int* __restrict__ slot_of, int n, const long long* __restrict__ counters,
                const int* __restrict__ gid, const Step* __restrict__ step, Control* control, int offset, int coupled,
                SharedMove* shared) {
    const int a = blockIdx.x * THREADS + threadIdx.x;
    if (a >= n_atoms) return;
    const int slot = owned_slot(slot_of, atoms[a], end_of_owned(counters, n));
    if (slot < 0) return;
    State s = state_of(x, v, f, gid, step, control, offset, coupled);
    take_coupling(s);
    const int4 at = x[slot];
    const double dt = step->dt;
    shared[a] = {{at.x, at.y, at.z, 0}, dt * kicked(s, slot, dt * inverse_mass[a]), 0.0};
}

// The same before velocities are completed. mass : by slot
extern "C" __global__ void __launch_bounds__(THREADS)
    share_velocities(const int4* x, const float4* v, const Force* f, const int* __restrict__ atoms, int n_atoms,
                     const int* __restrict__ slot_of, int n, const long long* __restrict__ counters,
                     const double* __restrict__ mass, const Step* __restrict__ step, SharedMove* shared) {
    const int a = blockIdx.x * THREADS + threadIdx.x;
    if (a >= n_atoms) return;
    const int slot = owned_slot(slot_of, atoms[a], end_of_owned(counters, n));
    if (slot < 0) return;
    const int4 at = x[slot];
    shared[a] = {{at.x, at.y, at.z, 0}, half_kicked(v[slot], 0.5 * step->dt / mass[slot], load_force(f, slot)), 0.0};
}

// network_atoms, network_bonds : where each network begins, one more than there are; atoms : global ids
// vectors, numbers : room for 1 Vec of each atom and 2 of each constraint; 4 doubles of each constraint and one of each
//     coupling
// warn : cosine of the angle by which a constraint turns in a step that is worth a warning
// shared : null, or: of all ranks; clear : 1: leave 0 as the forces
// the other arguments as in shake.cu
extern "C" __global__ void __launch_bounds__(THREADS)
    leapfrog_lincs(int4* x, float4* v, Force* f, const int* __restrict__ network_atoms, const int* __restrict__ network_bonds,
                   const int* __restrict__ atoms, const int2* __restrict__ pairs, const double* __restrict__ lengths,
                   const double* __restrict__ weights, const int* __restrict__ start, const int* __restrict__ neighbors,
                   const double* __restrict__ factors, const int* __restrict__ of_atom, const int* __restrict__ constraints,
                   const double* __restrict__ inverse_mass, int n_atoms, int n_bonds, int order, int iterations, int* slots,
                   Vec* vectors, double* numbers, const int* __restrict__ slot_of, const int* __restrict__ gid,
                   const Step* __restrict__ step, Control* control, int offset, int coupled, Sum* virial, double warn,
                   const SharedMove* __restrict__ shared, int n_slots, const long long* __restrict__ counters, int clear) {
    const Network n = {pairs, lengths, weights, start, neighbors, factors, of_atom, constraints, inverse_mass};
    Work w(slots, vectors, numbers, n_atoms, n_bonds);
    State s = state_of(x, v, f, gid, step, control, offset, coupled);
    take_coupling(s);
    const double dt = step->dt;
    const int2 mine = {network_atoms[blockIdx.x], network_atoms[blockIdx.x + 1]};
    const int2 bonds = {network_bonds[blockIdx.x], network_bonds[blockIdx.x + 1]};
    const int end = end_of_owned(counters, n_slots);
    bool here = false;
    each(mine.x, mine.y, [&](int a) {
        const int slot = w.slot[a] = owned_slot(slot_of, atoms[a], end);
        w.moves[a] = shared ? shared[a].move : dt * kicked(s, slot, dt * inverse_mass[a]);
        here |= slot >= 0;
    });
    if (shared && !__syncthreads_or(here)) return;
    find_directions(n, w, bonds, x, shared, step->box);
    solve<false>(n, w, mine, bonds, order, iterations);
    Sums sums;
    each(bonds.x, bonds.y, [&](int c) {
        const int slot = w.slot[pairs[c].x];
        if (slot < 0) return;
        const Vec now = moved(n, w, c);
        const double cosine = dot(w.direction[c], now) / sqrt(dot(now, now));
        if (!(cosine > BROKEN))
            note_error(s, slot);
        else if (cosine < warn)
            note_turn(control, cosine, c);
        if (ENERGIES) sums.virial(w.r[c], (-w.multiplier[c] / (dt * dt)) * w.direction[c]);
    });
    each(mine.x, mine.y, [&](int a) {
        const int slot = w.slot[a];
        if (slot < 0) return;
        move(s, slot, x[slot], w.moves[a]);
        store_velocity(s, slot, per_dt(*step, w.moves[a]));
        if (clear) store_force(f, slot, {0, 0, 0});
    });
    if (ENERGIES)
        for (int k = 0; k < 9; k++) add_of_warp(virial + k, Sum(step->weight) * sums.of[2 + k]);
}

// Take half of a kick, and out of that what changes lengths, into the velocities of full steps.
// virial : as in full_steps.cu; mass : by slot; shared : as above
extern "C" __global__ void __launch_bounds__(THREADS)
    complete_lincs(const int4* x, float4* v, const Force* f, const int* __restrict__ network_atoms,
                   const int* __restrict__ network_bonds, const int* __restrict__ atoms, const int2* __restrict__ pairs,
                   const double* __restrict__ lengths, const double* __restrict__ weights, const int* __restrict__ start,
                   const int* __restrict__ neighbors, const double* __restrict__ factors, const int* __restrict__ of_atom,
                   const int* __restrict__ constraints, const double* __restrict__ inverse_mass, int n_atoms, int n_bonds,
                   int order, int iterations, int* slots, Vec* vectors, double* numbers, const int* __restrict__ slot_of,
                   const double* __restrict__ mass, const Step* __restrict__ step, Sum* virial,
                   const SharedMove* __restrict__ shared, int n_slots, const long long* __restrict__ counters) {
    const Network n = {pairs, lengths, weights, start, neighbors, factors, of_atom, constraints, inverse_mass};
    Work w(slots, vectors, numbers, n_atoms, n_bonds);
    const double half = 0.5 * step->dt;
    const int2 mine = {network_atoms[blockIdx.x], network_atoms[blockIdx.x + 1]};
    const int2 bonds = {network_bonds[blockIdx.x], network_bonds[blockIdx.x + 1]};
    const int end = end_of_owned(counters, n_slots);
    bool here = false;
    each(mine.x, mine.y, [&](int a) {
        const int slot = w.slot[a] = owned_slot(slot_of, atoms[a], end);
        w.moves[a] = shared ? shared[a].move : half_kicked(v[slot], half / mass[slot], load_force(f, slot));
        here |= slot >= 0;
    });
    if (shared && !__syncthreads_or(here)) return;
    find_directions(n, w, bonds, x, shared, step->box);
    solve<true>(n, w, mine, bonds, order, iterations);
    Sums taken;
    each(bonds.x, bonds.y, [&](int c) {
        if (ENERGIES && w.slot[pairs[c].x] >= 0)
            taken.virial(w.r[c], (w.multiplier[c] / half) * w.direction[c]);
    });
    each(mine.x, mine.y, [&](int a) {
        const Vec now = w.moves[a];
        if (w.slot[a] >= 0) v[w.slot[a]] = make_float4(now.x, now.y, now.z, 0.0f);
    });
    if (ENERGIES)
        for (int k = 0; k < 9; k++) add_of_warp(virial + k, taken.of[2 + k]);
}
