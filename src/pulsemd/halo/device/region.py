"""Symmetric memory divided among plan-ranks: the same number of bytes for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pulsemd.halo.device.memory import SymmetricBlock, SymmetricMemory


class Region:
    """Bytes of every plan-rank, addressed from one process.

    Parameters
    ----------
    memory : SymmetricMemory
    per_process : int
        Plan-ranks of each process; rank r belongs to process ``r // per_process``.
    stride : int
        Bytes of each plan-rank.

    Notes
    -----
    Collective over processes.
    """

    def __init__(self, memory: SymmetricMemory, per_process: int, stride: int) -> None:
        self.stride, self._per_process = stride, per_process
        self.block: SymmetricBlock = memory.allocate(per_process * stride)

    def address(self, rank: int, put: bool = False) -> int:
        """Where the bytes of a rank begin, for loads and stores or for puts; 0 where stores do not reach."""
        process, local = divmod(rank, self._per_process)
        start = (self.block.puts if put else self.block.peers)[process]
        return start + local * self.stride if start else 0

    def own(self, local: int) -> int:
        """Where the bytes of a rank of this process begin."""
        return int(self.block.local.data.ptr) + local * self.stride

    def view(self, shape: Sequence[int], dtype: Any) -> Any:
        """The bytes of all ranks of this process as an array."""
        return self.block.local[: self._per_process * self.stride].view(dtype).reshape(shape)
