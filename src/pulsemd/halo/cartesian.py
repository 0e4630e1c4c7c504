"""Plans for regular grids of cells: uneven blocks, any dimension, halos wider than a block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from numbers import Integral

import numpy as np
from numpy.typing import NDArray

from pulsemd.base.errors import PlanError
from pulsemd.halo.plan import HaloPlan, Kind, Pulse, dependencies

Box = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class _Message:
    """What every rank does in one pulse: receive ``offset`` blocks away, from the rank ``step`` away."""

    dim: int
    step: tuple[int, ...]
    offset: tuple[int, ...]


@dataclass(frozen=True)
class _Blocks:
    """Blocks of a grid over ranks. Block and cell numbers of periodic dimensions run on beyond the grid."""

    shape: tuple[int, ...]
    ranks: tuple[int, ...]
    width: int
    periodic: tuple[bool, ...]

    def bounds(self, dim: int, block: int) -> tuple[int, int]:
        """First cell and end of a block in one dimension; empty outside a dimension that is not periodic."""
        turn, inside = divmod(block, self.ranks[dim])
        if turn and not self.periodic[dim]:
            return (0, 0) if turn < 0 else (self.shape[dim], self.shape[dim])
        low, high = (self.shape[dim] * b // self.ranks[dim] for b in (inside, inside + 1))
        return low + turn * self.shape[dim], high + turn * self.shape[dim]

    def reach(self, dim: int) -> int:
        """Blocks that a halo extends over, on either side, for the rank that needs most."""
        n = self.ranks[dim]
        if not self.periodic[dim]:
            return min(n - 1, self._steps(dim, n - 1))
        return self._steps(dim, self.width * n)

    def _steps(self, dim: int, most: int) -> int:
        """Steps until the blocks on either side of any rank hold ``width`` cells, at most ``most``."""
        n = self.ranks[dim]
        sizes = [high - low for low, high in (self.bounds(dim, block) for block in range(n))]
        for steps in range(most):
            windows = [sum(sizes[(b + k) % n] for k in range(1, steps + 1)) for b in range(n)]
            if min(windows) >= self.width:
                return steps
        return most

    def rank_of(self, coordinates: Sequence[int]) -> int:
        """Rank of a block, counted in C order; coordinates wrap around."""
        wrapped = [c % n for c, n in zip(coordinates, self.ranks, strict=True)]
        return int(np.ravel_multi_index(wrapped, self.ranks))

    def halo(self, dim: int, block: int) -> tuple[int, int]:
        """Bounds of a block with its halo."""
        low, high = self.bounds(dim, block)
        if self.periodic[dim]:
            return low - self.width, high + self.width
        return max(0, low - self.width), min(self.shape[dim], high + self.width)

    def received(self, message: _Message, done: Sequence[int], block: Sequence[int]) -> Box:
        """Cells that the rank of ``block`` receives, in its own numbering; ``done``: dimensions with halo already."""
        box = []
        for dim, offset in enumerate(message.offset):
            if message.dim < 0 or dim == message.dim:
                low, high = self.bounds(dim, block[dim] + offset)
                first, end = self.halo(dim, block[dim])
                box.append((max(low, first), min(high, end)))
            else:
                box.append(self.halo(dim, block[dim]) if dim in done else self.bounds(dim, block[dim]))
        return tuple(box) if all(low < high for low, high in box) else tuple((0, 0) for _ in box)

    def staged(self, order: Sequence[int]) -> Iterator[tuple[_Message, tuple[int, ...]]]:
        """Pulses of a staged plan, and the dimensions that are complete before each."""
        for place, dim in enumerate(order):
            for sign in (1, -1):
                for step in range(1, self.reach(dim) + 1):
                    unit = [0] * len(self.shape)
                    unit[dim] = sign
                    far = [step * u for u in unit]
                    yield _Message(dim, tuple(unit), tuple(far)), tuple(order[:place])

    def direct(self) -> Iterator[tuple[_Message, tuple[int, ...]]]:
        """Pulses of a direct plan: one for each block in reach."""
        for offset in product(*(range(-self.reach(d), self.reach(d) + 1) for d in range(len(self.shape)))):
            if any(offset):
                yield _Message(-1, offset, offset), ()


def cartesian_plan(
    shape: Sequence[int],
    rank_grid: Sequence[int],
    rank: int,
    width: int,
    periodic: Sequence[bool] | bool = True,
    kind: Kind = "staged",
    order: Sequence[int] | None = None,
) -> tuple[HaloPlan, NDArray[np.int64]]:
    """Plan for a regular grid of cells with a halo on all sides, edges and corners included.

    Parameters
    ----------
    shape : (d,) int
        Cells of the whole grid; rank blocks differ by at most one cell in each dimension and may be empty.
    rank_grid : (d,) int
        Ranks in each dimension; rank numbers in C order.
    rank : int
    width : int
        Cells of halo on each side; may be wider than a block, and wider than a periodic grid.
    periodic : (d,) bool or bool
    kind : {'staged', 'direct'}
    order : (d,) int, optional
        Dimensions in the order in which a staged plan takes them; last to first.

    Returns
    -------
    plan : HaloPlan
    cells : (n_local, d) int64
        Coordinates of the cell of each local row. Ghosts across a periodic face are numbered on from the own block, so
        ``cells - cells[0] + width`` are places in a padded block; modulo ``shape`` they are the owner's.

    Raises
    ------
    PlanError
        If the arguments do not fit together.
    """
    n_dims = len(shape)
    sides = (periodic,) * n_dims if isinstance(periodic, bool) else tuple(periodic)
    sequence = tuple(reversed(range(n_dims))) if order is None else tuple(order)
    if not len(rank_grid) == len(sides) == n_dims or sorted(sequence) != list(range(n_dims)):
        raise PlanError(
            f"cartesian: shape {shape}, rank_grid {rank_grid}, periodic {sides}, order {sequence}: each needs one "
            "value for every dimension, and order every dimension once"
        )
    whole = all(isinstance(number, Integral) for number in (*shape, *rank_grid, rank, width))
    if not whole or min(shape) < 1 or min(rank_grid) < 1 or width < 0 or not 0 <= rank < prod(rank_grid):
        raise PlanError(
            f"cartesian: rank {rank} of grid {rank_grid} over {shape} cells with width {width}; needs whole numbers, "
            "cells and ranks in every dimension, a rank from 0 to the ranks of the grid less one, and a width from 0"
        )
    blocks = _Blocks(tuple(shape), tuple(rank_grid), width, sides)
    messages = list(blocks.direct() if kind == "direct" else blocks.staged(sequence))
    return _plan(blocks, messages, rank, kind)


def _plan(
    blocks: _Blocks, messages: Sequence[tuple[_Message, tuple[int, ...]]], rank: int, kind: Kind
) -> tuple[HaloPlan, NDArray[np.int64]]:
    """Number the rows of a rank message by message, and look up those that it sends."""
    block = tuple(int(c) for c in np.unravel_index(rank, blocks.ranks))
    corner = np.array([blocks.bounds(d, b)[0] - blocks.width for d, b in enumerate(block)])
    extent = [blocks.bounds(d, b)[1] + blocks.width - corner[d] for d, b in enumerate(block)]
    row_of = np.full(extent, -1, np.int64)
    own = tuple(blocks.bounds(d, b) for d, b in enumerate(block))
    cells = [_place(row_of, own, corner, 0)]
    n_rows = n_owned = len(cells[0])
    pulses: list[Pulse] = []
    for index, (message, done) in enumerate(messages):
        target = tuple(b - s for b, s in zip(block, message.step, strict=True))
        sent = _translate(blocks, blocks.received(message, done, _wrap(blocks, target)), target)
        rows = row_of[_slices(sent, corner)].reshape(-1)
        received = _place(row_of, blocks.received(message, done, block), corner, n_rows)
        source = [b + s for b, s in zip(block, message.step, strict=True)]
        depends = dependencies(rows, n_owned, [p.n_recv for p in pulses])
        remote = _rows_before(blocks, messages[:index], _wrap(blocks, target))
        peers = blocks.rank_of(target), blocks.rank_of(source)
        pulses.append(
            Pulse(message.dim, *peers, rows.astype(np.int32), n_rows, len(received), remote, depends)
        )
        cells.append(received)
        n_rows += len(received)
    plan = HaloPlan(rank, prod(blocks.ranks), n_owned, n_rows, tuple(pulses), kind)
    return plan, np.concatenate(cells)


def _wrap(blocks: _Blocks, block: Sequence[int]) -> tuple[int, ...]:
    return tuple(b % n for b, n in zip(block, blocks.ranks, strict=True))


def _translate(blocks: _Blocks, box: Box, block: Sequence[int]) -> Box:
    """A box in the numbering of a wrapped block, in the numbering of the block as seen from here."""
    turns = [b // n for b, n in zip(block, blocks.ranks, strict=True)]
    return tuple(
        (low + t * s, high + t * s) for (low, high), t, s in zip(box, turns, blocks.shape, strict=True)
    )


def _slices(box: Box, corner: NDArray[np.int64]) -> tuple[slice, ...]:
    if any(low >= high for low, high in box):
        return tuple(slice(0, 0) for _ in box)
    return tuple(slice(low - c, high - c) for (low, high), c in zip(box, corner, strict=True))


def _place(row_of: NDArray[np.int64], box: Box, corner: NDArray[np.int64], start: int) -> NDArray[np.int64]:
    """Give the cells of a box the rows from ``start``; their coordinates."""
    places = row_of[_slices(box, corner)]
    places[...] = start + np.arange(places.size).reshape(places.shape)
    low = np.array([bound[0] for bound in box], np.int64)
    coordinates: NDArray[np.int64] = np.indices(places.shape).reshape(len(box), -1).T + low
    return coordinates


def _rows_before(
    blocks: _Blocks, messages: Sequence[tuple[_Message, tuple[int, ...]]], block: tuple[int, ...]
) -> int:
    """Rows that the rank of a block has after ``messages``: its own and those received."""
    boxes = [tuple(blocks.bounds(d, b) for d, b in enumerate(block))]
    boxes += [blocks.received(message, done, block) for message, done in messages]
    return sum(prod(high - low for low, high in box) for box in boxes)
