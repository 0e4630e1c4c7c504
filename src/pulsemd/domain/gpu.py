"""Migration and the ghosts of direct plans between plan-ranks on GPUs, without the host; see inbox.cuh."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsemd.domain.cuda_programs import THREADS, ghosts_program, migrate_program
from pulsemd.domain.ghosts import direct_steps, ranks_along, sent_region
from pulsemd.domain.grid import Grid, lattice_halo
from pulsemd.domain.lattice import LATTICE
from pulsemd.halo.device.direct import DirectPlan
from pulsemd.halo.device.transport import GpuTransport

_ALIGNED = 256
_MORE_ROWS = 1.15
_SPARE_ROWS = 256
_N_FOUND = 2  # owned atoms, bits of the largest squared reach of a group; the rows of each pulse follow


@dataclass(frozen=True)
class Room:
    """Sizes of an inbox, the same on all ranks.

    Parameters
    ----------
    owned : int
        Rows of owned atoms.
    most : int
        Ghosts of a pulse.
    n_pulses : int
    """

    owned: int
    most: int
    n_pulses: int

    @property
    def n_rows(self) -> int:
        """Rows of an inbox."""
        return self.owned + self.n_pulses * self.most

    def enough_for(self, owned: int, sent: int, n_pulses: int, full: float) -> Room:
        """Room for so many rows and somewhat more; this, if they take less than the part ``full`` of it."""
        if n_pulses == self.n_pulses and owned < full * self.owned and sent < full * self.most:
            return self
        rows = [64 * math.ceil((_MORE_ROWS * n + _SPARE_ROWS) / 64) for n in (owned, sent)]
        return Room(rows[0], rows[1], n_pulses)


@dataclass(frozen=True, eq=False)
class Storage:
    """A plan-rank's atoms as the last search left them, on the device, with fixed addresses.

    Attributes
    ----------
    x, v, gid : (slots, 4) int32, (slots, 4) float32, (slots,) int32
    slot_of_gid : (n_atoms,) int32
    owned : (1,) int64
        How many times 64 slots hold owned atoms, from the first one on.
    source : (slots,) int32
        Row of the inbox that each slot was filled from, or -1.
    """

    x: Any
    v: Any
    gid: Any
    slot_of_gid: Any
    owned: Any
    source: Any


@dataclass(frozen=True, eq=False)
class Inbox:
    """Rows that a search starts from, on the device; see inbox.cuh."""

    x: Any
    v: Any
    leader: Any
    gid: Any
    n_owned: Any


class DeviceDomains:
    """The inboxes of a process's plan-ranks; collective to make, where stores reach all ranks.

    Parameters
    ----------
    transport : GpuTransport
    grid : Grid
    leader : (n_atoms,) int32
        Global id of each atom's leader.
    box : (3, 3) float64, nm
    halo_width : float, nm
    room : Room

    Attributes
    ----------
    inboxes : list of Inbox
        Of the local plan-ranks.
    found : (K, 2 + pulses) int32, device
        After a search: owned atoms, bits of the largest squared reach of a group in nm^2 (float32), and the rows that
        each pulse sends.
    """

    def __init__(
        self,
        transport: GpuTransport,
        grid: Grid,
        leader: NDArray[np.int32],
        box: NDArray[np.float64],
        halo_width: float,
        room: Room,
    ) -> None:
        self._transport, self._grid, self.room = transport, grid, room
        self._halo = lattice_halo(halo_width, box)
        self._steps = direct_steps(grid, self._halo)
        device, n_local = transport.device, transport.n_local
        rows = (16 * room.n_rows, 16 * room.owned, 16 * room.n_rows, 4 * room.n_rows, 4)
        self._starts = np.cumsum([0, *(-(-size // _ALIGNED) * _ALIGNED for size in rows)])
        self._region = transport.region(int(self._starts[-1]))
        self.inboxes = [self._inbox(local) for local in range(n_local)]
        for inbox in self.inboxes:
            device.fill_ones(inbox.gid)
        self.found = device.zeros((n_local, _N_FOUND + room.n_pulses), np.int32)
        self._sent = device.empty((n_local, room.n_pulses, room.most), np.int32)
        self._leader, scale = device.to_device(leader, np.int32), np.ravel(box) / LATTICE
        self._scale = device.to_device(scale, np.float32)
        bounds = np.concatenate([np.array(b, np.uint64) for b in grid.bounds])
        self._bounds = device.to_device(bounds)
        self._pulses = [device.to_device(self._pulses_of(rank)) for rank in transport.ranks]
        addresses = [
            [self._region.address(rank) + int(start) for start in self._starts[:-1]]
            for rank in range(transport.size)
        ]
        self._addresses = device.to_device(np.array(addresses, np.uint64))
        device.synchronize()
        transport.meet()

    def _inbox(self, local: int) -> Inbox:
        room, block = self.room, self._region.block.local

        def view(k: int, shape: tuple[int, ...], dtype: Any) -> Any:
            start = local * self._region.stride + int(self._starts[k])
            n_bytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
            return block[start : start + n_bytes].view(dtype).reshape(shape)

        return Inbox(
            view(0, (room.n_rows, 4), np.int32),
            view(1, (room.owned, 4), np.float32),
            view(2, (room.n_rows, 4), np.int32),
            view(3, (room.n_rows,), np.int32),
            view(4, (1,), np.int32),
        )

    def _pulses_of(self, rank: int) -> NDArray[np.uint64]:
        """`DirectPulse` of inbox.cuh for each step."""
        rows = []
        for step in self._steps:
            lower, span = sent_region(self._grid, rank, self._halo, step)
            home = sum(1 << d for d in range(3) if step[d] % self._grid.shape[d] == 0)
            rows.append([*(x % LATTICE for x in lower), *span, ranks_along(self._grid, rank, step)[0], home])
        return np.array(rows, np.uint64)

    def bind(self, storages: Sequence[Storage]) -> list[DirectPlan]:
        """Take arrays of now; the plans that each search makes."""
        device, room, n_local = self._transport.device, self.room, self._transport.n_local
        rows = []
        for k, (rank, s) in enumerate(zip(self._transport.ranks, storages, strict=True)):
            arrays = (
                self._addresses, self._bounds, self._pulses[k], self._sent[k], self.found[k],
                s.x, s.v, s.gid, s.slot_of_gid, self._leader, s.owned, self._scale,
            )  # fmt: skip
            numbers = (rank, *self._grid.shape, len(s.gid), room.n_pulses, room.owned, room.most, room.n_rows)
            rows.append([*(int(array.data.ptr) for array in arrays), *numbers])
        table, slots = device.to_device(np.array(rows, np.int64)), max(len(s.gid) for s in storages)
        self._migrate = device.kernel(migrate_program(), "migrate_atoms").bind(
            (-(-slots // THREADS), n_local), THREADS, table
        )
        self._send = device.kernel(ghosts_program(), "send_ghosts").bind(
            (-(-room.owned // THREADS), n_local), THREADS, table
        )
        self._empty = device.kernel(ghosts_program(), "empty_inboxes").bind(
            (-(-room.n_rows // THREADS), n_local), THREADS, table
        )
        self._alive = storages
        return [
            DirectPlan(
                tuple(ranks_along(self._grid, rank, step)[0] for step in self._steps),
                tuple(ranks_along(self._grid, rank, step)[1] for step in self._steps),
                self._sent[k],
                self.found[k, _N_FOUND:],
                s.source,
            )
            for k, (rank, s) in enumerate(zip(self._transport.ranks, storages, strict=True))
        ]

    def migrate(self) -> None:
        """Launch the sending of owned atoms to their ranks; before a barrier."""
        self._transport.device.clear(self.found)
        self._migrate()

    def send_ghosts(self) -> None:
        """Launch the sending of ghosts; between two barriers."""
        self._send()

    def empty(self) -> None:
        """Launch the emptying of the inboxes, once their rows are used; before a barrier."""
        self._empty()

    def close(self) -> None:
        """Give memory back; collective, after all work has ended everywhere."""
        self._transport.memory.free(self._region.block)
