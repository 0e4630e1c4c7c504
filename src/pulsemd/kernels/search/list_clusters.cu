// The pair list: for every supercluster the j-clusters that have a pair within the list radius with it, in groups of
// four, with masks. A block is a supercluster I. Its threads walk the columns around I and queue the superclusters J
// whose box is near (each pair of superclusters belongs to one of the two); its warps then test the queued ones,
// first box against box, then atom against atom, and collect j-clusters until there are enough for an entry.
//
// The owned atoms of a rank have one list, its ghosts a second one, whose pairs have a ghost: there a supercluster I of
// any kind walks the columns of ghosts, and only the pairs that belong to this rank are listed (ownership.py).
//
// Macros: THREADS, CHUNK (groups of a full entry), EXACT (every half of a group gets a bitmask of the pairs within the
// radius), ORTHORHOMBIC, NONLOCAL (the list of pairs with a ghost); the last three true or false.
#include "vector.cuh"
#include "columns.cuh"
#include "pair_list.cuh"
#include "ownership.cuh"

constexpr int WARPS = THREADS / 32;
constexpr int QUEUE = 40;                        // superclusters tested between two flushes
constexpr int ITEMS = 8 * QUEUE + 4 * CHUNK;     // j-clusters waiting to be written
constexpr int FILTER = 32;                       // words of the filter of excluded partners

struct ListSettings {
  float radius2, radius, half_width;  // nm^2, nm, half of the smallest width of the box
  uint32 reach0, reach1, reach2;      // list radius along each axis of the column grid, lattice units, rounded up
};

struct ListArrays {
  int4* entries;
  int4* groups;
  uint2* masks;
  uint32* words;
  long long* counters;
  long long entry_capacity, group_capacity, word_capacity;
  int super_capacity;
};

// A j-cluster with a pair within the radius. `keep` has for each half and lane the i-clusters whose pair acts.
struct Items {
  int cluster[ITEMS];
  uint32 mask[ITEMS];  // i-clusters of half 0, of half 1 (bits 8-15), whether `keep` matters (bit 16)
  unsigned char keep[ITEMS][64];
  int count;
};

// Squared distance of two boxes given by centre and half extents.
__device__ __forceinline__ float box_distance2(int4 a, float4 half_a, int4 b, float4 half_b, const LatticeScale& scale) {
  const float3 d = to_cartesian<ORTHORHOMBIC>(lattice_difference(a, b), scale);
  const float x = fmaxf(fabsf(d.x) - half_a.x - half_b.x, 0.0f), y = fmaxf(fabsf(d.y) - half_a.y - half_b.y, 0.0f),
              z = fmaxf(fabsf(d.z) - half_a.z - half_b.z, 0.0f);
  return x * x + y * y + z * z;
}

// Whether the pair of superclusters is listed by `mine`; each belongs to one of the two, half of them to each.
__device__ __forceinline__ bool is_mine(int mine, int other) {
  return mine == other || (mine < other) == (((mine ^ other) & 1) != 0);
}

// Divisions of a periodic dimension that an interval reaches.
struct Interval {
  int first, count;
};

__device__ __forceinline__ Interval divisions(uint32 middle, uint32 extent, uint32 reach, const Division& d, int n) {
  const uint64 width = uint64(extent) + reach;
  if (width >= 1u << 31) return {0, n};
  const uint32 lower = middle - uint32(width), upper = middle + uint32(width);
  const int first = division_of(lower, d), last = division_of(upper, d);
  return {first, min(lower > upper ? last - first + n + 1 : last - first + 1, n)};
}

// One thread's walk over the superclusters of its columns.
struct Walk {
  int column;      // number of the column within the neighborhood; advances by THREADS
  int next, last;  // superclusters still to look at
  int next2, last2;  // those beyond the periodic face
};

// Superclusters that hold the atoms of some slabs of a column: first and end.
__device__ __forceinline__ int2 superclusters_of(int column, int first_slab, int end_slab, const ColumnGrid& grid,
                                                 const int* bin_start, const int* column_start) {
  const int base = bin_start[column * grid.slabs];
  const int lower = bin_start[column * grid.slabs + first_slab] - base, upper = bin_start[column * grid.slabs + end_slab] - base;
  if (upper == lower) return make_int2(0, 0);
  return make_int2(column_start[column] + lower / 64, column_start[column] + (upper - 1) / 64 + 1);
}

