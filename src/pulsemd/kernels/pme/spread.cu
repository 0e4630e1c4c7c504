// Charges onto the PME mesh: LANES threads an atom, each of the first ORDER takes one plane across the first axis.
//
// FIXED  0: A block has the 64 atoms of a supercluster, which are neighbors in space. It sums them in shared memory,
//           over the box of points that they touch together, and adds that box to the mesh: a fifth of the operations
//           in memory that atoms need one by one. Those sums are integers, for which shared memory has fast atomics,
//           in units of 2^-30 of the charges of the block. If the box is too large atoms go to the mesh one by one.
//        1: Atoms one by one.

#include "mesh.cuh"

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
constexpr int ROOM = 3072;  // points of a tile

// The box of points that a block touches. Offsets of points are from `origin`, which any point of the
// neighborhood is good for, the shorter way around.
struct Tile {
    int origin[3], low[3], high[3];
    float charge;  // sum of the sizes
    alignas(16) int sum[ROOM];
};

// Where a tile is: its first point on the mesh, at a whole vector of four if rows are, and its points along each axis.
struct Extent {
    int start[3], points[3];
    int lead;  // points before those that are touched
};

__device__ __forceinline__ int offset(int point, int origin, int n) {
    const int d = point - origin;
    return d > n / 2 ? d - n : d < -(n / 2) ? d + n : d;
}

__device__ __forceinline__ void find_extent(Tile& tile, const int (&at)[3], float charge, bool counts) {
    for (int d = 0; d < 3; d++) {
        const int low = __reduce_min_sync(ALL_LANES, counts ? at[d] : 1 << 30),
                  high = __reduce_max_sync(ALL_LANES, counts ? at[d] : -(1 << 30));
        if (threadIdx.x % 32 == 0) atomicMin(&tile.low[d], low), atomicMax(&tile.high[d], high);
    }
    charge = warp_sum(counts ? fabsf(charge) : 0.0f);
    if (threadIdx.x % 32 == 0) atomicAdd(&tile.charge, charge);
}

__device__ __forceinline__ Extent extent_of(const Tile& tile, const int (&n)[3]) {
    Extent e;
    for (int d = 0; d < 3; d++) {
        const int start = tile.origin[d] + tile.low[d];
        e.start[d] = start < 0 ? start + n[d] : wrapped(start, n[d]);
        e.points[d] = tile.high[d] - tile.low[d] + ORDER;
    }
    e.lead = WHOLE ? e.start[2] & 3 : 0;
    e.start[2] -= e.lead;
    e.points[2] = (e.points[2] + e.lead + 3) & ~3;
    return e;
}

__device__ __forceinline__ void add_four(float* line, int c, int n, float x, float y, float z, float w) {
#if WHOLE && __CUDA_ARCH__ >= 900
    asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(line + c % n), "f"(x), "f"(y), "f"(z),
                 "f"(w) : "memory");
#else
    add_to(line + c % n, x), add_to(line + (c + 1) % n, y), add_to(line + (c + 2) % n, z), add_to(line + (c + 3) % n, w);
#endif
}

__device__ __forceinline__ void add_tile(const Tile& tile, const Extent& e, float* mesh, const int (&n)[3], int width) {
    const int fours = e.points[2] / 4, total = e.points[0] * e.points[1] * fours;
    const float unit = tile.charge * (1.0f / 1073741824.0f);
    for (int k = threadIdx.x; k < total; k += THREADS) {
        const int4 q = reinterpret_cast<const int4*>(tile.sum)[k];
        if ((q.x | q.y | q.z | q.w) == 0) continue;
        const int row = k / fours, a = row / e.points[1], b = row - a * e.points[1];
        float* const line = mesh + ((size_t)((e.start[0] + a) % n[0]) * n[1] + (e.start[1] + b) % n[1]) * width;
        add_four(line, e.start[2] + 4 * (k - row * fours), n[2], unit * q.x, unit * q.y, unit * q.z, unit * q.w);
    }
}

__device__ __forceinline__ void add_to_tile(Tile& tile, const Extent& e, const Part& p, const int (&at)[3], int plane) {
    const float scale = 1073741824.0f / tile.charge * p.weight;
    const int a = at[0] - tile.low[0] + plane, b = at[1] - tile.low[1], c = at[2] - tile.low[2] + e.lead;
    int* line = tile.sum + (a * e.points[1] + b) * e.points[2] + c;
#pragma unroll
    for (int k = 0; k < ORDER; k++, line += e.points[2])
#pragma unroll
        for (int i = 0; i < ORDER; i++)
            atomicAdd(line + i, __float2int_rn(scale * p.along_b.w[k] * p.along_c.w[i]));
}
#endif

// x : (n, 4) int32, charge in the fourth word; gid : (n,) int32, -1 in empty slots; frame : (9,) int32
// mesh : FIXED (a, b, c) int64; else (a, b, 2 row) float32; added to
extern "C" __global__ void __launch_bounds__(THREADS)
    spread_charges(const int4* __restrict__ x, const int* __restrict__ gid, int n, const int* __restrict__ frame,
                   Charge* mesh, int n_a, int n_b, int n_c, int row) {
    const int t = blockIdx.x * THREADS + threadIdx.x, slot = t / LANES, plane = t % LANES, points[3] = {n_a, n_b, n_c};
    const int4 place = slot < n ? on_mesh(x[slot], frame) : make_int4(0, 0, 0, 0);
    const Real charge = slot < n && gid[slot] >= 0 ? __int_as_float(place.w) : 0.0f;
    const Part part = part_of(place, charge, plane, points);
    const bool acts = charge != 0 && plane < ORDER;
#if FIXED
    if (acts) add_part(part, plane, mesh, points, n_c);
#else
    __shared__ Tile tile;
    if (threadIdx.x < 3) tile.low[threadIdx.x] = 1 << 30, tile.high[threadIdx.x] = -(1 << 30);
    if (threadIdx.x == 0) {
        tile.charge = 0;
        for (int d = 0; d < 3; d++) tile.origin[d] = part.first[d];
    }
    if (!__syncthreads_or(acts)) return;
    int at[3];
    for (int d = 0; d < 3; d++) at[d] = offset(part.first[d], tile.origin[d], points[d]);
    find_extent(tile, at, charge, acts && plane == 0);
    __syncthreads();
    const Extent extent = extent_of(tile, points);
    const int room = extent.points[0] * extent.points[1] * extent.points[2];
    if (room > ROOM) {
        if (acts) add_part(part, plane, mesh, points, 2 * row);
        return;
    }
    for (int k = threadIdx.x; k < room / 4; k += THREADS) reinterpret_cast<int4*>(tile.sum)[k] = make_int4(0, 0, 0, 0);
    __syncthreads();
    if (acts) add_to_tile(tile, extent, part, at, plane);
    __syncthreads();
    add_tile(tile, extent, mesh, points, 2 * row);
#endif
}
