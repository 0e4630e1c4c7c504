"""Migration: update groups go to the rank whose cell holds their leader."""

from __future__ import annotations

import numpy as np
from numba import njit

from pulsemd.domain.atoms import Int32, LocalAtoms, UpdateGroups, local_groups
from pulsemd.domain.grid import Grid
from pulsemd.halo import Transport


def migrate(transport: Transport, grid: Grid, groups: UpdateGroups, atoms: LocalAtoms) -> LocalAtoms:
    """Send every group to its owner, over any distance.

    Parameters
    ----------
    transport : Transport
        Collective: every rank calls this.
    grid : Grid
        One cell per rank.
    groups : UpdateGroups
    atoms : LocalAtoms
        What this rank holds now.

    Returns
    -------
    LocalAtoms
        What it owns from now on: what stayed, then what arrived by the rank it came from, in the order it had
        there.
    """
    if grid.size == 1:
        return atoms
    _, start = local_groups(groups, atoms.gid)
    leader = np.take(atoms.x, start[:-1], axis=0)
    rows, bounds = _rows_by_rank(grid.rank_of(leader), start, grid.size)
    staying = atoms.take(rows[bounds[transport.rank] : bounds[transport.rank + 1]])
    outgoing = [
        _pack(atoms.take(rows[bounds[r] : bounds[r + 1]] if r != transport.rank else rows[:0]))
        for r in range(grid.size)
    ]
    arrived = _unpack(np.concatenate(transport.alltoall(outgoing)), atoms.image is not None)
    return _joined(staying, arrived)


@njit(cache=True, nogil=True)
def _rows_by_rank(rank, start, size):  # type: ignore[no-untyped-def]
    """Rows of groups ``start[g]:start[g + 1]``, sorted by the rank of their group; where each rank's begin."""
    bounds = np.zeros(size + 1, np.int64)
    for g in range(rank.size):
        bounds[rank[g] + 1] += start[g + 1] - start[g]
    for r in range(size):
        bounds[r + 1] += bounds[r]
    place, rows = bounds.copy(), np.empty(start[-1], np.int32)
    for g in range(rank.size):
        for row in range(start[g], start[g + 1]):
            rows[place[rank[g]]] = row
            place[rank[g]] += 1
    return rows, bounds


def _joined(a: LocalAtoms, b: LocalAtoms) -> LocalAtoms:
    image = None if a.image is None or b.image is None else np.concatenate([a.image, b.image])
    return LocalAtoms(
        np.concatenate([a.gid, b.gid]), np.concatenate([a.x, b.x]), np.concatenate([a.v, b.v]), image
    )


def _pack(atoms: LocalAtoms) -> Int32:
    columns = [atoms.gid[:, None], atoms.x, np.ascontiguousarray(atoms.v).view(np.int32)]
    if atoms.image is not None:
        columns.append(atoms.image)
    return np.concatenate(columns, axis=1)


def _unpack(rows: Int32, with_image: bool) -> LocalAtoms:
    columns = [np.ascontiguousarray(c) for c in np.split(rows, [1, 4, 7], axis=1)]
    image = columns[3] if with_image else None
    return LocalAtoms(columns[0][:, 0], columns[1], columns[2].view(np.float32), image)
