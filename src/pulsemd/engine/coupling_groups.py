"""The coupling groups of a run on a rank: which atoms they hold, and their kinetic energies."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pulsemd.base.fixed_point import ENERGY_SCALE, MOMENTUM_SCALE
from pulsemd.engine.energies import Kinetic
from pulsemd.engine.system import System
from pulsemd.forcefield.settings import RunSettings
from pulsemd.halo import Transport
from pulsemd.io.gromacs.groups import Groups
from pulsemd.kernels.update.leapfrog import KINETIC_SUMS, kinetic_sums, kinetic_sums_of_groups


def groups_of_atoms(settings: RunSettings, groups: Groups) -> NDArray[np.int32] | None:
    """The coupling group (n_atoms,) of each atom, where the settings have several baths.

    Raises
    ------
    InputError
        If the groups do not hold every atom exactly once.
    """
    names = settings.tc_grps
    if not names or [name.lower() for name in names] == ["system"]:
        return None
    found = groups.of_atoms(names, "tc-grps")
    return None if len(settings.baths) == 1 else found


def with_coupling_groups(system: System, groups: Groups) -> System:
    """The system with its `groups_of_atoms`."""
    return replace(system, group_of_atom=groups_of_atoms(system.settings, groups))


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
    mass : (groups,) float64, amu, of all their atoms
    """

    def __init__(self, transport: Transport, system: System, fixed: bool) -> None:
        n_atoms, n_groups = system.topology.n_atoms, len(system.settings.baths)
        given = system.group_of_atom
        self._of_atom = np.zeros(n_atoms, np.int32) if given is None else given
        self.several, self._fixed = n_groups > 1, fixed
        self.mass: NDArray[np.float64] = np.bincount(
            self._of_atom, weights=system.topology.mass, minlength=n_groups
        ).astype(np.float64)
        self.rows = np.zeros(0, np.int32)
        self._sums = np.zeros((n_groups, KINETIC_SUMS), np.int64 if fixed else np.float64)
        self._reduce = transport.reduce(self._sums.size, self._sums.dtype)

    def bind(self, gid: NDArray[np.int32]) -> None:
        """Take the owned atoms of a new list lifetime, by global id."""
        self.rows = self._of_atom[gid]

    def sum_kinetic(self, v: NDArray[np.float32], mass: NDArray[np.float64]) -> Kinetic:
        """Kinetic energy and momentum of each group over all ranks; collective.

        Parameters
        ----------
        v : (n_owned, 3) float32, nm/ps
        mass : (n_local,) float64, amu
        """
        n = len(self.rows)
        if self.several:
            kinetic_sums_of_groups(v, mass, self.rows, n, self._fixed, self._sums)
        else:
            kinetic_sums(v, mass, n, self._fixed, self._sums[0])
        total = self._reduce.sum(self._sums.ravel()).reshape(self._sums.shape).astype(np.float64)
        if self._fixed:
            total /= np.array([ENERGY_SCALE, *[MOMENTUM_SCALE] * 3, *[ENERGY_SCALE] * 2])
        return Kinetic(total[:, 0], total[:, 1:4], total[:, 4:])
