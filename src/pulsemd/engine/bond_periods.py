"""Warns of a time step that is too long for the fastest bond of a system."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pulsemd.forcefield.settings import RunSettings
from pulsemd.topology.records import MoleculeType, Topology

log = logging.getLogger(__name__)

Float64 = NDArray[np.float64]

FEW, TOO_FEW = 10, 5
"""Steps of an oscillation below which it is inaccurate, and below which it is wrong: where `gmx grompp` has a note and
a warning. Verlet's method diverges below pi steps (Hockney & Eastwood 1988), for bonds that share an atom earlier."""

CURVATURE: Final[dict[str, Callable[[Float64], Float64]]] = {
    "bond": lambda p: p[:, 1],
    "harmonic_distance": lambda p: p[:, 1],
    "quartic_bond": lambda p: 2.0 * p[:, 1] * p[:, 0] ** 2,
    "cubic_bond": lambda p: 2.0 * p[:, 1],
    "morse_bond": lambda p: 2.0 * p[:, 1] * p[:, 2] ** 2,
}
"""Second derivative of a bond's energy at its length, kJ/mol/nm^2, from rows of parameters as in `TERM_KINDS`."""


class FastestBond(NamedTuple):
    """Period [ps] of a bond of two atoms by themselves, and their global ids."""

    period: float
    first: int
    second: int


def fastest_bond(topology: Topology) -> FastestBond | None:
    """The bond of shortest period, 2 pi sqrt(m1 m2 / ((m1 + m2) k)), where no constraint is; None without bonds."""
    found: dict[int, FastestBond | None] = {}
    for block in topology.blocks:
        if block.molecule_type not in found:
            own = _fastest_of(topology.molecule_types[block.molecule_type])
            found[block.molecule_type] = own and FastestBond(
                own.period, own.first + block.first_atom, own.second + block.first_atom
            )
    return min((bond for bond in found.values() if bond is not None), default=None)


def _fastest_of(kind: MoleculeType) -> FastestBond | None:
    """The same of one molecule; atoms count from 0 there."""
    rigid, best = _rigid_pairs(kind), None
    for name, curvature in CURVATURE.items():
        terms = kind.terms.get(name)
        if terms is None or len(terms) == 0:
            continue
        first, second = np.sort(terms.atoms, axis=1).T.astype(np.int64)
        k, (m1, m2) = curvature(terms.parameters[terms.index]), kind.mass[terms.atoms.T]
        moves = (k > 0) & (m1 > 0) & (m2 > 0) & ~np.isin(first * kind.n_atoms + second, rigid)
        if moves.any():
            period2 = np.full(len(terms), np.inf)
            period2[moves] = (m1 * m2 / (m1 + m2))[moves] / k[moves]
            row = int(period2.argmin())
            bond = FastestBond(2.0 * math.pi * math.sqrt(period2[row]), int(first[row]), int(second[row]))
            best = bond if best is None else min(best, bond)
    return best


def _rigid_pairs(kind: MoleculeType) -> NDArray[np.int64]:
    """Pairs of atoms at a fixed distance, each as one number."""
    pairs = [kind.settle_atoms[:, columns] for columns in ([0, 1], [0, 2], [1, 2])]
    if (constraints := kind.terms.get("constraint")) is not None:
        pairs.append(constraints.atoms)
    low, high = np.sort(np.concatenate(pairs), axis=1).T.astype(np.int64)
    numbers: NDArray[np.int64] = low * kind.n_atoms + high
    return numbers


def warn_of_long_step(settings: RunSettings, topology: Topology) -> None:
    """Warn where the fastest bond has fewer than `FEW` steps to an oscillation."""
    if settings.minimises or settings.nsteps == 0:
        return
    bond = fastest_bond(topology)
    if bond is None or bond.period >= FEW * settings.dt:
        return
    steps = bond.period / settings.dt
    wrong = steps < TOO_FEW
    what = "its energy is wrong, and below 4 a run may blow up" if wrong else f"accuracy needs {FEW} or more"
    log.warning(
        "dt = %g ps: the bond of %s and %s oscillates in %.2g ps, which is %.1f steps; %s: let constraints hold such "
        "bonds (constraints = h-bonds or all-bonds, or rigid water), or take a dt of at most %g",
        settings.dt,
        topology.describe_atom(bond.first),
        topology.describe_atom(bond.second),
        bond.period,
        steps,
        what,
        math.floor(1e5 * bond.period / FEW) / 1e5,
    )
