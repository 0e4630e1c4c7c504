"""Time of a step with PME where a coarser mesh goes with a longer cut-off, by one factor, at about the same error.

    python benchmarks/bench_pme_cutoff_gpu.py --out FOLDER [--gpus 2] [--atoms 24000 180000] [--dhfr FOLDER]

This is what ``mdrun -tunepme`` of GROMACS looks for. Here both cut-offs grow, as the pair kernel has only one: a kernel
with another for Lennard-Jones would have to do at least as much. The first row of a system is the mesh of 0.125 nm with
1.0 nm. One GPU has parts of a step too, each alone on the device.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from bench_md_gpu import PME, dhfr_system, parts
from result_rows import timed_row, write_rows

from pulsemd.cli.md_bench import liquid
from pulsemd.engine.gpu_control import control_of
from pulsemd.engine.lattice import system_mesh
from pulsemd.engine.options import RunOptions
from pulsemd.engine.simulation import Simulation
from pulsemd.engine.system import System
from pulsemd.halo import launch_gpus, open_transport
from pulsemd.halo.rungs.ladder import open_rung
from pulsemd.halo.rungs.world import GpuWorld
from pulsemd.kernels.pme.mesh import mesh_size

ATOMS: Final = (24_000, 45_000, 180_000)
NSTLIST: Final = 100
REPEATS: Final = 7
LIFETIMES: Final = 3
LARGEST: Final = 1.35
"""Factor of the cut-off at most."""


def candidates(system: System) -> Iterator[tuple[float, System]]:
    """Factors of the cut-off, and the system with that and its mesh, the given one first."""
    first = system_mesh(system, on_gpu=True).shape
    factors = {1.0}
    for points in range(first[0], int(first[0] / LARGEST), -1):
        length = float(np.linalg.norm(system.first_box[0]))
        chosen = mesh_size(system.first_box, length / points, system.settings.pme_order, skip_13=True)
        factors.add(first[0] / chosen[0])
    for factor in sorted(factors):
        points_of = [int(n / factor + 0.5) for n in first]
        cutoff = system.settings.rcoulomb * factor
        given = dict(zip(("fourier_nx", "fourier_ny", "fourier_nz"), points_of, strict=True))
        yield (
            factor,
            replace(system, settings=replace(system.settings, rcoulomb=cutoff, rvdw=cutoff, **given)),
        )


def measure(world: GpuWorld, asked: argparse.Namespace) -> list[dict[str, Any]]:
    """Rows of all cases, on all GPUs of the world; a target of `launch_gpus`."""
    systems = {f"water-pme, {n} atoms": liquid("water-pme", n, NSTLIST) for n in asked.atoms}
    if asked.dhfr is not None:
        systems["dhfr-pme"] = dhfr_system(asked.dhfr, nstlist=NSTLIST, **PME)
    rows = []
    for name, system in systems.items():
        for factor, other in candidates(system):
            rows.append(case(world, name, factor, other))
            if world.process == 0:
                shown = ("system", "n_gpus", "factor", "mesh", "us_per_step", "pairs_us", "lattice_us")
                print(*(rows[-1][key] for key in shown), file=sys.stderr, flush=True)
    return rows


def case(world: GpuWorld, name: str, factor: float, system: System) -> dict[str, Any]:
    """One cut-off and mesh."""
    options = RunOptions(device="cuda", ranks=world.size)
    with ExitStack() as stack:
        transport: Any = open_transport("loopback")
        if world.size > 1:
            transport = control_of(stack.enter_context(open_rung(world, "nvshmem-fused")))
        simulation = Simulation(transport, system, options)
        simulation.warm_up()
        simulation.run(3 * NSTLIST)
        steps, seconds = LIFETIMES * NSTLIST, []
        for _ in range(REPEATS):
            transport.barrier()
            start = time.perf_counter()
            simulation.run(steps)
            seconds.append((time.perf_counter() - start) / steps)
        found = parts(simulation) if world.size == 1 else {}
        return timed_row(
            world.device.name,
            seconds,
            n_gpus=world.n_processes,
            n_ranks=world.size,
            grid=str(simulation.grid),
            transport=transport.name,
            path=transport.path,
            precision="fast",
            system=name,
            n_atoms=system.topology.n_atoms,
            nstlist=NSTLIST,
            steps=steps,
            factor=round(factor, 4),
            cutoff=round(system.settings.rcoulomb, 4),
            mesh="x".join(map(str, system_mesh(system, on_gpu=True).shape)),
            r_list=round(simulation.r_list, 4),
            **{
                part: round(found[part], 2) if found else ""
                for part in ("pairs_us", "prune_us", "lattice_us")
            },
        )


def main() -> None:
    """Measure, print and write ``pme_cutoff__water__DEVICExN__COMMIT.csv``."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="folder of the CSV")
    parser.add_argument("--gpus", type=int, default=1)
    parser.add_argument("--atoms", type=int, nargs="*", default=list(ATOMS))
    parser.add_argument("--dhfr", type=Path, help="folder with dhfr.gro.gz and dhfr.top.gz")
    asked = parser.parse_args()
    rows = launch_gpus(asked.gpus, "bench_pme_cutoff_gpu:measure", asked, None, timeout=60.0, rungs=())
    print(write_rows(asked.out, "pme_cutoff", "water", rows))


if __name__ == "__main__":
    main()
