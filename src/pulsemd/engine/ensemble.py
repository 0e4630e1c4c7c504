"""Temperature and pressure of a run on CPUs: what its global sums make of velocities and cell, alike on every rank."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pulsemd.base.units import BOLTZMANN
from pulsemd.engine.barostat import Stress, cell_factors, is_allowed, scaling_work, strain_message
from pulsemd.engine.coupling import StepFlags, berendsen_factor, v_rescale_factor
from pulsemd.engine.energies import Kinetic
from pulsemd.engine.extended import (
    Extended,
    Friction,
    accelerate_box,
    advance_thermostat,
    box_energy,
    friction_of,
    move_box,
    thermostat_energy,
)
from pulsemd.engine.system import Continuation, System

Float64 = NDArray[np.float64]

FREE = Friction(1.0, 1.0, 0.0)
"""No thermostat."""


class Ensemble:
    """Thermostat and barostat.

    Parameters
    ----------
    system : System
    n_dof : int

    Attributes
    ----------
    cell, searched_cell : Cell
        Now, and at the last search.
    thermostat_work, barostat_work : float, kJ/mol, given so far
    extended : Extended
    strained : str
        Why the barostat stopped scaling the box; '': it did not.
    """

    def __init__(self, system: System, n_dof: int) -> None:
        self._system, self._n_dof = system, n_dof
        self.cell = self.searched_cell = system.cell
        self.thermostat_work = self.barostat_work = 0.0
        self.extended = Extended()
        self.strained = ""

    def take_up(self, earlier: Continuation) -> None:
        """Go on as a checkpoint has it, inside a list lifetime."""
        self.thermostat_work, self.barostat_work = earlier.thermostat_work, earlier.barostat_work
        self.extended, self.cell = earlier.extended, earlier.cell

    # ---- temperature --------------------------------------------------------------------------------------------

    def couple(self, step: int, old: Kinetic) -> tuple[Friction, Kinetic]:
        """What the thermostat does to a step with these old velocities, and their kinetic energy after that."""
        s = self._system.settings
        if s.tcoupl == "nose-hoover":
            self.extended = advance_thermostat(s, self.extended, old.energy, self._n_dof)
            self.thermostat_work = -thermostat_energy(s, self.extended, self._n_dof)
            return friction_of(s, self.extended), old
        scale = self._factor(step, old.energy)
        square = scale * scale
        self.thermostat_work += old.energy * (square - 1.0)
        return Friction(scale, 1.0, 0.0), Kinetic(old.energy * square, old.momentum, old.along_z * square)

    def _factor(self, step: int, kinetic: float) -> float:
        s, interval = self._system.settings, self._system.settings.nsttcouple * self._system.settings.dt
        target = 0.5 * self._n_dof * BOLTZMANN * s.ref_t
        if s.tcoupl == "berendsen":
            return berendsen_factor(kinetic, target, s.tau_t, interval)
        return v_rescale_factor(kinetic, target, self._n_dof, s.tau_t, interval, s.ld_seed, step)

    # ---- pressure -----------------------------------------------------------------------------------------------

    def drag(self, friction: Friction) -> Float64:
        """Factors (3,) on velocities in a step in which the box moves, beside those of a thermostat."""
        s = self._system.settings
        kept: Float64 = 1.0 - s.nstpcouple * s.dt * self.extended.rates / (1.0 - friction.loss)
        return kept

    def works(self) -> tuple[float, float]:
        """Work of the thermostat and of the barostat, kJ/mol, as the energies of the step that ends need them."""
        s = self._system.settings
        if s.pcoupl == "parrinello-rahman":
            self.barostat_work = -box_energy(s, self.extended, self.cell)
        return self.thermostat_work, self.barostat_work

    def finish_step(self, flags: StepFlags, stress: Stress | None, after: Float64) -> Float64 | None:
        """Let a box that moves go on, and then the pressure act.

        Parameters
        ----------
        stress : Stress or None
            Of the step; with a barostat there is one.
        after : (3,) float64, kJ/mol
            Kinetic energy along each axis of the velocities of now.

        Returns
        -------
        (3,) float64 or None
            What these are to be divided by.
        """
        s = self._system.settings
        if flags.box_moves:
            factors, extended = move_box(s, self.extended)
            if self._scale(factors, flags.step):
                self.extended = extended
        if not flags.barostat or stress is None:
            return None
        dispersion = self._system.dispersion
        pressure = stress.pressure(dispersion)
        if s.pcoupl == "parrinello-rahman":
            self.extended = accelerate_box(s, self.extended, pressure, self.cell)
            return None
        factors = cell_factors(s, pressure, stress.volume, flags.step)
        if not self._scale(factors, flags.step):
            return None
        velocities_too = s.pcoupl == "c-rescale"
        self.barostat_work += scaling_work(stress, after, factors, velocities_too, dispersion)
        return factors if velocities_too else None

    def _scale(self, factors: Float64, step: int) -> bool:
        """Scale lengths along x, y and z; False if the pair list is not good for it, or was not before."""
        if self.strained:
            return False
        cell = self.cell.scaled(factors)
        strain = np.diag(np.linalg.solve(self.searched_cell.box, cell.box))
        if not is_allowed(strain):
            self.strained = strain_message(strain, step)
            return False
        self.cell = cell
        return True
