"""Times of molecular dynamics on GPUs, for every rung in one launch: the target of ``pulsemd bench md``."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pulsemd.engine.gpu_control import control_of
from pulsemd.engine.options import PlanKind, Precision, RunOptions
from pulsemd.engine.simulation import Simulation
from pulsemd.engine.system import System, prepare_system
from pulsemd.halo import Transport, open_transport
from pulsemd.halo.rungs.ladder import open_rung
from pulsemd.io.gromacs.mdp import read_settings
from pulsemd.io.gromacs.system import read_system
from pulsemd.systems import build_system

if TYPE_CHECKING:
    from pulsemd.halo.rungs.world import GpuWorld

_WARM = 3
"""List lifetimes before the measured ones: the first two record graphs."""


@dataclass(frozen=True)
class MdBench:
    """What is measured.

    Parameters
    ----------
    systems : tuple of str
        Bundled liquids.
    atoms : tuple of int
    rungs : tuple of str
    plans : tuple of {'staged', 'direct'}
    graphs : tuple of bool
        Steps as CUDA graphs, or not, or both.
    nstlist : int
    lifetimes, repeats : int
        List lifetimes of a repeat, and repeats, of which the median is taken.
    check : int
        Steps in reproducible mode whose trajectory hash is reported; 0: none.
    alone : bool
        Also one GPU alone, for comparison.
    """

    systems: tuple[str, ...]
    atoms: tuple[int, ...]
    rungs: tuple[str, ...]
    plans: tuple[PlanKind, ...] = ("direct",)
    graphs: tuple[bool, ...] = (True,)
    nstlist: int = 100
    lifetimes: int = 5
    repeats: int = 5
    check: int = 200
    alone: bool = True


def liquid(name: str, n_atoms: int, nstlist: int) -> System:
    """A box of a bundled liquid with velocities of its temperature; the same wherever it is made."""
    with tempfile.TemporaryDirectory() as folder:
        box = build_system(name, n_atoms, Path(folder) / name)
        settings, _ = read_settings(box.parameters)
        settings = replace(settings, nstlist=nstlist, nstenergy=0, gen_seed=1, ld_seed=1)
        topology, table, found, settings = read_system(box.configuration, box.topology, settings, ())
    return prepare_system(topology, table, settings, found.positions, found.velocities, found.box)


def measure(world: GpuWorld, bench: MdBench) -> list[dict[str, Any]]:
    """All rows, in every process; the target of `launch_gpus`."""
    rows: list[dict[str, Any]] = []
    for name in bench.systems:
        for n_atoms in bench.atoms:
            system = liquid(name, n_atoms, bench.nstlist)
            for row in _rows(world, bench, system):
                rows.append({"system": name, "n_atoms": system.topology.n_atoms, **row})
    return rows


def _rows(world: GpuWorld, bench: MdBench, system: System) -> Iterator[dict[str, Any]]:
    if bench.alone:
        found = None
        if world.process == 0:
            with open_transport("loopback") as transport:
                found = _row(transport, system, bench, RunOptions(device="cuda"))
        yield world.gather(found)[0] or {}
    for plan in bench.plans:
        for rung in bench.rungs:
            with open_rung(world, rung) as gpu:
                for graph in bench.graphs:
                    options = RunOptions(
                        ranks=world.size,
                        plan=plan,
                        device="cuda",
                        ranks_per_gpu=world.ranks_per_gpu,
                        graph=graph,
                    )
                    row = _row(control_of(gpu), system, bench, options)
                    yield {**row, "n_gpus": world.n_processes, "plan": plan}


def _row(transport: Transport, system: System, bench: MdBench, options: RunOptions) -> dict[str, Any]:
    """One way to run: the hash first, then the times."""
    row = {"trajectory_hash": _hash(transport, system, bench.check, options)}
    simulation = Simulation(transport, system, options)
    simulation.warm_up()
    simulation.run(_WARM * bench.nstlist)
    steps = bench.lifetimes * bench.nstlist
    times, searches = [], []
    for _ in range(bench.repeats):
        before = simulation.timer.seconds.get("search", 0.0)
        transport.barrier()
        start = time.perf_counter()
        simulation.run(steps)
        times.append(1e6 * (time.perf_counter() - start) / steps)
        searches.append(1e6 * (simulation.timer.seconds.get("search", 0.0) - before) / steps)
    report = simulation.rank.graph_report()
    graph = report if isinstance(report, dict) else {}
    median, search = float(np.median(times)), float(np.median(searches))
    return row | {
        "device": simulation.rank.device_name.removeprefix("cuda: "),
        "n_gpus": 1,
        "n_ranks": transport.size,
        "grid": str(simulation.grid),
        "transport": transport.name,
        "path": transport.path,
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
        "host_blocking_waits": simulation.rank.host_waits_per_step,
    }


def _hash(transport: Transport, system: System, steps: int, options: RunOptions) -> str:
    """Beginning of the hash of the trajectory after some steps in reproducible mode."""
    if not steps:
        return ""
    exact: Precision = "reproducible"
    simulation = Simulation(transport, system, replace(options, precision=exact))
    simulation.run(steps)
    return (simulation.trajectory_hash() or "")[:16]
