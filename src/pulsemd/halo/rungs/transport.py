"""`GpuTransport` of the rungs whose exchanges the host drives."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import DTypeLike

from pulsemd.base.errors import PeerError, PulseMDError, TransportError
from pulsemd.device.cuda import CudaDevice, Kernel
from pulsemd.device.program import CudaProgram
from pulsemd.halo.device.memory import NO_NETWORK, SymmetricBlock
from pulsemd.halo.device.transport import GpuTransport

if TYPE_CHECKING:
    from pulsemd.halo.rungs.world import GpuWorld

REDUCES: Final = {
    "mpi": "pulsemd.halo.rungs.mpi:MpiReduce",
    "nccl": "pulsemd.halo.rungs.nccl:NcclReduce",
    "nvshmem-stream": "pulsemd.halo.rungs.stream:StreamReduce",
}
_NAP: Final = 1e-4


class SeparateMemory:
    """Memory of each process for itself, for rungs that move rows by a library: no peer is reached by addresses."""

    network = NO_NETWORK

    def __init__(self, device: CudaDevice, process: int, n_processes: int) -> None:
        self.device, self.process, self.n_processes = device, process, n_processes

    def allocate(self, n_bytes: int) -> SymmetricBlock:
        """A zeroed block."""
        local = self.device.zeros(max(n_bytes, 1), "uint8")
        self.device.synchronize()
        peers = [0] * self.n_processes
        peers[self.process] = int(local.data.ptr)
        return SymmetricBlock(local, tuple(peers), tuple(peers))

    def free(self, block: SymmetricBlock) -> None:
        """Nothing to do: the memory goes with its last user."""

    def kernel(self, program: CudaProgram, name: str) -> Kernel:
        """A kernel of a program, loaded."""
        return self.device.kernel(program, name)


class HostDrivenTransport(GpuTransport):
    """See the module; made by `pulsemd.halo.rungs.open_rung`.

    Attributes
    ----------
    wire : object
        What moves messages: `MpiWire` or `NcclWire`; None for `nvshmem-stream`.
    host_waits : int
        Times the host has waited for the device or a peer inside exchanges and sums.
    """

    def __init__(self, name: str, world: GpuWorld, memory: Any, path: str, wire: Any = None) -> None:
        self.world, self.wire, self.host_waits = world, wire, 0
        super().__init__(name, memory, world.controls, timeout=world.timeout)
        self.path = path

    def gather(self, value: Any) -> list[Any]:
        """``value`` of every process, in order; collective."""
        return self.world.gather(value)

    def agree(self, error: PulseMDError | None) -> None:
        """Raise on every process the error of the first process that has one."""
        for found in self.gather(error):
            if found is not None:
                raise found

    def reduce(self, width: int, dtype: DTypeLike, stream: Any = None) -> Any:
        """All-reduce of ``width`` int64 or float64 values of each plan-rank; collective."""
        from importlib import import_module

        module, _, name = REDUCES[self.name].partition(":")
        return getattr(import_module(module), name)(self, width, np.dtype(dtype), stream)

    def timed(self, what: str, call: Callable[[], None]) -> None:
        """Call a part of an exchange, and note when, if that is wanted."""
        if self.host_spans is None:
            return call()
        start = time.perf_counter()
        call()
        return self.host_spans.append((what, start, time.perf_counter() - start))

    def settle(self) -> None:
        """Wait until the device has done everything, within the time-out.

        Raises
        ------
        PeerError
            If it does not end, or another rank has failed.
        """
        end = time.monotonic() + self.timeout
        while not all(stream.done for stream in self._streams):
            time.sleep(_NAP)
            control = getattr(self.controls[0], "control", None)
            if control is not None and control.origin() is not None:
                raise PeerError(f"process {self.memory.process} stopped waiting: {control.cause()}")
            if time.monotonic() > end:
                raise PeerError(
                    f"process {self.memory.process} waited {self.timeout:g} s for exchanges on {self.name}; "
                    "raise PULSEMD_TIMEOUT if peers are only slow"
                )
        super().settle()


def unavailable(name: str, reason: str) -> TransportError:
    """The error of a rung that cannot be used."""
    return TransportError(f"--transport {name}: {reason.removeprefix(f'{name}: ')}")
