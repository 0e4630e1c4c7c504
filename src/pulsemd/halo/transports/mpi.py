"""Ranks that MPI has started, on one machine or several: the blocking baseline."""

from __future__ import annotations

import math
import os
import pickle
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

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
from pulsemd.halo.heap import Bytes, SharedHeap
from pulsemd.halo.plan import HaloPlan
from pulsemd.halo.transport import check_field, is_same_array
from pulsemd.halo.transports.mpi_channel import MpiChannel

_SPIN: Final = 1000
_NAP: Final = 50e-6
_MOST_BYTES: Final = 2**30  # of a message: MPI counts to 2^31
_FIRST_TAG: Final = 16384  # of channels; those of `alltoall` are below


def _world() -> Any:
    """``mpi4py.MPI.COMM_WORLD``.

    Raises
    ------
    TransportError
        If mpi4py or its MPI library cannot be loaded.
    """
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise TransportError(
            f"mpi: {error}; pip install 'pulsemd[mpi]', and start the ranks by pulsemd.halo.launch, mpirun or srun"
        ) from error
    return MPI.COMM_WORLD


def world_rank() -> int:
    """Rank of this process in MPI."""
    return int(_world().rank)


def end_world(code: int) -> None:
    """When this process ends, end all ranks with an exit code; without it they would wait for this rank to finalize."""
    from mpi4py import MPI

    MPI._set_abort_status(code)


def share_handle(
    heap: SharedHeap, n_bytes: Callable[[int], int], per_process: int = 1
) -> tuple[int, int, int, int, Bytes]:
    """Let MPI tell the processes of one machine where process 0 put ``n_bytes(size)`` of shared memory.

    Parameters
    ----------
    heap : SharedHeap
    n_bytes : callable
    per_process : int
        Ranks in each process.

    Returns
    -------
    size, rank, process, handle : int
        Number of ranks, and the first one of this process.
    memory : (n_bytes,) uint8
    """
    world = _world()
    from mpi4py import MPI

    here = world.Split_type(MPI.COMM_TYPE_SHARED)
    if here.size != world.size:
        raise TransportError(
            f"shmem: {world.size} processes on several machines ({here.size} here); use transport 'mpi'"
        )
    size = per_process * world.size
    handle, memory = heap.create(n_bytes(size)) if world.rank == 0 else (0, np.empty(0, np.uint8))
    process, handle = world.bcast((os.getpid(), handle))
    if world.rank != 0:
        memory = heap.attach(process, handle, n_bytes(size))
    return size, per_process * world.rank, process, handle, memory


def one_machine() -> bool:
    """Whether all processes of MPI's world run on one machine."""
    from mpi4py import MPI

    return bool(_world().Split_type(MPI.COMM_TYPE_SHARED).size == _world().size)


def open_rank(timeout: float, faults: str) -> MpiTransport:
    """Join the ranks of MPI's world."""
    if faults:
        raise TransportError("mpi: faults can be injected into loopback and shmem only")
    return MpiTransport(_world().Dup(), timeout)


