"""Times of molecular dynamics on GPUs, for every rung in one launch: the target of ``pulsemd bench md``."""

from __future__ import annotations

import csv
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pulsemd.base.errors import DomainError, OutputError, PeerError, TransportError
from pulsemd.engine.gpu_control import control_of
from pulsemd.engine.gpu_fields import GRAPH_RUNGS
from pulsemd.engine.options import PlanKind, RunOptions
from pulsemd.engine.simulation import Simulation
from pulsemd.engine.system import System, prepare_system
from pulsemd.halo import Transport, open_transport
from pulsemd.halo.rungs.ladder import open_rung
from pulsemd.io.gromacs.mdp import read_settings
from pulsemd.io.gromacs.system import read_system
from pulsemd.kernels.nonbonded.spec import Precision
from pulsemd.report.trace import spans_of, typical_exposure, write_trace
from pulsemd.systems import build_system

if TYPE_CHECKING:
    from pulsemd.halo.rungs.world import GpuWorld

COLUMNS: Final = (
    "date", "commit", "device", "n_gpus", "n_ranks", "grid", "plan", "transport", "path", "precision", "system",
    "n_atoms", "nstlist", "steps", "us_per_step", "us_min", "us_max", "peer", "peer_us",
    "graph", "r_list", "us_searches", "us_between_searches", "graph_nodes", "critical_path", "host_blocking_waits",
    "us_traced", "us_exposed", "us_idle", "check_steps", "trajectory_hash",
)  # fmt: skip
"""Columns of the results: those of all benchmarks, then those of this one."""

_START = time.perf_counter()

_WARM = 3
"""List lifetimes before the measured ones where steps are graphs: the first two record them. Else one is enough."""


@dataclass(frozen=True)
class MdBench:
    """What is measured.

    Parameters
    ----------
    systems : tuple of str
        See `liquid`.
    atoms : tuple of int
    rungs : tuple of str
    plans : tuple of {'staged', 'direct'}
    grids : tuple of tuple of three int
        Cells along a, b, c: all that have as many cells as there are ranks; if none has, the grid is chosen.
    without_graphs : bool
        Rungs whose steps are CUDA graphs also without them.
    nstlist : tuple of int
        Steps between two searches.
    lifetimes, repeats : int
        List lifetimes of a repeat, and repeats, of which the median is taken; 0 repeats: no times.
    check : int
        Steps in reproducible mode whose trajectory hash is reported; 0: none.
    trace : bool
        Also a traced run, for the time in which a GPU waits for an exchange.
    alone : bool
        Also one GPU alone, for comparison.
    out : Path, optional
        Folder to which each row is added as soon as it is known, and of the traces.
    about : dict
        Columns that are the same in all rows.
    """

    systems: tuple[str, ...]
    atoms: tuple[int, ...]
    rungs: tuple[str, ...]
    plans: tuple[PlanKind, ...] = ("direct",)
    grids: tuple[tuple[int, int, int], ...] = ()
    without_graphs: bool = False
    nstlist: tuple[int, ...] = (100,)
    lifetimes: int = 5
    repeats: int = 5
    check: int = 200
    trace: bool = False
    alone: bool = True
    out: Path | None = None
    about: dict[str, str] = field(default_factory=dict)


def liquid(name: str, n_atoms: int, nstlist: int) -> System:
    """A box of a bundled liquid with velocities of its temperature; the same wherever it is made.

    ``name`` may end in '-pme': with a mesh of 0.125 nm in place of the reaction field.
    """
    bundled = name.removesuffix("-pme")
    with tempfile.TemporaryDirectory() as folder:
        box = build_system(bundled, n_atoms, Path(folder) / bundled)
        settings, _ = read_settings(box.parameters)
        settings = replace(settings, nstlist=nstlist, nstenergy=0, gen_seed=1, ld_seed=1)
        if name != bundled:
            settings = replace(settings, coulombtype="pme", fourierspacing=0.125)
        topology, table, found, settings = read_system(box.configuration, box.topology, settings, ())
    return prepare_system(topology, table, settings, found.positions, found.velocities, found.box)


