// Column grid of a search: two dimensions of the box are divided into columns, the longest into slabs. A rank of
// several has the grid twice: its own atoms in the first set of columns, its ghosts in a second one behind it.
#pragma once

// How a dimension is divided: a rank's cell evenly, and the shell of ghosts above the cell evenly. A dimension that is
// not split is all cell.
struct Division {
  unsigned int lower, cell;              // height of the cell's lower face, width
  unsigned int cell_scale, shell_scale;  // 2^32 times divisions over width
  int n_cell, n_shell;                   // divisions
};

// Filled by the host when it changes; kept in memory of the device.
struct ColumnGrid {
  int axis0, axis1, axis2;        // the two divided dimensions and the sorted one
  int columns0, columns1, slabs;  // divisions
  int n_bins;                     // columns0 * columns1 * slabs; a column's bins are consecutive
  int n_sets;                     // 1, or 2 with ghosts
  int split;                      // bit d: dimension d is split over ranks
  unsigned int start[3];          // lattice position of height 0 along x, y, z: the lower face, or far from all atoms
  Division division[3];           // of axis0, axis1, axis2
};

__device__ __forceinline__ int component(const int4 x, int axis) { return axis == 0 ? x.x : axis == 1 ? x.y : x.z; }

// Distance along a dimension from where it begins, in lattice units.
__device__ __forceinline__ unsigned int height(const int4 x, int axis, const ColumnGrid& grid) {
  return (unsigned int)(component(x, axis)) - grid.start[axis];
}

// Number of the division that holds a height; grows with it.
__device__ __forceinline__ int division_of(unsigned int height, const Division& d) {
  if (height < d.lower) return 0;
  const unsigned int above = height - d.lower;
  if (above < d.cell) return min(int(__umulhi(above, d.cell_scale)), d.n_cell - 1);
  return d.n_cell + min(int(__umulhi(above - d.cell, d.shell_scale)), d.n_shell - 1);
}

__device__ __forceinline__ int bin_of(const int4 x, const ColumnGrid& grid) {
  const int c0 = division_of(height(x, grid.axis0, grid), grid.division[0]);
  const int c1 = division_of(height(x, grid.axis1, grid), grid.division[1]);
  return (c0 * grid.columns1 + c1) * grid.slabs + division_of(height(x, grid.axis2, grid), grid.division[2]);
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
