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

// Element of the box at the first point of an atom; `first` are the offsets of `find_bounds`.
__device__ __forceinline__ int place_in(const Box& box, const Bounds& bounds, const int (&first)[3]) {
    const int a = first[0] - bounds.low[0], b = first[1] - bounds.low[1], c = first[2] - bounds.low[2] + box.lead;
    return (a * box.points[1] + b) * box.points[2] + c;
}

// Quotient and remainder of numbers from 0 to 2^20, by a multiplication.
struct Divisor {
    int n;
    float inverse;

    __device__ __forceinline__ explicit Divisor(int n) : n(n), inverse(1.0f / n) {}
};

__device__ __forceinline__ int operator/(int k, const Divisor& d) { return int((k + 0.5f) * d.inverse); }
__device__ __forceinline__ int operator%(int k, const Divisor& d) { return k - k / d * d.n; }
