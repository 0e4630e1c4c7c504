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
    double rates[2];     // relative rates of lengths along x and y, and along z, of a box that moves, 1/ps
    double refused[3];   // strain that the pair list is not good for
    long long stopped;   // step that would have led to it, -1: none; nothing is scaled from then on
};

struct Barostat {             // of inside (x and y) and z each, see gpu_cell.py
    double soft[2];           // coupling interval / tau_p * compressibility, 1/bar
    double wanted[2];         // bar
    double noise[2];          // share of sqrt(2 kT soft / V) in the logarithm of a factor
    double kt;                // bar nm^3
    double background;        // energy of the background of a net charge times the volume
    double dispersion_energy; // of the long-range correction, times the volume
    double dispersion_virial; // of it, times the volume
    double lowest, highest;   // strain that is allowed
    double interval;          // of coupling, ps
    double mass[2];           // of a box that moves: inverse masses times its longest edge; 0: it does not
    long long seed;
    int isotropic, stochastic;
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

// Factors on lengths along x and y, and along z.
__device__ void choose_factors(const Barostat& b, const double* pressure, double volume, unsigned long long step,
                               double* factors) {
    const double mean = (pressure[0] + pressure[1] + pressure[2]) / 3.0;
    const double found[2] = {b.isotropic ? mean : 0.5 * (pressure[0] + pressure[1]), b.isotropic ? mean : pressure[2]};
    const Uniforms u = uniforms(b.seed, STREAM_BAROSTAT, step, 0);
    const double first = normal(u), second = sqrt(-2.0 * log(u.of[2])) * cos(TWO_PI * u.of[3]);
    const double numbers[2] = {first, b.isotropic ? first : second};
    for (int k = 0; k < 2; k++) {
        const double strain = -b.soft[k] * (b.wanted[k] - found[k]) / 3.0;
        factors[k] = b.stochastic ? exp(strain + sqrt(2.0 * b.kt * b.soft[k] / volume) * b.noise[k] * numbers[k])
                                  : 1.0 + strain;
    }
}

// A cell with other lengths along x and y, and along z; false if the pair list is not good for it, or was not before.
__device__ bool stretch(Cell* cell, const Barostat& b, const double* factors, long long step) {
    if (cell->stopped >= 0) return false;
    for (int d = 0; d < 3; d++) cell->refused[d] = cell->strain[d] * factors[d == 2];
    for (int d = 0; d < 3; d++)
        if (!(cell->refused[d] > b.lowest && cell->refused[d] < b.highest)) {
            cell->stopped = step;
            return false;
        }
    for (int d = 0; d < 3; d++) {
        cell->factors[d] = factors[d == 2];
        cell->strain[d] = cell->refused[d];
        for (int row = 0; row < 9; row += 3) {
            cell->box[row + d] *= factors[d == 2];
            cell->user_box[row + d] *= factors[d == 2];
        }
    }
    return true;
}

// Of Parrinello and Rahman's box, see extended.py.
struct MovingBox {
    double squares[3], mass[2];  // of the vectors; inverse masses

    __device__ MovingBox(const Cell& cell, const Barostat& b) {
        const double* box = cell.user_box;
        const double longest = fmax(box[0], fmax(box[4], box[8]));
        for (int k = 0; k < 3; k++)
            squares[k] = box[3 * k] * box[3 * k] + box[3 * k + 1] * box[3 * k + 1] + box[3 * k + 2] * box[3 * k + 2];
        for (int k = 0; k < 2; k++) mass[k] = b.mass[k] / longest;
    }

    __device__ double energy(const Cell& cell, const Barostat& b, double volume) const {
        const double* r = cell.rates;
        double motion = 0.0;  // a direction of no compressibility stands
        if (mass[0] > 0.0) motion += 0.5 * r[0] * r[0] * (squares[0] + squares[1]) / mass[0];
        if (mass[1] > 0.0) motion += 0.5 * r[1] * r[1] * squares[2] / mass[1];
        return (motion + (2.0 * b.wanted[0] + b.wanted[1]) / 3.0 * volume) / BAR;
    }

    __device__ void accelerate(Cell* cell, const Barostat& b, const double* pressure) const {
        const double inside = pressure[0] + pressure[1] - 2.0 * b.wanted[0], along_z = pressure[2] - b.wanted[1];
        const double both = (inside + along_z) / (squares[0] + squares[1] + squares[2]);
        const double volume = volume_of(cell->box);
        cell->rates[0] += b.interval * volume * mass[0] * (b.isotropic ? both : inside / (squares[0] + squares[1]));
        cell->rates[1] += b.interval * volume * mass[1] * (b.isotropic ? both : along_z / squares[2]);
    }
};

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
        if (b.mass[0] > 0.0 || b.mass[1] > 0.0) cell->work = -MovingBox(*cell, b).energy(*cell, b, volume);
        cell->volume = volume;
        cell->work_then = cell->work;
    }
    double pressure[3], virial[3], after[3];
    if (couple) {
        const double along_z = control->kinetic_z, inside = 0.5 * (control->kinetic - along_z);
        after[0] = after[1] = 0.5 * (control->after - control->after_z), after[2] = control->after_z;
        for (int d = 0; d < 3; d++) {
            virial[d] = (double(sums[4 * d]) + double(constraints[4 * d])) * unit + b.background / volume;
            const double kinetic = d == 2 ? along_z : inside;
            pressure[d] = ((2.0 * kinetic + virial[d]) / volume + b.dispersion_virial / (volume * volume)) * BAR;
        }
    }
    if (moves) {
        const double factors[2] = {1.0 + b.interval * cell->rates[0], 1.0 + b.interval * cell->rates[1]};
        if (stretch(cell, b, factors, step)) {
            for (int k = 0; k < 2; k++) cell->rates[k] /= factors[k];
            lead(*cell, *followers);
        }
    }
    if (!couple) return;
    if (b.mass[0] > 0.0 || b.mass[1] > 0.0) {
        MovingBox(*cell, b).accelerate(cell, b, pressure);
        return;
    }
    for (int d = 0; d < 3; d++) cell->factors[d] = 1.0;
    double factors[2];
    choose_factors(b, pressure, volume, step, factors);
    if (!stretch(cell, b, factors, step)) return;
    cell->work += b.dispersion_energy / volume * (1.0 / (factors[0] * factors[0] * factors[1]) - 1.0);
    for (int d = 0; d < 3; d++) {
        const double factor = factors[d == 2];
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
    const double inside = 1.0 - per * cell->rates[0] / left, along_z = 1.0 - per * cell->rates[1] / left;
    const float4 old = v[row];
    v[row] = make_float4(float(old.x * inside), float(old.y * inside), float(old.z * along_z), old.w);
}
