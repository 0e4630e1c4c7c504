"""The topology of a system as one frozen record: arrays over all atoms, names kept once per molecule type."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsemd.topology.terms import Terms
from pulsemd.topology.virtual_sites import VirtualSites, no_sites

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
Float64 = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class MoleculeType:
    """One kind of molecule; atom indices count from 0 within the molecule.

    Parameters
    ----------
    name : str
    atom_name, residue_name : tuple of str, one per atom
    residue_number : (n,) int32, as the file numbers them
    residue_index : (n,) int32, 0-based, contiguous
    type_index : (n,) int32, rows of the Lennard-Jones table
    charge : (n,) float64, e
    mass : (n,) float64, amu
    exclusion_offset, exclusion_atoms : (n + 1,) int64, (k,) int32
        Excluded partners of each atom; symmetric, sorted, without the atom itself.
    settle_atoms : (m, 3) int32, oxygen and both hydrogens of each rigid water
    settle_parameters : (m, 2) float64, nm, distances O-H and H-H
    group_offset, group_atoms : (g + 1,) int64, (n,) int32
        Update groups; the first atom of each is its leader.
    terms : mapping of kind to Terms
        Rows of the parameters of the whole system.
    virtual_sites : VirtualSites
    """

    name: str
    atom_name: tuple[str, ...]
    residue_name: tuple[str, ...]
    residue_number: Int32
    residue_index: Int32
    type_index: Int32
    charge: Float64
    mass: Float64
    exclusion_offset: Int64
    exclusion_atoms: Int32
    settle_atoms: Int32
    settle_parameters: Float64
    group_offset: Int64
    group_atoms: Int32
    terms: Mapping[str, Terms]
    virtual_sites: VirtualSites = field(default_factory=no_sites)

    @property
    def n_atoms(self) -> int:
        """Atoms of one molecule."""
        return len(self.atom_name)

    @property
    def n_residues(self) -> int:
        """Residues of one molecule."""
        return int(self.residue_index[-1]) + 1


@dataclass(frozen=True)
class MoleculeBlock:
    """Consecutive molecules of one type; the indices are those of its first atom and residue."""

    molecule_type: int
    n_molecules: int
    first_atom: int
    first_residue_number: int | None
    """Residues are numbered on from here over the whole block; None keeps the numbers of the file."""


@dataclass(frozen=True)
class AtomLabels:
    """Names of a range of atoms, expanded; text as UTF-8 bytes."""

    residue_number: Int64
    residue_name: NDArray[np.bytes_]
    atom_name: NDArray[np.bytes_]


@dataclass(frozen=True, eq=False)
class Topology:
    """All atoms of a system in the order of the files; identical on every rank.

    Parameters
    ----------
    title : str
    type_names : tuple of str
        Atom types in use, in the order of the Lennard-Jones table.
    type_index : (n,) int32
    charge : (n,) float64, e
    mass : (n,) float64, amu
    molecule : (n,) int32, index of the molecule
    exclusion_offset, exclusion_atoms : (n + 1,) int64, (k,) int32
        Excluded partners of each atom; symmetric, sorted, without the atom itself.
    settle_atoms : (m, 3) int32, oxygen and both hydrogens of each rigid water
    settle_parameters : (m, 2) float64, nm, distances O-H and H-H
    group_offset, group_atoms : (g + 1,) int64, (n,) int32
        Update groups, which are never split over ranks; the first atom of each is its leader.
    terms : mapping of kind to Terms
        Bonded terms, 1-4 pairs and restraints; only kinds that occur. See `pulsemd.topology.terms`.
    molecule_types, blocks : tuple
        What the arrays were expanded from; they also hold the names.
    virtual_sites : VirtualSites
        Each shares the update group of its parents.
    """

    title: str
    type_names: tuple[str, ...]
    type_index: Int32
    charge: Float64
    mass: Float64
    molecule: Int32
    exclusion_offset: Int64
    exclusion_atoms: Int32
    settle_atoms: Int32
    settle_parameters: Float64
    group_offset: Int64
    group_atoms: Int32
    terms: Mapping[str, Terms]
    molecule_types: tuple[MoleculeType, ...]
    blocks: tuple[MoleculeBlock, ...]
    virtual_sites: VirtualSites = field(default_factory=no_sites)

    @property
    def n_atoms(self) -> int:
        """Atoms of the system."""
        return len(self.type_index)

    @property
    def n_molecules(self) -> int:
        """Molecules of the system."""
        return sum(block.n_molecules for block in self.blocks)

    @property
    def n_constraints(self) -> int:
        """Constrained distances: three for each rigid water, and one for each constraint term."""
        return 3 * len(self.settle_atoms) + len(self.terms.get("constraint", ()))

    @property
    def n_exclusion_pairs(self) -> int:
        """Excluded pairs, each counted once."""
        return len(self.exclusion_atoms) // 2

    @cached_property
    def leader(self) -> Int32:
        """(n,) int32: global id of the leader of each atom's update group."""
        sizes = np.diff(self.group_offset)
        leader = np.empty(self.n_atoms, np.int32)
        leader[self.group_atoms] = np.repeat(self.group_atoms[self.group_offset[:-1]], sizes)
        return leader

    def describe_atom(self, gid: int) -> str:
        """Name one atom for a message, as in ``SOL 12 HW1 (atom 35)``; atoms are counted from 1 there."""
        labels = self.labels(gid, gid + 1)
        residue, atom = labels.residue_name[0].decode(), labels.atom_name[0].decode()
        return f"{residue} {labels.residue_number[0]} {atom} (atom {gid + 1})"

    def labels(self, first: int, last: int) -> AtomLabels:
        """Names and residue numbers of the atoms ``first <= gid < last``.

        Raises
        ------
        IndexError
            If the range is empty or leaves the system.
        """
        if not 0 <= first < last <= self.n_atoms:
            raise IndexError(f"atoms {first}..{last - 1} of a system of {self.n_atoms}")
        parts = []
        block = bisect_right(self.blocks, first, key=lambda b: b.first_atom) - 1
        while first < last:
            stop = self.blocks[block + 1].first_atom if block + 1 < len(self.blocks) else self.n_atoms
            if first < stop:
                parts.append(self._block_labels(self.blocks[block], first, min(last, stop)))
                first = min(last, stop)
            block += 1
        return AtomLabels(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))

    def _block_labels(self, block: MoleculeBlock, first: int, last: int) -> tuple[NDArray[Any], ...]:
        kind = self.molecule_types[block.molecule_type]
        offset = np.arange(first - block.first_atom, last - block.first_atom, dtype=np.int64)
        molecule, atom = offset // kind.n_atoms, offset % kind.n_atoms
        if block.first_residue_number is None:
            number = kind.residue_number[atom].astype(np.int64)
        else:
            number = block.first_residue_number + (molecule * kind.n_residues + kind.residue_index[atom])
        residue_name = np.array([name.encode() for name in kind.residue_name], np.bytes_)
        atom_name = np.array([name.encode() for name in kind.atom_name], np.bytes_)
        return number, residue_name[atom], atom_name[atom]
