"""Symmetric memory of processes that each drive one GPU, and the part of it that lies within one process.

A block is allocated by all processes together, with one size. A kernel addresses another process's block in one of two
ways: by loads and stores where the hardware reaches it (`SymmetricBlock.peers`), or through the functions of
network.cuh (`SymmetricBlock.puts`). What those functions do is the business of whoever made the memory.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from pulsemd.base.errors import TransportError
from pulsemd.device.cuda import CudaDevice, Kernel
from pulsemd.device.program import CudaProgram

NO_NETWORK: Final = 0
COPIES: Final = 1
NVSHMEM: Final = 2
"""Values of the macro NETWORK: programs without puts; puts that are plain copies; puts of NVSHMEM's shim."""


@dataclass(frozen=True, eq=False)
class SymmetricBlock:
    """A block of every process, as seen by one of them.

    Attributes
    ----------
    local : (n_bytes,) uint8, CuPy
        Own block; at least 256-byte aligned.
    peers : (n_processes,) int
        Address of each process's block for loads and stores by this GPU; 0 where they do not reach it.
    puts : (n_processes,) int
        Address by which network.cuh's functions name each process's block. For NVSHMEM always the own address.
    """

    local: Any
    peers: tuple[int, ...]
    puts: tuple[int, ...]


class SymmetricMemory(Protocol):
    """What a process needs to exchange with others.

    Attributes
    ----------
    device : CudaDevice
    process, n_processes : int
    network : int
        Value of the macro NETWORK for programs that put.
    """

    device: CudaDevice
    process: int
    n_processes: int
    network: int

    def allocate(self, n_bytes: int) -> SymmetricBlock:
        """A zeroed block; collective over processes, which all ask for the same size and return once all have it."""

    def free(self, block: SymmetricBlock) -> None:
        """Give a block back; collective, after everything that uses it has ended on every process."""

    def kernel(self, program: CudaProgram, name: str) -> Kernel:
        """A kernel of a program, loaded; with ``NETWORK=2`` linked with what defines network.cuh's functions."""


class LocalMemory:
    """Memory of one of several seats in this process; a seat is a GPU, or a share of one, and counts as a process.

    Made by `local_memories`. With one seat, everything is in one block.
    """

    network = COPIES

    def __init__(self, device: CudaDevice, process: int, meeting: _Meeting) -> None:
        self.device, self.process, self._meeting = device, process, meeting
        self.n_processes = meeting.n_seats

    def allocate(self, n_bytes: int) -> SymmetricBlock:
        local = self.device.zeros(max(n_bytes, 1), "uint8")
        self.device.synchronize()
        shares = self._meeting.share(self.process, (n_bytes, int(local.data.ptr)))
        if len({size for size, _ in shares}) > 1:
            raise TransportError(
                f"allocate: seats ask for {[size for size, _ in shares]} bytes; they must agree"
            )
        addresses = tuple(address for _, address in shares)
        return SymmetricBlock(local, addresses, addresses)

    def free(self, block: SymmetricBlock) -> None:
        self._meeting.share(self.process, None)

    def kernel(self, program: CudaProgram, name: str) -> Kernel:
        return self.device.kernel(program, name)


def local_memories(ordinals: Sequence[int] = (0,)) -> list[LocalMemory]:
    """One memory for each seat of this process; several seats are used by threads of their own.

    Parameters
    ----------
    ordinals : sequence of int
        GPU of each seat; seats on one GPU have streams of their own and share its multiprocessors.

    Raises
    ------
    TransportError
        If a GPU cannot address the memory of another.
    """
    meeting = _Meeting(len(ordinals))
    memories = [LocalMemory(CudaDevice(ordinal), seat, meeting) for seat, ordinal in enumerate(ordinals)]
    for ordinal in set(ordinals):
        for peer in set(ordinals) - {ordinal}:
            _reach(memories[0].device.xp, ordinal, peer)
    return memories


def _reach(xp: Any, ordinal: int, peer: int) -> None:
    """Map the memory of ``peer`` for GPU ``ordinal``."""
    runtime = xp.cuda.runtime
    if not runtime.deviceCanAccessPeer(ordinal, peer):
        raise TransportError(f"GPU {ordinal} cannot address the memory of GPU {peer}")
    with xp.cuda.Device(ordinal):
        try:
            runtime.deviceEnablePeerAccess(peer)
        except runtime.CUDARuntimeError as error:
            if "AlreadyEnabled" not in str(error):
                raise


class _Meeting:
    """Where the seats of a process tell each other things."""

    def __init__(self, n_seats: int) -> None:
        self.n_seats = n_seats
        self._barrier = threading.Barrier(n_seats)
        self._shares: list[Any] = [None] * n_seats

    def share(self, seat: int, value: Any) -> list[Any]:
        """What every seat gave; waits for all, twice, so that the next call overwrites nothing unread."""
        self._shares[seat] = value
        self._barrier.wait()
        shares = list(self._shares)
        self._barrier.wait()
        return shares
