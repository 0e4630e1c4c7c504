"""``pulsemd bench``: times of the halo exchange alone, without molecules, and of molecular dynamics, on every rung."""

from __future__ import annotations

import argparse
import csv
import datetime
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any, Final

from pulsemd.base.errors import ConfigError, OutputError
from pulsemd.cli.md_bench import MdBench
from pulsemd.halo.launch import launch_gpus, require_gpu
from pulsemd.halo.rungs.bench import HaloBench
from pulsemd.halo.rungs.ladder import GPU_RUNGS
from pulsemd.io.output import make_folder

COLUMNS: Final = (
    "date", "commit", "device", "n_gpus", "n_ranks", "grid", "plan", "transport", "path", "precision", "system",
    "n_atoms", "nstlist", "steps", "us_per_step", "us_min", "us_max", "peer", "peer_us",
    "what", "mode", "rows", "width", "pulses", "bytes_sent", "gb_per_s", "graph_nodes", "launch_share",
    "host_blocking_waits", "blocks",
)  # fmt: skip
"""Columns of the results: those of all benchmarks, then those of this one."""

_SHOWN: Final = (
    "what", "grid", "plan", "rows", "width", "transport", "path", "blocks", "mode", "us_per_step", "us_min", "us_max",
    "gb_per_s", "graph_nodes", "launch_share", "host_blocking_waits",
)  # fmt: skip


_SHOWN_OF_MD: Final = (
    "system", "n_atoms", "nstlist", "n_ranks", "grid", "plan", "transport", "path", "graph", "us_per_step", "us_min",
    "us_max", "us_searches", "us_exposed", "us_idle", "host_blocking_waits", "trajectory_hash",
)  # fmt: skip


