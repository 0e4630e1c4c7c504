"""Heat on a periodic 2-D plate over several GPUs, through `pulsemd.halo` alone: many steps are one CUDA graph.

    python examples/halo_stencil_gpu.py --gpus 2 --shape 4096 4096

The GPUs exchange the rims of their blocks from inside a kernel, so that the graph needs no host between its steps. On a
rung whose exchanges cannot be captured every step is launched instead. At the end the result is compared with the same
steps on one array.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from halo_stencil import DIFFUSION, serial, start_temperature
from numpy.typing import NDArray

from pulsemd.halo import cartesian_plan, launch_gpus

STEPS_IN_GRAPH = 50


def neighbor_rows(shape: tuple[int, int], cells: NDArray[np.int64], n_owned: int) -> NDArray[np.int32]:
    """(4, n_owned) local rows of the neighbours of each owned cell, from the cells' places in the padded block."""
    corner, extent = cells.min(0), np.ptp(cells, 0) + 1
    row_of = np.full(extent, -1, np.int32)
    row_of[tuple((cells - corner).T)] = np.arange(len(cells))
    i, j = (cells[:n_owned] - corner).T
    return np.stack([row_of[i - 1, j], row_of[i + 1, j], row_of[i, j - 1], row_of[i, j + 1]])


def simulate(transport: Any, settings: dict[str, Any]) -> dict[str, Any] | None:
    """The whole run of one process; the plate from process 0."""
    device, shape = transport.device, settings["shape"]
    pairs = [cartesian_plan(shape, (transport.size, 1), rank, width=1) for rank in transport.ranks]
    plans = [plan for plan, _ in pairs]
    most = max(plan.n_local for plan in plans)
    capacity = max(transport.each(lambda k, control: control.allgather(most))[0])
    temperature = transport.allocate("temperature", capacity, 1, "float64")
    halo = transport.channel(plans, temperature)

    relax = device.xp.ElementwiseKernel(
        "raw float64 old, int32 up, int32 down, int32 left, int32 right",
        "float64 warm",
        f"warm = old[i] + {DIFFUSION} * (old[up] + old[down] + old[left] + old[right] - 4 * old[i])",
        "relax",
    )
    fields = []
    for k, (plan, cells) in enumerate(pairs):
        start = start_temperature(shape)[tuple(cells[: plan.n_owned].T)]
        neighbors = device.to_device(neighbor_rows(shape, cells, plan.n_owned))
        fields.append((temperature[k, :, 0], neighbors, device.zeros(plan.n_owned, "float64")))
        with device.current():
            fields[-1][0][: plan.n_owned] = device.xp.asarray(start)

    def step() -> None:
        halo.forward()  # ghost rows now hold their owners' values; nothing here waits on the host
        with device.current():
            for old, neighbors, new in fields:
                relax(old, *neighbors, new)
                old[: len(new)] = new

    first = min(settings["steps"], 2)
    for _ in range(first):
        step()  # compiles
    transport.check()
    run, n_runs = step, settings["steps"] - first
    if getattr(halo, "capturable", True) and n_runs >= STEPS_IN_GRAPH:
        for _ in range(n_runs % STEPS_IN_GRAPH):
            step()
        run, n_runs = (
            device.capture(lambda: [step() for _ in range(STEPS_IN_GRAPH)]),
            n_runs // STEPS_IN_GRAPH,
        )
    transport.check()
    transport.meet()  # nobody launches a graph before all have captured theirs
    begin = time.perf_counter()
    for _ in range(n_runs):
        run()
    transport.check()  # waits for the device; a peer that died, or a wait that expired, is raised here
    seconds = time.perf_counter() - begin
    parts = [(cells[: plan.n_owned], device.to_host(field[0][: plan.n_owned])) for (plan, cells), field in
             zip(pairs, fields, strict=True)]  # fmt: skip
    everyone = transport.each(lambda k, control: control.allgather(parts[k]))[0]
    if transport.ranks.start != 0:
        return None
    plate = np.empty(shape)
    for places, part in everyone:
        plate[tuple(places.T)] = part
    per_step = 1e6 * seconds / max(1, settings["steps"] - first)
    return {"plate": plate, "us_per_step": per_step, "transport": transport.name, "path": transport.path}


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shape", type=int, nargs=2, default=(512, 512))
    parser.add_argument("--gpus", type=int, default=2)
    parser.add_argument("--ranks-per-gpu", type=int, default=1)
    parser.add_argument("--steps", type=int, default=202)
    parser.add_argument("--transport", default="auto")
    options = parser.parse_args()
    settings = {"shape": tuple(options.shape), "steps": options.steps}
    found = launch_gpus(
        options.gpus,
        "halo_stencil_gpu:simulate",
        settings,
        transport=options.transport,
        ranks_per_gpu=options.ranks_per_gpu,
    )
    expected = serial(settings["shape"], options.steps)
    difference = float(np.abs(found["plate"] - expected).max() / np.abs(expected).max())
    print(
        f"{options.gpus} GPUs, {found['transport']} ({found['path']}): {found['us_per_step']:.1f} us a step"
    )
    print(f"largest difference from one array: {difference:.1e} of the largest value")
    raise SystemExit(difference > 1e-12)


if __name__ == "__main__":
    main()
