// What happens to each wave on the mesh: its structure factor becomes the transform of the potential, and on energy
// steps it adds to energy and virial (lattice_sum.py).
#pragma once

#include "mesh.cuh"
#include "dft.cuh"

struct Lattice {         // see gpu.py
    double inverse[9];   // of the box, 1/nm: the wave vector of (a, b, c) is inverse times it
    double width;        // (pi/beta)^2, nm^2
    double scale;        // 1/(pi V), nm^-3
};

#if FIXED
__device__ __forceinline__ Real exponential(Real x) { return exp(x); }
#else
__device__ __forceinline__ Real exponential(Real x) { return __expf(x); }
#endif

// Wave number of an element of a transform of n points.
__device__ __forceinline__ Real wave(int k, int n) { return Real(2 * k >= n ? k - n : k); }

// What each thread has of the waves that it solves.
struct Solver {
    Real m[9], width, scale;
    Sum sums[10] = {};  // energy and virial

    __device__ __forceinline__ explicit Solver(const Lattice* __restrict__ lattice) {
#pragma unroll
        for (int k = 0; k < 9; k++) m[k] = Real(lattice->inverse[k]);
        width = Real(lattice->width), scale = Real(lattice->scale);
    }

    // factor : what splines do to the wave; twice : the wave stands for its opposite too; first : it is (0, 0, 0)
    __device__ __forceinline__ Complex solve(Complex s, Real wa, Real wb, Real wc, Real factor, bool twice, bool first) {
        const Real x = m[0] * wa + m[1] * wb + m[2] * wc, y = m[3] * wa + m[4] * wb + m[5] * wc,
                   z = m[6] * wa + m[7] * wb + m[8] * wc, square = x * x + y * y + z * z;
        const Real green = first ? Real(0) : scale * exponential(-width * square) / square * factor;
        if (ENERGIES && !first) {
            const double each = (twice ? 1.0 : 0.5) * green * (double(s.x) * s.x + double(s.y) * s.y);
            const double stretched = -2.0 * (1.0 + double(width) * square) / square * each;
            sums[0] += to_sum(each);
            sums[1] += to_sum(each + stretched * x * x), sums[2] += to_sum(stretched * x * y);
            sums[3] += to_sum(stretched * x * z), sums[4] += to_sum(stretched * y * x);
            sums[5] += to_sum(each + stretched * y * y), sums[6] += to_sum(stretched * y * z);
            sums[7] += to_sum(stretched * z * x), sums[8] += to_sum(stretched * z * y);
            sums[9] += to_sum(each + stretched * z * z);
        }
        return green * s;
    }

    // All threads of a warp, after the last wave. energy, virial : one and nine sums, added to with ENERGIES
    __device__ __forceinline__ void add_sums(Sum* energy, Sum* virial) const {
        if (ENERGIES) {
            add_of_warp(energy, sums[0]);
            for (int k = 0; k < 9; k++) add_of_warp(virial + k, sums[k + 1]);
        }
    }
};
