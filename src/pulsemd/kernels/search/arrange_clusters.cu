// Splits the 64 atoms of each supercluster, consecutive in their column, into eight compact clusters; writes the
// arrays of slots and the boxes. A block is a supercluster; each of its two warps has 32 atoms of it, the lower and
// the upper, and divides them in four along the two dimensions of the columns.
//
// Macros: FILLER, the bits of the first parameter of a slot without an atom; GHOSTS, 1: the leaders go along.
#include "vector.cuh"
#include "columns.cuh"
#include "pair_list.cuh"

// Lane order by ascending key within groups of SIZE lanes; equal keys keep their order.
template <int SIZE>
__device__ __forceinline__ int rank_in_group(uint32 key, int lane) {
  const int first = lane & ~(SIZE - 1);
  int rank = first;
#pragma unroll
  for (int k = 0; k < SIZE; k++) {
    const uint32 other = __shfl_sync(ALL_LANES, key, first + k);
    rank += other < key || (other == key && first + k < lane);
  }
  return rank;
}

// Lower and upper end of a component over groups of SIZE lanes.
template <int SIZE>
__device__ __forceinline__ void extremes(uint32& lower, uint32& upper) {
#pragma unroll
  for (int step = SIZE / 2; step > 0; step >>= 1) {
    lower = min(lower, __shfl_xor_sync(ALL_LANES, lower, step));
    upper = max(upper, __shfl_xor_sync(ALL_LANES, upper, step));
  }
}

template <int SIZE>
__device__ __forceinline__ float largest(float value) {
#pragma unroll
  for (int step = SIZE / 2; step > 0; step >>= 1) value = fmaxf(value, __shfl_xor_sync(ALL_LANES, value, step));
  return value;
}

extern "C" __global__ void __launch_bounds__(64)
arrange_clusters(const int4* __restrict__ row_x, const int* __restrict__ row_gid, const int* __restrict__ slot_row,
                 const ColumnGrid* __restrict__ grid, const float* __restrict__ scale_of_box,
                 const float* __restrict__ charge, const float2* __restrict__ parameters_of_atom, int4* __restrict__ x,
                 int* __restrict__ gid, int* __restrict__ source, int* __restrict__ slot_of_gid,
                 float2* __restrict__ parameters, int4* __restrict__ cluster_center, float4* __restrict__ cluster_half,
                 int4* __restrict__ super_center, float4* __restrict__ super_half, uint4* __restrict__ super_extent,
                 long long* __restrict__ counters, const int4* __restrict__ row_leader, int4* __restrict__ leader) {
  __shared__ int order[64];
  __shared__ uint32 ends[2][3][2];
  __shared__ float halves[2][4];
  __shared__ uint32 homes[2];
  const int super = blockIdx.x, lane = threadIdx.x & 31, warp = threadIdx.x >> 5, slot = 64 * super + threadIdx.x;
  if (super >= counters[SUPERCLUSTERS]) {
    gid[slot] = -1;
    source[slot] = -1;
    return;
  }
  const LatticeScale scale = load_scale(scale_of_box);
  const int axis0 = grid->axis0, axis1 = grid->axis1;

  int row = slot_row[slot];
  uint32 key = row >= 0 ? height(row_x[row], axis1, *grid) : 0xffffffffu;
  order[32 * warp + rank_in_group<32>(key, lane)] = row;
  __syncwarp();
  row = order[threadIdx.x];
  key = row >= 0 ? height(row_x[row], axis0, *grid) : 0xffffffffu;
  __syncwarp();
  order[32 * warp + rank_in_group<16>(key, lane)] = row;
  __syncwarp();
  row = order[threadIdx.x];

  // A slot without an atom takes the position of the first atom of its cluster, of its half, of the supercluster.
  const uint32 real = __ballot_sync(ALL_LANES, row >= 0);
  const int in_cluster = __popc(real >> (lane & 24) & 0xffu);
  int shown = row;
  if (row < 0) shown = in_cluster ? order[threadIdx.x & ~7] : real ? order[32 * warp] : slot_row[64 * super];
  int4 position = row_x[shown];
  const int id = row >= 0 ? row_gid[row] : -1;
  position.w = id >= 0 ? __float_as_int(charge[id]) : 0;
  x[slot] = position;
  gid[slot] = id;
  source[slot] = row;
  parameters[slot] = id >= 0 ? parameters_of_atom[id] : make_float2(__int_as_float(FILLER), 0.0f);
  if (id >= 0) slot_of_gid[id] = slot;
  uint32 home = 0;  // bits that some atom of the supercluster has
#if GHOSTS
  const int4 mine = row_leader[shown];
  leader[slot] = mine;
  home = __reduce_or_sync(ALL_LANES, uint32(mine.w));
#endif

  int middle[3];
#pragma unroll
  for (int d = 0; d < 3; d++) {
    uint32 lower = height(position, d, *grid), upper = lower;
    extremes<8>(lower, upper);
    middle[d] = int(lower + (upper - lower) / 2 + grid->start[d]);
    extremes<32>(lower, upper);
    if (lane == 0) ends[warp][d][0] = lower, ends[warp][d][1] = upper;
  }
  const int4 center = make_int4(middle[0], middle[1], middle[2], in_cluster);
  float3 r = to_cartesian<false>(lattice_difference(position, center), scale);
  const float4 half = make_float4(largest<8>(fabsf(r.x)), largest<8>(fabsf(r.y)), largest<8>(fabsf(r.z)), 0.0f);
  if ((lane & 7) == 0) {
    cluster_center[slot / 8] = center;
    cluster_half[slot / 8] = half;
  }

  __syncthreads();
  uint32 extent[3];
#pragma unroll
  for (int d = 0; d < 3; d++) {
    const uint32 lower = min(ends[0][d][0], ends[1][d][0]), upper = max(ends[0][d][1], ends[1][d][1]);
    middle[d] = int(lower + (upper - lower) / 2 + grid->start[d]);
    extent[d] = (upper - lower) / 2 + 1;
  }
  const int4 all_center = make_int4(middle[0], middle[1], middle[2], 0);
  r = to_cartesian<false>(lattice_difference(position, all_center), scale);
  const float radius2 = largest<32>(square_of(r));
  const float reach[3] = {largest<32>(fabsf(r.x)), largest<32>(fabsf(r.y)), largest<32>(fabsf(r.z))};
  if (lane == 0) {
    for (int d = 0; d < 3; d++) halves[warp][d] = reach[d];
    halves[warp][3] = sqrtf(radius2);
    homes[warp] = home;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    float both[4];
    for (int d = 0; d < 4; d++) both[d] = fmaxf(halves[0][d], halves[1][d]);
    super_center[super] = all_center;
    super_half[super] = make_float4(both[0], both[1], both[2], both[3]);
    super_extent[super] = make_uint4(extent[0], extent[1], extent[2], homes[0] | homes[1]);
    atomicMax(counters + SUPER_RADIUS, (long long)(__float_as_uint(both[3])));
    atomicMax(counters + SUPER_EXTENT, (long long)(__float_as_uint(fmaxf(fmaxf(both[0], both[1]), both[2]))));
  }
}
