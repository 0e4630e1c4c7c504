"""LINCS: constraints of chains and rings of bonds by a series for the inverse of the matrix that couples them.

Every sum goes over the constraints of an atom or the neighbors of a constraint in their global order, so a constraint
whose surroundings are there gets the same bits on every rank.

References
----------
B. Hess, H. Bekker, H. J. C. Berendsen, J. G. E. M. Fraaije, J. Comput. Chem. 18, 1463 (1997);
B. Hess, J. Chem. Theory Comput. 4, 116 (2008).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from pulsemd.kernels.bonded.geometry import difference
from pulsemd.kernels.update.leapfrog import move


@njit(nogil=True, error_model="numpy", cache=True)
def unconstrained_moves(v, f, f_scale, rows, inverse_mass, dt, scale, com, moves):
    """How far atoms go in a step without constraints; arguments as `pulsemd.kernels.update.leapfrog.leapfrog_free`.

    Parameters
    ----------
    rows : (m,) int32, local rows
    inverse_mass : (m,) float64, 1/amu
    moves : (m or more, 3) float64, nm
        OUTPUT.
    """
    for k in range(rows.shape[0]):
        r = rows[k]
        for d in range(3):
            kick = dt * inverse_mass[k] * (f[r, d] * f_scale)
            moves[k, d] = dt * (scale * (v[r, d] - com[d]) + kick)


@njit(nogil=True, error_model="numpy", cache=True)
def couple_constraints(chosen, place, ends, offset, of_atom, weights, inverse_mass):
    """The matrix between constraints that share an atom, without the cosines of their angles.

    Parameters
    ----------
    chosen, place : (c,) int32 numbers of the constraints here, ascending; (C,) int32 where each is, -1: not here
    ends : (C, 2) int32, atoms of the network
    offset, of_atom : (k + 1,) int64, (2 C,) int32, constraints of each atom, ascending
    weights : (C,) float64, 1/sqrt(1/m_i + 1/m_j)
    inverse_mass : (k,) float64

    Returns
    -------
    (c + 1,) int64, (n,) int32, (n,) float64
        Neighbors of each constraint that are here, by their places, and factors.
    """
    start, size = np.zeros(chosen.size + 1, np.int64), 0
    for c in chosen:
        for a in ends[c]:
            size += offset[a + 1] - offset[a]
    neighbors, factors = np.empty(size, np.int32), np.empty(size)
    n = 0
    for k in range(chosen.size):
        c = chosen[k]
        for side in range(2):
            a = ends[c, side]
            for o in range(offset[a], offset[a + 1]):
                other = of_atom[o]
                if other != c and place[other] >= 0:
                    sign = -1.0 if ends[other, side] == a else 1.0
                    neighbors[n] = place[other]
                    factors[n] = sign * inverse_mass[a] * weights[c] * weights[other]
                    n += 1
        start[k + 1] = n
    return start, neighbors[:n], factors[:n]


@njit(nogil=True, error_model="numpy", cache=True)
def lincs(x, moves, inverse_mass, pairs, targets, coupling, box, order, iterations, found):
    """Change moves so that constraints hold after them.

    Parameters
    ----------
    x : (n, 3) int32, lattice units, before the moves
    moves : (n, 3) float64, nm
        OUTPUT, changed.
    inverse_mass : (n,) float64, 1/amu
    pairs : (c, 2) int32 rows of ``x``
    targets : lengths (c,) float64 nm, and weights (c,) float64
    coupling : what `couple_constraints` gives
    box : (3, 3) float64, nm
    order : int
        Terms of the series after the first.
    iterations : int
        Corrections for what rotation lengthens.
    found : (c, 4) float64
        OUTPUT: direction of each constraint before the moves, and its multiplier: atoms have been moved by -1/m and 1/m
        times their product, amu nm.
    """
    n = pairs.shape[0]
    lengths, weights = targets
    r, rhs, solution = np.empty((n, 3)), np.empty(n), np.empty(n)
    for c in range(n):
        r[c, 0], r[c, 1], r[c, 2] = difference(x, pairs[c, 0], pairs[c, 1], box)
    matrix = _begin(r, coupling, found)
    for iteration in range(iterations + 1):
        for c in range(n):
            i, j = pairs[c, 0], pairs[c, 1]
            along, square = 0.0, 0.0
            for d in range(3):
                now = r[c, d] + (moves[i, d] - moves[j, d])
                along += found[c, d] * now
                square += now * now
            if iteration == 0:
                gap = along - lengths[c]
            else:
                left = 2.0 * lengths[c] * lengths[c] - square
                gap = lengths[c] - (np.sqrt(left) if left > 0.0 else 0.0)
            rhs[c] = solution[c] = weights[c] * gap
        _solve(rhs, solution, coupling, matrix, order)
        _change(moves, inverse_mass, pairs, weights, solution, found)


@njit(nogil=True, error_model="numpy", cache=True)
def lincs_velocities(x, v, inverse_mass, pairs, weights, coupling, box, order, iterations, found):
    """Take out of velocities (n, 3) float64 what changes the lengths of constraints.

    Parameters
    ----------
    v : OUTPUT, changed.
    weights : (c,) float64
    iterations : int
        The same again for what the series leaves.
    found : (c, 4) float64
        OUTPUT, as of `lincs`; atoms have changed by -1/m and 1/m times the product, amu nm/ps.
    x, inverse_mass, pairs, coupling, box, order : as for `lincs`
    """
    n = pairs.shape[0]
    r, rhs, solution = np.empty((n, 3)), np.empty(n), np.empty(n)
    for c in range(n):
        r[c, 0], r[c, 1], r[c, 2] = difference(x, pairs[c, 0], pairs[c, 1], box)
    matrix = _begin(r, coupling, found)
    for _ in range(iterations + 1):
        for c in range(n):
            i, j = pairs[c, 0], pairs[c, 1]
            apart = 0.0
            for d in range(3):
                apart += found[c, d] * (v[i, d] - v[j, d])
            rhs[c] = solution[c] = weights[c] * apart
        _solve(rhs, solution, coupling, matrix, order)
        _change(v, inverse_mass, pairs, weights, solution, found)


@njit(nogil=True, error_model="numpy", cache=True)
def _begin(r, coupling, found):
    """Directions of constraints into `found`, with multipliers of 0; the matrix of the series."""
    start, neighbors, factors = coupling
    for c in range(r.shape[0]):
        length = np.sqrt(r[c, 0] * r[c, 0] + r[c, 1] * r[c, 1] + r[c, 2] * r[c, 2])
        for d in range(3):
            found[c, d] = r[c, d] / length
        found[c, 3] = 0.0
    matrix = np.empty(neighbors.shape[0])
    for c in range(r.shape[0]):
        for k in range(start[c], start[c + 1]):
            o = neighbors[k]
            cosine = found[c, 0] * found[o, 0] + found[c, 1] * found[o, 1] + found[c, 2] * found[o, 2]
            matrix[k] = factors[k] * cosine
    return matrix


@njit(nogil=True, error_model="numpy", cache=True)
def _solve(rhs, solution, coupling, matrix, order):
    """Add the further terms of the series to a solution, whose first is `rhs`, which is lost."""
    start, neighbors, _ = coupling
    term = np.empty(rhs.shape[0])
    for _ in range(order):
        for c in range(rhs.shape[0]):
            value = 0.0
            for k in range(start[c], start[c + 1]):
                value += matrix[k] * rhs[neighbors[k]]
            term[c] = value
            solution[c] += value
        rhs, term = term, rhs


@njit(nogil=True, error_model="numpy", cache=True)
def _change(vectors, inverse_mass, pairs, weights, solution, found):
    """Let constraints act on moves or velocities."""
    for c in range(pairs.shape[0]):
        i, j = pairs[c, 0], pairs[c, 1]
        multiplier = weights[c] * solution[c]
        found[c, 3] += multiplier
        for d in range(3):
            vectors[i, d] -= inverse_mass[i] * multiplier * found[c, d]
            vectors[j, d] += inverse_mass[j] * multiplier * found[c, d]


@njit(nogil=True, error_model="numpy", cache=True)
def worst_rotation(x, moves, pairs, box, found, n_owned):
    """The constraint of an owned first atom that turns most, and the cosine of its angle; (-1, 1) without any."""
    worst, cosine = -1, 1.0
    for c in range(pairs.shape[0]):
        i, j = pairs[c, 0], pairs[c, 1]
        if i >= n_owned:
            continue
        old = difference(x, i, j, box)
        along, square = 0.0, 0.0
        for d in range(3):
            now = old[d] + (moves[i, d] - moves[j, d])
            along += found[c, d] * now
            square += now * now
        here = along / np.sqrt(square)
        if not here >= cosine:
            worst, cosine = c, here
    return worst, cosine


@njit(nogil=True, error_model="numpy", cache=True)
def apply_moves(x, v, rows, moves, inverse, dt):
    """Move owned atoms and set their velocities; -1, or the first row that moves more than a quarter of the box."""
    bad = -1
    for k in range(rows.shape[0]):
        r = rows[k]
        if not move(x, r, moves[k, 0], moves[k, 1], moves[k, 2], inverse) and bad < 0:
            bad = r
        for d in range(3):
            v[r, d] = moves[k, d] / dt
    return bad


@njit(nogil=True, error_model="numpy", cache=True)
def add_virial(x, pairs, box, found, n_owned, over, virial, virial_scale):
    """Add r (x) f of the constraints whose first atom is owned, f being multipliers over `over`.

    That is the squared length of a step for moves, a time for velocities. See `leapfrog_settle` for the last two.
    """
    for c in range(pairs.shape[0]):
        if pairs[c, 0] >= n_owned:
            continue
        old = difference(x, pairs[c, 0], pairs[c, 1], box)
        for a in range(3):
            for b in range(3):
                value = -old[a] * found[c, 3] * found[c, b] / over
                if virial_scale > 0.0:
                    virial[3 * a + b] += np.int64(np.rint(value * virial_scale))
                else:
                    virial[3 * a + b] += value
