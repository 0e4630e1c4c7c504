"""Ranks that are processes of one machine, on shared memory."""

from __future__ import annotations

import os
from typing import Final

from pulsemd.halo.control import Control
from pulsemd.halo.heap import SharedHeap
from pulsemd.halo.transports.heap import HeapTransport

JOIN: Final = "PULSEMD_SHMEM"
"""Set by the launcher for each rank: ``process:descriptor:size:rank`` of the control block."""


def open_rank(timeout: float, faults: str) -> HeapTransport:
    """Join the ranks of this job: those of `pulsemd.halo.launch`, else those of mpirun or srun on this machine."""
    heap = SharedHeap()
    if JOIN in os.environ:
        process, handle, size, rank = map(int, os.environ[JOIN].split(":"))
        memory = heap.attach(process, handle, Control.n_bytes(size))
    else:
        from pulsemd.halo.transports.mpi import share_handle

        size, rank, process, handle, memory = share_handle(heap, Control.n_bytes)
    transport = HeapTransport("shmem", heap, Control(memory, size), rank, size, timeout, faults)
    transport.start()
    if process == os.getpid():
        heap.forget(handle)
    return transport
