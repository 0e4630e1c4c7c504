// Forces from the potential on the PME mesh: LANES threads an atom. SIDE of them are side by side along the last axis,
// with four points each, so that together they read a row at once; groups of them take every ROW_GROUPS-th row of a plane.
//
// Rows are read as vectors of four where they are WHOLE. Bringing the points of a block to shared memory first, as for
// spreading, measured slower: neighbors find them in the first cache anyway.

#include "mesh.cuh"

constexpr int VECTORS = (ORDER + 6) / 4;  // vectors of four that ORDER points beginning anywhere touch
constexpr int SIDE = VECTORS <= 2 ? 2 : 4, ROW_GROUPS = LANES / SIDE, MOST_ROWS = (ORDER + ROW_GROUPS - 1) / ROW_GROUPS;
constexpr int PADDED = 4 * SIDE;

struct Four {
    Real at[4];
};

// The four of `values` moved up by 0 to 3 places, zeros around them, that are at 4 `side`.
__device__ __forceinline__ Four part_of(const Real (&values)[ORDER], int by, int side) {
    Real padded[PADDED];
#pragma unroll
    for (int k = 0; k < PADDED; k++) padded[k] = k < ORDER ? values[k] : Real(0);
    const bool one = by & 1, two = by & 2;
#pragma unroll
    for (int k = PADDED - 1; k > 0; k--) padded[k] = one ? padded[k - 1] : padded[k];
    if (one) padded[0] = 0;
#pragma unroll
    for (int k = PADDED - 1; k > 1; k--) padded[k] = two ? padded[k - 2] : padded[k];
    if (two) padded[0] = padded[1] = 0;
    Four part;
#pragma unroll
    for (int k = 0; k < 4; k++) {
        part.at[k] = padded[k];
#pragma unroll
        for (int s = 1; s < SIDE; s++)
            if (side == s) part.at[k] = padded[4 * s + k];
    }
    return part;
}

// Points of a row from c on; c may be up to 4 beyond the end.
__device__ __forceinline__ Four load_four(const Real* __restrict__ row, int c, int n_c) {
#if !WHOLE
    return {row[wrapped(c, n_c)], row[wrapped(c + 1, n_c)], row[wrapped(c + 2, n_c)], row[wrapped(c + 3, n_c)]};
#elif FIXED
    const double2 low = reinterpret_cast<const double2*>(row + c)[0], high = reinterpret_cast<const double2*>(row + c)[1];
    return {low.x, low.y, high.x, high.y};
#else
    const float4 all = *reinterpret_cast<const float4*>(row + c);
    return {all.x, all.y, all.z, all.w};
#endif
}

// x : (n, 4) int32, charge in the fourth word; gid : (n,) int32, -1 in empty slots; counters : see pair_list.cuh, or null
// frame : (9,) int32
// mesh : (a, b, 2 row), potential; inverse : (9,) double, of the box; f : (n, 4), added to
extern "C" __global__ void __launch_bounds__(THREADS)
    gather_forces(const int4* __restrict__ x, const int* __restrict__ gid, int n, const long long* counters,
                  const int* __restrict__ frame, const Real* __restrict__ mesh, int n_a, int n_b, int n_c, int row,
                  const double* __restrict__ inverse, Force* f) {
    n = end_of_owned(counters, n);
    const int t = blockIdx.x * THREADS + threadIdx.x, slot = t / LANES, side = t % SIDE, group = t % LANES / SIDE;
    const bool here = slot < n && gid[slot] >= 0;
    const int4 at = here ? on_mesh(x[slot], frame) : make_int4(0, 0, 0, 0);
    const Real charge = __int_as_float(at.w);
    Real fraction_a, fraction_b, fraction_c;
    const int first_a = locate(at.x, n_a, fraction_a), first_b = locate(at.y, n_b, fraction_b),
              first_c = locate(at.z, n_c, fraction_c), shift = WHOLE ? first_c & 3 : 0, base = first_c - shift + 4 * side;
    Real along[3] = {0, 0, 0};
    if (charge != 0 && base < first_c + ORDER) {
        const Spline along_a(fraction_a), along_b(fraction_b), along_c(fraction_c);
        const Four values = part_of(along_c.w, shift, side), slopes = part_of(along_c.slope, shift, side);
        Real weight_b[MOST_ROWS] = {}, slope_b[MOST_ROWS] = {};
        int start[MOST_ROWS];
#pragma unroll
        for (int k = 0; k < MOST_ROWS; k++) {
#pragma unroll
            for (int g = 0; g < ROW_GROUPS; g++)
                if (group == g && ROW_GROUPS * k + g < ORDER)
                    weight_b[k] = along_b.w[ROW_GROUPS * k + g], slope_b[k] = along_b.slope[ROW_GROUPS * k + g];
            start[k] = wrapped(first_b + ROW_GROUPS * k + group, n_b) * 2 * row;
        }
        const int c = wrapped(base, n_c);
#pragma unroll
        for (int a = 0; a < ORDER; a++) {
            const Real* const plane = mesh + (size_t)wrapped(first_a + a, n_a) * n_b * (2 * row);
            Real value = 0, climb = 0, rise = 0;
#pragma unroll
            for (int k = 0; k < MOST_ROWS; k++) {
                if (ROW_GROUPS * k + group >= ORDER) continue;
                const Four four = load_four(plane + start[k], c, n_c);
                Real sum = 0, slope = 0;
#pragma unroll
                for (int i = 0; i < 4; i++) sum += values.at[i] * four.at[i], slope += slopes.at[i] * four.at[i];
                value += weight_b[k] * sum, climb += slope_b[k] * sum, rise += weight_b[k] * slope;
            }
            along[0] += along_a.slope[a] * value, along[1] += along_a.w[a] * climb, along[2] += along_a.w[a] * rise;
        }
    }
#pragma unroll
    for (int step = LANES / 2; step > 0; step /= 2)
#pragma unroll
        for (int d = 0; d < 3; d++) along[d] += __shfl_xor_sync(ALL_LANES, along[d], step);
    if (charge == 0 || t % LANES != 0) return;
    const double a = -(double)charge * n_a * along[0], b = -(double)charge * n_b * along[1],
                 c = -(double)charge * n_c * along[2];
    add_vector(f + 4 * (size_t)slot, to_force(inverse[0] * a + inverse[1] * b + inverse[2] * c),
               to_force(inverse[3] * a + inverse[4] * b + inverse[5] * c),
               to_force(inverse[6] * a + inverse[7] * b + inverse[8] * c));
}
