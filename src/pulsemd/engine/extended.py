"""Thermostat and barostat with variables of their own: Nose and Hoover, Parrinello and Rahman.

The leap-frog forms of gmx 2022. Both act on what the step before has found: the thermostat on the kinetic energy of the
old velocities, the barostat on the pressure of the step before.

References
----------
S. Nose, Mol. Phys. 52, 255 (1984); W. G. Hoover, Phys. Rev. A 31, 1695 (1985); M. Parrinello, A. Rahman, J. Appl.
Phys. 52, 7182 (1981).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pulsemd.base.units import BAR, BOLTZMANN
from pulsemd.engine.barostat import of_axes, over_alike
from pulsemd.engine.cell import Cell
from pulsemd.forcefield.settings import HeatBath, RunSettings
from pulsemd.kernels.update.chains import WEIGHTS, advance_chain

Float64 = NDArray[np.float64]


@dataclass(frozen=True)
class Extended:
    """Variables beside positions and velocities.

    Parameters
    ----------
    xi, friction : float, 1 and 1/ps
        Of the thermostat; the first is the time integral of the second.
    rates : three float, 1/ps
        Relative rates of change of lengths along x, y and z.
    others : tuple of float
        The first two of further coupling groups, or with velocity Verlet of further thermostats of chains, those of one
        group after the other.
    """

    xi: float = 0.0
    friction: float = 0.0
    rates: tuple[float, float, float] = (0.0, 0.0, 0.0)
    others: tuple[float, ...] = ()

    @classmethod
    def unpack(cls, values: Sequence[float]) -> Extended:
        """From `values`; early files have none."""
        xi, friction, x, z = (*values, 0.0, 0.0, 0.0, 0.0)[:4]
        others = tuple(values[4:])
        y, others = (others[-1], others[:-1]) if len(others) % 2 else (x, others)
        return cls(xi, friction, (x, y, z), others)

    @property
    def values(self) -> tuple[float, ...]:
        """All variables, in order; the rate along y comes last, and only if it is not that along x."""
        x, y, z = self.rates
        return (self.xi, self.friction, x, z, *self.others, *((y,) if y != x else ()))

    @property
    def heat(self) -> tuple[Float64, Float64]:
        """`xi` and `friction` of each coupling group, (g,) each, or of all thermostats of chains."""
        found = np.array([self.xi, self.friction, *self.others]).reshape(-1, 2)
        return found[:, 0], found[:, 1]

    def with_heat(self, xi: Float64, friction: Float64) -> Extended:
        """The same with other variables of thermostats, (g,) each."""
        first, second, *others = np.stack([xi, friction], axis=1).ravel().tolist()
        return replace(self, xi=first, friction=second, others=tuple(others))


@dataclass(frozen=True, eq=False)
class Friction:
    """What the thermostat of each coupling group does to a step: v <- scale (v + ...) + kick dt f / m.

    Parameters
    ----------
    scale, kick : (g,) float64
    loss : (g,) float64
        Half the coupling interval times the friction.
    """

    scale: Float64
    kick: Float64
    loss: Float64


def with_half_kick(friction: Friction) -> Friction:
    """The same for a move that begins with the velocities of a full step: half of the kick is still to come."""
    return replace(friction, kick=0.5 * friction.kick)


def thermostat_mass(bath: HeatBath) -> float:
    """1/Q of gmx, 1/(K ps^2); 0 where a group is not coupled."""
    return 1.0 / ((bath.tau_t / (2.0 * math.pi)) ** 2 * bath.ref_t) if bath.tau_t > 0 else 0.0


def _thermostats(s: RunSettings) -> tuple[Float64, Float64]:
    """1/Q and temperature of the bath of each coupling group."""
    return np.array([thermostat_mass(bath) for bath in s.baths]), np.array([bath.ref_t for bath in s.baths])


def advance_thermostat(s: RunSettings, before: Extended, kinetic: Float64, n_dof: Float64) -> Extended:
    """The thermostats after one coupling interval; `kinetic` (g,) in kJ/mol, of the old velocities."""
    interval, (inverse_mass, wanted), (xi, old) = s.nsttcouple * s.dt, _thermostats(s), before.heat
    temperature = wanted.copy()  # where nothing moves
    np.divide(2.0 * kinetic, n_dof * BOLTZMANN, out=temperature, where=n_dof > 0)
    friction = old + interval * inverse_mass * (temperature - wanted)
    return before.with_heat(xi + 0.5 * interval * (old + friction), friction)


def friction_of(s: RunSettings, now: Extended) -> Friction:
    """What the thermostats do to a step in which they act."""
    loss = 0.5 * s.nsttcouple * s.dt * now.heat[1]
    return Friction((1.0 - loss) / (1.0 + loss), 1.0 / (1.0 + loss), loss)


def thermostat_energy(s: RunSettings, now: Extended, n_dof: Float64) -> float:
    """Energy of the thermostats, kJ/mol."""
    (inverse_mass, wanted), (xi, friction) = _thermostats(s), now.heat
    coupled = inverse_mass > 0
    kinetic = 0.5 * friction[coupled] ** 2 / inverse_mass[coupled]
    return float(BOLTZMANN * n_dof[coupled] @ (kinetic + wanted[coupled] * xi[coupled]))


def chain_masses(s: RunSettings, n_dof: Float64) -> Float64:
    """1/Q of gmx for the thermostats of chains, (g, n), 1/(kJ/mol ps^2); 0 where a group is not coupled."""
    found = np.zeros((len(s.baths), s.nh_chain_length))
    for row, bath, n in zip(found, s.baths, n_dof, strict=True):
        if bath.tau_t > 0 and n > 0:
            row[:] = 1.0 / ((bath.tau_t / (2.0 * math.pi)) ** 2 * BOLTZMANN * bath.ref_t)
            row[0] /= n
    return found


def advance_chains(
    s: RunSettings, before: Extended, kinetic: Float64, n_dof: Float64
) -> tuple[Extended, Float64]:
    """The chains after half of a coupling interval, and factors (g,) on velocities; `kinetic` (g,) in kJ/mol."""
    masses = chain_masses(s, n_dof)
    xi, friction = (values.reshape(masses.shape).copy() for values in before.heat)
    scale = np.ones(len(masses))
    for g, bath in enumerate(s.baths):
        if masses[g, 0] > 0:
            of_group = (float(kinetic[g]), float(n_dof[g]), BOLTZMANN * bath.ref_t)
            scale[g] = advance_chain(xi[g], friction[g], masses[g], *of_group, s.nsttcouple * s.dt, WEIGHTS)
    return before.with_heat(xi.ravel(), friction.ravel()), scale


def chain_energy(s: RunSettings, now: Extended, n_dof: Float64) -> float:
    """Energy of the chains, kJ/mol: their part of the conserved energy."""
    masses = chain_masses(s, n_dof)
    xi, friction = (values.reshape(masses.shape) for values in now.heat)
    wanted = np.ones(masses.shape) * BOLTZMANN * np.array([bath.ref_t for bath in s.baths])[:, None]
    wanted[:, 0] *= n_dof
    coupled = masses > 0
    kinetic = 0.5 * friction[coupled] ** 2 / masses[coupled]
    return float((kinetic + wanted[coupled] * xi[coupled]).sum())


def box_softness(s: RunSettings) -> Float64:
    """Inverse masses of the box along x, y and z, times its longest edge, (3,), in 1/(bar ps^2)."""
    soft: Float64 = 4.0 * math.pi**2 / (3.0 * s.tau_p**2) * of_axes(s, s.compressibility)
    return soft


def box_masses(s: RunSettings, cell: Cell) -> Float64:
    """Inverse masses of the box along x, y and z, (3,), in 1/(nm bar ps^2)."""
    return box_softness(s) / float(np.diag(cell.user_box).max())


def accelerate_box(s: RunSettings, before: Extended, pressure: Float64, cell: Cell) -> Extended:
    """The rates of the box after one coupling interval; `pressure` (3,) in bar.

    Where edges of unequal length scale alike, gmx takes means of force over mass in place of the force over the whole
    mass, which does not conserve its energy.
    """
    interval, squares = s.nstpcouple * s.dt, (cell.user_box**2).sum(1)
    pull = over_alike(s, pressure - of_axes(s, s.ref_p), squares)
    return _with_rates(before, np.array(before.rates) + interval * cell.volume * box_masses(s, cell) * pull)


def move_box(s: RunSettings, before: Extended) -> tuple[Float64, Extended]:
    """Factors (3,) on lengths of one coupling interval, and the rates relative to the new lengths."""
    rates = np.array(before.rates)
    factors: Float64 = 1.0 + s.nstpcouple * s.dt * rates
    return factors, _with_rates(before, rates / factors)


def _with_rates(before: Extended, rates: Float64) -> Extended:
    x, y, z = rates.tolist()
    return replace(before, rates=(x, y, z))


def box_energy(s: RunSettings, now: Extended, cell: Cell) -> float:
    """Energy of the box, kJ/mol: of its motion, and pressure times volume."""
    inverse = box_masses(s, cell)
    squares = ((np.array(now.rates)[:, None] * cell.user_box) ** 2).sum(1)
    moving = inverse > 0.0  # the others are infinitely heavy
    wanted = float(of_axes(s, s.ref_p).mean())
    return (float((squares[moving] / inverse[moving]).sum()) * 0.5 + wanted * cell.volume) / BAR
