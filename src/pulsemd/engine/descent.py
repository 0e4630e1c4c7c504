"""Steepest descent and L-BFGS: from one set of positions to the next of lower energy.

Both know positions as int32 lattice rows that a `Landscape` moves and compares, so that a step is what the lattice
makes of it. Sums are NumPy's own, in one order whatever the number of threads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pulsemd.base.errors import ConfigError
from pulsemd.forcefield.settings import MINIMISERS

Int32 = NDArray[np.int32]
Float64 = NDArray[np.float64]

LONGER, SHORTER = 1.2, 0.5
"""Factors on the step of steepest descent, of GROMACS: after a step down, and after one that was not."""

SHORTEST_STEP = 1e-6
"""Step [nm] below which float32 forces show no way down, as in GROMACS's mixed precision."""

SUFFICIENT = 1e-4
"""Part of the first-order decrease that a step of L-BFGS must keep (Armijo)."""

ENERGY_NOISE = 1e-7
"""Change of the energy, relative to its terms, that may be rounding: within it the slope decides (Hager & Zhang)."""

FIXED_POINT_NOISE = 2.0**-20
"""The same in kJ/mol for every root of a number of atoms: a unit of fixed-point energies."""

MOST_TRIALS = 12
"""Points tried along one direction of L-BFGS."""


@dataclass(frozen=True, eq=False)
class Point:
    """Energy and forces at some positions.

    Parameters
    ----------
    x : (n, 3) int32, lattice units
    energy : float, kJ/mol
    forces : (n, 3) float64, kJ/mol/nm
        Without what constraints balance.
    energies : dict of float, kJ/mol, by name
    """

    x: Int32
    energy: float
    forces: Float64
    energies: dict[str, float]

    @property
    def strongest(self) -> int:
        """The atom that feels the largest force."""
        return int(np.argmax(_squares(self.forces)))

    @property
    def max_force(self) -> float:
        """The largest force on an atom, kJ/mol/nm."""
        return float(np.sqrt(_squares(self.forces).max(initial=0.0)))


class Landscape(Protocol):
    """Where the energy is low."""

    def evaluate(self, x: Int32) -> Point | None:
        """Energy and forces; None where they are not finite."""

    def shift(self, x: Int32, forces: Float64, scale: float) -> Int32 | None:
        """Positions moved by ``scale`` times the forces, with constraints kept; None where that cannot be."""

    def displace(self, x: Int32, way: Float64) -> Int32:
        """Positions moved freely by (n, 3) nm."""

    def between(self, after: Int32, before: Int32) -> Float64:
        """The way from one to the other, (n, 3) nm."""


@dataclass(frozen=True)
class Method:
    """How to go down; names and meaning of the .mdp options.

    Parameters
    ----------
    integrator : {'steep', 'l-bfgs'}
    emtol : float, kJ/mol/nm; emstep : float, nm; nbfgscorr : int
    nsteps : int, -1 without end
    """

    integrator: str
    emtol: float
    emstep: float
    nbfgscorr: int
    nsteps: int

    def __post_init__(self) -> None:
        if self.integrator not in MINIMISERS:
            raise ConfigError(
                f"integrator = {self.integrator} is no minimisation; use {' or '.join(MINIMISERS)}"
            )
        for name in ("emtol", "emstep", "nbfgscorr"):
            value = getattr(self, name)
            if not isinstance(value, Real) or not float(value) > 0:
                raise ConfigError(f"{name} = {value} must be a positive number, without unit")


@dataclass(frozen=True)
class Outcome:
    """Where a descent ended.

    Parameters
    ----------
    point : Point
    steps : int
    converged : bool
    reason : str
    """

    point: Point
    steps: int
    converged: bool
    reason: str


Told = Callable[[int, Point], str]
"""Called with the number of a step that went down, and where it led; what it returns ends the descent, if not empty."""


def descend(hill: Landscape, start: Point, method: Method, tell: Told) -> Outcome:
    """Go down from a point by the method's integrator."""
    if ended := _told(start, 0, method, tell):
        return ended
    how = steepest_descent if method.integrator == "steep" else limited_memory
    return how(hill, start, method, tell)


def steepest_descent(hill: Landscape, start: Point, method: Method, tell: Told) -> Outcome:
    """Move along the forces; the atom that feels the largest goes as far as the step is long.

    The rule for the step is that of ``gmx mdrun`` 2022: the next is 1.2 times as long after a lower energy, half as
    long where the energy was not lower, from the best positions so far.
    """
    best, length, step = start, method.emstep, 0
    while step != method.nsteps:
        step += 1
        x = hill.shift(best.x, best.forces, length / best.max_force)
        trial = None if x is None else hill.evaluate(x)
        if trial is not None and trial.energy < best.energy:
            best, length = trial, LONGER * length
            if ended := _told(best, step, method, tell):
                return ended
        else:
            length *= SHORTER
        if length < SHORTEST_STEP:
            return _stuck(best, step, method)
    return _out_of_steps(best, step, method)


