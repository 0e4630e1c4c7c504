"""Rows of benchmark results, one CSV file for each benchmark, variant and device."""

from __future__ import annotations

import csv
import datetime
import os
import subprocess
from pathlib import Path
from statistics import median

COLUMNS = (
    "date", "commit", "device", "n_gpus", "n_ranks", "grid", "plan", "transport", "path", "precision", "system",
    "n_atoms", "nstlist", "steps", "us_per_step", "us_min", "us_max", "peer", "peer_us",
)  # fmt: skip


def current_commit() -> str:
    """Short hash of the tree, from git or from PULSEMD_COMMIT."""
    chosen = os.environ.get("PULSEMD_COMMIT")
    if chosen:
        return chosen
    command = ["git", "rev-parse", "--short", "HEAD"]
    done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def timed_row(device: str, seconds: list[float], **values: object) -> dict[str, object]:
    """A row with the median and the spread of repeated times of one step."""
    row = dict.fromkeys(COLUMNS, "")
    row |= {"date": datetime.date.today().isoformat(), "commit": current_commit(), "device": device}
    row |= {
        "n_gpus": 1,
        "n_ranks": 1,
        "grid": "1x1x1",
        "plan": "none",
        "transport": "loopback",
        "path": "none",
    }
    micro = [1e6 * s for s in seconds]
    row |= {
        "us_per_step": f"{median(micro):.2f}",
        "us_min": f"{min(micro):.2f}",
        "us_max": f"{max(micro):.2f}",
    }
    return row | values


def write_rows(folder: Path, bench: str, variant: str, rows: list[dict[str, object]]) -> Path:
    """Write rows of one device; returns the file ``<bench>__<variant>__<device>x<n>__<commit>.csv``."""
    folder.mkdir(parents=True, exist_ok=True)
    device = str(rows[0]["device"]).replace(" ", "-")
    path = folder / f"{bench}__{variant}__{device}x{rows[0]['n_gpus']}__{rows[0]['commit']}.csv"
    names = [*COLUMNS, *(key for key in rows[0] if key not in COLUMNS)]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(rows)
    return path
