"""Rung `mpi` on GPUs: for each pulse pack, wait for the pack, Isend, Irecv, wait for both, unpack; sums likewise."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pulsemd.base.errors import PeerError
from pulsemd.halo.agreement import check_reduce
from pulsemd.halo.rungs.channel import HostDrivenChannel, Leg, Message
from pulsemd.halo.rungs.cuda_programs import THREADS, rows_program

if TYPE_CHECKING:
    from pulsemd.device.cuda import CudaDevice
    from pulsemd.halo.rungs.transport import HostDrivenTransport

_SPIN: Final = 1000
_TO_HOST: Final = 2
_TO_DEVICE: Final = 1
_BLOCKS: Final = 1024


@dataclass(frozen=True)
class Parcel:
    """Bytes on this GPU that another process gets or gives; made by `MpiWire.parcel`.

    Attributes
    ----------
    address, n_bytes : int
    process : int
        At the other end.
    tag : int
    pinned : int
        Address of as much memory of the host by which they go; 0: MPI takes them from the GPU.
    buffer : list
        As MPI takes it.
    """

    address: int
    n_bytes: int
    process: int
    tag: int
    pinned: int
    buffer: Any


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

    def parcel(self, device: CudaDevice, address: int, n_bytes: int, process: int, tag: int) -> Parcel:
        """Bytes at an address of a device, to be sent or received."""
        place: Any
        if self.gpu_aware:
            pinned, place = 0, self.mpi.buffer.fromaddress(address, n_bytes)
        else:
            place, pinned = device.pinned(n_bytes)
        return Parcel(address, n_bytes, process, tag, pinned, [place, n_bytes, self.mpi.BYTE])

    def move(
        self,
        transport: HostDrivenTransport,
        stream: Any,
        sends: Sequence[Parcel],
        receives: Sequence[Parcel],
        what: str,
        name: str,
    ) -> None:
        """Send and receive what a stream has ready; the host waits for the stream, then for the messages.

        Parameters
        ----------
        what : str
            In a trace.
        name : str
            In an error.
        """
        _copy_through_host(transport.device, stream, sends, _TO_HOST)
        start = time.perf_counter()
        transport.timed(f"{what} synchronise", stream.synchronize)
        transport.timed(f"{what} transfer", partial(self._transfer, sends, receives, name))
        transport.host_waits += 2
        transport.host_waited += time.perf_counter() - start
        _copy_through_host(transport.device, stream, receives, _TO_DEVICE)

    def _transfer(self, sends: Sequence[Parcel], receives: Sequence[Parcel], name: str) -> None:
        communicator = self.communicator
        requests = [communicator.Irecv(p.buffer, p.process, p.tag) for p in receives]
        requests += [communicator.Isend(p.buffer, p.process, p.tag) for p in sends]
        self.wait(requests, name)

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


def _copy_through_host(device: CudaDevice, stream: Any, parcels: Sequence[Parcel], kind: int) -> None:
    for p in parcels:
        if p.pinned:
            target, source = (p.pinned, p.address) if kind == _TO_HOST else (p.address, p.pinned)
            device.xp.cuda.runtime.memcpyAsync(target, source, p.n_bytes, kind, stream.ptr)


class MpiChannel(HostDrivenChannel):
    """See the module. Both halves of an exchange happen in its end."""

    late = True

    def bound(self, legs: Sequence[Leg]) -> None:
        self._parcels = {
            leg.number: (
                [self._parcel(leg, m, m.peer) for m in leg.sends],
                [self._parcel(leg, m, m.own) for m in leg.receives],
            )
            for leg in legs
        }

    def _parcel(self, leg: Leg, message: Message, receiver: int) -> Parcel:
        transport = self.transport
        wire: MpiWire = transport.wire
        place = self.address(message), message.n_bytes
        tag = leg.number * transport.size + receiver
        return wire.parcel(transport.device, *place, message.peer // transport.n_local, tag)

    def move(self, leg: Leg, pulse: str) -> None:
        transport = self.transport
        name = f"leg {leg.number} of channel {self.name!r} on process {transport.memory.process}"
        transport.wire.move(transport, self.stream, *self._parcels[leg.number], pulse, name)


def waits_of_sum(n_processes: int) -> int:
    """Times that the host waits in each sum of large arrays."""
    return 0 if n_processes == 1 else 2 if n_processes == 2 else 4


class MpiArraySum:
    """Sum of large arrays, in the order of processes, see `pulsemd.halo.device.array_sum.ArraySum`.

    Each process gets a piece of the array of all others, adds it and gives the sum to all. Of two processes each adds
    the whole for itself: that sends as much, and the host waits once instead of twice.
    """

    def __init__(self, transport: HostDrivenTransport, total: Any, stream: Any) -> None:
        device, memory, kind = transport.device, transport.memory, np.dtype(total.dtype)
        n, me, size = memory.n_processes, memory.process, int(total.size)
        self._transport, self._stream = transport, stream
        self._name = f"a sum of {size} {kind} on process {me}"
        transport.register(self, stream)
        self.own = device.zeros(total.shape, kind)
        ends = [size * (p + 1) // n for p in range(n)]
        pieces = [(0, size)] * n if n == 2 else list(pairwise([0, *ends]))
        first, end = pieces[me]
        self._parts = device.zeros((n, end - first), kind)
        counts = [np.int64(size), np.int64(first), np.int64(end - first), np.int32(n), np.int32(me)]
        self._add = device.kernel(rows_program(kind, 1), "halo_add_parts").bind(
            min(_BLOCKS, -(-size // THREADS)), THREADS, self._parts, self.own, total, *counts, stream=stream
        )
        others = [p for p in range(n) if p != me]
        flat_own, flat_total = self.own.reshape(-1), total.reshape(-1)
        self._apart = (
            [self._parcel(flat_own[slice(*pieces[p])], p) for p in others],
            [self._parcel(self._parts[p], p) for p in others],
        )
        self._together = (
            [self._parcel(flat_total[first:end], p) for p in others if n > 2],
            [self._parcel(flat_total[slice(*pieces[p])], p) for p in others if n > 2],
        )

    def _parcel(self, part: Any, process: int) -> Parcel:
        wire: MpiWire = self._transport.wire
        return wire.parcel(self._transport.device, int(part.data.ptr), part.nbytes, process, 0)

    def sum(self) -> None:
        """See `ArraySum`; the host waits."""
        move = partial(self._transport.wire.move, self._transport, self._stream)
        move(*self._apart, "sum", self._name)
        self._add()
        if self._together[0]:
            move(*self._together, "sum", self._name)


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
