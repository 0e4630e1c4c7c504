"""Which listed terms a rank computes, and how far apart their atoms are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pulsemd.domain.grid import Grid
from pulsemd.domain.ownership import assign_terms, check_terms
from pulsemd.domain.plan import LocalDomain, max_leader_extent
from pulsemd.engine.local import exclusion_pairs
from pulsemd.engine.system import System
from pulsemd.halo import Transport
from pulsemd.topology.terms import WITHOUT_ENERGY

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

EXCLUSION = "exclusion"
"""Name of the excluded pairs among the kinds of terms."""


class TermOwnership:
    """The terms of a system, and the share of one rank since the last search.

    Parameters
    ----------
    system : System

    Attributes
    ----------
    atoms : dict of kind to (m, k) int32 global ids
        Bonded terms of the topology and, as ``exclusion``, the excluded pairs. Kinds without
        forces are not among them.
    mine : dict of kind to ((m,) int64 indices, (m, k) int32 local rows)
    """

    def __init__(self, system: System) -> None:
        topology = system.topology
        self.atoms: dict[str, Int32] = {
            EXCLUSION: exclusion_pairs(topology.exclusion_offset, topology.exclusion_atoms)
        }
        self.atoms |= {
            kind: terms.atoms for kind, terms in topology.terms.items() if kind not in WITHOUT_ENERGY
        }
        self._leader, self._describe = topology.leader, topology.describe_atom
        self._spanning = [
            kind
            for kind, atoms in self.atoms.items()
            if len(atoms) and bool((self._leader[atoms] != self._leader[atoms[:, :1]]).any())
        ]
        self.mine: dict[str, tuple[Int64, Int32]] = {}

    @property
    def span_groups(self) -> bool:
        """Whether any term has atoms of several update groups, so that its extent matters."""
        return bool(self._spanning)

    def assign(self, transport: Transport, grid: Grid, domain: LocalDomain) -> None:
        """Take this rank's share and check that every term has exactly one owner. Collective.

        Raises
        ------
        DomainError
            On every rank, naming terms without an owner or with several.
        """
        self.mine = {
            kind: assign_terms(atoms, domain.local_row, domain.leader_x, domain.home, grid.split_dims)
            for kind, atoms in self.atoms.items()
        }
        owners = {kind: (atoms, self.mine[kind][0]) for kind, atoms in self.atoms.items()}
        check_terms(transport, owners, self._describe)

    def start_extent(self, system: System) -> float:
        """Largest distance between two leaders of one term, nm, of the start positions."""
        return self.extent_of_all(system.x, system.box)

    def extent_of_all(self, x: Int32, box: NDArray[np.float64]) -> float:
        """The same of all atoms at positions `x` (n_atoms, 3) int32, by global id."""
        return self._extent({kind: self.atoms[kind] for kind in self._spanning}, x[self._leader], box)

    def extent(self, domain: LocalDomain, x: Int32, box: NDArray[np.float64]) -> float:
        """The same of this rank's terms; `x` (n_local, 3) int32 must be up to date, ghosts included."""
        leader_x = x[domain.local_row[self._leader[domain.gid]]]
        return self._extent({kind: self.mine[kind][1] for kind in self._spanning}, leader_x, box)

    def extent_in(self, slot_of_gid: Int32, x: Int32, box: NDArray[np.float64]) -> float:
        """The same of all terms whose leaders are here, of positions in slots: `x` (slots, 3) int32; `slot_of_gid`
        (n_atoms,) int32, -1: not here."""
        rows = {kind: slot_of_gid[self._leader[self.atoms[kind]]] for kind in self._spanning}
        return self._extent({kind: r[(r >= 0).all(1)] for kind, r in rows.items()}, x, box)

    def _extent(self, rows: dict[str, Int32], leader_x: Int32, box: NDArray[np.float64]) -> float:
        return max((max_leader_extent(r, leader_x, box) for r in rows.values()), default=0.0)
