"""Exchanges over MPI: buffers and requests are made when a plan is bound; a step packs, starts and waits.

What forwards nothing is on its way from the begin of an exchange on, other pulses when those before them are here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pulsemd.halo.order import CallOrder
from pulsemd.halo.plan import HaloPlan, Pulse
from pulsemd.halo.transport import check_plan

if TYPE_CHECKING:
    from pulsemd.halo.transports.mpi import MpiTransport


class MpiChannel:
    """One field bound to one plan."""

    def __init__(self, transport: MpiTransport, name: str, plan: HaloPlan, array: NDArray[Any]) -> None:
        self.name = name
        self._transport, self._array = transport, array
        self._epoch = 0
        self._order = CallOrder(name, transport.rank)
        self._waves: list[_Wave] = []
        self.rebind(plan)

    def rebind(self, plan: HaloPlan) -> None:
        self._order.step("", "", "rebind")
        transport = self._transport
        check_plan(self.name, plan, transport, len(self._array))
        self.plan = plan
        for wave in self._waves:
            wave.free()
        tags = transport.new_tags(len(plan.pulses))
        self._waves = [_Wave(transport, self._array, plan, numbers, tags) for numbers in _waves(plan)]

    def forward_begin(self) -> None:
        self._order.step("", "forward", "forward_begin")
        self._epoch += 1
        for wave in self._waves[:1]:
            wave.begin_forward()

    def forward_end(self) -> None:
        self._order.step("forward", "", "forward_end")
        what = f"exchange {self._epoch} of channel {self.name!r}, forward"
        for number, wave in enumerate(self._waves):
            if number:
                wave.begin_forward()
            wave.end_forward(what)

    def forward(self) -> None:
        self.forward_begin()
        self.forward_end()

    def release(self) -> None:
        """Nothing to do but to check the order: rows arrive only in a receive."""
        self._order.step("", "", "release")

    def reverse_begin(self) -> None:
        self._order.step("", "reverse", "reverse_begin")
        self._epoch += 1
        for wave in self._waves[-1:]:
            wave.begin_reverse()

    def reverse_end(self) -> None:
        self._order.step("reverse", "", "reverse_end")
        what = f"exchange {self._epoch} of channel {self.name!r}, reverse"
        for number, wave in enumerate(reversed(self._waves)):
            if number:
                wave.begin_reverse()
            wave.end_reverse(what)

    def reverse(self) -> None:
        self.reverse_begin()
        self.reverse_end()


def _waves(plan: HaloPlan) -> Iterator[list[int]]:
    """Numbers of pulses in order, cut where one forwards rows that another of its wave brings."""
    wave: list[int] = []
    for number, pulse in enumerate(plan.pulses):
        if wave and pulse.n_send and pulse.depends.max() >= wave[0]:
            yield wave
            wave = []
        wave.append(number)
    if wave:
        yield wave


class _Wave:
    """Messages that do not wait for each other, both ways."""

    def __init__(
        self,
        transport: MpiTransport,
        array: NDArray[Any],
        plan: HaloPlan,
        numbers: list[int],
        tags: Sequence[int],
    ) -> None:
        self._transport = transport
        self._messages = [_Message(array, plan.pulses[number], plan.rank) for number in numbers]
        sources = [plan.pulses[number].recv_rank for number in numbers]
        self._about = f"pulses {numbers}, rows from ranks {sorted({*sources} - {plan.rank})}"
        self._forward, self._reverse = list[Any](), list[Any]()
        world = transport.communicator
        for number, message in zip(numbers, self._messages, strict=True):
            pulse, tag = message.pulse, tags[number]
            if message.stays:
                continue
            if pulse.n_recv:
                self._forward.append(world.Recv_init(message.ghosts, pulse.recv_rank, tag))
                self._reverse.append(world.Send_init(message.ghosts, pulse.recv_rank, tag))
            if pulse.n_send:
                self._forward.append(world.Send_init(message.packed, pulse.send_rank, tag))
                self._reverse.append(world.Recv_init(message.packed, pulse.send_rank, tag))

    def begin_forward(self) -> None:
        for message in self._messages:
            message.pack()
        for request in self._forward:
            request.Start()

    def end_forward(self, what: str) -> None:
        self._wait(self._forward, what)

    def begin_reverse(self) -> None:
        for request in self._reverse:
            request.Start()

    def end_reverse(self, what: str) -> None:
        self._wait(self._reverse, what)
        for message in reversed(self._messages):
            message.add()

    def _wait(self, requests: list[Any], what: str) -> None:
        if requests:
            self._transport.wait(requests, f"{what}: {self._about}")

    def free(self) -> None:
        for request in (*self._forward, *self._reverse):
            request.Free()


class _Message:
    """Rows of one pulse; those that a rank sends to itself are copied straight."""

    def __init__(self, array: NDArray[Any], pulse: Pulse, rank: int) -> None:
        self.pulse, self._array = pulse, array
        self.stays = pulse.send_rank == pulse.recv_rank == rank
        self.ghosts = array[pulse.recv_start : pulse.recv_start + pulse.n_recv]
        self.packed = self.ghosts if self.stays else np.empty((pulse.n_send, array.shape[1]), array.dtype)
        self._rows = pulse.send_rows.astype(np.intp)
        self._differ = _all_differ(self._rows)

    def pack(self) -> None:
        # The plan was checked: clipping only spares the copy that the check of bounds needs.
        np.take(self._array, self._rows, 0, self.packed, "clip")

    def add(self) -> None:
        if self._differ:
            self._array[self._rows] += self.packed
        else:
            np.add.at(self._array, self._rows, self.packed)


def _all_differ(rows: NDArray[np.intp]) -> bool:
    seen = np.zeros(int(rows.max(initial=-1)) + 1, bool)
    seen[rows] = True
    return int(seen.sum()) == len(rows)
