// Forces from the potential on the PME mesh: LANES threads an atom, each of the first ORDER takes one plane.
//
// FIXED  0: A block has the 64 slots of a supercluster, and brings the box of points that they touch to shared memory.
//        1: Atoms read the mesh one by one.

#include "tile.cuh"

// One thread's part of an atom: weight and slope of its plane, and splines along the other axes.
struct Part {
    int first[3];
    Real weight, slope;
    Spline along_b, along_c;
};

__device__ __forceinline__ Part part_of(const int4 at, int plane, const int (&n)[3]) {
    Real a, b, c;
    const int first[3] = {locate(at.x, n[0], a), locate(at.y, n[1], b), locate(at.z, n[2], c)};
    Part part = {{first[0], first[1], first[2]}, 0, 0, Spline(b), Spline(c)};
    const Spline along_a(a);
#pragma unroll
    for (int k = 0; k < ORDER; k++)
        if (plane == k) part.weight = along_a.w[k], part.slope = along_a.slope[k];
    return part;
}

// Adds what a row of the potential gives to the derivatives along the three axes.
template <typename Point>
__device__ __forceinline__ void add_row(const Part& p, int k, Point point, Real (&along)[3]) {
    Real value = 0, rise = 0;
#pragma unroll
    for (int c = 0; c < ORDER; c++) {
        const Real potential = point(c);
        value += p.along_c.w[c] * potential, rise += p.along_c.slope[c] * potential;
    }
    along[0] += p.slope * p.along_b.w[k] * value;
    along[1] += p.weight * p.along_b.slope[k] * value;
    along[2] += p.weight * p.along_b.w[k] * rise;
}

// `width`: elements of a row of the mesh.
__device__ __forceinline__ void read_part(const Part& p, int plane, const Real* __restrict__ mesh, const int (&n)[3],
                                          int width, Real (&along)[3]) {
    const int a = wrapped(p.first[0] + plane, n[0]);
#pragma unroll
    for (int k = 0; k < ORDER; k++) {
        const Real* const line = mesh + ((size_t)a * n[1] + wrapped(p.first[1] + k, n[1])) * width;
        add_row(p, k, [&](int c) { return line[wrapped(p.first[2] + c, n[2])]; }, along);
    }
}

#if !FIXED
struct Tile {
    Bounds bounds;
    alignas(16) float potential[ROOM];
};

__device__ __forceinline__ void fetch_tile(Tile& tile, const Box& box, const float* __restrict__ mesh, const int (&n)[3],
                                           int width) {
    for (int k = threadIdx.x; k < box.size() / 4; k += THREADS) {
        const Four four = four_of(box, k, n);
        const float* const line = mesh + four.row * width;
        float4& target = reinterpret_cast<float4*>(tile.potential)[k];
#if WHOLE
        target = *reinterpret_cast<const float4*>(line + four.c % n[2]);
#else
        target = make_float4(line[four.c % n[2]], line[(four.c + 1) % n[2]], line[(four.c + 2) % n[2]],
                             line[(four.c + 3) % n[2]]);
#endif
    }
}

__device__ __forceinline__ void read_tile(const float* line, int stride, const Part& p, float (&along)[3]) {
#pragma unroll
    for (int k = 0; k < ORDER; k++, line += stride) add_row(p, k, [&](int c) { return line[c]; }, along);
}
#endif

// x : (n, 4) int32, charge in the fourth word; gid : (n,) int32, -1 in empty slots; frame : (9,) int32
// mesh : (a, b, 2 row), potential; inverse : (9,) double, of the box; f : (n, 4), added to
extern "C" __global__ void __launch_bounds__(THREADS)
    gather_forces(const int4* __restrict__ x, const int* __restrict__ gid, int n, const int* __restrict__ frame,
                  const Real* __restrict__ mesh, int n_a, int n_b, int n_c, int row, const double* __restrict__ inverse,
                  Force* f) {
    const int t = blockIdx.x * THREADS + threadIdx.x, slot = t / LANES, plane = t % LANES, points[3] = {n_a, n_b, n_c};
    const int4 place = slot < n ? on_mesh(x[slot], frame) : make_int4(0, 0, 0, 0);
    const Real charge = slot < n && gid[slot] >= 0 ? __int_as_float(place.w) : 0.0f;
    const Part part = part_of(place, plane, points);
    const bool acts = charge != 0 && plane < ORDER;
    Real along[3] = {0, 0, 0};
#if FIXED
    if (acts) read_part(part, plane, mesh, points, 2 * row, along);
#else
    __shared__ Tile tile;
    int first[3] = {part.first[0], part.first[1], part.first[2]};
    if (!find_bounds(tile.bounds, first, acts, points)) return;
    __syncthreads();
    const Box box = box_of(tile.bounds, points);
    if (box.size() <= ROOM) {
        fetch_tile(tile, box, mesh, points, 2 * row);
        __syncthreads();
        if (acts) read_tile(tile.potential + place_in(box, tile.bounds, first, plane), box.points[2], part, along);
    } else if (acts) {
        read_part(part, plane, mesh, points, 2 * row, along);
    }
#endif
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
