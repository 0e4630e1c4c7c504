// What the kernels of the PME mesh share: where an atom touches it, and B-splines.
//
// FIXED    1: charges on the mesh are int64, everything else is float64 (reproducible mode); 0: float32
// ORDER    of the B-splines: points along each axis that an atom touches
// WHOLE    1: n_c is a multiple of 4, so that rows are read and written as vectors of four; 0: one by one
#pragma once

#include "geometry.cuh"
#include "pair_list.cuh"

#if FIXED
typedef double Real;
typedef long long Charge;
constexpr double CHARGE_SCALE = 1099511627776.0;  // 2^40, units of charge on the mesh
#else
typedef float Real;
typedef float Charge;
#endif

// Lattice position on the mesh; `frame` as in mesh.py. Modulo 2^32, so exact.
__device__ __forceinline__ int4 on_mesh(int4 x, const int* __restrict__ frame) {
    const uint32 a = x.x, b = x.y, c = x.z;
    return make_int4(int(a * frame[0] + b * frame[3] + c * frame[6]), int(a * frame[1] + b * frame[4] + c * frame[7]),
                     int(a * frame[2] + b * frame[5] + c * frame[8]), x.w);
}

// First point that an atom touches along an axis, and the fraction of a spacing from there: exact, by the upper and
// the lower word of the lattice position times the number of points.
__device__ __forceinline__ int locate(int x, int n, Real& fraction) {
    const uint64 product = (uint64)(uint32)x * (uint32)n;
    fraction = Real(uint32(product)) * Real(1.0 / 4294967296.0);
    return int(product >> 32);
}

// Weights of the points that an atom touches, and their derivatives; see splines.py.
struct Spline {
    Real w[ORDER], slope[ORDER];

    __device__ __forceinline__ explicit Spline(Real fraction) {
        w[0] = Real(1) - fraction, w[1] = fraction;
#pragma unroll
        for (int n = 3; n <= ORDER; n++) {
            if (n == ORDER) {
                slope[0] = -w[0];
#pragma unroll
                for (int k = 1; k < ORDER - 1; k++) slope[k] = w[k - 1] - w[k];
                slope[ORDER - 1] = w[ORDER - 2];
            }
            const Real scale = Real(1.0 / (n - 1));
            w[n - 1] = scale * fraction * w[n - 2];
#pragma unroll
            for (int k = n - 2; k > 0; k--)
                w[k] = scale * ((fraction + Real(n - 1 - k)) * w[k - 1] + (Real(k + 1) - fraction) * w[k]);
            w[0] = scale * (Real(1) - fraction) * w[0];
        }
    }
};

__device__ __forceinline__ int wrapped(int k, int n) { return k < n ? k : k - n; }
