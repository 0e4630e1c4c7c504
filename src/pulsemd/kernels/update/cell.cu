// The periodic cell of a run in device memory, everything that follows from it, and the barostats that scale it, as in
// engine/barostat.py. One thread each, but for the velocities.

#include "geometry.cuh"
#include "control.cuh"
#include "philox.cuh"

constexpr double BAR = 16.605390671738466;  // 1 kJ/mol/nm^3
constexpr int STEP_WORDS = 21;
constexpr double PI = 3.14159265358979323846;

struct Cell {            // see gpu_cell.py
    double box[9];       // lattice-reduced, rows a, b, c, nm
    double user_box[9];  // of the files' frame
    double strain[3];    // lengths along x, y, z over those of the last search
    double factors[3];   // of the last scaling
    double volume;       // at the last step that summed energies, nm^3
    double work_then;    // of the barostat before that step, kJ/mol
    double work;         // of it so far
    double rates[3];     // relative rates of lengths along x, y and z, of a box that moves, 1/ps
    double refused[3];   // strain that the pair list is not good for
    long long stopped;   // step that would have led to it, -1: none; nothing is scaled from then on
};

struct Barostat {             // of x, y and z each, see gpu_cell.py
    double soft[3];           // coupling interval / tau_p * compressibility, 1/bar
    double wanted[3];         // bar
    double noise[3];          // share of sqrt(2 kT soft / V) in the logarithm of a factor
    double kt;                // bar nm^3
    double background;        // energy of the background of a net charge times the volume
    double dispersion_energy; // of the long-range correction, times the volume
    double dispersion_virial; // of it, times the volume
    double lowest, highest;   // strain that is allowed
    double interval;          // of coupling, ps
    double mass[3];           // of a box that moves: inverse masses times its longest edge; 0: it does not
    long long seed;
    int axis[3], stochastic;  // of equal numbers scale alike

    // Sum of values over that of divisors, of the axes that scale as axis d does.
    __device__ double over_alike(const double* values, const double* divisors, int d) const {
        double sum = 0.0, divisor = 0.0;
        for (int k = 0; k < 3; k++)
            if (axis[k] == axis[d]) sum += values[k], divisor += divisors[k];
        return sum / divisor;
    }

    __device__ bool moves() const { return mass[0] > 0.0 || mass[1] > 0.0 || mass[2] > 0.0; }
};

struct Followers {      // what other kernels read of the cell; null: there is none
    double* step;       // the struct Step of move.cuh, twice: of a whole step and of half of one
    double* field;      // of excluded pairs: begins with the box
    double* bonded;     // the box
    float* pairs;       // box over 2^32, then the position grid of position_grid.cuh
    double* mesh;       // of PME: inverse box, then at 10 one over pi times the volume
    long long mesh_in_user_box;
};

__device__ double volume_of(const double* b) {
    return fabs(b[0] * (b[4] * b[8] - b[5] * b[7]) - b[1] * (b[3] * b[8] - b[5] * b[6]) +
                b[2] * (b[3] * b[7] - b[4] * b[6]));
}

__device__ void invert(const double* b, double* inverse) {
    const double c[9] = {b[4] * b[8] - b[5] * b[7], b[2] * b[7] - b[1] * b[8], b[1] * b[5] - b[2] * b[4],
                         b[5] * b[6] - b[3] * b[8], b[0] * b[8] - b[2] * b[6], b[2] * b[3] - b[0] * b[5],
                         b[3] * b[7] - b[4] * b[6], b[1] * b[6] - b[0] * b[7], b[0] * b[4] - b[1] * b[3]};
    const double det = b[0] * c[0] + b[1] * c[3] + b[2] * c[6];
    for (int k = 0; k < 9; k++) inverse[k] = c[k] / det;
}

