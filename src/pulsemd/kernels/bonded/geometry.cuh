// What the kernels of terms and of the update share: rows of lattice positions and forces, differences, and sums in
// either precision. Rows are slots: 4 words each of positions and of forces.
//
// FIXED      1: forces and sums in int64 fixed point (reproducible mode); 0: float32 forces, float64 sums
// ENERGIES   1: also energies and virials
#pragma once

#include "fixed_point.cuh"
#include "vector.cuh"

#if FIXED
typedef long long Force;
typedef long long Sum;
#else
typedef float Force;
typedef double Sum;
#endif

constexpr double LATTICE = 1.0 / 4294967296.0;  // cell edges per lattice unit
constexpr double F_UNIT = FIXED ? 1.0 / FORCE_SCALE : 1.0;

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

__device__ __forceinline__ Vec load_force(const float* f, int row) {  // kJ/mol/nm
    const float4 v = reinterpret_cast<const float4*>(f)[row];
    return {v.x, v.y, v.z};
}

__device__ __forceinline__ Vec load_force(const long long* f, int row) {
    const longlong2* at = reinterpret_cast<const longlong2*>(f) + 2 * (size_t)row;
    const longlong2 xy = at[0];
    return {xy.x * F_UNIT, xy.y * F_UNIT, at[1].x * F_UNIT};
}

// Minimum-image vector from b to a in nm: the integer difference wraps around, which is the periodic boundary. `box`
// has the rows a, b, c. Exactly odd in (a, b).
__device__ __forceinline__ Vec difference(int4 a, int4 b, const double* __restrict__ box) {
    const int3 d = lattice_difference(a, b);
    const double x = d.x * LATTICE, y = d.y * LATTICE, z = d.z * LATTICE;
    return {x * box[0] + y * box[3] + z * box[6], x * box[1] + y * box[4] + z * box[7],
            x * box[2] + y * box[5] + z * box[8]};
}

// ---- sums -------------------------------------------------------------------------------------------------------

// A value of any size in fixed point; `to_fixed` is for values below 2^51 / scale.
__device__ __forceinline__ long long rounded(double value, double scale) { return __double2ll_rn(value * scale); }

__device__ __forceinline__ Sum to_sum(double energy) {
#if FIXED
    return rounded(energy, ENERGY_SCALE);
#else
    return energy;
#endif
}

__device__ __forceinline__ Force to_force(double value) {
#if FIXED
    return rounded(value, FORCE_SCALE);
#else
    return value;
#endif
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
    if (threadIdx.x % 32 == 0 && value != 0) add_to(at, value);
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
