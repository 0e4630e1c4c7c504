// Kinetic energy and momentum of each coupling group, and what the coupling makes of them: factors of the thermostats
// and velocity of the centre of mass, left in device memory for the update.
//
// Sums go over blocks and then, in the block that finishes last, over the blocks' results in fixed order: the same
// numbers in every run of one launch shape, and with FIXED of any launch shape.
//
// PORTIONS, 1: several centres of mass are stopped, by a kernel of its own ahead of the move. Sums are then of portions,
// and are joined to those of coupling groups first.

#include "geometry.cuh"
#include "chains.cuh"
#include "control.cuh"
#include "overlap.cuh"
#include "philox.cuh"
#include "thermostat.cuh"
#if PORTIONS
#include "portions.cuh"
#endif

constexpr double MOMENTUM_SCALE = 4294967296.0;  // units per amu nm/ps

struct KineticSums {
    Sum energy, x, y, z, along_y, along_z;  // kinetic energy, momentum, kinetic energy along y and z

    __device__ __forceinline__ void operator+=(const KineticSums& other) {
        energy += other.energy, x += other.x, y += other.y, z += other.z;
        along_y += other.along_y, along_z += other.along_z;
    }

    __device__ __forceinline__ void operator-=(const KineticSums& other) {
        energy -= other.energy, x -= other.x, y -= other.y, z -= other.z;
        along_y -= other.along_y, along_z -= other.along_z;
    }
};

__device__ __forceinline__ KineticSums of_atom(double mass, double vx, double vy, double vz) {
    const double energy = 0.5 * mass * (vx * vx + vy * vy + vz * vz);
    const double along_y = 0.5 * mass * vy * vy, along_z = 0.5 * mass * vz * vz;
#if FIXED
    return {rounded(energy, ENERGY_SCALE), rounded(mass * vx, MOMENTUM_SCALE), rounded(mass * vy, MOMENTUM_SCALE),
            rounded(mass * vz, MOMENTUM_SCALE), rounded(along_y, ENERGY_SCALE), rounded(along_z, ENERGY_SCALE)};
#else
    return {energy, mass * vx, mass * vy, mass * vz, along_y, along_z};
#endif
}

// The sum over all threads of the block, in thread 0.
__device__ __forceinline__ KineticSums block_sum(KineticSums mine) {
    __shared__ KineticSums of_warp[THREADS / 32];
    mine = {warp_sum(mine.energy), warp_sum(mine.x), warp_sum(mine.y), warp_sum(mine.z), warp_sum(mine.along_y),
            warp_sum(mine.along_z)};
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = mine;
    __syncthreads();
    if (threadIdx.x == 0)
        for (int warp = 1; warp < THREADS / 32; warp++) mine += of_warp[warp];
    return mine;
}

// Factor on velocities: G. Bussi, D. Donadio, M. Parrinello, J. Chem. Phys. 126, 014101 (2007), equation (A7).
__device__ double v_rescale_factor(const Thermostat& t, double kinetic, unsigned long long step, int group) {
    if (kinetic <= 0.0) return 1.0;
    const unsigned long long id = (unsigned long long)group << 32;
    const double first = normal(uniforms(t.seed, STREAM_V_RESCALE, step, id));
    const double rest =
        t.n_dof > 1 ? 2.0 * gamma_number((t.n_dof - 1) / 2.0, t.seed, STREAM_V_RESCALE, step, id) : 0.0;
    const double fresh = kinetic + (1.0 - t.keep) * (t.target * (rest + first * first) / t.n_dof - kinetic) +
                         2.0 * first * sqrt(t.keep * (1.0 - t.keep) * kinetic * t.target / t.n_dof);
    return sqrt(fmax(fresh, 0.0) / kinetic);
}

// H. J. C. Berendsen et al., J. Chem. Phys. 81, 3684 (1984); bounds as in coupling.py.
__device__ double berendsen_factor(const Thermostat& t, double kinetic) {
    if (kinetic <= 0.0) return 1.0;
    return fmin(fmax(sqrt(fmax(1.0 + t.weak * (t.target / kinetic - 1.0), 0.0)), 0.8), 1.25);
}

