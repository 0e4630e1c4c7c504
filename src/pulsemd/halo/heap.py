"""Memory that ranks share, and mailboxes in it: what `loopback` and `shmem` differ in, and nothing else."""

from __future__ import annotations

import itertools
import mmap
import os
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from pulsemd.base.errors import TransportError
from pulsemd.halo.control import CAPACITY, HANDLE, N_BYTES, OPERATION, PROCESS, Control

_ALIGN: Final = 4096
Bytes = NDArray[np.uint8]


class Heap(Protocol):
    """Makes memory, and finds memory that another rank made."""

    def create(self, n_bytes: int) -> tuple[int, Bytes]:
        """Zeroed memory and the handle by which others attach it."""

    def attach(self, process: int, handle: int, n_bytes: int) -> Bytes:
        """Memory that ``process`` created."""

    def forget(self, handle: int) -> None:
        """Let nobody attach it from now on; it lives as long as it is mapped."""


class LocalHeap:
    """Memory of one process, for ranks that are threads."""

    def __init__(self) -> None:
        self._memories: dict[int, Bytes] = {}
        self._handles = itertools.count(1)

    def create(self, n_bytes: int) -> tuple[int, Bytes]:
        handle = next(self._handles)
        raw = np.zeros(n_bytes + _ALIGN, np.uint8)
        start = -raw.ctypes.data % _ALIGN
        self._memories[handle] = raw[start : start + n_bytes]
        return handle, self._memories[handle]

    def attach(self, process: int, handle: int, n_bytes: int) -> Bytes:
        return self._memories[handle]

    def forget(self, handle: int) -> None:
        del self._memories[handle]


class SharedHeap:
    """Shared memory between processes of one user on one machine.

    The memory is anonymous (``memfd_create``): it has no name under /dev/shm, so nothing is left behind whatever kills
    the ranks. Others attach it through the descriptor of the process that made it.
    """

    def create(self, n_bytes: int) -> tuple[int, Bytes]:
        handle = os.memfd_create("pulsemd", os.MFD_CLOEXEC)
        os.ftruncate(handle, max(n_bytes, _ALIGN))
        return handle, _map(handle, n_bytes)

    def attach(self, process: int, handle: int, n_bytes: int) -> Bytes:
        path = f"/proc/{process}/fd/{handle}"
        try:
            descriptor = os.open(path, os.O_RDWR)
        except OSError as error:
            raise TransportError(
                f"shmem: cannot attach the memory of process {process}: {path}: {error.strerror}; all ranks "
                "have to run on one machine, as one user, in one container, with /proc mounted"
            ) from error
        try:
            return _map(descriptor, n_bytes)
        finally:
            os.close(descriptor)

    def forget(self, handle: int) -> None:
        os.close(handle)


def _map(descriptor: int, n_bytes: int) -> Bytes:
    return np.frombuffer(mmap.mmap(descriptor, max(n_bytes, _ALIGN)), np.uint8, n_bytes)


class Mailboxes:
    """One mailbox a rank and parity of the collective call; each grows as needed.

    Of two calls in a row each uses the other parity, so one barrier a call is enough: whoever writes call k + 2 has
    passed the barrier of k + 1, which every rank enters after it has read call k.
    """

    def __init__(self, heap: Heap, control: Control, rank: int) -> None:
        self._heap, self._control, self._rank = heap, control, rank
        self._boxes: dict[tuple[int, int], tuple[tuple[int, ...], Bytes]] = {}
        control.headers[:, rank, PROCESS] = os.getpid()

    def write(self, call: int, operation: int, n_bytes: int) -> Bytes:
        """Own mailbox for a call, to be filled before the barrier."""
        header = self._control.headers[call % 2, self._rank]
        if n_bytes > header[CAPACITY]:
            if header[CAPACITY]:
                self._heap.forget(int(header[HANDLE]))
            capacity = -(-2 * n_bytes // _ALIGN) * _ALIGN
            header[HANDLE], box = self._heap.create(capacity)
            header[CAPACITY] = capacity
            self._boxes[call % 2, self._rank] = ((os.getpid(), int(header[HANDLE]), capacity), box)
        header[OPERATION], header[N_BYTES] = operation, n_bytes
        return self.read(call, self._rank)

    def read(self, call: int, rank: int) -> Bytes:
        """What a rank wrote, to be read after the barrier and before the next call."""
        header = self._control.headers[call % 2, rank]
        if header[N_BYTES] == 0:
            return np.empty(0, np.uint8)
        key = (int(header[PROCESS]), int(header[HANDLE]), int(header[CAPACITY]))
        held = self._boxes.get((call % 2, rank))
        if held is None or held[0] != key:
            held = (key, self._heap.attach(*key))
            self._boxes[call % 2, rank] = held
        return held[1][: int(header[N_BYTES])]

    def close(self) -> None:
        """Forget the own mailboxes; nobody reads them any more."""
        for header in self._control.headers[:, self._rank]:
            if header[CAPACITY]:
                self._heap.forget(int(header[HANDLE]))
                header[CAPACITY] = 0

    def operations(self, call: int) -> list[int]:
        """The operation every rank is in."""
        operations: list[int] = self._control.headers[call % 2, :, OPERATION].tolist()
        return operations
