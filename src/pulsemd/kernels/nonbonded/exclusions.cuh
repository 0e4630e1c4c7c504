// What one excluded pair has of long-range electrostatics (see exclusions.py): of a reaction field qq (k_rf r^2 - c_rf)
// within the cut-off, of a lattice sum -qq erf(beta r)/r at any distance.
#pragma once

#include "geometry.cuh"

struct LongRange {      // see exclusions_gpu.py
    double box[9];      // rows a, b, c, nm
    double k_rf, c_rf;  // nm^-3, nm^-1
    double cutoff2;     // nm^2
    double beta;        // nm^-1; 0: reaction field
};

// erf(z)/z and (erf(z)/z - 2/sqrt(pi) exp(-z^2))/z^2, as `correction` of ewald.py.
__device__ __forceinline__ double2 ewald_correction(double z2) {
    constexpr double two_over_root_pi = 1.1283791670955126;
    double energy, force;
    if (z2 < 0.5) {
        double term = two_over_root_pi;
        energy = force = 0.0;
#pragma unroll
        for (int k = 0; k < 16; k++) {
            energy += term * (1.0 / (2 * k + 1));
            force += term * (2.0 / (2 * k + 3));
            term *= z2 * (-1.0 / (k + 1));
        }
    } else {
        const double z = sqrt(z2);
        energy = erf(z) / z;
        force = (energy - two_over_root_pi * exp(-z2)) / z2;
    }
    return make_double2(energy, force);
}

// The forces on an atom, in the type that is stored.
struct StoredForce {
    Force x, y, z;

    __device__ __forceinline__ void operator+=(const StoredForce& other) {
        x += other.x, y += other.y, z += other.z;
    }
};

__device__ __forceinline__ StoredForce operator-(const StoredForce& f) { return {-f.x, -f.y, -f.z}; }

// Force of b on a; exactly opposite for (b, a). The fourth words are the charges times the root of the Coulomb factor.
// `counted`: also add energy and virial.
__device__ __forceinline__ StoredForce exclusion_force(int4 a, int4 b, const LongRange& field, bool counted,
                                                       Sums& sums) {
    const Vec d = difference(a, b, field.box);
    const double r2 = dot(d, d);
    if (r2 >= field.cutoff2) return {0, 0, 0};
    const double qq = (double)__int_as_float(a.w) * (double)__int_as_float(b.w);
    double energy, force_over_r;
    if (field.beta != 0.0) {
        const double2 pair = ewald_correction(field.beta * field.beta * r2);
        energy = -qq * field.beta * pair.x, force_over_r = -qq * (field.beta * field.beta * field.beta) * pair.y;
    } else {
        energy = qq * (field.k_rf * r2 - field.c_rf), force_over_r = -2.0 * field.k_rf * qq;
    }
    const Vec force = force_over_r * d;
    if (ENERGIES && counted) {
        sums.energy(1, energy);
        sums.virial(d, force);
    }
    return {to_force(force.x), to_force(force.y), to_force(force.z)};
}

__device__ __forceinline__ Vec to_vector(const StoredForce& f) { return {f.x * F_UNIT, f.y * F_UNIT, f.z * F_UNIT}; }

__device__ __forceinline__ StoredForce stored_force(const Force* f, int slot) {
#if FIXED
    const longlong2* at = reinterpret_cast<const longlong2*>(f) + 2 * (size_t)slot;
    const longlong2 xy = at[0];
    return {xy.x, xy.y, at[1].x};
#else
    const float4 v = reinterpret_cast<const float4*>(f)[slot];
    return {v.x, v.y, v.z};
#endif
}

__device__ __forceinline__ void store_force(Force* f, int slot, const StoredForce& force) {
#if FIXED
    longlong2* at = reinterpret_cast<longlong2*>(f) + 2 * (size_t)slot;
    at[0] = make_longlong2(force.x, force.y), at[1] = make_longlong2(force.z, 0);
#else
    reinterpret_cast<float4*>(f)[slot] = make_float4(force.x, force.y, force.z, 0.0f);
#endif
}
