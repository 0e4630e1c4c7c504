// Counts the atoms of each bin, and keeps positions and ids aside, since the arrays of slots are rewritten.
//
// Macro: GHOSTS, 1: rows from `n_owned` on are ghosts, whose bins follow those of the owned atoms.
#include "vector.cuh"
#include "columns.cuh"

// leader : (n_rows,) lattice position of each row's leader and, as fourth word, its home bits; with GHOSTS
// Along a split dimension the leader decides the column, so that atoms that stick out make no columns of their own.
extern "C" __global__ void bin_atoms(const int4* __restrict__ x, const int* __restrict__ gid, const int n_rows,
                                     const ColumnGrid* __restrict__ grid, int4* __restrict__ row_x,
                                     int* __restrict__ row_gid, int2* __restrict__ row_bin, int* __restrict__ bin_count,
                                     const int4* __restrict__ leader, const int n_owned) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= n_rows) return;
  const int4 position = x[row];
  const int id = gid[row];
  row_x[row] = position;
  row_gid[row] = id;
  int2 place = make_int2(-1, 0);  // bin, and order of arrival in it
  if (id >= 0) {
#if GHOSTS
    int4 shown = leader[row];
    const int heights = grid->axis2;
    if (!(grid->split & 1) || heights == 0) shown.x = position.x;
    if (!(grid->split & 2) || heights == 1) shown.y = position.y;
    if (!(grid->split & 4) || heights == 2) shown.z = position.z;
    place.x = bin_of(shown, *grid) + (row < n_owned ? 0 : grid->n_bins);
#else
    place.x = bin_of(position, *grid);
#endif
    place.y = atomicAdd(bin_count + place.x, 1);
  }
  row_bin[row] = place;
}
