"""Channels whose exchanges the GPU starts: tables and epochs in device memory, one kernel or one for each pulse."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from pulsemd.base.errors import ConfigError, PlanError, TransportError
from pulsemd.device.cuda import Kernel
from pulsemd.halo.device.blocks import blocks_of_message
from pulsemd.halo.device.buffers import TableBuffers, table_room
from pulsemd.halo.device.cuda_programs import THREADS, WAYS, forward_program, reverse_program
from pulsemd.halo.device.region import Region
from pulsemd.halo.device.routes import Routes
from pulsemd.halo.device.tables import (
    MOST_PARTS,
    PARTS_BYTES,
    WORD_KINDS,
    Memory,
    forward_tables,
    reverse_tables,
)
from pulsemd.halo.plan import N_RECV, N_SEND, HaloPlan

if TYPE_CHECKING:
    from pulsemd.halo.device.transport import GpuTransport

DIRECTIONS: Final = ("forward", "reverse", "both")
_N_PULSES, _FORWARD, _FORWARD_SETTLED, _REVERSE, _REVERSE_SETTLED, _HALF, _CHANNEL = 0, 1, 2, 3, 4, 5, 8
_STATE_WORDS: Final = 16
_GROWTH: Final = 1.25
_SEND_SIDE: Final = (1, 2)  # waits for the rank that a pulse sends to: its credit, the rows it gives back


@dataclass(frozen=True, eq=False)
class ChannelParts:
    """What kernels that make tables write to.

    Attributes
    ----------
    state : (16,) uint64, CuPy
    slots : int
        Messages that there are for each local plan-rank.
    tables : TableBuffers
    landing : Region or None
        Of rows that come back.
    way : str
    """

    state: Any
    slots: int
    tables: TableBuffers
    landing: Region | None
    way: str


class FusedChannel:
    """One field of the plan-ranks of a process, bound to their plans. All processes make the same calls in one order.

    Everything is in stream order: no call waits on the host but `rebind`. What is launched may be captured in a graph;
    the graph stays valid over a rebind unless `generation` changes.

    Parameters
    ----------
    transport : GpuTransport
    plans, array, places, stream : see `GpuTransport.channel`
    releases : FusedChannel, optional
        A channel with the same plans whose ghost rows have been read when an exchange of this one begins in its stream;
        then that exchange lets the senders overwrite them, and the next forward of that channel need not wait.
    directions : {'both', 'forward', 'reverse'}
        Which exchanges are called.
    most : int
        Rows of a pulse that tables made on the device have room for, see `DirectTables`; 0: the host makes them all.
        The attribute counts from the next rebind on.

    Attributes
    ----------
    plans : tuple of HaloPlan
    description : str
        For messages.
    row_bytes : int
    generation : int
        Grows when captured launches of this channel become invalid.
    """

    per_launch: ClassVar[int] = 2**31
    """Pulses of one kernel."""
    capturable: ClassVar[bool] = True
    """Whether exchanges may be captured in a graph."""

    def __init__(
        self,
        transport: GpuTransport,
        plans: Sequence[HaloPlan],
        array: Any,
        places: Sequence[NDArray[np.int32]] | None = None,
        stream: Any = None,
        *,
        releases: FusedChannel | None = None,
        directions: str = "both",
        most: int = 0,
    ) -> None:
        if directions not in DIRECTIONS or transport.options.way not in WAYS:
            raise ConfigError(
                f"channel: directions {directions!r} of {', '.join(DIRECTIONS)}, "
                f"way {transport.options.way!r} of {', '.join(WAYS)}"
            )
        name, self._field = transport.field(array)
        self.description, self.generation = f"channel {name!r}", 0
        self._name, self._transport, self._device = name, transport, transport.device
        self._array, self._stream, self._releases = array, stream, releases
        self._forwards, self._reverses = directions != "reverse", directions != "forward"
        self._way = "land" if transport.may_put else transport.options.way
        self.most = most
        self.row_bytes = array.shape[2] * array.dtype.itemsize
        self._slots = self._buffer_rows = self._rows = self._released = 0
        self._made_here = np.int32(0)
        self._signals: Region | None = None
        self._buffers: dict[str, Region] = {}
        self._under_way = ""
        self._rooms: dict[str, tuple[int, int]] = {}
        self._shapes: dict[str, tuple[int, int]] = {}
        device = transport.device
        self._state = device.zeros(_STATE_WORDS, np.uint64)
        self._counters = device.zeros(0, np.uint32)
        self._tables = {way: TableBuffers(device) for way in ("forward", "reverse")}
        self._number = transport.register(self, stream)
        self._launches: dict[str, list[Callable[[], None]]] = {}
        self.rebind(plans, places)
        transport.meet()  # all have loaded their kernels: loading may wait for the device

    # Plans

    def rebind(self, plans: Sequence[HaloPlan], places: Sequence[NDArray[np.int32]] | None = None) -> None:
        """Use other plans from now on; collective, waits for the device.

        Ghost rows belong to the peers from here to the next forward.

        Raises
        ------
        PlanError
            If plans do not match, or the array has too few rows.
        """
        self._step("", "", "rebind")
        transport = self._transport
        transport.settle()  # then all ranks meet: everybody's exchanges have ended, their rows been read
        routes = transport.routes(plans, places, self._reverses and self._way == "push")
        self._check_rows(routes)
        self.plans = routes.plans
        moved = self._reserve(routes)
        memory = self._memory()
        faults = [
            [fault for fault in transport.faults if fault.concerns(rank, self._name)]
            for rank in transport.ranks
        ]
        tables = {}
        if self._forwards:
            tables["forward"] = forward_tables(routes, memory, faults)
        if self._reverses:
            tables["reverse"] = reverse_tables(routes, memory, faults, self._way)
        for direction, table in tables.items():
            room = table_room(direction, transport.n_local, routes.n_pulses, self.most)
            moved = self._tables[direction].upload(table, room) or moved
        self._set_state(routes.n_pulses, memory.half)
        self._prepare(list(tables), moved, routes)
        self._device.synchronize()

    def parts(self, direction: str) -> ChannelParts:
        """Where the tables of an exchange are, until `generation` changes."""
        return ChannelParts(
            self._state, self._slots, self._tables[direction], self._buffers.get("back_landing"), self._way
        )

    def _check_rows(self, routes: Routes) -> None:
        capacity = self._array.shape[1]
        for rank, slots in zip(self._transport.ranks, routes.slots, strict=True):
            if len(slots) and int(slots.max()) >= capacity:
                raise PlanError(
                    f"{self.description}: rank {rank} has {len(slots)} local rows in slots up to {slots.max()}, "
                    f"capacity is {capacity}; allocate more rows"
                )

    def _reserve(self, routes: Routes) -> bool:
        """Signals and buffers for plans; all processes come to the same sizes. Whether addresses changed."""
        transport, moved = self._transport, False
        if routes.n_pulses > self._slots or self._signals is None:
            self._slots = max(1, routes.n_pulses)
            if self._signals is not None:
                transport.memory.free(self._signals.block)
            self._signals = transport.region(WORD_KINDS * self._slots * PARTS_BYTES)
            self._counters = self._device.zeros(3 * transport.n_local * self._slots, np.uint32)
            # New words are zero and epochs go on: the first exchange after this is announced by a larger epoch.
            moved = True
        rows = int(routes.tables[:, :, (N_SEND, N_RECV)].sum(axis=1).max(initial=0))
        rows = max(rows, routes.n_pulses * self.most)
        names = self._buffer_names()
        if names and (rows > self._buffer_rows or not self._buffers):
            self._buffer_rows = max(1, int(_GROWTH * rows) if self._buffers else rows)
            for name in names:
                if name in self._buffers:
                    transport.memory.free(self._buffers[name].block)
                halves = 2 if name.startswith("back") else 1
                self._buffers[name] = transport.region(halves * self._half())
            moved = True
        return moved

    def _buffer_names(self) -> list[str]:
        names = ["landing", "staging"] if self._forwards and self._transport.may_put else []
        if self._reverses and self._way == "land":
            names += ["back_landing", "back_staging"] if self._transport.may_put else ["back_landing"]
        return names

    def _half(self) -> int:
        """Bytes of one half of a buffer."""
        return int(-(-self._buffer_rows * self.row_bytes // PARTS_BYTES) * PARTS_BYTES)

    def _memory(self) -> Memory:
        transport = self._transport
        assert self._signals is not None
        direct = [
            [transport.stores_reach(own, rank) for rank in range(transport.size)] for own in transport.ranks
        ]
        return Memory(
            self._field,
            self._signals,
            self._buffers,
            self.row_bytes,
            self._slots,
            self._half(),
            transport.ranks.start,
            transport.n_local,
            np.array(direct),
        )

    def _set_state(self, n_pulses: int, half: int) -> None:
        """Epochs go on; up to now, all ranks having met, nothing is owed."""
        state = self._device.to_host(self._state)
        state[_N_PULSES], state[_HALF], state[_CHANNEL] = n_pulses, half, self._number
        state[_FORWARD_SETTLED], state[_REVERSE_SETTLED] = state[_FORWARD], state[_REVERSE]
        with self._device.current():
            self._state.set(state)

    # Launches

    def _prepare(self, directions: Sequence[str], moved: bool, routes: Routes) -> None:
        """Launches with the addresses and the grid of now, where they changed.

        A message has a word for each block of its sender, so all processes come to the same grids.
        """
        kernels = {direction: self._kernel(direction) for direction in directions}
        rows = int(routes.tables[:, :, (N_SEND, N_RECV)].max(initial=0))
        if rows > self._rows:
            self._rows = int(_GROWTH * rows)
        shapes = {direction: self._shape(direction, *kernels[direction]) for direction in directions}
        released = 0 if self._releases is None else self._releases.generation
        made_here = np.int32(self.most > 0)
        if not moved and (shapes, released, made_here) == (self._shapes, self._released, self._made_here):
            return
        self._shapes = shapes
        self._released, self._made_here = released, made_here
        self._launches = {direction: self._bind(direction, *kernels[direction]) for direction in directions}
        if self._forwards:
            self._release = self._bind_release()
        self.generation += 1

    def _kernel(self, direction: str) -> tuple[Kernel, int]:
        """A kernel and the units of a row as it sees them."""
        transport, array = self._transport, self._array
        if direction == "forward":
            program, units = forward_program(self.row_bytes, transport.network)
        else:
            program, units = reverse_program(array.dtype, array.shape[2], self._way, transport.network)
        return transport.memory.kernel(program, f"halo_{direction}"), units

    def _shape(self, direction: str, kernel: Kernel, units: int) -> tuple[int, int]:
        """Blocks of each message, and pulses of each launch: as many as find a place on every device together."""
        transport, n_local = self._transport, self._transport.n_local
        places, multiprocessors = self._room(kernel)
        if places < n_local:
            raise TransportError(
                f"{self.description}: {n_local} plan-ranks of a process need as many blocks at once, the GPU's "
                f"share is {places}; use fewer ranks per GPU"
            )
        pulses = min(self._slots, self.per_launch, places // n_local)
        messages = n_local * pulses
        chosen = blocks_of_message(direction, self._rows * units, messages, multiprocessors)
        return max(1, min(transport.options.blocks or chosen, MOST_PARTS, places // messages)), pulses

    def _bind(self, direction: str, kernel: Kernel, units: int) -> list[Callable[[], None]]:
        """The launches of an exchange."""
        transport, n_local = self._transport, self._transport.n_local
        blocks, pulses = self._shapes[direction]
        released, released_state = (None, None)
        if self._releases is not None:
            released, released_state = self._releases._tables["forward"].messages, self._releases._state
        first_counter = 0 if direction == "forward" else 2 * n_local * self._slots
        row_units = self._field.stride // (self.row_bytes // units)
        launches = []
        for first in range(0, self._slots, pulses):
            launches.append(
                kernel.bind(
                    (blocks, n_local, min(pulses, self._slots - first)),
                    THREADS,
                    self._state,
                    *self._tables[direction].arrays(),
                    self._counters[first_counter:],
                    self._signals.block.local if self._signals else None,
                    transport.control_words,
                    self._array,
                    np.uint64(row_units),
                    np.int32(units),
                    np.int32(self._slots),
                    np.int32(first),
                    self._made_here,
                    released,
                    released_state,
                    stream=self._stream,
                    overlap=True,
                )
            )
        return launches

    def _room(self, kernel: Kernel) -> tuple[int, int]:
        """Blocks of a kernel that an exchange may have at once, and multiprocessors; collective when new.

        Both are the least of all processes.
        """
        if kernel.name not in self._rooms:
            n = self._device.n_multiprocessors
            own = kernel.blocks_per_multiprocessor(THREADS) * n, n
            rooms = self._transport.each(lambda _, control: control.allgather(own))[0]
            places, multiprocessors = (min(column) for column in zip(*rooms, strict=True))
            self._rooms[kernel.name] = int(places * self._transport.options.share), multiprocessors
        return self._rooms[kernel.name]

    def _bind_release(self) -> Callable[[], None]:
        transport = self._transport
        kernel = transport.memory.kernel(
            forward_program(self.row_bytes, transport.network)[0], "halo_release"
        )
        grid, messages = (1, transport.n_local, self._slots), self._tables["forward"].messages
        return kernel.bind(grid, 1, self._state, messages, np.int32(self._slots), stream=self._stream)

    # Exchanges

    def _step(self, before: str, after: str, call: str) -> None:
        if self._under_way != before:
            raise TransportError(
                f"{self.description}, process {self._transport.memory.process}: {call} while "
                f"{self._under_way or 'nothing'} is under way; call begin, end, begin, end"
            )
        self._under_way = after

    def _run(self, direction: str) -> None:
        if direction not in self._launches:
            raise TransportError(f"{self.description}: it was made without its {direction} exchange")
        for launch in self._launches[direction]:
            launch()

    def forward_begin(self) -> None:
        """Launch the copying of owned rows into ghost rows of other ranks."""
        self._step("", "forward", "forward_begin")
        self._run("forward")

    def forward_end(self) -> None:
        """From here on in the stream all ghost rows are here."""
        self._step("forward", "", "forward_end")

    def forward(self) -> None:
        """`forward_begin` and `forward_end`."""
        self.forward_begin()
        self.forward_end()

    def release(self) -> None:
        """Launch a notice that the ghost rows have been read; the next exchange's beginning implies it."""
        self._step("", "", "release")
        self._release()

    def reverse_begin(self) -> None:
        """Launch the adding of ghost rows to their owners' rows."""
        self._step("", "reverse", "reverse_begin")
        self._run("reverse")

    def reverse_end(self) -> None:
        """From here on in the stream owned rows hold the sums."""
        self._step("reverse", "", "reverse_end")

    def reverse(self) -> None:
        """`reverse_begin` and `reverse_end`."""
        self.reverse_begin()
        self.reverse_end()

    def close(self) -> None:
        """Give its symmetric memory back; collective, after all its exchanges have ended everywhere."""
        regions = [self._signals] if self._signals else []
        for region in (*regions, *self._buffers.values()):
            self._transport.memory.free(region.block)
        self._signals, self._buffers, self._launches = None, {}, {}

    def peer(self, kind: int, local: int, pulse: int) -> int:
        """Rank that a report of the device means."""
        message = self.plans[local].pulses[pulse]
        return message.send_rank if kind in _SEND_SIDE else message.recv_rank


class PulseChannel(FusedChannel):
    """The same with a kernel for each pulse, last pulse first on the way back."""

    per_launch = 1
