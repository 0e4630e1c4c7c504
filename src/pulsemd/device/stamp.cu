// The device's clock, in ns, at this point of a stream.
#include "clock.cuh"

extern "C" __global__ void stamp(uint64* word) { *word = nanoseconds(); }
