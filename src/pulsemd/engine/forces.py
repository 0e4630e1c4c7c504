"""Forces on the atoms of a rank on CPUs: pairs, excluded pairs, bonded terms, the lattice sum; and their sums."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsemd.base.errors import DomainError
from pulsemd.base.fixed_point import FORCE_SCALE
from pulsemd.domain.grid import Grid
from pulsemd.domain.plan import LocalDomain
from pulsemd.engine.cell import Cell
from pulsemd.engine.energies import N_PAIR_SUMS, N_SUMS, SLOTS, VIRIAL
from pulsemd.engine.lattice import LatticeForces
from pulsemd.engine.local import local_exclusions
from pulsemd.engine.options import RunOptions
from pulsemd.engine.system import System
from pulsemd.engine.terms import EXCLUSION, TermOwnership
from pulsemd.halo import Transport
from pulsemd.kernels.bonded.launch import BondedForces
from pulsemd.kernels.nonbonded.exclusions import count_within, exclusion_forces, self_energy
from pulsemd.kernels.nonbonded.launch import PairForces

Int32 = NDArray[np.int32]
Rows = NDArray[Any]  # float32, or int64 fixed point in reproducible mode
Sums = NDArray[Any]  # float64, or int64 fixed point in reproducible mode


class Forces:
    """The forces of a system, and the share of one rank in a list lifetime.

    Positions ``x`` (n_local, 3) int32 and forces ``f`` (n_local, 3) of the methods are those of all local rows.

    Parameters
    ----------
    transport : Transport
    system : System
    options : RunOptions

    Attributes
    ----------
    terms : TermOwnership
    sums : (N_SUMS,) float64 or int64
        Energies and virial of this rank since `begin`, by `SLOTS` and `VIRIAL`.
    work : list of int
        Pairs in the list of each rank.
    """

    def __init__(self, transport: Transport, system: System, options: RunOptions) -> None:
        self._transport, self._system = transport, system
        topology, fixed = system.topology, options.precision == "reproducible"
        self.terms = TermOwnership(system)
        self._pairs = PairForces(
            system.table,
            system.settings,
            options.precision,
            system.pair_potential,
            system.settings.nsteps == 0,
        )
        constants = self._pairs.constants
        self._excluded_constants = system.excluded_constants(constants)
        self._lattice = LatticeForces(transport, system, constants) if constants.beta else None
        self._bonded = BondedForces(
            topology.terms,
            topology.charge,
            constants.coulomb_factor,
            SLOTS,
            VIRIAL,
            FORCE_SCALE if fixed else 0.0,
            system.reference,
        )
        self.sums: Sums = np.zeros(N_SUMS, np.int64 if fixed else np.float64)
        self.work: list[int] = []
        self._wanted = False

    # ---- search -------------------------------------------------------------------------------------------------

    def search(
        self, number: int, domain: LocalDomain, grid: Grid, x: Int32, cell: Cell, r_list: float
    ) -> None:
        """Build the pair list and take this rank's terms; collective.

        Parameters
        ----------
        number : int
            Of searches before, for messages.

        Raises
        ------
        DomainError
            If the counts of excluded pairs, summed over ranks, differ from the topology.
        """
        topology, gid = self._system.topology, domain.gid
        self._charge, self._n_owned = topology.charge[gid], domain.n_owned
        offset, rows = local_exclusions(
            gid, domain.local_row, topology.exclusion_offset, topology.exclusion_atoms
        )
        counts = self._pairs.search(
            x,
            cell.box,
            domain.n_owned,
            topology.type_index[gid],
            self._charge,
            offset,
            rows,
            domain.leader_x,
            domain.home,
            [d in grid.split_dims for d in range(3)],
            r_list,
        )
        self.terms.assign(self._transport, grid, domain)
        for kind, (mine, term_rows) in self.terms.mine.items():
            if kind == EXCLUSION:
                self._excluded = term_rows
            else:
                self._bonded.bind(kind, mine, term_rows)
        near = count_within(x, self._excluded, cell.box, r_list)
        shares = self._transport.allgather((counts.pairs, counts.excluded, near))
        self.work = [pairs for pairs, _, _ in shares]
        _verify_masks(number, sum(share[1] for share in shares), sum(share[2] for share in shares))

    def rescale(self, cell: Cell) -> None:
        """Take another cell in which atoms keep their places on the lattice."""
        self._pairs.rescale(cell.box)
        if self._lattice is not None:
            self._lattice.rescale(cell)

    def tolerate_overlaps(self, tolerant: bool) -> None:
        """From the next search on: whether atoms may overlap, as in minimisation."""
        self._pairs.tolerate_overlaps(tolerant)

    # ---- a step -------------------------------------------------------------------------------------------------

    @property
    def has_lattice(self) -> bool:
        """Whether electrostatics have a part in reciprocal space."""
        return self._lattice is not None

    def begin(self, sums: bool) -> None:
        """Clear the sums; whether this step needs them."""
        self._wanted = sums
        self.sums[:] = 0

    def local(self, x: Int32, f: Rows, half: int) -> None:
        """Add one half, 0 or 1, of the pairs of two owned rows."""
        self._pairs.local(x, f, self._pair_sums(), half=half)

    def lattice(self, x: Int32, f: Rows) -> None:
        """Add the reciprocal-space part of electrostatics to owned rows; collective."""
        assert self._lattice is not None
        n = self._n_owned
        self._lattice.add(x[:n], self._charge[:n], f[:n], self.sums if self._wanted else None)

    def nonlocal_(self, x: Int32, f: Rows, cell: Cell) -> None:
        """Add the pairs with a ghost row, the corrections of excluded pairs, and the bonded terms."""
        sums = self._pair_sums()
        self._pairs.nonlocal_(x, f, sums)
        exclusion_forces(x, self._excluded, self._charge, cell.box, self._excluded_constants, f, sums)
        if sums is not None:
            self_energy(self._charge[: self._n_owned], self._excluded_constants, sums)
        self._bonded.add(x, cell.box, f, self.sums if self._wanted else None)

    def _pair_sums(self) -> Sums | None:
        return self.sums[:N_PAIR_SUMS] if self._wanted else None

    # ---- what went wrong ----------------------------------------------------------------------------------------

    def pairs_out_of_range(self) -> bool:
        """Whether a pair force was out of range since the last call."""
        return self._pairs.out_of_range()

    def bad_bonded_row(self) -> int:
        """A row whose bonded force was not a number or out of range, -1: none."""
        return self._bonded.bad_row()


def _verify_masks(number: int, listed: int, expected: int) -> None:
    """The excluded pairs masked in all pair lists must be the exclusion terms within the list cut-off."""
    if listed != expected:
        raise DomainError(
            f"search {number}: the pair lists of all ranks hold {listed} excluded pairs, the terms {expected}; a pair "
            "is lost or listed twice; please report this"
        )
