"""Rung `nccl`: groups of sends and receives in stream order; may be captured, with the counts of one plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pulsemd.base.errors import TransportError
from pulsemd.device.cuda import CudaDevice
from pulsemd.halo.agreement import check_reduce
from pulsemd.halo.rungs.channel import HostDrivenChannel, Leg
from pulsemd.halo.rungs.cuda_programs import THREADS, rows_program

if TYPE_CHECKING:
    from collections.abc import Callable

    from pulsemd.halo.rungs.transport import HostDrivenTransport

_TYPES: Final = {"int64": "NCCL_INT64", "float32": "NCCL_FLOAT32", "float64": "NCCL_FLOAT64"}


def find_nccl_problem() -> str | None:
    """Why NCCL cannot be used; None if it can."""
    try:
        from cupy.cuda import nccl

        nccl.get_version()
    except (ImportError, AttributeError, RuntimeError) as error:
        return f"CuPy has no NCCL ({error}); pip install nvidia-nccl-cu13"
    return None


class NcclWire:
    """A communicator of the GPU processes; collective."""

    def __init__(
        self,
        device: CudaDevice,
        process: int,
        n_processes: int,
        gather: Callable[[Any], list[Any]],
    ) -> None:
        problems = gather(find_nccl_problem())
        for other, problem in enumerate(problems):
            if problem is not None:
                raise TransportError(f"nccl: process {other}: {problem}")
        from cupy.cuda import nccl

        self.nccl = nccl
        identifier = gather(nccl.get_unique_id() if process == 0 else None)[0]
        with device.current():
            self.communicator = nccl.NcclCommunicator(n_processes, identifier, process)


class NcclChannel(HostDrivenChannel):
    """See the module."""

    capturable = True

    def move(self, leg: Leg, pulse: str) -> None:
        wire, per_process, stream = self.transport.wire, self.transport.n_local, self.stream.ptr
        nccl, communicator = wire.nccl, wire.communicator
        nccl.groupStart()
        for m in leg.sends:
            communicator.send(self.address(m), m.n_bytes, nccl.NCCL_INT8, m.peer // per_process, stream)
        for m in leg.receives:
            communicator.recv(self.address(m), m.n_bytes, nccl.NCCL_INT8, m.peer // per_process, stream)
        nccl.groupEnd()


class NcclReduce:
    """All-reduce by all-gather, so that the sum is in rank order."""

    def __init__(self, transport: HostDrivenTransport, width: int, dtype: np.dtype[Any], stream: Any) -> None:
        check_reduce(transport.gather, width, dtype)
        transport.register(self, stream)
        device = transport.device
        self._wire, self._device = transport.wire, device
        self._stream = stream or device.stream
        self._type = getattr(self._wire.nccl, _TYPES[str(dtype)])
        self._values = device.zeros((transport.n_local, width), dtype)
        self._total = device.zeros((transport.n_local, width), dtype)
        self._slots = device.zeros((transport.size, width), dtype)
        counts = [np.int32(n) for n in (transport.size, width, transport.n_local)]
        kernel = device.kernel(rows_program(dtype, width), "halo_sum_slots")
        self._add = kernel.bind(1, THREADS, self._slots, self._total, *counts, stream=self._stream)

    def sum(self, values: Any) -> Any:
        """See `GpuReduce.sum`."""
        with self._device.current(), self._stream:
            self._values[...] = values
        self._wire.communicator.allGather(
            self._values.data.ptr, self._slots.data.ptr, self._values.size, self._type, self._stream.ptr
        )
        self._add()
        return self._total


class NcclArraySum:
    """Sum of large arrays by the all-reduce of NCCL; see `pulsemd.halo.device.array_sum.ArraySum`.

    NCCL promises identical copies of the result at all processes. Integers have the bits of any other way of adding;
    float32 of more than two processes is added in an order that NCCL chooses.
    """

    def __init__(self, transport: HostDrivenTransport, total: Any, stream: Any) -> None:
        transport.register(self, stream)
        wire, kind = transport.wire, np.dtype(total.dtype)
        self._communicator, self._total, self._stream = wire.communicator, total, stream
        self._how = total.size, getattr(wire.nccl, _TYPES[kind.name]), wire.nccl.NCCL_SUM
        self.own = transport.device.zeros(total.shape, kind)
        transport.device.synchronize()
        self.sum()  # NCCL connects at the first; the host may wait for that
        transport.settle()

    def sum(self) -> None:
        """See `ArraySum`."""
        addresses = self.own.data.ptr, self._total.data.ptr
        self._communicator.allReduce(*addresses, *self._how, self._stream.ptr)
        self.own.data.memset_async(0, self.own.nbytes, self._stream)
