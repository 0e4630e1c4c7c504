// Fixed-point sums of reproducible mode: exact, so independent of the order of additions.
#pragma once

constexpr double FORCE_SCALE = 4294967296.0;  // units per kJ/mol/nm
constexpr double ENERGY_SCALE = 1048576.0;    // units per kJ/mol

// A number in fixed point. Adding 1.5 * 2^52 / scale rounds to a multiple of 1/scale and leaves that multiple in the
// low bits of the sum; the bits of the magic number, which has none in the lower word, are taken out again. Valid
// below 2^51 / scale.
__device__ __forceinline__ long long to_fixed(double value, double scale) {
  const double magic = 6755399441055744.0 / scale, sum = __dadd_rn(value, magic);
  const unsigned int upper = __double2hiint(sum) - __double2hiint(magic);
  return (long long)((unsigned long long)(upper) << 32 | (unsigned int)(__double2loint(sum)));
}

__device__ __forceinline__ long long to_fixed_force(double value) { return to_fixed(value, FORCE_SCALE); }

__device__ __forceinline__ long long to_fixed_energy(double value) { return to_fixed(value, ENERGY_SCALE); }
