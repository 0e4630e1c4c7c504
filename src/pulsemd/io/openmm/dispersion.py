"""The long-range correction of OpenMM: pairs beyond the cut-off, by the mean potential of all pairs of types."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from pulsemd.forcefield.dispersion import DispersionCorrection
from pulsemd.forcefield.nonbonded import LennardJonesTable
from pulsemd.io.openmm.draft import PairPart, SystemDraft

Float64 = NDArray[np.float64]

_POINTS = 60


def dispersion_correction(
    draft: SystemDraft, shares: list[Float64], counts: NDArray[np.int64], table: LennardJonesTable
) -> DispersionCorrection | None:
    """The correction of all forces that ask for one, with the constant energy of the draft.

    Its energy is 2 pi N^2 / V times the integral of (1 - S(r)) V(r) r^2, V the mean over N (N + 1) / 2 pairs, an atom
    with itself included; S is the switching function, 0 beyond the cut-off. Its virial is that of the force of
    (1 - S) V, without what a potential that jumps at the cut-off has there.

    Parameters
    ----------
    draft : SystemDraft
    shares : list of (T, p) float64
        Parameters of types, of each part of the pair potential.
    counts : (T,) int64, atoms of each type
    table : LennardJonesTable

    Raises
    ------
    TopologyError
        If a potential falls off too slowly.
    """
    n, cutoff = int(counts.sum()), draft.cutoffs[0][1]
    weights = (np.outer(counts, counts) + np.diag(counts)) / (n * (n + 1))
    corrected = [(p, s) for p, s in zip(draft.pair_parts, shares, strict=True) if p.corrected]
    energy = virial = 0.0
    for part, share in corrected:
        mean = _mean_potential(part, share, weights, table)
        near, far = (float(abs(mean(np.array([r]))[0])) * r**3 for r in (1e2 * cutoff, 1e4 * cutoff))
        if far > 0.1 * near:
            raise part.force.error(
                "its potential falls off too slowly for a long-range correction",
                "setUseLongRangeCorrection(False)",
            )
        beyond = _beyond(mean, part.switch, cutoff)
        jump = float(mean(np.array([cutoff]))[0]) * cutoff**3 / 3.0 if part.switch is None else 0.0
        energy += 2.0 * np.pi * n * n * beyond
        virial += 2.0 * np.pi * n * n * (beyond + jump)
    return DispersionCorrection(draft.constant, energy, virial) if corrected or draft.constant else None


def _mean_potential(
    part: PairPart, share: Float64, weights: Float64, table: LennardJonesTable
) -> Callable[[Float64], Float64]:
    """Mean energy [kJ/mol] of a pair at distances [nm]."""
    if part.coefficients is not None:
        c6, c12 = (float((weights * c).sum()) for c in part.coefficients(share))
        return lambda r: c12 * r**-12 - c6 * r**-6
    assert part.potential is not None
    nothing = np.zeros_like(table.c6)
    potential = part.potential(share, nothing, nothing, None).resolve(table)
    pairs, like = potential.distinct()
    of_pairs = np.bincount(like.ravel(), weights.ravel(), len(pairs))

    i, j = np.array(pairs).T

    def mean(r: Float64) -> Float64:
        total: Float64 = of_pairs @ potential.energies(i, j, r)
        return total

    return mean


def _beyond(mean: Callable[[Float64], Float64], switch: float | None, cutoff: float) -> float:
    """Integral of (1 - S(r)) V(r) r^2; beyond the cut-off over its inverse distance."""
    nodes, weights = np.polynomial.legendre.leggauss(_POINTS)
    u = 0.5 * (nodes + 1.0)
    total = 0.5 * float((weights * mean(cutoff / u) * cutoff**3 / u**4).sum())
    if switch is None:
        return total
    width = cutoff - switch
    r = switch + width * u
    off = u**3 * (10.0 - 15.0 * u + 6.0 * u * u)  # 1 - S
    return total + 0.5 * width * float((weights * off * mean(r) * r * r).sum())
