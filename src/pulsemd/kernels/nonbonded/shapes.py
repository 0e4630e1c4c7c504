"""The pair potential of many types as few functions of the distance, for estimates over all pairs of types."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pulsemd.kernels.nonbonded.potential import PotentialTable

_FEW = 16
"""Different pairs of types up to which each keeps a function of its own."""

_NEAREST, _POINTS, _AT_ONCE = 0.25, 240, 1024
_LEFT_OUT = 1e-12
"""Part of the mean square, at every distance alike, that may be left out."""


def principal_shapes(
    potential: PotentialTable, cutoff: float
) -> tuple[np.ndarray, Callable[[np.ndarray], np.ndarray]]:
    """Energies of all pairs of types as sums over few shapes, but for constants.

    Parameters
    ----------
    potential : PotentialTable
    cutoff : float, nm

    Returns
    -------
    of_types : (S, T, T) float64
        How much of each shape a pair of types has.
    shapes : function of distances (p,) nm -> (S, p) kJ/mol
        From a quarter of the cut-off to the cut-off.

    Notes
    -----
    Principal components of the energies at fixed distances, each divided by the root of its mean square. Potentials
    that differ by factors need as many as there are factors; others, about ten.
    """
    pairs, like = potential.distinct()
    i, j = np.array(pairs).T
    if len(pairs) <= _FEW:
        chosen = like == np.arange(len(pairs))[:, None, None]
        return chosen.astype(np.float64), lambda r: potential.energies(i, j, r)
    r = np.geomspace(_NEAREST * cutoff, cutoff, _POINTS)
    parts = [slice(k, k + _AT_ONCE) for k in range(0, len(pairs), _AT_ONCE)]

    def energies(part: slice) -> np.ndarray:
        found = potential.energies(i[part], j[part], r)
        return found - found[:, -1:]

    square = sum((found := energies(part)).T @ found for part in parts)
    scale = np.sqrt(np.diag(square))
    scale = np.where(scale > 0.0, scale, 1.0)
    values, vectors = np.linalg.eigh(square / np.outer(scale, scale))
    kept = vectors[:, values > _LEFT_OUT * values.sum()]
    much = np.concatenate([energies(part) / scale @ kept for part in parts])
    rows = (scale[:, None] * kept).T
    return much.T[:, like], lambda x: np.stack([np.interp(x, r, row) for row in rows])
