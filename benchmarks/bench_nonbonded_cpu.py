"""Time of the non-bonded kernels and of the pair search on one core, for a water-like box.

    python benchmarks/bench_nonbonded_cpu.py --out benchmarks/results

Times are CPU times of one thread; an idle core is needed. ``ns_per_pair`` counts pairs within the cut-off,
excluded ones not among them.
"""

from __future__ import annotations

import argparse
import datetime
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
from result_rows import COLUMNS, current_commit, write_rows

from pulsemd.forcefield.nonbonded import build_table
from pulsemd.kernels.nonbonded.launch import PairForces

_COLUMNS: Final = (*COLUMNS, "operation", "pairs", "ns_per_pair")
REPEATS: Final = 15
SIDE: Final = 16
SPACING: Final = 0.3106  # nm; 33.4 molecules per nm^3
CUTOFF, R_LIST = 1.0, 1.1
SETTINGS: Final = SimpleNamespace(
    coulombtype="reaction-field",
    coulomb_modifier="potential-shift",
    rcoulomb=CUTOFF,
    epsilon_r=1.0,
    epsilon_rf=0.0,
    vdwtype="cut-off",
    vdw_modifier="potential-shift",
    rvdw=CUTOFF,
)


class Water:
    """SPC/E molecules of random orientation on a jittered cubic lattice; (n, 3) int32 positions."""

    def __init__(self) -> None:
        rng = np.random.default_rng(1)
        sites = np.stack(np.meshgrid(*[np.arange(SIDE)] * 3, indexing="ij"), -1).reshape(-1, 3) * SPACING
        oxygen = sites + rng.uniform(-0.03, 0.03, sites.shape)
        frame = np.linalg.qr(rng.normal(size=(len(sites), 3, 3)))[0]
        half = np.deg2rad(109.47 / 2)
        arms = np.array([[np.cos(half), np.sin(half), 0.0], [np.cos(half), -np.sin(half), 0.0]]) * 0.1
        positions = np.stack((oxygen, oxygen + arms[0] @ frame, oxygen + arms[1] @ frame), axis=1).reshape(
            -1, 3
        )
        self.box = np.eye(3) * SIDE * SPACING
        fraction = positions / (SIDE * SPACING)
        fraction -= np.floor(fraction + 0.5)
        self.x = np.rint(fraction * 2.0**32).astype(np.int64).astype(np.int32)
        self.n = len(self.x)
        self.types = np.tile([0, 1, 1], self.n // 3).astype(np.int32)
        self.charge = np.tile([-0.8476, 0.4238, 0.4238], self.n // 3)

    def search(self, forces: PairForces, r_list: float) -> int:
        """Search and return the number of pairs within ``r_list``."""
        atom, leader = np.arange(self.n), np.arange(self.n) // 3 * 3
        partners = (leader[:, None] + (atom[:, None] - leader[:, None] + [1, 2]) % 3).astype(np.int32)
        offset, home = 2 * np.arange(self.n + 1, dtype=np.int64), np.full(self.n, 7, np.uint8)
        rows = self.types, self.charge, offset, np.sort(partners, axis=1).ravel(), self.x[leader], home
        return forces.search(self.x, self.box, self.n, *rows, (False, False, False), r_list).pairs


def seconds(work) -> float:
    """CPU time of one call: another process on the core then disturbs less."""
    start = time.thread_time()
    work()
    return time.thread_time() - start


def measure(water: Water) -> list[dict[str, Any]]:
    """Times of both precisions, alternated; one row per operation."""
    work: dict[tuple[str, str], Any] = {}
    pairs = 0
    for precision in ("fast", "reproducible"):
        forces = PairForces(
            build_table(("O", "H"), 3, (0.316557, 0.0), (0.650194, 0.0), {}), SETTINGS, precision
        )
        pairs = water.search(forces, CUTOFF)
        fast = precision == "fast"
        f = np.zeros((water.n, 3), np.float32 if fast else np.int64)
        e = np.zeros(11, np.float64 if fast else np.int64)
        work[precision, "search"] = lambda forces=forces: water.search(forces, R_LIST)
        work[precision, "forces"] = lambda forces=forces, f=f: forces.local(water.x, f)
        work[precision, "forces+energies"] = lambda forces=forces, f=f, e=e: forces.local(water.x, f, e)
    times: dict[tuple[str, str], list[float]] = {key: [] for key in work}
    for repeat in range(REPEATS + 2):
        for key, call in work.items():
            elapsed = seconds(call)
            if repeat >= 2:  # the first calls compile and fill caches
                times[key].append(elapsed * 1e6)
    return [line(water, *key, pairs, values) for key, values in times.items()]


def line(water: Water, precision: str, operation: str, pairs: int, times: list[float]) -> dict[str, Any]:
    """One row of the results."""
    median = float(np.median(times))
    return dict.fromkeys(_COLUMNS, "") | {
        "date": datetime.date.today().isoformat(),
        "commit": current_commit(),
        "device": device(),
        "n_gpus": 0,
        "n_ranks": 1,
        "grid": "1x1x1",
        "precision": precision,
        "system": "water-like",
        "n_atoms": water.n,
        "steps": len(times),
        "us_per_step": f"{median:.1f}",
        "us_min": f"{min(times):.1f}",
        "us_max": f"{max(times):.1f}",
        "operation": operation,
        "pairs": pairs,
        "ns_per_pair": f"{median * 1e3 / pairs:.3f}",
    }


def device() -> str:
    """Name of the CPU, for a file name."""
    text = Path("/proc/cpuinfo").read_text()
    names = [entry.split(":")[1] for entry in text.splitlines() if entry.startswith("model name")]
    return "-".join((names or ["cpu"])[0].lower().split())


def main() -> None:
    """Measure and write ``nonbonded_cpu__water__DEVICEx0__COMMIT.csv``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out
    lines = measure(Water())
    path = write_rows(out, "nonbonded_cpu", "water", lines)
    for entry in lines:
        print(
            f"{entry['precision']:13} {entry['operation']:16} {entry['us_per_step']:>9} us {entry['ns_per_pair']} ns"
        )
    print(path)


if __name__ == "__main__":
    main()
