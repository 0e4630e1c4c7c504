// Charges onto the PME mesh: LANES threads an atom, each takes one plane across the first axis and, for splines of a
// higher order, its share of the rows of the other planes.
//
// FIXED  0: A block has the 64 slots of a supercluster. It sums their charges in shared memory and adds the box that
//           they touch to the mesh: a fifth of the operations in memory that atoms need one by one. Those sums are
//           integers, for which shared memory has fast atomics, in units of 2^-30 of the charges of the block.
//        1: Atoms one by one.

#include "tile.cuh"

constexpr int SHARED_ROWS = (ORDER - LANES) * ORDER, ROWS = ORDER + (SHARED_ROWS + LANES - 1) / LANES;

// One thread's part of an atom: rows of the points from `first` on.
struct Part {
    int first[3];
    int a[ROWS], b[ROWS];  // place of a row from there
    Real weight[ROWS];     // times the charge; 0: no row
    Spline along_c;
};

__device__ __forceinline__ Part part_of(const int4 at, Real charge, int lane, const int (&n)[3]) {
    Real a, b, c;
    const int first[3] = {locate(at.x, n[0], a), locate(at.y, n[1], b), locate(at.z, n[2], c)};
    Part part = {{first[0], first[1], first[2]}, {}, {}, {}, Spline(c)};
    const Spline along_a(a), along_b(b);
#pragma unroll
    for (int l = 0; l < LANES; l++) {
        if (lane != l) continue;
#pragma unroll
        for (int k = 0; k < ROWS; k++) {
            const int shared = l + LANES * (k - ORDER);
            if (k >= ORDER && shared >= SHARED_ROWS) continue;
            part.a[k] = k < ORDER ? l : LANES + shared / ORDER, part.b[k] = k < ORDER ? k : shared % ORDER;
            part.weight[k] = charge * along_a.w[part.a[k]] * along_b.w[part.b[k]];
        }
    }
    return part;
}

// `width`: elements of a row of the mesh.
__device__ __forceinline__ void add_part(const Part& p, Charge* mesh, const int (&n)[3], int width) {
#pragma unroll
    for (int k = 0; k < ROWS; k++) {
        if (p.weight[k] == 0) continue;
        Charge* const line =
            mesh + ((size_t)wrapped(p.first[0] + p.a[k], n[0]) * n[1] + wrapped(p.first[1] + p.b[k], n[1])) * width;
        for (int c = 0; c < ORDER; c++) {
            const Real value = p.weight[k] * p.along_c.w[c];
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

__device__ __forceinline__ void add_four(float* line, int c, const Divisor& n, float x, float y, float z, float w) {
#if WHOLE && __CUDA_ARCH__ >= 900
    asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(line + c % n), "f"(x), "f"(y), "f"(z),
                 "f"(w) : "memory");
#else
    add_to(line + c % n, x), add_to(line + (c + 1) % n, y), add_to(line + (c + 2) % n, z), add_to(line + (c + 3) % n, w);
#endif
}

__device__ __forceinline__ void add_tile(const Tile& tile, const Box& box, float* mesh, const int (&n)[3], int width) {
    const float unit = tile.charge * (1.0f / 1073741824.0f);
    const Divisor fours(box.points[2] / 4), rows(box.points[1]), n_a(n[0]), n_b(n[1]), n_c(n[2]);
    for (int k = threadIdx.x; k < box.size() / 4; k += THREADS) {
        const int4 q = reinterpret_cast<const int4*>(tile.sum)[k];
        if ((q.x | q.y | q.z | q.w) == 0) continue;
        const int line = k / fours, a = (box.start[0] + line / rows) % n_a, b = (box.start[1] + line % rows) % n_b;
        add_four(mesh + ((size_t)a * n[1] + b) * width, box.start[2] + 4 * (k % fours), n_c, unit * q.x, unit * q.y,
                 unit * q.z, unit * q.w);
    }
}

__device__ __forceinline__ void add_to_tile(Tile& tile, const Box& box, const Part& p, const int (&first)[3]) {
    const float scale = 1073741824.0f / tile.charge;
    int* const point = tile.sum + place_in(box, tile.bounds, first);
#pragma unroll
    for (int k = 0; k < ROWS; k++) {
        const float weight = scale * p.weight[k];
        if (k >= ORDER && weight == 0) continue;
        int* const line = point + (p.a[k] * box.points[1] + p.b[k]) * box.points[2];
#pragma unroll
        for (int c = 0; c < ORDER; c++) atomicAdd(line + c, __float2int_rn(weight * p.along_c.w[c]));
    }
}
#endif

// x : (n, 4) int32, charge in the fourth word; gid : (n,) int32, -1 in empty slots; counters : see pair_list.cuh, or null
// frame : (9,) int32
// mesh : FIXED (a, b, c) int64; else (a, b, 2 row) float32; added to
extern "C" __global__ void __launch_bounds__(THREADS)
    spread_charges(const int4* __restrict__ x, const int* __restrict__ gid, int n, const long long* counters,
                   const int* __restrict__ frame, Charge* mesh, int n_a, int n_b, int n_c, int row) {
    n = end_of_owned(counters, n);
    const int t = blockIdx.x * THREADS + threadIdx.x, slot = t / LANES, lane = t % LANES, points[3] = {n_a, n_b, n_c};
    const int4 place = slot < n ? on_mesh(x[slot], frame) : make_int4(0, 0, 0, 0);
    const Real charge = slot < n && gid[slot] >= 0 ? __int_as_float(place.w) : 0.0f;
    const Part part = part_of(place, charge, lane, points);
    const bool acts = charge != 0;
#if FIXED
    if (acts) add_part(part, mesh, points, n_c);
#else
    __shared__ Tile tile;
    int first[3] = {part.first[0], part.first[1], part.first[2]};
    if (threadIdx.x == 0) tile.charge = 0;
    if (!find_bounds(tile.bounds, first, acts, points)) return;
    const float size = warp_sum(lane == 0 ? fabsf(charge) : 0.0f);
    if (threadIdx.x % 32 == 0) atomicAdd(&tile.charge, size);
    __syncthreads();
    const Box box = box_of(tile.bounds, points);
    if (box.size() > ROOM) {
        if (acts) add_part(part, mesh, points, 2 * row);
        return;
    }
    for (int k = threadIdx.x; k < box.size() / 4; k += THREADS)
        reinterpret_cast<int4*>(tile.sum)[k] = make_int4(0, 0, 0, 0);
    __syncthreads();
    if (acts) add_to_tile(tile, box, part, first);
    __syncthreads();
    add_tile(tile, box, mesh, points, 2 * row);
#endif
}