class MpiTransport:
    """One rank of an MPI communicator.

    Parameters
    ----------
    communicator : mpi4py.MPI.Comm
    timeout : float, s
    """

    name = "mpi"
    path = "host"

    def __init__(self, communicator: Any, timeout: float) -> None:
        self.communicator, self.timeout = communicator, timeout
        self.sums = communicator.Dup()  # a sum is not taken for another call that some rank makes instead
        self.rank, self.size = int(communicator.rank), int(communicator.size)
        self._fields: dict[str, NDArray[Any]] = {}
        self._tags = self._channel_tags = self._call = 0
        self._closed = False

    def wait(self, requests: Sequence[Any], what: str, limit: float | None = None) -> None:
        """Wait for requests, within the time-out or another limit in seconds.

        Raises
        ------
        PeerError
            On expiry. MPI cannot tell the others; this rank's end does.
        """
        from mpi4py import MPI

        start, turns, limit = time.monotonic(), 0, limit or self.timeout
        while not MPI.Request.Testall(requests):
            turns += 1
            if turns > _SPIN:
                if time.monotonic() - start > limit:
                    raise PeerError(
                        f"rank {self.rank} waited {limit:g} s: {what}; "
                        "raise PULSEMD_TIMEOUT if ranks are only slow"
                    )
                time.sleep(_NAP)

    def _meet(self, operation: str, n_bytes: int = 0, limit: float | None = None) -> list[int]:
        """Meet all ranks, check that they do the same, before they send what only that expects; bytes of each rank."""
        self._call += 1
        everyone = np.empty((self.size, 2), np.int64)
        request = self.communicator.Iallgather(np.array([CALLS.index(operation), n_bytes]), everyone)
        self.wait([request], waiting_in(operation, self._call), limit)
        check_calls(self.name, self.rank, self._call, everyone[:, 0].tolist())
        sizes: list[int] = everyone[:, 1].tolist()
        return sizes

    def barrier(self, patient: bool = False) -> None:
        self._meet("barrier", limit=math.inf if patient else None)

    def broadcast(self, obj: Any, root: int = 0) -> Any:
        blob = pickle.dumps(obj, 5) if self.rank == root else b""
        size = self._meet("broadcast", len(blob))[root]
        box = np.frombuffer(blob, np.uint8) if self.rank == root else np.empty(size, np.uint8)
        requests = [self.communicator.Ibcast(part, root) for part in _parts(box)]
        self.wait(requests, f"broadcast from rank {root}")
        return pickle.loads(box.data)

    def allgather(self, obj: Any) -> list[Any]:
        blob = np.frombuffer(pickle.dumps(obj, 5), np.uint8)
        sizes = self._meet("allgather", len(blob))
        letters = self._exchange([blob] * self.size, [np.empty(n, np.uint8) for n in sizes], "allgather")
        return [pickle.loads(letter.data) for letter in letters]

    def alltoall(self, arrays: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        if len(arrays) != self.size or any(array.dtype.hasobject for array in arrays):
            raise TransportError(
                f"alltoall: rank {self.rank} has to give {self.size} arrays of plain numbers"
            )
        self._meet("alltoall")
        heads = [np.frombuffer(pickle.dumps((a.dtype, a.shape), 5), np.uint8) for a in arrays]
        sizes = np.array([len(head) for head in heads])
        incoming = np.empty_like(sizes)
        self.wait([self.communicator.Ialltoall(sizes, incoming)], "alltoall")
        kinds = [
            pickle.loads(head.data)
            for head in self._exchange(heads, [np.empty(n, np.uint8) for n in incoming], "alltoall")
        ]
        whole = [np.ascontiguousarray(a) for a in arrays]
        return self._exchange(whole, [np.empty(s, d) for d, s in kinds], "alltoall")

    def _exchange(
        self, sent: Sequence[NDArray[Any]], received: list[NDArray[Any]], what: str
    ) -> list[NDArray[Any]]:
        """Fill ``received[r]`` by what rank r sends here; large messages in parts."""
        self._tags = (self._tags + 1) % _FIRST_TAG
        requests = []
        for peer in range(self.size):
            for part in _parts(received[peer]):
                requests.append(self.communicator.Irecv(part, peer, self._tags))
        for peer in range(self.size):
            for part in _parts(sent[peer]):
                requests.append(self.communicator.Isend(part, peer, self._tags))
        self.wait(requests, what)
        return received

    def new_tags(self, count: int) -> list[int]:
        """Tags for the pulses of a channel, others than those of the channels before as long as MPI has any: messages
        of two channels are never taken for each other, even where ranks do not call them in the same order.
        """
        from mpi4py import MPI

        most = self.communicator.Get_attr(MPI.TAG_UB) - _FIRST_TAG
        first = self._channel_tags
        self._channel_tags += count
        return [_FIRST_TAG + (first + pulse) % most for pulse in range(count)]

    def agree(self, error: BaseException | None) -> None:
        raise_lowest(self.allgather(sendable(error)))

    def allocate(self, name: str, rows: int, width: int, dtype: DTypeLike) -> NDArray[Any]:
        kind = np.dtype(dtype)
        check_field(name, rows, width, kind, self.allgather((name, rows, width, str(kind))))
        self._fields[name] = np.zeros((rows, width), kind)
        return self._fields[name]

    def channel(self, plan: HaloPlan, array: NDArray[Any]) -> MpiChannel:
        for name, field in self._fields.items():
            if is_same_array(field, array):
                return MpiChannel(self, name, plan, field)
        raise TransportError(
            f"channel: rank {self.rank} gave an array that allocate() did not make, or has replaced"
        )

    def reduce(self, width: int, dtype: DTypeLike) -> MpiReduce:
        return MpiReduce(self, width, np.dtype(dtype))

    def close(self) -> None:
        if not self._closed:
            self._meet("close")
            self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            end_world(getattr(error, "exit_code", 1))


class MpiReduce:
    """All-reduce by gathering, so that the sum is in rank order."""

    def __init__(self, transport: MpiTransport, width: int, dtype: np.dtype[Any]) -> None:
        check_reduce(transport.allgather, width, dtype)
        self._transport = transport
        self._slots: NDArray[Any] = np.empty((transport.size, width), dtype)

    def sum(self, values: NDArray[Any]) -> NDArray[Any]:
        values = summands(values, self._slots)
        self._transport.wait([self._transport.sums.Iallgather(values, self._slots)], "reduce")
        total: NDArray[Any] = np.zeros_like(values)
        for slot in self._slots:
            total += slot
        return total


def _parts(array: NDArray[Any]) -> list[NDArray[np.uint8]]:
    """Bytes of a contiguous array in parts that MPI can count."""
    flat = array.reshape(-1).view(np.uint8)
    return [flat[start : start + _MOST_BYTES] for start in range(0, len(flat), _MOST_BYTES)]
