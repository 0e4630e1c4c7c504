// Forces of all listed pairs: superclusters of 64 i-slots against groups of four j-clusters.
//
// A block takes an entry (one supercluster, a range of groups). Its warps take a half (four slots) of every
// j-cluster: lane = 8 * j + i, so one step of a warp is a tile of 8 i-slots x 4 j-slots. Forces on i stay in
// registers for the whole entry, forces on j are summed over the eight i-lanes and added to memory.
//
// Macros: WARPS (even), MIN_BLOCKS, ENERGIES, PRUNE, EXACT, RELATIVE, ORTHORHOMBIC, TABLE; 0 or 1 but for the
// first two. EXACT: fixed-point sums, IEEE arithmetic as written. RELATIVE: positions become float relative to
// the supercluster's centre once per atom; else the lattice difference of every pair is converted.
// PRUNE: groups are read with the masks of the search, and those of the tiles still within the inner radius kept.
#define DEVICE __device__ __forceinline__
#include "vector.cuh"
#include "fixed_point.cuh"
#include "pair_list.cuh"

struct PairConstants {
  float cutoff2, k_rf, c_rf, shift6, shift12, minimum2, limit2, inner2;
};

// 1/sqrt(x) for x from minimum2 on: the machine's approximation, in exact mode improved by one step of Newton's
// method to within an ulp. Always the same bits for the same x on one kind of device.
DEVICE float reciprocal_sqrt(float x) {
  float y;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
#if EXACT
  y = __fmaf_rn(__fmul_rn(0.5f, y), __fmaf_rn(__fmul_rn(-x, y), y, 1.0f), y);
#endif
  return y;
}

DEVICE float select(bool condition, float a, float b) { return condition ? a : b; }

#include "pair_formula.cuh"

#if EXACT
typedef long long Sum;
#else
typedef float Sum;
#endif

constexpr int STAGED = 16;  // j-slots of one group that a warp handles
constexpr int I_MORE = I_VALUES - 1 + TABLE, J_MORE = J_VALUES - 1 + TABLE;
constexpr int ENERGY_TERMS = 8;  // Lennard-Jones, Coulomb, and xx xy xz yy yz zz of the virial

// What is kept of an atom beside its position and its first value.
template <int N>
struct alignas(N <= 1 ? 4 : N == 2 ? 8 : 16) More {
  float value[N == 0 ? 1 : N];
};

// An atom as the tiles read it: position (float relative to the centre, or bits of the lattice position) and the
// first value.
DEVICE float4 place(const int4 x, const int4 center, const LatticeScale& scale, float first) {
#if RELATIVE
  const float3 p = to_cartesian<ORTHORHOMBIC>(lattice_difference(x, center), scale);
  return make_float4(p.x, p.y, p.z, first);
#else
  return make_float4(__int_as_float(x.x), __int_as_float(x.y), __int_as_float(x.z), first);
#endif
}

DEVICE float3 displacement(const float4 i, const float4 j, const LatticeScale& scale) {
#if RELATIVE
  return make_float3(i.x - j.x, i.y - j.y, i.z - j.z);
#else
  const int3 d = make_int3(__float_as_int(i.x) - __float_as_int(j.x), __float_as_int(i.y) - __float_as_int(j.y),
                           __float_as_int(i.z) - __float_as_int(j.z));
#if EXACT
  return to_cartesian_exact<ORTHORHOMBIC>(d, scale);
#else
  return to_cartesian<ORTHORHOMBIC>(d, scale);
#endif
#endif
}

DEVICE float square(const float3 d) {
#if EXACT
  return square_exact(d);
#else
  return d.x * d.x + d.y * d.y + d.z * d.z;
#endif
}

// ``value`` if the pair is listed and within the cutoff, else 0. In PTX since the compiler turns the test of a
// constant bit into two more instructions than the machine needs.
DEVICE float where_inside(float value, float r2, float cutoff2, uint32 word, uint32 bit) {
  float result;
  asm("{ .reg .pred listed, inside; .reg .b32 masked;\n"
      "and.b32 masked, %3, %4;\n"
      "setp.ne.u32 listed, masked, 0;\n"
      "setp.lt.and.f32 inside, %1, %2, listed;\n"
      "selp.f32 %0, %5, 0f00000000, inside; }"
      : "=f"(result)
      : "f"(r2), "f"(cutoff2), "r"(word), "r"(bit), "f"(value));
  return result;
}

DEVICE Sum force_term(float value) {
#if EXACT
  return to_fixed_force(value);
#else
  return value;
#endif
}

struct Energies {
  Sum term[ENERGY_TERMS];

  DEVICE void add(const PairTerms& terms, const float3 d) {
#if ENERGIES
    const float fx = terms.force * d.x, fy = terms.force * d.y, fz = terms.force * d.z;
    const float values[ENERGY_TERMS] = {terms.lj, terms.coulomb, fx * d.x, fx * d.y, fx * d.z, fy * d.y, fy * d.z, fz * d.z};
#pragma unroll
    for (int k = 0; k < ENERGY_TERMS; k++) {
#if EXACT
      term[k] += to_fixed_energy(values[k]);
#else
      term[k] += values[k];
#endif
    }
#endif
  }
};

