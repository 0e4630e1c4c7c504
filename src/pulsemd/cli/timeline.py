"""``pulsemd timeline``: one step of a traced run as a picture."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from pulsemd.report.timeline import describe_step, draw_timeline
from pulsemd.report.trace import NAME, read_trace, typical_step


def timeline(args: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    folder = Path(args.out)
    spans, about = read_trace(folder / NAME)
    step = typical_step(spans)
    found = describe_step(step)
    title = ", ".join(f"{key} {value}" for key, value in about.items())
    picture = Path(args.picture) if args.picture else folder / "timeline.svg"
    picture.write_text(draw_timeline(step, f"{title}: {found['us']:.1f} us a step"))
    if args.json:
        print(json.dumps(found))
        return 0
    for row in found["phases"]:
        print(
            f"rank {row['rank']:3d} {row['lane']:8} {row['phase']:22} {row['begin_us']:9.1f} {row['us']:9.1f} us"
        )
    for rank, us in found["exposed_us"].items():
        print(f"rank {rank:3d} waits {us:.1f} us of {found['us']:.1f} us")
    print(picture)
    return 0
