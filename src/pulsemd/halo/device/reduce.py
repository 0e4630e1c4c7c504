"""All-reduce of a few values between GPUs, see reduce.cu."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pulsemd.base.errors import TransportError
from pulsemd.halo.agreement import check_reduce
from pulsemd.halo.device.cuda_programs import THREADS, reduce_program

if TYPE_CHECKING:
    from pulsemd.halo.device.transport import GpuTransport

_MAX_RANKS: Final = 1024
_SIGNAL_BYTES: Final = 128
_WORD_BYTES: Final = 16


class GpuReduce:
    """Sums over all plan-ranks, added in rank order: the same bits everywhere. Made by `GpuTransport.reduce`.

    Attributes
    ----------
    values : (K, width)
        What the kernel reads; who writes its values here saves a copy.
    """

    def __init__(self, transport: GpuTransport, width: int, dtype: np.dtype[Any], stream: Any) -> None:
        if transport.size > _MAX_RANKS:
            raise TransportError(f"reduce: {transport.size} ranks; use at most {_MAX_RANKS}")
        transport.each(lambda _, control: check_reduce(control.allgather, width, dtype))
        memory, device = transport.memory, transport.device
        self.description = f"a sum of {width} {dtype}"
        self._shape, self._stream = (transport.n_local, width), stream
        self._slots = memory.allocate(2 * transport.size * width * _WORD_BYTES)
        self._signals = memory.allocate(memory.n_processes * _SIGNAL_BYTES)
        self._device = device
        self._state = device.to_device(self._describe(transport, width))
        self.values = device.zeros(self._shape, dtype)
        self._totals = device.zeros(self._shape, dtype)
        kernel = memory.kernel(reduce_program(dtype, transport.network), "halo_reduce")
        self._launch = kernel.bind(
            1,
            THREADS,
            self._state,
            transport.control_words,
            self.values,
            self._totals,
            stream=stream,
            overlap=True,
        )
        device.synchronize()
        transport.meet()  # all have loaded their kernels: loading may wait for the device

    def _describe(self, transport: GpuTransport, width: int) -> np.ndarray[Any, Any]:
        """`ReduceState` of reduce.cu."""
        memory, n_local = transport.memory, transport.n_local
        number = transport.register(self, self._stream)
        own = [int(block.local.data.ptr) for block in (self._slots, self._signals)]
        words = [0, width, n_local, memory.n_processes, memory.process, number, *own]
        for process in range(memory.n_processes):
            if transport.stores_reach_process(process):
                words += [self._slots.peers[process], 0]
            else:
                signal = self._signals.puts[process] + memory.process * _SIGNAL_BYTES
                words += [self._slots.puts[process], signal]
        return np.array(words, np.uint64)

    def peer(self, kind: int, local: int, pulse: int) -> int:
        """Rank that a report of the device means."""
        return pulse

    def sum(self, values: Any) -> Any:
        """Sum of ``values`` (K, width) over all plan-ranks, (K, width) with equal rows, in stream order.

        The result is the same array at every call, and may be captured in a graph with its input.
        """
        if values is not self.values:
            with self._device.current(), self._stream or self._device.stream:
                self.values[...] = values
        self._launch()
        return self._totals
