"""The system as the engine holds it: topology, parameters, settings, and the start configuration on the lattice."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

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
from pulsemd.engine.bond_periods import warn_of_long_step
from pulsemd.engine.cell import Cell
from pulsemd.engine.coupling import degrees_by_group, degrees_of_freedom, maxwell_velocities
from pulsemd.engine.energies import energy_names
from pulsemd.engine.extended import Extended
from pulsemd.engine.molecules import BondTree, bond_tree
from pulsemd.engine.movers import Movers
from pulsemd.forcefield.dispersion import DispersionCorrection
from pulsemd.forcefield.nonbonded import LennardJonesTable
from pulsemd.forcefield.settings import RunSettings
from pulsemd.kernels.nonbonded.dispersion import dispersion_correction
from pulsemd.kernels.nonbonded.potential import PairPotential
from pulsemd.kernels.nonbonded.settings import PairConstants, pair_constants
from pulsemd.topology.records import Topology
from pulsemd.topology.restraints import ReferencePositions, restraint_centre

_ROWS_AT_ONCE = 2**16  # of positions for output: intermediate results stay in the caches


@dataclass(frozen=True, eq=False)
class Continuation:
    """What a run that goes on from a checkpoint has besides a start.

    Parameters
    ----------
    x : (n, 3) int32, lattice units
        Positions at `System.step`; `System.x` and the boxes are those of the last search, which define the pair list.
    list_cutoff : float, nm
    nstlist : int, steps between two searches
    thermostat_work, barostat_work : float, kJ/mol, so far
    cell : Cell, at `System.step`
    extended : Extended
        Variables of thermostat and barostat.
    nstenergy : int
        Steps between energies that were reported until then; 0: unknown or none.
    """

    x: NDArray[np.int32]
    list_cutoff: float
    nstlist: int
    thermostat_work: float
    barostat_work: float
    cell: Cell
    extended: Extended = field(default_factory=Extended)
    nstenergy: int = 0


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
    step : int, time step of x; v belongs to half a step before, but where `RunSettings.full_steps` at a start to x
    reference : ReferencePositions or None
        Of position restraints.
    continuation : Continuation or None
        Of a run that goes on from a checkpoint.
    image : (n, 3) int32 or None
        Box crossings before `x`; None: they make molecules whole.
    pair_potential : PairPotential or None
        In place of Lennard-Jones.
    excluded_field : bool
        Whether the reaction field acts between excluded pairs and on each charge itself: as in GROMACS, not in OpenMM.
    given_dispersion : DispersionCorrection or None
        Long-range correction where it does not follow from the settings.
    group_of_atom : (n,) int32 or None
        Coupling group of each atom, where `RunSettings.baths` are several.
    held_group_of_atom : (n,) int32 or None
        Group of each atom whose centre of mass is stopped, -1: none, where `RunSettings.comm_grps` tell some apart.
    frozen_mass : float, amu
        Of frozen atoms, which have none in the topology.
    start_box : (3, 3) float64, nm, or None
        Of the files' frame when the run began, if that was before this start.
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
    reference: ReferencePositions | None = None
    continuation: Continuation | None = None
    image: NDArray[np.int32] | None = None
    pair_potential: PairPotential | None = None
    excluded_field: bool = True
    given_dispersion: DispersionCorrection | None = None
    frozen_mass: float = 0.0
    group_of_atom: NDArray[np.int32] | None = None
    held_group_of_atom: NDArray[np.int32] | None = None
    start_box: NDArray[np.float64] | None = None

    @property
    def first_box(self) -> NDArray[np.float64]:
        """Box (3, 3) in nm of the files' frame when the run began."""
        return self.user_box if self.start_box is None else self.start_box

    @property
    def cell(self) -> Cell:
        """The cell of `x`."""
        return Cell(self.box, self.user_box)

    def in_cell(self, cell: Cell) -> System:
        """The same with other boxes; cheap."""
        if cell.box is self.box and cell.user_box is self.user_box:
            return self
        other = replace(self, box=cell.box, user_box=cell.user_box)
        object.__setattr__(other, "_bonds", self._bonds)
        return other

    @property
    def volume(self) -> float:
        """Volume of the cell, nm^3."""
        return self.cell.volume

    def excluded_constants(self, constants: PairConstants) -> PairConstants:
        """Constants for the corrections of excluded pairs and self terms, of those for pairs."""
        return constants if self.excluded_field else replace(constants, k_rf=0.0, c_rf=0.0)

    @cached_property
    def group_n_dof(self) -> NDArray[np.float64]:
        """Degrees of freedom of each coupling group; of one, all of them."""
        n_groups, group, held = len(self.settings.baths), self.group_of_atom, self.held_group_of_atom
        if n_groups == 1 and held is None:
            return np.array([degrees_of_freedom(self.topology, self.settings)], np.float64)
        if n_groups == 1:
            group = np.zeros(self.topology.n_atoms, np.int32)
        if group is None:
            raise InputError("tc-grps: it is not known which atoms are in the groups")
        return degrees_by_group(self.topology, self.settings, group, n_groups, held)

    @property
    def n_dof(self) -> float:
        """Degrees of freedom of all atoms."""
        if self.held_group_of_atom is None:
            return degrees_of_freedom(self.topology, self.settings)
        return float(self.group_n_dof.sum())

    @property
    def temperatures(self) -> dict[str, float]:
        """Degrees of freedom of the coupling groups by the names of their temperatures; none of the whole system."""
        if len(self.group_n_dof) == 1:
            return {}
        return {
            f"temperature_{name}": float(n)
            for name, n in zip(self.settings.tc_grps, self.group_n_dof, strict=True)
        }

    @cached_property
    def dispersion(self) -> DispersionCorrection | None:
        """The long-range correction, if there is one."""
        mode, topology = self.settings.dispcorr, self.topology
        if self.given_dispersion is not None or mode == "no":
            return self.given_dispersion
        if self.pair_potential is not None:
            raise InputError(
                f"DispCorr = {mode} corrects Lennard-Jones; with a pair potential in its place use no"
            )
        return dispersion_correction(
            mode,
            pair_constants(self.settings),
            self.table,
            topology.type_index,
            topology.exclusion_offset,
            topology.exclusion_atoms,
        )

    @property
    def energy_names(self) -> tuple[str, ...]:
        """Energies of the system, in the order of the file formats."""
        return energy_names(self.topology.terms, self.settings.coulombtype, self.dispersion is not None)

    def user_lattice(self, x: NDArray[np.int32]) -> NDArray[np.int32]:
        """Lattice positions of the files' frame; exact, modulo 2^32."""
        return lattice_transform(x, unimodular_inverse(self.frame))

    def whole_positions(self, x: NDArray[np.int32]) -> NDArray[np.float64]:
        """Positions for output, nm: molecules whole, their first atoms inside the files' cell, (n, 3) float64."""
        root, offsets, result = self._bonds.root, self._bonds.offsets(x), np.empty(x.shape)
        for first in range(0, len(x), _ROWS_AT_ONCE):
            rows = slice(first, first + _ROWS_AT_ONCE)
            origin = to_positions(self.user_lattice(x[root[rows]]), self.user_box)
            origin += np.where(origin @ np.linalg.inv(self.user_box) < 0, 1.0, 0.0) @ self.user_box
            result[rows] = origin + offsets[rows].astype(np.float64) / LATTICE @ self.box
        return result

    def unwrapped_positions(self, x: NDArray[np.int32], image: NDArray[np.int32]) -> NDArray[np.float64]:
        """Positions for output, nm, without the periodic boundary: (n, 3) float64."""
        return (x.astype(np.float64) / LATTICE + image) @ self.box

    def start_images(self) -> NDArray[np.int32]:
        """Box crossings (n, 3) int32 that make molecules whole at the start."""
        if self.image is not None:
            return self.image
        x = self.x.astype(np.int64)
        whole = x[self._bonds.root] + self._bonds.offsets(self.x)
        return ((whole - x) // LATTICE).astype(np.int32)

    @cached_property
    def _bonds(self) -> BondTree:
        return bond_tree(self.topology)


def prepare_system(
    topology: Topology,
    table: LennardJonesTable,
    settings: RunSettings,
    positions: NDArray[np.float64],
    velocities: NDArray[np.float32] | None,
    box: NDArray[np.float64],
    reference: NDArray[np.float64] | None = None,
) -> System:
    """Put a configuration as read from files on the lattice, with velocities as the settings ask.

    Positions in nm (n, 3), velocities in nm/ps (n, 3) or None, box (3, 3) in nm; `reference` (n, 3) in nm holds the
    reference positions of restraints, absolute in the same frame. Starts that are not continuations get
    their constraints made exact, positions and velocities, as gmx does.

    Raises
    ------
    DomainError
        If the box is singular or too large.
    InputError
        If a position is not finite or constraints cannot be met.
    """
    warn_of_long_step(settings, topology)
    reduced, frame = reduce_box(box)
    x = lattice_transform(to_lattice(positions, box), frame)
    if settings.gen_vel:
        v = maxwell_velocities(topology.mass, settings.gen_temp, settings.gen_seed)
    elif velocities is None:
        v = np.zeros((topology.n_atoms, 3), np.float32)
    else:
        v = np.where(topology.mass[:, None] > 0, velocities, 0).astype(np.float32)
    movers = all_movers(topology, reduced, settings)
    movers.construct(x)
    restrained = place_reference(topology, settings, reference, box, frame)
    system = System(topology, table, settings, box, reduced, frame, x, v, settings.init_step, restrained)
    return system if settings.continuation else constrain_start(system)


def place_reference(
    topology: Topology,
    settings: RunSettings,
    reference: NDArray[np.float64] | None,
    box: NDArray[np.float64],
    frame: NDArray[np.int64],
) -> ReferencePositions | None:
    """Put reference positions (n, 3) in nm, of the first box (3, 3) in nm of the files' frame, on the lattice."""
    if reference is None:
        return None
    x = lattice_transform(to_lattice(reference, box), frame)
    if settings.refcoord_scaling != "com":
        return ReferencePositions(x)
    from_centre = reference - restraint_centre(topology, reference)
    return ReferencePositions(x, np.stack([from_centre @ np.linalg.inv(frame @ box), from_centre], 1))


def constrain_start(system: System) -> System:
    """Make constraints exact: positions about where they are, velocities half a step back.

    A step of length -dt from the constrained positions gives v(-dt/2) = (x(0) - x(-dt)) / dt with both ends on the
    constraint surface. Velocities of the full step keep what lies in that surface.
    """
    x, v = system.x.copy(), system.v.copy()
    topology = system.topology
    s = system.settings
    movers = all_movers(equal_masses(topology) if s.minimises else topology, system.box, _thorough(s))
    f = np.zeros(x.shape, np.float32)
    bad = movers.advance(x, np.zeros_like(v), f, 1.0, dt=1.0)
    if bad < 0 and s.full_steps:
        v = movers.along_constraints(x, v)
    elif bad < 0:
        bad = movers.advance(x.copy(), v, f, 1.0, -s.dt)
    if bad >= 0:
        raise InputError(
            f"{topology.describe_atom(bad)} cannot be given its constrained distances: its atoms are too far from "
            "them, or a velocity or dt is too large; check the coordinates, and lower dt"
        )
    return replace(system, x=x, v=v)


def _thorough(settings: RunSettings) -> RunSettings:
    """The settings with constraints solved so far that positions of a file, which may be off, meet them."""
    s = settings
    return replace(
        s,
        lincs_order=max(s.lincs_order, 8),
        lincs_iter=max(s.lincs_iter, 8),
        shake_tol=min(s.shake_tol, 1e-8),
    )


def all_movers(topology: Topology, box: NDArray[np.float64], settings: RunSettings) -> Movers:
    """Movers of all atoms, in the order of the files."""
    rows = np.arange(topology.n_atoms, dtype=np.int32)
    movers = Movers(topology, box, settings)
    movers.bind(rows, rows, topology.n_atoms)
    return movers


def equal_masses(topology: Topology) -> Topology:
    """The topology of a minimisation, where displacements follow forces: every atom with mass has the same."""
    return replace(topology, mass=(topology.mass > 0).astype(np.float64))


def group_reach(system: System) -> float:
    """Largest distance of an atom from the leader of its update group at the start, nm."""
    offset = (system.x - system.x[system.topology.leader]).astype(np.float64) / LATTICE @ system.box
    return float(np.sqrt((offset * offset).sum(1).max(initial=0.0)))
