"""When the phases of the last steps began and ended."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

from pulsemd.device.cuda import CudaDevice
from pulsemd.device.stamps import Stamps
from pulsemd.schedule.phase import Phase

MARKS, RUNS = 512, 8
"""Begins and ends of phases that are kept of a run of steps, about 30 steps; and kinds of runs."""
HOST_SPANS = 2000
"""Last calls of the host inside exchanges that are kept."""


@dataclass(frozen=True)
class Event:
    """A phase of a step.

    Parameters
    ----------
    name : str
    lane : str
        Stream of the device, 'host', or 'exchange': the host inside of one.
    start, duration : float, s, by `time.perf_counter`
    """

    name: str
    lane: str
    start: float
    duration: float


class DeviceTrace:
    """Times of the phases of runs of steps on a device; works in graphs.

    Parameters
    ----------
    device : CudaDevice
    """

    def __init__(self, device: CudaDevice) -> None:
        self._stamps = Stamps(device, RUNS * MARKS)
        self._runs: dict[Hashable, list[tuple[str, str, int]]] = {}
        self._now: list[tuple[str, str, int]] | None = None

    def begin(self, pattern: Hashable) -> None:
        """Steps of a pattern, see `StepGraphs.run`, are about to be launched one by one, or recorded."""
        if pattern in self._runs or len(self._runs) < RUNS:
            self._now = self._runs[pattern] = self._runs.get(pattern, [])
            self._now.clear()
            self._first = MARKS * list(self._runs).index(pattern)

    def end(self) -> None:
        """What is launched from now on is not part of a run of steps."""
        self._now = None

    def phase(self, name: str, call: Callable[[], None], lane: str = "main", stream: Any = None) -> Phase:
        """A phase whose begin and end are marked in a stream."""

        def call_between_marks() -> None:
            run = self._now
            if run is None or 2 * len(run) >= MARKS:
                return call()
            number = self._first + 2 * len(run)
            self._stamps.mark(number, stream)
            call()
            self._stamps.mark(number + 1, stream)
            return run.append((name, lane, number))

        return Phase(name, call_between_marks)

    def events(self) -> list[Event]:
        """The phases of the longest run of steps, as they were the last time; waits for the device."""
        times = self._stamps.read()
        longest = max(self._runs.values(), key=len, default=[])
        return [
            Event(name, lane, float(times[n]), float(times[n + 1] - times[n])) for name, lane, n in longest
        ]