def measure(world: GpuWorld, bench: MdBench) -> list[dict[str, Any]]:
    """All rows, in every process; the target of `launch_gpus`.

    Raises
    ------
    OutputError
        If a row cannot be written.
    """
    rows: list[dict[str, Any]] = []
    for name in bench.systems:
        for n_atoms in bench.atoms:
            _tell(world.process, f"building {name}, {n_atoms} atoms")
            system = liquid(name, n_atoms, bench.nstlist[0])
            for found in _rows(world, replace(bench, systems=(name,)), system):
                rows.append(dict.fromkeys(COLUMNS, "") | bench.about | found)
                rows[-1] |= {"system": name, "n_atoms": system.topology.n_atoms}
                if world.process == 0:
                    _keep(bench, rows[-1], world.n_gpus)
    return rows


def _tell(first: int, text: str) -> None:
    """Say, where ``first`` is 0, what begins and after how many seconds, so that nobody waits without a word."""
    if first == 0:
        print(f"[{time.perf_counter() - _START:6.1f} s] {text}", file=sys.stderr, flush=True)


def _keep(bench: MdBench, row: dict[str, Any], n_gpus: int) -> None:
    """Say and write what is known: a launch that fails later loses nothing."""
    shown = (
        "system",
        "n_atoms",
        "nstlist",
        "n_ranks",
        "transport",
        "path",
        "graph",
        "us_per_step",
        "us_exposed",
    )
    print(*(row[name] for name in (*shown, "trajectory_hash")), file=sys.stderr, flush=True)
    if bench.out is None:
        return
    name = (
        f"md__{'-'.join(bench.systems)}__{str(row['device']).replace(' ', '-')}x{n_gpus}__{row['commit']}.csv"
    )
    try:
        with (bench.out / name).open("a", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS)
            if file.tell() == 0:
                writer.writeheader()
            writer.writerow(row)
    except OSError as error:
        raise OutputError(f"{bench.out / name}: {error.strerror}; choose another -o") from error


def _rows(world: GpuWorld, bench: MdBench, system: System) -> Iterator[dict[str, Any]]:
    here = {"device": world.device_name, "n_gpus": world.n_gpus, "n_ranks": world.size}
    systems = [
        replace(system, settings=replace(system.settings, nstlist=nstlist)) for nstlist in bench.nstlist
    ]
    for each in systems if bench.alone else ():
        yield here | {"n_gpus": 1, "n_ranks": 1} | _alone(world, bench, each)
    for plan in bench.plans:
        for rung in bench.rungs:
            named = here | {"plan": plan, "transport": rung}
            _tell(world.process, f"starting {rung}, {plan} plan, {system.topology.n_atoms} atoms")
            try:
                with open_rung(world, rung) as gpu:
                    for each, options in product(systems, _ways(world, bench, rung, plan)):
                        yield named | _way(control_of(gpu), each, bench, options)
            except TransportError as error:
                if isinstance(error, PeerError):
                    raise
                yield named | {"path": f"failed: {error}"}


def _alone(world: GpuWorld, bench: MdBench, system: System) -> dict[str, Any]:
    """One GPU by itself, while the others wait."""
    found: dict[str, Any] = {}
    if world.process == 0:
        with open_transport("loopback") as transport:
            found = _row(transport, system, replace(bench, trace=False), RunOptions(device="cuda"))
    return world.gather(found)[0]


def _ways(world: GpuWorld, bench: MdBench, rung: str, plan: PlanKind) -> Iterator[RunOptions]:
    """How a rung is run."""
    grids: list[tuple[int, int, int] | None] = [grid for grid in bench.grids if prod(grid) == world.size]
    graphs = (True, False) if bench.without_graphs and rung in GRAPH_RUNGS else (True,)
    for grid, graph in product(grids or [None], graphs):
        yield RunOptions(
            ranks=world.size,
            grid=grid,
            plan=plan,
            device="cuda",
            ranks_per_gpu=world.ranks_per_gpu,
            graph=graph,
        )


def _way(transport: Transport, system: System, bench: MdBench, options: RunOptions) -> dict[str, Any]:
    """A row, which says why if the box cannot be cut like this."""
    try:
        return _row(transport, system, bench, options)
    except DomainError as error:
        grid = "x".join(map(str, options.grid)) if options.grid else ""
        return {"grid": grid, "nstlist": system.settings.nstlist, "path": f"failed: {error}"}


def _row(transport: Transport, system: System, bench: MdBench, options: RunOptions) -> dict[str, Any]:
    """One way to run: the hash first, then the times. What is not in the caches is compiled when it is first needed."""
    row: dict[str, Any] = {"transport": transport.name, "path": transport.path}
    if bench.check:
        _tell(transport.rank, f"{transport.name}: {bench.check} steps in reproducible mode")
        row |= _hash(transport, system, bench.check, options)
    if bench.repeats:
        row |= _times(transport, system, bench, options)
    if bench.trace:
        _tell(transport.rank, f"{transport.name}: a traced run")
        row |= _exposure(transport, system, bench, options)
    return row


