"""Rung `nvshmem-stream`: put-with-signal and wait in stream order, one for each message. Never captured: a graph would
repeat the epoch.

Which signal completes a put, and why its rows may be overwritten: a message sets the word of its leg and receiving rank
to the epoch of the exchange, and the receiver's stream waits for it. The bytes at the receiver are overwritten by the
next exchange in the same direction. Where the exchange in between went the other way, its messages prove that they have
been read, since each is sent after the readers before it in the receiver's stream; else the receiver sends a credit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pulsemd.halo.agreement import check_reduce
from pulsemd.halo.rungs.channel import HostDrivenChannel, Leg
from pulsemd.halo.rungs.cuda_programs import THREADS, rows_program
from pulsemd.halo.transports.nvshmem import GREATER_OR_EQUAL, SET

if TYPE_CHECKING:
    from pulsemd.halo.rungs.transport import HostDrivenTransport

_WORD: Final = 128
_ARRIVAL, _CREDIT = 0, 1


class StreamChannel(HostDrivenChannel):
    """See the module."""

    _epoch = 0
    _signals: Any = None
    _n_words = 0

    def bound(self, legs: Sequence[Leg]) -> None:
        transport = self.transport
        n_words = 2 * len(legs) * transport.n_local
        if self._signals is None or n_words > self._n_words:
            if self._signals is not None:
                transport.memory.free(self._signals)
            self._signals, self._n_words = transport.memory.allocate(n_words * _WORD), n_words
        told = {
            (leg.number, message.own): (message.in_array, message.offset)
            for leg in legs
            for message in leg.receives
        }
        self._landing = {key: place for part in transport.gather(told) for key, place in part.items()}

    def close(self) -> None:
        """As for every channel; its signals too."""
        super().close()
        if self._signals is not None:
            self.transport.memory.free(self._signals)
        self._signals = None

    def _word(self, leg: Leg, rank: int, kind: int) -> int:
        """Own address of the word of a leg and a plan-rank, wherever that lives."""
        n_local = self.transport.n_local
        index = (2 * leg.number + kind) * n_local + rank % n_local
        return int(self._signals.local.data.ptr) + index * _WORD

    def _target(self, leg: Leg, receiver: int) -> int:
        """Own address of the place where a message lands at its receiver."""
        in_array, offset = self._landing[leg.number, receiver]
        start = (self.array if in_array else self.staging.local).data.ptr
        return int(start) + int(offset)

    def begin(self, legs: Sequence[Leg], again: bool) -> None:
        self._epoch += 1
        self._needs_credit = again
        if again:
            bindings, n_local = self.transport.wire, self.transport.n_local
            for leg in legs:
                for m in leg.receives:
                    word = self._word(leg, m.peer, _CREDIT)
                    bindings.signal_op_on_stream(word, self._epoch, SET, m.peer // n_local, self.stream.ptr)

    def move(self, leg: Leg, pulse: str) -> None:
        bindings, stream, n_local = self.transport.wire, self.stream.ptr, self.transport.n_local
        for m in leg.sends:
            if self._needs_credit:
                word = self._word(leg, m.own, _CREDIT)
                bindings.signal_wait_until_on_stream(word, GREATER_OR_EQUAL, self._epoch, stream)
            bindings.putmem_signal_on_stream(
                self._target(leg, m.peer),
                self.address(m),
                m.n_bytes,
                self._word(leg, m.peer, _ARRIVAL),
                self._epoch,
                SET,
                m.peer // n_local,
                stream,
            )
        for m in leg.receives:
            word = self._word(leg, m.own, _ARRIVAL)
            bindings.signal_wait_until_on_stream(word, GREATER_OR_EQUAL, self._epoch, stream)


class StreamReduce:
    """All-reduce through one slot a rank at every process, of two sets in turn.

    Whoever has the values of epoch e of all has proof that all have added those of e - 1: two sets are enough.
    """

    def __init__(self, transport: HostDrivenTransport, width: int, dtype: np.dtype[Any], stream: Any) -> None:
        check_reduce(transport.gather, width, dtype)
        transport.register(self, stream)
        device, memory = transport.device, transport.memory
        self._memory, self._device, self._bindings = memory, device, transport.wire
        self._stream = stream or device.stream
        self._n_bytes = transport.n_local * width * 8
        self._set_bytes = transport.size * width * 8
        self._slots = memory.allocate(2 * self._set_bytes)
        self._signals = memory.allocate(memory.n_processes * _WORD)
        self._total = device.zeros((transport.n_local, width), dtype)
        self._views = [
            self._slots.local[k * self._set_bytes :][: self._set_bytes].view(dtype) for k in range(2)
        ]
        own = slice(transport.ranks.start * width, transport.ranks.stop * width)
        self._own = [view[own].reshape(transport.n_local, width) for view in self._views]
        counts = [np.int32(n) for n in (transport.size, width, transport.n_local)]
        kernel = device.kernel(rows_program(dtype, width), "halo_sum_slots")
        self._add = [
            kernel.bind(1, THREADS, view, self._total, *counts, stream=self._stream) for view in self._views
        ]
        self._epoch = 0

    def sum(self, values: Any) -> Any:
        """See `GpuReduce.sum`; not to be captured."""
        self._epoch += 1
        parity, memory, stream = self._epoch % 2, self._memory, self._stream.ptr
        with self._device.current(), self._stream:
            self._own[parity][...] = values
        others = [p for p in range(memory.n_processes) if p != memory.process]
        signals = int(self._signals.local.data.ptr)
        address = int(self._own[parity].data.ptr)
        for process in others:
            self._bindings.putmem_signal_on_stream(
                address,
                address,
                self._n_bytes,
                signals + memory.process * _WORD,
                self._epoch,
                SET,
                process,
                stream,
            )
        for process in others:
            self._bindings.signal_wait_until_on_stream(
                signals + process * _WORD, GREATER_OR_EQUAL, self._epoch, stream
            )
        self._add[parity]()
        return self._total
