// Stop the centres of mass of several groups.

#include "control.cuh"
#include "portions.cuh"

// v : (n, 4) float, nm/ps, from which that is taken which kinetic.cu left in the portions, in a step that is a multiple of
// `interval`; mass : (n,) double, amu, 0 in empty rows and those of ghosts
// gid, portion : (n,) int32, and portion of each atom by global id
extern "C" __global__ void stop_groups(float4* v, const double* __restrict__ mass, int n, const int* __restrict__ gid,
                                       const int* __restrict__ portion, const Portion* portions,
                                       const Control* control, int offset, int interval) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if ((control->step + offset) % interval != 0 || row >= n || mass[row] == 0.0) return;
    const double* drift = portions[portion[gid[row]]].velocity;
    const float4 old = v[row];
    v[row] = make_float4(float(old.x - drift[0]), float(old.y - drift[1]), float(old.z - drift[2]), old.w);
}
