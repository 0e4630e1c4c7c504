"""Draw step.svg, the picture of the README: who owns what on two ranks, and what they do in one step.

usage: python docs/images/draw_step.py      (standard library only; writes step.svg beside itself)
"""

from __future__ import annotations

import random
from pathlib import Path

INK, FAINT, PAPER = "#22303c", "#8a97a3", "#ffffff"
RANK = ("#2f6fb3", "#c96a1b")
LIGHT = ("#d6e6f5", "#f8e3d0")
SEND, WAIT, WORK = "#3d8f7c", "#b9d9d1", "#e9edf1"
PHASES = (
    ("halo.forward.begin", 74, SEND),
    ("forces.local", 96, WORK),
    ("halo.forward.end", 64, WAIT),
    ("forces.nonlocal", 104, WORK),
    ("halo.reverse.begin", 74, SEND),
    ("forces.local.rest", 96, WORK),
    ("halo.reverse.end", 64, WAIT),
    ("update", 62, WORK),
)
LANES = (88, 218)  # y of the two ranks' rows
LANE_HEIGHT, START = 56, 430


def text(
    x: float, y: float, words: str, size: int = 13, fill: str = INK, anchor: str = "middle", weight: int = 400
) -> str:
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{fill}" text-anchor="{anchor}" '
        f'font-weight="{weight}">{words}</text>'
    )


def box(x: float, y: float, width: float, height: float, fill: str, extra: str = "") -> str:
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" fill="{fill}" {extra}/>'


def domains() -> list[str]:
    """The periodic box cut in two, with the slab each rank receives from its upper neighbor."""
    left, top, width, height, halo = 30, 102, 150, 166, 36
    parts = [text(left + width, 40, "Two ranks share the periodic box", 14, weight=600)]
    parts.append(text(left + width, 60, "the shaded atoms of one are the halo of the other", 12, FAINT))
    for rank in (0, 1):
        x = left + rank * width
        parts.append(box(x, top, width, height, LIGHT[rank], f'stroke="{RANK[rank]}" stroke-width="2"'))
        parts.append(box(x, top, halo, height, RANK[rank], 'fill-opacity="0.28"'))
        parts.append(text(x + width / 2, top + height + 20, f"rank {rank}", 13, RANK[rank], weight=600))
    draw = random.Random(4)
    placed: list[tuple[float, float]] = []
    while len(placed) < 74:
        x, y = left + 7 + draw.random() * (2 * width - 14), top + 7 + draw.random() * (height - 14)
        if all((x - a) ** 2 + (y - b) ** 2 > 150 for a, b in placed) and abs(x - left - width) > 5:
            placed.append((x, y))
    parts += [
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.6" fill="{RANK[int(x > left + width)]}"/>' for x, y in placed
    ]
    y = top - 9
    parts.append(arrow(left + width + halo / 2, y + 6, left + width - 30, y + 6))
    parts.append(f'<path d="M {left + halo / 2} {y} V {y - 5} H {left + 2 * width + 14} V {top + 30} '
                 f'h -12" fill="none" stroke="{SEND}" stroke-width="2" marker-end="url(#head)"/>')  # fmt: skip
    return parts


def arrow(x1: float, y1: float, x2: float, y2: float) -> str:
    return (
        f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="{SEND}" stroke-width="2" '
        'marker-end="url(#head)"/>'
    )


def timeline() -> list[str]:
    """The phases of a step on both ranks, with the rows that are put into the other's memory."""
    total = sum(width for _, width, _ in PHASES)
    parts = [
        text(START + total / 2, 40, "One step: put rows, work on what is here, then wait", 14, weight=600)
    ]
    parts.append(
        text(START + total / 2, 60, "a put ends with a 64-bit epoch that the receiver waits for", 12, FAINT)
    )
    edges: dict[str, tuple[float, float]] = {}
    for rank, y in enumerate(LANES):
        x = float(START)
        parts.append(text(START - 10, y + LANE_HEIGHT / 2 + 4, f"rank {rank}", 13, RANK[rank], "end", 600))
        for name, width, fill in PHASES:
            parts.append(
                box(x, y, width - 3, LANE_HEIGHT, fill, f'rx="3" stroke="{RANK[rank]}" stroke-width="1"')
            )
            ink = PAPER if fill == SEND else INK
            words = name.split(".")
            for row, line in enumerate(words):
                offset = LANE_HEIGHT / 2 + 4 + (row - (len(words) - 1) / 2) * 15
                parts.append(text(x + (width - 3) / 2, y + offset, line, 12, ink))
            edges[name] = (x, x + width - 3)
            x += width
    below, above = LANES[0] + LANE_HEIGHT, LANES[1]
    for way, words in (("forward", "positions"), ("reverse", "forces on ghosts")):
        x1, x2 = edges[f"halo.{way}.begin"][0] + 34, edges[f"halo.{way}.end"][0] + 40
        parts += [arrow(x1, below + 2, x2, above - 5), arrow(x1, above - 2, x2, below + 5)]
        middle = (x1 + x2) / 2
        width = 7 * len(words)
        y = (below + above) / 2
        parts.append(box(middle - width / 2, y - 11, width, 22, PAPER, 'rx="4"'))
        parts.append(text(middle, y + 4, words, 12, SEND, weight=600))
    return parts


def main() -> None:
    width, height = START + sum(width for _, width, _ in PHASES) + 20, 306
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="Helvetica, Arial, sans-serif">'
    )
    marker = (
        '<defs><marker id="head" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M 0 0 L 8 4 L 0 8 z" fill="{SEND}"/></marker></defs>'
    )
    lines = [head, marker, box(0, 0, width, height, PAPER), *domains(), *timeline(), "</svg>"]
    Path(__file__).with_name("step.svg").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
