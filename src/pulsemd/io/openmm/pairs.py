"""The pair potential of all forces together: types of particles, their table, the cut-off, excluded pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsemd.base.errors import TopologyError
from pulsemd.forcefield.dispersion import DispersionCorrection
from pulsemd.forcefield.nonbonded import LennardJonesTable
from pulsemd.io.openmm.dispersion import dispersion_correction
from pulsemd.io.openmm.draft import PairPart, SystemDraft
from pulsemd.io.openmm.nonbonded import coulomb_options, lorentz_berthelot
from pulsemd.kernels.nonbonded.potential import PairPotential

Int32 = NDArray[np.int32]
Float64 = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PairTable:
    """What all pairs need.

    Parameters
    ----------
    type_index : (n,) int32
    table : LennardJonesTable
    potential : PairPotential or None
    excluded : (k, 2) int32
    options : dict
        Options of a run by .mdp name.
    dispersion : DispersionCorrection or None
    """

    type_index: Int32
    table: LennardJonesTable
    potential: PairPotential | None
    excluded: Int32
    options: dict[str, Any]
    dispersion: DispersionCorrection | None


def build_pairs(draft: SystemDraft, box: Float64) -> PairTable:
    """Put the parts of all forces together.

    Parameters
    ----------
    draft : SystemDraft
    box : (3, 3) float64, nm

    Raises
    ------
    TopologyError
        If forces disagree in cut-off, switching distance or excluded pairs.
    """
    if not draft.pair_parts:
        raise TopologyError(
            "the System has no NonbondedForce or CustomNonbondedForce: there are no pairs", draft.file
        )
    cutoff = _common_cutoff(draft)
    excluded = _common_exclusions(draft)
    alike = np.zeros((draft.n_atoms, 1))  # all are of one type where forces have no parameters
    columns = np.concatenate([*(part.columns for part in draft.pair_parts), alike], axis=1)
    types, type_index = np.unique(columns, axis=0, return_inverse=True)
    kinds: Int32 = type_index.ravel().astype(np.int32)
    splits = np.cumsum([part.columns.shape[1] for part in draft.pair_parts])
    shares = np.split(types, splits, axis=1)[:-1]
    table, acting = _table(draft, shares)
    potential = _potential(draft, shares, table, acting)
    options = {
        "rcoulomb": cutoff,
        "rvdw": cutoff,
        "vdw_modifier": "none",
        **_coulomb_options(draft, box),
        **(_switch_options(acting, cutoff) if potential is None else {}),
    }
    counts = np.bincount(kinds, minlength=len(types))
    return PairTable(
        kinds, table, potential, excluded, options, dispersion_correction(draft, shares, counts, table)
    )


def _coulomb_options(draft: SystemDraft, box: Float64) -> dict[str, Any]:
    """Options of the electrostatics; without charges there is nothing to choose."""
    if draft.electrostatics is None:
        return {"coulombtype": "cut-off", "coulomb_modifier": "none"}
    return coulomb_options(draft.electrostatics, box)


def _common_cutoff(draft: SystemDraft) -> float:
    first, cutoff = draft.cutoffs[0]
    for force, other in draft.cutoffs[1:]:
        if other != cutoff:
            raise force.error(
                f"its cut-off is {other:g} nm, that of {first.name} {cutoff:g} nm", "give both the same"
            )
    return cutoff


def _common_exclusions(draft: SystemDraft) -> Int32:
    """Excluded pairs (k, 2), which must be those of every force."""
    first, pairs = draft.excluded[0]
    expected = _keys(pairs, draft.n_atoms)
    for force, others in draft.excluded[1:]:
        different = np.setxor1d(expected, _keys(others, draft.n_atoms))
        if len(different):
            i, j = divmod(int(different[0]), draft.n_atoms)
            raise force.error(
                f"its excluded pairs differ from those of {first.name}: particles {i} and {j} are in one only",
                "exclude the same pairs in both",
            )
    return pairs


def _keys(pairs: Int32, n_atoms: int) -> NDArray[np.int64]:
    low, high = np.sort(pairs.astype(np.int64), axis=1).T
    return np.unique(low * n_atoms + high)


def _table(draft: SystemDraft, shares: list[Float64]) -> tuple[LennardJonesTable, list[PairPart]]:
    """The Lennard-Jones table, and the parts that act on some pair."""
    n = len(shares[0])
    c6, c12 = np.zeros((n, n)), np.zeros((n, n))
    sigma, epsilon = np.zeros(n), np.zeros(n)
    acting, ruled = [], True
    for part, share in zip(draft.pair_parts, shares, strict=True):
        if part.coefficients is None:
            acting.append(part)
            continue
        own6, own12 = part.coefficients(share)
        if own6.any() or own12.any():
            acting.append(part)
            c6, c12 = c6 + own6, c12 + own12
            if part.coefficients is lorentz_berthelot:
                sigma, epsilon = share.T
            else:
                ruled = False
    lj_parts = [part for part in acting if part.coefficients is not None]
    ruled = ruled and len(lj_parts) <= 1
    names = tuple(f"type {k}" for k in range(n))
    if ruled:
        return LennardJonesTable(names, c6, c12, "lorentz-berthelot", sigma, epsilon), acting
    both = (np.diag(c6) > 0) & (np.diag(c12) > 0)
    d6, d12 = np.where(both, np.diag(c6), 1.0), np.where(both, np.diag(c12), 1.0)
    sigma, epsilon = np.where(both, (d12 / d6) ** (1 / 6), 0.0), np.where(both, d6 * d6 / (4.0 * d12), 0.0)
    return LennardJonesTable(names, c6, c12, "table", sigma, epsilon), acting


def _potential(
    draft: SystemDraft, shares: list[Float64], table: LennardJonesTable, acting: list[PairPart]
) -> PairPotential | None:
    """The potential of the one force that is not Lennard-Jones, if there is one."""
    found = [(part, share) for part, share in zip(draft.pair_parts, shares, strict=True) if part.potential]
    if len(found) > 1:
        raise found[1][0].force.error(
            f"{found[0][0].force.name} has a potential of its own already", "write both as one expression"
        )
    for part, share in found:
        assert part.potential is not None
        _switch_options(acting, draft.cutoffs[0][1])
        return part.potential(share, table.c6, table.c12, part.switch)
    return None


def _switch_options(acting: list[PairPart], cutoff: float) -> dict[str, Any]:
    """Options of the switching function, which all forces that act must share."""
    distances = {part.switch for part in acting}
    if len(distances) > 1:
        force = next(part.force for part in acting if part.switch != acting[0].switch)
        raise force.error(
            f"its switching function differs from that of {acting[0].force.name}",
            "give both the same distance",
        )
    distance = distances.pop() if distances else None
    if distance is None:
        return {}
    if not 0 <= distance < cutoff:
        raise acting[0].force.error(
            f"its switching distance {distance:g} nm is not below the cut-off {cutoff:g} nm", "lower it"
        )
    return {"vdw_modifier": "potential-switch", "rvdw_switch": distance}
