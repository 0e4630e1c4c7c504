"""One process's access to the others: fields, channels and reductions on its GPU, and the plan-ranks it holds.

The order of plan-ranks is that of processes: rank = process * K + local index, with K alike everywhere.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from importlib import import_module
from types import TracebackType
from typing import Any, Final, Self
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import DTypeLike, NDArray

from pulsemd.base.errors import ConfigError, PeerError, TransportError
from pulsemd.halo.device.memory import NO_NETWORK, SymmetricMemory
from pulsemd.halo.device.reduce import GpuReduce
from pulsemd.halo.device.region import Region
from pulsemd.halo.device.routes import Routes, share_routes
from pulsemd.halo.faults import Fault, parse_faults
from pulsemd.halo.plan import HaloPlan
from pulsemd.halo.transport import Transport, check_field, faults_text, wait_limit

CHANNELS: Final = {
    "mpi": "pulsemd.halo.rungs.mpi:MpiChannel",
    "nccl": "pulsemd.halo.rungs.nccl:NcclChannel",
    "nvshmem-stream": "pulsemd.halo.rungs.stream:StreamChannel",
    "nvshmem-pulse": "pulsemd.halo.device.channel:PulseChannel",
    "nvshmem-fused": "pulsemd.halo.device.channel:FusedChannel",
    "nvshmem-step": "pulsemd.halo.device.channel:FusedChannel",
}
"""Class of the channels of each rung; ``nvshmem-step`` differs in what the steps of a run make of it."""

DEVICE_TIMEOUT: Final = 5.0
_LIMIT, _CLAIMED, _REPORT, _N_OTHERS, _OTHERS = 16, 17, 18, 25, 32
_WAITS: Final = (
    "forward: rows",
    "forward: credit to overwrite ghost rows",
    "reverse: rows",
    "reverse: credit to overwrite rows",
    "forward: rows to be forwarded",
    "reduce: values",
)


@dataclass(frozen=True)
class ExchangeOptions:
    """How exchanges run; the defaults are what measured fastest.

    Parameters
    ----------
    way : {'land', 'pull', 'push'}
        How ghost rows go back, see reverse.cu; with peers that stores do not reach always 'land'.
    blocks : int
        Blocks of each message; 0: chosen, see `blocks_of_message`.
    share : float
        Part of the GPU's places for blocks that one exchange may take.
    put_ranks : collection of int
        Plan-ranks whose messages go by put even where stores reach.
    """

    way: str = "land"
    blocks: int = 0
    share: float = 0.5
    put_ranks: Collection[int] = ()


class GpuTransport:
    """See the module. A context manager: leaving it closes it.

    Parameters
    ----------
    name : str
        Row of `CHANNELS`.
    memory : SymmetricMemory
    controls : sequence of Transport
        Control plane of each plan-rank of this process, in order; used by threads.
    timeout : float, s, optional
        Bound of waits on the device; PULSEMD_TIMEOUT, else 5.
    faults : str, optional
        Faults to inject, see `pulsemd.halo.faults`; PULSEMD_FAULTS, else none.
    options : ExchangeOptions

    Attributes
    ----------
    size : int
    ranks : range
        Plan-ranks of this process.
    path : str
        What moves the rows, for reports.
    n_local : int
        Plan-ranks of this process, K.
    host_waited : float, s
        How long the host has waited inside exchanges and sums; to be set to 0 by whoever measures.
    host_spans : deque of (str, float, float), optional
        Where one is set, a rung that the host drives adds what the host does in exchanges: what, begin by
        `time.perf_counter`, s, and duration, s.
    n_simulations : int
        Counted by whoever allocates the same names for one simulation after the other.
    """

    host_waited = 0.0
    n_simulations = 0
    host_spans: deque[tuple[str, float, float]] | None = None

    def __init__(
        self,
        name: str,
        memory: SymmetricMemory,
        controls: Sequence[Transport],
        timeout: float | None = None,
        faults: str | None = None,
        options: ExchangeOptions | None = None,
    ) -> None:
        if name not in CHANNELS:
            raise ConfigError(f"transport: {name!r} does not exist; use one of {', '.join(CHANNELS)}")
        self.name, self.memory, self.controls = name, memory, tuple(controls)
        self.device = memory.device
        self.options = options or ExchangeOptions()
        self.n_local, self.size = len(self.controls), self.controls[0].size
        if self.size != self.n_local * memory.n_processes:
            raise TransportError(
                f"{name}: {memory.n_processes} processes of {self.n_local} plan-ranks are not {self.size} ranks"
            )
        self.ranks = range(memory.process * self.n_local, (memory.process + 1) * self.n_local)
        chosen = timeout is not None or os.environ.get("PULSEMD_TIMEOUT")
        self.timeout = wait_limit(timeout) if chosen else DEVICE_TIMEOUT
        self.faults: tuple[Fault, ...] = parse_faults(faults_text(faults))
        self.control_words = self._make_controls()
        puts = any(not self.stores_reach(own, rank) for own in self.ranks for rank in range(self.size))
        self.may_put = any(any(shares) for shares in self.each(lambda _, control: control.allgather(puts)))
        self.path = "loads and stores" + (", puts" if self.may_put else "")
        self._fields: dict[int, tuple[str, Region, tuple[int, int], Any]] = {}
        self._replaced: list[Region] = []
        self._named: WeakValueDictionary[int, Any] = WeakValueDictionary()
        self._n_named = 0
        self._streams = [self.device.stream]
        self._latest: tuple[tuple[Any, ...], Routes] | None = None
        self._closed = False

    @property
    def network(self) -> int:
        """Value of the macro NETWORK for the kernels of this transport."""
        return self.memory.network if self.may_put else NO_NETWORK

    def _make_controls(self) -> Any:
        """The words by which processes stop each other, see `Controls` in arrival.cuh."""
        n = self.memory.n_processes
        self._controls = self.memory.allocate(8 * (_OTHERS + 2 * n))
        words = np.zeros(_OTHERS + 2 * n, np.int64)
        words[_LIMIT] = int(1e9 * self.timeout)
        others = []
        for process in range(n):
            if process != self.memory.process:
                address = self._controls.peers[process]
                others.append((address or self._controls.puts[process], -1 if address else process))
        words[_N_OTHERS] = len(others)
        words[_OTHERS : _OTHERS + 2 * len(others)] = np.array(others, np.int64).reshape(-1)
        view = self._controls.local[: words.nbytes].view("int64")
        with self.device.current():
            view[1:].set(words[1:])  # word 0 belongs to everybody from the start
        self.device.synchronize()
        return view

    def stores_reach(self, own: int, rank: int) -> bool:
        """Whether rank ``own`` of this process and another rank exchange rows by loads and stores."""
        forced = own in self.options.put_ranks or rank in self.options.put_ranks
        return not forced and self._controls.peers[rank // self.n_local] != 0

    def stores_reach_process(self, process: int) -> bool:
        """Whether all ranks of this process reach those of another by loads and stores."""
        ranks = range(process * self.n_local, (process + 1) * self.n_local)
        here = process == self.memory.process
        return here or all(self.stores_reach(own, rank) for own in self.ranks for rank in ranks)

    # Plan-ranks and processes

    def each(self, function: Callable[[int, Transport], Any]) -> list[Any]:
        """``function(local_index, control)`` for every plan-rank of this process at once, in threads.

        Raises the error of the lowest plan-rank that has one. One that fails alone leaves the others to their bounded
        waits.
        """
        if self.n_local == 1:
            return [function(0, self.controls[0])]
        results: list[Any] = [None] * self.n_local
        errors: dict[int, BaseException] = {}

        def run(local: int) -> None:
            try:
                results[local] = function(local, self.controls[local])
            except BaseException as error:
                errors[local] = error

        threads = [
            threading.Thread(target=run, args=(k,), name=f"rank {self.ranks[k]}", daemon=True)
            for k in range(self.n_local)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[min(errors)]
        return results

    def meet(self) -> None:
        """Wait on the host for all processes."""
        self.each(lambda _, control: control.barrier())

    def settle(self) -> None:
        """Wait until the device has done everything that this transport's users launched."""
        for stream in self._streams:
            stream.synchronize()

    # Data plane

    def region(self, stride: int) -> Region:
        """Symmetric memory with ``stride`` bytes for each plan-rank; collective."""
        return Region(self.memory, self.n_local, stride)

    def allocate(self, name: str, rows: int, width: int, dtype: DTypeLike) -> Any:
        """Zeroed (K, rows, width) array for channels; collective, with the same arguments on every process.

        An earlier array of this name stays until `free_replaced`.
        """
        kind = np.dtype(dtype)
        asked = (name, rows, width, str(kind))
        self.each(lambda _, control: check_field(*asked[:3], kind, control.allgather(asked)))
        region = self.region(max(rows, 1) * width * kind.itemsize)
        array = region.view((self.n_local, max(rows, 1), width), kind)[:, :rows]
        self._replaced += [field[1] for field in self._fields.values() if field[0] == name]
        self._fields = {key: field for key, field in self._fields.items() if field[0] != name}
        self._fields[int(array.data.ptr)] = (name, region, (rows, width), array)
        return array

    def free_replaced(self) -> None:
        """Give the memory of arrays back whose names were allocated again, and whose users are gone.

        Collective; waits for all processes.
        """
        if self._replaced:
            self.settle()
            self.meet()
        for region in self._replaced:
            self.memory.free(region.block)
        self._replaced = []

    def field(self, array: Any) -> tuple[str, Region]:
        """Name and memory of an array made by `allocate`."""
        found = self._fields.get(int(array.data.ptr))
        if found is None or found[2] != tuple(array.shape[1:]) or found[3].dtype != array.dtype:
            raise TransportError(
                f"channel: process {self.memory.process} gave an array that allocate() did not make, or has replaced"
            )
        return found[0], found[1]

    def channel(
        self,
        plans: Sequence[HaloPlan],
        array: Any,
        places: Sequence[NDArray[np.int32]] | None = None,
        stream: Any = None,
        **options: Any,
    ) -> Any:
        """Bind an array made by `allocate` to the plans of this process's plan-ranks; collective; verifies them.

        Parameters
        ----------
        plans : (K,) sequence of HaloPlan
        array : (K, rows, width), CuPy
        places : (K,) sequence of (n_local,) int32, optional
            Slot of each local row; row r lies in slot r where it is left out. On every process or on none.
        stream : optional
            Of `CudaDevice.new_stream`; the device's main stream.
        **options
            See the class of the rung.
        """
        module, _, name = CHANNELS[self.name].partition(":")
        return getattr(import_module(module), name)(self, plans, array, places, stream, **options)

    def reduce(self, width: int, dtype: DTypeLike, stream: Any = None) -> GpuReduce:
        """All-reduce of ``width`` int64 or float64 values of each plan-rank; collective."""
        return GpuReduce(self, width, np.dtype(dtype), stream)

    def routes(
        self, plans: Sequence[HaloPlan], places: Sequence[NDArray[np.int32]] | None, back: bool
    ) -> Routes:
        """`share_routes`, once for all channels that are bound to the same plans one after the other; collective."""
        given = (*plans, *(places or ()), back)
        if self._latest is None or not _same_objects(self._latest[0], given):
            self._latest = given, share_routes(self, plans, places, back)
        return self._latest[1]

    def register(self, user: Any, stream: Any) -> int:
        """A number for a channel or reduction on a stream, by which reports of the device name it."""
        if stream is not None and stream not in self._streams:
            self._streams.append(stream)
        self._n_named += 1
        self._named[self._n_named] = user
        return self._n_named

    def check(self, words: NDArray[np.int64] | None = None) -> None:
        """Raise what waits of the device report: up to now, for which this waits, or in a copy of `control_words`.

        Raises
        ------
        PeerError
            If a wait expired here, or another process made everybody stop.
        """
        if words is None:
            self.settle()
            words = self.device.to_host(self.control_words)
        if words[0] == 0:
            return
        if words[_REPORT + 6] == 0:
            raise PeerError(f"process {self.memory.process} stopped: a wait of another process expired")
        number, kind, local, pulse, epoch, found = (int(word) for word in words[_REPORT : _REPORT + 6])
        user = self._named.get(number)
        peer = "a peer" if user is None else f"rank {user.peer(kind, local, pulse)}"
        what = "a closed channel" if user is None else user.description
        raise PeerError(
            f"rank {self.ranks[local]} waited {self.timeout:g} s for {peer}: pulse {pulse}, epoch {epoch} of {what}, "
            f"{_WAITS[kind]} (epoch {found} is there); raise PULSEMD_TIMEOUT if that rank is only slow"
        )

    def close(self) -> None:
        """Wait for the device and all processes; collective."""
        if not self._closed:
            self._closed = True
            self.settle()
            self.meet()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()


def _same_objects(first: Sequence[Any], second: Sequence[Any]) -> bool:
    """Whether two sequences hold the same objects, not only equal ones."""
    return len(first) == len(second) and all(a is b for a, b in zip(first, second, strict=True))
