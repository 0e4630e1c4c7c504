"""Temperature and pressure of a run on CPUs: what its global sums make of velocities and cell, alike on every rank."""

from __future__ import annotations

from dataclasses import replace

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
    advance_chains,
    advance_thermostat,
    box_energy,
    chain_energy,
    friction_of,
    move_box,
    thermostat_energy,
)
from pulsemd.engine.system import Continuation, System

Float64 = NDArray[np.float64]


class Ensemble:
    """Thermostat and barostat.

    Parameters
    ----------
    system : System

    Attributes
    ----------
    free : Friction
        Of a step without thermostat.
    cell, searched_cell : Cell
        Now, and at the last search.
    thermostat_work, barostat_work : float, kJ/mol, given so far
    extended : Extended
    strained : str
        Why the barostat stopped scaling the box; '': it did not.
    """

    def __init__(self, system: System) -> None:
        self._system, self._n_dof = system, system.group_n_dof
        n, ones = len(self._n_dof), np.ones(len(self._n_dof))
        self.free = Friction(ones, ones, 0.0 * ones)
        self.cell = self.searched_cell = system.cell
        self.thermostat_work = self.barostat_work = 0.0
        self._has_chains = system.settings.has_chains
        length = system.settings.nh_chain_length if self._has_chains else 1
        self.extended = Extended(others=(0.0, 0.0) * (n * length - 1))
        self.strained = ""

    def take_up(self, earlier: Continuation) -> None:
        """Go on as a checkpoint has it, inside a list lifetime."""
        self.thermostat_work, self.barostat_work = earlier.thermostat_work, earlier.barostat_work
        self.extended, self.cell = earlier.extended, earlier.cell

    # ---- temperature --------------------------------------------------------------------------------------------

    def end_step(self, step: int, found: Kinetic) -> tuple[Float64, Kinetic]:
        """With chains: what they do at the end of a coupling interval that leads to this full step; factors (g,) on the
        velocities of groups, and their kinetic energy after that."""
        system = self._system
        begins = step == system.step and system.continuation is None
        if not self._has_chains or begins:
            return np.ones(len(self._n_dof)), found
        scale = self._advance_chains(found)
        return scale, found.scaled(scale)

    def _advance_chains(self, found: Kinetic) -> Float64:
        s = self._system.settings
        self.extended, scale = advance_chains(s, self.extended, found.energy, self._n_dof)
        self.thermostat_work = -chain_energy(s, self.extended, self._n_dof)
        return scale

    def couple(self, step: int, old: Kinetic) -> tuple[Friction, Kinetic]:
        """What the thermostat does to a step with these old velocities, and their kinetic energy after that."""
        s = self._system.settings
        if self._has_chains:
            scale = self._advance_chains(old)
            return replace(self.free, scale=scale), old.scaled(scale)
        if s.tcoupl == "nose-hoover":
            self.extended = advance_thermostat(s, self.extended, old.energy, self._n_dof)
            self.thermostat_work = -thermostat_energy(s, self.extended, self._n_dof)
            return friction_of(s, self.extended), old
        scale = np.array([self._factor(step, group, float(k)) for group, k in enumerate(old.energy)])
        self.thermostat_work += float(old.energy @ (scale * scale - 1.0))
        return replace(self.free, scale=scale), old.scaled(scale)

    def _factor(self, step: int, group: int, kinetic: float) -> float:
        s, n_dof = self._system.settings.at_step(step), float(self._n_dof[group])
        bath, interval = s.baths[group], s.nsttcouple * s.dt
        target = 0.5 * n_dof * BOLTZMANN * bath.ref_t
        if bath.tau_t < 0 or (bath.tau_t == 0 and s.tcoupl == "berendsen"):
            return 1.0
        if s.tcoupl == "berendsen":
            return berendsen_factor(kinetic, target, bath.tau_t, interval)
        return v_rescale_factor(kinetic, target, n_dof, bath.tau_t, interval, s.ld_seed, step, group)

    # ---- pressure -----------------------------------------------------------------------------------------------

    def drag(self, friction: Friction) -> Float64:
        """Factors (g, 3) on velocities in a step in which the box moves, beside those of a thermostat."""
        s = self._system.settings
        kept: Float64 = 1.0 - s.nstpcouple * s.dt * np.array(self.extended.rates) / (
            1.0 - friction.loss[:, None]
        )
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
        factors = cell_factors(s.at_step(flags.step), pressure, stress.volume, flags.step)
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
        strain = cell.strain(self.searched_cell)
        if not is_allowed(strain):
            self.strained = strain_message(strain, step)
            return False
        self.cell = cell
        return True
