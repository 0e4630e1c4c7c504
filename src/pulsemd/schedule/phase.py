"""Phases: the named pieces a step is made of, and the timer that runs them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter

_KEPT = 1000


@dataclass(frozen=True)
class Phase:
    """One named piece of a step; the name is also the timer, the timeline row and the benchmark column."""

    name: str
    call: Callable[[], None]


@dataclass
class PhaseTimer:
    """Runs phases and adds up the wall time of each, in seconds.

    Parameters
    ----------
    trace : bool
        Also keep the last calls as (name, start, duration) for a timeline.
    """

    trace: bool = False
    seconds: dict[str, float] = field(default_factory=dict)
    calls: dict[str, int] = field(default_factory=dict)
    events: deque[tuple[str, float, float]] = field(default_factory=partial(deque, maxlen=_KEPT))

    def run(self, phases: Iterable[Phase]) -> None:
        """Call each phase in order."""
        for phase in phases:
            start = perf_counter()
            phase.call()
            self._add(phase.name, start, perf_counter() - start)

    def timed(self, name: str, call: Callable[[], None]) -> None:
        """Call something outside the step under a name of its own."""
        self.run((Phase(name, call),))

    def _add(self, name: str, start: float, duration: float) -> None:
        self.seconds[name] = self.seconds.get(name, 0.0) + duration
        self.calls[name] = self.calls.get(name, 0) + 1
        if self.trace:
            self.events.append((name, start, duration))

    def reset(self) -> None:
        """Forget everything measured so far."""
        self.seconds.clear()
        self.calls.clear()
        self.events.clear()
