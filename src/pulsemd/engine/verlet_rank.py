"""Velocity Verlet on one rank of CPUs.

With constraints solved by RATTLE it makes the steps of leap-frog: what RATTLE takes out of the velocities of full steps
points along the bonds, as SHAKE's corrections do, which the next move makes anyway. Between steps a rank has therefore
the velocities of half a step before. Those of full steps are found where something follows from them: kinetic
energy, pressure, thermostat, the motion of the centre of mass, and output.

References
----------
W. C. Swope et al., J. Chem. Phys. 76, 637 (1982); H. C. Andersen, J. Comput. Phys. 52, 24 (1983); B. Leimkuhler,
R. D. Skeel, J. Comput. Phys. 112, 117 (1994), that both are one method.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsemd.domain.atoms import LocalAtoms
from pulsemd.engine.cell import Cell
from pulsemd.engine.energies import Kinetic
from pulsemd.engine.extended import with_half_kick
from pulsemd.engine.rank import Rank


class VerletRank(Rank):
    """A rank whose energies, thermostat and output use velocities of full steps; see `Rank`.

    Attributes
    ----------
    full_velocities : (n_owned, 3) float32, nm/ps
        Of the last step that needed them.
    """

    full_velocities: NDArray[np.float32]

    def update(self) -> None:
        """Kick, thermostat, kick, drift, constraints, barostat; where they are wanted also the global sums.

        The virial of constraints is that of the second kick, as in gmx: twice what the move finds, which without
        coupling is for both kicks, less that of the first.
        """
        flags, works = self.flags, self._ensemble.works()
        friction, com = self._ensemble.free, np.zeros(3)
        first, found = np.zeros((2, 9), self._sum_type)
        if flags.kinetic:
            com, kinetic = self._complete(first)
            if flags.thermostat:
                before, kinetic = self._ensemble.end_step(flags.step, kinetic)
                works = self._ensemble.works()
                friction, _ = self._ensemble.couple(flags.step, kinetic)
                friction = replace(friction, scale=before * friction.scale)
            if flags.couples:
                self.velocities[...] = self.full_velocities
                friction, first[:] = with_half_kick(friction), 0
        self._move(friction, com, found if flags.sums else None)
        self._constraint_virial += 2 * found - first
        stress = self._finish_sums(kinetic.energy, kinetic.diagonal, works) if flags.sums else None
        self._finish_step(stress, self._sum_kinetic().diagonal if flags.barostat else np.zeros(3))

    def _complete(self, virial: NDArray[Any]) -> tuple[NDArray[np.float64], Kinetic]:
        """Find the velocities of the full step; the result is that of `CouplingGroups.sum_and_stop`. `virial` (9,)
        OUTPUT: of what constraints take out of the first kick; that of moving forces of virtual sites is added to the
        sums."""
        of_virial, half = self._virial_scale, 0.5 * self.system.settings.dt
        at_forces = (self.f, self._f_scale)
        self._movers.spread(self.x, *at_forces, self._constraint_virial, of_virial)
        self.full_velocities = self._movers.complete(
            self.x, self.velocities, *at_forces, half, virial, of_virial
        )
        return self._coupling.sum_and_stop(self.full_velocities, self._movers.mass, self.flags.remove_com)

    def take_rows(self) -> Callable[[], tuple[LocalAtoms, Cell]]:
        """The same as of `Rank`, with the velocities of the full step that was evaluated last."""
        return lambda: (replace(self.rows(), v=self.full_velocities), self.cell)
