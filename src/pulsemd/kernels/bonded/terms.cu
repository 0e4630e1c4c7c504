// The bonded terms of terms.py: one thread a term, all kinds in one launch, in float64.
//
// Blocks belong to one kind each, so that the threads of a block run the same code and their energies have the same
// slot. Atoms are global ids, looked up in `slot_of`: the terms outlive every search.
//
// Macros: those of geometry.cuh; THREADS; OWNED, 1: only the terms that owners.cu chose.
//
// References: as in terms.py.

#include "exclusions.cuh"
#include "kinds.cuh"
#include "overlap.cuh"

constexpr double PI = 3.141592653589793;
constexpr double FORCE_LIMIT = 536870912.0;  // kJ/mol/nm: a quarter of the fixed-point range
enum { BOND, ANGLE, UREY_BRADLEY, PROPER, IMPROPER, RYCKAERT_BELLEMANS, PAIR14, RESTRAINT, CMAP, QUARTIC_BOND,
       MORSE_BOND, CUBIC_BOND, FENE_BOND, DISTANCE_RESTRAINT, COSINE_ANGLE, BOND_BOND_CROSS, BOND_ANGLE_CROSS,
       QUARTIC_ANGLE, LINEAR_ANGLE, RESTRICTED_ANGLE, RESTRICTED_DIHEDRAL, BENDING_TORSION, DIHEDRAL_RESTRAINT,
       FLAT_BOTTOM, ANGLE_RESTRAINT, ANGLE_RESTRAINT_Z, EXCLUDED };

struct Atoms {
    const int4* x;
    const double* box;
    Force* f;
    const int* gid;
    int* error;  // global id + 1 of an atom whose force is not a number or out of range

    __device__ __forceinline__ Vec between(int i, int j) const { return difference(x[i], x[j], box); }

    __device__ __forceinline__ double checked(int i, double force) const {
        if (fabs(force) < FORCE_LIMIT) return force;
        atomicMax(error, gid[i] + 1);
        return 0.0;
    }

    __device__ __forceinline__ void add(int i, Vec force) const {
        const Force x = to_force(checked(i, force.x)), y = to_force(checked(i, force.y)),
                    z = to_force(checked(i, force.z));
        add_vector(f + 4 * (size_t)i, x, y, z);
    }

    // In fixed point both atoms get the same integers, so momentum is exact.
    __device__ __forceinline__ void add_pair(int i, int j, Vec force) const {
        const Force x = to_force(checked(i, force.x)), y = to_force(checked(i, force.y)),
                    z = to_force(checked(i, force.z));
        add_vector(f + 4 * (size_t)i, x, y, z);
        add_vector(f + 4 * (size_t)j, -x, -y, -z);
    }
};

__device__ void stretch(const Atoms& a, int i, int j, double r0, double k, Sums& sums) {
    const Vec r = a.between(i, j);
    const double length = sqrt(dot(r, r));
    const double g = length > 0.0 ? -k * (length - r0) / length : 0.0;
    const Vec force = g * r;
    a.add_pair(i, j, force);
    sums.energy(0, 0.5 * k * ((length - r0) * (length - r0)));
    sums.virial(r, force);
}

struct Angle {
    int i, j, k;
    double c, s;  // cosine and sine
    Vec a, b;     // r_ij, r_kj
    double la, lb;
};

__device__ Angle angle_between(const Atoms& atoms, int i, int j, int k, int m) {
    const Vec a = atoms.between(i, j), b = atoms.between(k, m);
    const double la = sqrt(dot(a, a)), lb = sqrt(dot(b, b));
    const double c = fmin(1.0, fmax(-1.0, dot(a, b) / (la * lb)));
    return {i, j, k, c, sqrt(1.0 - c * c), a, b, la, lb};
}

__device__ Angle angle_at(const Atoms& atoms, int i, int j, int k) { return angle_between(atoms, i, j, k, j); }

