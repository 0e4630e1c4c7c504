"""What is said when a simulation blows up: the first bad atom, and the forces on it by kind."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsemd.base.box import widths_of
from pulsemd.domain.lattice import LATTICE
from pulsemd.engine.energies import N_SUMS, SLOTS, VIRIAL
from pulsemd.engine.system import System
from pulsemd.kernels.bonded.launch import BondedForces
from pulsemd.kernels.nonbonded.settings import pair_constants
from pulsemd.kernels.nonbonded.spec import FORCE_LIMIT
from pulsemd.topology.terms import WITHOUT_ENERGY, Terms

log = logging.getLogger(__name__)

Int32 = NDArray[np.int32]
Float64 = NDArray[np.float64]

CANNOT_MOVE = (
    "would move more than a quarter of the box, breaks its constraints, or has no finite force or velocity"
)
"""What an atom does whose update fails."""

OVERLAPS = "feels a pair force that is out of range: atoms overlap"
BONDED_OUT_OF_RANGE = "feels a bonded force that is not a number or out of range"

FIXED_POINT_RANGE = 2.0**29
"""Forces beyond a quarter of the range of reproducible mode, kJ/mol/nm, may have wrapped around."""

N_PARTNERS = 3
"""Neighbours named for each kind of pair force."""


@dataclass(frozen=True, eq=False)
class Failure:
    """The first thing that went wrong on a rank.

    Parameters
    ----------
    step : int
    gid : int
        The atom.
    reason : str
        What it does, as the end of a sentence.
    speed : float, nm/ps, at the end of the step; not a number where it is not known
    force : (3,) float64, kJ/mol/nm, or None
        Sum of the forces on it.
    gids, x : (m,) int32 and (m, 3) int32
        The rows of the rank and where they were then.
    """

    step: int
    gid: int
    reason: str
    speed: float
    force: Float64 | None
    gids: Int32
    x: Int32

    @property
    def stuck(self) -> bool:
        """Whether only the move failed, so that energies are what they are; a GPU does not tell."""
        known = self.force is not None and bool(np.abs(self.force).max() < FIXED_POINT_RANGE)
        return self.reason == CANNOT_MOVE and known

    @property
    def urgency(self) -> tuple[int, float]:
        """Sort key: what happened first, and at one step the fastest atom."""
        return self.step, -float(np.nan_to_num(self.speed, nan=np.inf))


def describe_failure(system: System, failure: Failure, searched: Int32) -> tuple[str, list[str]]:
    """The error's message, and lines about the forces on the atom.

    Parameters
    ----------
    searched : (n, 3) int32, lattice units
        Positions of all atoms at the last search; what the failing rank held then replaces them.
    """
    x = searched.copy()
    x[failure.gids] = failure.x
    atom = system.topology.describe_atom(failure.gid)
    message = (
        f"step {failure.step}: {atom} {failure.reason}; look at the atoms named below, minimise the start, "
        "or lower dt"
    )
    lines = []
    if np.isfinite(failure.speed):
        lines.append(f"velocity of it: {failure.speed:.4g} nm/ps")
    if failure.force is not None:
        beyond = np.abs(failure.force).max() >= FIXED_POINT_RANGE
        size = "beyond the range of fixed-point numbers" if beyond else f"{_vector(failure.force)} kJ/mol/nm"
        lines.append(f"force on it: {size}")
    terms = sorted(force_terms(system, failure.gid, x), key=lambda term: -term[0])
    lines += [f"{text}: {size:.4g} kJ/mol/nm" for size, text in terms[:6] if size > 0]
    return message, lines


def force_terms(system: System, gid: int, x: Int32) -> Iterator[tuple[float, str]]:
    """(size in kJ/mol/nm, what) of the forces on one atom: the closest pairs, and each kind of listed term."""
    with np.errstate(all="ignore"):
        yield from _pair_terms(system, gid, x)
    for kind in system.topology.terms:
        if kind not in WITHOUT_ENERGY:
            yield from _listed_terms(system, kind, gid, x)


def _pair_terms(system: System, gid: int, x: Int32) -> Iterator[tuple[float, str]]:
    """The strongest Lennard-Jones and Coulomb forces of single pairs."""
    topology, constants = system.topology, pair_constants(system.settings)
    d = (x - x[gid]).astype(np.float64) / LATTICE @ system.box
    r = np.sqrt((d * d).sum(1))
    near = r < constants.cutoff
    first, last = topology.exclusion_offset[gid : gid + 2]
    near[topology.exclusion_atoms[first:last]] = near[gid] = False
    j = np.flatnonzero(near)
    r, i_type, j_type = r[j], topology.type_index[gid], topology.type_index[j]
    lj = r * constants.lennard_jones(r, system.table.c6[i_type, j_type], system.table.c12[i_type, j_type])[1]
    qq = constants.coulomb_factor * topology.charge[gid] * topology.charge[j]
    for name, force in (("lj", lj), ("coulomb", constants.coulomb(r * r, qq)[1] * r)):
        size = np.nan_to_num(np.abs(force), nan=np.inf)
        for k in np.argsort(-size)[:N_PARTNERS]:
            yield float(size[k]), f"{name} with {topology.describe_atom(int(j[k]))} at {r[k]:.4g} nm"


def _listed_terms(system: System, kind: str, gid: int, x: Int32) -> Iterator[tuple[float, str]]:
    """The force of all terms of one kind on the atom."""
    topology, terms = system.topology, system.topology.terms[kind]
    mine = np.flatnonzero((terms.atoms == gid).any(1))
    if len(mine) == 0:
        return
    some = Terms(terms.atoms[mine], terms.index[mine], terms.parameters)
    factor = pair_constants(system.settings).coulomb_factor
    bonded = BondedForces({kind: some}, topology.charge, factor, SLOTS, VIRIAL, 0.0, system.reference)
    rows = np.unique(some.atoms)
    bonded.bind(kind, np.arange(len(mine)), np.searchsorted(rows, some.atoms).astype(np.int32))
    force = np.zeros((len(rows), 3), np.float32)
    bonded.add(x[rows], system.box, force, np.zeros(N_SUMS))
    size = float(np.linalg.norm(force[np.searchsorted(rows, gid)].astype(np.float64)))
    others = ", ".join(topology.describe_atom(int(row)) for row in rows[rows != gid][:4])
    yield size, f"{kind}, {len(mine)} term(s)" + (f" with {others}" if others else "")


def _vector(force: Float64) -> str:
    return "(" + ", ".join(f"{value:.4g}" for value in force) + ")"


def find_overlap(system: System, gid: Int32, forces: NDArray[Any]) -> bool:
    """Whether a force in a single point is beyond that of any start of a run; warns, and names the atom.

    Parameters
    ----------
    gid, forces : (n,) int32, (n, 3) float, kJ/mol/nm
    """
    if len(gid) == 0:
        return False
    row = longest(forces)
    force = float(np.abs(forces[row].astype(np.float64)).max())
    if not force > FORCE_LIMIT["fast"]:
        return False
    atom = system.topology.describe_atom(int(gid[row]))
    log.warning("%s feels a force of %.3g kJ/mol/nm: atoms overlap, a run cannot start so", atom, force)
    return True


def longest(vectors: NDArray[Any]) -> int:
    """Row of the longest of vectors (n, 3), forces or velocities; one that is not finite counts as longest."""
    squares = (vectors.astype(np.float64) ** 2).sum(1)
    return int(np.argmax(np.nan_to_num(squares, nan=np.inf)))


def speeds(v: NDArray[np.float32]) -> NDArray[np.float64]:
    """Lengths (n,) of velocities (n, 3), nm/ps."""
    found: NDArray[np.float64] = np.sqrt((v.astype(np.float64) ** 2).sum(1))
    return found


def fastest(v: NDArray[np.float32], bad: int, box: NDArray[np.float64], dt: float) -> int:
    """Row with the largest of velocities (n, 3), nm/ps, if that is out of bounds for steps of `dt` ps, else `bad`.

    One wild atom makes others move too far in the same step, by the removal of the centre of mass' motion.
    """
    row = longest(v)
    within_bounds = speeds(v[row : row + 1])[0] <= 0.25 * float(widths_of(box).min()) / dt
    return bad if within_bounds else row


def places_before(
    x: NDArray[np.int32], v: NDArray[np.float32], box: NDArray[np.float64], dt: float
) -> NDArray[np.int32]:
    """Positions (n_local, 3) before the last move, to a few lattice units; rows that could not move stay.

    `v` (n_owned, 3) are the velocities of that move, of the first rows.
    """
    x, n = x.copy(), len(v)
    with np.errstate(all="ignore"):
        step = v.astype(np.float64) * dt @ np.linalg.inv(box)
        moved = (np.abs(step) < 0.25).all(1)
    back = np.rint(step[moved] * 2.0**32).astype(np.int64)
    x[:n][moved] = (x[:n][moved] - back).astype(np.uint32).view(np.int32)
    return x