__device__ __forceinline__ void enter_column(Walk& walk, Interval i0, Interval i1, Interval slabs, const ColumnGrid& grid,
                                             const int* bin_start, const int* column_start) {
  const int c0 = (i0.first + walk.column / i1.count) % grid.columns0;
  const int c1 = (i1.first + walk.column % i1.count) % grid.columns1;
  const int column = c0 * grid.columns1 + c1, end = slabs.first + slabs.count;
  walk.next2 = walk.last2 = 0;
  if (slabs.count == grid.slabs) {
    walk.next = column_start[column];
    walk.last = column_start[column + 1];
    return;
  }
  const int2 main = superclusters_of(column, slabs.first, min(end, grid.slabs), grid, bin_start, column_start);
  walk.next = main.x;
  walk.last = main.y;
  if (end > grid.slabs) {
    const int2 wrapped = superclusters_of(column, 0, end - grid.slabs, grid, bin_start, column_start);
    walk.next2 = wrapped.x;
    walk.last2 = walk.last > walk.next ? min(wrapped.y, main.x) : wrapped.y;  // one may hold atoms of both ends
  }
}

// Writes the last `taken` items as one entry; called by all threads.
__device__ void write_entry(Items& items, int super, int taken, const ListArrays& list) {
  __shared__ long long place[2];
  const int lane = threadIdx.x & 31, n_groups = (taken + 3) / 4, size = (SIZES * n_groups - 1) / CHUNK;
  if (threadIdx.x == 0) {
    place[0] = (long long)(atomicAdd((uint64*)(list.counters + GROUPS), (uint64)(n_groups)));
    place[1] = (long long)(atomicAdd((uint64*)(list.counters + ENTRIES + size), 1ull));
  }
  __syncthreads();
  const long long first = place[0];
  const int base = items.count - taken;
  const bool fits = first + n_groups <= list.group_capacity;
  if (threadIdx.x == 0 && fits && (size < SIZES - 1 || place[1] < list.entry_capacity))
    list.entries[first_of_class(size, int(list.entry_capacity), list.super_capacity) + place[1]] =
        make_int4(super, int(first), int(first) + n_groups, 0);
  for (int part = threadIdx.x >> 5; part < 2 * n_groups; part += WARPS) {
    const int group = part >> 1, half = part & 1;
    uint32 mask = 0, word = 0;
    bool special = EXACT;
    int clusters[4];
#pragma unroll
    for (int k = 0; k < 4; k++) {
      const int item = base + min(4 * group + k, taken - 1);
      const bool padding = 4 * group + k >= taken;
      clusters[k] = items.cluster[item];
      if (!padding) {
        mask |= (items.mask[item] >> (8 * half) & 0xffu) << (8 * k);
        special |= (items.mask[item] >> 16) != 0;
        word |= uint32(items.keep[item][32 * half + lane]) << (8 * k);
      }
    }
    long long number = 0;
    if (special) {
      if (lane == 0) number = 1 + (long long)(atomicAdd((uint64*)(list.counters + WORDS), 1ull));
      number = __shfl_sync(ALL_LANES, number, 0);
      if (number < list.word_capacity) list.words[number * 32 + lane] = word;
    }
    if (lane == 0 && fits) {
      list.masks[2 * (first + group) + half] = make_uint2(mask, uint32(number));
      if (half == 0) list.groups[first + group] = make_int4(clusters[0], clusters[1], clusters[2], clusters[3]);
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) items.count = base;
  __syncthreads();
}

extern "C" __global__ void __launch_bounds__(THREADS, NONLOCAL ? 3 : 4)
list_clusters(const ColumnGrid* __restrict__ column_grid, const ListSettings* __restrict__ list_settings,
              const float* __restrict__ scale_of_box, const int* __restrict__ first_bin,
              const int* __restrict__ first_column, const int4* __restrict__ x, const int* __restrict__ gid,
              const int* __restrict__ slot_of_gid, const int4* __restrict__ cluster_center,
              const float4* __restrict__ cluster_half, const int4* __restrict__ super_center,
              const float4* __restrict__ super_half, const uint4* __restrict__ super_extent,
              const long long* __restrict__ exclusion_offset, const int* __restrict__ exclusion_atoms, int4* entries,
              int4* groups, uint2* masks, uint32* words, long long* counters,
              const long long entry_capacity, const long long group_capacity, const long long word_capacity,
              const int super_capacity, const long long* search_counters, const int4* __restrict__ leader) {
  __shared__ int4 i_x[64];
  __shared__ int i_gid[64];
  __shared__ int4 i_leader[NONLOCAL ? 64 : 1];
  __shared__ int4 i_center[8];
  __shared__ float4 i_half[8];
  __shared__ uint32 filter[FILTER];
  __shared__ uint32 excluded[WARPS][64];  // i-clusters excluded from each lane of each half
  __shared__ int queue[QUEUE], queued, taken;
  __shared__ Items items;
  const int super = blockIdx.x, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const int n_owned = int(search_counters[OWNED_SUPERCLUSTERS]);
  if (super >= (NONLOCAL ? int(search_counters[SUPERCLUSTERS]) : n_owned)) return;
  const ColumnGrid& grid = *column_grid;
  // The columns to walk: those of ghosts follow those of owned atoms.
  const int* const bin_start = first_bin + (NONLOCAL ? grid.n_bins : 0);
  const int* const column_start = first_column + (NONLOCAL ? grid.columns0 * grid.columns1 : 0);
  const ListSettings settings = *list_settings;
  const LatticeScale scale = load_scale(scale_of_box);
  const ListArrays list = {entries, groups, masks, words, counters, entry_capacity, group_capacity, word_capacity, super_capacity};
  // Distances of boxes are right if all their points are nearest images of each other; always in a diagonal box.
  const float widest = __uint_as_float(uint32(search_counters[SUPER_RADIUS]));
  const bool boxes_are_right = ORTHORHOMBIC || settings.radius + 2.0f * widest <= settings.half_width;
  const float box_limit = boxes_are_right ? settings.radius2 * 1.00001f : __int_as_float(0x7f800000);

  if (threadIdx.x < FILTER) filter[threadIdx.x] = 0;
  if (threadIdx.x < 8) {
    i_center[threadIdx.x] = cluster_center[8 * super + threadIdx.x];
    i_half[threadIdx.x] = cluster_half[8 * super + threadIdx.x];
  }
  if (threadIdx.x == 0) items.count = 0;
  __syncthreads();
  if (threadIdx.x < 64) {
    const int id = gid[64 * super + threadIdx.x];
    i_x[threadIdx.x] = x[64 * super + threadIdx.x];
    i_gid[threadIdx.x] = id;
    if (NONLOCAL) i_leader[threadIdx.x] = leader[64 * super + threadIdx.x];
    if (id >= 0)
      for (long long k = exclusion_offset[id]; k < exclusion_offset[id + 1]; k++) {
        const int cluster = slot_of_gid[exclusion_atoms[k]] >> 3;  // -1 for an atom that is not here
        atomicOr(filter + (cluster >> 5 & (FILTER - 1)), 1u << (cluster & 31));
      }
  }
  const int4 center = super_center[super];
  const float4 half = super_half[super];
  const uint4 extent = super_extent[super];
  [[maybe_unused]] const uint32 home = extent.w;
  const int4 extents = make_int4(extent.x, extent.y, extent.z, 0);
  const Interval i0 = divisions(height(center, grid.axis0, grid), component(extents, grid.axis0), settings.reach0, grid.division[0], grid.columns0);
  const Interval i1 = divisions(height(center, grid.axis1, grid), component(extents, grid.axis1), settings.reach1, grid.division[1], grid.columns1);
  const Interval slabs = divisions(height(center, grid.axis2, grid), component(extents, grid.axis2), settings.reach2, grid.division[2], grid.slabs);
  const int n_columns = i0.count * i1.count;
  Walk walk = {int(threadIdx.x), 0, 0, 0, 0};
  if (walk.column < n_columns) enter_column(walk, i0, i1, slabs, grid, bin_start, column_start);
  unsigned int n_pairs = 0, n_excluded = 0;
  const int ti = lane & 7, tj = lane >> 3;

  while (true) {
    if (threadIdx.x == 0) queued = taken = 0;
    __syncthreads();
    bool more = walk.column < n_columns;
    while (more) {
      if (walk.next >= walk.last) {
        if (walk.next2 < walk.last2) {
          walk.next = walk.next2, walk.last = walk.last2, walk.next2 = walk.last2 = 0;
        } else {
          walk.column += THREADS;
          more = walk.column < n_columns;
          if (more) enter_column(walk, i0, i1, slabs, grid, bin_start, column_start);
        }
        continue;
      }
      const int other = walk.next;
      bool wanted = is_mine(super, other);
      if (NONLOCAL) wanted = (super < n_owned || wanted) && (home | super_extent[other].w) == HOME;
      if (wanted && box_distance2(center, half, super_center[other], super_half[other], scale) <= box_limit) {
        const int place = atomicAdd(&queued, 1);
        if (place >= QUEUE) break;  // no room: this one again after the next flush
        queue[place] = other;
      }
      walk.next++;
    }
    more = __syncthreads_or(more);
    const int n_queued = min(queued, QUEUE);

    while (true) {
      int place = 0;
      if (lane == 0) place = atomicAdd(&taken, 1);
      place = __shfl_sync(ALL_LANES, place, 0);
      if (place >= n_queued) break;
      const int other = queue[place];
      uint32 near[2];
#pragma unroll
      for (int part = 0; part < 2; part++) {
        const int k = 4 * part + tj;
        const int4 j_center = cluster_center[8 * other + k];
        const bool close = i_center[ti].w > 0 && j_center.w > 0 && (other != super || ti <= k) &&
                           box_distance2(i_center[ti], i_half[ti], j_center, cluster_half[8 * other + k], scale) <= box_limit;
        near[part] = __ballot_sync(ALL_LANES, close);
      }
      for (int k = 0; k < 8; k++) {
        uint32 candidates = near[k >> 2] >> (8 * (k & 3)) & 0xffu;
        if (candidates == 0) continue;
        const int j_cluster = 8 * other + k, n_real = cluster_center[j_cluster].w;
        const int4 j_x[2] = {x[8 * j_cluster + tj], x[8 * j_cluster + 4 + tj]};
        int4 j_leader[2];
        if (NONLOCAL) j_leader[0] = leader[8 * j_cluster + tj], j_leader[1] = leader[8 * j_cluster + 4 + tj];
        uint32 out[2] = {0, 0};
        if (filter[j_cluster >> 5 & (FILTER - 1)] >> (j_cluster & 31) & 1) {
          excluded[warp][lane] = excluded[warp][lane + 32] = 0;
          __syncwarp();
          for (int i = lane; i < 64; i += 32) {
            const int id = i_gid[i];
            if (id < 0) continue;
            for (long long p = exclusion_offset[id]; p < exclusion_offset[id + 1]; p++) {
              const int slot = slot_of_gid[exclusion_atoms[p]];
              if (slot >> 3 == j_cluster) atomicOr(&excluded[warp][8 * (slot & 7) + (i & 7)], 1u << (i >> 3));
            }
          }
          __syncwarp();
          out[0] = excluded[warp][lane];
          out[1] = excluded[warp][lane + 32];
          __syncwarp();
        }
        uint32 acting[2] = {0, 0}, found[2] = {0, 0}, listed[2] = {~out[0], ~out[1]};
        while (candidates) {
          const int c = __ffs(candidates) - 1;
          candidates &= candidates - 1;
          const int4 xi = i_x[8 * c + ti];
          const bool same = 8 * super + c == j_cluster, i_real = ti < i_center[c].w;
#pragma unroll
          for (int h = 0; h < 2; h++) {
            const float r2 = square_exact(to_cartesian_exact<ORTHORHOMBIC>(lattice_difference(xi, j_x[h]), scale));
            const int j = 4 * h + tj;
            const bool once = !same || ti < j;  // of a cluster with itself each pair once
            if (!once) listed[h] &= ~(1u << c);
            bool inside = r2 <= settings.radius2 && once && i_real && j < n_real;
            if (NONLOCAL && !pair_is_ours(i_leader[8 * c + ti], j_leader[h])) {
              listed[h] &= ~(1u << c);
              inside = false;
            }
            const bool masked = out[h] >> c & 1, acts = inside && !masked;
            n_excluded += inside && masked;
            n_pairs += acts;
            acting[h] |= uint32(acts) << c;
            if (__any_sync(ALL_LANES, acts)) found[h] |= 1u << c;
          }
        }
        if ((found[0] | found[1]) == 0) continue;
        const bool special = __any_sync(ALL_LANES, (listed[0] & listed[1] & 0xffu) != 0xffu);
        int item = 0;
        if (lane == 0) {
          item = atomicAdd(&items.count, 1);
          items.cluster[item] = j_cluster;
          items.mask[item] = found[0] | found[1] << 8 | uint32(special) << 16;
        }
        item = __shfl_sync(ALL_LANES, item, 0);
        items.keep[item][lane] = (unsigned char)(EXACT ? acting[0] : listed[0]);
        items.keep[item][lane + 32] = (unsigned char)(EXACT ? acting[1] : listed[1]);
      }
    }
    __syncthreads();
    while (items.count >= 4 * CHUNK) write_entry(items, super, 4 * CHUNK, list);
    if (!more) break;
  }
  if (items.count > 0) write_entry(items, super, items.count, list);
  for (int step = 16; step > 0; step >>= 1) {
    n_pairs += __shfl_xor_sync(ALL_LANES, n_pairs, step);
    n_excluded += __shfl_xor_sync(ALL_LANES, n_excluded, step);
  }
  if (lane == 0) {
    atomicAdd((uint64*)(counters + PAIRS), (uint64)(n_pairs));
    atomicAdd((uint64*)(counters + EXCLUDED), (uint64)(n_excluded));
  }
}
