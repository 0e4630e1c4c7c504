// Prunes a pair list: of the tiles (8 i-slots x 4 j-slots) keeps those with a pair within the inner radius now, in arrays
// of their own beside the list of the search. Entries keep their places and have fewer groups: j-clusters without a
// tile left go, and the others make new groups of four; groups with words, whose clusters are near, stay as they are.
//
// A warp takes an entry; its lanes hold the j-clusters of up to eight groups. Squared distances |i|^2 + |j|^2 - 2 i.j
// relative to the supercluster's centre come from the tensor cores: each value as two float16, the second what the first
// lost (together 22 bits), so that all products of a pair fit the 16 columns of one multiplication of 16 i-slots by
// 8 j-slots. Four lanes bring a slot, each a component or the square.
//
// Macros: WARPS, CHUNK (groups of a full entry), RELATIVE, ORTHORHOMBIC, HALO as in pair_forces.cu; without RELATIVE each
// difference is taken in integers.
#define DEVICE __device__ __forceinline__
#include "vector.cuh"
#include "overlap.cuh"
#include "pair_list.cuh"

#if HALO
#include "step.cuh"
#define POSITIONS const int4*  // other ranks write to them while this kernel waits
#else
#define POSITIONS const int4* __restrict__
#endif

// A word of a position as the second-level cache has it.
DEVICE int current(const int* at) {
#if __CUDA_ARCH__ >= 900
  return __ldcg(at);
#else
  return *at;
#endif
}

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

// Shifts in a bit: whether one of two values is below zero.
DEVICE uint32 next_sign(uint32 bits, float a, float b) {
  return __funnelshift_l(__float_as_uint(a) | __float_as_uint(b), bits, 1);
}

// What a lane brings of a slot: component q of its position relative to the centre, times `factor`; for q = 3 its square.
template <bool DIAGONAL>
struct Component;

template <>
struct Component<true> {  // a lane needs one word of a position
  typedef int Word;
  int center;
  float scale, part_of_square;

  DEVICE Component(const int4* center_at, const LatticeScale& s, int q, float factor)
      : center(reinterpret_cast<const int*>(center_at)[q]),
        scale(factor * (q == 0 ? s.xx : q == 1 ? s.yy : q == 2 ? s.zz : 0.0f)),
        part_of_square(q == 3 ? 1.0f / (factor * factor) : 0.0f) {}

  DEVICE static Word load(const int4* at, int q) { return current(reinterpret_cast<const int*>(at) + q); }

  DEVICE float of(Word x) const {
    const float p = float(int(uint32(x) - uint32(center))) * scale;
    float square = p * p;
    square += __shfl_xor_sync(ALL_LANES, square, 1);
    square += __shfl_xor_sync(ALL_LANES, square, 2);
    return fmaf(square, part_of_square, p);
  }
};

template <>
struct Component<false> {
  typedef int4 Word;
  int4 center;
  LatticeScale scale;
  float factor;
  int q;

  DEVICE Component(const int4* center_at, const LatticeScale& s, int q, float factor)
      : center(*center_at), scale(s), factor(factor), q(q) {}

  DEVICE static Word load(const int4* at, int q) { return current(at); }

  DEVICE float of(const Word& x) const {
    const float3 p = to_cartesian<ORTHORHOMBIC>(lattice_difference(x, center), scale);
    if (q == 3) return square_of(p);
    return factor * (q == 0 ? p.x : q == 1 ? p.y : p.z);
  }
};

DEVICE float distance2(const int4 a, const int4 b, const LatticeScale& scale) {
  return square_of(to_cartesian<ORTHORHOMBIC>(lattice_difference(a, b), scale));
}

