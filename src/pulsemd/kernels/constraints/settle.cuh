// SETTLE: the analytical solution of the three distance constraints of a rigid water, in float64.
//
// S. Miyamoto, P. A. Kollman, J. Comput. Chem. 13, 952 (1992), equations (A1)-(A19). The operations and their order
// are those of settle.py, so that without contraction both give the same bits.
#pragma once

#include "geometry.cuh"

struct WaterGeometry {  // the rows of settle.py's settle_geometry
    double mass_o, mass_h, r_a, r_b, r_c, fraction_o, fraction_h;
};

struct Water {
    Vec o, h1, h2;
};

__device__ __forceinline__ double inverse_root(double square) {
#if FIXED
    return 1.0 / sqrt(square);
#else
    return rsqrt(square);
#endif
}

__device__ __forceinline__ Vec on_axes(Vec origin, Vec x, Vec y, Vec z, double u, double v, double w) {
    return {origin.x + x.x * u + y.x * v + z.x * w, origin.y + x.y * u + y.y * v + z.y * w,
            origin.z + x.z * u + y.z * v + z.z * w};
}

// Constrained positions; all vectors relative to the old position of O, in nm. b0, c0: old (constrained) hydrogens;
// now: new unconstrained positions.
__device__ __forceinline__ Water settle_positions(const WaterGeometry& g, Vec b0, Vec c0, Water now) {
    const Vec db = now.h1 - now.o, dc = now.h2 - now.o;
    // centre of mass of the unconstrained triangle, and its corners relative to it
    const Vec centre = g.fraction_h * (db + dc);
    const Vec a1 = -centre, b1 = db - centre, c1 = dc - centre;
    // axes: z normal to the old plane, x normal to z and to the new O, y completes them
    Vec z = cross(b0, c0), x = cross(a1, z), y = cross(z, x);
    x = inverse_root(dot(x, x)) * x;
    y = inverse_root(dot(y, y)) * y;
    z = inverse_root(dot(z, z)) * z;
    // old hydrogens in the plane, new corners along the axes
    const double b0u = dot(x, b0), b0v = dot(y, b0), c0u = dot(x, c0), c0v = dot(y, c0);
    const double a1w = dot(z, a1);
    const double b1u = dot(x, b1), b1v = dot(y, b1), b1w = dot(z, b1);
    const double c1u = dot(x, c1), c1v = dot(y, c1), c1w = dot(z, c1);
    // the two tilts (A8-A10)
    const double sin_phi = a1w / g.r_a;
    const double cos_phi = sqrt(1.0 - sin_phi * sin_phi);
    const double sin_psi = (b1w - c1w) / (2.0 * g.r_c * cos_phi);
    const double cos_psi = sqrt(1.0 - sin_psi * sin_psi);
    const double a2v = g.r_a * cos_phi, b2u = -g.r_c * cos_psi;
    const double lift = -g.r_b * cos_phi, twist = g.r_c * sin_psi * sin_phi;
    const double b2v = lift - twist, c2v = lift + twist;
    // the in-plane rotation (A15-A17)
    const double alpha = b2u * (b0u - c0u) + b0v * b2v + c0v * c2v;
    const double beta = b2u * (c0v - b0v) + b0u * b2v + c0u * c2v;
    const double gamma = b0u * b1v - b1u * b0v + c0u * c1v - c1u * c0v;
    const double square = alpha * alpha + beta * beta;
    const double sin_theta = (alpha * gamma - beta * sqrt(square - gamma * gamma)) / square;
    const double cos_theta = sqrt(1.0 - sin_theta * sin_theta);
    const double a3u = -a2v * sin_theta, a3v = a2v * cos_theta;
    const double b3u = b2u * cos_theta - b2v * sin_theta, b3v = b2u * sin_theta + b2v * cos_theta;
    const double c3u = -b2u * cos_theta - c2v * sin_theta, c3v = -b2u * sin_theta + c2v * cos_theta;
    const Vec origin = now.o + centre;
    return {on_axes(origin, x, y, z, a3u, a3v, a1w), on_axes(origin, x, y, z, b3u, b3v, b1w),
            on_axes(origin, x, y, z, c3u, c3v, c1w)};
}
