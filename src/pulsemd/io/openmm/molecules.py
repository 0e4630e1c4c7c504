"""From terms over all particles to molecule types and their numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsemd.topology.exclusions import to_rows
from pulsemd.topology.groups import MOST_TOGETHER, constraint_links, update_groups
from pulsemd.topology.records import MoleculeType
from pulsemd.topology.terms import Terms
from pulsemd.topology.virtual_sites import Site, virtual_sites

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
Float64 = NDArray[np.float64]


@dataclass(frozen=True)
class Names:
    """Names of all particles.

    Parameters
    ----------
    atom, residue : sequences of str
    number : (n,) int64
        Numbers of residues.
    start : (n,) bool
        The particle is the first of its residue.
    """

    atom: Sequence[str]
    residue: Sequence[str]
    number: Int64
    start: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class WholeSystem:
    """Everything a `Topology` holds, over all particles; see `MoleculeType` for the fields."""

    names: Names
    type_index: Int32
    charge: Float64
    mass: Float64
    excluded: Int32
    settle_atoms: Int32
    settle_parameters: Float64
    terms: Mapping[str, Terms]
    sites: Sequence[Site]


def molecule_starts(n_atoms: int, links: Int64) -> Int64:
    """Where molecules begin, and the end: ranges of particles that no link leaves.

    Linked particles with others between them make one molecule of all.
    """
    offset, atoms = update_groups(n_atoms, links)
    last = np.maximum.reduceat(atoms, offset[:-1])
    reach = np.arange(n_atoms)
    reach[atoms[offset[:-1]]] = last
    ends = np.flatnonzero(np.maximum.accumulate(reach) == np.arange(n_atoms))
    return np.concatenate([[0], ends + 1])


def split(system: WholeSystem) -> tuple[list[MoleculeType], list[tuple[int, int]]]:
    """Molecule types, and consecutive molecules as (index of the type, number)."""
    n = len(system.mass)
    starts = molecule_starts(n, _links(system))
    shares = _Shares(system, starts)
    types: list[MoleculeType] = []
    known: dict[tuple[bytes, ...], int] = {}
    counts: list[tuple[int, int]] = []
    for m in range(len(starts) - 1):
        key = shares.key(m)
        if key not in known:
            known[key] = len(types)
            types.append(shares.molecule_type(m, f"molecule {len(types) + 1}"))
        if counts and counts[-1][0] == known[key]:
            counts[-1] = (known[key], counts[-1][1] + 1)
        else:
            counts.append((known[key], 1))
    return types, counts


def _links(system: WholeSystem) -> Int64:
    """Pairs of particles that are in one molecule: of terms, excluded pairs, waters and sites, (k, 2) int64."""
    of_sites = [(site.atom, parent) for site in system.sites for parent in site.parents]
    pairs = [system.excluded, np.array(of_sites, np.int32).reshape(-1, 2)]
    for atoms in (system.settle_atoms, *(terms.atoms for terms in system.terms.values())):
        pairs += [atoms[:, [0, k]] for k in range(1, atoms.shape[1])]
    return np.concatenate(pairs).astype(np.int64)


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows of atoms by molecule, counted from the molecule's first atom, with what belongs to them."""

    offset: Int64
    atoms: Int32
    values: NDArray[np.int32] | Float64

    def of(self, m: int) -> tuple[Int32, NDArray[np.int32] | Float64]:
        begin, end = self.offset[m], self.offset[m + 1]
        return self.atoms[begin:end], self.values[begin:end]


class _Shares:
    """The shares of all molecules in the arrays of a system."""

    def __init__(self, system: WholeSystem, starts: Int64) -> None:
        self._system, self._starts = system, starts
        self._molecule = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        self._terms = {kind: self._rows(terms.atoms, terms.index) for kind, terms in system.terms.items()}
        self._excluded = self._rows(
            np.sort(system.excluded, axis=1), np.zeros(len(system.excluded), np.int32)
        )
        self._settles = self._rows(system.settle_atoms, system.settle_parameters)
        sites = sorted(system.sites, key=lambda site: site.atom)
        site_atoms = np.array([site.atom for site in sites], np.int32)[:, None]
        self._sites = self._rows(site_atoms, np.arange(len(sites), dtype=np.int32))
        self._site_list = sites
        names = system.names
        self._atom_name, self._residue = np.array(names.atom, np.str_), np.array(names.residue, np.str_)

    def _rows(self, atoms: Int32, values: NDArray[np.int32] | Float64) -> _Rows:
        molecule = self._molecule[atoms[:, 0]]
        order = np.argsort(molecule, kind="stable")
        offset = np.searchsorted(molecule[order], np.arange(len(self._starts)))
        relative = atoms[order] - self._starts[molecule[order]][:, None]
        return _Rows(offset.astype(np.int64), relative.astype(np.int32), values[order])

    def sites(self, m: int) -> list[Site]:
        """Virtual sites of a molecule, counted from its first atom."""
        first = int(self._starts[m])
        found = (self._site_list[k] for k in self._sites.of(m)[1])
        return [
            replace(site, atom=site.atom - first, parents=tuple(parent - first for parent in site.parents))
            for site in found
        ]

    def key(self, m: int) -> tuple[bytes, ...]:
        """The same for molecules that are alike."""
        s, names, part = self._system, self._system.names, slice(self._starts[m], self._starts[m + 1])
        arrays: list[NDArray[Any]] = [
            s.type_index[part],
            s.charge[part],
            s.mass[part],
            self._atom_name[part],
            self._residue[part],
        ]
        arrays += [names.start[part]]
        if np.count_nonzero(names.start[part]) > 1:
            arrays.append(names.number[part])
        for rows in (*self._terms.values(), self._excluded, self._settles):
            arrays += rows.of(m)
        sites = [repr(self.sites(m)).encode()] if self._site_list else []
        return *(array.tobytes() for array in arrays), *sites

    def molecule_type(self, m: int, name: str) -> MoleculeType:
        """The record of a molecule."""
        s, part = self._system, slice(self._starts[m], self._starts[m + 1])
        n = int(self._starts[m + 1] - self._starts[m])
        terms = {
            kind: Terms(*rows.of(m), s.terms[kind].parameters)  # type: ignore[arg-type]
            for kind, rows in self._terms.items()
            if len(rows.of(m)[0])
        }
        sites = virtual_sites(self.sites(m))
        (water, lengths), excluded = self._settles.of(m), self._excluded.of(m)[0].astype(np.int64)
        links: list[NDArray[Any]] = [water[:, [0, 1]], water[:, [0, 2]], sites.links]
        if "constraint" in terms:
            links.append(constraint_links(n, terms["constraint"].atoms.astype(np.int64), MOST_TOGETHER)[0])
        exclusion_offset, exclusion_atoms = to_rows(n, np.concatenate([excluded, excluded[:, ::-1]]))
        group_offset, group_atoms = update_groups(n, np.concatenate(links).astype(np.int64))
        start = s.names.start[part].copy()
        start[0] = True
        return MoleculeType(
            name=name,
            atom_name=tuple(s.names.atom[part]),
            residue_name=tuple(s.names.residue[part]),
            residue_number=s.names.number[part].astype(np.int32),
            residue_index=(np.cumsum(start) - 1).astype(np.int32),
            type_index=s.type_index[part],
            charge=s.charge[part],
            mass=s.mass[part],
            exclusion_offset=exclusion_offset,
            exclusion_atoms=exclusion_atoms,
            settle_atoms=water,
            settle_parameters=np.asarray(lengths, np.float64),
            group_offset=group_offset,
            group_atoms=group_atoms,
            terms=terms,
            virtual_sites=sites,
        )
