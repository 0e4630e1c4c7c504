// Virtual sites of all kinds: places from those of the parents, and forces handed to them; the formulas and their order
// are those of virtual_sites.py, so that without contraction both give the same bits.
#pragma once

#include "exclusions.cuh"
#include "move.cuh"

enum { LINEAR, FIXED_DISTANCE, FIXED_ANGLE, OUT_OF_PLANE, NORMAL };

struct Site {
    int kind, n_parents;
    const int* atoms;      // global ids: the site, then its parents
    const double* values;  // the same order; the site's own is not used
    const int* slot_of;

    __device__ __forceinline__ int slot() const { return slot_of[atoms[0]]; }
    __device__ __forceinline__ int parent(int k) const { return slot_of[atoms[1 + k]]; }
    __device__ __forceinline__ double value(int k) const { return values[1 + k]; }
};

struct Places {
    const int4* x;
    const double* box;

    // From the first parent to another one.
    __device__ __forceinline__ Vec to(const Site& s, int k) const {
        return difference(x[s.parent(k)], x[s.parent(0)], box);
    }
};

struct Unit {
    Vec e;
    double length;
};

__device__ __forceinline__ Unit unit(Vec a) {
    const double length = sqrt(dot(a, a));
    return {1.0 / length * a, length};
}

// The part of a across the unit vector e.
__device__ __forceinline__ Vec across(Vec a, Vec e) { return a + -dot(a, e) * e; }

__device__ Vec weighted(const Site& s, const Places& at) {
    Vec sum = {0.0, 0.0, 0.0};
    for (int k = 1; k < s.n_parents; k++) sum = sum + s.value(k) * at.to(s, k);
    return sum;
}

// From the first parent to the site.
__device__ Vec away(const Site& s, const Places& at) {
    if (s.kind == LINEAR) return weighted(s, at);
    if (s.kind == FIXED_DISTANCE) return s.value(0) * unit(weighted(s, at)).e;
    const Vec r1 = at.to(s, 1), r2 = at.to(s, 2);
    if (s.kind == FIXED_ANGLE) {
        const Vec e1 = unit(r1).e, e2 = unit(across(r2 - r1, e1)).e;
        return s.value(0) * e1 + s.value(1) * e2 + s.value(2) * cross(e1, e2);
    }
    if (s.kind == OUT_OF_PLANE) return s.value(1) * r1 + s.value(2) * r2 + s.value(0) * cross(r1, r2);
    const Vec r3 = at.to(s, 3);
    return s.value(0) * unit(cross(s.value(1) * r2 - r1, s.value(2) * r3 - r1)).e;
}

struct Shares {
    Vec second, third, fourth;
};

// What parents after the first get of the force on a site of one of the last three kinds.
__device__ Shares shares_of(const Site& s, const Places& at, Vec f) {
    const Vec r1 = at.to(s, 1), r2 = at.to(s, 2), none = {0.0, 0.0, 0.0};
    const double v0 = s.value(0), v1 = s.value(1), v2 = s.value(2);
    if (s.kind == OUT_OF_PLANE) return {v1 * f + v0 * cross(r2, f), v2 * f + v0 * cross(f, r1), none};
    if (s.kind == FIXED_ANGLE) {
        const Vec q = r2 - r1;
        const Unit u1 = unit(r1), u2 = unit(across(q, u1.e));
        const Vec on_e1 = v0 * f + v2 * cross(u2.e, f), on_e2 = v1 * f + v2 * cross(f, u1.e);
        const Vec g = 1.0 / u2.length * across(on_e2, u2.e), f2 = across(g, u1.e);
        const Vec h = on_e1 + (-dot(g, u1.e) * q + -dot(q, u1.e) * g);
        return {1.0 / u1.length * across(h, u1.e) - f2, f2, none};
    }
    const Vec r3 = at.to(s, 3), a = v1 * r2 - r1, b = v2 * r3 - r1;
    const Unit n = unit(cross(a, b));
    const Vec t = v0 / n.length * across(f, n.e), fa = cross(b, t), fb = cross(t, a);
    return {-(fa + fb), v1 * fa, v2 * fb};
}

__device__ __forceinline__ void add_stored(Force* f, int slot, const StoredForce& force) {
    StoredForce sum = stored_force(f, slot);
    sum += force;
    store_force(f, slot, sum);
}

// Hand the force of a site to its parents; its own becomes zero. In fixed point the first parent gets what the others
// leave: momentum is exact. One thread has the site and all its parents.
__device__ void spread_site(const Site& s, const Places& at, Force* f, Sums& sums) {
    const int slot = s.slot();
    StoredForce left = stored_force(f, slot);
    const Vec force = to_vector(left);
    Vec rest = force, along = {0.0, 0.0, 0.0};
    Shares shares;
    if (s.kind == FIXED_DISTANCE) {
        const Unit u = unit(weighted(s, at));
        along = s.value(0) / u.length * across(force, u.e);
    } else if (s.kind != LINEAR) {
        shares = shares_of(s, at, force);
    }
    for (int k = 1; k < s.n_parents; k++) {
        Vec share;
        if (s.kind == LINEAR)
            share = s.value(k) * force;
        else if (s.kind == FIXED_DISTANCE)
            share = s.value(k) * along;
        else
            share = k == 1 ? shares.second : k == 2 ? shares.third : shares.fourth;
        const StoredForce given = {to_force(share.x), to_force(share.y), to_force(share.z)};
        rest = rest - share;
        left += -given;
        add_stored(f, s.parent(k), given);
        sums.virial(difference(at.x[s.parent(k)], at.x[slot], at.box), share);
    }
    add_stored(f, s.parent(0), left);
    store_force(f, slot, {0, 0, 0});
    sums.virial(difference(at.x[s.parent(0)], at.x[slot], at.box), rest);
}

// Put a site at a vector (nm) from its first parent; it keeps its fourth word. Returns its row.
__device__ __forceinline__ int4 place_site(const State& s, int slot, int4 parent, Vec from_parent) {
    parent.w = s.x[slot].w;
    return move(s, slot, parent, from_parent);
}
