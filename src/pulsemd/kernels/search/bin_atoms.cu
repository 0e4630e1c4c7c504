// Counts the atoms of each bin, and keeps positions and ids aside, since the arrays of slots are rewritten.
#include "vector.cuh"
#include "columns.cuh"

extern "C" __global__ void bin_atoms(const int4* __restrict__ x, const int* __restrict__ gid, const int n_rows,
                                     const ColumnGrid* __restrict__ grid, int4* __restrict__ row_x,
                                     int* __restrict__ row_gid, int2* __restrict__ row_bin, int* __restrict__ bin_count) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= n_rows) return;
  const int4 position = x[row];
  const int id = gid[row];
  row_x[row] = position;
  row_gid[row] = id;
  int2 place = make_int2(-1, 0);  // bin, and order of arrival in it
  if (id >= 0) {
    place.x = bin_of(position, *grid);
    place.y = atomicAdd(bin_count + place.x, 1);
  }
  row_bin[row] = place;
}
