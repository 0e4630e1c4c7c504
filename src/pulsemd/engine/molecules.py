"""Molecules made whole across the periodic boundary, along their bonds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pulsemd.topology.records import Topology
from pulsemd.topology.terms import BONDS

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class BondTree:
    """A way from each atom to the first atom of its molecule, bond by bond.

    Attributes
    ----------
    order : (n,) int32, global ids, every parent before its children
    parent : (n,) int32, the atom itself for roots
    root : (n,) int32
        Atoms that no bonds connect have roots of their own.
    """

    order: Int32
    parent: Int32
    root: Int32

    def offsets(self, x: Int32) -> Int64:
        """Position of each atom relative to its root, (n, 3) int64 in lattice units, not wrapped."""
        relative: Int64 = _offsets(x, self.order, self.parent)
        return relative


def bond_tree(topology: Topology) -> BondTree:
    """Tree of bonds, constraints, rigid waters and update groups."""
    leader = topology.leader
    grouped = np.flatnonzero(leader != np.arange(topology.n_atoms)).astype(np.int32)
    pairs = [np.column_stack([leader[grouped], grouped])]
    pairs += [topology.terms[kind].atoms for kind in BONDS if kind in topology.terms]
    pairs += [topology.settle_atoms[:, [0, k]] for k in (1, 2)]
    a, b = np.concatenate(pairs).astype(np.int32).T
    ends, others = np.concatenate([a, b]), np.concatenate([b, a])
    order = np.argsort(ends, kind="stable")
    offset = np.searchsorted(ends[order], np.arange(topology.n_atoms + 1))
    return BondTree(*_walk(offset.astype(np.int64), others[order], topology.n_atoms))


@njit(cache=True, nogil=True)
def _walk(offset, partners, n):  # type: ignore[no-untyped-def]
    """Breadth first from the first atom of each molecule."""
    order, parent, root = np.empty(n, np.int32), np.full(n, -1, np.int32), np.empty(n, np.int32)
    filled = 0
    for first in range(n):
        if parent[first] >= 0:
            continue
        order[filled], parent[first], root[first] = first, first, first
        at, filled = filled, filled + 1
        while at < filled:
            i = order[at]
            at += 1
            for k in range(offset[i], offset[i + 1]):
                j = partners[k]
                if parent[j] < 0:
                    order[filled], parent[j], root[j] = j, i, first
                    filled += 1
    return order, parent, root


@njit(cache=True, nogil=True)
def _offsets(x, order, parent):  # type: ignore[no-untyped-def]
    result = np.zeros((order.size, 3), np.int64)
    for i in order:
        p = parent[i]
        for d in range(3):
            result[i, d] = result[p, d] + np.int64(np.int32(x[i, d] - x[p, d]))
    return result