// Forces of an energy whose derivative by the cosine of the angle between `a`, from atom j to i, and `b`, from m to k,
// is -g.
__device__ void turn(const Atoms& atoms, int i, int j, int k, int m, const Angle& t, double g, Sums& sums) {
    const Vec a = t.a, b = t.b;
    const double c = t.c, ab = t.la * t.lb, aa = t.la * t.la, bb = t.lb * t.lb;
    const Vec fi = {g * (b.x / ab - c * a.x / aa), g * (b.y / ab - c * a.y / aa), g * (b.z / ab - c * a.z / aa)};
    const Vec fk = {g * (a.x / ab - c * b.x / bb), g * (a.y / ab - c * b.y / bb), g * (a.z / ab - c * b.z / bb)};
    atoms.add_pair(i, j, fi);
    atoms.add_pair(k, m, fk);
    sums.virial(a, fi);
    sums.virial(b, fk);
}

__device__ void bend(const Atoms& atoms, const Angle& t, double g, Sums& sums) {
    turn(atoms, t.i, t.j, t.k, t.j, t, g, sums);
}

__device__ void harmonic_angle(const Atoms& atoms, const Angle& t, double theta0, double stiffness, Sums& sums) {
    const double away = acos(t.c) - theta0;
    sums.energy(0, 0.5 * stiffness * (away * away));
    if (t.s < 1e-12) return;  // a straight angle: the force along the bend is undefined, and zero in the mean
    bend(atoms, t, stiffness * away / t.s, sums);
}

struct Dihedral {
    int i, j, k, m;
    double phi;  // in (-pi, pi], 0 in the cis conformation
    Vec rij, rkj, rkm, p, q;
};

__device__ Dihedral dihedral(const Atoms& a, int i, int j, int k, int m) {
    const Vec rij = a.between(i, j), rkj = a.between(k, j), rkm = a.between(k, m);
    const Vec p = cross(rij, rkj), q = cross(rkj, rkm);
    const double sine = sqrt(dot(rkj, rkj)) * dot(rij, q);
    return {i, j, k, m, atan2(sine, dot(p, q)), rij, rkj, rkm, p, q};
}

// Forces of a dihedral whose energy has the derivative `slope` by its angle.
__device__ void twist(const Atoms& a, const Dihedral& d, double slope, Sums& sums) {
    const double pp = dot(d.p, d.p), qq = dot(d.q, d.q), kk = dot(d.rkj, d.rkj);
    if (!(pp > 1e-24 && qq > 1e-24)) return;  // three atoms in a line: the angle and its forces are undefined
    const double length = sqrt(kk);
    const Vec fi = (-slope * length / pp) * d.p, fm = (slope * length / qq) * d.q;
    const double u = dot(d.rij, d.rkj) / kk, w = dot(d.rkm, d.rkj) / kk;
    const Vec sv = u * fi - w * fm;
    // force on j: -(f_i - sv), on k: -(f_m + sv); written as pairs so that the four sum to zero exactly
    a.add_pair(d.i, d.j, fi);
    a.add_pair(d.m, d.k, fm);
    a.add_pair(d.j, d.k, sv);
    sums.virial(d.rij, fi);
    sums.virial(-d.rkm, fm);
    sums.virial(-d.rkj, sv);
}

__device__ void proper(const Atoms& a, const Dihedral& d, const double* p, Sums& sums) {
    const double argument = p[2] * d.phi - p[0];
    sums.energy(0, p[1] * (1.0 + cos(argument)));
    twist(a, d, -p[1] * p[2] * sin(argument), sums);
}

__device__ void improper(const Atoms& a, const Dihedral& d, const double* p, Sums& sums) {
    double away = d.phi - p[0];
    away -= 2.0 * PI * rint(away / (2.0 * PI));
    sums.energy(0, 0.5 * p[1] * away * away);
    twist(a, d, p[1] * away, sums);
}

__device__ void ryckaert_bellemans(const Atoms& a, const Dihedral& d, const double* p, Sums& sums) {
    const double c = -cos(d.phi);  // cos(psi), psi = phi - pi
    double energy = p[5], slope = 0.0;
    for (int n = 4; n >= 0; n--) {
        slope = slope * c + energy;
        energy = energy * c + p[n];
    }
    sums.energy(0, energy);
    twist(a, d, slope * sin(d.phi), sums);  // dV/dphi = dV/dc dc/dphi with dc/dphi = sin(phi)
}

