// Transforms of small meshes and the solution between them, in three kernels: every plane across the first axis by a
// block, in shared memory; all lines along the first axis, there and back, with the solution in between; every plane
// back. A line of X1 X2 points is transformed in two steps, by threads that have X1 or X2 of its numbers in registers
// (dft.cuh). The point p = p1 X2 + p2 becomes the wave k = k1 + X1 k2 at the place k1 X2 + k2; the way back undoes
// that, so that nothing is ever put in order. Rows of real numbers are transformed as complex ones of half the length.
//
// A1, A2 ...  factors of the points along each axis, of half of them along c
// ROW         complex numbers of a row of the spectrum, at least C1 C2 + 1
// PLANE_THREADS, COLUMN_THREADS; COLUMNS that a block has of the lines along a

#include "waves.cuh"

constexpr int N_A = A1 * A2, N_B = B1 * B2, LENGTH = C1 * C2, HALF = LENGTH + 1;
constexpr int PITCH = HALF | 1;  // odd: neighbors in a column of shared memory are in other banks
constexpr int CHARGE_ROW = FIXED ? 2 * LENGTH : 2 * ROW;

extern __shared__ Complex plane[];  // N_B rows of PITCH numbers

__device__ __forceinline__ Complex take_charges(Charge* pair) {
#if FIXED
    const longlong2 q = *reinterpret_cast<longlong2*>(pair);
    *reinterpret_cast<longlong2*>(pair) = make_longlong2(0, 0);
    return {Real(q.x) * Real(1.0 / CHARGE_SCALE), Real(q.y) * Real(1.0 / CHARGE_SCALE)};
#else
    const float2 q = *reinterpret_cast<float2*>(pair);
    *reinterpret_cast<float2*>(pair) = make_float2(0, 0);
    return {q.x, q.y};
#endif
}

// From the transform of rows as complex numbers to that of the real numbers.
__device__ __forceinline__ void split_rows(const Complex* __restrict__ roots) {
    for (int t = threadIdx.x; t < N_B * (LENGTH / 2 + 1); t += PLANE_THREADS) {
        const int k = t / N_B, other = k == 0 ? LENGTH : LENGTH - k;
        Complex* const row = plane + t % N_B * PITCH;
        Complex& low = row[k % C1 * C2 + k / C1];
        Complex& high = k == 0 ? row[LENGTH] : row[other % C1 * C2 + other / C1];
        const Complex z = low, opposite = k == 0 ? z : high;
        const Complex even = Real(0.5) * (z + conjugate(opposite)), difference = z - conjugate(opposite),
                      odd = Complex{Real(0.5) * difference.y, Real(-0.5) * difference.x} * roots[k];
        low = even + odd, high = conjugate(even - odd);
    }
}

// The way back, times two.
__device__ __forceinline__ void join_rows(const Complex* __restrict__ roots) {
    for (int t = threadIdx.x; t < N_B * (LENGTH / 2 + 1); t += PLANE_THREADS) {
        const int k = t / N_B, other = LENGTH - k;
        Complex* const row = plane + t % N_B * PITCH;
        Complex& low = row[k % C1 * C2 + k / C1];
        Complex& high = k == 0 ? row[LENGTH] : row[other % C1 * C2 + other / C1];
        Complex x = low, opposite = conjugate(high);
        if (k == 0) x.y = opposite.y = 0;
        const Complex even = x + opposite, odd = (x - opposite) * conjugate(roots[k]), turned = {-odd.y, odd.x};
        low = even + turned;
        if (k > 0) high = conjugate(even - turned);
    }
}

