// Forces of all listed pairs: superclusters of 64 i-slots against groups of four j-clusters.
//
// A block takes an entry (one supercluster, up to CHUNK groups), whose atoms it first brings to shared memory. Its
// warps take whole groups: lane = 8 * j + i, so one step of a warp is a tile of 8 i-slots x 4 j-slots, half a
// j-cluster. Forces on i stay in registers for the whole entry, forces on j are summed over the eight i-lanes and
// added to memory.
//
// Macros: WARPS, CHUNK, MIN_BLOCKS, ENERGIES, EXACT, RELATIVE, ORTHORHOMBIC, TABLE, HALO; 0 or 1 but for the
// first three. RELATIVE: positions become float relative to the supercluster's centre once per atom; else the
// difference of every pair is taken in integers.
// HALO: there are two lists. Blocks of that of pairs with a ghost wait for the rows of ghosts and tell their owners
// when the forces on them are complete (step.cuh), while blocks of the list of owned atoms work.
// EXACT: the force of a pair depends on nothing but the pair, and sums are integers. Positions are first rounded to a
// grid of 2^-23 nm (position_grid.cuh), on which differences are exact whatever they are taken relative to; arithmetic is IEEE as
// written; each component of a pair's force is rounded once, to 2^-14 kJ/mol/nm.
#define DEVICE __device__ __forceinline__
#include "vector.cuh"
#include "overlap.cuh"
#include "fixed_point.cuh"
#include "pair_list.cuh"

#if HALO
#include "step.cuh"
#define POSITIONS const int4*  // other ranks write to them while this kernel waits
#else
#define POSITIONS const int4* __restrict__
#endif

struct PairConstants {
  float cutoff2, coulomb_a, coulomb_b, shift6, shift12, minimum2, limit2, inner2;
  float r_switch, inverse_width, a6, b6, a12, b12;
};

