"""Rung `mpi` on GPUs: for each pulse pack, wait for the pack, Isend, Irecv, wait for both, unpack."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pulsemd.base.errors import PeerError
from pulsemd.halo.agreement import check_reduce
from pulsemd.halo.rungs.channel import HostDrivenChannel, Leg, Message

if TYPE_CHECKING:
    from pulsemd.halo.rungs.transport import HostDrivenTransport

_SPIN: Final = 1000
_TO_HOST: Final = 2
_TO_DEVICE: Final = 1


class MpiWire:
    """MPI between the GPU processes.

    Parameters
    ----------
    gpu_aware : bool
        Whether MPI takes addresses of a GPU; else bytes go through pinned memory of the host.
    """

    def __init__(self, gpu_aware: bool, timeout: float) -> None:
        from mpi4py import MPI

        self.mpi, self.gpu_aware, self.timeout = MPI, gpu_aware, timeout
        self.communicator = MPI.COMM_WORLD.Dup()

    def buffer(self, address: int, n_bytes: int) -> Any:
        """Bytes at an address, as MPI takes them."""
        return [self.mpi.buffer.fromaddress(address, n_bytes), n_bytes, self.mpi.BYTE]

    def wait(self, requests: Sequence[Any], what: str) -> None:
        """Wait for requests, within the time-out."""
        test, turns, start = self.mpi.Request.Testall, 0, 0.0
        while not test(requests):
            turns += 1
            if turns % _SPIN == 0:
                start = start or time.monotonic()
                if time.monotonic() - start > self.timeout:
                    raise PeerError(
                        f"waited {self.timeout:g} s for {what}; raise PULSEMD_TIMEOUT if ranks are only slow"
                    )


class MpiChannel(HostDrivenChannel):
    """See the module. Both halves of an exchange happen in its end."""

    late = True

    def bound(self, legs: Sequence[Leg]) -> None:
        self._pinned = {}
        if not self.transport.wire.gpu_aware:
            for leg in legs:
                for message in (*leg.sends, *leg.receives):
                    xp = self.transport.device.xp
                    self._pinned[leg.number, message] = xp.cuda.alloc_pinned_memory(message.n_bytes)

    def _bytes(self, leg: Leg, message: Message) -> int:
        """Address of a message for MPI."""
        pinned = self._pinned.get((leg.number, message))
        return self.address(message) if pinned is None else int(pinned.ptr)

    def _copy_through_host(self, leg: Leg, messages: Sequence[Message], kind: int) -> None:
        runtime = self.transport.device.xp.cuda.runtime
        for message in messages:
            here, there = self._bytes(leg, message), self.address(message)
            target, source = (here, there) if kind == _TO_HOST else (there, here)
            runtime.memcpyAsync(target, source, message.n_bytes, kind, self.stream.ptr)

    def move(self, leg: Leg, pulse: str) -> None:
        transport = self.transport
        if self._pinned:
            self._copy_through_host(leg, leg.sends, _TO_HOST)
        start = time.perf_counter()
        transport.timed(f"{pulse} synchronise", self.stream.synchronize)
        transport.timed(f"{pulse} transfer", partial(self._transfer, leg))
        transport.host_waits += 2
        transport.host_waited += time.perf_counter() - start
        if self._pinned:
            self._copy_through_host(leg, leg.receives, _TO_DEVICE)

    def _transfer(self, leg: Leg) -> None:
        transport, wire = self.transport, self.transport.wire
        per_process = transport.n_local
        requests = [
            wire.communicator.Irecv(
                wire.buffer(self._bytes(leg, m), m.n_bytes),
                m.peer // per_process,
                leg.number * transport.size + m.own,
            )
            for m in leg.receives
        ] + [
            wire.communicator.Isend(
                wire.buffer(self._bytes(leg, m), m.n_bytes),
                m.peer // per_process,
                leg.number * transport.size + m.peer,
            )
            for m in leg.sends
        ]
        wire.wait(
            requests, f"leg {leg.number} of channel {self.name!r} on process {transport.memory.process}"
        )


class MpiReduce:
    """All-reduce by way of the host."""

    def __init__(self, transport: HostDrivenTransport, width: int, dtype: np.dtype[Any], stream: Any) -> None:
        check_reduce(transport.gather, width, dtype)
        transport.register(self, stream)
        self._transport = transport
        self._stream = stream or transport.device.stream
        shape = (transport.n_local, width)
        self._slots = np.empty((transport.size // transport.n_local, *shape), dtype)
        self._total = transport.device.zeros(shape, dtype)

    def sum(self, values: Any) -> Any:
        """See `GpuReduce.sum`; the host waits."""
        transport, wire = self._transport, self._transport.wire
        with transport.device.current(), self._stream:
            start = time.perf_counter()
            here = np.ascontiguousarray(values.get(), self._slots.dtype)
            wire.wait([wire.communicator.Iallgather(here, self._slots)], "a sum")
            transport.host_waits += 2
            transport.host_waited += time.perf_counter() - start
            total = np.zeros_like(here[0])
            for slot in self._slots.reshape(-1, here.shape[1]):
                total += slot
            self._total[...] = transport.device.xp.asarray(total)
        return self._total
