"""Tables of direct plans that kernels have made, filled on the device; see direct.cu."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pulsemd.halo.device.channel import FusedChannel
from pulsemd.halo.device.cuda_programs import THREADS, direct_program
from pulsemd.halo.device.region import Region
from pulsemd.halo.device.tables import ITEM, MESSAGE, REVERSE_ARRIVAL

if TYPE_CHECKING:
    from pulsemd.halo.device.transport import GpuTransport

_GROUP_BYTES: Final = 16
_ITEM_BYTES: Final = 8


@dataclass(frozen=True, eq=False)
class DirectPlan:
    """What kernels tell of the plan of one plan-rank; arrays on the device, with fixed addresses.

    Attributes
    ----------
    send_ranks, recv_ranks : (pulses,) int
        Whom each pulse goes to, and whom it comes from.
    sent : (pulses, most) int32
        Own rows.
    n_sent : (pulses,) int32
        May be above ``most``, of which ``most`` count.
    source : (slots,) int32
        Row of each slot, or -1.
    """

    send_ranks: tuple[int, ...]
    recv_ranks: tuple[int, ...]
    sent: Any
    n_sent: Any
    source: Any


class DirectTables:
    """Fills the tables of two channels, forward and reverse, where stores reach all ranks; collective to make.

    Parameters
    ----------
    transport : GpuTransport
    n_pulses, most : int
        As the channels were given.
    first_ghost, n_rows : int
        Row of number i of pulse p at its receiver: ``first_ghost + p * most + i``.
    """

    def __init__(
        self, transport: GpuTransport, n_pulses: int, most: int, first_ghost: int, n_rows: int
    ) -> None:
        self._transport, self._sizes = transport, (n_pulses, most, first_ghost)
        self._there = transport.region(4 * n_pulses * (most + 1))
        # Zeros: steps may follow a search that lacked slots, though it gave rows none.
        self._slot_of_row = [transport.device.zeros(n_rows, np.int32) for _ in transport.ranks]

    def bind(self, plans: Sequence[DirectPlan], forward: FusedChannel, reverse: FusedChannel) -> None:
        """Take the addresses of now; after each rebind of the channels."""
        device, transport, (n_pulses, most, _) = self._transport.device, self._transport, self._sizes
        out, back = forward.parts("forward"), reverse.parts("reverse")
        assert back.landing is not None
        row_bytes = reverse.row_bytes
        self._alive: list[Any] = []
        rows = [
            [
                out.tables.address("messages") + MESSAGE.itemsize * k * out.slots,
                back.tables.address("messages") + MESSAGE.itemsize * k * back.slots,
                *self._of_rank(k, plan, out.tables, back.tables),
                back.landing.own(k),
                *(int(array.data.ptr) for array in (plan.sent, plan.n_sent)),
                self._there.own(k) + 4 * n_pulses * most,
                self._there.own(k),
                *(int(array.data.ptr) for array in (self._slot_of_row[k], plan.source)),
                *self._of_peers(plan, back.landing, row_bytes),
                *self._numbers(k, len(plan.source), row_bytes),
                REVERSE_ARRIVAL * back.slots,
            ]
            for k, plan in enumerate(plans)
        ]
        table = device.to_device(np.array(rows, np.int64))
        program, n_local = direct_program(transport.network), transport.n_local
        most_slots = max(len(plan.source) for plan in plans)
        self._tell = transport.memory.kernel(program, "tell_slots").bind(
            (-(-most_slots // THREADS), n_local), THREADS, table
        )
        self._fill = transport.memory.kernel(program, "fill_tables").bind(
            (-(-most // THREADS), n_local, n_pulses), THREADS, table, out.state, back.state
        )

    def _of_rank(self, k: int, plan: DirectPlan, out: Any, back: Any) -> list[int]:
        """Addresses of items, groups and waits."""
        n_pulses, most, _ = self._sizes
        own, every = k * n_pulses * most, self._transport.n_local * n_pulses * most
        return [
            out.address("items") + _ITEM_BYTES * own,
            back.address("items") + ITEM.itemsize * own,
            back.address("items") + ITEM.itemsize * (every + own),
            back.address("groups") + _GROUP_BYTES * k * n_pulses,
            back.address("waits"),
        ]

    def _of_peers(self, plan: DirectPlan, landing: Region, row_bytes: int) -> list[int]:
        """Lists of addresses at the other ranks."""
        n_pulses, most, _ = self._sizes
        lists = [
            [self._there.address(rank) for rank in plan.recv_ranks],
            [self._there.address(rank) + 4 * n_pulses * most for rank in plan.send_ranks],
            [landing.address(rank) + p * most * row_bytes for p, rank in enumerate(plan.recv_ranks)],
        ]
        self._alive.append(self._transport.device.to_device(np.array(lists, np.uint64)))
        start = int(self._alive[-1].data.ptr)
        return [start, start + 8 * n_pulses, start + 16 * n_pulses]

    def _numbers(self, k: int, n_slots: int, row_bytes: int) -> list[int]:
        n_pulses, most, first_ghost = self._sizes
        own, every = k * n_pulses * most, self._transport.n_local * n_pulses * most
        return [n_slots, first_ghost, n_pulses, most, row_bytes, own, own, every + own, k * n_pulses]

    def tell(self) -> None:
        """Launch what tells peers the slots of rows; before a barrier."""
        self._tell()

    def fill(self) -> None:
        """Launch what writes the tables; after that barrier."""
        self._fill()

    def close(self) -> None:
        """Give memory back; collective, after all work has ended everywhere."""
        self._transport.memory.free(self._there.block)
