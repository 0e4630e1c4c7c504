"""A channel on a heap: epochs on the Python side, one kernel call for each half of an exchange."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from pulsemd.halo import exchange
from pulsemd.halo.layout import STRIDE
from pulsemd.halo.order import CallOrder
from pulsemd.halo.plan import HaloPlan
from pulsemd.halo.transport import check_plan

if TYPE_CHECKING:
    from pulsemd.halo.transports.heap import HeapTransport

_WAITS: Final = {
    exchange.ARRIVAL: ("forward: rows", exchange.RECV_RANK),
    exchange.CREDIT: ("forward: credit to overwrite ghost rows", exchange.SEND_RANK),
    exchange.REVERSE_ARRIVAL: ("reverse: rows", exchange.SEND_RANK),
    exchange.REVERSE_CREDIT: ("reverse: credit to overwrite staging rows", exchange.RECV_RANK),
    exchange.FORWARDED: ("forward: rows to be forwarded", exchange.RECV_RANK),
}


class HeapChannel:
    """One field of all ranks bound to one plan.

    Parameters
    ----------
    transport : HeapTransport
    name : str
        Name of the allocation.
    plan : HaloPlan
    field : (size, at least rows, width) array
        Rows of all ranks.
    rows : int
        Capacity.
    """

    def __init__(
        self, transport: HeapTransport, name: str, plan: HaloPlan, field: NDArray[Any], rows: int
    ) -> None:
        self.name = name
        self._transport, self._field, self._capacity = transport, field, rows
        self._forward_epoch = self._reverse_epoch = self._released = 0
        self._order = CallOrder(name, transport.rank)
        self._number = transport.number_channel()
        self._staging: NDArray[Any] = np.empty((transport.size, 0, field.shape[2]), field.dtype)
        self._signals = np.empty(0, np.int64)
        self.rebind(plan)

    def rebind(self, plan: HaloPlan) -> None:
        self._order.step("", "", "rebind")
        transport = self._transport
        everyone = check_plan(self.name, plan, transport, self._capacity)
        self.plan = plan
        faults = [fault for fault in transport.faults if fault.concerns(transport.rank, self.name)]
        self._kill = max((fault.epoch for fault in faults if fault.kind == "kill"), default=0)
        self._tables = transport.tables(plan, everyone, faults)
        self._reserve(len(plan.pulses), self._tables.n_staging)
        # All ranks have met since their last exchange: its rows have been read, its signals stored.
        self._settled_forward = self._released = self._forward_epoch
        self._settled_reverse = self._reverse_epoch
        self._bind()

    def _reserve(self, n_pulses: int, n_staging: int) -> None:
        """Signals and staging rows for a plan; all ranks come to the same sizes."""
        transport = self._transport
        slots = self._signals.size // (transport.size * exchange.N_KINDS * STRIDE)
        if n_pulses > slots:
            n_bytes = 8 * exchange.N_KINDS * STRIDE * max(2 * slots, n_pulses)
            self._signals = transport.symmetric(n_bytes).view(np.int64).reshape(-1)
        if n_staging > self._staging.shape[1]:
            self._staging = transport.symmetric_rows(
                n_staging + n_staging // 4, self._field.shape[2], self._field.dtype
            )

    def _bind(self) -> None:
        """Arguments of the kernels that stay the same until the next `rebind`."""
        transport, tables, field = self._transport, self._tables, self._field
        shared = (tables.waits, self._signals, transport.control.abort)
        words = field.view(np.int64 if field.shape[2] * field.itemsize % 8 == 0 else np.int32)
        self._forward = (transport.rank, words, tables.routes, tables.pulses, tables.sends, *shared)
        self._reverse = (
            transport.rank,
            field,
            self._staging,
            tables.rows,
            tables.pulses,
            tables.early,
            *shared,
        )
        self._limits = (transport.timeout, transport.spin)

    def forward_begin(self) -> None:
        self._order.step("", "forward", "forward_begin")
        self._grant()
        self._take_turn()
        self._forward_epoch += 1
        if self._forward_epoch == self._kill:
            os.kill(os.getpid(), signal.SIGKILL)
        status = exchange.forward_begin(
            *self._forward, self._forward_epoch, self._settled_forward, *self._limits
        )
        if status:
            self._fail(status, self._forward_epoch)

    def _take_turn(self) -> None:
        """Meet all ranks if the ghost rows of this array are those of another channel: its credits say nothing here."""
        transport = self._transport
        if transport.turns.setdefault(self.name, self._number) != self._number:
            transport.barrier()
            transport.turns[self.name] = self._number

    def forward_end(self) -> None:
        self._order.step("forward", "", "forward_end")
        status = exchange.forward_end(
            *self._forward, self._forward_epoch, self._settled_forward, *self._limits
        )
        if status:
            self._fail(status, self._forward_epoch)

    def forward(self) -> None:
        self.forward_begin()
        self.forward_end()

    def release(self) -> None:
        self._order.step("", "", "release")
        self._grant()

    def _grant(self) -> None:
        """Tell the senders that the ghost rows have been read, once."""
        if self._released < self._forward_epoch:
            self._released = self._forward_epoch
            transport = self._transport
            exchange.grant(transport.size, self._tables.pulses, self._signals, self._released)

    def reverse_begin(self) -> None:
        self._order.step("", "reverse", "reverse_begin")
        self._reverse_epoch += 1
        status = exchange.reverse_begin(
            *self._reverse, self._reverse_epoch, self._settled_reverse, *self._limits
        )
        if status:
            self._fail(status, self._reverse_epoch)

    def reverse_end(self) -> None:
        self._order.step("reverse", "", "reverse_end")
        status = exchange.reverse_end(
            *self._reverse, self._reverse_epoch, self._settled_reverse, *self._limits
        )
        if status:
            self._fail(status, self._reverse_epoch)

    def reverse(self) -> None:
        self.reverse_begin()
        self.reverse_end()

    def _fail(self, status: int, epoch: int) -> None:
        kind, pulse = status // 4 % 8, status // 32
        what, column = _WAITS[kind]
        peer = int(self._tables.pulses[pulse, column])
        epoch -= kind in (exchange.CREDIT, exchange.REVERSE_CREDIT)
        self._transport.fail(
            status % 4, peer, f"pulse {pulse}, epoch {epoch} of channel {self.name!r}, {what}"
        )
