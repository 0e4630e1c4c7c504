"""Nose-Hoover chains of thermostats, in the symmetric order of Martyna and Tuckerman.

References
----------
G. J. Martyna, M. E. Tuckerman, D. J. Tobias, M. L. Klein, Mol. Phys. 87, 1117 (1996), with the weights of Suzuki and
Yoshida of order five, five times, as in gmx 2022.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

_OUTER, _INNER = 0.2967324292201065, -0.186929716880426
WEIGHTS = np.array([_OUTER, _OUTER, _INNER, _OUTER, _OUTER])
"""Parts of an interval; they add up to 1."""


@njit(nogil=True, error_model="numpy", cache=True)
def _push(j, friction, inverse_mass, excess, kt):
    """Rate of change of the friction of thermostat `j`, 1/ps^2.

    That of the first is by twice the kinetic energy that its group has too much, `excess`, of others by that of the one
    before.
    """
    if j == 0:
        return inverse_mass[0] * excess
    return inverse_mass[j] * (friction[j - 1] * friction[j - 1] / inverse_mass[j - 1] - kt)


@njit(nogil=True, error_model="numpy", cache=True)
def _advance(j, friction, inverse_mass, excess, kt, dt):
    """Let the thermostats before and behind `j` act on it."""
    drag = math.exp(-0.125 * dt * friction[j + 1]) if j < friction.shape[0] - 1 else 1.0
    friction[j] = drag * (friction[j] * drag + 0.25 * dt * _push(j, friction, inverse_mass, excess, kt))


@njit(nogil=True, error_model="numpy", cache=True)
def advance_chain(xi, friction, inverse_mass, kinetic, n_dof, kt, interval, weights):
    """Let a chain act on its group for half of a coupling interval.

    Parameters
    ----------
    xi, friction : (n,) float64, 1 and 1/ps
        OUTPUT, advanced.
    inverse_mass : (n,) float64, 1/(kJ/mol ps^2), positive
    kinetic : float, kJ/mol, of the group
    n_dof : float
    kt : float, kJ/mol
    interval : float, ps, of the coupling
    weights : `WEIGHTS`

    Returns
    -------
    float
        Factor on the velocities of the group.
    """
    n, scale, twice = xi.shape[0], 1.0, 2.0 * kinetic
    for _ in range(weights.shape[0]):
        for weight in weights:
            dt = weight * interval / weights.shape[0]
            for j in range(n - 1, -1, -1):
                _advance(j, friction, inverse_mass, twice - n_dof * kt, kt, dt)
            factor = math.exp(-0.5 * dt * friction[0])
            scale *= factor
            twice *= factor * factor
            for j in range(n):
                xi[j] += 0.5 * dt * friction[j]
            for j in range(n):
                _advance(j, friction, inverse_mass, twice - n_dof * kt, kt, dt)
    return scale
