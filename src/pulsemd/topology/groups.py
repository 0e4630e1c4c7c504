"""Update groups: atoms that are constrained together and therefore always live on one rank."""

from __future__ import annotations

import numpy as np

from pulsemd.topology.records import Int32, Int64


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