def limited_memory(hill: Landscape, start: Point, method: Method, tell: Told) -> Outcome:
    """L-BFGS: the inverse Hessian from the last ``nbfgscorr`` steps; no atom goes farther than ``emstep`` in one.

    References
    ----------
    J. Nocedal, Math. Comput. 35, 773 (1980); W. W. Hager, H. Zhang, SIAM J. Optim. 16, 170 (2005).
    """
    best, step = start, 0
    memory: deque[tuple[Float64, Float64]] = deque(maxlen=method.nbfgscorr)
    while step != method.nsteps:
        step += 1
        way = _direction(best.forces, memory)
        if not _sum(way * best.forces) > 0.0:
            memory.clear()
            way = best.forces
        longest = float(np.sqrt(_squares(way).max()))
        if longest > method.emstep or not memory:
            way = way * (method.emstep / longest)
        found = _search_along(hill, best, way)
        if found is None and not memory:
            return _stuck(best, step, method)
        if found is None:
            memory.clear()
            continue
        moved, change = hill.between(found.x, best.x), best.forces - found.forces
        if _sum(moved * change) > 1e-10 * _sum(change * change) * _sum(moved * moved) ** 0.5:
            memory.append((moved, change))
        best = found
        if ended := _told(best, step, method, tell):
            return ended
    return _out_of_steps(best, step, method)


def _direction(forces: Float64, memory: deque[tuple[Float64, Float64]]) -> Float64:
    """The approximate inverse Hessian times the forces (Nocedal's two loops)."""
    way, parts = forces, []
    for moved, change in reversed(memory):
        part = _sum(moved * way) / _sum(moved * change)
        way = way - part * change
        parts.append(part)
    if memory:
        moved, change = memory[-1]
        way = way * (_sum(moved * change) / _sum(change * change))
    for (moved, change), part in zip(memory, reversed(parts), strict=True):
        way = way + (part - _sum(change * way) / _sum(moved * change)) * moved
    return way


def _search_along(hill: Landscape, start: Point, way: Float64) -> Point | None:
    """A point along a way that is low enough, found by the parabola through what is known; None: there is none."""
    slope, part = -_sum(start.forces * way), 1.0
    noise = ENERGY_NOISE * sum(map(abs, start.energies.values())) + FIXED_POINT_NOISE * len(way) ** 0.5
    for _ in range(MOST_TRIALS):
        trial = hill.evaluate(hill.displace(start.x, part * way))
        if trial is None:
            part *= 0.25
            continue
        drop = trial.energy - start.energy
        slope_there = -_sum(trial.forces * way)
        flat = drop <= noise and slope <= slope_there <= -(1.0 - 2.0 * SUFFICIENT) * slope
        if drop <= SUFFICIENT * part * slope or flat:
            return trial
        curvature = 2.0 * (drop - slope * part)
        lowest = -slope * part * part / curvature if curvature > 0.0 else 0.5 * part
        part = min(max(lowest, 0.1 * part), 0.5 * part)
    return None


def _told(point: Point, step: int, method: Method, tell: Told) -> Outcome | None:
    """Tell of a step down; how the descent ended, if it did."""
    stop = tell(step, point)
    if point.max_force < method.emtol:
        return _converged(point, step, method)
    return Outcome(point, step, False, stop) if stop else None


def _converged(point: Point, step: int, method: Method) -> Outcome:
    return Outcome(point, step, True, f"no atom feels a force above emtol = {method.emtol:g} kJ/mol/nm")


def _stuck(point: Point, step: int, method: Method) -> Outcome:
    reason = (
        f"a force is above emtol = {method.emtol:g} kJ/mol/nm, but the shortest steps lead to no lower energy; the "
        "minimum is as exact as this precision gives it, unless the force named here is large"
    )
    return Outcome(point, step, False, reason)


def _out_of_steps(point: Point, step: int, method: Method) -> Outcome:
    reason = f"a force is above emtol = {method.emtol:g} kJ/mol/nm still; raise nsteps"
    return Outcome(point, step, False, reason)


def _squares(vectors: Float64) -> Float64:
    squares: Float64 = (vectors * vectors).sum(1)
    return squares


def _sum(products: Float64) -> float:
    return float(products.sum())
