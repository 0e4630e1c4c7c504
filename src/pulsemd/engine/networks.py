"""Networks of constraints too large for one rank: each rank solves those around its atoms by LINCS.

A step sends the places and free moves of the atoms near a border once. With them each rank repeats what its neighbors
do for atoms up to (lincs-order + 1)(lincs-iter + 1) bonds away from its own, so that its own atoms are moved as if all
were here: the same bits on any number of ranks (decision 10).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pulsemd.base.errors import InputError
from pulsemd.domain.ghosts import with_remote_starts
from pulsemd.forcefield.settings import RunSettings
from pulsemd.halo import Channel, HaloPlan, Pulse, Transport
from pulsemd.kernels.constraints.gpu_networks import NetworkTable
from pulsemd.kernels.constraints.lincs import (
    add_virial,
    apply_moves,
    couple_constraints,
    lincs,
    lincs_velocities,
    unconstrained_moves,
    worst_rotation,
)
from pulsemd.kernels.constraints.project import project_pairs
from pulsemd.topology.records import Topology

log = logging.getLogger(__name__)

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
Float64 = NDArray[np.float64]

BROKEN = 0.05
"""Cosine of the angle by which a constraint turns in one step at which it is broken."""

LIGHT = 4.0
"""Mass [amu] below which an atom in a triangle of constraints couples them so strongly that the series diverges."""

GROWTH = 1.2
"""Arrays grow to this multiple of what is needed."""


def network_of(topology: Topology) -> NDArray[np.bool_]:
    """Whether each constraint belongs to a network: one of the update groups of its atoms is tied to another."""
    terms = topology.terms.get("constraint")
    if terms is None or len(terms) == 0:
        return np.zeros(0, bool)
    leader = topology.leader[terms.atoms]
    tied = np.zeros(topology.n_atoms, bool)
    tied[leader[leader[:, 0] != leader[:, 1]].ravel()] = True
    found: NDArray[np.bool_] = tied[leader[:, 0]] | tied[leader[:, 1]]
    return found


class ConstraintNetworks:
    """The networks of a topology, and the share of one rank in a list lifetime.

    Parameters
    ----------
    topology : Topology
    settings : RunSettings

    Attributes
    ----------
    rows : (m,) int32
        Local rows of the owned atoms of networks.

    Raises
    ------
    InputError
        If a constrained atom has no mass.
    """

    def __init__(self, topology: Topology, settings: RunSettings) -> None:
        self._settings, self._describe = settings, topology.describe_atom
        self.rows = np.zeros(0, np.int32)
        self._warned = False
        self._capacity = 0
        mask = network_of(topology)
        self.exists: bool = bool(mask.any())
        if not self.exists:
            return
        terms = topology.terms["constraint"]
        pairs = terms.atoms[mask]
        self._lengths = terms.parameters[terms.index[mask], 0]
        self._gid, ends = np.unique(pairs, return_inverse=True)
        self._ends = ends.reshape(-1, 2).astype(np.int32)
        mass = topology.mass[self._gid]
        if (mass <= 0).any():
            atom = topology.describe_atom(int(self._gid[np.argmin(mass)]))
            raise InputError(f"constraints: {atom} has no mass; constrained atoms need one")
        self._inverse_mass = 1.0 / mass
        self._order = settings.lincs_order
        self._weights = 1.0 / np.sqrt(self._inverse_mass[self._ends].sum(1))
        order = np.argsort(self._ends.ravel(), kind="stable")
        self._of_atom = (order // 2).astype(np.int32)
        counts = np.bincount(self._ends.ravel(), minlength=len(self._gid))
        self._offset = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        self._look_for_triangles(mass)

    def _look_for_triangles(self, mass: Float64) -> None:
        """Take twice the terms where constraints close triangles, in which the series converges slowly, as gmx does."""
        triangles = find_triangles(self._offset, self._of_atom, self._ends)
        if len(triangles) == 0:
            return
        self._order *= 2
        light = mass[triangles].min(1) < LIGHT
        if light.any():
            names = [self._describe(int(self._gid[a])) for a in triangles[np.argmax(light)]]
            raise InputError(
                f"constraints: those of {', '.join(names)} close a triangle with a light atom, which LINCS cannot "
                "solve in a large molecule; constrain bonds alone (constraints = all-bonds or h-bonds), not angles"
            )

    def table(self) -> NetworkTable | None:
        """What a GPU needs; None without networks."""
        if not self.exists:
            return None
        arrays = (self._gid, self._inverse_mass, self._ends, self._lengths, self._weights)
        return NetworkTable(*arrays, self._order, self._settings.lincs_iter, self._warn_cosine)

    @property
    def _warn_cosine(self) -> float:
        return math.cos(math.radians(self._settings.lincs_warnangle))

    def bind(self, local_row: Int32, n_owned: int, transport: Transport | None) -> None:
        """Take over the rows of a new list lifetime; collective if there is a transport of several ranks.

        Parameters
        ----------
        local_row : (n_atoms,) int32, -1 for atoms that are not here
        """
        if not self.exists:
            return
        row = local_row[self._gid]
        mine = np.flatnonzero((row >= 0) & (row < n_owned)).astype(np.int32)
        self.rows = np.ascontiguousarray(row[mine])
        self._n_owned = len(mine)
        self._channel: Channel | None = None
        ghosts = np.zeros(0, np.int32)
        if transport is not None and transport.size > 1:
            ghosts = self._plan(mine, transport)
        self._take(np.concatenate([mine, ghosts]))

    def _plan(self, mine: Int32, transport: Transport) -> Int32:
        """Agree on who sends what; the atoms that come here, in their order."""
        size, rank = transport.size, transport.rank
        owner = np.full(len(self._gid), -1, np.int32)
        for other, atoms in enumerate(transport.alltoall([mine] * size)):
            owner[atoms] = other
        depth = (self._order + 1) * (self._settings.lincs_iter + 1)
        near = _within(mine, self._offset, self._of_atom, self._ends, depth)
        near = near[owner[near] != rank]
        wanted = [near[owner[near] == other] for other in range(size)]
        asked = transport.alltoall(wanted)
        place = np.full(len(self._gid), -1, np.int32)
        place[mine] = np.arange(len(mine), dtype=np.int32)
        pulses, first = [], len(mine)
        order = [(rank - shift) % size for shift in range(1, size)]
        for shift, source in enumerate(order, start=1):
            target, n = (rank + shift) % size, len(wanted[source])
            send = place[asked[target]]
            pulses.append(Pulse(-1, target, source, send, first, n, -1, np.full(len(send), -1, np.int32)))
            first += n
        landed, most = with_remote_starts(transport, pulses, first, None)
        plan = HaloPlan(rank, size, len(mine), first, landed, "direct")
        if most > self._capacity:
            self._capacity = int(most * GROWTH) + 64
            self._shared: NDArray[Any] = transport.allocate("constraints", self._capacity, 6, np.float64)
            self._kept_channel = transport.channel(plan, self._shared)
        else:
            self._kept_channel.rebind(plan)
        self._channel = self._kept_channel
        return np.concatenate([wanted[source] for source in order])

    def _take(self, atoms: Int32) -> None:
        """The constraints among the atoms that are here, owned ones first."""
        here = np.full(len(self._gid), -1, np.int32)
        here[atoms] = np.arange(len(atoms), dtype=np.int32)
        chosen = np.flatnonzero((here[self._ends] >= 0).all(1)).astype(np.int32)
        place = np.full(len(self._ends), -1, np.int32)
        place[chosen] = np.arange(len(chosen), dtype=np.int32)
        self._pairs = here[self._ends[chosen]]
        self._local = (self._lengths[chosen], self._weights[chosen])
        self._coupled = couple_constraints(
            chosen, place, self._ends, self._offset, self._of_atom, self._weights, self._inverse_mass
        )
        self._local_inverse_mass = self._inverse_mass[atoms]
        self._found = np.empty((len(chosen), 4))
        self._atoms = atoms

    # ---- a step -------------------------------------------------------------------------------------------------

    def begin(
        self,
        x: Int32,
        v: NDArray[np.float32],
        f: NDArray[Any],
        f_scale: float,
        dt: float,
        scale: float,
        com: Float64,
    ) -> None:
        """Free moves of the owned atoms, and the start of their exchange; arguments as `leapfrog_settle`."""
        if not self.exists:
            return
        n = self._n_owned
        self._moves = np.empty((len(self._atoms), 3))
        unconstrained_moves(
            v, f, f_scale, self.rows, self._local_inverse_mass[:n], dt, scale, com, self._moves
        )
        self._send(x)

    def _send(self, x: Int32) -> None:
        """Begin the exchange of places and moves."""
        n = self._n_owned
        if self._channel is not None:
            self._shared[:n, :3] = x[self.rows]
            self._shared[:n, 3:] = self._moves[:n]
            self._channel.forward_begin()

    def _receive(self, x: Int32) -> Int32:
        """End it; the places."""
        n, places = self._n_owned, np.empty((len(self._atoms), 3), np.int32)
        places[:n] = x[self.rows]
        if self._channel is not None:
            self._channel.forward_end()
            places[n:] = self._shared[n : len(places), :3]
            self._moves[n:] = self._shared[n : len(places), 3:]
            self._channel.release()
        return places

    def finish(
        self,
        x: Int32,
        v: NDArray[np.float32],
        box: Float64,
        inverse: Float64,
        dt: float,
        virial: NDArray[Any],
        virial_scale: float,
    ) -> int:
        """Constrain the moves and make them; the result is that of `leapfrog_settle`."""
        if not self.exists:
            return -1
        n, places = self._n_owned, self._receive(x)
        moves, found = self._moves, self._found
        lincs(
            places,
            moves,
            self._local_inverse_mass,
            self._pairs,
            self._local,
            self._coupled,
            box,
            self._order,
            self._settings.lincs_iter,
            found,
        )
        worst, cosine = worst_rotation(places, moves, self._pairs, box, found, n)
        if len(virial) == 9:
            add_virial(places, self._pairs, box, found, n, dt * dt, virial, virial_scale)
        bad = int(apply_moves(x, v, self.rows, moves, inverse, dt))
        if worst >= 0 and not cosine > BROKEN:
            return int(self.rows[self._pairs[worst, 0]])
        self._warn(worst, cosine)
        return bad

    def complete(
        self,
        x: Int32,
        vectors: Float64,
        box: Float64,
        over: float,
        virial: NDArray[Any],
        virial_scale: float,
    ) -> None:
        """Take out of the velocities (n_owned, 3) of full steps what changes lengths; collective.

        The other arguments are those of `pulsemd.kernels.constraints.project.project_pairs`.
        """
        if not self.exists:
            return
        n, found = self._n_owned, self._found
        self._moves = np.empty((len(self._atoms), 3))
        self._moves[:n] = vectors[self.rows]
        self._send(x)
        places = self._receive(x)
        how = (self._local[1], self._coupled, box, self._order, self._settings.lincs_iter)
        lincs_velocities(places, self._moves, self._local_inverse_mass, self._pairs, *how, found)
        vectors[self.rows] = self._moves[:n]
        if len(virial) == 9:
            add_virial(places, self._pairs, box, found, n, over, virial, virial_scale)

    def project(self, x: Int32, vectors: Float64, inverse_mass: Float64, box: Float64, *how: Any) -> None:
        """Take out the components along constraints, where all atoms are here; arguments as for `project_pairs`."""
        if self.exists:
            pairs = self.rows[self._pairs]
            project_pairs(x, vectors, inverse_mass, np.array([0, len(pairs)]), pairs, box, *how)

    def _warn(self, worst: int, cosine: float) -> None:
        """Say once in a run that a constraint turns by more than lincs-warnangle in a step."""
        if self._warned or cosine >= self._warn_cosine:
            return
        self._warned = True
        atoms = self._gid[self._atoms[self._pairs[worst]]]
        warn_of_turn(self._describe, atoms, cosine, self._settings.lincs_warnangle)


def warn_of_turn(describe: Callable[[int], str], atoms: Int32, cosine: float, limit: float) -> None:
    """Warn of a constraint of two atoms that turned by an angle of this cosine in a step; limit in degrees."""
    log.warning(
        "LINCS: the constraint of %s and %s turns by %.0f degrees in a step, more than lincs-warnangle = %g; "
        "lower dt or minimise the start",
        *(describe(int(atom)) for atom in atoms), math.degrees(math.acos(cosine)), limit,
    )  # fmt: skip


@njit(cache=True, nogil=True)
def _within(start, offset, of_atom, ends, depth):  # type: ignore[no-untyped-def]
    """Atoms at most `depth` constraints away from some, those included, ascending."""
    reached = np.zeros(offset.size - 1, np.bool_)
    reached[start] = True
    edge = start
    for _ in range(depth):
        found = np.empty(offset.size - 1, np.int32)
        n = 0
        for a in edge:
            for k in range(offset[a], offset[a + 1]):
                c = of_atom[k]
                other = ends[c, 0] + ends[c, 1] - a
                if not reached[other]:
                    reached[other] = True
                    found[n] = other
                    n += 1
        edge = found[:n]
    return np.flatnonzero(reached).astype(np.int32)


@njit(cache=True, nogil=True)
def find_triangles(offset, of_atom, ends):  # type: ignore[no-untyped-def]
    """Three atoms that are all constrained to each other, (t, 3) int64, ascending."""
    found = [(0, 0, 0) for _ in range(0)]
    for a in range(offset.size - 1):
        for k in range(offset[a], offset[a + 1]):
            b = ends[of_atom[k], 0] + ends[of_atom[k], 1] - a
            if b <= a:
                continue
            for m in range(offset[b], offset[b + 1]):
                c = ends[of_atom[m], 0] + ends[of_atom[m], 1] - b
                if c <= b:
                    continue
                for n in range(offset[a], offset[a + 1]):
                    if ends[of_atom[n], 0] + ends[of_atom[n], 1] - a == c:
                        found.append((a, b, c))
    result = np.empty((len(found), 3), np.int64)
    for t in range(len(found)):
        for d in range(3):
            result[t, d] = found[t][d]
    return result
