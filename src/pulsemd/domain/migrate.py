"""Migration: update groups go to the rank whose cell holds their leader."""

from __future__ import annotations

import numpy as np

from pulsemd.domain.atoms import Int32, LocalAtoms, UpdateGroups, local_groups, rows_of_groups
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
    rank = grid.rank_of(atoms.x[start[:-1]])
    order = np.argsort(rank, kind="stable").astype(np.int32)
    parts = [
        atoms.take(rows_of_groups(selected, start))
        for selected in np.split(order, np.searchsorted(rank[order], np.arange(1, grid.size)))
    ]
    staying, with_image = parts[transport.rank], atoms.image is not None
    parts[transport.rank] = staying.take(np.empty(0, np.int32))
    arrived = _unpack(np.concatenate(transport.alltoall([_pack(part) for part in parts])), with_image)
    return _joined(staying, arrived)


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
