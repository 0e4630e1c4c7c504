"""What the tables of `run_ladder.py` say: one hash, times against MPI, parallel efficiency."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tables_md_gpus import as_table

Row = dict[str, str]

SMALL: Final = 90_000
FASTER: Final = 2.0
"""Times that `nvshmem-fused` has to be faster than `mpi` up to `SMALL` atoms."""
LARGE: Final = 720_000
EFFICIENCY: Final = 0.6
"""Of the step of `LARGE` atoms on all GPUs, against as many single ones."""
RUNGS: Final = ("nvshmem-fused", "nvshmem-pulse", "nvshmem-stream", "nccl", "mpi")
PASSED: Final = re.compile(r"(?m)^ *[0-9.]+ s: (\S+): (\d+) cases passed")
HEAD: Final = ("what", "GPUs", "asked", "found", "met")


def read_rows(folder: Path) -> list[Row]:
    """Rows of molecular dynamics of all tables in a folder."""
    rows: list[Row] = []
    for path in sorted(folder.glob("md__*.csv")):
        with path.open(newline="") as file:
            rows += csv.DictReader(file)
    return rows


def read_passed(folder: Path) -> dict[str, int]:
    """Cases of the conformance suite that passed, by rung, from the logs in a folder."""
    logs = (path.read_text() for path in sorted(folder.glob("conformance-*.log")))
    return {rung: int(count) for text in logs for rung, count in PASSED.findall(text)}


def verdict(rows: Sequence[Row], passed: Mapping[str, int], n_gpus: int) -> str:
    """Markdown table; what is asked is asked of all GPUs, the others are for comparison."""
    missing = [rung for rung in RUNGS if not passed.get(rung)]
    found = f"{len(RUNGS) - len(missing)} rungs" + (f", not {', '.join(missing)}" if missing else "")
    lines = [["conformance", str(n_gpus), f"{len(RUNGS)} rungs", found, _met(not missing)]]
    lines += [_one_hash(rows, n_gpus)]
    counts = sorted({int(row["n_gpus"]) for row in rows} - {1}, reverse=True)
    for system in sorted({row["system"] for row in rows}):
        here = [row for row in rows if row["system"] == system]
        sizes = sorted({int(row["n_atoms"]) for row in here if row["us_per_step"]})
        for n in counts:
            asked = system == "water" and n == n_gpus
            lines += [_faster(here, n, size, asked and size <= SMALL) for size in sizes]
            lines += [_efficiency(here, n, size, asked and size == LARGE) for size in sizes]
    return as_table(HEAD, [line for line in lines if line])


def _one_hash(rows: Sequence[Row], n_gpus: int) -> list[str]:
    hashed = [row for row in rows if row["trajectory_hash"]]
    cases = {
        (row["n_gpus"], row["n_ranks"], row["grid"], row["plan"], row["transport"]): row["trajectory_hash"]
        for row in hashed
    }
    sizes = {row["n_atoms"] for row in hashed}
    lost = [row for row in rows if row["path"].startswith("failed") and row["n_atoms"] in sizes]
    gpus = sorted({int(row["n_gpus"]) for row in hashed})
    n_hashes = len(set(cases.values()))
    asked = [n for n in (1, 2, 4, 8) if n <= n_gpus]
    found = f"{n_hashes} in {len(cases)} cases" + (f", {len(lost)} cases failed" if lost else "")
    return [
        "hashes of a trajectory",
        ", ".join(map(str, gpus)),
        "1",
        found,
        _met(n_hashes == 1 and gpus == asked and not lost),
    ]


def _best(rows: Sequence[Row], n_gpus: int, n_ranks: int, size: int, transport: str) -> float | None:
    """us of a step by the best plan and grid."""
    times = [
        float(row["us_per_step"])
        for row in rows
        if row["us_per_step"]
        and (int(row["n_gpus"]), int(row["n_ranks"]), int(row["n_atoms"]), row["transport"])
        == (n_gpus, n_ranks, size, transport)
    ]
    return min(times, default=None)


def _faster(rows: Sequence[Row], n_gpus: int, size: int, asked: bool) -> list[str]:
    fused, mpi = (_best(rows, n_gpus, n_gpus, size, rung) for rung in ("nvshmem-fused", "mpi"))
    if fused is None or mpi is None:
        return []
    what = f"{rows[0]['system']}, {size:,} atoms: mpi / nvshmem-fused"
    return _at_least(what, n_gpus, FASTER if asked else None, mpi / fused, (mpi, fused))


def _efficiency(rows: Sequence[Row], n_gpus: int, size: int, asked: bool) -> list[str]:
    fused, alone = _best(rows, n_gpus, n_gpus, size, "nvshmem-fused"), _best(rows, 1, 1, size, "loopback")
    if fused is None or alone is None:
        return []
    what = f"{rows[0]['system']}, {size:,} atoms: parallel efficiency"
    part = alone / (n_gpus * fused)
    return _at_least(what, n_gpus, EFFICIENCY if asked else None, part, (alone, fused))


def _at_least(
    what: str, n_gpus: int, least: float | None, ratio: float, times: tuple[float, float]
) -> list[str]:
    """A line on a ratio of two times, us, of which at least so much is asked, or None."""
    asked, met = ("", "") if least is None else (f">= {least:g}", _met(ratio >= least))
    return [what, str(n_gpus), asked, f"{ratio:.2f} ({times[0]:.1f} and {times[1]:.1f} us)", met]


def _met(good: bool) -> str:
    return "yes" if good else "no"
