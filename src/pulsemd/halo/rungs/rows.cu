// Rows into and out of staging, for exchanges that the host drives.
//
// UNIT   type in which rows are copied: int4 where rows are whole 16 bytes, else int
// NUMBER type of an element, for sums

// Copy row `from[i]` of `source` to row `to[i]` of `target`; a missing list counts 0, 1, 2, ...
extern "C" __global__ void halo_copy_rows(UNIT* target, const int* to, const UNIT* source, const int* from, int n_rows,
                                          int units) {
  const long long total = (long long)n_rows * units;
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < total;
       i += (long long)gridDim.x * blockDim.x) {
    const long long row = i / units, unit = i - row * units;
    target[(to ? to[row] : row) * (long long)units + unit] = source[(from ? from[row] : row) * (long long)units + unit];
  }
}

// Add row `from[i]` of `source` to row `to[i]` of `target`. A row may be named twice.
extern "C" __global__ void halo_add_rows(NUMBER* target, const int* to, const NUMBER* source, const int* from,
                                         int n_rows, int width) {
  const long long total = (long long)n_rows * width;
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < total;
       i += (long long)gridDim.x * blockDim.x) {
    const long long row = i / width, column = i - row * width;
    atomicAdd(target + to[row] * (long long)width + column, source[from[row] * (long long)width + column]);
  }
}

// total[k] = slots[0] + slots[1] + ... in rank order, for each of n_local ranks: the same bits everywhere.
extern "C" __global__ void halo_sum_slots(const NUMBER* slots, NUMBER* total, int size, int width, int n_local) {
  for (int column = threadIdx.x; column < width; column += blockDim.x) {
    NUMBER sum = slots[column];
    for (int rank = 1; rank < size; ++rank) sum += slots[(long long)rank * width + column];
    for (int local = 0; local < n_local; ++local) total[(long long)local * width + column] = sum;
  }
}

// total[i] = what all processes have there, in their order, for a piece of `count` elements from `first` on; `own` is set
// to zero. Row p of `parts` has the piece of process p; the own one, of process `me`, is in `own`.
extern "C" __global__ void halo_add_parts(const NUMBER* parts, NUMBER* own, NUMBER* total, long long size,
                                          long long first, long long count, int n_processes, int me) {
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < size; i += (long long)gridDim.x * blockDim.x) {
    const long long k = i - first;
    if (k >= 0 && k < count) {
      NUMBER sum = 0;
      for (int p = 0; p < n_processes; ++p) sum += p == me ? own[i] : parts[p * count + k];
      total[i] = sum;
    }
    own[i] = 0;
  }
}
