"""The atoms of a rank by how they move: free, rigid waters, groups with constraints."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pulsemd.base.distinct import distinct_rows
from pulsemd.base.errors import InputError
from pulsemd.domain.lattice import LATTICE
from pulsemd.engine.networks import ConstraintNetworks, network_of
from pulsemd.forcefield.settings import RunSettings
from pulsemd.halo import Transport
from pulsemd.kernels.constraints.project import project_pairs, project_triangles
from pulsemd.kernels.constraints.settle import settle_geometry
from pulsemd.kernels.constraints.shake import TOLERANCE, leapfrog_shake
from pulsemd.kernels.constraints.virtual_sites import construct_sites, spread_sites
from pulsemd.kernels.update.leapfrog import (
    couple_groups,
    half_kick,
    leapfrog_free,
    leapfrog_settle,
    new_scratch,
)
from pulsemd.topology.records import Topology
from pulsemd.topology.terms import Terms

Int32 = NDArray[np.int32]
Float64 = NDArray[np.float64]

FORCE_TOLERANCE, VELOCITY_TOLERANCE = 1e-6, 1e-10
"""Components along constraints that are left of forces in minimisation and of velocities, relative to the largest."""


def water_kinds(topology: Topology) -> list[tuple[Int32, Float64]]:
    """Rigid waters by kind: ((m, 3) int32 global ids of O, H, H, and their `settle_geometry`).

    Raises
    ------
    InputError
        If the two hydrogens of a water differ in mass, or its lengths or masses are impossible.
    """
    if len(topology.settle_atoms) == 0:
        return []
    mass = topology.mass[topology.settle_atoms]
    unequal = np.flatnonzero(mass[:, 1] != mass[:, 2])
    if len(unequal):
        atom = topology.describe_atom(int(topology.settle_atoms[unequal[0], 1]))
        raise InputError(
            f"settles: the hydrogens of the water with {atom} differ in mass; SETTLE needs them equal"
        )
    unique, kind = distinct_rows([*mass[:, :2].T, *topology.settle_parameters.T])
    kinds = []
    for k, row in enumerate(unique):
        waters = topology.settle_atoms[kind == k]
        try:
            kinds.append((waters, settle_geometry(*(float(value) for value in row))))
        except ValueError as error:
            atom = topology.describe_atom(int(waters[0, 0]))
            raise InputError(f"settles of the water with {atom}: {error}") from error
    return kinds


class Movers:
    """Integrates the owned atoms of a rank, each in its way.

    Parameters
    ----------
    topology : Topology
    box : (3, 3) float64, nm
    settings : RunSettings

    Raises
    ------
    InputError
        If waters or constraints are impossible.
    """

    def __init__(self, topology: Topology, box: Float64, settings: RunSettings) -> None:
        self.rescale(box)
        self._kinds = water_kinds(topology)
        self._groups = ConstrainedGroups(topology)
        self._networks = ConstraintNetworks(topology, settings)
        shake = settings.constraint_algorithm == "shake"
        self._tolerance = 2.0 * settings.shake_tol if shake else TOLERANCE
        self._sites = topology.virtual_sites
        self._mass_of = topology.mass
        self._scratch = new_scratch()
        self._no_virial = np.zeros(0)

    def rescale(self, box: Float64) -> None:
        """Take another box (3, 3), nm."""
        self._box = box
        self._inverse = np.asarray(np.linalg.inv(box) * LATTICE, np.float64)

    def bind(self, gid: Int32, local_row: Int32, n_owned: int, transport: Transport | None = None) -> None:
        """Take over the rows of a new list lifetime; collective if there is a transport.

        Parameters
        ----------
        gid : (n_local,) int32; local_row : (n_atoms,) int32, -1 for atoms that are not here
        """
        self.mass = self._mass_of[gid]
        self._inverse_mass = np.divide(1.0, self.mass, out=np.zeros(len(gid)), where=self.mass > 0)
        free = np.ones(n_owned, bool)
        self._waters = []
        for waters, geometry in self._kinds:
            self._waters.append((_local_waters(local_row, n_owned, waters, free), geometry))
        self._local_groups = self._groups.local(local_row, n_owned)
        free[self._local_groups[1]] = False
        self._networks.bind(local_row, n_owned, transport)
        free[self._networks.rows] = False
        s = self._sites
        self._local_sites: tuple[Int32, NDArray[np.int64], Int32, Float64] = _local_sites(
            local_row, n_owned, s.kind, s.offset, s.atoms, s.values
        )
        free[self._local_sites[2][self._local_sites[1][:-1]]] = False
        self._free = np.flatnonzero(free).astype(np.int32)

    def advance(
        self,
        x: Int32,
        v: NDArray[np.float32],
        f: NDArray[np.float32] | NDArray[np.int64],
        f_scale: float,
        dt: float,
        scale: float = 1.0,
        com: Float64 | None = None,
        virial: NDArray[np.float64] | NDArray[np.int64] | None = None,
        virial_scale: float = 0.0,
        kick: float = 1.0,
        coupled: tuple[Int32, Float64, Float64] | None = None,
    ) -> int:
        """One leap-frog step of all owned atoms; arguments and result as `leapfrog_settle`.

        `kick` multiplies what forces do. Those of virtual sites go to their parents, and with it their part of the
        virial. `coupled` has in place of `scale` and `kick` the group of each owned atom, and both of each group.
        """
        com = np.zeros(3) if com is None else com
        virial = self._no_virial if virial is None else virial
        self.spread(x, f, f_scale, virial, virial_scale)
        if coupled is not None:
            couple_groups(v, f, f_scale, self.mass, *coupled, com, dt)
            com = np.zeros(3)
        rows, way = (x, v, f, f_scale * kick), (dt, scale, com)
        more = (self._box, self._inverse, *way, virial, virial_scale)
        self._networks.begin(*rows, *way)
        bad = [leapfrog_free(*rows, self._free, self.mass, self._inverse, *way)]
        bad += [leapfrog_settle(*rows, *water, *more, self._scratch) for water in self._waters]
        if len(self._local_groups[0]) > 1:
            bad.append(leapfrog_shake(*rows, *self._local_groups, self.mass, *more, self._tolerance))
        bad.append(self._networks.finish(x, v, self._box, self._inverse, dt, virial, virial_scale))
        self.construct(x)
        return next((int(row) for row in bad if row >= 0), -1)

    def spread(
        self,
        x: Int32,
        f: NDArray[np.float32] | NDArray[np.int64],
        f_scale: float,
        virial: NDArray[np.float64] | NDArray[np.int64] | None = None,
        virial_scale: float = 0.0,
    ) -> None:
        """Give the forces of virtual sites to their parents; x, f (n_owned, 3), others as for `advance`."""
        virial = self._no_virial if virial is None else virial
        spread_sites(x, f, f_scale, *self._local_sites, self._box, virial, virial_scale)

    def complete(
        self,
        x: Int32,
        v: NDArray[np.float32],
        f: NDArray[np.float32] | NDArray[np.int64],
        f_scale: float,
        half: float,
        virial: NDArray[np.float64] | NDArray[np.int64],
        virial_scale: float,
    ) -> NDArray[np.float32]:
        """Velocities (n_owned, 3), nm/ps, of the time of positions and forces from those a time `half` [ps] before.

        A kick, and what RATTLE takes out of it; the other arguments are those of `advance`. Virtual sites have to have
        given their forces to their parents, see `spread`.
        """
        full = np.empty(v.shape)
        half_kick(v, f, f_scale, self.mass, half, full)
        self._project(x, full, VELOCITY_TOLERANCE, half, virial, virial_scale)
        self._networks.complete(x, full, self._box, half, virial, virial_scale)
        return full.astype(np.float32)

    def along_constraints(self, x: Int32, v: NDArray[np.float32]) -> NDArray[np.float32]:
        """Velocities (n_owned, 3) without what changes the length of a constraint."""
        full = v.astype(np.float64)
        self._project(x, full, VELOCITY_TOLERANCE, 1.0, self._no_virial, 0.0)
        self._networks.complete(x, full, self._box, 1.0, self._no_virial, 0.0)
        return full.astype(np.float32)

    def project(self, x: Int32, vectors: Float64) -> None:
        """Take out of forces (n_owned, 3) what constraints balance, for atoms of one mass."""
        how = (FORCE_TOLERANCE, 1.0, self._no_virial, 0.0)
        self._project(x, vectors, *how)
        self._networks.project(x, vectors, self._inverse_mass, self._box, *how)

    def _project(
        self,
        x: Int32,
        vectors: Float64,
        tolerance: float,
        over: float,
        virial: NDArray[np.float64] | NDArray[np.int64],
        virial_scale: float,
    ) -> None:
        """Of rigid waters and groups; arguments as for `project_pairs`."""
        of_virial = (over, virial, virial_scale)
        for rows, _ in self._waters:
            project_triangles(x, vectors, self._inverse_mass, rows, self._box, *of_virial)
        offset, rows, pair_offset, pairs, _ = self._local_groups
        pairs = rows[pairs + np.repeat(offset[:-1], np.diff(pair_offset))[:, None]]
        project_pairs(x, vectors, self._inverse_mass, pair_offset, pairs, self._box, tolerance, *of_virial)

    def construct(self, x: Int32) -> None:
        """Put the owned virtual sites where their parents want them; x (n_owned, 3) int32."""
        construct_sites(x, *self._local_sites, self._box, self._inverse)


class ConstrainedGroups:
    """The atoms with mass of update groups that constraints hold together, networks apart, as rows over global ids."""

    def __init__(self, topology: Topology) -> None:
        terms = topology.terms.get("constraint")
        self.offset, self.atoms = np.zeros(1, np.int64), np.zeros(0, np.int32)
        self.pair_offset = np.zeros(1, np.int64)
        self.pairs, self.lengths = np.zeros((0, 2), np.int32), np.zeros(0)
        if terms is None or len(terms) == 0:
            return
        inside = ~network_of(topology)
        terms = Terms(terms.atoms[inside], terms.index[inside], terms.parameters)
        _check_masses(topology, terms.atoms)
        group_of, place = np.empty(topology.n_atoms, np.int64), np.empty(topology.n_atoms, np.int32)
        n_groups = len(topology.group_offset) - 1
        group_of[topology.group_atoms] = np.repeat(np.arange(n_groups), np.diff(topology.group_offset))
        massive = topology.group_atoms[topology.mass[topology.group_atoms] > 0]
        sizes = np.bincount(group_of[massive], minlength=n_groups)
        start = np.cumsum(sizes) - sizes
        place[massive] = np.arange(len(massive)) - np.repeat(start, sizes)
        group = group_of[terms.atoms[:, 0]]
        order = np.argsort(group, kind="stable")
        used, counts = np.unique(group, return_counts=True)
        self.pair_offset = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        self.pairs = place[terms.atoms[order]]
        self.lengths = terms.parameters[terms.index[order], 0]
        self.offset = np.concatenate([[0], np.cumsum(sizes[used])]).astype(np.int64)
        starts = np.repeat(start[used] - self.offset[:-1], sizes[used])
        self.atoms = massive[starts + np.arange(self.offset[-1])]

    def local(
        self, local_row: Int32, n_owned: int
    ) -> tuple[NDArray[np.int64], Int32, NDArray[np.int64], Int32, Float64]:
        """Group offsets and rows, constraint offsets, pairs and lengths, of the groups owned here."""
        found: tuple[NDArray[np.int64], Int32, NDArray[np.int64], Int32, Float64] = _local_groups(
            local_row, n_owned, self.offset, self.atoms, self.pair_offset, self.pairs, self.lengths
        )
        return found


def _check_masses(topology: Topology, atoms: Int32) -> None:
    light = np.flatnonzero(topology.mass[atoms.ravel()] <= 0)
    if len(light):
        atom = topology.describe_atom(int(atoms.ravel()[light[0]]))
        raise InputError(f"constraints: {atom} has no mass; constrained atoms need one")


@njit(cache=True, nogil=True)
def _local_waters(local_row, n_owned, waters, free):  # type: ignore[no-untyped-def]
    """Rows (m, 3) int32 of the owned waters, ascending; they are taken out of ``free``."""
    water_of = np.full(n_owned, -1, np.int32)
    count = 0
    for w in range(waters.shape[0]):
        row = local_row[waters[w, 0]]
        if 0 <= row < n_owned:
            water_of[row] = w
            count += 1
    rows = np.empty((count, 3), np.int32)
    count = 0
    for w in water_of:
        if w >= 0:
            for a in range(3):
                rows[count, a] = local_row[waters[w, a]]
                free[rows[count, a]] = False
            count += 1
    return rows


@njit(cache=True, nogil=True)
def _local_groups(local_row, n_owned, offset, atoms, pair_offset, pairs, lengths):  # type: ignore[no-untyped-def]
    n, rows_count, pair_count = 0, 0, 0
    for g in range(offset.shape[0] - 1):
        if 0 <= local_row[atoms[offset[g]]] < n_owned:
            n += 1
            rows_count += offset[g + 1] - offset[g]
            pair_count += pair_offset[g + 1] - pair_offset[g]
    my_offset, rows = np.zeros(n + 1, np.int64), np.empty(rows_count, np.int32)
    my_pair_offset, my_pairs = np.zeros(n + 1, np.int64), np.empty((pair_count, 2), np.int32)
    my_lengths = np.empty(pair_count)
    n = 0
    for g in range(offset.shape[0] - 1):
        if not 0 <= local_row[atoms[offset[g]]] < n_owned:
            continue
        row, pair = my_offset[n], my_pair_offset[n]
        for k in range(offset[g], offset[g + 1]):
            rows[row] = local_row[atoms[k]]
            row += 1
        for c in range(pair_offset[g], pair_offset[g + 1]):
            my_pairs[pair, 0], my_pairs[pair, 1], my_lengths[pair] = pairs[c, 0], pairs[c, 1], lengths[c]
            pair += 1
        n += 1
        my_offset[n], my_pair_offset[n] = row, pair
    return my_offset, rows, my_pair_offset, my_pairs, my_lengths


@njit(cache=True, nogil=True)
def _local_sites(local_row, n_owned, kind, offset, atoms, values):  # type: ignore[no-untyped-def]
    """Kinds, offsets, rows and values of the virtual sites owned here, in their order."""
    n, size = 0, 0
    for s in range(kind.shape[0]):
        if 0 <= local_row[atoms[offset[s]]] < n_owned:
            n += 1
            size += offset[s + 1] - offset[s]
    my_kind, my_offset = np.empty(n, np.int32), np.zeros(n + 1, np.int64)
    rows, my_values = np.empty(size, np.int32), np.empty(size)
    n, size = 0, 0
    for s in range(kind.shape[0]):
        if not 0 <= local_row[atoms[offset[s]]] < n_owned:
            continue
        for k in range(offset[s], offset[s + 1]):
            rows[size], my_values[size] = local_row[atoms[k]], values[k]
            size += 1
        my_kind[n] = kind[s]
        n += 1
        my_offset[n] = size
    return my_kind, my_offset, rows, my_values
