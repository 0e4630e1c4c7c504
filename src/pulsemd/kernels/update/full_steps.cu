// Velocities of full steps, of velocity Verlet: those of half a step before after half of a step's kick, without what
// changes the length of a constraint. One thread completes one rigid water or one free atom; rattle.cu does groups.
//
// The operations and their order are those of project.py and leapfrog.py, so that without contraction both give the same
// bits.

#include "settle.cuh"
#include "water_sites.cuh"

constexpr int N = 3 + SITES;  // atoms of a water

// Velocities of O and the hydrogens by Cramer's rule; the virial of the forces that would give back what is taken out in the
// time `over`.
__device__ __forceinline__ void project_water(const int4* at, Vec* v, double wa, double wb, const double* box, double over,
                                              Sums& taken) {
    const Vec p = difference(at[0], at[1], box), q = difference(at[0], at[2], box), r = difference(at[1], at[2], box);
    const double wc = wb;
    const double u = dot(p, v[0]) - dot(p, v[1]), s = dot(q, v[0]) - dot(q, v[2]), w = dot(r, v[1]) - dot(r, v[2]);
    const double pp = (wa + wb) * dot(p, p), qq = (wa + wc) * dot(q, q), rr = (wb + wc) * dot(r, r);
    const double pq = wa * dot(p, q), pr = -wb * dot(p, r), qr = wc * dot(q, r);
    const double determinant =
        pp * (qq * rr - qr * qr) - pq * (pq * rr - qr * pr) + pr * (pq * qr - qq * pr);
    const double k = (u * (qq * rr - qr * qr) - pq * (s * rr - qr * w) + pr * (s * qr - qq * w)) / determinant;
    const double m = (pp * (s * rr - qr * w) - u * (pq * rr - qr * pr) + pr * (pq * w - s * pr)) / determinant;
    const double n = (pp * (qq * w - s * qr) - pq * (pq * w - s * pr) + u * (pq * qr - qq * pr)) / determinant;
    v[0] = v[0] - wa * (k * p + m * q);
    v[1] = v[1] + wb * (k * p - n * r);
    v[2] = v[2] + wc * (m * q + n * r);
    taken.virial(p, (k / over) * p);
    taken.virial(q, (m / over) * q);
    taken.virial(r, (n / over) * r);
}

__device__ __forceinline__ void complete_water(const int4* x, float4* v, const Force* f, const int* slot,
                                               const WaterGeometry& g, const WaterSite* sites, const Step& step,
                                               Sums& taken) {
    const double half = 0.5 * step.dt;
    int4 at[N];
    StoredForce on[N];
#pragma unroll
    for (int i = 0; i < N; i++) at[i] = x[slot[i]], on[i] = stored_force(f, slot[i]);
    const Vec b0 = difference(at[1], at[0], step.box), c0 = difference(at[2], at[0], step.box);
    Sums of_sites;  // counted by the move
#pragma unroll
    for (int i = 3; i < N; i++) spread_site(sites[i - 3], b0, c0, on[i], on, at, at[i], step.box, of_sites);
    Vec now[3];
#pragma unroll
    for (int i = 0; i < 3; i++)
        now[i] = half_kicked(v[slot[i]], half / (i == 0 ? g.mass_o : g.mass_h), to_vector(on[i]));
    project_water(at, now, 1.0 / g.mass_o, 1.0 / g.mass_h, step.box, half, taken);
#pragma unroll
    for (int i = 0; i < 3; i++) v[slot[i]] = make_float4(now[i].x, now[i].y, now[i].z, 0.0f);
}

// v : (n, 4) float32 nm/ps, updated
// virial : (9,) added to with ENERGIES: less sum of r (x) f of the forces that constraints gave in this half of a step
// the other arguments as in leapfrog.cu
extern "C" __global__ void __launch_bounds__(THREADS)
    complete_velocities(const int4* __restrict__ x, float4* v, const Force* __restrict__ f,
                        const int4* __restrict__ waters, int n_waters, const WaterGeometry* __restrict__ geometry,
                        const int* __restrict__ free_rows, int n_free, const double* __restrict__ mass,
                        const Step* __restrict__ step, Sum* virial, const int* __restrict__ counts,
                        const int* __restrict__ site_slots, const WaterSite* __restrict__ sites) {
    const int t = blockIdx.x * THREADS + threadIdx.x;
    Sums taken;
    if (counts) n_waters = counts[0], n_free = counts[1];
    if (t < n_waters) {
        const int4 rows = waters[t];
        int slot[N] = {rows.x, rows.y, rows.z};
#pragma unroll
        for (int i = 3; i < N; i++) slot[i] = site_slots[t * SITES + i - 3];
        complete_water(x, v, f, slot, geometry[rows.w], sites + rows.w * SITES, *step, taken);
    } else if (t < n_waters + n_free) {
        const int row = free_rows[t - n_waters];
        const double m = mass[row];
        const Vec now = half_kicked(v[row], m > 0.0 ? 0.5 * step->dt / m : 0.0, load_force(f, row));
        v[row] = make_float4(now.x, now.y, now.z, 0.0f);
    }
    if (ENERGIES)
        for (int k = 0; k < 9; k++) add_of_warp(virial + k, taken.of[2 + k]);
}
