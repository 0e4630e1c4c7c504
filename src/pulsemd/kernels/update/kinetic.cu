// Kinetic energy and momentum, and what the coupling makes of them: thermostat factor and velocity of the centre of
// mass, left in device memory for the update.
//
// Sums go over blocks and then, in the block that finishes last, over the blocks' results in fixed order: the same
// numbers in every run of one launch shape, and with FIXED of any launch shape.

#include "geometry.cuh"
#include "control.cuh"
#include "overlap.cuh"
#include "philox.cuh"

constexpr double MOMENTUM_SCALE = 4294967296.0;  // units per amu nm/ps

struct KineticSums {
    Sum energy, x, y, z, along_z;  // kinetic energy, momentum, kinetic energy along z

    __device__ __forceinline__ void operator+=(const KineticSums& other) {
        energy += other.energy, x += other.x, y += other.y, z += other.z, along_z += other.along_z;
    }
};

__device__ __forceinline__ KineticSums of_atom(double mass, double vx, double vy, double vz) {
    const double energy = 0.5 * mass * (vx * vx + vy * vy + vz * vz), along_z = 0.5 * mass * vz * vz;
#if FIXED
    return {rounded(energy, ENERGY_SCALE), rounded(mass * vx, MOMENTUM_SCALE), rounded(mass * vy, MOMENTUM_SCALE),
            rounded(mass * vz, MOMENTUM_SCALE), rounded(along_z, ENERGY_SCALE)};
#else
    return {energy, mass * vx, mass * vy, mass * vz, along_z};
#endif
}

// The sum over all threads of the block, in thread 0.
__device__ __forceinline__ KineticSums block_sum(KineticSums mine) {
    __shared__ KineticSums of_warp[THREADS / 32];
    mine = {warp_sum(mine.energy), warp_sum(mine.x), warp_sum(mine.y), warp_sum(mine.z), warp_sum(mine.along_z)};
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = mine;
    __syncthreads();
    if (threadIdx.x == 0)
        for (int warp = 1; warp < THREADS / 32; warp++) mine += of_warp[warp];
    return mine;
}

struct Thermostat {  // read from device memory, see gpu.py
    double target;   // n_dof kT / 2, kJ/mol
    double n_dof;
    double keep;     // exp(-interval / tau); 0: the canonical distribution at once
    double total_mass;
    double weak;     // interval / tau of Berendsen's thermostat; 0: another one
    double hoover;   // interval / Q of Nose and Hoover's, 1/(K ps); 0: another one
    double ref_t;    // K
    double interval; // ps
    long long seed;
};

// Factor on all velocities: G. Bussi, D. Donadio, M. Parrinello, J. Chem. Phys. 126, 014101 (2007), equation (A7).
__device__ double v_rescale_factor(const Thermostat& t, double kinetic, unsigned long long step) {
    if (kinetic <= 0.0) return 1.0;
    const double first = normal(uniforms(t.seed, STREAM_V_RESCALE, step, 0));
    const double rest = t.n_dof > 1 ? 2.0 * gamma_number((t.n_dof - 1) / 2.0, t.seed, STREAM_V_RESCALE, step) : 0.0;
    const double fresh = kinetic + (1.0 - t.keep) * (t.target * (rest + first * first) / t.n_dof - kinetic) +
                         2.0 * first * sqrt(t.keep * (1.0 - t.keep) * kinetic * t.target / t.n_dof);
    return sqrt(fmax(fresh, 0.0) / kinetic);
}

// H. J. C. Berendsen et al., J. Chem. Phys. 81, 3684 (1984); bounds as in coupling.py.
__device__ double berendsen_factor(const Thermostat& t, double kinetic) {
    if (kinetic <= 0.0) return 1.0;
    return fmin(fmax(sqrt(fmax(1.0 + t.weak * (t.target / kinetic - 1.0), 0.0)), 0.8), 1.25);
}

// Nose and Hoover's thermostat as in extended.py; the factor on the old velocities.
__device__ double rub(Control* control, const Thermostat& t, double kinetic) {
    const double temperature = t.ref_t * kinetic / t.target, old = control->friction;
    control->friction = old + t.hoover * (temperature - t.ref_t);
    control->xi += 0.5 * t.interval * (old + control->friction);
    const double motion = 0.5 * control->friction * control->friction * t.interval / t.hoover;
    control->work = -2.0 * t.target / t.ref_t * (motion + t.ref_t * control->xi);
    control->loss = 0.5 * t.interval * control->friction;
    control->kick = 1.0 / (1.0 + control->loss);
    return (1.0 - control->loss) * control->kick;
}

