"""Time of the pair kernel on a GPU, and its error against float64; with --shapes in other launch shapes.

    python benchmarks/bench_nonbonded_gpu.py --out benchmarks/results [--shapes]

Water at 100 atoms/nm^3, reaction field, cutoff 1.0 nm, list 1.1 nm, inner list by the kernel's own prune. Each
time is the mean of the launches of one graph; the row has the median and spread of repeated graphs.

--shapes: fast mode with lists as runs have them, of entries, blocks and registers that runs do not choose too.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from unittest import mock

import numpy as np
from gpu_boxes import WaterLattice, water_lattice
from result_rows import timed_row, write_rows

from pulsemd.device.cuda import CudaDevice
from pulsemd.kernels.nonbonded import cuda_programs
from pulsemd.kernels.nonbonded.gpu import GpuPairForces
from pulsemd.kernels.search import gpu as search

SIZES = {"24k": (20, 20, 20), "98k": (32, 32, 32), "786k": (64, 64, 64)}
R_LIST, R_INNER = 1.1, 1.025
LAUNCHES, REPEATS = 20, 9

BOXES_OF_SHAPES = (
    (15, 15, 16), (20, 20, 20), (22, 22, 23), (32, 32, 30), (35, 35, 35), (40, 40, 38), (50, 50, 48), (62, 62, 62),
)  # fmt: skip
SHAPES = (
    (8, 2, 24), (8, 2, 28), (8, 2, 32), (8, 4, 28), (12, 2, 28), (12, 3, 27), (12, 4, 28), (16, 2, 28), (16, 4, 24),
    (16, 4, 28), (24, 4, 28), (24, 8, 24),
)  # fmt: skip
"""Groups of an entry, warps of a block, warps of a multiprocessor that the registers must allow."""
LISTS_OF_SHAPES = ((40_000, 1.493, 1.0333), (2**31, 1.3295, 1.0333))
"""Up to a number of atoms the list and inner radii, nm, of runs that search every 100 and every 50 steps."""


def make_forces(
    device: CudaDevice,
    water: WaterLattice,
    precision: str,
    r_inner: float | None = R_INNER,
    r_list: float = R_LIST,
    warps: int | None = None,
) -> GpuPairForces:
    """Pair forces after a search, which prunes to ``r_inner`` in fast mode."""
    forces = GpuPairForces(
        device, water.table, water.options, precision, water.type_index, water.charge, water.exclusion_offset,
        water.exclusion_atoms, warps=warps,
    )  # fmt: skip
    rows = np.zeros((water.n_atoms, 4), np.int32)
    rows[:, :3] = water.x
    gid = np.arange(water.n_atoms, dtype=np.int32)
    forces.search(device.to_device(rows), device.to_device(gid), water.box, r_list, r_inner)
    return forces


def time_launches(device: CudaDevice, launch, n: int = LAUNCHES) -> list[float]:
    """Seconds of one launch, for each of some replays of a graph of ``n``."""
    launch()

    def many() -> None:
        for _ in range(n):
            launch()

    replay, times = device.capture(many), []
    replay()
    for _ in range(REPEATS):
        first = device.event()
        replay()
        times.append(device.elapsed(first, device.event()) / n)
    return times


def sampled_error(
    device: CudaDevice, water: WaterLattice, pair_forces: GpuPairForces, sample: int = 2000
) -> float:
    """Relative L2 error of the forces on some atoms against float64."""
    sys.path.append(str(Path(__file__).resolve().parent.parent / "tests" / "gpu"))
    from pair_systems import evaluate, float64_forces

    rows = np.sort(np.random.default_rng(3).choice(water.n_atoms, min(sample, water.n_atoms), replace=False))
    pairs = np.stack(
        (np.repeat(np.arange(water.n_atoms), np.diff(water.exclusion_offset)), water.exclusion_atoms), axis=1
    )
    expected = float64_forces(
        device, water.x, water.box, water.charge, water.type_index, water.table, water.options, pairs, rows
    )
    found = evaluate(pair_forces, with_energies=False).forces[rows]
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


def measure(device: CudaDevice, name: str, water: WaterLattice) -> list[dict[str, object]]:
    """Rows of one system: inner list, pruning call, whole list, energies; fast and reproducible."""
    rows = []
    ways = [("fast", "list", None), ("fast", "list+energies", None), ("fast", "prune", R_INNER),
            ("fast", "inner", R_INNER), ("fast", "inner+energies", R_INNER), ("reproducible", "list", None),
            ("reproducible", "list+energies", None)]  # fmt: skip
    for precision, way, r_inner in ways:
        pair_forces = make_forces(device, water, precision, r_inner)
        fast, capacity = precision == "fast", pair_forces.slots.capacity
        forces = device.zeros((capacity, 4), np.float32 if fast else np.int64)
        totals = device.zeros(11, np.float64 if fast else np.int64) if "energies" in way else None
        if way == "prune":
            launch: Callable[[], None] = pair_forces.prune
        else:
            launch = partial(pair_forces.forces, forces, totals)
        seconds = time_launches(device, launch)
        error = sampled_error(device, water, pair_forces)
        rows.append(
            timed_row(
                device.name, seconds, precision=precision, system=f"water-lattice {name}", n_atoms=water.n_atoms,
                nstlist="", steps=LAUNCHES, variant=way, r_list=R_LIST, r_inner=R_INNER, error=f"{error:.2e}",
                groups=pair_forces.pairs.counts.groups, entries=pair_forces.pairs.counts.entries,
                pairs=pair_forces.pairs.counts.pairs,
            )
        )  # fmt: skip
        print({k: rows[-1][k] for k in ("n_atoms", "precision", "variant", "us_per_step", "us_min", "error")})
    return rows


@contextmanager
def shape(chunk: int, resident: int) -> Iterator[None]:
    """Lists and kernels that are made inside have this shape, whatever is best for their size."""
    registers = {("fast", False): resident}
    with (
        mock.patch.object(search, "chunk_for", return_value=chunk),
        mock.patch.dict(cuda_programs._WARPS_RESIDENT, registers),
    ):
        yield


def measure_shapes(device: CudaDevice, water: WaterLattice) -> list[dict[str, object]]:
    """Rows of one system: pairs of the inner list and the pruning that leaves it, in every shape."""
    rows = []
    r_list, r_inner = next(radii for most, *radii in LISTS_OF_SHAPES if water.n_atoms <= most)
    for chunk, warps, resident in SHAPES:
        with shape(chunk, resident):
            pair_forces = make_forces(device, water, "fast", r_inner, r_list, warps)
            forces = device.zeros((pair_forces.slots.capacity, 4), np.float32)
            seconds = time_launches(device, partial(pair_forces.forces, forces, None))
            pruning = time_launches(device, pair_forces.prune)
        rows.append(
            timed_row(
                device.name, seconds, precision="fast", system="water-lattice", n_atoms=water.n_atoms, nstlist="",
                steps=LAUNCHES, r_list=r_list, r_inner=r_inner, chunk=chunk, warps=warps, warps_resident=resident,
                prune_us=f"{1e6 * median(pruning):.2f}",
            )
        )  # fmt: skip
        print(
            {
                k: rows[-1][k]
                for k in ("n_atoms", "chunk", "warps", "warps_resident", "us_per_step", "prune_us")
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sizes", nargs="*", default=list(SIZES), choices=SIZES)
    parser.add_argument("--shapes", action="store_true")
    options = parser.parse_args()
    device, rows = CudaDevice(), []
    if options.shapes:
        for box in BOXES_OF_SHAPES:
            rows += measure_shapes(device, water_lattice(box))
    else:
        for name in options.sizes:
            rows += measure(device, name, water_lattice(SIZES[name]))
    print(write_rows(options.out, "nonbonded_gpu", "shapes" if options.shapes else "kernel", rows))


if __name__ == "__main__":
    main()
