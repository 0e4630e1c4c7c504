// Charges onto the PME mesh: LANES threads an atom, each of the first ORDER takes one plane across the first axis.

#include "mesh.cuh"

__device__ __forceinline__ void add_four(float* at, float x, float y, float z, float w) {
#if __CUDA_ARCH__ >= 900
    asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(at), "f"(x), "f"(y), "f"(z), "f"(w)
                 : "memory");
#else
    add_to(at, x), add_to(at + 1, y), add_to(at + 2, z), add_to(at + 3, w);
#endif
}

// x : (n, 4) int32, charge in the fourth word; gid : (n,) int32, -1 in empty slots; frame : (9,) int32
// mesh : FIXED (a, b, c) int64; else (a, b, 2 row) float32; added to
extern "C" __global__ void __launch_bounds__(THREADS)
    spread_charges(const int4* __restrict__ x, const int* __restrict__ gid, int n, const int* __restrict__ frame, Charge* mesh, int n_a, int n_b,
                   int n_c, int row) {
    const int t = blockIdx.x * THREADS + threadIdx.x, slot = t / LANES, plane = t % LANES;
    if (slot >= n || plane >= ORDER || gid[slot] < 0) return;
    const int4 at = on_mesh(x[slot], frame);
    const Real charge = __int_as_float(at.w);
    if (charge == 0) return;
    Real fraction_a, fraction_b, fraction_c;
    const int a = wrapped(locate(at.x, n_a, fraction_a) + plane, n_a), first_b = locate(at.y, n_b, fraction_b),
              first_c = locate(at.z, n_c, fraction_c);
    const Spline along_a(fraction_a), along_b(fraction_b), along_c(fraction_c);
    Real weight = 0;
#pragma unroll
    for (int k = 0; k < ORDER; k++)
        if (plane == k) weight = charge * along_a.w[k];
#if !FIXED && WHOLE
    Real values[PADDED];
    const int base = first_c & ~3;
    shifted(along_c.w, first_c & 3, values);
#endif
#pragma unroll
    for (int k = 0; k < ORDER; k++) {
        const int b = wrapped(first_b + k, n_b);
        const Real part = weight * along_b.w[k];
#if FIXED
        Charge* const line = mesh + ((size_t)a * n_b + b) * n_c;
#pragma unroll
        for (int c = 0; c < ORDER; c++)
            add_to(line + wrapped(first_c + c, n_c), rounded(part * along_c.w[c], CHARGE_SCALE));
#elif WHOLE
        Charge* const line = mesh + ((size_t)a * n_b + b) * (2 * row);
#pragma unroll
        for (int v = 0; v < VECTORS; v++)
            if (base + 4 * v < first_c + ORDER)
                add_four(line + wrapped(base + 4 * v, n_c), part * values[4 * v], part * values[4 * v + 1],
                         part * values[4 * v + 2], part * values[4 * v + 3]);
#else
        Charge* const line = mesh + ((size_t)a * n_b + b) * (2 * row);
#pragma unroll
        for (int c = 0; c < ORDER; c++) add_to(line + wrapped(first_c + c, n_c), part * along_c.w[c]);
#endif
    }
}