// Nose and Hoover's thermostat as in extended.py; its energy, kJ/mol.
__device__ double rub(Bath& bath, const Thermostat& t, double kinetic) {
    const double temperature = t.target > 0.0 ? t.ref_t * kinetic / t.target : t.ref_t, old = bath.friction;
    bath.friction = old + t.hoover * (temperature - t.ref_t);
    bath.xi += 0.5 * t.interval * (old + bath.friction);
    bath.loss = 0.5 * t.interval * bath.friction;
    bath.kick = 1.0 / (1.0 + bath.loss);
    bath.scale = (1.0 - bath.loss) * bath.kick;
    const double motion = 0.5 * bath.friction * bath.friction * t.interval / t.hoover;
    return 2.0 * t.target / t.ref_t * (motion + t.ref_t * bath.xi);
}

// Of all atoms or a group.
struct Motion {
    double energy, yz[2];  // all of it, and along y and z
    Vec momentum;

    __device__ explicit Motion(const KineticSums& sums) {
        const double e_unit = FIXED ? 1.0 / ENERGY_SCALE : 1.0, p_unit = FIXED ? 1.0 / MOMENTUM_SCALE : 1.0;
        energy = sums.energy * e_unit, yz[0] = sums.along_y * e_unit, yz[1] = sums.along_z * e_unit;
        momentum = {sums.x * p_unit, sums.y * p_unit, sums.z * p_unit};
    }

    // What is left without the velocity of the centre of mass of all groups.
    __device__ void slow_down(double mass, Vec com) {
        energy -= dot(momentum - (0.5 * mass) * com, com);
        yz[0] -= (momentum.y - 0.5 * mass * com.y) * com.y;
        yz[1] -= (momentum.z - 0.5 * mass * com.z) * com.z;
    }

    // After velocities were multiplied by a factor.
    __device__ void scale(double factor) {
        const double square = factor * factor;
        energy *= square, yz[0] *= square, yz[1] *= square;
    }
};

// Let the thermostat of a group act on a step and on the motion before it; the energy that it gives.
__device__ double heat(Bath& bath, const Thermostat& t, Motion& old, unsigned long long step, int group) {
    bath.scale = t.weak > 0.0 ? berendsen_factor(t, old.energy) : v_rescale_factor(t, old.energy, step, group);
    const double given = old.energy * (bath.scale * bath.scale - 1.0);
    old.scale(bath.scale);
    return given;
}

// Let the chain of a group act at the end of a coupling interval and at the beginning of the next, in between which is the
// full step that `old` is left at; the factor on velocities. `ended`, `stored`: its energy after either, added to.
__device__ double rub_by_chain(Chain chain, Motion& old, bool begins, double& ended, double& stored) {
    if (!chain.acts()) return 1.0;
    double scale = 1.0;
    if (!begins) {
        scale = chain.advance(old.energy);
        old.scale(scale);
    }
    ended += chain.energy();
    scale *= chain.advance(old.energy);
    stored += chain.energy();
    return scale;
}

__device__ void couple(Control* control, const Thermostat* thermostats, const Chains* chains, const KineticSums* sums,
                       int offset, bool thermostat, bool remove_com) {
    double total_mass = 0.0, given = 0.0, stored = 0.0, ended = 0.0;
    Vec momentum = {0.0, 0.0, 0.0};
    for (int g = 0; g < control->n_baths; g++)
        momentum = momentum + Motion(sums[g]).momentum, total_mass += thermostats[g].mass;
    const Vec com = {momentum.x / total_mass, momentum.y / total_mass, momentum.z / total_mass};
    control->before = control->before_yz[0] = control->before_yz[1] = 0.0;
    const bool full = thermostats->kick < 1.0;  // energies are then those before the thermostats
    const long long step = control->step + offset;
    double work_then = control->work;
    bool swings = false;
    for (int g = 0; g < control->n_baths; g++) {
        const Thermostat& t = thermostats[g];
        Bath& bath = baths_of(control)[g];
        Motion old(sums[g]);
        if (remove_com) old.slow_down(t.mass, com);
        bath.scale = 1.0, bath.kick = t.kick, bath.loss = 0.0;
        if (thermostat && chains)
            swings = true, bath.scale = rub_by_chain({*chains, g, t.n_dof}, old, step == chains->first_step, ended,
                                                     stored);
        const Motion found = old;
        if (thermostat && t.hoover > 0.0)
            swings = true, stored += rub(bath, t, old.energy);
        else if (thermostat && !chains)
            given += heat(bath, t, old, step, g);
        const Motion& counted = full ? found : old;
        bath.before = bath.kinetic = counted.energy;
        control->before += counted.energy;
        for (int d = 0; d < 2; d++) control->before_yz[d] += counted.yz[d];
    }
    control->work = swings ? -stored : control->work + given;
    if (swings) work_then = -ended;
    control->work_then = full ? work_then : control->work;
    control->kinetic = control->before;
    for (int d = 0; d < 2; d++) control->kinetic_yz[d] = control->before_yz[d];
    const double p[3] = {momentum.x, momentum.y, momentum.z}, v[3] = {com.x, com.y, com.z};
    for (int d = 0; d < 3; d++) control->momentum[d] = p[d], control->com[d] = remove_com ? v[d] : 0.0;
}

