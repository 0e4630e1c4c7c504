"""What a step does to temperature and pressure, degrees of freedom, starting velocities, v-rescale and Berendsen.

Everything here is computed from global sums that are the same on all ranks, so every rank gets the same numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pulsemd.base.units import BOLTZMANN
from pulsemd.forcefield.settings import RunSettings
from pulsemd.kernels.update.philox import STREAM_V_RESCALE, STREAM_VELOCITY, gamma, normals
from pulsemd.topology.records import Topology


@dataclass
class StepFlags:
    """What a step does besides moving atoms."""

    step: int = 0
    energies: bool = False
    thermostat: bool = False
    barostat: bool = False
    box_drags: bool = False
    box_moves: bool = False
    remove_com: bool = False

    @property
    def sums(self) -> bool:
        """Whether it needs energies and virial."""
        return self.energies or self.barostat

    @property
    def couples(self) -> bool:
        """Whether it changes the velocities that it finds."""
        return self.thermostat or self.remove_com

    @property
    def kinetic(self) -> bool:
        """Whether it needs their kinetic energy."""
        return self.sums or self.couples

    def kinetic_after(self, full_steps: bool) -> bool:
        """Whether it needs the kinetic energy after the move too: for a mean, or of what a barostat scales."""
        return self.barostat if full_steps else self.sums

    @property
    def new_box(self) -> bool:
        """Whether it may end in another box."""
        return self.barostat or self.box_moves


def step_flags(settings: RunSettings, step: int, energies: bool) -> StepFlags:
    """What the settings ask of a step."""
    s, (thermostat, com) = settings, kinetic_intervals(settings)
    moves = s.pcoupl == "parrinello-rahman" and scales_box(s, step)
    return StepFlags(
        step=step,
        energies=energies,
        thermostat=thermostat > 0 and step % thermostat == 0,
        barostat=s.pcoupl != "no" and step % s.nstpcouple == 0,
        box_drags=moves,
        box_moves=moves,
        remove_com=com > 0 and step % com == 0,
    )


def trial_flags(settings: RunSettings, step: int, coupled: bool) -> StepFlags:
    """The same of a step that is made for its energies and then taken back: these are found before the box changes.
    Not `coupled`: with the velocities that it finds."""
    if not coupled:
        return StepFlags(step, energies=True)
    return replace(step_flags(settings, step, energies=True), barostat=False, box_moves=False)


def scales_box(settings: RunSettings, step: int) -> bool:
    """Whether a step ends in another box; that of Parrinello and Rahman moves in the step after its pressure."""
    later = 1 if settings.pcoupl == "parrinello-rahman" else 0
    return settings.pcoupl != "no" and (step - later) % settings.nstpcouple == 0


def kinetic_intervals(settings: RunSettings) -> tuple[int, int]:
    """Steps between two actions of the thermostat, and two removals of the centre of mass' motion; 0: none."""
    s = settings
    return s.nsttcouple if s.tcoupl != "no" else 0, s.nstcomm if s.comm_mode == "linear" else 0


def coupling_phase(settings: RunSettings, step: int) -> tuple[int, ...]:
    """Equal for two steps if from both on the same later steps do either or both of these, or scale the box.

    A box that moves drags velocities otherwise in steps of the thermostat, so that there it matters which of them acts.
    """
    intervals = sorted({n for n in kinetic_intervals(settings) if n > 0})
    needed = [n for k, n in enumerate(intervals) if all(n % shorter for shorter in intervals[:k])]
    if settings.pcoupl == "parrinello-rahman":
        needed = intervals
    needed += [settings.nstpcouple] if settings.pcoupl != "no" else []
    return tuple(step % n for n in needed)


_ATOMS_AT_ONCE = 2**14
"""Atoms whose velocities are drawn together: intermediate results stay in the caches."""


def degrees_of_freedom(topology: Topology, settings: RunSettings) -> int:
    """3 per atom with mass, less constraints, less 3 where the centre of mass is held."""
    held = 3 if settings.comm_mode == "linear" else 0
    return 3 * int(np.count_nonzero(topology.mass > 0)) - topology.n_constraints - held


