"""Time of molecular dynamics of rigid water on several GPUs, on every rung, in one launch; searches included.

    python benchmarks/bench_md_gpus.py --out benchmarks/results [--gpus 2] [--ranks-per-gpu 1] [--atoms 11000 45000]

The rungs of a size alternate. First every rung runs `--check` steps in reproducible mode and the hash of the trajectory
is printed: all must have the same. The columns after the common ones: milliseconds of a search with its waits, and the
time of a step outside of searches. The row of one GPU comes from ``bench_md_gpu.py``.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from bench_md_gpu import commit, water_system

from pulsemd.engine.gpu_control import control_of
from pulsemd.engine.options import RunOptions
from pulsemd.engine.simulation import Simulation
from pulsemd.halo import launch_gpus
from pulsemd.halo.rungs.ladder import GPU_RUNGS, open_rung

COLUMNS: Final = (
    "date", "commit", "device", "n_gpus", "n_ranks", "grid", "plan", "transport", "path", "precision", "system",
    "n_atoms", "nstlist", "steps", "us_per_step", "us_min", "us_max", "peer", "peer_us",
    "graph", "r_list", "search_ms", "us_between_searches", "graph_nodes", "critical_path", "trajectory_hash",
)  # fmt: skip


@dataclass(frozen=True)
class MdBench:
    """What is measured."""

    atoms: tuple[int, ...]
    rungs: tuple[str, ...]
    plans: tuple[str, ...]
    graphs: tuple[bool, ...]
    nstlist: int
    lifetimes: int
    repeats: int
    check: int
    seconds: float


def measure(world: Any, bench: MdBench) -> list[dict[str, Any]]:
    """All rows, in every process; the target of `launch_gpus`."""
    rows: list[dict[str, Any]] = []
    for n_atoms in bench.atoms:
        system = water_system(n_atoms, bench.nstlist)
        for plan in bench.plans:
            for rung in bench.rungs:
                with open_rung(world, rung) as transport:
                    for graph in bench.graphs:
                        rows.append(_row(world, transport, system, plan, graph, bench))
                        if world.process == 0:
                            print(*(f"{k}={v}" for k, v in rows[-1].items() if v != ""), flush=True)
    return rows


def _simulation(
    world: Any, transport: Any, system: Any, precision: Any, plan: Any, graph: bool
) -> Simulation:
    options = RunOptions(
        ranks=world.size,
        plan=plan,
        precision=precision,
        device="cuda",
        ranks_per_gpu=world.ranks_per_gpu,
        graph=graph,
    )
    return Simulation(control_of(transport), system, options)


def _row(world: Any, transport: Any, system: Any, plan: str, graph: bool, bench: MdBench) -> dict[str, Any]:
    """One rung: the hash first, then the times."""
    digest = ""
    if bench.check:
        checked = _simulation(world, transport, system, "reproducible", plan, graph)
        checked.run(bench.check)
        digest = checked.trajectory_hash() or ""
    simulation = _simulation(world, transport, system, "fast", plan, graph)
    simulation.warm_up()
    steps = bench.lifetimes * bench.nstlist
    simulation.run(3 * bench.nstlist)
    times, searches = [], []
    begin = time.perf_counter()
    for _ in range(bench.repeats):
        before = simulation.timer.seconds.get("search", 0.0)
        world.meet()
        start = time.perf_counter()
        simulation.run(steps)
        times.append((time.perf_counter() - start) * 1e6 / steps)
        searches.append((simulation.timer.seconds.get("search", 0.0) - before) / bench.lifetimes)
        if max(world.gather(time.perf_counter() - begin)) > bench.seconds:
            break
    report = simulation.rank.graph_report()
    nodes = report if isinstance(report, dict) else {}
    median, search = float(np.median(times)), float(np.median(searches))
    return dict.fromkeys(COLUMNS, "") | {
        "date": datetime.date.today().isoformat(),
        "commit": commit(),
        "device": world.device.name,
        "n_gpus": world.n_processes,
        "n_ranks": world.size,
        "grid": str(simulation.grid),
        "plan": plan,
        "transport": transport.name,
        "path": transport.path,
        "precision": "fast",
        "system": "water",
        "n_atoms": system.topology.n_atoms,
        "nstlist": bench.nstlist,
        "steps": steps,
        "us_per_step": f"{median:.2f}",
        "us_min": f"{min(times):.2f}",
        "us_max": f"{max(times):.2f}",
        "graph": int(bool(nodes)),
        "r_list": f"{simulation.r_list:.4f}",
        "search_ms": f"{1e3 * search:.2f}",
        "us_between_searches": f"{median - 1e6 * search / bench.nstlist:.2f}",
        "graph_nodes": nodes.get("nodes", ""),
        "critical_path": nodes.get("critical_path", ""),
        "trajectory_hash": digest[:16],
    }


def main() -> None:
    """Measure and write ``md_gpus__water__DEVICExN__RANKSranks__COMMIT.csv``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--gpus", type=int, default=2)
    parser.add_argument("--ranks-per-gpu", type=int, default=1)
    parser.add_argument("--atoms", type=int, nargs="+", default=[11_000, 45_000, 90_000, 180_000, 720_000])
    parser.add_argument("--transport", nargs="+", choices=GPU_RUNGS, default=list(GPU_RUNGS))
    parser.add_argument("--plan", nargs="+", choices=("staged", "direct"), default=["staged"])
    parser.add_argument("--no-graph", action="store_true", help="also without graphs")
    parser.add_argument("--nstlist", type=int, default=100)
    parser.add_argument("--lifetimes", type=int, default=5, help="list lifetimes of one repeat")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--check", type=int, default=200, help="steps of the hash; 0: none")
    parser.add_argument("--seconds", type=float, default=60.0, help="no repeat of a rung begins after these")
    options = parser.parse_args()
    from bench_md_gpus import MdBench as Payload  # by the name under which the processes find it

    bench = Payload(
        tuple(options.atoms),
        tuple(options.transport),
        tuple(options.plan),
        (True, False) if options.no_graph else (True,),
        options.nstlist,
        options.lifetimes,
        options.repeats,
        options.check,
        options.seconds,
    )
    rows = launch_gpus(
        options.gpus, "bench_md_gpus:measure", bench, transport=None, ranks_per_gpu=options.ranks_per_gpu
    )
    options.out.mkdir(parents=True, exist_ok=True)
    device, ranks = rows[0]["device"].lower().replace(" ", "-"), rows[0]["n_ranks"]
    path = options.out / f"md_gpus__water__{device}x{options.gpus}__{ranks}ranks__{commit()}.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
    print(path)


if __name__ == "__main__":
    main()
