// Column grid of a search: two dimensions of the box are divided into columns, the longest into slabs.
#pragma once

// Filled by the host once per search; kept in memory of the device.
struct ColumnGrid {
  int axis0, axis1, axis2;        // the two divided dimensions and the sorted one
  int columns0, columns1, slabs;  // divisions
  int n_bins;                     // columns0 * columns1 * slabs; a column's bins are consecutive
  int n_superclusters;            // room for them
};

__device__ __forceinline__ int component(const int4 x, int axis) { return axis == 0 ? x.x : axis == 1 ? x.y : x.z; }

// Distance from the lower face of the box, in lattice units.
__device__ __forceinline__ unsigned int height(int x) { return (unsigned int)(x) ^ 0x80000000u; }

__device__ __forceinline__ int bin_of(const int4 x, const ColumnGrid& grid) {
  const int c0 = __umulhi(height(component(x, grid.axis0)), grid.columns0);
  const int c1 = __umulhi(height(component(x, grid.axis1)), grid.columns1);
  return (c0 * grid.columns1 + c1) * grid.slabs + __umulhi(height(component(x, grid.axis2)), grid.slabs);
}

// Exclusive prefix sum over a block of 1024 threads; *total becomes the sum over the block.
__device__ __forceinline__ int block_exclusive_sum(int value, int* total) {
  __shared__ int warp_sums[32];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  int sum = value;
#pragma unroll
  for (int step = 1; step < 32; step <<= 1) {
    const int below = __shfl_up_sync(0xffffffffu, sum, step);
    if (lane >= step) sum += below;
  }
  __syncthreads();
  if (lane == 31) warp_sums[warp] = sum;
  __syncthreads();
  if (warp == 0) {
    int all = warp_sums[lane];
#pragma unroll
    for (int step = 1; step < 32; step <<= 1) {
      const int below = __shfl_up_sync(0xffffffffu, all, step);
      if (lane >= step) all += below;
    }
    warp_sums[lane] = all;
  }
  __syncthreads();
  *total = warp_sums[31];
  return sum - value + (warp ? warp_sums[warp - 1] : 0);
}
