"""The halo exchange of a regular grid beside one that is written for it by hand with mpi4py and NumPy.

    mpirun -n 2 python benchmarks/bench_halo_plain_mpi.py --out benchmarks/results

Every rank has a periodic cube of cells. By hand, faces are slices of a padded array: copied into buffers, Isend, Irecv
and Waitall for each dimension, copied into the rim. All ways alternate, call by call, on the same ranks; one idle core
for each is needed.
"""

from __future__ import annotations

import argparse
import datetime
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
from bench_halo_signal import device
from mpi4py import MPI
from result_rows import COLUMNS, current_commit, write_rows

from pulsemd.halo import Transport, cartesian_plan, open_transport

EDGES: Final = (8, 32, 64)
CALLS: Final = 750
GRIDS: Final = {1: (1, 1, 1), 2: (2, 1, 1), 4: (2, 2, 1), 8: (2, 2, 2)}


def by_hand(comm: Any, grid: tuple[int, int, int], edge: int) -> Callable[[], None]:
    """An exchange of the rim of a cube of float64."""
    cart = comm.Create_cart(grid, periods=(True,) * 3)
    block = np.full((edge + 2,) * 3, float(comm.rank))
    faces = [[np.moveaxis(block, d, 0)[i] for i in (1, edge, 0, edge + 1)] for d in range(3)]
    buffers = [np.empty((2, edge + 2, edge + 2)) for _ in range(3)]

    def exchange() -> None:
        for d, ((low, high, low_rim, high_rim), found) in enumerate(zip(faces, buffers, strict=True)):
            left, right = cart.Shift(d, 1)
            if left == comm.rank:
                low_rim[...], high_rim[...] = high, low
                continue
            sent = np.ascontiguousarray(low), np.ascontiguousarray(high)
            MPI.Request.Waitall(
                [
                    comm.Irecv(found[0], right, 1),
                    comm.Irecv(found[1], left, 2),
                    comm.Isend(sent[0], left, 1),
                    comm.Isend(sent[1], right, 2),
                ]
            )
            high_rim[...], low_rim[...] = found

    return exchange


def ours(transport: Transport, grid: tuple[int, int, int], edge: int, kind: Any) -> Callable[[], None]:
    """The same by a plan and a channel."""
    shape = [edge * n for n in grid]
    plan, _ = cartesian_plan(shape, grid, transport.rank, width=1, kind=kind)
    rows = max(transport.allgather(plan.n_local))
    field = transport.allocate(f"cube {edge} {kind}", rows, 1, "float64")
    return transport.channel(plan, field).forward


def measure(ways: dict[tuple[str, str], Callable[[], None]], barrier: Callable[[], None]) -> dict[Any, Any]:
    """Microseconds of every call of every way, in turn."""
    times: dict[Any, list[float]] = {way: [] for way in ways}
    for _ in range(CALLS // 50):
        for way, exchange in ways.items():
            exchange()
            barrier()
            for _ in range(50):
                start = time.perf_counter()
                exchange()
                times[way].append((time.perf_counter() - start) * 1e6)
    return times


def row(comm: Any, edge: int, way: tuple[str, str], times: list[float], peer: float) -> dict[str, Any]:
    """One line of the results."""
    line: dict[str, Any] = dict.fromkeys(COLUMNS, "")
    line |= {"date": datetime.date.today().isoformat(), "commit": current_commit(), "device": device()}
    line |= {"n_gpus": 0, "n_ranks": comm.size, "grid": "x".join(map(str, GRIDS[comm.size])), "plan": way[1]}
    line |= {
        "transport": way[0],
        "path": "host",
        "precision": "float64",
        "system": f"cube {edge}^3 a rank, rim",
    }
    line |= {"n_atoms": edge**3, "nstlist": 0, "steps": len(times), "us_per_step": f"{np.median(times):.3f}"}
    return line | {
        "us_min": f"{min(times):.3f}",
        "us_max": f"{max(times):.3f}",
        "peer": "by hand",
        "peer_us": f"{peer:.3f}",
    }


def main() -> None:
    """Measure and write ``halo_plain_mpi__cpu__DEVICEx0__COMMIT.csv``."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    out, comm, lines = parser.parse_args().out, MPI.COMM_WORLD, []
    grid, hand = GRIDS[comm.size], ("mpi4py by hand", "staged")
    with open_transport("shmem") as shmem, open_transport("mpi") as mpi:
        for edge in EDGES:
            ways = {
                (t.name, kind): ours(t, grid, edge, kind)
                for t in (shmem, mpi)
                for kind in ("staged", "direct")
            }
            times = measure(ways | {hand: by_hand(comm, grid, edge)}, comm.Barrier)
            peer = float(np.median(times[hand]))
            lines += [row(comm, edge, way, found, peer) for way, found in times.items()]
    if comm.rank == 0:
        for line in lines:
            print(f"{line['system']:22} {line['transport']:15} {line['plan']:7} {line['us_per_step']:>9} us")
        print(write_rows(out, "halo_plain_mpi", "cpu", lines))


if __name__ == "__main__":
    main()
