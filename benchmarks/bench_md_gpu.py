"""Time of molecular dynamics of rigid water on one GPU, averaged over whole list lifetimes, searches included.

    python benchmarks/bench_md_gpu.py --out FOLDER [--atoms 11000 90000] [--dhfr FOLDER] [--nstlist 20] [--pme]

Reaction field, or PME with a mesh of 0.125 nm and splines of order 4, with a cut-off of 1.0 nm, 2 fs, v-rescale, as the
bundled box. Precisions alternate. The columns after the common ones split a step: times of the device for one launch
of each kernel (recorded as a graph, so the host does not count), the time of a search with its waits, and what the host
spends on a step outside of searches, by the clock and as processor time of its thread, once all graphs are recorded.
``--dhfr`` names a folder with dhfr.gro.gz and dhfr.top.gz, a protein in water, for one more row.
"""

from __future__ import annotations

import argparse
import datetime
import gzip
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from result_rows import COLUMNS, current_commit, write_rows

from pulsemd.engine.coupling import StepFlags
from pulsemd.engine.gpu_steps import PRUNE_INTERVAL
from pulsemd.engine.options import RunOptions
from pulsemd.engine.simulation import Simulation
from pulsemd.engine.system import System, prepare_system
from pulsemd.halo import open_transport
from pulsemd.io.gromacs.mdp import read_settings
from pulsemd.io.gromacs.system import read_system
from pulsemd.systems import build_system, system_files

_COLUMNS: Final = (
    *COLUMNS,
    *("r_list", "r_inner", "prune_interval", "host_wall_us", "host_cpu_us", "search_us", "exclusions_us"),
    *("pairs_us", "prune_us", "bonded_us", "lattice_us", "spread_us", "potential_us", "gather_us"),
    *("move_us", "kinetic_us", "mib_on_device", "graph_steps", "graph_nodes", "critical_path"),
    *("tiles", "pairs_floor_us"),
)
NSTLIST: Final = 20
"""That of the bundled box."""
SIZES: Final = (11_000, 45_000, 90_000, 180_000, 360_000, 720_000)
PME: Final = {"coulombtype": "pme", "fourierspacing": 0.125}
REPEATS: Final = 5
LAUNCHES: Final = 20
INSTRUCTIONS: Final = 28
"""Of a tile's pairs, see docs/explanation/gpu_kernels.md."""


def water_system(n_atoms: int, nstlist: int, **options: Any) -> System:
    """A box of water built from the bundled one, with velocities of 300 K; ``options`` replace settings."""
    with tempfile.TemporaryDirectory() as folder:
        box = build_system("water", n_atoms, Path(folder) / "water")
        settings, _ = read_settings(box.parameters)
        settings = replace(settings, nstlist=nstlist, nstenergy=0, gen_seed=1, ld_seed=1, **options)
        topology, table, configuration, settings = read_system(box.configuration, box.topology, settings, ())[
            :4
        ]
    return prepare_system(
        topology, table, settings, configuration.positions, configuration.velocities, configuration.box
    )


def dhfr_system(folder: Path, **options: Any) -> System:
    """DHFR in water with bonds to hydrogens constrained, and velocities of 300 K."""
    with tempfile.TemporaryDirectory() as made:
        files = [Path(made) / name for name in ("dhfr.gro", "dhfr.top", "run.mdp")]
        for file in files[:2]:
            file.write_bytes(gzip.decompress((folder / f"{file.name}.gz").read_bytes()))
        text = system_files("water").parameters.read_text()
        files[2].write_text(re.sub(r"(?m)^constraints .*", "constraints = h-bonds", text))
        settings = replace(read_settings(files[2])[0], nstenergy=0, gen_seed=1, ld_seed=1, **options)
        topology, table, configuration, settings = read_system(files[0], files[1], settings, ())[:4]
    return prepare_system(
        topology, table, settings, configuration.positions, configuration.velocities, configuration.box
    )


def timed(work: Callable[[], None]) -> float:
    """Wall time of a call in microseconds."""
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1e6


def on_device(rank: Any, launch: Callable[[], None]) -> float:
    """Time of one launch on the device, us: the median over replays of a graph of many."""
    device = rank.device
    launch()
    replay = device.capture(lambda: [launch() for _ in range(LAUNCHES)])
    times = []
    for _ in range(7):
        first = device.event()
        replay()
        times.append(device.elapsed(first, device.event()) * 1e6 / LAUNCHES)
    return float(np.median(times[1:]))


