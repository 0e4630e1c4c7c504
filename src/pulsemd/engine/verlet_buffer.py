"""The list cut-off that keeps the energy drift of missing pairs below a tolerance.

Model
-----
Between two searches an atom moves along any axis by a normal displacement of variance kT t^2 / m_eff, the ballistic
estimate: an upper bound, since collisions only shorten displacements. A pair that starts outside the list at
r_0 >= r_list and ends at r < r_c misses the energy V(r) - V(r_c). With pairs uniformly distributed, the drift per
atom is

    D = 1 / (2 N n_list dt) sum_kl N_k N_l / V | M_kl |
    M_kl = int_{r_list} 4 pi r_0^2 dr_0 int^{r_c} G_sigma(r - r_0) (V_kl(r) - V_kl(r_c)) dr

The clusters of the list add pairs beyond r_list for nothing; that margin is not counted.

References
----------
S. Pall, B. Hess, Comput. Phys. Commun. 184, 2641 (2013), section 3 (the idea); the displacement model is ours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from pulsemd.base.errors import InputError
from pulsemd.base.units import BOLTZMANN

Array = NDArray[np.float64]
_POINTS = 96
_REACH = 6.0


@dataclass(frozen=True)
class AtomKinds:
    """Atoms that behave alike: (k,) arrays of type index, charge [e], effective mass [amu], count."""

    type_index: NDArray[np.int64]
    charge: NDArray[np.float64]
    mass: NDArray[np.float64]
    count: NDArray[np.int64]


@dataclass(frozen=True)
class PairEnergies:
    """Energy of a pair of kinds k, m at distances r: sum over f of coefficients[f, k, m] basis(r)[f], kJ/mol.

    Parameters
    ----------
    basis : function of distances (p,) nm -> (F, p)
    coefficients : (F, k, k) float64, symmetric
    """

    basis: Callable[[Array], Array]
    coefficients: Array


@dataclass(frozen=True)
class ListConditions:
    """What the drift depends on besides the atoms: nm^3, K, ps, steps, nm."""

    volume: float
    temperature: float
    dt: float
    nstlist: int
    r_cut: float


def rigid_water_masses(mass_o: float, mass_h: float, d_oh: float, d_hh: float) -> NDArray[np.float64]:
    """Effective masses of O, H, H in a rigid water: 3 / trace of each atom's block of the constrained mobility.

    The mobility is M^-1 - M^-1 A^T (A M^-1 A^T)^-1 A M^-1 with the constraint gradients A, so that
    <v v^T> = kT times it. Lengths in nm, masses in amu; (3,) amu.
    """
    height = np.sqrt(d_oh**2 - d_hh**2 / 4)
    r = np.array([[0, 0, 0], [d_hh / 2, height, 0], [-d_hh / 2, height, 0]])
    inverse = np.diag(np.repeat(1.0 / np.array([mass_o, mass_h, mass_h]), 3))
    gradients = []
    for i, j in ((0, 1), (0, 2), (1, 2)):
        g = np.zeros((3, 3))
        g[i], g[j] = r[i] - r[j], r[j] - r[i]
        gradients.append(g.ravel())
    a = np.array(gradients)
    mobility = inverse - inverse @ a.T @ np.linalg.inv(a @ inverse @ a.T) @ a @ inverse
    blocks: NDArray[np.float64] = np.array(
        [np.trace(mobility[3 * k : 3 * k + 3, 3 * k : 3 * k + 3]) for k in range(3)]
    )
    return 3.0 / blocks


def missed_energy(r_list: float, r_cut: float, sigma: float, pair_energy: Callable[[Array], Array]) -> Array:
    """The double integral of the module's formula for one pair of kinds, kJ/mol nm^3.

    Parameters
    ----------
    r_list, r_cut, sigma : float, nm
    pair_energy : function of distances (p,) nm -> energies (..., p) kJ/mol

    Returns
    -------
    (...) float64
    """
    r0, w0 = _nodes(r_list, r_list + _REACH * sigma)
    r, w = _nodes(max(r_cut - _REACH * sigma, 0.25 * r_cut), r_cut)
    energy = pair_energy(r) - pair_energy(np.array([r_cut]))
    gauss = np.exp(-0.5 * ((r[None, :] - r0[:, None]) / sigma) ** 2) / (sigma * np.sqrt(2 * np.pi))
    missed: Array = (w * energy) @ ((w0 * 4 * np.pi * r0**2) @ gauss)
    return missed


def drift_per_atom(
    r_list: float, kinds: AtomKinds, conditions: ListConditions, energies: PairEnergies
) -> float:
    """Estimated energy drift per atom, kJ/mol/ps (see the module).

    A protein has hundreds of kinds but few masses: integrals are made for each pair of masses, of the basis alone.
    """
    c = conditions
    time = max(c.nstlist - 1, 0) * c.dt
    mass, which = np.unique(kinds.mass, return_inverse=True)
    variance = np.array([BOLTZMANN * c.temperature * time**2 / m if m > 0 else 0.0 for m in mass])
    integrals = np.zeros((len(energies.coefficients), len(mass), len(mass)))
    for a in range(len(mass)):
        for b in range(a, len(mass)):
            sigma = float(np.sqrt(variance[a] + variance[b]))
            if sigma > 0.0:
                integrals[:, a, b] = integrals[:, b, a] = missed_energy(
                    r_list, c.r_cut, sigma, energies.basis
                )
    missed = np.abs((energies.coefficients * integrals[:, which[:, None], which[None, :]]).sum(0))
    count = kinds.count.astype(np.float64)
    return float(count @ missed @ count) / (2.0 * c.volume * float(count.sum()) * c.nstlist * c.dt)


def list_cutoff(
    tolerance: float, kinds: AtomKinds, conditions: ListConditions, energies: PairEnergies
) -> float:
    """Smallest list cut-off (nm, to 0.1 pm) whose estimated drift is at most `tolerance` kJ/mol/ps per atom.

    Raises
    ------
    InputError
        If no buffer up to the cut-off itself suffices.
    """
    low, high = conditions.r_cut, 2.0 * conditions.r_cut
    if drift_per_atom(low, kinds, conditions, energies) <= tolerance:
        return low
    if drift_per_atom(high, kinds, conditions, energies) > tolerance:
        raise InputError(
            f"no list buffer up to {conditions.r_cut:g} nm keeps the drift below verlet-buffer-tolerance "
            f"{tolerance:g} kJ/mol/ps per atom with nstlist {conditions.nstlist}; lower nstlist, raise the "
            "tolerance, or set verlet-buffer-tolerance = -1 and rlist"
        )
    while high - low > 1e-4:
        middle = 0.5 * (low + high)
        if drift_per_atom(middle, kinds, conditions, energies) > tolerance:
            low = middle
        else:
            high = middle
    return high


def _nodes(low: float, high: float) -> tuple[Array, Array]:
    """Gauss-Legendre nodes and weights on [low, high]."""
    x, w = _legendre()
    return low + (high - low) * (x + 1) / 2, w * (high - low) / 2


@lru_cache(maxsize=1)
def _legendre() -> tuple[Array, Array]:
    x, w = np.polynomial.legendre.leggauss(_POINTS)
    return x, w