// 1/sqrt(x) to 2^-22.9: the machine's approximation, the same bits for the same x on one kind of device.
DEVICE float reciprocal_sqrt(float x) {
  float y;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

DEVICE float square_root(float x) { return __fsqrt_rn(x); }

DEVICE float exponential(float x) { return expf(x); }

DEVICE float select(bool condition, float a, float b) { return condition ? a : b; }

DEVICE bool negated(bool condition) { return !condition; }

// a * b + c, rounded once.
DEVICE float fused(float a, float b, float c) { return __fmaf_rn(a, b, c); }

#include "pair_formula.cuh"

#if EXACT
typedef int Sum;           // units of 2^-14 kJ/mol/nm
typedef long long Stored;  // of 2^-32
typedef long long EnergySum;
constexpr float PAIR_SCALE = 16384.0f;
constexpr int PAIR_SHIFT = 18;

// A sum has the pairs of up to eight lanes and must stay below 2^31 units. So a lane takes a few strong forces into its
// sums and lets the others, and those beyond `STRONGEST`, go to memory at once; which way changes no bit.
constexpr int GROUPS_OF_WARP = (CHUNK + WARPS - 1) / WARPS, PAIRS_OF_SUM = 32 * (GROUPS_OF_WARP < 2 ? 2 : GROUPS_OF_WARP);
constexpr float HALF_OF_RANGE = 1073741824.0f / PAIR_SCALE;
constexpr int MOST_STRONG = 4;
constexpr float STRONG = HALF_OF_RANGE / PAIRS_OF_SUM - 1.0f, STRONGEST = HALF_OF_RANGE / (8 * MOST_STRONG) - 1.0f;

DEVICE Stored stored(Sum sum) { return Stored(sum) << PAIR_SHIFT; }
#else
typedef float Sum;
typedef float Stored;
typedef float EnergySum;

DEVICE Stored stored(Sum sum) { return sum; }
#endif

constexpr int I_MORE = I_VALUES - 1 + TABLE, J_MORE = J_VALUES - 1 + TABLE;
constexpr int I_STRIDE = 64, J_STRIDE = 32 * CHUNK;  // from an atom to the rest of its values
constexpr float CAPPED_ENERGY = 1073741824.0f;  // kJ/mol: half of what fixed point holds
constexpr float CAPPED_DISTANCE = 0.1f;         // nm: below it the work of the capped force is added
constexpr int ENERGY_TERMS = 8;  // Lennard-Jones, Coulomb, and xx xy xz yy yz zz of the virial

// What is kept of an atom beside its position and its first value; as wide as those, so that one address serves both.
struct alignas(16) More {
  float value[4];  // the last of a j-slot says where its cluster's forces are
};
static_assert(CHUNK <= 32 * WARPS, "too few threads to bring the masks of an entry");
static_assert(I_MORE <= 4 && J_MORE <= 3, "more values of an atom than its place in shared memory holds");

#if EXACT
#include "position_grid.cuh"
typedef PositionGrid Frame;

DEVICE Frame load_frame(const float* box) { return load_position_grid(box + 9); }
#else
typedef LatticeScale Frame;

DEVICE Frame load_frame(const float* box) { return load_scale(box); }
#endif

// An atom as the tiles read it: position (float relative to the centre, or the bits of integers) and the first value.
DEVICE float4 place(const int4 x, const int4 center, const Frame& frame, float first) {
#if RELATIVE && EXACT
  const float3 p = position_from(x, center, frame);
  return make_float4(p.x, p.y, p.z, first);
#elif RELATIVE
  const float3 p = to_cartesian<ORTHORHOMBIC>(lattice_difference(x, center), frame);
  return make_float4(p.x, p.y, p.z, first);
#else
  return make_float4(__int_as_float(x.x), __int_as_float(x.y), __int_as_float(x.z), first);
#endif
}

DEVICE float3 displacement(const float4 i, const float4 j, const Frame& frame) {
#if RELATIVE
  return make_float3(i.x - j.x, i.y - j.y, i.z - j.z);
#else
  const int4 x_i = make_int4(__float_as_int(i.x), __float_as_int(i.y), __float_as_int(i.z), 0),
             x_j = make_int4(__float_as_int(j.x), __float_as_int(j.y), __float_as_int(j.z), 0);
#if EXACT
  return position_from(x_i, x_j, frame);
#else
  return to_cartesian<ORTHORHOMBIC>(lattice_difference(x_i, x_j), frame);
#endif
#endif
}

// Square of a distance, kept so far from 0 (less than an ulp at any distance of atoms) that its inverse's third power
// is finite, times sigma^12 too: atoms without interaction on one spot give 0.
DEVICE float square(const float3 d) { return fused(d.z, d.z, fused(d.y, d.y, fused(d.x, d.x, 1e-11f))); }

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

struct Energies {
  EnergySum term[ENERGY_TERMS];

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

// Adds the sums of a block to totals[11]: the two energies and the nine elements of the symmetric virial.
DEVICE void add_totals(Energies& sums, Total* totals) {
  constexpr int first[ENERGY_TERMS] = {0, 1, 2, 3, 4, 6, 7, 10}, twin[ENERGY_TERMS] = {-1, -1, -1, 5, 8, -1, 9, -1};
  __shared__ Total of_warp[WARPS][ENERGY_TERMS];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
#pragma unroll
  for (int k = 0; k < ENERGY_TERMS; k++) {
    Total value = sums.term[k];
#pragma unroll
    for (int step = 16; step > 0; step >>= 1) value += __shfl_xor_sync(ALL_LANES, value, step);
    if (lane == 0) of_warp[warp][k] = value;
  }
  __syncthreads();
  if (threadIdx.x >= ENERGY_TERMS) return;
  Total value = 0;
  for (int w = 0; w < WARPS; w++) value += of_warp[w][threadIdx.x];
  add_to(totals + first[threadIdx.x], value);
  if (twin[threadIdx.x] >= 0) add_to(totals + twin[threadIdx.x], value);
}

// Of two values summed over two lanes each lane keeps one.
DEVICE Sum fold(Sum keep, Sum give, int step) { return keep + __shfl_xor_sync(ALL_LANES, give, step); }

// A shared pointer that stays in a register: neither compiler can derive the result of a shuffle again.
DEVICE const float4* pinned(const float4* pointer, int lane) {
  const uint32 address = __shfl_sync(ALL_LANES, uint32(__cvta_generic_to_shared(pointer)), lane);
  return static_cast<const float4*>(__cvta_shared_to_generic(address));
}

// The place of the same slot in the other half of its j-cluster.
DEVICE const float4* other_half(const float4* pointer) {
  return static_cast<const float4*>(__cvta_shared_to_generic(uint32(__cvta_generic_to_shared(pointer)) ^ 64));
}

#if EXACT
// Adds the force of one pair to memory at once, rounded as all others.
DEVICE void add_strong(Stored* i, Stored* j, float force, const float3 d) {
  const float scaled = force * PAIR_SCALE;
  const Stored x = __float2ll_rn(scaled * d.x) << PAIR_SHIFT, y = __float2ll_rn(scaled * d.y) << PAIR_SHIFT,
               z = __float2ll_rn(scaled * d.z) << PAIR_SHIFT;
  add_vector(i, x, y, z);
  add_vector(j, -x, -y, -z);
}
#endif

DEVICE More as_more(const float4 v) { return {{v.x, v.y, v.z, v.w}}; }

// The second atom of the pairs of a lane, and the force on it.
struct Partner {
  float4 atom;
  More more;
  Sum x, y, z;
};

#if !EXACT
// Adds the force of a pair to both sums if the pair is listed and within the cutoff: predicated, without a select.
DEVICE void add_inside(float force, const float3 d, float r2, float cutoff2, uint32 word, uint32 bit, Partner& b,
                       float& x, float& y, float& z) {
  asm("{ .reg .pred listed, inside; .reg .b32 masked; .reg .f32 minus;\n"
      "and.b32 masked, %12, %13;\n"
      "setp.ne.u32 listed, masked, 0;\n"
      "setp.lt.and.f32 inside, %10, %11, listed;\n"
      "neg.ftz.f32 minus, %6;\n"
      "@inside fma.rn.ftz.f32 %0, %6, %7, %0;\n"
      "@inside fma.rn.ftz.f32 %1, %6, %8, %1;\n"
      "@inside fma.rn.ftz.f32 %2, %6, %9, %2;\n"
      "@inside fma.rn.ftz.f32 %3, minus, %7, %3;\n"
      "@inside fma.rn.ftz.f32 %4, minus, %8, %4;\n"
      "@inside fma.rn.ftz.f32 %5, minus, %9, %5; }"
      : "+f"(x), "+f"(y), "+f"(z), "+f"(b.x), "+f"(b.y), "+f"(b.z)
      : "f"(force), "f"(d.x), "f"(d.y), "f"(d.z), "f"(r2), "f"(cutoff2), "r"(word), "r"(bit));
}
#endif

extern "C" __global__ void __launch_bounds__(32 * WARPS, MIN_BLOCKS)
pair_forces(POSITIONS x, const float2* __restrict__ parameters, const int4* __restrict__ centers,
            const int4* __restrict__ entries, int entry_capacity, int super_capacity,
            const int4* __restrict__ groups,
            const uint4* __restrict__ masks, const uint32* __restrict__ words,
            const long long* __restrict__ counters, const float* __restrict__ constants,
            const float2* __restrict__ table, const int n_types, Stored* __restrict__ forces, Total* __restrict__ totals,
            int* __restrict__ error, const int wait
#if HALO
            , const int ghost_blocks, const int4* __restrict__ own_entries, const int own_entry_capacity,
            const int own_super_capacity, const int4* __restrict__ own_groups, const uint4* __restrict__ own_masks,
            const uint32* __restrict__ own_words, const long long* __restrict__ own_counters, const StepRank* halo
#endif
) {
  alignas(128) __shared__ float4 staged[2 * (64 + 32 * CHUNK)];  // in one array, for one address to serve several reads
  float4 *const i_atom = staged, *const j_atom = staged + 128;
  More* const i_more = reinterpret_cast<More*>(i_atom + I_STRIDE);
  More* const j_more = reinterpret_cast<More*>(j_atom + J_STRIDE);
  __shared__ uint4 group_mask[CHUNK];  // i-clusters that half 0 acts on, number of its words; the same of half 1
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, ti = lane & 7, tj = lane >> 3;
  const PairConstants k = {constants[0], constants[1], constants[2], constants[3],
                           constants[4], constants[5], constants[6], constants[7],
                           constants[27], constants[28], constants[29], constants[30], constants[31], constants[32]};
  const Frame frame = load_frame(constants + 8);
  wait_here(WAIT_FIRST, wait);
#if HALO
  const bool with_ghosts = blockIdx.x < ghost_blocks;
  const int first = with_ghosts ? blockIdx.x : blockIdx.x - ghost_blocks;
  const int n_blocks = with_ghosts ? ghost_blocks : gridDim.x - ghost_blocks;
  if (!with_ghosts) {
    entries = own_entries, entry_capacity = own_entry_capacity, super_capacity = own_super_capacity;
    groups = own_groups, masks = own_masks, words = own_words, counters = own_counters;
  }
#else
  const int first = blockIdx.x, n_blocks = gridDim.x;
#endif
  // Read before it is known whether the first entry is of the largest class: two waits become one.
  const int guess = min(first, entry_capacity - 1);
  const int4 likely = entries[guess];
  const int n_entries = entries_in_all(counters);
  const float4* const my_i = pinned(i_atom + ti, lane);
  // Of a j-cluster, even lanes begin with half 0 and odd ones with half 1; after the sum over i-lanes they have the force
  // on their slot in it.
  const int odd = ti & 1;
  const uint32 my_force = __shfl_sync(ALL_LANES, 4 * (4 * odd + tj), lane);  // pinned too
  [[maybe_unused]] Energies energies;
#pragma unroll
  for (int t = 0; t < ENERGY_TERMS; t++) energies.term[t] = 0;
  uint32 worst = 0;
#if HALO
  const StepRank rank = *halo;
  wait_here(WAIT_LATER, wait);
  let_later_start();
  if (with_ghosts && !wait_for_rows(rank)) return;
#endif

  for (int e = first; e < n_entries; e += n_blocks) {
    const int at = place_of_entry(e, counters, entry_capacity, super_capacity);
    const int4 entry = at == guess ? likely : entries[at];
    const int4 center = centers[entry.x];
    const int n_groups = entry.z - entry.y;
    wait_here(WAIT_LATER, wait);  // what is read so far is of the list
    let_later_start();
    __syncthreads();
    for (int s = threadIdx.x; s < 64; s += 32 * WARPS) {
      const int4 xi = current(x + entry.x * 64 + s);
      const float2 p = parameters[entry.x * 64 + s];
      float kept[I_VALUES];
      keep_of_i(__int_as_float(xi.w), p.x, p.y, k, kept);
      i_atom[s] = place(xi, center, frame, kept[0]);
#pragma unroll
      for (int v = 1; v < I_VALUES; v++) i_more[s].value[v - 1] = kept[v];
#if TABLE
      i_more[s].value[I_VALUES - 1] = __int_as_float(__float_as_int(p.x) * n_types);
#endif
    }
#pragma unroll 4
    for (int s = threadIdx.x; s < 32 * n_groups; s += 32 * WARPS) {
      const int cluster = reinterpret_cast<const int*>(groups + entry.y)[s >> 3], slot = 8 * cluster + (s & 7);
      const int4 xj = current(x + slot);
      const float2 p = parameters[slot];
      float kept[J_VALUES];
      keep_of_j(__int_as_float(xj.w), p.x, p.y, k, kept);
      j_atom[s] = place(xj, center, frame, kept[0]);
#pragma unroll
      for (int v = 1; v < J_VALUES; v++) j_more[s].value[v - 1] = kept[v];
#if TABLE
      j_more[s].value[J_VALUES - 1] = p.x;
#endif
      j_more[s].value[3] = __int_as_float(32 * cluster);
    }
    if (threadIdx.x < n_groups) group_mask[threadIdx.x] = masks[entry.y + threadIdx.x];
    __syncthreads();
    Sum fx[8], fy[8], fz[8];
    [[maybe_unused]] int n_strong = 0;
#pragma unroll
    for (int c = 0; c < 8; c++) fx[c] = fy[c] = fz[c] = 0;

    for (int g = warp; g < n_groups; g += WARPS) {
      const uint4 listed = group_mask[g];
      const uint32 number[2] = {odd ? listed.w : listed.y, odd ? listed.y : listed.w};  // words of the lane's halves
      uint32 word[2] = {ALL_LANES, ALL_LANES};
      if (number[0]) word[0] = words[size_t(number[0]) * 32 + lane];
      if (number[1]) word[1] = words[size_t(number[1]) * 32 + lane];
      int mine = lane < 8 ? (listed.x | listed.z) << (7 - lane) : 0;  // of each j-cluster the bit of i-cluster `lane`
      const float4* my_j = pinned(j_atom + 32 * g + 24 + 4 * odd + tj, lane);  // the last first, whose bits are the signs
#pragma unroll 1
      for (int jm = 0; jm < 4; jm++, my_j -= 8, mine <<= 8, word[0] <<= 8, word[1] <<= 8) {
        // The i-clusters that the j-cluster acts on. By the vote the compiler knows that all lanes have the same.
        const uint32 mask = __ballot_sync(ALL_LANES, mine < 0);
        if (mask == 0) continue;
        Partner partner[2];
#pragma unroll
        for (int h = 0; h < 2; h++) {
          const float4* const place = h ? other_half(my_j) : my_j;
          partner[h].atom = place[0];
          partner[h].more = as_more(place[J_STRIDE]);
          partner[h].x = partner[h].y = partner[h].z = 0;
        }
#pragma unroll
        for (int c = 0; c < 8; c++) {
          const uint32 bit = 1u << (24 + c);
          if (mask >> c & 1) {  // both halves: one test for two tiles, whose latencies overlap
            const float4 xi = my_i[8 * c];
            const More more_i = as_more(my_i[I_STRIDE + 8 * c]);
            float i[I_VALUES];
            i[0] = xi.w;
#pragma unroll
            for (int v = 1; v < I_VALUES; v++) i[v] = more_i.value[v - 1];
#pragma unroll
            for (int h = 0; h < 2; h++) {
              Partner& b = partner[h];
              float j[J_VALUES];
              j[0] = b.atom.w;
#pragma unroll
              for (int v = 1; v < J_VALUES; v++) j[v] = b.more.value[v - 1];
              const float3 d = displacement(xi, b.atom, frame);
              const float r2 = square(d);
              float pair[PAIR_VALUES] = {};
#if TABLE
              const float2* const of_types = table + PAIR_VALUES / 2 * (__float_as_int(more_i.value[I_VALUES - 1]) +
                                                                        __float_as_int(b.more.value[J_VALUES - 1]));
#pragma unroll
              for (int v = 0; v < PAIR_VALUES; v += 2) {
                const float2 two = __ldg(of_types + v / 2);
                pair[v] = two.x, pair[v + 1] = two.y;
              }
#endif
#if ENERGIES || CAPPED > 0
              PairTerms terms = pair_terms(fmaxf(r2, k.minimum2), i, j, pair, k);
#else
              PairTerms terms = pair_terms(r2, i, j, pair, k);
#endif
#if ENERGIES
              terms.lj += terms.force * (0.5f * (fmaxf(r2, k.minimum2) - r2));  // where force over r is constant
#endif
#if CAPPED > 0
              if (!(fabsf(terms.force) * square_root(fmaxf(r2, k.minimum2)) < CAPPED)) {
                const float r = square_root(r2), strong = copysignf(CAPPED, terms.force);
#if ENERGIES
                terms.lj = fminf(terms.lj, CAPPED_ENERGY) + strong * fmaxf(CAPPED_DISTANCE - r, 0.0f);
#endif
                terms.force = strong / r;
              }
#endif
#if EXACT || ENERGIES
              terms.force = where_inside(terms.force, r2, k.cutoff2, word[h], bit);
#endif
#if ENERGIES
              terms.lj = where_inside(terms.lj, r2, k.cutoff2, word[h], bit);
              terms.coulomb = where_inside(terms.coulomb, r2, k.cutoff2, word[h], bit);
              energies.add(terms, d);
#endif
#if EXACT
              const float square_of_force = terms.force * terms.force * r2;
              if (__any_sync(ALL_LANES, !(square_of_force <= STRONG * STRONG))) {
                worst = max(worst, __float_as_uint(square_of_force) & 0x7fffffffu);
                n_strong += !(square_of_force <= STRONG * STRONG);
                if (!(square_of_force <= STRONG * STRONG) &&
                    (n_strong > MOST_STRONG || !(square_of_force <= STRONGEST * STRONGEST))) {
                  add_strong(forces + 4 * (entry.x * 64 + 8 * c + ti),
                             forces + size_t(__float_as_uint(my_j[J_STRIDE].w) + 4 * (4 * (h ^ odd) + tj)),
                             terms.force, d);
                  terms.force = 0.0f;
                }
              }
              const float scaled = terms.force * PAIR_SCALE;
              const Sum sx = __float2int_rn(scaled * d.x), sy = __float2int_rn(scaled * d.y),
                        sz = __float2int_rn(scaled * d.z);
              b.x -= sx, b.y -= sy, b.z -= sz;
              fx[c] += sx, fy[c] += sy, fz[c] += sz;
#elif ENERGIES
              b.x -= terms.force * d.x, b.y -= terms.force * d.y, b.z -= terms.force * d.z;
              fx[c] += terms.force * d.x, fy[c] += terms.force * d.y, fz[c] += terms.force * d.z;
#else
              add_inside(terms.force, d, r2, k.cutoff2, word[h], bit, b, fx[c], fy[c], fz[c]);
#endif
            }
          }
        }
        // Sum over the eight i-lanes: first each gives away the half that its neighbour began with.
        Sum sx = fold(partner[0].x, partner[1].x, 1), sy = fold(partner[0].y, partner[1].y, 1),
            sz = fold(partner[0].z, partner[1].z, 1);
#pragma unroll
        for (int step = 2; step < 8; step *= 2) sx = fold(sx, sx, step), sy = fold(sy, sy, step), sz = fold(sz, sz, step);
        if (ti < 2) add_vector(forces + size_t(__float_as_uint(my_j[J_STRIDE].w) + my_force), stored(sx), stored(sy), stored(sz));
      }
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
      add_vector(forces + 4 * (entry.x * 64 + cluster * 8 + ti), stored(fx[c]), stored(fy[c]), stored(fz[c]));
    }
  }
#if ENERGIES
  add_totals(energies, totals);
#endif
  if (__any_sync(ALL_LANES, worst >= __float_as_uint(k.limit2)) && lane == 0) *error = 1;
  wait_here(WAIT_LAST, wait);
#if HALO
  if (with_ghosts) give_forces_back(*halo, ghost_blocks);
#endif
}