// charges : (a, b, CHARGE_ROW), set to zero; spectrum : (a, b, ROW), OUTPUT; roots_n : (n,), exp(-2 pi i k/n)
extern "C" __global__ void __launch_bounds__(PLANE_THREADS)
    transform_planes(Charge* charges, Complex* spectrum, const Complex* __restrict__ roots_b,
                     const Complex* __restrict__ roots_c) {
    charges += (size_t)blockIdx.x * N_B * CHARGE_ROW, spectrum += (size_t)blockIdx.x * N_B * ROW;
    for (int t = threadIdx.x; t < N_B * C2; t += PLANE_THREADS) {
        const int row = t / C2, second = t % C2;
        Complex v[C1];
#pragma unroll
        for (int k = 0; k < C1; k++) v[k] = take_charges(charges + row * CHARGE_ROW + 2 * (k * C2 + second));
        dft<C1, FORWARD>(v);
#pragma unroll
        for (int k = 0; k < C1; k++) plane[row * PITCH + k * C2 + second] = v[k] * roots_c[2 * k * second];
    }
    __syncthreads();
    for (int t = threadIdx.x; t < N_B * C1; t += PLANE_THREADS) {
        Complex* const line = plane + t % N_B * PITCH + t / N_B * C2;
        Complex v[C2];
#pragma unroll
        for (int k = 0; k < C2; k++) v[k] = line[k];
        dft<C2, FORWARD>(v);
#pragma unroll
        for (int k = 0; k < C2; k++) line[k] = v[k];
    }
    __syncthreads();
    split_rows(roots_c);
    __syncthreads();
    for (int t = threadIdx.x; t < HALF * B2; t += PLANE_THREADS) {
        const int second = t / HALF;
        Complex* const line = plane + second * PITCH + t % HALF;
        Complex v[B1];
#pragma unroll
        for (int k = 0; k < B1; k++) v[k] = line[k * B2 * PITCH];
        dft<B1, FORWARD>(v);
#pragma unroll
        for (int k = 0; k < B1; k++) line[k * B2 * PITCH] = v[k] * roots_b[k * second];
    }
    __syncthreads();
    for (int t = threadIdx.x; t < HALF * B1; t += PLANE_THREADS) {
        const int first = t / HALF * B2, column = t % HALF;
        Complex v[B2];
#pragma unroll
        for (int k = 0; k < B2; k++) v[k] = plane[(first + k) * PITCH + column];
        dft<B2, FORWARD>(v);
#pragma unroll
        for (int k = 0; k < B2; k++) spectrum[(first + k) * ROW + column] = v[k];
    }
}

// spectrum : (a, b, ROW), of planes; updated; factor_a, factor_b, factor_c : what splines do to each wave (mesh.py)
// energy, virial : one and nine sums, added to with ENERGIES
extern "C" __global__ void __launch_bounds__(COLUMN_THREADS)
    solve_columns(Complex* spectrum, const Complex* __restrict__ roots_a, const Lattice* __restrict__ lattice,
                  const Real* __restrict__ factor_a, const Real* __restrict__ factor_b,
                  const Real* __restrict__ factor_c, Sum* energy, Sum* virial) {
    __shared__ Complex columns[N_A * COLUMNS];
    constexpr int PLANE = N_B * ROW;
    const int start = blockIdx.x * COLUMNS;
    for (int t = threadIdx.x; t < COLUMNS * A2; t += COLUMN_THREADS) {
        const int column = t % COLUMNS, second = t / COLUMNS;
        if (start + column >= PLANE) continue;
        Complex v[A1];
#pragma unroll
        for (int k = 0; k < A1; k++) v[k] = spectrum[(k * A2 + second) * PLANE + start + column];
        dft<A1, FORWARD>(v);
#pragma unroll
        for (int k = 0; k < A1; k++) columns[(k * A2 + second) * COLUMNS + column] = v[k] * roots_a[k * second];
    }
    __syncthreads();
    Solver solver(lattice);
    for (int t = threadIdx.x; t < COLUMNS * A1; t += COLUMN_THREADS) {
        const int column = t % COLUMNS, first = t / COLUMNS, place = (start + column) % ROW, line = (start + column) / ROW;
        if (place >= HALF || line >= N_B) continue;
        const int b = line / B2 + B1 * (line % B2), c = place == LENGTH ? LENGTH : place / C2 + C1 * (place % C2);
        const Real factor = factor_b[b] * factor_c[c], wb = wave(b, N_B);
        const bool twice = c != 0 && c != LENGTH;
        Complex* const at = columns + first * A2 * COLUMNS + column;
        Complex v[A2];
#pragma unroll
        for (int k = 0; k < A2; k++) v[k] = at[k * COLUMNS];
        dft<A2, FORWARD>(v);
#pragma unroll
        for (int k = 0; k < A2; k++) {
            const int a = first + A1 * k;
            v[k] = solver.solve(v[k], wave(a, N_A), wb, Real(c), factor_a[a] * factor, twice, (a | b | c) == 0);
        }
        dft<A2, INVERSE>(v);
#pragma unroll
        for (int k = 0; k < A2; k++) at[k * COLUMNS] = v[k] * conjugate(roots_a[first * k]);
    }
    __syncthreads();
    for (int t = threadIdx.x; t < COLUMNS * A2; t += COLUMN_THREADS) {
        const int column = t % COLUMNS, second = t / COLUMNS;
        if (start + column >= PLANE) continue;
        Complex v[A1];
#pragma unroll
        for (int k = 0; k < A1; k++) v[k] = columns[(k * A2 + second) * COLUMNS + column];
        dft<A1, INVERSE>(v);
#pragma unroll
        for (int k = 0; k < A1; k++) spectrum[(k * A2 + second) * PLANE + start + column] = v[k];
    }
    solver.add_sums(energy, virial);
}

