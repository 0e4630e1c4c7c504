"""Which device a run takes, and the rank that works on it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pulsemd.base.errors import ConfigError, TransportError
from pulsemd.device.cuda import find_device_problem, has_driver
from pulsemd.engine.movers import ConstrainedGroups
from pulsemd.engine.options import RunOptions
from pulsemd.engine.rank import Rank
from pulsemd.engine.system import System
from pulsemd.halo import Transport
from pulsemd.kernels.bonded.gpu import kinds_without_kernel
from pulsemd.kernels.update.gpu import oversized_group

if TYPE_CHECKING:
    from pulsemd.engine.gpu_rank import GpuRank
    from pulsemd.engine.gpu_ranks import GpuRanks


def choose_device(options: RunOptions) -> RunOptions:
    """The options with ``device`` settled as 'cpu' or 'cuda', and the reason.

    Where 'cuda' was not asked for, `fit_device` may still take the CPU once the system is known.

    Raises
    ------
    TransportError
        If a GPU is asked for and cannot be used; the message says why.
    """
    if options.device == "cpu":
        return options
    problem = _problem(options)
    if problem is None:
        asked = options.device == "cuda"
        reason = "as asked for" if asked else "a GPU is there, and one rank uses one"
        return replace(options, device="cuda", device_reason=reason, device_asked=asked)
    if options.device == "cuda":
        raise TransportError(f"--device cuda: {problem}")
    return replace(options, device="cpu", device_reason=problem)


def _problem(options: RunOptions) -> str | None:
    """Why these options cannot run on a GPU; None if they can."""
    if not has_driver():
        return "this machine has no NVIDIA driver" + (
            "; use --device cpu" if options.device == "cuda" else ""
        )
    if options.ranks != 1:
        return f"one GPU runs one rank, and {options.ranks} are asked for; use --ranks 1 or --device cpu"
    if options.rung != "loopback":
        return (
            f"--transport {options.rung} moves memory of the host; use --transport loopback or --device cpu"
        )
    if options.count_images:
        return "box crossings for --positions unwrapped are counted on CPUs only" + (
            "; use --device cpu" if options.device == "cuda" else ""
        )
    problem = find_device_problem()
    return None if problem is None else problem.removeprefix("--device cuda: ")


def fit_device(options: RunOptions, system: System) -> RunOptions:
    """The options with the CPU in place of a GPU that nobody asked for and that cannot compute this system.

    Raises
    ------
    ConfigError
        If the GPU was asked for; the message names what it lacks.
    """
    problem = _system_problem(system) if options.device == "cuda" else None
    if problem is None:
        return options
    if options.device_asked:
        raise ConfigError(f"--device cuda: {problem}; use --device cpu")
    return replace(options, device="cpu", device_reason=problem)


def _system_problem(system: System) -> str | None:
    """What of this system a GPU cannot compute; None if everything."""
    if system.pair_potential is not None:
        return "a pair potential in Python runs on CPUs only"
    if system.settings.coulombtype == "pme":
        return "coulombtype = PME runs on CPUs only"
    if kinds := kinds_without_kernel(system.topology.terms):
        return f"terms of these kinds run on CPUs only: {', '.join(kinds)}"
    return oversized_group(ConstrainedGroups(system.topology))


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
    return Rank(transport, system, options, r_list)
