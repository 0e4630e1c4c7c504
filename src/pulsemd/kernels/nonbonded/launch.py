"""Forces of all pairs within the cut-off, on one rank."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from pulsemd.base.box import widths_of
from pulsemd.forcefield.nonbonded import LennardJonesTable
from pulsemd.kernels.nonbonded.generate import load_pair_kernel
from pulsemd.kernels.nonbonded.parameters import AtomParameters, constant_vector, kernel_combination
from pulsemd.kernels.nonbonded.potential import PairPotential
from pulsemd.kernels.nonbonded.settings import PairSettings, pair_constants
from pulsemd.kernels.nonbonded.spec import (
    BLOCK,
    FORCE_LIMIT,
    LIMIT_DISTANCE,
    MINIMUM_DISTANCE2,
    SINGLE_POINT_LIMIT,
    TOLERANT_DISTANCE2,
    KernelSpec,
    Precision,
)
from pulsemd.kernels.nonbonded.user_formula import UserFormula
from pulsemd.kernels.search.clusters import aligned, gather_blocks, scatter_add
from pulsemd.kernels.search.lists import Exclusions, TileList
from pulsemd.kernels.search.search import (
    PairList,
    Rows,
    SearchCounts,
    build_pair_list,
    is_orthorhombic,
    lattice_scale,
)


class PairForces:
    """Lennard-Jones and Coulomb forces of the pairs that belong to this rank.

    Parameters
    ----------
    table : LennardJonesTable
    settings : PairSettings
        Cut-offs, modifiers and dielectric constants under their .mdp names, such as `RunSettings`.
    precision : {'fast', 'reproducible'}
        'fast': float32 forces. 'reproducible': int64 fixed-point forces and energies whose bits depend on no
        order, arrangement or number of ranks.
    potential : PairPotential, optional
        In place of Lennard-Jones; its energy is the Lennard-Jones energy.
    single_point : bool
        Nothing moves afterwards: in fast mode forces may be as large as float32 holds.

    Notes
    -----
    Call `search`, then any number of times `local` followed by `nonlocal_`; `out_of_range` when it suits.
    Nothing here communicates.
    """

    def __init__(
        self,
        table: LennardJonesTable,
        settings: PairSettings,
        precision: Precision,
        potential: PairPotential | None = None,
        single_point: bool = False,
    ) -> None:
        self.precision = precision
        self._limit = FORCE_LIMIT[precision]
        if precision == "fast":
            self._limit = (SINGLE_POINT_LIMIT if single_point else self._limit) / LIMIT_DISTANCE
        self.constants = pair_constants(settings)
        self._formula: UserFormula | None = None
        self._shifted = settings.vdw_modifier == "potential-shift"
        if potential is None:
            self.atom_parameters = AtomParameters(table, self.constants, kernel_combination(table))
        else:
            resolved = potential.resolve_checked(table, self.constants, precision == "reproducible")
            self._formula = resolved.formula
            self.atom_parameters = AtomParameters.of_potential(resolved, self.constants)
        self._list: PairList | None = None
        self._bad = 0
        self._tolerant = False

    def search(
        self,
        x: np.ndarray,
        box: np.ndarray,
        n_owned: int,
        type_index: np.ndarray,
        charge: np.ndarray,
        exclusion_offset: np.ndarray,
        exclusion_rows: np.ndarray,
        leader_x: np.ndarray,
        home: np.ndarray,
        split_dims: Sequence[bool],
        r_list: float,
    ) -> SearchCounts:
        """Find the pairs within ``r_list`` and keep them until the next search.

        Parameters
        ----------
        x : (n_local, 3) int32, lattice units
            Owned rows first, then ghosts.
        box : (3, 3) float64, nm
            Lattice-reduced, with ``r_list`` at most half its smallest perpendicular width.
        n_owned : int
        type_index : (n_local,) int32
        charge : (n_local,) float64, e
        exclusion_offset, exclusion_rows : (n_local + 1,) int64, (k,) int32
            Excluded partners of each row among the local rows, symmetric.
        leader_x : (n_local, 3) int32, lattice units
            Position of each row's leader, which decides the owner of a pair.
        home : (n_local,) uint8
            Bit d: the leader is in this rank's cell of dimension d.
        split_dims : three bool
            Dimensions divided over ranks; in the others every row is at home.
        r_list : float, nm
            At least the cut-off.

        Returns
        -------
        SearchCounts
        """
        rows = Rows(
            np.ascontiguousarray(x, np.int32),
            n_owned,
            self.atom_parameters.has_lj[type_index],
            np.ascontiguousarray(leader_x, np.int32),
            home,
            Exclusions(
                np.ascontiguousarray(exclusion_offset, np.int64),
                np.ascontiguousarray(exclusion_rows, np.int32),
            ),
        )
        exact = self.precision == "reproducible"
        blank = self._formula is None  # the formula of a user may not be zero for empty places
        self._list = build_pair_list(rows, box, r_list, split_dims, exact, self._list, blank)
        self._halves = _halves(self._list.local)
        self.variant = self._choose_spec(box, r_list)
        self._kernels: dict[bool, Callable[..., int]] = {}
        limit, minimum2 = self._limit, MINIMUM_DISTANCE2
        if self._tolerant:
            minimum2 = TOLERANT_DISTANCE2
            limit = SINGLE_POINT_LIMIT / LIMIT_DISTANCE if self.precision == "fast" else limit
        self._constants = constant_vector(self.constants, box, limit, minimum2)
        self._parameters, self._type_index = self.atom_parameters.blocks(self._list, type_index, charge)
        n_blocks = self._list.counts.clusters
        self._x = aligned(n_blocks * BLOCK, np.int32)
        self._forces = aligned(n_blocks * BLOCK, np.float32 if self.precision == "fast" else np.int64)
        self._totals = np.zeros(11, np.float64 if self.precision == "fast" else np.int64)
        return self._list.counts

    def rescale(self, box: np.ndarray) -> None:
        """Take another box (3, 3), nm, of nearly the same lengths, for the pairs of the last search."""
        self._constants[-9:] = lattice_scale(box)

    def _choose_spec(self, box: np.ndarray, r_list: float) -> KernelSpec:
        near = r_list + self._list.largest_row_radius <= 0.5 * widths_of(box).min()
        relative = self.precision == "fast" and near
        return KernelSpec(
            self.precision,
            self.atom_parameters.combination,
            "relative" if relative else "pairwise",
            is_orthorhombic(box),
            energies=False,
            formula=self._formula,
            shifted=self._shifted and self._formula is not None,
            ewald=self.constants.ewald,
            ending=self.constants.ending,
            capped=self._tolerant and self.precision == "reproducible",
        )

    def tolerate_overlaps(self, tolerant: bool) -> None:
        """From the next search on: whether atoms may overlap, as in minimisation.

        Pairs closer than `TOLERANT_DISTANCE2` then count as being there, and reproducible mode caps pair forces.
        """
        self._tolerant = tolerant

    def local(
        self, x: np.ndarray, forces: np.ndarray, energies: np.ndarray | None = None, half: int | None = None
    ) -> None:
        """Add the forces between owned rows; reads no ghost row.

        Parameters
        ----------
        x : (n_local, 3) int32, lattice units
        forces : (n_local, 3) float32 kJ/mol/nm, or int64 in units of 2^-32 of it
            OUTPUT, added to.
        energies : (11,) float64 kJ/mol, or int64 in units of 2^-20 of it; optional
            OUTPUT, added to: Lennard-Jones, Coulomb, and the virial sum of r_ij (x) f_ij, row by row.
        half : 0 or 1, optional
            Half of the pairs only, so that other work can go in between; 0 comes first.
        """
        n_owned_blocks = self._list.n_owned_blocks
        tiles = self._list.local if half is None else self._halves[half]
        gather_from = n_owned_blocks if half == 1 else 0
        self._add(x, forces, energies, tiles, (0, n_owned_blocks), gather_from)

    def nonlocal_(self, x: np.ndarray, forces: np.ndarray, energies: np.ndarray | None = None) -> None:
        """Add the forces of the other pairs of this rank; arguments as for `local`, ghost rows included."""
        n_blocks, n_owned_blocks = self._list.counts.clusters, self._list.n_owned_blocks
        self._add(x, forces, energies, self._list.nonlocal_, (0, n_blocks), n_owned_blocks)

    def _add(self, x, forces, energies, tiles: TileList, blocks: tuple[int, int], gather_from: int) -> None:
        """Gather positions of blocks from ``gather_from`` on, compute, scatter the forces of ``blocks``."""
        if len(tiles.entries) == 0 and gather_from:
            return
        gather_blocks(x, self._list.source, gather_from, blocks[1], self._x)
        self._forces[: blocks[1] * BLOCK] = 0
        self._bad |= self._kernel(energies is not None)(
            self._x,
            self._parameters,
            self._type_index,
            self._forces,
            tiles.j_cluster,
            tiles.pair_mask,
            self._constants,
            self.atom_parameters.table,
            self._totals if energies is None else energies,
            self.atom_parameters.n_types,
            tiles.entries,
            self._list.lj_rows,
        )
        scatter_add(self._forces, self._list.rows, blocks[0], blocks[1], forces)

    def _kernel(self, energies: bool):
        """The compiled kernel, looked up once in a list lifetime."""
        if energies not in self._kernels:
            self._kernels[energies] = load_pair_kernel(replace(self.variant, energies=energies))
        return self._kernels[energies]

    def out_of_range(self) -> bool:
        """Whether a pair's force was beyond `FORCE_LIMIT` or not a number since the last call."""
        bad, self._bad = bool(self._bad), 0
        return bad


def _halves(tiles: TileList) -> tuple[TileList, TileList]:
    """The same tiles as two lists of about equal length."""
    first = tiles.entries[:, 1]
    middle = int(np.searchsorted(first, first[-1] // 2)) if len(first) else 0
    return tiles._replace(entries=tiles.entries[:middle]), tiles._replace(entries=tiles.entries[middle:])
