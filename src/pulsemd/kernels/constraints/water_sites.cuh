// The virtual sites of a rigid water, moved by the thread that moves the water: those of four- and five-site models.
#pragma once

#include "sites.cuh"

struct WaterSite {  // at a r_1 + b r_2 + c (r_1 x r_2) from O, r_1 and r_2 the vectors to its hydrogens
    double a, b, c;
};

__device__ __forceinline__ Vec away(const WaterSite& w, Vec r1, Vec r2) {
    return w.a * r1 + w.b * r2 + w.c * cross(r1, r2);
}

// Hand the force of a site to O and the hydrogens; `at`: rows of the three and of the site.
__device__ __forceinline__ void spread_site(const WaterSite& w, Vec r1, Vec r2, StoredForce left, StoredForce* on,
                                            const int4* at, int4 site, const double* box, Sums& sums) {
    const Vec f = to_vector(left);
    const Vec f1 = w.a * f + w.c * cross(r2, f), f2 = w.b * f + w.c * cross(f, r1);
    const StoredForce given1 = {to_force(f1.x), to_force(f1.y), to_force(f1.z)};
    const StoredForce given2 = {to_force(f2.x), to_force(f2.y), to_force(f2.z)};
    left += -given1;
    left += -given2;
    on[0] += left, on[1] += given1, on[2] += given2;
    sums.virial(difference(at[1], site, box), f1);
    sums.virial(difference(at[2], site, box), f2);
    sums.virial(difference(at[0], site, box), f - f1 - f2);
}
