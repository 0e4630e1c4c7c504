"""Phases: the named pieces a step is made of, and the timer that runs them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter, thread_time

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

    Attributes
    ----------
    host_wall, host_cpu : float, s
        Of all that the calling thread did `between_searches`: by the clock, and by its own.
    """

    trace: bool = False
    seconds: dict[str, float] = field(default_factory=dict)
    calls: dict[str, int] = field(default_factory=dict)
    events: deque[tuple[str, float, float]] = field(default_factory=partial(deque, maxlen=_KEPT))
    host_wall: float = 0.0
    host_cpu: float = 0.0

    @contextmanager
    def between_searches(self) -> Iterator[None]:
        """Steps that no search interrupts are made here; on a GPU they are only launched."""
        wall, cpu = perf_counter(), thread_time()
        yield
        self.host_wall += perf_counter() - wall
        self.host_cpu += thread_time() - cpu

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
        self.host_wall = self.host_cpu = 0.0
