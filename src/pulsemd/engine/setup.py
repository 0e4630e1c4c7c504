"""The list cut-off, decided once before a run."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pulsemd.base.errors import InputError
from pulsemd.base.units import BOLTZMANN
from pulsemd.engine.movers import water_kinds
from pulsemd.engine.system import System
from pulsemd.engine.verlet_buffer import (
    AtomKinds,
    ListConditions,
    PairEnergies,
    list_cutoff,
    rigid_water_masses,
)
from pulsemd.kernels.nonbonded.settings import pair_constants


def choose_list_cutoff(system: System) -> float:
    """List cut-off in nm: from the drift tolerance, or the given ``rlist`` where that is negative.

    Raises
    ------
    InputError
        If ``rlist`` is below the cut-off, or the temperature for the estimate is unknown.
    """
    s = system.settings
    r_cut = max(s.rcoulomb, s.rvdw)
    if s.verlet_buffer_tolerance < 0:
        if s.rlist < r_cut:
            raise InputError(f"rlist {s.rlist:g} nm is below the cut-off {r_cut:g} nm; raise rlist")
        return s.rlist
    if s.nsteps == 0:
        return r_cut
    return _cutoff_for(system, s.nstlist)


def inner_cutoff(system: System, r_list: float, interval: int) -> float | None:
    """Radius in nm that a list pruned every `interval` steps must keep for the same drift tolerance.

    None where pruning gains nothing: a given ``rlist``, or a list that is no older than that anyway.
    """
    s = system.settings
    if s.verlet_buffer_tolerance < 0 or interval >= s.nstlist:
        return None
    radius = _cutoff_for(system, interval)
    return radius if radius < r_list else None


def _cutoff_for(system: System, nstlist: int) -> float:
    """Cut-off of a list used for `nstlist` steps, from the drift tolerance."""
    s = system.settings
    r_cut, temperature = max(s.rcoulomb, s.rvdw), _temperature(system)
    if nstlist == 1 or temperature == 0.0:
        return r_cut
    kinds = _atom_kinds(system)
    conditions = ListConditions(system.volume, temperature, s.dt, nstlist, r_cut)
    return list_cutoff(s.verlet_buffer_tolerance, kinds, conditions, _pair_energies(system, kinds))


def _temperature(system: System) -> float:
    s = system.settings
    if s.tcoupl != "no":
        return s.ref_t
    if s.gen_vel:
        return s.gen_temp
    mass = system.topology.mass
    kinetic = 0.5 * float(mass @ (system.v.astype(np.float64) ** 2).sum(1))
    n_dof = 3 * int(np.count_nonzero(mass)) - system.topology.n_constraints
    return 2.0 * kinetic / (max(n_dof, 1) * BOLTZMANN)


def _atom_kinds(system: System) -> AtomKinds:
    """Atoms of equal type, charge and effective mass, counted."""
    t = system.topology
    mass = t.mass.copy()
    for waters, g in water_kinds(t):
        height, d_hh = g[2] + g[3], 2 * g[4]
        d_oh = float(np.hypot(height, g[4]))
        mass[waters] = rigid_water_masses(g[0], g[1], d_oh, d_hh)
    unique, count = np.unique(np.column_stack([t.type_index, t.charge, mass]), axis=0, return_counts=True)
    return AtomKinds(unique[:, 0].astype(np.int64), unique[:, 1], unique[:, 2], count)


def _pair_energies(system: System, kinds: AtomKinds) -> PairEnergies:
    """Reaction field and pair potential of all pairs of kinds; constant shifts do not matter here."""
    constants = pair_constants(system.settings)
    types = np.ix_(kinds.type_index, kinds.type_index)
    qq = constants.coulomb_factor * np.outer(kinds.charge, kinds.charge)
    if system.pair_potential is not None:
        potential = system.pair_potential.resolve(system.table)
        rows, row_of = potential.distinct()

        def user_basis(r: NDArray[np.float64]) -> NDArray[np.float64]:
            return np.stack([1.0 / r + constants.k_rf * r**2, *(potential.energy(i, j, r) for i, j in rows)])

        chosen = row_of[types] == np.arange(len(rows))[:, None, None]
        return PairEnergies(user_basis, np.concatenate([qq[None], chosen.astype(np.float64)]))

    def basis(r: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.stack([1.0 / r + constants.k_rf * r**2, r**-12, -(r**-6)])

    return PairEnergies(basis, np.stack([qq, system.table.c12[types], system.table.c6[types]]))
