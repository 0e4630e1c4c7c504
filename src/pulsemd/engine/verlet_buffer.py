"""The list cut-off that keeps the energy drift of missing pairs below a tolerance.

Model
-----
Between two searches, a time t apart, an atom is displaced by u + w. u is the flight of its centre: normal along any
axis with variance kT t^2 mobility. w is the swing of the atom about that centre at the fixed distance a, the arm: a
chord of length 2 a |sin(theta / 2)|, isotropic, whose angle theta has the Rayleigh distribution of scale
sqrt(kT swing) t / a. Free atoms have no arm. An atom with constraints swings about the common centre of itself and its
heaviest partner, a rigid water's atom about the centre of the molecule: a hydrogen flies with its molecule and never
gets farther from there than twice the arm. Any further constraint takes away from the mobility.

Both are motions without collisions. Collisions shorten flights and arcs: the mean of a stationary velocity over a
time is less spread than the velocity itself, in the convex order. A liquid's molecules swing back within 0.1 ps and
stay in their cages, so there the drift is far below the estimate; a bound that knows of cages would hold for some
systems only.

A pair that starts outside the list at r_0 >= r_list and ends at r < r_c misses the energy V(r) - V(r_c). If G is the
density of the pair's displacement along an axis, the distance r_0 of a pair now at r has the density
(r_0 / r) (G(r_0 - r) - G(r_0 + r)), so that with pairs uniformly distributed the drift per atom is

    D = 1 / (2 N n_list dt) sum_kl N_k N_l / V | M_kl |
    M_kl = int_{r_list} dr_0 int^{r_c} 4 pi r r_0 G_kl(r_0 - r) (V_kl(r) - V_kl(r_c)) dr

(G(r_0 + r) is nil within the reach of a list.) The clusters of the list add pairs beyond r_list for nothing; that
margin is not counted.

References
----------
S. Pall, B. Hess, Comput. Phys. Commun. 184, 2641 (2013), section 3: the drift, and the centre and arm of constrained
atoms. They replace the chord by a normal displacement of about the same variance; here its distribution, which ends at
2 a, is kept.
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
"""Normal and Rayleigh distributions end here, in standard deviations: 1e-8 is left out."""
_FINEST = 8.0
"""Wave number at which the series ends, in inverse standard deviations."""
_TURNS = 8.0
"""Standard deviation of an angle, in radians, beyond which all directions on the circle are alike."""
_GRID = 2000
_MOST_WAVES = 1000
"""Flights are widened so that a series has few more terms: to 1/400 of the chords, where atoms are all but fixed."""
_MOST_WAYS = 40
"""Ways of moving that are told apart; where there are more, numbers are rounded up by a few per cent until they fit."""


@dataclass(frozen=True)
class Motion:
    """How atoms get away from their places, (k,) float64 each: see the module.

    Parameters
    ----------
    mobility : 1/amu, variance of the centre's velocity along an axis over kT
    swing : 1/amu, variance of the velocity about the centre, along either axis across the arm, over kT
    arm : nm, distance from the centre; 0 without constraints
    """

    mobility: Array
    swing: Array
    arm: Array


@dataclass(frozen=True)
class AtomKinds:
    """Atoms that behave alike: (k,) arrays of type index, charge [e], motion, count."""

    type_index: NDArray[np.int64]
    charge: NDArray[np.float64]
    motion: Motion
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


def free_motion(mass: Array) -> Motion:
    """Motion of atoms without constraints; an atom without mass stays."""
    mobility = np.divide(1.0, mass, out=np.zeros_like(mass), where=mass > 0)
    return Motion(mobility, np.zeros_like(mass), np.zeros_like(mass))


def paired_motion(mass: Array, partner: Array, length: Array) -> Motion:
    """Motion of atoms held at a distance [nm] from a partner, (k,) amu each, about the centre of both."""
    total = mass + partner
    return Motion(1.0 / total, partner / (mass * total), length * partner / total)


def rigid_water_motion(mass_o: float, mass_h: float, d_oh: float, d_hh: float) -> Motion:
    """Motion of O, H, H of a rigid water about its centre of mass; lengths in nm, masses in amu.

    The mobility of all coordinates is M^-1 - M^-1 A^T (A M^-1 A^T)^-1 A M^-1 with the constraint gradients A, so
    that <v v^T> = kT times it. Less that of the centre, an atom's block has the swing as its largest eigenvalue.
    """
    height = np.sqrt(d_oh**2 - d_hh**2 / 4)
    r = np.array([[0, 0, 0], [d_hh / 2, height, 0], [-d_hh / 2, height, 0]])
    mass = np.array([mass_o, mass_h, mass_h])
    inverse = np.diag(np.repeat(1.0 / mass, 3))
    gradients = []
    for i, j in ((0, 1), (0, 2), (1, 2)):
        g = np.zeros((3, 3))
        g[i], g[j] = r[i] - r[j], r[j] - r[i]
        gradients.append(g.ravel())
    a = np.array(gradients)
    mobility = inverse - inverse @ a.T @ np.linalg.inv(a @ inverse @ a.T) @ a @ inverse
    blocks = [mobility[3 * k : 3 * k + 3, 3 * k : 3 * k + 3] for k in range(3)]
    centre = 1.0 / mass.sum()
    swing = np.array([np.linalg.eigvalsh(block)[-1] - centre for block in blocks])
    return Motion(np.full(3, centre), swing, np.linalg.norm(r - mass @ r * centre, axis=1))


def chords(swing: float, arm: float, thermal: float) -> tuple[Array, Array]:
    """Lengths (nm) of the chords that an atom swings through, and their probabilities.

    Parameters
    ----------
    swing : 1/amu; arm : nm
    thermal : kT t^2, amu nm^2
    """
    scale = min(np.sqrt(thermal * swing) / arm, _TURNS)
    theta, w = _nodes(0.0, _REACH * scale)
    return 2 * arm * np.abs(np.sin(theta / 2)), w * theta / scale**2 * np.exp(-0.5 * (theta / scale) ** 2)


def displacement_density(motion: Motion, thermal: float) -> tuple[float, Callable[[Array], Array]]:
    """How far (nm) two atoms move relative to each other along an axis, and the density of that (1/nm).

    The characteristic function is exp(-k^2 sigma^2 / 2) times the mean of sin(k s) / (k s) over the chords s of
    each; a cosine series over twice the reach turns it into the density.

    Parameters
    ----------
    motion : Motion, of the two
    thermal : kT t^2, amu nm^2; not 0, nor all mobilities and swings
    """
    swings = [
        chords(float(swing), float(arm), thermal)
        for swing, arm in zip(motion.swing, motion.arm, strict=True)
        if arm > 0
    ]
    longest = sum(float(s.max()) for s, _ in swings)
    sigma = max(float(np.sqrt(thermal * motion.mobility.sum())), _FINEST * longest / (np.pi * _MOST_WAVES))
    reach = _REACH * sigma + longest
    k = np.pi / reach * np.arange(1, int(_FINEST * reach / (np.pi * sigma)) + 1)
    series = np.exp(-0.5 * (k * sigma) ** 2) / reach
    for s, weight in swings:
        series *= np.sinc(np.outer(k, s) / np.pi) @ weight
    x = np.linspace(0.0, reach, _GRID)
    values = 0.5 / reach + np.cos(np.outer(x, k)) @ series
    return reach, lambda distance: np.interp(distance, x, values, right=0.0)


def few_ways(motion: Motion) -> tuple[Array, NDArray[np.int64]]:
    """Distinct rows of mobility, swing and arm (w, 3), none smaller than what it stands for, and which is whose."""
    rows, step = np.column_stack([motion.mobility, motion.swing, motion.arm]), 0.0
    while True:
        rounded = rows
        if step > 0.0:
            power = np.ceil(np.log(np.where(rows > 0, rows, 1.0)) / np.log1p(step) - 1e-9)
            rounded = np.where(rows > 0, (1.0 + step) ** power, 0.0)
        ways, which = np.unique(rounded, axis=0, return_inverse=True)
        if len(ways) <= _MOST_WAYS or step > 100.0:
            return ways, which.ravel()
        step = 2.0 * step + 0.02


def missed_energy(
    r_list: float,
    r_cut: float,
    reach: float,
    density: Callable[[Array], Array],
    pair_energy: Callable[[Array], Array],
) -> Array:
    """The double integral of the module's formula for one pair of kinds, kJ/mol nm^3.

    Parameters
    ----------
    r_list, r_cut, reach : float, nm
    density : function of distances nm -> 1/nm, of the displacement along an axis
    pair_energy : function of distances (p,) nm -> energies (..., p) kJ/mol

    Returns
    -------
    (...) float64
    """
    r, w = _nodes(max(r_list - reach, 0.25 * r_cut), r_cut)
    r0, w0 = _nodes(r_list, r_list + reach)
    energy = pair_energy(r) - pair_energy(np.array([r_cut]))
    missed: Array = (w * r * energy) @ (density(r0[None, :] - r[:, None]) @ (w0 * 4 * np.pi * r0))
    return missed


class Drift:
    """Estimated energy drift per atom, kJ/mol/ps, as a function of the list cut-off in nm.

    A protein has hundreds of kinds that move in few ways: integrals are made for each pair of those, of the basis
    alone.
    """

    def __init__(self, kinds: AtomKinds, conditions: ListConditions, energies: PairEnergies) -> None:
        self._kinds, self.conditions, self._energies = kinds, conditions, energies
        ways, self._which = few_ways(kinds.motion)
        self._n_ways = len(ways)
        time = max(conditions.nstlist - 1, 0) * conditions.dt
        thermal = BOLTZMANN * conditions.temperature * time**2
        self._densities = {
            (a, b): displacement_density(Motion(*ways[[a, b]].T), thermal)
            for a in range(len(ways))
            for b in range(a, len(ways))
            if thermal * (ways[a, :2].sum() + ways[b, :2].sum()) > 0
        }

    def __call__(self, r_list: float) -> float:
        c, which = self.conditions, self._which
        integrals = np.zeros((len(self._energies.coefficients), self._n_ways, self._n_ways))
        for (a, b), (reach, density) in self._densities.items():
            if r_list - c.r_cut < reach:
                integrals[:, a, b] = integrals[:, b, a] = missed_energy(
                    r_list, c.r_cut, reach, density, self._energies.basis
                )
        missed = np.abs((self._energies.coefficients * integrals[:, which[:, None], which[None, :]]).sum(0))
        count = self._kinds.count.astype(np.float64)
        return float(count @ missed @ count) / (2.0 * c.volume * float(count.sum()) * c.nstlist * c.dt)


def list_cutoff(tolerance: float, drift: Drift) -> float:
    """Smallest list cut-off (nm, to 0.1 pm) whose estimated drift is at most `tolerance` kJ/mol/ps per atom.

    Raises
    ------
    InputError
        If no buffer up to the cut-off itself suffices.
    """
    conditions = drift.conditions
    low, high = conditions.r_cut, 2.0 * conditions.r_cut
    if drift(low) <= tolerance:
        return low
    if drift(high) > tolerance:
        raise InputError(
            f"no list buffer up to {conditions.r_cut:g} nm keeps the drift below verlet-buffer-tolerance "
            f"{tolerance:g} kJ/mol/ps per atom with nstlist {conditions.nstlist}; lower nstlist, raise the "
            "tolerance, or set verlet-buffer-tolerance = -1 and rlist"
        )
    while high - low > 1e-4:
        middle = 0.5 * (low + high)
        if drift(middle) > tolerance:
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
