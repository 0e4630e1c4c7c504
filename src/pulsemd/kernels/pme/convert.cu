// Charges on the PME mesh from integers to numbers (reproducible mode).

#include "mesh.cuh"

// charges : (a, b, c) int64; mesh : (a, b, 2 row) float64, written
extern "C" __global__ void __launch_bounds__(THREADS)
    convert_charges(const Charge* __restrict__ charges, Real* mesh, int n_rows, int n_c, int row) {
    for (int k = blockIdx.x * THREADS + threadIdx.x; k < n_rows * n_c; k += gridDim.x * THREADS)
        mesh[(size_t)(k / n_c) * (2 * row) + k % n_c] = Real(charges[k]) * Real(1.0 / CHARGE_SCALE);
}
