// Lattice positions, small vectors, and atomic sums shared by all device code.
#pragma once

typedef unsigned int uint32;
typedef unsigned long long uint64;

constexpr uint32 ALL_LANES = 0xffffffffu;

// A position in lattice units with one more word, such as the bits of the atom's charge. A difference of two
// positions is the minimum image by two's complement wraparound; unsigned, since signed overflow is undefined.
__device__ __forceinline__ int3 lattice_difference(const int4 a, const int4 b) {
  return make_int3(int(uint32(a.x) - uint32(b.x)), int(uint32(a.y) - uint32(b.y)), int(uint32(a.z) - uint32(b.z)));
}

// The box over 2^32 in nm, row by row: a lattice difference d is the vector d.x * a + d.y * b + d.z * c.
struct LatticeScale {
  float xx, xy, xz, yx, yy, yz, zx, zy, zz;
};

__device__ __forceinline__ LatticeScale load_scale(const float* scale) {
  return {scale[0], scale[1], scale[2], scale[3], scale[4], scale[5], scale[6], scale[7], scale[8]};
}

// Cartesian vector of a lattice difference, as fast as the machine likes.
template <bool DIAGONAL>
__device__ __forceinline__ float3 to_cartesian(const int3 d, const LatticeScale& s) {
  const float x = float(d.x), y = float(d.y), z = float(d.z);
  if (DIAGONAL) return make_float3(x * s.xx, y * s.yy, z * s.zz);
  return make_float3(x * s.xx + y * s.yx + z * s.zx, x * s.xy + y * s.yy + z * s.zy, x * s.xz + y * s.yz + z * s.zz);
}

// The same by IEEE operations in a fixed order: the bits every kernel and the CPU agree on.
template <bool DIAGONAL>
__device__ __forceinline__ float3 to_cartesian_exact(const int3 d, const LatticeScale& s) {
  const float x = float(d.x), y = float(d.y), z = float(d.z);
  if (DIAGONAL) return make_float3(__fmul_rn(x, s.xx), __fmul_rn(y, s.yy), __fmul_rn(z, s.zz));
  return make_float3(__fadd_rn(__fadd_rn(__fmul_rn(x, s.xx), __fmul_rn(y, s.yx)), __fmul_rn(z, s.zx)),
                     __fadd_rn(__fadd_rn(__fmul_rn(x, s.xy), __fmul_rn(y, s.yy)), __fmul_rn(z, s.zy)),
                     __fadd_rn(__fadd_rn(__fmul_rn(x, s.xz), __fmul_rn(y, s.yz)), __fmul_rn(z, s.zz)));
}

// Squared length, as fast as the machine likes.
__device__ __forceinline__ float square_of(const float3 d) { return d.x * d.x + d.y * d.y + d.z * d.z; }

// The same by IEEE operations in a fixed order.
__device__ __forceinline__ float square_exact(const float3 d) {
  return __fadd_rn(__fadd_rn(__fmul_rn(d.x, d.x), __fmul_rn(d.y, d.y)), __fmul_rn(d.z, d.z));
}

// Sums in memory that need no result back.
__device__ __forceinline__ void add_to(float* target, float value) {
  asm volatile("red.relaxed.gpu.global.add.f32 [%0], %1;" ::"l"(target), "f"(value) : "memory");
}

__device__ __forceinline__ void add_to(double* target, double value) {
  asm volatile("red.relaxed.gpu.global.add.f64 [%0], %1;" ::"l"(target), "d"(value) : "memory");
}

__device__ __forceinline__ void add_to(long long* target, long long value) {
  asm volatile("red.relaxed.gpu.global.add.u64 [%0], %1;" ::"l"(target), "l"(value) : "memory");
}

// Adds three components to an element of an array of four; one operation where the machine has vector atomics.
__device__ __forceinline__ void add_vector(float* target, float x, float y, float z) {
#if __CUDA_ARCH__ >= 900
  asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(target), "f"(x), "f"(y), "f"(z),
               "f"(0.0f) : "memory");
#else
  add_to(target, x);
  add_to(target + 1, y);
  add_to(target + 2, z);
#endif
}

__device__ __forceinline__ void add_vector(long long* target, long long x, long long y, long long z) {
  add_to(target, x);
  add_to(target + 1, y);
  add_to(target + 2, z);
}