def _hash(transport: Transport, system: System, steps: int, options: RunOptions) -> dict[str, Any]:
    """Beginning of the hash of the trajectory after some steps in reproducible mode."""
    exact: Precision = "reproducible"
    simulation = Simulation(transport, system, replace(options, precision=exact))
    simulation.run(steps)
    found = (simulation.trajectory_hash() or "")[:16]
    return {
        "grid": str(simulation.grid),
        "nstlist": simulation.nstlist,
        "precision": exact,
        "check_steps": steps,
        "trajectory_hash": found,
    }


def _times(transport: Transport, system: System, bench: MdBench, options: RunOptions) -> dict[str, Any]:
    _tell(transport.rank, f"{transport.name}: warming up")
    simulation = _warm(transport, system, options)
    steps = bench.lifetimes * simulation.nstlist
    times, searches = [], []
    waits = _host_waits(transport)
    _tell(transport.rank, f"{transport.name}: {bench.repeats} times {steps} steps")
    for _ in range(bench.repeats):
        before = simulation.timer.seconds.get("search", 0.0)
        transport.barrier()
        start = time.perf_counter()
        simulation.run(steps)
        times.append(1e6 * (time.perf_counter() - start) / steps)
        searches.append(1e6 * (simulation.timer.seconds.get("search", 0.0) - before) / steps)
    waits = _host_waits(transport) - waits
    report = simulation.rank.graph_report()
    graph = report if isinstance(report, dict) else {}
    median, search = float(np.median(times)), float(np.median(searches))
    return {
        "grid": str(simulation.grid),
        "precision": options.precision,
        "nstlist": simulation.nstlist,
        "r_list": round(simulation.r_list, 4),
        "steps": steps,
        "us_per_step": round(median, 2),
        "us_min": round(min(times), 2),
        "us_max": round(max(times), 2),
        "us_searches": round(search, 2),
        "us_between_searches": round(median - search, 2),
        "graph": int(bool(graph)),
        "graph_nodes": graph.get("nodes", ""),
        "critical_path": graph.get("critical_path", ""),
        "host_blocking_waits": round(waits / (bench.repeats * steps), 2),
    }


def _warm(transport: Transport, system: System, options: RunOptions) -> Simulation:
    simulation = Simulation(transport, system, options)
    simulation.warm_up()
    graphs = options.graph and transport.name in ("loopback", *GRAPH_RUNGS)
    simulation.run((_WARM if graphs else 1) * simulation.nstlist)
    return simulation


def _host_waits(transport: Transport) -> int:
    """Times that the host has waited inside exchanges so far."""
    return int(getattr(getattr(transport, "gpu", None), "host_waits", 0))


def _exposure(transport: Transport, system: System, bench: MdBench, options: RunOptions) -> dict[str, Any]:
    """Of a traced run, us of a step: its length, the exposed part of exchanges, and what no kernel computes in."""
    simulation = _warm(transport, system, replace(options, trace=True))
    traces = transport.allgather(simulation.trace())
    spans = spans_of(traces)
    found, seen = typical_exposure(spans), any(span.exchanges for span in spans)
    if bench.out is not None and transport.rank == 0:
        graph = isinstance(simulation.rank.graph_report(), dict)
        about = {
            "system": f"{bench.systems[0]}, {system.topology.n_atoms} atoms",
            "ranks": transport.size,
            "grid": str(simulation.grid),
            "transport": transport.name + (", one graph" if graph else ""),
            "device": simulation.rank.device_name,
        }
        write_trace(bench.out / _trace_name(bench, system, transport, graph), traces, about)
    return {
        "us_traced": round(found.step, 2),
        "us_exposed": round(found.exposed, 2) if seen else "",  # where kernels of forces wait by themselves
        "us_idle": round(found.idle, 2),
    }


def _trace_name(bench: MdBench, system: System, transport: Transport, graph: bool) -> str:
    size = f"{bench.systems[0]}-{system.topology.n_atoms}__{transport.size}-ranks"
    how = f"__nstlist-{system.settings.nstlist}" * (len(bench.nstlist) > 1) + "-graph" * graph
    return f"trace__{size}__{transport.name}{how}.json"
