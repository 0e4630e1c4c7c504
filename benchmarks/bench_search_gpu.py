"""Time of a search on a GPU, from the call until the host knows the counters, and memory of its arrays."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from bench_nonbonded_gpu import R_INNER, R_LIST, make_forces
from gpu_boxes import water_lattice
from result_rows import timed_row, write_rows

from pulsemd.device.cuda import CudaDevice

SIZES = {"11k": (15, 16, 16), "45k": (25, 25, 24), "90k": (31, 31, 31), "180k": (39, 39, 39), "360k": (49, 49, 50),
         "720k": (62, 62, 62), "10M": (150, 150, 149)}  # fmt: skip
REPEATS = 11


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sizes", nargs="*", default=list(SIZES), choices=SIZES)
    options = parser.parse_args()
    device, rows = CudaDevice(), []
    for name in options.sizes:
        water = water_lattice(SIZES[name])
        for precision in ("fast", "reproducible"):
            forces = make_forces(device, water, precision)
            seconds = []
            for _ in range(REPEATS):
                device.synchronize()
                start = time.perf_counter()
                forces.search(forces.slots.x, forces.slots.gid, water.box, R_LIST, R_INNER)
                seconds.append(time.perf_counter() - start)
            rows.append(
                timed_row(
                    device.name, seconds[1:], precision=precision, system=f"water-lattice {name}",
                    n_atoms=water.n_atoms, nstlist="", steps=REPEATS - 1, variant="search", r_list=R_LIST,
                    bytes_per_atom=f"{forces.pairs.bytes_on_device / water.n_atoms:.0f}",
                )
            )  # fmt: skip
            print(
                {k: rows[-1][k] for k in ("n_atoms", "precision", "us_per_step", "us_min", "bytes_per_atom")}
            )
            del forces
    print(write_rows(options.out, "search_gpu", "search", rows))


if __name__ == "__main__":
    main()