// mesh : (a, b, ROW) complex, spectra of planes; becomes (a, b, 2 ROW) real
extern "C" __global__ void __launch_bounds__(PLANE_THREADS)
    restore_planes(Complex* mesh, const Complex* __restrict__ roots_b, const Complex* __restrict__ roots_c) {
    mesh += (size_t)blockIdx.x * N_B * ROW;
    for (int t = threadIdx.x; t < HALF * B1; t += PLANE_THREADS) {
        const int first = t / HALF, column = t % HALF;
        Complex v[B2];
#pragma unroll
        for (int k = 0; k < B2; k++) v[k] = mesh[(first * B2 + k) * ROW + column];
        dft<B2, INVERSE>(v);
#pragma unroll
        for (int k = 0; k < B2; k++) plane[(first * B2 + k) * PITCH + column] = v[k] * conjugate(roots_b[first * k]);
    }
    __syncthreads();
    for (int t = threadIdx.x; t < HALF * B2; t += PLANE_THREADS) {
        Complex* const line = plane + t / HALF * PITCH + t % HALF;
        Complex v[B1];
#pragma unroll
        for (int k = 0; k < B1; k++) v[k] = line[k * B2 * PITCH];
        dft<B1, INVERSE>(v);
#pragma unroll
        for (int k = 0; k < B1; k++) line[k * B2 * PITCH] = v[k];
    }
    __syncthreads();
    join_rows(roots_c);
    __syncthreads();
    for (int t = threadIdx.x; t < N_B * C1; t += PLANE_THREADS) {
        const int first = t / N_B;
        Complex* const line = plane + t % N_B * PITCH + first * C2;
        Complex v[C2];
#pragma unroll
        for (int k = 0; k < C2; k++) v[k] = line[k];
        dft<C2, INVERSE>(v);
#pragma unroll
        for (int k = 0; k < C2; k++) line[k] = v[k] * conjugate(roots_c[2 * first * k]);
    }
    __syncthreads();
    for (int t = threadIdx.x; t < N_B * C2; t += PLANE_THREADS) {
        const int row = t / C2, second = t % C2;
        Complex v[C1];
#pragma unroll
        for (int k = 0; k < C1; k++) v[k] = plane[row * PITCH + k * C2 + second];
        dft<C1, INVERSE>(v);
#pragma unroll
        for (int k = 0; k < C1; k++) mesh[row * ROW + k * C2 + second] = v[k];
    }
}
