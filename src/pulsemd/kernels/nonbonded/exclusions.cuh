// Reaction field of one excluded pair: energy qq (k_rf r^2 - c_rf) within the cut-off (see exclusions.py).
#pragma once

#include "geometry.cuh"

struct ReactionField {  // see exclusions_gpu.py
    double box[9];      // rows a, b, c, nm
    double k_rf, c_rf;  // nm^-3, nm^-1
    double cutoff2;     // nm^2
};

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
__device__ __forceinline__ StoredForce exclusion_force(int4 a, int4 b, const ReactionField& field, bool counted,
                                                       Sums& sums) {
    const Vec d = difference(a, b, field.box);
    const double r2 = dot(d, d);
    if (r2 >= field.cutoff2) return {0, 0, 0};
    const double qq = (double)__int_as_float(a.w) * (double)__int_as_float(b.w);
    const Vec force = (-2.0 * field.k_rf * qq) * d;
    if (ENERGIES && counted) {
        sums.energy(1, qq * (field.k_rf * r2 - field.c_rf));
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