def parts(simulation: Simulation) -> dict[str, float]:
    """The split of a step; leaves the simulation unusable, as its atoms are moved by old forces."""
    rank: Any = simulation.rank
    rank.begin_step(StepFlags(simulation.step))
    update, pairs, forces = rank._update, rank._pairs, rank.f
    searches = []
    for _ in range(6):
        rank.wait()
        searches.append(timed(lambda: (rank.search(), rank.wait())))
    rank.begin_step(StepFlags(simulation.step))
    found = {
        "search_us": float(np.median(searches[1:])),
        "prune_us": on_device(rank, pairs.prune),
        "pairs_us": on_device(rank, lambda: pairs.forces(forces)),
    }
    if rank._bonded.has_work(energies=False):
        found["bonded_us"] = on_device(rank, lambda: rank._bonded.add_forces(False))
    found["exclusions_us"] = on_device(rank, lambda: rank._exclusions.start_forces(False, False))
    if rank._lattice is not None:
        found |= lattice_parts(rank)
    # the forces are those of exclusions alone now, small enough for the many moves that follow
    return found | {
        "kinetic_us": on_device(rank, lambda: update.sum_kinetic(0, False, True)),
        "move_us": on_device(rank, lambda: update.move(0, False)),
    }


def lattice_parts(rank: Any) -> dict[str, float]:
    """Times of the lattice sum, alone on the device: ``potential_us`` from spreading to the potential."""
    lattice, device = rank._lattice, rank.device

    def beside(*launches: Callable[[], None]) -> Callable[[], None]:
        def work() -> None:
            device.fork(lattice.stream)
            for launch in launches:
                launch()
            device.join(lattice.stream)

        return work

    return {
        "lattice_us": on_device(rank, beside(lambda: lattice.find_potential(False), lattice.add_forces)),
        "spread_us": on_device(rank, beside(lattice.spread)),
        "potential_us": on_device(rank, beside(lambda: lattice.find_potential(False))),
        "gather_us": on_device(rank, beside(lattice.add_forces)),
    }


def tiles_evaluated(simulation: Simulation) -> int:
    """Tiles of 8 x 4 slots that the pair kernel evaluates now."""
    rank: Any = simulation.rank
    pairs = rank._pairs.pairs.lists[0]
    kept = pairs.kept if rank._r_inner is not None else (pairs.entries, pairs.groups, pairs.masks)
    entries, masks = rank.device.to_host(kept[0]), rank.device.to_host(kept[2])[:, 0].reshape(-1, 2)
    counts, (largest, others) = rank._pairs.pairs.counts.entries_by_size, pairs.entry_room
    starts = [largest + size * others for size in range(len(counts) - 1)] + [0]
    used = np.concatenate([entries[first : first + n] for first, n in zip(starts, counts, strict=True)])
    end = np.zeros(len(masks) + 1, np.int64)
    np.add.at(end, used[:, 1], 1)
    np.add.at(end, used[:, 2], -1)
    listed = masks[np.cumsum(end[:-1]) > 0]
    return int(np.bitwise_count(listed).sum())


def pairs_floor(device: Any, tiles: int) -> float:
    """Time, us, in which four schedulers of each multiprocessor issue the instructions of so many tiles."""
    clock = 1e3 * device.core.Device(device.ordinal).properties.clock_rate  # Hz
    return 1e6 * INSTRUCTIONS * tiles / (4 * device.n_multiprocessors * clock)


def measure(
    name: str, system: System, raise_nstlist: bool, lifetimes: int, precisions: list[str], graph: bool
) -> list[dict[str, Any]]:
    """Precisions of one system, alternated; one row each."""
    runs: dict[str, tuple[Simulation, list[float]]] = {}
    for precision in precisions:
        options = RunOptions(device="cuda", precision=precision, graph=graph, raise_nstlist=raise_nstlist)
        simulation = Simulation(open_transport("loopback"), system, options)
        simulation.warm_up()
        simulation.run(3 * simulation.nstlist)
        simulation.timer.reset()
        runs[precision] = simulation, []
    for _ in range(REPEATS):
        for simulation, times in runs.values():
            steps = lifetimes * simulation.nstlist
            times.append(timed(lambda run=simulation.run, n=steps: run(n)) / steps)
    return [
        row(name, simulation, precision, lifetimes * simulation.nstlist, times)
        for precision, (simulation, times) in runs.items()
    ]


