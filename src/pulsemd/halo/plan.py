"""Halo plans: who sends which rows where. A plan knows no atoms, units, memory or devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pulsemd.base.errors import PlanError

if TYPE_CHECKING:
    from pulsemd.halo.transport import Transport

Kind = Literal["staged", "direct"]
SEND_RANK, RECV_RANK, N_SEND, N_RECV, RECV_START, REMOTE_START = range(6)


def whole_numbers(numbers: ArrayLike, what: str) -> NDArray[np.int64]:
    """Numbers of rows or ids as (n,) int64; PlanError for fractions, which NumPy would cut off."""
    given = np.asarray(numbers).reshape(-1)
    if given.size and not np.can_cast(given.dtype, np.int64, "same_kind"):
        raise PlanError(f"plan: {what} are {given.dtype}; give whole numbers")
    return given.astype(np.int64)


def _frozen_rows(numbers: ArrayLike, what: str) -> NDArray[np.int32]:
    rows = whole_numbers(numbers, what)
    if rows.size and not -(2**31) <= rows.min() <= rows.max() < 2**31:
        raise PlanError(f"plan: {what} are {rows.min()}..{rows.max()}; at most 2^31 - 1")
    frozen = rows.astype(np.int32)
    frozen.flags.writeable = False
    return frozen


@dataclass(frozen=True, eq=False)
class Pulse:
    """One message of a halo exchange, seen from one rank; it both sends and receives.

    Parameters
    ----------
    dim : int
        Label of the dimension, -1 where there is none.
    send_rank, recv_rank : int
        Where rows go and whence they come; the own rank is allowed.
    send_rows : (n_send,) int32
        Rows of ``[owned | ghost]`` to send; a ghost row is forwarded.
    recv_start, n_recv : int
        Ghost rows ``recv_start : recv_start + n_recv`` receive.
    remote_start : int
        First ghost row at ``send_rank`` that ours fill.
    depends : (n_send,) int32
        Pulse that brings each row, -1 for owned rows; see `dependencies`.
    """

    dim: int
    send_rank: int
    recv_rank: int
    send_rows: NDArray[np.int32]
    recv_start: int
    n_recv: int
    remote_start: int
    depends: NDArray[np.int32]

    def __post_init__(self) -> None:
        for name in ("send_rows", "depends"):
            object.__setattr__(self, name, _frozen_rows(getattr(self, name), name))

    @property
    def n_send(self) -> int:
        """Number of rows sent."""
        return len(self.send_rows)


@dataclass(frozen=True, eq=False)
class HaloPlan:
    """All pulses of one rank, in the order in which every rank numbers them.

    Parameters
    ----------
    rank, size : int
    n_owned, n_local : int
        Rows ``0 : n_owned`` are owned; ``n_owned : n_local`` are ghosts, grouped by pulse in pulse order.
    pulses : tuple of Pulse
        Every rank has the same number; unneeded ones are empty.
    kind : {'staged', 'direct'}
        Whether ghost rows may be forwarded.

    Raises
    ------
    PlanError
        If ranks, rows, ghost ranges or dependencies do not fit together; names rank and pulse.
    """

    rank: int
    size: int
    n_owned: int
    n_local: int
    pulses: tuple[Pulse, ...]
    kind: Kind = "staged"

    def __post_init__(self) -> None:
        object.__setattr__(self, "pulses", tuple(self.pulses))
        if not 0 <= self.rank < self.size:
            raise PlanError(f"plan: rank {self.rank} is not one of {self.size} ranks")
        if self.kind not in ("staged", "direct"):
            raise PlanError(f"plan: kind is {self.kind!r}; use 'staged' or 'direct'")
        if not 0 <= self.n_owned <= self.n_local < 2**31:
            raise PlanError(
                f"plan: rank {self.rank} has {self.n_owned} owned of {self.n_local} local rows; at most 2^31 - 1"
            )
        end = self.n_owned
        for index, pulse in enumerate(self.pulses):
            self._check_pulse(index, pulse, end)
            end += pulse.n_recv
        if end != self.n_local:
            raise PlanError(
                f"plan: rank {self.rank} receives rows up to {end} but has {self.n_local} local rows; "
                "ghost rows must be exactly what the pulses bring"
            )

    def _check_pulse(self, index: int, pulse: Pulse, start: int) -> None:
        """Check one pulse whose ghost rows have to begin at ``start``."""
        where = f"plan: rank {self.rank} pulse {index}"
        for peer in (pulse.send_rank, pulse.recv_rank):
            if not 0 <= peer < self.size:
                raise PlanError(f"{where}: peer {peer} is not one of {self.size} ranks")
        if pulse.n_recv < 0 or pulse.recv_start != start:
            raise PlanError(
                f"{where}: receives {pulse.n_recv} rows at {pulse.recv_start}, expected to begin at {start}; "
                "ghost rows are grouped by pulse, in pulse order, without gaps"
            )
        if pulse.remote_start < 0:
            raise PlanError(f"{where}: remote_start is {pulse.remote_start}")
        if pulse.n_send and not 0 <= pulse.send_rows.min() <= pulse.send_rows.max() < start:
            raise PlanError(
                f"{where}: sends rows {pulse.send_rows.min()}..{pulse.send_rows.max()}, but only 0..{start - 1} are "
                "there before it"
            )
        expected = dependencies(pulse.send_rows, self.n_owned, [p.n_recv for p in self.pulses[:index]])
        if not np.array_equal(expected, pulse.depends):
            raise PlanError(
                f"{where}: depends does not name the pulse that brings each row; use dependencies()"
            )
        if self.kind == "direct" and pulse.n_send and expected.max() >= 0:
            raise PlanError(
                f"{where}: a direct plan forwards nothing, but row {pulse.send_rows.max()} is a ghost"
            )

    def table(self) -> NDArray[np.int64]:
        """(n_pulses, 6) int64: send_rank, recv_rank, n_send, n_recv, recv_start, remote_start of each pulse."""
        rows = [
            (p.send_rank, p.recv_rank, p.n_send, p.n_recv, p.recv_start, p.remote_start) for p in self.pulses
        ]
        return np.array(rows, dtype=np.int64).reshape(len(rows), 6)

    def verify(self, transport: Transport) -> tuple[NDArray[np.int64], list[int]]:
        """Check this plan against those of all other ranks; collective.

        Returns
        -------
        (size, n_pulses, 6) int64
            `table` of every rank.
        list of int
            `n_local` of every rank.

        Raises
        ------
        PlanError
            On every rank, if ranks disagree on peers, counts or where rows land; names rank, pulse and counts.
        """
        if (self.rank, self.size) != (transport.rank, transport.size):
            raise PlanError(
                f"plan: made for rank {self.rank} of {self.size}, used on rank {transport.rank} of {transport.size}"
            )
        shares = transport.allgather((self.n_local, self.table()))
        tables = [table for _, table in shares]
        counts = [len(table) for table in tables]
        if len(set(counts)) > 1:
            raise PlanError(f"plan: ranks have different numbers of pulses {counts}; add empty pulses")
        everyone = np.stack(tables)
        _check_peers(everyone)
        return everyone, [n_local for n_local, _ in shares]


def dependencies(send_rows: ArrayLike, n_owned: int, n_recv: Sequence[int]) -> NDArray[np.int32]:
    """Pulse that brings each row to be sent.

    Parameters
    ----------
    send_rows : (n_send,) int32
    n_owned : int
    n_recv : sequence of int
        Ghost rows that each earlier pulse brings, in pulse order.

    Returns
    -------
    (n_send,) int32
        -1 for owned rows.
    """
    ends = n_owned + np.cumsum(np.asarray([0, *n_recv], dtype=np.int64))
    rows = np.asarray(send_rows, dtype=np.int64).reshape(-1)
    return (np.searchsorted(ends, rows, side="right") - 1).astype(np.int32)


def _check_peers(tables: NDArray[np.int64]) -> None:
    """Raise PlanError where the sending and the receiving rank of a message describe it differently."""
    size, n_pulses, _ = tables.shape
    for pulse in range(n_pulses):
        for rank in range(size):
            sent = tables[rank, pulse]
            peer = int(sent[SEND_RANK])
            received = tables[peer, pulse]
            message = f"plan: pulse {pulse}: rank {rank} sends {sent[N_SEND]} rows to rank {peer}"
            if received[RECV_RANK] != rank:
                raise PlanError(f"{message}, which receives from rank {received[RECV_RANK]}")
            if received[N_RECV] != sent[N_SEND]:
                raise PlanError(f"{message}, which expects {received[N_RECV]}")
            if received[RECV_START] != sent[REMOTE_START]:
                raise PlanError(
                    f"{message} at row {sent[REMOTE_START]}, which expects them at row {received[RECV_START]}"
                )
