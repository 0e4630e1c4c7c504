"""Sums of large arrays over the processes of several GPUs, see array_sum.cu."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pulsemd.base.errors import TransportError
from pulsemd.halo.device.cuda_programs import THREADS, array_sum_program

if TYPE_CHECKING:
    from pulsemd.halo.device.transport import GpuTransport

BLOCKS: Final = 256
"""At most: the same on every process, whatever its GPU."""

_SIGNAL_BYTES: Final = 128
_VECTOR_BYTES: Final = 16
_GROUP: Final = 32


class GpuArraySum:
    """Sums of one array of every process, added in the order of processes: the same bits everywhere.

    Where an array is zero nothing is sent. Collective to make, with one size and dtype on all processes.

    Parameters
    ----------
    transport : GpuTransport
    total : int64 or float32, device
        OUTPUT: the sum, in every process.
    stream : stream of the device

    Attributes
    ----------
    own : like ``total``
        What to add, at first zeros. Every sum sets it to zero again, for the next.

    Raises
    ------
    TransportError
        If loads and stores do not reach every process, or the size is not a multiple of 16 bytes.
    """

    def __init__(self, transport: GpuTransport, total: Any, stream: Any) -> None:
        memory, device, kind = transport.memory, transport.device, np.dtype(total.dtype)
        if transport.may_put:
            raise TransportError(f"{transport.name}: stores of a GPU do not reach every other")
        if total.nbytes % _VECTOR_BYTES:
            raise TransportError(f"a sum of {total.nbytes} bytes; give a multiple of {_VECTOR_BYTES}")
        self.description, self._n_local = f"a sum of {total.size} {kind}", transport.n_local
        n_vectors, n = total.nbytes // _VECTOR_BYTES, memory.n_processes
        n_groups = -(-n_vectors // _GROUP)
        blocks = min(BLOCKS, -(-n_groups * _GROUP // THREADS))
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
        """Set the total, on every process; in stream order."""
        self._launch()
