// The clock of the device.
#pragma once

#include "vector.cuh"

__device__ __forceinline__ uint64 nanoseconds() {
  uint64 value;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(value));
  return value;
}
