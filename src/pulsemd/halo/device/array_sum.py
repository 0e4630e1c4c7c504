"""Sums of large arrays over the processes of several GPUs, see array_sum.cu."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from pulsemd.base.errors import TransportError
from pulsemd.halo.device.cuda_programs import THREADS, array_sum_program

if TYPE_CHECKING:
    from pulsemd.halo.device.transport import GpuTransport

BLOCKS: Final = 256
"""Blocks at most, by measurement; the same on every process, whatever its GPU."""

_SIGNAL_BYTES: Final = 128
_VECTOR_BYTES: Final = 16
_GROUP: Final = 32


class ArraySum(Protocol):
    """Sums of one array of every process: the same bits everywhere.

    Attributes
    ----------
    own : like the total, device
        What to add, at first zeros. Every sum sets it to zero again, for the next.
    """

    own: Any

    def sum(self) -> None:
        """Set the total, on every process; in stream order."""


def open_array_sum(transport: GpuTransport, total: Any, stream: Any, blocks: int = BLOCKS) -> ArraySum:
    """The fastest sum that a transport can make; collective, with one size and dtype on all processes.

    Parameters
    ----------
    transport : GpuTransport
    total : int64 or float32, device
        OUTPUT: the sum, in every process. A multiple of 16 bytes.
    stream : stream of the device
    blocks : int
        At most, where stores reach all processes.
    """
    if transport.may_put:
        return ReducedArraySum(transport, total, stream)
    return StoredArraySum(transport, total, stream, blocks)


class StoredArraySum:
    """By stores into inboxes at all processes, where they reach them; in the order of processes. See array_sum.cu.

    Where an array is zero nothing is sent. Made by `open_array_sum`.
    """

    def __init__(self, transport: GpuTransport, total: Any, stream: Any, blocks: int) -> None:
        memory, device, kind = transport.memory, transport.device, np.dtype(total.dtype)
        if total.nbytes % _VECTOR_BYTES:
            raise TransportError(f"a sum of {total.nbytes} bytes; give a multiple of {_VECTOR_BYTES}")
        self.description, self._n_local = f"a sum of {total.size} {kind}", transport.n_local
        n_vectors, n = total.nbytes // _VECTOR_BYTES, memory.n_processes
        n_groups = -(-n_vectors // _GROUP)
        blocks = min(blocks, -(-n_groups * _GROUP // THREADS))
        signals, inbox = n * blocks * _SIGNAL_BYTES, n_groups * (_GROUP + 1) * _VECTOR_BYTES
        self._block = memory.allocate(signals + 2 * n * inbox)
        number = transport.register(self, stream)
        words = [0, 0, number, n_vectors, n, memory.process, signals, *self._block.peers]
        self._state = device.to_device(np.array(words, np.uint64))
        self.own = device.zeros(total.shape, kind)
        self._launch = memory.kernel(array_sum_program(kind), "sum_arrays").bind(
            blocks, THREADS, self._state, transport.control_words, self.own, total, stream=stream
        )
        device.synchronize()
        transport.meet()  # all have loaded their kernels: loading may wait for the device

    def peer(self, kind: int, local: int, pulse: int) -> int:
        """Rank that a report of the device means: the first of the process that did not come."""
        return pulse * self._n_local

    def sum(self) -> None:
        """See `ArraySum`."""
        self._launch()


class ReducedArraySum:
    """By the all-reduce of the transport, whatever moves its values: right, and slow. Made by `open_array_sum`."""

    def __init__(self, transport: GpuTransport, total: Any, stream: Any) -> None:
        self._device, self._stream, self._total = transport.device, stream, total
        kind = np.dtype(total.dtype)
        wide = kind if kind.kind == "i" else np.dtype(np.float64)
        self.own = self._device.zeros(total.shape, kind)
        self._values = self._device.zeros((transport.n_local, total.size), wide)
        self._give()
        self._take(self._values)  # what these load is loaded before a peer waits for this process
        self._device.follow(self._device.stream, stream)
        self._reduce = transport.reduce(total.size, wide, stream)

    def sum(self) -> None:
        """See `ArraySum`."""
        self._give()
        self._take(self._reduce.sum(self._values))

    def _give(self) -> None:
        with self._device.current(), self._stream:
            self._values[0] = self.own.reshape(-1)
            self.own[...] = 0

    def _take(self, found: Any) -> None:
        with self._device.current(), self._stream:
            self._total[...] = found[0].reshape(self._total.shape)
