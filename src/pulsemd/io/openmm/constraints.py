"""Constraints of OpenMM: rigid waters, and stars of hydrogens."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pulsemd.base.errors import TopologyError
from pulsemd.topology.groups import update_groups

Int32 = NDArray[np.int32]
Float64 = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Constraints:
    """Constrained pairs, those of rigid waters apart.

    Parameters
    ----------
    waters : (m, 3) int32
        The atom of two equal distances, then the others.
    water_lengths : (m, 2) float64, nm: the two equal distances, and the third
    pairs : (k, 2) int32
    lengths : (k,) float64, nm
    """

    waters: Int32
    water_lengths: Float64
    pairs: Int32
    lengths: Float64


def sort_constraints(pairs: Int32, lengths: Float64, mass: Float64, file: str | None) -> Constraints:
    """Tell rigid waters from other constraints.

    Parameters
    ----------
    pairs : (k, 2) int32
    lengths : (k,) float64, nm
    mass : (n,) float64, amu
    file : str or None
        For messages.

    Raises
    ------
    TopologyError
        For a particle without mass, one pair twice, a particle with itself, or a length that is not positive.
    """
    low, high = np.sort(pairs.astype(np.int64), axis=1).T
    _, first = np.unique(low * len(mass) + high, return_index=True)
    again = np.ones(len(pairs), bool)
    again[first] = False
    for bad, why in (
        ((mass[pairs] == 0).any(1), "a constrained particle has no mass"),
        (pairs[:, 0] == pairs[:, 1], "a particle is constrained to itself"),
        (again, "the pair is constrained already; keep one"),
        (lengths <= 0, "its distance is not positive"),
    ):
        for i in np.flatnonzero(bad)[:1]:
            raise TopologyError(f"constraint {i} of particles {pairs[i].tolist()}: {why}", file)
    offset, atoms = update_groups(len(mass), pairs.astype(np.int64))
    group = np.empty(len(mass), np.int64)
    group[atoms] = np.repeat(np.arange(len(offset) - 1), np.diff(offset))
    order = np.argsort(group[pairs[:, 0]] if len(pairs) else pairs[:, 0], kind="stable")
    used, first, counts = np.unique(group[pairs[order, 0]], return_index=True, return_counts=True)
    sizes = np.diff(offset)[used]
    triangles = np.flatnonzero((counts == 3) & (sizes == 3))
    water, settled = _waters(pairs, lengths, mass, order[first[triangles][:, None] + np.arange(3)])
    rest = np.ones(len(pairs), bool)
    rest[settled] = False
    return Constraints(*water, pairs[rest], lengths[rest])


def _waters(
    pairs: Int32, lengths: Float64, mass: Float64, rows: NDArray[np.int64]
) -> tuple[tuple[Int32, Float64], NDArray[np.int64]]:
    """Waters among triangles (t, 3) of constraints: ((m, 3) atoms, (m, 2) lengths), and their constraints.

    In a water two distances are equal, and the atoms at their other ends have equal masses.
    """
    apex_of = lengths[rows]
    odd = np.argmax(np.abs(apex_of - np.median(apex_of, axis=1, keepdims=True)), axis=1)
    third = np.take_along_axis(rows, odd[:, None], 1)[:, 0]
    hydrogens = pairs[third]
    members = pairs[rows].reshape(len(rows), 6)
    is_apex = (members[:, :, None] != hydrogens[:, None, :]).all(2)
    apex = np.take_along_axis(members, np.argmax(is_apex, axis=1)[:, None], 1)
    equal = np.sort(np.delete(apex_of.ravel(), np.arange(len(rows)) * 3 + odd).reshape(-1, 2), axis=1)
    good = (equal[:, 0] == equal[:, 1]) & (mass[hydrogens[:, 0]] == mass[hydrogens[:, 1]])
    atoms = np.column_stack([apex, np.sort(hydrogens, axis=1)])[good]
    return (atoms.astype(np.int32), np.column_stack([equal[good, 0], lengths[third[good]]])), rows[
        good
    ].ravel()
