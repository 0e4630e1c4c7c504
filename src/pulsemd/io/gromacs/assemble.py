"""From what a topology file said to the records of the engine."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from pulsemd.forcefield.nonbonded import LennardJonesTable, build_table
from pulsemd.io.gromacs.draft import MoleculeDraft, TermRow, TopologyDraft
from pulsemd.topology.exclusions import neighbors_within, to_rows
from pulsemd.topology.expand import build_topology
from pulsemd.topology.groups import (
    MOST_BY_SHAKE,
    MOST_TOGETHER,
    constraint_links,
    rigid_triangles,
    update_groups,
)
from pulsemd.topology.records import MoleculeType, Topology
from pulsemd.topology.terms import Terms
from pulsemd.topology.virtual_sites import VirtualSites, virtual_sites

log = logging.getLogger(__name__)

TermRows = Mapping[str, list[TermRow]]
_NO_LINKS = np.zeros((0, 2), np.int64)

CONVERTIBLE = ("bond", "quartic_bond", "morse_bond", "cubic_bond")
"""Kinds of bonds that can become constraints, as in gmx; their first parameter is the length."""

DISTANCE_RESTRAINT_FORCE = 1000.0
"""Default of disre-fc, kJ/mol/nm^2."""


def assemble(
    draft: TopologyDraft,
    constraints: str = "none",
    restraint_force: float | None = None,
    algorithm: str = "lincs",
) -> tuple[Topology, LennardJonesTable]:
    """Build the topology over all atoms and the Lennard-Jones table of the types in use.

    Parameters
    ----------
    draft : TopologyDraft
    constraints : {'none', 'h-bonds', 'all-bonds'}
        Which bonds become constraints. As in gmx an h-bond has an atom whose name begins with H or h.
    algorithm : {'lincs', 'shake'}
        With 'lincs' constraints that tie more than `MOST_TOGETHER` atoms together may lie across ranks.
    restraint_force : float or None, kJ/mol/nm^2
        Of distance restraints with the factor 1. None: those of molecule types do not act; as in gmx those between
        molecules do, with `DISTANCE_RESTRAINT_FORCE`.

    Raises
    ------
    TopologyError
        If something is missing: no ``[ defaults ]``, no molecules; if SHAKE is asked for more than it can do.
    """
    if draft.defaults is None:
        raise draft.end.error("the file has no [ defaults ]")
    used = list(dict.fromkeys(key for key, count in draft.molecules if count > 0))
    molecules = [draft.molecule_types[key] for key in used]
    if not any(molecule.atoms for molecule in molecules):
        raise draft.end.error("the system has no atoms: list its molecules in [ molecules ]")
    names, table = _lennard_jones(draft, molecules, draft.defaults.comb_rule)
    rows = [_restrained(_convert_bonds(molecule, constraints), restraint_force) for molecule in molecules]
    between: TermRows = {}
    if draft.intermolecular is not None:
        force = DISTANCE_RESTRAINT_FORCE if restraint_force is None else restraint_force
        between = _restrained(draft.intermolecular.terms, force)
    parameters = _distinct_parameters([*rows, between])
    index = {name: i for i, name in enumerate(names)}
    if restraint_force is not None:
        _refuse_repeated_restraints(draft)
    types = [
        _molecule_type(molecule, terms, index, parameters, algorithm)
        for molecule, terms in zip(molecules, rows, strict=True)
    ]
    counts = [(used.index(key), count) for key, count in draft.molecules if count > 0]
    more = {kind: _terms(found, parameters[kind]) for kind, found in between.items()}
    topology = build_topology(draft.title or "", names, types, counts, more)
    total = float(topology.charge.sum())
    if abs(total) > 1e-4:
        log.warning("%s: the system has a net charge of %.4f e", draft.path, total)
    return topology, table


def _lennard_jones(
    draft: TopologyDraft, molecules: list[MoleculeDraft], comb_rule: int
) -> tuple[list[str], LennardJonesTable]:
    """Types that occur, in the order of the file, and their parameters."""
    present = {atom.type for molecule in molecules for atom in molecule.atoms}
    names = [name for name in draft.atom_types if name in present]
    index = {name: i for i, name in enumerate(names)}
    kinds = [draft.atom_types[name] for name in names]
    overrides = {
        (index[a], index[b]): p for (a, b), p in draft.nonbonded.items() if a in index and b in index
    }
    first, second = [kind.first for kind in kinds], [kind.second for kind in kinds]
    return names, build_table(names, comb_rule, first, second, overrides)


def _convert_bonds(draft: MoleculeDraft, constraints: str) -> TermRows:
    """Turn the bonds that are to be rigid into constraints of the same length."""
    if constraints == "none":
        return draft.terms

    def rigid(bond: TermRow) -> bool:
        return constraints == "all-bonds" or any(draft.atoms[i].name[:1] in ("H", "h") for i in bond.atoms)

    terms = dict(draft.terms)
    new = list(terms.get("constraint", []))
    for kind in CONVERTIBLE:
        bonds = terms.get(kind, [])
        new += [TermRow(bond.line, bond.atoms, bond.parameters[:1]) for bond in bonds if rigid(bond)]
        terms[kind] = [bond for bond in bonds if not rigid(bond)]
    terms["constraint"] = new
    return {kind: found for kind, found in terms.items() if found}


def _refuse_repeated_restraints(draft: TopologyDraft) -> None:
    """Distance restraints are for molecules that occur once: gmx refuses others, since they share an index."""
    counts: dict[str, int] = {}
    for key, count in draft.molecules:
        counts[key] = counts.get(key, 0) + count
    for key, count in counts.items():
        found = draft.molecule_types[key].terms.get("distance_restraint")
        if found and count > 1:
            raise found[0].line.error(
                f"distance restraints of {count} molecules {draft.molecule_types[key].name} would be one: use "
                "[ bonds ] of function 10"
            )


def _restrained(terms: TermRows, force: float | None) -> TermRows:
    """The terms with the force constants of distance restraints in place of their factors, or without them."""
    found = terms.get("distance_restraint")
    if found is None:
        return terms
    rest = {kind: rows for kind, rows in terms.items() if kind != "distance_restraint"}
    if force is None:
        log.info("%s: distance restraints do not act with disre = no", found[0].line.file)
        return rest
    rest["distance_restraint"] = [
        TermRow(row.line, row.atoms, (*row.parameters[:3], row.parameters[3] * force)) for row in found
    ]
    return rest


def _distinct_parameters(molecules: list[TermRows]) -> dict[str, dict[tuple[float, ...], int]]:
    """Number the distinct sets of parameters of every kind over the whole system."""
    parameters: dict[str, dict[tuple[float, ...], int]] = {}
    for terms in molecules:
        for kind, found in terms.items():
            known = parameters.setdefault(kind, {})
            for term in found:
                known.setdefault(term.parameters, len(known))
    return parameters


def _molecule_type(
    draft: MoleculeDraft,
    rows: TermRows,
    type_index: Mapping[str, int],
    parameters: Mapping[str, Mapping[tuple[float, ...], int]],
    algorithm: str,
) -> MoleculeType:
    atoms, n = draft.atoms, len(draft.atoms)
    if n == 0:
        raise draft.line.error(f"molecule type {draft.name} is used but has no atoms")
    mass = np.array([atom.mass for atom in atoms])
    _check_constraints(draft, rows.get("constraint", []))
    water, sides, rows = _rigid_waters(draft, rows, mass)
    terms = {kind: _terms(found, parameters[kind]) for kind, found in rows.items()}
    sites = _virtual_sites(draft)
    residues = [atom.residue for atom in atoms]
    changed = [i > 0 and residues[i] != residues[i - 1] for i in range(n)]
    tied = _tied_by_constraints(draft, terms, algorithm)
    links = np.concatenate([water[:, [0, 1]], water[:, [0, 2]], tied, sites.links])
    exclusion_offset, exclusion_atoms = _exclusions(draft)
    if len(water) and (np.diff(exclusion_offset)[water] < 2).any():
        log.warning("%s: atoms of rigid waters are not all in [ exclusions ] with each other", draft.name)
    group_offset, group_atoms = update_groups(n, links)
    return MoleculeType(
        name=draft.name,
        atom_name=tuple(atom.name for atom in atoms),
        residue_name=tuple(residue[2] for residue in residues),
        residue_number=np.array([residue[0] for residue in residues], np.int32),
        residue_index=np.cumsum(changed, dtype=np.int32),
        type_index=np.array([type_index[atom.type] for atom in atoms], np.int32),
        charge=np.array([atom.charge for atom in atoms]),
        mass=mass,
        exclusion_offset=exclusion_offset,
        exclusion_atoms=exclusion_atoms,
        settle_atoms=water.astype(np.int32),
        settle_parameters=sides,
        group_offset=group_offset,
        group_atoms=group_atoms,
        terms=terms,
        virtual_sites=sites,
    )


def _tied_by_constraints(
    draft: MoleculeDraft, terms: Mapping[str, Terms], algorithm: str
) -> NDArray[np.int64]:
    """Pairs (m, 2) of atoms that constraints keep in one update group."""
    pairs = terms["constraint"].atoms.astype(np.int64) if "constraint" in terms else _NO_LINKS
    most = MOST_TOGETHER if algorithm == "lincs" else MOST_BY_SHAKE
    tied, largest = constraint_links(len(draft.atoms), pairs, most)
    if algorithm == "shake" and largest > MOST_BY_SHAKE:
        raise draft.line.error(
            f"constraints tie {largest} atoms of {draft.name} together, and SHAKE solves at most {MOST_BY_SHAKE}; use "
            "constraint-algorithm = lincs"
        )
    return tied


def _check_constraints(draft: MoleculeDraft, rows: list[TermRow]) -> None:
    """Refuse lengths that are not positive, and a pair that is constrained twice."""
    pairs = {(row.oxygen + i, row.oxygen + j) for row in draft.settles for i, j in ((0, 1), (0, 2), (1, 2))}
    for row in rows:
        low, high = sorted(row.atoms)
        if row.parameters[0] <= 0:
            raise row.line.error(
                f"the length of a constraint is {row.parameters[0]:g} nm; it must be positive"
            )
        if (low, high) in pairs:
            raise row.line.error(
                f"atoms {low + 1} and {high + 1} are constrained already, by [ settles ], [ constraints ] or a bond; "
                "keep one"
            )
        pairs.add((low, high))


def _rigid_waters(
    draft: MoleculeDraft, rows: TermRows, mass: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64], TermRows]:
    """O, H, H and the lengths O-H, H-H of ``[ settles ]`` and of triangles of constraints; the rows without those."""
    water = np.array([row.oxygen for row in draft.settles], np.int64)[:, None] + np.arange(3)
    sides = np.array([[row.doh, row.dhh] for row in draft.settles], np.float64).reshape(-1, 2)
    constraints = rows.get("constraint", [])
    pairs = np.array([row.atoms for row in constraints], np.int64).reshape(-1, 2)
    lengths = np.array([row.parameters[0] for row in constraints], np.float64)
    triangles, of_triangles = rigid_triangles(mass, pairs, lengths)
    inside = set(triangles.ravel().tolist())
    rest = [row for row in constraints if row.atoms[0] not in inside]
    others = {kind: found for kind, found in {**rows, "constraint": rest}.items() if found}
    return np.concatenate([water, triangles]), np.concatenate([sides, of_triangles]), others


def _virtual_sites(draft: MoleculeDraft) -> VirtualSites:
    """The sites in an order in which they can be constructed; every atom without mass or of such a type must be one."""
    for i, atom in enumerate(draft.atoms):
        if (atom.mass == 0 or atom.virtual) and i not in draft.sites:
            raise atom.line.error(
                f"atom {atom.name} has no mass or the type of a virtual site, but is not listed as one"
            )
    sites = list(draft.sites.values())
    try:
        return virtual_sites(sites)
    except ValueError as error:
        atom = sites[error.args[0]].atom
        message = f"virtual site {atom + 1} is constructed from itself through other sites"
        raise draft.site_lines[atom].error(message) from None


def _terms(found: list[TermRow], known: Mapping[tuple[float, ...], int]) -> Terms:
    atoms = np.array([term.atoms for term in found], np.int32)
    index = np.array([known[term.parameters] for term in found], np.int32)
    return Terms(atoms, index, np.array(list(known), np.float64))


def _exclusions(draft: MoleculeDraft) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Atoms up to nrexcl chemical bonds apart, and ``[ exclusions ]``; rigid waters are no bonds, as in gmx."""
    n = len(draft.atoms)
    bonds = np.array(draft.links, np.int64).reshape(-1, 2)
    listed = np.array(draft.exclusions, np.int64).reshape(-1, 2)
    return to_rows(n, np.concatenate([neighbors_within(n, bonds, draft.nrexcl), listed, listed[:, ::-1]]))
