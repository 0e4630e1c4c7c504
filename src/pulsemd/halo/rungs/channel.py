"""Exchanges that the host drives, pulse by pulse: pack, move between processes, unpack; what all such rungs share.

Rows lie at slots of one array (K, rows, width). A pulse in one direction is a `Leg`: rows of all plan-ranks of this
process are packed into staging by one kernel, messages to other processes are moved by the rung, and one kernel
unpacks those that came, and those of this process from where they were packed. A message whose rows lie one after the
other is moved without staging.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pulsemd.base.errors import PlanError
from pulsemd.halo.plan import HaloPlan
from pulsemd.halo.rungs.cuda_programs import THREADS, rows_program, units_of

if TYPE_CHECKING:
    from pulsemd.halo.rungs.transport import HostDrivenTransport

Rows = NDArray[np.int32]
_GROWTH = 1.25
_STEP = 1024


@dataclass(frozen=True)
class Message:
    """Rows on their way between two processes, at the end of one of them.

    Attributes
    ----------
    own, peer : int
        Plan-rank here and at the other end.
    in_array : bool
        Whether the bytes lie in the array itself, else in staging.
    offset, n_bytes : int
        Place in either.
    """

    own: int
    peer: int
    in_array: bool
    offset: int
    n_bytes: int


@dataclass(frozen=True)
class Leg:
    """One pulse in one direction.

    Attributes
    ----------
    number : int
        The same on all ranks: the pulse, or the number of pulses + the pulse for the reverse direction.
    sends, receives : tuple of Message
        In order of the receiving rank, so that two processes name the messages between them in one order.
    pack, unpack : callable
        Launch the kernels.
    """

    number: int
    sends: tuple[Message, ...]
    receives: tuple[Message, ...]
    pack: Callable[[], None]
    unpack: Callable[[], None]


@dataclass
class _Draft:
    """A leg before staging is allocated: the rows to pack and to unpack, and their rows of staging."""

    number: int
    add: bool
    sends: list[Message]
    receives: list[Message]
    packed: Rows
    first: int
    unpacked: Rows
    sources: Rows
    end: int


class HostDrivenChannel:
    """One array bound to the plans of the plan-ranks of this process.

    Parameters
    ----------
    transport : HostDrivenTransport
    plans, array, places, stream
        As in `GpuTransport.channel`.
    directions : {'both', 'forward', 'reverse'}
        Which exchanges are called; all can be.
    """

    late = False
    """Whether an exchange happens in its end, for moves that stop the host."""
    capturable = False
    """Whether exchanges may be captured in a graph, which then fits the plans of the capture."""

    def __init__(
        self,
        transport: HostDrivenTransport,
        plans: Sequence[HaloPlan],
        array: Any,
        places: Sequence[Rows] | None = None,
        stream: Any = None,
        *,
        directions: str = "both",
    ) -> None:
        self.transport, self.array = transport, array
        self.name, self.region = transport.field(array)
        self.stream = stream or transport.device.stream
        transport.register(self, stream)
        self.staging: Any = None
        self._capacity = 0
        _, self.rows, self._width = array.shape
        self.row_bytes = self._width * array.itemsize
        program = rows_program(array.dtype, self._width)
        self._copy = transport.device.kernel(program, "halo_copy_rows")
        self._add = transport.device.kernel(program, "halo_add_rows")
        self._lists: list[Any] = []
        self._last = ""
        self.rebind(plans, places)

    def rebind(self, plans: Sequence[HaloPlan], places: Sequence[Rows] | None = None) -> None:
        """Use other plans from now on; collective, waits for the device."""
        transport = self.transport
        transport.settle()
        slots = [
            np.arange(plan.n_local, dtype=np.int32) if places is None else _on_host(places[k], plan)
            for k, plan in enumerate(plans)
        ]
        transport.each(lambda k, control: plans[k].verify(control))
        transport.agree(self._find_problem(plans, slots))
        self.plans = tuple(plans)
        drafts = self._draft(slots)
        self._grow(drafts[-1].end if drafts else 0)
        legs = [self._leg(draft) for draft in drafts]
        n_pulses = len(legs) // 2
        self._forward, self._backward = legs[:n_pulses], legs[n_pulses:][::-1]
        self._last = ""
        self.bound(legs)

    def _find_problem(self, plans: Sequence[HaloPlan], slots: Sequence[Rows]) -> PlanError | None:
        for plan, own in zip(plans, slots, strict=True):
            if len(own) and own.max() >= self.rows:
                return PlanError(
                    f"channel {self.name!r}: rank {plan.rank} has {plan.n_local} local rows up to slot {own.max()}, "
                    f"capacity is {self.rows}; allocate more rows"
                )
        return None

    def _draft(self, slots: Sequence[Rows]) -> list[_Draft]:
        """Legs of all pulses forward, then of all pulses in reverse."""
        sides = []
        for index in range(len(self.plans[0].pulses)):
            pulses = [plan.pulses[index] for plan in self.plans]
            base = [k * self.rows + own for k, own in enumerate(slots)]
            sent = [(p.send_rank, own[p.send_rows]) for p, own in zip(pulses, base, strict=True)]
            got = [
                (p.recv_rank, own[p.recv_start : p.recv_start + p.n_recv])
                for p, own in zip(pulses, base, strict=True)
            ]
            sides.append((sent, got))
        pairs = [(sent, got, False) for sent, got in sides] + [(got, sent, True) for sent, got in sides]
        drafts: list[_Draft] = []
        for number, (out, come, add) in enumerate(pairs):
            first = drafts[-1].end if drafts else 0
            drafts.append(self._draft_leg(number, out, come, add, first))
        return drafts

    def _draft_leg(
        self, number: int, out: list[tuple[int, Rows]], come: list[tuple[int, Rows]], add: bool, first: int
    ) -> _Draft:
        """Give the rows of a leg their places; ``out[k]`` and ``come[k]`` are (peer, rows) of the k-th plan-rank."""
        ranks, size = self.transport.ranks, self.row_bytes
        sends, receives, packed, unpacked, sources = [], [], [], [], []
        at: dict[int, int] = {}
        place = first
        for own, (peer, rows) in zip(ranks, out, strict=True):
            here = peer in ranks
            if not here and len(rows) and _together(rows):
                sends.append(Message(own, peer, True, int(rows[0]) * size, len(rows) * size))
                continue
            at[own] = place
            packed.append(rows)
            if not here and len(rows):
                sends.append(Message(own, peer, False, place * size, len(rows) * size))
            place += len(rows)
        for own, (peer, rows) in zip(ranks, come, strict=True):
            if peer in ranks:
                start = at[peer]
            elif len(rows) == 0 or (not add and _together(rows)):
                if len(rows):
                    receives.append(Message(own, peer, True, int(rows[0]) * size, len(rows) * size))
                continue
            else:
                start = place
                receives.append(Message(own, peer, False, place * size, len(rows) * size))
                place += len(rows)
            unpacked.append(rows)
            sources.append(np.arange(start, start + len(rows), dtype=np.int32))
        sends.sort(key=lambda message: message.peer)
        rows, targets, taken = _joined(packed), _joined(unpacked), _joined(sources)
        return _Draft(number, add, sends, receives, rows, first, targets, taken, place)

    def _grow(self, n_rows: int) -> None:
        """Staging of one size on all processes; it grows by a rule that all evaluate alike."""
        needed = max(self.transport.gather(n_rows))
        if self.staging is None or needed > self._capacity:
            if self.staging is not None:
                self.transport.memory.free(self.staging)
            self._capacity = -(-int(_GROWTH * max(needed, 1)) // _STEP) * _STEP
            self.staging = self.transport.memory.allocate(self._capacity * self.row_bytes)

    def close(self) -> None:
        """Give its memory back; collective, after all its exchanges have ended everywhere."""
        if self.staging is not None:
            self.transport.memory.free(self.staging)
        self.staging = None

    def _leg(self, draft: _Draft) -> Leg:
        device = self.transport.device
        lists = [device.to_device(rows) for rows in (draft.packed, draft.unpacked, draft.sources)]
        staging = np.uint64(self.staging.local.data.ptr + draft.first * self.row_bytes)
        whole = np.uint64(self.staging.local.data.ptr)
        units = np.int32(units_of(self.array.dtype, self._width))
        n_out, n_in = np.int32(len(draft.packed)), np.int32(len(draft.unpacked))
        blocks = [-(-int(n * units) // THREADS) for n in (n_out, n_in)]
        pack = self._copy.bind(
            blocks[0], THREADS, staging, None, self.array, lists[0], n_out, units, stream=self.stream
        )
        kernel, count = (self._add, np.int32(self._width)) if draft.add else (self._copy, units)
        unpack = kernel.bind(
            blocks[1],
            THREADS,
            self.array,
            lists[1],
            whole,
            lists[2],
            n_in,
            count,
            stream=self.stream,
        )
        return Leg(draft.number, tuple(draft.sends), tuple(draft.receives), pack, unpack)

    def address(self, message: Message) -> int:
        """Where the bytes of a message begin on this GPU."""
        start = self.array.data.ptr if message.in_array else self.staging.local.data.ptr
        return int(start) + message.offset

    # What a rung adds

    def bound(self, legs: Sequence[Leg]) -> None:
        """Called after a rebind with all legs; collective."""

    def begin(self, legs: Sequence[Leg], again: bool) -> None:
        """Called before the first leg of an exchange; ``again``: the exchange before went in the same direction."""

    def move(self, leg: Leg, pulse: str) -> None:
        """Move the messages of a leg, which a trace calls ``pulse``, between processes."""
        raise NotImplementedError

    # The exchange

    def _run(self, legs: Sequence[Leg]) -> None:
        direction = "forward" if legs is self._forward else "reverse"
        self.begin(legs, self._last == direction)
        self._last = direction
        timed, n_pulses = self.transport.timed, len(legs)
        for leg in legs:
            pulse = f"pulse {leg.number % n_pulses}"
            timed(f"{pulse} pack", leg.pack)
            if leg.sends or leg.receives:
                self.move(leg, pulse)
            timed(f"{pulse} unpack", leg.unpack)

    def forward_begin(self) -> None:
        if not self.late:
            self._run(self._forward)

    def forward_end(self) -> None:
        if self.late:
            self._run(self._forward)

    def forward(self) -> None:
        self.forward_begin()
        self.forward_end()

    def reverse_begin(self) -> None:
        if not self.late:
            self._run(self._backward)

    def reverse_end(self) -> None:
        if self.late:
            self._run(self._backward)

    def reverse(self) -> None:
        self.reverse_begin()
        self.reverse_end()

    def release(self) -> None:
        """Nothing to do: what follows in the stream waits for the readers before it."""


def _on_host(slots: Any, plan: HaloPlan) -> Rows:
    own = np.asarray(slots.get() if hasattr(slots, "get") else slots, np.int32)
    if len(own) != plan.n_local:
        raise PlanError(f"channel: rank {plan.rank} has {plan.n_local} local rows but {len(own)} slots")
    return own


def _together(rows: Rows) -> bool:
    return bool(rows[-1] - rows[0] == len(rows) - 1 and (np.diff(rows) == 1).all())


def _joined(parts: Sequence[Rows]) -> Rows:
    return np.concatenate(parts).astype(np.int32) if parts else np.empty(0, np.int32)
