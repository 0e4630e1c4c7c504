"""A barrier of all processes in the order of their streams, see barrier.cu."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from pulsemd.halo.device.cuda_programs import THREADS, barrier_program

if TYPE_CHECKING:
    from pulsemd.halo.device.transport import GpuTransport

_SIGNAL_BYTES: Final = 128


class GpuBarrier:
    """Lets the main streams of all processes meet, where stores reach every process; collective to make.

    Parameters
    ----------
    transport : GpuTransport
    """

    description = "a barrier"

    def __init__(self, transport: GpuTransport) -> None:
        memory, device = transport.memory, transport.device
        self._alone, self._n_local = memory.n_processes == 1, transport.n_local
        self._signals = memory.allocate(memory.n_processes * _SIGNAL_BYTES)
        number, own = transport.register(self, None), int(self._signals.local.data.ptr)
        words = [address + memory.process * _SIGNAL_BYTES for address in self._signals.peers]
        self._state = device.to_device(np.array([0, memory.n_processes, number, own, *words], np.uint64))
        kernel = memory.kernel(barrier_program(transport.network), "halo_barrier")
        self._launch = kernel.bind(1, THREADS, self._state, transport.control_words)
        device.synchronize()
        transport.meet()  # all have loaded their kernels: loading may wait for the device

    def peer(self, kind: int, local: int, pulse: int) -> int:
        """Rank that a report of the device means: the first of the process that did not come."""
        return pulse * self._n_local

    def meet(self) -> None:
        """What was launched so far by all processes comes before what any of them launches from now on."""
        if not self._alone:
            self._launch()
