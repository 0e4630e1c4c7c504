"""One step of a trace as a picture in SVG: a row for each lane of each process, waits of the main lane marked."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import pairwise
from typing import Any

from pulsemd.report.trace import Span, critical_path, exposed_waits

_WIDTH, _ROW, _LEFT, _TOP = 1000, 34, 110, 58
_COLORS = ("#3b6fb6", "#5a9e6f", "#c58b2a", "#8d6bb0", "#b5524a", "#4b9aa6", "#7f7f7f", "#a2678a")
_WAIT = "#f3c6c2"


def draw_timeline(step: Sequence[Span], title: str) -> str:
    """The picture as SVG text.

    Parameters
    ----------
    step : sequence of Span
        See `typical_step`.
    title : str
    """
    rows = sorted({(span.process, span.lane) for span in step}, key=lambda row: (row[0], row[1] != "main"))
    end = max((span.end for span in step), default=1.0)
    scale = (_WIDTH - _LEFT - 20) / end
    path = set(map(id, critical_path(step)))
    names = list(dict.fromkeys(span.name for span in step))
    parts = [_text(_LEFT, 20, title, 15), _text(_LEFT, 40, _waits(step), 12)]
    for number, (process, lane) in enumerate(rows):
        y = _TOP + number * _ROW
        parts.append(_text(8, y + 17, f"rank {process} {lane}", 12))
        mine = [span for span in step if (span.process, span.lane) == (process, lane)]
        if lane == "main":
            parts += [
                _box(_LEFT + scale * a.end, y + 4, scale * (b.start - a.end), _WAIT, "wait")
                for a, b in pairwise(mine)
                if b.start > a.end
            ]
        for span in mine:
            color = _COLORS[names.index(span.name) % len(_COLORS)]
            parts.append(
                _box(
                    _LEFT + scale * max(span.start, 0.0),
                    y + 4,
                    scale * (span.end - max(span.start, 0.0)),
                    color,
                    f"{span.name} {span.duration:.1f} us",
                    id(span) in path,
                )
            )
    height = _TOP + len(rows) * _ROW
    parts += _axis(end, scale, height)
    parts += _legend(names, height + 44)
    total = height + 60 + 18 * -(-len(names) // 4)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{total}" font-family="sans-serif">'
    )
    return "\n".join([head, f'<rect width="{_WIDTH}" height="{total}" fill="white"/>', *parts, "</svg>", ""])


def describe_step(step: Sequence[Span]) -> dict[str, Any]:
    """Length of a step, us by phase and process, exposed waits and the critical path."""
    return {
        "us": max(span.end for span in step),
        "phases": [
            {"rank": s.process, "lane": s.lane, "phase": s.name, "begin_us": s.start, "us": s.duration}
            for s in step
        ],
        "exposed_us": exposed_waits(step),
        "critical_path": [f"rank {span.process} {span.name}" for span in critical_path(step)],
    }


def _waits(step: Sequence[Span]) -> str:
    waits = ", ".join(f"rank {process} {us:.1f} us" for process, us in exposed_waits(step).items())
    return f"exposed waits: {waits}; outlined: critical path"


def _text(x: float, y: float, text: str, size: int) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}">{escape(text)}</text>'


def _box(x: float, y: float, width: float, color: str, title: str, outlined: bool = False) -> str:
    line = ' stroke="black" stroke-width="1.5"' if outlined else ""
    return (
        f'<rect x="{x:.2f}" y="{y}" width="{max(width, 0.5):.2f}" height="{_ROW - 10}" fill="{color}"{line}>'
        f"<title>{escape(title)}</title></rect>"
    )


def _axis(end: float, scale: float, y: float) -> list[str]:
    step = next(s for s in (1, 2, 5, 10, 20, 50, 100, 200, 500, 10**3, 10**4, 10**9) if end / s <= 10)
    ticks = [step * k for k in range(int(end / step) + 1)]
    return [_text(_LEFT + scale * t - 6, y + 16, f"{t:g}", 11) for t in ticks] + [_text(8, y + 16, "us", 11)]


def _legend(names: Sequence[str], y: float) -> list[str]:
    parts = []
    for k, name in enumerate(names):
        x, line = _LEFT + 220 * (k % 4), y + 18 * (k // 4)
        color = _COLORS[k % len(_COLORS)]
        parts.append(f'<rect x="{x}" y="{line - 10}" width="12" height="12" fill="{color}"/>')
        parts.append(_text(x + 18, line, name, 12))
    return parts
