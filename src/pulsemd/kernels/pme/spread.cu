// Charges onto the PME mesh: LANES threads an atom, each of the first ORDER takes one plane across the first axis.
//
// FIXED  0: A block has the 64 slots of a supercluster. It sums their charges in shared memory and adds the box that
//           they touch to the mesh: a fifth of the operations in memory that atoms need one by one. Those sums are
//           integers, for which shared memory has fast atomics, in units of 2^-30 of the charges of the block.
//        1: Atoms one by one.

#include "tile.cuh"

// One thread's part of an atom: a plane of the points from `first` on.
struct Part {
    int first[3];
    Real weight;  // of the plane, times the charge
    Spline along_b, along_c;
};

__device__ __forceinline__ Part part_of(const int4 at, Real charge, int plane, const int (&n)[3]) {
    Real a, b, c;
    const int first[3] = {locate(at.x, n[0], a), locate(at.y, n[1], b), locate(at.z, n[2], c)};
    Part part = {{first[0], first[1], first[2]}, 0, Spline(b), Spline(c)};
    const Spline along_a(a);
#pragma unroll
    for (int k = 0; k < ORDER; k++)
        if (plane == k) part.weight = charge * along_a.w[k];
    return part;
}

// `width`: elements of a row of the mesh.
__device__ __forceinline__ void add_part(const Part& p, int plane, Charge* mesh, const int (&n)[3], int width) {
    const int a = wrapped(p.first[0] + plane, n[0]);
    for (int k = 0; k < ORDER; k++) {
        Charge* const line = mesh + ((size_t)a * n[1] + wrapped(p.first[1] + k, n[1])) * width;
        const Real weight = p.weight * p.along_b.w[k];
        for (int c = 0; c < ORDER; c++) {
            const Real value = weight * p.along_c.w[c];
#if FIXED
            add_to(line + wrapped(p.first[2] + c, n[2]), rounded(value, CHARGE_SCALE));
#else
            add_to(line + wrapped(p.first[2] + c, n[2]), value);
#endif
        }
    }
}

#if !FIXED
struct Tile {
    Bounds bounds;
    float charge;  // sum of the sizes
    alignas(16) int sum[ROOM];
};

__device__ __forceinline__ void add_four(float* line, int c, int n, float x, float y, float z, float w) {
#if WHOLE && __CUDA_ARCH__ >= 900
    asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(line + c % n), "f"(x), "f"(y), "f"(z),
                 "f"(w) : "memory");
#else
    add_to(line + c % n, x), add_to(line + (c + 1) % n, y), add_to(line + (c + 2) % n, z), add_to(line + (c + 3) % n, w);
#endif
}

__device__ __forceinline__ void add_tile(const Tile& tile, const Box& box, float* mesh, const int (&n)[3], int width) {
    const float unit = tile.charge * (1.0f / 1073741824.0f);
    for (int k = threadIdx.x; k < box.size() / 4; k += THREADS) {
        const int4 q = reinterpret_cast<const int4*>(tile.sum)[k];
        if ((q.x | q.y | q.z | q.w) == 0) continue;
        const Four four = four_of(box, k, n);
        add_four(mesh + four.row * width, four.c, n[2], unit * q.x, unit * q.y, unit * q.z, unit * q.w);
    }
}

__device__ __forceinline__ void add_to_tile(Tile& tile, const Box& box, const Part& p, const int (&first)[3], int plane) {
    const float scale = 1073741824.0f / tile.charge * p.weight;
    int* line = tile.sum + place_in(box, tile.bounds, first, plane);
#pragma unroll
    for (int k = 0; k < ORDER; k++, line += box.points[2])
#pragma unroll
        for (int c = 0; c < ORDER; c++)
            atomicAdd(line + c, __float2int_rn(scale * p.along_b.w[k] * p.along_c.w[c]));
}
#endif

// x : (n, 4) int32, charge in the fourth word; gid : (n,) int32, -1 in empty slots; counters : see pair_list.cuh, or null
// frame : (9,) int32
// mesh : FIXED (a, b, c) int64; else (a, b, 2 row) float32; added to
extern "C" __global__ void __launch_bounds__(THREADS)
    spread_charges(const int4* __restrict__ x, const int* __restrict__ gid, int n, const long long* counters,
                   const int* __restrict__ frame, Charge* mesh, int n_a, int n_b, int n_c, int row) {
    n = end_of_owned(counters, n);
    const int t = blockIdx.x * THREADS + threadIdx.x, slot = t / LANES, plane = t % LANES, points[3] = {n_a, n_b, n_c};
    const int4 place = slot < n ? on_mesh(x[slot], frame) : make_int4(0, 0, 0, 0);
    const Real charge = slot < n && gid[slot] >= 0 ? __int_as_float(place.w) : 0.0f;
    const Part part = part_of(place, charge, plane, points);
    const bool acts = charge != 0 && plane < ORDER;
#if FIXED
    if (acts) add_part(part, plane, mesh, points, n_c);
#else
    __shared__ Tile tile;
    int first[3] = {part.first[0], part.first[1], part.first[2]};
    if (threadIdx.x == 0) tile.charge = 0;
    if (!find_bounds(tile.bounds, first, acts, points)) return;
    const float size = warp_sum(plane == 0 ? fabsf(charge) : 0.0f);
    if (threadIdx.x % 32 == 0) atomicAdd(&tile.charge, size);
    __syncthreads();
    const Box box = box_of(tile.bounds, points);
    if (box.size() > ROOM) {
        if (acts) add_part(part, plane, mesh, points, 2 * row);
        return;
    }
    for (int k = threadIdx.x; k < box.size() / 4; k += THREADS)
        reinterpret_cast<int4*>(tile.sum)[k] = make_int4(0, 0, 0, 0);
    __syncthreads();
    if (acts) add_to_tile(tile, box, part, first, plane);
    __syncthreads();
    add_tile(tile, box, mesh, points, 2 * row);
#endif
}
