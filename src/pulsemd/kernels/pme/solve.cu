// Structure factors become the transform of the potential; on energy steps also energy and virial (lattice_sum.py).

#include "mesh.cuh"

struct Lattice {         // see gpu.py
    double inverse[9];   // of the box, 1/nm: the wave vector of (a, b, c) is inverse times it
    double width;        // (pi/beta)^2, nm^2
    double scale;        // 1/(pi V), nm^-3
};

#if FIXED
__device__ __forceinline__ Real exponential(Real x) { return exp(x); }
struct alignas(16) Complex { Real x, y; };
#else
__device__ __forceinline__ Real exponential(Real x) { return __expf(x); }
struct alignas(8) Complex { Real x, y; };
#endif

// Wave number of an element of a transform of n points.
__device__ __forceinline__ Real wave(int k, int n) { return Real(2 * k >= n ? k - n : k); }

// mesh : (a, b, row) complex, updated; factor_a, factor_b, factor_c : what splines do to each wave (mesh.py)
// energy, virial : one and nine sums, added to with ENERGIES
extern "C" __global__ void __launch_bounds__(THREADS)
    solve_mesh(Complex* mesh, int n_a, int n_b, int n_c, int row, const Lattice* __restrict__ lattice,
               const Real* __restrict__ factor_a, const Real* __restrict__ factor_b, const Real* __restrict__ factor_c,
               Sum* energy, Sum* virial) {
    const int half = n_c / 2 + 1, total = n_a * n_b * half;
    Real m[9];
#pragma unroll
    for (int k = 0; k < 9; k++) m[k] = Real(lattice->inverse[k]);
    const Real width = Real(lattice->width), scale = Real(lattice->scale);
    Sum sums[10] = {};
    for (int k = blockIdx.x * THREADS + threadIdx.x; k < total; k += gridDim.x * THREADS) {
        const int line = k / half, c = k - line * half, a = line / n_b, b = line - a * n_b;
        const Real wa = wave(a, n_a), wb = wave(b, n_b), wc = Real(c);
        const Real x = m[0] * wa + m[1] * wb + m[2] * wc, y = m[3] * wa + m[4] * wb + m[5] * wc,
                   z = m[6] * wa + m[7] * wb + m[8] * wc, square = x * x + y * y + z * z;
        const Real green =
            k == 0 ? Real(0) : scale * exponential(-width * square) / square * factor_a[a] * factor_b[b] * factor_c[c];
        Complex& at = mesh[(size_t)line * row + c];
        const Complex s = at;
        at.x = s.x * green, at.y = s.y * green;
        if (ENERGIES && k > 0) {
            const bool once = c == 0 || 2 * c == n_c;  // the other waves stand for their opposites too
            const double each = (once ? 0.5 : 1.0) * green * (double(s.x) * s.x + double(s.y) * s.y);
            const double stretched = -2.0 * (1.0 + double(width) * square) / square * each;
            sums[0] += to_sum(each);
            sums[1] += to_sum(each + stretched * x * x), sums[2] += to_sum(stretched * x * y);
            sums[3] += to_sum(stretched * x * z), sums[4] += to_sum(stretched * y * x);
            sums[5] += to_sum(each + stretched * y * y), sums[6] += to_sum(stretched * y * z);
            sums[7] += to_sum(stretched * z * x), sums[8] += to_sum(stretched * z * y);
            sums[9] += to_sum(each + stretched * z * z);
        }
    }
    if (ENERGIES) {
        add_of_warp(energy, sums[0]);
        for (int k = 0; k < 9; k++) add_of_warp(virial + k, sums[k + 1]);
    }
}
