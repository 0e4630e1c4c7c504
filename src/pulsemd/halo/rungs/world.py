"""The GPU processes of a job: each drives one GPU and holds a few plan-ranks."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from pulsemd.base.errors import PeerError, TransportError
from pulsemd.device.cuda import CudaDevice, find_device_problem, load_cupy, processes_per_gpu
from pulsemd.halo.transport import Transport, faults_text, wait_limit

if TYPE_CHECKING:
    from pulsemd.halo.transports.nvshmem import NvshmemMemory

T = TypeVar("T")


class GpuWorld:
    """One GPU process of a job; made by `open_gpu_world`. Used by one thread.

    Attributes
    ----------
    device : CudaDevice
    controls : tuple of Transport
        Control plane of each plan-rank of this process.
    ranks : range
        Plan-ranks of this process.
    size : int
        Plan-ranks of all processes.
    process, n_processes : int
    n_gpus : int
        Fewer than processes where `pulsemd.device.cuda.processes_per_gpu` lets them share.
    timeout : float, s
    """

    def __init__(
        self,
        controls: Sequence[Transport],
        device: CudaDevice,
        timeout: float,
        mpi_trial: tuple[str | None] | None = None,
        n_gpus: int | None = None,
    ) -> None:
        self.controls, self.device, self.timeout = tuple(controls), device, timeout
        self._mpi_trial = mpi_trial
        per_process = len(self.controls)
        first, self.size = self.controls[0].rank, self.controls[0].size
        self.ranks = range(first, first + per_process)
        self.process, self.n_processes = first // per_process, self.size // per_process
        self.n_gpus = self.n_processes if n_gpus is None else n_gpus
        self._threads = ThreadPoolExecutor(per_process)
        self._nvshmem: NvshmemMemory | None = None
        self._closed = False

    @property
    def ranks_per_gpu(self) -> int:
        """Plan-ranks of each process."""
        return len(self.controls)

    @property
    def device_name(self) -> str:
        """Name of the GPU, and what of it a process has where several share it."""
        if self.n_gpus == self.n_processes:
            return self.device.name
        count = -(-self.n_processes // self.n_gpus)
        return f"{self.device.name} shared by {count} with {self.device.n_multiprocessors} SMs each"

    def each(self, function: Callable[[int, Transport], T]) -> list[T]:
        """``function(local_index, control)`` on all plan-ranks of this process at once; collective.

        The first error of a rank that is not the consequence of another's is raised; it ends the waits of all ranks.
        """

        def run(index: int) -> T:
            control = self.controls[index]
            try:
                return function(index, control)
            except BaseException as error:
                control.__exit__(type(error), error, error.__traceback__)
                raise

        if self.ranks_per_gpu == 1:
            return [run(0)]
        futures = [self._threads.submit(run, index) for index in range(self.ranks_per_gpu)]
        errors = [error for future in futures if (error := future.exception()) is not None]
        if errors:
            raise next((error for error in errors if not isinstance(error, PeerError)), errors[0])
        return [future.result() for future in futures]

    def gather(self, value: T) -> list[T]:
        """``value`` of every process, in order; collective."""
        everyone = self.each(lambda _, control: _share(control, value))[0]
        return everyone[:: self.ranks_per_gpu]

    def meet(self) -> None:
        """Wait for all processes, on the host."""
        self.each(lambda _, control: control.barrier())

    def nvshmem(self, peer_pointers: bool = True) -> NvshmemMemory:
        """Symmetric memory of NVSHMEM, started when it is asked for first; collective.

        Raises
        ------
        TransportError
            On every process, if NVSHMEM cannot be used.
        """
        from pulsemd.halo.transports.nvshmem import NvshmemMemory, open_memory

        here = self.process, self.n_processes
        if self._nvshmem is None:
            self._nvshmem = open_memory(self.device, *here, self.gather)
        if not peer_pointers:
            return NvshmemMemory(self.device, *here, self.gather, peer_pointers=False)
        return self._nvshmem

    @cached_property
    def gpu_aware(self) -> str | None:
        """Why MPI cannot send from the memory of a GPU; None if it can. Tried once; collective."""
        from pulsemd.halo.rungs.mpi_trial import find_mpi_problem

        if self._mpi_trial is not None:
            return self._mpi_trial[0]
        return self.gather(find_mpi_problem(self.n_processes) if self.process == 0 else None)[0]

    def close(self) -> None:
        """Wait for all processes and give memory back; collective."""
        if not self._closed:
            self._closed = True
            self.device.synchronize()
            self.meet()
            if self._nvshmem is not None:
                self._nvshmem.close()
            self.each(lambda _, control: control.close())
            self._threads.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            for control in self.controls:
                control.__exit__(kind, error, trace)


def open_gpu_world(
    ranks_per_gpu: int = 1,
    timeout: float | None = None,
    faults: str | None = None,
    mpi_trial: tuple[str | None] | None = None,
) -> GpuWorld:
    """Join the processes that `pulsemd.halo.launch_gpus`, mpirun or srun started, one for each GPU; collective.

    Parameters
    ----------
    ranks_per_gpu : int
        Plan-ranks of each process, the same everywhere.
    timeout, faults : optional
        As in `pulsemd.halo.open_transport`.
    mpi_trial : (str or None,), optional
        What `pulsemd.halo.rungs.mpi_trial` found before these processes were started; else it is tried when asked for.

    Raises
    ------
    TransportError
        On every process, if one has no GPU of its own.
    """
    limit, text = wait_limit(timeout), faults_text(faults)
    controls = _open_controls(ranks_per_gpu, limit, text)
    names = _gather(controls, os.uname().nodename)
    process = controls[0].rank // ranks_per_gpu
    device, found = None, find_device_problem()
    if found is None:
        local, count = names[:process].count(names[process]), int(load_cupy().cuda.runtime.getDeviceCount())
        device = CudaDevice(local % count)
        found = str(_uuid(device))
    shares = _gather(controls, (device is None, found))
    _check_gpus(shares, names)
    assert device is not None
    return GpuWorld(controls, device, limit, mpi_trial, n_gpus=len({card for _, card in shares}))


def _gather(controls: Sequence[Transport], value: T) -> list[T]:
    """``value`` of every process, before there is a world; collective."""
    with ThreadPoolExecutor(len(controls)) as threads:
        everyone: list[list[T]] = list(threads.map(lambda control: _share(control, value), controls))
    return everyone[0][:: len(controls)]


def _share(control: Transport, value: T) -> list[T]:
    """``value`` of every rank; nobody returns, and perhaps ends, before all have read."""
    everyone = control.allgather(value)
    control.barrier()
    return everyone


def _open_controls(count: int, timeout: float, faults: str) -> Sequence[Transport]:
    from pulsemd.halo.transports import shmem

    if shmem.JOIN not in os.environ:
        from pulsemd.halo.transports import mpi

        if not mpi.one_machine():
            if count > 1:
                raise TransportError(
                    f"--ranks-per-gpu {count}: on several machines each GPU has one rank; leave it out"
                )
            return [mpi.open_rank(timeout, faults)]
    return shmem.open_ranks(timeout, faults, count)


def _uuid(device: CudaDevice) -> bytes:
    return bytes(device.xp.cuda.runtime.getDeviceProperties(device.ordinal)["uuid"])


def _check_gpus(shares: Sequence[tuple[bool, str]], names: Sequence[str]) -> None:
    """Raise TransportError on every process if one has no GPU, or too many have the same."""
    for process, (missing, found) in enumerate(shares):
        if missing:
            raise TransportError(f"process {process}: {found}")
    cards = [card for _, card in shares]
    for process, card in enumerate(cards):
        first = cards.index(card)
        if cards[:process].count(card) >= processes_per_gpu():
            raise TransportError(
                f"processes {first} and {process} have the same GPU of {names[process]}, and {len(shares)} processes "
                "need a GPU each; start fewer processes, and give each several ranks by --ranks-per-gpu"
            )
