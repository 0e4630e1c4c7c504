"""Ranks inside one process: one of them, or several that are threads."""

from __future__ import annotations

from pulsemd.halo.control import Control
from pulsemd.halo.heap import LocalHeap
from pulsemd.halo.transport import faults_text, wait_limit
from pulsemd.halo.transports.heap import HeapTransport


def open_rank(timeout: float, faults: str) -> HeapTransport:
    """A world of one rank."""
    return loopback_world(1, timeout, faults)[0]


def loopback_world(
    n_ranks: int, timeout: float | None = None, faults: str | None = None
) -> list[HeapTransport]:
    """Transports of ``n_ranks`` ranks in this process, each to be used by a thread of its own.

    Parameters
    ----------
    n_ranks : int
    timeout, faults : optional
        As in `pulsemd.halo.open_transport`.
    """
    heap = LocalHeap()
    _, memory = heap.create(Control.n_bytes(n_ranks))
    limit, text = wait_limit(timeout), faults_text(faults)
    return [
        HeapTransport("loopback", heap, Control(memory, n_ranks), rank, n_ranks, limit, text)
        for rank in range(n_ranks)
    ]
