"""``pulsemd report``: what runs did and found, side by side."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from pulsemd.report.results import read_results
from pulsemd.report.runs_table import runs_as_json, runs_as_text


def report(args: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    runs = [read_results(Path(out)) for out in args.out]
    print(json.dumps({"runs": runs_as_json(runs)}) if args.json else runs_as_text(runs))
    return 0
