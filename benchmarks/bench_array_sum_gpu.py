"""Time of a sum of arrays of two GPUs, such as the charges of PME, in a graph.

    python benchmarks/bench_array_sum_gpu.py --out benchmarks/results

Each process has numbers in a part of the array that overlaps with that of the other, and zeros elsewhere.
"""

from __future__ import annotations

import argparse
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Final

import numpy as np
from result_rows import timed_row, write_rows

from pulsemd.halo import launch_gpus
from pulsemd.halo.device.array_sum import open_array_sum
from pulsemd.halo.device.transport import GpuTransport

MESHES: Final = ((52, 52, 56), (100, 100, 104), (160, 160, 164))
BLOCKS: Final = (64, 128, 256, 512)
SHARES: Final = (0.54, 1.0)
REPEATS: Final = 7
SUMS: Final = 20


def measure(transport: GpuTransport, blocks: tuple[int, ...]) -> list[dict[str, Any]]:
    """Rows of all cases; a target of `launch_gpus`."""
    rows = []
    for most, shape, share in product(blocks, MESHES, SHARES):
        seconds = _times(transport, most, shape, share)
        rows.append(
            timed_row(
                transport.device.name,
                seconds,
                n_gpus=transport.memory.n_processes,
                n_ranks=transport.size,
                transport=transport.name,
                path=transport.path,
                precision="float32",
                system="sum of arrays",
                blocks=most,
                shape="x".join(map(str, shape)),
                bytes=4 * int(np.prod(shape)),
                share=share,
            )
        )
    return rows


def _times(transport: GpuTransport, blocks: int, shape: tuple[int, ...], share: float) -> list[float]:
    """Seconds of one sum, without the copy that brings the numbers; waits for the device."""
    device = transport.device
    total = device.zeros(shape, np.float32)
    found = open_array_sum(transport, total, device.stream, blocks)
    host = np.zeros(shape, np.float32)
    start = transport.memory.process * shape[0] // transport.memory.n_processes
    host[np.arange(start, start + int(shape[0] * share)) % shape[0]] = 1.0
    given = device.to_device(host)

    def work(adds: bool) -> None:
        for _ in range(SUMS):
            found.own.data.copy_from_device_async(given.data, given.nbytes, device.stream)
            if adds:
                found.sum()

    work(True)
    transport.check()
    transport.meet()
    graphs = [device.capture(partial(work, adds)) for adds in (True, False)]
    seconds = []
    for _ in range(REPEATS + 1):
        transport.meet()
        times = []
        for graph in graphs:
            first = device.event()
            graph()
            times.append(device.elapsed(first, device.event()) / SUMS)
        seconds.append(times[0] - times[1])
    transport.check()
    return seconds[1:]


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, nargs="+", default=list(BLOCKS), help="at most (all)")
    parser.add_argument("--out", type=Path, required=True, help="folder of the CSV")
    arguments = parser.parse_args()
    rows = launch_gpus(2, "bench_array_sum_gpu:measure", tuple(arguments.blocks), "nvshmem-fused")
    for row in rows:
        print(*(row[name] for name in ("blocks", "shape", "share", "us_per_step", "us_min", "us_max")))
    print(write_rows(arguments.out, "array_sum", "mesh", rows))


if __name__ == "__main__":
    main()
