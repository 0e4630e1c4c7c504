"""What the host wants to know of the device, copied in stream order while the host goes on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pulsemd.device.cuda import CudaDevice
from pulsemd.device.cuda_programs import publish_program

Array = np.ndarray[Any, Any]
_THREADS = 128


class Mirror:
    """Copies of a few small device arrays in memory of the host.

    Parameters
    ----------
    device : CudaDevice
    arrays : sequence of device arrays, of whole 4-byte words
    n_copies : int
        Copies there can be at a time; one more takes the place of the oldest.
    """

    def __init__(self, device: CudaDevice, arrays: Sequence[Any], n_copies: int) -> None:
        self.device, self._next = device, 0
        ends = np.cumsum([array.nbytes for array in arrays]).tolist()
        self._pieces = [
            (end - array.nbytes, end, np.dtype(array.dtype), tuple(array.shape))
            for array, end in zip(arrays, ends, strict=True)
        ]
        table = np.array([[array.data.ptr, array.nbytes // 4] for array in arrays], np.int64)
        pieces, size = device.to_device(table), sum(array.nbytes for array in arrays)
        kernel = device.kernel(publish_program(), "publish")
        self._copies = []
        for _ in range(n_copies):
            host, address = device.pinned(size)
            copy = kernel.bind(1, _THREADS, pieces, np.int32(len(arrays)), np.uint64(address))
            self._copies.append((host, copy, device.new_event()))

    def take(self) -> Callable[[], list[Array]]:
        """Copy the arrays as they are at this point of the main stream.

        Returns
        -------
        function
            Waits for the copy and gives one host array for each device array.
        """
        host, copy, event = self._copies[self._next]
        self._next = (self._next + 1) % len(self._copies)
        copy()
        event.record(self.device.stream)

        found: list[Array] = []

        def read() -> list[Array]:
            if not found:
                event.synchronize()
                now = host.copy()
                found.extend(
                    now[start:end].view(dtype).reshape(shape) for start, end, dtype, shape in self._pieces
                )
            return found

        return read


class Snapshots:
    """Copies of whole arrays on their way to the host, on a stream of their own beside the steps.

    Parameters
    ----------
    device : CudaDevice
    n_copies : int
        Copies there can be at a time; one more takes the place of the oldest, which must have been read.
    """

    def __init__(self, device: CudaDevice, n_copies: int) -> None:
        self.device, self._stream = device, device.new_stream()
        self._staged: list[Any] = [None] * n_copies
        self._hosts: list[Any] = [None] * n_copies
        self._done = [device.new_event() for _ in range(n_copies)]
        self._next = 0

    def take(self, arrays: Sequence[Any]) -> Callable[[], list[Array]]:
        """Copy the arrays as they are at this point of the main stream; see `Mirror.take`."""
        k, device = self._next, self.device
        self._next = (k + 1) % len(self._done)
        size = sum(array.nbytes for array in arrays)
        if self._staged[k] is None or self._staged[k].nbytes < size:
            self._staged[k] = device.empty(size, np.uint8)
            self._hosts[k] = device.pinned(size)
        staged, (host, address), start = self._staged[k], self._hosts[k], 0
        device.stream.wait_event(self._done[k])
        for array in arrays:
            target = staged[start : start + array.nbytes]
            target.data.copy_from_device_async(array.data, array.nbytes, device.stream)
            start += array.nbytes
        device.follow(self._stream, device.stream)
        staged.data.copy_to_host_async(address, size, self._stream)
        self._done[k].record(self._stream)
        shapes = [(array.shape, array.dtype, array.nbytes) for array in arrays]

        def read() -> list[Array]:
            self._done[k].synchronize()
            found, start = [], 0
            for shape, dtype, n_bytes in shapes:
                found.append(host[start : start + n_bytes].view(dtype).reshape(shape))
                start += n_bytes
            return found

        return read