__device__ void pair14(const Atoms& a, int i, int j, const double* p, Sums& sums) {
    const Vec r = a.between(i, j);
    const double inverse2 = 1.0 / dot(r, r), inverse6 = inverse2 * inverse2 * inverse2;
    const double coulomb = p[2] * sqrt(inverse2);
    const Vec force = (((12.0 * p[1] * inverse6 - 6.0 * p[0]) * inverse6 + coulomb) * inverse2) * r;
    a.add_pair(i, j, force);
    sums.energy(0, (p[1] * inverse6 - p[0]) * inverse6);
    sums.energy(1, coulomb);
    sums.virial(r, force);
}

// Long-range electrostatics of an excluded pair, where no other kernel has it: without energies.
__device__ void excluded_pair(const Atoms& a, int i, int j, const LongRange& field) {
    Sums none;
    const StoredForce f = exclusion_force(a.x[i], a.x[j], field, false, none);
    add_vector(a.f + 4 * (size_t)i, f.x, f.y, f.z);
    add_vector(a.f + 4 * (size_t)j, -f.x, -f.y, -f.z);
}

// Vector from the reference position of a restraint to its atom, and the part of the reference that does not scale.
struct Restrained {
    Vec r, rigid;

    __device__ __forceinline__ Restrained(const Kind& kind, int term, const Atoms& a, int i) {
        const int* y = kind.reference + 3 * (size_t)term;
        const double *u = kind.rigid + 6 * (size_t)term, *box = a.box;
        rigid = {u[3], u[4], u[5]};
        const Vec stretched = {u[0] * box[0] + u[1] * box[3] + u[2] * box[6],
                               u[0] * box[1] + u[1] * box[4] + u[2] * box[7],
                               u[0] * box[2] + u[1] * box[5] + u[2] * box[8]};
        r = difference(a.x[i], make_int4(y[0], y[1], y[2], 0), box) + (stretched - rigid);
    }
};

// V = 1/2 sum_d k_d (x_d - reference_d)^2 with the nearest image of the reference.
__device__ void restrain(const Atoms& a, int i, const Restrained& at, const double* k, Sums& sums) {
    const Vec r = at.r;
    const Vec force = {-k[0] * r.x, -k[1] * r.y, -k[2] * r.z};
    a.add(i, force);
    sums.energy(0, 0.5 * (k[0] * r.x * r.x + k[1] * r.y * r.y + k[2] * r.z * r.z));
    sums.virial(r + at.rigid, force);
}

// Bicubic surface over two dihedral angles, see cmap.py; coefficients : (n, n, 4, 4).
__device__ void correction_map(const Atoms& a, const Dihedral& first, const Dihedral& second, const double* coefficients,
                               int n, Sums& sums) {
    const double per_radian = n / (2.0 * PI);
    double u = (first.phi + PI) * per_radian, w = (second.phi + PI) * per_radian;
    const int i = (int)floor(u), j = (int)floor(w);
    u -= i, w -= j;
    const double* cell = coefficients + 16 * ((i % n) * n + j % n);
    double energy = 0.0, by_u = 0.0, by_w = 0.0;
    for (int m = 3; m >= 0; m--) {
        const double* k = cell + 4 * m;
        const double row = ((k[3] * w + k[2]) * w + k[1]) * w + k[0];
        const double row_w = (3.0 * k[3] * w + 2.0 * k[2]) * w + k[1];
        by_u = by_u * u + energy;
        energy = energy * u + row;
        by_w = by_w * u + row_w;
    }
    sums.energy(0, energy);
    twist(a, first, by_u * per_radian, sums);
    twist(a, second, by_w * per_radian, sums);
}

#include "more_terms.cuh"

__device__ void of_one_or_two(const Kind& kind, int term, const Atoms& a, int i, int j, const double* p, Sums& sums) {
    switch (kind.kind) {
        case BOND: return stretch(a, i, j, p[0], p[1], sums);
        case QUARTIC_BOND: return quartic_bond(a, i, j, p, sums);
        case MORSE_BOND: return morse_bond(a, i, j, p, sums);
        case CUBIC_BOND: return cubic_bond(a, i, j, p, sums);
        case FENE_BOND: return fene_bond(a, i, j, p, sums);
        case DISTANCE_RESTRAINT: return distance_restraint(a, i, j, p, sums);
        case PAIR14: return pair14(a, i, j, p, sums);
        case RESTRAINT: return restrain(a, i, Restrained(kind, term, a, i), p, sums);
        case ANGLE_RESTRAINT_Z: return angle_restraint_z(a, i, j, p, sums);
        case FLAT_BOTTOM: return flat_bottom(a, i, Restrained(kind, term, a, i), p, sums);
        case EXCLUDED: return excluded_pair(a, i, j, *reinterpret_cast<const LongRange*>(p));
    }
}

