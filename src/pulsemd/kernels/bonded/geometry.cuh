// What the kernels of terms and of the update share: rows of lattice positions and forces, differences, and sums in
// either precision.
//
// FIXED      1: forces and sums in int64 fixed point (reproducible mode); 0: float32 forces, float64 sums
// ENERGIES   1: also energies and virials
// X_WORDS    int32 words of a row of positions, 3 or 4; the fourth is left alone
// F_WORDS    words of a row of forces, 3 or 4
#pragma once

#if FIXED
typedef long long Force;
typedef long long Sum;
#else
typedef float Force;
typedef double Sum;
#endif

constexpr double FORCE_SCALE = 4294967296.0;     // fixed point of forces, units per kJ/mol/nm
constexpr double ENERGY_SCALE = 1048576.0;       // fixed point of energies and virials, units per kJ/mol
constexpr double MOMENTUM_SCALE = 4294967296.0;  // fixed point of momenta, units per amu nm/ps
constexpr double LATTICE = 1.0 / 4294967296.0;   // cell edges per lattice unit
constexpr double F_UNIT = FIXED ? 1.0 / FORCE_SCALE : 1.0;
constexpr unsigned ALL_LANES = 0xffffffffu;

struct Vec {
    double x, y, z;
};

__device__ __forceinline__ Vec operator+(Vec a, Vec b) { return {a.x + b.x, a.y + b.y, a.z + b.z}; }
__device__ __forceinline__ Vec operator-(Vec a, Vec b) { return {a.x - b.x, a.y - b.y, a.z - b.z}; }
__device__ __forceinline__ Vec operator-(Vec a) { return {-a.x, -a.y, -a.z}; }
__device__ __forceinline__ Vec operator*(double s, Vec a) { return {s * a.x, s * a.y, s * a.z}; }
__device__ __forceinline__ double dot(Vec a, Vec b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
__device__ __forceinline__ Vec cross(Vec a, Vec b) {
    return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}

// ---- rows -------------------------------------------------------------------------------------------------------

__device__ __forceinline__ int3 load_position(const int* __restrict__ x, int row) {
#if X_WORDS == 4
    const int4 p = reinterpret_cast<const int4*>(x)[row];
    return make_int3(p.x, p.y, p.z);
#else
    return make_int3(x[3 * row], x[3 * row + 1], x[3 * row + 2]);
#endif
}

__device__ __forceinline__ void store_position(int* x, int row, int3 p) {
    x[X_WORDS * row] = p.x;
    x[X_WORDS * row + 1] = p.y;
    x[X_WORDS * row + 2] = p.z;
}

__device__ __forceinline__ Vec load_force(const Force* f, int row) {  // kJ/mol/nm
    const Force* at = f + (size_t)F_WORDS * row;
    return {at[0] * F_UNIT, at[1] * F_UNIT, at[2] * F_UNIT};
}

// Minimum-image vector from b to a in nm: the int32 difference wraps around, which is the periodic boundary. `box` has
// the rows a, b, c. Exactly odd in (a, b).
__device__ __forceinline__ Vec difference(int3 a, int3 b, const double* __restrict__ box) {
    const double sx = (int)((unsigned)a.x - (unsigned)b.x) * LATTICE;
    const double sy = (int)((unsigned)a.y - (unsigned)b.y) * LATTICE;
    const double sz = (int)((unsigned)a.z - (unsigned)b.z) * LATTICE;
    return {sx * box[0] + sy * box[3] + sz * box[6], sx * box[1] + sy * box[4] + sz * box[7],
            sx * box[2] + sy * box[5] + sz * box[8]};
}

// ---- sums -------------------------------------------------------------------------------------------------------

__device__ __forceinline__ long long to_fixed(double value, double scale) { return __double2ll_rn(value * scale); }

__device__ __forceinline__ Sum to_sum(double energy) {
#if FIXED
    return to_fixed(energy, ENERGY_SCALE);
#else
    return energy;
#endif
}

__device__ __forceinline__ void add(float* at, float value) { atomicAdd(at, value); }
__device__ __forceinline__ void add(double* at, double value) { atomicAdd(at, value); }
__device__ __forceinline__ void add(long long* at, long long value) {  // two's complement: unsigned addition is the same
    atomicAdd(reinterpret_cast<unsigned long long*>(at), static_cast<unsigned long long>(value));
}

template <typename T>
__device__ __forceinline__ T warp_sum(T value) {
    for (int lanes = 16; lanes > 0; lanes /= 2) value += __shfl_xor_sync(ALL_LANES, value, lanes);
    return value;
}

// Add one value of each lane to `at`; all lanes of the warp must call it.
template <typename T>
__device__ __forceinline__ void add_of_warp(T* at, T value) {
    value = warp_sum(value);
    if (threadIdx.x % 32 == 0 && value != 0) add(at, value);
}

// Energy and virial of one thread's terms, [0] and [1] energies, then the nine elements of sum r (x) f.
struct Sums {
    Sum of[11] = {};

    __device__ __forceinline__ void energy(int slot, double value) {
        if (ENERGIES) of[slot] += to_sum(value);
    }
    __device__ __forceinline__ void virial(Vec r, Vec f) {
        if (!ENERGIES) return;
        of[2] += to_sum(r.x * f.x), of[3] += to_sum(r.x * f.y), of[4] += to_sum(r.x * f.z);
        of[5] += to_sum(r.y * f.x), of[6] += to_sum(r.y * f.y), of[7] += to_sum(r.y * f.z);
        of[8] += to_sum(r.z * f.x), of[9] += to_sum(r.z * f.y), of[10] += to_sum(r.z * f.z);
    }
};

// Add `force` to row i and its negative to row j. In fixed point both get the same integer, so momentum is exact.
__device__ __forceinline__ void add_pair(Force* f, int i, int j, Vec force) {
    Force* fi = f + (size_t)F_WORDS * i;
    Force* fj = f + (size_t)F_WORDS * j;
    const double values[3] = {force.x, force.y, force.z};
    for (int d = 0; d < 3; d++) {
#if FIXED
        const Force value = to_fixed(values[d], FORCE_SCALE);
#else
        const Force value = values[d];
#endif
        add(fi + d, value);
        add(fj + d, -value);
    }
}
