"""From molecule types and counts to arrays over all atoms, without a Python object per atom."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsemd.base.errors import TopologyError
from pulsemd.topology.records import Int32, Int64, MoleculeBlock, MoleculeType, Topology
from pulsemd.topology.terms import Terms
from pulsemd.topology.virtual_sites import VirtualSites

MAX_ATOMS = 2**31 - 1
"""Global atom ids are int32."""


def build_topology(
    title: str,
    type_names: Sequence[str],
    molecule_types: Sequence[MoleculeType],
    molecules: Sequence[tuple[int, int]],
    between: Mapping[str, Terms] | None = None,
) -> Topology:
    """Expand molecule types over all molecules.

    Parameters
    ----------
    title : str
    type_names : sequence of str
        Atom types the molecule types' ``type_index`` counts in.
    molecule_types : sequence of MoleculeType
    molecules : sequence of (index of the molecule type, number of molecules)
    between : mapping of kind to Terms, optional
        Terms between molecules, by global ids; they share the tables of parameters of the molecule types.

    Raises
    ------
    TopologyError
        If there is no atom, or more than int32 can number.
    """
    blocks = _place_blocks(molecule_types, molecules)
    kinds = [molecule_types[block.molecule_type] for block in blocks]
    n_atoms = sum(kind.n_atoms * block.n_molecules for kind, block in zip(kinds, blocks, strict=True))
    if not 0 < n_atoms <= MAX_ATOMS:
        raise TopologyError(f"the molecules have {n_atoms} atoms in all; 1 to {MAX_ATOMS} can be simulated")

    def over_blocks(
        expand: Callable[[NDArray[Any], MoleculeType, MoleculeBlock], NDArray[Any]], name: str
    ) -> Any:
        pairs = zip(kinds, blocks, strict=True)
        return np.concatenate([expand(getattr(kind, name), kind, block) for kind, block in pairs])

    def offsets(name: str) -> Int64:
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(over_blocks(_sizes, name), dtype=np.int64)])

    return Topology(
        title=title,
        type_names=tuple(type_names),
        type_index=over_blocks(_tiled, "type_index"),
        charge=over_blocks(_tiled, "charge"),
        mass=over_blocks(_tiled, "mass"),
        molecule=np.repeat(
            np.arange(sum(block.n_molecules for block in blocks), dtype=np.int32),
            np.repeat([kind.n_atoms for kind in kinds], [block.n_molecules for block in blocks]),
        ),
        exclusion_offset=offsets("exclusion_offset"),
        exclusion_atoms=over_blocks(_shifted, "exclusion_atoms"),
        settle_atoms=over_blocks(_shifted, "settle_atoms"),
        settle_parameters=over_blocks(_tiled, "settle_parameters"),
        group_offset=offsets("group_offset"),
        group_atoms=over_blocks(_shifted, "group_atoms"),
        terms=_expand_terms(kinds, blocks, between or {}),
        molecule_types=tuple(molecule_types),
        blocks=blocks,
        virtual_sites=_expand_sites(kinds, blocks),
    )


def _expand_sites(kinds: Sequence[MoleculeType], blocks: Sequence[MoleculeBlock]) -> VirtualSites:
    """Virtual sites of all molecules, those of a molecule in its own order."""
    parts = [(kind.virtual_sites, kind, block) for kind, block in zip(kinds, blocks, strict=True)]
    sizes = [_sizes(part.offset, kind, block) for part, kind, block in parts]
    return VirtualSites(
        np.concatenate([_tiled(part.kind, kind, block) for part, kind, block in parts]),
        np.concatenate([np.zeros(1, np.int64), np.cumsum(np.concatenate(sizes), dtype=np.int64)]),
        np.concatenate([_shifted(part.atoms, kind, block) for part, kind, block in parts]),
        np.concatenate([_tiled(part.values, kind, block) for part, kind, block in parts]),
    )


def _expand_terms(
    kinds: Sequence[MoleculeType], blocks: Sequence[MoleculeBlock], between: Mapping[str, Terms]
) -> dict[str, Terms]:
    """Bonded terms of all molecules and between them; all share the tables of parameters."""
    terms = dict(between)
    for name in dict.fromkeys(name for kind in kinds for name in kind.terms):
        having = [
            (kind.terms[name], kind, block)
            for kind, block in zip(kinds, blocks, strict=True)
            if name in kind.terms
        ]
        atoms = [_shifted(part.atoms, kind, block) for part, kind, block in having]
        index = [_tiled(part.index, kind, block) for part, kind, block in having]
        if name in between:
            atoms, index = [*atoms, between[name].atoms], [*index, between[name].index]
        terms[name] = Terms(np.concatenate(atoms), np.concatenate(index), having[0][0].parameters)
    return terms


def _tiled(values: NDArray[Any], kind: MoleculeType, block: MoleculeBlock) -> NDArray[Any]:
    """Repeat the rows of one molecule for every molecule of a block."""
    return np.tile(values, (block.n_molecules,) + (1,) * (values.ndim - 1))


def _shifted(atoms: Int32, kind: MoleculeType, block: MoleculeBlock) -> Int32:
    """Repeat rows of atom indices, shifted to each molecule's atoms."""
    first = block.first_atom + kind.n_atoms * np.arange(block.n_molecules, dtype=np.int32)
    rows = atoms[None] + first.reshape(-1, *(1,) * atoms.ndim)
    return rows.reshape(-1, *atoms.shape[1:])


def _sizes(offset: Int64, kind: MoleculeType, block: MoleculeBlock) -> Int64:
    return np.tile(np.diff(offset), block.n_molecules)


def _place_blocks(
    molecule_types: Sequence[MoleculeType], molecules: Sequence[tuple[int, int]]
) -> tuple[MoleculeBlock, ...]:
    """Where each block starts; residues are numbered as gmx does.

    Molecules of one residue are numbered on through the system, after the highest number used by those of
    several residues, which keep the numbers of the file.
    """
    used = [(kind, n) for kind, n in molecules if n > 0]
    kept = [
        molecule_types[kind].residue_number.max() for kind, _ in used if molecule_types[kind].n_residues > 1
    ]
    atom, residue = 0, int(max(kept, default=0)) + 1
    blocks = []
    for kind, n in used:
        single = molecule_types[kind].n_residues == 1
        blocks.append(MoleculeBlock(kind, n, atom, residue if single else None))
        atom += n * molecule_types[kind].n_atoms
        residue += n if single else 0
    return tuple(blocks)
