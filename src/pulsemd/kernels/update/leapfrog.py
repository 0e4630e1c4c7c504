"""Leap-frog integration on lattice coordinates, with SETTLE for rigid waters.

One step takes x(t), v(t - dt/2), f(t) to x(t + dt), v(t + dt/2) (Hockney & Eastwood, 1988):

    v <- scale * (v - v_com) + dt f / m;    x <- x + dt v;    constraints move x, and v by the same over dt.

Arithmetic is float64 with plain IEEE operations; velocities are stored as float32, positions as int32 lattice units.
The remainder of a vector loop therefore gives the same bits as its body, which reproducible mode relies on.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from pulsemd.base.fixed_point import ENERGY_SCALE, MOMENTUM_SCALE
from pulsemd.kernels.constraints.settle import settle_positions

BLOCK = 64
"""Waters of one block: gathered to rows of a scratch array, so that LLVM vectorises over molecules."""

SCRATCH_ROWS = 42
"""6 old H, 9 velocities, 9 forces, 9 new unconstrained, 9 new constrained positions."""

MAX_MOVE = 2.0**30
"""Largest displacement of one step, in lattice units: a quarter of the box."""

_V, _F, _U, _C = 6, 15, 24, 33
_LATTICE = 2.0**-32

KINETIC_SUMS = 6
"""Sums of `kinetic_sums`."""


def new_scratch() -> np.ndarray:
    """Scratch of the update kernels, (SCRATCH_ROWS * BLOCK,) float64."""
    return np.zeros(SCRATCH_ROWS * BLOCK)


@njit(nogil=True, error_model="numpy", cache=True)
def _gather(x, v, f, f_scale, waters, start, count, box, w):
    """Waters [start, start + count) to rows of `w`: hydrogens relative to O (nm), velocities, forces."""
    for k in range(count):
        o = waters[start + k, 0]
        for h in range(2):
            r = waters[start + k, h + 1]
            sx = float(np.int32(x[r, 0] - x[o, 0])) * _LATTICE
            sy = float(np.int32(x[r, 1] - x[o, 1])) * _LATTICE
            sz = float(np.int32(x[r, 2] - x[o, 2])) * _LATTICE
            for d in range(3):
                w[(3 * h + d) * BLOCK + k] = sx * box[0, d] + sy * box[1, d] + sz * box[2, d]
        for a in range(3):
            r = waters[start + k, a]
            for d in range(3):
                w[(_V + 3 * a + d) * BLOCK + k] = v[r, d]
                w[(_F + 3 * a + d) * BLOCK + k] = f[r, d] * f_scale


@njit(nogil=True, error_model="numpy", cache=True)
def _kick_and_drift(w, count, mass_o, mass_h, dt, scale, cx, cy, cz):
    """Kick velocities and drift to unconstrained positions (rows _V and _U of `w`)."""
    n = np.uint64(BLOCK)
    ko, kh = dt / mass_o, dt / mass_h
    for row in range(9):
        kick = ko if row < 3 else kh
        d = row % 3
        com = cx if d == 0 else (cy if d == 1 else cz)
        iv, jf, iu = np.uint64(_V + row) * n, np.uint64(_F + row) * n, np.uint64(_U + row) * n
        old = np.uint64(row - 3 if row >= 3 else 0) * n
        has_old = 1.0 if row >= 3 else 0.0
        for k in range(np.uint64(count)):
            vk = scale * (w[iv + k] - com) + kick * w[jf + k]
            w[iv + k] = vk
            w[iu + k] = has_old * w[old + k] + dt * vk


@njit(nogil=True, error_model="numpy", cache=True)
def _settle_block(w, count, r_a, r_b, r_c, w_h):
    """Constrained positions (rows _C of `w`) from rows _U and the old hydrogens."""
    n = np.uint64(BLOCK)
    u, c = np.uint64(_U) * n, np.uint64(_C) * n
    n2, n3, n4, n5, n6 = 2 * n, 3 * n, 4 * n, 5 * n, 6 * n
    n7, n8 = 7 * n, 8 * n
    for k in range(np.uint64(count)):
        a0, a1, a2, b0, b1, b2, c0, c1, c2 = settle_positions(
            r_a, r_b, r_c, w_h,
            w[k], w[n + k], w[n2 + k], w[n3 + k], w[n4 + k], w[n5 + k],
            w[u + k], w[u + n + k], w[u + n2 + k], w[u + n3 + k], w[u + n4 + k], w[u + n5 + k],
            w[u + n6 + k], w[u + n7 + k], w[u + n8 + k],
        )  # fmt: skip
        w[c + k], w[c + n + k], w[c + n2 + k] = a0, a1, a2
        w[c + n3 + k], w[c + n4 + k], w[c + n5 + k] = b0, b1, b2
        w[c + n6 + k], w[c + n7 + k], w[c + n8 + k] = c0, c1, c2


@njit(nogil=True, error_model="numpy", cache=True)
def move(x, row, dx, dy, dz, inv):
    """Add a Cartesian displacement (nm) to lattice row `row`; False if it is not finite or over a quarter box.

    `inv` is the inverse box times 2^32; the sum wraps around, which is the periodic boundary.
    """
    fine = True
    for d in range(3):
        m = dx * inv[0, d] + dy * inv[1, d] + dz * inv[2, d]
        if not abs(m) < MAX_MOVE:
            fine = False
    if fine:
        for d in range(3):
            m = dx * inv[0, d] + dy * inv[1, d] + dz * inv[2, d]
            x[row, d] = np.int32(np.int64(x[row, d]) + np.int64(np.rint(m)))
    return fine


@njit(nogil=True, error_model="numpy", cache=True)
def leapfrog_settle(x, v, f, f_scale, waters, geometry, box, inv, dt, scale, com, virial, virial_scale, w):
    """Advance rigid waters by one step.

    Parameters
    ----------
    x : (n_local, 3) int32, lattice units
        OUTPUT, updated.
    v : (n_local, 3) float32, nm/ps
        OUTPUT, updated.
    f : (n_local, 3) float32 kJ/mol/nm, or int64 fixed point
    f_scale : float
        kJ/mol/nm of one unit of `f`.
    waters : (m, 3) int32, local rows of O, H, H
    geometry : (7,) float64, from `settle_geometry`
    box, inv : (3, 3) float64, nm, and its inverse times 2^32
    dt : float, ps
    scale : float, thermostat factor on the old velocities
    com : (3,) float64, nm/ps, subtracted from the old velocities
    virial : (9,) float64 or int64
        OUTPUT, added to: sum of r (x) f of the constraint forces, kJ/mol times `virial_scale`; empty array: not wanted.
    virial_scale : float
        0 adds float64 unrounded; otherwise each molecule's term is rounded to an integer number of 1/virial_scale.
    w : scratch of `new_scratch`

    Returns
    -------
    int
        -1, or the local row of the first atom whose displacement is not finite or exceeds a quarter of the box.
    """
    m_o, m_h = geometry[0], geometry[1]
    bad = -1
    n = BLOCK
    for start in range(0, waters.shape[0], BLOCK):
        count = min(BLOCK, waters.shape[0] - start)
        _gather(x, v, f, f_scale, waters, start, count, box, w)
        _kick_and_drift(w, count, m_o, m_h, dt, scale, com[0], com[1], com[2])
        _settle_block(w, count, geometry[2], geometry[3], geometry[4], geometry[6])
        if virial.shape[0] == 9:
            _constraint_virial(w, count, m_h / (dt * dt), virial, virial_scale)
        for k in range(count):
            for a in range(3):
                row = waters[start + k, a]
                c = (_C + 3 * a) * n + k
                dx, dy, dz = w[c], w[c + n], w[c + 2 * n]
                if a > 0:
                    o = 3 * (a - 1) * n + k
                    dx, dy, dz = dx - w[o], dy - w[o + n], dz - w[o + 2 * n]
                if not move(x, row, dx, dy, dz, inv) and bad < 0:
                    bad = row
                v[row, 0], v[row, 1], v[row, 2] = dx / dt, dy / dt, dz / dt
    return bad


@njit(nogil=True, error_model="numpy", cache=True)
def _constraint_virial(w, count, m_h_dt2, virial, virial_scale):
    """Add r (x) f of the constraint forces: only the hydrogens count, relative to the old O."""
    n = BLOCK
    for k in range(count):
        for i in range(3):
            for j in range(3):
                s = 0.0
                for h in range(2):
                    g = w[(_C + 3 + 3 * h + j) * n + k] - w[(_U + 3 + 3 * h + j) * n + k]
                    s += w[(3 * h + i) * n + k] * g
                s *= m_h_dt2
                if virial_scale > 0.0:
                    virial[3 * i + j] += np.int64(np.rint(s * virial_scale))
                else:
                    virial[3 * i + j] += s


@njit(nogil=True, error_model="numpy", cache=True)
def leapfrog_free(x, v, f, f_scale, rows, mass, inv, dt, scale, com):
    """Advance unconstrained atoms by one step; arguments and result as `leapfrog_settle`.

    rows : (m,) int32, local rows; mass : (n_local,) float64, amu, 0 = frozen (its velocity is set to 0).
    """
    bad = -1
    for k in range(rows.shape[0]):
        r = rows[k]
        if mass[r] == 0.0:
            v[r, 0], v[r, 1], v[r, 2] = 0.0, 0.0, 0.0
            continue
        kick = dt / mass[r]
        ux = np.float32(scale * (v[r, 0] - com[0]) + kick * (f[r, 0] * f_scale))
        uy = np.float32(scale * (v[r, 1] - com[1]) + kick * (f[r, 1] * f_scale))
        uz = np.float32(scale * (v[r, 2] - com[2]) + kick * (f[r, 2] * f_scale))
        v[r, 0], v[r, 1], v[r, 2] = ux, uy, uz
        if not move(x, r, dt * ux, dt * uy, dt * uz, inv) and bad < 0:
            bad = r
    return bad


@njit(nogil=True, error_model="numpy", cache=True)
def half_kick(v, f, f_scale, mass, half, full):
    """Velocities after a kick of length `half` [ps]; full : (n_owned, 3) float64 OUTPUT; others as `leapfrog_free`."""
    for r in range(full.shape[0]):
        kick = half / mass[r] if mass[r] > 0.0 else 0.0
        for d in range(3):
            full[r, d] = v[r, d] + kick * (f[r, d] * f_scale)


@njit(nogil=True, error_model="numpy", cache=True)
def couple_groups(v, f, f_scale, mass, group, scale, kick, com, dt):
    """Let thermostats of several groups act on the old velocities, so that a step with no other thermostat follows.

    v <- scale (v - com) + (kick - 1) dt f / m, so that the step with scale 1, kick 1 and no com gives
    scale (v - com) + kick dt f / m.

    Parameters
    ----------
    v : (n_owned, 3) float32, nm/ps
        OUTPUT, updated.
    group : (n_owned,) int32
    scale, kick : (groups,) float64
    f, f_scale, mass, com, dt : as for `leapfrog_free`
    """
    for r in range(v.shape[0]):
        if mass[r] == 0.0:
            continue
        g = group[r]
        more = (kick[g] - 1.0) * dt / mass[r]
        for d in range(3):
            v[r, d] = scale[g] * (v[r, d] - com[d]) + more * (f[r, d] * f_scale)


@njit(nogil=True, error_model="numpy", cache=True)
def stop_groups(v, mass, group, velocity):
    """Take the velocity (groups, 3) [nm/ps] of each group from its atoms with mass; others as for `couple_groups`."""
    for r in range(v.shape[0]):
        if mass[r] > 0.0:
            for d in range(3):
                v[r, d] -= velocity[group[r], d]


@njit(nogil=True, error_model="numpy", cache=True)
def kinetic_sums(v, mass, n_owned, fixed, out):
    """Kinetic energy and momentum of the owned atoms.

    Parameters
    ----------
    v : (n_local, 3) float32, nm/ps
    mass : (n_local,) float64, amu
    n_owned : int
    fixed : bool
        Round each atom's terms to fixed point (2^20 per kJ/mol, 2^32 per amu nm/ps).
    out : (KINETIC_SUMS,) float64 or int64
        OUTPUT: sum of m v^2 / 2 [kJ/mol], the momentum [amu nm/ps], and the parts of the first sum along y and z.
    """
    out[:] = 0
    for r in range(n_owned):
        _add_kinetic(v, r, mass[r], fixed, out)


@njit(nogil=True, error_model="numpy", cache=True)
def kinetic_sums_of_groups(v, mass, group, n_owned, fixed, out):
    """The same for each group (n_local,) int32 of atoms; out : (groups, KINETIC_SUMS)."""
    out[:] = 0
    for r in range(n_owned):
        _add_kinetic(v, r, mass[r], fixed, out[group[r]])


@njit(nogil=True, error_model="numpy", cache=True)
def _add_kinetic(v, r, m, fixed, out):
    vx, vy, vz = np.float64(v[r, 0]), np.float64(v[r, 1]), np.float64(v[r, 2])
    e = 0.5 * m * (vx * vx + vy * vy + vz * vz)
    if fixed:
        out[0] += np.int64(np.rint(e * ENERGY_SCALE))
        out[1] += np.int64(np.rint(m * vx * MOMENTUM_SCALE))
        out[2] += np.int64(np.rint(m * vy * MOMENTUM_SCALE))
        out[3] += np.int64(np.rint(m * vz * MOMENTUM_SCALE))
        out[4] += np.int64(np.rint(0.5 * m * vy * vy * ENERGY_SCALE))
        out[5] += np.int64(np.rint(0.5 * m * vz * vz * ENERGY_SCALE))
    else:
        out[0] += e
        out[1] += m * vx
        out[2] += m * vy
        out[3] += m * vz
        out[4] += 0.5 * m * vy * vy
        out[5] += 0.5 * m * vz * vz
