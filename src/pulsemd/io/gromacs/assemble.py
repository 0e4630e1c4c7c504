"""From what a topology file said to the records of the engine."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import numpy as np

from pulsemd.forcefield.nonbonded import LennardJonesTable, build_table
from pulsemd.io.gromacs.draft import MoleculeDraft, TopologyDraft
from pulsemd.topology.exclusions import to_rows
from pulsemd.topology.expand import build_topology
from pulsemd.topology.groups import update_groups
from pulsemd.topology.records import MoleculeType, Topology

log = logging.getLogger(__name__)


def assemble(draft: TopologyDraft) -> tuple[Topology, LennardJonesTable]:
    """Build the topology over all atoms and the Lennard-Jones table of the types in use.

    Raises
    ------
    TopologyError
        If something is missing: no ``[ defaults ]``, no molecules.
    """
    if draft.defaults is None:
        raise draft.end.error("the file has no [ defaults ]")
    used = list(dict.fromkeys(key for key, count in draft.molecules if count > 0))
    if not any(draft.molecule_types[key].atoms for key in used):
        raise draft.end.error("the system has no atoms: list its molecules in [ molecules ]")
    present = {atom.type for key in used for atom in draft.molecule_types[key].atoms}
    names = [name for name in draft.atom_types if name in present]
    index = {name: i for i, name in enumerate(names)}
    kinds = [draft.atom_types[name] for name in names]
    table = build_table(
        names,
        draft.defaults.comb_rule,
        [kind.first for kind in kinds],
        [kind.second for kind in kinds],
        {(index[a], index[b]): p for (a, b), p in draft.nonbonded.items() if a in index and b in index},
    )
    molecules = [(used.index(key), count) for key, count in draft.molecules if count > 0]
    types = [_molecule_type(draft.molecule_types[key], index) for key in used]
    topology = build_topology(draft.title or "", names, types, molecules)
    total = float(topology.charge.sum())
    if abs(total) > 1e-4:
        log.warning("%s: the system has a net charge of %.4f e", draft.path, total)
    return topology, table


def _molecule_type(draft: MoleculeDraft, type_index: Mapping[str, int]) -> MoleculeType:
    atoms, n = draft.atoms, len(draft.atoms)
    if n == 0:
        raise draft.line.error(f"molecule type {draft.name} is used but has no atoms")
    residues = [atom.residue for atom in atoms]
    changed = [i > 0 and residues[i] != residues[i - 1] for i in range(n)]
    water = np.array([row.oxygen for row in draft.settles], np.int64)[:, None] + np.arange(3)
    links = np.concatenate([water[:, [0, 1]], water[:, [0, 2]]])
    excluded = np.array(draft.exclusions, np.int64).reshape(-1, 2)
    exclusion_offset, exclusion_atoms = to_rows(n, np.concatenate([excluded, excluded[:, ::-1]]))
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
        mass=np.array([atom.mass for atom in atoms]),
        exclusion_offset=exclusion_offset,
        exclusion_atoms=exclusion_atoms,
        settle_atoms=water.astype(np.int32),
        settle_parameters=np.array([[row.doh, row.dhh] for row in draft.settles], np.float64).reshape(-1, 2),
        group_offset=group_offset,
        group_atoms=group_atoms,
    )
