"""The system as the engine holds it: topology, parameters, settings, and the start configuration on the lattice."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pulsemd.base.errors import InputError
from pulsemd.domain.lattice import (
    LATTICE,
    lattice_transform,
    reduce_box,
    to_lattice,
    to_positions,
    unimodular_inverse,
)
from pulsemd.engine.coupling import maxwell_velocities
from pulsemd.forcefield.nonbonded import LennardJonesTable
from pulsemd.forcefield.settings import RunSettings
from pulsemd.kernels.constraints.settle import settle_geometry
from pulsemd.kernels.update.leapfrog import leapfrog_settle, new_scratch
from pulsemd.topology.records import Topology


@dataclass(frozen=True, eq=False)
class System:
    """Everything about a system that all ranks share.

    Parameters
    ----------
    topology : Topology
    table : LennardJonesTable
    settings : RunSettings
    user_box : (3, 3) float64, nm, rows a, b, c of the files' frame
    box : (3, 3) float64, nm, the lattice-reduced cell the run uses
    frame : (3, 3) int64, unimodular, ``box = frame @ user_box``
    x : (n, 3) int32, lattice units of `box`
    v : (n, 3) float32, nm/ps, Cartesian
    step : int, time step of x; v belongs to half a step before
    """

    topology: Topology
    table: LennardJonesTable
    settings: RunSettings
    user_box: NDArray[np.float64]
    box: NDArray[np.float64]
    frame: NDArray[np.int64]
    x: NDArray[np.int32]
    v: NDArray[np.float32]
    step: int

    @property
    def volume(self) -> float:
        """Volume of the cell, nm^3."""
        return abs(float(np.linalg.det(self.box)))

    def user_lattice(self, x: NDArray[np.int32]) -> NDArray[np.int32]:
        """Lattice positions of the files' frame; exact, modulo 2^32."""
        return lattice_transform(x, unimodular_inverse(self.frame))

    def whole_positions(self, x: NDArray[np.int32]) -> NDArray[np.float64]:
        """Positions for output, nm: leaders inside the files' cell, update groups whole, (n, 3) float64."""
        leader = self.topology.leader
        origin = to_positions(self.user_lattice(x[leader]), self.user_box)
        origin += np.where(origin @ np.linalg.inv(self.user_box) < 0, 1.0, 0.0) @ self.user_box
        offset = (x - x[leader]).astype(np.float64) / LATTICE
        return origin + offset @ self.box


def prepare_system(
    topology: Topology,
    table: LennardJonesTable,
    settings: RunSettings,
    positions: NDArray[np.float64],
    velocities: NDArray[np.float32] | None,
    box: NDArray[np.float64],
) -> System:
    """Put a configuration as read from files on the lattice, with velocities as the settings ask.

    Positions in nm (n, 3), velocities in nm/ps (n, 3) or None, box (3, 3) in nm. Starts that are not continuations get
    their rigid waters made exact, positions and velocities, as gmx does.

    Raises
    ------
    DomainError
        If the box is singular or too large.
    InputError
        If a position is not finite or a water cannot be made rigid.
    """
    reduced, frame = reduce_box(box)
    x = lattice_transform(to_lattice(positions, box), frame)
    if settings.gen_vel:
        v = maxwell_velocities(topology.mass, settings.gen_temp, settings.gen_seed)
    elif velocities is None:
        v = np.zeros((topology.n_atoms, 3), np.float32)
    else:
        v = np.where(topology.mass[:, None] > 0, velocities, 0).astype(np.float32)
    system = System(topology, table, settings, box, reduced, frame, x, v, settings.init_step)
    return system if settings.continuation else constrain_start(system)


def water_kinds(topology: Topology) -> list[tuple[NDArray[np.int32], NDArray[np.float64]]]:
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
    parameters = np.column_stack([mass[:, :2], topology.settle_parameters])
    unique, kind = np.unique(parameters, axis=0, return_inverse=True)
    kinds = []
    for k, row in enumerate(unique):
        waters = topology.settle_atoms[kind.ravel() == k]
        try:
            kinds.append((waters, settle_geometry(*(float(value) for value in row))))
        except ValueError as error:
            atom = topology.describe_atom(int(waters[0, 0]))
            raise InputError(f"settles of the water with {atom}: {error}") from error
    return kinds


def constrain_start(system: System) -> System:
    """Make rigid waters exact: positions about where they are, velocities half a step back.

    A step of length -dt from the constrained positions gives v(-dt/2) = (x(0) - x(-dt)) / dt with both ends on the
    constraint surface.
    """
    x, v = system.x.copy(), system.v.copy()
    inverse = np.linalg.inv(system.box) * LATTICE
    none, zero, scratch = np.zeros(0), np.zeros(3), new_scratch()
    f = np.zeros(x.shape, np.float32)
    for waters, geometry in water_kinds(system.topology):
        still = np.zeros_like(v)
        bad = leapfrog_settle(
            x, still, f, 1.0, waters, geometry, system.box, inverse, 1.0, 1.0, zero, none, 0.0, scratch
        )
        if bad < 0:
            bad = leapfrog_settle(
                x.copy(),
                v,
                f,
                1.0,
                waters,
                geometry,
                system.box,
                inverse,
                -system.settings.dt,
                1.0,
                zero,
                none,
                0.0,
                scratch,
            )
        if bad >= 0:
            raise InputError(
                f"the rigid water with {system.topology.describe_atom(bad)} cannot be given its shape: "
                "its atoms are too far from it or its velocity is too large; check the coordinates"
            )
    return replace(system, x=x, v=v)
