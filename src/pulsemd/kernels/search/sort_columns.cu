// Rank of each atom in its column by (height, global id): a bin holds few atoms, so each counts those below it.
// n_atoms : the most there may be
// n_slots : size of `slot_row`; rows beyond it are of a search that `scan_bins` gave up
#include "vector.cuh"
#include "columns.cuh"

extern "C" __global__ void sort_columns(const int4* __restrict__ row_x, const int* __restrict__ row_gid,
                                        const int2* __restrict__ row_bin, const int n_atoms,
                                        const ColumnGrid* __restrict__ grid, const int* __restrict__ bin_start,
                                        const int* __restrict__ column_start, const int* __restrict__ binned_row,
                                        int* __restrict__ slot_row, const int n_slots) {
  const int place = blockIdx.x * blockDim.x + threadIdx.x;
  if (place >= min(n_atoms, bin_start[grid->n_sets * grid->n_bins])) return;
  const int row = binned_row[place], bin = row_bin[row].x, axis = grid->axis2, slabs = grid->slabs;
  const int first = bin_start[bin], last = bin_start[bin + 1], id = row_gid[row];
  const uint32 above = height(row_x[row], axis, *grid);
  int rank = 0;
  for (int other = first; other < last; other++) {
    const int neighbor = binned_row[other];
    const uint32 h = height(row_x[neighbor], axis, *grid);
    rank += h < above || (h == above && row_gid[neighbor] < id);
  }
  const int column = bin / slabs;
  const int slot = 64 * column_start[column] + first - bin_start[column * slabs] + rank;
  if (slot < n_slots) slot_row[slot] = row;
}
