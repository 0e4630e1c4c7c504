// The box of mesh points that the atoms of a block touch, for blocks that work on it in shared memory.
#pragma once

#include "mesh.cuh"

constexpr int ROOM = 3072;  // points of a box; blocks that touch more take their atoms one by one

// Offsets of the first points of the block's atoms from `origin`, which any point of the neighborhood is good for.
struct Bounds {
    int origin[3], low[3], high[3];
};

// Where the box is: its first point on the mesh, at a whole vector of four if rows are, and its points along each axis,
// along the last a multiple of 4.
struct Box {
    int start[3], points[3];
    int lead;  // points before those that are touched

    __device__ __forceinline__ int size() const { return points[0] * points[1] * points[2]; }
};

// The shorter way around.
__device__ __forceinline__ int offset(int point, int origin, int n) {
    const int d = point - origin;
    return d > n / 2 ? d - n : d < -(n / 2) ? d + n : d;
}

// All threads of a block. first : first points of the thread's atom, in: on the mesh, out: as offsets
// acts : the atom counts; returns whether any of the block does
__device__ __forceinline__ bool find_bounds(Bounds& bounds, int (&first)[3], bool acts, const int (&n)[3]) {
    if (threadIdx.x < 3) bounds.low[threadIdx.x] = 1 << 30, bounds.high[threadIdx.x] = -(1 << 30);
    if (threadIdx.x == 0)
        for (int d = 0; d < 3; d++) bounds.origin[d] = first[d];
    if (!__syncthreads_or(acts)) return false;
    for (int d = 0; d < 3; d++) {
        first[d] = offset(first[d], bounds.origin[d], n[d]);
        const int low = __reduce_min_sync(ALL_LANES, acts ? first[d] : 1 << 30),
                  high = __reduce_max_sync(ALL_LANES, acts ? first[d] : -(1 << 30));
        if (threadIdx.x % 32 == 0) atomicMin(&bounds.low[d], low), atomicMax(&bounds.high[d], high);
    }
    return true;
}

__device__ __forceinline__ Box box_of(const Bounds& bounds, const int (&n)[3]) {
    Box box;
    for (int d = 0; d < 3; d++) {
        const int start = bounds.origin[d] + bounds.low[d];
        box.start[d] = start < 0 ? start + n[d] : wrapped(start, n[d]);
        box.points[d] = bounds.high[d] - bounds.low[d] + ORDER;
    }
    box.lead = WHOLE ? box.start[2] & 3 : 0;
    box.start[2] -= box.lead;
    box.points[2] = (box.points[2] + box.lead + 3) & ~3;
    return box;
}

// Element of the box at a plane of an atom; `first` are the offsets of `find_bounds`.
__device__ __forceinline__ int place_in(const Box& box, const Bounds& bounds, const int (&first)[3], int plane) {
    const int a = first[0] - bounds.low[0] + plane, b = first[1] - bounds.low[1], c = first[2] - bounds.low[2] + box.lead;
    return (a * box.points[1] + b) * box.points[2] + c;
}

// A row of the box and the vector of four in it, number k: its row of the mesh and its point there.
struct Four {
    size_t row;
    int c;
};

__device__ __forceinline__ Four four_of(const Box& box, int k, const int (&n)[3]) {
    const int fours = box.points[2] / 4, row = k / fours, a = row / box.points[1], b = row - a * box.points[1];
    return {(size_t)((box.start[0] + a) % n[0]) * n[1] + (box.start[1] + b) % n[1], box.start[2] + 4 * (k - row * fours)};
}