__device__ void of_three(int kind, const Atoms& a, int i, int j, int k, const double* p, Sums& sums) {
    const Angle t = angle_at(a, i, j, k);
    switch (kind) {
        case UREY_BRADLEY:
            stretch(a, i, k, p[2], p[3], sums);
            [[fallthrough]];  // its angle is a harmonic one
        case ANGLE: return harmonic_angle(a, t, p[0], p[1], sums);
        case COSINE_ANGLE: return cosine_angle(a, t, p, sums);
        case BOND_BOND_CROSS: return bond_bond_cross(a, t, p, sums);
        case BOND_ANGLE_CROSS: return bond_angle_cross(a, t, p, sums);
        case QUARTIC_ANGLE: return quartic_angle(a, t, p, sums);
        case LINEAR_ANGLE: return linear_angle(a, t, p, sums);
        case RESTRICTED_ANGLE: return restricted_angle(a, t, p, sums);
    }
}

__device__ void compute(const Kind& kind, int term, const Atoms& a, const int* __restrict__ slot_of, Sums& sums) {
    int s[MAX_ATOMS];
    for (int k = 0; k < MAX_ATOMS; k++)
        s[k] = k < kind.n_atoms ? slot_of[kind.atoms[(size_t)kind.n_atoms * term + k]] : 0;
    const double* p = kind.parameters + (size_t)kind.n_parameters * kind.index[term];
    wait_for_earlier();
    let_later_start();
    if (kind.n_atoms <= 2) return of_one_or_two(kind, term, a, s[0], s[1], p, sums);
    if (kind.n_atoms == 3) return of_three(kind.kind, a, s[0], s[1], s[2], p, sums);
    if (kind.kind == ANGLE_RESTRAINT) return angle_restraint(a, s[0], s[1], s[2], s[3], p, sums);
    const Dihedral d = dihedral(a, s[0], s[1], s[2], s[3]);
    switch (kind.kind) {
        case PROPER: return proper(a, d, p, sums);
        case IMPROPER: return improper(a, d, p, sums);
        case RYCKAERT_BELLEMANS: return ryckaert_bellemans(a, d, p, sums);
        case RESTRICTED_DIHEDRAL: return restricted_dihedral(a, d, p, sums);
        case BENDING_TORSION: return bending_torsion(a, d, p, sums);
        case DIHEDRAL_RESTRAINT: return dihedral_restraint(a, d, p, sums);
        case CMAP: return correction_map(a, d, dihedral(a, s[1], s[2], s[3], s[4]), p, kind.n_grid, sums);
    }
}

// x : (n, 4) int32; box : (9,) nm, rows a, b, c; slot_of : (n_atoms,) int32, slot of each global id
// f : (n, 4), added to; sums : energies and virials, added to with ENERGIES; virial : where the virial starts
// chosen : (terms of all kinds,) int32, count : (n_kinds,) int32, the terms of each kind to compute; with OWNED
extern "C" __global__ void __launch_bounds__(THREADS)
    bonded_forces(const int4* __restrict__ x, const double* __restrict__ box, const int* __restrict__ gid,
                  const int* __restrict__ slot_of, const Kind* __restrict__ kinds, int n_kinds, Force* f, Sum* sums,
                  int virial, int* error, const int* __restrict__ chosen, const int* __restrict__ count) {
    const int k = kind_of_block(kinds, n_kinds);
    const Kind kind = kinds[k];
    int term = (blockIdx.x - kind.first_block) * THREADS + threadIdx.x;
#if OWNED
    term = term < count[k] ? chosen[kind.first_term + term] : kind.n_terms;
#endif
    Sums mine;
    if (term < kind.n_terms) compute(kind, term, {x, box, f, gid, error}, slot_of, mine);
    if (!ENERGIES) return;
    add_of_warp(sums + kind.slot, mine.of[0]);
    if (kind.kind == PAIR14) add_of_warp(sums + kind.slot + 1, mine.of[1]);
    for (int e = 0; e < 9; e++) add_of_warp(sums + virial + e, mine.of[2 + e]);
}