#if EXACT
typedef long long Total;
#else
typedef double Total;
#endif

// Adds the sums of all threads to totals[11]: the two energies and the nine elements of the symmetric virial.
DEVICE void add_totals(Energies& sums, Total* totals, int lane) {
  constexpr int elements[ENERGY_TERMS][2] = {{0, -1}, {1, -1}, {2, -1}, {3, 5}, {4, 8}, {6, -1}, {7, 9}, {10, -1}};
#pragma unroll
  for (int k = 0; k < ENERGY_TERMS; k++) {
    Total value = sums.term[k];
#pragma unroll
    for (int step = 16; step > 0; step >>= 1) value += __shfl_xor_sync(ALL_LANES, value, step);
    if (lane == 0) {
      add_to(totals + elements[k][0], value);
      if (elements[k][1] >= 0) add_to(totals + elements[k][1], value);
    }
  }
}

// Swaps halves between lanes so that of 2n values summed over pairs of lanes each lane keeps n.
DEVICE Sum fold(Sum keep, Sum give, int step) { return keep + __shfl_xor_sync(ALL_LANES, give, step); }

extern "C" __global__ void __launch_bounds__(32 * WARPS, MIN_BLOCKS)
pair_forces(const int4* __restrict__ x, const float2* __restrict__ parameters, const int4* __restrict__ centers,
            const int4* __restrict__ entries, const int entry_capacity, const int4* __restrict__ groups,
            uint2* __restrict__ masks, const uint32* __restrict__ outer, const uint32* __restrict__ words,
            const long long* __restrict__ counters, const float* __restrict__ constants,
            const float2* __restrict__ table, const int n_types, Sum* __restrict__ forces, Total* __restrict__ totals,
            int* __restrict__ error) {
  __shared__ float4 i_atom[64];
  __shared__ More<I_MORE> i_more[64];
  __shared__ float4 j_atom[WARPS][STAGED];
  __shared__ More<J_MORE> j_more[WARPS][STAGED];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, half = warp & 1;
  const int ti = lane & 7, tj = lane >> 3;
  const PairConstants k = {constants[0], constants[1], constants[2], constants[3],
                           constants[4], constants[5], constants[6], constants[7]};
  const LatticeScale scale = load_scale(constants + 8);
  const int n_full = int(counters[FULL_ENTRIES]), n_entries = n_full + int(counters[PARTIAL_ENTRIES]);
  [[maybe_unused]] Energies energies;
#pragma unroll
  for (int t = 0; t < ENERGY_TERMS; t++) energies.term[t] = 0;
  uint32 worst = 0;

  for (int e = blockIdx.x; e < n_entries; e += gridDim.x) {
    const int4 entry = entries[e < n_full ? e : entry_capacity - 1 - (e - n_full)];
    const int4 center = centers[entry.x];
    __syncthreads();
    for (int s = threadIdx.x; s < 64; s += 32 * WARPS) {
      const int4 xi = x[entry.x * 64 + s];
      const float2 p = parameters[entry.x * 64 + s];
      float kept[I_VALUES];
      keep_of_i(__int_as_float(xi.w), p.x, p.y, k, kept);
      i_atom[s] = place(xi, center, scale, kept[0]);
#pragma unroll
      for (int v = 1; v < I_VALUES; v++) i_more[s].value[v - 1] = kept[v];
#if TABLE
      i_more[s].value[I_VALUES - 1] = __int_as_float(__float_as_int(p.x) * n_types);
#endif
    }
    __syncthreads();
    Sum fx[8], fy[8], fz[8];
#pragma unroll
    for (int c = 0; c < 8; c++) fx[c] = fy[c] = fz[c] = 0;

    for (int g = entry.y + (warp >> 1); g < entry.z; g += WARPS / 2) {
      const uint2 mask_word = masks[2 * g + half];
#if PRUNE
      const uint32 mask = __reduce_or_sync(ALL_LANES, outer[2 * g + half]);
      uint32 inner = 0;
#else
      const uint32 mask = __reduce_or_sync(ALL_LANES, mask_word.x);  // the same in all lanes; now the compiler knows
#endif
      if (mask == 0) continue;
      const uint32 word = words[size_t(mask_word.y) * 32 + lane];
      const int4 group = groups[g];
      const int clusters[4] = {group.x, group.y, group.z, group.w};
      if (lane < STAGED) {
        const int slot = reinterpret_cast<const int*>(groups + g)[lane >> 2] * 8 + 4 * half + (lane & 3);
        const int4 xj = x[slot];
        const float2 p = parameters[slot];
        float kept[J_VALUES];
        keep_of_j(__int_as_float(xj.w), p.x, p.y, k, kept);
        j_atom[warp][lane] = place(xj, center, scale, kept[0]);
#pragma unroll
        for (int v = 1; v < J_VALUES; v++) j_more[warp][lane].value[v - 1] = kept[v];
#if TABLE
        j_more[warp][lane].value[J_VALUES - 1] = p.x;
#endif
      }
      __syncwarp();
#pragma unroll
      for (int jm = 0; jm < 4; jm++) {
        if (mask & (0xffu << (8 * jm))) {
          const float4 xj = j_atom[warp][4 * jm + tj];
          const More<J_MORE> more_j = j_more[warp][4 * jm + tj];
          float j[J_VALUES];
          j[0] = xj.w;
#pragma unroll
          for (int v = 1; v < J_VALUES; v++) j[v] = more_j.value[v - 1];
          Sum gx = 0, gy = 0, gz = 0;
#pragma unroll
          for (int c = 0; c < 8; c++) {
            const uint32 bit = 1u << (8 * jm + c);
            if (mask & bit) {
              const float4 xi = i_atom[8 * c + ti];
              const More<I_MORE> more_i = i_more[8 * c + ti];
              float i[I_VALUES];
              i[0] = xi.w;
#pragma unroll
              for (int v = 1; v < I_VALUES; v++) i[v] = more_i.value[v - 1];
              const float3 d = displacement(xi, xj, scale);
              const float r2 = square(d);
#if PRUNE
              if (__any_sync(ALL_LANES, (r2 < k.inner2) & ((word & bit) != 0))) inner |= bit;
#endif
#if TABLE
              const float2 pair = __ldg(table + (__float_as_int(more_i.value[I_VALUES - 1]) +
                                                 __float_as_int(more_j.value[J_VALUES - 1])));
#else
              const float2 pair = make_float2(0.0f, 0.0f);
#endif
              PairTerms terms = pair_terms(fmaxf(r2, k.minimum2), i, j, pair.x, pair.y, k);
              terms.force = where_inside(terms.force, r2, k.cutoff2, word, bit);
#if EXACT
              worst = max(worst, __float_as_uint(terms.force * terms.force * r2) & 0x7fffffffu);  // as bits NaN is the largest
#endif
#if ENERGIES
              terms.lj = where_inside(terms.lj, r2, k.cutoff2, word, bit);
              terms.coulomb = where_inside(terms.coulomb, r2, k.cutoff2, word, bit);
              energies.add(terms, d);
#endif
#if EXACT
              const Sum sx = force_term(terms.force * d.x), sy = force_term(terms.force * d.y),
                        sz = force_term(terms.force * d.z);
              gx -= sx, gy -= sy, gz -= sz;
              fx[c] += sx, fy[c] += sy, fz[c] += sz;
#else
              gx -= terms.force * d.x, gy -= terms.force * d.y, gz -= terms.force * d.z;
              fx[c] += terms.force * d.x, fy[c] += terms.force * d.y, fz[c] += terms.force * d.z;
#endif
            }
          }
          // Sum over the eight i-lanes of each j: lane 0 ends with x, 1 with y, 2 with z.
          Sum a = (ti & 1) ? gx : gy, s = (ti & 1) ? gy : gx;
          s = fold(s, a, 1);
          gz = fold(gz, gz, 1);
          a = (ti & 2) ? s : gz;
          s = (ti & 2) ? gz : s;
          s = fold(s, a, 2);
          s = fold(s, s, 4);
          if (ti < 3) add_to(forces + 4 * (clusters[jm] * 8 + 4 * half + tj) + ti, s);
        }
      }
#if PRUNE
      if (lane == 0) masks[2 * g + half].x = inner;
#endif
      __syncwarp();
    }

    // Sum over the four j-lanes of each i: the lane's bits 3 and 4 say which of the clusters it ends with.
    const bool upper4 = lane & 8, upper2 = lane & 16;
#pragma unroll
    for (int c = 0; c < 4; c++) {
      fx[c] = fold(upper4 ? fx[c + 4] : fx[c], upper4 ? fx[c] : fx[c + 4], 8);
      fy[c] = fold(upper4 ? fy[c + 4] : fy[c], upper4 ? fy[c] : fy[c + 4], 8);
      fz[c] = fold(upper4 ? fz[c + 4] : fz[c], upper4 ? fz[c] : fz[c + 4], 8);
    }
#pragma unroll
    for (int c = 0; c < 2; c++) {
      fx[c] = fold(upper2 ? fx[c + 2] : fx[c], upper2 ? fx[c] : fx[c + 2], 16);
      fy[c] = fold(upper2 ? fy[c + 2] : fy[c], upper2 ? fy[c] : fy[c + 2], 16);
      fz[c] = fold(upper2 ? fz[c + 2] : fz[c], upper2 ? fz[c] : fz[c + 2], 16);
      const int cluster = (upper4 ? 4 : 0) + (upper2 ? 2 : 0) + c;
#if !EXACT
      worst = max(worst, __float_as_uint(fx[c] * fx[c] + fy[c] * fy[c] + fz[c] * fz[c]) & 0x7fffffffu);
#endif
      add_vector(forces + 4 * (entry.x * 64 + cluster * 8 + ti), fx[c], fy[c], fz[c]);
    }
  }
#if ENERGIES
  add_totals(energies, totals, lane);
#endif
  if (__any_sync(ALL_LANES, worst >= __float_as_uint(k.limit2)) && lane == 0) *error = 1;
}
