// Writes the rows of each bin, in order of arrival.
extern "C" __global__ void fill_bins(const int2* __restrict__ row_bin, const int n_rows,
                                     const int* __restrict__ bin_start, int* __restrict__ binned_row) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= n_rows) return;
  const int2 place = row_bin[row];
  if (place.x >= 0) binned_row[bin_start[place.x] + place.y] = row;
}
