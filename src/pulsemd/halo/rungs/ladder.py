"""The choice of a rung for several GPUs: the best that works here, or the one asked for."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from pulsemd.base.errors import ConfigError, TransportError
from pulsemd.halo.rungs.transport import HostDrivenTransport, SeparateMemory, unavailable

if TYPE_CHECKING:
    from pulsemd.halo.device.transport import GpuTransport
    from pulsemd.halo.rungs.world import GpuWorld

GPU_RUNGS: Final = ("nvshmem-step", "nvshmem-fused", "nvshmem-pulse", "nvshmem-stream", "nccl", "mpi")
"""From the fastest down."""

LADDER: Final = ("nvshmem-step", "nccl", "mpi")
"""What ``auto`` tries; the other rungs are for comparison."""

_LOG: Final = logging.getLogger(__name__)


def open_rung(world: GpuWorld, name: str = "auto", **options: Any) -> GpuTransport:
    """The transport of a rung in a world; collective.

    Parameters
    ----------
    world : GpuWorld
    name : str
        One of `GPU_RUNGS`: that or an error. ``auto``: the first of `LADDER` that works; why those above it do not is
        kept as its ``reasons``.
    **options
        ``peer_pointers=False``: reach peers by puts alone. Others: see `pulsemd.halo.device.transport`.

    Raises
    ------
    ConfigError
        For a name that does not exist.
    TransportError
        On every process, if the rung cannot be used.
    """
    if name != "auto":
        if name not in GPU_RUNGS:
            raise ConfigError(
                f"transport: {name!r} does not exist on GPUs; use one of {', '.join(GPU_RUNGS)}"
            )
        try:
            return _open(world, name, options)
        except TransportError as error:
            raise unavailable(name, str(error)) from error
    reasons: list[str] = []
    for rung in LADDER:
        try:
            transport = _open(world, rung, options)
        except TransportError as error:
            reasons.append(f"{rung}: {str(error).removeprefix('nvshmem: ').removeprefix(f'{rung}: ')}")
            if world.process == 0:
                _LOG.info("%s", reasons[-1])
            continue
        transport.reasons = tuple(reasons)  # type: ignore[attr-defined]
        return transport
    raise TransportError(f"no transport between {world.n_processes} GPUs works: {'; '.join(reasons)}")


def _open(world: GpuWorld, name: str, options: dict[str, Any]) -> GpuTransport:
    here = world.device, world.process, world.n_processes
    if name == "nccl":
        if world.n_gpus < world.n_processes:
            raise TransportError("nccl: needs a GPU for each process")
        from pulsemd.halo.rungs.nccl import NcclWire

        return HostDrivenTransport(name, world, SeparateMemory(*here), "nccl", NcclWire(*here, world.gather))
    if name == "mpi":
        return _open_mpi(world)
    memory: Any
    if world.n_processes == 1:
        from pulsemd.halo.device.memory import local_memories

        (memory,) = local_memories([world.device.ordinal])
    else:
        memory = world.nvshmem(options.pop("peer_pointers", True))
    if name == "nvshmem-stream":
        path = "stores" if all(memory_reach(memory)) else "network"
        return HostDrivenTransport(name, world, memory, path, getattr(memory, "bindings", None))
    from pulsemd.halo.device.transport import GpuTransport

    return GpuTransport(name, memory, world.controls, timeout=world.timeout / 6, **options)


def _open_mpi(world: GpuWorld) -> GpuTransport:
    from pulsemd.halo.rungs.mpi import MpiWire

    problem = _find_mpi_problem(world)
    for process, text in enumerate(world.gather(problem)):
        if text is not None:
            raise TransportError(f"mpi: process {process}: {text}")
    reason = world.gpu_aware
    memory = SeparateMemory(world.device, world.process, world.n_processes)
    path = "gpu-aware" if reason is None else "host-staged"
    transport = HostDrivenTransport("mpi", world, memory, path, MpiWire(reason is None, world.timeout))
    transport.reasons = () if reason is None else (f"host-staged: {reason}",)  # type: ignore[attr-defined]
    return transport


def _find_mpi_problem(world: GpuWorld) -> str | None:
    """Why MPI does not connect the processes of a world."""
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        return f"{error}; pip install 'pulsemd[mpi]'"
    if (MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size) != (world.process, world.n_processes):
        return "the processes were not started by mpirun; ask for mpi when starting them"
    return None


def memory_reach(memory: Any) -> list[bool]:
    """Whether stores of this GPU reach each process."""
    block = memory.allocate(512)
    reach = [address != 0 for address in block.peers]
    memory.free(block)
    return reach
