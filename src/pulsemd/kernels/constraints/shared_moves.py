"""Networks of constraints that lie across ranks on GPUs: where their atoms would go, or how fast, told to all.

Every rank writes the atoms that it owns, and one sum over the processes brings those of the others: a place has one
owner, so adding the words is copying them. Each rank then solves the networks that it has atoms of as a whole, and all
get the same bits (decision 10).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

import numpy as np

from pulsemd.halo.device.array_sum import ArraySum, open_array_sum

if TYPE_CHECKING:
    from pulsemd.halo.device.transport import GpuTransport

WORDS = 6
"""int64 words of the struct ``SharedMove`` of lincs.cu."""


class SharedMoves:
    """Places and free moves, or velocities, of the atoms of all networks; collective to make.

    Parameters
    ----------
    transport : GpuTransport
    n_atoms : int
        Atoms of networks.

    Attributes
    ----------
    stream : stream of the device
        Where they are written, exchanged and used.
    own, total : (n_atoms, WORDS) int64, device
        Where the ranks of this process write, and what they read after an exchange.
    """

    def __init__(self, transport: GpuTransport, n_atoms: int) -> None:
        device = transport.device
        self.stream = device.new_stream(priority=-1)
        self.total = device.zeros((n_atoms, WORDS), np.int64)
        self._sum: ArraySum | None = None
        if transport.memory.n_processes > 1:
            self._sum = open_array_sum(transport, self.total, self.stream)
        self.own = device.zeros(self.total.shape, np.int64) if self._sum is None else self._sum.own

    def exchange(self) -> None:
        """Bring what all ranks have written; waits for those of other processes on the device."""
        if self._sum is not None:
            self._sum.sum()
        else:  # a rank may write again before another one has read
            self.total.data.copy_from_device_async(self.own.data, self.own.nbytes, self.stream)


def move_together(moves: Sequence[Iterator[None]], shared: SharedMoves | None) -> None:
    """Go through what `GpuUpdate.moving` or `completing` gave for each rank of a process, side by side."""
    for _ in zip_longest(*moves):
        assert shared is not None
        shared.exchange()
