// The waves of a mesh that a library transforms; see waves.cuh.

#include "waves.cuh"

// mesh : (a, b, row) complex, updated; factor_a, factor_b, factor_c : what splines do to each wave (mesh.py)
// energy, virial : one and nine sums, added to with ENERGIES
extern "C" __global__ void __launch_bounds__(THREADS)
    solve_mesh(Complex* mesh, int n_a, int n_b, int n_c, int row, const Lattice* __restrict__ lattice,
               const Real* __restrict__ factor_a, const Real* __restrict__ factor_b, const Real* __restrict__ factor_c,
               Sum* energy, Sum* virial) {
    const int half = n_c / 2 + 1, total = n_a * n_b * half;
    Solver solver(lattice);
    for (int k = blockIdx.x * THREADS + threadIdx.x; k < total; k += gridDim.x * THREADS) {
        const int line = k / half, c = k - line * half, a = line / n_b, b = line - a * n_b;
        Complex& at = mesh[(size_t)line * row + c];
        at = solver.solve(at, wave(a, n_a), wave(b, n_b), Real(c), factor_a[a] * factor_b[b] * factor_c[c],
                          c != 0 && 2 * c != n_c, k == 0);
    }
    solver.add_sums(energy, virial);
}
