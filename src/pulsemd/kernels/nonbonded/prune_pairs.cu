// Prunes a pair list: of the tiles (8 i-slots x 4 j-slots) keeps those with a pair within the inner radius now, and of
// the groups those that have such a tile left, in arrays of their own beside the list of the search.
//
// A block takes an entry, its warps take groups. Squared distances |i|^2 + |j|^2 - 2 i.j relative to the supercluster's
// centre come from the tensor cores: each value as two float16, the second what the first lost (together 22 bits), so
// that all products of a pair fit the 16 columns of one multiplication of 16 i-slots by 8 j-slots.
//
// Macros: WARPS, RELATIVE, ORTHORHOMBIC as in pair_forces.cu; without RELATIVE each difference is taken in integers.
#define DEVICE __device__ __forceinline__
#include "vector.cuh"
#include "pair_list.cuh"

constexpr float MARGIN = 1.0001f;  // the squares are right to 1e-5 of it
constexpr uint32 ONES = 0x3c003c00u;  // two float16

// A value as two float16: the rounded one in the low half, the rest in the high half.
DEVICE uint32 parts_of(float value) {
  unsigned short high, low;
  float rounded;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(high) : "f"(value));
  asm("cvt.f32.f16 %0, %1;" : "=f"(rounded) : "h"(high));
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(low) : "f"(value - rounded));
  return uint32(high) | uint32(low) << 16;
}

// Rows r and r + 8 (r = lane / 4) by columns 2 q and 2 q + 1 (q = lane % 4) of a product of matrices.
DEVICE float4 multiply(const uint4 a, const uint2 b) {
  float4 c;
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %10, %10, %10};"
      : "=f"(c.x), "=f"(c.y), "=f"(c.z), "=f"(c.w)
      : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b.x), "r"(b.y), "f"(0.0f));
  return c;
}

// Component q of a position relative to the centre, times a factor; for q = 3 its square.
DEVICE float component(const int4 x, const int4 center, const LatticeScale& scale, int q, float factor) {
  const float3 p = to_cartesian<ORTHORHOMBIC>(lattice_difference(x, center), scale);
  if (q == 3) return p.x * p.x + p.y * p.y + p.z * p.z;
  return factor * (q == 0 ? p.x : q == 1 ? p.y : p.z);
}

DEVICE float square_of(const int4 a, const int4 b, const LatticeScale& scale) {
  const float3 d = to_cartesian<ORTHORHOMBIC>(lattice_difference(a, b), scale);
  return d.x * d.x + d.y * d.y + d.z * d.z;
}

extern "C" __global__ void __launch_bounds__(32 * WARPS)
prune_pairs(const int4* __restrict__ x, const int4* __restrict__ centers, const int4* __restrict__ entries,
            const int entry_capacity, const int super_capacity, const int4* __restrict__ groups,
            const uint4* __restrict__ masks, const long long* __restrict__ counters,
            const float* __restrict__ constants, int4* __restrict__ kept_entries, int4* __restrict__ kept_groups,
            uint4* __restrict__ kept_masks) {
#if RELATIVE
  __shared__ uint32 of_i[64 * 4];  // parts of the three components and the square of each i-slot
#else
  __shared__ int4 of_i[64];
#endif
  __shared__ int n_kept;
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, q = lane & 3, row = lane >> 2;
  const float limit = MARGIN * constants[7];
  const LatticeScale scale = load_scale(constants + 8);
  const int n_entries = entries_in_all(counters);

  for (int e = blockIdx.x; e < n_entries; e += gridDim.x) {
    const int place = place_of_entry(e, counters, entry_capacity, super_capacity);
    const int4 entry = entries[place];
    const int n_groups = entry.z - entry.y;
    [[maybe_unused]] const int4 center = centers[entry.x];
    __syncthreads();
    if (threadIdx.x == 0) n_kept = 0;
#if RELATIVE
    for (int s = threadIdx.x; s < 64 * 4; s += 32 * WARPS)
      of_i[s] = parts_of(component(x[64 * entry.x + (s >> 2)], center, scale, q, 1.0f));
#else
    for (int s = threadIdx.x; s < 64; s += 32 * WARPS) of_i[s] = x[64 * entry.x + s];
#endif
    __syncthreads();
#if RELATIVE
    uint4 a[4];  // of two i-clusters each: columns h h | l l against H L | H L, and the squares against ones
#pragma unroll
    for (int pair = 0; pair < 4; pair++) {
      const uint32 first = of_i[64 * pair + lane], second = of_i[64 * pair + 32 + lane];
      const uint32 low = q == 3 ? 0x3210u : 0x1010u;
      a[pair] = make_uint4(__byte_perm(first, first, low), __byte_perm(second, second, low),
                           q == 3 ? ONES : __byte_perm(first, first, 0x3232u),
                           q == 3 ? ONES : __byte_perm(second, second, 0x3232u));
    }
#endif

    for (int g = warp; g < n_groups; g += WARPS) {
      const int4 group = groups[entry.y + g];
      const uint4 listed = masks[entry.y + g];
      const int cluster[4] = {group.x, group.y, group.z, group.w};
      uint32 near = 0;  // lane 8 * k + c: which lanes have a pair of j-cluster k and i-cluster c within the radius
#if RELATIVE
      int4 x_j[4];
#pragma unroll
      for (int k = 0; k < 4; k++) x_j[k] = x[8 * cluster[k] + row];
#endif
#pragma unroll
      for (int k = 0; k < 4; k++) {
#if RELATIVE
        const uint32 of_j = parts_of(component(x_j[k], center, scale, q, -2.0f));
        const uint2 b = make_uint2(q == 3 ? ONES : of_j, of_j);
#else
        const int4 j0 = x[8 * cluster[k] + 2 * q], j1 = x[8 * cluster[k] + 2 * q + 1];
#endif
#pragma unroll
        for (int pair = 0; pair < 4; pair++) {
#if RELATIVE
          const float4 r2 = multiply(a[pair], b);
#else
          const int4 i0 = of_i[16 * pair + row], i1 = of_i[16 * pair + 8 + row];
          const float4 r2 = make_float4(square_of(i0, j0, scale), square_of(i0, j1, scale), square_of(i1, j0, scale),
                                        square_of(i1, j1, scale));
#endif
          const uint32 of_first = __ballot_sync(ALL_LANES, fminf(r2.x, r2.y) < limit);
          const uint32 of_second = __ballot_sync(ALL_LANES, fminf(r2.z, r2.w) < limit);
          if (lane == 8 * k + 2 * pair) near = of_first;
          if (lane == 8 * k + 2 * pair + 1) near = of_second;
        }
      }
      // Columns 0-3, those of half 0, are with the lanes of which q is 0 or 1.
      const uint32 half0 = __ballot_sync(ALL_LANES, (near & 0x33333333u) != 0) & listed.x;
      const uint32 half1 = __ballot_sync(ALL_LANES, (near & 0xccccccccu) != 0) & listed.z;
      if (lane == 0 && (half0 | half1) != 0) {
        const int to = entry.y + atomicAdd(&n_kept, 1);
        kept_groups[to] = group;
        kept_masks[to] = make_uint4(half0, listed.y, half1, listed.w);
      }
    }
    __syncthreads();
    if (threadIdx.x == 0) kept_entries[place] = make_int4(entry.x, entry.y, entry.y + n_kept, 0);
  }
}
