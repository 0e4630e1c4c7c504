"""The column grid of a search on the device, and the region that holds the atoms of one of several ranks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pulsemd.kernels.search.gpu_layout import SUPERCLUSTER

LATTICE = 2**32

_ATOMS_PER_SLAB = 16
_MAX_COLUMNS = 2**15
_MAX_BINS = 2**30
_WHOLE = LATTICE - 1  # width of a cell that is the whole box: the largest that 32 bits hold


@dataclass(frozen=True)
class Region:
    """Where the atoms of a rank of several are: its cell and, above it, the shell of ghosts.

    Parameters
    ----------
    lower, cell, halo : three ints each, lattice units
        Lower bound (as an unsigned position) and width of the rank's cell, and what the halo adds to it; used along
        the split dimensions alone. Leaders beyond the halo are found too, at a cost.
    split : tuple of int
        Dimensions that are split over ranks.
    reach : float, nm
        Largest distance of an atom from its leader.
    """

    lower: tuple[int, int, int]
    cell: tuple[int, int, int]
    halo: tuple[int, int, int]
    split: tuple[int, ...]
    reach: float


@dataclass(frozen=True)
class ColumnGrid:
    """Divisions of the box, sized for columns about as wide as a cube of 64 atoms, and slabs of few atoms.

    Parameters
    ----------
    words : (30,) int32
        The struct ``ColumnGrid`` of columns.cuh.
    axes : (3,) int
        The two dimensions of the columns and the one that is sorted.
    n_columns, n_bins : int
        Of one set.
    n_sets : int
    max_super : int
        Superclusters that there can be.
    bins_inside : float
        Bins of one set that lie in the region.
    """

    words: np.ndarray
    axes: np.ndarray
    n_columns: int
    n_bins: int
    n_sets: int
    max_super: int
    bins_inside: float


def choose_columns(
    widths: np.ndarray, volume: float, filled: float, n_atoms: int, region: Region | None
) -> ColumnGrid:
    """Divide the box.

    Parameters
    ----------
    widths : (3,) float64, nm, perpendicular
    volume : float, nm^3, of the box
    filled : float
        Share of the box, or of the region, that holds atoms.
    n_atoms : int
        The most atoms there may be.
    region : Region, optional
        Of one of several ranks.
    """
    volume *= filled * (
        1.0 if region is None else float(np.prod([sum(_shares(region, d)) for d in range(3)]))
    )
    side = (SUPERCLUSTER * volume / max(n_atoms, 1)) ** (1.0 / 3.0)
    axes = np.argsort(widths, kind="stable")
    most = min(_MAX_COLUMNS, max(1, 4 * n_atoms // SUPERCLUSTER))
    split = () if region is None else region.split
    divisions, counts = [], []
    for axis in axes[:2]:
        cell, shell = _shares(region, axis)
        n = int(np.clip(np.rint(widths[axis] * cell / side), 1, most))
        k = max(1, round(widths[axis] * shell / side)) if shell else 0
        divisions.append(_division(region if axis in split else None, axis, n, k))
        counts.append(n + k)
    inside = sum(_shares(region, axes[2]))
    n_columns, own_columns = int(np.prod(counts)), int(divisions[0][4] * divisions[1][4])
    per_column = n_atoms / (n_columns * filled) / inside
    slabs = int(np.clip(round(per_column / _ATOMS_PER_SLAB), 1, max(1, _MAX_BINS // n_columns)))
    divisions.append(_division(None, axes[2], slabs, 0))
    n_sets = 1 if region is None else 2
    max_super = -(-n_atoms // SUPERCLUSTER) + (n_columns if region is None else n_columns + own_columns)
    n_bins = n_columns * slabs
    starts = [_start(region, d) if d in split else LATTICE // 2 for d in range(3)]
    bits = sum(1 << d for d in split)
    words = [*axes, *counts, slabs, n_bins, n_sets, bits, *starts, *np.concatenate(divisions)]
    return ColumnGrid(
        np.array(words, np.int64).astype(np.uint32).view(np.int32),
        axes,
        n_columns,
        n_bins,
        n_sets,
        max_super,
        n_bins * inside,
    )


def _shares(region: Region | None, axis: int) -> tuple[float, float]:
    """Fractions of the box that the cell and the shell take."""
    if region is None or axis not in region.split:
        return 1.0, 0.0
    return region.cell[axis] / LATTICE, region.halo[axis] / LATTICE


def _gap(region: Region, axis: int) -> int:
    return max(0, LATTICE - region.cell[axis] - region.halo[axis])


def _start(region: Region | None, axis: int) -> int:
    """Lattice position of height 0: in the middle of what holds no atom."""
    assert region is not None
    return (region.lower[axis] - _gap(region, axis) // 2) % LATTICE


def _division(region: Region | None, axis: int, n_cell: int, n_shell: int) -> list[int]:
    """The struct ``Division`` of columns.cuh."""
    if region is None:
        return [0, _WHOLE, n_cell, 0, n_cell, 0]
    cell, halo = region.cell[axis], region.halo[axis]
    return [
        _gap(region, axis) // 2,
        cell,
        LATTICE * n_cell // cell,
        LATTICE * n_shell // halo,
        n_cell,
        n_shell,
    ]
