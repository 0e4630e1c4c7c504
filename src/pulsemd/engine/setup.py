"""The list cut-off, decided once before a run, and how wide the halos on GPUs are for it."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from pulsemd.base.box import widths_of
from pulsemd.base.distinct import distinct_rows
from pulsemd.base.errors import DomainError, InputError
from pulsemd.base.units import BOLTZMANN
from pulsemd.domain.grid import choose_grid
from pulsemd.domain.lattice import LATTICE
from pulsemd.engine.barostat import SHRINKAGE
from pulsemd.engine.movers import water_kinds
from pulsemd.engine.options import RunOptions
from pulsemd.engine.system import System, group_reach
from pulsemd.engine.terms import TermOwnership
from pulsemd.engine.verlet_buffer import (
    AtomKinds,
    Drift,
    ListConditions,
    Motion,
    PairEnergies,
    free_motion,
    list_cutoff,
    paired_motion,
    rigid_water_motion,
)
from pulsemd.forcefield.settings import RunSettings
from pulsemd.kernels.nonbonded.settings import pair_constants
from pulsemd.kernels.nonbonded.shapes import principal_shapes

GPU_NSTLIST = ((60_000, 100), (2**62, 80))
"""Steps between two searches that measured fastest on one GPU and on two, up to a number of atoms of the system."""


REACH_MARGIN = 1.02
"""How much farther than now atoms may be from their leaders, and leaders of a term from each other, until a search on
GPUs goes through the host again."""

BOX_MARGIN = 1.01
"""How much smaller a barostat may make the box until then."""

FIXED_BUFFER = 1.1
"""List cut-off over the cut-off where no temperature tells how far atoms move.

