"""Update groups: atoms that are constrained together and therefore always live on one rank."""

from __future__ import annotations

import numpy as np

from pulsemd.topology.records import Float64, Int32, Int64


def update_groups(n_atoms: int, links: Int64) -> tuple[Int64, Int32]:
    """Connected sets of atoms as compressed rows, in order of their first atom.

    Parameters
    ----------
    n_atoms : int
    links : (k, 2) int64
        Pairs that must stay together; an atom without links is a group of its own.

    Returns
    -------
    offset : (g + 1,) int64
    atoms : (n_atoms,) int32
        The first atom of each group, its leader, is the one with the lowest index.
    """
    label = np.arange(n_atoms)
    while True:
        lowest = label.copy()
        np.minimum.at(lowest, links[:, 0], label[links[:, 1]])
        np.minimum.at(lowest, links[:, 1], label[links[:, 0]])
        lowest = lowest[lowest]
        if np.array_equal(lowest, label):
            break
        label = lowest
    atoms = np.argsort(label, kind="stable")
    starts = np.flatnonzero(np.diff(label[atoms], prepend=-1))
    return np.append(starts, n_atoms).astype(np.int64), atoms.astype(np.int32)


MOST_TOGETHER = 16
"""Atoms that constraints may tie together without being a network."""

MOST_BY_SHAKE = 128
"""The same where SHAKE is asked for, which then solves them on one rank, and no networks."""


def constraint_links(n_atoms: int, pairs: Int64, most: int) -> tuple[Int64, int]:
    """The constraints whose atoms have to be on one rank.

    Parameters
    ----------
    n_atoms : int
    pairs : (c, 2) int64, constrained atoms
    most : int
        Sets of more atoms that constraints tie together are networks, which may lie across ranks; in them an atom with
        one constraint stays with its partner.

    Returns
    -------
    (k, 2) int64
    int
        Atoms of the largest set.
    """
    offset, atoms = update_groups(n_atoms, pairs)
    sizes = np.diff(offset)
    size = np.empty(n_atoms, np.int64)
    size[atoms] = np.repeat(sizes, sizes)
    degree = np.bincount(pairs.ravel(), minlength=n_atoms)
    largest = int(sizes.max(initial=1))
    together: Int64 = pairs[(size[pairs[:, 0]] <= most) | (degree[pairs] == 1).any(1)]
    return together, largest


def rigid_triangles(mass: Float64, pairs: Int64, lengths: Float64) -> tuple[Int64, Float64]:
    """Three atoms that are constrained with each other and with no other, as a rigid water is: SETTLE solves them.

    Parameters
    ----------
    mass : (n_atoms,) float64, amu
    pairs : (c, 2) int64, constrained atoms
    lengths : (c,) float64, nm

    Returns
    -------
    atoms : (m, 3) int64
        The atom with two equal constraints, then the two equal masses.
    lengths : (m, 2) float64, nm
        Of the equal constraints, and of the third one.
    """
    partners: dict[int, dict[int, float]] = {}
    for (i, j), length in zip(pairs.tolist(), lengths.tolist(), strict=True):
        partners.setdefault(i, {})[j] = partners.setdefault(j, {})[i] = length
    atoms, sides, used = [], [], set()
    for apex, found in partners.items():
        if len(found) != 2 or apex in used:
            continue
        a, b = sorted(found)
        closed = set(partners[a]) == {apex, b} and set(partners[b]) == {apex, a}
        masses_fit = mass[a] == mass[b] > 0 and mass[apex] > 0
        if closed and masses_fit and found[a] == found[b] and partners[a][b] < 2 * found[a]:
            used |= {apex, a, b}
            atoms.append((apex, a, b))
            sides.append((found[a], partners[a][b]))
    return np.array(atoms, np.int64).reshape(-1, 3), np.array(sides, np.float64).reshape(-1, 2)
