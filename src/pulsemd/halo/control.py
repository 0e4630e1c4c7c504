"""The control block: the first memory that all ranks of a heap share, and their launcher with them.

It holds the abort word, the word by which each rank arrives at a barrier, the headers of the mailboxes, and room
for the causes of an abort.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from pulsemd.halo.layout import STRIDE

_TEXT: Final = 512
OPERATION, HANDLE, CAPACITY, N_BYTES, PROCESS, JOINED = range(6)


class Control:
    """Views of a control block.

    Parameters
    ----------
    memory : (`Control.n_bytes(size)`,) uint8
        Zero when the job starts.
    size : int
        Number of ranks. A launcher counts as rank ``size``.

    Attributes
    ----------
    abort : (STRIDE,) int64
        Word 0 is 0 while all is well, else 1 + the rank that gave up first.
    arrivals : (size * STRIDE,) int64
        Barrier epoch of each rank in the first word of its stride.
    headers : (2, size, STRIDE) int64
        Mailbox headers of even and odd collective calls.
    """

    def __init__(self, memory: NDArray[np.uint8], size: int) -> None:
        words = memory.view(np.int64)
        lines = words[: (1 + 3 * size) * STRIDE].reshape(-1, STRIDE)
        self.abort = lines[0]
        self.arrivals = lines[1 : 1 + size].reshape(-1)
        self.headers = lines[1 + size :].reshape(2, size, STRIDE)
        self._texts = words[lines.size :].reshape(size + 1, _TEXT)

    @staticmethod
    def n_bytes(size: int) -> int:
        """Bytes of a control block for ``size`` ranks."""
        return 8 * ((1 + 3 * size) * STRIDE + (size + 1) * _TEXT)

    def stop(self, rank: int, cause: str) -> None:
        """Make every wait of every rank end; ``cause`` is what they report unless somebody gave up before."""
        if self.abort[0] == 0:
            text = cause.encode()[: 8 * (_TEXT - 1)]
            self._texts[rank, 1:].view(np.uint8)[: len(text)] = np.frombuffer(text, np.uint8)
            self._texts[rank, 0] = len(text)
            self.abort[0] = 1 + rank

    def origin(self) -> int | None:
        """The rank that gave up first, or None."""
        word = int(self.abort[0])
        return None if word == 0 else word - 1

    def cause(self) -> str:
        """Why `origin` gave up."""
        texts = self._texts[int(self.abort[0]) - 1]
        return bytes(texts[1:].view(np.uint8)[: int(texts[0])]).decode(errors="replace")
