// Forces from the potential on the PME mesh: LANES threads an atom, each of the first ORDER takes one plane.
//
// Rows are read as vectors of four where they are WHOLE. Bringing the points of a block to shared memory first, as for
// spreading, measured slower: neighbors find them in the first cache anyway.

#include "mesh.cuh"

constexpr int VECTORS = (ORDER + 6) / 4;  // vectors of four that ORDER points beginning anywhere touch
constexpr int PADDED = 4 * VECTORS;

// `ORDER` values moved up by 0 to 3 places, zeros around them.
__device__ __forceinline__ void shifted(const Real (&values)[ORDER], int by, Real (&padded)[PADDED]) {
#pragma unroll
    for (int k = 0; k < PADDED; k++) padded[k] = k < ORDER ? values[k] : Real(0);
    const bool one = by & 1, two = by & 2;
#pragma unroll
    for (int k = PADDED - 1; k > 0; k--) padded[k] = one ? padded[k - 1] : padded[k];
    if (one) padded[0] = 0;
#pragma unroll
    for (int k = PADDED - 1; k > 1; k--) padded[k] = two ? padded[k - 2] : padded[k];
    if (two) padded[0] = padded[1] = 0;
}

// x : (n, 4) int32, charge in the fourth word; gid : (n,) int32, -1 in empty slots; counters : see pair_list.cuh, or null
// frame : (9,) int32
// mesh : (a, b, 2 row), potential; inverse : (9,) double, of the box; f : (n, 4), added to
extern "C" __global__ void __launch_bounds__(THREADS)
    gather_forces(const int4* __restrict__ x, const int* __restrict__ gid, int n, const long long* counters,
                  const int* __restrict__ frame, const Real* __restrict__ mesh, int n_a, int n_b, int n_c, int row,
                  const double* __restrict__ inverse, Force* f) {
    n = end_of_owned(counters, n);
    const int t = blockIdx.x * THREADS + threadIdx.x, slot = t / LANES, plane = t % LANES;
    const bool here = slot < n && gid[slot] >= 0;
    const int4 at = here ? on_mesh(x[slot], frame) : make_int4(0, 0, 0, 0);
    const Real charge = __int_as_float(at.w);
    Real along[3] = {0, 0, 0};
    if (charge != 0 && plane < ORDER) {
        Real fraction_a, fraction_b, fraction_c;
        const int a = wrapped(locate(at.x, n_a, fraction_a) + plane, n_a), first_b = locate(at.y, n_b, fraction_b),
                  first_c = locate(at.z, n_c, fraction_c);
        const Spline along_a(fraction_a), along_b(fraction_b), along_c(fraction_c);
        Real w = 0, slope = 0;
#pragma unroll
        for (int k = 0; k < ORDER; k++)
            if (plane == k) w = along_a.w[k], slope = along_a.slope[k];
#if WHOLE
        Real values[PADDED], slopes[PADDED];
        const int base = first_c & ~3;
        shifted(along_c.w, first_c & 3, values);
        shifted(along_c.slope, first_c & 3, slopes);
#endif
#pragma unroll
        for (int k = 0; k < ORDER; k++) {
            const Real* const line = mesh + ((size_t)a * n_b + wrapped(first_b + k, n_b)) * (2 * row);
            Real value = 0, rise = 0;
#if WHOLE
#pragma unroll
            for (int v = 0; v < VECTORS; v++) {
                if (base + 4 * v >= first_c + ORDER) continue;
                const Real* const p = line + wrapped(base + 4 * v, n_c);
                Real four[4];
#if FIXED
                const double2 low = reinterpret_cast<const double2*>(p)[0], high = reinterpret_cast<const double2*>(p)[1];
                four[0] = low.x, four[1] = low.y, four[2] = high.x, four[3] = high.y;
#else
                const float4 all = *reinterpret_cast<const float4*>(p);
                four[0] = all.x, four[1] = all.y, four[2] = all.z, four[3] = all.w;
#endif
#pragma unroll
                for (int i = 0; i < 4; i++) value += values[4 * v + i] * four[i], rise += slopes[4 * v + i] * four[i];
            }
#else
#pragma unroll
            for (int c = 0; c < ORDER; c++) {
                const Real p = line[wrapped(first_c + c, n_c)];
                value += along_c.w[c] * p, rise += along_c.slope[c] * p;
            }
#endif
            along[0] += slope * along_b.w[k] * value;
            along[1] += w * along_b.slope[k] * value;
            along[2] += w * along_b.w[k] * rise;
        }
    }
#pragma unroll
    for (int step = LANES / 2; step > 0; step /= 2)
#pragma unroll
        for (int d = 0; d < 3; d++) along[d] += __shfl_xor_sync(ALL_LANES, along[d], step);
    if (charge == 0 || plane != 0) return;
    const double a = -(double)charge * n_a * along[0], b = -(double)charge * n_b * along[1],
                 c = -(double)charge * n_c * along[2];
    add_vector(f + 4 * (size_t)slot, to_force(inverse[0] * a + inverse[1] * b + inverse[2] * c),
               to_force(inverse[3] * a + inverse[4] * b + inverse[5] * c),
               to_force(inverse[6] * a + inverse[7] * b + inverse[8] * c));
}
