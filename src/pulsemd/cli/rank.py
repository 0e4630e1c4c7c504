"""What every rank does in ``pulsemd run`` and ``pulsemd energy``."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

from pulsemd.base.errors import PulseMDError
from pulsemd.cli.request import RunRequest
from pulsemd.engine.energies import RUN_NAMES, energy_names
from pulsemd.engine.simulation import Frame, Reporter, Simulation
from pulsemd.engine.system import System, prepare_system
from pulsemd.halo import Transport
from pulsemd.io.energies import EnergyWriter
from pulsemd.io.gromacs.gro_writer import write_gro
from pulsemd.io.gromacs.mdp import to_mdp
from pulsemd.io.gromacs.system import read_system
from pulsemd.io.trajectory import DcdWriter
from pulsemd.report.progress import progress_line
from pulsemd.report.summary import rank_report, summarize, text_summary, write_summary


def run_rank(transport: Transport, request: RunRequest) -> None:
    """Read, distribute, run, report; the target every rank is started with."""
    system = _read(transport, request)
    if request.out is None:
        _single_point(transport, system, request)
    else:
        _run(transport, system, request, request.out)


def _read(transport: Transport, request: RunRequest) -> System:
    """The system, read by rank 0 and given to all; every rank raises rank 0's error."""
    system, error = None, None
    if transport.rank == 0:
        try:
            topology, table, configuration, settings = read_system(
                request.conf, request.top, request.settings, request.include, request.reference
            )
            system = prepare_system(
                topology,
                table,
                settings.with_drawn_seeds(),
                configuration.positions,
                configuration.velocities,
                configuration.box,
                configuration.reference,
            )
            for line in settings.ignored:
                _say(f"note: {line}")
        except PulseMDError as problem:
            error = problem
    transport.agree(error)
    shared: System = transport.broadcast(system)
    return shared


def _single_point(transport: Transport, system: System, request: RunRequest) -> None:
    energies = Simulation(transport, system, request.options).evaluate()
    if transport.rank != 0:
        return
    if request.json:
        print(json.dumps(energies))
    else:
        for name, value in energies.items():
            print(f"{name:<14}{value:>18.6f}")


def _run(transport: Transport, system: System, request: RunRequest, out: Path) -> None:
    with _outputs(transport, system, out) as reporters:
        if transport.rank == 0:
            _say("preparing (the first run on a machine compiles its kernels, up to a minute)")
        simulation = Simulation(transport, system, request.options, reporters)
        n_steps = system.settings.nsteps
        if transport.rank == 0:
            _say(_decisions(simulation))
        last = simulation.step + n_steps
        progress = progress_line(simulation.step, last, system.settings.dt) if transport.rank == 0 else None
        simulation.warm_up()
        transport.barrier()
        start = perf_counter()
        simulation.run(n_steps, progress)
        wall = perf_counter() - start
        if progress is not None:
            progress(last)
        simulation.finish()
    digest = simulation.trajectory_hash()
    reports = transport.allgather(rank_report(simulation))
    if transport.rank == 0:
        _close(simulation, request, summarize(simulation, reports, n_steps, wall, digest), out)


def _close(simulation: Simulation, request: RunRequest, summary: dict[str, Any], out: Path) -> None:
    write_summary(out / "summary.json", summary)
    _say(text_summary(summary))
    _say(f"results in {out}")
    if request.json:
        print(json.dumps(summary))


@contextmanager
def _outputs(transport: Transport, system: System, out: Path) -> Iterator[list[Reporter]]:
    """Reporters of a run; rank 0 holds the files, the others know the intervals."""
    s, topology = system.settings, system.topology
    interval = s.nstxout_compressed or s.nstxout
    with ExitStack() as stack:
        if transport.rank != 0:
            yield _reporters(s.nstenergy, interval, _nothing, _nothing, _nothing)
            return
        (out / "run.mdp").write_text(to_mdp(s), encoding="utf-8")
        columns = (*energy_names(topology.terms), *RUN_NAMES)
        table = stack.enter_context(EnergyWriter(out / "energies.csv", columns))
        trajectory = None
        if interval:
            trajectory = stack.enter_context(
                DcdWriter(
                    out / "trajectory.dcd", topology.n_atoms, s.dt, interval, system.step, topology.title
                )
            )

        def write_frame(frame: Frame) -> None:
            assert trajectory is not None
            trajectory.write(frame.step, system.whole_positions(frame.x), system.user_box)

        def write_last(frame: Frame) -> None:
            write_gro(
                out / "final.gro",
                topology,
                system.whole_positions(frame.x),
                frame.v,
                system.user_box,
                f"{topology.title} t= {frame.time:.5f} step= {frame.step}",
            )

        yield _reporters(s.nstenergy, interval, table.write, write_frame, write_last)


def _reporters(nstenergy: int, interval: int, energies: Any, frame: Any, last: Any) -> list[Reporter]:
    reporters = [Reporter(nstenergy, energies=energies), Reporter(0, frame=last)]
    return reporters + ([Reporter(interval, frame=frame)] if interval else [])


def _nothing(*_: object) -> None:
    """What a reporter does on the ranks that hold no files: it is never called there."""


def _decisions(simulation: Simulation) -> str:
    """What was chosen, in a line or two."""
    transport, options, s = simulation.transport, simulation.options, simulation.system.settings
    plan = simulation.rank.domain.plan
    return (
        f"{simulation.system.topology.n_atoms} atoms, {transport.size} rank(s) as {simulation.grid}, "
        f"transport {transport.name} ({transport.path}), plan {plan.kind} with {len(plan.pulses)} pulse(s), "
        f"precision {options.precision}, device {simulation.rank.device_name} ({options.device_reason})\n"
        f"list cut-off {simulation.r_list:.3f} nm, nstlist {s.nstlist}, dt {s.dt:g} ps, {s.nsteps} steps"
    )


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
