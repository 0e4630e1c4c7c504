"""One step of each of some traces as a picture: a row for each lane of each process, exposed waits marked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pulsemd.report.drawing import Box, Drawing, Words
from pulsemd.report.trace import Span, critical_path, exposed_intervals, exposed_waits

LANES = {
    "main": "GPU, main stream",
    "ghosts": "GPU, ghost stream",
    "host": "host",
    "exchange": "host, in exchanges",
}
_WIDTH, _ROW, _LEFT, _HEAD, _GAP = 1100.0, 28.0, 176.0, 46.0, 14.0
_COLORS = {
    "forces": "#3b6fb6",
    "forces.start": "#9dbce0",
    "forces.local.rest": "#6d97cc",
    "forces.lattice": "#4b9aa6",
    "forces.nonlocal": "#5a9e6f",
    "update": "#8d6bb0",
    "halo": "#d8c05a",
    "halo.forward": "#e0a63c",
    "halo.reverse": "#c9822b",
    "pack": "#8a97a3",
    "synchronise": "#b5524a",
    "transfer": "#7a4a2b",
    "unpack": "#a9b4bd",
}
_OTHER, _WAIT = "#dfe3e6", "#f3c6c2"
_LETTER = 6.2  # px, about the width of one


@dataclass(frozen=True)
class Panel:
    """A step of a trace.

    Parameters
    ----------
    title : str
    step : sequence of Span
        See `typical_step`.
    length : float, us
    """

    title: str
    step: Sequence[Span]
    length: float


def panel_of(title: str, step: Sequence[Span]) -> Panel:
    """A panel as long as its step."""
    return Panel(title, step, max((span.end for span in step), default=1.0))


def draw_timeline(panels: Sequence[Panel]) -> Drawing:
    """The panels below each other on one axis of time."""
    longest = max(panel.length for panel in panels)
    scale = (_WIDTH - _LEFT - 20.0) / longest
    shapes: list[Box | Words] = []
    y = 0.0
    for panel in panels:
        shapes += [Words(8, y + 20, panel.title, 14), Words(8, y + 37, _caption(panel), 11)]
        y = _draw_rows(panel, y + _HEAD, scale, shapes) + _GAP
    shapes += _axis(longest, scale, y)
    names = list(dict.fromkeys(_kind(span.name) for panel in panels for span in panel.step))
    shapes += _legend([*names, "exposed wait"], y + 38)
    return Drawing(_WIDTH, y + 44 + 18 * -(-(len(names) + 1) // 5), shapes)


def describe_step(step: Sequence[Span]) -> dict[str, Any]:
    """Length of a step, us by phase and process, exposed waits and the critical path."""
    path = critical_path(step)
    chosen = set(map(id, path))
    return {
        "us": panel_of("", step).length,
        "phases": [
            {
                "rank": s.process,
                "lane": s.lane,
                "phase": s.name,
                "begin_us": round(s.start, 3),
                "us": round(s.duration, 3),
                "critical": int(id(s) in chosen),
            }
            for s in step
        ],
        "exposed_us": exposed_waits(step),
        "critical_path": [f"rank {span.process} {span.name}" for span in path],
    }


def _caption(panel: Panel) -> str:
    waits = ", ".join(f"rank {rank} {us:.1f} us" for rank, us in exposed_waits(panel.step).items())
    return f"{panel.length:.1f} us a step; exposed waits: {waits}; outlined: critical path"


def _draw_rows(panel: Panel, y: float, scale: float, shapes: list[Box | Words]) -> float:
    """Add the rows of a panel; where they end."""
    rows = sorted({(s.process, s.lane) for s in panel.step}, key=lambda row: (row[0], _rank_of_lane(row[1])))
    path = set(map(id, critical_path(panel.step)))
    for process, lane in rows:
        label = f"rank {process}  {LANES.get(lane, f'GPU, {lane} stream')}"
        shapes.append(Words(8, y + 16, label, 11))
        shapes.append(Box(_LEFT, y, scale * panel.length, _ROW - 4, "#f6f7f8"))
        if lane == "main":
            for start, end in exposed_intervals(panel.step, process):
                shapes += _bar(start, end, y, scale, _WAIT, "exposed wait")
        for span in panel.step:
            if (span.process, span.lane) == (process, lane):
                shapes += _bar(
                    span.start,
                    span.end,
                    y,
                    scale,
                    _color(_kind(span.name)),
                    f"{span.name} {span.duration:.1f} us",
                    span.name,
                    id(span) in path,
                )
        y += _ROW
    return y


def _rank_of_lane(lane: str) -> tuple[int, str]:
    """Streams of the GPU first, then the host."""
    order = list(LANES)
    return (order.index(lane) if lane in LANES else order.index("ghosts"), lane)


def _bar(
    start: float,
    end: float,
    y: float,
    scale: float,
    color: str,
    title: str,
    name: str = "",
    outlined: bool = False,
) -> list[Box | Words]:
    """A bar, with its name where there is room."""
    x, width = _LEFT + scale * start, max(scale * (end - start), 0.6)
    found: list[Box | Words] = [Box(x, y, width, _ROW - 4, color, title, outlined)]
    if name and _LETTER * len(name) < width:
        found.append(Words(x + width / 2, y + 16, name, 11, True, "black" if color == _OTHER else "white"))
    return found


def _kind(name: str) -> str:
    """What a colour stands for: pulses of an exchange and sums look alike, its begin and its end too."""
    words = name.split()[-1] if name.startswith(("pulse ", "sum ")) else name
    return words.rsplit(".", 1)[0] if words.startswith("halo.") else words


def _color(kind: str) -> str:
    """That of a kind of phases, or of the most special one it belongs to."""
    while kind and kind not in _COLORS:
        kind = kind.rpartition(".")[0]
    return _COLORS.get(kind, _OTHER)


def _axis(longest: float, scale: float, y: float) -> list[Box | Words]:
    step = next(s for s in (1, 2, 5, 10, 20, 50, 100, 200, 500, 10**3, 10**4, 10**9) if longest / s <= 12)
    ticks = [step * k for k in range(int(longest / step) + 1)]
    return [
        Words(8, y + 12, "us", 11),
        *(Words(_LEFT + scale * tick, y + 12, f"{tick:g}", 11, True) for tick in ticks),
    ]


def _legend(names: Sequence[str], y: float) -> list[Box | Words]:
    shapes: list[Box | Words] = []
    for k, name in enumerate(names):
        x, line = 8 + 215.0 * (k % 5), y + 18.0 * (k // 5)
        shapes.append(Box(x, line - 10, 12, 12, _WAIT if name == "exposed wait" else _color(name)))
        shapes.append(Words(x + 18, line, name, 11))
    return shapes
