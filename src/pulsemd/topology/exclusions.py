"""Excluded pairs of one molecule type."""

from __future__ import annotations

import numpy as np

from pulsemd.topology.records import Int32, Int64


def neighbors_within(n_atoms: int, bonds: Int64, n_bonds: int) -> Int64:
    """Pairs of atoms at most ``n_bonds`` bonds apart (the rule of nrexcl).

    Parameters
    ----------
    n_atoms : int
    bonds : (b, 2) int64
    n_bonds : int

    Returns
    -------
    (k, 2) int64
        Ordered pairs, both directions, without the atoms themselves.
    """
    both = np.concatenate([bonds, bonds[:, ::-1]])
    offset, partner = to_rows(n_atoms, both)
    degree = np.diff(offset)
    reached = frontier = np.zeros(0, np.int64)
    for distance in range(n_bonds):
        if distance == 0:
            keys = both[:, 0] * n_atoms + both[:, 1]
        else:
            first, last = frontier // n_atoms, frontier % n_atoms
            count = degree[last]
            start = np.repeat(offset[last] - np.concatenate([[0], np.cumsum(count)[:-1]]), count)
            keys = np.repeat(first, count) * n_atoms + partner[start + np.arange(count.sum())]
        keys = keys[keys // n_atoms != keys % n_atoms]
        frontier = np.setdiff1d(keys, reached)
        reached = np.union1d(reached, frontier)
    return np.stack([reached // n_atoms, reached % n_atoms], axis=1)


def to_rows(n_atoms: int, pairs: Int64) -> tuple[Int64, Int32]:
    """Compressed rows of ordered pairs: sorted, each once, without pairs of an atom with itself.

    Returns
    -------
    offset : (n_atoms + 1,) int64
    partner : (k,) int32
    """
    keys = np.unique(pairs[:, 0] * n_atoms + pairs[:, 1])
    first, second = keys // max(n_atoms, 1), keys % max(n_atoms, 1)
    kept = first != second
    offset = np.zeros(n_atoms + 1, np.int64)
    np.cumsum(np.bincount(first[kept], minlength=n_atoms), out=offset[1:])
    return offset, second[kept].astype(np.int32)
