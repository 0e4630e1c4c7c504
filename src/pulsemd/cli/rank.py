"""What every rank does in ``pulsemd run`` and ``pulsemd energy``."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from pulsemd.base.cores import usable_cores
from pulsemd.base.errors import ConfigError, InputError, PulseMDError
from pulsemd.cli.minimise import run_minimisation
from pulsemd.cli.outputs import open_outputs
from pulsemd.cli.request import RunRequest
from pulsemd.cli.stop import StopRequest
from pulsemd.engine.barostat import scaling_notes
from pulsemd.engine.checkpoint import continued_system
from pulsemd.engine.coupling_groups import groups_of_atoms, held_groups_of_atoms, with_coupling_groups
from pulsemd.engine.freeze import frozen_topology
from pulsemd.engine.gpu_control import control_of
from pulsemd.engine.keeper import CheckpointKeeper, Limits
from pulsemd.engine.simulation import Simulation
from pulsemd.engine.system import System, prepare_system
from pulsemd.halo import Transport
from pulsemd.io.checkpoint import NAME, PREVIOUS, read_checkpoint
from pulsemd.io.gromacs.groups import Groups
from pulsemd.io.gromacs.mdp import located
from pulsemd.io.gromacs.system import read_system
from pulsemd.report.progress import ENDLESS, progress_line
from pulsemd.report.summary import rank_report, summarize, text_summary, write_summary
from pulsemd.report.trace import NAME as NAME_OF_TRACE
from pulsemd.report.trace import write_trace
from pulsemd.topology.configuration import Configuration
from pulsemd.topology.records import Topology

if TYPE_CHECKING:
    from pulsemd.halo.device.transport import GpuTransport

FAR = 10.0
"""Box lengths beyond which a position is remarked on."""

SEED_OF_ENERGIES = 0
"""Of energies of one configuration where a run would draw its seeds: what is compared has to be the same each time."""


def run_rank(transport: Transport, request: RunRequest) -> int:
    """Read, distribute, run, report; the target every rank is started with. The result is the exit code."""
    begin = monotonic()
    with located(request.mdp):
        system, request = read_input(transport, request)
        if request.out is None:
            _single_point(transport, system, request)
            return 0
        stop_at = None if request.max_hours is None else begin + 3600.0 * request.max_hours
        limits = Limits(request.checkpoint_minutes, stop_at)
        with StopRequest(quiet=transport.rank != 0) as stop:
            return _run(transport, system, request, request.out, limits, stop)


def run_process(transport: GpuTransport, request: RunRequest) -> int:
    """The same in a process that drives a GPU and holds one or more ranks."""
    return run_rank(control_of(transport), request)


def read_input(transport: Transport, request: RunRequest) -> tuple[System, RunRequest]:
    """The system, and the request with the groups resolved: read by rank 0 and given to all, or its error raised."""
    found, error = None, None
    if transport.rank == 0:
        try:
            found = read_here(request)
        except PulseMDError as problem:
            error = problem
    transport.barrier(patient=True)  # large files are read longer than others wait in an exchange
    transport.agree(error)
    shared: tuple[System, RunRequest] = transport.broadcast(found)
    return shared


def read_here(request: RunRequest, quiet: bool = False) -> tuple[System, RunRequest]:
    """`read_input` of a process by itself; `quiet`: without notes.

    Raises
    ------
    InputError
    """
    say = _say_nothing if quiet else _say
    topology, table, configuration, settings = read_system(
        request.conf, request.top, request.settings, request.include, request.reference
    )
    unused = _by_reason(settings.ignored)
    for line in (*unused, *scaling_notes(settings, topology), *_far_away(topology, configuration)):
        say(f"note: {line}")
    groups = Groups(topology, request.index)
    request = replace(request, atoms=groups.union(settings.compressed_x_grps, "compressed-x-grps"))
    topology, frozen_mass = frozen_topology(topology, settings, groups)
    if request.restart is not None:
        checkpoint = read_checkpoint(request.restart)
        system = continued_system(
            request.restart,
            checkpoint,
            topology,
            table,
            settings,
            request.options.precision,
            configuration,
            groups_of_atoms(settings, groups),
            held_groups_of_atoms(settings, groups),
        )
        if request.append and (checkpoint.image is None) == (request.positions == "unwrapped"):
            raise InputError(
                "was written with another --positions; continue with the same, or with another -o",
                request.restart,
            )
        say(f"going on from step {system.step} of {request.restart}")
        return replace(system, frozen_mass=frozen_mass), request
    system = prepare_system(
        topology,
        table,
        settings.with_drawn_seeds(SEED_OF_ENERGIES if request.out is None else None),
        configuration.positions,
        configuration.velocities,
        configuration.box,
        configuration.reference,
    )
    return with_coupling_groups(replace(system, frozen_mass=frozen_mass), groups), request


def _by_reason(ignored: Sequence[str]) -> list[str]:
    """Options without effect, ``name (reason)`` each, those of one reason on one line."""
    names: dict[str, list[str]] = {}
    for line in ignored:
        name, reason = line.split(" ", 1)
        names.setdefault(reason, []).append(name)
    return [f"{', '.join(given)} {reason}" for reason, given in names.items()]


def _far_away(topology: Topology, configuration: Configuration) -> list[str]:
    """A note where atoms are far outside the box: they are wrapped into it, which is seldom what somebody wants."""
    cells = np.abs(configuration.positions @ np.linalg.inv(configuration.box)).max(1)
    far = np.flatnonzero(cells > FAR)
    if len(far) == 0:
        return []
    first = topology.describe_atom(int(far[0]))
    return [
        f"{len(far)} atom(s) more than {FAR:g} box lengths away, {first} the first; they are wrapped into the box"
    ]


def _single_point(transport: Transport, system: System, request: RunRequest) -> None:
    if transport.rank == 0:
        say_preparing()
    energies = Simulation(transport, system, request.options).single_point()
    if transport.rank != 0:
        return
    if request.json:
        print(json.dumps(energies))
    else:
        for name, value in energies.items():
            print(f"{name:<20}{value:>18.6f}")


def _run(
    transport: Transport, system: System, request: RunRequest, out: Path, limits: Limits, stop: StopRequest
) -> int:
    last = _last_step(system, request)
    continued = request.restart.name if request.restart is not None and request.append else ""
    if transport.rank == 0 and continued == PREVIOUS:
        os.replace(out / PREVIOUS, out / NAME)
        _say(f"{out / PREVIOUS} takes the place of {out / NAME}")
    if transport.rank == 0:
        say_preparing()
    simulation = Simulation(transport, system, request.options)
    if transport.rank == 0:
        _say(_decisions(simulation))
    if system.settings.minimises:
        return run_minimisation(transport, simulation, request, out, limits, stop.asked)
    with open_outputs(transport, system, request, out) as outputs:
        simulation.report_to(outputs.reporters, outputs.crashed)
        simulation.warm_up()
        keeper = CheckpointKeeper(simulation, out, limits, stop.asked, outputs.sync)
        if continued not in (NAME, PREVIOUS):
            keeper.save()
        progress = progress_line(simulation.step, last, system.settings.dt) if transport.rank == 0 else None
        transport.barrier()
        start = perf_counter()
        n_steps = simulation.run(last - simulation.step, keeper.at_search, partial(_wants, keeper, progress))
        wall = perf_counter() - start
        if progress is not None:
            progress(simulation.step)
        if not keeper.stopped:
            simulation.finish()
        keeper.save()
    _conclude(simulation, request, out, n_steps, wall)
    if transport.rank == 0 and keeper.stopped:
        why = "time is up" if keeper.stopped == "time" else "interrupted"
        of = "" if last == ENDLESS else f" of {last}"
        _say(f"{why} at step {simulation.step}{of}; to go on, add --restart {out / NAME} to the command")
    return 130 if keeper.stopped == "interrupted" else 0


def _conclude(simulation: Simulation, request: RunRequest, out: Path, n_steps: int, wall: float) -> None:
    """Write and say what the steps of a run came to; collective."""
    transport, digest = simulation.transport, simulation.trajectory_hash()
    if request.options.trace:
        traces = transport.allgather(simulation.trace())
        if transport.rank == 0:
            write_trace(out / NAME_OF_TRACE, traces, _about(simulation))
    reports = [report for report in transport.allgather(rank_report(simulation)) if report is not None]
    if transport.rank != 0:
        return
    summary = summarize(simulation, reports, n_steps, wall, digest)
    write_summary(out / "summary.json", summary)
    _say(text_summary(summary))
    _say(f"results in {out}")
    if request.json:
        print(json.dumps(summary))


def _about(simulation: Simulation) -> dict[str, Any]:
    """What the title of a timeline says."""
    transport = simulation.transport
    return {
        "atoms": simulation.system.topology.n_atoms,
        "ranks": transport.size,
        "transport": transport.name,
        "device": simulation.rank.device_name,
    }


def _last_step(system: System, request: RunRequest) -> int:
    """Step at which the run ends: nsteps after its first start.

    Raises
    ------
    ConfigError
        If a checkpoint has come as far already.
    """
    s = system.settings
    if s.nsteps < 0:
        return ENDLESS
    last = s.init_step + s.nsteps
    if request.restart is not None and system.step >= last:
        raise ConfigError(
            f"{request.restart}: the run has come to step {system.step} of {last} already; to go on, give a larger "
            "--steps (counted from the first start) or nsteps"
        )
    return last


def _wants(keeper: CheckpointKeeper, progress: Callable[[int], None] | None, step: int) -> bool:
    if progress is not None:
        progress(step)
    return keeper.wants()


def _decisions(simulation: Simulation) -> str:
    """What was chosen, in a few lines."""
    transport, options, s = simulation.transport, simulation.options, simulation.system.settings
    plan = simulation.rank.domain.plan
    nstlist = f"{simulation.nstlist}" + f" (raised from {s.nstlist})" * (simulation.nstlist > s.nstlist)
    way = f"{s.integrator} to emtol {s.emtol:g} kJ/mol/nm" if s.minimises else f"dt {s.dt:g} ps"
    steps = "steps without end" if s.nsteps == -1 else f"{s.nsteps} steps"
    return (
        f"{simulation.system.topology.n_atoms} atoms, {transport.size} rank(s) as {simulation.grid}, "
        f"transport {transport.name} ({transport.path}), plan {plan.kind} with {len(plan.pulses)} pulse(s), "
        f"precision {options.precision}, device {simulation.rank.device_name} ({options.device_reason})\n"
        f"list cut-off {simulation.r_list:.3f} nm, nstlist {nstlist}, {way}, {steps}"
        f"{_crowding(transport)}{why_not_faster(transport)}"
    )


def why_not_faster(transport: Transport) -> str:
    """A line for each transport between GPUs that was passed over, and why."""
    return "".join(f"\nnote: {reason}" for reason in getattr(transport, "reasons", ()))


def _crowding(transport: Transport) -> str:
    """A line where ranks on this machine have to share cores, which never makes a run faster."""
    cores = usable_cores()
    if transport.size <= cores or transport.name not in ("loopback", "shmem"):
        return ""
    return f"\nnote: {transport.size} ranks share {cores} core(s); more ranks than cores make a run slower"


def say_preparing() -> None:
    """Say what takes a second, and much longer the first time on a machine."""
    _say("preparing (the first run on a machine compiles its kernels, up to a minute)")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _say_nothing(text: str) -> None:
    """Of what is read twice, once."""
