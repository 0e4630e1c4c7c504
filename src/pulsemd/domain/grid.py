"""The grid of ranks: cells with exact integer bounds, and the choice of a grid for a number of ranks."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pulsemd.base.box import widths_of
from pulsemd.base.errors import DomainError
from pulsemd.domain.lattice import LATTICE

Shape = tuple[int, int, int]

PULSE_COST = 2.0
"""Halo volume [nm^3] that costs as much as one more pulse: a signal of 1 us against 5 ns for each of 100
rows/nm^3."""

_HALO_GROWTH = 1.05  # until the next search; reserve of planes that are moved
_IMBALANCE = 1.005  # of work, largest over mean; below it the planes stay

_GUARD = 1e-6  # relative; pairs accepted by float32 rounding just outside the list cut-off keep both atoms


def uniform_bounds(n: int) -> tuple[int, ...]:
    """Bounds of ``n`` equal cells; the cell of u is then exactly ``floor(u * n / 2^32)``."""
    return tuple(-(-k * LATTICE // n) for k in range(n + 1))


@dataclass(frozen=True)
class Grid:
    """A grid of cells, one per rank; rank = (cx * ny + cy) * nz + cz.

    Attributes
    ----------
    shape : (nx, ny, nz)
    bounds : three tuples of int
        ``bounds[d][k] <= uint32(x[d]) < bounds[d][k + 1]`` for cell k; from 0 to 2^32, strictly increasing.
        Equal cells by default.
    """

    shape: Shape
    bounds: tuple[tuple[int, ...], ...] = ()

    def __post_init__(self) -> None:
        if len(self.shape) != 3 or min(self.shape) < 1:
            raise DomainError(f"a grid has three counts of at least 1, not {self.shape}")
        if not self.bounds:
            object.__setattr__(self, "bounds", tuple(uniform_bounds(n) for n in self.shape))
        for name, n, b in zip("xyz", self.shape, self.bounds, strict=True):
            if (
                len(b) != n + 1
                or b[0] != 0
                or b[-1] != LATTICE
                or any(q <= p for p, q in itertools.pairwise(b))
            ):
                raise DomainError(
                    f"bounds along {name} must be {n + 1} increasing integers from 0 to 2^32: {b}"
                )

    def __str__(self) -> str:
        return "x".join(str(n) for n in self.shape)

    @property
    def size(self) -> int:
        """Number of ranks."""
        return math.prod(self.shape)

    @cached_property
    def split_dims(self) -> tuple[int, ...]:
        """Dimensions with two or more cells."""
        return tuple(d for d in range(3) if self.shape[d] > 1)

    @cached_property
    def cell_widths(self) -> tuple[tuple[int, ...], ...]:
        """Width of every cell in lattice units, by dimension."""
        return tuple(tuple(q - p for p, q in itertools.pairwise(b)) for b in self.bounds)

    @cached_property
    def bounds_arrays(self) -> tuple[NDArray[np.int64], ...]:
        """``bounds`` as int64 arrays."""
        return tuple(np.array(b, dtype=np.int64) for b in self.bounds)

    def rank_of_cell(self, cell: tuple[int, int, int]) -> int:
        """Rank of a cell; indices are taken modulo the grid."""
        cx, cy, cz = (c % n for c, n in zip(cell, self.shape, strict=True))
        return (cx * self.shape[1] + cy) * self.shape[2] + cz

    def cell_of_rank(self, rank: int) -> tuple[int, int, int]:
        """Cell of a rank."""
        plane, cz = divmod(rank, self.shape[2])
        cx, cy = divmod(plane, self.shape[1])
        return cx, cy, cz

    def cell_of(self, x: NDArray[np.int32]) -> NDArray[np.int32]:
        """Cells (n, 3) int32 of lattice positions (n, 3) int32, exact."""
        cells = np.empty(x.shape, dtype=np.int32)
        _fill_cells(x, self.bounds_arrays, cells)
        return cells

    def rank_of(self, x: NDArray[np.int32]) -> NDArray[np.int32]:
        """Ranks (n,) int32 whose cell holds each lattice position (n, 3) int32, exact."""
        ranks = np.empty(len(x), dtype=np.int32)
        _fill_ranks(self.cell_of(x), self.shape, ranks)
        return ranks


@njit(cache=True, nogil=True)
def _fill_cells(x, bounds, cells):  # type: ignore[no-untyped-def]
    """Cell of every position: in each dimension the cell of an equal grid, then steps to the true one."""
    for d in range(3):
        bound = bounds[d]
        n = bound.size - 1
        for i in range(x.shape[0]):
            u = np.int64(x[i, d]) & 0xFFFFFFFF
            k = (u * n) >> 32
            while u < bound[k]:
                k -= 1
            while u >= bound[k + 1]:
                k += 1
            cells[i, d] = k


@njit(cache=True, nogil=True)
def _fill_ranks(cells, shape, ranks):  # type: ignore[no-untyped-def]
    for i in range(cells.shape[0]):
        ranks[i] = (cells[i, 0] * shape[1] + cells[i, 1]) * shape[2] + cells[i, 2]


def lattice_halo(halo_width: float, box: NDArray[np.float64]) -> tuple[int, int, int]:
    """Halo width along each dimension in lattice units, rounded up.

    Two leaders at most ``halo_width`` nm apart differ by no more than this in each component, as the
    perpendicular distance |frac| * w never exceeds the distance.
    """
    x, y, z = (math.ceil(halo_width * (1.0 + _GUARD) / float(w) * LATTICE) + 2 for w in widths_of(box))
    return x, y, z


def pulse_counts(grid: Grid, halo: tuple[int, int, int]) -> tuple[int, int, int]:
    """Pulses per dimension: the fewest cells above any cell that together are at least the halo wide.

    Parameters
    ----------
    halo : three ints, lattice units
        From `lattice_halo`; allowed by `check_grid`.
    """
    x, y, z = (_pulses(grid.cell_widths[d], halo[d]) if grid.shape[d] > 1 else 0 for d in range(3))
    return x, y, z


def _pulses(cells: tuple[int, ...], halo: int) -> int:
    n = len(cells)
    above = np.concatenate(
        [[0], np.cumsum(cells + cells)]
    )  # lower bounds of the cells, of a second round too
    enough = np.searchsorted(above, above[1 : n + 1] + halo)
    return min(n, int((enough - np.arange(1, n + 1)).max()))


def check_grid(grid: Grid, box: NDArray[np.float64], halo_width: float) -> None:
    """Require that a grid is wide enough for the halo in every dimension that is split.

    Along a split dimension of perpendicular width w: halo < w / 2, so that the sign of a lattice difference
    orders two leaders, and halo <= the sum of any n - 1 consecutive cells, so that a rank never receives its
    own atoms.

    Raises
    ------
    DomainError
        Naming the dimension, the limit and its value.
    """
    problem = _problem(grid, widths_of(box), lattice_halo(halo_width, box), halo_width)
    if problem:
        raise DomainError(
            f"grid {grid} does not fit: {problem}; use fewer ranks along it or a shorter cut-off"
        )


def _problem(grid: Grid, w: NDArray[np.float64], halo: tuple[int, int, int], halo_width: float) -> str:
    """The first limit that a grid breaks, in words; empty if it fits."""
    for d in grid.split_dims:
        cells = grid.cell_widths[d]
        if halo[d] >= LATTICE // 2:
            return (
                f"the halo of {halo_width:.4f} nm is not below half the box's perpendicular width along "
                f"{'xyz'[d]} ({w[d] / 2:.4f} nm), so that dimension cannot be split"
            )
        room = LATTICE - max(cells)
        if halo[d] > room:
            return (
                f"the halo of {halo_width:.4f} nm is wider than {len(cells) - 1} consecutive cell(s) along "
                f"{'xyz'[d]} ({room / LATTICE * w[d]:.4f} nm)"
            )
    return ""


def factorizations(n: int) -> list[Shape]:
    """All ordered triples whose product is ``n``, in lexicographic order."""
    divisors = [k for k in range(1, n + 1) if n % k == 0]
    return [(a, b, n // (a * b)) for a in divisors for b in divisors if (n // a) % b == 0]


def halo_cost(grid: Grid, box: NDArray[np.float64], halo_width: float) -> float:
    """Cost of one exchange in nm^3: the eighth-shell halo volume of a mean cell plus `PULSE_COST` per pulse.

    A dimension that is not split adds no halo, which is why a flat box is better cut along both of its long
    edges.
    """
    w = widths_of(box)
    owned = np.array([1.0 / n for n in grid.shape])
    reach = np.array([halo_width / w[d] if grid.shape[d] > 1 else 0.0 for d in range(3)])
    volume = abs(float(np.linalg.det(box))) * float(np.prod(owned + reach) - np.prod(owned))
    return volume + PULSE_COST * sum(pulse_counts(grid, lattice_halo(halo_width, box)))


def grids_by_cost(
    grids: Sequence[Grid], box: NDArray[np.float64], halo_width: float
) -> list[tuple[float, Grid]]:
    """Those of some grids that fit, each behind its `halo_cost`, the cheapest first."""
    w, halo = widths_of(box), lattice_halo(halo_width, box)
    fitting = [
        (halo_cost(grid, box, halo_width), grid) for grid in grids if not _problem(grid, w, halo, halo_width)
    ]
    return sorted(fitting, key=lambda found: (found[0], found[1].shape))


def check_size(shape: Shape, n_ranks: int) -> None:
    """Require that a grid has one cell for each rank.

    Raises
    ------
    DomainError
    """
    if math.prod(shape) != n_ranks:
        raise DomainError(
            f"grid {'x'.join(map(str, shape))} has {math.prod(shape)} cells but there are {n_ranks} ranks; "
            f"use --ranks {math.prod(shape)} or another grid"
        )


def choose_grid(
    n_ranks: int, box: NDArray[np.float64], halo_width: float, shape: Shape | None = None
) -> Grid:
    """The cheapest grid of equal cells for a number of ranks, or the one asked for.

    Parameters
    ----------
    n_ranks : int
        Any count, primes included.
    box : (3, 3) float64, nm
        Lattice-reduced.
    halo_width : float, nm
        Expected halo; the search checks the true one again.
    shape : three ints, optional
        The user's grid.

    Raises
    ------
    DomainError
        If ``shape`` has another number of cells or breaks a limit, or no grid fits. The message names the
        limit that binds and the numbers of ranks, up to twice the one asked for, that would work.
    """
    w, halo = widths_of(box), lattice_halo(halo_width, box)
    if shape is not None:
        check_size(shape, n_ranks)
    grids = [Grid(s) for s in ([shape] if shape is not None else factorizations(n_ranks))]
    if fitting := grids_by_cost(grids, box, halo_width):
        return fitting[0][1]
    widest = min(
        grids, key=lambda grid: (len(grid.split_dims), -max((w[d] for d in grid.split_dims), default=0.0))
    )
    raise DomainError(_refusal(n_ranks, shape, widest, w, halo, halo_width))


def balanced_grid(grid: Grid, work: Sequence[int], box: NDArray[np.float64], halo_width: float) -> Grid:
    """The grid with its planes moved until every slab of cells has the same work.

    Planes stay within a quarter of a cell of those of equal cells, which the grid goes back to where the halo would
    need more pulses or not fit. Nothing else depends on where planes are.

    Parameters
    ----------
    work : (size,) numbers
        Of each rank, such as its pairs; the same on every rank. Within a slab it is taken to be spread evenly.
    box : (3, 3) float64, nm
    halo_width : float, nm
        Of the last search.
    """
    cells = np.array(work, dtype=np.float64).reshape(grid.shape)
    if cells.max() <= _IMBALANCE * cells.mean():
        return grid
    bounds = list(grid.bounds)
    for d in grid.split_dims:
        n, slabs = grid.shape[d], cells.sum(axis=tuple(e for e in range(3) if e != d))
        below = np.concatenate([[0.0], np.cumsum(slabs)])
        planes = np.interp(below[-1] * np.arange(1, n) / n, below, grid.bounds[d])
        equal = np.array(uniform_bounds(n)[1:-1])
        planes = np.clip(planes, equal - LATTICE // (4 * n), equal + LATTICE // (4 * n))
        bounds[d] = (0, *planes.astype(np.int64).tolist(), LATTICE)
    moved, equal_cells = Grid(grid.shape, tuple(bounds)), Grid(grid.shape)
    halo = lattice_halo(_HALO_GROWTH * halo_width, box)
    fits = not _problem(moved, widths_of(box), halo, halo_width)
    return moved if fits and pulse_counts(moved, halo) == pulse_counts(equal_cells, halo) else equal_cells


def _refusal(
    n_ranks: int,
    shape: Shape | None,
    grid: Grid,
    w: NDArray[np.float64],
    halo: tuple[int, int, int],
    halo_width: float,
) -> str:
    """Message for a grid that does not fit: the limit that binds, the numbers of ranks that work, and how."""

    def fitting(n: int) -> Iterator[Grid]:
        return (Grid(s) for s in factorizations(n) if not _problem(Grid(s), w, halo, halo_width))

    counts = [n for n in range(1, 2 * n_ranks + 1) if any(fitting(n))]
    others = ", ".join(map(str, fitting(n_ranks)))
    what = f"no grid of {n_ranks} ranks fits" if shape is None else f"grid {grid} does not fit"
    return (
        f"{what}: {_problem(grid, w, halo, halo_width)}; "
        f"perpendicular widths {w[0]:.4f}, {w[1]:.4f}, {w[2]:.4f} nm; "
        f"numbers of ranks up to {2 * n_ranks} that work: {', '.join(map(str, counts))}"
        + (f"; grids of {n_ranks} ranks that fit: {others}" if others else "")
    )