def row(name: str, simulation: Simulation, precision: str, steps: int, times: list[float]) -> dict[str, Any]:
    """One line of the results."""
    rank: Any = simulation.rank
    wall, cpu = (1e6 * t / (REPEATS * steps) for t in (simulation.timer.host_wall, simulation.timer.host_cpu))
    print(
        {phase: f"{1e6 * t / (REPEATS * steps):.2f}" for phase, t in simulation.timer.seconds.items()},
        flush=True,
    )
    energies = simulation.evaluate()
    print(
        f"    {precision}: {energies['temperature']:.1f} K, potential {energies['potential']:.1f} kJ/mol",
        flush=True,
    )
    median = float(np.median(times))
    inner = rank._r_inner
    values: dict[str, Any] = {
        "date": datetime.date.today().isoformat(),
        "commit": current_commit(),
        "device": rank.device.name,
        "n_gpus": 1,
        "n_ranks": 1,
        "grid": "1x1x1",
        "plan": "staged",
        "transport": simulation.transport.name,
        "path": simulation.transport.path,
        "precision": precision,
        "system": f"{name}, PME" if rank._lattice is not None else name,
        "n_atoms": simulation.system.topology.n_atoms,
        "nstlist": simulation.nstlist,
        "steps": steps,
        "us_per_step": f"{median:.2f}",
        "us_min": f"{min(times):.2f}",
        "us_max": f"{max(times):.2f}",
        "r_list": f"{simulation.r_list:.4f}",
        "r_inner": "" if inner is None else f"{inner:.4f}",
        "prune_interval": "" if inner is None else PRUNE_INTERVAL,
    }
    graph = rank.graph_report()
    if isinstance(graph, dict):
        values |= {"graph_steps": graph["steps"], "graph_nodes": graph["nodes"]}
        values |= {"critical_path": graph["critical_path"]}
    values |= {"host_wall_us": f"{wall:.3f}", "host_cpu_us": f"{cpu:.3f}"}
    tiles = tiles_evaluated(simulation)
    values |= {"tiles": tiles, "pairs_floor_us": f"{pairs_floor(rank.device, tiles):.2f}"}
    split = {part: f"{value:.2f}" for part, value in parts(simulation).items()}
    pool = rank.device.xp.get_default_memory_pool()
    return (
        dict.fromkeys(_COLUMNS, "") | values | split | {"mib_on_device": f"{pool.used_bytes() / 2**20:.1f}"}
    )


def main() -> None:
    """Measure and write ``md_gpu__water__DEVICEx1__COMMIT.csv``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--atoms", type=int, nargs="*", default=SIZES)
    parser.add_argument("--dhfr", type=Path)
    parser.add_argument("--nstlist", type=int, help="default: as a run chooses")
    parser.add_argument("--lifetimes", type=int, default=10, help="list lifetimes of one repeat")
    parser.add_argument("--precision", nargs="+", default=("fast", "reproducible"))
    parser.add_argument("--pme", action="store_true", help="in place of the reaction field")
    parser.add_argument("--no-graph", action="store_true", help="launch the kernels one by one")
    options = parser.parse_args()
    how = (options.nstlist is None, options.lifetimes, options.precision, not options.no_graph)
    lines: list[dict[str, Any]] = []
    for name, system in systems(options):
        for line in measure(name, system, *how):
            lines.append(line)
            print(*(f"{key}={value}" for key, value in line.items() if value != ""), flush=True)
            path = write_rows(options.out, "md_gpu", "water-pme" if options.pme else "water", lines)
    print(path)


def systems(options: argparse.Namespace) -> Iterator[tuple[str, System]]:
    """What to measure, by name."""
    changes = {"nstlist": options.nstlist or NSTLIST, **(PME if options.pme else {})}
    if options.dhfr is not None:
        yield "dhfr", dhfr_system(options.dhfr, **changes)
    for n_atoms in options.atoms:
        yield "water", water_system(n_atoms, **changes)


if __name__ == "__main__":
    main()
