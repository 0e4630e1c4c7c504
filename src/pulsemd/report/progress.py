"""The progress line of a run, on standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import perf_counter

ENDLESS = 2**62
"""Last step of a run without end."""


def duration(seconds: float) -> str:
    """A length of time for people: ``42 s``, ``3 min 05 s``, ``2 h 10 min``."""
    s = round(seconds)
    if s < 100:
        return f"{s} s"
    if s < 6000:
        return f"{s // 60} min {s % 60:02d} s"
    return f"{s // 3600} h {s % 3600 // 60:02d} min"


def progress_line(first: int, last: int, dt: float) -> Callable[[int], None]:
    """A function of the current step that keeps one line on a terminal up to date; elsewhere a new one is written now
    and then.

    Parameters
    ----------
    first, last : int, steps of the run
    dt : float, ps
    """
    stream, terminal = sys.stderr, sys.stderr.isatty()
    interval = 1.0 if terminal else 10.0
    start = perf_counter()
    state = {"due": start + min(interval, 2.0), "open": 0.0}

    def update(step: int) -> None:
        now = perf_counter()
        done = step - first
        if (now < state["due"] and step < last) or done <= 0:
            return
        state["due"] = now + interval
        per_step = (now - start) / done
        speed = f"{dt * 86.4 / per_step:.1f} ns/day  {per_step * 1e6:.0f} us/step"
        if last < ENDLESS:
            share, left = 100.0 * done / max(last - first, 1), duration(per_step * (last - step))
            text = f"step {step}/{last} {share:3.0f} %  {speed}  {left} left"
        else:
            text = f"step {step}  {speed}"
        stream.write(f"\r{text:<78}" if terminal else text + "\n")
        if terminal and step >= last:
            stream.write("\n")
        stream.flush()

    return update