// Whether a step does what is done every `interval` steps; 0: never.
__device__ __forceinline__ bool is_due(const Control* control, int offset, int interval) {
    return interval > 0 && (control->step + offset) % interval == 0;
}

#if PORTIONS
// Velocity of the centre of mass of portion p, or of all that it is stopped with.
__device__ Vec velocity_of(const Portion* portions, int n, int p, bool all, const KineticSums* sums) {
    double mass = 0.0;
    Vec momentum = {0.0, 0.0, 0.0};
    for (int q = 0; q < n; q++)
        if (q == p || (all && portions[q].held == portions[p].held))
            momentum = momentum + Motion(sums[q]).momentum, mass += portions[q].mass;
    return {momentum.x / mass, momentum.y / mass, momentum.z / mass};
}

// Sums of coupling groups from those of portions. stop: without the motion of centres of mass, which the portions are
// left with.
__device__ void join(const KineticSums* sums, Portion* portions, int n, bool stop, KineticSums* of_baths) {
    for (int p = 0; p < n; p++) {
        Portion& portion = portions[p];
        KineticSums& joined = of_baths[portion.bath];
        joined += sums[p];
        const bool stops = stop && portion.held >= 0 && portion.mass > 0.0;
        Vec drift = {0.0, 0.0, 0.0};
        if (stops) {  // the portion moves as a whole with `own`, from now on with what is left of it
            drift = velocity_of(portions, n, p, true, sums);
            const Vec own = velocity_of(portions, n, p, false, sums), left = own - drift;
            joined -= of_atom(portion.mass, own.x, own.y, own.z);
            joined += of_atom(portion.mass, left.x, left.y, left.z);
        }
        portion.velocity[0] = drift.x, portion.velocity[1] = drift.y, portion.velocity[2] = drift.z;
    }
}
#endif

// What the sums of each group do. after : 1: sum into control->after only; 0: before the move, then couple.
// thermostat_interval, com_interval : steps between two actions of the thermostat, and two removals; 0: none
// portions : (n_portions,), with PORTIONS
__device__ void use_sums(const KineticSums* sums, Control* control, const Thermostat* thermostats, const Chains* chains,
                         int offset, int after, int thermostat_interval, int com_interval
#if PORTIONS
                         , Portion* portions, int n_portions
#endif
) {
#if PORTIONS
    KineticSums of_baths[MAX_BATHS] = {};
    join(sums, portions, n_portions, !after && is_due(control, offset, com_interval), of_baths);
    sums = of_baths, com_interval = 0;
#endif
    if (!after)
        return couple(control, thermostats, chains, sums, offset, is_due(control, offset, thermostat_interval),
                      is_due(control, offset, com_interval));
    const bool full = thermostats->kick < 1.0;
    control->after = control->after_yz[0] = control->after_yz[1] = 0.0;
    for (int g = 0; g < control->n_baths; g++) {
        const Motion now(sums[g]);
        Bath& bath = baths_of(control)[g];
        bath.after = now.energy;
        if (!full) bath.kinetic = 0.5 * (bath.before + bath.after);
        control->after += now.energy;
        for (int d = 0; d < 2; d++) control->after_yz[d] += now.yz[d];
    }
    if (full) return;
    control->kinetic = 0.5 * (control->before + control->after);
    for (int d = 0; d < 2; d++) control->kinetic_yz[d] = 0.5 * (control->before_yz[d] + control->after_yz[d]);
}

