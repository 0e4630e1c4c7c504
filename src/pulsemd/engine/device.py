"""Which device a run takes, and the rank that works on it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pulsemd.base.errors import ConfigError, TransportError
from pulsemd.device.cuda import count_devices, find_device_problem, has_driver, processes_per_gpu
from pulsemd.engine.movers import ConstrainedGroups
from pulsemd.engine.options import RunOptions
from pulsemd.engine.rank import Rank
from pulsemd.engine.system import System
from pulsemd.engine.verlet_rank import VerletRank
from pulsemd.forcefield.settings import RunSettings
from pulsemd.halo import TRANSPORTS, Transport
from pulsemd.halo.rungs.ladder import GPU_RUNGS
from pulsemd.kernels.bonded.gpu import kinds_without_kernel
from pulsemd.kernels.update.cuda_programs import MAX_BATHS, MAX_PORTIONS
from pulsemd.kernels.update.gpu_tables import oversized_group
from pulsemd.topology.records import Topology

if TYPE_CHECKING:
    from pulsemd.engine.gpu_rank import GpuRank
    from pulsemd.engine.gpu_ranks import GpuRanks


def choose_device(options: RunOptions, started: bool = False) -> RunOptions:
    """The options with ``device`` settled as 'cpu' or 'cuda', and the reason.

    Where 'cuda' was not asked for, `fit_device` may still take the CPU once the system is known.

    Parameters
    ----------
    options : RunOptions
    started : bool
        The processes have been started already, by mpirun or srun, perhaps on several machines.

    Raises
    ------
    TransportError
        If a GPU is asked for, by itself or by what only GPUs have, and cannot be used; the message says why.
    """
    if options.device == "cpu":
        return _on_cpus(options, "as asked for")
    problem = _problem(options, started)
    if problem is None:
        asked = options.device == "cuda"
        reason = "as asked for" if asked else "a GPU is there"
        if not asked and options.ranks == 1 and count_devices() > 1:
            reason += "; small systems run fastest on one, --ranks takes more"
        return replace(options, device="cuda", device_reason=reason, device_asked=asked)
    if options.device == "cuda":
        raise TransportError(f"--device cuda: {problem}")
    return _on_cpus(options, problem)


def _on_cpus(options: RunOptions, reason: str) -> RunOptions:
    """The options with CPUs, unless they name what only GPUs have."""
    why = "leave out --device cpu" if options.device == "cpu" else reason
    if options.transport not in (None, *TRANSPORTS):
        raise TransportError(f"--transport {options.transport}: needs GPUs; {why}")
    if options.ranks_per_gpu > 1:
        raise TransportError(f"--ranks-per-gpu {options.ranks_per_gpu}: needs GPUs; {why}")
    return replace(options, device="cpu", device_reason=reason)


def _problem(options: RunOptions, started: bool) -> str | None:
    """Why these options cannot run on GPUs; None if they can."""
    if not has_driver():
        return "this machine has no NVIDIA driver" + (
            "; use --device cpu" if options.device == "cuda" else ""
        )
    if options.transport is not None and options.transport not in _rungs(options):
        return (
            f"--transport {options.transport} moves memory of the host, or one rank needs none; use one of "
            f"{', '.join(_rungs(options))}, or --device cpu"
        )
    if options.count_images:
        return "box crossings for --positions unwrapped are counted on CPUs only" + (
            "; use --device cpu" if options.device == "cuda" else ""
        )
    problem = find_device_problem()
    if problem is not None:
        return problem
    n_gpus, rest = divmod(options.ranks, options.ranks_per_gpu)
    if rest:
        return f"{options.ranks} ranks cannot be shared out {options.ranks_per_gpu} to a GPU; change --ranks-per-gpu"
    elsewhere = started and options.device == "cuda"  # each process looks for a GPU of its own
    if n_gpus > count_devices() * processes_per_gpu() and not elsewhere:
        return (
            f"{options.ranks} ranks with {options.ranks_per_gpu} on each need {n_gpus} GPUs, and this machine has "
            f"{count_devices()}; use fewer --ranks or a larger --ranks-per-gpu"
        )
    return None


def _rungs(options: RunOptions) -> tuple[str, ...]:
    """Rungs that these options can use on GPUs."""
    return ("loopback",) if options.ranks == 1 else GPU_RUNGS


def fit_device(
    options: RunOptions, topology: Topology, settings: RunSettings, started: bool = False
) -> RunOptions:
    """The options with CPUs in place of GPUs that nobody asked for and that cannot compute this system.

    Parameters
    ----------
    started : bool
        Several ranks have their GPUs already.

    Raises
    ------
    ConfigError
        If GPUs were asked for, or have been started; the message names what they lack.
    """
    if options.device != "cuda":
        return options
    problem = _system_problem(topology, settings)
    if problem is None:
        return options
    if options.device_asked or (started and options.several_on_gpus):
        raise ConfigError(f"--device cuda: {problem}; use --device cpu")
    return _on_cpus(options, problem)


def _system_problem(topology: Topology, settings: RunSettings) -> str | None:
    """What of a system GPUs cannot compute; None if everything."""
    if kinds := kinds_without_kernel(topology.terms):
        return f"terms of these kinds run on CPUs only: {', '.join(kinds)}"
    if problem := _coupling_problem(settings):
        return problem
    return oversized_group(ConstrainedGroups(topology))


def _coupling_problem(settings: RunSettings) -> str | None:
    if (n_baths := len(settings.baths)) > MAX_BATHS:
        return (
            f"there are {n_baths} tc-grps, and a GPU has room for the thermostats of {MAX_BATHS}: join groups"
        )
    n_held = len(settings.comm_grps)
    if n_held and n_baths * (n_held + 1) > MAX_PORTIONS:
        return (
            f"there are {n_held} comm-grps, and with {n_baths} tc-grps a GPU has room for "
            f"{MAX_PORTIONS // n_baths - 1}: join groups"
        )
    return None


def new_rank(
    transport: Transport, system: System, options: RunOptions, r_list: float, nstlist: int
) -> Rank | GpuRank | GpuRanks:
    """The rank of a run on the device that the options name."""
    if options.device == "cuda":
        from pulsemd.engine.gpu_control import ProcessControl

        if isinstance(transport, ProcessControl):
            from pulsemd.engine.gpu_ranks import GpuRanks

            return GpuRanks(transport.gpu, system, options, r_list, nstlist)
        from pulsemd.engine.gpu_rank import GpuRank

        return GpuRank(transport, system, options, r_list, nstlist)
    kind = VerletRank if system.settings.full_steps else Rank
    return kind(transport, system, options, r_list)