A minimisation searches when an atom has moved half of what is between; a run that begins at rest without a thermostat
has what gmx gives it (`verlet_buffer_ratio_NVE_T0`).
"""


def choose_nstlist(system: System, options: RunOptions) -> int:
    """Steps between two searches: those of the settings, or more where that is faster and may be.

    In reproducible mode the pairs of a list are part of the trajectory, so the settings stay as they are; so they do
    with a given ``rlist``. A continued run goes on with what it began with.
    """
    s, earlier = system.settings, system.continuation
    if earlier is not None:
        return earlier.nstlist
    fixed = (
        s.minimises or s.verlet_buffer_tolerance < 0 or options.precision == "reproducible" or s.nsteps == 0
    ) or _temperature(system) == 0.0
    if options.device != "cuda" or not options.raise_nstlist or fixed:
        return s.nstlist
    wanted = next(n for most, n in GPU_NSTLIST if system.topology.n_atoms <= most)
    half, several = 0.5 * float(widths_of(system.box).min()), options.ranks > 1
    extent = TermOwnership(system).start_extent(system) if several else 0.0
    for nstlist in range(wanted - wanted % s.nstlist, s.nstlist, -s.nstlist):
        try:
            cutoff = choose_list_cutoff(system, nstlist)
            if cutoff <= half:
                halo = device_halo(s, cutoff, group_reach(system), extent)
                choose_grid(options.ranks, system.box, halo, options.grid)
                return nstlist
        except (InputError, DomainError):  # no list is large enough for so long, or halos do not fit
            continue
    return s.nstlist


def choose_list_cutoff(system: System, nstlist: int) -> float:
    """List cut-off in nm: from the drift tolerance, or the given ``rlist`` where that is negative.

    Parameters
    ----------
    system : System
    nstlist : int, steps between two searches

    Raises
    ------
    InputError
        If ``rlist`` is below the cut-off, or the temperature for the estimate is unknown.
    """
    s = system.settings
    r_cut = max(s.rcoulomb, s.rvdw)
    if s.minimises:
        return _fixed_cutoff(system)
    if s.verlet_buffer_tolerance < 0:
        if s.rlist < r_cut:
            raise InputError(f"rlist {s.rlist:g} nm is below the cut-off {r_cut:g} nm; raise rlist")
        return s.rlist
    if s.nsteps == 0:
        return r_cut
    return _cutoff_for(system, nstlist)


def explain_list_cutoff(system: System, nstlist: int) -> str:
    """Why `choose_list_cutoff` takes what it takes, in words."""
    s = system.settings
    r_cut = max(s.rcoulomb, s.rvdw)
    if s.minimises:
        return (
            f"{FIXED_BUFFER:g} times the cut-off {r_cut:g} nm, or what the box has room for: a minimisation"
        )
    if s.verlet_buffer_tolerance < 0:
        return "rlist of the settings, as verlet-buffer-tolerance is negative"
    if s.nsteps == 0 or nstlist == 1:
        return f"the cut-off {r_cut:g} nm: no list is used for a second step"
    if _temperature(system) == 0.0:
        return (
            f"{FIXED_BUFFER:g} times the cut-off {r_cut:g} nm, or what the box has room for: no temperature"
        )
    shrinks = "" if s.pcoupl == "no" else f", and {SHRINKAGE:.1%} for a box that shrinks"
    return (
        f"the cut-off {r_cut:g} nm and a buffer for {nstlist} steps of {s.dt:g} ps at {_temperature(system):.4g} K, "
        f"verlet-buffer-tolerance {s.verlet_buffer_tolerance:g} kJ/mol/ps per atom{shrinks}"
    )


def start_halo(system: System, r_list: float, extent: float, on_gpus: bool) -> float:
    """Width in nm of the halos at the start, for which the grid of ranks is chosen.

    Parameters
    ----------
    system : System
    r_list : float, nm
    extent : float, nm
        Largest distance between two leaders of one term.
    on_gpus : bool
        Whether the ranks are on GPUs.
    """
    reach = group_reach(system)
    if on_gpus:
        return device_halo(system.settings, r_list, reach, extent)
    return max(r_list + 2.0 * reach, extent)


def device_halo(s: RunSettings, r_list: float, reach: float, extent: float) -> float:
    """Width in nm of the halos that the host plans for ranks on GPUs, on which searches then run for a while.

    Parameters
    ----------
    s : RunSettings
    r_list : float, nm
    reach : float, nm
        Largest distance of an atom from the leader of its update group.
    extent : float, nm
        Largest distance between two leaders of one term.
    """
    return box_margin(s) * max(REACH_MARGIN * extent, r_list + 2.0 * REACH_MARGIN * reach)


def box_margin(s: RunSettings) -> float:
    """`BOX_MARGIN` where there is a barostat, else 1."""
    return 1.0 if s.pcoupl == "no" else BOX_MARGIN


def inner_cutoff(system: System, r_list: float, interval: int, nstlist: int) -> float | None:
    """Radius in nm that a list pruned every `interval` steps must keep for the same drift tolerance.

    None where pruning gains nothing: a given ``rlist``, or a list that is no older than that anyway.
    """
    s = system.settings
    if s.minimises or s.verlet_buffer_tolerance < 0 or interval >= nstlist:
        return None
    radius = _cutoff_for(system, interval)
    return radius if radius < r_list else None


def list_drift(system: System, nstlist: int) -> Drift:
    """Estimated drift of a list used for `nstlist` steps."""
    s = system.settings
    kinds = _atom_kinds(system)
    conditions = ListConditions(system.volume, _temperature(system), s.dt, nstlist, max(s.rcoulomb, s.rvdw))
    return Drift(kinds, conditions, _pair_energies(system, kinds))


def _cutoff_for(system: System, nstlist: int) -> float:
    """Cut-off of a list used for `nstlist` steps, from the drift tolerance; with a barostat for a box that shrinks."""
    s = system.settings
    if nstlist == 1:
        return max(s.rcoulomb, s.rvdw)
    if _temperature(system) == 0.0:
        return _fixed_cutoff(system)
    margin = 1.0 if s.pcoupl == "no" else 1.0 + SHRINKAGE
    return margin * list_cutoff(s.verlet_buffer_tolerance, list_drift(system, nstlist))


def _fixed_cutoff(system: System) -> float:
    """`FIXED_BUFFER` times the cut-off, or what the box has room for."""
    r_cut = max(system.settings.rcoulomb, system.settings.rvdw)
    return min(FIXED_BUFFER * r_cut, max(r_cut, 0.5 * float(widths_of(system.box).min())))


def _temperature(system: System) -> float:
    s = system.settings
    if s.has_temperature:
        return s.highest_temperature
    if s.gen_vel:
        return s.gen_temp
    mass = system.topology.mass
    kinetic = 0.5 * float(mass @ (system.v.astype(np.float64) ** 2).sum(1))
    n_dof = 3 * int(np.count_nonzero(mass)) - system.topology.n_constraints
    return 2.0 * kinetic / (max(n_dof, 1) * BOLTZMANN)


def _atom_kinds(system: System) -> AtomKinds:
    """Atoms of equal type, charge and motion, counted."""
    t = system.topology
    columns = [t.type_index, t.charge, *_motion(system)]
    unique, kind = distinct_rows(columns)
    count = np.bincount(kind, minlength=len(unique))
    motion = Motion(unique[:, 2], unique[:, 3], unique[:, 4])
    return AtomKinds(unique[:, 0].astype(np.int64), unique[:, 1], motion, count)


def _motion(system: System) -> NDArray[np.float64]:
    """(3, n): mobility, swing and arm of every atom, about its heaviest partner or in its rigid water."""
    topology, mass = system.topology, system.topology.mass
    rows = _rows(free_motion(mass))
    terms = topology.terms.get("constraint")
    if terms is not None:
        length = terms.parameters[terms.index, 0]
        pairs = np.concatenate([terms.atoms, terms.atoms[:, ::-1]])
        order = np.argsort(mass[pairs[:, 1]], kind="stable")  # of several rows of an atom the last one stays
        atom, partner = pairs[order].T
        rows[:, atom] = _rows(paired_motion(mass[atom], mass[partner], np.tile(length, 2)[order]))
    for waters, g in water_kinds(topology):
        height, d_hh = g[2] + g[3], 2 * g[4]
        water = rigid_water_motion(g[0], g[1], float(np.hypot(height, g[4])), d_hh)
        rows[:, waters] = _rows(water)[:, None, :]
    if len(topology.virtual_sites):
        _add_sites(system, rows)
    return rows


def _add_sites(system: System, rows: NDArray[np.float64]) -> None:
    """Motion of virtual sites: they fly with their first parent, and swing about it as fast as another parent does.

    The other parents' speed relative to the first over their distance from it is the rate at which the site turns.
    The largest distances of all molecules of a kind are taken, so that their sites are alike.
    """
    topology, speed2 = system.topology, rows[0] + rows[1]
    for block in topology.blocks:
        kind = topology.molecule_types[block.molecule_type]
        first = block.first_atom + kind.n_atoms * np.arange(block.n_molecules)
        sites = kind.virtual_sites
        for begin, end in pairwise(sites.offset.tolist()):
            site, parent, *others = sites.atoms[begin:end].tolist()
            speed2[first + site] = rows[0, first + site] = speed2[first + parent]
            if others:
                away = system.x[first[:, None] + [site, *others]] - system.x[first + parent][:, None]
                vectors = away.astype(np.float64) / LATTICE @ system.box
                distance2 = (vectors * vectors).sum(2)
                rate2 = (speed2[first[0] + parent] + speed2[first[0] + np.array(others)]) / distance2[:, 1:]
                rows[1, first + site] = (distance2[:, :1] * rate2).max()
                rows[2, first + site] = np.sqrt(distance2[:, 0].max())
                speed2[first + site] += rows[1, first + site]


def _rows(motion: Motion) -> NDArray[np.float64]:
    return np.stack([motion.mobility, motion.swing, motion.arm])


def _pair_energies(system: System, kinds: AtomKinds) -> PairEnergies:
    """Coulomb and pair potential of all pairs of kinds; constant shifts do not matter here."""
    constants = pair_constants(system.settings)
    types = np.ix_(kinds.type_index, kinds.type_index)
    qq = constants.coulomb_factor * np.outer(kinds.charge, kinds.charge)
    if system.pair_potential is not None:
        potential = system.pair_potential.resolve(system.table)
        of_types, shapes = principal_shapes(potential, constants.cutoff)

        def user_basis(r: NDArray[np.float64]) -> NDArray[np.float64]:
            return np.concatenate([constants.coulomb_shape(r)[None], shapes(r)])

        return PairEnergies(user_basis, np.concatenate([qq[None], of_types[:, types[0], types[1]]]))

    def basis(r: NDArray[np.float64]) -> NDArray[np.float64]:
        unit = [constants.lennard_jones(r, *coefficients)[0] for coefficients in ((0.0, 1.0), (1.0, 0.0))]
        return np.stack([constants.coulomb_shape(r), *unit])

    return PairEnergies(basis, np.stack([qq, system.table.c12[types], system.table.c6[types]]))