// One row of blocks for each group. partial : (gridDim.y, gridDim.x) scratch
// v : (n, 4) float, nm/ps; mass : (n,) double, amu, 0 in empty rows and those of ghosts
// gid, group : (n,) int32, and group of each atom by global id, where there are several: coupling group, or portion
// share : null, or: where the sums of one rank of several go, which `couple_ranks` uses once all are added up
extern "C" __global__ void __launch_bounds__(THREADS)
    kinetic(const float4* __restrict__ v, const double* __restrict__ mass, int n, const int* __restrict__ gid,
            const int* __restrict__ group, KineticSums* partial, Control* control, const Thermostat* thermostats,
            const Chains* chains, int offset, int after, int thermostat_interval, int com_interval, KineticSums* share,
            int wait
#if PORTIONS
            , Portion* portions, int n_portions
#endif
    ) {
    __shared__ bool last;
    __shared__ KineticSums totals[MAX_SUMS];
    wait_here(WAIT_FIRST, wait);
    let_later_start();
    KineticSums mine = {0, 0, 0, 0, 0, 0};
    for (int row = blockIdx.x * THREADS + threadIdx.x; row < n; row += gridDim.x * THREADS) {
        const double m = mass[row];
        if (gridDim.y > 1 && (m == 0.0 || group[gid[row]] != blockIdx.y)) continue;
        const float4 of_row = current(v + row);
        mine += of_atom(m, of_row.x, of_row.y, of_row.z);
    }
    mine = block_sum(mine);
    if (threadIdx.x == 0) {
        partial[blockIdx.y * gridDim.x + blockIdx.x] = mine;
        __threadfence();
        const unsigned others = gridDim.x * gridDim.y - 1;
        last = atomicInc(&control->blocks_done, others) == others;
    }
    __syncthreads();
    if (!last) return;
    __threadfence();
    for (int g = 0; g < gridDim.y; g++) {
        mine = {0, 0, 0, 0, 0, 0};
        for (int block = threadIdx.x; block < gridDim.x; block += THREADS) mine += partial[g * gridDim.x + block];
        mine = block_sum(mine);
        if (threadIdx.x == 0) totals[g] = mine;
        __syncthreads();
    }
    if (threadIdx.x != 0) return;
    wait_here(WAIT_LAST, wait);
    if (!share)
        return use_sums(totals, control, thermostats, chains, offset, after, thermostat_interval, com_interval
#if PORTIONS
                        , portions, n_portions
#endif
        );
    for (int g = 0; g < gridDim.y; g++) share[g] = totals[g];
}

// The same from sums over all ranks.
extern "C" __global__ void couple_ranks(const KineticSums* sums, Control* control, const Thermostat* thermostats,
                                        const Chains* chains, int offset, int after, int thermostat_interval,
                                        int com_interval
#if PORTIONS
                                        , Portion* portions, int n_portions
#endif
) {
    use_sums(sums, control, thermostats, chains, offset, after, thermostat_interval, com_interval
#if PORTIONS
             , portions, n_portions
#endif
    );
}

// Let the thermostats of several groups act on the old velocities, so that a move without coupling follows, as in
// leapfrog.py. f : (n, 4), complete; the other arguments as above
extern "C" __global__ void couple_groups(float4* v, const Force* __restrict__ f, const double* __restrict__ mass, int n,
                                         const int* __restrict__ gid, const int* __restrict__ group,
                                         const Control* control, double dt) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n || mass[row] == 0.0) return;
    const Bath& bath = baths_of(control)[group[gid[row]]];
    const Vec com = {control->com[0], control->com[1], control->com[2]};
    const float4 old = v[row];
    Vec now = bath.scale * (Vec{old.x, old.y, old.z} - com);
    if (bath.kick != 1.0) now = now + ((bath.kick - 1.0) * dt / mass[row]) * load_force(f, row);
    v[row] = make_float4(now.x, now.y, now.z, old.w);
}
