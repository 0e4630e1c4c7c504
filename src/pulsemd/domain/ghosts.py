"""The ghost groups of one rank: what goes to whom in which pulse, staged or direct.

A rank needs every group whose leader lies, in each split dimension, in its own cell or up to the halo width above
it (eighth shell). ``uint32(leader - lower bound) < cell width + halo`` is that region exactly, so staged and direct
plans give the same ghosts and no rounding decides who is sent.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numba import njit

from pulsemd.domain.atoms import Int32, Int64, UpdateGroups, rows_of_groups
from pulsemd.domain.grid import Grid, pulse_counts
from pulsemd.domain.lattice import LATTICE
from pulsemd.halo import Pulse, Transport
from pulsemd.halo.agreement import raise_lowest, sendable


@dataclass(frozen=True, eq=False)
class GroupTable:
    """Groups present on this rank so far; ``origin`` is the pulse that brought each, -1 for owned."""

    ids: Int32
    leader: Int32
    start: Int64
    origin: Int32

    def __len__(self) -> int:
        return len(self.ids)

    def extended(self, message: Int32, pulse: int, groups: UpdateGroups) -> GroupTable:
        """With the groups of one received message: rows (id, leader x, y, z)."""
        ids = np.ascontiguousarray(message[:, 0])
        sizes = groups.offset[ids + 1] - groups.offset[ids]
        return GroupTable(
            np.concatenate([self.ids, ids]),
            np.concatenate([self.leader, message[:, 1:]]),
            np.concatenate([self.start, self.start[-1] + np.cumsum(sizes)]),
            np.concatenate([self.origin, np.full(len(ids), pulse, np.int32)]),
        )


@dataclass(frozen=True, eq=False)
class Send:
    """One pulse as its sender sees it."""

    dim: int
    send_rank: int
    recv_rank: int
    selected: Int32  # groups of the table


def build_staged(
    transport: Transport, grid: Grid, groups: UpdateGroups, halo: tuple[int, int, int], table: GroupTable
) -> tuple[GroupTable, list[Pulse]]:
    """Pulses Z -> Y -> X: the first of a dimension scans all groups so far, the next what the last one
    brought.

    In both cases what lies less than the halo above this rank's own lower bound goes to the lower neighbour.
    """
    counts = pulse_counts(grid, halo)
    pulses: list[Pulse] = []
    for d in (2, 1, 0):
        step = tuple(int(k == d) for k in range(3))
        first = 0
        for _ in range(counts[d]):
            last = len(table)
            send = _select(grid, transport.rank, halo, step, d, table, first, last)
            table, new = _exchange(transport, groups, table, [send], len(pulses))
            pulses += new
            first = last
    return table, pulses


def build_direct(
    transport: Transport, grid: Grid, groups: UpdateGroups, halo: tuple[int, int, int], table: GroupTable
) -> tuple[GroupTable, list[Pulse]]:
    """One pulse per vector to a lower neighbour, near or far; only owned groups are sent."""
    steps = direct_steps(grid, halo)
    sends = [_select(grid, transport.rank, halo, step, -1, table, 0, len(table)) for step in steps]
    return _exchange(transport, groups, table, sends, 0)


def direct_steps(grid: Grid, halo: tuple[int, int, int]) -> list[tuple[int, ...]]:
    """Cells from a rank down to each rank that it sends to, for the pulses of a direct plan in their order."""
    return [s for s in itertools.product(*(range(n + 1) for n in pulse_counts(grid, halo))) if any(s)]


def sent_region(
    grid: Grid, rank: int, halo: tuple[int, int, int], step: tuple[int, ...]
) -> tuple[list[int], list[int]]:
    """Where the leaders are that a rank sends ``step`` cells down: above a lower bound by less than a span."""
    cell = grid.cell_of_rank(rank)
    lower = [grid.bounds[d][(cell[d] - step[d] + 1) % grid.shape[d]] for d in range(3)]
    return lower, [halo[d] if step[d] else LATTICE for d in range(3)]


def ranks_along(grid: Grid, rank: int, step: tuple[int, ...]) -> tuple[int, int]:
    """The ranks ``step`` cells below and above a rank."""
    cell = grid.cell_of_rank(rank)
    below = (cell[0] - step[0], cell[1] - step[1], cell[2] - step[2])
    above = (cell[0] + step[0], cell[1] + step[1], cell[2] + step[2])
    return grid.rank_of_cell(below), grid.rank_of_cell(above)


def _select(
    grid: Grid,
    rank: int,
    halo: tuple[int, int, int],
    step: tuple[int, ...],
    dim: int,
    table: GroupTable,
    first: int,
    last: int,
) -> Send:
    """The pulse to the rank ``step`` cells below, of the groups less than the halo above its upper bounds."""
    lower, span = sent_region(grid, rank, halo, step)
    selected = _select_groups(table.leader, first, last, np.array(lower, np.int64), np.array(span, np.int64))
    return Send(dim, *ranks_along(grid, rank, step), selected)


@njit(cache=True, nogil=True)
def _select_groups(leader, first, last, lower, span):  # type: ignore[no-untyped-def]
    """Groups whose leader is less than ``span`` above ``lower`` in every dimension."""
    selected = np.empty(last - first, np.int32)
    count = 0
    for g in range(first, last):
        inside = True
        for d in range(3):
            inside &= ((np.int64(leader[g, d]) - lower[d]) & 0xFFFFFFFF) < span[d]
        if inside:
            selected[count] = g
            count += 1
    return selected[:count].copy()


def _exchange(
    transport: Transport, groups: UpdateGroups, table: GroupTable, sends: Sequence[Send], n_before: int
) -> tuple[GroupTable, list[Pulse]]:
    """Send the groups of independent pulses to different ranks at once and append what arrives."""
    outgoing = [np.empty((0, 4), np.int32)] * transport.size
    for send in sends:
        g = send.selected
        outgoing[send.send_rank] = np.concatenate([table.ids[g, None], table.leader[g]], axis=1)
    incoming = transport.alltoall(outgoing)
    pulses = []
    for k, send in enumerate(sends):
        rows = rows_of_groups(send.selected, table.start)
        sizes = table.start[send.selected + 1] - table.start[send.selected]
        depends = np.repeat(table.origin[send.selected], sizes)
        recv_start = int(table.start[-1])
        table = table.extended(incoming[send.recv_rank], n_before + k, groups)
        pulses.append(
            Pulse(
                dim=send.dim,
                send_rank=send.send_rank,
                recv_rank=send.recv_rank,
                send_rows=rows,
                recv_start=recv_start,
                n_recv=int(table.start[-1]) - recv_start,
                remote_start=-1,
                depends=depends,
            )
        )
    return table, pulses


def with_remote_starts(
    transport: Transport, pulses: Sequence[Pulse], n_local: int, error: BaseException | None
) -> tuple[tuple[Pulse, ...], int]:
    """Pulses that know where their rows land, and the largest ``n_local`` of any rank; raises an error of any rank.

    Two ranks list the pulses between them in the same order.
    """
    mine = [(pulse.recv_rank, pulse.recv_start) for pulse in pulses]
    shares = transport.allgather((sendable(error), n_local, mine))
    raise_lowest([share[0] for share in shares])
    landings = [iter([start for to, start in share[2] if to == transport.rank]) for share in shares]
    pulses = tuple(replace(pulse, remote_start=next(landings[pulse.send_rank])) for pulse in pulses)
    return pulses, max(share[1] for share in shares)
