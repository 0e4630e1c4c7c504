"""Times of points in streams, by the clock of the device and then by the clock of the host, which all devices share."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

from pulsemd.device.cuda import CudaDevice
from pulsemd.device.cuda_programs import stamp_program

_TRIALS = 50


class Stamps:
    """Points in streams whose times are wanted. A mark may be part of a graph; each launch of it overwrites its time.

    Parameters
    ----------
    device : CudaDevice
    n_marks : int
        Marks that there can be.

    Notes
    -----
    A mark is a kernel of its own and delays what follows it in its stream by about a microsecond.
    """

    def __init__(self, device: CudaDevice, n_marks: int) -> None:
        self._device, self._words = device, device.zeros(n_marks, np.uint64)
        self._kernel = device.kernel(stamp_program(), "stamp")
        self._bound: dict[tuple[int, Any], Callable[[], None]] = {}
        self._ahead = self._offset()

    def _offset(self) -> float:
        """Seconds that the device's clock is ahead of `perf_counter`, from the quickest of a few marks."""
        trials = []
        for _ in range(_TRIALS):
            before = perf_counter()
            self.mark(0)
            self._device.synchronize()
            after = perf_counter()
            now = 1e-9 * float(self._device.to_host(self._words[:1])[0])
            trials.append((after - before, now - 0.5 * (before + after)))
        return min(trials)[1]

    def mark(self, number: int, stream: Any = None) -> None:
        """Have the time taken when the stream, by default the main one, gets here."""
        key = number, None if stream is None else stream.ptr
        if key not in self._bound:
            self._bound[key] = self._kernel.bind(1, 1, self._words[number : number + 1], stream=stream)
        self._bound[key]()

    def read(self) -> np.ndarray[Any, Any]:
        """(n_marks,) float64: when each mark was passed last, s as by `perf_counter`; waits for the device."""
        times: np.ndarray[Any, Any] = 1e-9 * self._device.to_host(self._words).astype(np.float64)
        return times - self._ahead
