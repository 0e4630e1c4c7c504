"""Lattice sums of point charges in float64: every wave that matters, and the error that theory expects of a mesh."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np

from pulsemd.kernels.pme.mesh import signed_waves, wave_factors

FACTOR = 138.935458
BETA = 3.123413
CUBE = np.diag([2.2, 2.2, 2.2])
DODECAHEDRON = 2.3 * np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.5, 0.5, np.sqrt(0.5)]])
UNREDUCED = np.array([[1.0, 0.0, 0.0], [2.0, 1.0, 0.0], [-1.0, 3.0, 1.0]]) @ DODECAHEDRON
BOXES = {"cube": CUBE, "dodecahedron": DODECAHEDRON, "unreduced": UNREDUCED}


def direct_sum(positions, charge, box):
    """Energy, virial and forces of the reciprocal part by structure factors of every wave that matters."""
    inverse, volume = np.linalg.inv(box), abs(np.linalg.det(box))
    reach = 2.0 * BETA  # exp(-(pi m/beta)^2) is below 1e-17 beyond
    most = [int(np.ceil(reach * np.linalg.norm(row))) for row in box]
    waves = np.array(list(itertools.product(*(range(-n, n + 1) for n in most)))) @ inverse.T
    square = (waves**2).sum(1)
    chosen = (square > 0) & (square < reach**2)
    waves, square = waves[chosen], square[chosen]
    green = FACTOR / (np.pi * volume) * np.exp(-((np.pi / BETA) ** 2) * square) / square
    phase = np.exp(2j * np.pi * positions @ waves.T)
    structure = charge @ phase
    each = 0.5 * green * abs(structure) ** 2
    background = -FACTOR * np.pi * charge.sum() ** 2 / (2.0 * volume * BETA**2)
    energy = each.sum() + background
    stretched = -2.0 * each * (1.0 + (np.pi / BETA) ** 2 * square) / square
    virial = np.einsum("m,ma,mb->ab", stretched, waves, waves) + energy * np.eye(3)
    forces = 2.0 * np.pi * charge[:, None] * np.imag(phase * (structure.conj() * green) @ waves)
    return energy, virial, forces


def system(box, seed, n=120):
    """Random positions, far outside the box too, and charges with a net charge."""
    rng = np.random.default_rng(seed)
    return rng.uniform(-2.0, 2.0, (n, 3)) @ box, rng.normal(size=n)


def expected_error(charge, box, shape, order):
    """RMS error of the forces on charges at random places, from the waves and their aliases.

    A wave k on the mesh is spread and read with weights W of each of its aliases k + p; the force on a charge from
    another has amplitude 2 pi m_p G W_p W_p' where it should be 2 pi m_p g_p for p = p' and 0 else. The mean over
    both positions is the sum of the squares (as in Hockney & Eastwood 1988, chapter 8, for any influence function).
    On itself a charge feels the sum over all k with the same p - p', which should be 0 (Ballenegger, Cerda & Holm,
    J. Chem. Theory Comput. 8, 936 (2012)).
    """
    of_others, of_itself = _squares_of_errors(tuple(map(tuple, box.tolist())), tuple(shape), order)
    squares = np.mean(charge**2) * (charge**2).sum() * of_others + np.mean(charge**4) * of_itself
    return np.sqrt(squares) / abs(np.linalg.det(box))


@cache
def _squares_of_errors(rows, shape, order):
    """What `expected_error` multiplies by charges: sums over pairs of aliases, by box, mesh and order."""
    inverse = np.linalg.inv(np.array(rows))
    k = np.stack(np.meshgrid(*(signed_waves(n) for n in shape), indexing="ij"), -1).reshape(-1, 3)
    k = k[(k != 0).any(1)]
    spline = np.prod([wave_factors(n, order)[k[:, d]] for d, n in enumerate(shape)], axis=0)
    aliases = {p: k + np.array(p) * shape for p in itertools.product((-1, 0, 1), repeat=3)}
    weights, waves, wanted = {}, {}, {}
    for p, m in aliases.items():
        signs = np.prod([1.0 if d % 2 == 0 or order % 2 == 0 else -1.0 for d in p])
        weights[p] = signs * np.prod(np.sinc(m / shape), axis=1) ** order
        waves[p] = m @ inverse.T
        square = (waves[p] ** 2).sum(1)
        wanted[p] = FACTOR * np.exp(-((np.pi / BETA) ** 2) * square) / (np.pi * square)
    green = wanted[0, 0, 0] * spline
    total, own = 0.0, {}
    for p, q in itertools.product(aliases, repeat=2):
        amplitude = green * weights[p] * weights[q] - (wanted[p] if p == q else 0.0)
        total += 4.0 * np.pi**2 * ((waves[p] ** 2).sum(1) * amplitude**2).sum()
        if p != q:
            apart = tuple(np.subtract(p, q))
            own[apart] = own.get(apart, 0.0) + 2.0 * np.pi * waves[p].T @ (green * weights[p] * weights[q])
    return total, sum((a**2).sum() for a in own.values())
