// Whether a search on the device came out as usual, and what of it is summed over all ranks; what steps launched behind
// it work on, which is emptied if it did not. Macro: THREADS.
#include "vector.cuh"

constexpr int MOST_COLUMNS = 63;

// Values are int64 where `is_wide`, else int32.
struct Check {
  uint64 address;
  long long is_wide, low, high;
};

struct Column {
  uint64 address;
  long long is_wide, n, stride;  // bytes from one value to the next
};

__device__ __forceinline__ long long value_at(uint64 address, bool is_wide) {
  return is_wide ? *reinterpret_cast<const long long*>(address) : *reinterpret_cast<const int*>(address);
}

// sums : (ranks, 1 + n_columns), of each local rank the checks that fail, then the sums of its columns. blockIdx.x: local
// rank.
extern "C" __global__ void __launch_bounds__(THREADS)
    judge_search(const Check* checks, int n_checks, const Column* columns, int n_columns, long long* sums) {
  __shared__ unsigned long long of_block[1 + MOST_COLUMNS];
  for (int k = threadIdx.x; k <= n_columns; k += THREADS) of_block[k] = 0;
  __syncthreads();
  for (int k = threadIdx.x; k < n_checks; k += THREADS) {
    const Check check = checks[blockIdx.x * n_checks + k];
    const long long value = value_at(check.address, check.is_wide);
    if (value < check.low || value > check.high) atomicAdd(of_block, 1ull);
  }
  for (int c = 0; c < n_columns; c++) {
    const Column column = columns[blockIdx.x * n_columns + c];
    long long sum = 0;
    for (long long k = threadIdx.x; k < column.n; k += THREADS)
      sum += value_at(column.address + k * column.stride, column.is_wide);
    if (sum) atomicAdd(of_block + 1 + c, (unsigned long long)(sum));
  }
  __syncthreads();
  for (int k = threadIdx.x; k <= n_columns; k += THREADS) sums[blockIdx.x * (1 + n_columns) + k] = of_block[k];
}

// 4-byte words at `address` and room for a copy; `is_count`: 0 of them is nothing to do.
struct Held {
  uint64 address, copy;
  long long n_words, is_count;
};

// If totals are not as expected, or somebody has given up: copy what steps change, and let them have nothing to do. All
// ranks have the same totals, so all do the same. One block.
extern "C" __global__ void __launch_bounds__(THREADS)
    hold_steps(const long long* totals, const long long* expected, int n_totals, const uint64* abort, const Held* pieces,
               int n_pieces) {
  bool usual = *abort == 0;
  for (int k = threadIdx.x; k < n_totals; k += THREADS) usual = usual && totals[k] == expected[k];
  if (__syncthreads_and(usual)) return;
  for (int p = 0; p < n_pieces; p++) {
    const Held piece = pieces[p];
    uint32 *const words = reinterpret_cast<uint32*>(piece.address), *const copy = reinterpret_cast<uint32*>(piece.copy);
    for (long long k = threadIdx.x; k < piece.n_words; k += THREADS) {
      copy[k] = words[k];
      if (piece.is_count) words[k] = 0;
    }
  }
}

// Put back what was held. One block.
extern "C" __global__ void __launch_bounds__(THREADS)
    release_steps(const Held* pieces, int n_pieces) {
  for (int p = 0; p < n_pieces; p++) {
    const Held piece = pieces[p];
    for (long long k = threadIdx.x; k < piece.n_words; k += THREADS)
      reinterpret_cast<uint32*>(piece.address)[k] = reinterpret_cast<const uint32*>(piece.copy)[k];
  }
}