extern "C" __global__ void __launch_bounds__(32 * WARPS)
prune_pairs(POSITIONS x, const int4* __restrict__ centers, const float* __restrict__ constants,
            const int4* __restrict__ entries, int entry_capacity, int super_capacity, const int4* __restrict__ groups,
            long long group_capacity, const uint4* __restrict__ masks, const long long* __restrict__ counters,
            int4* __restrict__ kept_entries, int4* __restrict__ kept_groups, uint4* __restrict__ kept_masks, const int wait
#if HALO
            , const int ghost_blocks, const int4* __restrict__ own_entries, const int own_entry_capacity,
            const int own_super_capacity, const int4* __restrict__ own_groups, const long long own_group_capacity,
            const uint4* __restrict__ own_masks, const long long* __restrict__ own_counters,
            int4* __restrict__ own_kept_entries, int4* __restrict__ own_kept_groups, uint4* __restrict__ own_kept_masks,
            const StepRank* halo
#endif
) {
#if HALO
  const bool with_ghosts = blockIdx.x < ghost_blocks;
  const int first = with_ghosts ? blockIdx.x : blockIdx.x - ghost_blocks;
  const int n_blocks = with_ghosts ? ghost_blocks : gridDim.x - ghost_blocks;
  if (!with_ghosts) {
    entries = own_entries, entry_capacity = own_entry_capacity, super_capacity = own_super_capacity;
    groups = own_groups, group_capacity = own_group_capacity, masks = own_masks, counters = own_counters;
    kept_entries = own_kept_entries, kept_groups = own_kept_groups, kept_masks = own_kept_masks;
  }
  if (with_ghosts && !wait_for_rows(*halo)) return;
#else
  const int first = blockIdx.x, n_blocks = gridDim.x;
#endif
  __shared__ int packed_cluster[WARPS][4 * CHUNK];
  __shared__ uint32 packed_mask[WARPS][4 * CHUNK];  // a byte of each half
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const int q = lane & 3, row = lane >> 2;  // of a matrix; a lane has j-cluster q of group `row`
  const uint32 lanes_before = (1u << lane) - 1;
  wait_here(WAIT_FIRST, wait);
  let_later_start();
  const float limit = MARGIN * constants[7];
  const LatticeScale scale = load_scale(constants + 8);
  const bool fits = counters[GROUPS] <= group_capacity && counters[ENTRIES + SIZES - 1] <= entry_capacity;
  const int n_entries = fits ? entries_in_all(counters) : 0;  // else the list is made anew later

  for (int e = WARPS * first + warp; e < n_entries; e += WARPS * n_blocks) {
    const int place = place_of_entry(e, counters, entry_capacity, super_capacity);
    const int4 entry = entries[place];
    const int4* const x_i = x + 64 * entry.x;
#if RELATIVE
    typedef Component<ORTHORHOMBIC> Of;
    const Of of_i(centers + entry.x, scale, q, 1.0f), of_j(centers + entry.x, scale, q, -2.0f);
    Of::Word x_of_i[8];
#pragma unroll
    for (int c = 0; c < 8; c++) x_of_i[c] = Of::load(x_i + 8 * c + row, q);
    uint4 a[4];  // of two i-clusters each: columns h h | l l against H L | H L, and the squares against ones
#pragma unroll
    for (int pair = 0; pair < 4; pair++) {
      const float less = q == 3 ? limit : 0.0f;  // so that the sign of a sum tells
      const uint32 first = parts_of(of_i.of(x_of_i[2 * pair]) - less),
                   second = parts_of(of_i.of(x_of_i[2 * pair + 1]) - less);
      const uint32 low = q == 3 ? 0x3210u : 0x1010u;
      a[pair] = make_uint4(__byte_perm(first, first, low), __byte_perm(second, second, low),
                           q == 3 ? ONES : __byte_perm(first, first, 0x3232u),
                           q == 3 ? ONES : __byte_perm(second, second, 0x3232u));
    }
#endif
    int n_whole = 0, n_packed = 0;
    __syncwarp();
    for (int begin = entry.y; begin < entry.z; begin += 8) {
      const int n_groups = min(8, entry.z - begin);
      const bool mine = row < n_groups;
      const int own = mine ? reinterpret_cast<const int*>(groups + begin)[lane] : 0;
      const uint32 listed = mine ? reinterpret_cast<const uint32*>(masks + begin)[lane] : 0;
      uint32 half0 = 0, half1 = 0;  // of the lane's group: bit 8 * k + c if i-cluster c is near that half of j-cluster k
#if RELATIVE
      Of::Word x_j[4];
#pragma unroll
      for (int k = 0; k < 4; k++) x_j[k] = Of::load(x + 8 * __shfl_sync(ALL_LANES, own, k) + row, q);
#endif
#pragma unroll 1
      for (int g = 0; g < n_groups; g++) {
        uint32 near = 0;  // bit 8 * k + c: a pair of this lane in j-cluster k and i-cluster c is within the radius
#if RELATIVE
        uint32 parts[4];
#pragma unroll
        for (int k = 0; k < 4; k++) {
          parts[k] = parts_of(of_j.of(x_j[k]));
          x_j[k] = Of::load(x + 8 * __shfl_sync(ALL_LANES, own, 4 * g + 4 + k) + row, q);  // of the next group
        }
#endif
#pragma unroll
        for (int k = 3; k >= 0; k--) {
#if RELATIVE
          const uint2 b = make_uint2(q == 3 ? ONES : parts[k], parts[k]);
#else
          const int4* const x_j = x + 8 * __shfl_sync(ALL_LANES, own, 4 * g + k) + 2 * q;
          const int4 j0 = current(x_j), j1 = current(x_j + 1);
#endif
#pragma unroll
          for (int pair = 3; pair >= 0; pair--) {
#if RELATIVE
            const float4 over = multiply(a[pair], b);
#else
            const int4 i0 = current(x_i + 16 * pair + row), i1 = current(x_i + 16 * pair + 8 + row);
            const float4 over = make_float4(distance2(i0, j0, scale) - limit, distance2(i0, j1, scale) - limit,
                                            distance2(i1, j0, scale) - limit, distance2(i1, j1, scale) - limit);
#endif
            near = next_sign(near, over.z, over.w);
            near = next_sign(near, over.x, over.y);
          }
        }
        // Columns 0-3, those of half 0, are with the lanes of which q is 0 or 1.
        const uint32 near0 = __reduce_or_sync(ALL_LANES, q < 2 ? near : 0);
        const uint32 near1 = __reduce_or_sync(ALL_LANES, q < 2 ? 0 : near);
        if (row == g) half0 = near0, half1 = near1;
      }
      half0 &= __shfl_sync(ALL_LANES, listed, lane & 28);
      half1 &= __shfl_sync(ALL_LANES, listed, (lane & 28) + 2);
      const uint32 words = __shfl_sync(ALL_LANES, listed, (lane & 28) + 1) | __shfl_sync(ALL_LANES, listed, lane | 3);
      const uint32 whole = __ballot_sync(ALL_LANES, words != 0 && (half0 | half1) != 0);
      if (whole >> lane & 1) {
        const int to = 4 * (entry.y + n_whole) + __popc(whole & lanes_before);
        reinterpret_cast<int*>(kept_groups)[to] = own;
        reinterpret_cast<uint32*>(kept_masks)[to] = q == 0 ? half0 : q == 2 ? half1 : listed;
      }
      n_whole += __popc(whole) / 4;
      const uint32 mask = words != 0 ? 0 : (half0 >> 8 * q & 0xffu) | (half1 >> 8 * q & 0xffu) << 8;
      const uint32 left = __ballot_sync(ALL_LANES, mask != 0);
      const int to = n_packed + __popc(left & lanes_before);
      if (mask != 0) packed_cluster[warp][to] = own, packed_mask[warp][to] = mask;
      n_packed += __popc(left);
    }
    __syncwarp();
    for (int g = lane; 4 * g < n_packed; g += 32) {
      int cluster[4];
      uint32 half0 = 0, half1 = 0;
#pragma unroll
      for (int k = 0; k < 4; k++) {
        const int item = min(4 * g + k, n_packed - 1);
        cluster[k] = packed_cluster[warp][item];
        if (4 * g + k >= n_packed) continue;
        half0 |= (packed_mask[warp][item] & 0xffu) << 8 * k;
        half1 |= (packed_mask[warp][item] >> 8) << 8 * k;
      }
      kept_groups[entry.y + n_whole + g] = make_int4(cluster[0], cluster[1], cluster[2], cluster[3]);
      kept_masks[entry.y + n_whole + g] = make_uint4(half0, 0, half1, 0);
    }
    if (lane == 0) kept_entries[place] = make_int4(entry.x, entry.y, entry.y + n_whole + (n_packed + 3) / 4, 0);
  }
  wait_here(WAIT_LAST, wait);
}
