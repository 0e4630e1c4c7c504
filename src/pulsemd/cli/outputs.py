"""The files of a run: who writes them, when, and how they go on after a restart."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsemd.base.errors import InputError
from pulsemd.cli.request import TRAJECTORIES, RunRequest, settings_of_run
from pulsemd.engine.energies import RUN_NAMES
from pulsemd.engine.reporters import Frame, Reporter
from pulsemd.engine.system import System
from pulsemd.halo import Transport
from pulsemd.io.energies import EnergyWriter, write_xvg
from pulsemd.io.gromacs.gro_writer import write_gro
from pulsemd.io.output import replacing, write_whole
from pulsemd.io.trajectory import DcdWriter
from pulsemd.io.xdr import XdrWriter


@dataclass(frozen=True)
class Outputs:
    """Reporters of a run, equal on all ranks, and what rank 0 does with the files.

    Parameters
    ----------
    reporters : list of Reporter
    crashed : function of the last frame, writing it; returns what to say
    sync : function, makes the files safe on the disk
    """

    reporters: list[Reporter]
    crashed: Callable[[Frame], str]
    sync: Callable[[], None]


@contextmanager
def open_outputs(transport: Transport, system: System, request: RunRequest, out: Path) -> Iterator[Outputs]:
    """Reporters of a run; rank 0 holds the files, the others know the intervals."""
    s = system.settings
    interval = s.nstxout_compressed or s.nstxout
    if transport.rank != 0:
        yield Outputs(
            _reporters(s.nstenergy, interval, _nothing, _nothing, _nothing), _nothing_to_say, _nothing
        )
        return
    with ExitStack() as stack:
        before = system.step if request.append else None
        trajectory = None
        if interval:
            trajectory = _open_trajectory(system, request, out, interval, before)
            stack.enter_context(trajectory)
        columns = (*system.energy_names, *RUN_NAMES, *system.temperatures)
        table = stack.enter_context(EnergyWriter(out / "energies.csv", columns, before, _line_due(system)))
        write_whole(out / "run.mdp", [settings_of_run(request, s)])

        def write_frame(frame: Frame) -> None:
            assert trajectory is not None
            some = slice(None) if request.atoms is None else request.atoms
            positions = _positions(system, request, frame)[some]
            trajectory.write(frame.step, positions, frame.cell.user_box, frame.v[some])

        def write_last(frame: Frame) -> None:
            write_positions(out / "final.gro", system, frame, frame.v)
            if request.xvg:
                write_xvg(out / "energies.xvg", table.path, system.topology.title)

        def write_crash(frame: Frame) -> str:
            write_positions(out / "crash.gro", system, frame, None)
            return f"positions of step {frame.step}, the last search, are in {out / 'crash.gro'}"

        def sync() -> None:
            table.sync()
            if trajectory is not None:
                trajectory.sync()

        reporters = _reporters(s.nstenergy, interval, table.write, write_frame, write_last)
        yield Outputs(reporters, write_crash, sync)


def _line_due(system: System) -> int:
    """Step of the last line of energies before a checkpoint; -1: there is none."""
    interval = 0 if system.continuation is None else system.continuation.nstenergy
    last = (system.step - 1) // interval * interval if interval else -1
    return last if last >= system.settings.init_step else -1


def _open_trajectory(
    system: System, request: RunRequest, out: Path, interval: int, before: int | None
) -> DcdWriter | XdrWriter:
    s, topology = system.settings, system.topology
    n_atoms = topology.n_atoms if request.atoms is None else len(request.atoms)
    first = -(-system.step // interval) * interval
    if before is not None:
        _check_kind(out, request.trajectory)
    if request.trajectory != "dcd":
        path = out / f"trajectory.{request.trajectory}"
        return XdrWriter(path, request.trajectory, n_atoms, s.dt, s.tinit, interval, before)
    return DcdWriter(out / "trajectory.dcd", n_atoms, s.dt, interval, first, topology.title, before)


def _check_kind(out: Path, asked: str) -> None:
    """Refuse to go on with another kind of trajectory than the run has.

    Raises
    ------
    InputError
    """
    there = [kind for kind in TRAJECTORIES if (out / f"trajectory.{kind}").exists()]
    if there and asked not in there:
        raise InputError(
            f"is to go on as trajectory.{asked}; give --trajectory {there[0]}, or another -o",
            out / f"trajectory.{there[0]}",
        )


def _positions(system: System, request: RunRequest, frame: Frame) -> NDArray[np.float64]:
    """Positions of all atoms as asked for: molecules whole, or unwrapped."""
    now = system.in_cell(frame.cell)
    if request.positions == "unwrapped":
        assert frame.image is not None
        return now.unwrapped_positions(frame.x, frame.image)
    return now.whole_positions(frame.x)


def write_positions(path: Path, system: System, frame: Frame, v: NDArray[np.float32] | None) -> None:
    """Write a frame as a .gro file, with these velocities or without."""
    now, title = system.in_cell(frame.cell), f"{system.topology.title} t= {frame.time:.5f} step= {frame.step}"
    with replacing(path) as temporary:
        write_gro(temporary, now.topology, now.whole_positions(frame.x), v, now.user_box, title)


def _reporters(nstenergy: int, interval: int, energies: Any, frame: Any, last: Any) -> list[Reporter]:
    reporters = [Reporter(nstenergy, energies=energies), Reporter(0, frame=last)]
    return reporters + ([Reporter(interval, frame=frame)] if interval else [])


def _nothing(*_: object) -> None:
    """What a reporter does on the ranks that hold no files: it is never called there."""


def _nothing_to_say(_: Frame) -> str:
    return ""
