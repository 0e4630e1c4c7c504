"""Traces of runs: ``trace.json`` in the format of Chrome and Perfetto, and one step taken out of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from pulsemd.base.errors import InputError
from pulsemd.io.output import write_whole
from pulsemd.schedule.trace import Event

NAME = "trace.json"
LAST = "update"
"""Phase that ends a step."""

_TICK = 1e-3  # us


@dataclass(frozen=True)
class Span:
    """A phase in a step.

    Parameters
    ----------
    name, lane : str
    process : int
        First rank of the process.
    start, duration : float, us
    """

    name: str
    lane: str
    process: int
    start: float
    duration: float

    @property
    def end(self) -> float:
        """Its end, us."""
        return self.start + self.duration


def write_trace(path: Path, traces: Sequence[Sequence[Event] | None], about: Mapping[str, Any]) -> None:
    """Write the phases of all processes, with time 0 at the first.

    Parameters
    ----------
    path : Path
    traces : one for each rank; None for ranks whose process reports as another
    about : dict
        Kept in the file, for the title of a timeline.
    """
    zero = min((event.start for trace in traces for event in trace or ()), default=0.0)
    rows: list[dict[str, Any]] = []
    for rank, trace in enumerate(traces):
        if trace is None:
            continue
        rows.append({"name": "process_name", "ph": "M", "pid": rank, "args": {"name": f"rank {rank}"}})
        for event in trace:
            times = {"ts": 1e6 * (event.start - zero), "dur": 1e6 * event.duration}
            rows.append({"name": event.name, "ph": "X", "pid": rank, "tid": event.lane, **times})
    write_whole(path, [json.dumps({"traceEvents": rows, "otherData": dict(about)}, indent=1).encode()])


def read_trace(path: Path) -> tuple[list[Span], dict[str, Any]]:
    """The phases in a file of `write_trace`, in order of their begin, and what it tells about the run.

    Raises
    ------
    InputError
        If there is no such file, or it is something else.
    """
    try:
        found = json.loads(path.read_text())
        spans = [
            Span(row["name"], row["tid"], row["pid"], row["ts"], row["dur"])
            for row in found["traceEvents"]
            if row["ph"] == "X"
        ]
        return sorted(spans, key=lambda span: span.start), found.get("otherData", {})
    except FileNotFoundError as error:
        raise InputError("does not exist; make it with pulsemd run --trace", path) from error
    except (ValueError, KeyError, TypeError) as error:
        raise InputError("is not a trace of pulsemd", path) from error


def typical_step(spans: Sequence[Span]) -> list[Span]:
    """The phases of the step of median length, as the first process has it; time 0 at its begin.

    Raises
    ------
    InputError
        If fewer than two steps were traced.
    """
    first = min((span.process for span in spans), default=0)
    ends = [span.end for span in spans if span.name == LAST and span.process == first]
    if len(ends) < 2:
        raise InputError("the trace holds no whole step; run at least two list lifetimes with --trace")
    lengths = np.diff(ends)
    k = int(np.argsort(lengths)[len(lengths) // 2])
    begin, end = ends[k], ends[k + 1]
    return [
        Span(s.name, s.lane, s.process, s.start - begin, s.duration)
        for s in spans
        if begin - _TICK <= s.start < end - _TICK
    ]


def exposed_waits(step: Sequence[Span]) -> dict[int, float]:
    """Microseconds of a step in which each process does nothing but wait for others: gaps between the phases of the
    main stream of a device, or phases of the host that end an exchange."""
    waits = {}
    for process in sorted({span.process for span in step}):
        mine = [s for s in step if s.process == process]
        busy = sorted((s.start, s.end) for s in mine if s.lane == "main")
        gaps = [max(0.0, later[0] - earlier[1]) for earlier, later in pairwise(busy)]
        ends = [s.duration for s in mine if s.lane == "host" and s.name.endswith(".end")]
        waits[process] = float(sum(gaps) + sum(ends))
    return waits


def critical_path(step: Sequence[Span]) -> list[Span]:
    """From the last phase back: before each the one that ended last before it began, on any lane of any process."""
    if not step:
        return []
    path = [max(step, key=lambda span: span.end)]
    while True:
        slack = 0.05 * path[-1].duration + 0.2
        before = [s for s in step if s is not path[-1] and s.end <= path[-1].start + slack and s not in path]
        if not before:
            return path[::-1]
        path.append(max(before, key=lambda span: span.end))
