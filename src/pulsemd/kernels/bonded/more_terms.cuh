// The terms of stretches.py, bends.py, twists.py and flat_bottoms of restraints.py; included by terms.cu.
#pragma once

__device__ __forceinline__ void pull(const Atoms& a, int i, int j, Vec r, double g, Sums& sums) {
    const Vec force = g * r;
    a.add_pair(i, j, force);
    sums.virial(r, force);
}

__device__ void quartic_bond(const Atoms& a, int i, int j, const double* p, Sums& sums) {
    const Vec r = a.between(i, j);
    const double gap = dot(r, r) - p[0] * p[0];
    pull(a, i, j, r, -p[1] * gap, sums);
    sums.energy(0, 0.25 * p[1] * gap * gap);
}

__device__ void morse_bond(const Atoms& a, int i, int j, const double* p, Sums& sums) {
    const Vec r = a.between(i, j);
    const double length = sqrt(dot(r, r)), decay = exp(-p[2] * (length - p[0]));
    pull(a, i, j, r, -2.0 * p[1] * p[2] * decay * (1.0 - decay) / length, sums);
    sums.energy(0, p[1] * ((1.0 - decay) * (1.0 - decay)));
}

__device__ void cubic_bond(const Atoms& a, int i, int j, const double* p, Sums& sums) {
    const Vec r = a.between(i, j);
    const double length = sqrt(dot(r, r)), gap = length - p[0];
    pull(a, i, j, r, -p[1] * gap * (2.0 + 3.0 * p[2] * gap) / length, sums);
    sums.energy(0, p[1] * gap * gap * (1.0 + p[2] * gap));
}

__device__ void fene_bond(const Atoms& a, int i, int j, const double* p, Sums& sums) {
    const Vec r = a.between(i, j);
    const double b2 = p[0] * p[0], left = 1.0 - dot(r, r) / b2;
    pull(a, i, j, r, left > 0.0 ? -p[1] / left : nan(""), sums);  // longer than b: an error
    sums.energy(0, -0.5 * p[1] * b2 * log(left));
}

__device__ void distance_restraint(const Atoms& a, int i, int j, const double* p, Sums& sums) {
    const Vec r = a.between(i, j);
    const double length = sqrt(dot(r, r));
    const double gap = length < p[0] ? length - p[0] : fmax(length - p[1], 0.0), far = fmax(length - p[2], 0.0);
    pull(a, i, j, r, length > 0.0 ? -p[3] * (gap - far) / length : 0.0, sums);
    sums.energy(0, 0.5 * p[3] * (gap * gap - far * far));
}

__device__ void cosine_angle(const Atoms& atoms, const Angle& t, const double* p, Sums& sums) {
    const double gap = t.c - cos(p[0]);
    sums.energy(0, 0.5 * p[1] * gap * gap);
    bend(atoms, t, -p[1] * gap, sums);
}

__device__ void restricted_angle(const Atoms& atoms, const Angle& t, const double* p, Sums& sums) {
    const double c0 = cos(p[0]), s2 = t.s * t.s;
    sums.energy(0, 0.5 * p[1] * ((t.c - c0) * (t.c - c0)) / s2);
    bend(atoms, t, -p[1] * (t.c - c0) * (1.0 - t.c * c0) / (s2 * s2), sums);
}

__device__ void quartic_angle(const Atoms& atoms, const Angle& t, const double* p, Sums& sums) {
    const double gap = acos(t.c) - p[0];
    double energy = p[5], slope = 0.0;
    for (int n = 4; n > 0; n--) {
        slope = slope * gap + energy;
        energy = energy * gap + p[n];
    }
    sums.energy(0, energy);
    if (t.s > 1e-12) bend(atoms, t, slope / t.s, sums);
}

__device__ void linear_angle(const Atoms& atoms, const Angle& t, const double* p, Sums& sums) {
    const double rest = 1.0 - p[0];
    const Vec d = p[0] * t.a + rest * t.b, fi = (-p[1] * p[0]) * d, fk = (-p[1] * rest) * d;
    atoms.add_pair(t.i, t.j, fi);
    atoms.add_pair(t.k, t.j, fk);
    sums.energy(0, 0.5 * p[1] * dot(d, d));
    sums.virial(t.a, fi);
    sums.virial(t.b, fk);
}

__device__ void bond_bond_cross(const Atoms& atoms, const Angle& t, const double* p, Sums& sums) {
    pull(atoms, t.i, t.j, t.a, -p[2] * (t.lb - p[1]) / t.la, sums);
    pull(atoms, t.k, t.j, t.b, -p[2] * (t.la - p[0]) / t.lb, sums);
    sums.energy(0, p[2] * (t.la - p[0]) * (t.lb - p[1]));
}