__device__ void lead(const Cell& cell, const Followers& f) {
    double inverse[9];
    invert(cell.box, inverse);
    for (int k = 0; k < 9; k++) {
        f.step[k] = f.step[STEP_WORDS + k] = f.field[k] = f.bonded[k] = cell.box[k];
        f.step[9 + k] = f.step[STEP_WORDS + 9 + k] = inverse[k] * 4294967296.0;
        f.pairs[k] = float(cell.box[k] / 4294967296.0);
        f.pairs[9 + k] = __int_as_float(__double2int_rn(cell.box[k] / double(f.pairs[18])));
    }
    if (!f.mesh) return;
    const double* box = f.mesh_in_user_box ? cell.user_box : cell.box;
    invert(box, f.mesh);
    f.mesh[10] = 1.0 / (PI * volume_of(box));
}

// Factors on lengths along x, y and z.
__device__ void choose_factors(const Barostat& b, const double* pressure, double volume, unsigned long long step,
                               double* factors) {
    const double ones[3] = {1.0, 1.0, 1.0};
    const Uniforms u = uniforms(b.seed, STREAM_BAROSTAT, step, 0);
    const double numbers[3] = {normal(u), sqrt(-2.0 * log(u.of[2])) * cos(TWO_PI * u.of[3]),
                               sqrt(-2.0 * log(u.of[0])) * sin(TWO_PI * u.of[1])};
    for (int d = 0; d < 3; d++) {
        const double strain = -b.soft[d] * (b.wanted[d] - b.over_alike(pressure, ones, d)) / 3.0;
        const double width = sqrt(2.0 * b.kt * b.soft[d] / volume) * b.noise[d];
        factors[d] = b.stochastic ? exp(strain + width * numbers[b.axis[d]]) : 1.0 + strain;
    }
}

// A cell with other lengths along x, y and z; false if the pair list is not good for it, or was not before.
__device__ bool stretch(Cell* cell, const Barostat& b, const double* factors, long long step) {
    if (cell->stopped >= 0) return false;
    for (int d = 0; d < 3; d++) cell->refused[d] = cell->strain[d] * factors[d];
    for (int d = 0; d < 3; d++)
        if (!(cell->refused[d] > b.lowest && cell->refused[d] < b.highest)) {
            cell->stopped = step;
            return false;
        }
    for (int d = 0; d < 3; d++) {
        cell->factors[d] = factors[d];
        cell->strain[d] = cell->refused[d];
        for (int row = 0; row < 9; row += 3) {
            cell->box[row + d] *= factors[d];
            cell->user_box[row + d] *= factors[d];
        }
    }
    return true;
}

// Of Parrinello and Rahman's box, see extended.py.
struct MovingBox {
    double squares[3], mass[3];  // of the vectors; inverse masses

    __device__ MovingBox(const Cell& cell, const Barostat& b) {
        const double* box = cell.user_box;
        const double longest = fmax(box[0], fmax(box[4], box[8]));
        for (int k = 0; k < 3; k++) {
            squares[k] = box[3 * k] * box[3 * k] + box[3 * k + 1] * box[3 * k + 1] + box[3 * k + 2] * box[3 * k + 2];
            mass[k] = b.mass[k] / longest;
        }
    }

    __device__ double energy(const Cell& cell, const Barostat& b, double volume) const {
        const double* r = cell.rates;
        double motion = 0.0;  // a direction of no compressibility stands
        for (int k = 0; k < 3; k++)
            if (mass[k] > 0.0) motion += 0.5 * r[k] * r[k] * squares[k] / mass[k];
        return (motion + (b.wanted[0] + b.wanted[1] + b.wanted[2]) / 3.0 * volume) / BAR;
    }

    __device__ void accelerate(Cell* cell, const Barostat& b, const double* pressure) const {
        const double volume = volume_of(cell->box);
        double pull[3];
        for (int k = 0; k < 3; k++) pull[k] = pressure[k] - b.wanted[k];
        for (int k = 0; k < 3; k++)
            cell->rates[k] += b.interval * volume * mass[k] * b.over_alike(pull, squares, k);
    }
};