def degrees_by_group(
    topology: Topology,
    settings: RunSettings,
    group: NDArray[np.int32],
    n_groups: int,
    held: NDArray[np.int32] | None,
) -> NDArray[np.float64]:
    """Degrees of freedom (n_groups,) as gmx counts them.

    Half of a constraint goes to each of its two atoms, a third of those of a rigid water to each of its three. What a
    centre of mass takes, it takes of each coupling group in proportion to the atoms that it has there. Frozen atoms are
    left out of all of this; gmx counts them there.

    Parameters
    ----------
    group : (n_atoms,) int32
        Coupling group of each atom.
    held : (n_atoms,) int32 or None
        Group whose centre of mass is stopped, -1: in none; None: the settings say whether that of all is.
    """
    if held is None:
        held = np.full(topology.n_atoms, 0 if settings.comm_mode == "linear" else -1, np.int32)
    n_held = int(held.max(initial=-1)) + 1
    portion = (held + 1) * n_groups + group
    moves = topology.mass > 0
    moves[topology.virtual_sites.sites] = True
    atoms = np.bincount(portion[moves], minlength=(n_held + 1) * n_groups).reshape(-1, n_groups)
    free = _unshared_degrees(topology, portion, atoms.size).reshape(atoms.shape)
    of_held = free.sum(1)
    left = np.maximum(of_held - 3.0, 0.0)
    left[0] = of_held[0]  # of those in none
    left = np.divide(left, of_held, out=np.zeros(n_held + 1), where=of_held > 0)
    shares = atoms / np.maximum(atoms.sum(0), 1)
    whole: NDArray[np.float64] = free.sum(0) * (shares * left[:, None]).sum(0)
    return whole


def _unshared_degrees(topology: Topology, group: NDArray[np.int32], n_groups: int) -> NDArray[np.float64]:
    """Degrees of freedom (n_groups,) of the groups (n_atoms,) of atoms, with no centre of mass stopped."""
    found: NDArray[np.float64] = np.bincount(group[topology.mass > 0], minlength=n_groups).astype(np.float64)
    found *= 3.0
    found -= np.bincount(group[topology.settle_atoms.ravel()], minlength=n_groups)
    constraints = topology.terms.get("constraint")
    if constraints is not None:
        found -= 0.5 * np.bincount(group[constraints.atoms.ravel()], minlength=n_groups)
    return found


def maxwell_velocities(mass: NDArray[np.float64], temperature: float, seed: int) -> NDArray[np.float32]:
    """Velocities of the Maxwell distribution without centre-of-mass motion.

    Parameters
    ----------
    mass : (n,) float64, amu; 0 gives velocity 0
    temperature : float, K
    seed : int
        Each atom's numbers depend on the seed and its global id only.

    Returns
    -------
    (n, 3) float32, nm/ps
        Scaled so that the kinetic energy is 3/2 kT per atom with mass; constraints then take their share.
    """
    mobile = mass > 0
    sigma = np.sqrt(BOLTZMANN * temperature / np.where(mobile, mass, 1.0)) * mobile
    v = np.empty((len(mass), 3))
    for first in range(0, len(mass), _ATOMS_AT_ONCE):
        rows = np.arange(first, min(first + _ATOMS_AT_ONCE, len(mass)))
        v[rows] = normals(seed, STREAM_VELOCITY, 0, rows)[:, :3] * sigma[rows, None]
    if not mobile.any():
        return v.astype(np.float32)
    v[mobile] -= (mass @ v) / mass.sum()
    kinetic = 0.5 * float(mass @ (v * v).sum(1))
    if kinetic > 0:
        v *= math.sqrt(1.5 * BOLTZMANN * temperature * np.count_nonzero(mobile) / kinetic)
    return v.astype(np.float32)


def berendsen_factor(kinetic: float, target: float, tau: float, interval: float) -> float:
    """Factor on all velocities by weak coupling to a heat bath; arguments as for `v_rescale_factor`.

    References
    ----------
    H. J. C. Berendsen et al., J. Chem. Phys. 81, 3684 (1984); the factor is kept from 0.8 to 1.25, as in gmx.
    """
    if kinetic <= 0.0:
        return 1.0
    return min(max(math.sqrt(max(1.0 + interval / tau * (target / kinetic - 1.0), 0.0)), 0.8), 1.25)


def v_rescale_factor(
    kinetic: float,
    target: float,
    n_dof: float,
    tau: float,
    interval: float,
    seed: int,
    step: int,
    group: int = 0,
) -> float:
    """Factor on the velocities of a coupling group that carries its kinetic energy through one coupling interval.

    Parameters
    ----------
    kinetic, target : float, kJ/mol; current, and n_dof kT / 2
    n_dof : float
    tau, interval : float, ps; tau = 0 sets the canonical distribution at once
    seed, step, group : int
        The random numbers depend on nothing else.

    References
    ----------
    G. Bussi, D. Donadio, M. Parrinello, J. Chem. Phys. 126, 014101 (2007), equation (A7).
    """
    if kinetic <= 0.0:
        return 1.0
    keep = math.exp(-interval / tau) if tau > 0 else 0.0
    first = float(normals(seed, STREAM_V_RESCALE, step, np.array([group << 32]))[0, 0])
    rest = 2.0 * gamma((n_dof - 1) / 2.0, seed, STREAM_V_RESCALE, step, group) if n_dof > 1 else 0.0
    new = (
        kinetic
        + (1.0 - keep) * (target * (rest + first * first) / n_dof - kinetic)
        + 2.0 * first * math.sqrt(keep * (1.0 - keep) * kinetic * target / n_dof)
    )
    return math.sqrt(max(new, 0.0) / kinetic)
