"""Traces of runs: ``trace.json`` in the format of Chrome and Perfetto, and what one step in it tells."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
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
HOST_LANES = ("host", "exchange")
"""What the host does: phases that it launches or computes, and what it does inside exchanges that it drives."""

_TICK = 1e-3  # us
_COMPUTE = ("forces.", LAST)
Intervals = list[tuple[float, float]]


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

    @property
    def computes(self) -> bool:
        """Whether it makes forces or moves atoms, also where an exchange is part of it."""
        return any(part.startswith(_COMPUTE) for part in self.name.split("+"))

    @property
    def exchanges(self) -> bool:
        """Whether it is an exchange and nothing else."""
        return not self.computes and self.name.startswith("halo.")


@dataclass(frozen=True)
class Exposure:
    """Microseconds of a step: its length; in which an exchange is under way and nothing else; in which no kernel of
    forces or of the update runs, for whatever reason."""

    step: float
    exposed: float
    idle: float


def spans_of(traces: Sequence[Sequence[Event] | None]) -> list[Span]:
    """Phases of all processes in order of their begin, with time 0 at the first.

    Parameters
    ----------
    traces : one for each rank; None for ranks whose process reports as another
    """
    zero = min((event.start for trace in traces for event in trace or ()), default=0.0)
    spans = [
        Span(event.name, event.lane, rank, 1e6 * (event.start - zero), 1e6 * event.duration)
        for rank, trace in enumerate(traces)
        for event in trace or ()
    ]
    return sorted(spans, key=lambda span: span.start)


def write_trace(path: Path, traces: Sequence[Sequence[Event] | None], about: Mapping[str, Any]) -> None:
    """Write the phases of all processes.

    Parameters
    ----------
    path : Path
    traces : see `spans_of`
    about : dict
        Kept in the file, for the title of a timeline.
    """
    rows: list[dict[str, Any]] = [
        {"name": "process_name", "ph": "M", "pid": rank, "args": {"name": f"rank {rank}"}}
        for rank, trace in enumerate(traces)
        if trace is not None
    ]
    rows += [
        {"name": s.name, "ph": "X", "pid": s.process, "tid": s.lane, "ts": s.start, "dur": s.duration}
        for s in spans_of(traces)
    ]
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


def _ends(spans: Sequence[Span], process: int) -> list[float]:
    """Ends of the steps of a process, by its device if it has one.

    Raises
    ------
    InputError
        If fewer than two steps were traced.
    """
    last = [s for s in spans if s.name == LAST and s.process == process]
    lanes = {s.lane for s in last}
    lane = "main" if "main" in lanes else "host"
    ends = [s.end for s in last if s.lane == lane]
    if len(ends) < 2:
        raise InputError("the trace holds no whole step; run at least two list lifetimes with --trace")
    return ends


def typical_step(spans: Sequence[Span]) -> list[Span]:
    """What lies in the step of median length, as the first process has it, of each phase; time 0 at its begin.

    Raises
    ------
    InputError
        If fewer than two steps were traced.
    """
    ends = _ends(spans, min((span.process for span in spans), default=0))
    lengths = np.diff(ends)
    k = int(np.argsort(lengths)[len(lengths) // 2])
    begin, end = ends[k], ends[k + 1]
    inside = [s for s in spans if s.end > begin + _TICK and s.start < end - _TICK]
    return [_cut(s, begin, end) for s in inside]


def _cut(span: Span, begin: float, end: float) -> Span:
    """The part of a span between two times, with time 0 at the first."""
    start = max(span.start, begin)
    return replace(span, start=start - begin, duration=min(span.end, end) - start)


def exposed_waits(step: Sequence[Span]) -> dict[int, float]:
    """Microseconds of a step in which each process has an exchange under way, or waits for its end, and computes
    nothing. On a device any phase of an exchange counts, on a host the ends: there the begin is work."""
    processes = sorted({span.process for span in step})
    return {process: _length(exposed_intervals(step, process)) for process in processes}


def exposed_intervals(step: Sequence[Span], process: int) -> Intervals:
    """Begin and end, us, of each exposed wait of a process, see `exposed_waits`."""
    mine = [s for s in step if s.process == process]
    return _without(_exchanges(mine), _computing(mine))


def typical_exposure(spans: Sequence[Span]) -> Exposure:
    """Medians over all traced steps, mean over processes: interruptions of a host say nothing of other steps.

    Raises
    ------
    InputError
        If fewer than two steps were traced.
    """
    found = []
    for process in sorted({span.process for span in spans}):
        mine, ends = [s for s in spans if s.process == process], _ends(spans, process)
        busy, under_way = _computing(mine), _exchanges(mine)
        steps = []
        for begin, end in pairwise(ends):
            idle = _without([(begin, end)], busy)
            exposed = _length(idle) - _length(_without(idle, under_way))
            steps.append((end - begin, exposed, _length(idle)))
        found.append(np.median(steps, axis=0))
    return Exposure(*(float(value) for value in np.mean(found, axis=0)))


def _on_device(spans: Sequence[Span]) -> list[Span]:
    """Those of the device; where there is none, all."""
    return [s for s in spans if s.lane not in HOST_LANES] or list(spans)


def _computing(spans: Sequence[Span]) -> Intervals:
    return _union((s.start, s.end) for s in _on_device(spans) if s.computes)


def _exchanges(spans: Sequence[Span]) -> Intervals:
    return _union(
        (s.start, s.end)
        for s in _on_device(spans)
        if s.exchanges and (s.lane not in HOST_LANES or s.name.endswith(".end"))
    )


def _union(intervals: Iterable[tuple[float, float]]) -> Intervals:
    """Disjoint intervals in order."""
    joined: Intervals = []
    for start, end in sorted(intervals):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((start, end))
    return joined


def _without(intervals: Intervals, others: Intervals) -> Intervals:
    """The parts of disjoint intervals that no other covers."""
    left: Intervals = []
    for start, end in intervals:
        for a, b in others:
            if b <= start or a >= end:
                continue
            if a > start:
                left.append((start, a))
            start = max(start, b)
        if end > start:
            left.append((start, end))
    return left


def _length(intervals: Intervals) -> float:
    return float(sum(end - start for start, end in intervals))


def critical_path(step: Sequence[Span]) -> list[Span]:
    """From the last phase back: before each the one that ended last before it began, on any lane of any device."""
    step = _on_device(step)
    if not step:
        return []
    path = [max((s for s in step if s.computes), key=lambda span: span.end, default=step[-1])]
    while True:
        slack = 0.05 * path[-1].duration + 0.2
        before = [s for s in step if s is not path[-1] and s.end <= path[-1].start + slack and s not in path]
        if not before:
            return path[::-1]
        path.append(max(before, key=lambda span: span.end))
