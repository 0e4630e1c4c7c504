"""Transport over memory that every rank can address; `loopback` and `shmem` say where the memory comes from."""

from __future__ import annotations

import math
import os
import pickle
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from pulsemd.base.cores import usable_cores
from pulsemd.base.errors import PeerError, TransportError
from pulsemd.halo.agreement import (
    CALLS,
    check_calls,
    check_reduce,
    raise_lowest,
    sendable,
    summands,
    waiting_in,
)
from pulsemd.halo.control import JOINED, Control
from pulsemd.halo.faults import Fault, parse_faults
from pulsemd.halo.heap import Heap, Mailboxes
from pulsemd.halo.layout import STRIDE
from pulsemd.halo.plan import HaloPlan
from pulsemd.halo.reduction import sum_slots
from pulsemd.halo.signals import EXPIRED, meet
from pulsemd.halo.transport import check_field, is_same_array

if TYPE_CHECKING:
    from pulsemd.halo.tables import Tables
    from pulsemd.halo.transports.heap_channel import HeapChannel

_ALIGN: Final = 64
_SPIN_ALONE: Final = 300
_SPIN_CROWDED: Final = 20
_START_UP: Final = 120.0


class HeapTransport:
    """One rank on a heap.

    Parameters
    ----------
    name : str
    heap : Heap
    control : Control
        The same block on all ranks, zero when the job starts.
    rank, size : int
    timeout : float, s
    faults : str
        See `pulsemd.halo.faults`.
    """

    path = "host"

    def __init__(
        self, name: str, heap: Heap, control: Control, rank: int, size: int, timeout: float, faults: str = ""
    ) -> None:
        self.name, self.rank, self.size, self.timeout = name, rank, size, timeout
        self.faults = parse_faults(faults)
        self.control = control
        self.spin = _SPIN_ALONE if size <= usable_cores() else _SPIN_CROWDED
        if control.headers[0, rank, JOINED]:
            raise TransportError(
                f"{name}: rank {rank} has joined already; use the transport given to your function"
            )
        control.headers[0, rank, JOINED] = 1
        self._heap = heap
        self._mailboxes = Mailboxes(heap, control, rank)
        self._call = 0
        self._closed = False
        self._fields: dict[str, tuple[NDArray[Any], int]] = {}
        self._latest: tuple[HaloPlan, Tables] | None = None
        self.turns: dict[str, int] = {}  # by name of an array: the channel that brought its ghost rows last
        self._n_channels = 0

    # Control plane

    def start(self) -> None:
        """Meet all ranks for the first time, with time for them to be loaded."""
        self._meet("barrier", 0, limit=max(self.timeout, _START_UP))

    def _meet(self, operation: str, n_bytes: int, fill: Any = None, limit: float | None = None) -> int:
        """Write the own mailbox, meet all ranks, check that they do the same; the number of the call."""
        self._call += 1
        code = CALLS.index(operation)
        box = self._mailboxes.write(self._call, code, n_bytes)
        if fill is not None:
            fill(box)
        control = self.control
        limit = limit or self.timeout
        status = meet(self.rank, control.arrivals, control.abort, self._call, limit, self.spin)
        if status:
            self.fail(status % 4, status // 4, waiting_in(operation, self._call), limit)
        check_calls(self.name, self.rank, self._call, self._mailboxes.operations(self._call))
        return self._call

    def fail(self, outcome: int, peer: int, what: str, limit: float | None = None) -> None:
        """Raise PeerError for a wait that did not end well, and make the waits of all ranks end."""
        if outcome == EXPIRED:
            message = (
                f"rank {self.rank} waited {limit or self.timeout:g} s for rank {peer}: {what}; "
                "raise PULSEMD_TIMEOUT if that rank is only slow"
            )
            self.control.stop(self.rank, message)
            raise PeerError(message)
        raise PeerError(f"rank {self.rank} stopped waiting for rank {peer} ({what}): {self.control.cause()}")

    def barrier(self, patient: bool = False) -> None:
        self._meet("barrier", 0, limit=math.inf if patient else None)

    def broadcast(self, obj: Any, root: int = 0) -> Any:
        blob = pickle.dumps(obj, 5) if self.rank == root else b""
        call = self._meet("broadcast", len(blob), lambda box: _fill(box, blob))
        return pickle.loads(self._mailboxes.read(call, root).data)

    def allgather(self, obj: Any) -> list[Any]:
        blob = pickle.dumps(obj, 5)
        if self.size == 1:
            return [pickle.loads(blob)]
        call = self._meet("allgather", len(blob), lambda box: _fill(box, blob))
        return [pickle.loads(self._mailboxes.read(call, rank).data) for rank in range(self.size)]

    def alltoall(self, arrays: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        if len(arrays) != self.size or any(array.dtype.hasobject for array in arrays):
            raise TransportError(
                f"alltoall: rank {self.rank} has to give {self.size} arrays of plain numbers"
            )
        if self.size == 1:
            return [np.array(arrays[0])]
        sizes = [-(-array.nbytes // _ALIGN) * _ALIGN for array in arrays]
        starts = np.cumsum([0, *sizes])
        kinds = [
            a.dtype if a.dtype.names else a.dtype.str for a in arrays
        ]  # a name pickles faster than a dtype
        index = pickle.dumps(
            [(k, a.shape, int(s)) for k, a, s in zip(kinds, arrays, starts, strict=False)], 5
        )
        head = -(-(8 + len(index)) // _ALIGN) * _ALIGN

        def fill(box: NDArray[np.uint8]) -> None:
            box[:8].view(np.int64)[0] = head
            _fill(box[8:], index)
            for array, start in zip(arrays, starts, strict=False):
                place = box[head + start : head + start + array.nbytes]
                place.view(array.dtype).reshape(array.shape)[...] = array

        call = self._meet("alltoall", head + int(starts[-1]), fill)
        return [self._letter(self._mailboxes.read(call, rank)) for rank in range(self.size)]

    def _letter(self, box: NDArray[np.uint8]) -> NDArray[Any]:
        """A copy of the array for this rank in a mailbox filled by `alltoall`."""
        head = int(box[:8].view(np.int64)[0])
        dtype, shape, start = pickle.loads(box[8:head].data)[self.rank]
        array: NDArray[Any] = np.empty(shape, dtype)
        first = head + start
        array[...] = box[first : first + array.nbytes].view(dtype).reshape(shape)
        return array

    def agree(self, error: BaseException | None) -> None:
        errors = self.allgather(sendable(error))
        if any(errors):
            self.barrier()  # nobody ends, and takes its mailbox along, before all have read
        raise_lowest(errors)

    # Data plane

    def tables(self, plan: HaloPlan, everyone: NDArray[np.int64], faults: Sequence[Fault]) -> Tables:
        """`build_tables`, once for all channels that are bound to a plan one after the other."""
        from pulsemd.halo.tables import build_tables

        if faults:
            return build_tables(plan, everyone, faults)
        if self._latest is None or self._latest[0] is not plan:
            self._latest = plan, build_tables(plan, everyone, faults)
        return self._latest[1]

    def symmetric(self, n_bytes: int) -> NDArray[np.uint8]:
        """(size, n_bytes) zeroed memory, row r for rank r; collective."""
        handle, memory = 0, np.empty(0, np.uint8)
        total = self.size * n_bytes
        if self.rank == 0:
            handle, memory = self._heap.create(total)
        process, handle = self.broadcast((os.getpid(), handle))
        if self.rank != 0:
            memory = self._heap.attach(process, handle, total)
        rows = memory.reshape(self.size, n_bytes)
        rows[self.rank] = 0  # the rank that uses the memory touches it first: it lies near its core
        self.barrier()
        if self.rank == 0:
            self._heap.forget(handle)
        return rows

    def allocate(self, name: str, rows: int, width: int, dtype: DTypeLike) -> NDArray[Any]:
        kind = np.dtype(dtype)
        check_field(name, rows, width, kind, self.allgather((name, rows, width, str(kind))))
        field = self.symmetric_rows(rows, width, kind)
        self._fields[name] = (field, rows)
        own: NDArray[Any] = field[self.rank, :rows]
        return own

    def symmetric_rows(self, rows: int, width: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        """(size, at least rows, width) zeroed array, each rank's part on cache lines of its own; collective."""
        step = _ALIGN // math.gcd(_ALIGN, width * dtype.itemsize)
        padded = max(1, -(-rows // step)) * step
        memory = self.symmetric(padded * width * dtype.itemsize)
        return memory.view(dtype).reshape(self.size, padded, width)

    def channel(self, plan: HaloPlan, array: NDArray[Any]) -> HeapChannel:
        from pulsemd.halo.transports.heap_channel import HeapChannel  # processes with a GPU never compile it

        for name, (field, rows) in self._fields.items():
            if is_same_array(field[self.rank, :rows], array):
                return HeapChannel(self, name, plan, field, rows)
        raise TransportError(
            f"channel: rank {self.rank} gave an array that allocate() did not make, or has replaced"
        )

    def number_channel(self) -> int:
        """The same number on all ranks, another for each channel."""
        self._n_channels += 1
        return self._n_channels

    def reduce(self, width: int, dtype: DTypeLike) -> HeapReduce:
        return HeapReduce(self, width, np.dtype(dtype))

    def close(self) -> None:
        if not self._closed:
            self._meet("close", 0)
            self._closed = True
            self._fields.clear()
            self._mailboxes.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self.control.stop(self.rank, f"rank {self.rank} failed: {type(error).__name__}: {error}")


class HeapReduce:
    """All-reduce through one slot a rank, which everybody reads."""

    def __init__(self, transport: HeapTransport, width: int, dtype: np.dtype[Any]) -> None:
        check_reduce(transport.allgather, width, dtype)
        self._transport = transport
        self._width = width
        self._slots = transport.symmetric_rows(2, -(-width // STRIDE) * STRIDE, dtype)
        self._signals = transport.symmetric(8 * STRIDE).view(np.int64).reshape(-1)
        self._epoch = 0

    def sum(self, values: NDArray[Any]) -> NDArray[Any]:
        values = summands(values, self._slots[..., : self._width])
        total = np.empty_like(values)
        self._epoch += 1
        transport = self._transport
        status = sum_slots(
            transport.rank,
            self._slots,
            values,
            total,
            self._signals,
            transport.control.abort,
            self._epoch,
            transport.timeout,
            transport.spin,
        )
        if status:
            transport.fail(status % 4, status // 4, f"reduce, epoch {self._epoch}")
        return total


def _fill(box: NDArray[np.uint8], blob: bytes) -> None:
    box[: len(blob)] = np.frombuffer(blob, np.uint8)
