// First atom of each bin, and first supercluster of each column; one block. Atoms for which `max_super` superclusters
// are too few are all left out, and the counter of superclusters is minus the number that they need.
#include "vector.cuh"
#include "columns.cuh"
#include "pair_list.cuh"

constexpr int EACH = 8;  // bins of a thread per turn

extern "C" __global__ void __launch_bounds__(1024)
scan_bins(const ColumnGrid* __restrict__ grid, const int* __restrict__ bin_count, int* bin_start,
          int* __restrict__ column_start, long long* __restrict__ counters, const int max_super) {
  const int n_sets = grid->n_sets, own_columns = grid->columns0 * grid->columns1, slabs = grid->slabs;
  const int n_bins = n_sets * grid->n_bins, n_columns = n_sets * own_columns;
  int offset = 0, total, occupied = 0;
  for (int first = 0; first < n_bins; first += 1024 * EACH) {
    const int start = first + threadIdx.x * EACH;
    int counts[EACH], sum = 0;
#pragma unroll
    for (int k = 0; k < EACH; k++) {
      counts[k] = start + k < n_bins ? bin_count[start + k] : 0;
      sum += counts[k];
      occupied += counts[k] > 0;
    }
    int before = offset + block_exclusive_sum(sum, &total);
#pragma unroll
    for (int k = 0; k < EACH; k++) {
      if (start + k < n_bins) bin_start[start + k] = before;
      before += counts[k];
    }
    offset += total;
  }
  if (threadIdx.x == 0) bin_start[n_bins] = offset;
  __threadfence_block();
  __syncthreads();
  offset = 0;
  for (int first = 0; first < n_columns; first += 1024) {
    const int column = first + threadIdx.x;
    int superclusters = 0;
    if (column < n_columns) superclusters = (bin_start[(column + 1) * slabs] - bin_start[column * slabs] + 63) / 64;
    const int before = offset + block_exclusive_sum(superclusters, &total);
    if (column < n_columns) column_start[column] = before;
    if (column == own_columns) counters[OWNED_SUPERCLUSTERS] = before;
    offset += total;
  }
  block_exclusive_sum(occupied, &total);
  if (threadIdx.x == 0) {
    column_start[n_columns] = offset;
    const bool fits = offset <= max_super;
    counters[SUPERCLUSTERS] = fits ? offset : -offset;
    if (n_columns == own_columns) counters[OWNED_SUPERCLUSTERS] = offset;
    if (!fits) counters[OWNED_SUPERCLUSTERS] = 0;
    counters[OCCUPIED_BINS] = total;
  }
}
