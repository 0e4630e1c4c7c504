"""Latency of a signal between two processes, and time of a small exchange on each CPU transport.

    python benchmarks/bench_halo_signal.py --out benchmarks/results

A signal is one put of a few words and its epoch; one way is half a round trip. Two idle cores are needed.
"""

from __future__ import annotations

import argparse
import datetime
import os
import time
from pathlib import Path
from typing import Any, Final

import numpy as np
from numba import njit
from result_rows import COLUMNS, current_commit, write_rows

from pulsemd.base.errors import PulseMDError
from pulsemd.halo import HaloPlan, Pulse, Transport, launch
from pulsemd.halo.atomics import store_release
from pulsemd.halo.layout import STRIDE
from pulsemd.halo.signals import ARRIVED, wait_for

REPEATS: Final = 7
EXCHANGES: Final = {"mpi": 1000}
SIGNAL_REPEATS: Final = 101
SIGNAL_ROUNDS: Final = 1000
ROWS: Final = 4096
WAIT: Final = 10.0
SPIN: Final = 1_000_000


@njit(cache=True, nogil=True)
def ping_pong(rank, boxes, signals, abort, epoch, rounds):
    """Put a word into the other rank's box and signal, ``rounds`` times there and back; the number of wrong words."""
    other = 1 - rank
    wrong = 0
    for step in range(epoch + 1, epoch + rounds + 1):
        if rank == 1 and wait_for(signals, rank * STRIDE, step, abort, WAIT, SPIN) != ARRIVED:
            return rounds
        if rank == 1 and boxes[rank, 0] != step:
            wrong += 1
        boxes[other, 0] = step
        store_release(signals, other * STRIDE, step)
        if rank == 0 and wait_for(signals, rank * STRIDE, step, abort, WAIT, SPIN) != ARRIVED:
            return rounds
        if rank == 0 and boxes[rank, 0] != step:
            wrong += 1
    return wrong


def measure(transport: Transport, rows: int) -> dict[str, Any]:
    """Times of one rank; a target of `launch`.

    Parameters
    ----------
    transport : Transport
    rows : int
        Rows sent to the other rank in each exchange; 0 for the bare signal.
    """
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) >= transport.size:
        os.sched_setaffinity(0, {cores[transport.rank]})
    times = _signal_times(transport) if rows == 0 else _exchange_times(transport, rows)
    return {"path": transport.path, "times": times}


def _exchange_times(transport: Transport, rows: int) -> list[float]:
    """Microseconds of a forward exchange of ``rows`` rows of 3 float32 in both directions, `REPEATS` times."""
    other = 1 - transport.rank
    pulse = Pulse(0, other, other, np.arange(rows), rows, rows, rows, np.full(rows, -1))
    positions = transport.allocate("positions", 2 * rows, 3, "float32")
    channel = transport.channel(HaloPlan(transport.rank, 2, rows, 2 * rows, (pulse,)), positions)
    count = EXCHANGES.get(transport.name, 5000)
    times = []
    for _ in range(1 + REPEATS):
        transport.barrier()
        start = time.perf_counter()
        for _ in range(count):
            channel.forward()
        times.append((time.perf_counter() - start) / count * 1e6)
    return times[1:]


def _signal_times(transport: Transport) -> list[float]:
    """Microseconds one way of a put of 8 bytes and its epoch between two ranks, in short repeats."""
    boxes = transport.symmetric(128).view(np.int64)
    signals = transport.symmetric(128).view(np.int64).reshape(-1)
    times = []
    for repeat in range(1 + SIGNAL_REPEATS):
        transport.barrier()
        start = time.perf_counter()
        wrong = ping_pong(
            transport.rank, boxes, signals, transport.control.abort, SIGNAL_ROUNDS * repeat, SIGNAL_ROUNDS
        )
        times.append((time.perf_counter() - start) / SIGNAL_ROUNDS / 2 * 1e6)
        if wrong:
            raise PulseMDError(f"signal: {wrong} puts were not complete when their signal came")
    return times[1:]


def device() -> str:
    """Name of the CPU, for a file name."""
    text = Path("/proc/cpuinfo").read_text()
    names = [line.split(":")[1] for line in text.splitlines() if line.startswith("model name")]
    return (
        "".join(c if c.isalnum() else "-" for c in (names or ["cpu"])[0].strip()).lower().replace("--", "-")
    )


def row(transport: str, rows: int, peer_us: float | None) -> dict[str, Any]:
    """One line of the results; a failure is a line, too."""
    line: dict[str, Any] = dict.fromkeys(COLUMNS, "")
    line |= {
        "date": datetime.date.today().isoformat(),
        "commit": current_commit(),
        "device": device(),
        "n_gpus": 0,
    }
    line |= {
        "n_ranks": 2,
        "grid": "2x1x1",
        "plan": "direct",
        "transport": transport,
        "n_atoms": rows,
        "nstlist": 0,
    }
    line |= {"precision": "float32", "system": "signal, one way" if rows == 0 else f"forward {rows} x 3"}
    try:
        result = launch(2, "bench_halo_signal:measure", rows, transport=transport)
    except PulseMDError as error:
        return line | {"path": f"failed: {error}"}
    times = result["times"]
    line |= {"path": result["path"], "steps": len(times), "us_per_step": f"{np.median(times):.3f}"}
    line |= {"us_min": f"{min(times):.3f}", "us_max": f"{max(times):.3f}"}
    return line | ({"peer": "mpi", "peer_us": peer_us} if peer_us is not None else {})


def main() -> None:
    """Measure and write ``halo_signal__cpu__DEVICEx0__COMMIT.csv``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out
    baseline = row("mpi", ROWS, None)
    lines = [row("shmem", 0, None), baseline, row("shmem", ROWS, baseline["us_per_step"])]
    path = write_rows(out, "halo_signal", "cpu", lines)
    for line in lines:
        print(f"{line['transport']:6} {line['system']:18} {line['us_per_step']:>8} us  {line['path']}")
    print(path)


if __name__ == "__main__":
    main()
