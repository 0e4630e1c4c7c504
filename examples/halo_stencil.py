"""Heat on a periodic 2-D plate over any number of ranks, through `pulsemd.halo` alone; no molecule in it.

    python examples/halo_stencil.py --shape 10 12 --ranks 3

The plate is cut into uneven blocks (10 rows of cells on 3 ranks: 3, 3 and 4). Each step copies the rim of every block
into the halo of its neighbours, updates the cells that need no halo meanwhile, then the others. At the end the result
is compared with the same steps on one array.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsemd.halo import Transport, cartesian_plan, launch

DIFFUSION = 0.2


def start_temperature(shape: tuple[int, int]) -> NDArray[np.float64]:
    """A hot spot and a gradient on a plate of ``shape`` cells."""
    plate = np.add.outer(np.arange(shape[0]), 0.5 * np.arange(shape[1]))
    plate[shape[0] // 2, shape[1] // 3] += 100.0
    return plate


def relax(
    values: NDArray[np.float64], neighbors: NDArray[np.int64], cells: NDArray[np.int64]
) -> NDArray[np.float64]:
    """New values of ``cells``; ``neighbors`` (n_owned, 4) are rows in the order that the serial sum below uses."""
    around = values[neighbors[cells]]
    return values[cells] + DIFFUSION * (
        around[:, 0] + around[:, 1] + around[:, 2] + around[:, 3] - 4 * values[cells]
    )


def neighbor_rows(cells: NDArray[np.int64], n_owned: int) -> NDArray[np.int64]:
    """Local rows of the four neighbours of each owned cell."""
    row_of = {tuple(cell): row for row, cell in enumerate(cells.tolist())}
    steps = ((-1, 0), (1, 0), (0, -1), (0, 1))
    rows = [[row_of[i + di, j + dj] for di, dj in steps] for i, j in cells[:n_owned].tolist()]
    return np.array(rows, np.int64).reshape(n_owned, 4)


def simulate(transport: Transport, settings: dict[str, Any]) -> NDArray[np.float64] | None:
    """The whole run of one rank; the plate on rank 0."""
    shape, n_steps = settings["shape"], settings["steps"]
    plan, cells = cartesian_plan(shape, (transport.size, 1), transport.rank, width=1, kind=settings["plan"])
    capacity = max(transport.allgather(plan.n_local))
    temperature = transport.allocate("temperature", capacity, 1, "float64")
    halo = transport.channel(plan, temperature)
    values, n_owned = temperature[:, 0], plan.n_owned
    values[:n_owned] = start_temperature(shape)[tuple(cells[:n_owned].T)]
    neighbors = neighbor_rows(cells, n_owned)
    inside = (neighbors < n_owned).all(axis=1)
    interior, rim = np.flatnonzero(inside), np.flatnonzero(~inside)
    for _ in range(n_steps):
        halo.forward_begin()
        new_interior = relax(values, neighbors, interior)  # reads no halo: overlaps the exchange
        halo.forward_end()
        new_rim = relax(values, neighbors, rim)
        halo.release()
        values[interior], values[rim] = new_interior, new_rim
    parts = transport.allgather((cells[:n_owned], values[:n_owned].copy()))
    if transport.rank != 0:
        return None
    plate = np.empty(shape)
    for places, part in parts:
        plate[tuple(places.T)] = part
    return plate


def serial(shape: tuple[int, int], n_steps: int) -> NDArray[np.float64]:
    """The same steps on one array."""
    plate = start_temperature(shape)
    for _ in range(n_steps):
        around = np.roll(plate, 1, 0) + np.roll(plate, -1, 0) + np.roll(plate, 1, 1) + np.roll(plate, -1, 1)
        plate = plate + DIFFUSION * (around - 4 * plate)
    return plate


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shape", type=int, nargs=2, default=(10, 12))
    parser.add_argument("--ranks", type=int, default=3)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--plan", choices=("staged", "direct"), default="staged")
    parser.add_argument("--transport", default="shmem")
    options = parser.parse_args()
    settings = {"shape": tuple(options.shape), "steps": options.steps, "plan": options.plan}
    plate = launch(options.ranks, "halo_stencil:simulate", settings, transport=options.transport)
    same = np.array_equal(plate, serial(settings["shape"], options.steps))
    print(
        f"{options.ranks} ranks, {options.transport}, {options.plan}: mean {plate.mean():.6f}, max {plate.max():.6f}"
    )
    print("bitwise equal to one array" if same else "DIFFERS from one array")
    raise SystemExit(not same)


if __name__ == "__main__":
    main()
