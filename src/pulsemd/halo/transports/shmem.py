"""Ranks that are processes of one machine, on shared memory."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Final

from pulsemd.halo.control import Control
from pulsemd.halo.heap import SharedHeap
from pulsemd.halo.transports.heap import HeapTransport

JOIN: Final = "PULSEMD_SHMEM"
"""Set by the launcher for each process: ``process:descriptor:size:rank`` of the control block and the first rank; under
mpirun the rank is -1: that of MPI."""


def open_rank(timeout: float, faults: str) -> HeapTransport:
    """Join the ranks of this job: those of `pulsemd.halo.launch`, else those of mpirun or srun on this machine."""
    import_module(
        "pulsemd.halo.transports.heap_channel"
    )  # compiles the exchange, before peers wait for this rank
    return open_ranks(timeout, faults)[0]


def open_ranks(timeout: float, faults: str, count: int = 1) -> list[HeapTransport]:
    """Join as ``count`` ranks, numbered one after the other, each to be used by a thread of its own."""
    heap = SharedHeap()
    if JOIN in os.environ:
        process, handle, size, rank = map(int, os.environ[JOIN].split(":"))
        memory = heap.attach(process, handle, Control.n_bytes(size))
        if rank < 0:
            from pulsemd.halo.transports.mpi import world_rank

            rank = count * world_rank()
    else:
        from pulsemd.halo.transports.mpi import share_handle

        size, rank, process, handle, memory = share_handle(heap, Control.n_bytes, count)
    transports = [
        HeapTransport("shmem", heap, Control(memory, size), rank + k, size, timeout, faults)
        for k in range(count)
    ]
    with ThreadPoolExecutor(count) as threads:
        list(threads.map(HeapTransport.start, transports))
    if process == os.getpid():
        heap.forget(handle)
    return transports