__device__ void bond_angle_cross(const Atoms& atoms, const Angle& t, const double* p, Sums& sums) {
    const Vec outer = atoms.between(t.i, t.k);
    const double lo = sqrt(dot(outer, outer)), stretched = t.la - p[0] + t.lb - p[1], opened = lo - p[2];
    pull(atoms, t.i, t.j, t.a, -p[3] * opened / t.la, sums);
    pull(atoms, t.k, t.j, t.b, -p[3] * opened / t.lb, sums);
    pull(atoms, t.i, t.k, outer, -p[3] * stretched / lo, sums);
    sums.energy(0, p[3] * opened * stretched);
}

__device__ void restricted_dihedral(const Atoms& a, const Dihedral& d, const double* p, Sums& sums) {
    const double c0 = cos(p[0]), c = cos(d.phi), s = sin(d.phi), ratio = (c - c0) / s;
    sums.energy(0, 0.5 * p[1] * (ratio * ratio));
    twist(a, d, -p[1] * (c - c0) * (1.0 - c * c0) / (s * s * s), sums);
}

__device__ void bending_torsion(const Atoms& a, const Dihedral& d, const double* p, Sums& sums) {
    const Angle one = angle_at(a, d.i, d.j, d.k), two = angle_at(a, d.j, d.k, d.m);
    const double c = cos(d.phi);
    double value = p[5], by_c = 0.0;
    for (int n = 4; n > 0; n--) {
        by_c = by_c * c + value;
        value = value * c + p[n];
    }
    const double sines = one.s * one.s * one.s * two.s * two.s * two.s;
    sums.energy(0, p[0] * sines * value);
    twist(a, d, -p[0] * sines * by_c * sin(d.phi), sums);
    const double by_angle = 3.0 * p[0] * value * one.s * two.s;
    bend(a, one, by_angle * one.c * two.s * two.s, sums);
    bend(a, two, by_angle * two.c * one.s * one.s, sums);
}

__device__ void dihedral_restraint(const Atoms& a, const Dihedral& d, const double* p, Sums& sums) {
    double away = d.phi - p[0];
    away -= 2.0 * PI * rint(away / (2.0 * PI));
    const double beyond = away - fmin(fmax(away, -p[1]), p[1]);
    sums.energy(0, 0.5 * p[2] * beyond * beyond);
    twist(a, d, p[2] * beyond, sums);
}

// Sphere, cylinder or layer about the reference; a negative size keeps the atom outside.
__device__ void flat_bottom(const Atoms& a, int i, const Restrained& at, const double* p, Sums& sums) {
    const Vec r = {p[0] * at.r.x, p[1] * at.r.y, p[2] * at.r.z};
    const double distance = sqrt(dot(r, r)), beyond = distance - fabs(p[3]);
    if (distance == 0.0 || (beyond <= 0.0) == (p[3] >= 0.0)) return;
    const Vec force = (-p[4] * beyond / distance) * r;
    a.add(i, force);
    sums.energy(0, 0.5 * p[4] * beyond * beyond);
    sums.virial(r + at.rigid, force);
}

struct Periodic {  // k (1 - cos(n (theta - theta0))), and minus its derivative by c = cos theta, 0 where it has none
    double energy, g;

    __device__ __forceinline__ Periodic(double c, const double* p) {
        const double argument = p[2] * (acos(c) - p[0]), s = sqrt(1.0 - c * c);
        energy = p[1] * (1.0 - cos(argument));
        g = s > 1e-12 ? p[1] * p[2] * sin(argument) / s : 0.0;
    }
};

// The angle between i -> j and k -> m.
__device__ void angle_restraint(const Atoms& atoms, int i, int j, int k, int m, const double* p, Sums& sums) {
    const Angle t = angle_between(atoms, j, i, m, k);
    const Periodic term(t.c, p);
    sums.energy(0, term.energy);
    turn(atoms, j, i, m, k, t, term.g, sums);
}

// The angle between i -> j and the z axis.
__device__ void angle_restraint_z(const Atoms& atoms, int i, int j, const double* p, Sums& sums) {
    const Vec a = atoms.between(j, i);
    const double length = sqrt(dot(a, a)), c = fmin(1.0, fmax(-1.0, a.z / length));
    const Periodic term(c, p);
    sums.energy(0, term.energy);
    const double h = term.g / length;
    const Vec force = {-h * c * a.x / length, -h * c * a.y / length, h * (1.0 - c * a.z / length)};
    atoms.add_pair(j, i, force);
    sums.virial(a, force);
}
