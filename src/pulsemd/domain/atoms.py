"""Update groups, and the atoms a rank owns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pulsemd.base.errors import DomainError
from pulsemd.domain.grid import Grid

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
Float32 = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class UpdateGroups:
    """A partition of all atoms into groups that are never split over ranks; the same on every rank.

    Attributes
    ----------
    offset : (g + 1,) int64
    atoms : (n,) int32, global ids
        Group k is ``atoms[offset[k]:offset[k + 1]]``; its first atom is the leader, which decides the owner.
    """

    offset: Int64
    atoms: Int32

    @classmethod
    def singles(cls, n: int) -> UpdateGroups:
        """Every atom a group of its own."""
        return cls(np.arange(n + 1, dtype=np.int64), np.arange(n, dtype=np.int32))

    @property
    def n_atoms(self) -> int:
        """Atoms of the whole system."""
        return len(self.atoms)

    @cached_property
    def group_of(self) -> Int32:
        """(n,) int32: the group of each global id."""
        group = np.full(self.n_atoms, -1, dtype=np.int32)
        group[self.atoms] = np.repeat(np.arange(len(self.offset) - 1, dtype=np.int32), np.diff(self.offset))
        if (group < 0).any():
            raise DomainError(f"atom {int(np.argmin(group)) + 1} is in no update group")
        return group


@dataclass(frozen=True, eq=False)
class LocalAtoms:
    """Atoms owned by one rank, whole update groups in consecutive rows.

    Attributes
    ----------
    gid : (n,) int32, global ids
    x : (n, 3) int32, lattice units
    v : (n, 3) float32, nm/ps
    image : (n, 3) int32, optional
        Counters of box crossings; either on every rank or on none.
    """

    gid: Int32
    x: Int32
    v: Float32
    image: Int32 | None = None

    def __len__(self) -> int:
        return len(self.gid)

    def take(self, rows: Int32 | Int64) -> LocalAtoms:
        """The given rows, in the given order."""
        image = None if self.image is None else np.take(self.image, rows, axis=0)
        gid, x, v = _take_rows(self.gid, self.x, self.v, rows)
        return LocalAtoms(gid, x, v, image)


def select_owned(
    grid: Grid,
    rank: int,
    groups: UpdateGroups,
    x: Int32,
    v: Float32,
    image: Int32 | None = None,
) -> LocalAtoms:
    """The atoms of one rank, where every rank holds the whole system in the order of global ids."""
    leaders = groups.atoms[groups.offset[:-1]]
    mine = np.flatnonzero(grid.rank_of(x[leaders]) == rank).astype(np.int32)
    gid = groups.atoms[rows_of_groups(mine, groups.offset)]
    return LocalAtoms(np.arange(groups.n_atoms, dtype=np.int32), x, v, image).take(gid)


def local_groups(groups: UpdateGroups, gid: Int32) -> tuple[Int32, Int64]:
    """Groups of a list of atoms and the row at which each starts.

    Parameters
    ----------
    gid : (n,) int32
        Whole groups in consecutive rows, in the order of `UpdateGroups.atoms`.

    Returns
    -------
    ids : (g,) int32
    start : (g + 1,) int64

    Raises
    ------
    DomainError
        If a group is incomplete or its rows are not consecutive; names the atom.
    """
    ids, start, bad = _find_groups(gid, groups.group_of, groups.offset, groups.atoms)
    if bad >= 0:
        raise DomainError(
            f"row {bad}: the update group of atom {int(gid[bad]) + 1} is not whole and consecutive"
        )
    return ids, start


@njit(cache=True, nogil=True)
def _take_rows(gid, x, v, rows):  # type: ignore[no-untyped-def]
    n = rows.size
    new_gid, new_x, new_v = np.empty(n, np.int32), np.empty((n, 3), np.int32), np.empty((n, 3), np.float32)
    for k in range(n):
        row = rows[k]
        new_gid[k] = gid[row]
        for d in range(3):
            new_x[k, d], new_v[k, d] = x[row, d], v[row, d]
    return new_gid, new_x, new_v


@njit(cache=True, nogil=True)
def _find_groups(gid, group_of, offset, atoms):  # type: ignore[no-untyped-def]
    n = gid.size
    ids = np.empty(n, np.int32)
    start = np.empty(n + 1, np.int64)
    start[0] = 0
    count = row = 0
    while row < n:
        group = group_of[gid[row]]
        first, size = offset[group], offset[group + 1] - offset[group]
        for k in range(size):
            if row + k >= n or gid[row + k] != atoms[first + k]:
                return ids[:0], start[:1], row
        ids[count] = group
        row += size
        count += 1
        start[count] = row
    return ids[:count].copy(), start[: count + 1].copy(), -1


@njit(cache=True, nogil=True)
def rows_of_groups(selected, start):  # type: ignore[no-untyped-def]
    """Rows (n,) int32 of the selected groups, in order; group k is ``start[k]:start[k + 1]``."""
    n = 0
    for g in selected:
        n += start[g + 1] - start[g]
    rows = np.empty(n, np.int32)
    n = 0
    for g in selected:
        for row in range(start[g], start[g + 1]):
            rows[n] = row
            n += 1
    return rows
