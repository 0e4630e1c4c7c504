"""Groups of atoms with thermostats of their own, and those whose centres of mass are stopped, on a rank.

What two such groups have in common is a portion: its kinetic energy and momentum are what both need.
"""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pulsemd.base.fixed_point import ENERGY_SCALE, MOMENTUM_SCALE
from pulsemd.engine.energies import Kinetic
from pulsemd.engine.system import System
from pulsemd.forcefield.settings import RunSettings
from pulsemd.halo import Transport
from pulsemd.io.gromacs.groups import Groups
from pulsemd.kernels.update.leapfrog import (
    KINETIC_SUMS,
    kinetic_sums,
    kinetic_sums_of_groups,
    stop_groups,
)
from pulsemd.kernels.update.portions import Portions

log = logging.getLogger(__name__)


def groups_of_atoms(settings: RunSettings, groups: Groups) -> NDArray[np.int32] | None:
    """The coupling group (n_atoms,) of each atom, where the settings have several baths.

    Raises
    ------
    InputError
        If the groups do not hold every atom exactly once.
    """
    names = settings.tc_grps
    if not names or (len(names) == 1 and groups.is_whole(names[0])):
        return None
    found = groups.of_atoms(names, "tc-grps")
    return None if len(settings.baths) == 1 else found


def held_groups_of_atoms(settings: RunSettings, groups: Groups) -> NDArray[np.int32] | None:
    """The group (n_atoms,) of each atom whose centre of mass is stopped, -1: none; None where it is that of all atoms,
    or nothing is stopped.

    Raises
    ------
    InputError
        If an atom is in several of the groups.
    """
    if not settings.comm_grps:
        return None
    found = groups.of_atoms(settings.comm_grps, "comm-grps", rest=True)
    if n_rest := int(np.count_nonzero(found < 0)):
        log.warning(
            "comm-grps: %d atoms are in none of %s, and their common motion is never removed; use one group of the "
            "whole system, or one for each phase",
            n_rest,
            ", ".join(settings.comm_grps),
        )
    return found if found.any() else None


def with_coupling_groups(system: System, groups: Groups) -> System:
    """The system with its `groups_of_atoms` and `held_groups_of_atoms`."""
    s = system.settings
    return replace(
        system, group_of_atom=groups_of_atoms(s, groups), held_group_of_atom=held_groups_of_atoms(s, groups)
    )


def portions_of(system: System) -> Portions:
    """The portions of a system; its coupling groups, where one centre of mass is stopped."""
    n_atoms, n_baths = system.topology.n_atoms, len(system.settings.baths)
    bath, held = system.group_of_atom, system.held_group_of_atom
    bath = np.zeros(n_atoms, np.int32) if bath is None else bath
    if held is None:
        of_atom, used = bath, np.arange(n_baths, 2 * n_baths)
    else:
        key = (held + 1) * n_baths + bath
        used = np.flatnonzero(np.bincount(key))
        place = np.zeros(used[-1] + 1, np.int32)
        place[used] = np.arange(len(used))
        of_atom = place[key]
    mass = np.bincount(of_atom, weights=system.topology.mass, minlength=len(used)).astype(np.float64)
    of_held = np.bincount(used // n_baths, weights=mass)
    stopped = np.where(of_held[used // n_baths] > 0, used // n_baths - 1, -1)
    return Portions(of_atom, (used % n_baths).astype(np.int32), stopped.astype(np.int32), mass)


class CouplingGroups:
    """The coupling groups of the owned atoms of a rank.

    Parameters
    ----------
    transport : Transport
    system : System
    fixed : bool
        Sums are in fixed point.

    Attributes
    ----------
    several : bool
    rows : (n_owned,) int32, group of each owned atom
    """

    def __init__(self, transport: Transport, system: System, fixed: bool) -> None:
        self._n, self._portions, self._fixed = len(system.settings.baths), portions_of(system), fixed
        self.several, self._apart = self._n > 1, system.held_group_of_atom is not None
        self.rows = self._rows = np.zeros(0, np.int32)
        self._sums = np.zeros((len(self._portions.mass), KINETIC_SUMS), np.int64 if fixed else np.float64)
        self._reduce = transport.reduce(self._sums.size, self._sums.dtype)

    def bind(self, gid: NDArray[np.int32]) -> None:
        """Take the owned atoms of a new list lifetime, by global id."""
        self._rows = self._portions.of_atom[gid]
        self.rows = self._portions.bath[self._rows] if self._apart else self._rows

    def sum_kinetic(self, v: NDArray[np.float32], mass: NDArray[np.float64]) -> Kinetic:
        """Kinetic energy and momentum of each group over all ranks; collective.

        Parameters
        ----------
        v : (n_owned, 3) float32, nm/ps
        mass : (n_local,) float64, amu
        """
        return self._of_groups(self._sum(v, mass))

    def sum_and_stop(
        self, v: NDArray[np.float32], mass: NDArray[np.float64], stop: bool
    ) -> tuple[NDArray[np.float64], Kinetic]:
        """The same before a step; with `stop` of what moves without centres of mass. Collective.

        `v` is then OUTPUT, unless one centre of mass is that of all.

        Returns
        -------
        (3,) float64, nm/ps
            What the step still has to take from every velocity.
        Kinetic
        """
        found, com = self._sum(v, mass), np.zeros(3)
        if stop:
            velocity, found = found.without_drift(self._portions.mass, self._portions.held)
            if self._apart:
                stop_groups(v, mass, self._rows, velocity)
            else:
                com = velocity[0]
        return com, self._of_groups(found)

    def _of_groups(self, found: Kinetic) -> Kinetic:
        return found.joined(self._portions.bath, self._n) if self._apart else found

    def _sum(self, v: NDArray[np.float32], mass: NDArray[np.float64]) -> Kinetic:
        n = len(self._rows)
        if len(self._sums) > 1:
            kinetic_sums_of_groups(v, mass, self._rows, n, self._fixed, self._sums)
        else:
            kinetic_sums(v, mass, n, self._fixed, self._sums[0])
        total = self._reduce.sum(self._sums.ravel()).reshape(self._sums.shape).astype(np.float64)
        if self._fixed:
            total /= np.array([ENERGY_SCALE, *[MOMENTUM_SCALE] * 3, *[ENERGY_SCALE] * 2])
        return Kinetic(total[:, 0], total[:, 1:4], total[:, 4:])
