"""Simulated annealing: temperatures of heat baths that follow points in time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Schedule:
    """The temperatures of one coupling group.

    Parameters
    ----------
    periodic : bool
        Begin again after the last point, else stay there.
    times : tuple of float, ps, ascending
    temperatures : tuple of float, K
    """

    periodic: bool
    times: tuple[float, ...]
    temperatures: tuple[float, ...]

    def at(self, time: float) -> float:
        """Temperature at a time [ps], K: on straight lines between the points, as in gmx.

        Before the first point it is on the first line; where two points have one time it jumps.
        """
        last = self.times[-1]
        if self.periodic:
            time = time - int(time / last) * last
        j = 0
        while j < len(self.times) - 1 and time > self.times[j + 1]:
            j += 1
        if j == len(self.times) - 1:
            return self.temperatures[j]
        length = self.times[j + 1] - self.times[j]
        if length <= 0.0:
            return self.temperatures[j + 1]
        part = (time - self.times[j]) / length
        return part * self.temperatures[j + 1] + (1.0 - part) * self.temperatures[j]


def schedules(
    kinds: Sequence[str], n_points: Sequence[int], times: Sequence[float], temperatures: Sequence[float]
) -> tuple[Schedule | None, ...]:
    """Of each coupling group, None where its temperature stays.

    Parameters
    ----------
    kinds : 'no', 'single' or 'periodic' of each group
    n_points : of each group
    times, temperatures : of the points of all groups, one group after the other
    """
    found, first = [], 0
    for kind, n in zip(kinds, n_points, strict=True):
        points = slice(first, first + n)
        schedule = Schedule(kind == "periodic", tuple(times[points]), tuple(temperatures[points]))
        found.append(None if kind == "no" else schedule)
        first += n
    return tuple(found)
