"""Minimisation on all ranks: rank 0 decides where to go, every rank computes the forces of its atoms there.

What is decided on one rank is the same for any number of them, as forces and energies are in reproducible mode.
Positions and forces of all atoms travel between rank 0 and the others at every point, which costs little beside the
steps that a minimisation saves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsemd.base.errors import InputError, UnstableError
from pulsemd.base.fixed_point import FORCE_SCALE
from pulsemd.domain.lattice import LATTICE, difference
from pulsemd.engine.blowup import Failure, describe_failure
from pulsemd.engine.descent import Float64, Int32, Method, Point, descend
from pulsemd.engine.simulation import Simulation
from pulsemd.engine.system import System, all_movers, equal_masses
from pulsemd.kernels.update.philox import normals

Told = Callable[[int, dict[str, float]], str]

MAX_FORCE = "max_force"
"""Name of the largest force [kJ/mol/nm] beside the energies of a step."""


APART = 1e-3
"""Distance [nm] by which atoms on one spot are moved apart, in directions that follow from their numbers."""


@dataclass(frozen=True)
class Minimum:
    """Where a minimisation ended.

    Parameters
    ----------
    converged : bool
    reason : str
        What that means, or why it ended.
    steps : int
    evaluations : int
        Points whose energy was computed.
    energies : dict of float
        kJ/mol, by name, 'potential' among them; and `MAX_FORCE` in kJ/mol/nm.
    atom : str
        The atom that feels the largest force.
    """

    converged: bool
    reason: str
    steps: int
    evaluations: int
    energies: dict[str, float]
    atom: str


def tell_nobody(step: int, energies: dict[str, float]) -> str:
    """Steps of a minimisation are not reported, and none of them ends it."""
    return ""


def minimise(simulation: Simulation, method: Method, tell: Told = tell_nobody) -> Minimum:
    """Move the atoms of a simulation to lower energy; velocities and the step stay. Collective.

    Parameters
    ----------
    simulation : Simulation
    method : Method
    tell : function of (step, energies by name and `MAX_FORCE`)
        Called on rank 0 for the first positions and after every step that went down; what it returns, if not empty,
        ends the minimisation and is why.

    Raises
    ------
    InputError
        If atoms are constrained and the method moves them freely.
    UnstableError
        If the first positions have no finite forces.
    """
    check_method(simulation.system, method)
    points = _Points(simulation)
    simulation.rank.tolerate_overlaps(True)
    simulation.rank.take_failure()  # of an overlapping start that was looked at before
    frame, found = simulation.gather(), None
    if frame is None:
        points.serve()
    else:
        hill = _Hill(simulation, points, frame.cell.box)
        start = hill.evaluate(hill.apart(frame.x))
        if start is not None:
            found = _descend(simulation.system, hill, start, method, tell)
        points.end(frame.x if found is None else found[1])
    simulation.settle()
    minimum: Minimum | None = simulation.transport.broadcast(None if found is None else found[0])
    if minimum is None:
        raise points.error()
    return minimum


def check_method(system: System, method: Method) -> None:
    """Refuse a method that cannot keep the constraints of a system."""
    if method.integrator == "l-bfgs" and system.topology.n_constraints:
        raise InputError(
            "integrator = l-bfgs moves atoms freely, and this topology has rigid waters or constraints; use "
            "integrator = steep, or a flexible model (define = -DFLEXIBLE, constraints = none)"
        )


def energies_of(simulation: Simulation) -> tuple[str, ...]:
    """Names of what is told of a step."""
    return *simulation.system.energy_names, "potential", MAX_FORCE


def _descend(system: System, hill: _Hill, start: Point, method: Method, tell: Told) -> tuple[Minimum, Int32]:
    """The descent, on rank 0: what it found, and the positions there."""

    def told(step: int, point: Point) -> str:
        return tell(step, point.energies | {MAX_FORCE: point.max_force})

    outcome = descend(hill, start, method, told)
    point = outcome.point
    minimum = Minimum(
        outcome.converged,
        outcome.reason,
        outcome.steps,
        hill.evaluations,
        point.energies | {MAX_FORCE: point.max_force},
        system.topology.describe_atom(point.strongest),
    )
    return minimum, point.x


class _Points:
    """Forces anywhere: rank 0 asks, all ranks compute."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation, self._transport = simulation, simulation.transport
        self._nothing = np.zeros((0, 3), np.int32)
        self._failures: list[Failure | None] = []
        self._x = self._nothing

    def serve(self) -> None:
        """Compute what rank 0 asks for until it is at its end."""
        while (word := self._transport.broadcast(None)) != "end":
            self._compute(word, self._nothing)
        self._simulation.rank.place(self._spread(self._nothing))

    def ask(self, x: Int32, search: bool) -> tuple[Int32, NDArray[Any]] | None:
        """Global ids and forces of all atoms; None if a rank found no finite ones. On rank 0."""
        return self._compute(self._transport.broadcast("search" if search else "stay"), x)

    def end(self, x: Int32) -> None:
        """Leave all atoms at these positions. On rank 0."""
        self._transport.broadcast("end")
        self._simulation.rank.place(self._spread(x))

    def _compute(self, word: str, x: Int32) -> tuple[Int32, NDArray[Any]] | None:
        rank, timer = self._simulation.rank, self._simulation.timer
        self._x = self._spread(x)
        gid, forces = rank.evaluate_at(self._x, word == "search", timer)
        self._failures = self._transport.allgather(rank.take_failure())
        parts = [np.concatenate(self._simulation.to_root(array)) for array in (gid, forces)]
        return None if any(self._failures) else (parts[0], parts[1])

    def _spread(self, x: Int32) -> Int32:
        """The positions of all atoms, which rank 0 has, on every rank."""
        return self._transport.alltoall([x] * self._transport.size)[0]

    def error(self) -> UnstableError:
        """What the first failure of the last point is, the same on every rank."""
        found = [f for f in self._failures if f is not None]
        system = self._simulation.system.in_cell(self._simulation.rank.read_cell())
        if not found:
            return UnstableError(
                "the first positions have no finite energy; check the coordinates and the topology"
            )
        message, lines = describe_failure(system, min(found, key=lambda f: f.urgency), self._x)
        error = UnstableError(message)
        for line in lines:
            error.add_note(line)
        return error


