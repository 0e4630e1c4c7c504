"""What the update on a device takes over from the host: constants of a run, and tables of atoms that move together."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np

from pulsemd.kernels.constraints.gpu_networks import NetworkTable
from pulsemd.kernels.constraints.gpu_sites import WaterSites, water_sites
from pulsemd.kernels.update.cuda_programs import GROUP_SIZES
from pulsemd.kernels.update.gpu_chains import ChainTable
from pulsemd.kernels.update.noise import Bath
from pulsemd.kernels.update.portions import Portions
from pulsemd.topology.virtual_sites import VirtualSites, no_sites


class ConstrainedGroups(Protocol):
    """Groups of atoms with distance constraints, as compressed rows.

    Attributes
    ----------
    offset, atoms : (g + 1,) and (k,) int, global ids, the leader of each group first
    pair_offset, pairs, lengths : (g + 1,) int, (c, 2) int, (c,) float64
        Constraints of each group: atoms counted within the group, and length in nm.
    """

    offset: np.ndarray
    atoms: np.ndarray
    pair_offset: np.ndarray
    pairs: np.ndarray
    lengths: np.ndarray


@dataclass(frozen=True)
class Thermostat:
    """Of a coupling group.

    Parameters
    ----------
    target : float, kJ/mol, kinetic energy it aims at
    n_dof : float
    keep : float, exp(-coupling interval / tau); 1: the group is not coupled
    weak : float
        Coupling interval over tau of Berendsen's thermostat; 0: another one.
    hoover, ref_t : float
        Coupling interval over the mass of Nose and Hoover's thermostat, 1/(K ps), 0: another one; its temperature, K.
    """

    target: float = 0.0
    n_dof: float = 0.0
    keep: float = 1.0
    weak: float = 0.0
    hoover: float = 0.0
    ref_t: float = 0.0


@dataclass(frozen=True, eq=False)
class UpdateConstants:
    """What does not change in a run.

    Parameters
    ----------
    box : (3, 3) float64, nm, rows a, b, c
    dt : float, ps
    mass : (n_atoms,) float64, amu; 0: frozen
    waters : list of ((m, 3) int32, (7,) float64)
        Rigid waters by kind: global ids of O, H, H, and `settle_geometry`.
    groups : ConstrainedGroups
        Update groups held together by other constraints.
    thermostats : tuple of Thermostat
        Of each coupling group, at most `MAX_BATHS`.
    group : (n_atoms,) int32 or None
        Coupling group of each atom, where there are several.
    seed : int, of the thermostats
    interval : float, ps, of their coupling
    sites : VirtualSites
    bath : Bath or None
        Of stochastic dynamics.
    networks : NetworkTable or None
        Constraints that LINCS solves.
    chains : ChainTable or None
        In place of single thermostats of Nose and Hoover.
    portions : Portions or None
        Where several centres of mass are stopped.
    full_steps : bool
        Velocity Verlet: kinetic energies are those of full steps.
    """

    box: np.ndarray
    dt: float
    mass: np.ndarray
    waters: list[tuple[np.ndarray, np.ndarray]]
    groups: ConstrainedGroups
    thermostats: tuple[Thermostat, ...] = (Thermostat(),)
    group: np.ndarray | None = None
    seed: int = 0
    interval: float = 0.0
    sites: VirtualSites = field(default_factory=no_sites)
    bath: Bath | None = None
    networks: NetworkTable | None = None
    chains: ChainTable | None = None
    portions: Portions | None = None
    full_steps: bool = False

    @property
    def kick(self) -> float:
        """What is to come of a step's kick when the velocities are summed."""
        return 0.5 if self.full_steps else 1.0

    @cached_property
    def water_sites(self) -> WaterSites:
        """The virtual sites by whether a rigid water carries them along."""
        return water_sites([atoms for atoms, _ in self.waters], self.sites)

    @cached_property
    def molecules(self) -> np.ndarray:
        """(m, 3 + s) int32: global ids of O, H, H of each rigid water and of the sites it carries along."""
        if not self.waters:
            return np.zeros((0, 3), np.int32)
        return np.hstack([np.concatenate([atoms for atoms, _ in self.waters]), self.water_sites.atoms])

    def step(self) -> np.ndarray:
        """The struct ``Step`` of move.cuh (2, 21): of a whole step, and of half of one."""
        inverse = np.linalg.inv(self.box) * 2.0**32
        words, weight = (self.box.ravel(), inverse.ravel()), 1.0 / self.kick
        return np.array([np.concatenate([*words, [dt, 1.0 / dt, weight]]) for dt in (self.dt, 0.5 * self.dt)])

    def thermostat_words(self) -> np.ndarray:
        """The struct ``Thermostat`` of kinetic.cu of each coupling group, (g, 10) as float64 words."""
        n = len(self.thermostats)
        group = np.zeros(len(self.mass), np.int32) if self.group is None else self.group
        mass = np.bincount(group, weights=self.mass, minlength=n)
        rows = [
            (t.target, t.n_dof, t.keep, m, t.weak, t.hoover, t.ref_t, self.interval, self.kick, 0.0)
            for t, m in zip(self.thermostats, mass, strict=True)
        ]
        words = np.array(rows)
        words.view(np.int64)[:, 9] = self.seed
        return words


@dataclass(frozen=True, eq=False)
class WaterTable:
    """Waters of all kinds in one table.

    Parameters
    ----------
    role : (n_atoms,) int32
        Row of `atoms` whose O the atom is, -1: a free atom, -2: moved with others.
    atoms : (m, 4) int32, global ids of O, H, H, and the kind
    geometry : (k, 7) float64
    """

    role: np.ndarray
    atoms: np.ndarray
    geometry: np.ndarray


def oversized_group(groups: ConstrainedGroups) -> str | None:
    """What is wrong with the largest group, if it is too large."""
    largest = int(np.diff(groups.offset).max(initial=0))
    if largest <= GROUP_SIZES[-1]:
        return None
    return f"constraints tie {largest} atoms together, and a GPU takes groups of at most {GROUP_SIZES[-1]}"


def water_table(
    waters: list[tuple[np.ndarray, np.ndarray]], together: np.ndarray, n_atoms: int
) -> WaterTable:
    """Put the waters of all kinds into one table; `together`: global ids of atoms that others move."""
    rows = [np.column_stack([atoms, np.full(len(atoms), kind)]) for kind, (atoms, _) in enumerate(waters)]
    atoms = np.concatenate(rows).astype(np.int32) if rows else np.zeros((0, 4), np.int32)
    role = np.full(n_atoms, -1, np.int32)
    role[atoms[:, 1:3].ravel()] = role[together] = -2
    role[atoms[:, 0]] = np.arange(len(atoms))
    geometry = np.array([geometry for _, geometry in waters]).reshape(-1, 7)
    return WaterTable(role, atoms, geometry)


def star_order(groups: ConstrainedGroups) -> np.ndarray | None:
    """Order of the constraints in which those of each group go from its first atom to each other one, or None."""
    group = np.repeat(np.arange(len(groups.offset) - 1), np.diff(groups.pair_offset))
    outer = groups.pairs.max(axis=1, initial=0)
    order = np.lexsort((outer, group))
    place = np.arange(len(group)) - groups.pair_offset[group[order]] + 1
    full = np.array_equal(np.diff(groups.pair_offset), np.diff(groups.offset) - 1)
    inner = groups.pairs.min(axis=1, initial=len(groups.atoms))
    return order if full and not inner.any() and np.array_equal(outer[order], place) else None
