"""Exchanges over MPI: buffers and requests are made when a plan is bound; a step packs, starts and waits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from pulsemd.base.errors import PlanError
from pulsemd.halo.plan import HaloPlan, Pulse

if TYPE_CHECKING:
    from pulsemd.halo.transports.mpi import MpiTransport

_FIRST_TAG: Final = 16384


class MpiChannel:
    """One field bound to one plan; both halves of an exchange happen in its end."""

    def __init__(self, transport: MpiTransport, name: str, plan: HaloPlan, array: NDArray[Any]) -> None:
        self.name = name
        self._transport, self._array = transport, array
        self._epoch = 0
        self._waves: list[_Wave] = []
        self.rebind(plan)

    def rebind(self, plan: HaloPlan) -> None:
        transport = self._transport
        _, n_locals = plan.verify(transport)
        if max(n_locals) > len(self._array):
            raise PlanError(
                f"channel {self.name!r}: rank {int(np.argmax(n_locals))} has {max(n_locals)} local rows, capacity is "
                f"{len(self._array)}; allocate more rows"
            )
        self.plan = plan
        for wave in self._waves:
            wave.free()
        self._waves = [_Wave(transport, self._array, plan, numbers) for numbers in _waves(plan)]

    def forward_begin(self) -> None:
        self._epoch += 1

    def forward_end(self) -> None:
        what = f"exchange {self._epoch} of channel {self.name!r}, forward"
        for wave in self._waves:
            wave.forward(what)

    def forward(self) -> None:
        self.forward_begin()
        self.forward_end()

    def release(self) -> None:
        """Nothing to do: rows arrive only in a receive."""

    def reverse_begin(self) -> None:
        self._epoch += 1

    def reverse_end(self) -> None:
        what = f"exchange {self._epoch} of channel {self.name!r}, reverse"
        for wave in reversed(self._waves):
            wave.reverse(what)

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
        self, transport: MpiTransport, array: NDArray[Any], plan: HaloPlan, numbers: list[int]
    ) -> None:
        self._transport = transport
        self._messages = [_Message(array, plan.pulses[number], plan.rank) for number in numbers]
        sources = [plan.pulses[number].recv_rank for number in numbers]
        self._about = f"pulses {numbers}, rows from ranks {sorted({*sources} - {plan.rank})}"
        self._forward, self._reverse = list[Any](), list[Any]()
        world = transport.communicator
        for number, message in zip(numbers, self._messages, strict=True):
            pulse, tag = message.pulse, _FIRST_TAG + number
            if message.stays:
                continue
            if pulse.n_recv:
                self._forward.append(world.Recv_init(message.ghosts, pulse.recv_rank, tag))
                self._reverse.append(world.Send_init(message.ghosts, pulse.recv_rank, tag))
            if pulse.n_send:
                self._forward.append(world.Send_init(message.packed, pulse.send_rank, tag))
                self._reverse.append(world.Recv_init(message.packed, pulse.send_rank, tag))

    def forward(self, what: str) -> None:
        for message in self._messages:
            message.pack()
        self._exchange(self._forward, what)

    def reverse(self, what: str) -> None:
        self._exchange(self._reverse, what)
        for message in reversed(self._messages):
            message.add()

    def _exchange(self, requests: list[Any], what: str) -> None:
        if requests:
            for request in requests:
                request.Start()
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
        self._add: Callable[[], None] = self._add_rows if _all_differ(self._rows) else self._add_at

    def pack(self) -> None:
        # The plan was checked: clipping only spares the copy that the check of bounds needs.
        np.take(self._array, self._rows, 0, self.packed, "clip")

    def add(self) -> None:
        self._add()

    def _add_rows(self) -> None:
        self._array[self._rows] += self.packed

    def _add_at(self) -> None:
        np.add.at(self._array, self._rows, self.packed)


def _all_differ(rows: NDArray[np.intp]) -> bool:
    seen = np.zeros(int(rows.max(initial=-1)) + 1, bool)
    seen[rows] = True
    return int(seen.sum()) == len(rows)
