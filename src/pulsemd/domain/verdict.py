"""Whether a search on the device came out as usual, summed over all ranks without the host; see verdict.cu."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from pulsemd.base.errors import DomainError
from pulsemd.domain.cuda_programs import THREADS, verdict_program
from pulsemd.halo.device.transport import GpuTransport

Row = tuple[int, int, int, int]

MOST_COLUMNS: Final = 63


def checks_of(array: Any, low: Sequence[int], high: Sequence[int]) -> list[Row]:
    """Checks that each value of an integer array on the device lies between two numbers."""
    start, width = int(array.data.ptr), array.dtype.itemsize
    return [(start + k * width, int(width == 8), int(low[k]), int(high[k])) for k in range(array.size)]


def columns_of(array: Any) -> list[Row]:
    """The columns of an integer array (n, columns) on the device, each to be summed."""
    start, width, stride = int(array.data.ptr), array.dtype.itemsize, array.dtype.itemsize * array.shape[1]
    return [(start + k * width, int(width == 8), len(array), stride) for k in range(array.shape[1])]


class Verdict:
    """Checks and sums of the plan-ranks of a process; collective to make.

    Parameters
    ----------
    transport : GpuTransport
    n_columns : int
        Columns of each rank.

    Attributes
    ----------
    totals : (1 + n_columns,) int64, device
        Over all ranks: checks that failed, then the sums.

    Raises
    ------
    DomainError
        If there are more columns than the kernel has room for.
    """

    def __init__(self, transport: GpuTransport, n_columns: int) -> None:
        if n_columns > MOST_COLUMNS:
            raise DomainError(
                f"a search on the device has {n_columns} numbers to sum, at most {MOST_COLUMNS} fit"
            )
        self._device, self._n_columns = transport.device, n_columns
        self._reduce = transport.reduce(1 + n_columns, np.int64)
        self.totals = self._reduce.sum(self._reduce.values)[0]

    def bind(self, columns: Sequence[Sequence[Row]], n_checks: int) -> None:
        """Sum these columns of each local rank from now on, and have room for checks of each; none passes yet."""
        self._checks = self._device.zeros((len(columns), n_checks, 4), np.int64)
        self.reject()
        table = self._device.to_device(np.array(columns, np.int64))
        kernel = self._device.kernel(verdict_program(), "judge_search")
        numbers = np.int32(n_checks), np.int32(self._n_columns)
        self._judge = kernel.bind(
            len(columns), THREADS, self._checks, numbers[0], table, numbers[1], self._reduce.values
        )

    def set(self, checks: Any) -> None:
        """Make these checks, a list of rows for each local rank, from now on; in stream order."""
        self._checks.set(np.ascontiguousarray(checks, np.int64), stream=self._device.stream)

    def reject(self) -> None:
        """Let checks fail until others are made."""
        impossible = (int(self._reduce.values.data.ptr), 1, 1, 0)
        self.set(np.broadcast_to(np.array(impossible, np.int64), self._checks.shape))

    def launch(self) -> None:
        """Launch checks and sums, in stream order."""
        self._judge()
        self._reduce.sum(self._reduce.values)


class HeldSteps:
    """Steps launched behind a search, before anybody has read what came of it, that do nothing unless it was as usual.

    Parameters
    ----------
    transport : GpuTransport
    totals : device array
        `Verdict.totals`.
    expected : sequence of int
        Those of a search that was as usual.
    counts, others : sequences of device arrays, of whole 4-byte words
        Numbers that leave steps nothing to do if they are 0, and what steps change besides positions and velocities.
    """

    def __init__(
        self,
        transport: GpuTransport,
        totals: Any,
        expected: Sequence[int],
        counts: Sequence[Any],
        others: Sequence[Any],
    ) -> None:
        device = transport.device
        arrays = [*counts, *others]
        copies = [device.zeros(array.shape, array.dtype) for array in arrays]
        rows = [
            [int(array.data.ptr), int(copy.data.ptr), array.nbytes // 4, int(k < len(counts))]
            for k, (array, copy) in enumerate(zip(arrays, copies, strict=True))
        ]
        pieces, n_pieces = device.to_device(np.array(rows, np.int64)), np.int32(len(rows))
        asked = device.to_device(np.array(expected, np.int64)), np.int32(len(expected))
        word, self._alive = transport.control_words[:1], (arrays, copies)
        hold, release = (device.kernel(verdict_program(), f"{name}_steps") for name in ("hold", "release"))
        self.hold = hold.bind(1, THREADS, totals, *asked, word, pieces, n_pieces)
        self.release = release.bind(1, THREADS, pieces, n_pieces)
