"""Atoms that stay where they are: to the update they have no mass."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pulsemd.base.errors import InputError
from pulsemd.forcefield.settings import RunSettings
from pulsemd.io.gromacs.groups import Groups
from pulsemd.topology.records import Topology
from pulsemd.topology.terms import Terms


def frozen_topology(topology: Topology, settings: RunSettings, groups: Groups) -> tuple[Topology, float]:
    """The topology with the freeze groups of the settings frozen, and their mass, amu."""
    if not settings.freezegrps:
        return topology, 0.0
    frozen = groups.union(settings.freezegrps, "freezegrps")
    if frozen is None or len(frozen) == topology.n_atoms:
        raise InputError("freezegrps: nothing is left that moves")
    return freeze_atoms(topology, frozen), float(topology.mass[frozen].sum())


def freeze_atoms(topology: Topology, frozen: NDArray[np.int32]) -> Topology:
    """The topology with these atoms, by global id, frozen.

    Constraints among frozen atoms are dropped, those of rigid water too; forces on them stay without effect.

    Raises
    ------
    InputError
        If a constraint ties a frozen atom to one that moves, or a virtual site is frozen.
    """
    still = np.zeros(topology.n_atoms, bool)
    still[frozen] = True
    _refuse_first(
        topology, topology.virtual_sites.sites[still[topology.virtual_sites.sites]], "is a virtual site"
    )
    waters = _all_or_none(topology, still, topology.settle_atoms)
    terms = dict(topology.terms)
    constraints = terms.get("constraint")
    if constraints is not None:
        terms["constraint"] = _kept(constraints, ~_all_or_none(topology, still, constraints.atoms))
    return replace(
        topology,
        mass=np.where(still, 0.0, topology.mass),
        settle_atoms=topology.settle_atoms[~waters],
        settle_parameters=topology.settle_parameters[~waters],
        terms=terms,
    )


def _all_or_none(topology: Topology, still: NDArray[np.bool_], atoms: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Which rows of atoms are frozen; each has to be as a whole, or not at all."""
    rows = still[atoms]
    partly = rows.any(1) & ~rows.all(1)
    _refuse_first(topology, atoms[partly][rows[partly]], "has a constraint with an atom that moves")
    return np.asarray(rows.all(1))


def _refuse_first(topology: Topology, atoms: NDArray[np.int32], what: str) -> None:
    if len(atoms):
        raise InputError(
            f"freezegrps: {topology.describe_atom(int(atoms[0]))} {what}; freeze whole molecules, or use position "
            "restraints"
        )


def _kept(terms: Terms, rows: NDArray[np.bool_]) -> Terms:
    return replace(terms, atoms=terms.atoms[rows], index=terms.index[rows])