// Along x, y and z.
__device__ void split(double all, const double* yz, double* found) {
    found[0] = all - yz[0] - yz[1], found[1] = yz[0], found[2] = yz[1];
}

// sums : the virial, nine of them; constraints : that of constraint forces; both in order of rows
// summed : 1: they are of this step; what its energies need is kept
// couple : 1: the pressure acts; moves : 1: a box that moves goes on, after the pressure was found and before it acts
extern "C" __global__ void scale_cell(const Sum* sums, const Sum* constraints, const Control* control, Cell* cell,
                                      const Barostat* barostat, const Followers* followers, int offset, int summed,
                                      int couple, int moves) {
    const Barostat& b = *barostat;
    const double volume = volume_of(cell->box), unit = FIXED ? 1.0 / ENERGY_SCALE : 1.0;
    const long long step = control->step + offset;
    if (summed) {
        if (b.moves()) cell->work = -MovingBox(*cell, b).energy(*cell, b, volume);
        cell->volume = volume;
        cell->work_then = cell->work;
    }
    double pressure[3], virial[3], kinetic[3], after[3];
    if (couple) {
        split(control->kinetic, control->kinetic_yz, kinetic);
        split(control->after, control->after_yz, after);
        for (int d = 0; d < 3; d++) {
            virial[d] = (double(sums[4 * d]) + double(constraints[4 * d])) * unit + b.background / volume;
            pressure[d] = ((2.0 * kinetic[d] + virial[d]) / volume + b.dispersion_virial / (volume * volume)) * BAR;
        }
    }
    if (moves) {
        double factors[3];
        for (int k = 0; k < 3; k++) factors[k] = 1.0 + b.interval * cell->rates[k];
        if (stretch(cell, b, factors, step)) {
            for (int k = 0; k < 3; k++) cell->rates[k] /= factors[k];
            lead(*cell, *followers);
        }
    }
    if (!couple) return;
    if (b.moves()) {
        MovingBox(*cell, b).accelerate(cell, b, pressure);
        return;
    }
    for (int d = 0; d < 3; d++) cell->factors[d] = 1.0;
    double factors[3];
    choose_factors(b, pressure, volume, step, factors);
    if (!stretch(cell, b, factors, step)) return;
    cell->work += b.dispersion_energy / volume * (1.0 / (factors[0] * factors[1] * factors[2]) - 1.0);
    for (int d = 0; d < 3; d++) {
        const double factor = factors[d];
        cell->work -= (factor - 1.0) * virial[d];
        if (b.stochastic) cell->work += after[d] * (1.0 / (factor * factor) - 1.0);
    }
    lead(*cell, *followers);
}

extern "C" __global__ void lead_followers(const Cell* cell, const Followers* followers) {
    lead(*cell, *followers);
}

// v : (n, 4), nm/ps; divided by the last factors
extern "C" __global__ void scale_velocities(float4* v, int n, const Cell* cell) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n) return;
    const float4 old = v[row];
    const double* f = cell->factors;
    v[row] = make_float4(float(old.x / f[0]), float(old.y / f[1]), float(old.z / f[2]), old.w);
}

// v : (n, 4), nm/ps; what a box that moves takes from them, besides a thermostat
// gid, group : (n,) int32, -1: empty, and coupling group of each atom by global id, null: there is one
// rubbed : 1: the thermostat acts in this step
extern "C" __global__ void drag_velocities(float4* v, int n, const Cell* cell, const Barostat* barostat,
                                           const Control* control, const int* __restrict__ gid,
                                           const int* __restrict__ group, int rubbed) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n || gid[row] < 0) return;
    const Bath& bath = baths_of(control)[group ? group[gid[row]] : 0];
    const double left = rubbed ? 1.0 - bath.loss : 1.0, per = barostat->interval;
    double kept[3];
    for (int d = 0; d < 3; d++) kept[d] = 1.0 - per * cell->rates[d] / left;
    const float4 old = v[row];
    v[row] = make_float4(float(old.x * kept[0]), float(old.y * kept[1]), float(old.z * kept[2]), old.w);
}
