"""Who is told of energies and positions, and what is still on its way to them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pulsemd.engine.cell import Cell


@dataclass(frozen=True)
class Frame:
    """Positions and velocities of all atoms, on rank 0.

    Parameters
    ----------
    step : int
    time : float, ps
    x : (n, 3) int32, lattice units of the run's box
    v : (n, 3) float32, nm/ps, half a step before `x`; what is reported of velocity Verlet, at the time of `x`
    cell : Cell
    image : (n, 3) int32, or None
        Box crossings, where they are counted.
    """

    step: int
    time: float
    x: NDArray[np.int32]
    v: NDArray[np.float32]
    cell: Cell
    image: NDArray[np.int32] | None = None


@dataclass(frozen=True)
class Reporter:
    """What is called on rank 0 at every step divisible by `interval`; 0: after the last step only.

    Parameters
    ----------
    interval : int
    energies : function of (step, time [ps], energies by name), also called after the last step
    frame : function of a `Frame`
    """

    interval: int
    energies: Callable[[int, float, dict[str, float]], None] | None = None
    frame: Callable[[Frame], None] | None = None

    def due(self, step: int) -> bool:
        """Whether the positions of this step are to be reported."""
        return self.interval > 0 and step % self.interval == 0

    def next_due(self, step: int) -> int | None:
        """The first step after `step` whose positions are to be reported; None: there is none."""
        return None if self.interval <= 0 else step - step % self.interval + self.interval


@dataclass(frozen=True)
class Report:
    """Something to be reported once its copy has come from the device.

    Parameters
    ----------
    step : int, it belongs to
    is_frame : bool
    deliver : function
        Waits for the copy and gives it to the reporters; collective.
    """

    step: int
    is_frame: bool
    deliver: Callable[[], None]


class PendingReports:
    """Reports in the order in which they were asked for.

    Parameters
    ----------
    energies_ahead, frames_ahead : int
        Number of either kind at which they have to be delivered.
    """

    def __init__(self, energies_ahead: int, frames_ahead: int) -> None:
        self._most = energies_ahead, frames_ahead
        self._reports: deque[Report] = deque()

    def add(self, report: Report) -> bool:
        """Put one at the end; True if now they have to be delivered."""
        self._reports.append(report)
        return sum(r.is_frame == report.is_frame for r in self._reports) >= self._most[report.is_frame]

    def deliver(self, before: int | None = None) -> bool:
        """Deliver all, or those of the steps before one; the others are dropped. Whether there were any."""
        found = bool(self._reports)
        while self._reports:
            report = self._reports.popleft()
            if before is None or report.step < before:
                report.deliver()
        return found


def steps_to_next(reporters: Sequence[Reporter], step: int, end: int) -> int:
    """Steps from `step` to the next one that some reporter is told of, or to `end`."""
    due = [r.next_due(step) for r in reporters if r.energies or r.frame]
    return min([end, *(d for d in due if d is not None)]) - step
