"""``pulsemd timeline``: one step of each of some traced runs as a picture."""

from __future__ import annotations

import argparse
import csv
import io
import json
from pathlib import Path
from typing import Any

from pulsemd.io.output import write_whole
from pulsemd.report.timeline import describe_step, draw_timeline, panel_of
from pulsemd.report.trace import NAME, read_trace, typical_step


def timeline(args: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    panels, found = [], []
    for out in map(Path, args.out):
        trace = out / NAME if out.is_dir() or not out.suffix else out
        spans, about = read_trace(trace)
        title = ", ".join(f"{key} {value}" for key, value in about.items())
        panels.append(panel_of(title, typical_step(spans)))
        found.append({"run": str(out), "title": title} | describe_step(panels[-1].step))
    picture = Path(args.picture) if args.picture else (trace.parent / "timeline.svg")
    draw_timeline(panels).save(picture)
    if args.table:
        write_whole(Path(args.table), [_table(found).encode()])
    if args.json:
        print(json.dumps(found))
        return 0
    for run in found:
        _show(run)
    print(picture)
    return 0


def _show(run: dict[str, Any]) -> None:
    print(run["title"])
    for row in run["phases"]:
        print(
            f"rank {row['rank']:3d} {row['lane']:8} {row['phase']:22} {row['begin_us']:9.1f} {row['us']:9.1f} us"
        )
    for rank, us in run["exposed_us"].items():
        print(f"rank {rank:3d} waits {us:.1f} us of {run['us']:.1f} us")


def _table(found: list[dict[str, Any]]) -> str:
    """The phases of all runs as CSV."""
    text = io.StringIO()
    writer = csv.DictWriter(text, ("title", *found[0]["phases"][0]), lineterminator="\n")
    writer.writeheader()
    for run in found:
        writer.writerows({"title": run["title"]} | row for row in run["phases"])
    return text.getvalue()