__device__ void couple(Control* control, const Thermostat& t, double kinetic, double along_z, const double* momentum,
                       int offset, bool thermostat, bool remove_com) {
    double scale = 1.0;
    for (int d = 0; d < 3; d++) {
        control->com[d] = remove_com ? momentum[d] / t.total_mass : 0.0;
        control->momentum[d] = momentum[d];
    }
    if (remove_com) {
        const Vec p = {momentum[0], momentum[1], momentum[2]};
        kinetic -= 0.5 * dot(p, p) / t.total_mass;
        along_z -= 0.5 * p.z * p.z / t.total_mass;
    }
    control->before = kinetic, control->before_z = along_z;
    control->kick = 1.0, control->loss = 0.0;
    if (thermostat && t.hoover > 0.0) {
        scale = rub(control, t, kinetic);
    } else if (thermostat) {
        scale = t.weak > 0.0 ? berendsen_factor(t, kinetic) : v_rescale_factor(t, kinetic, control->step + offset);
        control->work += kinetic * (scale * scale - 1.0);
        control->before = kinetic * scale * scale, control->before_z = along_z * scale * scale;
    }
    control->scale = scale;
}

// Whether a step does what is done every `interval` steps; 0: never.
__device__ __forceinline__ bool is_due(const Control* control, int offset, int interval) {
    return interval > 0 && (control->step + offset) % interval == 0;
}

// What the sums of all atoms do. after : 1: sum into control->after only; 0: before the move, then couple.
// thermostat_interval, com_interval : steps between two actions of the thermostat, and two removals; 0: none
__device__ void use_sums(const KineticSums& sums, Control* control, const Thermostat& thermostat, int offset, int after,
                         int thermostat_interval, int com_interval) {
    const double e_unit = FIXED ? 1.0 / ENERGY_SCALE : 1.0, p_unit = FIXED ? 1.0 / MOMENTUM_SCALE : 1.0;
    if (after) {
        control->after = sums.energy * e_unit;
        control->after_z = sums.along_z * e_unit;
        return;
    }
    const double momentum[3] = {sums.x * p_unit, sums.y * p_unit, sums.z * p_unit};
    couple(control, thermostat, sums.energy * e_unit, sums.along_z * e_unit, momentum, offset,
           is_due(control, offset, thermostat_interval), is_due(control, offset, com_interval));
}

// v : (n, 4) float, nm/ps; mass : (n,) double, amu, 0 in empty rows; partial : (gridDim.x,) scratch.
// share : null, or: where the sums of one rank of several go, which `couple_ranks` uses once all are added up
extern "C" __global__ void __launch_bounds__(THREADS)
    kinetic(const float4* __restrict__ v, const double* __restrict__ mass, int n, KineticSums* partial,
            Control* control, const Thermostat* thermostat, int offset, int after,
            int thermostat_interval, int com_interval, KineticSums* share, int wait) {
    __shared__ bool last;
    wait_here(WAIT_FIRST, wait);
    let_later_start();
    KineticSums mine = {0, 0, 0, 0, 0};
    for (int row = blockIdx.x * THREADS + threadIdx.x; row < n; row += gridDim.x * THREADS) {
        const float4 of_row = current(v + row);
        mine += of_atom(mass[row], of_row.x, of_row.y, of_row.z);
    }
    mine = block_sum(mine);
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = mine;
        __threadfence();
        last = atomicInc(&control->blocks_done, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last) return;
    __threadfence();
    mine = {0, 0, 0, 0, 0};
    for (int block = threadIdx.x; block < gridDim.x; block += THREADS) mine += partial[block];
    mine = block_sum(mine);
    if (threadIdx.x != 0) return;
    wait_here(WAIT_LAST, wait);
    if (share)
        *share = mine;
    else
        use_sums(mine, control, *thermostat, offset, after, thermostat_interval, com_interval);
}

// The same from sums over all ranks.
extern "C" __global__ void couple_ranks(const KineticSums* sums, Control* control, const Thermostat* thermostat,
                                        int offset, int after, int thermostat_interval, int com_interval) {
    use_sums(*sums, control, *thermostat, offset, after, thermostat_interval, com_interval);
}
