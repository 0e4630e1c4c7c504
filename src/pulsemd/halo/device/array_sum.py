"""Sums of large arrays over the processes of several GPUs."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from pulsemd.base.errors import TransportError
from pulsemd.halo.device.cuda_programs import THREADS, array_sum_program

if TYPE_CHECKING:
    from pulsemd.halo.device.transport import GpuTransport

BLOCKS: Final = 256
"""Blocks at most, by measurement; the same on every process, whatever its GPU."""

BY_LIBRARIES: Final = {
    "mpi": "pulsemd.halo.rungs.mpi:MpiArraySum",
    "nccl": "pulsemd.halo.rungs.nccl:NcclArraySum",
}
"""Class of the sums of rungs that have no symmetric memory."""

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
        At most, where the device makes the sum.

    Raises
    ------
    TransportError
        If the size is no multiple of 16 bytes.
    """
    if total.nbytes % _VECTOR_BYTES:
        raise TransportError(f"a sum of {total.nbytes} bytes; give a multiple of {_VECTOR_BYTES}")
    if transport.name in BY_LIBRARIES:
        module, _, name = BY_LIBRARIES[transport.name].partition(":")
        made: ArraySum = getattr(import_module(module), name)(transport, total, stream)
        return made
    return DeviceArraySum(transport, total, stream, blocks)


class DeviceArraySum:
    """By stores and puts into inboxes at all processes; in the order of processes. See array_sum.cu.

    Where an array is zero nothing is stored. Made by `open_array_sum`.
    """

    def __init__(self, transport: GpuTransport, total: Any, stream: Any, blocks: int) -> None:
        memory, device, kind = transport.memory, transport.device, np.dtype(total.dtype)
        self.description, self._n_local = f"a sum of {total.size} {kind}", transport.n_local
        n_vectors, n = total.nbytes // _VECTOR_BYTES, memory.n_processes
        n_groups = -(-n_vectors // _GROUP)
        blocks = min(blocks, -(-n_groups * _GROUP // THREADS))
        signals, inbox = n * blocks * _SIGNAL_BYTES, n_groups * (_GROUP + 1) * _VECTOR_BYTES
        block = self._block = memory.allocate(signals + 2 * n * inbox)
        number = transport.register(self, stream)
        words = [0, 0, number, n_vectors, n, memory.process, signals]
        for process in range(n):
            reached = transport.stores_reach_process(process)
            words += [block.peers[process], 0] if reached else [block.puts[process], 1]
        self._state = device.to_device(np.array(words, np.uint64))
        self.own = device.zeros(total.shape, kind)
        kernel = memory.kernel(array_sum_program(kind, transport.network), "sum_arrays")
        self._launch = kernel.bind(
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