def bench_md(args: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    if (
        min(*args.atoms, *args.ranks_per_gpu, *args.nstlist, args.lifetimes) < 1
        or min(args.repeats, args.check) < 0
    ):
        raise ConfigError(
            "--atoms, --ranks-per-gpu, --nstlist and --lifetimes have to be positive; --repeats and --check may be 0"
        )
    _check_grids(args.grid, args.gpus, args.ranks_per_gpu)
    rows: list[dict[str, Any]] = []
    if args.out:
        make_folder(Path(args.out))
    require_gpu()
    for turn, ranks_per_gpu in enumerate(args.ranks_per_gpu):
        bench = MdBench(
            systems=tuple(args.system),
            atoms=tuple(args.atoms),
            rungs=tuple(args.transport),
            plans=tuple(args.plan),
            grids=tuple(args.grid),
            without_graphs=args.no_graph,
            nstlist=tuple(args.nstlist),
            lifetimes=args.lifetimes,
            repeats=args.repeats,
            check=args.check,
            trace=args.trace,
            alone=turn == 0,
            out=Path(args.out) if args.out else None,
            about={"date": datetime.date.today().isoformat(), "commit": _commit()},
        )
        print(f"starting {args.gpus} process(es) with a GPU each", file=sys.stderr, flush=True)
        rows += launch_gpus(
            args.gpus,
            "pulsemd.cli.md_bench:measure",
            bench,
            transport=None,
            ranks_per_gpu=ranks_per_gpu,
            timeout=args.timeout,
            rungs=args.transport,
        )
    print(json.dumps({"rows": rows}) if args.json else table(rows, _SHOWN_OF_MD))
    return 0


def _check_grids(grids: Sequence[Sequence[int]], gpus: int, ranks_per_gpu: Sequence[int]) -> None:
    """Refuse a grid that would be used for none of the numbers of ranks."""
    sizes = [gpus * n for n in ranks_per_gpu]
    for grid in grids:
        if prod(grid) not in sizes:
            raise ConfigError(
                f"--grid {'x'.join(map(str, grid))}: has {prod(grid)} ranks, but {gpus} GPUs of "
                f"{', '.join(map(str, ranks_per_gpu))} have {', '.join(map(str, sizes))}; change --grid or "
                "--ranks-per-gpu"
            )


def bench_halo(args: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    size = args.gpus * args.ranks_per_gpu
    grids = args.grid or [(size,)]
    _check_grids(grids, args.gpus, [args.ranks_per_gpu])
    if min(*args.rows, *args.width, args.repeats) < 1 or min(args.blocks) < 0:
        raise ConfigError("--rows, --width and --repeats have to be positive, --blocks not negative")
    if args.out:
        make_folder(Path(args.out))
    bench = HaloBench(
        tuple(args.transport),
        tuple(args.plan),
        tuple(grids),
        tuple(args.rows),
        tuple(args.width),
        tuple(args.blocks),
        args.puts,
        repeats=args.repeats,
    )
    found = launch_gpus(
        args.gpus,
        "pulsemd.halo.rungs.bench:measure",
        bench,
        transport=None,
        ranks_per_gpu=args.ranks_per_gpu,
        timeout=args.timeout,
        rungs=args.transport,
    )
    rows = [_completed(row) for row in found]
    if args.out:
        for path in _write(Path(args.out), rows):
            print(path, file=sys.stderr)
    print(json.dumps({"rows": rows}) if args.json else table(rows))
    return 0


def _completed(measured: dict[str, Any]) -> dict[str, Any]:
    """A row with all columns."""
    row: dict[str, Any] = dict.fromkeys(COLUMNS, "")
    row |= {"date": datetime.date.today().isoformat(), "commit": _commit()}
    row |= {"precision": "float32", "system": "halo exchange", "nstlist": 0} | measured
    row["n_atoms"] = row["rows"]
    if row["bytes_sent"] and row["us_per_step"]:
        times = 2 if "reverse" in str(row["what"]) else 1
        row["gb_per_s"] = round(1e-3 * times * row["bytes_sent"] / row["us_per_step"], 2)
    return row


def _commit() -> str:
    chosen = os.environ.get("PULSEMD_COMMIT")
    if chosen:
        return chosen
    command = ["git", "rev-parse", "--short", "HEAD"]
    done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def table(rows: Sequence[dict[str, Any]], columns: Sequence[str] = _SHOWN) -> str:
    """Rows as text in columns; without those that are empty everywhere."""
    shown = [name for name in columns if any(str(row[name]) for row in rows)]
    lines = [shown, *([str(row[name]) for name in shown] for row in rows)]
    widths = [max(len(line[k]) for line in lines) for k in range(len(shown))]
    return "\n".join(
        "  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def _write(folder: Path, rows: Sequence[dict[str, Any]]) -> list[Path]:
    """Write the CSV of an exchange, and the plot where matplotlib is installed."""
    device = str(next((row["device"] for row in rows if row["device"]), "none")).replace(" ", "-")
    most = max(int(row["n_gpus"] or 1) for row in rows)
    path = folder / f"halo__exchange__{device}x{most}__{rows[0]['commit']}.csv"
    try:
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows(rows)
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror}; choose another -o") from error
    plot = path.with_suffix(".png")
    return [path, plot] if draw(rows, plot) else [path]


def _draw_rungs(axis: Any, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Draw the rungs of one panel; the line of each name."""
    from matplotlib.ticker import FuncFormatter, LogLocator

    lines = {}
    for number, name in enumerate(GPU_RUNGS):
        for mode, style, fill in (("launched", "--", "white"), ("graph", "-", f"C{number}")):
            points = [
                (row["rows"], row["us_per_step"])
                for row in rows
                if (row["transport"], row["mode"]) == (name, mode)
            ]
            if points:
                lines[f"{name}, {mode}"] = axis.plot(
                    *zip(*sorted(points), strict=True), style, marker="o", markersize=5,
                    color=f"C{number}", markerfacecolor=fill,
                )[0]  # fmt: skip
    axis.set(xscale="log", yscale="log", xlabel="rows sent in each pulse")
    counts = sorted({int(row["rows"]) for row in rows})
    axis.set_xticks(counts, [f"{count:,}" for count in counts], minor=False)
    axis.set_xticks([], minor=True)
    axis.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.yaxis.set_minor_formatter("")
    axis.grid(True, which="both", alpha=0.25)
    return lines


def draw(rows: Sequence[dict[str, Any]], path: Path) -> bool:
    """Draw time of a forward exchange against rows, one panel for each grid and plan; False without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("note: no plot without matplotlib; pip install 'pulsemd[plots]'", file=sys.stderr)
        return False
    chosen = [row for row in rows if row["what"] == "forward"]
    panels = sorted({(row["grid"], row["plan"], row["width"]) for row in chosen})
    if not panels:
        return False
    figure = Figure(figsize=(4.2 * len(panels) + 2.4, 4.2), layout="constrained")
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    shown: dict[str, Any] = {}
    for axis, panel in zip(axes, panels, strict=True):
        here = [row for row in chosen if (row["grid"], row["plan"], row["width"]) == panel]
        shown |= _draw_rungs(axis, here)
        axis.set_title(f"{panel[0]} ranks, {panel[1]} plan, {4 * int(panel[2])} bytes a row", fontsize=10)
    axes[0].set_ylabel("µs for one forward exchange")
    figure.legend(
        shown.values(), shown.keys(), loc="outside right center", fontsize=8, frameon=False, handlelength=3.5
    )
    figure.savefig(path, dpi=150)
    return True
