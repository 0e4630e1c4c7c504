// Friction and noise of stochastic dynamics, with the numbers of noise.py.

#include "geometry.cuh"
#include "control.cuh"
#include "philox.cuh"

constexpr int TABLE_SHIFT = 32 - 14;

// v : (n, 4) float, nm/ps; added : OUTPUT, what friction and noise add to it
// gid : (n,), -1: empty; mass : (n,) amu, 0: nothing is added; group : of each atom, by global id
// keep, noise : of each group; table : normal numbers
extern "C" __global__ void friction_and_noise(const float4* __restrict__ v, float4* added, int n,
                                              const int* __restrict__ gid, const double* __restrict__ mass,
                                              const int* __restrict__ group, const double* __restrict__ keep,
                                              const double* __restrict__ noise, const double* __restrict__ table,
                                              long long seed, const Control* control, int offset) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n) return;
    const int atom = gid[row];
    const double m = mass[row];
    if (atom < 0 || m == 0.0) {
        added[row] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        return;
    }
    const Words w = words(seed, STREAM_NOISE, control->step + offset, atom);
    const double lost = keep[group[atom]] - 1.0, width = noise[group[atom]] / sqrt(m);
    const float4 old = v[row];
    added[row] = make_float4(float(lost * old.x + width * table[w.of[0] >> TABLE_SHIFT]),
                             float(lost * old.y + width * table[w.of[1] >> TABLE_SHIFT]),
                             float(lost * old.z + width * table[w.of[2] >> TABLE_SHIFT]), 0.0f);
}

extern "C" __global__ void add_to_velocities(float4* v, const float4* __restrict__ added, int n) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n) return;
    const float4 a = v[row], b = added[row];
    v[row] = make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w);
}