class _Hill:
    """The energy as a function of all positions, with constraints and virtual sites; on rank 0.

    Forces move all atoms alike, whatever their mass, as in GROMACS; atoms without mass stay, virtual sites follow.
    """

    def __init__(self, simulation: Simulation, points: _Points, box: Float64) -> None:
        self._simulation, self._points, system = simulation, points, simulation.system
        self._box, self._inverse = box, np.linalg.inv(box) * LATTICE
        self._held = system.topology.mass <= 0
        self._movers = all_movers(equal_masses(system.topology), box, system.settings)
        self._buffer = simulation.r_list - max(system.settings.rcoulomb, system.settings.rvdw)
        self._listed: Int32 | None = None
        self.evaluations = 0

    def apart(self, x: Int32) -> Int32:
        """Positions with atoms on one spot, which feel no force from each other, moved apart by about `APART`."""
        order = np.lexsort(x.T)
        same = (x[order[1:]] == x[order[:-1]]).all(1)
        together = np.zeros(len(x), bool)
        together[order[1:][same]] = together[order[:-1][same]] = True
        together &= ~self._held
        if not together.any():
            return x
        ways = np.zeros(x.shape)
        ways[together] = normals(0, 0, 0, np.flatnonzero(together))[:, :3]
        moved = self.shift(x, ways, APART)
        return x if moved is None else moved

    def evaluate(self, x: Int32) -> Point | None:
        self.evaluations += 1
        search = self._listed is None or not 2.0 * self._longest(x, self._listed) < self._buffer
        if search:
            self._listed = x.copy()
        found = self._points.ask(x, search)
        if found is None:
            return None
        energies = self._simulation.energies()
        wanted = (*self._simulation.system.energy_names, "potential")
        forces = self._forces(x, *found)
        if not (np.isfinite(energies["potential"]) and np.isfinite(forces).all()):
            return None
        return Point(x, energies["potential"], forces, {name: energies[name] for name in wanted})

    def _forces(self, x: Int32, gid: Int32, found: NDArray[Any]) -> Float64:
        """Forces in the order of the files on what can move, kJ/mol/nm."""
        raw = np.empty_like(found)
        raw[gid] = found
        scale = 1.0 / FORCE_SCALE if raw.dtype == np.int64 else 1.0
        self._movers.spread(x, raw, scale)
        forces: Float64 = raw.astype(np.float64) * scale
        forces[self._held] = 0.0
        self._movers.project(x, forces)
        return forces

    def shift(self, x: Int32, forces: Float64, scale: float) -> Int32 | None:
        x, still = x.copy(), np.zeros(x.shape, np.float32)
        bad = self._movers.advance(x, still, forces.astype(np.float32), scale, dt=1.0)
        return x if bad < 0 else None

    def displace(self, x: Int32, way: Float64) -> Int32:
        steps = sum(way[:, d : d + 1] * self._inverse[d] for d in range(3))
        x = (x.astype(np.int64) + np.rint(steps).astype(np.int64)).astype(np.uint32).view(np.int32)
        self._movers.construct(x)
        return x

    def between(self, after: Int32, before: Int32) -> Float64:
        way = self._way(after, before)
        way[self._held] = 0.0
        return way

    def _way(self, after: Int32, before: Int32) -> Float64:
        """The same of all atoms, with those that others carry along."""
        fraction = difference(after, before).astype(np.float64) / LATTICE
        way: Float64 = sum(fraction[:, d : d + 1] * self._box[d] for d in range(3))
        return way

    def _longest(self, after: Int32, before: Int32) -> float:
        way = self._way(after, before)
        return float(np.sqrt((way * way).sum(1).max(initial=0.0)))
